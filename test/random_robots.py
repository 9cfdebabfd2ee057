# SPDX-License-Identifier: Apache-2.0
"""Random trees as URDF text: every joint kind, branches, fixed links, mimic, turned inertias."""

from __future__ import annotations

import numpy as np


def random_urdf(
    seed: int,
    joints: int = 6,
    *,
    branching: float = 0.4,
    prismatic: float = 0.25,
    mimic: float = 0.0,
    fixed: float = 0.3,
) -> str:
    """URDF text of a random robot.

    Args:
        seed: of the random numbers.
        joints: number of moving joints, mimic ones included.
        branching: probability that a joint starts at a random body instead of the last.
        prismatic: probability that a joint is prismatic.
        mimic: probability that a joint follows an earlier one.
        fixed: probability that a body carries another link by a fixed joint.
    """
    rng = np.random.default_rng(seed)
    parts = ['<robot name="random">', _link(rng, "base", mass=5.0)]
    bodies, drivers = ["base"], []
    for k in range(joints):
        parent = bodies[-1] if rng.random() > branching else str(rng.choice(bodies))
        name, joint = f"link{k}", f"joint{k}"
        kind = _kind(rng, prismatic)
        follow = ""
        if drivers and rng.random() < mimic:
            driver = rng.choice(drivers)
            follow = f'<mimic joint="{driver}" multiplier="{rng.normal():.6f}" offset="0.1"/>'
        else:
            drivers.append(joint)
        parts.append(_link(rng, name, mass=1.0))
        parts.append(_joint(rng, joint, kind, parent, name, follow))
        bodies.append(name)
        if rng.random() < fixed:
            parts.append(_link(rng, f"extra{k}", mass=0.5))
            parts.append(_joint(rng, f"weld{k}", "fixed", name, f"extra{k}", ""))
    # depth first is not document order: shuffle what follows the first line
    body = parts[1:]
    rng.shuffle(body)
    return "\n".join([parts[0], *body, "</robot>"])


def _kind(rng: np.random.Generator, prismatic: float) -> str:
    if rng.random() < prismatic:
        return "prismatic"
    return "continuous" if rng.random() < 0.3 else "revolute"


def _numbers(values: np.ndarray) -> str:
    return " ".join(f"{x:.9f}" for x in values)


def _origin(rng: np.random.Generator, reach: float) -> str:
    xyz, rpy = _numbers(rng.normal(size=3) * reach), _numbers(rng.normal(size=3))
    return f'<origin xyz="{xyz}" rpy="{rpy}"/>'


def _link(rng: np.random.Generator, name: str, mass: float) -> str:
    # moments of a random cloud of points are physical by construction
    cloud = rng.normal(size=(5, 3)) * 0.2
    cloud -= cloud.mean(axis=0)
    spread = mass * cloud.T @ cloud / len(cloud) + 1e-3 * mass * np.eye(3)
    inertia = np.trace(spread) * np.eye(3) - spread
    keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    moments = " ".join(
        f'{k}="{x:.9f}"' for k, x in zip(keys, inertia[np.triu_indices(3)], strict=True)
    )
    return (
        f'<link name="{name}"><inertial>{_origin(rng, 0.2)}'
        f'<mass value="{mass * rng.uniform(0.5, 2.0):.9f}"/><inertia {moments}/>'
        "</inertial></link>"
    )


def _joint(
    rng: np.random.Generator, name: str, kind: str, parent: str, child: str, follow: str
) -> str:
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    limit = '<limit lower="-2" upper="2" effort="10" velocity="3"/>' if kind != "fixed" else ""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'{_origin(rng, 0.4)}<axis xyz="{_numbers(axis)}"/>{limit}{follow}</joint>'
    )
