# SPDX-License-Identifier: Apache-2.0
"""Follow a robot's motion with a model that has unknowns, and learn them.

The state is pose, joints, their velocities and the unknowns; the model moves it, the sensors
correct it, window by window. The covariance is kept as a square root, so that it stays positive
however much is learnt. Of a window's many joint samples all that its motion can tell is kept, in
few rows: the error grows by ``dx/dt = (A_0 + A_1 t) x``, which a power series in t solves, and so
the samples enter by their projections on as many polynomials as it has terms.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, Protocol

import numpy as np

from vm_dynamics.dynamics.loads import STICTION_SPEED
from vm_dynamics.identification import _kernels
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

POWERS = 5  # terms of the series that are kept
# What is not known of the acceleration of a joint whose effort is not, besides what its own
# samples say: constant over a window [rad/s^2 or m/s^2].
DRIVEN_DEVIATION = 0.5
EARLY = 1.0  # [s], how long the motion counts as hardly known
FAR = 0.02  # error of a joint from which on the equations are other ones [rad or m]
MISFIT_WINDOWS = 8  # windows over which it is watched whether the model fits
LARGEST = 1e3  # of velocities [SI], beyond which a model has nothing to do with the robot
_EXPONENTS = np.arange(POWERS)
NO_FLUID = (np.empty((0, 6, 6)), np.empty((0, 1)), np.zeros(3))


State = tuple[Array, Array, Array, Array]  # g (4, 4), q (n,), V (b,), qd (n,)


class Pose(NamedTuple):
    """A measured pose.

    Attributes:
        stamp: [s].
        g: of {1} in the world, shape (4, 4).
        factor: L of the covariance L L^T of Log(g_hat^-1 g) on the group, shape (b, b).
        whiten: its inverse.
    """

    stamp: float
    g: Array
    factor: Array
    whiten: Array


class Noise(NamedTuple):
    """Standard deviations of white noise.

    Attributes:
        q: of joint positions, shape (n,) [rad or m].
        qd: of joint velocities, shape (n,).
        effort: of efforts, shape (n,).
        wrench: of the wrench on the base, shape (b,).
        twist: of the base velocity before anything is known, shape (b,).
        rough_twist: of one that was guessed from poses, shape (b,).
    """

    q: Array
    qd: Array
    effort: Array
    wrench: Array
    twist: Array
    rough_twist: Array


class Window(NamedTuple):
    """What came in a short time.

    Attributes:
        stamps: of the joint samples, shape (L + 1,) [s]; the first ends the window before.
        q: shape (L + 1, n).
        qd: shape (L + 1, n).
        effort: over each interval, shape (L, n), or None.
        wrench: on the base in {1} over each interval, shape (L, b).
        poses: those within.
        begin: a pose to begin with at the first sample, if nothing is known before it.
        twist: velocity of the base there in {1}, shape (b,), if it is known at all.
        start: motion there to look at the equations along; what is measured if None.
    """

    stamps: Array
    q: Array
    qd: Array
    effort: Array | None
    wrench: Array
    poses: tuple[Pose, ...]
    begin: Pose | None
    twist: Array | None = None
    start: State | None = None

    def smooth(self, noise: Noise) -> tuple[Array, Array, Array]:
        """Velocities and accelerations over each interval, shape (L, n), by a cubic.

        Also how many times as far as their noise samples are off it, shape (n,), 1 at least.
        """
        duration = self.stamps[-1] - self.stamps[0]
        s = (self.stamps - self.stamps[0]) / duration
        k = np.arange(min(4, len(s)))
        positions = s[:, None] ** k
        velocities = k * s[:, None] ** np.maximum(k - 1, 0) / duration
        middle = 0.5 * (s[1:, None] + s[:-1, None])
        rate = k * middle ** np.maximum(k - 1, 0) / duration
        second = k * (k - 1) * middle ** np.maximum(k - 2, 0) / duration**2
        # one weight serves all joints: how far positions are to be trusted before velocities
        wp, wv = 1.0 / noise.q.max(), 1.0 / noise.qd.max()
        basis = np.concatenate((wp * positions, wv * velocities))
        values = np.concatenate((wp * self.q, wv * self.qd))
        fit = np.linalg.lstsq(basis, values, rcond=None)[0]
        off = ((basis @ fit - values) ** 2).mean(axis=0)
        return rate @ fit, second @ fit, np.sqrt(np.maximum(off, 1.0))


class Unknowns(Protocol):
    """What is to be learnt: p numbers in which forces are linear, and coordinates of them.

    The coordinates have no values without a meaning; the numbers may have.

    Attributes:
        rubs: whether there is friction besides the efforts.
    """

    rubs: bool

    def numbers(self, theta: Array) -> Array:
        """Numbers of coordinates, shape (p,)."""

    def slope(self, theta: Array) -> Array:
        """Derivative of the numbers by the coordinates, shape (p, p)."""

    def models(self, numbers: Array) -> Array:
        """Packed models: at the numbers and, if these are inertia, with each a NUDGE larger."""

    def friction(self, numbers: Array, qd: Array) -> Array:
        """Efforts of friction at velocities, shape (L, n) both."""

    def friction_slopes(self, qd: Array) -> Array:
        """Mean derivative of :meth:`friction` by the numbers over a window, shape (p, n)."""


class Follower:
    """A square-root Kalman filter on motion and unknowns.

    Attributes:
        unknowns: what is to be learnt.
        factor: S of their joint covariance S S^T with the motion; the last p rows are theirs.
        rejected: poses that did not fit.
        used: poses that did.
        early: how long the motion was hardly known [s], and what it was then.
        misfits: normalised innovation squared of the last windows, by number: 1 if all is right.
    """

    def __init__(self, robot: Robot, unknowns: Unknowns, noise: Noise, gate: float) -> None:
        """Know nothing.

        Args:
            robot: the robot; gravity and fluid are its own.
            unknowns: what is to be learnt.
            noise: of the sensors.
            gate: of the normalised innovation squared of a pose.
        """
        from scipy.linalg.lapack import dtrtri  # not at import, which it would slow down

        self._robot, self.unknowns, self._noise, self._gate = robot, unknowns, noise, gate
        self._fluid = NO_FLUID if robot.fluid is None else tuple(robot.fluid)[1:]
        self._size = robot.b + robot.n
        self._state: State | None = None
        b, size = robot.b, self._size
        self._seen = np.r_[b:size, size + b : 2 * size]  # rows of the joints in the state
        self._weight = 1.0 / np.concatenate((noise.q, noise.qd))
        self._invert = dtrtri  # of a triangular matrix
        self._age = 0.0
        self._before: tuple[Array, float] | None = (
            None  # slopes of the window before, its duration
        )
        self.early: tuple[float, State] | None = None
        self.rejected = self.used = 0
        self.misfits: deque[float] = deque(maxlen=MISFIT_WINDOWS)

    def restart(self, mean: Array, factor: Array, at: Array) -> None:
        """Know nothing but a prior.

        Args:
            mean: of the unknowns, shape (p,).
            factor: square root of their covariance, shape (p, p).
            at: the unknowns near which to look at the equations, shape (p,).
        """
        size, p = 2 * self._size, len(mean)
        self.factor: Array = np.zeros((size + p, size + p))
        self.factor[size:, size:] = factor
        self._at, self._shift = at, mean - at
        self._models = self.unknowns.models(at).copy()
        self._state, self._before = None, None
        self.misfits.clear()

    @property
    def numbers(self) -> Array:
        """Estimate of the unknowns, shape (p,), which may have no meaning."""
        return self._at + self._shift

    @property
    def information(self) -> Array:
        """A square root W of the unknowns' information W^T W, shape (p, p)."""
        return np.linalg.inv(_triangular(self.factor[2 * self._size :]))

    def lose(self) -> None:
        """Forget the motion."""
        self._state = None

    def look(self, at: Array) -> None:
        """Look at the equations near these unknowns from now on, shape (p,)."""
        self._at, self._shift = at, self.numbers - at
        self._models, self._before = self.unknowns.models(at).copy(), None

    @property
    def misfit(self) -> float:
        """Median of the last misfits; NaN while there are too few."""
        full = len(self.misfits) == MISFIT_WINDOWS
        return float(np.median(self.misfits)) if full else np.nan

    @property
    def is_alive(self) -> bool:
        """Whether the motion is known."""
        return self._state is not None

    def _begin(self, window: Window, pose: Pose) -> None:
        b, size, noise = self._robot.b, self._size, self._noise
        V: Array = np.zeros(b)
        deviation = noise.twist
        if window.twist is not None:
            V, deviation = window.twist, noise.rough_twist
        scale = np.concatenate((np.zeros(b), noise.q, deviation, noise.qd))
        learnt = _triangular(self.factor[2 * size :])
        self.factor = np.zeros_like(self.factor)
        self.factor[: 2 * size, : 2 * size] = np.diag(scale)
        self.factor[:b, :b] = pose.factor
        self.factor[2 * size :, 2 * size :] = learnt
        self._state, self._error = (pose.g, window.q[0], V, window.qd[0]), np.zeros(2 * size)
        if window.start is not None:
            g, q, V1, qd = self._state = window.start
            moved = self._pose_error(g, pose.g), window.q[0] - q, V - V1, window.qd[0] - qd
            self._error = np.concatenate(moved)
        self._age, self.early, self._before = 0.0, None, None

    def step(self, window: Window) -> None:
        """Take in a window, which begins where the last one ended."""
        if window.begin is not None:
            self._begin(window, window.begin)
        if self._state is None:
            return
        size, total = 2 * self._size, len(self.factor)
        inputs = self._inputs(window)
        whole = total + len(inputs[2])
        wide = np.zeros((whole, whole))
        wide[:total, :total] = self.factor
        wide[range(total, whole), range(total, whole)] = inputs[2]
        mean = np.concatenate((self._error, self._shift, np.zeros(whole - total)))
        motion, flow, rows, errors = self._told(window, inputs, wide, mean)
        if motion is None:
            self._state = None
            return
        known = rows @ wide
        gain = known.T @ known
        gain.flat[:: whole + 1] += 1.0
        gained = np.linalg.cholesky(gain)
        inverse, _ = self._invert(gained, lower=1)
        wide = wide @ inverse.T
        off = errors - rows @ mean
        explained = inverse @ (known.T @ off)
        self.misfits.append(float(off @ off - explained @ explained) / len(off))
        mean += wide @ explained
        mean = flow @ mean
        self.factor = _triangular(flow @ wide)
        g, q, V, qd = (x[-1] for x in motion)
        self._state, self._error, self._shift = (g, q, V, qd), mean[:size], mean[size:]
        self._age += window.stamps[-1] - window.stamps[0]
        self._correct(is_early=self._age < EARLY and window.effort is not None)

    def _correct(self, *, is_early: bool) -> None:
        """Look at the equations where the motion is now, but not in the beginning.

        As long as it is hardly known, each pose would move it by much, and products of what has
        been corrected would be missing. In the beginning the equations are looked at along one
        motion, which another pass may improve.
        """
        b, size = self._robot.b, self._size
        assert self._state is not None
        if is_early and abs(self._error[b:size]).max() < FAR:
            return
        self._state = self._moved(self._state, self._error)
        self._error = np.zeros(2 * size)
        if self.early is None:
            self.early = self._age, self._state

    def begin_of(self, windows: list[Window]) -> State | None:
        """The motion where windows begin, back from where the equations were first changed."""
        if self.early is None:
            return None
        age, state = self.early
        first = windows[0].stamps[0]
        for window in reversed([w for w in windows if w.stamps[-1] - first < age + 1e-6]):
            if window.effort is None:
                return None
            passive, given, _ = self._inputs(window)
            motion = _rows(state, len(window.stamps))
            _kernels.follow.checked(
                self._models[:1],
                *self._fluid,
                passive,
                given[::-1].copy(),
                np.diff(window.stamps[::-1]),
                *motion,
                np.empty((0, self._size)),
            )
            g, q, V, qd = (x[-1] for x in motion)
            state = g, q, V, qd
        return state if abs(np.concatenate(state[1:])).max() < LARGEST else None

    def _moved(self, state: State, error: Array) -> State:
        """A motion corrected by an error, shape (2 (b + n) + ...)."""
        b, size = self._robot.b, self._size
        g, q, V, qd = state
        turn = se3.exp(self._robot.base_group.iota @ error[:b])
        V1, qd1 = V + error[size : size + b], qd + error[size + b : 2 * size]
        return g @ turn, q + error[b:size], V1, qd1

    def _told(
        self, window: Window, inputs: tuple[Array, Array, Array], wide: Array, mean: Array
    ) -> tuple[Any, Array, Array, Array]:
        """What a window says of the error where it begins.

        Args:
            window: the window.
            inputs: of :meth:`_inputs`.
            wide: square root of the covariance of error, unknowns and inputs.
            mean: of these.

        Returns:
            The motion (None if it is beyond all bounds), its flow to the end, whitened rows and
            errors.
        """
        assert self._state is not None
        b, motion = self._robot.b, _rows(self._state, len(window.stamps))
        slopes = self._follow(window, *inputs[:2], motion)
        g, q, V, qd = motion
        if not abs(V).max() + abs(qd).max() < LARGEST:
            return None, wide, wide, mean
        duration = window.stamps[-1] - window.stamps[0]
        times = (window.stamps - window.stamps[0]) / duration
        powers = self._powers(V, slopes, times, duration)
        rows, errors = self._joint_rows(window, times[1:], powers, q, qd)
        for pose in window.poses:
            row, error = self._pose_row(pose, window, times, powers, g, V)
            known = row @ wide
            off = error - row @ mean
            nis = off @ np.linalg.solve(np.eye(b) + known @ known.T, off)
            if nis > self._gate:
                self.rejected += 1
                continue
            self.used += 1
            rows, errors = np.concatenate((rows, row)), np.concatenate((errors, error))
        return motion, powers.sum(axis=0), rows, errors

    def _inputs(self, window: Window) -> tuple[Array, Array, Array]:
        """Which forces are given, what is given over each interval, and deviations of inputs."""
        b = self._robot.b
        count = len(window.stamps) - 1
        passive, deviation = np.ones(self._size), np.empty(self._size)
        deviation[:b] = self._noise.wrench / np.sqrt(count)
        given = np.empty((count, self._size))
        given[:, :b] = window.wrench
        if window.effort is None:
            passive[b:] = 0.0
            given[:, b:] = window.smooth(self._noise)[1]
            deviation[b:] = DRIVEN_DEVIATION
        else:
            given[:, b:] = window.effort
            deviation[b:] = self._noise.effort / np.sqrt(count)
            if self.unknowns.rubs:
                speeds = window.smooth(self._noise)[0]
                rubbing = self.unknowns.friction(self._at, speeds)
                given[:, b:] += rubbing
                # where a joint turns round it is not known well when, nor which way one is held
                # that hardly moves
                faster, slower = (
                    self.unknowns.friction(self._at, speeds + x)
                    for x in (STICTION_SPEED, -STICTION_SPEED)
                )
                held = 0.5 * (slower - faster).mean(axis=0)
                deviation[b:] = np.sqrt(deviation[b:] ** 2 + rubbing.var(axis=0) + held**2)
        # of white noise, the mean and the rise
        return passive, given, np.concatenate((deviation, np.sqrt(3.0) * deviation[b:]))

    def _follow(
        self, window: Window, passive: Array, given: Array, motion: tuple[Array, ...]
    ) -> Array:
        """Motion by the model, and slopes of the accelerations by all columns, (b + n, ...)."""
        models, n, size = self._models, self._robot.n, self._size
        slopes = np.empty((3 * size + len(models) - 1, size))
        _kernels.follow.checked(
            models, *self._fluid, passive, given, np.diff(window.stamps), *motion, slopes
        )
        by_state, by_given, by_theta = np.split(slopes, (2 * size, 3 * size))
        if len(models) == 1:  # it is friction that is unknown
            by_theta = np.zeros((len(self._at), size))
            if window.effort is not None:
                speeds = window.smooth(self._noise)[0]
                by_theta += self.unknowns.friction_slopes(speeds) @ by_given[-n:]
        return np.concatenate((by_state, by_theta, by_given)).T

    def _powers(self, V: Array, slopes: Array, times: Array, duration: float) -> Array:
        """Coefficients of s^k in the flow of error, unknowns and inputs, s from 0 to 1.

        Rows are those of state and unknowns, columns those and the inputs': the mean of each, and
        of the joints' also how far they rise, -1 to 1. With these two the end of the window has
        the covariance that white noise makes.
        """
        b, size, total, n = self._robot.b, self._size, len(self.factor), self._robot.n
        two = 2 * size
        A = np.zeros((two, total + size))
        A[:b, :b] = -self._robot.base_group.ad(V[len(times) // 2])
        A[:b, size : size + b] = np.eye(b)
        A[b:size, size + b : two] = np.eye(n)
        A[size:] = slopes
        A1 = np.zeros_like(A)
        if self._before is not None:  # it goes on changing as since the last window's middle
            last, long = self._before
            A1 = (A - last) * (2.0 * duration**2 / (duration + long))
        self._before = A, duration
        A0 = duration * A - 0.5 * A1
        forcing = np.zeros((POWERS - 1, two, total + size + n))
        forcing[0, :, two : total + size], forcing[1, :, two : total + size] = (
            A0[:, two:],
            A1[:, two:],
        )
        B0, B1 = A0[:, -n:], A1[:, -n:]
        forcing[0, :, -n:], forcing[1, :, -n:], forcing[2, :, -n:] = -B0, 2.0 * B0 - B1, 2.0 * B1
        out = np.zeros((POWERS, total, total + size + n))
        out[0, :, :total] = np.eye(total)
        for k in range(1, POWERS):
            rate = forcing[k - 1] + A0[:, :two] @ out[k - 1, :two]
            if k > 1:
                rate += A1[:, :two] @ out[k - 2, :two]
            out[k, :two] = rate / k
        return out

    def _joint_rows(
        self, window: Window, times: Array, powers: Array, q: Array, qd: Array
    ) -> tuple[Array, Array]:
        """What the joint samples say of the error where the window begins, whitened."""
        weight = self._weight
        if window.effort is None:  # their accelerations are taken for straight lines
            weight = weight / np.tile(window.smooth(self._noise)[2], 2)
        Q, R = np.linalg.qr(times[:, None] ** _EXPONENTS)
        seen = weight[:, None] * powers[:, self._seen]
        rows = R @ seen.reshape(POWERS, -1)
        errors = np.concatenate((window.q[1:] - q[1:], window.qd[1:] - qd[1:]), axis=1) * weight
        return rows.reshape(-1, powers.shape[2]), (Q.T @ errors).ravel()

    def _pose_row(
        self, pose: Pose, window: Window, times: Array, powers: Array, g: Array, V: Array
    ) -> tuple[Array, Array]:
        """The same of a pose."""
        group = self._robot.base_group
        i = min(int(np.searchsorted(window.stamps, pose.stamp, side="right")), len(times) - 1)
        late = pose.stamp - window.stamps[i - 1]
        part = late / (window.stamps[i] - window.stamps[i - 1])
        mean = V[i - 1] + 0.5 * part * (V[i] - V[i - 1])
        here = g[i - 1] @ se3.exp(group.iota @ (late * mean))
        t = times[i - 1] + part * (times[i] - times[i - 1])
        b = self._robot.b
        row = (t**_EXPONENTS @ powers[:, :b].reshape(POWERS, -1)).reshape(b, -1)
        return pose.whiten @ row, pose.whiten @ self._pose_error(here, pose.g)

    def _pose_error(self, g: Array, measured: Array) -> Array:
        """Log(g^-1 g_m) in coordinates of the group, shape (b,)."""
        return self._robot.base_group.iota_pinv @ se3.log(se3.inverse(g) @ measured)


def _rows(state: State, count: int) -> tuple[Array, ...]:
    """Room for a motion, the first row filled."""
    out = tuple(np.empty((count, *x.shape)) for x in state)
    for rows, first in zip(out, state, strict=True):
        rows[0] = first
    return out


def _triangular(root: Array) -> Array:
    """The lower triangular square root of the same covariance as another, (p, m) to (p, p)."""
    upper: Any = np.linalg.qr(root.T, mode="r")
    return upper.T
