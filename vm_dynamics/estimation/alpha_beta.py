# SPDX-License-Identifier: Apache-2.0
"""The invariant filter with constant gains, for those who want no covariance."""

from __future__ import annotations

import math
from typing import Any

from vm_dynamics.compiled import EntryPoint
from vm_dynamics.estimation.checks import pair, positive
from vm_dynamics.estimation.estimate import (
    SHORTEST,
    Estimate,
    Measurement,
    plain_nis,
    straightened,
)
from vm_dynamics.estimation.history import Verdict
from vm_dynamics.estimation.observer import Observer
from vm_dynamics.estimation.shape import Shape
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

LEAST_BANDWIDTH = 0.4  # [rad/s], below which it would hardly correct


class AlphaBetaObserver(Observer):
    """Continuous-discrete observer: the model between poses, an alpha-beta step at each.

    .. math:: g exp(alpha e), h + M_b (beta / T) e, alpha = 1 - z^2, beta = (1 - z)^2, z = e^{-wT}

    with ``e = Log(g^-1 g_m)`` and T the time since the last pose. It has no test for outliers.

    Args:
        robot: the robot, on any base group.
        bandwidth: w [rad/s]; if None, ``sqrt(disturbance / (position deviation sqrt(period)))``
            but not below 0.4.
        disturbance: random walk of the locked velocity that w is chosen for [m/s/sqrt(s)].
        period: of the poses that w is chosen for [s].
        options: those of every :class:`Observer`.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        bandwidth: float | None = None,
        disturbance: float = 1e-3,
        period: float = 0.1,
        **options: Any,
    ) -> None:
        super().__init__(robot, **options)
        if bandwidth is None:
            linear, _ = pair("pose_deviation", options.get("pose_deviation", 5e-3))
            noise = linear * math.sqrt(positive("period", period))
            bandwidth = max(
                LEAST_BANDWIDTH, math.sqrt(positive("disturbance", disturbance) / noise)
            )
        self.bandwidth = positive("bandwidth", bandwidth)

    def _entries(self) -> list[EntryPoint]:
        return [*super()._entries(), *self._motion.entries]

    def _predict(self, estimate: Estimate, shape: Shape, dt: float) -> tuple[Array, Array] | None:
        return self._motion.step(shape, estimate.wrenches, estimate.g, estimate.m, dt)

    def _push(self, shape: Shape, mu: Array) -> Array:
        """Momentum, shape (6,), that a change of the locked velocity by mu, shape (b,), means."""
        return self._pinv.T @ self._shapes.shift(shape) @ shape.M_b @ mu

    def _begin(self, estimate: Estimate, t: float, pose: Measurement, shape: Shape) -> Estimate:
        return self._begun(estimate, t, pose.value, self._push(shape, self._mu_0), None)

    def _correct_with_pose(
        self, estimate: Estimate, t: float, pose: Measurement, shape: Shape
    ) -> tuple[Estimate, Verdict]:
        T = t - estimate.t_pose
        if T < SHORTEST:
            return estimate, Verdict.NOTHING
        z = math.exp(-self.bandwidth * T)
        alpha, beta = 1.0 - z * z, (1.0 - z) * (1.0 - z)
        e = self._pose_error(estimate.g, pose.value)
        corrected = estimate._replace(
            g=straightened(estimate.g @ se3.exp(alpha * (self._iota @ e))),
            m=estimate.m + beta / T * self._push(shape, e),
            t_pose=t,
            nis=plain_nis(e, pose.covariance),
        )
        return corrected, Verdict.USED

    def _locked_velocity(self, estimate: Estimate, shape: Shape) -> Array:
        return self._pinv @ shape.lift @ estimate.m
