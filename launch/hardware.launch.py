# SPDX-License-Identifier: Apache-2.0
"""The suite on a real robot, with its own drivers. Read docs/launch.md, "On hardware", first.

All arguments of vm_dynamics.launch.py are arguments here too, but torques always wait for the
service compensator_node/enable, and time is never simulated.
"""

from vm_dynamics.paths import config_dir
from vm_dynamics.ros import launching, suite

FIXED = {"require_enable": True, "use_sim_time": False}
ARGUMENTS = (
    (
        "effort_scale",
        "0.1",
        "share of the URDF's effort limits that is used, 0.0 to 1.0; begin small",
    ),
    ("resume", "enable", "what follows a stop of the torques: enable, ramp or at_once"),
    (
        "second_publisher",
        "stop",
        "when a topic that torques depend on has two publishers: stop (no torques) or warn",
    ),
    (
        "state_publisher",
        "false",
        "whether to start robot_state_publisher; the robot's own drivers mostly do",
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
    return suite.description(everything, ARGUMENTS)


def everything(context):
    launching.only(context, FIXED, "on hardware it is always")
    out = suite.nodes(context, launching.robot_text(context))
    if launching.switch(context, "spawn_controllers"):
        out.append(spawner(context))
    return out


def spawner(context):
    """Controllers of ros2_control."""
    launching.require("controller_manager", "effort_controllers", "joint_state_broadcaster")
    manager = launching.topic(context, "controller_manager")
    if not manager.startswith("/"):
        manager = f"{launching.namespace(context)}/{manager}"
    return suite.foreign(
        context,
        "controller_manager",
        "spawner",
        arguments=[
            "joint_state_broadcaster",
            "effort_controller",
            "--controller-manager",
            manager,
            "--param-file",
            launching.file(context, "controllers_file"),
        ],
    )
