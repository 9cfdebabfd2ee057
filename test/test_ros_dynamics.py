# SPDX-License-Identifier: Apache-2.0
"""dynamics_node as a process on real DDS, and what all nodes share: life cycle and parameters."""

import re
import signal
import time

import numpy as np
import pytest
from cases import load, text
from geometry_msgs.msg import PointStamped, TwistWithCovarianceStamped
from lifecycle_msgs.msg import Transition
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.msg import ParameterValue
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from ros_graph import Graph, joint_state
from std_msgs.msg import Float64MultiArray, String

import vm_dynamics as vm
from vm_dynamics.ros.dynamics_node import MATRICES
from vm_dynamics.ros.matrices import decode
from vm_dynamics.ros.messages import fill_twist, nanoseconds
from vm_dynamics.ros.node import COMMAND, SENSOR

SAME = 1e-12  # the same kernels in another process


@pytest.fixture
def graph(tmp_path):
    out = Graph(tmp_path)
    yield out
    out.close()


class Listener:
    """Subscribes to matrices of a dynamics node and keeps the latest of each."""

    def __init__(self, graph, names=MATRICES, prefix="dynamics_node"):
        self.latest, self.count = {}, 0
        for name in names:
            graph.node.create_subscription(
                Float64MultiArray, f"{prefix}/{name}", self._heard, COMMAND
            )

    def _heard(self, message):
        matrix = decode(message)
        self.latest[matrix.name] = matrix
        self.count += 1


def feeding(graph, publisher, robot, q, qd):
    """Function that sends a joint state of now."""

    def send():
        publisher.publish(joint_state(robot, q, qd, stamp=graph.now()))

    return send


def test_every_matrix_is_that_of_the_library_with_the_stamp_of_the_joints(graph):
    robot = load("satellite_arm7")
    graph.start("dynamics_node")
    graph.describe(text("satellite_arm7"))
    listener = Listener(graph)
    centres = graph.collect(PointStamped, "dynamics_node/com", COMMAND)
    joints = graph.joints()
    q, qd = np.linspace(0.3, 0.9, 7), np.linspace(-0.2, 0.3, 7)
    twist = TwistWithCovarianceStamped()
    V = np.array([0.1, 0.2, 0.3, -0.1, 0.05, 0.2])
    fill_twist(twist.twist.twist, V)
    twists = graph.node.create_publisher(TwistWithCovarianceStamped, "base_twist", SENSOR)

    def feed():
        twists.publish(twist)
        joints.publish(joint_state(robot, q, qd, stamp=graph.now()))

    C = robot.hamel(q, V, qd).C
    graph.until(
        lambda: (
            "coriolis" in listener.latest
            and abs(listener.latest["coriolis"].values - C).max() < SAME * abs(C).max()
        ),
        "Coriolis matrix at the base's velocity",
        each=feed,
    )
    graph.until(lambda: set(listener.latest) == set(MATRICES) and centres, "all", each=feed)
    M, A = robot.mass_and_connection(q)
    expected = {
        "mass_matrix": M,
        "connection": A,
        "locked_inertia": M[:6, :6],
        "shape_inertia": M[6:, 6:] - M[:6, 6:].T @ A,
        "curvature": robot.curvature(q),
    }
    for name, value in expected.items():
        found = listener.latest[name]
        assert abs(found.values - value).max() <= SAME * abs(value).max(), name
        assert found.frame == "base_link"
    names = listener.latest["mass_matrix"].names
    assert names[0] == names[1] == ("vx", "vy", "vz", "wx", "wy", "wz", *robot.joint_names)
    point = centres[-1].point
    assert np.allclose([point.x, point.y, point.z], robot.center_of_mass(q), atol=SAME)

    listener.latest.clear()
    graph.spin(0.3)  # what is still on the way
    listener.latest.clear()
    stamp = graph.now()
    joints.publish(joint_state(robot, q, qd, stamp=stamp))
    graph.until(lambda: len(listener.latest) == len(MATRICES), "all of one cycle")
    assert {m.stamp for m in listener.latest.values()} == {nanoseconds(stamp)}


