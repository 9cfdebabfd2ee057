# SPDX-License-Identifier: Apache-2.0
"""Controllers for robots whose base moves: plain objects behind one protocol."""

from vm_dynamics.control.compensator import Compensation, MomentumCompensator
from vm_dynamics.control.computed_torque import ComputedTorque, FlightCommand
from vm_dynamics.control.controller import Controller, ControlState, Efforts
from vm_dynamics.control.following import Following, Tolerances, Verdict
from vm_dynamics.control.gains import critical_damping, free_inertias, shaken_joint, soft_stiffness
from vm_dynamics.control.joint_path import JointMotion, JointPath
from vm_dynamics.control.joint_trajectory import JointTrajectory, TrajectoryPoint
from vm_dynamics.control.limits import JointLimits
from vm_dynamics.control.pose_control import PoseCommand, PoseControl
from vm_dynamics.control.reaction_mode import ReactionCommand, ReactionMode, Spring
from vm_dynamics.control.targets import JointReference
from vm_dynamics.control.tilt import TiltGuidance

__all__ = [
    "Compensation",
    "ComputedTorque",
    "ControlState",
    "Controller",
    "Efforts",
    "FlightCommand",
    "Following",
    "JointLimits",
    "JointMotion",
    "JointPath",
    "JointReference",
    "JointTrajectory",
    "MomentumCompensator",
    "PoseCommand",
    "PoseControl",
    "ReactionCommand",
    "ReactionMode",
    "Spring",
    "TiltGuidance",
    "Tolerances",
    "TrajectoryPoint",
    "Verdict",
    "critical_damping",
    "free_inertias",
    "shaken_joint",
    "soft_stiffness",
]
