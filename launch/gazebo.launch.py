# SPDX-License-Identifier: Apache-2.0
"""A robot in Gazebo (gz-sim 8, Harmonic, through ros_gz) and the suite on it.

All arguments of vm_dynamics.launch.py are arguments here too. Packages that it needs beyond those
of vm_dynamics: ros_gz_sim, ros_gz_bridge, robot_state_publisher; with control:=ros2_control also
gz_ros2_control, controller_manager, effort_controllers, joint_state_broadcaster.
"""

import shlex
from pathlib import Path

from ament_index_python import packages
from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import Node

from vm_dynamics import gazebo
from vm_dynamics.errors import UnknownNameError
from vm_dynamics.paths import world_file
from vm_dynamics.ros import launching

SUITE = str(Path(__file__).parent / "vm_dynamics.launch.py")
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
# Those that the suite has too come first here, so these defaults are the ones that count.
ARGUMENTS = (
    ("robot", "satellite_arm7", "robot of the package, or path of a URDF or xacro file"),
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
    ("pose", gazebo.ODOMETRY, "topic of the base's pose"),
    ("pose_type", "odometry", "its type"),
)


def generate_launch_description():
    suite = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(SUITE), launch_arguments={"use_sim_time": "true"}.items()
    )
    return LaunchDescription(
        [
            *launching.declared(ARGUMENTS),
            OpaqueFunction(function=settle),
            suite,
            # after the suite, whose arguments it reads
            OpaqueFunction(function=simulation),
        ]
    )


def settle(context):
    """Check what can be checked before anything starts, and tell the suite what follows of it."""
    control = launching.given(context, "control")
    if control not in PACKAGES:
        raise UnknownNameError("control", control, gazebo.CONTROLS)
    world = world_file(launching.given(context, "world"))
    launching.require(*PACKAGES[control])
    known = context.launch_configurations
    if not launching.given(context, "gravity"):
        known["gravity"] = str(list(gazebo.world_gravity(world)))
    if control == "ros2_control":
        known.setdefault("commands", f"{gazebo.CONTROLLER}/commands")


def simulation(context):
    """Gazebo, the robot in it, and what is between them and the suite."""
    control = launching.given(context, "control")
    plain = launching.robot_text(context)
    joints = gazebo.joint_names(plain)
    tagged = gazebo.with_plugins(
        plain,
        control=control,
        name=launching.given(context, "name"),
        namespace=launching.given(context, "namespace"),
        controllers=controllers(context, joints) if control == "ros2_control" else "",
        pose_rate=launching.numbers(context, "pose_rate", 1)[0],
    )
    out = [server(context)] if launching.switch(context, "server") else []
    out += [state_publisher(context, tagged), spawn(context, plain), bridge(context, plain)]
    out.append(spawner(context) if control == "ros2_control" else forces(context, joints))
    return out


def server(context):
    """Gazebo itself; when it ends, all ends."""
    world = shlex.quote(str(world_file(launching.given(context, "world"))))
    options = "-r -s" if launching.switch(context, "headless") else "-r"
    folder = packages.get_package_share_directory("ros_gz_sim")
    return IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(Path(folder, "launch", "gz_sim.launch.py"))),
        launch_arguments={"gz_args": f"{options} {world}", "on_exit_shutdown": "true"}.items(),
    )


def node(context, package, executable, *, arguments=(), parameters=None, remappings=()):
    return Node(
        package=package,
        executable=executable,
        name=executable,
        namespace=launching.given(context, "namespace"),
        arguments=list(arguments),
        parameters=[{"use_sim_time": True, **(parameters or {})}],
        remappings=[*remappings, *launching.clock_remapping(context)],
        output="screen",
    )


def state_publisher(context, tagged):
    """Publishes the description that the robot is spawned from, and tf."""
    return node(
        context,
        "robot_state_publisher",
        "robot_state_publisher",
        parameters={"robot_description": launching.text(tagged), "publish_frequency": 50.0},
        remappings=[
            ("robot_description", launching.given(context, "robot_description")),
            ("joint_states", launching.given(context, "joint_states")),
            *launching.tf_remappings(context),
        ],
    )


def spawn(context, plain):
    place = [item for axis in "xyz" for item in (f"-{axis}", launching.given(context, axis))]
    topic = launching.given(context, "robot_description")
    name = gazebo.name_of(plain, launching.given(context, "name"))
    return node(
        context, "ros_gz_sim", "create", arguments=["-name", name, "-topic", topic, *place]
    )


def bridge(context, plain):
    entries = gazebo.bridge(
        plain,
        control=launching.given(context, "control"),
        name=launching.given(context, "name"),
        # whoever started Gazebo has its clock
        clock=launching.given(context, "clock") if launching.switch(context, "server") else "",
    )
    return node(
        context,
        "ros_gz_bridge",
        "parameter_bridge",
        parameters={"config_file": launching.text(launching.temporary("bridge", entries))},
        remappings=[("joint_states", launching.given(context, "joint_states"))],
    )


def forces(context, joints):
    """Splits the commands, and sends zeros when they stop: Gazebo would hold the last ones."""
    return node(
        context,
        "vm_dynamics",
        "joint_force_node",
        parameters={"joints": list(joints)},
        remappings=[("commands", launching.given(context, "commands"))],
    )


def controllers(context, joints):
    """Path of the file of the controllers."""
    if launching.given(context, "controllers_file"):
        return launching.file(context, "controllers_file")
    content = gazebo.controllers(joints, namespace=launching.given(context, "namespace"))
    return launching.temporary("controllers", content)


def spawner(context):
    manager = f"/{launching.given(context, 'namespace')}/controller_manager".replace("//", "/")
    names = [gazebo.BROADCASTER, gazebo.CONTROLLER]
    return node(
        context,
        "controller_manager",
        "spawner",
        arguments=[*names, "--controller-manager", manager],
    )
