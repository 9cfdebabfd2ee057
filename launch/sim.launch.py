# SPDX-License-Identifier: Apache-2.0
"""A simulated robot (sim_node, MuJoCo) and the suite on it.

All arguments of vm_dynamics.launch.py are arguments here too.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import Node

from vm_dynamics.ros import launching

SUITE = str(Path(__file__).parent / "vm_dynamics.launch.py")
# Those that the suite has too come first here, so these defaults are the ones that count.
ARGUMENTS = (
    ("robot", "satellite_arm7", "robot of the package, or path of a URDF or xacro file"),
    ("require_enable", "false", "no torque until the service compensator_node/enable says so"),
    ("rviz", "false", "whether to start RViz, and robot_state_publisher for it"),
    ("viewer", "false", "whether to open MuJoCo's own window"),
    ("real_time_factor", "1.0", "simulated seconds in a second; 0 for as many as there can be"),
    (
        "initial_pose",
        "",
        "where the base starts: '[x, y, z, qx, qy, qz, qw]'; if empty, at the origin",
    ),
    (
        "initial_twist",
        "",
        "how the base moves at first, in its own axes: '[vx, vy, vz, wx, wy, "
        "wz]' [m/s, rad/s]; if empty, not at all",
    ),
    (
        "base_wrench",
        "thruster_wrench",
        "topic of the wrench that the observer counts with: what the simulated thrusters give",
    ),
    ("hold", "false", "whether all stands still until the first command that is not zero"),
)
VECTORS = {"gravity": 3, "initial_pose": 7, "initial_twist": 6}


def generate_launch_description():
    suite = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(SUITE),
        launch_arguments={"use_sim_time": "true"}.items(),
    )
    # after the suite, whose arguments it reads
    return LaunchDescription(
        [*launching.declared(ARGUMENTS), suite, OpaqueFunction(function=simulation)]
    )


def simulation(context):
    """The simulator, and what RViz needs."""
    description = launching.robot_text(context)
    out = [simulator(context, description)]
    if launching.switch(context, "rviz"):
        out.append(state_publisher(context, description))
    return out


def simulator(context, description):
    parameters = {
        "robot_description": launching.text(description),
        "use_sim_time": False,  # it makes the time of the others
        "autostart": launching.switch(context, "autostart"),
        "real_time_factor": launching.numbers(context, "real_time_factor", 1)[0],
        "viewer": launching.switch(context, "viewer"),
    }
    if launching.switch(context, "hold"):
        parameters["initial.hold"] = True
    if launching.given(context, "base"):
        parameters["base"] = launching.text(launching.given(context, "base"))
    for name, count in VECTORS.items():
        if launching.given(context, name):
            parameters[name.replace("_", ".")] = launching.numbers(context, name, count)
    for name in ("hydrodynamics", "propulsion"):
        if launching.beside(context, name):
            parameters[name] = launching.text(launching.beside(context, name))
    return Node(
        package="vm_dynamics",
        executable="sim_node",
        name="sim_node",
        namespace=launching.given(context, "namespace"),
        parameters=[launching.file(context, "params_file"), parameters],
        remappings=[
            ("joint_states", launching.given(context, "joint_states")),
            ("pose", launching.given(context, "pose")),
            ("commands", launching.given(context, "commands")),
            ("thrusts", launching.given(context, "thrusts")),
            *launching.clock_remapping(context),
        ],
        output="screen",
    )


def state_publisher(context, description):
    launching.require("robot_state_publisher")
    return Node(
        package="robot_state_publisher",
        executable="robot_state_publisher",
        name="robot_state_publisher",
        namespace=launching.given(context, "namespace"),
        parameters=[
            {
                "robot_description": launching.text(description),
                "use_sim_time": True,
                "publish_frequency": 50.0,
            }
        ],
        remappings=[
            ("joint_states", launching.given(context, "joint_states")),
            *launching.tf_remappings(context),
            *launching.clock_remapping(context),
        ],
        output="screen",
    )