def test_nothing_is_computed_that_nobody_reads(graph):
    robot = load("planar_3link")
    process = graph.start("dynamics_node", parameters={"diagnostics_rate": 10.0})
    graph.describe(text("planar_3link"))
    listener = Listener(graph, ["connection"])
    joints = graph.joints()
    feed = feeding(graph, joints, robot, np.zeros(2), np.zeros(2))
    graph.until(lambda: listener.count > 5, "connections", each=feed)
    graph.until(
        lambda: float(graph.values(process).get("joint_states rate [Hz]", 0.0)) > 0.0,
        "a report of them",
        each=feed,
    )
    assert set(listener.latest) == {"connection"}


def test_parameters_shape_the_robot_and_change_while_it_runs(graph):
    process = graph.start(
        "dynamics_node",
        parameters={
            "robot_description": text("rover_arm2"),
            "base": "SE2",
            "locked_joints": ["joint2=0.5"],
        },
    )
    robot = vm.load(text("rover_arm2"), base="SE2", locked_joints={"joint2": 0.5})
    listener = Listener(graph, ["mass_matrix"])
    feed = feeding(graph, graph.joints(), robot, [0.3], [0.0])
    expected = robot.mass_matrix([0.3])

    def shows(matrix):
        latest = listener.latest.get("mass_matrix")
        return (
            latest is not None
            and latest.values.shape == matrix.shape
            and abs(latest.values - matrix).max() < SAME * abs(matrix).max()
        )

    graph.until(lambda: shows(expected), "mass matrix", each=feed)
    assert graph.set_parameter(process, "payload.mass", 2.0)[0]
    assert graph.set_parameter(process, "payload.link", "tool")[0]
    heavier = robot.with_payload("tool", 2.0, np.zeros(3)).mass_matrix([0.3])
    graph.until(lambda: shows(heavier), "payload", each=feed)

    refused, reason = graph.set_parameter(process, "base", "SE4")
    assert not refused and "SE4" in reason and "SE3" in reason
    refused, reason = graph.set_parameter(process, "payload.mass", -1.0)
    assert not refused
    refused, reason = graph.set_parameter(process, "gravity", [0.0, 1.0])
    assert not refused and "3" in reason
    refused, reason = graph.set_parameter(process, "payload.link", "nowhere")
    assert not refused and "nowhere" in reason and "tool" in reason
    assert graph.get_parameter(process, "payload.link") == "tool"
    graph.until(lambda: shows(heavier), "the same as before", each=feed)


def test_a_new_description_replaces_the_robot_and_a_bad_one_does_not(graph):
    process = graph.start("dynamics_node", parameters={"diagnostics_rate": 10.0})
    description = graph.describe(text("planar_3link"))
    listener = Listener(graph, ["mass_matrix"])
    joints = graph.joints()
    planar, arm = load("planar_3link"), load("lwr_floating")
    feed = feeding(graph, joints, planar, np.zeros(2), np.zeros(2))
    graph.until(lambda: "mass_matrix" in listener.latest, "first robot", each=feed)

    counted = "count: bad robot_description"
    for bad in ("", "<robot", "/etc/passwd", text("planar_3link").replace("<mass", "<mess")):
        description.publish(String(data=bad))
        before = int(graph.values(process).get(counted, 0))
        graph.until(
            lambda b=before: int(graph.values(process).get(counted, 0)) > b,
            f"complaint about {bad[:20]!r}",
            each=feed,
        )
    listener.latest.clear()
    graph.until(lambda: "mass_matrix" in listener.latest, "the old robot", each=feed)
    assert listener.latest["mass_matrix"].values.shape == (8, 8)
    assert "the old robot stays" in process.output

    description.publish(String(data=text("lwr_floating")))
    feed = feeding(graph, joints, arm, np.zeros(7), np.zeros(7))
    graph.until(
        lambda: listener.latest["mass_matrix"].values.shape == (13, 13), "the new one", each=feed
    )


