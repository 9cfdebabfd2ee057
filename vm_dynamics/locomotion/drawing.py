# SPDX-License-Identifier: Apache-2.0
"""Pictures of curvature maps, atlases and plans, with matplotlib (an optional dependency)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion.atlas import CurvatureAtlas
from vm_dynamics.locomotion.ccf import CurvatureMap
from vm_dynamics.locomotion.displacement import Comparison, xyz_angles
from vm_dynamics.locomotion.gaits import Gait
from vm_dynamics.locomotion.plan import ReorientationPlan
from vm_dynamics.locomotion.planes import GaitPlane
from vm_dynamics.robot import Robot

# Blue for negative values, white for zero, red for positive values.
COLOUR_MAP = "RdBu_r"
GAIT_COLOUR = "#111111"
DPI = 130
# Translations below this are not drawn [m/rad^2 in a map, m in an atlas].
NEGLIGIBLE_COMPONENT = 1e-9
# With more joints, the numbers in the fields of an atlas are too small to read.
MAX_JOINTS_WITH_NUMBERS = 10


def pyplot_for_files() -> Any:
    """Import ``matplotlib.pyplot`` for writing files; the error says how to install it."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ParameterError(
            "matplotlib is not installed, and pictures need it: pip install 'vm_dynamics[plot]'"
        ) from None
    pyplot.switch_backend("Agg")  # writes files, and needs no display
    return pyplot


def _save(figure: Any, path: str | os.PathLike[str]) -> Path:
    from matplotlib import pyplot

    file = Path(path)
    try:
        figure.savefig(file, dpi=DPI)
    except (OSError, ValueError) as error:
        raise ParameterError(f"path: cannot write a picture to {file}: {error}") from error
    finally:
        pyplot.close(figure)
    return file


# -- maps ---------------------------------------------------------------------------------------


def draw_map(
    ccf: CurvatureMap,
    path: str | os.PathLike[str],
    *,
    gait: Gait | None = None,
    comparison: Comparison | None = None,
) -> Path:
    """Draw a map: each component as a surface and, below it, as a flat picture from above.

    Args:
        ccf: a map of one plane.
        path: path of the picture, ``.png``, ``.svg`` or ``.pdf``.
        gait: a gait in the plane, drawn over the map.
        comparison: displacements of the base by that gait, for the title.

    Returns:
        The path of the picture.
    """
    if ccf.is_stack:
        raise ParameterError("ccf: got a stack of maps, expected one plane, such as ccf[0]")
    pyplot = pyplot_for_files()
    blocks = _blocks(ccf.values, ccf.rotation)
    columns = max([1, *(len(block) for block in blocks.values())])
    figure = pyplot.figure(figsize=(1.6 + 4.2 * columns, 1.3 + 7.0 * len(blocks)))
    figure.suptitle(_map_title(ccf, comparison), fontsize=12)
    outer = figure.add_gridspec(
        len(blocks), 1, top=1.0 - 1.25 / figure.get_figheight(), bottom=0.07, left=0.06, right=0.94
    )
    for cells, (turns, rows) in zip(outer, blocks.items(), strict=True):
        scale = np.degrees(1.0) if turns else 1000.0
        values = scale * ccf.values[rows]
        limit = float(abs(values).max()) or 1.0
        widths = [*([1.0] * columns), 0.05]
        grid = cells.subgridspec(2, columns + 1, width_ratios=widths, wspace=0.28, hspace=0.12)
        for column, (row, surface) in enumerate(zip(rows, values, strict=True)):
            above = figure.add_subplot(grid[0, column], projection="3d")
            flat = figure.add_subplot(grid[1, column])
            image = _draw_component(above, flat, ccf, surface, limit, gait)
            above.set_title(f"{ccf.components[row]}", fontsize=12)
        bar = figure.add_subplot(grid[:, columns])
        figure.colorbar(image, cax=bar, label=_bar_label(turns))
    return _save(figure, path)


def _blocks(values: Array, rotation: NDArray[np.bool_]) -> dict[bool, list[int]]:
    """Indices of the components to draw: the rotations (True), then the translations (False).

    The translations are left out if all of them are negligible.
    """
    out: dict[bool, list[int]] = {}
    for turns in (True, False):
        size = float(abs(values[rotation == turns]).max(initial=0.0))
        if turns or size > NEGLIGIBLE_COMPONENT:
            out[turns] = np.flatnonzero(rotation == turns).tolist()
    return out


def _bar_label(turns: bool) -> str:
    what, unit = ("rotation", "deg") if turns else ("translation", "mm")
    return f"curvature of the connection, {what} [{unit} per rad$^2$ of loop]"


