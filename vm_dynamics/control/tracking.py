# SPDX-License-Identifier: Apache-2.0
"""Tracking of a pose on a displacement group: error vectors and the feedback from them.

With the pose g, the target g_d and ``h = g^-1 g_d``, the errors are ``e = log h`` and
``e_V = Ad_h V_d - V``, both in the frame of g. They obey ``de/dt = dexp^-1(e) e_V``.
"""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import ArrayLike

from vm_dynamics.control.gains import or_zero
from vm_dynamics.control.state import checked_pose
from vm_dynamics.lie import DisplacementGroup, se3
from vm_dynamics.lie.se3 import Array


class PoseTarget(NamedTuple):
    """A pose to follow, with its velocity and acceleration.

    Attributes:
        g: pose in the world, shape (4, 4).
        V: velocity of that pose in its own frame, shape (b,) [m/s, rad/s].
        Vd: rate of the components of V, shape (b,) [m/s^2, rad/s^2].
    """

    g: Array
    V: Array
    Vd: Array


class PoseErrors(NamedTuple):
    """Errors of a pose against a target, in the frame of the pose, shape (b,) each.

    Attributes:
        pose: e = log(g^-1 g_d) [m, rad].
        velocity: e_V = Ad_h V_d - V [m/s, rad/s].
        feed_forward: the dV/dt that keeps e_V constant, ``Ad_h dV_d/dt + [e_V, Ad_h V_d]``
            [m/s^2, rad/s^2].
    """

    pose: Array
    velocity: Array
    feed_forward: Array


def pose_target(
    group: DisplacementGroup, g: ArrayLike, V: ArrayLike | None, Vd: ArrayLike | None
) -> PoseTarget:
    """Check a target.

    Args:
        group: the group that the pose must belong to.
        g: pose in the world, shape (4, 4).
        V: velocity of that pose in its own frame, shape (b,) [m/s, rad/s]; zero if None.
        Vd: rate of the components of V, shape (b,) [m/s^2, rad/s^2]; zero if None.

    Raises:
        NotInGroupError: the pose is not a displacement of the group.
    """
    pose, b = checked_pose(g), group.dimension
    if b != 6:
        group.log(pose)  # raises if the pose is not a displacement of the group
    return PoseTarget(pose, or_zero("V", V, b), or_zero("Vd", Vd, b))


def pose_errors(group: DisplacementGroup, g: Array, V: Array, target: PoseTarget) -> PoseErrors:
    """Errors of a pose against a target.

    Args:
        group: the group of the pose.
        g: pose in the world, shape (4, 4).
        V: velocity of the pose in its own frame, shape (b,) [m/s, rad/s].
        target: the target.
    """
    h = se3.inverse(g) @ target.g
    carry = group.adjoint(h)
    wanted = carry @ target.V
    velocity = wanted - V
    feed_forward = carry @ target.Vd + group.ad(velocity) @ wanted
    return PoseErrors(group.log(h), velocity, feed_forward)


def geometric_feedback(
    group: DisplacementGroup, errors: PoseErrors, stiffness: Array, damping: Array
) -> Array:
    """The dV/dt that leads to the target, shape (b,) [m/s^2, rad/s^2].

    .. math:: dV/dt = feed-forward + D e_V + dexp^-T(e) K e

    Then ``1/2 e_V . e_V + 1/2 e . K e`` decreases at the rate ``e_V . D e_V``. The pose converges
    from everywhere except half a turn away, where e is not unique.

    Args:
        group: the group of the pose.
        errors: errors of the pose.
        stiffness: K, shape (b,) [1/s^2].
        damping: D, shape (b,) [1/s].
    """
    restoring = group.dexp_inv(errors.pose).T @ (stiffness * errors.pose)
    return errors.feed_forward + damping * errors.velocity + restoring
