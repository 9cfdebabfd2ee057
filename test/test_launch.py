# SPDX-License-Identifier: Apache-2.0
"""Launch files: what they start is there, fits together, and runs."""

import ast
import re
import tempfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import rclpy
import yaml
from cases import SHIPPED, text
from launch_recorder import FILES, ROOT, arguments_of, evaluate, packages, tables

import vm_dynamics as vm
from vm_dynamics.paths import config_dir, robot_file, robot_parameters
from vm_dynamics.ros import gazebo, launching, reference
from vm_dynamics.ros.launching import MissingPackageError
from vm_dynamics.ros.sim_node import SimParameters

FALL = "[0.0, 0.0, -9.81]"
OWN = str(robot_file("rover_arm2"))
PARAMETERS = reference.NODES
NAMES = ("dynamics", "observer", "compensator", "ccf")
CASES = [
    ("vm_dynamics", {}),
    ("vm_dynamics", {"robot": "satellite_arm7", "namespace": "a", "base": "SE3"}),
    ("vm_dynamics", {"robot": "auv_arm4", "gravity": FALL, "pose_type": "odometry"}),
    ("vm_dynamics", {"robot": OWN, "hydrodynamics": "none", "effort_scale": "0.5"}),
    ("vm_dynamics", {"rviz": "true", "namespace": "/a/b", "use_sim_time": "true"}),
    ("vm_dynamics", {f"{name}": "false" for name in NAMES}),
    ("sim", {}),
    ("sim", {"robot": "hexa_arm2", "gravity": FALL, "namespace": "a", "clock": "/a/clock"}),
    ("sim", {"robot": "auv_arm4", "gravity": FALL, "hold": "true", "viewer": "true"}),
    ("sim", {"robot": OWN, "base": "SE2", "rviz": "true", "real_time_factor": "0.5"}),
    ("sim", {"initial_twist": "[0, 0, 0, 0, 0, 0.17]", "initial_pose": "[0,0,1,0,0,0,1]"}),
    ("sim", {"rviz": "true", "namespace": "a", "frame_prefix": "a/", "world_frame": "map"}),
    ("sim", {"controller": "reaction", "resume": "at_once", "second_publisher": "stop"}),
    ("gazebo", {}),
    ("gazebo", {"world": "earth", "headless": "true", "robot": "hexa_arm2", "rviz": "true"}),
    ("gazebo", {"control": "ros2_control", "robot": OWN, "namespace": "a"}),
    ("gazebo", {"server": "false", "name": "second", "namespace": "b", "x": "3.0"}),
    ("hardware", {}),
    ("hardware", {"robot": OWN, "spawn_controllers": "true", "namespace": "a"}),
    ("hardware", {"pose": "/mocap/pose", "pose_type": "pose_with_covariance"}),
    ("hardware", {"robot": OWN, "rviz": "true", "state_publisher": "true", "world_frame": ""}),
]
IDS = [f"{name}-{'-'.join(arguments) or 'defaults'}" for name, arguments in CASES]
each_case = pytest.mark.parametrize(("name", "arguments"), CASES, ids=IDS)