def test_bad_joint_states_are_counted_by_kind_and_do_no_harm(graph):
    robot = load("planar_3link")
    process = graph.start("dynamics_node", parameters={"diagnostics_rate": 10.0})
    graph.describe(text("planar_3link"))
    listener = Listener(graph, ["mass_matrix"])
    joints = graph.joints()
    feed = feeding(graph, joints, robot, np.zeros(2), np.zeros(2))
    graph.until(lambda: listener.count, "start", each=feed)
    bad = {
        "missing joints": dict(name=["joint1"], position=[0.0], velocity=[0.0]),
        "duplicate names": dict(name=["joint1", "joint1"]),
        "lengths": dict(position=[0.0]),
        "not finite": dict(position=[float("nan"), 0.0]),
        "no velocity": dict(velocity=[]),
        "time backwards": dict(),
    }

    def send(kind, changes):
        message = joint_state(robot, np.zeros(2), np.zeros(2), stamp=graph.now())
        if kind == "time backwards":
            message.header.stamp.nanosec = 0
            message.header.stamp.sec -= 0
        for key, value in changes.items():
            setattr(message, key, value)
        joints.publish(message)

    for kind, changes in bad.items():
        graph.until(
            lambda k=kind: int(graph.values(process).get(f"count: {k}", 0)) > 0,
            f"count of {kind}",
            each=lambda k=kind, c=changes: (send(k, c), feed()),
        )
    listener.count = 0
    graph.until(lambda: listener.count > 3, "good ones still pass", each=feed)
    assert process.process.poll() is None


def test_the_life_cycle_is_obeyed(graph):
    robot = load("planar_3link")
    process = graph.start(
        "dynamics_node",
        parameters={"autostart": False, "robot_description": text("planar_3link")},
    )
    listener = Listener(graph, ["mass_matrix"])
    feed = feeding(graph, graph.joints(), robot, np.zeros(2), np.zeros(2))
    assert graph.state(process) == "unconfigured"
    steps = [
        (Transition.TRANSITION_CONFIGURE, "inactive", False),
        (Transition.TRANSITION_ACTIVATE, "active", True),
        (Transition.TRANSITION_DEACTIVATE, "inactive", False),
        (Transition.TRANSITION_ACTIVATE, "active", True),
        (Transition.TRANSITION_DEACTIVATE, "inactive", False),
        (Transition.TRANSITION_CLEANUP, "unconfigured", False),
        (Transition.TRANSITION_CONFIGURE, "inactive", False),
        (Transition.TRANSITION_ACTIVATE, "active", True),
        (Transition.TRANSITION_ACTIVE_SHUTDOWN, "finalized", False),
    ]
    for transition, state, speaks in steps:
        assert graph.transition(process, transition)
        assert graph.state(process) == state
        graph.spin(0.1)
        listener.count = 0
        if speaks:
            graph.until(lambda: listener.count > 2, f"output when {state}", each=feed)
        else:
            end = time.monotonic() + 0.5
            while time.monotonic() < end:
                feed()
                graph.spin(0.02)
            assert listener.count == 0, state
    assert process.stop() == 0


def test_no_request_of_a_client_ends_it(graph):
    process = graph.start("dynamics_node")
    assert graph.state(process) == "active"
    for number in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_CLEANUP, 77):
        assert not graph.transition(process, number)
    # ours, or rclpy's own words from Kilted on
    assert re.search("(no|start) transition 77", process.output)
    # rclpy itself raises on a type that does not exist, and answers nothing
    unknown = ParameterMessage(name="rate", value=ParameterValue(type=99))
    kinds = {
        "set_parameters": SetParameters,
        "set_parameters_atomically": SetParametersAtomically,
    }
    for count, (name, kind) in enumerate(kinds.items(), 1):
        graph.send(kind, f"{process.full_name}/{name}", kind.Request(parameters=[unknown]))
        graph.until(
            lambda n=count: graph.values(process).get("count: error in a service") == str(n),
            f"report of a bad {name}",
        )
    assert "99 is not a valid Parameter.Type" in process.output
    assert graph.set_parameter(process, "rate", 5.0) == (True, "")
    assert graph.state(process) == "active"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("autostart", [True, False])
