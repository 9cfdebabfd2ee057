# SPDX-License-Identifier: Apache-2.0
"""What a planner is asked for: rotations, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import DimensionError, NonFiniteError, NotInGroupError, ParameterError
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array, exp, log
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot


def wanted_rotation(robot: Robot, rotation: ArrayLike, axes: Array) -> Array:
    """Check the wanted rotation and return its rotation vector, shape (3,) [rad].

    Args:
        robot: the robot.
        rotation: rotation matrix, shape (3, 3), or rotation vector, shape (3,) [rad].
        axes: orthonormal axes about which the base can turn, shape (3, k).
    """
    try:
        given = np.array(rotation, dtype=float)
    except (TypeError, ValueError) as error:
        raise DimensionError(f"rotation: got {rotation!r}, expected numbers") from error
    if given.shape == (3,):
        given = exp(np.concatenate((np.zeros(3), vector("rotation", given, 3))))[:3, :3]
    if given.shape != (3, 3):
        raise DimensionError(
            f"rotation: got shape {given.shape}, expected a rotation matrix, (3, 3), or a "
            "rotation vector, (3,)"
        )
    wanted = log(pose_of(check_rotation("rotation", given)))[3:]
    across = wanted - axes @ (axes.T @ wanted)
    if np.linalg.norm(across) > 1e-9:
        axis = np.round(wanted / np.linalg.norm(wanted), 4).tolist()
        about = " and ".join(str(np.round(a, 4).tolist()) for a in axes.T)
        raise ParameterError(
            f"rotation: about {axis} is impossible: a base {robot.base_group.name} turns about "
            f"{about} only"
        )
    return wanted


def check_rotation(name: str, given: Array) -> Array:
    """A rotation matrix, shape (3, 3), or an error that names the argument."""
    try:
        return np.asarray(check_pose(pose_of(given))[:3, :3])
    except (NotInGroupError, NonFiniteError):
        raise ParameterError(f"{name}: not a rotation matrix:\n{given}") from None


def pose_of(rotation: Array) -> Array:
    """Pose with a rotation, shape (3, 3), and no translation, shape (4, 4)."""
    out = np.eye(4)
    out[:3, :3] = rotation
    return out
