# SPDX-License-Identifier: Apache-2.0
"""Gaits: closed paths in shape space, with their timing.

Implements: the gaits of [Mishra2022] section V-B; closed means ``q(0) = q(duration)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import DimensionError, NonFiniteError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion.planes import GaitPlane, as_pair

# Relative difference of the two ends of a gait, from rounding or a file with ten digits.
CLOSURE_TOLERANCE = 1e-8
# Step of the finite differences that replace a missing velocity, as a share of the duration. They
# are accurate to about eight digits.
VELOCITY_DIFFERENCE = 1e-5

Curve = Callable[[Array], Array]


class GaitSamples(NamedTuple):
    """A gait at many times.

    Attributes:
        t: times, shape (N,) [s].
        q: joint positions, shape (N, n) [rad or m].
        qd: joint velocities, shape (N, n) [rad/s or m/s].
    """

    t: Array
    q: Array
    qd: Array


@dataclass(frozen=True, eq=False)
class Gait:
    """A closed path in shape space; build one with the static methods.

    Methods accept one time or an array of times. After its duration a gait repeats periodically.

    Attributes:
        duration: time of one turn [s].
        plane: the plane in which it moves, or None for full shape space.
        breaks: times between which it is smooth, from 0 to the duration [s].
    """

    duration: float
    plane: GaitPlane | None
    breaks: tuple[float, ...]
    _at: Curve
    _rate: Curve

    # -- what it is -----------------------------------------------------------------------------

    def position(self, t: ArrayLike) -> Array:
        """Joint positions q at times t [s], shape (..., n) [rad or m]."""
        points = self.coordinates(t)
        return points if self.plane is None else self.plane.shape_at(points)

    def velocity(self, t: ArrayLike) -> Array:
        """Joint velocities at times t [s], shape (..., n) [rad/s or m/s]."""
        rates = self._call(self._rate, t)
        return rates if self.plane is None else rates @ self.plane.basis.T

    def coordinates(self, t: ArrayLike) -> Array:
        """Coordinates r in the plane at times t [s], shape (..., 2); without a plane, q."""
        return self._call(self._at, t)

    def sample(self, count: int = 200) -> GaitSamples:
        """Sample the gait at equal time steps, both ends included."""
        if count < 2:
            raise ParameterError(f"count: got {count}, expected at least 2")
        t = np.linspace(0.0, self.duration, count)
        return GaitSamples(t, self.position(t), self.velocity(t))

    def repeated(self, times: int) -> Gait:
        """A gait that makes this one several times in a row."""
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
        """The same path in the opposite direction."""
        return Gait(
            self.duration,
            self.plane,
            tuple(sorted(self.duration - b for b in self.breaks)),
            lambda t: self._at(self.duration - t),
            lambda t: -self._rate(self.duration - t),
        )

    def _call(self, curve: Curve, t: ArrayLike) -> Array:
        """Values of a curve at times of any shape, continued periodically."""
        times = np.asarray(t, dtype=float)
        flat = np.ravel(times)
        wrapped = np.where(flat == self.duration, self.duration, flat % self.duration)
        return curve(wrapped).reshape(*times.shape, -1)

    # -- how to build one -----------------------------------------------------------------------

    @staticmethod
    def circle(
        plane: GaitPlane,
        radius: float,
        center: ArrayLike = (0.0, 0.0),
        *,
        start: float = 0.0,
        clockwise: bool = False,
        duration: float = 1.0,
    ) -> Gait:
        """Circle in a plane.

        Args:
            plane: the plane.
            radius: radius in the plane's coordinates [rad or m].
            center: centre in the plane's coordinates, shape (2,) [rad or m].
            start: angle of the first point from the plane's first direction [rad].
            clockwise: whether it turns from the second direction to the first.
            duration: time of one turn [s].
        """
        return Gait.ellipse(
            plane, (radius, radius), center, start=start, clockwise=clockwise, duration=duration
        )

    @staticmethod
    def ellipse(
        plane: GaitPlane,
        semi_axes: ArrayLike,
        center: ArrayLike = (0.0, 0.0),
        *,
        tilt: float = 0.0,
        start: float = 0.0,
        clockwise: bool = False,
        duration: float = 1.0,
    ) -> Gait:
        """Ellipse in a plane.

        Args:
            plane: the plane.
            semi_axes: lengths of the semi-axes, shape (2,) [rad or m].
            center: centre in the plane's coordinates, shape (2,) [rad or m].
            tilt: angle of the first semi-axis from the plane's first direction [rad].
            start: phase of the first point [rad].
            clockwise: whether it turns from the second direction to the first.
            duration: time of one turn [s].
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
        sides: ArrayLike,
        center: ArrayLike = (0.0, 0.0),
        *,
        clockwise: bool = False,
        duration: float = 1.0,
    ) -> Gait:
        """Rectangle in a plane at constant speed, from the corner with the least coordinates.

        Args:
            plane: the plane.
            sides: lengths along its two directions, shape (2,) [rad or m].
            center: centre in the plane's coordinates, shape (2,) [rad or m].
            clockwise: whether it moves along the second direction first.
            duration: time of one turn [s].
        """
        w, h = (0.5 * side for side in as_pair("sides", sides, float))
        corners = np.array([[-w, -h], [w, -h], [w, h], [-w, h], [-w, -h]])
        if clockwise:
            corners = corners[::-1]
        middle = _array("center", center, (2,))
        return Gait.polyline(corners + middle, plane=plane, duration=duration)

    @staticmethod
    def fourier(
        cosines: ArrayLike,
        sines: ArrayLike,
        mean: ArrayLike | None = None,
        *,
        plane: GaitPlane | None = None,
        duration: float = 1.0,
    ) -> Gait:
        """Fourier series ``mean + sum_m cosines[m] cos((m+1) p) + sines[m] sin((m+1) p)``.

        Args:
            cosines: coefficients [rad or m], shape (M, 2) in a plane or (M, n) in full shape
                space.
            sines: coefficients, with the shape of ``cosines``.
            mean: constant part, shape (2,) or (n,) [rad or m]; zero if None.
            plane: the plane, or None for full shape space.
            duration: time of one turn [s], in which the phase p goes from 0 to 2 pi.
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
    def polyline(
        points: ArrayLike, *, plane: GaitPlane | None = None, duration: float = 1.0
    ) -> Gait:
        """Straight lines through points, at constant speed.

        Args:
            points: the points [rad or m], shape (N, 2) in a plane or (N, n) in full shape space;
                the last equals the first.
            plane: the plane, or None for full shape space.
            duration: time of one turn [s].

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
        position: Callable[[float], ArrayLike],
        duration: float,
        *,
        velocity: Callable[[float], ArrayLike] | None = None,
        plane: GaitPlane | None = None,
        breaks: Iterable[float] = (),
    ) -> Gait:
        """Any closed path, given by a function.

        Args:
            position: function of the time [s] that returns r, shape (2,), in a plane, or q, shape
                (n,), in full shape space [rad or m].
            duration: time of one turn [s].
            velocity: derivative of ``position``; if None, from central differences.
            plane: the plane, or None for full shape space.
            breaks: times at which the velocity jumps [s].

        Raises:
            ParameterError: the path is open.
        """
        T = _duration(duration)
        width = 2 if plane is not None else np.size(position(0.0))

        def rows(f: Callable[[float], ArrayLike], t: Array) -> Array:
            return np.array([_array("path", f(float(x)), (width,)) for x in t]).reshape(-1, width)

        _require_closed(*rows(position, np.array([0.0, T])))
        h = VELOCITY_DIFFERENCE * T
        edges = np.array(sorted({0.0, T, *(float(x) for x in breaks)}))

        def differences(t: Array) -> Array:
            k = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, len(edges) - 2)
            middle = np.clip(t, edges[k] + h, edges[k + 1] - h)  # stays on one side of a corner
            before, here, after = (rows(position, middle + d) for d in (-h, 0.0, h))
            bend = (after - 2.0 * here + before) * ((t - middle) / h**2)[:, None]
            return np.asarray((after - before) / (2.0 * h) + bend)

        rate = differences if velocity is None else lambda t: rows(velocity, t)
        return Gait(T, plane, tuple(edges.tolist()), lambda t: rows(position, t), rate)


def as_gait(path: Gait | ArrayLike, n: int) -> Gait:
    """Check a gait of n joints, or make one from the points of a closed polyline, (N, n)."""
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


def above_zero(name: str, value: float, expected: str) -> float:
    """Check that an argument is finite and above zero; ``expected`` says what it should be."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not (np.isfinite(number) and number > 0.0):
        raise ParameterError(f"{name}: got {value!r}, expected {expected}")
    return number


def _duration(duration: float) -> float:
    return above_zero("duration", duration, "a time above zero [s]")


def _array(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> Array:
    """Check an array of a shape, in which None stands for any length of at least one."""
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
