# SPDX-License-Identifier: Apache-2.0
"""What the identifiers share: inputs with stamps, as the observers have them, and the learning."""

from __future__ import annotations

from math import isfinite
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import ParameterError
from vm_dynamics.estimation.checks import (
    deviations,
    gates,
    group_covariance,
    is_covariance,
    is_pose,
    numbers,
    pose_noise,
    positive,
    seconds,
)
from vm_dynamics.identification import _kernels
from vm_dynamics.identification.first_guess import FirstGuess
from vm_dynamics.identification.fitting import Prior
from vm_dynamics.identification.following import Follower, Noise, Pose, Unknowns, Window
from vm_dynamics.identification.record import Record
from vm_dynamics.identification.settling import best_fit, settle
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

# Durations of the record after which all of it is worked through again [s]: what is learnt from
# the first samples is learnt far from the truth, where the equations are other ones.
SETTLING = (1.0, 2.0)
# Samples that do not fit mean that the search went astray, or that the robot has changed. All of
# the record is worked through again if it is not longer than this [s], and given up if that does
# not help, or is of no use, because it was just done: it has to have grown by this factor.
MOST_KEPT = 20.0
GROWTH = 1.5
VAGUE, KNOWN = 0.1, 0.01  # parts of the prior's deviation
CALM = 5.0  # [s] that a new beginning has to fit, before it is trusted
LARGEST = 1e9  # of joint samples, beyond all that occurs in SI units
GATE = 0.9999  # probability of poses that are not rejected
START_TWIST = (1.0, 1.0)  # deviation of the base velocity to begin with [m/s, rad/s]
ROUGH_TWIST = (0.1, 0.1)  # of one guessed from the first poses


class IdentifierStatus(NamedTuple):
    """How it goes.

    Attributes:
        state: ``waiting`` for joints and a pose, ``learning``, or ``inconsistent``: nothing that
            could be learnt fits the motion, or did until a short time ago.
        misfit: normalised innovation squared by number, median of the last windows: 1 is right,
            much more means a wrong model, or more noise than told; NaN if not known.
        restarts: how often everything was forgotten because nothing fitted it.
        duration: of the motion that was worked through [s].
        used: poses that were.
        rejected: poses that did not fit.
        late: inputs that came too late.
        future: inputs too far ahead of the joints.
        repeated: joint samples that came twice.
        malformed: inputs that were no numbers, or no poses.
    """

    state: str
    misfit: float
    restarts: int
    duration: float
    used: int
    rejected: int
    late: int
    future: int
    repeated: int
    malformed: int


