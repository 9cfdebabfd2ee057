# SPDX-License-Identifier: Apache-2.0
"""Dry and viscous friction of every joint, from efforts and how the robot moves."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from vm_dynamics.dynamics.loads import STICTION_SPEED
from vm_dynamics.identification.fitting import Prior
from vm_dynamics.identification.identifier import Identifier
from vm_dynamics.identification.payload import UNLEARNT
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

LIKELY_FRICTION = 0.01  # of the effort limit, where the robot has none
LIKELY_EFFORT = 10.0  # [N m or N], where it has no limit either
LOG_DEVIATION = 1.5  # of the logarithms: a factor of 4.5


class FrictionIdentifier(Identifier):
    """Learns ``-d qd - f tanh(qd / v_s)`` of every joint, v_s = 0.01 rad/s, from motor efforts.

    Inertias count as known: learn a payload first. It takes the same inputs as
    :class:`PayloadIdentifier`, of which joint samples without efforts tell it nothing.

    Args:
        robot: the robot; damping and friction of its joints are where it begins.
        options: those of every :class:`~vm_dynamics.identification.identifier.Identifier`.

    Raises:
        ParameterError: a parameter that has no meaning, or a robot without joints.
    """

    # Dry friction jumps within a window where joints turn round: misfits of 4 are usual.
    ASTRAY: ClassVar[float] = 10.0

    def __init__(self, robot: Robot, **options: Any) -> None:
        unknowns = FrictionUnknowns(robot)
        super().__init__(robot, unknowns, unknowns.likely(), **options)

    @property
    def damping(self) -> Array:
        """Viscous friction, shape (n,) [N m s/rad or N s/m]."""
        return np.exp(self.estimate[0][: self._model.n])

    @property
    def friction(self) -> Array:
        """Dry friction, shape (n,) [N m or N]."""
        return np.exp(self.estimate[0][self._model.n :])

    @property
    def covariance(self) -> Array:
        """Of damping, then friction, shape (2n, 2n)."""
        theta, covariance = self.estimate
        return np.exp(theta)[:, None] * covariance * np.exp(theta)

    @property
    def unexcited(self) -> tuple[str, ...]:
        """What the motion so far cannot tell: ``damping of <joint>``, ``friction of <joint>``."""
        joints = self._model.joint_names
        names = [f"{what} of {joint}" for what in ("damping", "friction") for joint in joints]
        unlearnt = np.sqrt(np.diag(self.estimate[1])) > UNLEARNT * self._prior.deviation
        return tuple(name for name, is_so in zip(names, unlearnt, strict=True) if is_so)

    @property
    def robot(self) -> Robot:
        """The robot with what was learnt."""
        return self._model.with_friction(self.damping, self.friction)


class FrictionUnknowns:
    """Damping and dry friction of n joints; their logarithms are the coordinates."""

    rubs = True

    def __init__(self, robot: Robot) -> None:
        self._robot = robot

    def likely(self) -> Prior:
        """Coordinates before anything is known."""
        robot = self._robot
        effort = np.where(np.isfinite(robot.effort_limits), robot.effort_limits, LIKELY_EFFORT)
        guess = LIKELY_FRICTION * np.where(effort > 0.0, effort, LIKELY_EFFORT)
        damping = np.where(robot.damping > 0.0, robot.damping, guess)
        friction = np.where(robot.friction > 0.0, robot.friction, guess)
        theta = np.log(np.concatenate((damping, friction)))
        return Prior(theta, np.full(len(theta), LOG_DEVIATION))

    def numbers(self, theta: Array) -> Array:
        """Damping and friction, shape (2n,)."""
        return np.exp(theta)

    def slope(self, theta: Array) -> Array:
        """Derivative of the numbers by the coordinates, shape (2n, 2n)."""
        return np.diag(np.exp(theta))

    def models(self, numbers: Array) -> Array:
        """The packed model, which friction does not change, shape (1, ., .)."""
        return self._robot.packed[None]

    def friction(self, numbers: Array, qd: Array) -> Array:
        """Efforts of friction at velocities, shape (L, n) both."""
        n = self._robot.n
        return -numbers[:n] * qd - numbers[n:] * np.tanh(qd / STICTION_SPEED)

    def friction_slopes(self, qd: Array) -> Array:
        """Mean derivative of :meth:`friction` by the numbers over a window, shape (2n, n)."""
        dry = np.tanh(qd / STICTION_SPEED).mean(axis=0)
        return -np.concatenate((np.diag(qd.mean(axis=0)), np.diag(dry)))
