# SPDX-License-Identifier: Apache-2.0
"""The baseline: differences of poses through a low pass, without a model of the motion."""

from __future__ import annotations

from typing import Any

from vm_dynamics.estimation import _layout as at
from vm_dynamics.estimation.observer import Observer, positive
from vm_dynamics.robot import Robot


class DifferentiatedPose(Observer):
    """Low-passed ``Log(g_k^-1 g_{k+1}) / T``; the joints only give mu and h of that twist.

    Args:
        robot: the robot, on any base group.
        cutoff: of the low pass of order one [Hz].
        options: those of every :class:`Observer`.
    """

    _method = at.DIFFERENTIATED

    def __init__(self, robot: Robot, *, cutoff: float = 0.5, **options: Any) -> None:
        super().__init__(robot, **options)
        self._tune[at.CUTOFF] = positive("cutoff", cutoff)
