# SPDX-License-Identifier: Apache-2.0
"""Matrices as Float64MultiArray: names of rows and columns, frame and stamp travel in the labels.

``dim[0].label = "mass_matrix;stamp=<sec>.<9 digits>;frame=<root frame>;rows=<names>"`` and
``dim[1].label = "cols=<names>"``, names separated by commas; further dimensions have
``names=<names>``. :func:`decode` is the example for subscribers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from std_msgs.msg import Float64MultiArray, MultiArrayDimension

from vm_dynamics.errors import DimensionError
from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.se3 import Array

_TWIST = ("vx", "vy", "vz", "wx", "wy", "wz")
_KEYS = ("rows", "cols")


class Matrix(NamedTuple):
    """A matrix from a topic.

    Attributes:
        name: which one, as ``mass_matrix``.
        stamp: of the joint state it was computed from [ns].
        frame: that of the root link, which is {1}, with its prefix.
        names: names along each dimension.
        values: the numbers.
    """

    name: str
    stamp: int
    frame: str
    names: tuple[tuple[str, ...], ...]
    values: Array


def base_names(group: DisplacementGroup) -> tuple[str, ...]:
    """Names of the base's coordinates: those of the twist where they are, else base0, base1."""
    out = []
    for i, column in enumerate(group.iota.T):
        single = np.flatnonzero(column)
        out.append(_TWIST[single[0]] if len(single) == 1 else f"base{i}")
    return tuple(out)


class Encoder:
    """A message that is kept and filled again and again.

    Attributes:
        message: the message.
        values: view of its numbers, in the shape of the matrix; write here.
    """

    def __init__(self, name: str, frame: str, names: Sequence[Sequence[str]]) -> None:
        """Lay out a message for a matrix with such names along its dimensions."""
        for label in (name, frame, *(n for along in names for n in along)):
            if set(label) & set(";,="):
                raise DimensionError(f"name {label!r}: holds one of the separators ; , =")
        shape = tuple(len(along) for along in names)
        self._front = f"{name};stamp="
        self._back = f";frame={frame};rows={','.join(names[0])}"
        self.message = Float64MultiArray()
        for k, along in enumerate(names):
            key = _KEYS[k] if k < len(_KEYS) else "names"
            label = f"{key}={','.join(along)}"
            stride = int(np.prod(shape[k:]))
            self.message.layout.dim.append(
                MultiArrayDimension(label=label, size=shape[k], stride=stride)
            )
        self.message.data = np.zeros(int(np.prod(shape))).tolist()
        self.values = np.frombuffer(self.message.data, dtype=float).reshape(shape)

    def stamped(self, nanos: int) -> Float64MultiArray:
        """The message with a stamp [ns]."""
        stamp = f"{nanos // 1_000_000_000}.{nanos % 1_000_000_000:09d}"
        self.message.layout.dim[0].label = f"{self._front}{stamp}{self._back}"
        return self.message


def decode(message: Float64MultiArray) -> Matrix:
    """Matrix of a message.

    Raises:
        DimensionError: the labels or sizes are not those of :class:`Encoder`.
    """
    dims = message.layout.dim
    try:
        name, stamp, frame, rows = dims[0].label.split(";")
        whole, fraction = _value(stamp, "stamp").split(".")
        nanos = int(whole) * 1_000_000_000 + int(fraction)
        labels = [rows, *(dim.label for dim in dims[1:])]
        keys = [*_KEYS, *["names"] * len(labels)]
        names = tuple(
            tuple(filter(None, _value(label, key).split(",")))
            for label, key in zip(labels, keys, strict=False)
        )
        shape = tuple(dim.size for dim in dims)
        values = np.array(message.data, dtype=float).reshape(shape)
        frame = _value(frame, "frame")
    except (IndexError, ValueError) as error:
        raise DimensionError(f"matrix: got labels {[d.label for d in dims]}: {error}") from error
    if shape != tuple(map(len, names)):
        raise DimensionError(f"matrix {name}: sizes {shape} and names {names} differ")
    return Matrix(name, nanos, frame, names, values)


def _value(text: str, key: str) -> str:
    if not text.startswith(f"{key}="):
        raise ValueError(f"expected {key}=..., got {text!r}")
    return text[len(key) + 1 :]