class Identifier:
    """Learns unknowns of a robot from joints, efforts, poses and known wrenches.

    Args:
        robot: what is known of the robot.
        unknowns: what is not.
        prior: of their coordinates.
        pose_deviation: standard deviations of a pose that comes without covariance: of its
            position [m] and attitude [rad].
        joint_position_deviation: standard deviation, one or n [rad or m].
        joint_velocity_deviation: the same of velocities.
        effort_deviation: the same of measured efforts, and of friction [N m or N].
        wrench_deviation: of the known wrench on the base, of its force [N] and moment [N m].
        window: time over which samples are gathered [s].
        delay: how late poses and wrenches may come [s].
        joints_timeout: the longest gap between joint samples that is bridged [s].

    Attributes:
        ASTRAY: misfit from which on something is wrong; 1 is right.
    """

    ASTRAY: ClassVar[float] = 3.0

    def __init__(
        self,
        robot: Robot,
        unknowns: Unknowns,
        prior: Prior,
        *,
        pose_deviation: Any = (5e-3, 5e-3),
        joint_position_deviation: Any = 1e-4,
        joint_velocity_deviation: Any = 5e-3,
        effort_deviation: Any = 0.02,
        wrench_deviation: Any = 0.01,
        window: float = 0.12,
        delay: float = 0.2,
        joints_timeout: float = 1.0,
    ) -> None:
        if robot.n == 0:
            raise ParameterError(f"robot: {robot.name!r} has no joints, expected at least one")
        self._model = robot
        pinv = robot.base_group.iota_pinv
        iota = robot.base_group.iota
        self._pose_covariance = group_covariance("pose_deviation", pose_deviation, pinv)
        wrench = group_covariance("wrench_deviation", wrench_deviation, iota.T)
        self._noise = Noise(
            deviations("joint_position_deviation", joint_position_deviation, robot.n),
            deviations("joint_velocity_deviation", joint_velocity_deviation, robot.n),
            deviations("effort_deviation", effort_deviation, robot.n),
            np.sqrt(np.diag(wrench)),
            np.sqrt(np.diag(group_covariance("twist", START_TWIST, pinv))),
            np.sqrt(np.diag(group_covariance("twist", ROUGH_TWIST, pinv))),
        )
        (gate,) = gates(GATE, (robot.b,))
        self._prior = prior
        self._follower = Follower(robot, unknowns, self._noise, gate)
        self._record = Record(
            robot.b,
            window=positive("window", window),
            delay=positive("delay", delay),
            gap=positive("joints_timeout", joints_timeout, least=window),
        )
        self._malformed = self._restarts = 0
        self._doubtful = 0.0  # until this duration it is not trusted [s]
        self._forget()
        _kernels.follow.compile()

    def _forget(self) -> None:
        self._kept: list[Window] = []
        self._duration, self._stage, self._next_look = 0.0, 0, 0.0
        self._settled = 0.0  # duration up to which all was worked through at once [s]
        self._theta, self._settled_sigma = self._prior.mean, self._prior.deviation
        self._found: tuple[Array, Array] | None = None

    # -- inputs ---------------------------------------------------------------------------------

    def joints(
        self, stamp: float, q: ArrayLike, qd: ArrayLike, effort: ArrayLike | None = None
    ) -> None:
        """A joint sample.

        Args:
            stamp: [s].
            q: positions in the order of ``robot.joint_names``, shape (n,) [rad or m].
            qd: velocities, shape (n,).
            effort: what the motors give from this stamp on until the next sample, shape (n,)
                [N m or N]; None where it is not measured.
        """
        t = stamp if type(stamp) is float else seconds(stamp)
        parts = (q, qd) if effort is None else (q, qd, effort)
        try:
            values = np.array(parts, dtype=float)
        except (TypeError, ValueError):
            values = np.empty(0)
        if values.shape != (len(parts), self._model.n):  # say which of them it is
            n = (self._model.n,)
            names = ("q", "qd", "effort")[: len(parts)]
            values = np.array([numbers(*x, n) for x in zip(names, parts, strict=True)])
        flat = values.ravel()
        if not (isfinite(t) and flat @ flat < LARGEST**2):  # quicker than to look at each
            self._malformed += 1
            return
        self._record.add_sample(t, values)
        if t >= self._record.due:
            for window in self._record.windows():
                self._learn(window)

    def pose(self, stamp: float, g: ArrayLike, covariance: Any = None) -> None:
        """A measured pose of the base.

        Args:
            stamp: when it was measured [s].
            g: pose of {1} in the world, shape (4, 4).
            covariance: of ``Log(g_hat^-1 g)`` in coordinates of the base group, shape (b, b), or
                of the twist's six, shape (6, 6); ``pose_deviation`` if None or all zero.
        """
        value, t = numbers("g", g, (4, 4)), seconds(stamp)
        pinv = self._model.base_group.iota_pinv
        noise = pose_noise(covariance, self._pose_covariance, pinv)
        if isfinite(t) and is_pose(value) and is_covariance(noise):
            factor = np.linalg.cholesky(noise)
            self._record.add_pose(Pose(t, value, factor, np.linalg.inv(factor)))
        else:
            self._malformed += 1

    def base_wrench(self, stamp: float, F: ArrayLike) -> None:
        """A known wrench on the base, from its stamp on until the next.

        Args:
            stamp: [s].
            F: in {1}, shape (b,) [N, N m].
        """
        value, t = numbers("F", F, (self._model.b,)), seconds(stamp)
        if isfinite(t) and value @ value < LARGEST**2:
            self._record.add_wrench(t, value)
        else:
            self._malformed += 1

    def reset(self) -> None:
        """Forget everything but the counters."""
        self._doubtful = 0.0
        self._begin_anew()

    # -- learning -------------------------------------------------------------------------------

    def _learn(self, window: Window) -> None:
        self._duration += window.stamps[-1] - window.stamps[0]
        self._found = None
        if self._duration <= MOST_KEPT:
            self._kept.append(window)
        else:
            self._kept = []
        if self._stage < len(SETTLING):
            if self._duration >= SETTLING[self._stage]:
                self._stage += 1
                self._settle(guess=self._stage == 1)
            return
        self._follower.step(window)
        if self._is_astray:
            self._find_back()
        elif self._duration >= self._next_look:
            self._look_again(knows_efforts=window.effort is not None)

    def _look_again(self, *, knows_efforts: bool) -> None:
        """Look at the equations near the present estimate.

        What came while something was vague that is known by now was looked at far from the truth,
        and is worked through again. Without efforts everything is learnt slowly.
        """
        sigma, wide = np.sqrt(np.diag(self.estimate[1])), self._prior.deviation
        learnt = (self._settled_sigma > VAGUE * wide) & (sigma < KNOWN * wide)
        if self._kept and (learnt.any() or not knows_efforts):
            self._settle(guess=False)
        else:
            self._next_look *= GROWTH
            self._follower.look(self._follower.unknowns.numbers(self.estimate[0]))

    def _settle(self, *, guess: bool) -> None:
        """Work through all that came, from a guess or from the last estimate."""
        if guess:
            first = FirstGuess(self._model, self._follower.unknowns, self._noise, self._kept)
            self._theta = first.search(self._prior)
            self._kept[0] = self._kept[0]._replace(twist=first.twist, start=None)
        self._theta = settle(self._follower, self._kept, self._prior, self._theta)
        self._settled, self._next_look = self._duration, GROWTH * self._duration
        self._found = None
        self._settled_sigma = np.sqrt(np.diag(self.estimate[1]))

    @property
    def _is_astray(self) -> bool:
        return not self._follower.is_alive or self._follower.misfit > self.ASTRAY

    def _find_back(self) -> None:
        """Look for an estimate that fits all that came, or else begin anew."""
        if self._kept and self._duration < GROWTH * self._settled:
            return
        if self._kept:
            self._settle(guess=True)
        if self._is_astray:
            self._restarts += 1
            self._begin_anew()
            self._doubtful = CALM

    def _begin_anew(self) -> None:
        self._record.clear()
        self._follower.lose()
        self._forget()

    @property
    def estimate(self) -> tuple[Array, Array]:
        """Coordinates of the unknowns, shape (p,), and their covariance, shape (p, p)."""
        if self._found is None:
            if self._stage == 0:
                return self._prior.mean, np.diag(self._prior.deviation**2)
            self._found = best_fit(self._follower, self._prior, self._theta)
            self._theta = self._found[0]
        return self._found

    @property
    def status(self) -> IdentifierStatus:
        """State, duration and counters."""
        record, follower = self._record, self._follower
        state = "learning" if follower.is_alive else "waiting"
        if self._duration < self._doubtful or follower.misfit > self.ASTRAY:
            state = "inconsistent"
        return IdentifierStatus(
            state,
            follower.misfit,
            self._restarts,
            self._duration,
            follower.used,
            follower.rejected,
            record.late,
            record.future,
            record.repeated,
            self._malformed,
        )
