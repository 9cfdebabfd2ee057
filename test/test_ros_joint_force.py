# SPDX-License-Identifier: Apache-2.0
"""joint_force_node as a process on real DDS: a topic for each joint, and zeros when in doubt."""

import signal
import time

import pytest
from lifecycle_msgs.msg import Transition
from nav_msgs.msg import Odometry
from ros_graph import Graph
from std_msgs.msg import Float64, Float64MultiArray

import vm_dynamics as vm
from vm_dynamics.ros.gazebo import force_topic
from vm_dynamics.ros.node import COMMAND
from vm_dynamics.ros.odom_tf_node import transform

JOINTS = ["shoulder", "elbow-1"]
PARAMETERS = {"joints": JOINTS, "diagnostics_rate": 10.0}
FORCES = [1.5, -2.5]
ZEROS = [0.0, 0.0]


class Bench:
    """The node, someone who commands, and the joints that listen."""

    def __init__(self, folder, parameters=PARAMETERS):
        self.graph = Graph(folder)
        self.process = self.graph.start("joint_force_node", parameters=parameters)
        self.commands = self.graph.node.create_publisher(Float64MultiArray, "commands", COMMAND)
        self.heard = [self.graph.collect(Float64, force_topic(j), COMMAND) for j in JOINTS]

    def send(self, forces=FORCES):
        self.commands.publish(Float64MultiArray(data=forces))

    def last(self):
        return [messages[-1].data if messages else None for messages in self.heard]

    def until(self, forces, what, **options):
        """Wait for forces; returns how long that took [s]."""
        start = time.monotonic()
        self.graph.until(lambda: self.last() == forces, what, **options)
        return time.monotonic() - start

    def count(self, kind):
        return int(self.graph.values(self.process).get(f"count: {kind}", 0))


@pytest.fixture
def bench(tmp_path):
    made = []

    def make(**options):
        made.append(Bench(tmp_path, **options))
        return made[-1]

    yield make
    for item in made:
        item.graph.close()


def test_each_joint_gets_its_own_force(bench):
    setup = bench()
    setup.until(FORCES, "forces", each=setup.send)
    setup.until(FORCES[::-1], "other forces", each=lambda: setup.send(FORCES[::-1]))


def test_forces_are_zero_when_commands_stop_and_come_back_with_them(bench):
    setup = bench()
    setup.until(ZEROS, "zeros before the first command")
    for _ in range(2):
        setup.until(FORCES, "forces", each=setup.send)
        # 0.1 s, and what a busy machine adds
        assert setup.until(ZEROS, "zeros") < 1.0
    setup.graph.until(lambda: setup.count("commands stopped") >= 2, "a count")


def test_a_killed_sender_leaves_no_force(bench, tmp_path):
    """The sender ends without a word, as compensator_node does when it is killed."""
    setup = bench()
    setup.until(FORCES, "forces", each=setup.send)
    setup.graph.node.destroy_publisher(setup.commands)
    assert setup.until(ZEROS, "zeros") < 1.0


def test_the_timeout_is_a_parameter_that_may_change(bench):
    setup = bench(parameters={**PARAMETERS, "timeout": 1.0})
    setup.until(FORCES, "forces", each=setup.send)
    assert setup.until(ZEROS, "zeros") > 0.7
    fine, _ = setup.graph.set_parameter(setup.process, "timeout", 0.05)
    assert fine
    setup.until(FORCES, "forces", each=setup.send)
    assert setup.until(ZEROS, "zeros") < 0.7
    fine, reason = setup.graph.set_parameter(setup.process, "timeout", -1.0)
    assert not fine and "timeout" in reason


@pytest.mark.parametrize(
    "bad", [[1.0], [1.0, 2.0, 3.0], [], [float("nan"), 1.0], [1.0, float("inf")]]
)
def test_bad_commands_give_zeros_and_are_counted(bench, bad):
    setup = bench(parameters={**PARAMETERS, "timeout": 2.0})
    setup.until(FORCES, "forces", each=setup.send)
    setup.send(bad)
    assert setup.until(ZEROS, "zeros") < 5.0, "before the watchdog"
    setup.graph.until(lambda: setup.count("bad commands") > 0, "a count")
    setup.until(FORCES, "good ones again", each=setup.send)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_zeros_come_on_deactivation_and_at_the_end(bench, number):
    setup = bench(parameters={**PARAMETERS, "timeout": 2.0})
    setup.until(FORCES, "forces", each=setup.send)
    assert setup.graph.transition(setup.process, Transition.TRANSITION_DEACTIVATE)
    assert setup.until(ZEROS, "zeros on deactivation") < 5.0, "before the watchdog"
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        setup.send()
        setup.graph.spin(0.02)
    assert setup.last() == ZEROS, "and none while it is inactive"
    assert setup.graph.transition(setup.process, Transition.TRANSITION_ACTIVATE)
    setup.until(FORCES, "forces", each=setup.send)
    setup.process.process.send_signal(number)
    assert setup.until(ZEROS, "zeros at the end") < 5.0
    assert setup.process.process.wait(30) == 0
    assert "Traceback" not in setup.process.output


@pytest.mark.parametrize("joints", [[], ["a", "a"], ["a-b", "a.b"]])
def test_joints_that_cannot_be_told_apart_are_refused(bench, joints):
    parameters = {"joints": joints} if joints else {}
    setup = bench(parameters=parameters)
    assert setup.process.process.wait(30) == 1
    assert "parameter joints" in setup.process.output
    assert "Traceback" not in setup.process.output


# -- odom_tf_node -------------------------------------------------------------------------------


def odometry(frame="world", child="base_link", w=1.0):
    out = Odometry(child_frame_id=child)
    out.header.frame_id, out.header.stamp.sec = frame, 5
    out.pose.pose.position.x, out.pose.pose.orientation.w = 2.0, w
    return out


def test_the_transform_is_the_pose_of_the_odometry():
    out = transform(odometry())
    assert (out.header.frame_id, out.child_frame_id, out.header.stamp.sec) == (
        "world",
        "base_link",
        5,
    )
    assert out.transform.translation.x == 2.0 and out.transform.rotation.w == 1.0


def test_odometry_that_makes_no_transform_is_refused():
    for bad in (odometry(frame=""), odometry(child=""), odometry(w=0.0), odometry(w=float("nan"))):
        with pytest.raises(vm.VmDynamicsError):
            transform(bad)


def test_without_tf2_msgs_the_node_says_so(tmp_path):
    try:
        import tf2_msgs  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("tf2_msgs is there")
    graph = Graph(tmp_path)
    try:
        process = graph.start("odom_tf_node")
        assert process.process.wait(30) == 1
        assert "tf2_msgs" in process.output and "Traceback" not in process.output
    finally:
        graph.close()
