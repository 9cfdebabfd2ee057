# SPDX-License-Identifier: Apache-2.0
"""How far the estimate of the base's velocity is believed, by what its observer says of it."""

from __future__ import annotations

import numpy as np

from vm_dynamics.lie.se3 import Array

FADE_TIME = 0.5  # [s] from all of a compensation to none, or back


class Trust:
    """The share of a compensation that an estimate deserves; all of it until something is heard.

    Attributes:
        share: from 0 to 1.
    """

    def __init__(self) -> None:
        """Nothing heard."""
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.share = 1.0
        self._state, self._deviation = "", 0.0

    def hear_state(self, state: str) -> None:
        """State of the observer, as on ``estimate_state``."""
        self._state = state

    def hear_covariance(self, covariance: Array) -> None:
        """Covariance of the locked velocity [v; w], shape (6, 6)."""
        self._deviation = float(np.sqrt(max(covariance.diagonal().max(), 0.0)))

    def doubts(self, max_deviation: float) -> str:
        """What speaks against the estimate, empty if nothing.

        Args:
            max_deviation: the largest deviation that is good enough [m/s, rad/s].
        """
        if self._state == "inconsistent":
            return "the estimate of the base is inconsistent, see diagnostics of its observer"
        if not self._deviation <= max_deviation:
            return (
                f"the estimate of the base has a deviation of {self._deviation:.2g}, more than "
                f"{max_deviation:g} m/s or rad/s"
            )
        return ""

    def step(self, is_doubtful: bool, period: float) -> float:
        """The share after a period [s]: it falls while in doubt, and comes back."""
        way = period / FADE_TIME
        self.share = min(max(self.share - way if is_doubtful else self.share + way, 0.0), 1.0)
        return self.share
