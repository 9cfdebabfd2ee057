# SPDX-License-Identifier: Apache-2.0
"""The launch file for Gazebo: its topics are the suite's, its gravity that of its world."""

import re
from pathlib import Path

import pytest
import yaml
from cases import SHIPPED, text
from launch_cases import ours_with_robot
from launch_recorder import evaluate

import vm_dynamics as vm
from vm_dynamics.paths import config_dir
from vm_dynamics.ros import gazebo

pytestmark = pytest.mark.usefixtures("everything_installed")


@pytest.mark.parametrize("robot", SHIPPED)
@pytest.mark.parametrize("control", gazebo.CONTROLS)
@pytest.mark.filterwarnings("ignore::vm_dynamics.UrdfWarning")
def test_gazebo_and_the_suite_hear_each_other(robot, control):
    arguments = {"robot": robot, "control": control, "namespace": "a", "name": "m"}
    launch = evaluate("gazebo", arguments)
    started, compensator = launch.started, launch.started["compensator_node"]
    bridge = started["parameter_bridge"]
    entries = yaml.safe_load(Path(bridge.parameters["config_file"]).read_text())
    assert entries == gazebo.bridge(text(robot), control=control, name="m")
    ros = {bridge.topic(item["ros_topic_name"]): item for item in entries}
    assert ros[started["observer_node"].topic("pose")]["gz_type_name"] == "gz.msgs.Odometry"
    assert started["observer_node"].parameters["pose.type"] == "odometry"
    tagged = started["robot_state_publisher"].parameters["robot_description"]
    assert "/model/m/odometry" in tagged
    create = started["create"]
    spawned = dict(zip(create.arguments[::2], create.arguments[1::2], strict=True))
    assert spawned["-name"] == "m"
    publisher = started["robot_state_publisher"]
    assert create.topic(spawned["-topic"]) == publisher.topic("robot_description")
    joints = list(vm.load(text(robot)).joint_names)
    if control == "force":
        force = started["joint_force_node"]
        assert force.topic("commands") == compensator.topic("~/commands")
        assert force.parameters["joints"] == joints
        assert ros[compensator.topic("joint_states")]["gz_type_name"] == "gz.msgs.Model"
        for joint in joints:
            topic = force.topic(gazebo.force_topic(joint))
            assert ros[topic]["gz_topic_name"] == f"/model/m/joint/{joint}/cmd_force"
        assert "spawner" not in started
        return
    assert compensator.topic("~/commands") == "/a/effort_controller/commands"
    path = re.search(r"<parameters>(.*)</parameters>", tagged)[1]
    manager = yaml.safe_load(Path(path).read_text())
    assert manager["/a/effort_controller"]["ros__parameters"]["joints"] == joints
    assert started["spawner"].arguments[:2] == ["joint_state_broadcaster", "effort_controller"]
    assert started["spawner"].arguments[-1] == "/a/controller_manager"
    assert "joint_force_node" not in started


@pytest.mark.parametrize(
    ("arguments", "gravity", "gz"),
    [
        ({}, [0.0, 0.0, 0.0], "-r "),
        ({"world": "earth", "headless": "true"}, [0.0, 0.0, -9.81], "-r -s "),
        ({"world": "earth", "gravity": "[0.0, 0.0, -9.8]"}, [0.0, 0.0, -9.8], "-r "),
    ],
)
def test_gazebo_has_the_gravity_of_its_world(arguments, gravity, gz):
    launch = evaluate("gazebo", arguments)
    for item in ours_with_robot(launch.started):
        assert item.parameters["gravity"] == gravity
        assert "hydrodynamics" not in item.parameters
    world = config_dir() / "worlds" / f"{arguments.get('world', 'zero_gravity')}.sdf"
    assert launch.configuration["gz_args"] == f"{gz}{world}"


def test_a_second_robot_comes_into_a_gazebo_that_runs():
    launch = evaluate("gazebo", {"server": "false", "namespace": "b", "name": "second"})
    assert "gz_args" not in launch.configuration
    bridge = launch.started["parameter_bridge"]
    entries = yaml.safe_load(Path(bridge.parameters["config_file"]).read_text())
    assert "/clock" not in [item["ros_topic_name"] for item in entries]
    first = evaluate("gazebo", {"namespace": "a", "name": "first"})
    for a, b in zip(first.started.values(), launch.started.values(), strict=True):
        assert a.full_name != b.full_name
    gz = [
        yaml.safe_load(Path(x.started["parameter_bridge"].parameters["config_file"]).read_text())
        for x in (first, launch)
    ]
    names = [{e["gz_topic_name"] for e in entries} - {"/clock"} for entries in gz]
    assert not names[0] & names[1]
