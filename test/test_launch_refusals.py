# SPDX-License-Identifier: Apache-2.0
"""Launch files: what cannot be is refused before anything starts."""

import re

import pytest
from cases import text
from launch_cases import OWN
from launch_recorder import FILES, arguments_of, evaluate, packages

import vm_dynamics as vm
from vm_dynamics.ros.launching import MissingPackageError

pytestmark = pytest.mark.usefixtures("everything_installed")


def refused(name, arguments, error=vm.VmDynamicsError):
    """Message with which a launch file refuses arguments, before it has started anything."""
    started = []
    with pytest.raises(error) as caught:
        evaluate(name, arguments, started)
    assert not started, "launch would leave these running"
    return str(caught.value)


# A value of each argument that makes no sense, and what else must be asked for that it matters.
NO_FLAG, NO_TOPIC = "perhaps", "a b"
WRONG = {
    **dict.fromkeys(("dynamics", "observer", "compensator", "ccf", "identifier"), NO_FLAG),
    **dict.fromkeys(("rviz", "tf", "state_publisher", "autostart", "use_sim_time"), NO_FLAG),
    **dict.fromkeys(("require_enable", "viewer", "hold", "headless", "server"), NO_FLAG),
    **dict.fromkeys(("robot_description", "joint_states", "pose", "base_wrench"), NO_TOPIC),
    **dict.fromkeys(("target", "commands", "thrusts", "clock"), NO_TOPIC),
    **dict.fromkeys(("hydrodynamics", "propulsion", "params_file"), "/no/such.yaml"),
    **dict.fromkeys(("x", "y", "z"), "left"),
    "robot": "rover",
    "namespace": "a b",
    "base": "SE9",
    "gravity": "down",
    "controller": "magic",
    "resume": "never",
    "second_publisher": "cheer",
    "effort_scale": "2.0",
    "timeout": "3.0",
    "frame_prefix": "/a",
    "pose_type": "guess",
    "real_time_factor": "-1.0",
    "initial_pose": "[0, 0, 0]",
    "initial_twist": "[0, 0, 0]",
    "world": "mars",
    "control": "magic",
    "pose_rate": "often",
    "spawn_controllers": NO_FLAG,
    "controllers_file": "/no/such.yaml",
    "controller_manager": NO_TOPIC,
}
TOGETHER = {
    "controllers_file": {"spawn_controllers": "true", "control": "ros2_control"},
    "controller_manager": {"spawn_controllers": "true"},
}
ANY_TEXT = {"name", "world_frame"}


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_argument_is_refused_before_anything_starts(name):
    for argument in set(arguments_of(name)) - ANY_TEXT:
        wrong = {argument: WRONG[argument], **TOGETHER.get(argument, {})}
        message = refused(name, wrong)
        assert re.search(rf"\b{argument.replace('_', '[_.]')}\b", message), (argument, message)
        assert WRONG[argument].removesuffix(".0") in message, message


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("vm_dynamics", {"robot": "rover"}, "'rover'.*satellite_arm7"),
        ("vm_dynamics", {"state_publisher": "true"}, "state_publisher.*robot is empty"),
        ("vm_dynamics", {"controller": "magic"}, "'magic'.*auto, momentum, computed_torque"),
        ("vm_dynamics", {"pose": ""}, "pose.*empty"),
        ("sim", {"robot": "/no/such.urdf"}, "such.urdf.*satellite_arm7"),
        ("sim", {"robot": ""}, "robot ''.*satellite_arm7"),
        ("sim", {"use_sim_time": "false"}, "use_sim_time.*'false'.*simulation"),
        ("sim", {"initial_pose": "[0, 0, 0, 0, 0, 0, 0]"}, "quaternion.*length 0"),
        ("sim", {"gravity": "[0.0, 0.0]"}, "gravity.*3 numbers"),
        ("gazebo", {"robot": "rover"}, "'rover'.*satellite_arm7"),
        ("gazebo", {"world": "mars"}, "'mars'.*earth, zero_gravity"),
        ("gazebo", {"control": "magic"}, "'magic'.*force, ros2_control"),
        ("gazebo", {"pose_rate": "often"}, "pose_rate.*'often'.*1 number"),
        ("gazebo", {"state_publisher": "false"}, "state_publisher.*'false'.*Gazebo"),
        ("hardware", {"require_enable": "false"}, "require_enable.*'false'.*hardware"),
        ("hardware", {"use_sim_time": "true"}, "use_sim_time.*'true'.*hardware"),
    ],
)
def test_wrong_arguments_are_refused_with_their_reason(name, arguments, message):
    assert re.search(message, refused(name, arguments))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("<robot name='r'><link name='a'/>", "not well-formed"),
        ("<sdf/>", "robot"),
        ("<robot name='r'><link name='a'/><link name='b'/></robot>", "no parent"),
        (
            "<robot name='r'><link name='a'><inertial><mass value='-1'/>"
            "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial></link></robot>",
            "mass",
        ),
        (b"\x80\x81", "utf-8"),
    ],
    ids=["half", "no robot", "two roots", "negative mass", "no text"],
)
def test_a_robot_that_is_none_is_refused_before_anything_starts(tmp_path, name, content, reason):
    file = tmp_path / "robot.urdf"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert reason in refused(name, {"robot": str(file)}, vm.UrdfError)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("section", ["hydrodynamics", "propulsion"])
