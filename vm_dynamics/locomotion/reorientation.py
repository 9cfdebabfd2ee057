# SPDX-License-Identifier: Apache-2.0
"""Plan closed joint motions that turn a free base without any force on it.

Implements: the inverse of [Mishra2022] section V-B, which is not in any of the papers. It starts
from the curvature, as :func:`curvature_atlas` shows it, and refines with the exact eq. (69).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vm_dynamics.errors import DimensionError, NotInGroupError, ParameterError
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array, exp, log
from vm_dynamics.locomotion.displacement import gait_displacement
from vm_dynamics.locomotion.gaits import Gait
from vm_dynamics.locomotion.loops import Attempt, JointLimits, Loop, LoopSearch
from vm_dynamics.locomotion.planes import require_rotation
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

ROTATION_TOLERANCE = np.radians(0.5)  # [rad]
# The search ends at this share of the tolerance, because its integration is less exact than that
# of the final check.
SEARCH_TOLERANCE_SHARE = 0.1
MAX_LOOPS = 50
# Time of the acceleration at the start, and of the deceleration at the end, as a share of the time
# of one loop.
RAMP_SHARE = 0.5
# Share of the velocity limits that is used; the rest is for what lies between samples.
VELOCITY_LIMIT_SHARE = 0.995
MIN_ROTATION = 1e-9  # [rad]: less is no rotation
MIN_LOOP_TIME = 1e-3  # [s]: a loop that takes less does not move
NEAR_LIMIT_DISTANCE = 0.02  # [rad or m]: a loop this near to a limit counts as bounded by it


class Assumed(NamedTuple):
    """Limits that are assumed for joints whose own are missing or unrealistic.

    Attributes:
        unit: unit of the joint positions.
        reach: largest distance from q0 of a joint without position limits [rad or m].
        speed: velocity limit of a joint without one [rad/s or m/s].
        fastest: a higher velocity limit is replaced by this one [rad/s or m/s].
    """

    unit: str
    reach: float
    speed: float
    fastest: float


ASSUMED_REVOLUTE = Assumed("rad", np.pi, 1.0, 2.0 * np.pi)
ASSUMED_PRISMATIC = Assumed("m", 0.5, 0.1, 1.0)


@dataclass(frozen=True, eq=False)
class ReorientationPlan:
    """A closed joint path that turns the base; made by :func:`plan_reorientation`.

    Attributes:
        joint_names: the robot's joints.
        path: the path, at rest at both ends: ``plan.path.position(t)``, ``.velocity(t)``,
            ``.sample(count)``. None if nothing moves.
        duration: duration of the path [s].
        loops: number of loops.
        wanted: wanted rotation matrix, shape (3, 3).
        rotation: rotation matrix that the path gives, by ``integrate``, shape (3, 3).
        displacement: pose of the base after the path, in the frame of the base before it, shape
            (4, 4).
        error: angle between the two rotations [rad].
        reached: whether the error is within the tolerance.
        reason: how the rotation is reached, or why it is not.
        notes: assumptions in place of missing or unrealistic limits.
    """

    joint_names: tuple[str, ...]
    path: Gait | None
    duration: float
    loops: int
    wanted: Array
    rotation: Array
    displacement: Array
    error: float
    reached: bool
    reason: str
    notes: tuple[str, ...]

    def save_csv(self, path: str | os.PathLike[str], rate: float = 100.0) -> Path:
        """Write times, joint positions and joint velocities as a table.

        Args:
            path: path of the file.
            rate: approximate number of rows per second [Hz]; both ends of the path have a row.

        Returns:
            The path of the file.
        """
        if not (np.isfinite(rate) and rate > 0.0):
            raise ParameterError(f"rate: got {rate!r}, expected a number above zero [Hz]")
        if self.path is None:
            raise ParameterError("plan: nothing moves, so there is nothing to write")
        rows = self.path.sample(2 + int(self.duration * rate))
        file = Path(path)
        with file.open("w", newline="", encoding="utf-8") as stream:
            table = csv.writer(stream)
            speeds = (f"{name}_velocity" for name in self.joint_names)
            table.writerow(["time", *self.joint_names, *speeds])
            for t, q, qd in zip(*rows, strict=True):
                table.writerow([f"{x:.9g}" for x in (t, *q, *qd)])
        return file


def plan_reorientation(
    robot: Robot,
    q0: ArrayLike,
    rotation: ArrayLike,
    *,
    limits: Sequence[ArrayLike] | None = None,
    tolerance: float = ROTATION_TOLERANCE,
    max_loops: int = MAX_LOOPS,
) -> ReorientationPlan:
    """Plan a closed joint path that turns the free base by a rotation, at zero momentum.

    Args:
        robot: the robot; its base group must have a rotation.
        q0: joint positions at start and end, shape (n,) [rad or m].
        rotation: wanted orientation of the base after the motion, in the frame of the base before
            it: a rotation matrix, shape (3, 3), or a rotation vector, shape (3,) [rad].
        limits: a :class:`JointLimits`, or lower, upper and velocity limits, each one number or
            shape (n,); the robot's own if None. :data:`ASSUMED_REVOLUTE` and
            :data:`ASSUMED_PRISMATIC` replace limits that are missing or unrealistic; the plan's
            notes say so.
        tolerance: largest angle between the reached and the wanted orientation [rad].
        max_loops: largest number of loops.

    Returns:
        The plan; ``plan.reached`` says whether it reaches the rotation, ``plan.reason`` why not.

    Raises:
        ParameterError: the base cannot turn at all, or not about that axis, or q0 is beyond the
            limits.
    """
    axes = require_rotation(robot.base_group)
    start = vector("q0", q0, robot.n)
    wanted = _wanted(robot, rotation, axes)
    if not (np.isfinite(tolerance) and tolerance > 0.0):
        raise ParameterError(f"tolerance: got {tolerance!r}, expected an angle above zero [rad]")
    if max_loops < 1:
        raise ParameterError(f"max_loops: got {max_loops}, expected at least 1")
    bounds, notes = _limits(robot, start, limits)
    if np.linalg.norm(wanted) < MIN_ROTATION:
        return _plan(robot, None, 0, bounds, wanted, tolerance, "nothing to turn", notes)
    search = LoopSearch(robot, start, bounds)
    loops, best = _search(search, wanted, tolerance, max_loops)
    if best is None:
        reason = "fewer than two joints can move within their limits, so there is no loop"
        return _plan(robot, None, 0, bounds, wanted, tolerance, reason, notes)
    if _slowness(best.loop, bounds) < MIN_LOOP_TIME:
        reason = "no loop of the joints that starts at q0 turns the base about that axis"
        if np.linalg.norm(wanted) <= tolerance:
            reason = "nothing to turn, within the tolerance"
        return _plan(robot, None, 0, bounds, wanted, tolerance, reason, notes)
    plan = _plan(robot, best.loop, loops, bounds, wanted, tolerance, _loops(loops), notes)
    if plan.reached:
        return plan
    return replace(plan, reason=_why_not(robot, plan, best.loop, bounds, max_loops))


def _search(
    search: LoopSearch, wanted: Array, tolerance: float, max_loops: int
) -> tuple[int, Attempt | None]:
    """Find the smallest number of equal loops that reach the wanted rotation.

    If each of k loops turns by ``wanted / k``, together they turn by exactly ``wanted``, because
    all have the same axis.

    Returns:
        Number of loops and the loop. If none reaches the rotation, those with the smallest error;
        None if there is no loop at all.
    """
    angle = float(np.linalg.norm(wanted))
    best: tuple[float, int, Attempt] | None = None
    loops = 1
    while True:
        goal = wanted / loops
        guesses = search.guesses(goal)
        if best is not None:  # start from the best one so far, and from two new guesses
            guesses = [best[2].coefficients, *guesses[:2]]
        found = [search.refine(guess, goal) for guess in guesses]
        if not found:
            return 0, None
        good = [a for a in found if loops * a.error < SEARCH_TOLERANCE_SHARE * tolerance]
        if good:
            return loops, min(good, key=lambda a: _slowness(a.loop, search.limits))
        nearest = min(found, key=lambda a: a.error)
        off = min(loops * nearest.error, angle)
        if best is None or off < best[0]:
            best = off, loops, nearest
        if loops >= max_loops:
            return best[1], best[2]
        per_loop = max(float(nearest.turn @ wanted) / angle, 1e-9)
        loops = min(max_loops, max(loops + 1, int(np.ceil(min(angle / per_loop, max_loops)))))


def _slowness(loop: Loop, limits: JointLimits) -> float:
    """Shortest time of one loop within the velocity limits [s]."""
    speed = abs(loop.slope(np.linspace(0.0, 1.0, 400))).max(axis=0)
    moving = speed > 0.0
    return float((speed[moving] / limits.velocity[moving]).max(initial=0.0))


def _plan(
    robot: Robot,
    loop: Loop | None,
    loops: int,
    limits: JointLimits,
    wanted: Array,
    tolerance: float,
    reason: str,
    notes: tuple[str, ...],
) -> ReorientationPlan:
    """Make a plan from a loop: add its timing, and check it by exact integration.

    Args:
        robot: the robot.
        loop: the loop; None for a plan that does not move.
        loops: number of loops.
        limits: finite limits of the joints.
        wanted: wanted rotation vector, shape (3,) [rad].
        tolerance: largest error of the rotation [rad].
        reason: the plan's reason.
        notes: the plan's notes.
    """
    path = None if loop is None else _timed(loop, loops, limits)
    pose = np.eye(4) if path is None else gait_displacement(robot, path, tolerance=1e-7).pose
    target = exp(np.concatenate((np.zeros(3), wanted)))
    error = float(np.linalg.norm(log(_pose(target[:3, :3].T @ pose[:3, :3]))[3:]))
    return ReorientationPlan(
        joint_names=robot.joint_names,
        path=path,
        duration=0.0 if path is None else path.duration,
        loops=loops,
        wanted=target[:3, :3],
        rotation=pose[:3, :3],
        displacement=pose,
        error=error,
        reached=bool(error <= tolerance),
        reason=reason,
        notes=notes,
    )


def _timed(loop: Loop, loops: int, limits: JointLimits) -> Gait:
    """Loops with their timing: at rest at both ends, in between as fast as the limits allow.

    The phase has a constant rate, which rises from zero and falls to zero as ``x^2 (3 - 2 x)``.
    """
    rate = VELOCITY_LIMIT_SHARE / _slowness(loop, limits)
    ramp = RAMP_SHARE / rate
    T = loops / rate + ramp

    def phase(t: Array) -> tuple[Array, Array]:
        left = np.minimum(t, T - t)  # the end mirrors the beginning
        x = np.clip(left / ramp, 0.0, 1.0)
        gone = rate * (ramp * x**3 * (1.0 - 0.5 * x) + np.maximum(left - ramp, 0.0))
        return np.where(t <= 0.5 * T, gone, loops - gone), rate * x**2 * (3.0 - 2.0 * x)

    def velocity(t: Array) -> Array:
        s, pace = phase(t)
        return np.asarray(loop.slope(s) * pace[:, None])

    breaks = (0.0, ramp, T - ramp, T)
    return Gait(T, None, breaks, lambda t: loop.position(phase(t)[0]), velocity)


def _wanted(robot: Robot, rotation: ArrayLike, axes: Array) -> Array:
    """Check the wanted rotation and return its rotation vector, shape (3,) [rad].

    Args:
        robot: the robot.
        rotation: rotation matrix, shape (3, 3), or rotation vector, shape (3,) [rad].
        axes: orthonormal axes about which the base can turn, shape (3, k).
    """
    try:
        given = np.array(rotation, dtype=float)
    except (TypeError, ValueError) as error:
        raise DimensionError(f"rotation: got {rotation!r}, expected numbers") from error
    if given.shape == (3,):
        given = exp(np.concatenate((np.zeros(3), vector("rotation", given, 3))))[:3, :3]
    if given.shape != (3, 3):
        raise DimensionError(
            f"rotation: got shape {given.shape}, expected a rotation matrix, (3, 3), or a "
            "rotation vector, (3,)"
        )
    pose = np.eye(4)
    pose[:3, :3] = given
    try:
        wanted = log(check_pose(pose))[3:]
    except NotInGroupError:
        raise ParameterError(f"rotation: not a rotation matrix:\n{given}") from None
    across = wanted - axes @ (axes.T @ wanted)
    if np.linalg.norm(across) > 1e-9:
        axis = np.round(wanted / np.linalg.norm(wanted), 4).tolist()
        about = " and ".join(str(np.round(a, 4).tolist()) for a in axes.T)
        raise ParameterError(
            f"rotation: about {axis} is impossible: a base {robot.base_group.name} turns about "
            f"{about} only"
        )
    return wanted


def _limits(
    robot: Robot, q0: Array, limits: Sequence[ArrayLike] | None
) -> tuple[JointLimits, tuple[str, ...]]:
    """Finite limits of all joints, and notes about those that were assumed."""
    given = limits
    if given is None:
        given = robot.lower_limits, robot.upper_limits, robot.velocity_limits
    try:
        lower, upper, speed = (
            np.broadcast_to(np.asarray(x, dtype=float), (robot.n,)).copy() for x in given
        )
    except (TypeError, ValueError) as error:
        raise DimensionError(
            f"limits: got {limits!r}, expected lower, upper and velocity limits, each a number or "
            f"shape ({robot.n},)"
        ) from error
    if np.isnan([lower, upper, speed]).any() or (speed < 0.0).any():
        raise ParameterError("limits: expected numbers, and velocities not below zero")
    beyond = (q0 < lower) | (q0 > upper)
    if beyond.any():
        name = robot.joint_names[int(np.argmax(beyond))]
        i = robot.joint_names.index(name)
        raise ParameterError(
            f"q0: {name} is at {q0[i]:.4g}, expected it within its limits, {lower[i]:.4g} to "
            f"{upper[i]:.4g}"
        )
    bounds = JointLimits(lower, upper, speed)
    notes = [
        *_assume(robot, q0, bounds, ~robot.prismatic, ASSUMED_REVOLUTE),
        *_assume(robot, q0, bounds, robot.prismatic, ASSUMED_PRISMATIC),
    ]
    return bounds, tuple(notes)


def _assume(
    robot: Robot, q0: Array, bounds: JointLimits, which: NDArray[np.bool_], assumed: Assumed
) -> Iterator[str]:
    """Replace missing and unrealistic limits in ``bounds``; yields a note for each kind.

    Args:
        robot: the robot.
        q0: joint positions at the start, shape (n,) [rad or m].
        bounds: the limits, changed in place.
        which: the joints to look at, shape (n,), bool.
        assumed: the limits to assume for them.
    """
    lower, upper, speed = bounds
    unit = assumed.unit

    def names(chosen: NDArray[np.bool_]) -> str:
        return ", ".join(np.array(robot.joint_names)[chosen])

    open_below, open_above = which & np.isinf(lower), which & np.isinf(upper)
    lower[open_below] = (q0 - assumed.reach)[open_below]
    upper[open_above] = (q0 + assumed.reach)[open_above]
    if (open_below | open_above).any():
        reach = "half a turn" if assumed is ASSUMED_REVOLUTE else f"{assumed.reach:g} {unit}"
        yield f"{names(open_below | open_above)}: no position limits; within {reach} of q0"
    missing = which & np.isinf(speed)
    absurd = which & ~missing & (speed > assumed.fastest)
    if missing.any():
        yield f"{names(missing)}: no velocity limit; at most {assumed.speed:g} {unit}/s"
    if absurd.any():
        yield (
            f"{names(absurd)}: velocity limits of up to {speed[absurd].max():g} {unit}/s, which "
            f"are taken as {assumed.fastest:.3g} {unit}/s"
        )
    speed[missing], speed[absurd] = assumed.speed, assumed.fastest


def _why_not(
    robot: Robot, plan: ReorientationPlan, loop: Loop, limits: JointLimits, max_loops: int
) -> str:
    """Say what the plan reaches, and why it does not reach more."""
    wanted = log(_pose(plan.wanted))[3:]
    turned = log(_pose(plan.rotation))[3:]
    axis = wanted / np.linalg.norm(wanted)
    q = loop.position(np.linspace(0.0, 1.0, 400))
    low, high = q.min(axis=0) - limits.lower, limits.upper - q.max(axis=0)
    tight = [
        name
        for name, a, b in zip(robot.joint_names, low, high, strict=True)
        if min(a, b) < NEAR_LIMIT_DISTANCE
    ]
    said = (
        f"{_loops(plan.loops)} turn the base by {np.degrees(turned @ axis):.2f} of the wanted "
        f"{np.degrees(np.linalg.norm(wanted)):.2f} degrees about its axis, "
        f"{np.degrees(plan.error):.2f} degrees off in all"
    )
    if tight:
        return f"{said}; the position limits of {', '.join(tight)} allow no larger loops"
    if plan.loops >= max_loops:
        return f"{said}; that takes more than max_loops = {max_loops}"
    return f"{said}; the search found no better loop"


def _loops(number: int) -> str:
    return f"{number} loop{'' if number == 1 else 's'}"


def _pose(rotation: Array) -> Array:
    """Pose with a rotation, shape (3, 3), and no translation, shape (4, 4)."""
    out = np.eye(4)
    out[:3, :3] = rotation
    return out
