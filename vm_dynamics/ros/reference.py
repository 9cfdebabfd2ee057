# SPDX-License-Identifier: Apache-2.0
"""Topics and parameters of all nodes as Markdown: ``python -m vm_dynamics.ros.reference``.

Parameters come from the classes that declare them. Topics are listed here, and a test compares the
list with what the running nodes really have.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, NamedTuple

from vm_dynamics.ros.ccf_node import CcfParameters
from vm_dynamics.ros.compensator_parameters import CompensatorParameters
from vm_dynamics.ros.dynamics_node import MATRICES, DynamicsParameters
from vm_dynamics.ros.identifier_node import IdentifierParameters
from vm_dynamics.ros.joint_force_node import JointForceParameters
from vm_dynamics.ros.observer_node import ObserverParameters
from vm_dynamics.ros.parameters import NodeParameters, RobotParameters
from vm_dynamics.ros.sim_node import SimParameters

NODES: dict[str, type[NodeParameters]] = {
    "dynamics_node": DynamicsParameters,
    "observer_node": ObserverParameters,
    "compensator_node": CompensatorParameters,
    "ccf_node": CcfParameters,
    "identifier_node": IdentifierParameters,
    "sim_node": SimParameters,
    "joint_force_node": JointForceParameters,
    "odom_tf_node": NodeParameters,
}


class Topic(NamedTuple):
    """A topic, service or action.

    Attributes:
        way: ``in``, ``out``, ``service`` or ``action``.
        name: relative to the namespace, with ``~`` for the node's own.
        kinds: types, of which a parameter may choose one.
        what: in words.
    """

    way: str
    name: str
    kinds: tuple[str, ...]
    what: str


def _in(name: str, kinds: str, what: str) -> Topic:
    return Topic("in", name, tuple(kinds.split()), what)


def _out(name: str, kinds: str, what: str) -> Topic:
    return Topic("out", name, tuple(kinds.split()), what)


_ROBOT = (
    _in(
        "robot_description", "std_msgs/String", "URDF text, latched; not read if the parameter is"
    ),
    _in("joint_states", "sensor_msgs/JointState", "matched by name"),
)
_POSE = _in(
    "pose",
    "geometry_msgs/PoseStamped geometry_msgs/PoseWithCovarianceStamped nav_msgs/Odometry "
    "geometry_msgs/TransformStamped",
    "of the root link in the world, by `pose.type`",
)
_WRENCH = _in("base_wrench", "geometry_msgs/WrenchStamped", "known wrench on the base, if any")
_ARRAY = "std_msgs/Float64MultiArray"
_MATRICES = {
    "mass_matrix": "M, (b+n, b+n), base first",
    "connection": "A, (b, n)",
    "locked_inertia": "M_b, (b, b)",
    "shape_inertia": "Lambda_q, (n, n)",
    "coriolis": "C of Hamel's equations, (b+n, b+n)",
    "curvature": "(b, n n), in the frame of the parameter `frame`",
}
TOPICS: dict[str, tuple[Topic, ...]] = {
    "dynamics_node": (
        *_ROBOT,
        _in(
            "base_twist",
            "geometry_msgs/TwistWithCovarianceStamped",
            "velocity that the Coriolis matrix is taken at; zero without",
        ),
        *(_out(f"~/{name}", _ARRAY, _MATRICES[name]) for name in MATRICES),
        _out("~/com", "geometry_msgs/PointStamped", "centre of mass in {1} [m]"),
    ),
    "observer_node": (
        *_ROBOT,
        _POSE,
        _WRENCH,
        _in("imu", "sensor_msgs/Imu", "angular velocity, with `imu.link`"),
        _in(
            "velocity",
            "geometry_msgs/TwistWithCovarianceStamped",
            "linear velocity, with `velocity_axes`",
        ),
        _out("~/odom", "nav_msgs/Odometry", "pose and twist with covariance"),
        _out("~/twist", "geometry_msgs/TwistWithCovarianceStamped", "[v; w] in {1}"),
        _out("~/locked_velocity", "geometry_msgs/TwistStamped", "mu = V + A qd in {1}"),
        _out(
            "~/locked_velocity_with_covariance",
            "geometry_msgs/TwistWithCovarianceStamped",
            "the same ten times a second, wider while the estimate is inconsistent",
        ),
        _out(
            "~/estimate_state",
            "std_msgs/String",
            "waiting, tracking, inconsistent or coasting, when it changes",
        ),
        _out("~/momentum", _ARRAY, "M_b mu in {1}, (b,)"),
        _out(
            "~/contact",
            "geometry_msgs/WrenchStamped",
            "what pushes the robot, in the link's frame, if joint states have efforts; zero when "
            "it is over",
        ),
    ),
    "compensator_node": (
        *_ROBOT,
        _in(
            "target",
            "trajectory_msgs/JointTrajectoryPoint sensor_msgs/JointState",
            "what the joints shall do, by `target_type`",
        ),
        _in(
            "~/joint_trajectory",
            "trajectory_msgs/JointTrajectory",
            "what they shall do over time; an empty one stops them",
        ),
        _in(
            "locked_velocity",
            "geometry_msgs/TwistStamped",
            "the observer's, for laws 1 and 2, or for a controller that needs it",
        ),
        _in(
            "locked_velocity_with_covariance",
            "geometry_msgs/TwistWithCovarianceStamped",
            "the observer's, to know how certain it is",
        ),
        _in("estimate_state", "std_msgs/String", "the observer's, to know if it is consistent"),
        _in("odom", "nav_msgs/Odometry", "the observer's, where weight or the base matters"),
        _in(
            "base_target",
            "geometry_msgs/PoseStamped",
            "computed_torque, or with base_pose: where the base shall be, in the frame of odom",
        ),
        _in(
            "tool_target",
            "geometry_msgs/PoseStamped",
            "reaction, or with tool_pose: where the tool shall be, in the frame of odom",
        ),
        _in("contact", "geometry_msgs/WrenchStamped", "the observer's, with `on_contact`"),
        _out("~/commands", _ARRAY, "joint efforts in the order of `joints`"),
        _out("~/torques", "sensor_msgs/JointState", "the same by name"),
        _out("~/thrusts", _ARRAY, "of the rotors [N], where the controller drives some"),
        _out(
            "~/base_wrench",
            "geometry_msgs/WrenchStamped",
            "what they give, or what a controller of your own asks for, [f; t] in {1}",
        ),
        Topic(
            "service",
            "~/enable",
            ("std_srvs/SetBool",),
            "allow or forbid torques; forbidding forgets the targets",
        ),
        Topic(
            "action",
            "~/follow_joint_trajectory",
            ("control_msgs/FollowJointTrajectory",),
            "a trajectory with feedback and a result, where `control_msgs` is installed",
        ),
    ),
    "ccf_node": (
        *_ROBOT,
        _out("~/map", "sensor_msgs/PointCloud2", "x, y, z, intensity and all components; latched"),
        _out("~/gait", "visualization_msgs/Marker", "a loop, drawn on the map"),
        _out("~/displacement", "geometry_msgs/PoseStamped", "of the base after that loop"),
    ),
    "identifier_node": (
        *_ROBOT,
        _POSE,
        _WRENCH,
        _out(
            "~/payload",
            _ARRAY,
            "mass [kg], centre of mass [m], inertia [kg m^2] by name, in the link's frame, (10,)",
        ),
        _out("~/covariance", _ARRAY, "of these, (10, 10)"),
        Topic("service", "~/apply", ("std_srvs/Trigger",), "hand the payload to the other nodes"),
        Topic("service", "~/reset", ("std_srvs/Trigger",), "begin to learn anew"),
    ),
    "sim_node": (
        _in("commands", _ARRAY, "joint efforts in the robot's order"),
        _in("thrusts", _ARRAY, "what the thrusters shall give [N]"),
        _in("base_wrench", "geometry_msgs/WrenchStamped", "a push from outside, in {1}"),
        _in("torques", "sensor_msgs/JointState", "whose stamps are waited for, with `most_lead`"),
        _in("odom", "nav_msgs/Odometry", "likewise"),
        _out("/clock", "rosgraph_msgs/Clock", "simulated time"),
        _out("robot_description", "std_msgs/String", "URDF text, latched"),
        _out("joint_states", "sensor_msgs/JointState", "with noise"),
        _out("pose", "geometry_msgs/PoseStamped", "slow, noisy, late"),
        _out("ground_truth/odom", "nav_msgs/Odometry", "the truth"),
        _out("thruster_wrench", "geometry_msgs/WrenchStamped", "what thrusters really give"),
        Topic("service", "~/reset", ("std_srvs/Trigger",), "back to the start"),
    ),
    "joint_force_node": (
        _in("commands", _ARRAY, "joint efforts in the order of `joints`"),
        _out("joint/<name>/cmd_force", "std_msgs/Float64", "of each joint, for Gazebo"),
    ),
    "odom_tf_node": (
        _in("odom", "nav_msgs/Odometry", "the observer's"),
        _out("/tf", "tf2_msgs/TFMessage", "where the base is, for RViz"),
    ),
}


def summary() -> str:
    """A row for each node, as the README has it."""
    lines = ["| node | in | out | services, actions |", "|---|---|---|---|"]
    for node, entries in TOPICS.items():
        cells = [
            ", ".join(f"`{topic.name}`" for topic in entries if topic.way in ways)
            for ways in (("in",), ("out",), ("service", "action"))
        ]
        lines.append(f"| `{node}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def topics() -> str:
    """A table of topics for each node."""
    parts = []
    for node, entries in TOPICS.items():
        lines = [f"### {node}", "", "| | topic | type | what |", "|---|---|---|---|"]
        lines += [
            f"| {topic.way} | `{topic.name}` | {', '.join(topic.kinds)} | {topic.what} |"
            for topic in entries
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def parameters() -> str:
    """A table of what all nodes share, and one for each node."""
    shared = {item.name for item in fields(RobotParameters)}
    parts = ["### All nodes that compute with a robot", _table(RobotParameters, shared)]
    for name, kind in NODES.items():
        common = shared if issubclass(kind, RobotParameters) else set()
        names = {item.name for item in fields(kind)} - common
        parts += [f"### {name}", _table(kind, names)]
    return "\n\n".join(parts)


def _table(kind: type[NodeParameters], names: set[str]) -> str:
    lines = ["| parameter | default | what | fixed |", "|---|---|---|---|"]
    for item in fields(kind):
        if item.name in names:
            facts = item.metadata
            unit = f" [{facts['unit']}]" if facts["unit"] else ""
            choices = ", ".join(f"`{c}`" for c in facts["choices"] if c)
            choices += f", or `{facts['others'][0]}`" if facts["others"] else ""
            what = facts["description"] + unit + (f": {choices}" if choices else "")
            fixed = "yes" if facts["read_only"] else ""
            name = kind.ros_name(item.name)
            lines.append(f"| `{name}` | `{_shown(item.default)}` | {what} | {fixed} |")
    return "\n".join(lines)


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return f"[{', '.join(map(str, default))}]"
    if isinstance(default, str):
        return f'"{default}"'
    return str(default).lower() if isinstance(default, bool) else str(default)


def page() -> str:
    """The end of docs/nodes.md."""
    return f"## Topics\n\n{topics()}\n\n## Parameters\n\n{parameters()}\n"


if __name__ == "__main__":
    print(page(), end="")
