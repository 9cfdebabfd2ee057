# SPDX-License-Identifier: Apache-2.0
"""Joint velocities for a residual: those measured or those of the positions, and their noise.

An encoder that is good to 1e-5 rad knows how fast a joint is better than many a velocity signal;
one that is good to 1e-3 rad does not. So both are watched, and each joint takes the quieter one.
"""

from __future__ import annotations

import numpy as np

from vm_dynamics.estimation.velocity_noise import SECOND_DIFFERENCE
from vm_dynamics.lie.se3 import Array

MEMORY = 2.0  # [s] that noise is estimated over
LEAST_NOISE = 0.2  # of the deviation given: a signal that stands still seems to have none
DOUBT = 4.0  # times the variance given: that of the differences until they have shown theirs
OUTLIER = 25.0  # times the variance: more of a single sample says nothing about noise
WRAP = np.pi  # [rad or m]: what no joint moves from one sample to the next


class JointVelocities:
    """Velocities of all joints.

    Attributes:
        variances: noise of those that are used, shape (n,).
    """

    def __init__(self, variances: Array) -> None:
        """Expect the variances of measured velocities, shape (n,)."""
        self._least = LEAST_NOISE**2 * variances
        self._both = np.array((variances, DOUBT * variances))  # measured, of the positions
        self.variances = self._both[0]

    def start(self, q: Array, qd: Array) -> None:
        """The first sample, shapes (n,)."""
        self._q, self._slope = q, qd
        self._last = np.array(((qd, qd), (qd, qd)))  # two samples of both

    def take(self, q: Array, qd: Array, dt: float) -> Array:
        """The velocities to use of a sample, a time dt [s] after the last."""
        moved = q - self._q
        is_wrapped = abs(moved) > WRAP
        slope = np.where(is_wrapped, qd, moved / dt)
        # a slope is the velocity in the middle of its time
        both = np.array((qd, slope + 0.5 * (slope - self._slope)))
        self._q, self._slope = q, slope
        first, second = self._last
        self._last = np.array((second, both))
        seen = np.square(both - 2.0 * second + first) / SECOND_DIFFERENCE
        np.minimum(seen, OUTLIER * self._both, out=seen)
        self._both += min(dt / MEMORY, 1.0) * (seen - self._both)
        np.maximum(self._both, self._least, out=self._both)
        is_better = (self._both[1] < self._both[0]) & ~is_wrapped
        self.variances = np.where(is_better, self._both[1], self._both[0])
        return np.where(is_better, both[1], qd)
