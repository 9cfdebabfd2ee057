# SPDX-License-Identifier: Apache-2.0
"""The commands ``vm_dynamics ccf``, ``atlas`` and ``reorient``."""

from __future__ import annotations

import argparse
import csv
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import DimensionError, ParameterError
from vm_dynamics.lie.se3 import Array

if TYPE_CHECKING:
    from vm_dynamics.robot import Robot

RobotFile = Callable[[str], Path]
ANGLE_UNITS = {"deg": float(np.radians(1.0)), "rad": 1.0}
FULL_TURN = 6.2832  # [rad], rounded up as people write it
# A negative number with or without a unit, which argparse must not take for an option.
NEGATIVE_NUMBER = re.compile(r"^-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?(deg|rad)?$", re.IGNORECASE)


def add_commands(subparsers: Any, robot_file: RobotFile) -> None:
    """Add the commands of this folder to those of ``vm_dynamics``.

    Args:
        subparsers: result of ``ArgumentParser.add_subparsers``.
        robot_file: function that finds the URDF file of a robot by name or path.
    """
    for add in (_add_ccf, _add_atlas, _add_reorient):
        parser = add(subparsers)
        parser.set_defaults(robot_file=robot_file)
        parser._negative_number_matcher = NEGATIVE_NUMBER


def _number_and_unit(text: str) -> tuple[str, str]:
    """Split a text such as ``20deg`` into its number and its unit, which may be empty."""
    word = text.strip().lower()
    unit = next((unit for unit in ANGLE_UNITS if word.endswith(unit)), "")
    return word.removesuffix(unit).rstrip(), unit


def angle(text: str) -> float:
    """Read an angle [rad]: ``0.5`` or ``0.5rad`` in radians, ``20deg`` in degrees."""
    number, unit = _number_and_unit(text)
    try:
        value = float(number)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected radians or, as 20deg, degrees")
    return value * ANGLE_UNITS.get(unit, 1.0)


def turn(text: str) -> float:
    """Read the angle of a rotation [rad].

    More than a full turn needs a unit, because the user may have meant degrees.
    """
    value = angle(text)
    number, unit = _number_and_unit(text)
    if abs(value) > FULL_TURN and not unit:
        raise argparse.ArgumentTypeError(
            f"got {number}, which is {abs(value) / (2.0 * np.pi):.3g} turns in radians; expected "
            f"{number}deg for degrees, or {number}rad if that is meant"
        )
    return value


def _robot_arguments(parser: argparse.ArgumentParser, shape: str, what: str) -> None:
    """Add the arguments for a robot and one of its shapes, the option ``shape``."""
    parser.add_argument("robot", help="path of a URDF file, or the name of a robot of the package")
    parser.add_argument("--base", help="base group: SE3 SE2 SO3 X C SO2 H")
    parser.add_argument(
        shape,
        nargs="+",
        default=[],
        metavar="X",
        help=f"{what}: a number for each joint, or name=number [0; rad, or 20deg, or m]",
    )


def _add_ccf(subparsers: Any) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "ccf",
        help="draw the curvature over two joints and what a gait there does to the base",
        description="Draw the constraint curvature of two joints, or of two directions of shape "
        "space, with a circle over it, and print how that gait displaces the base.",
    )
    _robot_arguments(parser, "--center", "centre of the map")
    parser.add_argument("--joints", nargs="+", required=True, metavar="J", help="names of joints")
    parser.add_argument(
        "--basis",
        nargs="+",
        type=float,
        metavar="X",
        help="for more than two joints: how each moves along the first direction, then along "
        "the second",
    )
    parser.add_argument(
        "--extent",
        nargs="+",
        type=angle,
        metavar="R",
        help="how far from the centre: one number, low and high, or low and high of both "
        "[90deg or the joint limits]",
    )
    parser.add_argument(
        "--size", nargs="+", type=int, default=[60], metavar="N", help="points [%(default)s]"
    )
    parser.add_argument("--frame", default="virtual_chassis", help="[%(default)s]")
    parser.add_argument(
        "--radius", type=angle, metavar="R", help="of the circle [half of the extent]"
    )
    parser.add_argument(
        "--around", nargs=2, type=angle, metavar="R", help="middle of the circle [of the extent]"
    )
    parser.add_argument("--clockwise", action="store_true", help="go around the other way")
    parser.add_argument("-o", "--output", metavar="PICTURE", help="ccf.png, .svg or .pdf")
    parser.add_argument("--save", metavar="NPZ", help="write the map as .npz")
    parser.set_defaults(run=_ccf)
    return parser  # type: ignore[no-any-return]


