# SPDX-License-Identifier: Apache-2.0
"""What all observers share: inputs with stamps, estimates, status, and the history behind them."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass
from typing import Any

import numpy as np

from vm_dynamics.dynamics._entry import REFUSED
from vm_dynamics.errors import DimensionError, ParameterError
from vm_dynamics.estimation import _kernels
from vm_dynamics.estimation import _layout as at
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot
from vm_dynamics.submerged import SubmergedRobot

WAITING, TRACKING, COASTING = "waiting", "tracking", "coasting"
SMALLEST_HISTORY = 8
MAX_STEP = 0.02  # [s], of the motion between samples

_event = _kernels.event
_JOINTS = at.JOINTS
_NOTHING = np.empty(0)
_NO_COVARIANCE = np.empty((0, 0))


@dataclass(frozen=True)
class Status:
    """How an observer is doing.

    Attributes:
        state: ``waiting`` for joints and a pose to begin with; ``tracking``; ``coasting`` on the
            model when the last pose used is older than ``pose_timeout``.
        stamp: time of the estimate [s], zero before the first event.
        used: poses, gyroscope readings and velocities that went into the estimate.
        rejected: those that were outliers.
        late: inputs from before the history.
        future: inputs too far ahead of the newest joint sample.
        repeated: inputs with the stamp of another one of their kind.
        malformed: inputs with NaN, infinity or numbers beyond 1e12, a matrix that is no pose, or
            one that is no covariance.
        reinitialisations: how often the estimate began anew.
    """

    state: str
    stamp: float
    used: int
    rejected: int
    late: int
    future: int
    repeated: int
    malformed: int
    reinitialisations: int


class Observer(ABC):
    """Estimates how the base of a robot moves from joints, poses and known wrenches.

    Inputs may come in any order of their stamps (float seconds, any origin): a late one goes to
    its place in the history, and the estimate is worked out anew from there. Wrong shapes raise;
    values that are no numbers, and matrices that are no poses, are counted and ignored. Estimates
    are those at the newest stamp, and zero (the identity) while the state is ``waiting``.

    Args:
        robot: the robot.
        history: events that are remembered, at least eight; rounded up to a power of two.
        future_tolerance: how far a stamp may lie ahead of the newest joint sample [s].
        joints_timeout: the longest gap between joint samples that is bridged [s].
        pose_timeout: age of the last pose used from which the state is ``coasting`` [s].
        pose_deviation: standard deviations of a pose that comes without covariance: of its
            position [m] and attitude [rad].
        start_velocity: locked velocity mu to begin with, shape (b,); zero if None.
    """

    _method: int

    def __init__(
        self,
        robot: Robot,
        *,
        history: int = 2048,
        future_tolerance: float = 0.1,
        joints_timeout: float = 1.0,
        pose_timeout: float = 1.0,
        pose_deviation: Any = (5e-3, 5e-3),
        start_velocity: Any = None,
    ) -> None:
        if type(self) is Observer:
            raise TypeError("Observer is abstract; see vm_dynamics.estimation.OBSERVERS")
        self.robot = robot
        self.pose_timeout = positive("pose_timeout", pose_timeout)
        self._model = robot._packed
        self._fluid = _flat_fluid(robot)
        b, n = robot.b, robot.n
        tune = np.zeros(at.QD_VARIANCE + max(n, 1))
        tune[[at.METHOD, at.B, at.N, at.D]] = self._method, b, n, 2 * b
        tune[[at.BIAS_AT, at.EXTERNAL_AT]] = -1.0
        tune[at.MAX_STEP] = MAX_STEP
        tune[at.LEAD] = positive("future_tolerance", future_tolerance)
        tune[at.GAP] = positive("joints_timeout", joints_timeout)
        tune[at.COV_PERIOD] = math.inf
        tune[at.TURNING] = robot.gravity.any() or self._fluid.size > 0
        self._tune = tune
        self._put(at.IOTA, robot.base_group.iota)
        self._put(at.PINV, robot.base_group.iota_pinv)
        if start_velocity is not None:
            self._put(at.MU_0, vector("start_velocity", start_velocity, b))
        self._pose_covariance = self.coordinates("pose_deviation", pose_deviation)
        self._history = _history(history)
        self._ready(17)

    def _put(self, where: int, value: Array) -> None:
        """Write a parameter into its slot."""
        self._tune[where : where + value.size] = value.ravel()

    def _ready(self, memory: int) -> None:
        """Make the arrays, with so many numbers of memory in a row, once the sizes are known."""
        robot, d = self.robot, int(self._tune[at.D])
        n, bodies = robot.n, len(robot.tree.inertias)
        sample = at.CONN + 8 * n
        data = max(sample, at.POSE_COV + 36)
        width = max(sample, 22 * bodies, 12 * bodies, d * d, at.SMALL, 6 * d + 96, 12 * d + 36)
        self._tune[at.DATA] = at.MEMORY + memory
        self._rows = np.zeros((self._history, at.MEMORY + memory + data))
        self._index = np.zeros(at.ORDER + self._history, dtype=np.int64)
        self._desk = np.zeros((at.DESK, width))
        self._out = np.zeros((7, 16))
        self._book = (
            self._model,
            self._fluid,
            self._tune,
            self._rows,
            self._index,
            self._desk,
        )
        for entry in (_event, _kernels.read, _kernels.read_covariance):
            entry.compile()

    def coordinates(self, name: str, deviation: Any) -> Array:
        """Covariance in coordinates of the base group, shape (b, b).

        Args:
            name: of the parameter, for an error's message.
            deviation: standard deviation, one number for all directions, or two, of the linear
                and the angular ones.
        """
        linear, angular = pair(name, deviation)
        pinv = self.robot.base_group.iota_pinv
        return (pinv * np.repeat((linear**2, angular**2), 3)) @ pinv.T

    # -- inputs ---------------------------------------------------------------------------------

    def joints(self, stamp: float, q: Any, qd: Any) -> None:
        """A joint sample.

        Args:
            stamp: [s].
            q: positions in the order of ``robot.joint_names``, shape (n,) [rad or m].
            qd: velocities, shape (n,).
        """
        try:
            _event.run(*self._book, _JOINTS, stamp, q, qd, _NO_COVARIANCE)
        except REFUSED:
            q, qd = numbers("q", q, (self.robot.n,)), numbers("qd", qd, (self.robot.n,))
            _event.checked(*self._book, _JOINTS, seconds(stamp), q, qd, _NO_COVARIANCE)

    def pose(self, stamp: float, g: Any, covariance: Any = None) -> None:
        """A measured pose of the base.

        Args:
            stamp: when it was measured [s], however late it comes.
            g: pose of {1} in the world, shape (4, 4).
            covariance: of ``Log(g_hat^-1 g)`` in coordinates of the base group, shape (b, b), or
                of the twist's six, shape (6, 6); ``pose_deviation`` if None or all zero.
        """
        value = numbers("g", g, (4, 4)).ravel()
        self._take(at.POSE, stamp, value, self._pose_noise(covariance))

    def base_wrench(self, stamp: float, F: Any) -> None:
        """A known wrench on the base, from its stamp on until the next.

        Args:
            stamp: [s].
            F: in {1}, shape (b,) [N, N m].
        """
        self._take(at.WRENCH, stamp, numbers("F", F, (self.robot.b,)), _NO_COVARIANCE)

    def reset(self) -> None:
        """Forget everything but the counters, and wait for a pose to begin with."""
        self._index[[at.HEAD, at.COUNT, at.STRANGE, at.HAS_JOINTS]] = 0

    def _take(self, kind: int, stamp: float, value: Array, covariance: Array) -> None:
        _event.checked(*self._book, kind, seconds(stamp), value, _NOTHING, covariance)

    def _pose_noise(self, covariance: Any) -> Array:
        if covariance is None:
            return self._pose_covariance
        b, pinv = self.robot.b, self.robot.base_group.iota_pinv
        six = np.shape(covariance) == (6, 6)
        value = numbers("covariance", covariance, (6, 6) if six else (b, b))
        if not value.any():  # how drivers say that they do not know
            return self._pose_covariance
        return np.ascontiguousarray(pinv @ value @ pinv.T) if six and b < 6 else value

    # -- estimates ------------------------------------------------------------------------------

    def _read(self) -> Array:
        _kernels.read.run(*self._book, self._out)
        return self._out

    @property
    def base_pose(self) -> Array:
        """Pose of {1} in the world, shape (4, 4)."""
        return self._read()[0].reshape(4, 4).copy()

    @property
    def twist(self) -> Array:
        """Velocity V of the base in {1}, shape (b,)."""
        return self._read()[1, : self.robot.b].copy()

    @property
    def locked_velocity(self) -> Array:
        """Locked velocity mu = V + A qd in {1}, shape (b,)."""
        return self._read()[2, : self.robot.b].copy()

    @property
    def momentum(self) -> Array:
        """Momentum h = M_b mu in {1}, shape (b,)."""
        return self._read()[3, : self.robot.b].copy()

    @property
    def covariance(self) -> Array | None:
        """Covariance of (pose error, twist error), shape (2b, 2b), or None where there is none."""
        return None

    @property
    def nis(self) -> float:
        """Normalised innovation squared of the last pose, rejected ones included.

        Without covariance, the squared error in units of the pose's own noise.
        """
        return float(self._read()[4, 2])

    @property
    def status(self) -> Status:
        """State, stamp and counters."""
        stamp, last_pose, _, alive = self._read()[4, :4].tolist()
        counts = self._index[: at.HEAD].tolist()
        state = WAITING if not alive else TRACKING
        if alive and stamp - last_pose > self.pose_timeout:
            state = COASTING
        return Status(
            state,
            stamp,
            used=counts[at.USED] + counts[at.STARTED],
            rejected=counts[at.REJECTED],
            late=counts[at.LATE],
            future=counts[at.FUTURE],
            repeated=counts[at.REPEATED],
            malformed=counts[at.MALFORMED],
            reinitialisations=max(0, counts[at.STARTED] - 1),
        )


def numbers(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """Fresh contiguous floats of a shape, NaN allowed, or an error that names the argument."""
    try:
        out = np.array(value, dtype=float, order="C")
    except (TypeError, ValueError) as error:
        raise DimensionError(
            f"{name}: got {type(value).__name__}, expected numbers of shape {shape} ({error})"
        ) from error
    if out.shape != shape:
        raise DimensionError(f"{name}: got shape {out.shape}, expected {shape}")
    return out


def seconds(stamp: Any) -> float:
    """A stamp as a float, which may be NaN."""
    try:
        return float(stamp)
    except (TypeError, ValueError):
        raise ParameterError(f"stamp: got {stamp!r}, expected seconds as a number") from None


def positive(name: str, value: Any, *, least: float = 0.0) -> float:
    """A finite number above ``least``, or an error that names the parameter."""
    try:
        out = float(value)
    except (TypeError, ValueError):
        out = math.nan
    if not (math.isfinite(out) and out > least):
        raise ParameterError(f"{name}: got {value!r}, expected a number above {least:g}")
    return out


def pair(name: str, value: Any) -> tuple[float, float]:
    """Two positive numbers, linear and angular, from two or one."""
    parts = (value, value) if np.ndim(value) == 0 else tuple(value)
    if len(parts) != 2:
        raise ParameterError(f"{name}: got {value!r}, expected a number or two (linear, angular)")
    return positive(name, parts[0]), positive(name, parts[1])


def _history(history: Any) -> int:
    try:
        size = int(history)
    except (TypeError, ValueError, OverflowError):
        size = 0
    if size < SMALLEST_HISTORY:
        raise ParameterError(
            f"history: got {history!r}, expected at least {SMALLEST_HISTORY} events"
        )
    return 1 << (size - 1).bit_length()


def _flat_fluid(robot: Robot) -> Array:
    """Added mass, inertias with it, current and elements of the fluid, or nothing."""
    if not isinstance(robot, SubmergedRobot):
        return np.empty(0)
    parts = robot._added, robot.body_inertias, robot._current, robot._elements
    return np.concatenate([part.ravel() for part in parts])