@pytest.mark.parametrize(
    "content", ["", "other: 1\n", "{section}: 3\n", "{section}: [", "{section}: {{links: 3}}\n"]
)
def test_a_file_without_its_section_is_refused_before_anything_starts(
    tmp_path, name, section, content
):
    file = tmp_path / "robot.yaml"
    file.write_text(content.format(section=section))
    message = refused(name, {"robot": OWN, section: str(file)})
    assert section in message or file.name in message


def test_a_broken_file_beside_the_robot_is_refused_before_anything_starts(tmp_path):
    file = tmp_path / "robot.urdf"
    file.write_text(text("rover_arm2"))
    file.with_suffix(".yaml").write_text("propulsion: [")
    assert "robot.yaml" in refused("sim", {"robot": str(file)})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("/**: [", "parameter file"),
        ("3\n", "ros__parameters"),
        ("/**/observer_node: {ros__parameters: {patience: 0}}", "patience"),
        ("/a/compensator_node: {ros__parameters: {controller: magic}}", "magic"),
        ("/**: {ros__parameters: {base: SE9}}", "SE9"),
        ("/**: {ros__parameters: {locked_joints: 3}}", "dynamics_node"),
        ("a: {ccf_node: {ros__parameters: {payload: {mass: -1.0}}}}", "payload.mass"),
    ],
)
def test_parameters_that_a_node_would_refuse_are_refused_before_anything_starts(
    tmp_path, content, reason
):
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    message = refused("vm_dynamics", {"params_file": str(file), "namespace": "a"})
    assert reason in message


def test_a_part_of_a_robot_is_judged_by_that_part_alone(tmp_path):
    robot, file = tmp_path / "robot.urdf", tmp_path / "mine.yaml"
    root = vm.load(text("planar_3link")).root_link
    joint = '<joint name="{}" type="continuous"><parent link="ship"/><child link="{}"/></joint>'
    carried = f'<link name="ship"/><link name="flag"/>{joint.format("mast", "flag")}'
    carried += f"{joint.format('crane', root)}</robot>"
    robot.write_text(text("planar_3link").replace("</robot>", carried))
    arguments = {"robot": str(robot), "params_file": str(file)}
    file.write_text("{}")
    assert "mast" in refused("vm_dynamics", arguments)
    file.write_text(f"/**: {{ros__parameters: {{root_link: {root}}}}}")
    assert len(evaluate("vm_dynamics", arguments).started) == 4


def test_a_robot_that_xacro_cannot_make_is_refused_before_anything_starts(tmp_path):
    pytest.importorskip("xacro")
    file = tmp_path / "robot.urdf.xacro"
    file.write_text(
        '<robot xmlns:xacro="http://ros.org/wiki/xacro" name="r"><link name="${no}"/></robot>'
    )
    assert "no" in refused("sim", {"robot": str(file)}, vm.UrdfError)


@pytest.mark.parametrize(
    ("name", "arguments", "missing"),
    [
        ("gazebo", {}, ["ros_gz_sim", "ros-$ROS_DISTRO-ros-gz-bridge", "robot_state_publisher"]),
        ("gazebo", {"control": "ros2_control"}, ["gz_ros2_control", "effort_controllers"]),
        ("sim", {"rviz": "true"}, ["rviz2"]),
        ("sim", {"tf": "true"}, ["robot_state_publisher"]),
        ("hardware", {"spawn_controllers": "true"}, ["controller_manager", "effort_controllers"]),
    ],
)
def test_packages_that_are_missing_are_named_before_anything_starts(
    monkeypatch, name, arguments, missing
):
    def not_there(package):
        raise packages.PackageNotFoundError(package)

    monkeypatch.setattr(packages, "get_package_prefix", not_there)
    message = refused(name, arguments, MissingPackageError)
    assert all(package in message for package in missing)


@pytest.mark.parametrize("name", ["vm_dynamics", "sim", "hardware"])
def test_without_gazebo_and_rviz_nothing_more_is_needed(monkeypatch, name):
    def not_there(package):
        raise packages.PackageNotFoundError(package)

    monkeypatch.setattr(packages, "get_package_prefix", not_there)
    assert {item.package for item in evaluate(name).started.values()} == {"vm_dynamics"}
