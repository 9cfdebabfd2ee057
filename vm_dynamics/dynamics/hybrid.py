# SPDX-License-Identifier: Apache-2.0
"""Hybrid dynamics: some degrees of freedom are driven, the others follow.

Implements: [Jain] sections 4 to 6. An active degree of freedom has a given acceleration and an
unknown force; a passive one the opposite. All passive is forward dynamics, all active inverse
dynamics. Signs of the Jacobians as in [Jain] with its errata: ``J_D = -M_pp^-1 M_pa``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import DimensionError, ParameterError, UnknownJointError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import RobotModel, vector

BASE = "base"


class HybridMotion(NamedTuple):
    """All accelerations and forces: dV/dt (b,), qdd (n,), F (b,) in frame {1}, tau (n,)."""

    Vd: Array
    qdd: Array
    F: Array
    tau: Array


def passive_mask(robot: RobotModel, passive: Iterable[str]) -> Array:
    """1 for every passive degree of freedom, base first, shape (b + n,).

    Args:
        robot: the robot.
        passive: names of joints, and ``base`` for the base.

    Raises:
        UnknownJointError: a name that is neither.
    """
    names = {passive} if isinstance(passive, str) else set(passive)
    valid = (BASE, *robot.joint_names)
    for name in sorted(map(str, names)):
        if name not in valid:
            raise UnknownJointError("passive degree of freedom", name, valid)
    base = np.full(robot.b, float(BASE in names))
    return np.concatenate((base, [float(name in names) for name in robot.joint_names]))


def spread(name: str, value: Any, chosen: Array) -> Array:
    """Values of the chosen degrees of freedom, zero elsewhere, shape (b + n,).

    Args:
        name: of the argument, for the error.
        value: one number for each chosen degree of freedom in their order, or for all of them.
        chosen: mask, shape (b + n,).
    """
    size, count = len(chosen), int(np.sum(chosen != 0.0))
    given = np.size(value)
    if given not in (size, count):
        raise DimensionError(
            f"{name}: got {given} numbers, expected {count} (the {name.split('_')[0]} ones) or "
            f"{size} (all)"
        )
    out = np.zeros(size)
    values = vector(name, np.ravel(value), given)
    out[chosen != 0.0] = values[chosen != 0.0] if given == size else values
    return out


def of_joints(robot: RobotModel, name: str, value: Any) -> Array:
    """A number for each joint, shape (n,): from one for all, a sequence, or a mapping by name."""
    if isinstance(value, Mapping):
        for joint in value:
            if joint not in robot.joint_names:
                raise UnknownJointError(name, joint, robot.joint_names)
        return vector(name, [value.get(joint, 0.0) for joint in robot.joint_names], robot.n)
    return vector(name, np.full(robot.n, value) if np.ndim(value) == 0 else value, robot.n)


def spring_force(
    robot: RobotModel,
    q: Array,
    qd: Array,
    stiffness: ArrayLike,
    damping: ArrayLike,
    rest: ArrayLike,
) -> Array:
    """Force of springs and dampers in the joints, ``-k (q - rest) - d qd``, shape (n,)."""
    k = of_joints(robot, "stiffness", stiffness)
    d = of_joints(robot, "damping", damping)
    for name, values in (("stiffness", k), ("damping", d)):
        if (values < 0.0).any():
            raise ParameterError(f"{name}: got {values}, expected no negative number")
    return -k * (q - of_joints(robot, "rest", rest)) - d * qd
