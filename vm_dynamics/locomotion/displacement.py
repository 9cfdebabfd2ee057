# SPDX-License-Identifier: Apache-2.0
"""How a gait displaces the base: exactly, and by the area integral of the curvature.

Implements: [Mishra2022] eqs. (9), (69), and the comparison of section V-B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

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

POSE_ERROR_TOLERANCE = 1e-9  # [rad, m]
MIN_STEPS_BETWEEN_CORNERS = 4
MAX_GAIT_STEPS = 1_000_000
POSE_ROUNDING = 1e-14  # [rad, m]: a smaller difference of two poses is rounding
# Factors by which a step may grow or shrink, and the safety factor of the step size.
MAX_STEP_GROWTH, MIN_STEP_GROWTH, STEP_SAFETY = 4.0, 0.2, 0.9
# Share of the duration by which a node is moved off a corner, to the side of its step.
CORNER_OFFSET = 1e-13


@dataclass(frozen=True, eq=False)
class Displacement:
    """Net motion of the base over a gait, ``g(0)^-1 g(T)``.

    Attributes:
        pose: pose of the base after the gait, in the frame of the base before it, shape (4, 4).
        method: ``integrate`` or ``cbvi``.
        frame: frame of the area integral; ``base`` for ``integrate``.
        error_estimate: estimated error of the pose [rad, m]; NaN for ``cbvi``, which has no
            estimate.
        steps: number of integration steps, or of points of the area integral.
    """

    pose: Array
    method: str
    frame: str
    error_estimate: float
    steps: int

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        """The pose, so that NumPy accepts a displacement as a matrix, shape (4, 4)."""
        return np.array(self.pose, dtype=dtype)

    @property
    def rotation(self) -> Array:
        """Rotation matrix, shape (3, 3)."""
        return self.pose[:3, :3]

    @property
    def translation(self) -> Array:
        """Translation of the origin of {1}, in the axes before the gait, shape (3,) [m]."""
        return self.pose[:3, 3]

    @property
    def twist(self) -> Array:
        """Logarithm of the pose, [v; w], shape (6,) [m, rad]."""
        return log(self.pose)

    @property
    def angle(self) -> float:
        """Angle of the rotation [rad]."""
        return float(np.linalg.norm(self.twist[3:]))

    @property
    def xyz_angles(self) -> Array:
        """Angles about x, then the new y, then the new z, shape (3,) [rad], as in the paper."""
        return xyz_angles(self.rotation)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The exact displacement beside the approximate one.

    Attributes:
        exact: by integration.
        approximate: by the area integral.
        difference: ``log(exact^-1 approximate)``, [v; w], shape (6,) [m, rad].
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
    path: Gait | ArrayLike,
    method: str = "integrate",
    *,
    momentum: ArrayLike | None = None,
    tolerance: float = POSE_ERROR_TOLERANCE,
    frame: str = "virtual_chassis",
    size: ArrayLike = (30, 30),
    ccf: CurvatureMap | None = None,
    anchor: str = "centroid",
) -> Any:
    """Displacement of the base by a gait, without forces on the base.

    Args:
        robot: the robot; its gravity is ignored.
        path: a :class:`Gait`, or the points of a closed polyline in shape space, shape (N, n)
            [rad or m].
        method: ``integrate`` (the exact ``g' = g (M_b^-1 Ad_g^T pi - A q')^`` on the group),
            ``cbvi`` (area integral of the curvature, exponentiated and changed back to {1}; an
            approximation) or ``both``, with their difference.
        momentum: momentum of the robot in {1} at the start, shape (b,) [N s, N m s]; zero if
            None. Only for ``integrate``. With momentum the timing of the gait matters.
        tolerance: for ``integrate``: largest error of the final pose [rad, m].
        frame: for ``cbvi``: frame of its map, see :func:`ccf_map`.
        size: for ``cbvi``: number of points of its map along each direction, or one for both.
        ccf: for ``cbvi``: a map of the gait's plane to integrate instead of a new one.
        anchor: for ``cbvi``: the shape at which its frame is changed back to {1}: ``centroid`` of
            the area, accurate to the fourth order of the gait's size, or ``start`` of the gait,
            as in step 3 of [Mishra2022], accurate to the third.

    Returns:
        A :class:`Displacement`, or for ``both`` a :class:`Comparison`.

    Raises:
        ParameterError: the path is open or leaves the map, or momentum is given with a method
            other than ``integrate``.
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


def base_motion(robot: Robot, path: Gait | ArrayLike, count: int = 200) -> tuple[Array, Array]:
    """Poses of a base without momentum during a gait, for pictures and previews.

    Args:
        robot: the robot.
        path: a :class:`Gait`, or the points of a closed polyline, shape (N, n) [rad or m].
        count: number of poses, at equal time steps. There is one integration step of order four
            from each to the next.

    Returns:
        Times, shape (count,) [s], and poses in the frame of the first, shape (count, 4, 4).
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
    """Angles of a rotation matrix, (3, 3), about x, the new y, the new z, shape (3,) [rad]."""
    R = rotation
    return np.array(
        [
            np.arctan2(-R[1, 2], R[2, 2]),
            np.arcsin(np.clip(R[0, 2], -1.0, 1.0)),
            np.arctan2(-R[0, 1], R[0, 0]),
        ]
    )


def _integrate(
    robot: Robot, gait: Gait, momentum: ArrayLike | None, tolerance: float
) -> Displacement:
    """Integrate with step doubling: each step is made once whole and once as two halves.

    The difference of the two is the error estimate that controls the step size.
    """
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
    """Make one step with step doubling.

    Args:
        robot: the robot.
        gait: the gait.
        smooth: start and end of the smooth piece of the gait that the step is on [s].
        t: time at the start of the step [s].
        h: length of the step [s].
        pose: pose at the start of the step, shape (4, 4).
        momentum: momentum in the frame of the base before the gait, shape (6,) [N s, N m s].

    Returns:
        Pose after the step, of order five, and the error of the pose of order four [rad, m].
    """
    offset = CORNER_OFFSET * gait.duration
    times = np.clip(t + h * np.arange(5) / 4.0, smooth[0] + offset, smooth[1] - offset)
    q, qd = gait.position(times), gait.velocity(times)
    twists, inverses = path_twists(robot, q, qd, with_inverse=bool(momentum.any()))
    whole, halves = np.empty((2, 4, 4)), np.empty((3, 4, 4))
    whole[0] = halves[0] = pose
    every = np.ascontiguousarray(twists[::2]), np.ascontiguousarray(inverses[::2])
    _kernels.transport.checked(*every, momentum, h, whole)
    _kernels.transport.checked(twists, inverses, momentum, 0.5 * h, halves)
    rest = log(inverse(whole[1]) @ halves[2]) / 15.0
    return halves[2] @ exp(rest), float(np.linalg.norm(rest))
