# SPDX-License-Identifier: Apache-2.0
"""How late the stamps of poses are against those of the joints, by filters with a guess each.

A base that an arm swings moves as the joints say, by the connection, and what its pose shows comes
later by the delay. Each guess d is a filter whose poses are put back by d; of innovations r with
covariance S it has the cost ``sum r^T S^-1 r + log det S``, minus twice the logarithm of the
likelihood of its poses. The guess with the smallest cost is the best, guesses around it are closer
together, and so on; between the last ones a parabola tells the delay and, by its curvature, how
well it is known. A delay as one more number in the error state of a single filter was tried: it
multiplies a velocity that is itself estimated, and the filter soon believed its first guess.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import ParameterError
from vm_dynamics.estimation.checks import seconds
from vm_dynamics.estimation.history import Kind
from vm_dynamics.estimation.innovation import Innovation
from vm_dynamics.estimation.invariant_ekf import InvariantEkf
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

LONGEST_DELAY = 0.5  # [s]
GUESSES = 5
FINEST = 0.015  # [s] between guesses: closer together, costs between them are parabolas anyway
BEND_SHARE = 1.0 / 8.0  # of the distance between guesses: error of the parabola, roughly
SETTLING = 3.0  # [s] in which filters find the velocity, before costs count
DECISIVE = 12.0  # cost above the best one with which a guess is out
JOINT_PERIOD = 0.008  # [s] at least between the joint samples that filters get
HISTORY = 256  # events, more than there are in the longest delay


class _Guess(InvariantEkf):
    """A filter of poses that come with a delay, and how unlikely they are.

    Attributes:
        delay: [s].
        is_settled: whether poses count.
    """

    def __init__(self, robot: Robot, delay: float, options: dict[str, Any]) -> None:
        super().__init__(robot, history=HISTORY, **options)
        self.delay, self.is_settled = delay, False
        self._sum, self._last_stamp, self._last_cost = 0.0, -math.inf, 0.0

    @property
    def cost(self) -> float:
        """Minus twice the log likelihood of the poses that counted, up to a constant."""
        return self._sum + self._last_cost

    def _weigh(self, *arguments: Any) -> tuple[Any, Innovation]:
        estimate, found = super()._weigh(*arguments)
        _, kind, t, *_ = arguments
        if self.is_settled and kind is Kind.POSE:
            if t != self._last_stamp:  # the newest is weighed again when joints beyond it come
                self._sum, self._last_stamp = self.cost, t
            _, size = np.linalg.slogdet(found.S)
            self._last_cost = min(found.nis, self._gate_pose) + float(size)
        return estimate, found


class PoseDelay:
    """Finds a constant delay of the poses against the joints, from zero to half a second.

    It hears what an observer hears, with the same checks. What tells a delay is a base whose
    velocity changes by the joints' motion: of a base that drifts or turns steadily, poses with
    another delay look the same, and ``deviation`` stays large.

    Args:
        robot: the robot.
        options: those of :class:`InvariantEkf`, its noise first of all.

    Raises:
        ParameterError: an option that cannot be.
    """

    def __init__(self, robot: Robot, **options: Any) -> None:
        if "history" in options:
            raise ParameterError("history: PoseDelay has its own")
        self.robot, self._options = robot, options
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._spacing = LONGEST_DELAY / (GUESSES - 1)
        self._known = 0.5 * LONGEST_DELAY, LONGEST_DELAY**2
        self._last_joints = -math.inf
        self._guess(0.5 * LONGEST_DELAY)

    def _guess(self, middle: float) -> None:
        """Guesses around a delay, none below zero or above the longest."""
        reach = 0.5 * (GUESSES - 1) * self._spacing
        first = min(max(middle - reach, 0.0), LONGEST_DELAY - 2.0 * reach)
        self._begun = math.inf  # [s], stamp of the first pose
        self._guesses = [
            _Guess(self.robot, first + i * self._spacing, self._options) for i in range(GUESSES)
        ]

    def joints(self, stamp: float, q: ArrayLike, qd: ArrayLike) -> None:
        """A joint sample, as for an observer; one in 8 ms is enough."""
        t = seconds(stamp)
        if self._last_joints < t < self._last_joints + JOINT_PERIOD:
            return
        self._last_joints = t
        for guess in self._guesses:
            guess.joints(t, q, qd)

    def pose(self, stamp: float, g: ArrayLike, covariance: Any = None) -> None:
        """A measured pose of the base with the stamp that it came with, as for an observer."""
        t = seconds(stamp)
        self._begun = min(t, self._begun)
        for guess in self._guesses:
            guess.is_settled = t > self._begun + SETTLING  # the same poses count for all
            guess.pose(t - guess.delay, g, covariance)
        self._refine()

    def base_wrench(self, stamp: float, F: ArrayLike) -> None:
        """A known wrench on the base, as for an observer."""
        for guess in self._guesses:
            guess.base_wrench(stamp, F)

    def _refine(self) -> None:
        """Guess closer together where those around the best are out."""
        costs, best = self._costs()
        around = [costs[i] for i in (best - 1, best + 1) if 0 <= i < GUESSES]
        if self._spacing > FINEST and min(around) > costs[best] + DECISIVE:
            self._known = self._found()
            self._spacing = max(0.5 * self._spacing, FINEST)
            self._guess(self._guesses[best].delay)

    def _costs(self) -> tuple[Array, int]:
        costs = np.array([guess.cost for guess in self._guesses])
        return costs, int(costs.argmin())

    def _found(self) -> tuple[float, float]:
        """Delay and variance by the present guesses and the poses before them."""
        value, variance = self._parabola()
        known, before = self._known
        share = before / (before + variance)
        return known + share * (value - known), share * variance

    def _parabola(self) -> tuple[float, float]:
        """Delay and variance by the costs of the best guess and those beside it."""
        costs, best = self._costs()
        middle = min(max(best, 1), GUESSES - 2)
        left, at, right = costs[middle - 1 : middle + 2]
        bend = (left - 2.0 * at + right) / self._spacing**2
        if not bend > 0.0:
            return self._known[0], LONGEST_DELAY**2
        value = self._guesses[middle].delay - 0.5 * (right - left) / (self._spacing * bend)
        variance = 2.0 / bend + (BEND_SHARE * self._spacing) ** 2
        return min(max(value, 0.0), LONGEST_DELAY), variance

    @property
    def value(self) -> float:
        """The delay [s]: a pose with the stamp t is that of t - value."""
        return float(self._found()[0])

    @property
    def deviation(self) -> float:
        """Standard deviation of ``value`` [s]; about half a second if nothing is known."""
        return math.sqrt(self._found()[1])
