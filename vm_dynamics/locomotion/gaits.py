# SPDX-License-Identifier: Apache-2.0
"""Gaits: closed paths in shape space, with their timing.

Implements: the gaits of [Mishra2022] section V-B; closed means ``q(0) = q(duration)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.errors import DimensionError, NonFiniteError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion.planes import GaitPlane, as_pair

# Ends of a gait may differ by what rounding and a file with ten digits leave.
CLOSURE_TOLERANCE = 1e-8
# Step of the differences that stand in for a velocity that was not given, of the duration: eight
# digits of it.
VELOCITY_DIFFERENCE = 1e-5

Curve = Callable[[Array], Array]


class GaitSamples(NamedTuple):
    """A gait at many times: t (N,) [s], q (N, n) and qd (N, n)."""

    t: Array
    q: Array
    qd: Array


@dataclass(frozen=True, eq=False)
class Gait:
    """A closed path in shape space; build one with the methods below.

    Calls take a time or an array of them; beyond its duration a gait goes on periodically.

    Attributes:
        duration: of one turn [s].
        plane: the plane that it moves in, or None in full shape space.
        breaks: times between which it is smooth, from 0 to the duration.
    """

    duration: float
    plane: GaitPlane | None
    breaks: tuple[float, ...]
    _at: Curve
    _rate: Curve

    # -- what it is -----------------------------------------------------------------------------

    def position(self, t: Any) -> Array:
        """Shapes q, shape (..., n) [rad or m], at times t."""
        points = self.coordinates(t)
        return points if self.plane is None else self.plane.shape_at(points)

    def velocity(self, t: Any) -> Array:
        """Joint velocities, shape (..., n), at times t."""
        rates = self._call(self._rate, t)
        return rates if self.plane is None else rates @ self.plane.basis.T

    def coordinates(self, t: Any) -> Array:
        """Coordinates r in the plane, shape (..., 2); in full shape space, the shapes."""
        return self._call(self._at, t)

    def sample(self, count: int = 200) -> GaitSamples:
        """The gait at equal steps of time, both ends included."""
        if count < 2:
            raise ParameterError(f"count: got {count}, expected at least 2")
        t = np.linspace(0.0, self.duration, count)
        return GaitSamples(t, self.position(t), self.velocity(t))

    def repeated(self, times: int) -> Gait:
        """The same turn so many times, one after the other."""
        if times < 1:
            raise ParameterError(f"times: got {times}, expected at least 1")
        T = self.duration
        breaks = {0.0} | {k * T + b for k in range(times) for b in self.breaks[1:]}
        return Gait(
            times * T,
            self.plane,
            tuple(sorted(breaks)),
            lambda t: self._at(t % T),
            lambda t: self._rate(t % T),
        )

    def reversed(self) -> Gait:
        """The same path the other way round."""
        return Gait(
            self.duration,
            self.plane,
            tuple(sorted(self.duration - b for b in self.breaks)),
            lambda t: self._at(self.duration - t),
            lambda t: -self._rate(self.duration - t),
        )

    def _call(self, curve: Curve, t: Any) -> Array:
        times = np.asarray(t, dtype=float)
        flat = np.ravel(times)
        wrapped = np.where(flat == self.duration, self.duration, flat % self.duration)
        return curve(wrapped).reshape(*times.shape, -1)

    # -- how to build one -----------------------------------------------------------------------

    @staticmethod
    def circle(
        plane: GaitPlane,
        radius: float,
        center: Any = (0.0, 0.0),
        *,
        start: float = 0.0,
        clockwise: bool = False,
        duration: float = 1.0,
    ) -> Gait:
        """Circle in a plane.

        Args:
            plane: the plane.
            radius: in its coordinates [rad or m].
            center: of the circle, shape (2,).
            start: angle of the first point from the plane's first direction [rad].
            clockwise: whether it turns from the second direction to the first.
            duration: [s].
        """
        return Gait.ellipse(
            plane, (radius, radius), center, start=start, clockwise=clockwise, duration=duration
        )

    @staticmethod
    def ellipse(
        plane: GaitPlane,
        semi_axes: Any,
        center: Any = (0.0, 0.0),
        *,
        tilt: float = 0.0,
        start: float = 0.0,
        clockwise: bool = False,
        duration: float = 1.0,
    ) -> Gait:
        """Ellipse in a plane.

        Args:
            plane: the plane.
            semi_axes: shape (2,) [rad or m].
            center: shape (2,).
            tilt: angle of the first semi-axis from the plane's first direction [rad].
            start: phase of the first point [rad].
            clockwise: whether it turns from the second direction to the first.
            duration: [s].
        """
        a, b = as_pair("semi_axes", semi_axes, float)
        turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])
        way = -1.0 if clockwise else 1.0
        c, s = np.cos(start), np.sin(start)
        # a cos(start + way p), b sin(start + way p)
        cosine = turn @ np.array([a * c, b * s])
        sine = way * turn @ np.array([-a * s, b * c])
        return Gait.fourier(cosine[None], sine[None], center, plane=plane, duration=duration)

    @staticmethod
    def rectangle(
        plane: GaitPlane,
        sides: Any,
        center: Any = (0.0, 0.0),
        *,
        clockwise: bool = False,
        duration: float = 1.0,
    ) -> Gait:
        """Rectangle in a plane, from its corner of least coordinates, at constant speed.

        Args:
            plane: the plane.
            sides: lengths along its two directions, shape (2,) [rad or m].
            center: shape (2,).
            clockwise: whether it goes along the second direction first.
            duration: [s].
        """
        w, h = (0.5 * side for side in as_pair("sides", sides, float))
        corners = np.array([[-w, -h], [w, -h], [w, h], [-w, h], [-w, -h]])
        if clockwise:
            corners = corners[::-1]
        middle = _array("center", center, (2,))
        return Gait.polyline(corners + middle, plane=plane, duration=duration)

    @staticmethod
    def fourier(
        cosines: Any,
        sines: Any,
        mean: Any = None,
        *,
        plane: GaitPlane | None = None,
        duration: float = 1.0,
    ) -> Gait:
        """Fourier series ``mean + sum_m cosines[m] cos((m+1) p) + sines[m] sin((m+1) p)``.

        Args:
            cosines: coefficients, shape (M, 2) in a plane or (M, n) in full shape space.
            sines: the same.
            mean: shape (2,) or (n,); zero unless given.
            plane: the plane, or None in full shape space.
            duration: [s]; p goes from 0 to 2 pi in it.
        """
        width = 2 if plane is not None else np.shape(cosines)[-1] if np.ndim(cosines) == 2 else 0
        a = _array("cosines", cosines, (None, width))
        b = _array("sines", sines, (len(a), width))
        m0 = _array("mean", np.zeros(width) if mean is None else mean, (width,))
        T = _duration(duration)
        w = 2.0 * np.pi / T * np.arange(1, len(a) + 1)

        def at(t: Array) -> Array:
            p = np.outer(t, w)
            return np.asarray(m0 + np.cos(p) @ a + np.sin(p) @ b)

        def rate(t: Array) -> Array:
            p = np.outer(t, w)
            return np.asarray((np.cos(p) * w) @ b - (np.sin(p) * w) @ a)

        return Gait(T, plane, (0.0, T), at, rate)

    @staticmethod
    def polyline(points: Any, *, plane: GaitPlane | None = None, duration: float = 1.0) -> Gait:
        """Straight lines through points, at constant speed.

        Args:
            points: shape (N, 2) in a plane or (N, n) in full shape space; the last is the first.
            plane: the plane, or None in full shape space.
            duration: [s].

        Raises:
            ParameterError: the path is open, or does not move.
        """
        corners = _array("points", points, (None, 2 if plane is not None else None))
        T = _duration(duration)
        _require_closed(corners[0], corners[-1])
        edges = np.diff(corners, axis=0)
        lengths = np.linalg.norm(edges, axis=1)
        moving = lengths > 0.0
        if not moving.any():
            raise ParameterError("points: the path does not move, expected at least two shapes")
        edges, lengths = edges[moving], lengths[moving]
        starts = np.vstack((corners[:-1][moving], corners[-1]))
        times = np.concatenate(([0.0], np.cumsum(lengths))) * (T / lengths.sum())
        times[-1] = T
        rates = edges / np.diff(times)[:, None]

        def edge(t: Array) -> Array:
            return np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(edges) - 1)

        def at(t: Array) -> Array:
            k = edge(t)
            return np.asarray(starts[k] + rates[k] * (t - times[k])[:, None])

        return Gait(T, plane, tuple(times.tolist()), at, lambda t: rates[edge(t)])

    @staticmethod
    def function(
        position: Callable[[float], Any],
        duration: float,
        *,
        velocity: Callable[[float], Any] | None = None,
        plane: GaitPlane | None = None,
        breaks: Any = (),
    ) -> Gait:
        """Any closed path.

        Args:
            position: function of the time [s] that returns r, shape (2,), or q, shape (n,).
            duration: [s].
            velocity: its derivative; by central differences unless given.
            plane: the plane, or None in full shape space.
            breaks: times at which its velocity jumps [s].

        Raises:
            ParameterError: the path is open.
        """
        T = _duration(duration)
        width = 2 if plane is not None else np.size(position(0.0))

        def rows(f: Callable[[float], Any], t: Array) -> Array:
            return np.array([_array("path", f(float(x)), (width,)) for x in t]).reshape(-1, width)

        _require_closed(*rows(position, np.array([0.0, T])))
        h = VELOCITY_DIFFERENCE * T
        edges = np.array(sorted({0.0, T, *(float(x) for x in breaks)}))

        def differences(t: Array) -> Array:
            k = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, len(edges) - 2)
            middle = np.clip(t, edges[k] + h, edges[k + 1] - h)  # not across a corner
            before, here, after = (rows(position, middle + d) for d in (-h, 0.0, h))
            bend = (after - 2.0 * here + before) * ((t - middle) / h**2)[:, None]
            return np.asarray((after - before) / (2.0 * h) + bend)

        rate = differences if velocity is None else lambda t: rows(velocity, t)
        return Gait(T, plane, tuple(edges.tolist()), lambda t: rows(position, t), rate)


def as_gait(path: Any, n: int) -> Gait:
    """A gait as it is, or the closed polyline through the rows of an array, shape (N, n)."""
    if isinstance(path, Gait):
        width = path.position(0.0).shape[-1]
        if width != n:
            raise DimensionError(f"path: moves {width} joints, expected {n}")
        return path
    points = _array("path", path, (None, n))
    return Gait.polyline(points)


def _require_closed(first: Array, last: Array) -> None:
    gap = float(abs(last - first).max())
    if gap > CLOSURE_TOLERANCE * (1.0 + float(abs(first).max())):
        raise ParameterError(
            f"path: open, its end is {gap:.3g} away from its beginning; a gait is closed, "
            "expected the first point again at the end"
        )


def _duration(duration: Any) -> float:
    try:
        T = float(duration)
    except (TypeError, ValueError):
        T = np.nan
    if not (np.isfinite(T) and T > 0.0):
        raise ParameterError(f"duration: got {duration!r}, expected a time above zero [s]")
    return T


def _array(name: str, value: Any, shape: tuple[int | None, ...]) -> Array:
    """Float array of a shape, None for any length from one on."""
    expected = "(" + ", ".join("N" if k is None else str(k) for k in shape) + ")"
    try:
        out = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise DimensionError(f"{name}: got {value!r}, expected shape {expected}") from error
    fits = out.ndim == len(shape) and all(
        (have > 0 if want is None else have == want)
        for have, want in zip(out.shape, shape, strict=True)
    )
    if not fits:
        raise DimensionError(f"{name}: got shape {out.shape}, expected {expected}")
    if not np.isfinite(out).all():
        raise NonFiniteError(f"{name}: holds NaN or infinity")
    return out
