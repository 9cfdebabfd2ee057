# SPDX-License-Identifier: Apache-2.0
"""The displacement subgroups of SE(3) that the base of a robot can move in.

Implements: [Moghaddam] eq. (39) (inclusion ``iota``) and [From2010] Table 1 (the vehicles); the
bracket of a subgroup is ``iota^+ ad_{iota V} iota``.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import (
    DimensionError,
    NonFiniteError,
    NotInGroupError,
    ParameterError,
    UnknownGroupError,
)
from vm_dynamics.lie import se3
from vm_dynamics.lie.kernels import POSE_TOLERANCE
from vm_dynamics.lie.se3 import Array

# Coordinates of the twist [vx vy vz wx wy wz] that each group leaves free, its axis along z.
_FREE = {
    "SE3": (0, 1, 2, 3, 4, 5),
    "SE2": (0, 1, 5),
    "SO3": (3, 4, 5),
    "X": (0, 1, 2, 5),
    "T3": (0, 1, 2),
    "T2": (0, 1),
    "C": (2, 5),
    "SO2": (5,),
    "T1": (2,),
    "H": (5,),
}
GROUP_NAMES = tuple(_FREE)
# One metre a turn.
DEFAULT_PITCH = 1.0 / (2.0 * math.pi)


class DisplacementGroup:
    """A subgroup of SE(3), its elements as poses (4, 4), its algebra as vectors (b,).

    Attributes:
        name: one of ``GROUP_NAMES``.
        axis: unit vector of the group's distinguished direction in frame {1}: the normal of the
            plane (SE2, T2), the axis of rotation (X, C, SO2, H), the rail (T1).
        pitch: advance of the helical group H [m/rad], zero for the others.
        iota: inclusion of the group's velocities in twists [v; w], shape (6, b).
        dimension: b.
    """

    def __init__(self, name: str, *, axis: Any = None, pitch: float | None = None) -> None:
        """Build the group; use :func:`group` for names that may be wrong."""
        self.name = name
        default = (1.0, 0.0, 0.0) if name == "T1" else (0.0, 0.0, 1.0)
        self.axis = _unit(default if axis is None else axis)
        self.pitch = _pitch(pitch) if name == "H" else 0.0
        iota = np.eye(6)[:, list(_FREE[name])]
        if name == "H":
            iota[2, 0] = self.pitch
        if not np.array_equal(self.axis, (0.0, 0.0, 1.0)):
            turn = rotation_from_z_to(self.axis)
            iota = np.vstack((turn @ iota[:3], turn @ iota[3:]))
            if name in ("SE3", "SO3", "T3"):  # these have no direction of their own
                iota = np.eye(6)[:, list(_FREE[name])]
        self.iota = iota
        self.iota.setflags(write=False)
        self.dimension = iota.shape[1]

    @cached_property
    def iota_pinv(self) -> Array:
        """Pseudo-inverse of ``iota``, shape (b, 6)."""
        out: Array = np.linalg.pinv(self.iota)
        out.setflags(write=False)
        return out

    def __repr__(self) -> str:
        """Spell the group as it would be built again."""
        extra = f", pitch={self.pitch:g}" if self.name == "H" else ""
        return f"DisplacementGroup({self.name!r}, axis={tuple(self.axis.tolist())}{extra})"

    def __eq__(self, other: object) -> bool:
        """Groups are equal when they allow the same velocities in the same coordinates."""
        if not isinstance(other, DisplacementGroup):
            return NotImplemented
        return self.name == other.name and np.array_equal(self.iota, other.iota)

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash((self.name, self.iota.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what defines the group; the rest is built again."""
        return _rebuilt, (self.name, tuple(self.axis.tolist()), self.pitch)

    def identity(self) -> Array:
        """The pose that moves nothing, shape (4, 4)."""
        return np.eye(4)

    def inverse(self, pose: Array) -> Array:
        """Inverse of a pose, shape (4, 4)."""
        return se3.inverse(pose)

    def exp(self, xi: Any) -> Array:
        """Pose, shape (4, 4), of group coordinates ``xi``, shape (b,)."""
        return se3.exp(self.iota @ self._vector(xi))

    def log(self, pose: ArrayLike) -> Array:
        """Group coordinates, shape (b,), of a pose of the group, rotation at most pi.

        The helical group's angle is read from its advance, so it may exceed pi.
        """
        pose = check_pose(pose)
        xi = self.iota_pinv @ se3.log(pose)
        if self.name == "H" and self.pitch != 0.0:
            xi = np.array([self.axis @ pose[:3, 3] / self.pitch])
        if not np.allclose(
            self.exp(xi), pose, rtol=0.0, atol=1e-6 * (1.0 + abs(pose[:3, 3]).max())
        ):
            raise NotInGroupError(f"pose: not a displacement of {self.name}:\n{pose}")
        return xi

    def contains(self, pose: ArrayLike) -> bool:
        """Whether a pose is a displacement of this group."""
        try:
            self.log(pose)
        except (NotInGroupError, DimensionError, NonFiniteError):
            return False
        return True

    def adjoint(self, pose: Array) -> Array:
        """Ad of a pose of the group on the group's own velocities, shape (b, b)."""
        return self.iota_pinv @ se3.adjoint(pose) @ self.iota

    def ad(self, xi: Any) -> Array:
        """Bracket matrix of the group's algebra, shape (b, b)."""
        return self.iota_pinv @ se3.ad(self.iota @ self._vector(xi)) @ self.iota

    def ad_tilde(self, momentum: Any) -> Array:
        """Skew matrix, shape (b, b), that exchanges a velocity and a momentum h, shape (b,).

        .. math:: ad_V^T h = ad~_h V
        """
        return self.iota.T @ se3.ad_tilde(self.iota_pinv.T @ self._vector(momentum)) @ self.iota

    def dexp(self, xi: Any) -> Array:
        """Derivative of exp, spatial: d exp(x) = hat(dexp(x) dx) exp(x); shape (b, b)."""
        return se3.dexp_of_ad(self.ad(xi), self._theta2(xi))

    def dexp_inv(self, xi: Any) -> Array:
        """Inverse of :meth:`dexp`, shape (b, b)."""
        return se3.dexp_inv_of_ad(self.ad(xi), self._theta2(xi))

    def _theta2(self, xi: Any) -> float:
        w = self.iota[3:] @ self._vector(xi)
        return float(w @ w)

    def _vector(self, xi: Any) -> Array:
        out = np.asarray(xi, dtype=float)
        if out.shape != (self.dimension,):
            raise DimensionError(
                f"{self.name} vector: got shape {out.shape}, expected ({self.dimension},)"
            )
        return out


