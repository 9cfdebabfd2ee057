# SPDX-License-Identifier: Apache-2.0
"""Frames of links have the prefix that several robots in one tf need, in and out."""

import pytest
from cases import load, text
from geometry_msgs.msg import (
    PointStamped,
    PoseStamped,
    TwistStamped,
    TwistWithCovarianceStamped,
    WrenchStamped,
)
from nav_msgs.msg import Odometry
from ros_graph import Graph
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Float64MultiArray
from visualization_msgs.msg import Marker

from vm_dynamics.errors import ParameterError
from vm_dynamics.paths import robot_file
from vm_dynamics.ros.matrices import decode
from vm_dynamics.ros.node import COMMAND, LATCHED
from vm_dynamics.ros.parameters import ModelParameters

ROBOT = "hexa_arm2"
ROOT = "a/base_link"
# What is published in the frame of the root link, and how a message says so.
PUBLISHED = {
    "ground_truth/odom": (Odometry, lambda m: m.child_frame_id),
    "thruster_wrench": (WrenchStamped, lambda m: m.header.frame_id),
    "observer_node/odom": (Odometry, lambda m: m.child_frame_id),
    "observer_node/twist": (TwistWithCovarianceStamped, lambda m: m.header.frame_id),
    "observer_node/locked_velocity": (TwistStamped, lambda m: m.header.frame_id),
    "observer_node/momentum": (Float64MultiArray, lambda m: decode(m).frame),
    "dynamics_node/mass_matrix": (Float64MultiArray, lambda m: decode(m).frame),
    "dynamics_node/com": (PointStamped, lambda m: m.header.frame_id),
    "ccf_node/map": (PointCloud2, lambda m: m.header.frame_id),
    "ccf_node/gait": (Marker, lambda m: m.header.frame_id),
    "ccf_node/displacement": (PoseStamped, lambda m: m.header.frame_id),
}


@pytest.fixture
def graph(tmp_path):
    out = Graph(tmp_path)
    yield out
    out.close()


@pytest.mark.slow
def test_frames_of_links_have_the_prefix_in_and_out(graph):
    shared = {
        "robot_description": text(ROBOT),
        "frame_prefix": "a/",
        "diagnostics_rate": 10.0,
    }
    rotors = str(robot_file(ROBOT).with_suffix(".yaml"))
    simulation = graph.start("sim_node", parameters={**shared, "propulsion": rotors})
    # the truth as a pose, whose child frame is compared too
    observer = graph.start(
        "observer_node",
        parameters={**shared, "pose.type": "odometry", "world_frame": "world"},
        arguments=["-r", "pose:=ground_truth/odom"],
    )
    graph.start("dynamics_node", parameters=shared)
    graph.start("ccf_node", parameters=shared)
    heard = {
        topic: graph.collect(kind, topic, LATCHED if topic.startswith("ccf") else COMMAND)
        for topic, (kind, _) in PUBLISHED.items()
    }
    graph.until(lambda: all(heard.values()), "all topics")
    for topic, (_, frame_of) in PUBLISHED.items():
        assert frame_of(heard[topic][-1]) == ROOT, topic
    assert heard["observer_node/odom"][-1].header.frame_id == "world"

    pushes = graph.node.create_publisher(WrenchStamped, "base_wrench", COMMAND)
    graph.until(lambda: pushes.get_subscription_count() == 2, "simulation and observer")

    def refused(process):
        return int(graph.values(process).get("count: bad base_wrench", 0))

    def push(frame):
        message = WrenchStamped()
        message.header.stamp = heard["ground_truth/odom"][-1].header.stamp
        message.header.frame_id = frame
        pushes.publish(message)
        graph.spin(0.02)

    assert load(ROBOT).link_frame("rotor1").body == 0
    expected = {simulation: 0, observer: 0}
    for frame, by_simulation, by_observer in (
        ("", False, False),
        (ROOT, False, False),
        ("a/rotor1", True, False),
        ("base_link", True, True),
        ("b/base_link", True, True),
    ):
        push(frame)
        push(frame)
        push("nobody")  # once this is counted, so are those before it
        expected[simulation] += 1 + 2 * by_simulation
        expected[observer] += 1 + 2 * by_observer
        graph.until(
            lambda: all(refused(process) == count for process, count in expected.items()),
            f"the right answer to a push in {frame!r}",
        )


def test_a_pose_that_names_no_frame_is_in_the_world(graph):
    start = {"robot_description": text("planar_3link"), "diagnostics_rate": 10.0}
    graph.start("sim_node", parameters={**start, "world_frame": ""})
    observer = graph.start("observer_node", parameters={**start, "world_frame": "map"})
    odom = graph.collect(Odometry, "observer_node/odom", COMMAND)
    graph.until(lambda: odom, "odometry")
    assert odom[-1].header.frame_id == "map"
    assert "count: bad pose" not in graph.values(observer)


def test_a_prefix_that_tf_or_a_label_would_not_take_is_refused():
    for prefix in ("/a", "a;", "a,b/", "a="):
        with pytest.raises(ParameterError, match="frame_prefix"):
            ModelParameters(frame_prefix=prefix)
    parameters = ModelParameters(frame_prefix="a/")
    assert parameters.link_of(parameters.frame_of("tool")) == "tool"
    with pytest.raises(ParameterError, match="'tool'.*'a/'"):
        parameters.link_of("tool")
