# SPDX-License-Identifier: Apache-2.0
"""Integral action with anti-windup: it stops where actuators saturate, and at its own limit."""

from __future__ import annotations

import math

import numpy as np

from vm_dynamics.control.gains import not_negative
from vm_dynamics.control.limits import Mask
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array


class Integral:
    """Integral of errors over time, multiplied by gains.

    Attributes:
        gains: one for each of the k errors, shape (k,).
        limit: largest magnitude of each component of the output.
        output: the integral times the gains, shape (k,).
    """

    def __init__(self, gains: Array, limit: float) -> None:
        """Start with an output of zero.

        Args:
            gains: one for each error, none negative, shape (k,).
            limit: largest magnitude of each component of the output, in the output's unit;
                infinite for no limit.
        """
        self.gains = gains
        self.limit = limit if limit == math.inf else not_negative("integral_limit", limit, "-")
        self.output = np.zeros(len(gains))

    @property
    def acts(self) -> bool:
        """Whether any gain is not zero."""
        return bool(self.gains.any())

    def reset(self) -> None:
        """Set the output to zero."""
        self.output = np.zeros(len(self.gains))

    def period(self, dt: float | None) -> float:
        """Check the time since the last step [s]; None is allowed if all gains are zero."""
        if dt is None and self.acts:
            raise ParameterError("dt: got None, expected the time since the last step [s]")
        return 0.0 if dt is None else not_negative("dt", dt, "s")

    def update(self, error: Array, dt: float, saturated: Mask) -> None:
        """Integrate over one step, except where an actuator saturates and the output would grow.

        Args:
            error: the errors, shape (k,).
            dt: time since the last step [s].
            saturated: where the actuators give less than was asked for, shape (k,), bool.
        """
        change = self.gains * error * dt
        winds_up = saturated & (change * self.output >= 0.0)
        moved = self.output + np.where(winds_up, 0.0, change)
        self.output = np.clip(moved, -self.limit, self.limit)
