# SPDX-License-Identifier: Apache-2.0
"""The robots that the dynamics is tested on: shipped, random trees, and the extremes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from random_robots import random_urdf

import vm_dynamics as vm

ROBOTS = Path(__file__).resolve().parent.parent / "config" / "robots"
SHIPPED = tuple(sorted(path.stem for path in ROBOTS.glob("*.urdf")))
RANDOM = {
    **{f"tree{seed}": random_urdf(seed, 3 + seed) for seed in range(6)},
    "chain": random_urdf(10, 7, branching=0.0, fixed=0.0),
    "prismatic": random_urdf(11, 5, prismatic=1.0),
    "mimic": random_urdf(12, 8, mimic=0.5),
    "mimic_chain": random_urdf(13, 8, mimic=0.5, branching=0.0),
    "star": random_urdf(14, 8, branching=1.0),
    "no_joint": random_urdf(15, 0),
    "one_joint": random_urdf(16, 1),
}
ALL = (*SHIPPED, *RANDOM)
GROUPS = vm.lie.GROUP_NAMES


def text(name: str) -> str:
    """URDF text of a case."""
    return RANDOM[name] if name in RANDOM else (ROBOTS / f"{name}.urdf").read_text()


@cache
def load(name: str, base: str = "SE3", gravity: tuple[float, ...] = (0.0, 0.0, 0.0)) -> vm.Robot:
    """Robot of a case."""
    return vm.load(text(name), base=base, gravity=gravity)


class State:
    """A random state of a robot: q, qd, V, mu, and forces tau, F, tip wrench."""

    def __init__(self, robot: vm.Robot, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.q, self.qd, self.tau, self.qdd = rng.normal(size=(4, robot.n))
        self.V, self.mu, self.F, self.Vd = rng.normal(size=(4, robot.b))
        self.tip = rng.normal(size=6)
        self.g = vm.lie.SE3.exp(rng.normal(size=6))


def relative(value: np.ndarray, expected: np.ndarray, floor: float = 1e-3) -> float:
    """Largest difference in units of the largest expected entry, or of ``floor`` if larger."""
    assert np.shape(value) == np.shape(expected)
    if np.size(expected) == 0:
        return 0.0
    return float(abs(value - expected).max() / max(abs(expected).max(), floor))


# Coefficients of the central difference of order eight.
_STENCIL = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))


def derivative(f, x: np.ndarray, direction: np.ndarray, h: float = 2e-2) -> np.ndarray:
    """Directional derivative by the central difference of order eight: about 12 digits."""
    return sum(c * (f(x + k * h * direction) - f(x - k * h * direction)) for k, c in _STENCIL) / h
