# SPDX-License-Identifier: Apache-2.0
"""A joint reference that moves to its target within velocity and acceleration limits.

If a controller followed a jumping target directly, its torque would jump too, up to the effort
limits. The reference instead approaches the target with the velocity

.. math:: v = v_t + sign(e) (sqrt((a h)^2 + 2 a |e|) - a h), e = q_t - q - h v_t

from which it can still brake in time. Here h is the period, a the acceleration limit, and q_t, v_t
are the target's position and velocity. A target that moves within the limits is followed without
delay, with its own velocity and acceleration.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.control.gains import or_zero
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import RobotModel, vector

# A target step that a joint can cover in this time at its velocity limit is part of a motion;
# a larger one is a jump.
MOVING_TARGET_PERIOD = 0.05  # [s]


class JointReference:
    """Joint positions, velocities and accelerations on the way to a target.

    Attributes:
        robot: the robot.
        q: present positions, shape (n,) [rad or m].
        qd: present velocities, shape (n,) [rad/s or m/s].
        qdd: present accelerations, shape (n,) [rad/s^2 or m/s^2].
        arrived: whether the reference has reached the target.
    """

    def __init__(self, robot: RobotModel, acceleration_limits: ArrayLike = np.inf) -> None:
        """Start at q = 0, at rest.

        Args:
            robot: the robot; its velocity limits are kept.
            acceleration_limits: one number, or shape (n,) [rad/s^2 or m/s^2]; infinite for no
                limit.
        """
        self.robot = robot
        self._speed = robot.velocity_limits
        self._rate = np.broadcast_to(np.asarray(acceleration_limits, dtype=float), (robot.n,))
        self.start(np.zeros(robot.n))

    def start(self, q: ArrayLike, qd: ArrayLike | None = None) -> None:
        """Start at joint positions, which are the target too.

        Args:
            q: joint positions, shape (n,) [rad or m].
            qd: joint velocities, shape (n,) [rad/s or m/s]; at rest if None.
        """
        n = self.robot.n
        self.q: Array = vector("q", q, n)
        self.qd: Array = or_zero("qd", qd, n)
        self.qdd: Array = np.zeros(n)
        self._target: tuple[Array, Array, Array] = self.q, self.qd, self.qdd
        self.arrived = True

    def set_target(
        self, q: ArrayLike, qd: ArrayLike | None = None, qdd: ArrayLike | None = None
    ) -> None:
        """Set the target.

        Args:
            q: joint positions, shape (n,) [rad or m].
            qd: joint velocities, shape (n,) [rad/s or m/s]; zero if None.
            qdd: joint accelerations, shape (n,) [rad/s^2 or m/s^2]; zero if None.
        """
        n = self.robot.n
        self._target = vector("q", q, n), or_zero("qd", qd, n), or_zero("qdd", qdd, n)
        self.arrived = False

    def step(self, period: float) -> None:
        """Move the reference by one period [s]."""
        if self.arrived or not period > 0.0:
            return
        q, qd, qdd = self._target
        jumps = np.isinf(self._rate)  # joints without an acceleration limit
        rate = np.where(jumps, 0.0, self._rate)
        brake, far = rate * period, self._speed * period
        error = q - self.q
        ahead = error - period * qd  # the error after a step with the target's velocity
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
        # small steps are a motion, whose velocity the target itself gives best
        pace = np.where(abs(error) > MOVING_TARGET_PERIOD * self._speed, dash, qd)
        rates = (speed - self.qd) / period
        self.q = np.where(near, q, self.q + period * np.where(jumps, dash, speed))
        self.qd = np.where(near, qd, np.where(jumps, pace, speed))
        self.qdd = np.where(near, qdd, np.where(jumps, 0.0, rates))
