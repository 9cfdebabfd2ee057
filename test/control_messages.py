# SPDX-License-Identifier: Apache-2.0
"""Types of ``control_msgs`` where they are installed, and plain objects like them where not."""

from __future__ import annotations

from dataclasses import dataclass, field

from builtin_interfaces.msg import Duration
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint, MultiDOFJointTrajectory

from vm_dynamics.ros.follow_joint_trajectory import action_type


@dataclass
class StandInTolerance:
    name: str = ""
    position: float = 0.0
    velocity: float = 0.0
    acceleration: float = 0.0


class StandIn:
    """As ``control_msgs/action/FollowJointTrajectory``, as far as the node uses it."""

    @dataclass
    class Goal:
        trajectory: JointTrajectory = field(default_factory=JointTrajectory)
        multi_dof_trajectory: MultiDOFJointTrajectory = field(
            default_factory=MultiDOFJointTrajectory
        )
        path_tolerance: list = field(default_factory=list)
        goal_tolerance: list = field(default_factory=list)
        goal_time_tolerance: Duration = field(default_factory=Duration)

    @dataclass
    class Result:
        error_code: int = 0
        error_string: str = ""

    @dataclass
    class Feedback:
        header: Header = field(default_factory=Header)
        joint_names: list = field(default_factory=list)
        desired: JointTrajectoryPoint = field(default_factory=JointTrajectoryPoint)
        actual: JointTrajectoryPoint = field(default_factory=JointTrajectoryPoint)
        error: JointTrajectoryPoint = field(default_factory=JointTrajectoryPoint)


REAL = action_type()
FollowJointTrajectory = StandIn if REAL is None else REAL
if REAL is None:
    JointTolerance = StandInTolerance
else:
    from control_msgs.msg import JointTolerance  # noqa: F401
