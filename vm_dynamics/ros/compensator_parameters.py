# SPDX-License-Identifier: Apache-2.0
"""Parameters of compensator_node, and what follows of them for a robot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vm_dynamics.control.imported import IMPORT_PATH_FORM, is_import_path
from vm_dynamics.control.reaction_mode import BASE_WEIGHT
from vm_dynamics.errors import ParameterError, UnknownJointError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot
from vm_dynamics.ros.controllers import BUILDERS
from vm_dynamics.ros.parameters import RobotParameters, numbers_by_name, parameter
from vm_dynamics.ros.torques import RESUME
from vm_dynamics.ros.watchdog import timeout_parameter

ON_CONTACT = ("zero", "hold", "ignore")  # from the strictest on


@dataclass(frozen=True)
class CompensatorParameters(RobotParameters):
    """Parameters of the compensator node."""

    GROUPS: ClassVar[tuple[str, ...]] = ("payload", "gains", "constraints")

    controller: str = parameter(
        "momentum",
        "which controller, or a class of your own by its import path",
        choices=tuple(BUILDERS),
        others=(IMPORT_PATH_FORM, is_import_path),
    )
    controller_settings: tuple[str, ...] = parameter(
        (),
        "arguments for a class of your own: name=value, the values as JSON, else taken as text",
    )
    law: int = parameter(
        2,
        "momentum: compensation 1 (with the gyroscopic term), 2 (quieter), 0 for a plain PD law",
        minimum=0,
        maximum=2,
    )
    joints: tuple[str, ...] = parameter(
        (), "order of the commands and of targets; if empty, the robot's", read_only=True
    )
    gains_stiffness: float = parameter(
        -1.0,
        "stiffness of every joint; below zero for 20, and less where a light joint would shake, "
        "and what suits the rotors of a base",
        unit="N m/rad, or 1/s^2 of computed_torque",
    )
    gains_damping: float = parameter(
        -1.0,
        "damping of every joint; below zero for critical damping",
        unit="N m s/rad, or 1/s of computed_torque",
    )
    gains_stiffness_of: tuple[str, ...] = parameter(
        (), "stiffness of single joints (or axes of computed_torque): name=value"
    )
    gains_damping_of: tuple[str, ...] = parameter(
        (), "damping of single joints (or axes of computed_torque): name=value"
    )
    gains_integral_time: float = parameter(
        0.0,
        "momentum, computed_torque: time in which integral action takes over a steady load; its "
        "gains are the stiffness divided by it; 0 for none",
        unit="s",
        minimum=0.0,
    )
    gains_integral_of: tuple[str, ...] = parameter(
        (),
        "integral gains of single joints (or axes of computed_torque): name=value [N m/(rad s), "
        "or 1/s^3 of computed_torque]",
    )
    friction: bool = parameter(
        False, "momentum: whether the friction of the joints is fed forward, as the URDF has it"
    )
    friction_of: tuple[str, ...] = parameter(
        (), "momentum: dry friction of single joints as identified: name=value [N m or N]"
    )
    timeout: float = timeout_parameter(
        "age of joints or velocity estimate that stops the torques; at least two periods of the "
        "joint states"
    )
    require_enable: bool = parameter(
        True, "no torque until the service ~/enable says so", read_only=True
    )
    resume: str = parameter(
        "enable",
        "what follows a stop of the torques once all inputs are well again: wait for ~/enable, "
        "raise the torques from zero in a second, or go on at once",
        choices=RESUME,
    )
    second_publisher: str = parameter(
        "stop",
        "what to do when a topic that torques depend on has more than one publisher",
        choices=("stop", "warn"),
    )
    on_inconsistent: str = parameter(
        "fade",
        "what to do while the estimate of the base is inconsistent, or less certain than "
        "max_deviation: fade the compensation out to a plain PD law, or go on",
        choices=("fade", "ignore"),
    )
    max_deviation: float = parameter(
        0.1,
        "largest standard deviation of the locked velocity that is good enough to compensate",
        unit="m/s, rad/s",
        minimum=0.0,
    )
    on_contact: str = parameter(
        "ignore",
        "what to do when the topic contact says that something pushes the robot: nothing, hold "
        "the joints where they are and refuse targets until it is over, or zero torques until "
        "~/enable",
        choices=ON_CONTACT,
    )
    effort_scale: float = parameter(
        1.0, "share of the URDF's effort limits that is used", minimum=0.0, maximum=1.0
    )
    target_limits: str = parameter(
        "refuse",
        "what to do with a target beyond the position or velocity limits of the URDF: refuse it, "
        "or clip it",
        choices=("refuse", "clip"),
    )
    acceleration_limit: float = parameter(
        0.0,
        "largest acceleration of a joint on its way to a target that jumps; 0 for none",
        unit="rad/s^2 or m/s^2",
        minimum=0.0,
    )
    acceleration_limit_of: tuple[str, ...] = parameter((), "the same of single joints: name=value")
    target_type: str = parameter(
        "trajectory_point",
        "message type of the topic target",
        choices=("trajectory_point", "joint_state"),
        read_only=True,
    )
    constraints_trajectory: float = parameter(
        0.0,
        "how far a joint may be from its trajectory on the way, else it stops; 0 for no matter",
        unit="rad or m",
        minimum=0.0,
    )
    constraints_trajectory_of: tuple[str, ...] = parameter(
        (), "the same of single joints: name=value"
    )
    constraints_goal: float = parameter(
        0.0,
        "how near a joint must come to the end of its trajectory; 0 for no matter",
        unit="rad or m",
        minimum=0.0,
    )
    constraints_goal_of: tuple[str, ...] = parameter((), "the same of single joints: name=value")
    constraints_stopped_velocity_tolerance: float = parameter(
        0.01,
        "velocity below which a joint has stopped at the end of its trajectory; 0 for no matter",
        unit="rad/s or m/s",
        minimum=0.0,
    )
    constraints_goal_time: float = parameter(
        0.0,
        "how long after its end a trajectory may take to be there; 0 for ever",
        unit="s",
        minimum=0.0,
    )
    action_monitor_rate: float = parameter(
        20.0,
        "feedback of the action follow_joint_trajectory, and how often its end is looked for",
        unit="Hz",
        minimum=0.1,
        maximum=1000.0,
        read_only=True,
    )
    propulsion: str = parameter(
        "", "computed_torque: YAML file with a section propulsion", read_only=True
    )
    lean: bool = parameter(
        True, "computed_torque: lean to hold a place where the rotors push along one axis only"
    )
    tool_link: str = parameter("", "reaction: link that follows tool_target; the tip if empty")
    position_only: bool = parameter(True, "reaction: leave the tool's orientation free")
    base_weight: float = parameter(
        BASE_WEIGHT,
        "reaction: how much it matters that the base does not turn, against the tool's motion",
        unit="m/rad",
        minimum=0.0,
    )
    failed_joints: tuple[str, ...] = parameter((), "reaction: joints that have no motor now")


def order_of(robot: Robot, p: CompensatorParameters) -> tuple[str, ...]:
    """Joints in the order of the commands."""
    for name in p.joints:
        if name not in robot.joint_names:
            raise UnknownJointError("parameter joints", name, robot.joint_names)
    if len(set(p.joints)) != len(p.joints):
        raise ParameterError(f"parameter joints: got {list(p.joints)}, a joint twice")
    return p.joints or robot.joint_names


def acceleration_limits(robot: Robot, p: CompensatorParameters) -> Array:
    """Limits of acceleration, shape (n,), infinite where there are none."""
    out = np.full(robot.n, p.acceleration_limit)
    for name, value in numbers_by_name("acceleration_limit_of", p.acceleration_limit_of).items():
        if name not in robot.joint_names:
            raise UnknownJointError("parameter acceleration_limit_of", name, robot.joint_names)
        if not value >= 0.0:
            raise ParameterError(
                f"parameter acceleration_limit_of: got {name}={value:g}, expected no negative "
                "number"
            )
        out[robot.joint_names.index(name)] = value
    return np.where(out > 0.0, out, np.inf)


def check_not_wider(now: CompensatorParameters, then: CompensatorParameters) -> None:
    """Refuse parameters that widen a limit."""
    wider = {
        "effort_scale": then.effort_scale > now.effort_scale,
        "timeout": then.timeout > now.timeout,
        "resume": RESUME.index(then.resume) > RESUME.index(now.resume),
        "second_publisher": (now.second_publisher, then.second_publisher) == ("stop", "warn"),
        "on_inconsistent": (now.on_inconsistent, then.on_inconsistent) == ("fade", "ignore"),
        "max_deviation": then.max_deviation > now.max_deviation,
        "on_contact": ON_CONTACT.index(then.on_contact) > ON_CONTACT.index(now.on_contact),
        "acceleration_limit": _wider(now.acceleration_limit, then.acceleration_limit),
    }
    for name, is_wider in wider.items():
        if is_wider:
            raise ParameterError(
                f"parameter {name}: {getattr(then, name)} is wider than {getattr(now, name)}; "
                "disable the torques first, with the service ~/enable"
            )


def _wider(now: float, then: float) -> bool:
    """Whether a limit grows, of which zero means none."""
    return now > 0.0 and (then == 0.0 or then > now)
