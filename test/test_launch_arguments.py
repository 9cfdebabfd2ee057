# SPDX-License-Identifier: Apache-2.0
"""Launch files: what arguments and parameter files come to, and that the pages have them."""

import re

import pytest
import rclpy
from cases import text
from launch_cases import FALL, NAMES, ours_with_robot
from launch_recorder import FILES, ROOT, arguments_of, evaluate, tables

import vm_dynamics as vm
from vm_dynamics.ros import launching

pytestmark = pytest.mark.usefixtures("everything_installed")


@pytest.mark.parametrize(
    ("robot", "water", "rotors"),
    [("satellite_arm7", 0, 0), ("auv_arm4", 1, 1), ("hexa_arm2", 0, 1), ("quad_arm1", 0, 1)],
)
def test_files_beside_the_urdf_are_found_by_themselves_and_can_be_left_out(robot, water, rotors):
    started = evaluate("sim", {"robot": robot, "gravity": FALL}).started
    assert ("hydrodynamics" in started["sim_node"].parameters) == bool(water)
    assert ("propulsion" in started["sim_node"].parameters) == bool(rotors)
    for item in (started["sim_node"], *ours_with_robot(started)):
        assert item.parameters["gravity"] == [0.0, 0.0, -9.81]
    without = evaluate("sim", {"robot": robot, "hydrodynamics": "none", "propulsion": "none"})
    for item in without.started.values():
        assert not {"hydrodynamics", "propulsion"} & set(item.parameters)


FLYING = {"robot": "hexa_arm2", "gravity": FALL}


@pytest.mark.parametrize(
    ("name", "arguments", "controller"),
    [
        ("sim", FLYING, "computed_torque"),
        ("sim", {"robot": "auv_arm4", "gravity": FALL}, "computed_torque"),
        ("hardware", FLYING, "computed_torque"),
        ("vm_dynamics", FLYING, "computed_torque"),
        ("sim", {"robot": "hexa_arm2"}, "momentum"),
        ("sim", {**FLYING, "propulsion": "none"}, "momentum"),
        ("sim", {"robot": "satellite_arm7", "gravity": FALL}, "momentum"),
        ("gazebo", {"robot": "hexa_arm2", "world": "earth"}, "momentum"),
        ("vm_dynamics", {}, "momentum"),
        ("sim", {**FLYING, "controller": "momentum"}, "momentum"),
        ("sim", {"controller": "reaction"}, "reaction"),
    ],
)
def test_who_has_rotors_and_weight_flies_unless_told_otherwise(name, arguments, controller):
    compensator = evaluate(name, arguments).started["compensator_node"]
    assert compensator.parameters["controller"] == controller


@pytest.mark.parametrize(
    ("content", "asked", "controller"),
    [
        ("gravity: [0.0, 0.0, -9.81]", "auto", "computed_torque"),
        ("controller: reaction, gravity: [0.0, 0.0, -9.81]", "auto", "reaction"),
        ("controller: reaction", "momentum", "momentum"),
        ("controller: reaction", "", "reaction"),
    ],
)
def test_the_parameter_file_has_a_say_in_the_controller(tmp_path, content, asked, controller):
    file = tmp_path / "mine.yaml"
    file.write_text(f"/**: {{ros__parameters: {{{content}}}}}")
    arguments = {"robot": "quad_arm1", "params_file": str(file), "controller": asked}
    compensator = evaluate("sim", arguments).started["compensator_node"]
    assert compensator.parameters["controller"] == controller


def test_arguments_go_before_the_parameter_file(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "/**:\n  ros__parameters: {gravity: [0.0, 0.0, -1.0], base: SE2}\n"
        "/**/compensator_node:\n  ros__parameters: {require_enable: false, law: 0}\n"
        "/observer_node:\n  ros__parameters: {pose: {type: transform}}\n"
    )
    started = evaluate("vm_dynamics", {"params_file": str(file), "base": "SE3"}).started
    compensator = started["compensator_node"].parameters
    assert compensator["require_enable"] is True and compensator["base"] == "SE3"
    assert compensator["gravity"] == [0.0, 0.0, -1.0] and compensator["law"] == 0
    assert started["observer_node"].parameters["pose.type"] == "transform"
    assert "law" not in started["observer_node"].parameters


@pytest.mark.parametrize("full_name", ["/observer_node", "/a/observer_node", "/a/b/ccf_node"])
def test_a_parameter_file_is_read_as_ros_reads_it(tmp_path, full_name):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "/**:\n  ros__parameters: {one: 1, two: 2.0, three: {x: a, y: [1.0, 2.0]}}\n"
        "observer_node:\n  ros__parameters: {one: 2, three.x: b}\n"
        "/*/observer_node:\n  ros__parameters: {two: 3.0}\n"
        "a:\n  observer_node:\n    ros__parameters: {four: true}\n"
        "  b:\n    ccf_node:\n      ros__parameters: {four: false}\n"
        "/**/ccf_node:\n  ros__parameters: {one: 5}\n"
        "/b/ccf_node:\n  ros__parameters: {one: 6}\n"
    )
    context = rclpy.Context()
    rclpy.init(args=["--ros-args", "--params-file", str(file)], context=context)
    space, _, name = full_name.rpartition("/")
    node = rclpy.node.Node(
        name,
        namespace=space,
        context=context,
        automatically_declare_parameters_from_overrides=True,
        start_parameter_services=False,
    )
    try:
        found = {key: p.value for key, p in node.get_parameters_by_prefix("").items()}
    finally:
        node.destroy_node()
        rclpy.shutdown(context=context)
    of_rclpy = {"use_sim_time", "start_type_description_service"}
    found = {k: list(v) if k == "three.y" else v for k, v in found.items() if k not in of_rclpy}
    assert launching.from_file(str(file), full_name) == found


@pytest.mark.parametrize("left_out", NAMES)
def test_each_node_can_be_left_out(left_out):
    for name in FILES:
        started = evaluate(name, {left_out: "false"}).started
        expected = {f"{n}_node" for n in NAMES if n != left_out}
        assert {n for n in started if n.removesuffix("_node") in NAMES} == expected


def test_a_robot_may_be_written_in_xacro(tmp_path):
    pytest.importorskip("xacro")
    file = tmp_path / "robot.urdf.xacro"
    file.write_text(
        text("rover_arm2").replace("<robot ", '<robot xmlns:xacro="http://ros.org/wiki/xacro" ')
    )
    started = evaluate("sim", {"robot": str(file)}).started
    built = vm.load(started["sim_node"].parameters["robot_description"])
    assert built.joint_names == vm.load(text("rover_arm2")).joint_names


# -- documentation ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_every_argument_is_described(name):
    found = arguments_of(name)
    assert set(arguments_of("vm_dynamics")) <= set(found), "those of the suite too"
    for key, (_, what) in found.items():
        assert len(what) > 5 and not what.endswith("."), key
        assert re.fullmatch(r"[a-z_]+", key)


def test_the_documentation_has_the_arguments_as_they_are():
    page = (ROOT / "docs/launch.md").read_text()
    assert page.endswith(f"\n\n{tables()}\n")


def test_every_command_of_the_documentation_is_one():
    page = (ROOT / "docs/launch.md").read_text()
    commands = re.findall(r"^ros2 launch vm_dynamics (\w+)\.launch\.py(.*?)(?:#.*)?$", page, re.M)
    assert {name for name, _ in commands} == set(FILES)
    for name, rest in commands:
        for key in re.findall(r"(\w+):=", rest):
            assert key in arguments_of(name), (name, key)
