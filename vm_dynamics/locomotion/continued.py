# SPDX-License-Identifier: Apache-2.0
"""Principal axes that go on without jumps from shape to shape.

A virtual chassis has its axes in the order and with the signs nearest to {1}, so they change
places where it has turned by more than an eighth. On a grid the axes of one shape can follow
those of its neighbour instead. Only around a shape where two principal moments meet there is no
such choice, and a cut remains.
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

# Neighbours whose axes differ by more than this are on two sides of a cut.
JUMP = np.radians(40.0)
QUARTER_TURNS = np.array(
    [
        turn
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
        if np.linalg.det(turn := np.eye(3)[:, order] * signs) > 0.0
    ]
)


def continued_axes(poses: Array, start: tuple[int, int]) -> Array:
    """Turns, shape (s1, s2, 3, 3), after which the axes of neighbours are near each other.

    Args:
        poses: frames over a grid, shape (s1, s2, 4, 4).
        start: the point whose axes stay.

    Returns:
        Signed permutations P; the axes to use are ``R @ P``.
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
    """Turns P, shape (..., 3, 3), for which ``R P`` is nearest to the axes ``before``."""
    nearness = np.einsum("...ci,...cj,kij->...k", R, before, QUARTER_TURNS)
    return np.asarray(QUARTER_TURNS[np.argmax(nearness, axis=-1)])


def turned_values(values: Array, turns: Array) -> Array:
    """Components, shape (b, s1, s2), in the axes after the turns; of SE3 and SO3."""
    parts = values.reshape(-1, 3, *values.shape[1:])
    return np.einsum("xyij,pixy->pjxy", turns, parts).reshape(values.shape)


def jumps(poses: Array) -> bool:
    """Whether axes of neighbours, of frames (s1, s2, 4, 4), differ by more than ``JUMP``."""
    R = poses[..., :3, :3]
    for a, b in ((R[1:], R[:-1]), (R[:, 1:], R[:, :-1])):
        cosine = (np.einsum("...ij,...ij->...", a, b) - 1.0) / 2.0
        if cosine.size and cosine.min() < np.cos(JUMP):
            return True
    return False


def continued_map(robot: Robot, ccf: CurvatureMap) -> CurvatureMap:
    """A map in the virtual chassis, its axes followed from the middle of the grid; others as is.

    Args:
        robot: the robot of the map.
        ccf: one plane.
    """
    choice = FrameChoice.of(robot, ccf.frame, ccf.plane.q_c)
    if not choice.is_chassis:
        return ccf
    poses = frame_poses(robot, ccf.plane, choice, ccf.r1, ccf.r2)
    turns = continued_axes(poses, (ccf.r1.size // 2, ccf.r2.size // 2))
    return replace(ccf, values=turned_values(ccf.values, turns))
