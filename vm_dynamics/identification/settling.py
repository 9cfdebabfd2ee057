# SPDX-License-Identifier: Apache-2.0
"""Work through the beginning of a record again and again, until the estimate does not move.

What the first samples say is taken in far from the truth, where the equations are other ones. So
the follower goes through them several times, each time with the equations as they are where the
last pass has led to: the method of Gauss and Newton.
"""

from __future__ import annotations

import numpy as np

from vm_dynamics.identification.fitting import Prior, least_squares
from vm_dynamics.identification.following import Follower, Window
from vm_dynamics.lie.se3 import Array

MOST_PASSES = 6
SETTLED = 0.3  # of a step: in standard deviations of the unknowns
BAD_FIT = 4.0  # sum of squares by unknown beyond which a search may have ended in a corner
# The follower's prior is wider than the true one, which counts when the best fit is sought.
WIDER = 3.0


def best_fit(follower: Follower, prior: Prior, start: Array) -> tuple[Array, Array]:
    """Coordinates, shape (p,), with covariance, that fit the follower's estimate and a prior."""
    unknowns, wanted, weight = follower.unknowns, follower.numbers, follower.information

    def misfit(theta: Array) -> tuple[Array, Array]:
        return weight @ (unknowns.numbers(theta) - wanted), weight @ unknowns.slope(theta)

    best = least_squares(misfit, prior, start)
    if best.cost > BAD_FIT * len(start):
        best = min(best, least_squares(misfit, prior, prior.mean), key=lambda fit: fit.cost)
    return best.at, best.covariance


def settle(follower: Follower, windows: list[Window], prior: Prior, theta: Array) -> Array:
    """Leave the follower at the end of the windows with an estimate that fits all of them.

    Args:
        follower: of the unknowns.
        windows: what came.
        prior: of the unknowns' coordinates.
        theta: where to begin, shape (p,).

    Returns:
        The coordinates that fit best, shape (p,).
    """
    unknowns = follower.unknowns
    for _ in range(MOST_PASSES):
        at, slope = unknowns.numbers(theta), unknowns.slope(theta)
        wide = WIDER * slope * prior.deviation
        follower.restart(at, wide, at)
        for window in windows:
            follower.step(window)
        if not follower.is_alive:
            break
        before = theta
        theta, covariance = best_fit(follower, prior, theta)
        follower.look(unknowns.numbers(theta))
        windows[0] = windows[0]._replace(start=follower.begin_of(windows))
        if (abs(theta - before) <= SETTLED * np.sqrt(np.diag(covariance))).all():
            break
    follower.look(unknowns.numbers(theta))
    return theta
