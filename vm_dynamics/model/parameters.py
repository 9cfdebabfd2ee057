# SPDX-License-Identifier: Apache-2.0
"""Parameters from a YAML file beside the URDF: read, and checked with errors that name them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vm_dynamics.errors import ParameterError


def section(source: str | Path | Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section of a YAML file, or of a mapping, or the mapping itself without such a section.

    Raises:
        ParameterError: the file cannot be read, is no YAML, or has no such section.
    """
    if isinstance(source, Mapping):
        values = source.get(name, source)
    else:
        values = _read(Path(source)).get(name)
        if values is None:
            raise ParameterError(f"{source}: has no section {name!r}")
    if not isinstance(values, Mapping):
        raise ParameterError(f"{name}: got {type(values).__name__}, expected a mapping")
    return values


def _read(path: Path) -> Mapping[str, Any]:
    import yaml  # not needed by those who have no such file

    try:
        values = yaml.safe_load(path.expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ParameterError(f"{path}: cannot be read as YAML: {error}") from error
    if not isinstance(values, Mapping):
        raise ParameterError(f"{path}: got {type(values).__name__}, expected a mapping")
    return values


def check_keys(what: str, values: Any, valid: Iterable[str]) -> None:
    """Refuse what is no mapping, and keys that mean nothing."""
    names = tuple(valid)
    if not isinstance(values, Mapping):
        raise ParameterError(f"{what}: got {type(values).__name__}, expected a mapping")
    for key in values:
        if key not in names:
            raise ParameterError(f"{what}: unknown key {key!r}; valid: {', '.join(names)}")


def number(name: str, value: Any) -> float:
    """A finite number, or an error that names the parameter."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ParameterError(f"{name}: got {value!r}, expected a finite number")
    return float(value)


def numbers(name: str, value: Any, size: int) -> tuple[float, ...]:
    """A list of finite numbers of a given length, or an error that names the parameter."""
    try:
        items = list(value)
    except TypeError:
        items = []
    if len(items) != size:
        raise ParameterError(f"{name}: got {value!r}, expected {size} numbers")
    return tuple(number(name, float(x) if hasattr(x, "__float__") else x) for x in items)
