# SPDX-License-Identifier: Apache-2.0
"""Filters that find the force behind a momentum, a quick one and one with a long memory.

Each is an observer of the momentum p and of a force r on it, with a double pole at -w: r follows a
force as ``w^2 / (s + w)^2``. What is doubtful goes through the same low pass.
"""

from __future__ import annotations

import math

import numpy as np

from vm_dynamics.estimation.contact_model import ShapeMotion
from vm_dynamics.lie.se3 import Array

QUICK, PATIENT = 0, 1
BANDWIDTHS = (40.0, 10.0)  # [rad/s], of the two
# The slope of a line through samples of a time T has the noise of a filter with w = 3.63 / T.
WINDOW = 48.0 ** (1.0 / 3.0)


class Residuals:
    """The two filters.

    Attributes:
        r: force on the shape that is not in the model, a row for each filter, shape (2, n).
        shares: of the bodies in the forces, low-passed as r is, shape (2, nj + 1, n).
        doubts: deviation of what else is not known well, low-passed likewise, shape (2, n).
    """

    def __init__(self, motion: ShapeMotion, shares: Array, doubts: Array) -> None:
        """Begin with a sample."""
        self._last = motion
        self._p = np.array((motion.p, motion.p))
        self.r = np.zeros_like(self._p)
        self._half = np.array((shares, shares)), np.array((doubts, doubts))
        self.shares, self.doubts = (part.copy() for part in self._half)
        self._age = 0.0  # [s], of the longer memory
        self.gains = np.ones(2)  # variance of r for one of p
        self._decay = np.ones(2)

    def follow(self, motion: ShapeMotion, dt: float) -> None:
        """Take in a sample, a time dt [s] after the last."""
        self._age += dt
        patient = max(BANDWIDTHS[PATIENT], WINDOW / (self._age + WINDOW / BANDWIDTHS[QUICK]))
        x = np.array((math.exp(-BANDWIDTHS[QUICK] * dt), math.exp(-patient * dt)))
        alpha, beta = 1.0 - x * x, np.square(1.0 - x)
        # motors hold their efforts until the next sample, all else moves evenly
        rate = 0.5 * (motion.rate + self._last.rate) + motion.effort
        self._last = motion
        expected = self._p + dt * (rate + self.r)
        e = motion.p - expected
        self._p = expected + alpha[:, None] * e
        self.r = self.r + (beta / dt)[:, None] * e
        below = alpha * (4.0 - 2.0 * alpha - beta)
        self.gains = 2.0 * beta * beta / below / (dt * dt)
        self._decay *= x

    def doubt(self, shares: Array, doubts: Array) -> None:
        """Take in what is doubtful at the sample that was followed last."""
        c = 1.0 - self._decay
        self._decay = np.ones(2)
        for half, whole, value in zip(
            self._half, (self.shares, self.doubts), (shares, doubts), strict=True
        ):
            step = c.reshape(2, *(1,) * value.ndim)
            half += step * (value - half)
            whole += step * (half - whole)

    def hurry(self) -> None:
        """Let the patient filter go on from where the quick one is, its memory as short."""
        self._age = 0.0
        for part in (self._p, self.r, *self._half, self.shares, self.doubts):
            part[PATIENT] = part[QUICK]
