# SPDX-License-Identifier: Apache-2.0
"""Least squares within bounds, and of all solutions the one of least norm.

The active-set method of Stark and Parker (BVLS), in the limit of a vanishing penalty on the norm:
first the error decides and, where it does not, the norm. So a matrix of any rank has one answer.
For the few unknowns of an allocation, in plain NumPy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vm_dynamics.lie.se3 import Array

Mask = NDArray[np.bool_]

# Of the largest singular value; below it a direction is rounding.
RANK_TOLERANCE = 1e-9
# Of what a derivative is the sum of; below it is rounding.
GRADIENT_ROUNDING = 1e-11
# Unknowns set free, for each that there is: a few do, more is rounding that goes in circles.
MAX_RELEASES_PER_UNKNOWN = 10


def pseudo_inverse(A: Array) -> Array:
    """A^+ of a matrix of any rank, that of the transposed shape; twice as quick as NumPy's."""
    left, values, right = np.linalg.svd(A, full_matrices=False)
    kept = values > RANK_TOLERANCE * values.max(initial=0.0)
    out: Array = (right[kept].T / values[kept]) @ left[:, kept].T
    return out


def least_squares(A: Array, b: Array, lower: Array, upper: Array, unbounded: Array) -> Array:
    """The x within bounds that minimizes ``|A x - b|``, and among all that do ``|x|``; shape (m,).

    Args:
        A: shape (k, m), of any rank.
        b: shape (k,).
        lower: shape (m,), may be infinite.
        upper: shape (m,), above the lower ones, may be infinite.
        unbounded: the answer without bounds, ``A^+ b``, shape (m,).
    """
    m = A.shape[1]
    free, x = np.ones(m, dtype=bool), unbounded
    while (beyond := (x < lower) | (x > upper)).any():
        free &= ~beyond
        x, inverse = _without_bounds(A, b, np.clip(x, lower, upper), free)
    if free.all():
        return x
    in_vain = np.zeros(m, dtype=bool)
    for _ in range(MAX_RELEASES_PER_UNKNOWN * m):
        inward = np.where(x == lower, 1.0, -1.0)
        freed = _to_free(A, b, x, free, inverse, inward, ~(free | in_vain))
        if freed is None:
            break
        free[freed] = True
        start = x
        while True:
            aim, inverse = _without_bounds(A, b, x, free)
            # an unknown that stays at its bound may be free: others may have to move with it
            slack = GRADIENT_ROUNDING * abs(aim).max()
            beyond = (aim < lower - slack) | (aim > upper + slack)
            if not beyond.any():
                x = np.clip(aim, lower, upper)
                break
            x = _up_to_the_bounds(x, aim, beyond, free, lower, upper)
        if free[freed] or not np.array_equal(x, start):
            in_vain[:] = False
        else:
            in_vain[freed] = True
    return x


def _without_bounds(A: Array, b: Array, x: Array, free: Mask) -> tuple[Array, Array]:
    """Put the free unknowns where they would be without bounds; x, and the inverse used."""
    inverse = pseudo_inverse(A[:, free])
    held = np.where(free, 0.0, x)
    held[free] = inverse @ (b - A @ held)
    return held, inverse


def _to_free(
    A: Array, b: Array, x: Array, free: Mask, inverse: Array, inward: Array, held: Mask
) -> int | None:
    """The held unknown that is most worth to be free, or None.

    Derivatives of ``|A x - b|^2 + e |x|^2`` (halved) by one unknown, the free ones following: of
    order zero in e ``A^T (A x - b)``, of order one ``x - A^T inverse^T x_free``.
    """
    slope = (A @ x - b) @ A * inward
    noise = GRADIENT_ROUNDING * (abs(A).T @ (abs(b) + abs(A) @ abs(x)))
    worth = np.where(held & (slope < -noise), -slope, 0.0)
    if not worth.any():
        slope_of_norm = (x - (x[free] @ inverse) @ A) * inward
        least = -GRADIENT_ROUNDING * abs(x).max()
        worth = np.where(
            held & (abs(slope) <= noise) & (slope_of_norm < least), -slope_of_norm, 0.0
        )
    best = int(np.argmax(worth))
    return best if worth[best] > 0.0 else None


def _up_to_the_bounds(
    x: Array, aim: Array, beyond: Mask, free: Mask, lower: Array, upper: Array
) -> Array:
    """From x towards the aim until a bound is met; what meets it is not free any more."""
    bound = np.where(aim < lower, lower, upper)
    share = np.full(len(x), np.inf)
    share[beyond] = (bound[beyond] - x[beyond]) / (aim[beyond] - x[beyond])
    step = share.min()
    met = share == step
    free &= ~met
    return np.where(met, bound, np.clip(x + step * (aim - x), lower, upper))
