# SPDX-License-Identifier: Apache-2.0
"""The simulation node as a process: what it publishes is the simulator's, whatever comes in."""

import signal
import time

import numpy as np
import pytest
from cases import load, text
from geometry_msgs.msg import PoseStamped, WrenchStamped
from nav_msgs.msg import Odometry
from ros_graph import Graph
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger

import vm_dynamics as vm
from vm_dynamics.paths import robot_file
from vm_dynamics.ros.messages import nanoseconds, pose_matrix, twist_vector
from vm_dynamics.ros.node import COMMAND, LATCHED
from vm_dynamics.simulation import Sensing, Simulator

YAML = str(robot_file("hexa_arm2").with_suffix(".yaml"))
EARTH = [0.0, 0.0, -9.81]


@pytest.fixture
def graph(tmp_path):
    out = Graph(tmp_path)
    yield out
    out.close()


class Heard:
    """A simulation and what it publishes."""

    def __init__(self, graph, **parameters):
        self.graph = graph
        self.clock = graph.collect(Clock, "/clock", COMMAND)
        self.joints = graph.collect(JointState, "joint_states", COMMAND)
        self.poses = graph.collect(PoseStamped, "pose", COMMAND)
        self.truth = graph.collect(Odometry, "ground_truth/odom", COMMAND)
        self.wrenches = graph.collect(WrenchStamped, "thruster_wrench", COMMAND)
        self.descriptions = graph.collect(String, "robot_description", LATCHED)
        self.process = graph.start("sim_node", parameters=parameters)
        graph.until(lambda: self.truth and self.joints, "joint states and truth")

    def publish(self, kind, topic, message):
        publisher = self.graph.node.create_publisher(kind, topic, COMMAND)
        self.graph.until(lambda: publisher.get_subscription_count() > 0, f"reader of {topic}")
        publisher.publish(message)
        return publisher

    def command(self, values):
        return self.publish(Float64MultiArray, "commands", Float64MultiArray(data=list(values)))

    def after(self, messages, count):
        have = len(messages)
        self.graph.until(lambda: len(messages) >= have + count, "more messages")
        return messages[-1]


