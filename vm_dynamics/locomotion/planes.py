# SPDX-License-Identifier: Apache-2.0
"""Planes of shape space in which gaits move, and the frames of maps over them.

Implements: [Mishra2022] eq. (59), ``q = q_c + Psi r``, and the frames {C} of section V-B.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vm_dynamics.dynamics.frames import centroidal_frame
from vm_dynamics.errors import (
    DimensionError,
    ParameterError,
    UnknownJointError,
    UnknownNameError,
)
from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion import _kernels
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

# The virtual chassis comes first: it is the minimum-perturbation choice and the default.
MAP_FRAMES = ("virtual_chassis", "centroidal", "base", "center")

# Two unit directions span no plane if the smaller singular value of their matrix is below this.
PARALLEL_TOLERANCE = 1e-6
# A base group turns about an axis if the singular value of its rotations is above this.
TURNING_TOLERANCE = 1e-12


class LimitsWarning(UserWarning):
    """A map or path reaches beyond the position limits of the joints."""


@dataclass(frozen=True, eq=False)
class GaitPlane:
    """A plane of shapes ``q = q_c + basis @ r`` with coordinates r, shape (2,).

    Build one with :meth:`of`.

    Attributes:
        joint_names: the robot's joints, in the order of q.
        q_c: centre of the plane, where r = 0, shape (n,) [rad or m].
        basis: its two directions as columns, shape (n, 2).
        units: units of r along both directions: ``rad``, ``m``, or ``-`` for a direction that
            moves both kinds of joints.
    """

    joint_names: tuple[str, ...]
    q_c: Array
    basis: Array
    units: tuple[str, str] = ("rad", "rad")

    @staticmethod
    def of(
        robot: Robot,
        joints: str | Iterable[str] | None = None,
        q_c: ArrayLike | None = None,
        *,
        basis: ArrayLike | None = None,
    ) -> GaitPlane:
        """Plane of two joints, or of any two directions of shape space.

        Args:
            robot: the robot.
            joints: names of the two joints; with ``basis``, of the joints of its rows.
            q_c: centre of the plane, shape (n,) [rad or m]; zero if None.
            basis: two directions as columns, shape (n, 2), or one row for each of ``joints``.

        Raises:
            UnknownJointError: the robot has no such joint.
            ParameterError: a joint is named twice, the directions are parallel, or both
                ``joints`` and ``basis`` are None.
        """
        centre = vector("q_c", np.zeros(robot.n) if q_c is None else q_c, robot.n)
        if basis is None and joints is None:
            raise ParameterError(
                "joints, basis: got neither, expected the names of two joints or a basis, shape "
                f"({robot.n}, 2)"
            )
        rows = range(robot.n) if joints is None else joint_indices(robot, joints)
        if basis is None and len(rows) != 2:
            raise ParameterError(
                f"joints: got {len(rows)}, expected the names of two, or a basis, shape "
                f"({len(rows)}, 2), that says how they move"
            )
        Psi = np.zeros((robot.n, 2))
        Psi[list(rows)] = np.eye(2) if basis is None else _directions(basis, len(rows))
        first, second = (_unit(robot, direction) for direction in Psi.T)
        return GaitPlane(robot.joint_names, centre, Psi, (first, second))

    def shape_at(self, r: ArrayLike) -> Array:
        """Joint positions q, shape (..., n) [rad or m], at coordinates r, shape (..., 2)."""
        return self.q_c + np.asarray(r, dtype=float) @ self.basis.T

    @property
    def axis_names(self) -> tuple[str, str]:
        """Names of the two directions: a joint, or a sum of joints with factors."""
        first, second = (self._direction(column) for column in self.basis.T)
        return first, second

    def _direction(self, column: Array) -> str:
        text = ""
        for name, x in zip(self.joint_names, column, strict=True):
            if x != 0.0:
                sign = "-" if x < 0.0 else "+" if text else ""
                factor = "" if abs(x) == 1.0 else f"{abs(x):.3g} "
                text += f" {sign} {factor}{name}" if text else f"{sign}{factor}{name}"
        return text


def _unit(robot: Robot, direction: Array) -> str:
    slides = robot.prismatic[direction != 0.0]
    if not slides.size or (slides.any() and not slides.all()):
        return "-"
    return "m" if slides.all() else "rad"


def joint_indices(robot: Robot, joints: str | Iterable[str]) -> list[int]:
    """Indices in q of joints by their names; no name may come twice."""
    names = [joints] if isinstance(joints, str) else list(joints)
    for name in names:
        if name not in robot.joint_names:
            raise UnknownJointError("joint", name, robot.joint_names)
        if names.count(name) > 1:
            raise ParameterError(
                f"joints: got {name!r} {names.count(name)} times, expected every joint once"
            )
    return [robot.joint_names.index(name) for name in names]


def _directions(basis: ArrayLike, rows: int) -> Array:
    """Check two directions in the columns of a matrix, shape (rows, 2)."""
    try:
        out = np.array(basis, dtype=float)
    except (TypeError, ValueError) as error:
        raise DimensionError(f"basis: got {basis!r}, expected shape ({rows}, 2)") from error
    if out.shape != (rows, 2):
        raise DimensionError(f"basis: got shape {out.shape}, expected ({rows}, 2)")
    if not np.isfinite(out).all():
        raise ParameterError("basis: holds NaN or infinity")
    singular = np.linalg.svd(out / np.maximum(np.linalg.norm(out, axis=0), 1e-300))[1]
    if singular[-1] < PARALLEL_TOLERANCE:
        raise ParameterError(
            f"basis: its columns {out[:, 0]} and {out[:, 1]} are parallel or zero; expected two "
            "directions that span a plane"
        )
    return out


@lru_cache
def require_rotation(group: DisplacementGroup) -> Array:
    """Orthonormal axes about which a base group turns, shape (3, k); without any, an error."""
    left, singular, _ = np.linalg.svd(group.iota[3:], full_matrices=False)
    axes = left[:, singular > TURNING_TOLERANCE]
    if not axes.size:
        raise ParameterError(
            f"robot: its base group {group.name} has no rotation, so its connection has no "
            "curvature and no gait displaces it; expected one of SE3, SE2, SO3, X, C, SO2, H"
        )
    return axes


@lru_cache
def component_names(group: DisplacementGroup) -> tuple[str, ...]:
    """Names of a group's coordinates.

    A coordinate along an axis of {1} is named ``vx`` to ``wz``, any other by its number: ``v2``.
    """
    names = ("vx", "vy", "vz", "wx", "wy", "wz")
    out = []
    for i, column in enumerate(group.iota.T):
        turning = column[3:].any()
        part = column[3:] if turning else column[:3]
        at = int(np.argmax(abs(part)))
        clean = abs(part[at]) == np.linalg.norm(part) and part[at] > 0.0
        out.append(names[at + 3 * int(turning)] if clean else f"{'w' if turning else 'v'}{i + 1}")
    return tuple(out)


def is_rotation(group: DisplacementGroup) -> NDArray[np.bool_]:
    """Which coordinates of a group are rotations, shape (b,), bool."""
    return np.asarray((group.iota[3:] != 0.0).any(axis=0))


@dataclass(frozen=True, eq=False)
class FrameChoice:
    """A frame {C}, in the form that the kernels use.

    Attributes:
        code: which frame: ``BASE``, ``CENTROIDAL``, ``CHASSIS`` or ``FIXED`` of the kernels.
        shift: projection on the translations of the base group, shape (3, 3).
        given: pose g_1c of a fixed frame, or a pose whose axes those of a virtual chassis shall
            be nearest to, shape (4, 4).
    """

    code: int
    shift: Array
    given: Array

    @property
    def is_chassis(self) -> bool:
        """Whether it is the virtual chassis, with principal axes at every shape."""
        return self.code == _kernels.CHASSIS

    def near(self, axes: Array) -> FrameChoice:
        """A virtual chassis with its axes nearest to those of a pose, shape (4, 4).

        Other frames stay the same.
        """
        return replace(self, given=np.ascontiguousarray(axes)) if self.is_chassis else self

    @staticmethod
    def of(robot: Robot, frame: str, q_c: Array) -> FrameChoice:
        """Frame by its name.

        Args:
            robot: the robot.
            frame: one of ``MAP_FRAMES``.
            q_c: shape at which the fixed frame is computed, shape (n,) [rad or m].
        """
        if frame not in MAP_FRAMES:
            raise UnknownNameError("frame", frame, MAP_FRAMES)
        shift, turns_freely = _motions(robot.base_group)
        given = np.eye(4)
        if frame == "base":
            return FrameChoice(_kernels.BASE, shift, given)
        if frame == "center":
            return FrameChoice(_kernels.FIXED, shift, robot.frame("virtual_chassis", q_c).pose)
        if frame == "virtual_chassis" and turns_freely:
            return FrameChoice(_kernels.CHASSIS, shift, given)
        return FrameChoice(_kernels.CENTROIDAL, shift, given)


@lru_cache
def _motions(group: DisplacementGroup) -> tuple[Array, bool]:
    """Projection on a group's translations, shape (3, 3); whether it turns about all axes."""
    unit, nothing = np.array([1.0, *np.zeros(9)]), np.zeros(10)
    shift = np.empty((3, 3))
    for i in range(3):  # origin of the centroidal frame for a centre of mass at e_i
        unit[1:4] = np.eye(3)[i]
        shift[:, i] = centroidal_frame(group, unit, nothing).pose[:3, 3]
    return shift, bool(np.linalg.matrix_rank(group.iota[3:]) == 3)


