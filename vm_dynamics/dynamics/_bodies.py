# SPDX-License-Identifier: Apache-2.0
"""The tree body by body, for the formulations in plain NumPy: coordinates, paths, solving."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vm_dynamics.errors import SingularMassMatrixError
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import RobotModel, vector
from vm_dynamics.model.spec import Joint


def joint_map(robot: RobotModel) -> tuple[Array, Array]:
    """E (nj, n) and offset (nj,) of ``q_body = E q + offset``, one row for every moving body."""
    index = {name: i for i, name in enumerate(robot.joint_names)}
    nj = len(robot.tree.bodies)
    E, offset = np.zeros((nj, robot.n)), np.zeros(nj)
    for k, body in enumerate(robot.tree.bodies):
        drive = body.joint.drive
        E[k, index[drive.driver]] = drive.multiplier
        offset[k] = drive.offset
    return E, offset


def parents(robot: RobotModel) -> list[int]:
    """Row of the parent of every body; that of the base, row 0, is the base."""
    return [0, *(body.parent for body in robot.tree.bodies)]


def moved_by(robot: RobotModel) -> NDArray[np.bool_]:
    """Whether joint k moves body i, entry [i, k] of shape (nj + 1, nj + 1); column 0 is the base.

    These are the paths: k moves i when k is i itself or one of its ancestors.
    """
    up = parents(robot)
    out = np.eye(len(up), dtype=bool)
    for i in range(1, len(up)):
        out[i] |= out[up[i]]
    return out


def own_screw(joint: Joint) -> Array:
    """Unit twist [v; w] of a joint in the frame of the body that it moves, along z; shape (6,)."""
    return np.eye(6)[2 if joint.kind == "prismatic" else 5]


def checked_state(
    robot: RobotModel, q: ArrayLike, V: ArrayLike, qd: ArrayLike
) -> tuple[Array, Array, Array]:
    """Shape (n,), base velocity (b,) and joint velocities (n,), or an error that names one."""
    return vector("q", q, robot.n), vector("V", V, robot.b), vector("qd", qd, robot.n)


def checked_forces(
    robot: RobotModel, g: ArrayLike, tau: ArrayLike, F: ArrayLike
) -> tuple[Array, Array, Array]:
    """Base pose (4, 4), joint efforts (n,) and base wrench (b,), or an error that names one."""
    return check_pose(g), vector("tau", tau, robot.n), vector("F", F, robot.b)


def block_diagonal(first: Array, second: Array) -> Array:
    """``[[first, 0], [0, second]]``."""
    (r1, c1), (r2, c2) = first.shape, second.shape
    out = np.zeros((r1 + r2, c1 + c2))
    out[:r1, :c1] = first
    out[r1:, c1:] = second
    return out


def solve(name: str, matrix: Array, right: Array) -> Array:
    """``matrix^-1 right`` of a positive definite matrix.

    Raises:
        SingularMassMatrixError: it is not positive definite; the message has its name.
    """
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        lowest = float(np.linalg.eigvalsh(matrix)[0]) if np.isfinite(matrix).all() else np.nan
        raise SingularMassMatrixError(
            f"{name}: got a matrix with smallest eigenvalue {lowest:.3g}, expected a positive "
            "definite one; some motion has no inertia"
        ) from None
    return np.linalg.solve(matrix, right)
