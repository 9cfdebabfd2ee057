# SPDX-License-Identifier: Apache-2.0
"""What all observers share: inputs with stamps, estimates, status, and the history behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import ceil, isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.compiled import REFUSED, EntryPoint
from vm_dynamics.errors import ParameterError
from vm_dynamics.estimation.checks import (
    group_covariance,
    is_covariance,
    is_moderate,
    is_pose,
    numbers,
    pose_noise,
    positive,
    seconds,
)
from vm_dynamics.estimation.estimate import (
    NO_WRENCH,
    Estimate,
    Measurement,
    Status,
    is_reasonable,
)
from vm_dynamics.estimation.history import JOINTS, Event, History, Kind, Verdict
from vm_dynamics.estimation.motion import Motion
from vm_dynamics.estimation.shape import Shape, Shapes
from vm_dynamics.lie import kernels as lie_kernels
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

WAITING, TRACKING, COASTING, INCONSISTENT = "waiting", "tracking", "coasting", "inconsistent"
SMALLEST_HISTORY = 8
MAX_STEP = 0.02  # [s], of the motion between samples
ROUNDING = 1e-9  # [s], of stamps that count seconds since 1970


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

    _centroidal = True  # momenta about the centre of mass
    _rates = False  # P = dM_b/dt

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
        self._shapes = Shapes(robot, centroidal=self._centroidal, rates=self._rates)
        self._motion = Motion(robot, self._shapes)
        self._iota, self._pinv = self._shapes.iota, self._shapes.pinv
        self._middle, self._now = self._shapes.room(), self._shapes.room()
        self._mu_0: Array = np.zeros(robot.b)
        if start_velocity is not None:
            self._mu_0 = vector("start_velocity", start_velocity, robot.b)
        self._pose_covariance = self.coordinates("pose_deviation", pose_deviation)
        self.nothing = Estimate(
            False, np.eye(4), np.zeros(6), NO_WRENCH, np.zeros((2, 6)), 0.0, 0.0, 0.0, None
        )
        self._history: History[Estimate] = History(
            self,
            _power_of_two(history),
            lead=positive("future_tolerance", future_tolerance),
            gap=positive("joints_timeout", joints_timeout),
        )
        for entry in self._entries():
            entry.compile()

    def _entries(self) -> list[EntryPoint]:
        """What is called at run time, and must be compiled before."""
        return [*self._shapes.entries, lie_kernels.exp, lie_kernels.log]

    def coordinates(self, name: str, deviation: Any) -> Array:
        """Covariance in coordinates of the base group, shape (b, b).

        Args:
            name: of the parameter, for an error's message.
            deviation: standard deviation, one number for all directions, or two, of the linear
                and the angular ones.
        """
        return group_covariance(name, deviation, self.robot.base_group.iota_pinv)

    # -- inputs ---------------------------------------------------------------------------------

    def joints(self, stamp: float, q: ArrayLike, qd: ArrayLike) -> None:
        """A joint sample.

        Args:
            stamp: [s].
            q: positions in the order of ``robot.joint_names``, shape (n,) [rad or m].
            qd: velocities, shape (n,).
        """
        try:
            sample = self._shapes.sample(q, qd)
        except REFUSED:
            q, qd = numbers("q", q, (self.robot.n,)), numbers("qd", qd, (self.robot.n,))
            sample = self._shapes.sample(q, qd) if is_moderate(q) else None
        self._add(stamp, JOINTS, sample)

    def pose(self, stamp: float, g: ArrayLike, covariance: Any = None) -> None:
        """A measured pose of the base.

        Args:
            stamp: when it was measured [s], however late it comes.
            g: pose of {1} in the world, shape (4, 4).
            covariance: of ``Log(g_hat^-1 g)`` in coordinates of the base group, shape (b, b), or
                of the twist's six, shape (6, 6); ``pose_deviation`` if None or all zero.
        """
        value = numbers("g", g, (4, 4))
        noise = pose_noise(covariance, self._pose_covariance, self._pinv)
        is_good = is_pose(value) and is_covariance(noise)
        self._add(stamp, Kind.POSE, Measurement(value, noise) if is_good else None)

    def base_wrench(self, stamp: float, F: ArrayLike) -> None:
        """A known wrench on the base, from its stamp on until the next.

        Args:
            stamp: [s].
            F: in {1}, shape (b,) [N, N m].
        """
        value = numbers("F", F, (self.robot.b,))
        self._add(stamp, Kind.WRENCH, self._pinv.T @ value if is_moderate(value) else None)

    def reset(self) -> None:
        """Forget everything but the counters, and wait for a pose to begin with."""
        self._history.clear()

    def take_over(self, former: Observer) -> bool:
        """Go on from an observer of the same robot with other inertias, as with a payload.

        Pose and twist of the base are the former's, and so is how certain they are.

        Args:
            former: of a robot with the same joints on the same base group.

        Returns:
            Whether it had an estimate; if not, this one waits for a pose.
        """
        newest = former._newest()
        if newest is None:
            return False
        q, qd, stamp = newest[1].q.copy(), newest[1].qd.copy(), former.status.stamp
        covariance, b = former.covariance, self.robot.b
        self.reset()
        start = self._mu_0
        self._mu_0 = former.twist + self.robot.connection(q) @ qd
        self.joints(stamp, q, qd)
        self.pose(stamp, former.base_pose, None if covariance is None else covariance[:b, :b])
        self._mu_0 = start
        # what comes later must not begin it anew, nor what was measured before
        self._history.forget_past()
        return True

    def _add(self, stamp: Any, kind: Kind, data: Any) -> None:
        """Hand an event to the history, or count it as malformed if there are no data."""
        t = stamp if type(stamp) is float else seconds(stamp)
        if data is None or not isfinite(t):
            self._history.malformed += 1
        else:
            self._history.add(t, kind, data)

    # -- steps of the observer, for the history ---------------------------------------------------

    @abstractmethod
    def _predict(self, estimate: Estimate, shape: Shape, dt: float) -> tuple[Array, Array] | None:
        """Pose and momentum after a step, the joint data those of its middle; None if lost."""

    @abstractmethod
    def _begin(self, estimate: Estimate, t: float, pose: Measurement, shape: Shape) -> Estimate:
        """The estimate that begins with a pose."""

    @abstractmethod
    def _correct_with_pose(
        self, estimate: Estimate, t: float, pose: Measurement, shape: Shape
    ) -> tuple[Estimate, Verdict]:
        """The estimate corrected by a pose at its time, and what became of the pose."""

    def _follow(
        self, estimate: Estimate, t: float, left: Event | None, right: Event | None
    ) -> Estimate:
        """The estimate with all that moves beside pose and momentum brought up to time t."""
        return estimate

    def _load(self, estimate: Estimate, known: Array) -> Estimate:
        """The estimate with another known wrench, shape (6,)."""
        return estimate._replace(known=known, wrenches=np.array((known, np.zeros(6))))

    def _correct_with_reading(
        self, estimate: Estimate, event: Event[Estimate], shape: Shape
    ) -> tuple[Estimate, Verdict]:
        """The estimate corrected by a gyroscope or a velocity, for those who take them."""
        raise NotImplementedError

    def at_joints(self, estimate: Estimate) -> Estimate:
        """The estimate at a joint sample."""
        return estimate

    def lose(self, estimate: Estimate) -> Estimate:
        """The estimate that waits for a pose to begin anew."""
        return estimate._replace(alive=False)

    def advance(
        self, estimate: Estimate, t0: float, t1: float, left: Event | None, right: Event | None
    ) -> Estimate:
        """Carry an estimate from t0 to t1, the joints moving from one sample to the next."""
        spacing = estimate.spacing
        if left is not None and right is not None:
            spacing = right.stamp - left.stamp
        dt, steps = t1 - t0, 1
        if dt <= 0.0:
            return estimate._replace(spacing=spacing)
        if dt > MAX_STEP:
            steps = ceil(dt / MAX_STEP - ROUNDING)
            dt /= steps
        for i in range(steps):
            t = t0 + (i + 1) * dt
            shape = self._shapes.between(left, right, t - 0.5 * dt, self._middle)
            moved = self._predict(estimate, shape, dt)
            if moved is None:
                return self.lose(estimate)
            g, m = moved
            _, _, _, known, wrenches, _, t_pose, nis, memory = estimate  # faster than _replace
            estimate = Estimate(True, g, m, known, wrenches, spacing, t_pose, nis, memory)
            estimate = self._follow(estimate, t, left, right)
            if not estimate.alive:
                break
        return estimate

    def take(
        self, estimate: Estimate, event: Event, left: Event | None, right: Event | None
    ) -> tuple[Estimate, Verdict]:
        """Take in what came."""
        kind = event.kind
        if kind is Kind.WRENCH:
            return self._load(estimate, event.data), Verdict.NOTHING
        if left is None and right is None:
            return estimate, Verdict.NOTHING
        t, verdict = event.stamp, Verdict.NOTHING
        shape = self._shapes.between(left, right, t, self._now)
        if not estimate.alive:
            if kind is Kind.POSE:
                return self._begin(estimate, t, event.data, shape), Verdict.STARTED
            return estimate, verdict
        if kind is Kind.POSE:
            estimate, verdict = self._correct_with_pose(estimate, t, event.data, shape)
        else:
            estimate, verdict = self._correct_with_reading(estimate, event, shape)
        if not is_reasonable(estimate.g, estimate.m, estimate.wrenches):
            estimate = self.lose(estimate)
        return estimate, verdict

    def _begun(self, estimate: Estimate, t: float, g: Array, m: Array, memory: Any) -> Estimate:
        return estimate._replace(alive=True, g=g, m=m, t_pose=t, nis=0.0, memory=memory)

    def _pose_error(self, g: Array, measured: Array) -> Array:
        """Pose error e = iota^+ Log(g^-1 g_m), shape (b,)."""
        return self._pinv @ se3.log(se3.inverse(g) @ measured)

    # -- estimates ------------------------------------------------------------------------------

    def _newest(self) -> tuple[Estimate, Shape] | None:
        """The newest estimate with the newest joint sample, if there is one that is alive."""
        history = self._history
        joints = history.newest_joints()
        if joints is None or not history.events[-1].estimate.alive:
            return None
        self._now.numbers[:] = joints.data
        return history.events[-1].estimate, self._now

    @abstractmethod
    def _locked_velocity(self, estimate: Estimate, shape: Shape) -> Array:
        """Mu of an estimate, shape (b,)."""

    @property
    def base_pose(self) -> Array:
        """Pose of {1} in the world, shape (4, 4)."""
        newest = self._newest()
        return np.eye(4) if newest is None else newest[0].g.copy()

    @property
    def twist(self) -> Array:
        """Velocity V of the base in {1}, shape (b,)."""
        newest = self._newest()
        if newest is None:
            return np.zeros(self.robot.b)
        return self._locked_velocity(*newest) - self._pinv @ newest[1].xi

    @property
    def locked_velocity(self) -> Array:
        """Locked velocity mu = V + A qd in {1}, shape (b,)."""
        newest = self._newest()
        return np.zeros(self.robot.b) if newest is None else self._locked_velocity(*newest)

    @property
    def momentum(self) -> Array:
        """Momentum h = M_b mu in {1}, shape (b,)."""
        newest = self._newest()
        if newest is None:
            return np.zeros(self.robot.b)
        return newest[1].M_b @ self._locked_velocity(*newest)

    @property
    def covariance(self) -> Array | None:
        """Covariance of (pose error, twist error), shape (2b, 2b), or None where there is none."""
        return None

    @property
    def locked_velocity_covariance(self) -> Array | None:
        """Covariance of ``locked_velocity``, shape (b, b), or None where there is none."""
        return None

    @property
    def nis(self) -> float:
        """Normalised innovation squared of the last pose, rejected ones included.

        Without covariance, the squared error in units of the pose's own noise.
        """
        events = self._history.events
        return events[-1].estimate.nis if events else 0.0

    @property
    def windowed_nis(self) -> float:
        """Mean NIS of late by degrees of freedom: one is right, and zero says that none is kept.

        It is that of the kind of measurement, pose or reading, for which it is largest.
        """
        return 0.0

    def _doubts(self, estimate: Estimate) -> str:
        """What speaks against an estimate, in words."""
        return ""

    @property
    def status(self) -> Status:
        """State, stamp and counters."""
        history, state, stamp, doubts = self._history, WAITING, 0.0, ""
        if history.events:
            stamp = history.events[-1].stamp
            if self._newest() is not None:
                estimate = history.events[-1].estimate
                doubts = self._doubts(estimate)
                if stamp - estimate.t_pose > self.pose_timeout:
                    state = COASTING
                else:
                    state = INCONSISTENT if doubts else TRACKING
        started = history.verdicts[Verdict.STARTED]
        return Status(
            state,
            stamp,
            used=history.verdicts[Verdict.USED] + started,
            rejected=history.verdicts[Verdict.REJECTED],
            late=history.late,
            future=history.future,
            repeated=history.repeated,
            malformed=history.malformed,
            reinitialisations=max(0, started - 1),
            doubts=doubts,
        )


def _power_of_two(history: Any) -> int:
    try:
        size = int(history)
    except (TypeError, ValueError, OverflowError):
        size = 0
    if size < SMALLEST_HISTORY:
        raise ParameterError(
            f"history: got {history!r}, expected at least {SMALLEST_HISTORY} events"
        )
    return 1 << (size - 1).bit_length()
