# SPDX-License-Identifier: Apache-2.0
"""Work through the beginning of a record again and again, until the estimate does not move.

What the first samples say is taken in far from the truth, where the equations are other ones. So
the follower goes through them several times, along the motion that the model makes by itself from
where the last pass has led to: the method of Gauss and Newton, with the steps of Levenberg and
Marquardt.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vm_dynamics.identification.following import Follower, Snapshot, State, Window
from vm_dynamics.lie.se3 import Array

MOST_PASSES = 12
LEAST_DAMPING = 1e-2  # as information, in parts of the prior's
SETTLED = 0.1  # of a step: in standard deviations of the unknowns


def settle(
    follower: Follower, windows: list[Window], theta: Array, start: State | None, reach: Array
) -> State | None:
    """Leave the follower at the end of the windows with an estimate that fits all of them.

    Args:
        follower: of the unknowns.
        windows: what came.
        theta: where to begin, shape (p,).
        start: the motion where they begin, as far as it is known.
        reach: the longest step of the unknowns, shape (p,).

    Returns:
        The motion where they begin, better known.
    """
    if any(w.effort is None for w in windows):
        follower.restart(theta)
        for window in windows:
            follower.step(window)
            follower.relinearize()
        return None
    p = len(reach)
    best, damping = None, 0.0
    for _ in range(MOST_PASSES):
        _pass(follower, windows, theta, start)
        if follower.is_alive and (best is None or follower.cost <= best.cost):
            best = _Fit(follower.cost, theta, follower.snapshot())
            if best.is_settled(p):
                break
            damping = 0.1 * damping if damping > LEAST_DAMPING else 0.0
        elif best is None:
            return None
        else:
            damping = max(LEAST_DAMPING, 10.0 * damping)
        origin, error = follower.way_back(best.end, damping)
        part = 1.0 / max(1.0, float((abs(error[-p:]) / reach).max()))
        theta, start = best.theta + part * error[-p:], follower.moved(origin, part * error)
    follower.restore(best.end)
    follower.relinearize()
    return start


class _Fit(NamedTuple):
    """A pass: its cost, where it looked at the equations, and where it ended."""

    cost: float
    theta: Array
    end: Snapshot

    def is_settled(self, p: int) -> bool:
        """Whether the estimate is where the equations were looked at."""
        deviation = np.sqrt(np.sum(self.end.factor[-p:] ** 2, axis=1))
        return bool((abs(self.end.error[-p:]) <= SETTLED * deviation).all())


def _pass(follower: Follower, windows: list[Window], theta: Array, start: State | None) -> None:
    follower.restart(theta, start)
    for window in windows:
        follower.step(window, hold=True)
