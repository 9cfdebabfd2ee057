# SPDX-License-Identifier: Apache-2.0
"""Trajectories and tolerances as messages and parameters have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from vm_dynamics.control import JointTrajectory, Tolerances, TrajectoryPoint
from vm_dynamics.errors import ParameterError, UnknownJointError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import RobotModel
from vm_dynamics.ros.parameters import numbers_by_name

MOST_POINTS = 2000  # reading more keeps Python busy for so long that torques might stop
ERASED = -1.0  # a tolerance of a goal that takes away that of the parameters


def trajectory_of(robot: RobotModel, message: Any, *, clip: bool) -> JointTrajectory:
    """Trajectory of a ``trajectory_msgs/JointTrajectory``, checked.

    Args:
        robot: whose joints they are.
        message: the message.
        clip: whether points beyond the limits are clipped; else they are refused.

    Raises:
        VmDynamicsError: what is wrong with it, as of
            :class:`vm_dynamics.control.joint_trajectory.JointTrajectory`.
    """
    if len(message.points) > MOST_POINTS:
        raise ParameterError(
            f"trajectory: has {len(message.points)} points, expected at most {MOST_POINTS}; send "
            "it in parts, or with fewer points and their velocities"
        )
    points = []
    for i, point in enumerate(message.points):
        if len(point.effort):
            raise ParameterError(f"trajectory: point {i} has efforts, expected none")
        points.append(
            TrajectoryPoint(
                seconds(point.time_from_start),
                point.positions,
                point.velocities,
                point.accelerations,
            )
        )
    return JointTrajectory(robot, message.joint_names, points, clip=clip)


def seconds(duration: Any) -> float:
    """Seconds of a ``builtin_interfaces/Duration``."""
    return float(duration.sec + 1e-9 * duration.nanosec)


def tolerances_of(robot: RobotModel, p: Any) -> Tolerances:
    """Tolerances of the parameters of compensator_node.

    Raises:
        ParameterError: a value below zero.
        UnknownJointError: a name that is none of a joint.
    """
    path, goal = np.zeros((2, robot.n)), np.zeros((2, robot.n))
    goal[1] = p.constraints_stopped_velocity_tolerance
    for row, name in ((path[0], "constraints_trajectory"), (goal[0], "constraints_goal")):
        row[:] = getattr(p, name)
        shown = p.ros_name(f"{name}_of")
        for joint, value in numbers_by_name(shown, getattr(p, f"{name}_of")).items():
            if not value >= 0.0:
                raise ParameterError(
                    f"parameter {shown}: got {joint}={value:g}, expected no negative number"
                )
            row[_place(robot.joint_names, f"joint of parameter {shown}", joint)] = value
    return Tolerances(
        _or_any(path), _or_any(goal), float(_or_any(np.array(p.constraints_goal_time)))
    )


def goal_tolerances(robot: RobotModel, goal: Any, default: Tolerances) -> Tolerances:
    """Tolerances of a ``FollowJointTrajectory`` goal, where it has some.

    Args:
        robot: whose joints they are.
        goal: the goal.
        default: for what the goal does not say: zero, or a joint that it does not name.

    Raises:
        ParameterError: a value below zero that is not -1, which takes a tolerance away.
        UnknownJointError: a name that is none of a joint.
    """
    path, end = default.path.copy(), default.goal.copy()
    for table, what, given in (
        (path, "path_tolerance", goal.path_tolerance),
        (end, "goal_tolerance", goal.goal_tolerance),
    ):
        _override(robot, table, what, given)
    time = seconds(goal.goal_time_tolerance)
    return Tolerances(path, end, _resolved("goal_time_tolerance", time, default.goal_time))


def _override(robot: RobotModel, table: Array, what: str, given: Iterable[Any]) -> None:
    """Put tolerances of joints into a table, shape (2, n)."""
    for item in given:
        place = _place(robot.joint_names, f"joint of {what}", item.name)
        for row, value in zip(table, (item.position, item.velocity), strict=True):
            row[place] = _resolved(f"{what} of {item.name}", value, row[place])


def _resolved(what: str, value: float, default: float) -> float:
    """A tolerance of a goal: its own, none, or the default."""
    if value == ERASED:
        return float(np.inf)
    if not 0.0 <= value < np.inf:
        raise ParameterError(f"{what}: got {value:g}, expected 0 or more, or -1 for none")
    return value if value > 0.0 else float(default)


def _place(names: Sequence[str], what: str, name: str) -> int:
    if name not in names:
        raise UnknownJointError(what, name, names)
    return names.index(name)


def _or_any(table: Array) -> Array:
    """Tolerances, of which zero means none."""
    return np.where(table > 0.0, table, np.inf)
