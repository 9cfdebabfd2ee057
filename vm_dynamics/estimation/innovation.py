# SPDX-License-Identifier: Apache-2.0
"""A measurement beside what was expected of it, and what it corrects."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vm_dynamics.lie.se3 import Array


class Innovation(NamedTuple):
    """A measurement beside what was expected, and the gain that it deserves.

    Attributes:
        H: how it depends on the error state, shape (k, d).
        R: its noise, shape (k, k).
        residual: shape (k,).
        S: covariance of the residual, shape (k, k).
        K: gain, shape (d, k).
        white: the residual in units of its expected deviations, L^-1 r with S = L L^T, shape (k,).
        nis: normalised innovation squared; infinite if it cannot be weighed.
    """

    H: Array
    R: Array
    residual: Array
    S: Array
    K: Array
    white: Array
    nis: float


def innovation(P: Array, H: Array, R: Array, residual: Array) -> Innovation:
    """Weigh a measurement: ``S = H P H^T + R``, ``K = P H^T S^-1``."""
    G = P @ H.T
    S = H @ G + R
    try:
        L = np.linalg.cholesky(S)  # raises unless S is positive definite
        solved = np.linalg.solve(S, G.T)
        white = np.linalg.solve(L, residual)
    except np.linalg.LinAlgError:
        zero = np.zeros_like(residual)
        return Innovation(H, R, residual, S, np.zeros_like(G), zero, math.inf)
    nis = float(white @ white)
    return Innovation(H, R, residual, S, solved.T, white, nis if math.isfinite(nis) else math.inf)


def corrected(P: Array, found: Innovation) -> tuple[Array, Array]:
    """Covariance after a measurement (Joseph's form), and the correction K r, shape (d,)."""
    keep = np.eye(len(P)) - found.K @ found.H
    P = keep @ P @ keep.T + found.K @ found.R @ found.K.T
    return 0.5 * (P + P.T), found.K @ found.residual
