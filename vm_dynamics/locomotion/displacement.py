# SPDX-License-Identifier: Apache-2.0
"""How a gait displaces the base: exactly, and by the area integral of the curvature.

Implements: [Mishra2022] eqs. (9), (69), and the comparison of section V-B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vm_dynamics.errors import DivergedError, ParameterError, UnknownMethodError
from vm_dynamics.lie.se3 import Array, exp, inverse, log
from vm_dynamics.locomotion import _kernels
from vm_dynamics.locomotion.areas import area_displacement
from vm_dynamics.locomotion.ccf import CurvatureMap
from vm_dynamics.locomotion.fields import path_twists
from vm_dynamics.locomotion.gaits import Gait, as_gait
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

DISPLACEMENT_METHODS = ("integrate", "cbvi", "both")

POSE_ERROR_TOLERANCE = 1e-9  # of a pose [rad, m]
MIN_STEPS_BETWEEN_CORNERS = 4  # between two corners of a gait
MAX_GAIT_STEPS = 1_000_000
POSE_ROUNDING = 1e-14  # [rad, m]: a smaller difference of two poses is rounding
# Growth and shrinkage of a step, and what is kept in hand of the tolerance.
MAX_STEP_GROWTH, MIN_STEP_GROWTH, STEP_SAFETY = 4.0, 0.2, 0.9
# A node on a corner belongs to the side that the step is on.
ASIDE = 1e-13


@dataclass(frozen=True, eq=False)
class Displacement:
    """Net motion of the base over a gait, ``g(0)^-1 g(T)``.

    Attributes:
        pose: of the base after the gait in the base before it, shape (4, 4).
        method: ``integrate`` or ``cbvi``.
        frame: the frame of the area integral; ``base`` for ``integrate``.
        error_estimate: of the pose by its steps [rad, m]; NaN for ``cbvi``, which cannot know.
        steps: steps of the integration, or points of the area integral.
    """

    pose: Array
    method: str
    frame: str
    error_estimate: float
    steps: int

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The pose, so that a displacement can be used as one."""
        return np.array(self.pose, dtype=dtype)

    @property
    def rotation(self) -> Array:
        """Rotation matrix, shape (3, 3)."""
        return self.pose[:3, :3]

    @property
    def translation(self) -> Array:
        """Shift of the origin of {1} in the axes before the gait, shape (3,) [m]."""
        return self.pose[:3, 3]

    @property
    def twist(self) -> Array:
        """Logarithm of the pose, [v; w], shape (6,)."""
        return log(self.pose)

    @property
    def angle(self) -> float:
        """Angle of the rotation [rad]."""
        return float(np.linalg.norm(self.twist[3:]))

    @property
    def xyz_angles(self) -> Array:
        """Angles about x, then the new y, then the new z, shape (3,) [rad], as the paper's."""
        return xyz_angles(self.rotation)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The exact displacement beside the approximate one.

    Attributes:
        exact: by integration.
        approximate: by the area integral.
        difference: ``log(exact^-1 approximate)``, [v; w], shape (6,).
    """

    exact: Displacement
    approximate: Displacement
    difference: Array

    @property
    def norm(self) -> float:
        """Norm of the difference, the error metric of [Mishra2022]."""
        return float(np.linalg.norm(self.difference))

    @property
    def angle(self) -> float:
        """Angle between the two orientations [rad]."""
        return float(np.linalg.norm(self.difference[3:]))


def gait_displacement(
    robot: Robot,
    path: Any,
    method: str = "integrate",
    *,
    momentum: Any = None,
    tolerance: float = POSE_ERROR_TOLERANCE,
    frame: str = "virtual_chassis",
    size: Any = (30, 30),
    ccf: CurvatureMap | None = None,
    anchor: str = "centroid",
) -> Any:
    """Displacement of the base by a gait, without forces on the base.

    Args:
        robot: the robot; its gravity is not considered.
        path: a :class:`Gait`, or the points of a closed polyline in shape space, shape (N, n).
        method: ``integrate`` (the exact ``g' = g (M_b^-1 Ad_g^T pi - A q')^`` on the group),
            ``cbvi`` (area integral of the curvature, exponentiated, changed back to {1}: quick to
            see, approximate) or ``both``, with their difference.
        momentum: body momentum in {1} at the beginning, shape (b,), which ``integrate`` carries
            along; zero unless given. With it the timing of the gait matters.
        tolerance: of ``integrate``: how far the pose may be off at the end [rad, m].
        frame: of ``cbvi``: the frame of its map, see :func:`ccf_map`.
        size: of ``cbvi``: points of its map over the extent of the gait.
        ccf: of ``cbvi``: a map to integrate instead, of the plane of the gait.
        anchor: of ``cbvi``: where its frame is changed back to {1}: at the ``centroid`` of the
            area, right to the fourth order of the gait's size, or at its ``start``, as step 3 of
            [Mishra2022] has it, right to the third.

    Returns:
        A :class:`Displacement`, or for ``both`` a :class:`Comparison`.

    Raises:
        ParameterError: the path is open, leaves the map, or momentum is given to ``cbvi``.
    """
    if method not in DISPLACEMENT_METHODS:
        raise UnknownMethodError("method", method, DISPLACEMENT_METHODS)
    gait = as_gait(path, robot.n)
    if method != "integrate" and momentum is not None and np.any(momentum):
        raise ParameterError(
            f"momentum: got {momentum}, but method {method!r} holds without momentum only; "
            "expected zero, or method 'integrate'"
        )
    exact = None if method == "cbvi" else _integrate(robot, gait, momentum, tolerance)
    if exact is not None and method == "integrate":
        return exact
    pose, used, points = area_displacement(robot, gait, frame, size=size, ccf=ccf, anchor=anchor)
    approximate = Displacement(pose, "cbvi", used, np.nan, points)
    if exact is None:
        return approximate
    return Comparison(exact, approximate, log(inverse(exact.pose) @ approximate.pose))


def base_motion(robot: Robot, path: Any, count: int = 200) -> tuple[Array, Array]:
    """Poses of a base without momentum while a gait runs, for pictures and previews.

    Args:
        robot: the robot.
        path: a :class:`Gait`, or the points of a closed polyline, shape (N, n).
        count: number of poses, at equal steps of time, one step of order four between two.

    Returns:
        Times, shape (count,) [s], and poses relative to the first, shape (count, 4, 4).
    """
    if count < 2:
        raise ParameterError(f"count: got {count}, expected at least 2")
    gait = as_gait(path, robot.n)
    t = np.linspace(0.0, gait.duration, 2 * count - 1)
    twists, none = path_twists(robot, gait.position(t), gait.velocity(t))
    poses = np.empty((count, 4, 4))
    poses[0] = np.eye(4)
    _kernels.transport.checked(twists, none, np.zeros(6), float(t[2]), poses)
    return t[::2], poses


def xyz_angles(rotation: Array) -> Array:
    """Angles about x, then the new y, then the new z, of a rotation matrix, shape (3,) [rad]."""
    R = rotation
    return np.array(
        [
            np.arctan2(-R[1, 2], R[2, 2]),
            np.arcsin(np.clip(R[0, 2], -1.0, 1.0)),
            np.arctan2(-R[0, 1], R[0, 0]),
        ]
    )


def _integrate(robot: Robot, gait: Gait, momentum: Any, tolerance: Any) -> Displacement:
    """Step doubling: every step once whole and once in halves, whose difference is the error."""
    pi = np.zeros(robot.b) if momentum is None else vector("momentum", momentum, robot.b)
    if not (np.isfinite(tolerance) and tolerance > 0.0):
        raise ParameterError(f"tolerance: got {tolerance!r}, expected a number above zero")
    lifted = robot.base_group.iota_pinv.T @ pi
    pose: Array = np.eye(4)
    error, steps, h = 0.0, 0, np.inf
    for begin, end in zip(gait.breaks[:-1], gait.breaks[1:], strict=True):
        t = begin
        h = min(h, (end - begin) / MIN_STEPS_BETWEEN_CORNERS)
        while t < end:
            last = t + h * (1.0 + 1e-9) >= end
            h = end - t if last else h
            found, off = _doubled_step(robot, gait, (begin, end), t, h, pose, lifted)
            allowed = max(tolerance * h / gait.duration, POSE_ROUNDING)
            steps += 1
            if steps > MAX_GAIT_STEPS or not np.isfinite(off):
                raise DivergedError(f"path: integration stopped at t = {t:g} s of the gait")
            factor = STEP_SAFETY * (allowed / max(off, 1e-300)) ** 0.2
            if off <= allowed:
                t, pose, error = (end if last else t + h), found, error + off
            h *= min(MAX_STEP_GROWTH, max(MIN_STEP_GROWTH, factor))
    return Displacement(pose, "integrate", "base", error, steps)


def _doubled_step(
    robot: Robot,
    gait: Gait,
    smooth: tuple[float, float],
    t: float,
    h: float,
    pose: Array,
    momentum: Array,
) -> tuple[Array, float]:
    """Pose after a step, of order five, and the error of the one of order four."""
    aside = ASIDE * gait.duration
    times = np.clip(t + h * np.arange(5) / 4.0, smooth[0] + aside, smooth[1] - aside)
    q, qd = gait.position(times), gait.velocity(times)
    twists, inverses = path_twists(robot, q, qd, with_inverse=bool(momentum.any()))
    whole, halves = np.empty((2, 4, 4)), np.empty((3, 4, 4))
    whole[0] = halves[0] = pose
    every = np.ascontiguousarray(twists[::2]), np.ascontiguousarray(inverses[::2])
    _kernels.transport.checked(*every, momentum, h, whole)
    _kernels.transport.checked(twists, inverses, momentum, 0.5 * h, halves)
    rest = log(inverse(whole[1]) @ halves[2]) / 15.0
    return halves[2] @ exp(rest), float(np.linalg.norm(rest))