def _add_atlas(subparsers: Any) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "atlas",
        help="rank the pairs of joints by how they turn the base",
        description="Print, for every axis, the pairs of joints whose loops turn or shift the "
        "base most, at a shape.",
    )
    _robot_arguments(parser, "--shape", "the shape")
    parser.add_argument("--area", type=float, default=0.1, help="of the loops [%(default)s rad^2]")
    parser.add_argument("--frame", default="base", help="of the displacements [%(default)s]")
    parser.add_argument("--component", metavar="W", help="only this, such as wz, with all pairs")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="picture (.png .svg .pdf) or table (.csv)"
    )
    parser.set_defaults(run=_atlas)
    return parser  # type: ignore[no-any-return]


def _add_reorient(subparsers: Any) -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "reorient",
        help="plan a joint motion that turns the free base",
        description="Plan a closed joint motion, within the joint limits, that turns the free "
        "base by roll, pitch and yaw. Exits with 1 if it is not reached.",
    )
    _robot_arguments(parser, "--start", "where the joints start and end")
    parser.add_argument(
        "--rpy",
        nargs=3,
        type=turn,
        required=True,
        metavar="A",
        help="roll, pitch, yaw of the wanted orientation, as in URDF [rad, or 20deg]",
    )
    parser.add_argument(
        "--tolerance", type=angle, default=np.radians(0.5), metavar="A", help="[0.5deg]"
    )
    parser.add_argument("--max-loops", type=int, default=1000, metavar="N", help="[%(default)s]")
    parser.add_argument(
        "--margin",
        type=float,
        metavar="M",
        help="distance that links keep from each other [0.02 m, where it can be checked]",
    )
    parser.add_argument(
        "--max-velocity",
        type=angle,
        metavar="V",
        help="of any joint [its own limit; rad/s, or 20deg a second, or m/s]",
    )
    parser.add_argument(
        "--duration", type=float, metavar="T", help="[as short as the limits allow; s]"
    )
    parser.add_argument("--rate", type=float, default=100.0, help="of the table [%(default)s Hz]")
    parser.add_argument(
        "-o", "--output", metavar="CSV", help="table of times, q, qd and the pose of the base"
    )
    parser.add_argument("--plot", metavar="PICTURE", help="picture of the plan")
    parser.add_argument("--play", metavar="FILE", help="animation of the plan, .gif .webp .mp4")
    parser.set_defaults(run=_reorient)
    return parser  # type: ignore[no-any-return]


def _load(options: argparse.Namespace) -> Robot:
    from vm_dynamics.robot import load

    return load(options.robot_file(options.robot), base=options.base)


def shape_of(robot: Robot, words: Sequence[str]) -> Array:
    """Read joint positions, shape (n,) [rad or m], from the words of a command line.

    Args:
        robot: the robot.
        words: a number for each joint, or ``name=number`` for some; the others are zero.
    """
    from vm_dynamics.locomotion.planes import joint_indices

    out = np.zeros(robot.n)
    try:
        if words and all("=" in word for word in words):
            pairs = [word.split("=", 1) for word in words]
            out[joint_indices(robot, [name for name, _ in pairs])] = [angle(x) for _, x in pairs]
        elif words:
            if len(words) != robot.n:
                raise DimensionError(
                    f"shape: got {len(words)} numbers, expected {robot.n}, one for each of "
                    f"{', '.join(robot.joint_names)}, or name=number for some"
                )
            out[:] = [angle(word) for word in words]
    except argparse.ArgumentTypeError as error:
        raise ParameterError(f"shape: {error}") from None
    return out


def rpy_matrix(roll: float, pitch: float, yaw: float) -> Array:
    """Rotation matrix, shape (3, 3), of URDF's angles [rad]: about fixed x, then y, then z."""
    (cr, sr), (cp, sp), (cy, sy) = ((np.cos(a), np.sin(a)) for a in (roll, pitch, yaw))
    X = np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
    Y = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    Z = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    return Z @ Y @ X


