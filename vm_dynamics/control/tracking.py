# SPDX-License-Identifier: Apache-2.0
"""Tracking of a pose on a displacement group: errors that are vectors, and what they imply.

With the pose g, the reference g_d and ``h = g^-1 g_d``: the errors are ``e = log h`` and
``e_V = Ad_h V_d - V``, both in the frame of g, and ``de/dt = dexp^-1(e) e_V``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from vm_dynamics.control.gains import or_zero
from vm_dynamics.control.state import checked_pose
from vm_dynamics.lie import DisplacementGroup, se3
from vm_dynamics.lie.se3 import Array


class PoseTarget(NamedTuple):
    """A pose that moves.

    Attributes:
        g: pose in the world, shape (4, 4).
        V: its body velocity, in its own frame, shape (b,).
        Vd: rate of the components of V, shape (b,).
    """

    g: Array
    V: Array
    Vd: Array


class PoseErrors(NamedTuple):
    """Errors of a pose, in its frame, shape (b,) each.

    Attributes:
        pose: e = log(g^-1 g_d).
        velocity: e_V.
        feed_forward: the dV/dt that keeps e_V as it is, ``Ad_h dV_d/dt + [e_V, Ad_h V_d]``.
    """

    pose: Array
    velocity: Array
    feed_forward: Array


def pose_target(group: DisplacementGroup, g: Any, V: Any, Vd: Any) -> PoseTarget:
    """Check a target.

    Raises:
        NotInGroupError: the pose is no displacement of the group.
    """
    pose, b = checked_pose(g), group.dimension
    if b != 6:
        group.log(pose)  # refuses what is no displacement of the group
    return PoseTarget(pose, or_zero("V", V, b), or_zero("Vd", Vd, b))


def pose_errors(group: DisplacementGroup, g: Array, V: Array, target: PoseTarget) -> PoseErrors:
    """Errors of a pose g, shape (4, 4), that moves with the body velocity V, shape (b,)."""
    h = se3.inverse(g) @ target.g
    carry = group.adjoint(h)
    wanted = carry @ target.V
    velocity = wanted - V
    feed_forward = carry @ target.Vd + group.ad(velocity) @ wanted
    return PoseErrors(group.log(h), velocity, feed_forward)


def geometric_feedback(
    group: DisplacementGroup, errors: PoseErrors, stiffness: Array, damping: Array
) -> Array:
    """The dV/dt that leads to the target, shape (b,).

    .. math:: dV/dt = feed-forward + D e_V + dexp^-T(e) K e

    Then ``1/2 e_V . e_V + 1/2 e . K e`` falls by ``e_V . D e_V``: convergence from every pose
    but those half a turn away, where e is not unique.

    Args:
        group: the group.
        errors: of the pose.
        stiffness: K, shape (b,) [1/s^2].
        damping: D, shape (b,) [1/s].
    """
    restoring = group.dexp_inv(errors.pose).T @ (stiffness * errors.pose)
    return errors.feed_forward + damping * errors.velocity + restoring
