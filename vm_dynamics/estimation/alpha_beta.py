# SPDX-License-Identifier: Apache-2.0
"""The invariant filter with constant gains, for those who want no covariance."""

from __future__ import annotations

import math
from typing import Any

from vm_dynamics.estimation import _layout as at
from vm_dynamics.estimation.observer import Observer, pair, positive
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

    _method = at.ALPHA_BETA

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
        self._tune[at.BANDWIDTH] = self.bandwidth