def _ccf(options: argparse.Namespace) -> int:
    from vm_dynamics.locomotion.ccf import ccf_map
    from vm_dynamics.locomotion.displacement import gait_displacement
    from vm_dynamics.locomotion.gaits import Gait
    from vm_dynamics.locomotion.planes import LimitsWarning

    robot = _load(options)
    basis = None
    if options.basis is not None:
        if len(options.basis) != 2 * len(options.joints):
            raise DimensionError(
                f"basis: got {len(options.basis)} numbers, expected two for each of "
                f"{len(options.joints)} joints"
            )
        basis = np.reshape(options.basis, (2, -1)).T
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LimitsWarning)
        ccf = ccf_map(
            robot,
            options.joints,
            shape_of(robot, options.center),
            basis=basis,
            extent=_extent(options.extent),
            size=options.size * 2 if len(options.size) == 1 else options.size,
            frame=options.frame,
        )
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
    ends = np.array([[r[0], r[-1]] for r in (ccf.r1, ccf.r2)])
    around = ends.mean(axis=1) if options.around is None else np.array(options.around)
    radius = 0.25 * np.diff(ends).min() if options.radius is None else options.radius
    gait = Gait.circle(ccf.plane, radius, around, clockwise=options.clockwise)
    both = gait_displacement(robot, gait, "both", frame=options.frame)
    print(f"{ccf.robot_name}: {ccf.values[0].size} points, frame {ccf.frame}")
    for name, row, turns in zip(ccf.components, ccf.values, ccf.rotation, strict=True):
        unit = "rad" if turns else "m"
        print(f"  {name}: {row.min():+.4g} to {row.max():+.4g} {unit}/rad^2")
    print(f"circle of radius {np.degrees(radius):.4g} deg:")
    for name, d in (("exact", both.exact), ("by area", both.approximate)):
        turn = " ".join(f"{np.degrees(x):+.4f}" for x in d.xyz_angles)
        shift = " ".join(f"{1000.0 * x:+.4f}" for x in d.translation)
        print(f"  {name:<8} turns the base by {turn} deg (XYZ), shifts it by {shift} mm")
    print(f"  difference {np.degrees(both.angle):.4f} deg")
    if options.save:
        print(f"map written to {ccf.save(options.save)}")
    if options.output:
        from vm_dynamics.locomotion.continued import continued_map
        from vm_dynamics.locomotion.drawing import draw_map

        shown = continued_map(robot, ccf)
        where = draw_map(shown, options.output, gait=gait, comparison=both)
        print(f"picture written to {where}")
    return 0


def _extent(numbers: Sequence[float] | None) -> ArrayLike | None:
    """Extent for ``ccf_map`` from the numbers of the option ``--extent``."""
    if numbers is None or len(numbers) == 2:
        return numbers
    if len(numbers) == 1:
        return numbers[0]
    if len(numbers) == 4:
        return [numbers[:2], numbers[2:]]
    raise DimensionError(f"extent: got {len(numbers)} numbers, expected 1, 2 or 4")


def _atlas(options: argparse.Namespace) -> int:
    from vm_dynamics.locomotion.atlas import curvature_atlas

    robot = _load(options)
    atlas = curvature_atlas(
        robot, shape_of(robot, options.shape), options.area, frame=options.frame
    )
    if options.component is None:
        print(atlas)
    else:
        turns = bool(atlas.rotation[atlas.components.index(atlas.ranked(options.component)[0][2])])
        for e in atlas.ranked(options.component):
            size = np.degrees(e.displacement) if turns else 1000.0 * e.displacement
            print(f"{e.first} -> {e.second}: {size:+.5f} {'deg' if turns else 'mm'}")
    if options.output:
        if Path(options.output).suffix == ".csv":
            _write_table(atlas.table(), options.output)
        else:
            from vm_dynamics.locomotion.drawing import draw_atlas

            draw_atlas(atlas, options.output)
        print(f"written to {options.output}")
    return 0


def _write_table(rows: Sequence[Mapping[str, str | float]], path: str) -> None:
    try:
        with open(path, "w", newline="", encoding="utf-8") as stream:
            table = csv.DictWriter(stream, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
    except OSError as error:
        raise ParameterError(f"output: cannot write {path}: {error}") from error


def _reorient(options: argparse.Namespace) -> int:
    from vm_dynamics.locomotion.reorientation import plan_reorientation

    robot = _load(options)
    start = shape_of(robot, options.start)
    if not options.start:  # the shape nearest to zero within the limits
        start = np.clip(start, robot.lower_limits, robot.upper_limits)
    plan = plan_reorientation(
        robot,
        start,
        rpy_matrix(*options.rpy),
        tolerance=options.tolerance,
        max_loops=options.max_loops,
        margin=options.margin,
        max_velocity=options.max_velocity,
        duration=options.duration,
    )
    print(f"{robot.name}: {'reached' if plan.reached else 'NOT reached'}: {plan.reason}")
    roll, pitch, yaw, within = np.degrees((*options.rpy, options.tolerance)).tolist()
    print(f"  wanted roll {roll:.6g}, pitch {pitch:.6g}, yaw {yaw:.6g} deg, to {within:.4g} deg")
    print(f"  off by {np.degrees(plan.error):.4f} deg, takes {plan.duration:.2f} s")
    if plan.nearest:
        print(f"  {' and '.join(plan.nearest)} come as near as {1e3 * plan.clearance:.0f} mm")
    if plan.path is not None:
        print(f"  takes at most {100.0 * plan.peak_effort:.0f} % of the effort limits")
    for note in plan.notes:
        print(f"  note: {note}")
    if options.output and plan.path is not None:
        print(f"table written to {plan.save_csv(options.output, options.rate, base=True)}")
    if options.plot and plan.path is not None:
        from vm_dynamics.locomotion.drawing import draw_plan

        print(f"picture written to {draw_plan(robot, plan, options.plot)}")
    if options.play and plan.path is not None:
        from vm_dynamics.locomotion.animation import animate_plan

        print(f"animation written to {animate_plan(robot, plan, options.play)}")
    return 0 if plan.reached else 1
