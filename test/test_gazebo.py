# SPDX-License-Identifier: Apache-2.0
"""The robots for Gazebo: tags of their URDFs, the bridge to ROS, the worlds."""

import re
import shutil
import subprocess
import warnings
from xml.dom.minidom import parseString
from xml.etree import ElementTree

import pytest
import yaml
from cases import SHIPPED, text
from launch_recorder import ROOT
from urdf_parser_py.urdf import URDF
from urdf_text import joint, link, pair, robot

import vm_dynamics as vm
from vm_dynamics.ros import gazebo

WORLDS = sorted((ROOT / "config/worlds").glob("*.sdf"))
LIBRARY = re.compile(r"gz-sim-([a-z-]+)-system")


@pytest.fixture(autouse=True)
def quiet():
    """Mimic joints are warned of in a test of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vm.UrdfWarning)
        yield


def tagged(name, control="force", **options):
    if control == "ros2_control":
        options.setdefault("controllers", "/controllers.yaml")
    return ElementTree.fromstring(gazebo.with_plugins(text(name), control=control, **options))


def plugins(root):
    """Plugins of a robot: library to elements."""
    out = {}
    for plugin in root.iterfind("gazebo/plugin"):
        out.setdefault(plugin.get("filename"), []).append(plugin)
    return out


def only(root, library):
    (plugin,) = plugins(root)[library]
    return plugin


@pytest.mark.parametrize("control", gazebo.CONTROLS)
@pytest.mark.parametrize("name", SHIPPED)
def test_a_robot_with_tags_is_the_same_robot(name, control):
    with_tags = gazebo.with_plugins(text(name), control=control, controllers="/x.yaml")
    plain, same = vm.load(text(name)), vm.load(with_tags)
    assert same.joint_names == plain.joint_names and same.link_names == plain.link_names
    assert same.total_mass == plain.total_mass
    q = [0.1] * plain.n
    free = vm.load(text(name), base="SE3")  # Gazebo knows no other base
    assert (same.mass_matrix(q) == free.mass_matrix(q)).all()
    assert URDF.from_xml_string(with_tags.encode()).name == plain.name


@pytest.mark.parametrize("control", gazebo.CONTROLS)
@pytest.mark.parametrize("name", SHIPPED)
def test_xacro_leaves_the_tags_as_they_are(name, control):
    xacro = pytest.importorskip("xacro")
    before = gazebo.with_plugins(text(name), control=control, controllers="/x.yaml")
    document = parseString(before)
    xacro.process_doc(document)
    after = ElementTree.canonicalize(document.toxml(), strip_text=True)
    assert after == ElementTree.canonicalize(before, strip_text=True)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_joint_has_a_force_and_a_state(name):
    root, joints = tagged(name), list(vm.load(text(name)).joint_names)
    found = plugins(root)
    forces = found["gz-sim-apply-joint-force-system"]
    assert [plugin.findtext("joint_name") for plugin in forces] == joints
    states = only(root, "gz-sim-joint-state-publisher-system")
    assert [item.text for item in states.findall("joint_name")] == joints
    assert "libgz_ros2_control-system.so" not in found and root.find("ros2_control") is None


@pytest.mark.parametrize("name", SHIPPED)
def test_every_joint_has_an_effort_interface(name):
    root, joints = tagged(name, "ros2_control", namespace="a"), vm.load(text(name)).joint_names
    system = root.find("ros2_control")
    assert system.get("type") == "system"
    assert system.findtext("hardware/plugin") == "gz_ros2_control/GazeboSimSystem"
    assert [item.get("name") for item in system.findall("joint")] == list(joints)
    for item in system.findall("joint"):
        assert [c.get("name") for c in item.findall("command_interface")] == ["effort"]
        assert [s.get("name") for s in item.findall("state_interface")] == ["position", "velocity"]
    plugin = only(root, "libgz_ros2_control-system.so")
    assert plugin.get("name") == "gz_ros2_control::GazeboSimROS2ControlPlugin"
    assert plugin.findtext("parameters") == "/controllers.yaml"
    assert plugin.findtext("hold_joints") == "false"
    assert plugin.findtext("ros/namespace") == "/a"
    assert "gz-sim-apply-joint-force-system" not in plugins(root)
    assert "gz-sim-joint-state-publisher-system" not in plugins(root)


@pytest.mark.parametrize("control", gazebo.CONTROLS)
@pytest.mark.parametrize("name", SHIPPED)
def test_odometry_is_of_the_root_link_in_three_dimensions(name, control):
    plugin = only(tagged(name, control, pose_rate=20.0), "gz-sim-odometry-publisher-system")
    assert plugin.findtext("dimensions") == "3"
    assert plugin.findtext("odom_frame") == "world"
    assert plugin.findtext("robot_base_frame") == vm.load(text(name)).root_link
    assert float(plugin.findtext("odom_publish_frequency")) == 20.0


@pytest.mark.parametrize("name", SHIPPED)
def test_fixed_joints_between_links_with_mass_are_kept_and_no_others(name):
    root = tagged(name)
    kept = {
        tag.get("reference")
        for tag in root.findall("gazebo")
        if tag.findtext("preserveFixedJoint") == "true"
    }
    mass = {item.get("name"): item.find("inertial") is not None for item in root.findall("link")}
    expected = {
        item.get("name")
        for item in root.findall("joint")
        if item.get("type") == "fixed"
        and mass[item.find("parent").get("link")]
        and mass[item.find("child").get("link")]
    }
    assert kept == expected
    if name == "satellite_arm7":
        assert kept == {"left_panel_joint", "right_panel_joint", "tool_joint"}
    if name == "auv_arm4":
        assert not kept, "thrusters and tool have no mass"


@pytest.mark.parametrize("name", SHIPPED)
def test_the_bridge_has_the_topics_and_types_of_the_plugins(name):
    model = "model1"
    root = ElementTree.fromstring(gazebo.with_plugins(text(name), name=model))
    entries = {item["gz_topic_name"]: item for item in gazebo.bridge(text(name), name=model)}
    assert entries.pop("/clock") == {
        "ros_topic_name": "/clock",
        "gz_topic_name": "/clock",
        "ros_type_name": "rosgraph_msgs/msg/Clock",
        "gz_type_name": "gz.msgs.Clock",
        "direction": "GZ_TO_ROS",
    }
    topic = only(root, "gz-sim-odometry-publisher-system").findtext("odom_topic")
    odometry = entries.pop(topic)
    assert odometry["gz_type_name"] == "gz.msgs.Odometry"
    assert odometry["ros_type_name"] == "nav_msgs/msg/Odometry"
    topic = only(root, "gz-sim-joint-state-publisher-system").findtext("topic")
    states = entries.pop(topic)
    assert states["gz_type_name"] == "gz.msgs.Model"
    assert states["ros_type_name"] == "sensor_msgs/msg/JointState"
    assert odometry["direction"] == states["direction"] == "GZ_TO_ROS"
    for plugin in plugins(root)["gz-sim-apply-joint-force-system"]:
        # the name that ApplyJointForce itself makes of model and joint
        force = entries.pop(f"/model/{model}/joint/{plugin.findtext('joint_name')}/cmd_force")
        assert force["direction"] == "ROS_TO_GZ"
        assert force["gz_type_name"] == "gz.msgs.Double"
        assert force["ros_type_name"] == "std_msgs/msg/Float64"
    assert not entries, "and nothing that no plugin has"


def test_the_ros_side_of_the_bridge_is_relative_and_valid():
    from rclpy.validate_topic_name import validate_topic_name

    odd = pair().replace('"j"', '"1st-joint.x"')
    topics = [item["ros_topic_name"] for item in gazebo.bridge(odd, clock="")]
    assert topics == ["ground_truth/odom", "joint_states", "joint/_1st_joint_x/cmd_force"]
    assert all(validate_topic_name(topic) for topic in topics)


def test_ros2_control_needs_no_bridge_but_for_clock_and_pose():
    entries = gazebo.bridge(text("hexa_arm2"), control="ros2_control")
    assert [item["ros_topic_name"] for item in entries] == ["/clock", "ground_truth/odom"]
    without = gazebo.bridge(text("hexa_arm2"), control="ros2_control", clock="")
    assert without == entries[1:]


def test_a_world_in_front_of_the_robot_is_taken_out_or_refused():
    body = [link("body"), link("arm"), joint("j", "body", "arm")]

    def with_root(name, kind, inertial=None):
        root = joint("free", name, "body", kind, inside="")
        return robot(link(name, inertial), *body, root)

    for name in ("world", "odom"):
        for kind in ("floating", "planar"):
            free = gazebo.with_plugins(with_root(name, kind))
            assert kind not in free and f'name="{name}"' not in free
            assert vm.load(free).root_link == "body"
    with pytest.raises(vm.UrdfError, match="'world'.*fix the robot.*floating"):
        gazebo.with_plugins(with_root("world", "fixed"))
    with pytest.raises(vm.UrdfError, match="no mass"):
        gazebo.with_plugins(with_root("footprint", "fixed"))


def test_a_planar_base_is_free_in_gazebo_and_a_warning_says_so():
    assert vm.load(text("rover_arm2")).base_group.name == "SE2"
    with pytest.warns(vm.UrdfWarning, match="'ground' is planar.*only the ground"):
        free = gazebo.with_plugins(text("rover_arm2"))
    assert vm.load(free).base_group.name == "SE3"


def test_what_a_urdf_has_of_its_own_is_respected():
    own = gazebo.with_plugins(text("hexa_arm2"), control="ros2_control", controllers="/own.yaml")
    again = ElementTree.fromstring(
        gazebo.with_plugins(own, control="ros2_control", controllers="/other.yaml")
    )
    assert len(again.findall("ros2_control")) == 1
    assert only(again, "libgz_ros2_control-system.so").findtext("parameters") == "/own.yaml"
    with pytest.raises(vm.UrdfError, match="control:=ros2_control"):
        gazebo.with_plugins(own)


def test_mimic_joints_are_warned_of():
    with pytest.warns(vm.UrdfWarning, match="left_finger_mimic_joint"):
        gazebo.with_plugins(text("satellite_dual_arm"))


def test_bad_input_is_refused_with_its_reason():
    with pytest.raises(vm.VmDynamicsError, match="'magic'.*force, ros2_control"):
        gazebo.with_plugins(text("hexa_arm2"), control="magic")
    with pytest.raises(vm.VmDynamicsError, match="'magic'.*force, ros2_control"):
        gazebo.bridge(text("hexa_arm2"), control="magic")
    with pytest.raises(vm.UrdfError, match="YAML file"):
        gazebo.with_plugins(text("hexa_arm2"), control="ros2_control")
    with pytest.raises(vm.UrdfError, match="'a b'"):
        gazebo.with_plugins(pair().replace('"j"', '"a b"'))
    with pytest.raises(vm.UrdfError):
        gazebo.with_plugins("<robot/>")


def test_the_controllers_that_ship_are_those_of_satellite_arm7():
    shipped = yaml.safe_load((ROOT / "config/controllers.yaml").read_text())
    assert shipped == gazebo.controllers(vm.load(text("satellite_arm7")).joint_names)
    spaced = gazebo.controllers(["j"], namespace="/a/")
    assert set(spaced) == {"/a/controller_manager", "/a/effort_controller"}


@pytest.mark.parametrize("path", WORLDS, ids=lambda p: p.stem)
def test_a_world_steps_by_a_millisecond_with_dart_and_the_systems_that_are_needed(path):
    (world,) = ElementTree.parse(path).getroot().findall("world")
    assert world.get("name") == path.stem
    assert float(world.findtext("physics/max_step_size")) == 1e-3
    found = {LIBRARY.fullmatch(p.get("filename"))[1]: p for p in world.findall("plugin")}
    assert set(found) == {"physics", "user-commands", "scene-broadcaster"}
    assert found["physics"].findtext("engine/filename") == "gz-physics-dartsim-plugin"
    for library, plugin in found.items():
        kind = "".join(part.capitalize() for part in library.split("-"))
        assert plugin.get("name") == f"gz::sim::systems::{kind}"
    ground = [m.get("name") for m in world.findall("model")]
    assert ground == (["ground"] if path.stem == "earth" else [])
    assert world.find("light") is not None


def test_the_gravity_of_a_world_is_known(tmp_path):
    gravity = {path.stem: gazebo.world_gravity(path) for path in WORLDS}
    assert gravity == {"zero_gravity": (0.0, 0.0, 0.0), "earth": (0.0, 0.0, -9.81)}
    other = tmp_path / "other.sdf"
    other.write_text('<sdf version="1.10"><world name="w"/></sdf>')
    assert gazebo.world_gravity(other) == (0.0, 0.0, -9.8), "what SDF says of silence"
    for bad in ("<sdf", "<sdf><world><gravity>down</gravity></world></sdf>"):
        other.write_text(bad)
        with pytest.raises(vm.UrdfError, match=re.escape(str(other))):
            gazebo.world_gravity(other)


@pytest.mark.parametrize("path", WORLDS, ids=lambda p: p.stem)
def test_a_world_is_valid_sdf(path):
    tool = shutil.which("gz") or shutil.which("ign")
    options = {"capture_output": True, "text": True}
    if tool is None or "sdf" not in subprocess.run([tool, "--commands"], **options).stdout.split():
        pytest.skip("no SDFormat tool here")
    done = subprocess.run([tool, "sdf", "-k", str(path)], **options)
    assert "Valid" in done.stdout, done.stdout + done.stderr
