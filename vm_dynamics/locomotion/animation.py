# SPDX-License-Identifier: Apache-2.0
"""A plan as a moving picture, with matplotlib (an optional dependency)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion.drawing import pyplot_for_files
from vm_dynamics.locomotion.plan import ReorientationPlan
from vm_dynamics.model.spec import Shape
from vm_dynamics.robot import Robot

WRITERS = {".gif": "pillow", ".webp": "pillow", ".mp4": "ffmpeg"}  # of matplotlib, by suffix
FRAMES, FRAMES_PER_SECOND = 120, 15  # of the file; the motion itself may take longer
CORNERS_OF_CIRCLE = 13
DPI = 80


def animate_plan(robot: Robot, plan: ReorientationPlan, path: str | os.PathLike[str]) -> Path:
    """Draw the robot, by its collision shapes, on the way of a plan.

    Args:
        robot: the robot of the plan.
        plan: the plan.
        path: path of the file, one of ``.gif .webp .mp4``; the last needs ffmpeg.

    Returns:
        The path of the file.
    """
    file = Path(path)
    if file.suffix not in WRITERS:
        raise ParameterError(f"path: got {file.name}, expected one of {' '.join(WRITERS)}")
    if plan.path is None:
        raise ParameterError("plan: nothing moves, so there is nothing to play")
    pyplot = pyplot_for_files()
    from matplotlib.animation import FuncAnimation
    from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]

    times = np.linspace(0.0, plan.duration, FRAMES)
    shapes, poses = plan.path.position(times), plan.base_path.at(times)
    frames = [_lines(robot, g, q) for g, q in zip(poses, shapes, strict=True)]
    figure = pyplot.figure(figsize=(7.0, 7.0), layout="constrained")
    axes = figure.add_subplot(projection="3d")
    points = np.vstack([line for frame in frames for line in frame])
    middle, half = points.mean(axis=0), 0.5 * np.ptp(points, axis=0).max()
    axes.set(**{f"{x}lim": (m - half, m + half) for x, m in zip("xyz", middle, strict=True)})
    axes.set(xlabel="x [m]", ylabel="y [m]", zlabel="z [m]")
    drawn = axes.add_collection3d(Line3DCollection(frames[0], linewidths=0.8))

    def show(k: int) -> list[Any]:
        drawn.set_segments(frames[k])
        axes.set_title(f"{robot.name}: {times[k]:.1f} of {plan.duration:.1f} s")
        return [drawn]

    try:
        FuncAnimation(figure, show, frames=FRAMES, blit=False).save(
            file, writer=WRITERS[file.suffix], fps=FRAMES_PER_SECOND, dpi=DPI
        )
    except (OSError, ValueError) as error:
        raise ParameterError(f"path: cannot write {file}: {error}") from error
    finally:
        pyplot.close(figure)
    return file


def _lines(robot: Robot, g: Array, q: Array) -> list[Array]:
    """Lines of all links in the world, shape (points, 3) each [m]."""
    out = []
    where = {link.name: g @ robot.link_pose(q, link.name) for link in robot.description.links}
    for joint in robot.description.joints:  # from each link's frame to its parent's
        out.append(np.array([where[joint.parent][:3, 3], where[joint.child][:3, 3]]))
    for link in robot.description.links:
        for shape in link.shapes:
            pose = where[link.name] @ shape.pose_matrix
            out += [line @ pose[:3, :3].T + pose[:3, 3] for line in _outline(shape)]
    return out


def _outline(shape: Shape) -> list[Array]:
    """Lines of a shape in its own frame; none of a mesh."""
    if shape.kind == "box":
        x, y, z = 0.5 * np.array(shape.size)
        ring = np.array([[x, y], [-x, y], [-x, -y], [x, -y], [x, y]])
        return _prism(ring, z)
    angles = np.linspace(0.0, 2.0 * np.pi, CORNERS_OF_CIRCLE)
    circle = np.column_stack((np.cos(angles), np.sin(angles)))
    if shape.kind in ("cylinder", "capsule"):
        return _prism(shape.size[0] * circle, 0.5 * shape.size[1])
    if shape.kind == "sphere":
        flat = np.column_stack((shape.size[0] * circle, np.zeros(len(circle))))
        return [flat, np.roll(flat, 1, axis=1), np.roll(flat, 2, axis=1)]
    return []


def _prism(ring: Array, half: float) -> list[Array]:
    """Lines of a prism along z: both ends, and four of its edges."""
    ends = [np.column_stack((ring, np.full(len(ring), z))) for z in (-half, half)]
    step = (len(ring) - 1) // 4
    edges = [np.array([ends[0][k], ends[1][k]]) for k in range(0, len(ring) - 1, step)]
    return [*ends, *edges]
