# SPDX-License-Identifier: Apache-2.0
"""Constraint curvature maps: the curvature of the connection over a plane of shapes.

Implements: [Mishra2022] Algorithm 1 with Theorem 2, eqs. (35), (36), (59), and Property 6. Where
it departs: step 2 takes ``g_1c`` once. A frame that is held gives the displacement that {1} gives
(``exp`` commutes with a constant Ad), so the frame is taken at every shape here; the held one is
``frame="center"``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

DEFAULT_EXTENT = np.pi / 2.0  # [rad or m] either way, unless a joint limit is nearer
MAX_POINTS = 100_000_000  # points
# A map of more points than this takes long enough for a bar, and for threads to pay.
MIN_POINTS_FOR_BAR = 200_000
MIN_POINTS_FOR_THREADS = 4_000
POINTS_PER_TASK = 2_000  # points that a thread takes at a time
FORMAT = "vm_dynamics curvature map 1"


@dataclass(frozen=True, eq=False)
class CurvatureMap:
    """Curvature DA(e_1) e_2 over a grid of a plane of shapes; build one with :func:`ccf_map`.

    A loop in the plane displaces a base without momentum by about ``exp(-zeta)``, zeta the
    integral of the values over the area that it goes around, anticlockwise counted positive.

    Attributes:
        robot_name: name of the robot.
        plane: the plane; of a stack, the first one.
        r1: coordinates along its first direction, shape (s1,) [rad or m].
        r2: coordinates along its second, shape (s2,).
        values: all components, shape (b, s1, s2), or (b, K, s1, s2) of a stack of K planes.
        components: their names, such as ``vx`` and ``wz``.
        rotation: which of them are angular, shape (b,), bool.
        frame: the frame that they are in.
        outside: where a joint is beyond its position limits, shape (s1, s2) or (K, s1, s2).
        centers: centres of the planes, shape (K, n), K = 1 unless it is a stack.
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
        """Whether it has more than one plane, or was made from a stack of one."""
        return self.values.ndim == 4

    def __len__(self) -> int:
        """Number of planes."""
        return len(self.centers)

    def __getitem__(self, k: int) -> CurvatureMap:
        """Plane k of a stack, as a map of its own."""
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
        """The component of a name, shape (s1, s2) or (K, s1, s2)."""
        if name not in self.components:
            raise ParameterError(
                f"component: got {name!r}, expected one of {', '.join(self.components)}"
            )
        return self.values[self.components.index(name)]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a ``.npz`` file; returns its path, which gets that ending if it has none."""
        file = Path(path)
        if file.suffix != ".npz":
            file = file.with_name(f"{file.name}.npz")
        np.savez_compressed(
            file,
            format=FORMAT,
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
        """Read what :meth:`save` wrote.

        Raises:
            ParameterError: the file cannot be read or is no such map.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                data = {key: file[key] for key in file.files}
        except (OSError, ValueError) as error:
            raise ParameterError(f"path: cannot read a map from {path}: {error}") from error
        if str(data.get("format")) != FORMAT:
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
    joints: Any = None,
    q_c: Any = None,
    *,
    basis: Any = None,
    extent: Any = None,
    size: Any = (30, 30),
    frame: str = "virtual_chassis",
    threads: int | None = None,
    progress: bool | None = None,
) -> CurvatureMap:
    """Curvature of the connection over a plane of shapes, [Mishra2022] Algorithm 1.

    Args:
        robot: the robot; its base group must turn.
        joints: names of the two joints that move; with ``basis``, of the joints its rows are for.
        q_c: centre of the map, where the other joints stay, shape (n,), zero unless given; or
            the centres of a stack of planes, shape (K, n).
        basis: two directions of shape space as columns, shape (n, 2), instead of two joints.
        extent: how far the grid goes from q_c: ``((low, high), (low, high))``, a pair for both
            directions, or one number for all [rad or m]. Unless given, pi/2 either way or to the
            nearest joint limit.
        size: points along each direction, or one number for both.
        frame: ``virtual_chassis`` (centre of mass and principal axes at each shape: the
            minimum-perturbation choice, see docs/locomotion.md), ``centroidal`` (centre of mass,
            axes of {1}), ``base`` ({1} itself) or ``center`` (the virtual chassis at q_c, held
            over the map).
        threads: how many share the work; one a core unless given.
        progress: whether to show a bar; if None, on a terminal and for a large grid.

    Returns:
        The map, with all b components.

    Raises:
        ParameterError: a joint named twice, parallel directions, a base that cannot turn.

    Warns:
        LimitsWarning: the grid reaches beyond joint limits; that region is marked in the map.
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


def _centers(robot: Robot, q_c: Any) -> tuple[Array, bool]:
    if q_c is None or np.ndim(q_c) != 2:
        return vector("q_c", np.zeros(robot.n) if q_c is None else q_c, robot.n)[None], False
    if np.shape(q_c)[1] != robot.n or not len(q_c):
        raise DimensionError(
            f"q_c: got shape {np.shape(q_c)}, expected ({robot.n},), or (K, {robot.n}) of a stack"
        )
    return np.array([vector("q_c", row, robot.n) for row in q_c]), True


def _grid(robot: Robot, planes: list[GaitPlane], extent: Any, size: Any) -> tuple[Array, Array]:
    """Coordinates along both directions."""
    s1, s2 = grid_sizes(size, len(planes))
    ends = _default_extent(robot, planes) if extent is None else _extent(extent)
    return np.linspace(ends[0, 0], ends[0, 1], s1), np.linspace(ends[1, 0], ends[1, 1], s2)


def grid_sizes(size: Any, planes: int = 1) -> tuple[int, int]:
    """Points along both directions, checked."""
    counts = as_pair("size", size, int)
    try:
        s1, s2 = (int(count) for count in counts)
        exact = (s1, s2) == tuple(counts)
    except (TypeError, ValueError):
        exact = False
    if not exact or min(s1, s2) < 2 or s1 * s2 * planes > MAX_POINTS:
        raise ParameterError(
            f"size: got {size!r}, expected whole numbers of points from 2 on, at most "
            f"{MAX_POINTS:.0e} in all"
        )
    return s1, s2


def _extent(extent: Any) -> Array:
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
    out = np.array([[-DEFAULT_EXTENT, DEFAULT_EXTENT], [-DEFAULT_EXTENT, DEFAULT_EXTENT]])
    for plane in planes:
        for row, direction in zip(out, plane.basis.T, strict=True):
            low, high = limits_along(robot.lower_limits, robot.upper_limits, plane.q_c, direction)
            if low < 0.0 < high:  # else the centre is beyond a limit, which the warning tells
                row[:] = max(row[0], low), min(row[1], high)
    return out


def _outside(robot: Robot, planes: list[GaitPlane], r1: Array, r2: Array) -> NDArray[np.bool_]:
    """Where joints are beyond their limits, shape (K, s1, s2), row by row to spare memory."""
    out = np.zeros((len(planes), r1.size, r2.size), dtype=bool)
    guilty = np.zeros(robot.n, dtype=bool)
    for mask, plane in zip(out, planes, strict=True):
        corners = plane.shape_at([[r1[i], r2[j]] for i in (0, -1) for j in (0, -1)])
        beyond = (corners < robot.lower_limits - 1e-12) | (corners > robot.upper_limits + 1e-12)
        if not beyond.any():  # the grid is inside the hull of its corners
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
    """Compute all planes, shape (K, b, s1, s2), in pieces of rows that threads share."""
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
    """Do all tasks, in threads if there are more workers than one."""
    if workers == 1:
        for task in tasks:
            tick(work(task))
        return
    _kernels.map_rows.compile()  # before the threads start
    with ThreadPoolExecutor(workers) as pool:
        for done in pool.map(work, tasks):
            tick(done)
