# SPDX-License-Identifier: Apache-2.0
"""Curvature and base velocity at many shapes: by kernels, or one shape at a time in a fluid.

Implements: [Mishra2022] Theorem 2 and Property 6 on a batch of shapes, eq. (9).
"""

from __future__ import annotations

import numpy as np

from vm_dynamics.lie.se3 import Array, inverse
from vm_dynamics.locomotion import _kernels
from vm_dynamics.locomotion.planes import FrameChoice, GaitPlane
from vm_dynamics.robot import Robot


def curvature_at(
    robot: Robot, choice: FrameChoice, q: Array, *, x: Array, y: Array
) -> tuple[Array, Array]:
    """Curvature DA(x_i) y_i of two directions at every shape q_i.

    Args:
        robot: the robot.
        choice: frame {C} in which the components are expressed.
        q: shapes, shape (N, n) [rad or m].
        x: first directions, shape (N, n).
        y: second directions, shape (N, n).

    Returns:
        The components, shape (N, b), and the poses g_1c of the frame, shape (N, 4, 4).
    """
    out, poses = np.empty((len(q), robot.b)), np.empty((len(q), 4, 4))
    arrays = (np.ascontiguousarray(a) for a in (q, x, y))
    _kernels.curvature_along.checked(
        robot.packed, choice.shift, choice.code, choice.given, *arrays, out, poses
    )
    if robot.fluid is not None:  # the kernel's curvature lacks the added mass
        for row, pose, *point in zip(out, poses, q, x, y, strict=True):
            to_frame = robot.base_group.adjoint(inverse(pose))
            row[:] = to_frame @ _of_directions(robot, *point)
    return out, poses


def _of_directions(robot: Robot, q: Array, x: Array, y: Array) -> Array:
    """Curvature DA(x) y at one shape in {1}, shape (b,)."""
    return np.einsum("bij,i,j->b", robot.curvature(q), x, y)


def map_rows(
    robot: Robot,
    plane: GaitPlane,
    choice: FrameChoice,
    r1: Array,
    r2: Array,
    *,
    rows: tuple[int, int],
    out: Array,
) -> None:
    """Compute some rows of a map over a plane.

    Args:
        robot: the robot.
        plane: the plane.
        choice: frame {C} in which the components are expressed.
        r1: first coordinates of the grid, shape (s1,) [rad or m].
        r2: second coordinates of the grid, shape (s2,) [rad or m].
        rows: first row, and the row after the last.
        out: the map, shape (b, s1, s2), whose rows are written.
    """
    basis = np.ascontiguousarray(plane.basis.T)
    if robot.fluid is None:
        _kernels.map_rows.checked(
            robot.packed,
            choice.shift,
            choice.code,
            choice.given,
            plane.q_c,
            basis,
            r1,
            r2,
            *rows,
            out,
        )
        return
    x, y = (np.broadcast_to(direction, (r2.size, robot.n)) for direction in basis)
    for i in range(*rows):
        q = plane.shape_at(np.column_stack((np.full(r2.size, r1[i]), r2)))
        out[:, i] = curvature_at(robot, choice, q, x=x, y=y)[0].T


def frame_poses(
    robot: Robot, plane: GaitPlane, choice: FrameChoice, r1: Array, r2: Array
) -> Array:
    """Poses g_1c of a frame over the grid of a plane, shape (s1, s2, 4, 4)."""
    q = plane.shape_at(np.stack(np.meshgrid(r1, r2, indexing="ij"), axis=-1))
    poses = poses_at(robot, choice, q.reshape(-1, robot.n))
    return poses.reshape(r1.size, r2.size, 4, 4)


def poses_at(robot: Robot, choice: FrameChoice, q: Array) -> Array:
    """Poses g_1c of a frame, shape (N, 4, 4), at shapes q, shape (N, n)."""
    out, poses = np.empty((len(q), robot.b)), np.empty((len(q), 4, 4))
    shapes, still = np.ascontiguousarray(q), np.zeros((len(q), robot.n))
    _kernels.curvature_along.checked(
        robot.packed, choice.shift, choice.code, choice.given, shapes, still, still, out, poses
    )
    return poses


def path_twists(
    robot: Robot, q: Array, qd: Array, *, with_inverse: bool = False
) -> tuple[Array, Array]:
    """Twists in {1} of a base without momentum along a path, and their change per momentum.

    Args:
        robot: the robot.
        q: joint positions, shape (N, n) [rad or m].
        qd: joint velocities, shape (N, n) [rad/s or m/s].
        with_inverse: whether to compute the second result.

    Returns:
        ``-iota A qd``, shape (N, 6) [m/s, rad/s], and ``iota M_b^-1 iota^T``, shape (N, 6, 6), or
        (0, 6, 6) if it is not computed.
    """
    count = len(q)
    twists, inverses = np.empty((count, 6)), np.empty((count if with_inverse else 0, 6, 6))
    if robot.fluid is None:
        q, qd = np.ascontiguousarray(q), np.ascontiguousarray(qd)
        _kernels.path_twists.checked(robot.packed, q, qd, twists, inverses)
        return twists, inverses
    iota, b = robot.base_group.iota, robot.b
    M, A = robot.batch_mass_and_connection(q)
    twists[:] = -np.einsum("cb,kbi,ki->kc", iota, A, qd)
    if with_inverse:
        inverses[:] = iota @ np.linalg.inv(M[:, :b, :b]) @ iota.T
    return twists, inverses