def _draw_component(
    above: Any, flat: Any, ccf: CurvatureMap, surface: Array, limit: float, gait: Gait | None
) -> Any:
    from matplotlib.colors import TwoSlopeNorm

    norm = TwoSlopeNorm(0.0, -limit, limit)
    (x, y), labels = _axes_of(ccf)
    image = flat.pcolormesh(x, y, surface.T, cmap=COLOUR_MAP, norm=norm, shading="gouraud")
    if ccf.outside.any():
        marked = np.ma.masked_where(~ccf.outside, np.ones(ccf.outside.shape)).T
        flat.contourf(x, y, marked, levels=[0.5, 1.5], colors="none", hatches=["////"])
        flat.plot([], [], " ", label="hatched: beyond joint limits")
        flat.legend(loc="lower left", fontsize=7, framealpha=0.9)
    flat.contour(x, y, surface.T, levels=[0.0], colors="grey", linewidths=0.6)
    flat.set_xlabel(labels[0])
    flat.set_ylabel(labels[1])
    if ccf.plane.units[0] == ccf.plane.units[1]:
        flat.set_aspect("equal", adjustable="box")
    shown = np.ma.masked_where(ccf.outside, surface)
    above.plot_surface(
        *np.meshgrid(x, y, indexing="ij"), shown, cmap=COLOUR_MAP, norm=norm, alpha=0.9,
        rcount=30, ccount=30, linewidth=0.25, edgecolor="0.45",
    )  # fmt: skip
    above.set_xlabel(labels[0], fontsize=8)
    above.set_ylabel(labels[1], fontsize=8)
    above.set_zlim(-limit, limit)
    above.tick_params(labelsize=7)
    if gait is not None:
        _draw_gait(above, flat, ccf, surface, gait)
    return image


def _draw_gait(above: Any, flat: Any, ccf: CurvatureMap, surface: Array, gait: Gait) -> None:
    from scipy.interpolate import RegularGridInterpolator

    t = np.linspace(0.0, gait.duration, 400)
    back = np.linalg.pinv(ccf.plane.basis).T
    r = (gait.position(t) - ccf.plane.q_c) @ back
    height = RegularGridInterpolator(
        (ccf.r1, ccf.r2), surface, bounds_error=False, fill_value=np.nan
    )(r)
    x, y = (shown_coordinates(ccf.plane, k, r[:, k])[0] for k in range(2))
    above.plot(x, y, height, color=GAIT_COLOUR, linewidth=1.6, zorder=10)
    flat.plot(x, y, color=GAIT_COLOUR, linewidth=1.6)
    flat.plot(x[0], y[0], "o", color=GAIT_COLOUR, markersize=5)
    k = 20
    flat.annotate(
        "", (x[k + 6], y[k + 6]), (x[k], y[k]),
        arrowprops={"arrowstyle": "-|>", "color": GAIT_COLOUR, "linewidth": 1.6},
    )  # fmt: skip


def _axes_of(ccf: CurvatureMap) -> tuple[tuple[Array, Array], list[str]]:
    """Coordinates of both axes in degrees or metres, and their labels with the unit."""
    (x, first), (y, second) = (
        shown_coordinates(ccf.plane, k, r) for k, r in enumerate((ccf.r1, ccf.r2))
    )
    return (x, y), [first, second]


def shown_coordinates(plane: GaitPlane, k: int, r: Array) -> tuple[Array, str]:
    """Coordinates to show along direction k, and the label of their axis.

    For a single joint they are the joint's positions, for several joints the distance from the
    centre; in degrees or metres.

    Args:
        plane: the plane.
        k: 0 or 1, the direction.
        r: coordinates in the plane along that direction [rad or m].
    """
    direction, unit = plane.basis[:, k], plane.units[k]
    moved = np.flatnonzero(direction)
    name = plane.axis_names[k]
    if len(moved) == 1 and direction[moved[0]] == 1.0:
        r = r + plane.q_c[moved[0]]
    elif plane.q_c[moved].any():
        name = f"{name}, from the centre"
    return (np.degrees(r), f"{name} [deg]") if unit == "rad" else (r, f"{name} [{unit}]")


def _map_title(ccf: CurvatureMap, comparison: Comparison | None) -> str:
    title = f"{ccf.robot_name}: constraint curvature, frame {ccf.frame.replace('_', ' ')}"
    if comparison is None:
        return title
    exact, near = (
        ", ".join(f"{np.degrees(x):.2f}" for x in d.xyz_angles)
        for d in (comparison.exact, comparison.approximate)
    )
    shift = 1000.0 * float(np.linalg.norm(comparison.exact.translation))
    return (
        f"{title}\nthe gait turns the base by ({exact}) deg about x, y, z and shifts it by "
        f"{shift:.2f} mm;\narea integral: ({near}) deg, {np.degrees(comparison.angle):.3f} deg off"
    )


