# SPDX-License-Identifier: Apache-2.0
"""What Gazebo (gz-sim 8, Harmonic) needs of a robot: tags in its URDF, and a bridge to ROS.

Plugins and bridge are made from the same names, so they cannot disagree. What Gazebo does that one
would not guess, and what is done about it here:

- A joint force is held until another one comes. Nothing in a URDF can change that:
  :mod:`vm_dynamics.ros.joint_force_node` sends zeros when commands stop.
- A root link named ``world`` fixes the robot to the world: it is taken out if a floating or planar
  joint follows, and refused otherwise. Only the ground then keeps a planar base on its plane.
- Fixed joints are merged, and the links behind them lost, unless a tag says otherwise.
- ros2_control holds joints at their place when no controller has them, unless told not to.
- URDF cannot carry added mass (SDF's ``<fluid_added_mass>``): its conversion has no place for it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from vm_dynamics.errors import UnknownNameError, UrdfError, UrdfWarning
from vm_dynamics.paths import config_dir
from vm_dynamics.robot import Robot, load

CONTROLS = ("force", "ros2_control")
CONTROLLER = "effort_controller"
BROADCASTER = "joint_state_broadcaster"
WORLD_FRAME = "world"
ODOMETRY = "ground_truth/odom"  # the same as that of sim_node
DEFAULT_GRAVITY = (0.0, 0.0, -9.8)  # SDF's, of a world that says nothing
_ROS2_CONTROL = "gz_ros2_control"


def with_plugins(
    urdf: str,
    *,
    control: str = "force",
    name: str = "",
    namespace: str = "",
    controllers: str = "",
    pose_rate: float = 50.0,
    world_frame: str = WORLD_FRAME,
    frame_prefix: str = "",
) -> str:
    """URDF with the tags that Gazebo needs.

    Args:
        urdf: text of the robot's own URDF.
        control: ``force`` for a plugin at every joint that applies a force, ``ros2_control`` for
            the effort interfaces of gz_ros2_control.
        name: of the model in Gazebo; the robot's own if empty.
        namespace: ROS namespace of the controller manager.
        controllers: YAML file of the controller manager, which only ``ros2_control`` needs.
        pose_rate: odometry messages a second of simulated time [Hz].
        world_frame: frame of the odometry.
        frame_prefix: in front of the root link's name, where odometry has it as a frame.

    Raises:
        UrdfError: the URDF is wrong, or Gazebo would fix it to the world.
        UnknownNameError: no such control.
    """
    _check_control(control)
    robot = _load(urdf)
    name = _model_name(robot, name)
    root = ElementTree.fromstring(urdf)
    _free(root)
    _check_present(root, control)
    _keep_fixed_joints(root)
    if control == "force":
        _force_plugins(root, robot, name)
    else:
        _ros2_control(root, robot, controllers, namespace)
    plugin = _plugin(root, "odometry-publisher", "OdometryPublisher")
    for key, value in (
        ("dimensions", "3"),
        ("odom_frame", world_frame),
        ("robot_base_frame", frame_prefix + robot.root_link),
        ("odom_topic", _gz_odometry(name)),
        ("odom_publish_frequency", f"{pose_rate:g}"),
    ):
        SubElement(plugin, key).text = value
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


def bridge(
    urdf: str, *, control: str = "force", name: str = "", clock: str = "/clock"
) -> list[dict[str, str]]:
    """Entries of the YAML file of ros_gz_bridge, for the plugins of :func:`with_plugins`.

    Args:
        urdf: text of the robot's own URDF.
        control: as that of the plugins.
        name: as that of the plugins.
        clock: ROS topic of the simulated time; empty if another bridge brings it.
    """
    _check_control(control)
    robot = _load(urdf)
    name = _model_name(robot, name)
    out = []
    if clock:
        out.append(_entry(clock, "/clock", "rosgraph_msgs/msg/Clock", "gz.msgs.Clock"))
    out.append(_entry(ODOMETRY, _gz_odometry(name), "nav_msgs/msg/Odometry", "gz.msgs.Odometry"))
    if control == "force":
        out.append(
            _entry("joint_states", _gz_joints(name), "sensor_msgs/msg/JointState", "gz.msgs.Model")
        )
        for joint in robot.joint_names:
            out.append(
                _entry(
                    force_topic(joint),
                    _gz_force(name, joint),
                    "std_msgs/msg/Float64",
                    "gz.msgs.Double",
                    "ROS_TO_GZ",
                )
            )
    return out


def controllers(joints: Iterable[str], *, namespace: str = "", rate: int = 1000) -> dict[str, Any]:
    """Parameters of the controller manager: joint states out, efforts in.

    Args:
        joints: in the order of the commands.
        namespace: ROS namespace of the controller manager.
        rate: its cycles a second; that of the physics, or efforts come late [Hz].
    """
    prefix = f"/{namespace.strip('/')}/" if namespace.strip("/") else ""
    types = {
        BROADCASTER: {"type": "joint_state_broadcaster/JointStateBroadcaster"},
        CONTROLLER: {"type": "effort_controllers/JointGroupEffortController"},
    }
    return {
        f"{prefix}controller_manager": {"ros__parameters": {"update_rate": rate, **types}},
        f"{prefix}{CONTROLLER}": {"ros__parameters": {"joints": list(joints)}},
    }


def name_of(urdf: str, name: str = "") -> str:
    """Name of the model in Gazebo: the one given, else the robot's, fit for a topic."""
    return _model_name(_load(urdf), name)


