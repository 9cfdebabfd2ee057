# SPDX-License-Identifier: Apache-2.0
"""Motions of joints over time: splines through states, and the way to a stop.

Between two states, a time T apart, a spline has the order that the states allow: linear with
positions alone, cubic with velocities, quintic with accelerations too. With
``A = q1 - q0 - qd0 T - qdd0 T^2/2``, ``B = qd1 - qd0 - qdd0 T`` and ``C = qdd1 - qdd0`` the
quintic one adds to what the first state does by itself

.. math:: (10 A - 4 B T + C T^2/2) s^3 + (-15 A + 7 B T - C T^2) s^4 + (6 A - 3 B T + C T^2/2) s^5

where s = t/T, and the cubic one, without accelerations, ``(3 A - B T) s^2 + (-2 A + B T) s^3``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vm_dynamics.lie.se3 import Array

LINEAR, CUBIC, QUINTIC = 1, 3, 5  # orders of a spline
Places = NDArray[np.intp]


class JointPath:
    """Polynomials of time, one after the other; before them at their start, after them at rest.

    Attributes:
        end: when the last one ends [s].
    """

    def __init__(self, times: Sequence[float], coefficients: Array, last: Array) -> None:
        """Put polynomials together.

        Args:
            times: when they begin, and when the last one ends, increasing [s].
            coefficients: of the powers 0 to 5 of the time since each began, shape (m, 6, k).
            last: positions where the path ends, shape (k,) [rad or m].
        """
        self._times, self._coefficients = list(times), coefficients
        self._last: Array = np.zeros((3, len(last)))
        self._last[0] = last
        self.end = self._times[-1]

    def at(self, time: float) -> Array:
        """Positions, velocities and accelerations at a time [s], shape (3, k)."""
        if time >= self.end:
            return self._last
        i = max(bisect_right(self._times, time) - 1, 0)
        x = max(time - self._times[i], 0.0)
        x2 = x * x
        x3, x4 = x2 * x, x2 * x2
        powers = np.array(
            (
                (1.0, x, x2, x3, x4, x4 * x),
                (0.0, 1.0, 2.0 * x, 3.0 * x2, 4.0 * x3, 5.0 * x4),
                (0.0, 0.0, 2.0, 6.0 * x, 12.0 * x2, 20.0 * x3),
            )
        )
        out: Array = powers @ self._coefficients[i]
        return out


class JointMotion(NamedTuple):
    """What all joints of a robot do: those of a trajectory, and the others, which stop.

    Attributes:
        end: when the trajectory ends [s].
        parts: places of joints in the robot's order, increasing, and their path.
    """

    end: float
    parts: tuple[tuple[Places, JointPath], ...]

    def at(self, time: float) -> Array:
        """Positions, velocities and accelerations at a time [s], shape (3, n)."""
        if len(self.parts) == 1:
            return self.parts[0][1].at(time)
        out: Array = np.empty((3, sum(len(places) for places, _ in self.parts)))
        for places, path in self.parts:
            out[:, places] = path.at(time)
        return out


def splines(durations: Array, first: Array, second: Array, orders: NDArray[np.int_]) -> Array:
    """Coefficients of splines between states, as of :class:`JointPath`.

    Args:
        durations: T of each spline, shape (m,) [s].
        first: states where they begin: positions, velocities, accelerations, shape (m, 3, k).
        second: states where they end, shape (m, 3, k).
        orders: ``LINEAR``, ``CUBIC`` or ``QUINTIC``, shape (m,); what an order does not use may
            be NaN.
    """
    out: Array = np.zeros((len(durations), 6, first.shape[2]))
    T = durations[:, None]
    out[:, 0] = first[:, 0]
    out[:, 1] = (second[:, 0] - first[:, 0]) / T
    for order in (CUBIC, QUINTIC):
        which = orders == order
        h, a, b = T[which], first[which], second[which]
        rate = a[:, 2] if order == QUINTIC else np.zeros_like(a[:, 0])
        A = b[:, 0] - a[:, 0] - h * a[:, 1] - 0.5 * h**2 * rate
        B = h * (b[:, 1] - a[:, 1] - h * rate)
        out[which, 1] = a[:, 1]
        if order == CUBIC:
            out[which, 2] = (3.0 * A - B) / h**2
            out[which, 3] = (-2.0 * A + B) / h**3
        else:
            C = h**2 * (b[:, 2] - rate)
            out[which, 2] = 0.5 * rate
            out[which, 3] = (10.0 * A - 4.0 * B + 0.5 * C) / h**3
            out[which, 4] = (-15.0 * A + 7.0 * B - C) / h**4
            out[which, 5] = (6.0 * A - 3.0 * B + 0.5 * C) / h**5
    return out


def braking(q: Array, qd: Array, time: float, rates: Array) -> JointPath:
    """Way to a stop, with a constant deceleration of each joint.

    Args:
        q: positions, shape (k,) [rad or m].
        qd: velocities, shape (k,) [rad/s or m/s].
        time: least duration [s].
        rates: largest decelerations, shape (k,) [rad/s^2 or m/s^2], infinite for none.
    """
    T = max(time, float(np.max(abs(qd) / rates, initial=0.0)))
    coefficients = np.zeros((1, 6, len(q)))
    coefficients[0, 0], coefficients[0, 1], coefficients[0, 2] = q, qd, -0.5 * qd / T
    return JointPath((0.0, T), coefficients, q + 0.5 * T * qd)
