# SPDX-License-Identifier: Apache-2.0
"""Goals of the action follow_joint_trajectory: each one ends, once, and says how."""

import inspect

import numpy as np
import pytest
from control_messages import FollowJointTrajectory, JointTolerance
from rclpy.action.server import ActionServer, ServerGoalHandle
from trajectory_bench import NAMES, N, TrajectoryBench, message, point
from trajectory_msgs.msg import MultiDOFJointTrajectoryPoint

from vm_dynamics.ros.follow_joint_trajectory import Goals
from vm_dynamics.ros.joint_trajectories import Code, Outcome

ZERO, Q1, Q2 = np.zeros(N), np.full(N, 0.1), np.linspace(-0.05, 0.1, N)


class Handle:
    """A goal handle that remembers what was done to it."""

    def __init__(self, request):
        self.request, self.events, self.feedback, self.result = request, [], [], None
        self.is_cancel_requested = False

    def execute(self):
        self.events.append("executing")

    def succeed(self):
        self.events.append("succeeded")

    def abort(self):
        self.events.append("aborted")

    def canceled(self):
        self.events.append("canceled")

    def publish_feedback(self, feedback):
        self.feedback.append(feedback)


class GoalBench(TrajectoryBench):
    """Goals before trajectories without a node."""

    def __init__(self, **limits):
        super().__init__(**limits)
        self.is_busy = False
        self.goals = Goals(
            self.trajectories,
            FollowJointTrajectory,
            conclude=self.conclude,
            busy=self.be_busy,
            trouble=lambda kind, what: self.troubles.append((kind, what)),
        )
        self.step()

    def conclude(self, handle, ended):
        assert handle.result is None, "a goal ends once"
        handle.result = ended(handle)

    def be_busy(self, on):
        self.is_busy = on

    def send(self, what, **options):
        """A goal, which is accepted."""
        request = goal(what, **options)
        assert self.goals.accepts(request), self.troubles
        handle = Handle(request)
        self.goals.begin(handle)
        return handle

    def run(self, seconds):
        """Twenty looks a second."""
        for _ in range(round(20 * seconds)):
            super().run(0.05)
            self.goals.look()


def goal(what, **options):
    return FollowJointTrajectory.Goal(trajectory=what, **options)


def to(q, time=1.0, **options):
    return message(point(time, q, ZERO, ZERO), **options)


def test_a_goal_is_reached_with_feedback_on_the_way():
    bench = GoalBench()
    handle = bench.send(to(Q1))
    assert bench.is_busy and handle.events == ["executing"]
    bench.run(0.5)
    middle = handle.feedback[-1]
    assert list(middle.joint_names) == list(NAMES)
    np.testing.assert_allclose(middle.desired.positions, 0.5 * Q1, atol=1e-9)
    np.testing.assert_allclose(
        np.array(middle.desired.positions) - middle.actual.positions, middle.error.positions
    )
    assert len(middle.desired.accelerations) == N and len(middle.error.velocities) == N
    assert middle.header.stamp.sec == bench.nanos // 10**9
    bench.run(0.6)
    assert handle.events == ["executing", "succeeded"] and not bench.is_busy
    assert (handle.result.error_code, handle.result.error_string) == (0, "")
    assert 18 <= len(handle.feedback) <= 21
    bench.run(0.2)
    assert len(handle.events) == 2, "and nothing comes after it"


def test_bad_goals_are_refused_and_the_present_one_goes_on():
    bench = GoalBench()
    handle = bench.send(to(Q1))
    far = MultiDOFJointTrajectoryPoint()
    floating = goal(to(Q1))
    floating.multi_dof_trajectory.points.append(far)
    bad = {
        "has no points": goal(message()),
        "unknown joint of the trajectory 'elbow'": goal(to(Q1, names=("elbow", *NAMES[1:]))),
        "beyond the limits": goal(to(99.0 * Q1)),
        "ended": goal(to(Q1, start=bench.nanos - 2 * 10**9)),
        "multi_dof_trajectory": floating,
        "unknown joint of path_tolerance 'elbow'": goal(
            to(Q1), path_tolerance=[JointTolerance(name="elbow")]
        ),
        "goal_tolerance of joint1: got -2": goal(
            to(Q1), goal_tolerance=[JointTolerance(name="joint1", position=-2.0)]
        ),
    }
    for reason, request in bad.items():
        assert not bench.goals.accepts(request)
        assert reason in bench.troubles[-1][1] and reason in bench.trajectories.refusal
    bench.run(1.2)
    assert handle.events == ["executing", "succeeded"]


def test_a_new_goal_replaces_the_present_one():
    bench = GoalBench()
    first = bench.send(to(Q1))
    bench.run(0.5)
    second = bench.send(to(Q2))
    assert first.events == ["executing", "aborted"]
    assert first.result.error_code == Code.INVALID_GOAL
    assert first.result.error_string == "replaced by another trajectory"
    assert bench.is_busy
    bench.run(1.2)
    assert second.events == ["executing", "succeeded"]
    np.testing.assert_allclose(bench.rows[-1][0], Q2, atol=1e-9)


