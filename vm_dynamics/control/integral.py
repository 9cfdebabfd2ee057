# SPDX-License-Identifier: Apache-2.0
"""Integral action with an end: it stops where the actuators do, and at a limit of its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vm_dynamics.control.gains import not_negative
from vm_dynamics.control.limits import Mask
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array


class Integral:
    """Sum of errors over time, times gains.

    Attributes:
        gains: shape (k,).
        limit: most that each component of the output may be.
    """

    def __init__(self, gains: Array, limit: float) -> None:
        """Start from nothing.

        Args:
            gains: shape (k,), none negative.
            limit: most of each component of the output, in its unit; infinite for none.
        """
        self.gains = gains
        self.limit = limit if limit == math.inf else not_negative("integral_limit", limit, "-")
        self.output = np.zeros(len(gains))

    @property
    def acts(self) -> bool:
        """Whether any gain is not zero."""
        return bool(self.gains.any())

    def reset(self) -> None:
        """Forget."""
        self.output = np.zeros(len(self.gains))

    def period(self, dt: Any) -> float:
        """Check the time since the last step, which only integral action needs."""
        if dt is None and self.acts:
            raise ParameterError("dt: got None, expected the time since the last step [s]")
        return 0.0 if dt is None else not_negative("dt", dt, "s")

    def update(self, error: Array, dt: float, saturated: Mask) -> None:
        """Add errors, shape (k,), but not where actuators saturate and it would push on.

        Args:
            error: shape (k,).
            dt: time since the last step [s].
            saturated: where the actuators give less than was asked for, shape (k,).
        """
        change = self.gains * error * dt
        winds_up = saturated & (change * self.output >= 0.0)
        moved = self.output + np.where(winds_up, 0.0, change)
        self.output = np.clip(moved, -self.limit, self.limit)
