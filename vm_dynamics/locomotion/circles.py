# SPDX-License-Identifier: Apache-2.0
"""Circles of two joints through q0, ranked by how they turn the base: first guesses of loops.

The rotation by a circle is approximately the curvature at its centre times its area.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion.fields import curvature_at
from vm_dynamics.locomotion.planes import FrameChoice
from vm_dynamics.robot import Robot

# Radii as shares of a joint's reach, and number of directions from q0 to the centre.
CIRCLE_RADII = (0.15, 0.4, 0.8)
CIRCLE_DIRECTIONS = 8
# Factors of a circle's score: for rotation about other axes, and for leaving the limits.
OTHER_AXES_PENALTY, OUTSIDE_LIMITS_PENALTY = 0.3, 0.3


class Circle(NamedTuple):
    """A circle through q0 in the plane of two joints.

    Attributes:
        pair: indices of the two joints.
        x: radius vector from q0 to the centre, shape (n,) [rad or m].
        y: radius vector a quarter of a turn further, shape (n,) [rad or m].
        turn: its angle about the wanted axis, approximately [rad].
    """

    pair: tuple[int, int]
    x: Array
    y: Array
    turn: float


class Circles:
    """All circles through q0, in several sizes and directions.

    Attributes:
        pairs: indices of the two joints of each circle, N pairs.
        x: radius vectors from q0 to the centre, shape (N, n) [rad or m].
        y: radius vectors a quarter of a turn further, shape (N, n) [rad or m].
        turns: rotation vectors of the base by the circles, approximately, shape (N, 3) [rad].
        inside: which stay within the position limits, shape (N,), bool.
    """

    def __init__(
        self,
        robot: Robot,
        q0: Array,
        limits: tuple[Array, Array],
        free: NDArray[np.intp],
        reach: Array,
    ) -> None:
        """Compute all of them.

        Args:
            robot: the robot.
            q0: joint positions, shape (n,) [rad or m].
            limits: lower and upper position limits, shape (n,) each [rad or m].
            free: indices of the joints that can move, at least two.
            reach: how far each joint may go to each side, shape (n,) [rad or m].
        """
        self.pairs: list[tuple[int, int]] = []
        x, y = [], []
        unit = np.diag(reach)
        for i, j in combinations(free.tolist(), 2):
            for radius in CIRCLE_RADII:
                for angle in 2.0 * np.pi * np.arange(CIRCLE_DIRECTIONS) / CIRCLE_DIRECTIONS:
                    c, s = np.cos(angle), np.sin(angle)
                    x.append(radius * (c * unit[i] + s * unit[j]))
                    y.append(radius * (c * unit[j] - s * unit[i]))
                    self.pairs.append((i, j))
        self.x, self.y = np.array(x), np.array(y)
        centres = q0 + self.x
        frame = FrameChoice.of(robot, "base", q0)
        values, _ = curvature_at(robot, frame, centres, x=self.x, y=self.y)
        self.turns = -np.pi * values @ robot.base_group.iota[3:].T
        far = abs(self.x) + abs(self.y)
        low = (centres - far >= limits[0]).all(axis=1)
        self.inside = np.asarray(low & (centres + far <= limits[1]).all(axis=1))

    def ranked(self, wanted: Array) -> Iterator[Circle]:
        """Circles, the best for a wanted rotation vector, shape (3,) [rad], first.

        Those that also turn the base about other axes, or leave the limits, have a lower score.
        """
        axis = wanted / np.linalg.norm(wanted)
        along = self.turns @ axis
        across = np.linalg.norm(self.turns - np.outer(along, axis), axis=1)
        score = (abs(along) - OTHER_AXES_PENALTY * across) * self._share
        for k in np.argsort(-score):
            yield Circle(self.pairs[k], self.x[k], self.y[k], float(along[k]))

    def largest_turn(self, axis: Array) -> float:
        """Largest angle about an axis, shape (3,), that circles promise [rad].

        Of those beyond position limits a smaller part counts.
        """
        along = abs(self.turns @ axis) / np.linalg.norm(axis)
        return float((along * self._share).max(initial=0.0))

    @property
    def _share(self) -> Array:
        return np.where(self.inside, 1.0, OUTSIDE_LIMITS_PENALTY)
