# SPDX-License-Identifier: Apache-2.0
"""Inertias combine and move as the points that they are of."""

import numpy as np
import pytest

from vm_dynamics.lie import se3
from vm_dynamics.model.inertia import Inertia, combine


def _points(seed, count=6):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 2.0, count), rng.normal(size=(count, 3))


def _of_points(masses, points):
    """Inertia of point masses, by its definition."""
    com = masses @ points / masses.sum()
    arms = points - com
    tensor = sum(
        m * (d @ d * np.eye(3) - np.outer(d, d)) for m, d in zip(masses, arms, strict=True)
    )
    return Inertia.of(masses.sum(), com, tensor)


def _close(one, other):
    mine, theirs = ([x.mass, *x.com, *x.moments] for x in (one, other))
    return np.allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_inertias_of_point_clouds_combine_and_move_as_the_points_do(seed):
    masses, points = _points(seed)
    whole = _of_points(masses, points)
    assert _close(_of_points(masses[:2], points[:2]) + _of_points(masses[2:], points[2:]), whole)
    pose = se3.exp(np.random.default_rng(seed).normal(size=6))
    moved = points @ pose[:3, :3].T + pose[:3, 3]
    assert _close(whole.moved(pose), _of_points(masses, moved))
    assert whole.unphysical() is None and whole.triangle_violation() is None


def test_nothing_combined_with_nothing_is_nothing():
    assert combine([Inertia(), Inertia()]) == Inertia()
    only = Inertia.of(0.0, np.zeros(3), np.diag([1.0, 2.0, 3.0]))
    assert combine([only, Inertia()]) == only
