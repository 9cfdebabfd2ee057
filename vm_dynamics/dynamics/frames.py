# SPDX-License-Identifier: Apache-2.0
"""Frames in which the momentum is simpler: the centroidal frame and the virtual chassis.

Implements: the frames {C} of [Mishra2022] Property 4 and section V-B. A frame must be reached
from {1} by a displacement of the base group, so a group that cannot shift to the centre of mass,
or cannot turn freely, keeps what it cannot change.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.se3 import Array, hat3

FRAMES = ("base", "centroidal", "virtual_chassis")

_TURNS = tuple(
    turn
    for order in permutations(range(3))
    for signs in product((1.0, -1.0), repeat=3)
    if np.linalg.det(turn := np.eye(3)[:, order] * signs) > 0.0
)


class MovingFrame(NamedTuple):
    """A frame {C}: its pose g_1c, (4, 4), and its body velocity relative to {1}, (b,)."""

    pose: Array
    velocity: Array


def composite_parts(ten: Array) -> tuple[float, Array, Array]:
    """Mass, first moment (3,), rotational inertia (3, 3) about the origin, of ten numbers."""
    xx, xy, xz, yy, yz, zz = ten[4:]
    return float(ten[0]), ten[1:4], np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def centroidal_frame(group: DisplacementGroup, ten: Array, rate: Array) -> MovingFrame:
    """Frame at the centre of mass with the axes of {1}, as far as the group can shift.

    Args:
        group: the base group.
        ten: composite inertia of the robot in {1}: mass, first moment, xx xy xz yy yz zz.
        rate: its rate along the joint velocities, the same ten numbers.
    """
    mass, moment, _ = composite_parts(ten)
    shift = _translations(group)
    pose = np.eye(4)
    pose[:3, 3] = shift @ (moment / mass)
    velocity = np.zeros(6)
    velocity[:3] = shift @ (rate[1:4] / mass)
    return MovingFrame(pose, group.iota_pinv @ velocity)


def virtual_chassis(group: DisplacementGroup, ten: Array, rate: Array) -> MovingFrame:
    """Principal axes at the centre of mass, nearest to the axes of {1}; M_b is diagonal in it.

    Only groups that turn freely (SE3, SO3) have it; for the others it is the centroidal frame.
    Where two principal moments meet, their axes have no velocity and are held still.
    """
    frame = centroidal_frame(group, ten, rate)
    if np.linalg.matrix_rank(group.iota[3:]) < 3:
        return frame
    mass, moment, inertia = composite_parts(ten)
    _, moment_rate, inertia_rate = composite_parts(rate)
    p, pd = frame.pose[:3, 3], _translations(group) @ (moment_rate / mass)
    # about the frame's origin: I + m p^ p^ for the centre of mass, I itself for SO3 (p = 0)
    inertia = inertia + mass * hat3(p) @ hat3(p)
    inertia_rate = inertia_rate + mass * (hat3(pd) @ hat3(p) + hat3(p) @ hat3(pd))
    moments, axes = np.linalg.eigh(inertia)
    axes = axes * np.sign(np.linalg.det(axes))
    best = max((axes @ turn for turn in _TURNS), key=np.trace)
    order = [int(np.argmax(abs(axes.T @ best[:, i]))) for i in range(3)]
    principal = moments[order]
    turned = best.T @ inertia_rate @ best
    w = np.zeros(3)
    for i, j, k in ((1, 2, 0), (2, 0, 1), (0, 1, 2)):
        gap = principal[i] - principal[j]
        if abs(gap) > 1e-9 * abs(principal).max():
            w[k] = turned[i, j] / gap
    pose = frame.pose.copy()
    pose[:3, :3] = best
    return MovingFrame(pose, group.iota_pinv @ np.concatenate((best.T @ pd, w)))


def _translations(group: DisplacementGroup) -> Array:
    """Projection on the directions in which the group can shift without turning, (3, 3)."""
    _, singular, right = np.linalg.svd(group.iota[3:])
    kernel = right[np.sum(singular > 1e-12) :].T
    directions = group.iota[:3] @ kernel
    return directions @ np.linalg.pinv(directions)
