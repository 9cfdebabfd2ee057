# SPDX-License-Identifier: Apache-2.0
"""The suite on a robot: dynamics, observer, compensator and curvature map, wired to each other."""

from launch import LaunchDescription
from launch.actions import OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from vm_dynamics.paths import config_dir
from vm_dynamics.ros import launching

# An empty default leaves the matter to the parameter file.
ARGUMENTS = (
    (
        "robot",
        "",
        "robot of the package, or path of a URDF or xacro file; if empty, it is "
        "waited for on the topic robot_description",
    ),
    ("namespace", "", "namespace of all nodes and topics"),
    (
        "base",
        "",
        "how the base moves: SE3 SE2 SO3 X T3 T2 C SO2 T1 H; if empty, what the URDF "
        "says, else SE3",
    ),
    (
        "gravity",
        "",
        "acceleration of free fall in the world [m/s^2], as '[0.0, 0.0, -9.81]'; if empty, zero",
    ),
    (
        "hydrodynamics",
        "auto",
        "YAML file with a section hydrodynamics; auto for the one beside "
        "the URDF of robot, if there is one; none",
    ),
    ("propulsion", "auto", "YAML file with a section propulsion; auto and none as above"),
    ("params_file", str(config_dir() / "vm_dynamics.yaml"), "parameters of the nodes"),
    ("use_sim_time", "false", "whether time comes from the topic clock"),
    ("clock", "/clock", "topic of simulated time; two simulations in one graph need two"),
    ("autostart", "true", "whether the nodes configure and activate themselves"),
    ("require_enable", "true", "no torque until the service compensator_node/enable says so"),
    (
        "effort_scale",
        "",
        "share of the URDF's effort limits that is used, 0.0 to 1.0; if empty, all",
    ),
    ("dynamics", "true", "whether to start dynamics_node"),
    ("observer", "true", "whether to start observer_node"),
    ("compensator", "true", "whether to start compensator_node"),
    ("ccf", "true", "whether to start ccf_node"),
    ("rviz", "false", "whether to start RViz"),
    (
        "tf",
        LaunchConfiguration("rviz"),
        "whether to publish the observed pose on tf, which RViz needs",
    ),
    ("robot_description", "robot_description", "topic of the URDF"),
    ("joint_states", "joint_states", "topic of the joint states"),
    ("pose", "pose", "topic of the base's pose"),
    (
        "pose_type",
        "",
        "its type: pose, pose_with_covariance, odometry or transform; if empty, pose",
    ),
    ("base_wrench", "base_wrench", "topic of the wrench that drives the base, if it is known"),
    ("target", "target", "topic of what the joints shall do"),
    ("commands", "compensator_node/commands", "topic that joint efforts are sent to"),
    ("thrusts", "compensator_node/thrusts", "topic that thrusts are sent to"),
)


def generate_launch_description():
    return LaunchDescription([*launching.declared(ARGUMENTS), OpaqueFunction(function=suite)])


def suite(context):
    """All nodes that are wanted."""
    out = []
    if launching.switch(context, "dynamics"):
        wiring = [("base_twist", "observer_node/twist")]
        out.append(robot_node(context, "dynamics_node", {}, wiring))
    if launching.switch(context, "observer"):
        out.append(observer(context))
    if launching.switch(context, "compensator"):
        out.append(compensator(context))
    if launching.switch(context, "ccf"):
        out.append(robot_node(context, "ccf_node", {}, []))
    if launching.switch(context, "rviz"):
        out.append(rviz(context))
    if launching.switch(context, "tf"):
        wiring = [("odom", "observer_node/odom"), *launching.tf_remappings(context)[:1]]
        out.append(node(context, "odom_tf_node", {}, wiring))
    return out


def observer(context):
    parameters = {}
    if launching.given(context, "pose_type"):
        parameters["pose.type"] = launching.text(launching.given(context, "pose_type"))
    wiring = [(name, launching.given(context, name)) for name in ("pose", "base_wrench")]
    return robot_node(context, "observer_node", parameters, wiring)


def compensator(context):
    parameters = {"require_enable": launching.switch(context, "require_enable")}
    if launching.given(context, "effort_scale"):
        parameters["effort_scale"] = launching.numbers(context, "effort_scale", 1)[0]
    if launching.beside(context, "propulsion"):
        parameters["propulsion"] = launching.text(launching.beside(context, "propulsion"))
    wiring = [
        ("locked_velocity", "observer_node/locked_velocity"),
        ("odom", "observer_node/odom"),
        ("target", launching.given(context, "target")),
        ("~/commands", launching.given(context, "commands")),
        ("~/thrusts", launching.given(context, "thrusts")),
    ]
    return robot_node(context, "compensator_node", parameters, wiring)


def robot_node(context, name, parameters, wiring):
    """A node that computes with the robot."""
    shared = {}
    if launching.given(context, "robot"):
        shared["robot_description"] = launching.text(launching.robot_text(context))
    if launching.given(context, "base"):
        shared["base"] = launching.text(launching.given(context, "base"))
    if launching.given(context, "gravity"):
        shared["gravity"] = launching.numbers(context, "gravity", 3)
    if launching.beside(context, "hydrodynamics"):
        shared["hydrodynamics"] = launching.text(launching.beside(context, "hydrodynamics"))
    topics = [(t, launching.given(context, t)) for t in ("robot_description", "joint_states")]
    return node(context, name, {**shared, **parameters}, [*topics, *wiring])


def node(context, name, parameters, wiring):
    """A node of this package."""
    shared = {
        "use_sim_time": launching.switch(context, "use_sim_time"),
        "autostart": launching.switch(context, "autostart"),
    }
    return Node(
        package="vm_dynamics",
        executable=name,
        name=name,
        namespace=launching.given(context, "namespace"),
        # the later ones win
        parameters=[launching.file(context, "params_file"), {**shared, **parameters}],
        remappings=[*wiring, *launching.clock_remapping(context)],
        output="screen",
    )


def rviz(context):
    launching.require("rviz2")
    return Node(
        package="rviz2",
        executable="rviz2",
        name="rviz2",
        namespace=launching.given(context, "namespace"),
        arguments=["-d", str(config_dir() / "rviz" / "vm_dynamics.rviz")],
        parameters=[{"use_sim_time": launching.switch(context, "use_sim_time")}],
        remappings=[*launching.tf_remappings(context), *launching.clock_remapping(context)],
        output="screen",
    )
