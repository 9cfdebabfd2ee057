# SPDX-License-Identifier: Apache-2.0
"""Launch files: every node is there, takes what it is given, and hears the others."""

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from cases import text
from launch_cases import FALL, NAMES, OWN, ours_with_robot
from launch_recorder import FILES, ROOT, evaluate

from vm_dynamics.paths import config_dir, robot_file
from vm_dynamics.ros import gazebo, reference
from vm_dynamics.ros.sim_node import SimParameters

pytestmark = pytest.mark.usefixtures("everything_installed")

PARAMETERS = reference.NODES
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
    for topic in ("locked_velocity", "odom", "contact"):
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
