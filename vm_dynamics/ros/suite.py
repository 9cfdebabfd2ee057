# SPDX-License-Identifier: Apache-2.0
"""The suite for launch files: dynamics, observer, compensator and curvature map, wired together.

A launch file declares its arguments and those of the suite, and builds everything in one function
(:func:`description`). Whatever is wrong raises there, before anything has started: launch would
leave alone what runs already. So each node's parameters, those of the parameter file too, are
checked here by the class that declares them, and the robot is built as the node will build it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import yaml
from launch import LaunchDescription  # type: ignore[attr-defined,import-not-found,unused-ignore]
from launch.actions import OpaqueFunction  # type: ignore[import-not-found,unused-ignore]
from launch.substitutions import (  # type: ignore[import-not-found,unused-ignore]
    LaunchConfiguration,
)
from launch_ros.actions import Node  # type: ignore[import-not-found,unused-ignore]

from vm_dynamics.control.imported import is_import_path
from vm_dynamics.dynamics.propulsion import Propulsion
from vm_dynamics.errors import ParameterError, UnknownNameError, UrdfError, UrdfWarning
from vm_dynamics.paths import config_dir
from vm_dynamics.ros import launching, reference
from vm_dynamics.ros.parameters import ModelParameters

CONTROLLERS: tuple[str, ...] = next(
    item.metadata["choices"]
    for item in fields(reference.NODES["compensator_node"])
    if item.name == "controller"
)
Argument = tuple[str, Any, str]  # name, default, and what it is
Wiring = list[tuple[str, str]]

# An empty default leaves the matter to the parameter file.
ARGUMENTS: tuple[Argument, ...] = (
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
    (
        "controller",
        "auto",
        "which controller: momentum, computed_torque, reaction, or package.module:Class of your "
        "own; auto: what params_file says, else computed_torque if there is propulsion and "
        "gravity, else momentum",
    ),
    ("require_enable", "true", "no torque until the service compensator_node/enable says so"),
    (
        "timeout",
        "",
        "age of joint states or estimate that stops the torques [s], 0.01 to 2.0; if empty, 0.1",
    ),
    (
        "resume",
        "",
        "what follows a stop of the torques: enable (wait for the service), ramp or at_once; if "
        "empty, enable",
    ),
    (
        "second_publisher",
        "",
        "when a topic that torques depend on has two publishers: stop (no torques) or warn; if "
        "empty, stop",
    ),
    (
        "effort_scale",
        "",
        "share of the URDF's effort limits that is used, 0.0 to 1.0; if empty, all",
    ),
    ("dynamics", "true", "whether to start dynamics_node"),
    ("observer", "true", "whether to start observer_node"),
    ("compensator", "true", "whether to start compensator_node"),
    ("ccf", "true", "whether to start ccf_node"),
    ("identifier", "false", "whether to start identifier_node, which learns a payload"),
    ("rviz", "false", "whether to start RViz"),
    (
        "tf",
        LaunchConfiguration("rviz"),
        "whether to publish the observed pose on tf, which RViz needs",
    ),
    (
        "state_publisher",
        "auto",
        "whether to start robot_state_publisher, which has the links on tf; auto: with tf, unless "
        "robot is empty",
    ),
    (
        "frame_prefix",
        "",
        "in front of the frames of links, as 'a/', so that several robots share one tf",
    ),
    (
        "world_frame",
        "world",
        "frame that poses must be in, and RViz's fixed one; if empty, poses may be in any",
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


def description(
    build: Callable[[Any], list[Any]], own: Iterable[Argument] = ()
) -> LaunchDescription:
    """Description of a launch file.

    Args:
        build: gets the launch context, returns all that is to be started.
        own: arguments that the suite does not have, or other defaults of those that it has.
    """
    rows = {argument[0]: argument for argument in own}
    for argument in ARGUMENTS:
        rows.setdefault(argument[0], argument)
    return LaunchDescription([*launching.declared(rows.values()), OpaqueFunction(function=build)])


def nodes(context: Any, robot: str, *, published: str = "") -> list[Node]:
    """The nodes that are wanted.

    Args:
        context: of the launch.
        robot: URDF text; empty if the nodes shall wait for the topic.
        published: what robot_state_publisher publishes, if it is not the same.

    Raises:
        VmDynamicsError: an argument, a parameter or the robot is wrong, or a package is missing.
    """
    out = []
    if launching.switch(context, "dynamics"):
        wiring = [("base_twist", "observer_node/twist")]
        out.append(_robot_node(context, robot, "dynamics_node", {}, wiring))
    if launching.switch(context, "observer"):
        out.append(_hearing_base(context, robot, "observer_node"))
    if launching.switch(context, "compensator"):
        out.append(_compensator(context, robot))
    if launching.switch(context, "ccf"):
        out.append(_robot_node(context, robot, "ccf_node", {}, []))
    if launching.switch(context, "identifier"):
        out.append(_hearing_base(context, robot, "identifier_node"))
    if launching.switch(context, "rviz"):
        out.append(_rviz(context))
    if launching.switch(context, "tf"):
        wiring = [("odom", "observer_node/odom"), *launching.tf_remappings(context)[:1]]
        out.append(node(context, "odom_tf_node", {}, wiring))
    if _wants_state_publisher(context, robot):
        out.append(_state_publisher(context, published or robot))
    return out


# -- nodes of this package ------------------------------------------------------------------------


def node(
    context: Any, name: str, parameters: dict[str, Any], wiring: Wiring, robot: str = ""
) -> Node:
    """A node of this package, once all that it is started with has been checked.

    Args:
        context: of the launch.
        name: of the executable and the node.
        parameters: go before those of the parameter file.
        wiring: remapped topics.
        robot: URDF text that its parameters must fit; empty if it is not known.

    Raises:
        VmDynamicsError: a parameter that the node would refuse, or a robot that is none.
    """
    values = {
        "use_sim_time": launching.switch(context, "use_sim_time"),
        "autostart": launching.switch(context, "autostart"),
        **parameters,
    }
    _check(_settled(context, name, values), robot)
    return Node(
        package="vm_dynamics",
        executable=name,
        name=name,
        namespace=launching.namespace(context),
        # the later ones win
        parameters=[launching.file(context, "params_file"), launching.typed(values)],
        remappings=[*wiring, *launching.clock_remapping(context)],
        output="screen",
    )


def model(context: Any, robot: str) -> dict[str, Any]:
    """Parameters of all nodes that know the robot, as far as arguments give them."""
    out: dict[str, Any] = {}
    if robot:
        out["robot_description"] = robot
    for name in ("base", "frame_prefix"):
        if launching.given(context, name):
            out[name] = launching.given(context, name)
    if launching.given(context, "gravity"):
        out["gravity"] = launching.numbers(context, "gravity", 3)
    if launching.beside(context, "hydrodynamics"):
        out["hydrodynamics"] = launching.beside(context, "hydrodynamics")
    return out


def _robot_node(
    context: Any, robot: str, name: str, parameters: dict[str, Any], wiring: Wiring
) -> Node:
    """A node that computes with the robot."""
    topics = [(t, launching.topic(context, t)) for t in ("robot_description", "joint_states")]
    values = {**model(context, robot), **parameters}
    return node(context, name, values, [*topics, *wiring], robot)


def _hearing_base(context: Any, robot: str, name: str) -> Node:
    """A node that hears poses of the base and known wrenches on it."""
    parameters = {}
    for argument, key in (("pose_type", "pose.type"), ("world_frame", "world_frame")):
        if launching.given(context, argument):
            parameters[key] = launching.given(context, argument)
    wiring = [(topic, launching.topic(context, topic)) for topic in ("pose", "base_wrench")]
    return _robot_node(context, robot, name, parameters, wiring)


def _compensator(context: Any, robot: str) -> Node:
    parameters: dict[str, Any] = {"require_enable": launching.switch(context, "require_enable")}
    for name in ("effort_scale", "timeout"):
        if launching.given(context, name):
            parameters[name] = launching.numbers(context, name, 1)[0]
    for name in ("resume", "second_publisher"):
        if launching.given(context, name):
            parameters[name] = launching.given(context, name)
    if launching.beside(context, "propulsion"):
        parameters["propulsion"] = launching.beside(context, "propulsion")
    parameters |= _controller(context, {**model(context, robot), **parameters})
    wiring = [
        ("locked_velocity", "observer_node/locked_velocity"),
        ("locked_velocity_with_covariance", "observer_node/locked_velocity_with_covariance"),
        ("estimate_state", "observer_node/estimate_state"),
        ("contact", "observer_node/contact"),
        ("odom", "observer_node/odom"),
        ("target", launching.topic(context, "target")),
        ("~/commands", launching.topic(context, "commands")),
        ("~/thrusts", launching.topic(context, "thrusts")),
    ]
    return _robot_node(context, robot, "compensator_node", parameters, wiring)


def _controller(context: Any, parameters: dict[str, Any]) -> dict[str, str]:
    """Parameter ``controller``, if it is not left to the parameter file.

    Whoever has rotors and weight would fall without them.
    """
    asked = launching.given(context, "controller")
    if asked not in ("", "auto", *CONTROLLERS) and not is_import_path(asked):
        raise UnknownNameError("controller", asked, ("auto", *CONTROLLERS))
    if asked != "auto":
        return {"controller": asked} if asked else {}
    if "controller" in _of_file(context, "compensator_node"):
        return {}
    p = _settled(context, "compensator_node", parameters)
    flies = p.propulsion and any(p.gravity)
    return {"controller": "computed_torque" if flies else "momentum"}


# -- checks ---------------------------------------------------------------------------------------


def _of_file(context: Any, name: str) -> dict[str, Any]:
    path = launching.file(context, "params_file")
    return launching.from_file(path, f"{launching.namespace(context)}/{name}")


def _settled(context: Any, name: str, values: dict[str, Any]) -> Any:
    """Parameters that a node will have; raises what is out of range."""
    kind: Any = reference.NODES[name]
    known = {kind.ros_name(item.name): item.name for item in fields(kind)}
    both = {**_of_file(context, name), **values}
    try:
        return kind(
            **{
                known[key]: tuple(value) if isinstance(value, list) else value
                for key, value in both.items()
                if key in known
            }
        )
    except TypeError as error:  # of the parameter file: arguments have their types
        path = launching.file(context, "params_file")
        raise ParameterError(f"parameter file {path!r}: {name}: {error}") from None


def _check(p: Any, text: str) -> None:
    """Build the robot as the node will."""
    if not text or not isinstance(p, ModelParameters):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UrdfWarning)  # the nodes say them
            robot = p.robot_of(text)
    except UrdfError as error:
        raise UrdfError(f"argument robot: {error}") from error
    if propulsion := getattr(p, "propulsion", ""):
        Propulsion.load(robot, propulsion)


# -- nodes of others ------------------------------------------------------------------------------


def foreign(
    context: Any,
    package: str,
    executable: str,
    *,
    arguments: Iterable[str] = (),
    parameters: dict[str, Any] | None = None,
    remappings: Iterable[tuple[str, str]] = (),
) -> Node:
    """A node of another package.

    Raises:
        MissingPackageError: which is not installed.
    """
    launching.require(package)
    values = {"use_sim_time": launching.switch(context, "use_sim_time"), **(parameters or {})}
    return Node(
        package=package,
        executable=executable,
        name=executable,
        namespace=launching.namespace(context),
        arguments=list(arguments),
        parameters=[launching.typed(values)],
        remappings=[*remappings, *launching.clock_remapping(context)],
        output="screen",
    )


def _wants_state_publisher(context: Any, robot: str) -> bool:
    if launching.given(context, "state_publisher") == "auto":
        return bool(robot) and launching.switch(context, "tf")
    wanted = launching.switch(context, "state_publisher")
    if wanted and not robot:
        raise ParameterError("argument state_publisher: true, but argument robot is empty")
    return wanted


def _state_publisher(context: Any, published: str) -> Node:
    topics = [(t, launching.topic(context, t)) for t in ("robot_description", "joint_states")]
    return foreign(
        context,
        "robot_state_publisher",
        "robot_state_publisher",
        parameters={
            "robot_description": published,
            "frame_prefix": launching.given(context, "frame_prefix"),
            "publish_frequency": 50.0,
        },
        remappings=[*topics, *launching.tf_remappings(context)],
    )


def _rviz(context: Any) -> Node:
    arguments = ["-d", _rviz_config(context)]
    if launching.given(context, "world_frame"):
        arguments += ["-f", launching.given(context, "world_frame")]
    return foreign(
        context,
        "rviz2",
        "rviz2",
        arguments=arguments,
        remappings=launching.tf_remappings(context),
    )


def _rviz_config(context: Any) -> str:
    """Path of what RViz shows; a prefix of frames has to be written into it."""
    path = config_dir() / "rviz" / "vm_dynamics.rviz"
    prefix = launching.given(context, "frame_prefix")
    if not prefix:
        return str(path)
    content = yaml.safe_load(path.read_text())
    for display in content["Visualization Manager"]["Displays"]:
        if display["Class"] == "rviz_default_plugins/RobotModel":
            display["TF Prefix"] = prefix.removesuffix("/")  # RViz puts the slash itself
    return launching.temporary("rviz", content, suffix=".rviz")
