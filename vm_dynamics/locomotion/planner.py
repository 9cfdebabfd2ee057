# SPDX-License-Identifier: Apache-2.0
"""The planner of closed joint motions that turn a free base without any force on it.

Implements: the inverse of [Mishra2022] section V-B, which is not in any of the papers. It starts
from the curvature, as :func:`vm_dynamics.curvature_atlas` shows it, and refines with the exact eq.
(69). Which axes are possible is said first, then loops are sought that touch nothing, then their
times follow from the limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import DimensionError, ParameterError
from vm_dynamics.lie.se3 import Array, exp, log
from vm_dynamics.locomotion.assumed import finite_limits
from vm_dynamics.locomotion.collisions import TOUCH_AT_REST, CollisionModel, Nearest
from vm_dynamics.locomotion.displacement import base_motion, gait_displacement
from vm_dynamics.locomotion.feasibility import impossible, reachable_axes
from vm_dynamics.locomotion.gaits import Gait, above_zero
from vm_dynamics.locomotion.loops import Attempt, JointLimits, KeptApart, Loop, LoopSearch
from vm_dynamics.locomotion.plan import BasePath, ReorientationPlan
from vm_dynamics.locomotion.planes import require_rotation
from vm_dynamics.locomotion.timing import (
    MotionLimits,
    Timing,
    rate_for,
    shortest_loop_time,
    timed,
)
from vm_dynamics.locomotion.wanted import pose_of, wanted_rotation
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

ROTATION_TOLERANCE = np.radians(0.5)  # [rad]
# The search ends at this share of the tolerance, because its integration is less exact than that
# of the final check.
SEARCH_TOLERANCE_SHARE = 0.1
MAX_LOOPS = 1000
# If more than one number of loops was tried, this share is good enough.
FAIR_TOLERANCE_SHARE = 0.5
# If no loop found is good enough, the number of loops grows by these factors at least and at most.
LOOPS_GROWTH = 1.4, 3.0
# A refined loop turns at most by this factor more than the best circle found.
REFINEMENT_GAIN = 3.0
ENOUGH_LOOPS = 3  # that reach the rotation: the quickest of them is taken
MARGIN = 0.02  # [m]: distance of links that a plan keeps unless told otherwise
MIN_ROTATION = 1e-9  # [rad]: less is no rotation
MIN_LOOP_TIME = 1e-3  # [s]: a loop that takes less does not move
NEAR_LIMIT_DISTANCE = 0.02  # [rad or m]: a loop this near to a limit counts as bounded by it
NEAR_MARGIN_DISTANCE = 0.05  # [m]: a loop that comes this near to the margin is bounded by it
# Poses of the base path, which are also steps of its integration: in each loop, in all, and the
# least in each loop of many.
POSES_PER_LOOP, MAX_POSES, LEAST_POSES_PER_LOOP = 500, 50_000, 50


class ReorientationPlanner:
    """Plans for one robot under the same limits; see :func:`vm_dynamics.plan_reorientation`.

    Attributes:
        robot: the robot.
        tolerance: largest angle between the reached and the wanted orientation [rad].
        max_loops: largest number of loops.
        margin: distance that links keep from each other [m].
        effort_limits: of the joints, shape (n,) [N m or N].
        collisions: distances of the robot's links; None if they cannot be checked.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        limits: Sequence[ArrayLike] | None = None,
        tolerance: float = ROTATION_TOLERANCE,
        max_loops: int = MAX_LOOPS,
        margin: float | None = None,
        max_velocity: float | None = None,
        acceleration_limits: ArrayLike | None = None,
        effort_limits: ArrayLike | None = None,
    ) -> None:
        self._axes = require_rotation(robot.base_group)
        self.robot, self._given = robot, limits
        self.tolerance = above_zero("tolerance", tolerance, "an angle above zero [rad]")
        if max_loops < 1:
            raise ParameterError(f"max_loops: got {max_loops}, expected at least 1")
        self.max_loops = max_loops
        self.margin = MARGIN if margin is None else above_zero("margin", margin, "a distance [m]")
        self._slowest = np.inf
        if max_velocity is not None:
            self._slowest = above_zero("max_velocity", max_velocity, "a velocity above zero")
        self._acceleration = _per_joint(robot, "acceleration_limits", acceleration_limits, np.inf)
        self.effort_limits = _per_joint(robot, "effort_limits", effort_limits, robot.effort_limits)
        self.collisions, self._notes = _collisions(robot, required=margin is not None)

    def plan(
        self,
        q0: ArrayLike,
        rotation: ArrayLike,
        *,
        duration: float | None = None,
        near: Loop | None = None,
    ) -> ReorientationPlan:
        """Plan a rotation from joint positions q0.

        Args:
            q0: joint positions at start and end, shape (n,) [rad or m].
            rotation: rotation matrix, shape (3, 3), or rotation vector, shape (3,) [rad].
            duration: wanted duration of the path [s]; as short as the limits allow if None.
            near: a loop from q0 to start the search from.
        """
        start = vector("q0", q0, self.robot.n)
        wanted = wanted_rotation(self.robot, rotation, self._axes)
        if duration is not None:
            above_zero("duration", duration, "a time above zero [s]")
        bounds, notes = self._bounds(start)
        task = _Task(self, start, wanted, bounds, (*notes, *self._notes))
        angle = float(np.linalg.norm(wanted))
        if angle < MIN_ROTATION:
            return task.still("nothing to turn")
        if self.collisions is not None:
            nearest = self.collisions.nearest(start)
            if nearest.distance <= 0.0:
                return task.still(
                    f"{nearest.first} and {nearest.second} overlap at q0, by "
                    f"{-1e3 * nearest.distance:.1f} mm: start where no links touch"
                )
        search = LoopSearch(self.robot, start, bounds, task.apart())
        if len(search.free) < 2:
            return task.still(
                "fewer than two joints can move within their limits, so there is no loop"
            )
        axes = reachable_axes(search)
        reachable = axes @ (axes.T @ wanted)
        if np.linalg.norm(wanted - reachable) > SEARCH_TOLERANCE_SHARE * self.tolerance:
            if angle <= self.tolerance:
                return task.still("nothing to turn, within the tolerance")
            return task.still(impossible(wanted, axes))
        loops, best = _search(search, reachable, self.tolerance, self.max_loops, near)
        if shortest_loop_time(best.loop, bounds.velocity) < MIN_LOOP_TIME:
            return task.still("the search found no loop that turns the base about that axis")
        return task.moving(best.loop, loops, duration)

    def fastest_path(self, loop: Loop, loops: int) -> Gait:
        """Loops in time, at rest at both ends, as fast as the limits allow.

        Raises:
            ParameterError: the effort limits do not even overcome friction.
        """
        rate = self.fastest_rate(Timing(self.robot, loop, loops))
        if rate <= 0.0:
            raise ParameterError(self.weakness())
        return timed(loop, loops, rate)

    def fastest_rate(self, timing: Timing) -> float:
        """Largest rate of the phase within the limits [loops/s]; 0 if there is none."""
        velocity = self._bounds(timing.loop.q0)[0].velocity
        return timing.fastest_rate(MotionLimits(velocity, self._acceleration, self.effort_limits))

    def weakness(self) -> str:
        """Name the joints whose effort limits do not overcome their friction."""
        rows = zip(self.robot.joint_names, self.effort_limits, self.robot.friction, strict=True)
        weak = ", ".join(name for name, effort, friction in rows if effort <= friction)
        return f"{weak or 'some joints'}: the effort limit does not overcome the friction"

    def _bounds(self, q0: Array) -> tuple[JointLimits, tuple[str, ...]]:
        """Finite limits of the joints, and notes about those that were assumed."""
        bounds, notes = finite_limits(self.robot, q0, self._given)
        bounds.velocity[:] = np.minimum(bounds.velocity, self._slowest)
        return bounds, notes


