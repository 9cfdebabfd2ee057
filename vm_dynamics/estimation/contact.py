# SPDX-License-Identifier: Apache-2.0
"""Observes contacts: whether something pushes the robot, where, and by which wrench.

A push is a force on the momentum of the shape that no motor gives. What noise, friction and wrong
masses may give is known as a covariance, which learns while nothing pushes; beyond it is contact.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.compiled import REFUSED
from vm_dynamics.errors import ParameterError
from vm_dynamics.estimation.checks import (
    deviations,
    gates,
    is_moderate,
    numbers,
    positive,
    seconds,
)
from vm_dynamics.estimation.contact_links import PushedLinks
from vm_dynamics.estimation.contact_model import Inputs, ShapeModel, ShapeMotion
from vm_dynamics.estimation.contact_residual import PATIENT, QUICK, Residuals
from vm_dynamics.estimation.contact_velocities import JointVelocities
from vm_dynamics.estimation.history import CLOCK_PATIENCE
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

CONFIDENCE = 1.0 - 1e-5  # that noise alone stays below the threshold, each time
SETTLING = 0.3  # [s] after a start in which nothing is reported
SHARES_PERIOD = 0.02  # [s], how often the bodies' shares are worked out,
LOOK_PERIOD = 0.008  # how often at most the residual is looked at,
FIT_PERIOD = 0.01  # how often the link and the wrench,
LEARNING_PERIOD = 0.2  # and how often the masses learn
RELEASE = 0.1  # [s] below half the threshold, after which a contact is over
EXCESS_MEMORY = 5.0  # [s] over which residuals are compared with what was expected of them
MASS_MEMORY = 60.0  # [s] after which masses could have become as uncertain as at first
MOST_MASS_ERROR = 3.0  # deviations: what is farther off is no error of a mass
MOMENTUM_MEMORY = 0.2  # [s] in which a jump of the locked velocity is forgotten


@dataclass(frozen=True)
class Contact:
    """A contact.

    Attributes:
        link: the likeliest link.
        wrench: on that link, [f; t] in its frame, at its origin, shape (6,) [N, N m]; what the
            joints cannot feel is zero.
        covariance: of the wrench, shape (6, 6), large where the joints feel nothing.
        links: all links that the residual cannot tell apart, the likeliest first.
        since: stamp at which it was found [s].
        stamp: of the sample that this says [s].
        residual: force on the shape behind it, shape (n,) [N m or N].
        statistic: the residual squared in units of its covariance.
        threshold: that the statistic was compared with.
    """

    link: str
    wrench: Array
    covariance: Array
    links: tuple[str, ...]
    since: float
    stamp: float
    residual: Array
    statistic: float
    threshold: float


@dataclass(frozen=True)
class ContactStatus:
    """How a contact observer is doing.

    Attributes:
        settled: whether it has seen enough since its start to report contacts.
        stamp: of the last sample [s], zero before the first.
        contacts: how many there were.
        restarts: how often it began anew because samples were missing or beyond reason, or the
            clock jumped.
        late: samples from before the last one.
        repeated: samples with the stamp of the last one.
        malformed: samples with NaN, infinity or numbers beyond 1e12, or a matrix that is no pose.
    """

    settled: bool
    stamp: float
    contacts: int
    restarts: int
    late: int
    repeated: int
    malformed: int


class ContactObserver:
    """Finds contacts from joints, efforts, and the base's motion as an observer has it.

    Wrong shapes raise; samples that are no numbers, late or repeated are counted and ignored.

    Args:
        robot: the robot, with its friction in the URDF; on any base group.
        mass_uncertainty: by which part the mass of a body may be wrong, as a deviation. The error
            of each is learnt while nothing pushes, and the threshold falls as it is.
        joint_velocity_deviation: noise of the joints' velocities to begin with, one number or one
            for each joint [rad/s or m/s]; it is estimated from then on.
        joints_timeout: the longest gap between samples that is bridged [s].

    Raises:
        ParameterError: a parameter is no positive number, or the robot has no joints.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        mass_uncertainty: float = 0.05,
        joint_velocity_deviation: Any = 5e-3,
        joints_timeout: float = 0.1,
    ) -> None:
        if robot.n == 0:
            raise ParameterError("robot: has no joints, expected one at least to feel a push with")
        self.robot = robot
        noise = deviations("joint_velocity_deviation", joint_velocity_deviation, robot.n)
        self._given = noise**2
        self._uncertainty = positive("mass_uncertainty", mass_uncertainty)
        self._timeout = positive("joints_timeout", joints_timeout)
        self._still, self._level = np.zeros(robot.b), np.eye(4)
        self._model, self._links = ShapeModel(robot), PushedLinks(robot)
        self._gate = gates(CONFIDENCE, (robot.n,))[0]
        self._contacts = self._restarts = self._late = self._repeated = self._malformed = 0
        self._rehearse()
        self.reset()

    def _rehearse(self) -> None:
        """Call what a sample calls, so that all is compiled before the first one."""
        n, rest = self.robot.n, np.zeros(self.robot.n)
        x = Inputs(rest, rest, rest, self._still, self._level, self._still)
        motion = self._model.motion(x)
        self._model.shares(x, motion, rest)
        self._links.fit(rest, motion.A, np.ones(n), np.eye(n))

    def reset(self) -> None:
        """Forget everything but the counters."""
        bodies = len(self.robot.tree.inertias)
        self._velocities = JointVelocities(self._given)
        self._mass_errors = np.zeros(bodies)
        self._mass_covariance = self._uncertainty**2 * np.eye(bodies)
        self._excess = 1.0
        self._stamp: float | None = None
        self._strange = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget the residual and the contact, not what was learnt."""
        self._residuals: Residuals | None = None
        self._contact: Contact | None = None
        self._residual, self._statistic = np.zeros(self.robot.n), 0.0
        # when it began, and when its parts were last or are next due [s]
        self._began = self._looked = self._look_at = self._learnt = self._over = 0.0
        self._shares_at = self._fit_at = 0.0

    # -- inputs ---------------------------------------------------------------------------------

    def step(
        self,
        stamp: float,
        q: ArrayLike,
        qd: ArrayLike,
        effort: ArrayLike,
        mu: ArrayLike,
        g: ArrayLike | None = None,
        base_wrench: ArrayLike | None = None,
    ) -> tuple[Array, Contact | None]:
        """A joint sample.

        Args:
            stamp: [s].
            q: positions in the order of ``robot.joint_names``, shape (n,) [rad or m].
            qd: velocities, shape (n,).
            effort: of the motors since the last sample, shape (n,) [N m or N]; the friction of
                the URDF comes on top.
            mu: locked velocity in {1} at the time of the sample, shape (b,), as
                ``observer.locked_velocity`` has it.
            g: pose of {1} in the world, shape (4, 4); needed with gravity or a fluid only.
            base_wrench: known wrench on {1}, such as that of thrusters, shape (b,); zero if None.

        Returns:
            The residual, force on the shape from outside, shape (n,) [N m or N], and the contact,
            or None if there is none.

        Raises:
            DimensionError: an argument has another shape.
            ParameterError: there is no pose and the robot has weight, or the stamp is no number.
        """
        robot = self.robot
        x = Inputs(
            numbers("q", q, (robot.n,)),
            numbers("qd", qd, (robot.n,)),
            numbers("effort", effort, (robot.n,)),
            numbers("mu", mu, (robot.b,)),
            self._pose(g),
            self._still
            if base_wrench is None
            else numbers("base_wrench", base_wrench, (robot.b,)),
        )
        t = seconds(stamp)
        if not (isfinite(t) and is_moderate(np.concatenate((*x[:4], x.wrench)))):
            self._malformed += 1
        elif self._keeps_time(t):
            self._take(t, x)
        return self.residual, self._contact

    def _pose(self, g: ArrayLike | None) -> Array:
        if not self._model.needs_pose:
            return self._level
        if g is None:
            raise ParameterError(
                "g: got None, expected the pose of the base: the robot has weight or floats"
            )
        return numbers("g", g, (4, 4))

    def _keeps_time(self, t: float) -> bool:
        """Whether a sample is new; if many in a row are not, a new clock begins."""
        last = self._stamp
        if last is None or t > last:
            self._strange = 0
            return True
        if t == last:
            self._repeated += 1
            return False
        self._late += 1
        self._strange += 1
        return self._strange >= CLOCK_PATIENCE

    def _take(self, t: float, x: Inputs) -> None:
        dt = 0.0 if self._stamp is None else t - self._stamp
        if self._residuals is not None and not 0.0 < dt <= self._timeout:
            self._restarts += 1
            self._strange = 0
            self._begin_anew()
        if self._residuals is None:
            self._velocities.start(x.q, x.qd)
        else:
            x = x._replace(qd=self._velocities.take(x.q, x.qd, dt))
        self._stamp = t
        try:
            motion = self._model.motion(x)
        except REFUSED:  # all but the pose was looked at before
            self._malformed += 1
            self._begin_anew()
            return
        if self._residuals is None:
            self._start(t, x, motion)
            return
        self._residuals.follow(motion, dt)
        self._mu += min(dt / MOMENTUM_MEMORY, 1.0) * (x.mu - self._mu)
        if t >= self._look_at:
            self._look(t, x, motion, self._residuals)
            self._look_at = t + LOOK_PERIOD - 0.5 * dt

    def _start(self, t: float, x: Inputs, motion: ShapeMotion) -> None:
        self._mu = x.mu.copy()
        self._shares = self._model.shares(x, motion, self._residual)
        self._residuals = Residuals(motion, self._shares, self._doubts(x, motion))
        self._began = self._looked = self._look_at = self._learnt = self._over = t
        self._shares_at = self._fit_at = t

    # -- the residual -----------------------------------------------------------------------------

    def _doubts(self, x: Inputs, motion: ShapeMotion) -> Array:
        """Deviation of the forces by friction and by a locked velocity that jumps, shape (n,)."""
        size = np.sqrt(x.mu @ x.mu)
        jump = x.mu - self._mu
        share = 2.0 * np.sqrt(jump @ jump) / size if size > 0.0 else 0.0
        return self._model.friction_deviation(x.qd) + share * abs(motion.gyroscopic)

    def _look(self, t: float, x: Inputs, motion: ShapeMotion, residuals: Residuals) -> None:
        """Compare the residual with what is expected of it."""
        elapsed, self._looked = t - self._looked, t
        if t >= self._shares_at:
            self._shares = self._model.shares(x, motion, residuals.r[QUICK])
            self._shares_at = t + SHARES_PERIOD - 0.5 * elapsed
        residuals.doubt(self._shares, self._doubts(x, motion))
        # what the masses that were learnt explain is no residual
        r = residuals.r - self._mass_errors @ residuals.shares
        noise = motion.inertia * np.sqrt(self._velocities.variances)
        R = residuals.gains[:, None, None] * (noise @ noise.T)
        diagonal = np.arange(self.robot.n)
        R[:, diagonal, diagonal] += np.square(residuals.doubts)
        shares = residuals.shares
        S = R + np.swapaxes(shares, 1, 2) @ self._mass_covariance @ shares
        change = r[QUICK] - r[PATIENT]
        forces = np.array((*r, change))
        found = np.linalg.solve(np.array((*S, R[QUICK])), forces[:, :, None])[:, :, 0]
        quick, patient, changed = (found * forces).sum(axis=1).tolist()
        if not isfinite(quick + patient + changed):  # a sample beyond all reason
            self._restarts += 1
            self._begin_anew()
            return
        self._residual, self._statistic = r[PATIENT], max(quick, patient)
        if t - self._began < SETTLING:
            return
        if changed > self.threshold:
            residuals.hurry()
            self._residual, S[PATIENT] = r[QUICK], S[QUICK]
        if self._decide(t):
            self._touch(t, x, motion, S[PATIENT])
        elif self._contact is None:
            self._excess += min(elapsed / EXCESS_MEMORY, 1.0) * (
                self._statistic / self.robot.n - self._excess
            )
            if t >= self._learnt + LEARNING_PERIOD:
                self._learnt = t
                self._learn_masses(self._residual, S[PATIENT], shares[PATIENT])

    def _decide(self, t: float) -> bool:
        """Whether there is contact now; ends one that is over."""
        if self._statistic > self.threshold:
            self._over = t + RELEASE
            return True
        if self._contact is None:
            return False
        if self._statistic > 0.5 * self.threshold:
            self._over = t + RELEASE
        if t < self._over:
            return True
        self._contact = None
        self._learnt = t  # what is left of the push is no error of a mass
        return False

    def _touch(self, t: float, x: Inputs, motion: ShapeMotion, covariance: Array) -> None:
        """Say where the contact is."""
        before = self._contact
        if before is None:
            self._contacts += 1
        elif t < self._fit_at:
            return
        self._fit_at = t + FIT_PERIOD
        links, wrench, spread = self._links.fit(x.q, motion.A, self._residual, covariance)
        self._contact = Contact(
            links[0],
            wrench,
            spread,
            links,
            t if before is None else before.since,
            t,
            self._residual.copy(),
            self._statistic,
            self.threshold,
        )

    # -- learning ---------------------------------------------------------------------------------

    def _learn_masses(self, r: Array, S: Array, shares: Array) -> None:
        """A step of a Kalman filter for the relative errors of the bodies' masses."""
        P = self._mass_covariance
        K = np.linalg.solve(S, shares.T @ P).T
        most = MOST_MASS_ERROR * self._uncertainty
        self._mass_errors = np.clip(self._mass_errors + K @ r, -most, most)
        P = P - K @ (shares.T @ P)
        P = 0.5 * (P + P.T)
        at = np.arange(len(P))
        drift = self._uncertainty**2 * LEARNING_PERIOD / MASS_MEMORY
        P[at, at] = np.minimum(P[at, at] + drift, self._uncertainty**2)
        self._mass_covariance = P

    # -- what it says -----------------------------------------------------------------------------

    @property
    def contact(self) -> Contact | None:
        """The contact at the last sample, if there is one."""
        return self._contact

    @property
    def residual(self) -> Array:
        """Force on the shape from outside, shape (n,) [N m or N]."""
        return self._residual.copy()

    @property
    def statistic(self) -> float:
        """The residual squared in units of its covariance: n or less while nothing pushes."""
        return self._statistic

    @property
    def threshold(self) -> float:
        """Statistic from which on there is contact."""
        return self._gate * max(1.0, self._excess)

    @property
    def joint_velocity_deviation(self) -> Array:
        """Estimated noise of the joints' velocities that are used, shape (n,) [rad/s or m/s]."""
        return np.sqrt(self._velocities.variances)

    @property
    def mass_errors(self) -> dict[str, float]:
        """By which part the mass of each body seems to be off: 0.05 for one 5 % heavier.

        Each body by its first link. Only what the motion so far tells is in it.
        """
        return dict(zip(self._links.names, self._mass_errors.tolist(), strict=True))

    @property
    def status(self) -> ContactStatus:
        """Counters."""
        running = self._residuals is not None and self._stamp is not None
        return ContactStatus(
            running and self._looked - self._began >= SETTLING,
            0.0 if self._stamp is None else self._stamp,
            self._contacts,
            self._restarts,
            self._late,
            self._repeated,
            self._malformed,
        )
