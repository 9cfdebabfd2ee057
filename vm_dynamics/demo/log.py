# SPDX-License-Identifier: Apache-2.0
"""What was heard of a run, as arrays."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from vm_dynamics.lie.se3 import Array, inverse, log


class Heard(NamedTuple):
    """Samples of a topic at times t [s], shape (N,), each row of the others at one of them."""

    t: Array
    first: Array
    second: Array

    def between(self, begin: float, end: float) -> Heard:
        """Those with ``begin <= t < end``."""
        at = (self.t >= begin) & (self.t < end)
        return Heard(self.t[at], self.first[at], self.second[at])


def together(a: Heard, b: Heard) -> tuple[Heard, Heard]:
    """The samples of two topics that have the same stamps."""
    _, i, j = np.intersect1d(np.round(1e9 * a.t), np.round(1e9 * b.t), return_indices=True)
    return Heard(*(part[i] for part in a)), Heard(*(part[j] for part in b))


class Track:
    """Two arrays that are heard together, again and again, such as pose and twist."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._rows: dict[int, tuple[Array, Array]] = {}

    def hear(self, nanos: int, first: Array, second: Array, *rest: Array) -> None:
        """Keep what belongs to a stamp [ns]."""
        self._rows[nanos] = first, second

    def __len__(self) -> int:
        """Number of samples."""
        return len(self._rows)

    @property
    def last(self) -> tuple[Array, Array] | None:
        """The newest sample."""
        return self._rows[next(reversed(self._rows))] if self._rows else None

    def at(self, nanos: int) -> tuple[Array, Array] | None:
        """Sample of a stamp."""
        return self._rows.get(nanos)

    @property
    def newest(self) -> int:
        """Stamp of the newest sample [ns], zero if there is none."""
        return next(reversed(self._rows)) if self._rows else 0

    @property
    def all(self) -> Heard:
        """All samples in order of time."""
        stamps = sorted(self._rows)
        rows = [self._rows[k] for k in stamps]
        return Heard(
            1e-9 * np.array(stamps),
            np.array([row[0] for row in rows]),
            np.array([row[1] for row in rows]),
        )


class Map(NamedTuple):
    """A curvature map: its joints, coordinates of columns and rows, values by row and column."""

    joints: str
    columns: Array
    rows: Array
    values: Array


class Log:
    """A run: the truth, what the observer made of it, the joints, the last curvature map.

    Attributes:
        truth: pose (4, 4) and twist (6,) of the base.
        estimate: the same, observed.
        joints: positions and measured velocities, shape (n,) each.
        curvature: the last map.
        events: times and names of what the scenario did.
    """

    def __init__(self) -> None:
        """Nothing yet."""
        self.truth, self.estimate, self.joints = Track(), Track(), Track()
        self.curvature: Map | None = None
        self.events: list[tuple[float, str]] = []

    @property
    def velocity_error_now(self) -> Array | None:
        """Of the newest estimate, [v; w], shape (6,)."""
        nanos = self.estimate.newest
        seen, true = self.estimate.at(nanos), self.truth.at(nanos)
        return None if seen is None or true is None else seen[1] - true[1]

    @cached_property
    def velocity_errors(self) -> tuple[Array, Array]:
        """Times and errors of the observed twist, shapes (N,) and (N, 6)."""
        true, seen = together(self.truth.all, self.estimate.all)
        return true.t, seen.second - true.second

    def velocity_rms(self, since: float) -> tuple[float, float]:
        """Linear [m/s] and angular [rad/s] error of the observed twist after a time [s]."""
        t, errors = self.velocity_errors
        late = errors[t >= since]
        if not len(late):
            return np.inf, np.inf
        squares = (late**2).mean(axis=0)
        return float(np.sqrt(squares[:3].sum())), float(np.sqrt(squares[3:].sum()))


def turned(g_from: Array, g_to: Array) -> float:
    """Angle between two attitudes [rad]."""
    return float(np.linalg.norm(log(inverse(g_from) @ g_to)[3:]))