def test_a_signal_ends_it_cleanly_in_every_state(graph, number, autostart):
    process = graph.start("dynamics_node", parameters={"autostart": autostart})
    assert graph.state(process) == ("active" if autostart else "unconfigured")
    if not autostart and number == signal.SIGTERM:
        assert graph.transition(process, Transition.TRANSITION_CONFIGURE)
        assert graph.state(process) == "inactive"
    assert process.stop(number) == 0
    assert "Traceback" not in process.output


@pytest.mark.slow
def test_nohup_is_obeyed(graph):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = graph.start("dynamics_node")  # what is ignored is so in a child too
    finally:
        signal.signal(signal.SIGHUP, before)
    assert graph.state(process) == "active"
    process.process.send_signal(signal.SIGHUP)
    graph.spin(0.5)
    assert graph.state(process) == "active"
    assert process.stop() == 0


def test_a_node_that_cannot_start_says_why_and_ends_with_one(graph):
    for parameters, message in (
        ({"base": "SE4"}, "base"),
        ({"robot_description": "<robot"}, "robot_description"),
        ({"robot_description": text("planar_3link"), "root_link": "nowhere"}, "nowhere"),
        ({"rate": -1.0}, "rate"),
    ):
        process = graph.start("dynamics_node", parameters=parameters)
        assert process.process.wait(30) == 1
        assert message in process.output and "Traceback" not in process.output


def test_two_robots_live_in_one_graph(graph):
    robots = {"left": "planar_3link", "right": "lwr_floating"}
    listeners, feeds = {}, []
    for namespace, name in robots.items():
        graph.start("dynamics_node", namespace=f"/{namespace}")
        graph.describe(text(name), f"/{namespace}/robot_description")
        listeners[namespace] = Listener(
            graph, ["connection"], prefix=f"/{namespace}/dynamics_node"
        )
        robot = load(name)
        feeds.append(
            feeding(
                graph,
                graph.joints(f"/{namespace}/joint_states"),
                robot,
                np.zeros(robot.n),
                np.zeros(robot.n),
            )
        )
    graph.until(
        lambda: all(item.count for item in listeners.values()),
        "both",
        each=lambda: [feed() for feed in feeds],
    )
    for namespace, name in robots.items():
        found = listeners[namespace].latest["connection"].values
        robot = load(name)
        assert np.allclose(found, robot.connection(np.zeros(robot.n)), atol=SAME)


@pytest.mark.slow
def test_a_killed_node_can_be_started_again_while_others_run(graph):
    robot = load("planar_3link")
    graph.describe(text("planar_3link"))
    listener = Listener(graph, ["mass_matrix"])
    feed = feeding(graph, graph.joints(), robot, np.zeros(2), np.zeros(2))
    for _ in range(2):
        process = graph.start("dynamics_node")
        listener.count = 0
        graph.until(lambda: listener.count > 3, "output", each=feed)
        assert process.stop(signal.SIGKILL) == -signal.SIGKILL


@pytest.mark.slow
def test_the_rate_can_be_limited(graph):
    robot = load("planar_3link")
    graph.start("dynamics_node", parameters={"rate": 20.0})
    graph.describe(text("planar_3link"))
    listener = Listener(graph, ["mass_matrix"])
    feed = feeding(graph, graph.joints(), robot, np.zeros(2), np.zeros(2))
    graph.until(lambda: listener.count, "start", each=feed)
    listener.count = 0
    start = time.monotonic()
    while time.monotonic() - start < 2.0:
        feed()
        graph.spin(0.005)
    assert 20 <= listener.count <= 45, "20 Hz for two seconds, with a busy machine's slack"