# -- atlas --------------------------------------------------------------------------------------


def draw_atlas(atlas: CurvatureAtlas, path: str | os.PathLike[str]) -> Path:
    """Draw an atlas: for each component, the displacements by all pairs of joints.

    Args:
        atlas: the atlas.
        path: path of the picture.

    Returns:
        The path of the picture.
    """
    pyplot = pyplot_for_files()
    blocks = _blocks(atlas.matrix, atlas.rotation)
    columns = max(len(block) for block in blocks.values())
    n = len(atlas.joint_names)
    side = max(3.2, 0.52 * n + 1.0)
    figure, axes = pyplot.subplots(
        len(blocks),
        columns,
        figsize=(side * columns + 1.8, (side + 0.5) * len(blocks) + 0.8),
        squeeze=False,
        layout="constrained",
    )
    figure.suptitle(
        f"{atlas.robot_name}: base displacement by a loop of {atlas.area:g} rad$^2$, row joint "
        f"first, then column joint (frame {atlas.frame.replace('_', ' ')})"
    )
    for row, (turns, rows) in zip(axes, blocks.items(), strict=True):
        values = (np.degrees(1.0) if turns else 1000.0) * atlas.matrix[rows]
        limit = float(abs(values).max()) or 1.0
        for axis in row[len(rows) :]:
            axis.set_axis_off()
        for axis, k, matrix in zip(row, rows, values, strict=False):
            image = axis.imshow(matrix, cmap=COLOUR_MAP, vmin=-limit, vmax=limit)
            axis.set_title(atlas.components[k])
            axis.set_xticks(range(n), atlas.joint_names, rotation=60, ha="right", fontsize=8)
            axis.set_yticks(range(n), atlas.joint_names, fontsize=8)
            _write_numbers(axis, matrix, limit)
        unit = "rotation [deg]" if turns else "translation [mm]"
        figure.colorbar(image, ax=list(row), label=unit, shrink=0.85)
    return _save(figure, path)


def _write_numbers(axis: Any, matrix: Array, limit: float) -> None:
    if len(matrix) > MAX_JOINTS_WITH_NUMBERS:
        return
    for (i, j), value in np.ndenumerate(matrix):
        if i != j and abs(value) >= 0.005 * limit:
            dark = abs(value) > 0.6 * limit
            axis.text(
                j, i, f"{value:.2g}", ha="center", va="center", fontsize=6,
                color="white" if dark else "black",
            )  # fmt: skip


# -- plans --------------------------------------------------------------------------------------


def draw_plan(robot: Robot, plan: ReorientationPlan, path: str | os.PathLike[str]) -> Path:
    """Draw a plan: joint positions, joint velocities and angles of the base over time.

    Args:
        robot: the robot of the plan.
        plan: the plan.
        path: path of the picture.

    Returns:
        The path of the picture.
    """
    if plan.path is None:
        raise ParameterError("plan: nothing moves, so there is nothing to draw")
    pyplot = pyplot_for_files()
    t, q, qd = plan.path.sample(600)
    poses = plan.base_path.at(t)
    figure, axes = pyplot.subplots(3, 1, figsize=(9.0, 9.5), sharex=True, layout="constrained")
    wanted = ", ".join(f"{np.degrees(x):.2f}" for x in xyz_angles(plan.wanted))
    state = "reached" if plan.reached else "NOT reached"
    figure.suptitle(
        f"{robot.name}: turn the base by ({wanted}) deg about x, y, z\n{state}, "
        f"{np.degrees(plan.error):.3f} deg off, {plan.duration:.1f} s"
    )
    for i, name in enumerate(robot.joint_names):
        scale, unit = (1.0, " [m]") if robot.prismatic[i] else (np.degrees(1.0), "")
        (line,) = axes[0].plot(t, scale * q[:, i], label=f"{name}{unit}")
        axes[1].plot(t, scale * qd[:, i], color=line.get_color())
    axes[0].set_ylabel("joint position [deg]")
    axes[1].set_ylabel("joint velocity [deg/s]")
    angles = np.degrees([xyz_angles(pose[:3, :3]) for pose in poses])
    for k, (name, colour) in enumerate(zip("xyz", ("C3", "C2", "C0"), strict=True)):
        axes[2].plot(t, angles[:, k], color=colour, label=f"base about {name}")
        axes[2].axhline(np.degrees(xyz_angles(plan.wanted)[k]), color=colour, ls=":", lw=1.0)
    axes[2].plot([], [], ":", color="grey", label="wanted")
    axes[2].set_ylabel("base orientation, XYZ angles [deg]")
    axes[2].set_xlabel("time [s]")
    for axis in (axes[0], axes[2]):
        axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    for axis in axes:
        axis.grid(alpha=0.3)
    return _save(figure, path)
