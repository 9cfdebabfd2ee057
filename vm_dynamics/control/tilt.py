# SPDX-License-Identifier: Apache-2.0
"""Tilt of a multicopter that moves it to a place: it leans in the direction of travel.

Its rotors push along one body axis only, so :class:`ComputedTorque` cannot control x and y
directly. This is the outer loop around it; it is not in any of the papers:

.. math:: a = K (p_d - p) - D v + K_i int (p_d - p) dt

sideways, and the base leans so that a thrust which carries the weight gives this acceleration.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.control import _kernels
from vm_dynamics.control.gains import not_negative
from vm_dynamics.control.integral import Integral
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.groups import check_pose, rotation_from_z_to
from vm_dynamics.lie.se3 import Array, exp
from vm_dynamics.model.robot_model import vector

# Slower than the attitude control, which has to follow the tilt.
TILT_STIFFNESS, TILT_DAMPING, TILT_INTEGRAL = 1.5, 2.4, 0.5  # [1/s^2], [1/s], [1/s^3]
# Cosine of the lean at which the thrust no longer tells how the base accelerates.
LEAST_UPRIGHT = 0.3


class TiltGuidance:
    """Pose targets for a base whose thrust is along its z axis.

    Attributes:
        gravity: gravitational acceleration in world axes, shape (3,) [m/s^2].
    """

    def __init__(
        self,
        gravity: ArrayLike,
        *,
        stiffness: float = TILT_STIFFNESS,
        damping: float = TILT_DAMPING,
        integral: float = TILT_INTEGRAL,
        most_tilt: float = 0.3,
    ) -> None:
        """Check the gains.

        Args:
            gravity: gravitational acceleration in world axes, shape (3,) [m/s^2].
            stiffness: horizontal acceleration per position error [1/s^2].
            damping: horizontal acceleration per velocity [1/s].
            integral: horizontal acceleration per position error and time [1/s^3], against a
                steady wind; it leans by at most half of ``most_tilt``.
            most_tilt: largest angle between the thrust and the vertical [rad].

        Raises:
            ParameterError: gravity is zero, a gain is negative, or ``most_tilt`` is not between
                0 and pi/2.
        """
        self.gravity = vector("gravity", gravity, 3)
        self._weight = float(np.linalg.norm(self.gravity))
        if not self._weight > 0.0:
            raise ParameterError("gravity: got zero; without weight there is no tilting")
        self._up = -self.gravity / self._weight
        self._stiffness = not_negative("stiffness", stiffness, "1/s^2")
        self._damping = not_negative("damping", damping, "1/s")
        if not 0.0 < most_tilt < 0.5 * math.pi:
            raise ParameterError(f"most_tilt: got {most_tilt}, expected 0 to pi/2 [rad]")
        self._most = self._weight * math.tan(most_tilt)
        gain = np.full(3, not_negative("integral", integral, "1/s^3"))
        self._integral = Integral(gain, self._weight * math.tan(0.5 * most_tilt))
        exp(np.zeros(6))  # compiled now, so that the first target need not wait for it
        _kernels.integrate_all.compile()

    def reset(self) -> None:
        """Set the integral action to zero."""
        self._integral.reset()

    def take_over(self, former: TiltGuidance) -> None:
        """Continue with the integral action of another one."""
        self._integral.take_over(former._integral)

    def target(
        self, place: ArrayLike, g: ArrayLike, V: ArrayLike, *, dt: float | None = None
    ) -> Array:
        """Pose to follow in the world, shape (4, 4): the place, tilted towards it.

        Args:
            place: wanted pose in the world, upright, shape (4, 4).
            g: pose of the base in the world, shape (4, 4).
            V: velocity of the base in {1}, shape (6,) [m/s, rad/s].
            dt: time since the last call [s]; the integral action counts at most 0.1 s of it, and
                stays as it is if None.
        """
        aim, pose = check_pose(place), check_pose(g)
        velocity = pose[:3, :3] @ vector("V", V, 6)[:3]
        error = aim[:3, 3] - pose[:3, 3]
        error -= self._up * (self._up @ error)
        wanted = self._stiffness * error - self._damping * velocity + self._integral.output
        wanted -= self._up * (self._up @ wanted)
        size = float(np.linalg.norm(wanted))
        aside = wanted * min(1.0, self._most / size) if size > 0.0 else wanted
        self._integral.update(error, self._integral.period(dt or 0.0), wanted - aside)
        size = min(size, self._most)
        out = aim.copy()
        if size > 0.0:
            axis = np.cross(self._up, aside) / size
            angle = math.atan2(size, self._weight)
            out[:3, :3] = exp(np.concatenate((np.zeros(3), angle * axis)))[:3, :3] @ aim[:3, :3]
        return out

    def acceleration(self, g: ArrayLike) -> Array:
        """Sideways acceleration of a base that leans and carries its weight, shape (3,) [m/s^2].

        Args:
            g: pose of the base in the world, shape (4, 4).

        Returns:
            The acceleration in world axes; that of the largest lean that makes sense beyond it.
        """
        axis = check_pose(g)[:3, 2]
        height = float(self._up @ axis)
        aside = axis - height * self._up
        return np.asarray(self._weight / max(height, LEAST_UPRIGHT) * aside)

    def upright(self, g: ArrayLike) -> Array:
        """Pose with the same position and heading, but with z against gravity, shape (4, 4).

        Args:
            g: pose of the base in the world, shape (4, 4).
        """
        out = check_pose(g).copy()
        turn = rotation_from_z_to(self._up) @ rotation_from_z_to(out[:3, 2]).T
        out[:3, :3] = turn @ out[:3, :3]
        return out