@pytest.mark.parametrize("by", ["topic", "target", "stop"])
def test_a_goal_that_something_else_replaces_is_aborted(by):
    bench = GoalBench()
    handle = bench.send(to(Q1))
    bench.run(0.5)
    if by == "topic":
        bench.trajectories.hear(to(Q2))
    elif by == "target":
        bench.trajectories.end("replaced by a target")
    else:
        bench.trajectories.hear(message())
    bench.run(0.1)
    assert handle.events == ["executing", "aborted"]
    reasons = {
        "topic": "replaced by another trajectory",
        "target": "replaced by a target",
        "stop": "stopped by an empty trajectory",
    }
    assert handle.result.error_string == reasons[by]


def test_a_goal_that_is_cancelled_stops_the_joints():
    bench = GoalBench()
    handle = bench.send(to(Q1))
    bench.run(0.5)
    assert bench.goals.cancel(handle)
    handle.is_cancel_requested = True  # as rclpy has it from then on
    bench.run(0.5)
    assert handle.events == ["executing", "canceled"]
    assert not bench.rows[-1][1].any() and (bench.rows[-1][0] < 0.08).all()
    assert not bench.goals.cancel(handle), "it is over"


def test_cancelling_a_goal_that_was_replaced_leaves_the_present_one():
    bench = GoalBench()
    first = bench.send(to(Q1))
    second = bench.send(to(Q2))
    assert not bench.goals.cancel(first)
    bench.run(1.2)
    assert second.events == ["executing", "succeeded"]


@pytest.mark.parametrize("lag", [0.06, 0.04])
def test_tolerances_of_a_goal_come_before_those_of_the_parameters(lag):
    bench = GoalBench(path=0.01, goal=0.01, goal_time=0.2)
    handle = bench.send(
        to(Q1),
        path_tolerance=[JointTolerance(name="joint3", position=0.05)],
        goal_tolerance=[JointTolerance(name="joint3", position=-1.0)],
    )
    bench.run(0.5)
    bench.lag[0, 2] = lag
    bench.run(1.0)
    if lag > 0.05:
        assert handle.events == ["executing", "aborted"]
        assert handle.result.error_code == Code.PATH_TOLERANCE_VIOLATED
        assert "joint3 is off by 0.06" in handle.result.error_string
    else:
        assert handle.events == ["executing", "succeeded"]


def test_a_goal_that_is_not_reached_in_time_is_aborted():
    bench = GoalBench()
    request = goal(to(Q1), goal_tolerance=[JointTolerance(name="joint2", position=0.01)])
    request.goal_time_tolerance.nanosec = 300_000_000
    assert bench.goals.accepts(request)
    handle = Handle(request)
    bench.goals.begin(handle)
    bench.lag[0, 1] = 0.02
    bench.run(1.2)
    assert handle.events == ["executing"]
    bench.run(0.3)
    assert handle.events == ["executing", "aborted"]
    assert handle.result.error_code == Code.GOAL_TOLERANCE_VIOLATED


def test_a_goal_is_aborted_when_torques_stop_although_no_joint_state_comes():
    bench = GoalBench()
    handle = bench.send(to(Q1))
    bench.run(0.5)
    bench.torqueless = "torques are zero: joint states stopped"
    bench.goals.look()
    assert handle.events == ["executing", "aborted"]
    assert handle.result.error_string == "torques are zero: joint states stopped"
    assert not bench.goals.accepts(goal(to(Q1)))


def test_a_goal_is_aborted_when_the_estimate_is_inconsistent():
    bench = GoalBench()
    handle = bench.send(to(Q1))
    bench.run(0.5)
    bench.trajectories.stop(Outcome(Code.INVALID_GOAL, "the estimate of the base is inconsistent"))
    bench.run(0.5)
    assert handle.events == ["executing", "aborted"]
    assert "inconsistent" in handle.result.error_string
    assert not bench.rows[-1][1].any(), "the arm has stopped"


def test_what_comes_between_accepting_and_beginning_aborts_the_new_goal_alone():
    bench = GoalBench()
    first = bench.send(to(Q1))
    request = goal(to(Q2))
    assert bench.goals.accepts(request)
    bench.obstacle = "something pushes the robot"
    second = Handle(request)
    bench.goals.begin(second)
    assert second.events == ["executing", "aborted"]
    assert "something pushes the robot" in second.result.error_string
    bench.run(1.2)
    assert first.events == ["executing", "succeeded"]


def test_this_rclpy_ends_goals_by_what_the_server_calls():
    """A goal that begins has no callback, the one that ends it has: both go this way."""
    source = inspect.getsource(ServerGoalHandle.execute)
    assert "notify_execute(self, execute_callback)" in source
    parameters = list(inspect.signature(ActionServer.notify_execute).parameters)
    assert parameters == ["self", "goal_handle", "execute_callback"]
