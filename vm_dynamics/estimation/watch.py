# SPDX-License-Identifier: Apache-2.0
"""Whether a filter's innovations are those that its covariance promises, and what to do if not.

With a right model, innovations that are divided by their expected deviations are white noise. A
wrong one (masses, a payload, a force that nobody told of) pushes the momentum the same way for a
while: the innovations agree with each other, and their sum over a window, each faded by its age,

    s = sum rho^i L_i^-1 r_i, w = sum rho^2i, S_i = L_i L_i^T

grows too long. The drift ``|s|^2 / (w k)``, k its size, is one on average if all is well and shows
a wrong model long before the single innovations do. Then the disturbance is taken to be stronger,
until the innovations are again what is expected of them; when they are smaller, it slowly comes
back. Linear and angular parts of s and of the disturbance are judged each by itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from vm_dynamics.estimation.history import Kind
from vm_dynamics.estimation.innovation import Innovation
from vm_dynamics.lie.se3 import Array

# Measured on shipped and random robots with base masses up to 30 % wrong: docs/observers.md.
WINDOW = 1.0  # [s] over which innovations are summed
WINDOW_MEASUREMENTS = 10.0  # where they come so seldom that this takes longer
LARGE_DRIFT, LARGEST_DRIFT = 2.8, 4.1  # where widening begins, and where it is as fast as it gets
SMALL_DRIFT = 0.75  # below which the disturbance narrows
# of the logarithm of its variance, in a window, for each unit of drift
WIDENING_RATE, NARROWING_RATE = 6.6, 2.0
WIDEST = math.log(1e6)
DISTRUST = 0.3  # more covariance for each e-fold of the disturbance's variance
SETTLED_WEIGHT = 4.0  # of a window, after some seven measurements of about twelve that it takes
NIS_WINDOWS = 4.0  # the mean innovation is taken over so many windows
LARGEST_NIS = 1e6  # that goes into a mean
INCONSISTENT_WIDENING = math.log(25.0)
INCONSISTENT_NIS = 2.5  # mean, by degrees of freedom


Parts = tuple[Array, Array]  # numbers of the linear and of the angular components


class Window(NamedTuple):
    """Innovations of one kind of measurement, of late.

    Attributes:
        t: time of the last one [s].
        total: their sum s, shape (k,).
        weight: w.
        nis: mean of their squares by degrees of freedom; one is right.
    """

    t: float
    total: Array
    weight: float
    nis: float

    def share(self, t: float) -> float:
        """Share of the window that belongs to a measurement at time t."""
        return 1.0 - math.exp(-min(max(t - self.t, 0.0) / WINDOW, 1.0 / WINDOW_MEASUREMENTS))

    def mean_nis(self, t: float, found: Innovation) -> float:
        """Mean with one more measurement."""
        one = min(found.nis / len(found.residual), LARGEST_NIS)
        return self.nis + self.share(t) / NIS_WINDOWS * (one - self.nis)


class Watch(NamedTuple):
    """What innovations were like, by kind of measurement.

    Attributes:
        windows: one for each kind that came.
        widenings: logarithms of the factors on the variance of the disturbance, linear, angular.
        restarted: whether the estimate began anew because measurements did not fit it.
    """

    windows: dict[Kind, Window]
    widenings: tuple[float, float]
    restarted: bool

    def used(self, kind: Kind, t: float, found: Innovation, parts: Parts) -> Watch:
        """After a measurement that is used; ``parts`` are its linear and angular components."""
        window = self.windows.get(kind)
        if window is None:
            return self._with(kind, Window(t, found.white, 1.0, 1.0), self.widenings)
        share = window.share(t)
        fade = 1.0 - share
        total, weight = fade * window.total + found.white, fade * fade * window.weight + 1.0
        widenings = list(self.widenings)
        for i, part in enumerate(parts):
            if not len(part):
                continue
            drift = float(total[part] @ total[part]) / (weight * len(part))
            step = WIDENING_RATE * share * max(min(drift, LARGEST_DRIFT) - LARGE_DRIFT, 0.0)
            step -= NARROWING_RATE * share * max(SMALL_DRIFT - drift, 0.0)
            widenings[i] = min(max(self.widenings[i] + step, 0.0), WIDEST)
            # what came before is judged by the new disturbance too, or it would be widened twice
            total[part] *= math.exp(0.5 * (self.widenings[i] - widenings[i]))
        window = Window(t, total, weight, window.mean_nis(t, found))
        return self._with(kind, window, (widenings[0], widenings[1]))

    def missed(self, kind: Kind, t: float, found: Innovation) -> Watch:
        """After a measurement that is rejected."""
        window = self.windows.get(kind)
        if window is None:
            return self
        window = window._replace(t=t, nis=window.mean_nis(t, found))
        return self._with(kind, window, self.widenings)

    def is_settled(self, kind: Kind) -> bool:
        """Whether so many measurements fitted that others that do not speak against the model."""
        return kind in self.windows and self.windows[kind].weight > SETTLED_WEIGHT

    def widened(self) -> Watch:
        """With a disturbance twice as strong, since good measurements do not pass."""
        linear, angular = (min(x + math.log(4.0), WIDEST) for x in self.widenings)
        return self._replace(widenings=(linear, angular))

    def _with(self, kind: Kind, window: Window, widenings: tuple[float, float]) -> Watch:
        return Watch({**self.windows, kind: window}, widenings, self.restarted)

    @property
    def widening(self) -> float:
        """The larger of the two."""
        return max(self.widenings)

    @property
    def factor(self) -> float:
        """Of the variance of the disturbance, linear or angular, whichever is larger."""
        return math.exp(self.widening)

    @property
    def distrust(self) -> float:
        """Factor on the covariance that is told to others.

        What a wrong model, or stamps that are late, do to an estimate is no noise that a stronger
        disturbance covers all of.
        """
        return 1.0 + DISTRUST * self.widening

    @property
    def nis(self) -> float:
        """Mean innovation squared by degrees of freedom, of the kind where it is largest."""
        return max((window.nis for window in self.windows.values()), default=1.0)

    @property
    def doubts(self) -> str:
        """What speaks against the model, in words; empty if nothing does."""
        found = []
        if self.widening > INCONSISTENT_WIDENING:
            times = math.exp(0.5 * self.widening)
            found.append(f"the disturbance seems {times:.2g} times as strong as told")
        if self.nis > INCONSISTENT_NIS:
            found.append(
                f"innovations squared are {self.nis:.2g} times as large as noise and model say"
            )
        if self.restarted and not self.is_settled(Kind.POSE):
            found.append("the estimate began anew, and few measurements have confirmed it")
        return "; ".join(found)


NOTHING_SEEN = Watch({}, (0.0, 0.0), restarted=False)
RESTARTED = Watch({}, (0.0, 0.0), restarted=True)
