# SPDX-License-Identifier: Apache-2.0
"""Limits of the joints: effort is cut off, velocity and position are kept by braking in time.

The law is the same for all controllers. With the braking time T and the limits of the URDF, a
joint may move no faster outwards than

.. math:: s = min(velocity limit, (position limit - q) / T)

and its acceleration outwards is at most ``(s - qd) / (T / 4)``. On the way to a position limit
that is ``T^2/4 a = (limit - q) - T qd``, critically damped: the joint comes to rest at its limit
without passing it, and beyond it is led back. The law needs effort to brake with, and a
controller that runs many times within T / 4. A light joint gets on top of what accelerates it the
torque that its friction takes, the less of it the nearer it is to a limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vm_dynamics.control import _kernels
from vm_dynamics.control.gains import positive
from vm_dynamics.errors import NonFiniteError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import RobotModel, vector

Mask = NDArray[np.bool_]
BRAKING_TIME = 0.2  # [s], two hundred periods of a controller at 1 kHz
ROUNDING = 1e-9  # of a limit, by which a position or velocity at it may seem to be beyond it


class JointLimits:
    """The limits of a robot's joints and how controllers keep them.

    Attributes:
        robot: the robot.
        braking_time: T [s]; 0 if only efforts are limited.
        table: lower, upper, velocity and effort limits, dry and viscous friction, shape (6, n),
            as the kernels take them.
    """

    def __init__(self, robot: RobotModel, braking_time: float | None = BRAKING_TIME) -> None:
        """Take the limits from the robot.

        Args:
            robot: the robot.
            braking_time: T [s]; None to leave velocities and positions to the caller.
        """
        self.robot = robot
        self.braking_time = (
            0.0 if braking_time is None else positive("braking_time", braking_time, "s")
        )
        self.table = np.array(
            [
                robot.lower_limits,
                robot.upper_limits,
                robot.velocity_limits,
                robot.effort_limits,
                robot.friction,
                robot.damping,
            ]
        ).reshape(6, robot.n)

    def names(self, mask: Any) -> tuple[str, ...]:
        """Names of the joints that a mask, shape (n,), has."""
        return tuple(name for name, hit in zip(self.robot.joint_names, mask, strict=True) if hit)

    def beyond(self, q: Any, qd: Any) -> Mask:
        """Joints whose position or velocity is beyond its limits, shape (n,).

        Args:
            q: shape (n,).
            qd: joint velocities, shape (n,).
        """
        low, high, speed = self.table[:3] + ROUNDING * np.array([[-1.0], [1.0], [1.0]])
        return (q < low) | (q > high) | (abs(qd) > speed)

    def window(self, q: Any, qd: Any) -> tuple[Array, Array]:
        """Least and greatest accelerations that keep the limits, both shape (n,).

        Args:
            q: shape (n,).
            qd: joint velocities, shape (n,).
        """
        n = self.robot.n
        out = np.empty((2, n))
        _kernels.acceleration_windows.checked(
            self.table, vector("q", q, n), vector("qd", qd, n), self.braking_time, out
        )
        return out[0], out[1]

    def accelerations(self, q: Any, qd: Any, qdd: Any) -> tuple[Array, Mask]:
        """Joint accelerations within their window, and which of them were not.

        Args:
            q: shape (n,).
            qd: joint velocities, shape (n,).
            qdd: wanted, shape (n,).
        """
        wanted = vector("qdd", qdd, self.robot.n)
        out = np.clip(wanted, *self.window(q, qd))
        return out, out != wanted

    def brake(self, inertia: Array, coriolis: Array, q: Array, qd: Array, task: Array) -> Mask:
        """Change the torques of joints that would leave their window, and tell which.

        Args:
            inertia: of the shape, Lambda_q, shape (n, n).
            coriolis: torques that the shape needs at zero acceleration, shape (n,).
            q: shape (n,).
            qd: joint velocities, shape (n,).
            task: torques, shape (n,), changed in place.
        """
        hit = np.empty(len(task))
        _kernels.brakes.checked(inertia, coriolis, self.table, self.braking_time, q, qd, task, hit)
        return hit != 0.0

    def efforts(self, tau: Array) -> tuple[Array, Mask]:
        """Efforts within their limits, and which of them were not.

        Args:
            tau: wanted, shape (n,).

        Raises:
            NonFiniteError: NaN among the efforts, which has no place within limits.
        """
        if not np.isfinite(tau).all():
            raise NonFiniteError(
                f"tau: the state asks for {tau}, expected finite efforts; is it far too large?"
            )
        limit = self.table[3]
        return np.clip(tau, -limit, limit), abs(tau) > limit
