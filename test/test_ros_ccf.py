# SPDX-License-Identifier: Apache-2.0
"""ccf_node and the example for subscribers, as processes on real DDS."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from cases import load, text
from geometry_msgs.msg import PoseStamped
from ros_graph import ROOT, Graph, joint_state
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import Marker

import vm_dynamics as vm
from vm_dynamics.locomotion import Gait, GaitPlane, ccf_map, curvature_atlas, gait_displacement
from vm_dynamics.ros.ccf_node import RESTAMP_PERIOD
from vm_dynamics.ros.diagnostics import WARN
from vm_dynamics.ros.messages import nanoseconds, pose_matrix, to_stamp
from vm_dynamics.ros.node import LATCHED

SINGLE = 1e-5  # relative: a point cloud has single precision
Q = np.array([0.1, 0.4, -0.3, 0.8, 0.2, -0.5, 0.1])


@pytest.fixture
def graph(tmp_path):
    out = Graph(tmp_path)
    yield out
    out.close()


class Bench:
    """A map node and what it publishes."""

    def __init__(self, graph, parameters=None, robot="lwr_floating"):
        self.graph, self.robot = graph, load(robot)
        self.process = graph.start(
            "ccf_node", parameters={"diagnostics_rate": 10.0, "rate": 100.0, **(parameters or {})}
        )
        graph.describe(text(robot))
        self.joints = graph.joints()
        self.maps = graph.collect(PointCloud2, "ccf_node/map", LATCHED)
        self.gaits = graph.collect(Marker, "ccf_node/gait", LATCHED)
        self.moves = graph.collect(PoseStamped, "ccf_node/displacement", LATCHED)

    def feed(self, q, stamp=None):
        stamp = stamp or self.graph.now()
        self.joints.publish(joint_state(self.robot, q, np.zeros(self.robot.n), stamp=stamp))

    def until(self, condition, what, q=Q):
        self.graph.until(condition, what, each=lambda: self.feed(q))


def points(cloud):
    """Fields of a cloud by name, shape (height, width) each."""
    values = np.frombuffer(cloud.data, dtype=np.float32)
    values = values.reshape(cloud.height, cloud.width, len(cloud.fields))
    return {field.name: values[..., i] for i, field in enumerate(cloud.fields)}


def test_the_map_gait_and_displacement_are_those_of_the_library(graph):
    setup = Bench(graph, {"joints": ["joint2", "joint4"], "size": 12, "component": "wy"})
    setup.until(lambda: setup.maps and setup.gaits and setup.moves, "all three")
    expected = ccf_map(setup.robot, ("joint2", "joint4"), Q, extent=0.5, size=12)
    cloud, found = setup.maps[-1], points(setup.maps[-1])
    assert (cloud.width, cloud.height) == (12, 12) and cloud.header.frame_id == "base_link"
    assert list(found) == ["x", "y", "z", "intensity", *expected.components]
    for name in expected.components:
        value = expected.component(name).T
        assert abs(found[name] - value).max() <= SINGLE * max(abs(value).max(), 1e-3)
    assert np.allclose(found["x"][0], expected.r1, atol=1e-6)
    assert np.allclose(found["y"][:, 0], expected.r2, atol=1e-6)
    assert np.array_equal(found["intensity"], found["wy"])
    plane = GaitPlane.of(setup.robot, ("joint2", "joint4"), Q)
    exact = gait_displacement(setup.robot, Gait.circle(plane, 0.25)).pose
    pose = setup.moves[-1].pose
    error = vm.lie.SE3.log(
        vm.lie.SE3.inverse(exact) @ pose_matrix(pose.position, pose.orientation)
    )
    assert abs(error).max() < 1e-6
    line = np.array([[p.x, p.y] for p in setup.gaits[-1].points])
    assert np.allclose(np.hypot(*line.T), 0.25)


class Stamps:
    """Stamps of joint states, a step apart, of a time of its own."""

    def __init__(self, step):
        self.nanos, self.step = 1_000_000_000_000, step

    def __call__(self):
        self.nanos += self.step
        return to_stamp(self.nanos)


def test_a_new_map_comes_only_when_the_shape_has_moved(graph):
    setup, stamps = Bench(graph, {"threshold": 0.05, "size": 6}), Stamps(step=100_000)
    graph.until(lambda: setup.maps, "the first map", each=lambda: setup.feed(Q, stamps()))
    setup.graph.spin(0.3)
    count = len(setup.maps)
    for _ in range(20):
        setup.feed(Q + 0.03, stamps())
        setup.graph.spin(0.02)
    assert len(setup.maps) == count
    stamps.step = 10_000_000
    graph.until(
        lambda: len(setup.maps) > count, "the next map", each=lambda: setup.feed(Q + 0.2, stamps())
    )
    graph.until(lambda: graph.values(setup.process).get("maps") == "2", "the count of maps")


def test_a_map_that_stays_valid_gets_new_stamps_and_is_not_computed_again(graph):
    setup, stamps = Bench(graph, {"size": 6}), Stamps(step=50_000_000)
    graph.until(
        lambda: len(setup.maps) > 3 and len(setup.gaits) > 3 and len(setup.moves) > 3,
        "the same map again and again",
        each=lambda: setup.feed(Q, stamps()),
    )
    for messages in (setup.maps, setup.gaits, setup.moves):
        times = np.array([nanoseconds(m.header.stamp) for m in messages])
        # about once a second of the joint states' time, whatever of these is lost on the way
        periods = np.diff(times)
        assert (periods >= RESTAMP_PERIOD).all()
        assert np.median(periods) < 1.5 * RESTAMP_PERIOD
        first = messages[0]
        for again in messages[1:]:
            again.header = first.header
            assert again == first
    graph.until(lambda: "maps" in graph.values(setup.process), "the count of maps")
    assert graph.values(setup.process)["maps"] == "1"


@pytest.mark.parametrize("described", ["parameter", "topic"])
def test_a_robot_with_one_joint_has_no_map_and_the_node_says_so(graph, described):
    parameters = {"robot_description": text("quad_arm1")} if described == "parameter" else {}
    setup = Bench(graph, parameters, robot="quad_arm1")

    def told():
        level, message, _ = graph.diagnostics.get("/ccf_node", (b"", "", {}))
        return level == WARN and "two joints" in message and "has 1" in message

    setup.until(told, "the reason", np.zeros(1))
    setup.until(
        lambda: int(graph.values(setup.process).get("cycles", 0)) > 5, "cycles", np.zeros(1)
    )
    assert not setup.maps and setup.process.process.poll() is None
    fine, reason = graph.set_parameter(setup.process, "joints", ["joint1", "elbow"])
    assert not fine and "elbow" in reason
    assert setup.process.stop() == 0
    assert "Traceback" not in setup.process.output


def test_wrong_names_of_joints_end_a_node_whose_robot_is_a_parameter(graph):
    parameters = {"robot_description": text("quad_arm1"), "joints": ["joint1", "elbow"]}
    process = graph.start("ccf_node", parameters=parameters)
    assert process.process.wait(30.0) == 1
    assert "elbow" in process.output


def test_parameters_change_while_it_runs_and_nonsense_is_refused(graph):
    setup = Bench(graph, {"size": 6})
    setup.until(lambda: setup.maps, "a map")
    best = curvature_atlas(setup.robot, Q).ranked(count=1)[0]
    setup.graph.until(
        lambda: graph.values(setup.process).get("joints") == f"{best.first}, {best.second}",
        "the pair that turns the base most",
    )
    assert graph.set_parameter(setup.process, "size", 9)[0]
    setup.until(lambda: setup.maps[-1].width == 9, "a larger map")
    assert graph.set_parameter(setup.process, "joints", ["joint1", "joint2"])[0]
    for name, value, message in (
        ("joints", ["joint1"], "two"),
        ("joints", ["joint1", "joint1"], "joint1"),
        ("joints", ["joint1", "elbow"], "elbow"),
        ("frame", "moon", "moon"),
        ("size", 1, ""),
        ("center", [0.0], "7"),
        ("component", "up", "up"),
    ):
        fine, reason = graph.set_parameter(setup.process, name, value)
        assert not fine and message in reason, (name, value, reason)
    assert setup.process.stop(signal.SIGTERM) == 0
    assert "Traceback" not in setup.process.output


@pytest.mark.slow
def test_bad_joint_states_do_no_harm_and_a_killed_node_starts_again(graph):
    setup = Bench(graph, {"size": 6})
    setup.until(lambda: setup.maps, "a map")
    broken = joint_state(setup.robot, np.full(7, np.nan), np.zeros(7), stamp=graph.now())
    graph.until(
        lambda: "count: not finite" in graph.values(setup.process),
        "the count",
        each=lambda: setup.joints.publish(broken),
    )
    assert all(np.isfinite(values).all() for values in points(setup.maps[-1]).values())
    assert setup.process.stop(signal.SIGKILL) == -signal.SIGKILL
    setup.maps.clear()
    setup.process = graph.start("ccf_node", parameters={"size": 7})
    setup.until(lambda: setup.maps and setup.maps[-1].width == 7, "a map again")


def test_the_example_for_subscribers_prints_a_mass_matrix(graph):
    robot = load("planar_3link")
    graph.start("dynamics_node")
    graph.describe(text("planar_3link"))
    joints = graph.joints()
    example = subprocess.Popen(
        [sys.executable, str(ROOT / "examples/subscribe_mass_matrix.py"), "--count", "1"],
        env={**os.environ, "ROS_DOMAIN_ID": str(graph.domain)},
        stdout=subprocess.PIPE,
        text=True,
    )
    graph.until(
        lambda: example.poll() is not None,
        "the end of the example",
        each=lambda: joints.publish(
            joint_state(robot, np.zeros(2), np.zeros(2), stamp=graph.now())
        ),
    )
    output = example.communicate()[0]
    assert example.returncode == 0
    assert output.startswith("mass_matrix in") and "joint2" in output
    assert f"{robot.mass_matrix(np.zeros(2))[0, 0]:9.3f}" in output
