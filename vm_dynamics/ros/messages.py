# SPDX-License-Identifier: Apache-2.0
"""Conversion at the message boundary: stamps, poses, twists, covariances.

Twists are [v; w] and quaternions xyzw on both sides of it, so only types change here, and checks
are made: a quaternion of no length or far from unit length is no rotation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Pose, Twist, Wrench

from vm_dynamics.errors import NonFiniteError, NotInGroupError
from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.se3 import Array, adjoint, quaternion

# A unit quaternion in single precision is off by 1e-7; one that was averaged, by a percent.
NORM_TOLERANCE = 0.02


def nanoseconds(stamp: Time) -> int:
    """A stamp as nanoseconds."""
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def to_stamp(nanos: int) -> Time:
    """A stamp of nanoseconds."""
    return Time(sec=nanos // 1_000_000_000, nanosec=nanos % 1_000_000_000)


def pose_matrix(position: Any, orientation: Any) -> Array:
    """Pose g, shape (4, 4), of a position and a quaternion, from any message that has them.

    Raises:
        NonFiniteError: NaN or infinity.
        NotInGroupError: the quaternion is far from unit length.
    """
    x, y, z, w = orientation.x, orientation.y, orientation.z, orientation.w
    p = (position.x, position.y, position.z)
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    if not all(map(math.isfinite, (*p, norm))):
        raise NonFiniteError(f"pose: holds NaN or infinity: {p}, quaternion {(x, y, z, w)}")
    if abs(norm - 1.0) > NORM_TOLERANCE:
        raise NotInGroupError(
            f"pose: quaternion {(x, y, z, w)} has length {norm:.4g}, expected 1; is it set?"
        )
    x, y, z, w = x / norm, y / norm, z / norm, w / norm
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w), p[0]],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w), p[1]],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y), p[2]],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def fill_pose(message: Pose, g: Array) -> None:
    """Write a pose, shape (4, 4), into a message."""
    position, orientation = message.position, message.orientation
    position.x, position.y, position.z = float(g[0, 3]), float(g[1, 3]), float(g[2, 3])
    x, y, z, w = quaternion(g)
    orientation.x, orientation.y, orientation.z, orientation.w = x, y, z, w


def fill_twist(message: Twist, V: Array) -> None:
    """Write a twist [v; w], shape (6,), into a message."""
    linear, angular = message.linear, message.angular
    linear.x, linear.y, linear.z = float(V[0]), float(V[1]), float(V[2])
    angular.x, angular.y, angular.z = float(V[3]), float(V[4]), float(V[5])


def twist_vector(message: Twist) -> Array:
    """Twist [v; w], shape (6,), of a message."""
    linear, angular = message.linear, message.angular
    return np.array([linear.x, linear.y, linear.z, angular.x, angular.y, angular.z])


def fill_wrench(message: Wrench, wrench: Array) -> None:
    """Write a wrench [f; t], shape (6,), into a message."""
    force, torque = message.force, message.torque
    force.x, force.y, force.z, torque.x, torque.y, torque.z = map(float, wrench)


def wrench_vector(message: Wrench) -> Array:
    """Wrench [f; t], shape (6,), of a message."""
    force, torque = message.force, message.torque
    return np.array([force.x, force.y, force.z, torque.x, torque.y, torque.z])


def body_covariance(covariance: Any, g: Array, group: DisplacementGroup) -> Array | None:
    """Covariance of the error in {1}, (b, b), of a pose message's, or None if it says nothing.

    ROS has the covariance of position and of small rotations in the axes of the pose's own
    parent frame; in {1} both turn with the base.

    Args:
        covariance: 36 numbers, row major; all zero or a negative first one mean unknown.
        g: the pose, shape (4, 4).
        group: the base group.
    """
    full = np.asarray(covariance, dtype=float).reshape(6, 6)
    if not np.isfinite(full).all() or full[0, 0] < 0.0 or not full.any():
        return None
    turn = np.zeros((6, 6))
    turn[:3, :3] = turn[3:, 3:] = g[:3, :3].T
    out = group.iota_pinv @ turn @ (0.5 * (full + full.T)) @ turn.T @ group.iota_pinv.T
    return out if np.linalg.eigvalsh(out)[0] > 0.0 else None


def world_covariance(covariance: Array, g: Array, group: DisplacementGroup) -> Array:
    """The opposite of :func:`body_covariance`: shape (b, b) in {1} to (6, 6) for a message."""
    turn = np.zeros((6, 6))
    turn[:3, :3] = turn[3:, 3:] = g[:3, :3]
    turn = turn @ group.iota
    return turn @ covariance @ turn.T


def twist_of_group(group: DisplacementGroup, V: Array) -> Array:
    """Twist [v; w], shape (6,), of group coordinates, shape (b,)."""
    return group.iota @ V


def wrench_to_group(group: DisplacementGroup, wrench: Array, g_1f: Array | None = None) -> Array:
    """Wrench of a frame, shape (6,), as group coordinates in {1}, shape (b,).

    Args:
        group: the base group.
        wrench: [f; t] in frame f, at its origin.
        g_1f: pose of f in {1}; None if f is {1}.
    """
    if g_1f is not None:
        back = np.linalg.inv(adjoint(g_1f))
        wrench = back.T @ wrench
    return group.iota.T @ wrench
