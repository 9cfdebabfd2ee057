# SPDX-License-Identifier: Apache-2.0
"""A robot in Gazebo (gz-sim 8, Harmonic, through ros_gz) and the suite on it.

All arguments of vm_dynamics.launch.py are arguments here too. Packages that it needs beyond those
of vm_dynamics: ros_gz_sim, ros_gz_bridge, robot_state_publisher; with control:=ros2_control also
gz_ros2_control, controller_manager, effort_controllers, joint_state_broadcaster.
"""

import shlex
from pathlib import Path

from ament_index_python import packages
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

from vm_dynamics.errors import UnknownNameError
from vm_dynamics.ros import gazebo, launching, suite

FIXED = {"use_sim_time": True, "state_publisher": True}
PACKAGES = {
    "force": ("ros_gz_sim", "ros_gz_bridge", "robot_state_publisher"),
    "ros2_control": (
        "ros_gz_sim",
        "ros_gz_bridge",
        "robot_state_publisher",
        "gz_ros2_control",
        "controller_manager",
        "effort_controllers",
        "joint_state_broadcaster",
    ),
}
ARGUMENTS = (
    ("robot", "satellite_arm7", "robot of the package, or path of a URDF or xacro file"),
    ("use_sim_time", "true", "always true here"),
    ("state_publisher", "true", "always true here: the robot is spawned from what it publishes"),
    ("world", "zero_gravity", "zero_gravity, earth, or path of an SDF file"),
    ("headless", "false", "whether to do without Gazebo's window"),
    ("server", "true", "whether to start Gazebo; false to put the robot into one that runs"),
    (
        "control",
        "force",
        "how efforts reach the joints: force (a topic for each joint) or "
        "ros2_control (an effort controller)",
    ),
    ("name", "", "name of the model in Gazebo; if empty, the robot's own"),
    ("x", "0.0", "where the base starts [m]"),
    ("y", "0.0", "where the base starts [m]"),
    ("z", "2.0", "where the base starts [m]"),
    ("pose_rate", "50.0", "poses of the base a second, which the observer starts from [Hz]"),
    ("controllers_file", "", "YAML file of the controllers; if empty, one is made for the robot"),
    (
        "gravity",
        "",
        "acceleration of free fall that the suite counts with [m/s^2]; if empty, the world's",
    ),
    (
        "hydrodynamics",
        "none",
        "YAML file with a section hydrodynamics; the worlds of this package have no water",
    ),
    ("propulsion", "none", "YAML file with a section propulsion; nothing here drives the base"),
    ("require_enable", "false", "no torque until the service compensator_node/enable says so"),
    ("resume", "at_once", "what follows a stop of the torques: enable, ramp or at_once"),
    (
        "second_publisher",
        "warn",
        "when a topic that torques depend on has two publishers: stop (no torques) or warn",
    ),
    ("commands", "", "topic that joint efforts are sent to; if empty, as control needs it"),
    ("pose", gazebo.ODOMETRY, "topic of the base's pose"),
    ("pose_type", "odometry", "its type"),
)


def generate_launch_description():
    return suite.description(everything, ARGUMENTS)


def everything(context):
    """Gazebo, the robot in it, the suite, and what is between them."""
    launching.only(context, FIXED, "in Gazebo it is always")
    control = launching.given(context, "control")
    if control not in PACKAGES:
        raise UnknownNameError("control", control, gazebo.CONTROLS)
    launching.require(*PACKAGES[control])
    settle(context, control)
    plain = launching.robot_text(context, needed=True)
    joints = gazebo.joint_names(plain)
    out = [server(context)] if launching.switch(context, "server") else []
    out += suite.nodes(context, plain, published=tagged(context, control, plain, joints))
    out += [spawn(context, plain), bridge(context, control, plain)]
    out.append(spawner(context) if control == "ros2_control" else forces(context, joints))
    return out


def settle(context, control):
    """Arguments that are left empty and follow from others."""
    known = context.launch_configurations
    world = gazebo.world_file(launching.given(context, "world"))
    if not launching.given(context, "gravity"):
        known["gravity"] = str(list(gazebo.world_gravity(world)))
    if not launching.given(context, "commands"):
        own = "compensator_node/commands"
        known["commands"] = f"{gazebo.CONTROLLER}/commands" if control == "ros2_control" else own


def tagged(context, control, plain, joints):
    """The robot's URDF with what Gazebo needs."""
    return gazebo.with_plugins(
        plain,
        control=control,
        name=launching.given(context, "name"),
        namespace=launching.given(context, "namespace"),
        controllers=controllers(context, joints) if control == "ros2_control" else "",
        pose_rate=launching.numbers(context, "pose_rate", 1)[0],
        world_frame=launching.given(context, "world_frame") or gazebo.WORLD_FRAME,
        frame_prefix=launching.given(context, "frame_prefix"),
    )


def server(context):
    """Gazebo itself; when it ends, all ends."""
    world = shlex.quote(str(gazebo.world_file(launching.given(context, "world"))))
    options = "-r -s" if launching.switch(context, "headless") else "-r"
    folder = packages.get_package_share_directory("ros_gz_sim")
    return IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(Path(folder, "launch", "gz_sim.launch.py"))),
        launch_arguments={"gz_args": f"{options} {world}", "on_exit_shutdown": "true"}.items(),
    )


def spawn(context, plain):
    place = []
    for axis in "xyz":
        place += [f"-{axis}", str(launching.numbers(context, axis, 1)[0])]
    topic = launching.topic(context, "robot_description")
    name = gazebo.name_of(plain, launching.given(context, "name"))
    arguments = ["-name", name, "-topic", topic, *place]
    return suite.foreign(context, "ros_gz_sim", "create", arguments=arguments)


def bridge(context, control, plain):
    entries = gazebo.bridge(
        plain,
        control=control,
        name=launching.given(context, "name"),
        # whoever started Gazebo has its clock
        clock=launching.topic(context, "clock") if launching.switch(context, "server") else "",
    )
    return suite.foreign(
        context,
        "ros_gz_bridge",
        "parameter_bridge",
        parameters={"config_file": launching.temporary("bridge", entries)},
        remappings=[("joint_states", launching.topic(context, "joint_states"))],
    )


def forces(context, joints):
    """Splits the commands, and sends zeros when they stop: Gazebo would hold the last ones."""
    wiring = [("commands", launching.topic(context, "commands"))]
    return suite.node(context, "joint_force_node", {"joints": list(joints)}, wiring)


def controllers(context, joints):
    """Path of the file of the controllers."""
    if launching.given(context, "controllers_file"):
        return launching.file(context, "controllers_file")
    content = gazebo.controllers(joints, namespace=launching.given(context, "namespace"))
    return launching.temporary("controllers", content)


def spawner(context):
    manager = f"{launching.namespace(context)}/controller_manager"
    names = [gazebo.BROADCASTER, gazebo.CONTROLLER]
    arguments = [*names, "--controller-manager", manager]
    return suite.foreign(context, "controller_manager", "spawner", arguments=arguments)
