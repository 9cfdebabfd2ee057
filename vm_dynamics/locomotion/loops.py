# SPDX-License-Identifier: Apache-2.0
"""Joint loops that turn the base by a wanted rotation: first guesses and their refinement.

Implements: the inverse of [Mishra2022] eq. (69). The paper computes the rotation by a given loop;
this module finds the loop for a given rotation. A loop is a Fourier series that starts and ends at
q0, ``q(s) = q0 + sum_m a_m (cos 2 pi m s - 1) + b_m sin 2 pi m s``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from vm_dynamics.lie.se3 import Array, exp, log
from vm_dynamics.locomotion import _kernels
from vm_dynamics.locomotion.circles import Circle, Circles
from vm_dynamics.locomotion.collisions import CollisionModel
from vm_dynamics.locomotion.fields import curvature_at, path_twists
from vm_dynamics.locomotion.planes import FrameChoice
from vm_dynamics.robot import Robot

HARMONICS = 2
STEPS_PER_LOOP = 40  # of order four; their error is at most 1e-4 of the loop's rotation
MAX_GUESSES = 5  # circles that are refined
# Number of circles, the best first, that are checked for collisions, and of samples on each.
CHECKED_CIRCLES, CIRCLE_SAMPLES = 60, 24
# Weights of the refinement: per radian of rotation error, per radian or metre beyond a limit.
ROTATION_WEIGHT, LIMIT_WEIGHT = 1.0 / np.radians(1.0), 100.0
# The same per metre that links are nearer than they may be, and the distance beyond that which the
# samples keep [m]: between them links come nearer.
CLEARANCE_WEIGHT, CLEARANCE_BUFFER = 100.0, 0.03
CLEARANCE_SAMPLES = slice(1, None, 2)  # which samples of a loop are looked at for it
# A loop that comes too near shrinks by this factor until it does not, and is given up below the
# second: then the start itself is too near.
SHRINKING, SMALLEST_SHARE = 0.9, 1e-3
# Stages of the refinement: weight of the loop's size, largest number of evaluations, relative
# decrease of the cost at which it stops. The first stage finds a small loop, the second makes its
# rotation exact.
REFINEMENT_STAGES = ((0.3, 100, 1e-4), (1e-4, 30, 1e-6))
SMALL_ANGLE = 1e-4  # [rad], whose square is nothing beside one
# Distance from position limits at the samples [rad or m]; between them a loop goes further.
POSITION_MARGIN = 5e-3
# A joint that starts at its limit must move away from it by this share of its reach. Otherwise a
# small error of the refinement could take it beyond the limit.
INWARD_SHARE = 0.01
# Number of samples of the final check of the limits, and margin [rad or m] for what lies between
# them.
LIMIT_CHECKS, LIMIT_SLACK = 1000, 1e-4


class JointLimits(NamedTuple):
    """Limits of joints, each one number or shape (n,).

    Attributes:
        lower: lower position limits [rad or m].
        upper: upper position limits [rad or m].
        velocity: velocity limits [rad/s or m/s].
    """

    lower: Array
    upper: Array
    velocity: Array


@dataclass(frozen=True, eq=False)
class Loop:
    """A closed loop of the joints.

    Attributes:
        q0: joint positions at its start and end, shape (n,) [rad or m].
        cosines: coefficients a, shape (M, n) [rad or m].
        sines: coefficients b, shape (M, n) [rad or m].
    """

    q0: Array
    cosines: Array
    sines: Array

    def position(self, s: Array) -> Array:
        """Joint positions at phases s, shape (N, n) [rad or m]; s, shape (N,), is in turns."""
        p = 2.0 * np.pi * np.outer(s, np.arange(1, len(self.cosines) + 1))
        return np.asarray(self.q0 + (np.cos(p) - 1.0) @ self.cosines + np.sin(p) @ self.sines)

    def slope(self, s: Array) -> Array:
        """Derivative of the joint positions by the phase s, shape (N, n) [rad or m per turn]."""
        w = 2.0 * np.pi * np.arange(1, len(self.cosines) + 1)
        p = np.outer(s, w)
        return np.asarray((np.cos(p) * w) @ self.sines - (np.sin(p) * w) @ self.cosines)

    def bend(self, s: Array) -> Array:
        """Second derivative by the phase s, shape (N, n) [rad or m per turn squared]."""
        w = 2.0 * np.pi * np.arange(1, len(self.cosines) + 1)
        p = np.outer(s, w)
        return np.asarray(-(np.sin(p) * w**2) @ self.sines - (np.cos(p) * w**2) @ self.cosines)


class Attempt(NamedTuple):
    """Result of a refinement.

    Attributes:
        loop: the loop.
        turn: rotation vector of the base by the loop, shape (3,) [rad].
        error: angle between that and the wanted rotation [rad].
        coefficients: scaled coefficients, from which a further refinement can start.
    """

    loop: Loop
    turn: Array
    error: float
    coefficients: Array


class KeptApart(NamedTuple):
    """What a loop must keep free of.

    Attributes:
        model: distances of links.
        kept: distance to keep of each pair of shapes, shape (pairs,) [m].
    """

    model: CollisionModel
    kept: Array


class LoopSearch:
    """Search for loops of one robot that start at q0, stay within limits and touch nothing.

    The unknowns are scaled Fourier coefficients of the joints that can move: 2 M rows, one column
    for each such joint.
    """

    def __init__(
        self, robot: Robot, q0: Array, limits: JointLimits, apart: KeptApart | None = None
    ) -> None:
        self.robot, self.q0, self.limits, self.apart = robot, q0, limits, apart
        self._base_frame = FrameChoice.of(robot, "base", q0)
        self._poses_of: tuple[bytes, Array] = b"", np.empty(0)
        self._near_at: tuple[bytes, Array, Array] = b"", np.empty(0), np.empty(0)
        self.reach = np.minimum(limits.upper - limits.lower, np.pi) / 2.0
        free = (self.reach > 2.0 * POSITION_MARGIN) & (limits.velocity > 0.0)
        self.free = np.flatnonzero(free)
        # a joint that is twice as fast may go twice as far in the same time
        self.scale = limits.velocity[self.free] / limits.velocity[self.free].max(initial=1e-300)
        # where q0 is nearer to a limit than the margin, q0 itself is the limit
        self.lower = np.minimum(limits.lower + POSITION_MARGIN, q0)[self.free]
        self.upper = np.maximum(limits.upper - POSITION_MARGIN, q0)[self.free]
        s = np.linspace(0.0, 1.0, 2 * STEPS_PER_LOOP + 1)
        p = 2.0 * np.pi * np.outer(s, np.arange(1, HARMONICS + 1))
        self.values = np.hstack((np.cos(p) - 1.0, np.sin(p)))
        w = 2.0 * np.pi * np.arange(1, HARMONICS + 1)
        self.slopes = np.hstack((-np.sin(p) * w, np.cos(p) * w))
        # such a joint can move to one side only and starts with zero slope: b_2 = -b_1 / 2
        self.shares = np.zeros((2 * HARMONICS, 2 * HARMONICS, len(self.free)))
        self.shares[:] = np.eye(2 * HARMONICS)[:, :, None] * self.scale
        below, above = self.lower == q0[self.free], self.upper == q0[self.free]
        self.shares[HARMONICS + 1, HARMONICS + 1, below | above] = 0.0
        self.shares[HARMONICS + 1, HARMONICS, below | above] = -0.5 * self.scale[below | above]
        self.moves = np.einsum("sc,cki->ski", self.values, self.shares)
        # of Simpson's rule over the steps
        self.weights = np.ones(STEPS_PER_LOOP + 1) * 2.0 / (3.0 * STEPS_PER_LOOP)
        self.weights[1::2] *= 2.0
        self.weights[[0, -1]] *= 0.5
        inwards = INWARD_SHARE * np.minimum(self.reach[self.free], 1.0) * (1.0 - np.cos(p[:, :1]))
        self.lower = self.lower + inwards * below
        self.upper = self.upper - inwards * above

    # -- first guesses --------------------------------------------------------------------------

    def guesses(self, wanted: Array) -> list[Array]:
        """Scaled coefficients of circles that should give the wanted rotation, the best first.

        Those on which links come too near are the last.

        Args:
            wanted: wanted rotation vector, shape (3,) [rad].
        """
        angle = float(np.linalg.norm(wanted))
        free: dict[tuple[int, int], Array] = {}
        rest: dict[tuple[int, int], Array] = {}
        for rank, circle in enumerate(self.circles.ranked(wanted)):
            if len(free) >= MAX_GUESSES or (rank >= CHECKED_CIRCLES and len(rest) >= MAX_GUESSES):
                break
            # one circle per pair is enough: the others lead to the same loop
            if circle.pair not in free:
                guess = self._guess(circle, angle)
                which = free if rank < CHECKED_CIRCLES and self._is_free(guess) else rest
                which.setdefault(circle.pair, guess)
        rest = {pair: guess for pair, guess in rest.items() if pair not in free}
        return [*free.values(), *rest.values()][:MAX_GUESSES]

    def _guess(self, circle: Circle, wanted: float) -> Array:
        """Scaled coefficients of a circle, made smaller if it turns by more than wanted [rad]."""
        turn = circle.turn
        size = min(1.0, np.sqrt(wanted / abs(turn))) if turn else 1.0
        out = np.zeros((2 * HARMONICS, self.robot.n))
        out[0] = -size * circle.x
        out[HARMONICS] = -np.copysign(size, turn) * circle.y
        return np.asarray((out[:, self.free] / self.scale).ravel())

    def _is_free(self, x: Array) -> bool:
        """Whether no links come too near on samples of a loop."""
        if self.apart is None:
            return True
        q = self.loop(x).position(np.arange(CIRCLE_SAMPLES) / CIRCLE_SAMPLES)
        return not self.apart.model.shortfall(q, self.apart.kept)[0].any()

    @cached_property
    def circles(self) -> Circles:
        """Circles through q0 of all pairs of joints that can move."""
        limits = self.limits
        return Circles(self.robot, self.q0, (limits.lower, limits.upper), self.free, self.reach)

    # -- refinement -----------------------------------------------------------------------------

    def refine(self, guess: Array, wanted: Array) -> Attempt:
        """The smallest loop near a guess that turns the base by the wanted rotation.

        Args:
            guess: scaled coefficients to start from.
            wanted: wanted rotation vector, shape (3,) [rad].
        """
        from scipy.optimize import least_squares

        x = guess
        for size, rounds, gain in REFINEMENT_STAGES:
            x = least_squares(
                self._residual,
                x,
                jac=self._jacobian,
                method="lm",  # runs on one core only
                args=(wanted, size),
                max_nfev=rounds,
                ftol=gain,
                xtol=1e-8,
            ).x
        x = x * self._fitting(x)
        x = x * self._clear_share(x)
        turn = self._turn(x)
        return Attempt(self.loop(x), turn, float(np.linalg.norm(_miss(turn, wanted))), x)

    def _fitting(self, x: Array) -> float:
        """Factor by which a loop must shrink to stay within the position limits, at most 1."""
        q = self.loop(x).position(np.linspace(0.0, 1.0, LIMIT_CHECKS))
        low = np.minimum(self.limits.lower + LIMIT_SLACK, self.q0) - self.q0
        high = np.maximum(self.limits.upper - LIMIT_SLACK, self.q0) - self.q0
        moved = q - self.q0
        room = np.where(moved < 0.0, low, high)
        beyond = abs(moved) > abs(room) + 1e-12
        return float(np.min(room[beyond] / moved[beyond], initial=1.0))

    def _clear_share(self, x: Array) -> float:
        """Factor by which a loop must shrink to keep links apart, at most 1."""
        share = 1.0
        if self.apart is None:
            return share
        model, kept = self.apart
        while share > SMALLEST_SHARE:
            if model.least_along(self.loop(share * x).position, 1.0, kept, 0.0).distance >= 0.0:
                return share
            share *= SHRINKING
        return 0.0

    def loop(self, x: Array) -> Loop:
        """The loop of scaled coefficients, shape (2 M m,) for m joints that can move."""
        coefficients = self._coefficients(x)
        return Loop(self.q0, coefficients[:HARMONICS], coefficients[HARMONICS:])

    def coefficients_of(self, loop: Loop) -> Array:
        """Scaled coefficients of a loop, as a guess."""
        both = np.vstack((loop.cosines, loop.sines))[:, self.free]
        return np.asarray((both / self.scale).ravel())

    def _coefficients(self, x: Array) -> Array:
        """Fourier coefficients of all joints, shape (2 M, n) [rad or m], from scaled ones."""
        out = np.zeros((2 * HARMONICS, self.robot.n))
        out[:, self.free] = np.einsum("cki,ki->ci", self.shares, x.reshape(2 * HARMONICS, -1))
        return out

    def _poses(self, x: Array) -> Array:
        """Poses of the base after every step of a loop, shape (steps + 1, 4, 4)."""
        if self._poses_of[0] != x.tobytes():  # the solver asks for value and derivative in turn
            coefficients = self._coefficients(x)
            q, qd = self.q0 + self.values @ coefficients, self.slopes @ coefficients
            twists, none = path_twists(self.robot, q, qd)
            poses = np.empty((STEPS_PER_LOOP + 1, 4, 4))
            poses[0] = np.eye(4)
            _kernels.transport.checked(twists, none, np.zeros(6), 1.0 / STEPS_PER_LOOP, poses)
            self._poses_of = x.tobytes(), poses
        return self._poses_of[1]

    def _turn(self, x: Array) -> Array:
        """Rotation vector of the base by a loop, shape (3,) [rad]."""
        return log(self._poses(x)[-1])[3:]

    def _turn_slope(self, x: Array, miss: Array) -> Array:
        """Derivative of the rotation error by the scaled coefficients, shape (3, 2 M m).

        By [Mishra2022] Theorem 2, a loop that moves by ``dq(s)`` turns the base further by
        ``int R(1)^T R(s) DA(q') dq ds``, in the frame of the base after the loop.

        Args:
            x: scaled coefficients.
            miss: rotation error there, shape (3,) [rad].
        """
        robot, m = self.robot, len(self.free)
        coefficients, R = self._coefficients(x), self._poses(x)[:, :3, :3]
        q = self.q0 + self.values[::2] @ coefficients
        qd = self.slopes[::2] @ coefficients
        joints = np.tile(np.eye(robot.n)[self.free], (len(q), 1))
        rows, rates = np.repeat(q, m, axis=0), np.repeat(qd, m, axis=0)
        found, _ = curvature_at(robot, self._base_frame, rows, x=rates, y=joints)
        turns = (found @ robot.base_group.iota[3:].T).reshape(len(q), m, 3)
        carried = np.einsum("s,ji,sjk,smk->smi", self.weights, R[-1], R, turns)
        out = np.einsum("smi,skm->ikm", carried, self.moves[::2])
        return _log_slope(miss) @ out.reshape(3, -1)

    def _residual(self, x: Array, wanted: Array, size: float) -> Array:
        """Weighted rotation error, coefficients, distances beyond limits and too near, in one."""
        return np.concatenate(
            (
                ROTATION_WEIGHT * _miss(self._turn(x), wanted),
                size * x,
                LIMIT_WEIGHT * self._beyond(x)[0],
                CLEARANCE_WEIGHT * self._too_near(x)[0],
            )
        )

    def _jacobian(self, x: Array, wanted: Array, size: float) -> Array:
        """Derivative of the residual by the scaled coefficients."""
        return np.vstack(
            (
                ROTATION_WEIGHT * self._turn_slope(x, _miss(self._turn(x), wanted)),
                size * np.eye(len(x)),
                LIMIT_WEIGHT * self._beyond(x)[1],
                CLEARANCE_WEIGHT * self._too_near(x)[1],
            )
        )

    def _too_near(self, x: Array) -> tuple[Array, Array]:
        """By how much links are too near at every sample, and its derivative by x."""
        if self.apart is None:
            return np.empty(0), np.empty((0, len(x)))
        if self._near_at[0] != x.tobytes():  # the solver asks for value and derivative in turn
            q = self.q0 + self.values[CLEARANCE_SAMPLES] @ self._coefficients(x)
            value, slope = self.apart.model.shortfall(q, self.apart.kept + CLEARANCE_BUFFER)
            by_x = slope[:, None, self.free] * self.moves[CLEARANCE_SAMPLES]
            self._near_at = x.tobytes(), value, by_x.reshape(len(q), -1)
        return self._near_at[1:]

    def _beyond(self, x: Array) -> tuple[Array, Array]:
        """Distance beyond the position limits at every sample, and its derivative by x."""
        q = (self.q0 + self.values @ self._coefficients(x))[:, self.free]
        low, high = self.lower - q, q - self.upper
        sign = np.where(high > 0.0, 1.0, 0.0) - np.where(low > 0.0, 1.0, 0.0)
        slope = np.einsum("si,ski,ij->sikj", sign, self.moves, np.eye(q.shape[1]))
        return np.maximum(np.maximum(low, high), 0.0).ravel(), slope.reshape(-1, len(x))


def _miss(turn: Array, wanted: Array) -> Array:
    """Rotation vector of ``exp(wanted)^-1 exp(turn)``, shape (3,) [rad]."""
    back = exp(np.concatenate((np.zeros(3), -wanted)))
    return log(back @ exp(np.concatenate((np.zeros(3), turn))))[3:]


def _log_slope(w: Array) -> Array:
    """Derivative of ``log(exp(w) exp(d))`` by a small rotation vector d, shape (3, 3)."""
    angle = float(np.linalg.norm(w))
    W = np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])
    if angle < SMALL_ANGLE:
        return np.eye(3) + 0.5 * W
    half = 0.5 * angle
    return np.asarray(np.eye(3) + 0.5 * W + (1.0 - half / np.tan(half)) / angle**2 * (W @ W))
