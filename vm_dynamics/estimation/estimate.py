# SPDX-License-Identifier: Apache-2.0
"""What observers estimate and how they are doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.estimation._kernels import HUGE
from vm_dynamics.lie.se3 import Array

SHORTEST = 1e-6  # [s], between poses that tell a velocity
LARGEST_NIS = 1e300
NO_WRENCH = np.zeros(6)


@dataclass(frozen=True)
class Status:
    """How an observer is doing.

    Attributes:
        state: ``waiting`` for joints and a pose to begin with; ``tracking``; ``inconsistent`` when
            measurements contradict the model, see ``doubts``; ``coasting`` on the model when the
            last pose used is older than ``pose_timeout``.
        stamp: time of the estimate [s], zero before the first event.
        used: poses, gyroscope readings and velocities that went into the estimate.
        rejected: those that were outliers.
        late: inputs from before the history.
        future: inputs too far ahead of the newest joint sample.
        repeated: inputs with the stamp of another one of their kind.
        malformed: inputs with NaN, infinity or numbers beyond 1e12, a matrix that is no pose, or
            one that is no covariance.
        reinitialisations: how often the estimate began anew.
        doubts: what speaks against the estimate, in words; empty if nothing does.
    """

    state: str
    stamp: float
    used: int
    rejected: int
    late: int
    future: int
    repeated: int
    malformed: int
    reinitialisations: int
    doubts: str = ""


class Estimate(NamedTuple):
    """An estimate right after an event.

    Attributes:
        alive: whether there is one; if not, only ``known`` and ``nis`` say something.
        g: pose of {1} in the world, shape (4, 4).
        m: what moves it: a momentum, shape (6,), or as the observer has it.
        known: the known wrench on the base, shape (6,), ``NO_WRENCH`` until one comes.
        wrenches: all on the base, row 0 along the axes of {1}, row 1 the world's, shape (2, 6).
        spacing: time from one joint sample to the next [s].
        t_pose: stamp of the last pose that was used [s].
        nis: of the last pose.
        memory: what the observer keeps besides.
    """

    alive: bool
    g: Array
    m: Array
    known: Array
    wrenches: Array
    spacing: float
    t_pose: float
    nis: float
    memory: Any


class Measurement(NamedTuple):
    """A pose, shape (4, 4), or three numbers along the body's axes or the world's."""

    value: Array
    covariance: Array
    axes: str = "body"


def plain_nis(e: Array, noise: Array) -> float:
    """Squared error of a pose in units of its own noise, for observers without covariance."""
    nis = float(e @ np.linalg.solve(noise, e))
    return nis if nis <= LARGEST_NIS else LARGEST_NIS  # NaN too, of a covariance near singular


def straightened(g: Array) -> Array:
    """A pose without the rounding of many products in its rotation: R (3 - R^T R) / 2."""
    out = g.copy()
    R = out[:3, :3]
    for _ in range(2):
        R[:] = 0.5 * (3.0 * R - R @ (R.T @ R))
    return out


def is_reasonable(*arrays: Array) -> bool:
    """Whether arrays hold numbers that are far from overflow, and no NaN."""
    return all(bool(abs(x).max() <= HUGE) for x in arrays if x.size)
