# SPDX-License-Identifier: Apache-2.0
"""Random serial chains as URDF text, for both libraries to read the same robot.

Every joint is revolute about x, y or z, the axes for which Pinocchio has code of its own, between
frames that are turned and shifted at random; every link has a centre of mass off its origin and
a full inertia tensor.
"""

from __future__ import annotations

import numpy as np

AXES = ("1 0 0", "0 1 0", "0 0 1")


def chain_urdf(n: int, seed: int = 0) -> str:
    """URDF of a base link and n joints in a row."""
    rng = np.random.default_rng((seed, n))
    parts = [f'<robot name="chain{n}">', _link(rng, 0, mass=50.0)]
    for k in range(1, n + 1):
        parts += [_joint(rng, k), _link(rng, k, mass=rng.uniform(0.5, 5.0))]
    return "\n".join([*parts, "</robot>"])


def _joint(rng: np.random.Generator, k: int) -> str:
    return (
        f'<joint name="joint{k}" type="revolute">'
        f'<parent link="link{k - 1}"/><child link="link{k}"/>'
        f'<origin xyz="{_numbers(rng.uniform(-0.3, 0.3, 3))}"'
        f' rpy="{_numbers(rng.uniform(-1.5, 1.5, 3))}"/>'
        f'<axis xyz="{rng.choice(AXES)}"/>'
        '<limit lower="-3.1" upper="3.1" effort="100" velocity="3"/></joint>'
    )


def _link(rng: np.random.Generator, k: int, mass: float) -> str:
    # The inertia of a cloud of points always satisfies the triangle inequality.
    points = rng.normal(scale=0.1, size=(10, 3))
    second = mass * np.cov(points.T)
    I = np.trace(second) * np.eye(3) - second
    entries = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2)}
    entries |= {"iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
    moments = " ".join(f'{name}="{float(I[at])!r}"' for name, at in entries.items())
    return (
        f'<link name="link{k}"><inertial>'
        f'<origin xyz="{_numbers(rng.uniform(-0.1, 0.1, 3))}"'
        f' rpy="{_numbers(rng.uniform(-1.5, 1.5, 3))}"/>'
        f'<mass value="{float(mass)!r}"/><inertia {moments}/></inertial></link>'
    )


def _numbers(values: np.ndarray) -> str:
    return " ".join(repr(float(value)) for value in values)
