# SPDX-License-Identifier: Apache-2.0
"""Gains and other settings of controllers: one number for all, a list, or a mapping by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vm_dynamics.errors import ParameterError, UnknownJointError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.parameters import number
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

SOFT = 20.0  # [N m/rad or N/m]
FASTEST = 25.0  # [rad/s]
GROWTH = 1e-6  # in a sample: what a joint that is left alone has by rounding


def gains(name: str, value: Any, names: Sequence[str]) -> Array:
    """Gains, none negative, shape (len(names),).

    Args:
        name: of the argument, for the error.
        value: one number for all, one for each name in their order, or a mapping that has all
            names, so that none is zero by mistake.
        names: what the gains are of.

    Raises:
        UnknownJointError: the mapping has a name that is not among ``names``.
        ParameterError: the mapping lacks a name, or a gain is negative.
        DimensionError: the wrong number of gains.
    """
    if isinstance(value, Mapping):
        for key in value:
            if key not in names:
                raise UnknownJointError(f"{name} of", key, names)
        missing = [key for key in names if key not in value]
        if missing:
            raise ParameterError(f"{name}: got none for {', '.join(missing)}, expected one each")
        value = [value[key] for key in names]
    elif np.ndim(value) == 0 and not isinstance(value, str):
        value = np.full(len(names), value)
    out = vector(name, value, len(names))
    if (out < 0.0).any():
        raise ParameterError(f"{name}: got {out}, expected no negative number")
    return out


def shape_inertia(robot: Robot, q: Any) -> Array:
    """Lambda_q of a shape, (n, n) [kg m^2 or kg]: what the motors move on a free base."""
    return robot.reduced(q, np.zeros(robot.n), np.zeros(robot.b)).Lambda_q


def free_inertias(robot: Robot, q: Any = None) -> Array:
    """Inertia against which each motor works when base and other joints are free, shape (n,).

    It is the least that a motor feels, so gains that suit it suit the joint, whatever others do.

    Args:
        robot: the robot.
        q: shape (n,); if None, the one nearest to q = 0 within the joints' limits.

    Returns:
        ``1 / (Lambda_q^-1)_ii`` [kg m^2 or kg].
    """
    if q is None:
        q = np.clip(0.0, robot.lower_limits, robot.upper_limits)
    return 1.0 / np.diag(np.linalg.inv(shape_inertia(robot, q)))


def soft_stiffness(inertias: Array) -> Array:
    """K of joints that hold gently: 20 N m/rad or N/m, less of a light joint.

    A light joint would swing fast, and damping that acts a sample late then shakes it. At 25 rad/s
    a controller of 100 Hz still holds it.
    """
    return np.minimum(SOFT, inertias * FASTEST**2)


def critical_damping(stiffness: Array, inertias: Array) -> Array:
    """D = 2 sqrt(K I) [N m s/rad or N s/m]."""
    return 2.0 * np.sqrt(stiffness * inertias)


def shaken_joint(inertia: Array, stiffness: Array, damping: Array, period: float) -> int | None:
    """Which joint a PD law with a period shakes, by what it measured a period ago.

    Linear, without friction: torques ``-K q - D qd`` act from one sample to the next, and come a
    sample late.

    Args:
        inertia: of the joints, such as Lambda_q, shape (n, n) [kg m^2 or kg].
        stiffness: K, shape (n,) [N m/rad or N/m].
        damping: D, shape (n,) [N m s/rad or N s/m].
        period: of the samples [s].

    Returns:
        The joint that moves most in the motion that grows fastest; None if none grows.
    """
    n = len(stiffness)
    one, none, push = np.eye(n), np.zeros((n, n)), period * np.linalg.inv(inertia)
    loop = np.block(
        [
            [one, period * one, 0.5 * period * push],
            [none, one, push],
            [-np.diag(stiffness), -np.diag(damping), none],
        ]
    )
    growth, motions = np.linalg.eig(loop)
    worst = abs(growth).argmax()
    if abs(growth[worst]) < 1.0 + GROWTH:
        return None
    return int(abs(motions[n : 2 * n, worst]).argmax())


def not_negative(name: str, value: Any, unit: str) -> float:
    """A number that is not negative, or an error that names the parameter."""
    out = number(name, value)
    if out < 0.0:
        raise ParameterError(f"{name}: got {out}, expected no negative number [{unit}]")
    return out


def positive(name: str, value: Any, unit: str) -> float:
    """A number above zero, or an error that names the parameter."""
    out = number(name, value)
    if not out > 0.0:
        raise ParameterError(f"{name}: got {out}, expected a number above zero [{unit}]")
    return out


def or_zero(name: str, value: Any, size: int) -> Array:
    """A vector, zero if None."""
    return np.zeros(size) if value is None else vector(name, value, size)