def limits_along(lower: Array, upper: Array, q_c: Array, direction: Array) -> tuple[float, float]:
    """Least and greatest r for which ``q_c + r direction`` is within position limits.

    Args:
        lower: lower limits, shape (n,) [rad or m].
        upper: upper limits, shape (n,) [rad or m].
        q_c: joint positions at r = 0, shape (n,) [rad or m].
        direction: the direction, shape (n,).
    """
    moved = direction != 0.0
    ends = np.array([(lower - q_c)[moved], (upper - q_c)[moved]]) / direction[moved]
    return float(ends.min(axis=0).max()), float(ends.max(axis=0).min())


def beyond_limits(robot: Robot, shapes: Array, slack: float = 1e-12) -> NDArray[np.bool_]:
    """Which shapes have a joint beyond its position limits, shape (...), bool.

    Args:
        robot: the robot.
        shapes: joint positions, shape (..., n) [rad or m].
        slack: a joint may be this much beyond its limits [rad or m].
    """
    below, above = robot.lower_limits - slack, robot.upper_limits + slack
    return np.asarray(((shapes < below) | (shapes > above)).any(axis=-1))


def names_of(joints: Iterable[bool], robot: Robot) -> str:
    """Names of the joints where a mask, shape (n,), is true."""
    return ", ".join(name for name, hit in zip(robot.joint_names, joints, strict=True) if hit)


def as_pair(name: str, value: Any, kind: type) -> Sequence[Any]:
    """Check two values, or double a single one.

    Args:
        name: name of the argument, for error messages.
        value: one value for both axes, or one for each.
        kind: type of the values, for error messages.
    """
    pair = (value, value) if np.ndim(value) == 0 else tuple(value)
    if len(pair) != 2:
        raise DimensionError(f"{name}: got {value!r}, expected one {kind.__name__} or two")
    return pair
