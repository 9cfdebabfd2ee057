# SPDX-License-Identifier: Apache-2.0
"""Least squares by the method of Levenberg and Marquardt."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vm_dynamics.lie.se3 import Array

MOST_ROUNDS = 200
FIRST_DAMPING = 1e-2
CLOSE = 1e-4


class Prior(NamedTuple):
    """Unknowns that are likely before anything is known, and their deviations, shape (p,) both."""

    mean: Array
    deviation: Array


class Fit(NamedTuple):
    """Unknowns, shape (p,), their covariance, shape (p, p), and the sum of squares."""

    at: Array
    covariance: Array
    cost: float


def least_squares(
    misfit: Callable[[Array], tuple[Array, Array]],
    prior: Prior,
    start: Array,
    close: float = CLOSE,
) -> Fit:
    """Unknowns that fit best.

    Args:
        misfit: function of the unknowns, shape (p,), that gives weighted errors, shape (m,), and
            their derivative, shape (m, p).
        prior: of the unknowns; no step is longer than its deviations.
        start: where to begin, shape (p,).
        close: what another round may gain at the end, of the sum of squares or of one.
    """

    def whole(at: Array) -> tuple[Array, Array]:
        errors, slope = misfit(at)
        off = (at - prior.mean) / prior.deviation
        return np.concatenate((errors, off)), np.concatenate((slope, np.diag(1 / prior.deviation)))

    at, damping = start, FIRST_DAMPING
    here, slope = whole(at)
    for _ in range(MOST_ROUNDS):
        curvature = slope.T @ slope
        damped = curvature + damping * np.diag(np.diag(curvature))
        step = -np.linalg.solve(damped, slope.T @ here)
        ahead = at + step / max(1.0, float((abs(step) / prior.deviation).max()))
        there, slope_there = whole(ahead)
        gain = here @ here - there @ there
        if gain > 0.0:
            at, here, slope, damping = ahead, there, slope_there, 0.1 * damping
            if gain < close * (1.0 + here @ here):
                break
        else:
            damping *= 10.0
    return Fit(at, np.linalg.inv(slope.T @ slope), float(here @ here))
