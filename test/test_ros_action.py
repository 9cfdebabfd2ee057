# SPDX-License-Identifier: Apache-2.0
"""An ordinary action client before compensator_node, where ``control_msgs`` is installed."""

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from compensator_bench import Q
from control_messages import REAL, FollowJointTrajectory
from rclpy.action import ActionClient
from test_ros_trajectories import END, PD, Sender
from trajectory_bench import message, point

from vm_dynamics.ros.joint_trajectories import Code

pytestmark = pytest.mark.skipif(REAL is None, reason="control_msgs is not installed")


class ActionSender(Sender):
    """A bench with an action client."""

    def __init__(self, compensator, parameters):
        super().__init__(compensator, parameters)
        self.client = ActionClient(
            self.graph.node, FollowJointTrajectory, "compensator_node/follow_joint_trajectory"
        )
        self.graph.until(self.client.server_is_ready, "the action", each=self.feed)
        self.feedback = []

    def done(self, future, what):
        self.graph.until(future.done, what, each=self.feed)
        return future.result()

    def goal(self, *points, **options):
        """Send a goal and return its handle."""
        request = FollowJointTrajectory.Goal(trajectory=message(*points), **options)
        future = self.client.send_goal_async(
            request, feedback_callback=lambda m: self.feedback.append(m.feedback)
        )
        return self.done(future, "an answer")

    def result(self, handle):
        return self.done(handle.get_result_async(), "a result")

    def close(self):
        self.client.destroy()


@pytest.fixture
def sender(compensator):
    made = []

    def start(parameters):
        made.append(ActionSender(compensator, parameters))
        return made[-1]

    yield start
    for item in made:
        item.close()


def test_a_goal_is_reached_with_feedback(sender):
    it = sender(PD)
    handle = it.goal(point(1.0, END, np.zeros(7), np.zeros(7)))
    assert handle.accepted
    result = it.result(handle)
    assert result.status == GoalStatus.STATUS_SUCCEEDED
    assert (result.result.error_code, result.result.error_string) == (Code.SUCCESSFUL, "")
    assert 10 <= len(it.feedback) <= 25
    assert list(it.feedback[0].joint_names) == list(it.bench.robot.joint_names)
    desired = np.array([item.desired.positions for item in it.feedback])
    assert (np.diff(desired, axis=0) >= -1e-12).all() and np.ptp(desired[:, 0]) > 0.02
    it.until_at(END, "the arm at the end")


def test_a_bad_goal_is_rejected_and_a_new_one_replaces_the_present_one(sender):
    it = sender(PD)
    first = it.goal(point(600.0, END))
    assert not it.goal(point(1.0, Q + 9.0)).accepted
    assert "goal refused: trajectory beyond the limits" in it.bench.process.output
    second = it.goal(point(0.5, END))
    result = it.result(first)
    assert result.status == GoalStatus.STATUS_ABORTED
    assert result.result.error_string == "replaced by another trajectory"
    assert it.result(second).status == GoalStatus.STATUS_SUCCEEDED


def test_a_goal_is_cancelled(sender):
    it = sender(PD)
    handle = it.goal(point(600.0, END))
    it.state("running")
    answer = it.done(handle.cancel_goal_async(), "an answer")
    assert len(answer.goals_canceling) == 1
    assert it.result(handle).status == GoalStatus.STATUS_CANCELED
    it.state("none")


def test_a_goal_that_cannot_be_followed_is_aborted_with_the_joint(sender):
    from control_msgs.msg import JointTolerance

    it = sender(PD)  # the joints of the bench stand still
    tolerance = JointTolerance(name="joint2", position=0.01)
    result = it.result(it.goal(point(1.0, END), path_tolerance=[tolerance]))
    assert result.status == GoalStatus.STATUS_ABORTED
    assert result.result.error_code == Code.PATH_TOLERANCE_VIOLATED
    assert "joint2 is off by 0.01" in result.result.error_string


def test_a_goal_is_aborted_when_torques_stop(sender):
    it = sender({**PD, "timeout": 1.0})
    handle = it.goal(point(600.0, END))
    it.state("running")
    future = handle.get_result_async()
    it.graph.until(future.done, "a result without joint states")
    result = future.result()
    assert result.status == GoalStatus.STATUS_ABORTED
    assert result.result.error_string == "torques are zero: joint states stopped"
    it.bench.enable(False)
    it.feed()
    assert not it.goal(point(1.0, END)).accepted
