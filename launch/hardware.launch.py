# SPDX-License-Identifier: Apache-2.0
"""The suite on a real robot, with its own drivers. Read docs/launch.md, "On hardware", first.

All arguments of vm_dynamics.launch.py are arguments here too, but torques always wait for the
service compensator_node/enable, and time is never simulated.
"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch_ros.actions import Node

from vm_dynamics.paths import config_dir
from vm_dynamics.ros import launching

SUITE = str(Path(__file__).parent / "vm_dynamics.launch.py")
FIXED = {"require_enable": "true", "use_sim_time": "false"}
# Those that the suite has too come first here, so these defaults are the ones that count.
ARGUMENTS = (
    (
        "effort_scale",
        "0.1",
        "share of the URDF's effort limits that is used, 0.0 to 1.0; begin small",
    ),
    ("joint_states", "joint_states", "topic of joint_state_broadcaster"),
    ("commands", "effort_controller/commands", "topic of the effort controller"),
    ("pose", "pose", "topic of the base's pose, as motion capture or a star tracker gives it"),
    (
        "spawn_controllers",
        "false",
        "whether to load and activate joint_state_broadcaster and effort_controller",
    ),
    (
        "controllers_file",
        str(config_dir() / "controllers.yaml"),
        "their parameters; the one of the package is for satellite_arm7",
    ),
    ("controller_manager", "controller_manager", "node that loads them"),
)


def generate_launch_description():
    suite = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(SUITE), launch_arguments=FIXED.items()
    )
    return LaunchDescription(
        [
            *launching.declared(ARGUMENTS),
            OpaqueFunction(function=check),
            suite,
            # after the suite, whose arguments it reads
            OpaqueFunction(function=spawners),
        ]
    )


def check(context):
    """What is fixed here stays so."""
    launching.only(context, FIXED, "on hardware it is always")


def spawners(context):
    """Controllers of ros2_control, if they are wanted."""
    if not launching.switch(context, "spawn_controllers"):
        return []
    launching.require("controller_manager", "effort_controllers", "joint_state_broadcaster")
    manager = launching.given(context, "controller_manager")
    if not manager.startswith("/"):
        manager = f"/{launching.given(context, 'namespace')}/{manager}".replace("//", "/")
    return [
        Node(
            package="controller_manager",
            executable="spawner",
            name="spawner",
            namespace=launching.given(context, "namespace"),
            arguments=[
                "joint_state_broadcaster",
                "effort_controller",
                "--controller-manager",
                manager,
                "--param-file",
                launching.file(context, "controllers_file"),
            ],
            output="screen",
        )
    ]