def group(
    base: str | DisplacementGroup, *, axis: Any = None, pitch: float | None = None
) -> DisplacementGroup:
    """Displacement group by name.

    Args:
        base: one of ``GROUP_NAMES``, or a group, which is returned as it is.
        axis: direction of the group in frame {1}; z unless given (x for the rail T1).
        pitch: advance of the helical group H [m/rad]; one metre a turn unless given.

    Raises:
        UnknownGroupError: there is no such group.
        NonFiniteError: the pitch is not a finite number.
        ParameterError: a pitch for a group that has none, or that was built with its own.
    """
    if pitch is not None:
        pitch = _pitch(pitch)
    if isinstance(base, DisplacementGroup):
        if pitch is not None:
            raise ParameterError(f"pitch: got {pitch:g}, expected none beside a group, {base!r}")
        return base
    if not isinstance(base, str) or base not in _FREE:
        raise UnknownGroupError("base group", base, GROUP_NAMES)
    if pitch is not None and base != "H":
        raise ParameterError(
            f"pitch: got {pitch:g} for the base group {base}, expected none: only H has a pitch"
        )
    return DisplacementGroup(base, axis=axis, pitch=pitch)


def _rebuilt(name: str, axis: Any, pitch: float) -> DisplacementGroup:
    return DisplacementGroup(name, axis=axis, pitch=pitch)


def check_pose(pose: ArrayLike) -> Array:
    """Rigid displacement as a contiguous float array, shape (4, 4), or a clear error."""
    try:
        out = np.ascontiguousarray(pose, dtype=float)
    except (TypeError, ValueError):
        raise DimensionError(
            f"pose: got {type(pose).__name__}, expected numbers, shape (4, 4)"
        ) from None
    if out.shape != (4, 4):
        raise DimensionError(f"pose: got shape {out.shape}, expected (4, 4)")
    if not np.isfinite(out).all():
        raise NonFiniteError("pose: holds NaN or infinity")
    rotation = out[:3, :3]
    if (
        not np.allclose(rotation @ rotation.T, np.eye(3), rtol=0.0, atol=POSE_TOLERANCE)
        or np.linalg.det(rotation) < 0.0
        or not np.array_equal(out[3], (0.0, 0.0, 0.0, 1.0))
    ):
        raise NotInGroupError(f"pose: not a rigid displacement:\n{out}")
    return out


def _pitch(pitch: Any) -> float:
    try:
        out = DEFAULT_PITCH if pitch is None else float(pitch)
    except (TypeError, ValueError):
        out = math.nan
    if not math.isfinite(out):
        raise NonFiniteError(f"pitch: got {pitch!r}, expected a finite number [m/rad]")
    return out


def _unit(axis: Any) -> Array:
    try:
        out = np.asarray(axis, dtype=float)
    except (TypeError, ValueError):
        out = np.zeros(3)
    norm = float(np.linalg.norm(out)) if out.shape == (3,) else 0.0
    if not (math.isfinite(norm) and norm > 0.0):
        raise DimensionError(f"axis: got {axis!r}, expected three numbers that are not all zero")
    out = out / norm
    out.setflags(write=False)
    return out


def rotation_from_z_to(axis: Array) -> Array:
    """Shortest rotation that takes the z axis to ``axis``; half a turn about x for -z."""
    c = axis[2]
    if c < -1.0 + 1e-12:
        return np.diag((1.0, -1.0, -1.0))
    s = se3.hat3(np.cross((0.0, 0.0, 1.0), axis))
    return np.eye(3) + s + s @ s / (1.0 + c)


SE3 = DisplacementGroup("SE3")
SE2 = DisplacementGroup("SE2")
SO3 = DisplacementGroup("SO3")
