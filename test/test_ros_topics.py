# SPDX-License-Identifier: Apache-2.0
"""The topics and services that the running nodes have are those of the reference."""

from contextlib import suppress

import pytest
from cases import text
from rclpy._rclpy_pybind11 import NodeNameNonExistentError
from ros_graph import Graph

from vm_dynamics.paths import robot_file
from vm_dynamics.ros import reference

SATELLITE = {"robot_description": text("satellite_arm7")}
FLIES = {
    "robot_description": text("hexa_arm2"),
    "gravity": [0.0, 0.0, -9.81],
    "propulsion": str(robot_file("hexa_arm2").with_suffix(".yaml")),
    "controller": "computed_torque",
    "gains.stiffness_of": ["x=0", "y=0"],
    "gains.damping_of": ["x=0", "y=0"],
}
# What each node is started with, so that every topic is there at least once.
STARTS = {
    "dynamics_node": [{}, SATELLITE],
    "observer_node": [
        {},
        {"pose.type": "pose_with_covariance"},
        {"pose.type": "transform"},
        {**SATELLITE, "pose.type": "odometry", "imu.link": "base_link", "velocity_axes": "body"},
    ],
    "compensator_node": [
        {},
        SATELLITE,
        {**SATELLITE, "target_type": "joint_state"},
        {**SATELLITE, "controller": "reaction", "on_contact": "hold"},
        FLIES,
    ],
    "ccf_node": [{}],
    "identifier_node": [
        {},
        {"pose.type": "pose_with_covariance"},
        {"pose.type": "transform"},
        {"pose.type": "odometry"},
    ],
    "sim_node": [{"joint_rate": 20.0}, {"joint_rate": 20.0, "most_lead": 0.1}],
    "joint_force_node": [{"joints": ["a", "b"]}],
}
# Of rclpy and of all nodes.
ALWAYS = {"/clock", "/rosout", "/parameter_events", "/diagnostics"}


def entities(graph, process):
    """Topics and services of a node as (way, name, type)."""
    node, own = graph.node, process.full_name
    name = process.name
    found = set()
    for way, ask in (
        ("in", node.get_subscriber_names_and_types_by_node),
        ("out", node.get_publisher_names_and_types_by_node),
        ("service", node.get_service_names_and_types_by_node),
    ):
        for topic, kinds in ask(name, "/"):
            short = topic.replace(own, "~", 1) if topic.startswith(f"{own}/") else topic[1:]
            kind = kinds[0].replace("/msg/", "/").replace("/srv/", "/")
            found.add((way, topic if topic in ALWAYS else short, kind))
    return found


def is_own(way, name, kind):
    """Whether it is the node's, not one that every node has."""
    parameters = kind.startswith(("rcl_interfaces/", "lifecycle_msgs/", "type_description"))
    clock = name == "/clock" and way == "in"
    action = "/_action/" in name  # where control_msgs is installed
    return not parameters and not clock and not action and (name not in ALWAYS or name == "/clock")


def listed(node):
    out = set()
    for topic in reference.TOPICS[node]:
        if topic.way == "action":
            continue
        names = [topic.name]
        if "<name>" in topic.name:
            names = [topic.name.replace("<name>", joint) for joint in ("a", "b")]
        out |= {(topic.way, name, kind) for name in names for kind in topic.kinds}
    return out


def running(folder, node, parameters):
    """Own topics and services of a node that was started with some parameters."""
    graph = Graph(folder)
    try:
        process = graph.start(node, parameters=parameters)
        graph.until(lambda: ": active" in process.output, "an active node")
        history = [set(), set()]

        def settled():
            with suppress(NodeNameNonExistentError):  # not discovered yet
                history.append(entities(graph, process))
            graph.spin(0.5)
            return len(history[-1]) > 8 and history[-1] == history[-2]

        graph.until(settled, "all topics")
        return {entry for entry in history[-1] if is_own(*entry)}
    finally:
        graph.close()


@pytest.mark.slow
@pytest.mark.parametrize("node", STARTS)
def test_a_node_has_the_topics_that_are_listed_for_it_and_no_others(tmp_path, node):
    seen = set().union(*(running(tmp_path, node, p) for p in STARTS[node]))
    assert seen == listed(node)


def test_every_node_is_listed():
    assert set(reference.TOPICS) == set(reference.NODES)
    # it needs tf2_msgs, which comes with a ROS installation only
    assert set(STARTS) == set(reference.NODES) - {"odom_tf_node"}