def _model_name(robot: Robot, name: str) -> str:
    return re.sub(r"\W", "_", name or robot.name or "robot", flags=re.ASCII)


def force_topic(joint: str) -> str:
    """ROS topic of a joint's force, relative to the robot's namespace."""
    token = re.sub(r"\W", "_", joint, flags=re.ASCII)
    return f"joint/{token if not token[:1].isdigit() else '_' + token}/cmd_force"


def joint_names(urdf: str) -> tuple[str, ...]:
    """The joints that are driven, in the order of the commands."""
    return _load(urdf).joint_names


def world_file(name: str) -> Path:
    """SDF file of a Gazebo world that comes with the package, by name, or the path of any other.

    Raises:
        UnknownNameError: neither a file nor one of the package's worlds.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    worlds = config_dir() / "worlds"
    if (worlds / f"{name}.sdf").is_file():
        return worlds / f"{name}.sdf"
    names = sorted(path.stem for path in worlds.glob("*.sdf"))
    raise UnknownNameError("world", name, (*names, "or the path of an SDF file"))


def world_gravity(world: Path) -> tuple[float, ...]:
    """Acceleration of free fall in a world, shape (3,) [m/s^2].

    Raises:
        UrdfError: no SDF world.
    """
    try:
        text = ElementTree.parse(world).getroot().findtext("world/gravity")
        numbers = DEFAULT_GRAVITY if text is None else tuple(map(float, text.split()))
    except (ElementTree.ParseError, ValueError) as error:
        raise UrdfError(f"world {str(world)!r}: {error}") from None
    if len(numbers) != 3:
        raise UrdfError(f"world {str(world)!r}: gravity has {len(numbers)} numbers, expected 3")
    return numbers


# -- checks ---------------------------------------------------------------------------------------


def _load(urdf: str) -> Robot:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UrdfWarning)  # the nodes say them
        robot = load(urdf.encode())
    topics = [force_topic(joint) for joint in robot.joint_names]
    if len(set(topics)) != len(topics):
        raise UrdfError(
            f"joints {list(robot.joint_names)}: some differ only in special characters"
        )
    for joint in robot.joint_names:
        if re.search(r"[\s@~/]|:=", joint):
            raise UrdfError(
                f"joint {joint!r}: Gazebo makes a topic of its name, which this is not"
            )
    return robot


def _check_control(control: str) -> None:
    if control not in CONTROLS:
        raise UnknownNameError("control", control, CONTROLS)


def _free(root: Element) -> None:
    """Take out a root link that stands for the world and is joined by a joint of a vehicle."""
    joints = root.findall("joint")
    children = {joint.find("child").get("link") for joint in joints}  # type: ignore[union-attr]
    link = next(link for link in root.findall("link") if link.get("name") not in children)
    name = link.get("name")
    below = [j for j in joints if j.find("parent").get("link") == name]  # type: ignore[union-attr]
    vehicle = len(below) == 1 and below[0].get("type") in ("floating", "planar")
    if vehicle and not _has_mass(link):
        root.remove(link)
        root.remove(below[0])
        if below[0].get("type") == "planar":
            warnings.warn(
                f"joint {below[0].get('name')!r} is planar, which Gazebo does not know: there the "
                "base is free, and only the ground keeps it on its plane",
                UrdfWarning,
                stacklevel=3,
            )
    elif name == "world":
        raise UrdfError(
            "link 'world' is the root, to which Gazebo would fix the robot: leave it and its "
            "joint out of the URDF, or give the joint type='floating' or 'planar'"
        )
    elif not _has_mass(link):
        raise UrdfError(f"link {name!r}: the root has no mass, and Gazebo would leave it out")


def _check_present(root: Element, control: str) -> None:
    present = any(_ROS2_CONTROL in p.get("filename", "") for p in root.iterfind("gazebo/plugin"))
    if present and control == "force":
        raise UrdfError(
            "the URDF has a plugin of gz_ros2_control, which would work against forces at the "
            "joints: take control:=ros2_control"
        )
    followers = [j.get("name") for j in root.findall("joint") if j.find("mimic") is not None]
    if followers:
        warnings.warn(
            f"joints {followers} mimic others, which Gazebo's default engine (DART) does not "
            "know: there they move freely",
            UrdfWarning,
            stacklevel=3,
        )


# -- tags -----------------------------------------------------------------------------------------


def _plugin(root: Element, library: str, kind: str) -> Element:
    """A system of Gazebo."""
    return SubElement(
        SubElement(root, "gazebo"),
        "plugin",
        {"filename": f"gz-sim-{library}-system", "name": f"gz::sim::systems::{kind}"},
    )


def _keep_fixed_joints(root: Element) -> None:
    """Where the link behind has mass: without mass Gazebo has no link, and must merge it."""
    heavy = {link.get("name") for link in root.findall("link") if _has_mass(link)}
    for joint in root.findall("joint"):
        child, parent = joint.find("child"), joint.find("parent")
        ends = {end.get("link") for end in (child, parent) if end is not None}
        if joint.get("type") == "fixed" and ends <= heavy:
            tag = SubElement(root, "gazebo", {"reference": joint.get("name", "")})
            SubElement(tag, "preserveFixedJoint").text = "true"


def _has_mass(link: Element) -> bool:
    mass = link.find("inertial/mass")
    return mass is not None and float(mass.get("value", "0")) > 0.0


def _force_plugins(root: Element, robot: Robot, name: str) -> None:
    states = _plugin(root, "joint-state-publisher", "JointStatePublisher")
    SubElement(states, "topic").text = _gz_joints(name)
    for joint in robot.joint_names:
        SubElement(states, "joint_name").text = joint
    for joint in robot.joint_names:
        # it has no tag for its topic, which is that of _gz_force
        force = _plugin(root, "apply-joint-force", "ApplyJointForce")
        SubElement(force, "joint_name").text = joint


def _ros2_control(root: Element, robot: Robot, file: str, namespace: str) -> None:
    """Effort interfaces and their plugin, unless the URDF has its own."""
    if root.find("ros2_control") is None:
        system = SubElement(root, "ros2_control", {"name": "gazebo", "type": "system"})
        hardware = SubElement(system, "hardware")
        SubElement(hardware, "plugin").text = f"{_ROS2_CONTROL}/GazeboSimSystem"
        for name in robot.joint_names:
            joint = SubElement(system, "joint", {"name": name})
            SubElement(joint, "command_interface", {"name": "effort"})
            for state in ("position", "velocity"):
                SubElement(joint, "state_interface", {"name": state})
    if any(_ROS2_CONTROL in p.get("filename", "") for p in root.iterfind("gazebo/plugin")):
        return
    if not file:
        raise UrdfError("control 'ros2_control' needs the YAML file of the controllers")
    plugin = SubElement(
        SubElement(root, "gazebo"),
        "plugin",
        {
            "filename": f"lib{_ROS2_CONTROL}-system.so",
            "name": f"{_ROS2_CONTROL}::GazeboSimROS2ControlPlugin",
        },
    )
    SubElement(plugin, "parameters").text = file
    SubElement(plugin, "hold_joints").text = "false"
    if namespace.strip("/"):
        SubElement(SubElement(plugin, "ros"), "namespace").text = f"/{namespace.strip('/')}"


# -- names ----------------------------------------------------------------------------------------


def _gz_joints(name: str) -> str:
    return f"/model/{name}/joint_state"


def _gz_odometry(name: str) -> str:
    return f"/model/{name}/odometry"


def _gz_force(name: str, joint: str) -> str:
    return f"/model/{name}/joint/{joint}/cmd_force"


def _entry(ros: str, gz: str, kind: str, gz_kind: str, way: str = "GZ_TO_ROS") -> dict[str, str]:
    return {
        "ros_topic_name": ros,
        "gz_topic_name": gz,
        "ros_type_name": kind,
        "gz_type_name": gz_kind,
        "direction": way,
    }