class _Task:
    """One rotation that is asked for, and how a plan for it is put together."""

    def __init__(
        self,
        planner: ReorientationPlanner,
        q0: Array,
        wanted: Array,
        bounds: JointLimits,
        notes: tuple[str, ...],
    ) -> None:
        self.planner, self.q0, self.wanted, self.bounds = planner, q0, wanted, bounds
        self.notes = notes

    def apart(self) -> KeptApart | None:
        """What a loop must keep free of; notes where links are nearer than the margin at q0."""
        model = self.planner.collisions
        if model is None or not model.pairs:
            return None
        nearest = model.nearest(self.q0)
        if nearest.distance < self.planner.margin:
            said = (
                f"{nearest.first} and {nearest.second} are {1e3 * nearest.distance:.1f} mm apart "
                "at q0, nearer than the margin; they keep half of that"
            )
            self.notes = (*self.notes, said)
        return KeptApart(model, model.kept_distances(self.q0, self.planner.margin))

    def still(self, reason: str) -> ReorientationPlan:
        """A plan that does not move."""
        model = self.planner.collisions
        nearest = Nearest(np.inf) if model is None else model.nearest(self.q0)
        here = BasePath(np.zeros(1), np.eye(4)[None])
        return self._plan(None, None, 0, np.eye(4), nearest, 0.0, here, reason)

    def moving(self, loop: Loop, loops: int, duration: float | None) -> ReorientationPlan:
        """A plan of equal loops: timed, and checked by exact integration."""
        robot, model = self.planner.robot, self.planner.collisions
        timing = Timing(robot, loop, loops)
        rate = self.planner.fastest_rate(timing)
        if rate <= 0.0:
            return self.still(self.planner.weakness())
        if duration is not None:
            shortest = timed(loop, loops, rate).duration
            if duration < shortest * (1.0 - 1e-9):
                raise ParameterError(
                    f"duration: got {duration:g} s, expected at least {shortest:.4g} s, which "
                    f"{_loops(loops)} take within the limits"
                )
            rate = rate_for(loops, duration)
        once = Gait(1.0, None, (0.0, 1.0), loop.position, loop.slope)
        displaced = log(gait_displacement(robot, once).pose)
        nearest = Nearest(np.inf) if model is None else model.least_along(loop.position, 1.0)
        path = timed(loop, loops, rate)
        poses = max(LEAST_POSES_PER_LOOP, min(POSES_PER_LOOP, MAX_POSES // loops))
        plan = self._plan(
            loop,
            path,
            loops,
            exp(loops * displaced),
            nearest,
            timing.peak_effort(rate, self.planner.effort_limits),
            BasePath(*base_motion(robot, path, 1 + loops * poses)),
            _loops(loops),
        )
        if plan.reached:
            return plan
        return replace(plan, reason=_why_not(robot, plan, self.bounds, self.planner))

    def _plan(
        self,
        loop: Loop | None,
        path: Gait | None,
        loops: int,
        pose: Array,
        nearest: Nearest,
        effort: float,
        base_path: BasePath,
        reason: str,
    ) -> ReorientationPlan:
        target = exp(np.concatenate((np.zeros(3), self.wanted)))
        error = float(np.linalg.norm(log(pose_of(target[:3, :3].T @ pose[:3, :3]))[3:]))
        model = self.planner.collisions
        return ReorientationPlan(
            joint_names=self.planner.robot.joint_names,
            path=path,
            duration=0.0 if path is None else path.duration,
            loops=loops,
            wanted=target[:3, :3],
            rotation=pose[:3, :3],
            displacement=pose,
            error=error,
            reached=bool(error <= self.planner.tolerance),
            reason=reason,
            notes=self.notes,
            clearance=nearest.distance,
            nearest=(nearest.first, nearest.second) if nearest.first else (),
            left_out=() if model is None else model.left_out,
            peak_effort=effort,
            base_path=base_path,
            loop=loop,
        )


def _collisions(robot: Robot, *, required: bool) -> tuple[CollisionModel | None, tuple[str, ...]]:
    """Distances of links, or None, and notes about what cannot be checked.

    Args:
        robot: the robot.
        required: whether it is an error if some cannot.
    """
    if not any(link.shapes for link in robot.description.links):
        said = "the robot has no collision shapes, so collisions are not checked"
        if required:
            raise ParameterError(f"margin: {said}; expected none")
        return None, (said,)
    try:
        model = CollisionModel(robot)
    except ParameterError as error:
        if required:
            raise
        return None, (f"collisions are not checked: {error}",)
    if required and model.notes:
        raise ParameterError(f"margin: {'; '.join(model.notes)}; expected meshes that can be read")
    touching = [f"{x.first} and {x.second}" for x in model.left_out if x.why == TOUCH_AT_REST]
    if touching:
        return model, (*model.notes, f"touch at rest and are not checked: {', '.join(touching)}")
    return model, model.notes


def _search(
    search: LoopSearch, wanted: Array, tolerance: float, max_loops: int, near: Loop | None
) -> tuple[int, Attempt]:
    """Find the smallest number of equal loops that reach the wanted rotation.

    If each of k loops turns by ``wanted / k``, together they turn by exactly ``wanted``, because
    all have the same axis. So none needs to be trimmed: the loops share what the last would lack.

    Returns:
        Number of loops and the loop. If none reaches the rotation, those with the smallest error.
    """
    angle = float(np.linalg.norm(wanted))
    best: tuple[float, int, Attempt] | None = None
    promised = REFINEMENT_GAIN * search.circles.largest_turn(wanted)
    loops = max(1, min(max_loops, int(angle / max(promised, 1e-9))))
    while True:
        goal = wanted / loops
        guesses = search.guesses(goal)
        if best is not None:  # start from the best one so far, and from two new guesses
            guesses = [best[2].coefficients, *guesses[:2]]
        elif near is not None:
            guesses = [search.coefficients_of(near), *guesses[:1]]
        found: list[Attempt] = []
        good: list[Attempt] = []
        for guess in guesses:
            found.append(search.refine(guess, goal))
            if loops * found[-1].error < SEARCH_TOLERANCE_SHARE * tolerance:
                good.append(found[-1])
            if len(good) >= ENOUGH_LOOPS:
                break
        if good:
            velocity = search.limits.velocity
            return loops, min(good, key=lambda a: shortest_loop_time(a.loop, velocity))
        nearest = min(found, key=lambda a: a.error)
        off = min(loops * nearest.error, angle)
        first = best is None
        if best is None or off < best[0]:
            best = off, loops, nearest
        if loops >= max_loops or (not first and best[0] < FAIR_TOLERANCE_SHARE * tolerance):
            return best[1], best[2]
        per_loop = max(float(nearest.turn @ wanted) / angle, 1e-9)
        least, most = (int(np.ceil(factor * loops)) for factor in LOOPS_GROWTH)
        enough = int(np.ceil(min(angle / per_loop, most)))
        loops = min(max_loops, max(least, enough))


def _per_joint(robot: Robot, name: str, given: ArrayLike | None, default: ArrayLike) -> Array:
    """Limits of all joints, shape (n,), not below zero."""
    value = default if given is None else given
    try:
        out = np.broadcast_to(np.asarray(value, dtype=float), (robot.n,)).copy()
    except (TypeError, ValueError) as error:
        raise DimensionError(
            f"{name}: got {value!r}, expected a number or shape ({robot.n},)"
        ) from error
    if np.isnan(out).any() or (out < 0.0).any():
        raise ParameterError(f"{name}: got {value!r}, expected numbers not below zero")
    return out


def _why_not(
    robot: Robot, plan: ReorientationPlan, limits: JointLimits, planner: ReorientationPlanner
) -> str:
    """Say what the plan reaches, and why it does not reach more."""
    assert plan.loop is not None
    wanted = log(pose_of(plan.wanted))[3:]
    turned = log(pose_of(plan.rotation))[3:]
    axis = wanted / np.linalg.norm(wanted)
    q = plan.loop.position(np.linspace(0.0, 1.0, 400))
    low, high = q.min(axis=0) - limits.lower, limits.upper - q.max(axis=0)
    tight = [
        name
        for name, gap, moved in zip(
            robot.joint_names, np.minimum(low, high), np.ptp(q, axis=0), strict=True
        )
        if gap < NEAR_LIMIT_DISTANCE and moved > 0.0
    ]
    said = (
        f"{_loops(plan.loops)} turn the base by {np.degrees(turned @ axis):.2f} of the wanted "
        f"{np.degrees(np.linalg.norm(wanted)):.2f} degrees about its axis, "
        f"{np.degrees(plan.error):.2f} degrees off in all"
    )
    if tight:
        return f"{said}; the position limits of {', '.join(tight)} allow no larger loops"
    if plan.clearance < planner.margin + NEAR_MARGIN_DISTANCE:
        return f"{said}; {' and '.join(plan.nearest)} are too near for larger loops"
    if plan.loops >= planner.max_loops:
        return f"{said}; that takes more than max_loops = {planner.max_loops}"
    return f"{said}; the search found no better loop"


def _loops(number: int) -> str:
    return f"{number} loop{'' if number == 1 else 's'}"
