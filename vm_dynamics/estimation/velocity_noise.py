# SPDX-License-Identifier: Apache-2.0
"""How noisy joint velocities are, whatever is told: encoders that are differentiated, for example.

The noise of a joint's velocity is in the twist of the base at once, and leaves no trace in the
innovations of poses. What shows it is how much three samples in a row are off a straight line.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.lie.se3 import Array

PERIOD = 0.02  # [s] between looks
LONGEST = 0.025  # [s] of three samples: over longer times velocities change by themselves
MEMORY = 100.0  # looks that the noise is averaged over
SECOND_DIFFERENCE = 6.0  # times the variance of white noise
MUCH = 9.0  # times the variance told, from which on it is taken for what it seems


class VelocityNoise:
    """Watches velocities, three samples in a row now and then.

    Attributes:
        variances: those told, or what the velocities show where it is much more, shape (n,).
    """

    def __init__(self, variances: Array) -> None:
        """Expect the variances that were told, shape (n,)."""
        self._told, self._seen = variances, variances.copy()
        self._three: Array = np.empty((3, len(variances)))
        self._count, self._begun, self._next = 0, 0.0, -np.inf
        self.variances = variances

    def take(self, t: float, qd: ArrayLike) -> bool:
        """A sample of velocities, shape (n,), at a time [s]; whether ``variances`` changed."""
        if t < self._next:
            if self._next - t > MEMORY * PERIOD:  # the clock began anew
                self._count, self._next = 0, t
            return False
        if self._count == 0:
            self._begun = t
        self._three[self._count] = qd
        self._count += 1
        if self._count < 3:
            return False
        self._count, self._next = 0, t + PERIOD
        first, second, third = self._three
        with np.errstate(over="ignore", invalid="ignore"):
            seen = np.square(third - 2.0 * second + first) / SECOND_DIFFERENCE
        if not (0.0 < t - self._begun < LONGEST and np.isfinite(seen).all()):
            return False
        self._seen += (seen - self._seen) / MEMORY
        found = np.where(self._seen > MUCH * self._told, self._seen, self._told)
        is_new = not np.array_equal(found, self.variances)
        self.variances = found
        return is_new

    def doubts(self, names: Sequence[str]) -> str:
        """Which joints are noisier than told, in words; empty if none is."""
        ratio = self.variances / self._told
        if not (ratio > 1.0).any():
            return ""
        worst = int(np.argmax(ratio))
        return (
            f"velocities of {names[worst]} have noise of {np.sqrt(self.variances[worst]):.2g}, "
            f"{np.sqrt(ratio[worst]):.2g} times as much as told: a low pass, or another "
            "joint_velocity_deviation"
        )
