# SPDX-License-Identifier: Apache-2.0
"""Checks of what comes to the observers: bad parameters raise, bad measurements are told apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from vm_dynamics.errors import DimensionError, NonFiniteError, NotInGroupError, ParameterError
from vm_dynamics.estimation._kernels import LARGEST
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array

SYMMETRY = 1e-9  # of a covariance, relative to its diagonal


def numbers(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """Fresh contiguous floats of a shape, NaN allowed, or an error that names the argument."""
    try:
        out = np.array(value, dtype=float, order="C")
    except (TypeError, ValueError) as error:
        raise DimensionError(
            f"{name}: got {type(value).__name__}, expected numbers of shape {shape} ({error})"
        ) from error
    if out.shape != shape:
        raise DimensionError(f"{name}: got shape {out.shape}, expected {shape}")
    return out


def seconds(stamp: Any) -> float:
    """A stamp as a float, which may be NaN."""
    try:
        return float(stamp)
    except (TypeError, ValueError):
        raise ParameterError(f"stamp: got {stamp!r}, expected seconds as a number") from None


def positive(name: str, value: Any, *, least: float = 0.0) -> float:
    """A finite number above ``least``, or an error that names the parameter."""
    try:
        out = float(value)
    except (TypeError, ValueError):
        out = math.nan
    if not (math.isfinite(out) and out > least):
        raise ParameterError(f"{name}: got {value!r}, expected a number above {least:g}")
    return out


def pair(name: str, value: Any) -> tuple[float, float]:
    """Two positive numbers, linear and angular, from two or one."""
    parts = (value, value) if np.ndim(value) == 0 else tuple(value)
    if len(parts) != 2:
        raise ParameterError(f"{name}: got {value!r}, expected a number or two (linear, angular)")
    return positive(name, parts[0]), positive(name, parts[1])


def gates(probability: float, freedoms: tuple[int, ...]) -> tuple[float, ...]:
    """Quantiles of the chi-square distributions."""
    from scipy.special import chdtri  # not at import, which it would slow down

    chance = 1.0 - positive("gate", probability)
    if chance <= 0.0:
        raise ParameterError(f"gate: got {probability!r}, expected a probability below 1")
    return tuple(float(chdtri(f, chance)) for f in freedoms)


def deviations(name: str, value: Any, n: int) -> Array:
    """Standard deviations of n joints, shape (n,), from one or n."""
    out = np.array(value, dtype=float)
    if out.shape not in ((), (n,)) or not (np.isfinite(out).all() and (out > 0.0).all()):
        raise ParameterError(f"{name}: got {value!r}, expected a number above 0, or {n} such")
    return np.broadcast_to(out, (n,)).copy()


def group_covariance(name: str, deviation: Any, to_group: Array) -> Array:
    """Covariance in coordinates of a base group, shape (b, b), of two standard deviations.

    Args:
        name: of the parameter, for an error's message.
        deviation: one number for all directions, or two, of the linear and the angular ones.
        to_group: from six coordinates to the group's, shape (b, 6): iota^+ of twists, iota^T of
            wrenches.
    """
    linear, angular = pair(name, deviation)
    return (to_group * np.repeat((linear**2, angular**2), 3)) @ to_group.T


def pose_noise(covariance: Any, default: Array, iota_pinv: Array) -> Array:
    """Covariance of a pose, shape (b, b), from that or six by six, or the default.

    None, and all zero, is how drivers say that they do not know.
    """
    if covariance is None:
        return default
    b = len(iota_pinv)
    six = np.shape(covariance) == (6, 6)
    value = numbers("covariance", covariance, (6, 6) if six else (b, b))
    if not value.any():
        return default
    return iota_pinv @ value @ iota_pinv.T if six and b < 6 else value


def reading_noise(covariance: Any, default: Array) -> Array:
    """Covariance of a reading, shape (3, 3), or the default if it is None or all zero."""
    if covariance is None:
        return default
    value = numbers("covariance", covariance, (3, 3))
    return value if value.any() else default


def is_moderate(value: Array) -> bool:
    """Whether there is no NaN and no number beyond all that occurs in SI units."""
    return value.size == 0 or bool(abs(value).max() <= LARGEST)


def is_pose(value: Array) -> bool:
    """Whether a matrix, shape (4, 4), is a rigid displacement of moderate size."""
    try:
        check_pose(value)
    except (NonFiniteError, NotInGroupError):
        return False
    return is_moderate(value)


def is_covariance(value: Array) -> bool:
    """Whether a matrix is symmetric to rounding and positive definite."""
    diagonal = abs(value.diagonal())
    if not (abs(value - value.T) <= SYMMETRY * (diagonal[:, None] + diagonal)).all():
        return False
    try:
        factor = np.linalg.cholesky(value)
    except np.linalg.LinAlgError:
        return False
    return bool(np.isfinite(factor).all())
