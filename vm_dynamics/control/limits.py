# SPDX-License-Identifier: Apache-2.0
"""Joint limits: efforts are clipped, velocities and positions are kept by braking in time.

The law is the same for all controllers. With the braking time T and the limits of the URDF, a
joint may move towards a limit no faster than

.. math:: s = min(velocity limit, (position limit - q) / T)

and its acceleration in that direction is at most ``(s - qd) / (T / 4)``. Near a position limit
this is ``T^2/4 a = (limit - q) - T qd``, which is critically damped: the joint comes to rest at
its limit without passing it, and returns if it is beyond. The law needs enough effort to brake,
and a controller that runs many times within T / 4. A joint also gets the torque that its friction
takes, less and less of it near a limit.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vm_dynamics.control import _kernels
from vm_dynamics.control.gains import positive
from vm_dynamics.errors import NonFiniteError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import RobotModel, vector

Mask = NDArray[np.bool_]
BRAKING_TIME = 0.2  # [s], two hundred periods of a controller at 1 kHz
# A position or velocity at its limit may be this much beyond it by rounding [rad or m, per s].
LIMIT_ROUNDING = 1e-9


class JointLimits:
    """Limits of a robot's joints, and the law by which controllers keep them.

    Attributes:
        robot: the robot.
        braking_time: T [s]; 0 if only efforts are limited.
        table: rows for the kernels, shape (6, n): lower and upper position limits [rad or m],
            velocity limits [rad/s or m/s], effort limits [N m or N], dry friction [N m or N] and
            viscous friction [N m s/rad or N s/m].
    """

    def __init__(
        self,
        robot: RobotModel,
        braking_time: float | None = BRAKING_TIME,
        effort_scale: float = 1.0,
    ) -> None:
        """Take the limits from the robot.

        Args:
            robot: the robot.
            braking_time: T [s]; None to limit efforts only.
            effort_scale: share of the effort limits that may be used, 0 to 1.

        Raises:
            ParameterError: the time is not positive, or the share not between 0 and 1.
        """
        if not 0.0 <= effort_scale <= 1.0:
            raise ParameterError(f"effort_scale: got {effort_scale}, expected 0 to 1")
        self.robot = robot
        self.braking_time = (
            0.0 if braking_time is None else positive("braking_time", braking_time, "s")
        )
        self.table = np.array(
            [
                robot.lower_limits,
                robot.upper_limits,
                robot.velocity_limits,
                robot.effort_limits * effort_scale if effort_scale > 0.0 else np.zeros(robot.n),
                robot.friction,
                robot.damping,
            ]
        ).reshape(6, robot.n)

    def names(self, mask: Iterable[bool]) -> tuple[str, ...]:
        """Names of the joints where a mask, shape (n,), is true."""
        return tuple(name for name, hit in zip(self.robot.joint_names, mask, strict=True) if hit)

    def beyond(self, q: Array, qd: Array) -> Mask:
        """Which joints have a position or velocity beyond its limits, shape (n,), bool.

        Args:
            q: joint positions, shape (n,) [rad or m].
            qd: joint velocities, shape (n,) [rad/s or m/s].
        """
        low, high, speed = self.table[:3] + LIMIT_ROUNDING * np.array([[-1.0], [1.0], [1.0]])
        return (q < low) | (q > high) | (abs(qd) > speed)

    def kept(self, state: Array) -> Array:
        """The same motion within the limits of position and velocity, shape (3, n).

        Args:
            state: positions [rad or m], velocities and accelerations, shape (3, n). A joint that
                would be beyond a limit of its position rests at it.
        """
        low, high, speed = self.table[:3]
        out: Array = state.copy()
        out[0] = np.clip(state[0], low, high)
        out[1] = np.clip(state[1], -speed, speed)
        out[1:, out[0] != state[0]] = 0.0
        return out

    def window(
        self, q: ArrayLike, qd: ArrayLike, time: float | None = None
    ) -> tuple[Array, Array]:
        """Least and greatest accelerations that keep the limits, shape (n,) each.

        Args:
            q: joint positions, shape (n,) [rad or m].
            qd: joint velocities, shape (n,) [rad/s or m/s].
            time: another braking time [s]; None for that of these limits.
        """
        n = self.robot.n
        out = np.empty((2, n))
        _kernels.acceleration_windows.checked(
            self.table,
            vector("q", q, n),
            vector("qd", qd, n),
            self.braking_time if time is None else time,
            out,
        )
        return out[0], out[1]

    def accelerations(self, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike) -> tuple[Array, Mask]:
        """Clip joint accelerations to their window; also returns which of them were changed.

        Args:
            q: joint positions, shape (n,) [rad or m].
            qd: joint velocities, shape (n,) [rad/s or m/s].
            qdd: wanted joint accelerations, shape (n,) [rad/s^2 or m/s^2].
        """
        wanted = vector("qdd", qdd, self.robot.n)
        out = np.clip(wanted, *self.window(q, qd))
        return out, out != wanted

    def lacking(self, qd: Array, wanted: Array, given: Array) -> Array:
        """What the window takes from accelerations of joints that are fast, shape (n,).

        A slow joint may be held by a load that nobody knows, so it is not the window that keeps
        it from its target: there it is zero.

        Args:
            qd: joint velocities, shape (n,) [rad/s or m/s].
            wanted: wanted joint accelerations, shape (n,) [rad/s^2 or m/s^2].
            given: those within their window, shape (n,).
        """
        out = wanted - given
        return np.where(np.sign(out) * qd > _kernels.BRAKED_SPEED * self.table[2], out, 0.0)

    def brake(self, inertia: Array, coriolis: Array, q: Array, qd: Array, task: Array) -> Array:
        """Change the torques of joints that would leave their window.

        Args:
            inertia: inertia of the shape, Lambda_q, shape (n, n) [kg m^2 or kg].
            coriolis: torques that the shape needs at zero acceleration, shape (n,) [N m or N].
            q: joint positions, shape (n,) [rad or m].
            qd: joint velocities, shape (n,) [rad/s or m/s].
            task: torques, shape (n,) [N m or N], changed in place.

        Returns:
            ``BRAKED`` or ``LACKING`` of the kernels where a torque was changed, with the sign of
            the direction in which it is less than asked, else 0, shape (n,).
        """
        hit = np.empty(len(task))
        _kernels.brakes.checked(inertia, coriolis, self.table, self.braking_time, q, qd, task, hit)
        return hit

    def efforts(self, tau: Array) -> tuple[Array, Mask]:
        """Clip efforts to their limits; also returns which of them were changed.

        Args:
            tau: wanted efforts, shape (n,) [N m or N].

        Raises:
            NonFiniteError: an effort is NaN or infinite.
        """
        if not np.isfinite(tau).all():
            raise NonFiniteError(
                f"tau: the state asks for {tau}, expected finite efforts; is it far too large?"
            )
        limit = self.table[3]
        return np.clip(tau, -limit, limit), abs(tau) > limit
