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
