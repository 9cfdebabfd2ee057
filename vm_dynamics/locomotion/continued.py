# SPDX-License-Identifier: Apache-2.0
"""Principal axes that continue without jumps from shape to shape.

The axes of a virtual chassis have the order and the signs that bring them nearest to {1}. So they
change places when the chassis has turned by more than an eighth of a turn. On a grid the axes of a
shape can follow those of its neighbour instead. This fails only around a shape where two principal
moments are equal: there a cut remains, across which the axes jump.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

import numpy as np

from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion.ccf import CurvatureMap
from vm_dynamics.locomotion.fields import frame_poses
from vm_dynamics.locomotion.planes import FrameChoice
from vm_dynamics.robot import Robot

# Neighbours whose axes differ by more than this angle [rad] are on two sides of a cut.
JUMP_ANGLE = np.radians(40.0)
# The 24 rotations that permute the axes and change their signs, shape (24, 3, 3).
QUARTER_TURNS = np.array(
    [
        turn
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
        if np.linalg.det(turn := np.eye(3)[:, order] * signs) > 0.0
    ]
)


def continued_axes(poses: Array, start: tuple[int, int]) -> Array:
    """Permutations and signs of axes by which those of neighbours continue each other.

    Args:
        poses: frames over a grid, shape (s1, s2, 4, 4).
        start: indices of the grid point whose axes stay.

    Returns:
        Rotations P, shape (s1, s2, 3, 3), out of ``QUARTER_TURNS``; the new axes are ``R @ P``.
    """
    R = poses[..., :3, :3]
    i0, j0 = start
    out = np.empty(R.shape)
    out[i0, j0] = np.eye(3)
    s1, s2 = R.shape[:2]
    for i, back in [(i, i - 1) for i in range(i0 + 1, s1)] + [
        (i, i + 1) for i in range(i0 - 1, -1, -1)
    ]:
        out[i, j0] = _following(R[i, j0], R[back, j0] @ out[back, j0])
    for j, back in [(j, j - 1) for j in range(j0 + 1, s2)] + [
        (j, j + 1) for j in range(j0 - 1, -1, -1)
    ]:
        out[:, j] = _following(R[:, j], R[:, back] @ out[:, back])
    return out


def _following(R: Array, before: Array) -> Array:
    """Rotations P, shape (..., 3, 3), for which ``R P`` is nearest to the axes ``before``."""
    nearness = np.einsum("...ci,...cj,kij->...k", R, before, QUARTER_TURNS)
    return np.asarray(QUARTER_TURNS[np.argmax(nearness, axis=-1)])


def turned_values(values: Array, turns: Array) -> Array:
    """Components of a map in new axes, for the groups SE3 and SO3.

    Args:
        values: components in the old axes, shape (b, s1, s2).
        turns: the result of :func:`continued_axes`, shape (s1, s2, 3, 3).

    Returns:
        Components in the new axes, shape (b, s1, s2).
    """
    parts = values.reshape(-1, 3, *values.shape[1:])
    return np.einsum("xyij,pixy->pjxy", turns, parts).reshape(values.shape)


def jumps(poses: Array) -> bool:
    """Whether the axes of any neighbours differ by more than ``JUMP_ANGLE``.

    Args:
        poses: frames over a grid, shape (s1, s2, 4, 4).
    """
    R = poses[..., :3, :3]
    for a, b in ((R[1:], R[:-1]), (R[:, 1:], R[:, :-1])):
        cosine = (np.einsum("...ij,...ij->...", a, b) - 1.0) / 2.0
        if cosine.size and cosine.min() < np.cos(JUMP_ANGLE):
            return True
    return False


def continued_map(robot: Robot, ccf: CurvatureMap) -> CurvatureMap:
    """A map in the virtual chassis, with axes that continue from the middle of the grid.

    Args:
        robot: the robot of the map.
        ccf: a map of one plane; in another frame it is returned as it is.
    """
    choice = FrameChoice.of(robot, ccf.frame, ccf.plane.q_c)
    if not choice.is_chassis:
        return ccf
    poses = frame_poses(robot, ccf.plane, choice, ccf.r1, ccf.r2)
    turns = continued_axes(poses, (ccf.r1.size // 2, ccf.r2.size // 2))
    return replace(ccf, values=turned_values(ccf.values, turns))
