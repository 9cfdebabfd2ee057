# SPDX-License-Identifier: Apache-2.0
"""Attitude by which a multicopter holds a place: it leans to where it wants to go.

Its rotors push along one axis of its body, so x and y of :class:`ComputedTorque` have no authority
of their own; this is the loop around it. None of the papers has it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vm_dynamics.control.gains import not_negative
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.groups import check_pose, rotation_from_z_to
from vm_dynamics.lie.se3 import Array, exp
from vm_dynamics.model.robot_model import vector

LEAN, LEAN_RATE = 1.0, 1.6  # [1/s^2], [1/s]: slower than the attitude that has to follow


class TiltGuidance:
    """Pose targets for a base whose thrust is along its z axis.

    Attributes:
        gravity: acceleration of free fall in the world's axes, shape (3,) [m/s^2].
    """

    def __init__(
        self,
        gravity: Any,
        *,
        stiffness: float = LEAN,
        damping: float = LEAN_RATE,
        most_tilt: float = 0.3,
    ) -> None:
        """Check the gains.

        Args:
            gravity: acceleration of free fall in the world's axes, shape (3,) [m/s^2].
            stiffness: acceleration for each metre off the place [1/s^2].
            damping: acceleration for each metre a second [1/s].
            most_tilt: largest angle between thrust and the vertical [rad].

        Raises:
            ParameterError: no gravity, a negative gain, or a tilt that is none.
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
        exp(np.zeros(6))  # compiles what the first target would have to wait for

    def target(self, place: Any, g: Any, V: Any) -> Array:
        """Pose to follow: the place's position, its attitude leant, shape (4, 4).

        Args:
            place: where to be, with the thrust along the vertical, shape (4, 4).
            g: pose of the base in the world, shape (4, 4).
            V: its velocity in {1}, shape (6,).
        """
        aim, pose = check_pose(place), check_pose(g)
        velocity = pose[:3, :3] @ vector("V", V, 6)[:3]
        wanted = self._stiffness * (aim[:3, 3] - pose[:3, 3]) - self._damping * velocity
        aside = wanted - self._up * (self._up @ wanted)
        size = float(np.linalg.norm(aside))
        if size > self._most:
            aside *= self._most / size
            size = self._most
        out = aim.copy()
        if size > 0.0:
            axis = np.cross(self._up, aside) / size
            angle = math.atan2(size, self._weight)
            out[:3, :3] = exp(np.concatenate((np.zeros(3), angle * axis)))[:3, :3] @ aim[:3, :3]
        return out

    def upright(self, g: Any) -> Array:
        """Pose at the same place and with the same heading, its z axis against gravity, (4, 4).

        Args:
            g: pose of the base in the world, shape (4, 4).
        """
        out = check_pose(g).copy()
        turn = rotation_from_z_to(self._up) @ rotation_from_z_to(out[:3, 2]).T
        out[:3, :3] = turn @ out[:3, :3]
        return out