@pytest.fixture(autouse=True)
def everything_installed(monkeypatch, tmp_path):
    """All packages are there; that of Gazebo has a launch file which starts nothing."""
    folder = tmp_path / "share" / "launch"
    folder.mkdir(parents=True)
    (folder / "gz_sim.launch.py").write_text(
        "from launch import LaunchDescription\n"
        "def generate_launch_description():\n    return LaunchDescription([])\n"
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # what is generated goes there
    monkeypatch.setattr(packages, "get_package_prefix", lambda name: str(tmp_path))
    monkeypatch.setattr(
        packages, "get_package_share_directory", lambda name: str(tmp_path / "share")
    )


# -- every node ---------------------------------------------------------------------------------


def nodes_in_setup():
    tree = ast.parse((ROOT / "setup.py").read_text())
    for item in tree.body:
        if isinstance(item, ast.Assign) and item.targets[0].id == "NODES":
            return ast.literal_eval(item.value)
    raise AssertionError("setup.py: no NODES")


def ours(launch):
    return [item for item in launch.started.values() if item.package == "vm_dynamics"]


@each_case
def test_every_executable_is_an_entry_point(name, arguments):
    for item in ours(evaluate(name, arguments)):
        assert item.executable in nodes_in_setup()
        assert (ROOT / f"vm_dynamics/ros/{item.executable}.py").exists()


def declared(kind):
    """Parameters that a class declares: name to type, a list of types for an array."""
    out = {"use_sim_time": bool}
    for item in fields(kind):
        default = item.default
        kinds = [item.metadata["of"]] if isinstance(default, tuple) else type(default)
        out[kind.ros_name(item.name)] = kinds
    return out


def fits(value, kind):
    """Whether ROS takes a value for a parameter: it makes no float of an int."""
    if isinstance(kind, list):
        return isinstance(value, list) and all(type(item) is kind[0] for item in value)
    return type(value) is kind


@each_case
def test_every_parameter_is_declared_by_its_node_and_of_its_type(name, arguments):
    for item in ours(evaluate(name, arguments)):
        known = declared(PARAMETERS[item.executable])
        for layer in item.layers:
            for node, content in layer.items():
                owner = PARAMETERS[node.rpartition("/")[2]] if node != "/**" else None
                for key, value in content["ros__parameters"].items():
                    # what is for all nodes must be for one of them
                    kinds = [declared(owner)] if owner else map(declared, PARAMETERS.values())
                    assert any(key in k and fits(value, k[key]) for k in kinds), (node, key, value)
        for key, value in item.parameters.items():
            if key in known:
                assert fits(value, known[key]), (item.executable, key, value)
        built = {k: tuple(v) if isinstance(v, list) else v for k, v in item.parameters.items()}
        kind = PARAMETERS[item.executable]
        kind(
            **{
                f.name: built[kind.ros_name(f.name)]
                for f in fields(kind)
                if kind.ros_name(f.name) in built
            }
        )  # raises what is out of range


def topics_of(executable):
    """Topics and services of a node."""
    return {"/clock", *(topic.name for topic in reference.TOPICS[executable])}


@each_case
def test_every_remapping_is_of_a_topic_that_the_node_has(name, arguments):
    for item in ours(evaluate(name, arguments)):
        unknown = set(item.remappings) - topics_of(item.executable)
        assert not unknown, (item.executable, unknown)


@each_case
def test_every_file_that_is_named_exists(name, arguments):
    launch = evaluate(name, arguments)
    for item in launch.started.values():
        values = [*item.files, *item.arguments]
        values += [v for v in item.parameters.values() if isinstance(v, str) and "\n" not in v]
        for value in values:
            if re.fullmatch(r"/.*\.\w+", value):
                assert Path(value).is_file(), (item.executable, value)
    if "gz_args" in launch.configuration:
        assert Path(launch.configuration["gz_args"].split()[-1]).is_file()


@each_case
def test_all_is_in_the_namespace(name, arguments):
    space = "/" + arguments.get("namespace", "").strip("/")
    for item in evaluate(name, arguments).started.values():
        assert item.full_name.rpartition("/")[0] == space.rstrip("/"), item.full_name


# -- how they fit together ----------------------------------------------------------------------


@each_case
def test_the_suite_is_wired_to_itself(name, arguments):
    started = evaluate(name, arguments).started
    if "observer_node" not in started:
        return
    observer, compensator = started["observer_node"], started["compensator_node"]
    dynamics = started["dynamics_node"]
    for topic in ("locked_velocity", "odom"):
        assert compensator.topic(topic) == observer.topic(f"~/{topic}")
    assert dynamics.topic("base_twist") == observer.topic("~/twist")
    assert len({item.topic("joint_states") for item in ours_with_robot(started)}) == 1
    assert len({item.topic("robot_description") for item in ours_with_robot(started)}) == 1
    if "odom_tf_node" in started:
        assert started["odom_tf_node"].topic("odom") == observer.topic("~/odom")
        assert started["odom_tf_node"].topic("/tf") == started["rviz2"].topic("/tf")
    assert ("odom_tf_node" in started) == ("rviz2" in started)
    if "robot_state_publisher" in started and "rviz2" in started:
        for topic in ("/tf", "/tf_static", "robot_description"):
            there = started["robot_state_publisher"].topic(topic)
            assert there == started["rviz2"].topic(topic)


def ours_with_robot(started):
    return [started[f"{name}_node"] for name in NAMES if f"{name}_node" in started]


@pytest.mark.parametrize("space", ["", "a"])
def test_the_simulated_robot_and_the_suite_hear_each_other(space):
    arguments = {"namespace": space, "clock": f"/{space}/clock", "rviz": "true"} if space else {}
    started = evaluate("sim", {**arguments, "robot": "auv_arm4"}).started
    sim, observer = started["sim_node"], started["observer_node"]
    compensator = started["compensator_node"]
    assert sim.topic("commands") == compensator.topic("~/commands")
    assert sim.topic("thrusts") == compensator.topic("~/thrusts")
    assert sim.topic("joint_states") == observer.topic("joint_states")
    assert sim.topic("pose") == observer.topic("pose")
    assert sim.topic("thruster_wrench") == observer.topic("base_wrench")
    assert sim.topic("base_wrench") != sim.topic("thruster_wrench"), "a push from outside"
    assert {item.topic("/clock") for item in started.values()} == {
        f"/{space}/clock".replace("//", "/")
    }
    assert sim.parameters["use_sim_time"] is False
    assert all(n.parameters["use_sim_time"] for k, n in started.items() if k != "sim_node")
    # one text for all: another one would stop the torques
    texts = {
        n.parameters["robot_description"]
        for n in started.values()
        if "robot_description" in n.parameters
    }
    assert texts == {text("auv_arm4")}
    water = str(robot_file("auv_arm4").with_suffix(".yaml"))
    for item in (sim, *ours_with_robot(started)):
        assert item.parameters["hydrodynamics"] == water
    assert sim.parameters["propulsion"] == compensator.parameters["propulsion"] == water


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


def test_on_hardware_torques_come_back_only_when_asked_for_and_two_publishers_stop_them():
    expected = {
        "hardware": ("enable", "stop"),
        "sim": ("at_once", "warn"),
        "gazebo": ("at_once", "warn"),
        "vm_dynamics": (None, None),  # left to the parameter file
    }
    for name, (resume, second) in expected.items():
        found = evaluate(name).started["compensator_node"].parameters
        assert (found.get("resume"), found.get("second_publisher")) == (resume, second)
        asked = {"resume": "at_once", "second_publisher": "warn"}
        found = evaluate(name, asked).started["compensator_node"].parameters
        assert asked.items() <= found.items()


@pytest.mark.parametrize("name", ["sim", "gazebo"])
def test_a_prefix_lets_two_robots_share_one_tf(name):
    arguments = {"rviz": "true", "namespace": "a"}
    alone = evaluate(name, arguments).started
    shared = evaluate(name, {**arguments, "frame_prefix": "a/"}).started
    for executable, item in shared.items():
        declares = "frame_prefix" in declared(PARAMETERS.get(executable, reference.NodeParameters))
        if declares or executable == "robot_state_publisher":
            assert item.parameters["frame_prefix"] == "a/", executable
    for executable in ("rviz2", "odom_tf_node", "robot_state_publisher"):
        assert alone[executable].topic("/tf") == "/a/tf"
        assert shared[executable].topic("/tf") == "/tf"
    shown = yaml.safe_load(Path(shared["rviz2"].arguments[1]).read_text())
    models = [d for d in shown["Visualization Manager"]["Displays"] if "TF Prefix" in d]
    assert [d["TF Prefix"] for d in models] == ["a"], "RViz adds the slash"
    if name == "gazebo":
        tagged = shared["robot_state_publisher"].parameters["robot_description"]
        assert "<robot_base_frame>a/base_link</robot_base_frame>" in tagged


@pytest.mark.parametrize(
    ("name", "arguments", "there"),
    [
        ("sim", {}, False),
        ("sim", {"tf": "true"}, True),
        ("sim", {"rviz": "true"}, True),
        ("sim", {"rviz": "true", "state_publisher": "false"}, False),
        ("sim", {"state_publisher": "true"}, True),
        ("gazebo", {}, True),
        ("gazebo", {"rviz": "true"}, True),
        ("hardware", {"robot": OWN, "rviz": "true"}, False),
        ("hardware", {"robot": OWN, "state_publisher": "true"}, True),
        ("vm_dynamics", {"robot": OWN, "tf": "true"}, True),
        ("vm_dynamics", {"tf": "true"}, False),
    ],
)
def test_the_links_are_on_tf_where_the_base_is_unless_others_see_to_it(name, arguments, there):
    started = evaluate(name, arguments).started
    assert ("robot_state_publisher" in started) == there
    if there:
        publisher, observer = started["robot_state_publisher"], started["observer_node"]
        assert publisher.topic("joint_states") == observer.topic("joint_states")
        assert publisher.parameters["use_sim_time"] == observer.parameters["use_sim_time"]


@pytest.mark.parametrize("name", FILES)
def test_poses_and_rviz_have_one_world_frame(name):
    for asked, frame in (({}, "world"), ({"world_frame": "map"}, "map")):
        started = evaluate(name, {**asked, "rviz": "true"}).started
        for executable in {"observer_node", "sim_node"} & set(started):
            assert started[executable].parameters["world_frame"] == frame
        assert started["rviz2"].arguments[2:] == ["-f", frame]
        if name == "gazebo":
            tagged = started["robot_state_publisher"].parameters["robot_description"]
            assert f"<odom_frame>{frame}</odom_frame>" in tagged
    started = evaluate(name, {"world_frame": "", "rviz": "true"}).started
    assert not any("world_frame" in item.parameters for item in started.values())
    assert len(started["rviz2"].arguments) == 2


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


@pytest.mark.parametrize("space", ["", "a"])
def test_hardware_is_safe_and_on_the_topics_of_ros2_control(space):
    started = evaluate("hardware", {"namespace": space, "spawn_controllers": "true"}).started
    prefix = f"/{space}" if space else ""
    compensator = started["compensator_node"]
    assert compensator.parameters["require_enable"] is True
    assert compensator.parameters["effort_scale"] == 0.1
    assert compensator.topic("~/commands") == f"{prefix}/effort_controller/commands"
    assert compensator.topic("joint_states") == f"{prefix}/joint_states"
    assert not any(item.parameters["use_sim_time"] for item in ours_with_robot(started))
    assert all("robot_description" not in n.parameters for n in ours_with_robot(started))
    spawner = started["spawner"].arguments
    assert spawner[:4] == [
        "joint_state_broadcaster",
        "effort_controller",
        "--controller-manager",
        f"{prefix}/controller_manager",
    ]
    assert spawner[4:] == ["--param-file", str(config_dir() / "controllers.yaml")]
    assert "spawner" not in evaluate("hardware").started


def test_torques_wait_to_be_enabled_unless_simulated():
    assert evaluate("vm_dynamics").started["compensator_node"].parameters["require_enable"] is True
    for name in ("sim", "gazebo"):
        for value in (False, True):
            asked = {} if not value else {"require_enable": "true"}
            started = evaluate(name, asked).started
            assert started["compensator_node"].parameters["require_enable"] is value


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


# -- what cannot be -----------------------------------------------------------------------------


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
    **dict.fromkeys(("dynamics", "observer", "compensator", "ccf"), NO_FLAG),
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


def test_rviz_shows_what_the_nodes_publish():
    shown = yaml.safe_load((config_dir() / "rviz/vm_dynamics.rviz").read_text())
    manager = shown["Visualization Manager"]
    assert manager["Global Options"]["Fixed Frame"] == gazebo.WORLD_FRAME
    assert SimParameters().world_frame == gazebo.WORLD_FRAME
    started = evaluate("sim", {"rviz": "true"}).started
    published = {"/robot_description"}
    for item in ours(evaluate("sim")):
        published |= {item.topic(topic) for topic in topics_of(item.executable)}
    kinds = set()
    for display in manager["Displays"]:
        kinds.add(display["Class"].removeprefix("rviz_default_plugins/"))
        topic = display.get("Topic", display.get("Description Topic"))
        if topic:
            assert started["rviz2"].topic(topic["Value"]) in published, topic
    assert {"RobotModel", "TF", "Odometry", "PointCloud2", "Marker"} <= kinds
    assert started["rviz2"].arguments[:2] == ["-d", str(config_dir() / "rviz/vm_dynamics.rviz")]


# -- and it runs --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("robot", SHIPPED)
def test_every_robot_comes_to_torque_and_a_driven_one_stays_where_it_is(tmp_path, robot):
    from nav_msgs.msg import Odometry
    from ros_graph import Graph
    from std_msgs.msg import Float64MultiArray

    from vm_dynamics.ros.node import COMMAND

    driven = robot_parameters(robot_file(robot), "propulsion") is not None
    arguments = {"robot": robot, "dynamics": "false", **({"gravity": FALL} if driven else {})}
    if driven:  # a flight on a machine that runs other tests too
        arguments["real_time_factor"] = "0.5"
    launch = evaluate("sim", arguments)
    graph = Graph(tmp_path)
    try:
        for item in launch.started.values():
            graph.start(item.executable, arguments=item.ros_arguments(tmp_path))
        outputs = [graph.collect(Float64MultiArray, "compensator_node/commands", COMMAND)]
        if driven:
            outputs.append(graph.collect(Float64MultiArray, "compensator_node/thrusts", COMMAND))
        true = graph.collect(Odometry, "ground_truth/odom", COMMAND)
        graph.until(lambda: all(out and np.any(out[-1].data) for out in outputs), "torque")
        graph.until(lambda: true, "the truth")
        if driven:
            begin = true[-1].header.stamp.sec
            graph.until(lambda: true[-1].header.stamp.sec > begin + 4, "seconds of flight")
            place = true[-1].pose.pose.position
            off = np.linalg.norm([place.x, place.y, place.z])
            logs = "\n".join(process.output for process in graph.processes)
            assert off < 1.0, f"4 s of free fall are 78 m\n{logs}"
        nodes = {f"/{name}" for name in launch.started}
        graph.until(
            lambda: all(
                graph.diagnostics.get(n, ("", "", {}))[2].get("state") == "active" for n in nodes
            ),
            "nodes that are all active",
        )
        assert all(process.process.poll() is None for process in graph.processes)
    finally:
        graph.close()


def test_what_the_simulation_starts_runs_in_a_namespace(tmp_path):
    from nav_msgs.msg import Odometry
    from ros_graph import Graph
    from std_msgs.msg import Float64MultiArray

    from vm_dynamics.ros.node import COMMAND

    graph = Graph(tmp_path)
    try:
        launch = evaluate(
            "sim",
            {
                "robot": "planar_3link",
                "namespace": "robot1",
                "clock": "/robot1/clock",
                "initial_twist": "[0.0, 0.0, 0.0, 0.0, 0.0, 0.1]",
            },
        )
        for item in launch.started.values():
            graph.start(
                item.executable,
                arguments=item.ros_arguments(tmp_path),
            )
        commands = graph.collect(Float64MultiArray, "/robot1/compensator_node/commands", COMMAND)
        seen = graph.collect(Odometry, "/robot1/observer_node/odom", COMMAND)
        true = graph.collect(Odometry, "/robot1/ground_truth/odom", COMMAND)
        graph.until(lambda: commands and np.any(commands[-1].data), "torque", patience=60.0)
        turning = 0.1

        def observed():
            return seen and true and abs(seen[-1].twist.twist.angular.z - turning) < 0.05

        graph.until(observed, "an estimate of the turning base", patience=60.0)
        assert abs(true[-1].twist.twist.angular.z) > 0.01
        fine = {f"/robot1/{name}" for name in launch.started}
        graph.until(lambda: fine <= set(graph.diagnostics), "diagnostics of all nodes")
        assert not [name for name in graph.diagnostics if name not in fine]
        for process in graph.processes:
            assert process.stop() == 0, process.output
            assert "Traceback" not in process.output
    finally:
        graph.close()
