# SPDX-License-Identifier: Apache-2.0
"""Mass, centre of mass and inertia of what hangs at a link, from how the robot moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from vm_dynamics.dynamics.loads import STICTION_SPEED
from vm_dynamics.identification import pseudo_inertia as body
from vm_dynamics.identification._kernels import NUDGE
from vm_dynamics.identification.fitting import Prior
from vm_dynamics.identification.identifier import Identifier
from vm_dynamics.lie import group
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model import table
from vm_dynamics.model.inertia import Inertia, combine
from vm_dynamics.robot import Robot

# What is taken for likely before anything came, in terms of the robot's mass and size.
LIKELY_MASS = 0.1  # of the robot
LIKELY_GYRATION = 0.2  # radius of gyration, of the robot's
# Deviations of half the logarithm of the mass (a factor of 20) and of that of lengths (2.7).
MASS_DEVIATION, LENGTH_DEVIATION = 1.5, 1.0
# A coordinate whose deviation is still this part of the one before has not been learnt.
UNLEARNT = 0.3
_NUDGES = np.concatenate((np.zeros((1, body.SIZE)), NUDGE * np.eye(body.SIZE)))


class PayloadIdentifier(Identifier):
    """Learns what hangs at a link.

    With efforts the equations of all joints and of the base tell it; without them only the
    momentum of base and arm, which a free base keeps. What it says is always a body that can
    exist. It begins with the first pose, and estimates are those of all that came up to
    ``delay`` ago.

    Args:
        robot: the robot without the payload.
        link: name of the link that holds it.
        whole: whether it is the link's whole inertia that is unknown, its own included, as of a
            base whose fuel is used up. Else what is learnt comes on top of it.
        friction: whether the robot's friction acts besides the efforts, as where those of the
            motors are measured; not where sensors behind the gears measure them.
        options: those of every :class:`~vm_dynamics.identification.identifier.Identifier`.

    Raises:
        UnknownLinkError: the robot has no such link.
        ParameterError: a parameter that has no meaning, or a robot without joints.
    """

    def __init__(
        self,
        robot: Robot,
        link: str,
        *,
        whole: bool = False,
        friction: bool = True,
        **options: Any,
    ) -> None:
        self.link, self._whole = link, whole
        unknowns = PayloadUnknowns(robot, link, whole=whole, friction=friction)
        super().__init__(robot, unknowns, unknowns.likely(), **options)

    @property
    def numbers(self) -> Array:
        """All ten, in the order of ``NAMES``: mass, centre of mass, inertia; shape (10,)."""
        return body.ten_numbers(body.pseudo_inertia(self.estimate[0]))

    @property
    def mass(self) -> float:
        """[kg]."""
        return float(self.numbers[0])

    @property
    def com(self) -> Array:
        """Centre of mass in the link's frame, shape (3,) [m]."""
        return self.numbers[1:4]

    @property
    def inertia(self) -> Array:
        """About the centre of mass, in the link's axes, shape (3, 3) [kg m^2]."""
        return Inertia(moments=tuple(self.numbers[4:].tolist())).tensor

    @property
    def covariance(self) -> Array:
        """Of mass, centre and inertia xx xy xz yy yz zz, shape (10, 10); of SI units."""
        return self._in_numbers(self.estimate[1])

    def _in_numbers(self, covariance: Array) -> Array:
        slope = body.slope_of_numbers(self.estimate[0])
        return slope @ covariance @ slope.T

    @property
    def unexcited(self) -> tuple[str, ...]:
        """What the motion so far cannot tell, of ``PayloadIdentifier.NAMES``."""
        before = np.diag(self._in_numbers(np.diag(self._prior.deviation**2)))
        now = np.diag(self.covariance)
        return tuple(
            name
            for name, is_unlearnt in zip(self.NAMES, now > UNLEARNT**2 * before, strict=True)
            if is_unlearnt
        )

    NAMES = body.NAMES

    @property
    def robot(self) -> Robot:
        """The robot with what was learnt."""
        if self._whole:
            return self._model.with_inertia(self.link, self.mass, self.com, self.inertia)
        return self._model.with_payload(self.link, self.mass, self.com, self.inertia)


class PayloadUnknowns:
    """The ten coordinates of a body at a link; see ``Unknowns`` of following.py."""

    def __init__(self, robot: Robot, link: str, *, whole: bool, friction: bool) -> None:
        """Look where the link is."""
        frame = robot.link_frame(link)
        self._robot, self._row, self._pose = robot, frame.body, frame.pose
        (own,) = (x.inertia for x in robot.description.links if x.name == link)
        rest = robot.tree.inertias[frame.body]
        if whole:
            rest = combine(
                x.inertia.moved(robot.link_frame(x.name).pose)
                for x in robot.description.links
                if x.name != link and robot.link_frame(x.name).body == frame.body
            )
        self._own = own if whole else None
        self.rubs = friction and bool(robot.damping.any() or robot.friction.any())
        self._models = np.tile(robot.packed, (1 + body.SIZE, 1, 1))
        self._rest = body.of_inertia(rest)

    def likely(self) -> Prior:
        """Coordinates before anything is known."""
        robot = self._robot
        shape = np.clip(np.zeros(robot.n), robot.lower_limits, robot.upper_limits)
        whole = Robot(robot.description, group("SE3"), tip_link=robot.tip_link)
        turning = np.trace(whole.mass_matrix(shape)[3:6, 3:6])
        size = np.sqrt(0.5 * turning / robot.total_mass)
        small = LIKELY_GYRATION * size
        theta: Array = np.zeros(body.SIZE)
        theta[0] = 0.5 * np.log(LIKELY_MASS * robot.total_mass)
        theta[4:7] = np.log(small)
        if self._own is not None and self._own.mass > 0.0:
            theta = body.coordinates(body.of_inertia(self._own))
        prior = np.repeat((MASS_DEVIATION, size, LENGTH_DEVIATION, small), (1, 3, 3, 3))
        return Prior(theta, prior)

    def numbers(self, theta: Array) -> Array:
        """Entries of the pseudo-inertia, shape (10,)."""
        return body.entries(body.pseudo_inertia(theta))

    def slope(self, theta: Array) -> Array:
        """Derivative of the entries by the coordinates, shape (10, 10)."""
        return (self.numbers(theta + NUDGE * np.eye(body.SIZE)) - self.numbers(theta)).T / NUDGE

    def models(self, numbers: Array) -> Array:
        """Packed models: at the numbers, then with each a NUDGE larger, shape (11, ., .)."""
        J = self._pose @ body.of_entries(numbers + _NUDGES) @ self._pose.T + self._rest
        self._models[:, self._row, table.MASS : table.WIDTH] = body.ten_numbers(J)
        return self._models

    def friction(self, numbers: Array, qd: Array) -> Array:
        """That of the robot, which is known."""
        return -self._robot.damping * qd - self._robot.friction * np.tanh(qd / STICTION_SPEED)

    def friction_slopes(self, qd: Array) -> Array:
        """None: nothing of it is unknown."""
        return np.empty((0, self._robot.n))
