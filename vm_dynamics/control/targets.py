# SPDX-License-Identifier: Apache-2.0
"""A joint reference that goes to its target no faster than the joints may.

A target that jumps would ask for a torque that jumps with it, up to the limit of the efforts. The
reference follows it within the limits of velocity and, where there are some, of acceleration a:
it heads for the target with the velocity

.. math:: v = v_t + sign(e) (sqrt((a h)^2 + 2 a |e|) - a h), e = q_t - q - h v_t

from which it can brake in time, h the period. A target that moves within the limits is followed at
once, with its own velocity and acceleration.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vm_dynamics.control.gains import or_zero
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import RobotModel, vector

# A target that comes in steps at this pace or faster moves, rather than jumps.
PACE = 0.05  # [s]


class JointReference:
    """Where the joints shall be now, on the way to a target.

    Attributes:
        robot: whose joints they are.
        q: positions now, shape (n,).
        qd: velocities now, shape (n,).
        qdd: accelerations now, shape (n,).
        arrived: whether they are those of the target.
    """

    def __init__(self, robot: RobotModel, acceleration_limits: Any = np.inf) -> None:
        """At q = 0 and at rest.

        Args:
            robot: the robot, whose velocity limits are kept.
            acceleration_limits: a number, or shape (n,) [rad/s^2 or m/s^2]; infinite for none.
        """
        self.robot = robot
        self._speed = robot.velocity_limits
        self._rate = np.broadcast_to(np.asarray(acceleration_limits, dtype=float), (robot.n,))
        self.start(np.zeros(robot.n))

    def start(self, q: Any) -> None:
        """Be at rest at joint positions, shape (n,), which are the target too."""
        n = self.robot.n
        self.q: Array = vector("q", q, n)
        self.qd: Array = np.zeros(n)
        self.qdd: Array = np.zeros(n)
        self._target: tuple[Array, Array, Array] = self.q, self.qd, self.qdd
        self.arrived = True

    def set_target(self, q: Any, qd: Any = None, qdd: Any = None) -> None:
        """Where to go.

        Args:
            q: positions, shape (n,).
            qd: velocities, shape (n,); zero if None.
            qdd: accelerations, shape (n,); zero if None.
        """
        n = self.robot.n
        self._target = vector("q", q, n), or_zero("qd", qd, n), or_zero("qdd", qdd, n)
        self.arrived = False

    def step(self, period: float) -> None:
        """Go on for a time [s]."""
        if self.arrived or not period > 0.0:
            return
        q, qd, qdd = self._target
        jumps = np.isinf(self._rate)  # joints without a limit of acceleration
        rate = np.where(jumps, 0.0, self._rate)
        brake, far = rate * period, self._speed * period
        error = q - self.q
        ahead = error - period * qd  # after a step with the target's velocity
        near = np.where(
            jumps,
            abs(error) <= far,
            (abs(ahead) <= brake * period) & (abs(qd - self.qd) <= brake),
        )
        if near.all():
            self.q, self.qd, self.qdd = self._target
            self.arrived = True
            return
        headway = np.sqrt(brake**2 + 2.0 * rate * abs(ahead)) - brake
        wanted = np.clip(qd + np.sign(ahead) * headway, -self._speed, self._speed)
        speed = self.qd + np.clip(wanted - self.qd, -brake, brake)
        dash = np.clip(error, -far, far) / period
        # a target that comes in small steps knows its velocity best
        pace = np.where(abs(error) > PACE * self._speed, dash, qd)
        rates = (speed - self.qd) / period
        self.q = np.where(near, q, self.q + period * np.where(jumps, dash, speed))
        self.qd = np.where(near, qd, np.where(jumps, pace, speed))
        self.qdd = np.where(near, qdd, np.where(jumps, 0.0, rates))
