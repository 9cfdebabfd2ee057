# SPDX-License-Identifier: Apache-2.0
"""A joint motion that tells what is not known of a payload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.dynamics import hybrid_kernels
from vm_dynamics.dynamics.loads import NO_LOADS
from vm_dynamics.errors import ParameterError
from vm_dynamics.estimation.checks import positive
from vm_dynamics.identification._kernels import NUDGE
from vm_dynamics.identification.payload import PayloadIdentifier, PayloadUnknowns
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

HARMONICS = 5
PERIODS = (5.0, 15.0)  # [s], of the first of them: the last has at most 1 Hz
RAMP = 0.1  # part of the duration at either end in which the motion grows and fades
SHARE = 0.8  # of all limits that is used
UNLIMITED_REACH, UNLIMITED_SPEED = 1.0, 1.0  # where there are no limits [rad or m, per s]
GRID = 80  # times at which a motion is judged
SHRINK = 0.85  # of the amplitude, while efforts are beyond their limits
MOST_SHRINKS = 40
EFFORT_NOISE = 1e-3  # of efforts, in terms of their limits, for comparing motions


@dataclass(frozen=True)
class ExcitingMotion:
    """A sum of sines for each joint that begins and ends at rest at its centre.

    Attributes:
        center: positions where it begins and ends, shape (n,) [rad or m].
        amplitudes: of sines and cosines, shape (2, HARMONICS, n).
        frequency: of the first of them [rad/s].
        duration: [s].
    """

    center: Array
    amplitudes: Array
    frequency: float
    duration: float

    def __call__(self, t: float) -> tuple[Array, Array, Array]:
        """q, qd, qdd at a time [s], shape (n,) each; at rest before the beginning and the end."""
        q, qd, qdd = self.at(np.array([t]))
        return q[0], qd[0], qdd[0]

    def at(self, times: Array) -> tuple[Array, Array, Array]:
        """The same at many times, shape (m, n) each."""
        t = np.clip(times, 0.0, self.duration)[:, None]
        w = self.frequency * np.arange(1, HARMONICS + 1)
        sines, cosines = np.sin(t * w), np.cos(t * w)
        a, b = self.amplitudes
        y = sines @ a + cosines @ b
        yd = (w * cosines) @ a - (w * sines) @ b
        ydd = -((w**2 * sines) @ a) - (w**2 * cosines) @ b
        ramp = RAMP * self.duration
        s = np.minimum(1.0, np.minimum(t, self.duration - t) / ramp)
        back = np.where(t > 0.5 * self.duration, -1.0, 1.0)
        e = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
        ed = back * 30.0 * s**2 * (1.0 - s) ** 2 / ramp
        edd = 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / ramp**2
        qdd = e * ydd + 2.0 * ed * yd + edd * y
        return self.center + e * y, e * yd + ed * y, qdd

    def scaled(self, factor: Any) -> ExcitingMotion:
        """The same with other amplitudes, by a factor for all or for each joint."""
        return ExcitingMotion(self.center, self.amplitudes * factor, self.frequency, self.duration)


def exciting_motion(
    robot: Robot,
    link: str,
    *,
    duration: float = 30.0,
    identifier: PayloadIdentifier | None = None,
    heaviest: float = 0.0,
    start: ArrayLike | None = None,
    candidates: int = 30,
    seed: int = 0,
) -> ExcitingMotion:
    """A joint motion within the robot's limits that tells what is not known of a payload.

    Of random motions the one is taken that makes the volume of what stays unknown smallest. The
    base floats freely; in gravity, or in a fluid, it is held in place.

    Args:
        robot: the robot without the payload.
        link: name of the link that holds it.
        duration: [s].
        identifier: what is known already; nothing if None.
        heaviest: mass of a payload for which there shall be effort too [kg].
        start: positions where the motion begins and ends, shape (n,); chosen if None.
        candidates: how many motions are compared.
        seed: of their choice.

    Raises:
        UnknownLinkError: the robot has no such link.
        ParameterError: there is no such motion within the limits, or a robot without joints.
    """
    if robot.n == 0:
        raise ParameterError(f"robot: {robot.name!r} has no joints, expected at least one")
    seconds = positive("duration", duration)
    fixed = None if start is None else vector("start", start, robot.n)
    if not (np.isfinite(heaviest) and heaviest >= 0.0):
        raise ParameterError(f"heaviest: got {heaviest!r}, expected a mass not below 0 kg")
    count = int(positive("candidates", candidates, least=0.999))
    judge = _Judge(robot, link, identifier, heaviest)
    rng = np.random.default_rng(seed)
    best: tuple[float, ExcitingMotion] | None = None
    for _ in range(count):
        motion = judge.within_limits(_random(robot, seconds, fixed, rng))
        if motion is None:
            continue
        score = judge.score(motion)
        if best is None or score > best[0]:
            best = score, motion
    if best is None:
        raise ParameterError(
            f"robot: no motion of {robot.name!r} found within its limits of position and effort; "
            "try another start or a lighter payload"
        )
    return best[1]


def _ranges(robot: Robot) -> tuple[Array, Array]:
    """Lower and upper limits, finite ones."""
    low, high = robot.lower_limits, robot.upper_limits
    middle = np.where(np.isfinite(low), low + UNLIMITED_REACH, 0.0)
    middle = np.where(np.isfinite(high), high - UNLIMITED_REACH, middle)
    low = np.where(np.isfinite(low), low, middle - UNLIMITED_REACH)
    return low, np.where(np.isfinite(high), high, middle + UNLIMITED_REACH)


def _random(
    robot: Robot, duration: float, start: Array | None, rng: np.random.Generator
) -> ExcitingMotion:
    """A motion within the limits of positions and velocities."""
    low, high = _ranges(robot)
    center = low + rng.uniform(0.3, 0.7, robot.n) * (high - low) if start is None else start
    frequency = 2.0 * np.pi / rng.uniform(*PERIODS)
    amplitudes = (
        rng.normal(size=(2, HARMONICS, robot.n)) / np.sqrt(np.arange(1, HARMONICS + 1))[:, None]
    )
    motion = ExcitingMotion(center, amplitudes, float(frequency), duration)
    q, qd, _ = motion.at(np.linspace(0.0, duration, 20 * GRID))
    room = np.maximum(np.minimum(high - center, center - low), 0.0)
    speed = np.where(np.isfinite(robot.velocity_limits), robot.velocity_limits, UNLIMITED_SPEED)
    far, fast = abs(q - center).max(axis=0), abs(qd).max(axis=0)
    return motion.scaled(SHARE * np.minimum(room / far, speed / fast))


class _Judge:
    """Says what a motion needs and what it tells."""

    def __init__(
        self, robot: Robot, link: str, identifier: PayloadIdentifier | None, heaviest: float
    ) -> None:
        self._robot, b = robot, robot.b
        self._unknowns = PayloadUnknowns(robot, link, whole=False, friction=False)
        prior = self._unknowns.likely()
        theta, known = prior.mean, np.diag(prior.deviation**-2)
        if identifier is not None:
            theta, covariance = identifier.estimate
            known = np.linalg.inv(covariance)
        self._known, self._slope = known, self._unknowns.slope(theta)
        self._models = self._unknowns.models(self._unknowns.numbers(theta)).copy()
        self._loaded = [robot.packed, self._models[0]]
        if heaviest > 0.0:
            self._loaded[1] = robot.with_payload(link, heaviest, np.zeros(3)).packed
        self._held = bool(robot.gravity.any()) or robot.fluid is not None
        self._mask = np.zeros(b + robot.n)
        self._mask[:b] = 0.0 if self._held else 1.0
        limits = robot.effort_limits
        self._limits = np.where(limits > 0.0, limits, np.inf)
        finite = self._limits[np.isfinite(self._limits)]
        scale = finite.max() if len(finite) else 1.0
        noise = EFFORT_NOISE * np.where(np.isfinite(self._limits), self._limits, scale)
        self._weights = 1.0 / np.concatenate((np.full(b, EFFORT_NOISE * scale), noise))

    def _forces(self, model: Array, q: Array, qd: Array, qdd: Array) -> Array:
        """Forces on base and joints at a shape, shape (b + n,)."""
        robot, b = self._robot, self._robot.b
        V = np.zeros(b) if self._held else -robot.connection(q) @ qd
        acc, force = np.concatenate((np.zeros(b), qdd)), np.zeros(b + robot.n)
        hybrid_kernels.hybrid.checked(
            model, robot.added_mass, np.eye(4), q, V, qd, self._mask, acc, force, NO_LOADS
        )
        return force

    def _samples(self, motion: ExcitingMotion) -> Any:
        times = np.linspace(0.0, motion.duration, GRID)
        return zip(*motion.at(times), strict=True)

    def within_limits(self, motion: ExcitingMotion) -> ExcitingMotion | None:
        """The motion with amplitudes for which there is effort, or None."""
        b = self._robot.b
        for _ in range(MOST_SHRINKS):
            most = max(
                float((abs(self._forces(model, *x)[b:]) / self._limits).max())
                for model in self._loaded
                for x in self._samples(motion)
            )
            if most <= SHARE:
                return motion
            motion = motion.scaled(SHRINK)
        return None

    def score(self, motion: ExcitingMotion) -> float:
        """Logarithm of the determinant of the information that there is after it."""
        information = self._known.copy()
        for x in self._samples(motion):
            forces = np.array([self._forces(model, *x) for model in self._models])
            slope = (forces[1:] - forces[0]).T / NUDGE @ self._slope
            weighted = self._weights[:, None] * slope
            information += weighted.T @ weighted
        return float(np.linalg.slogdet(information)[1])
