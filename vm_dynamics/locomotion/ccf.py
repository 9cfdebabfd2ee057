# SPDX-License-Identifier: Apache-2.0
"""Constraint curvature maps: the curvature of the connection over a plane of shapes.

Implements: [Mishra2022] Algorithm 1 with Theorem 2, eqs. (35), (36), (59), and Property 6. Where
it departs: step 2 computes ``g_1c`` only once. A frame that is fixed over the map gives the same
displacement as {1} (``exp`` commutes with a constant Ad), so here the frame is computed at every
shape; the fixed one is ``frame="center"``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vm_dynamics.errors import DimensionError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion import _kernels
from vm_dynamics.locomotion.fields import map_rows
from vm_dynamics.locomotion.planes import (
    FrameChoice,
    GaitPlane,
    LimitsWarning,
    as_pair,
    beyond_limits,
    component_names,
    is_rotation,
    limits_along,
    names_of,
    require_rotation,
)
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

DEFAULT_EXTENT = np.pi / 2.0  # [rad or m] in both directions, unless a joint limit is nearer
MAX_MAP_POINTS = 100_000_000
# Number of points from which a progress bar, and threads, are worthwhile.
MIN_POINTS_FOR_BAR = 200_000
MIN_POINTS_FOR_THREADS = 4_000
POINTS_PER_TASK = 2_000  # that a thread computes at a time
MAP_FORMAT = "vm_dynamics curvature map 1"


@dataclass(frozen=True, eq=False)
class CurvatureMap:
    """Curvature DA(e_1) e_2 over a grid of a plane of shapes; build one with :func:`ccf_map`.

    A loop in the plane displaces a base without momentum by approximately ``exp(-zeta)``. Here
    zeta is the integral of the values over the area inside the loop, positive if anticlockwise.

    Attributes:
        robot_name: name of the robot.
        plane: the plane; the first one of a stack.
        r1: coordinates along its first direction, shape (s1,) [rad or m].
        r2: coordinates along its second direction, shape (s2,) [rad or m].
        values: all components, shape (b, s1, s2), or (b, K, s1, s2) for a stack of K planes
            [m/rad^2, 1/rad].
        components: names of the components, such as ``vx`` and ``wz``.
        rotation: which components are rotations, shape (b,), bool.
        frame: name of the frame in which the components are expressed.
        outside: where a joint is beyond its position limits, shape (s1, s2) or (K, s1, s2), bool.
        centers: centres of the planes, shape (K, n) [rad or m]; K = 1 without a stack.
    """

    robot_name: str
    plane: GaitPlane
    r1: Array
    r2: Array
    values: Array
    components: tuple[str, ...]
    rotation: NDArray[np.bool_]
    frame: str
    outside: NDArray[np.bool_]
    centers: Array

    @property
    def is_stack(self) -> bool:
        """Whether this is a stack of planes, possibly of one only."""
        return self.values.ndim == 4

    def __len__(self) -> int:
        """Number of planes."""
        return len(self.centers)

    def __getitem__(self, k: int) -> CurvatureMap:
        """Plane k of a stack, as a map without a stack."""
        if not self.is_stack:
            raise ParameterError("map: it is one plane, expected a stack to take one from")
        return replace(
            self,
            plane=replace(self.plane, q_c=self.centers[k]),
            values=self.values[:, k],
            outside=self.outside[k],
            centers=self.centers[k][None],
        )

    def component(self, name: str) -> Array:
        """One component by its name, shape (s1, s2) or (K, s1, s2)."""
        if name not in self.components:
            raise ParameterError(
                f"component: got {name!r}, expected one of {', '.join(self.components)}"
            )
        return self.values[self.components.index(name)]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a ``.npz`` file; adds that ending if it is missing, and returns the path."""
        file = Path(path)
        if file.suffix != ".npz":
            file = file.with_name(f"{file.name}.npz")
        np.savez_compressed(
            file,
            format=MAP_FORMAT,
            robot_name=self.robot_name,
            joint_names=np.array(self.plane.joint_names),
            basis=self.plane.basis,
            units=np.array(self.plane.units),
            r1=self.r1,
            r2=self.r2,
            values=self.values,
            components=np.array(self.components),
            rotation=self.rotation,
            frame=self.frame,
            outside=self.outside,
            centers=self.centers,
        )
        return file

    @staticmethod
    def load(path: str | os.PathLike[str]) -> CurvatureMap:
        """Read a file written by :meth:`save`.

        Raises:
            ParameterError: the file cannot be read or is not a curvature map.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                data = {key: file[key] for key in file.files}
        except (OSError, ValueError) as error:
            raise ParameterError(f"path: cannot read a map from {path}: {error}") from error
        if str(data.get("format")) != MAP_FORMAT:
            raise ParameterError(f"path: {path} is no curvature map of this package")
        plane = GaitPlane(
            tuple(data["joint_names"].tolist()),
            data["centers"][0].copy(),
            data["basis"],
            tuple(data["units"].tolist()),
        )
        return CurvatureMap(
            robot_name=str(data["robot_name"]),
            plane=plane,
            r1=data["r1"],
            r2=data["r2"],
            values=data["values"],
            components=tuple(data["components"].tolist()),
            rotation=data["rotation"],
            frame=str(data["frame"]),
            outside=data["outside"],
            centers=data["centers"],
        )


def ccf_map(
    robot: Robot,
    joints: str | Iterable[str] | None = None,
    q_c: ArrayLike | None = None,
    *,
    basis: ArrayLike | None = None,
    extent: ArrayLike | None = None,
    size: ArrayLike = (30, 30),
    frame: str = "virtual_chassis",
    threads: int | None = None,
    progress: bool | None = None,
) -> CurvatureMap:
    """Curvature of the connection over a plane of shapes, [Mishra2022] Algorithm 1.

    Args:
        robot: the robot; its base group must have a rotation.
        joints: names of the two joints that move; with ``basis``, of the joints of its rows.
        q_c: centre of the map, shape (n,) [rad or m], zero if None; the other joints stay there.
            Or the centres of a stack of planes, shape (K, n).
        basis: two directions of shape space as columns, shape (n, 2), instead of two joints.
        extent: extent of the grid from q_c [rad or m]: ``((low, high), (low, high))``, one pair
            for both directions, or one number for all. If None, pi/2 in both directions or to the
            nearest joint limit.
        size: number of points along each direction, or one number for both.
        frame: ``virtual_chassis`` (centre of mass and principal axes at each shape: the
            minimum-perturbation choice, see docs/locomotion.md), ``centroidal`` (centre of mass,
            axes of {1}), ``base`` ({1} itself) or ``center`` (the virtual chassis at q_c, fixed
            over the map).
        threads: number of threads; if None, one per core.
        progress: whether to show a progress bar; if None, on a terminal and for a large grid.

    Returns:
        The map, with all b components.

    Raises:
        ParameterError: a joint is named twice, the directions are parallel, or the base cannot
            turn.

    Warns:
        LimitsWarning: the grid reaches beyond joint limits; ``outside`` marks where.
    """
    require_rotation(robot.base_group)
    centers, is_stack = _centers(robot, q_c)
    planes = [GaitPlane.of(robot, joints, centre, basis=basis) for centre in centers]
    r1, r2 = _grid(robot, planes, extent, size)
    out = np.empty((len(planes), robot.b, r1.size, r2.size))
    _fill(robot, planes, frame, r1, r2, out=out, threads=threads, progress=progress)
    outside = _outside(robot, planes, r1, r2)
    return CurvatureMap(
        robot_name=robot.name,
        plane=planes[0],
        r1=r1,
        r2=r2,
        values=out.transpose(1, 0, 2, 3) if is_stack else out[0],
        components=component_names(robot.base_group),
        rotation=is_rotation(robot.base_group),
        frame=frame,
        outside=outside if is_stack else outside[0],
        centers=centers,
    )


def _centers(robot: Robot, q_c: ArrayLike | None) -> tuple[Array, bool]:
    """Centres of the planes, shape (K, n), and whether they are a stack."""
    if q_c is None or np.ndim(q_c) != 2:
        return vector("q_c", np.zeros(robot.n) if q_c is None else q_c, robot.n)[None], False
    if np.shape(q_c)[1] != robot.n or not np.shape(q_c)[0]:
        raise DimensionError(
            f"q_c: got shape {np.shape(q_c)}, expected ({robot.n},), or (K, {robot.n}) of a stack"
        )
    return np.array([vector("q_c", row, robot.n) for row in np.asarray(q_c)]), True


def _grid(
    robot: Robot, planes: list[GaitPlane], extent: ArrayLike | None, size: ArrayLike
) -> tuple[Array, Array]:
    """Coordinates of the grid along both directions, shapes (s1,) and (s2,)."""
    s1, s2 = grid_sizes(size, len(planes))
    ends = _default_extent(robot, planes) if extent is None else _extent(extent)
    return np.linspace(ends[0, 0], ends[0, 1], s1), np.linspace(ends[1, 0], ends[1, 1], s2)


def grid_sizes(size: ArrayLike, planes: int = 1) -> tuple[int, int]:
    """Check the number of points along both directions, for a number of planes."""
    counts = as_pair("size", size, int)
    try:
        s1, s2 = (int(count) for count in counts)
        exact = (s1, s2) == tuple(counts)
    except (TypeError, ValueError):
        exact = False
    if not exact or min(s1, s2) < 2 or s1 * s2 * planes > MAX_MAP_POINTS:
        raise ParameterError(
            f"size: got {size!r}, expected whole numbers of points from 2 on, at most "
            f"{MAX_MAP_POINTS:.0e} in all"
        )
    return s1, s2


def _extent(extent: ArrayLike) -> Array:
    """Check an extent and return low and high of both directions, shape (2, 2) [rad or m]."""
    try:
        given = np.array(extent, dtype=float)
    except (TypeError, ValueError) as error:
        raise DimensionError(f"extent: got {extent!r}, expected numbers") from error
    if given.ndim == 0:
        given = np.array([-given, given])
    if given.shape == (2,):
        given = np.array([given, given])
    if given.shape != (2, 2):
        raise DimensionError(
            f"extent: got shape {given.shape}, expected a number, two, or ((low, high), (low, "
            "high))"
        )
    if not (np.isfinite(given).all() and (given[:, 0] < given[:, 1]).all()):
        raise ParameterError(f"extent: got {extent!r}, expected low below high, both finite")
    return given


def _default_extent(robot: Robot, planes: list[GaitPlane]) -> Array:
    """Low and high of both directions within the joint limits, shape (2, 2) [rad or m]."""
    out = np.array([[-DEFAULT_EXTENT, DEFAULT_EXTENT], [-DEFAULT_EXTENT, DEFAULT_EXTENT]])
    for plane in planes:
        for row, direction in zip(out, plane.basis.T, strict=True):
            low, high = limits_along(robot.lower_limits, robot.upper_limits, plane.q_c, direction)
            if low < 0.0 < high:  # otherwise q_c is beyond a limit, and a warning follows
                row[:] = max(row[0], low), min(row[1], high)
    return out


def _outside(robot: Robot, planes: list[GaitPlane], r1: Array, r2: Array) -> NDArray[np.bool_]:
    """Where joints are beyond their position limits, shape (K, s1, s2), bool.

    Works row by row to save memory.
    """
    out = np.zeros((len(planes), r1.size, r2.size), dtype=bool)
    guilty = np.zeros(robot.n, dtype=bool)
    for mask, plane in zip(out, planes, strict=True):
        corners = plane.shape_at([[r1[i], r2[j]] for i in (0, -1) for j in (0, -1)])
        beyond = (corners < robot.lower_limits - 1e-12) | (corners > robot.upper_limits + 1e-12)
        if not beyond.any():  # then no point is, for the corners are the extremes
            continue
        guilty |= beyond.any(axis=0)
        for i, x in enumerate(r1):
            row = np.column_stack((np.full(r2.size, x), r2))
            mask[i] = beyond_limits(robot, plane.shape_at(row))
    if out.any():
        warnings.warn(
            f"extent: {100.0 * out.mean():.0f} % of the map is beyond the position limits of "
            f"{names_of(guilty, robot)}; `outside` marks it",
            LimitsWarning,
            stacklevel=3,
        )
    return out


def _fill(
    robot: Robot,
    planes: list[GaitPlane],
    frame: str,
    r1: Array,
    r2: Array,
    *,
    out: Array,
    threads: int | None,
    progress: bool | None,
) -> None:
    """Compute the maps of all planes into ``out``, shape (K, b, s1, s2).

    Threads share the work in pieces of some rows.
    """
    points = len(planes) * r1.size * r2.size
    workers = max(1, min(threads or os.cpu_count() or 1, points // MIN_POINTS_FOR_THREADS))
    rows = max(1, POINTS_PER_TASK // r2.size)
    pieces = [
        (k, start, min(start + rows, r1.size))
        for k in range(len(planes))
        for start in range(0, r1.size, rows)
    ]
    choices = [FrameChoice.of(robot, frame, plane.q_c) for plane in planes]

    def piece(task: tuple[int, int, int]) -> int:
        k, start, end = task
        map_rows(robot, planes[k], choices[k], r1, r2, rows=(start, end), out=out[k])
        return (end - start) * r2.size

    if progress is False or (progress is None and points < MIN_POINTS_FOR_BAR):
        _share(piece, pieces, workers, lambda done: None)
        return
    from tqdm import tqdm

    disable = None if progress is None else False
    with tqdm(
        total=points, unit="point", unit_scale=True, desc="curvature", disable=disable
    ) as bar:
        _share(piece, pieces, workers, bar.update)


def _share(
    work: Callable[[tuple[int, int, int]], int],
    tasks: list[tuple[int, int, int]],
    workers: int,
    tick: Callable[[int], Any],
) -> None:
    """Do all tasks, in threads if there is more than one worker.

    Args:
        work: does a task and returns its number of points.
        tasks: a task is a plane, its first row and the row after its last.
        workers: number of threads.
        tick: is called with the number of points of each task that is done.
    """
    if workers == 1:
        for task in tasks:
            tick(work(task))
        return
    _kernels.map_rows.compile()  # once, before the threads need it
    with ThreadPoolExecutor(workers) as pool:
        for done in pool.map(work, tasks):
            tick(done)
