# SPDX-License-Identifier: Apache-2.0
"""Gains of controllers: checked, and chosen to suit a robot.

A user gives gains as one number for all, as a list, or as a mapping by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import ParameterError, UnknownJointError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.parameters import number
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

Gains = ArrayLike | Mapping[str, float]

MAX_SOFT_STIFFNESS = 20.0  # [N m/rad or N/m]
MAX_SOFT_FREQUENCY = 25.0  # [rad/s]
# Growth per sample that is only rounding: a joint without gains has an eigenvalue of 1.
GROWTH_TOLERANCE = 1e-6


def gains(name: str, value: Gains, names: Sequence[str]) -> Array:
    """Check gains and return them as an array, shape (len(names),).

    Args:
        name: name of the argument, for error messages.
        value: one number for all, a list in the order of ``names``, or a mapping. A mapping must
            have every name, so that no gain is zero by mistake.
        names: names of the joints or axes that the gains belong to.

    Raises:
        UnknownJointError: the mapping has a name that is not among ``names``.
        ParameterError: the mapping lacks a name, or a gain is negative.
        DimensionError: the number of gains is wrong.
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


def shape_inertia(robot: Robot, q: ArrayLike) -> Array:
    """Inertia Lambda_q that the motors move while the base is free, shape (n, n) [kg m^2 or kg].

    Args:
        robot: the robot.
        q: joint positions, shape (n,) [rad or m].
    """
    return robot.reduced(q, np.zeros(robot.n), np.zeros(robot.b)).Lambda_q


def free_inertias(robot: Robot, q: ArrayLike | None = None) -> Array:
    """Inertia that each motor feels while the base and the other joints are free, shape (n,).

    This is the smallest inertia that a motor can feel. Gains that suit it also suit the joint
    when other joints are held.

    Args:
        robot: the robot.
        q: joint positions, shape (n,) [rad or m]; if None, the shape nearest to q = 0 within the
            limits.

    Returns:
        ``1 / (Lambda_q^-1)_ii`` [kg m^2 or kg].
    """
    if q is None:
        q = np.clip(0.0, robot.lower_limits, robot.upper_limits)
    return 1.0 / np.diag(np.linalg.inv(shape_inertia(robot, q)))


def soft_stiffness(inertias: Array) -> Array:
    """Stiffness K that holds joints gently, shape (n,): 20 N m/rad or N/m, less for light joints.

    With that stiffness a light joint would oscillate fast, and damping that acts one sample late
    would shake it. A controller at 100 Hz can still hold a joint that oscillates at 25 rad/s.

    Args:
        inertias: inertia of each joint, shape (n,) [kg m^2 or kg], see :func:`free_inertias`.
    """
    return np.minimum(MAX_SOFT_STIFFNESS, inertias * MAX_SOFT_FREQUENCY**2)


def critical_damping(stiffness: Array, inertias: Array) -> Array:
    """Critical damping D = 2 sqrt(K I), shape (n,) [N m s/rad or N s/m].

    Args:
        stiffness: K, shape (n,) [N m/rad or N/m].
        inertias: I, shape (n,) [kg m^2 or kg].
    """
    return 2.0 * np.sqrt(stiffness * inertias)


def shaken_joint(
    inertia: Array,
    stiffness: Array,
    damping: Array,
    period: float,
    integral: Array | None = None,
) -> int | None:
    """Joint that a sampled PD or PID law makes unstable.

    The model is linear and has no friction. The torques ``-K q - D qd - K_i int q dt`` are held
    between samples, and act one sample late.

    Args:
        inertia: inertia of the joints, such as Lambda_q, shape (n, n) [kg m^2 or kg].
        stiffness: K, shape (n,) [N m/rad or N/m].
        damping: D, shape (n,) [N m s/rad or N s/m].
        period: sampling period [s].
        integral: K_i, shape (n,) [N m/(rad s) or N/(m s)]; None for none.

    Returns:
        Index of the joint that moves most in the fastest growing motion; None if no motion grows.
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
    if integral is not None and integral.any():
        acts = integral > 0.0
        loop = np.block(
            [
                [loop, np.zeros((3 * n, acts.sum()))],
                [period * one[acts], np.zeros((acts.sum(), 2 * n)), np.eye(acts.sum())],
            ]
        )
        loop[2 * n : 3 * n, 3 * n :] = -np.diag(integral)[:, acts]
    growth, motions = np.linalg.eig(loop)
    worst = abs(growth).argmax()
    if abs(growth[worst]) < 1.0 + GROWTH_TOLERANCE:
        return None
    return int(abs(motions[n : 2 * n, worst]).argmax())


def not_negative(name: str, value: float, unit: str) -> float:
    """Check that a number is not negative; the error names the parameter and its unit."""
    out = number(name, value)
    if out < 0.0:
        raise ParameterError(f"{name}: got {out}, expected no negative number [{unit}]")
    return out


def positive(name: str, value: float, unit: str) -> float:
    """Check that a number is above zero; the error names the parameter and its unit."""
    out = number(name, value)
    if not out > 0.0:
        raise ParameterError(f"{name}: got {out}, expected a number above zero [{unit}]")
    return out


def or_zero(name: str, value: ArrayLike | None, size: int) -> Array:
    """Check a vector, shape (size,); None stands for zeros."""
    return np.zeros(size) if value is None else vector(name, value, size)