def test_the_truth_is_that_of_the_library_and_sensors_follow_their_parameters(graph):
    start = dict(zip(load("satellite_arm7").joint_names, np.linspace(-0.5, 0.7, 7), strict=True))
    heard = Heard(
        graph,
        **{
            "initial.twist": [0.01, 0.0, 0.02, 0.17, 0.02, 0.0],
            "initial.pose": [1.0, 2.0, 3.0, 0.0, 0.0, 0.6, 0.8],
            "initial.joints": [f"{name}={value}" for name, value in start.items()],
            "joint_rate": 200.0,
            "pose.rate": 20.0,
            "pose.delay": 0.06,
            "joint_velocity_deviation": 0.02,
        },
    )
    graph.until(lambda: len(heard.truth) > 400, "two seconds")
    robot = load("satellite_arm7")
    g = np.eye(4)
    g[:2, :2] = [[1 - 2 * 0.36, -2 * 0.48], [2 * 0.48, 1 - 2 * 0.36]]
    g[:3, 3] = 1.0, 2.0, 3.0
    V = np.array([0.01, 0.0, 0.02, 0.17, 0.02, 0.0])
    q = np.array([start[name] for name in robot.joint_names])
    library = Simulator(robot, text("satellite_arm7"), vm.State(g, q, V, np.zeros(7)))
    truth = {nanoseconds(m.header.stamp): m for m in heard.truth}
    noise = []
    for message in heard.joints[:400]:
        nanos = nanoseconds(message.header.stamp)
        library.advance((nanos - library.nanos) // 1_000_000)
        state = library.state
        assert np.abs(np.array(message.position) - state.q).max() < 1e-12
        noise.append(np.array(message.velocity) - state.qd)
        if nanos in truth:
            odom = truth[nanos]
            pose = pose_matrix(odom.pose.pose.position, odom.pose.pose.orientation)
            assert np.abs(pose - state.g).max() < 1e-9
            assert np.abs(twist_vector(odom.twist.twist) - state.V).max() < 1e-12
            assert (odom.header.frame_id, odom.child_frame_id) == ("world", robot.root_link)
    assert np.std(noise) == pytest.approx(0.02, rel=0.1)
    stamps = np.diff([nanoseconds(m.header.stamp) for m in heard.joints])
    # some may be lost before the reader is known to all, and on a busy machine
    assert np.median(stamps) == 5_000_000 and not (stamps % 5_000_000).any()
    taken = [nanoseconds(m.header.stamp) for m in heard.poses]
    assert np.median(np.diff(taken)) == 50_000_000 and not (np.diff(taken) % 50_000_000).any()
    assert vm.load(heard.descriptions[0].data.encode()).joint_names == robot.joint_names
    assert heard.process.stop() == 0
    assert "Traceback" not in heard.process.output


def test_poses_come_late(graph):
    heard = Heard(graph, **{"pose.delay": 0.3, "pose.rate": 10.0, "joint_rate": 100.0})
    graph.until(lambda: len(heard.poses) >= 3, "poses")
    now = nanoseconds(heard.clock[-1].clock)
    late = 1e-9 * (now - nanoseconds(heard.poses[-1].header.stamp))
    assert 0.29 < late < 0.5


def test_commands_move_the_joints_and_failed_motors_do_not(graph):
    heard = Heard(graph, friction=False, joint_rate=100.0)
    assert graph.set_parameter(heard.process, "failed_joints", ["joint1"]) == (True, "")
    graph.until(
        lambda: abs(heard.joints[-1].position[1]) > 0.01,
        "motion of joint2",
        each=lambda: heard.command([5.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    )
    assert list(heard.joints[-1].effort) == [0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    refused, reason = graph.set_parameter(heard.process, "failed_joints", ["elbow"])
    assert not refused and "elbow" in reason and "joint1" in reason


def test_a_body_may_be_grasped_while_it_runs_if_it_can_exist(graph):
    heard = Heard(graph, friction=False, joint_rate=100.0)
    fine, reason = graph.set_parameter(heard.process, "grasp.link", "hand")
    assert not fine and "hand" in reason and "tool" in reason
    assert graph.set_parameter(heard.process, "grasp.mass", 60.0) == (True, "")
    assert graph.set_parameter(heard.process, "grasp.link", "tool") == (True, "")
    fine, reason = graph.set_parameter(heard.process, "grasp.com", [0.0, 0.1])
    assert not fine and "grasp.com" in reason
    count = len(heard.joints)
    graph.until(lambda: len(heard.joints) > count + 20, "joint states of a robot with a body")


def test_motors_and_thrusters_stop_when_commands_do(graph):
    """As the watchdog of a driver has it, for zeros cannot cross a dead link."""
    heard = Heard(
        graph,
        robot="hexa_arm2",
        propulsion=YAML,
        joint_rate=100.0,
        **{"initial.hold": True},
    )

    def command():
        heard.publish(Float64MultiArray, "thrusts", Float64MultiArray(data=[10.0] * 6))
        heard.command([0.01, 0.0])

    graph.until(
        lambda: heard.joints[-1].effort[0] and heard.wrenches[-1].wrench.force.z > 50.0,
        "efforts and thrusts",
        each=command,
    )
    last = nanoseconds(heard.clock[-1].clock)
    graph.until(lambda: not heard.joints[-1].effort[0], "zero")
    assert nanoseconds(heard.joints[-1].header.stamp) - last < 0.5e9
    graph.until(lambda: heard.wrenches[-1].wrench.force.z < 1.0, "rotors that have run down")


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [[1.0], [float("nan")] * 7, [float("inf")] * 7, []],
    ids=["short", "nan", "inf", "no"],
)
def test_bad_commands_are_counted_and_change_nothing(graph, values):
    heard = Heard(graph, joint_rate=50.0)
    heard.command(values)
    graph.until(
        lambda: graph.values(heard.process).get("count: bad commands") == "1", "a count of it"
    )
    message = heard.after(heard.joints, 10)
    assert not any(message.effort) and np.isfinite(message.position).all()


def test_a_wrench_pushes_the_base_in_its_own_frame_only(graph):
    heard = Heard(graph, joint_rate=100.0)
    wrench = WrenchStamped()
    wrench.header.frame_id = "tool"
    wrench.wrench.force.x = 360.0
    heard.publish(WrenchStamped, "base_wrench", wrench)
    graph.until(lambda: "count: bad base_wrench" in graph.values(heard.process), "a count of it")
    assert heard.truth[-1].twist.twist.linear.x == 0.0
    wrench.header.frame_id = "base_link"
    heard.publish(WrenchStamped, "base_wrench", wrench)
    graph.until(lambda: heard.truth[-1].twist.twist.linear.x > 0.1, "motion")


def test_reset_puts_the_robot_back_and_the_clock_goes_on(graph):
    heard = Heard(graph, joint_rate=100.0, friction=False)
    graph.until(
        lambda: heard.joints[-1].position[0] > 0.02,
        "motion",
        each=lambda: heard.command([5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    )
    graph.spin(0.3)  # until no command is on its way any more
    before = nanoseconds(heard.clock[-1].clock)
    assert graph.call(Trigger, f"{heard.process.full_name}/reset", Trigger.Request()).success
    graph.until(lambda: heard.joints[-1].position[0] == 0.0, "the start")
    assert nanoseconds(heard.clock[-1].clock) > before
    heard.after(heard.joints, 20)
    assert heard.joints[-1].position[0] == 0.0, "the command is forgotten too"


@pytest.mark.slow
def test_time_runs_as_fast_as_asked_for(graph):
    heard = Heard(graph, joint_rate=50.0, real_time_factor=0.25)

    def factor():
        return float(graph.values(heard.process).get("real-time factor", "nan"))

    heard.after(heard.clock, 30)
    graph.until(lambda: 0.2 < factor() < 0.3, "a quarter of real time")
    assert graph.set_parameter(heard.process, "real_time_factor", 0.0) == (True, "")
    graph.until(lambda: factor() > 2.0, "as fast as there can be")


def test_a_held_hexacopter_stays_until_it_is_told_to_fly(graph):
    heard = Heard(
        graph,
        robot="hexa_arm2",
        propulsion=YAML,
        gravity=EARTH,
        joint_rate=100.0,
        **{"initial.hold": True},
    )
    wrench = heard.after(heard.wrenches, 20)
    assert wrench.wrench.force.z == pytest.approx(7.56 * 9.81)
    assert heard.truth[-1].pose.pose.position.z == 0.0
    graph.until(
        lambda: heard.truth[-1].pose.pose.position.z > 0.05,
        "take-off",
        each=lambda: heard.publish(
            Float64MultiArray, "thrusts", Float64MultiArray(data=[20.0] * 6)
        ),
    )
    assert heard.wrenches[-1].wrench.force.z > 100.0


@pytest.mark.slow
def test_simulated_time_waits_for_those_who_follow_but_not_for_ever(graph):
    heard = Heard(graph, joint_rate=100.0, most_lead=0.1)
    torques = JointState()

    def follow():
        torques.header.stamp = heard.clock[-1].clock
        heard.publish(JointState, "torques", torques)

    end = time.monotonic() + 1.0
    graph.until(lambda: time.monotonic() > end, each=follow)
    said = nanoseconds(torques.header.stamp)
    graph.spin(0.6)
    lead = nanoseconds(heard.clock[-1].clock) - said
    assert lead < 0.2e9, "it waits"
    graph.until(lambda: nanoseconds(heard.clock[-1].clock) > said + 0.5e9, "patience to end")
    assert "not waiting any longer for torques" in heard.process.output


def test_another_base_and_added_mass_are_stepped_by_the_package_and_the_log_says_so(graph):
    yaml = str(robot_file("auv_arm4").with_suffix(".yaml"))
    heard = Heard(
        graph,
        robot="auv_arm4",
        hydrodynamics=yaml,
        gravity=EARTH,
        current=[0.5, 0.0, 0.0],
        joint_rate=100.0,
    )
    assert "own integrator, not by MuJoCo: it has added mass" in heard.process.output
    graph.until(lambda: heard.truth[-1].pose.pose.position.x > 0.02, "drift with the current")


def test_without_a_screen_the_viewer_is_left_out(graph, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    heard = Heard(graph, viewer=True, joint_rate=50.0)
    heard.after(heard.clock, 5)
    assert "viewer: cannot open a window" in heard.process.output
    assert heard.process.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"robot": "no_such_robot"}, "satellite_arm7"),
        ({"initial.joints": ["elbow=1"]}, "elbow"),
        ({"initial.joints": ["joint1"]}, "name=value"),
        ({"initial.pose": [0.0, 0.0, 0.0]}, "expected 7"),
        ({"initial.pose": [0.0] * 7}, "quaternion"),
        ({"current": [1.0, 0.0, 0.0]}, "no water"),
        ({"pose.dropout": 2.0}, "pose.dropout"),
        ({"propulsion": "/no/such/file.yaml"}, "no/such/file"),
        ({"robot_description": "<robot/>"}, "robot"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start_with_a_reason(graph, parameters, words):
    process = graph.start("sim_node", parameters=parameters)
    assert process.process.wait(30) == 1
    assert words in process.output and "Traceback" not in process.output


def test_the_robot_stays_the_same_while_it_runs(graph):
    heard = Heard(graph, joint_rate=50.0)
    done, reason = graph.set_parameter(heard.process, "gravity", EARTH)
    assert not done and "fixed while the simulation runs" in reason


def test_defaults_of_the_node_are_those_of_the_library():
    from vm_dynamics.ros.sim_node import SimParameters

    assert SimParameters().sensing == Sensing()
