# SPDX-License-Identifier: Apache-2.0
"""Integral action with anti-windup: it stops where actuators saturate, and at its own limits."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.control import _kernels
from vm_dynamics.control.gains import not_negative
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array

LONGEST_STEP = 0.1  # [s]: of a longer pause, nothing is known but its end


class Integral:
    """Integral of errors over time, multiplied by gains.

    Attributes:
        gains: one for each of the k errors, shape (k,).
        limits: largest magnitude of each component of the output, shape (k,).
        output: the integral times the gains, shape (k,).
    """

    def __init__(self, gains: Array, limit: ArrayLike) -> None:
        """Start with an output of zero.

        Args:
            gains: one for each error, none negative, shape (k,).
            limit: largest magnitude of each component of the output, in the output's unit, one
                number or shape (k,); infinite for no limit.

        Raises:
            ParameterError: a limit is negative or NaN.
        """
        self.gains = gains
        self.limits = np.broadcast_to(np.asarray(limit, dtype=float), gains.shape).copy()
        if not (self.limits >= 0.0).all():
            raise ParameterError(f"integral_limit: got {limit!r}, expected no negative number")
        self.output = np.zeros(len(gains))
        self._acts = bool(gains.any())

    def reset(self) -> None:
        """Set the output to zero."""
        self.output[:] = 0.0

    def take_over(self, former: Integral) -> None:
        """Continue with the output of another one, as far as gains and limits allow."""
        kept = np.where(self.gains > 0.0, former.output, 0.0)
        self.output[:] = np.clip(kept, -self.limits, self.limits)

    def period(self, dt: float | None) -> float:
        """Check the time since the last step [s]; None is allowed if all gains are zero.

        Returns:
            The time that counts, at most ``LONGEST_STEP``: a pause does not wind up.
        """
        if dt is None:
            if self._acts:
                raise ParameterError("dt: got None, expected the time since the last step [s]")
            return 0.0
        if not (isinstance(dt, (int, float)) and 0.0 <= dt <= LONGEST_STEP):
            dt = min(not_negative("dt", dt, "s"), LONGEST_STEP)
        return float(dt)

    def update(self, error: Array, dt: float, lacking: Array) -> None:
        """Integrate over one step, except where it would ask actuators for more of what they lack.

        Args:
            error: the errors, shape (k,).
            dt: time since the last step [s], from :meth:`period`.
            lacking: what was asked for less what the actuators give, shape (k,), in the direction
                of the errors; only its signs count.
        """
        _kernels.integrate_all.checked(self.gains, self.limits, error, lacking, dt, self.output)
