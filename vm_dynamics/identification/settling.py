# SPDX-License-Identifier: Apache-2.0
"""Work through the beginning of a record again and again, until the estimate does not move.

What the first samples say is taken in far from the truth, where the equations are other ones. So
the follower goes through them along the motion that the model makes by itself, and from where the
estimate is then; this is the method of Gauss and Newton, with steps that are halved while the
motion fits worse than before.
"""

from __future__ import annotations

import numpy as np

from vm_dynamics.identification.following import Follower, State, Window
from vm_dynamics.lie.se3 import Array

MOST_PASSES = 12
SETTLED = 0.1  # of a step: in standard deviations of the unknowns


def settle(follower: Follower, windows: list[Window], reach: Array) -> None:
    """Leave the follower at the end of the windows with an estimate that fits all of them.

    Args:
        follower: that has gone through them.
        windows: what came.
        reach: the longest step of the unknowns, shape (p,).
    """
    p = len(reach)
    driven = any(w.effort is None for w in windows)
    theta = follower.theta
    start: State | None = None
    best: tuple[float, Array, State | None, Array] | None = None
    part = 1.0
    for _ in range(MOST_PASSES):
        follower.restart(theta, start)
        for window in windows:
            follower.step(window, hold=True)
        origin, error = follower.way_back()
        longest = float((abs(error[-p:]) / reach).max())
        deviation = np.sqrt(np.diag(follower.covariance))
        if driven or best is None or follower.cost <= best[0]:
            best, part = (follower.cost, theta, origin, error), 1.0 / max(1.0, longest)
            if longest <= 1.0 and (abs(error[-p:]) <= SETTLED * deviation).all():
                break
        else:
            part *= 0.5
        _, theta, origin, error = best
        theta = theta + part * error[-p:]
        start = None if driven or origin is None else follower.moved(origin, part * error)
    follower.relinearize()
