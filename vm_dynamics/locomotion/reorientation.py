# SPDX-License-Identifier: Apache-2.0
"""Plan closed joint motions that turn a free base without any force on it, in one call."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import ArrayLike

from vm_dynamics.locomotion.plan import ReorientationPlan
from vm_dynamics.locomotion.planner import MAX_LOOPS, ROTATION_TOLERANCE, ReorientationPlanner
from vm_dynamics.robot import Robot


def plan_reorientation(
    robot: Robot,
    q0: ArrayLike,
    rotation: ArrayLike,
    *,
    limits: Sequence[ArrayLike] | None = None,
    tolerance: float = ROTATION_TOLERANCE,
    max_loops: int = MAX_LOOPS,
    margin: float | None = None,
    max_velocity: float | None = None,
    acceleration_limits: ArrayLike | None = None,
    effort_limits: ArrayLike | None = None,
    duration: float | None = None,
) -> ReorientationPlan:
    """Plan a closed joint path that turns the free base by a rotation, at zero momentum.

    Args:
        robot: the robot; its base group must have a rotation.
        q0: joint positions at start and end, shape (n,) [rad or m].
        rotation: wanted orientation of the base after the motion, in the frame of the base before
            it: a rotation matrix, shape (3, 3), or a rotation vector, shape (3,) [rad].
        limits: a :class:`vm_dynamics.locomotion.JointLimits`, or lower, upper and velocity limits,
            each one number or shape (n,); the robot's own if None. Limits that are missing or
            unrealistic are replaced by assumed ones; the plan's notes say so.
        tolerance: largest angle between the reached and the wanted orientation [rad].
        max_loops: largest number of loops.
        margin: distance that links keep from each other [m]. If None, ``MARGIN`` where collisions
            can be checked, and a note where they cannot; if given, they must be checked.
        max_velocity: a further limit of all joint velocities [rad/s or m/s].
        acceleration_limits: one number or shape (n,) [rad/s^2 or m/s^2]; none if None.
        effort_limits: one number or shape (n,) [N m or N]; the robot's own if None.
        duration: wanted duration of the path [s]; as short as the limits allow if None.

    Returns:
        The plan; ``plan.reached`` says whether it reaches the rotation, ``plan.reason`` why not.

    Raises:
        ParameterError: the base cannot turn at all, or not about that axis, q0 is beyond the
            limits, a margin cannot be checked, or the duration is too short.
    """
    planner = ReorientationPlanner(
        robot,
        limits=limits,
        tolerance=tolerance,
        max_loops=max_loops,
        margin=margin,
        max_velocity=max_velocity,
        acceleration_limits=acceleration_limits,
        effort_limits=effort_limits,
    )
    return planner.plan(q0, rotation, duration=duration)
