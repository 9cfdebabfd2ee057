# SPDX-License-Identifier: Apache-2.0
"""The baseline: differences of poses through a low pass, without a model of the motion."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.estimation.checks import positive
from vm_dynamics.estimation.estimate import SHORTEST, Estimate, Measurement, plain_nis
from vm_dynamics.estimation.history import Verdict
from vm_dynamics.estimation.observer import Observer
from vm_dynamics.estimation.shape import Shape
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot


class LastPose(NamedTuple):
    """The last pose that came, and whether it was the first."""

    g: Array
    is_first: bool


class DifferentiatedPose(Observer):
    """Low-passed ``Log(g_k^-1 g_{k+1}) / T``; the joints only give mu and h of that twist.

    Args:
        robot: the robot, on any base group.
        cutoff: of the low pass of order one [Hz].
        options: those of every :class:`Observer`.
    """

    def __init__(self, robot: Robot, *, cutoff: float = 0.5, **options: Any) -> None:
        super().__init__(robot, **options)
        self._cutoff = positive("cutoff", cutoff)

    def take_over(self, former: Observer) -> bool:
        """Go on from an observer of the same robot with other inertias; see Observer."""
        if not super().take_over(former):
            return False
        event = self._history.events[-1]
        last = LastPose(former.base_pose, is_first=False)
        event.estimate = event.estimate._replace(m=former.twist, memory=last)
        return True

    # ``m`` of the estimates is the twist V itself, shape (b,)

    def _predict(self, estimate: Estimate, shape: Shape, dt: float) -> tuple[Array, Array] | None:
        return estimate.g @ se3.exp(dt * (self._iota @ estimate.m)), estimate.m

    def _begin(self, estimate: Estimate, t: float, pose: Measurement, shape: Shape) -> Estimate:
        still = np.zeros(self.robot.b)
        return self._begun(estimate, t, pose.value, still, LastPose(pose.value, is_first=True))

    def _correct_with_pose(
        self, estimate: Estimate, t: float, pose: Measurement, shape: Shape
    ) -> tuple[Estimate, Verdict]:
        e = self._pose_error(estimate.g, pose.value)
        estimate = estimate._replace(nis=plain_nis(e, pose.covariance))
        T, last = t - estimate.t_pose, estimate.memory
        if T < SHORTEST:
            return estimate, Verdict.NOTHING
        V = self._pose_error(last.g, pose.value) / T
        # the first difference is all that is known
        share = 1.0 if last.is_first else 1.0 - math.exp(-2.0 * math.pi * self._cutoff * T)
        corrected = estimate._replace(
            g=pose.value,
            m=estimate.m + share * (V - estimate.m),
            t_pose=t,
            memory=LastPose(pose.value, is_first=False),
        )
        return corrected, Verdict.USED

    def _locked_velocity(self, estimate: Estimate, shape: Shape) -> Array:
        return estimate.m + self._pinv @ shape.xi
