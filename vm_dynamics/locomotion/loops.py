# SPDX-License-Identifier: Apache-2.0
"""Loops of joints that turn the base by a wanted rotation: first guesses and their refinement.

Implements: the inverse of [Mishra2022] eq. (69): the loop for a rotation, where the paper has the
rotation of a loop. A loop is a Fourier series that starts and ends at q0,
``q(s) = q0 + sum_m a_m (cos 2 pi m s - 1) + b_m sin 2 pi m s``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from vm_dynamics.lie.se3 import Array, exp, log
from vm_dynamics.locomotion import _kernels
from vm_dynamics.locomotion.fields import curvature_at, path_twists
from vm_dynamics.locomotion.planes import FrameChoice
from vm_dynamics.robot import Robot

HARMONICS = 2
STEPS_PER_LOOP = 40  # of order four around a loop: 1e-4 of its rotation at worst
# First guesses: circles through q0, by radius [of a joint's reach] and direction of their centre.
RADII = (0.15, 0.4, 0.8)
DIRECTIONS = 8
GUESSES = 5
# What a circle is worth less for turning about other axes, and for leaving the limits.
OTHER_AXES_PENALTY, OUTSIDE_LIMITS_PENALTY = 0.3, 0.3
# Weights of the refinement: a degree of rotation, a radian or metre beyond a limit.
ROTATION_WEIGHT, LIMIT_WEIGHT = 1.0 / np.radians(1.0), 100.0
# Its stages: weight of the loop's size, most rounds, gain of a round at which it stops. The
# first finds a small loop, the second makes its rotation exact.
STAGES = ((0.3, 100, 1e-4), (1e-4, 30, 1e-6))
JACOBIAN_DIFFERENCE = 1e-7
# Position limits are kept by this much [rad or m]: between two samples a loop goes further.
POSITION_MARGIN = 5e-3
# A joint that starts at its limit leaves it by at least this share of its reach, lest what the
# refinement leaves to be wished for be on the wrong side.
INWARDS = 0.01
# How often the limits are looked at in the end, and how much further a loop may go in between.
LIMIT_CHECKS, LIMIT_SLACK = 1000, 1e-4


class JointLimits(NamedTuple):
    """Position and velocity limits, each a number or shape (n,) [rad, rad/s or m, m/s]."""

    lower: Array
    upper: Array
    velocity: Array


@dataclass(frozen=True, eq=False)
class Loop:
    """A closed loop of the joints.

    Attributes:
        q0: where it starts and ends, shape (n,).
        cosines: a, shape (M, n).
        sines: b, shape (M, n).
    """

    q0: Array
    cosines: Array
    sines: Array

    def position(self, s: Array) -> Array:
        """Shapes, shape (N, n), at phases s, shape (N,), one turn for each unit."""
        p = 2.0 * np.pi * np.outer(s, np.arange(1, len(self.cosines) + 1))
        return np.asarray(self.q0 + (np.cos(p) - 1.0) @ self.cosines + np.sin(p) @ self.sines)

    def slope(self, s: Array) -> Array:
        """Derivative of the shape by the phase, shape (N, n)."""
        w = 2.0 * np.pi * np.arange(1, len(self.cosines) + 1)
        p = np.outer(s, w)
        return np.asarray((np.cos(p) * w) @ self.sines - (np.sin(p) * w) @ self.cosines)


class Attempt(NamedTuple):
    """What a refinement found.

    Attributes:
        loop: the loop.
        turn: its rotation vector, shape (3,) [rad].
        error: angle by which that is off [rad].
        coefficients: where a further refinement can start.
    """

    loop: Loop
    turn: Array
    error: float
    coefficients: Array


class _Circles(NamedTuple):
    """Circles through q0: their joints, centres (N, n), and two radii x, y, both (N, n)."""

    pairs: list[tuple[int, int]]
    centres: Array
    x: Array
    y: Array


class LoopSearch:
    """Looks for loops of one robot that start at q0 and stay within limits."""

    def __init__(self, robot: Robot, q0: Array, limits: JointLimits) -> None:
        self.robot, self.q0, self.limits = robot, q0, limits
        self.reach = np.minimum(limits.upper - limits.lower, np.pi) / 2.0
        free = (self.reach > 2.0 * POSITION_MARGIN) & (limits.velocity > 0.0)
        self.free = np.flatnonzero(free)
        # a joint that may move twice as fast may go twice as far in the same time
        self.scale = limits.velocity[self.free] / limits.velocity[self.free].max(initial=1e-300)
        # where q0 is nearer to a limit than the margin, it is the limit
        self.lower = np.minimum(limits.lower + POSITION_MARGIN, q0)[self.free]
        self.upper = np.maximum(limits.upper - POSITION_MARGIN, q0)[self.free]
        s = np.linspace(0.0, 1.0, 2 * STEPS_PER_LOOP + 1)
        p = 2.0 * np.pi * np.outer(s, np.arange(1, HARMONICS + 1))
        self.values = np.hstack((np.cos(p) - 1.0, np.sin(p)))
        w = 2.0 * np.pi * np.arange(1, HARMONICS + 1)
        self.slopes = np.hstack((-np.sin(p) * w, np.cos(p) * w))
        # and is left on one side only, with a slope of zero: b_2 = -b_1 / 2
        self.shares = np.zeros((2 * HARMONICS, 2 * HARMONICS, len(self.free)))
        self.shares[:] = np.eye(2 * HARMONICS)[:, :, None] * self.scale
        below, above = self.lower == q0[self.free], self.upper == q0[self.free]
        self.shares[HARMONICS + 1, HARMONICS + 1, below | above] = 0.0
        self.shares[HARMONICS + 1, HARMONICS, below | above] = -0.5 * self.scale[below | above]
        inwards = INWARDS * np.minimum(self.reach[self.free], 1.0) * (1.0 - np.cos(p[:, :1]))
        self.lower = self.lower + inwards * below
        self.upper = self.upper - inwards * above

    # -- first guesses --------------------------------------------------------------------------

    def guesses(self, wanted: Array) -> list[Array]:
        """Coefficients of circles that promise the wanted turn, the best first.

        The atlas of a circle is the curvature at its centre: its rotation is about that times
        its area. Circles that turn the base about other axes too are worth less.
        """
        circles = self._circles()
        if not circles.pairs:
            return []
        choice = FrameChoice.of(self.robot, "base", self.q0)
        values, _ = curvature_at(self.robot, choice, circles.centres, x=circles.x, y=circles.y)
        turns = -np.pi * values @ self.robot.base_group.iota[3:].T
        angle = float(np.linalg.norm(wanted))
        along = turns @ wanted / angle
        across = np.linalg.norm(turns - np.outer(along, wanted / angle), axis=1)
        reach = abs(circles.x) + abs(circles.y)
        score = (abs(along) - OTHER_AXES_PENALTY * across) * np.where(
            self._inside(circles.centres, reach), 1.0, OUTSIDE_LIMITS_PENALTY
        )
        out: dict[tuple[int, int], Array] = {}
        for k in np.argsort(-score):
            # one circle of a pair is enough, the others lead to the same loop
            if circles.pairs[k] not in out and len(out) < GUESSES:
                out[circles.pairs[k]] = self._circle(circles, k, float(along[k]), angle)
        return list(out.values())

    def _circles(self) -> _Circles:
        """Circles through q0 of every pair of joints that can move."""
        pairs, centres, x, y = [], [], [], []
        unit = np.diag(self.reach)
        for i, j in combinations(self.free.tolist(), 2):
            for radius in RADII:
                for angle in 2.0 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS:
                    c, s = np.cos(angle), np.sin(angle)
                    # x points from q0 to the centre, y a quarter of a turn on
                    x.append(radius * (c * unit[i] + s * unit[j]))
                    y.append(radius * (c * unit[j] - s * unit[i]))
                    centres.append(self.q0 + x[-1])
                    pairs.append((i, j))
        return _Circles(pairs, np.array(centres), np.array(x), np.array(y))

    def _inside(self, centres: Array, reach: Array) -> Array:
        low = (centres - reach >= self.limits.lower).all(axis=1)
        return np.asarray(low & (centres + reach <= self.limits.upper).all(axis=1))

    def _circle(self, circles: _Circles, k: int, turn: float, wanted: float) -> Array:
        """Coefficients of circle k, made smaller if it turns by more than is wanted."""
        size = min(1.0, np.sqrt(wanted / abs(turn))) if turn else 1.0
        out = np.zeros((2 * HARMONICS, self.robot.n))
        out[0] = -size * circles.x[k]
        out[HARMONICS] = -np.copysign(size, turn) * circles.y[k]
        return (out[:, self.free] / self.scale).ravel()

    # -- refinement -----------------------------------------------------------------------------

    def refine(self, guess: Array, wanted: Array) -> Attempt:
        """The smallest loop near a guess that turns the base by a rotation vector, (3,)."""
        from scipy.optimize import least_squares

        x = guess
        for size, rounds, gain in STAGES:
            x = least_squares(
                self._residual,
                x,
                jac=self._jacobian,
                method="lm",  # its factorisation does not fight for cores
                args=(wanted, size),
                max_nfev=rounds,
                ftol=gain,
                xtol=1e-8,
            ).x
        x = x * self._fitting(x)
        turn = self._turns(x[None])[0]
        return Attempt(self.loop(x), turn, float(np.linalg.norm(_miss(turn, wanted))), x)

    def _fitting(self, x: Array) -> float:
        """How much smaller a loop must be to be within limits, 1 if it is: the limits are firm."""
        q = self.loop(x).position(np.linspace(0.0, 1.0, LIMIT_CHECKS))
        low = np.minimum(self.limits.lower + LIMIT_SLACK, self.q0) - self.q0
        high = np.maximum(self.limits.upper - LIMIT_SLACK, self.q0) - self.q0
        moved = q - self.q0
        room = np.where(moved < 0.0, low, high)
        beyond = abs(moved) > abs(room) + 1e-12
        return float(np.min(room[beyond] / moved[beyond], initial=1.0))

    def loop(self, x: Array) -> Loop:
        """The loop of scaled coefficients, shape (2 M m,) of m joints."""
        coefficients = self._coefficients(x)
        return Loop(self.q0, coefficients[:HARMONICS], coefficients[HARMONICS:])

    def _coefficients(self, x: Array) -> Array:
        out = np.zeros((2 * HARMONICS, self.robot.n))
        out[:, self.free] = np.einsum("cki,ki->ci", self.shares, x.reshape(2 * HARMONICS, -1))
        return out

    def _turns(self, x: Array) -> Array:
        """Rotation vectors of many loops at once, shape (P, 3), of coefficients, (P, ...)."""
        coefficients = np.array([self._coefficients(row) for row in x])
        q = self.q0 + self.values @ coefficients
        qd = self.slopes @ coefficients
        n = self.robot.n
        twists, none = path_twists(self.robot, q.reshape(-1, n), qd.reshape(-1, n))
        twists = twists.reshape(len(x), -1, 6)
        poses = np.empty((STEPS_PER_LOOP + 1, 4, 4))
        poses[0] = np.eye(4)
        out = np.empty((len(x), 3))
        for row, of_loop in zip(out, twists, strict=True):
            _kernels.transport.checked(of_loop, none, np.zeros(6), 1.0 / STEPS_PER_LOOP, poses)
            row[:] = log(poses[-1])[3:]
        return out

    def _residual(self, x: Array, wanted: Array, size: float) -> Array:
        miss = _miss(self._turns(x[None])[0], wanted)
        return np.concatenate(
            (ROTATION_WEIGHT * miss, size * x, LIMIT_WEIGHT * self._beyond(x)[0])
        )

    def _jacobian(self, x: Array, wanted: Array, size: float) -> Array:
        turns = self._turns(np.vstack((x, x + JACOBIAN_DIFFERENCE * np.eye(len(x)))))
        misses = np.array([_miss(turn, wanted) for turn in turns])
        slope = (misses[1:] - misses[0]).T / JACOBIAN_DIFFERENCE
        return np.vstack(
            (ROTATION_WEIGHT * slope, size * np.eye(len(x)), LIMIT_WEIGHT * self._beyond(x)[1])
        )

    def _beyond(self, x: Array) -> tuple[Array, Array]:
        """How far the loop is beyond position limits at every sample, and its derivative."""
        q = (self.q0 + self.values @ self._coefficients(x))[:, self.free]
        low, high = self.lower - q, q - self.upper
        sign = np.where(high > 0.0, 1.0, 0.0) - np.where(low > 0.0, 1.0, 0.0)
        moves = np.einsum("sc,cki->ski", self.values, self.shares)
        slope = np.einsum("si,ski,ij->sikj", sign, moves, np.eye(q.shape[1]))
        return np.maximum(np.maximum(low, high), 0.0).ravel(), slope.reshape(-1, len(x))


def _miss(turn: Array, wanted: Array) -> Array:
    """Rotation vector of ``exp(wanted)^-1 exp(turn)``, shape (3,)."""
    back = exp(np.concatenate((np.zeros(3), -wanted)))
    return log(back @ exp(np.concatenate((np.zeros(3), turn))))[3:]
