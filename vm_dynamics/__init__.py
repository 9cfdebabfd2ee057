# SPDX-License-Identifier: Apache-2.0
"""Dynamics, observation and control of robots whose base moves."""

from vm_dynamics import lie
from vm_dynamics.control import (
    ComputedTorque,
    Controller,
    ControlState,
    Efforts,
    MomentumCompensator,
    PoseControl,
    ReactionMode,
)
from vm_dynamics.dynamics.loads import LinkWrench
from vm_dynamics.dynamics.matrices import Hamel
from vm_dynamics.dynamics.propulsion import Allocation, Propulsion, Rotor
from vm_dynamics.dynamics.quaternion import QuaternionModel
from vm_dynamics.errors import (
    DimensionError,
    DivergedError,
    NonFiniteError,
    ParameterError,
    SimulationWarning,
    UnknownGroupError,
    UnknownJointError,
    UnknownLinkError,
    UnknownMethodError,
    UnphysicalInertiaError,
    UrdfError,
    UrdfWarning,
    VmDynamicsError,
)
from vm_dynamics.estimation import (
    OBSERVERS,
    AlphaBetaObserver,
    Contact,
    ContactObserver,
    DifferentiatedPose,
    InvariantEkf,
    LieGroupObserver,
    PoseDelay,
)
from vm_dynamics.identification import (
    ExcitingMotion,
    FrictionIdentifier,
    PayloadIdentifier,
    exciting_motion,
)
from vm_dynamics.locomotion import (
    Gait,
    GaitPlane,
    LimitsWarning,
    ReorientationController,
    base_motion,
    ccf_map,
    curvature_atlas,
    gait_displacement,
    plan_reorientation,
)
from vm_dynamics.model.hydrodynamics import Hydrodynamics
from vm_dynamics.robot import METHODS, Robot, load, submerge
from vm_dynamics.simulation import INTEGRATORS, Command, State, Trajectory, simulate

__version__ = "0.1.0"
__all__ = [
    "INTEGRATORS",
    "METHODS",
    "OBSERVERS",
    "Allocation",
    "AlphaBetaObserver",
    "Command",
    "ComputedTorque",
    "Contact",
    "ContactObserver",
    "ControlState",
    "Controller",
    "DifferentiatedPose",
    "DimensionError",
    "DivergedError",
    "Efforts",
    "ExcitingMotion",
    "FrictionIdentifier",
    "Gait",
    "GaitPlane",
    "Hamel",
    "Hydrodynamics",
    "InvariantEkf",
    "LieGroupObserver",
    "LimitsWarning",
    "LinkWrench",
    "MomentumCompensator",
    "NonFiniteError",
    "ParameterError",
    "PayloadIdentifier",
    "PoseControl",
    "PoseDelay",
    "Propulsion",
    "QuaternionModel",
    "ReactionMode",
    "ReorientationController",
    "Robot",
    "Rotor",
    "SimulationWarning",
    "State",
    "Trajectory",
    "UnknownGroupError",
    "UnknownJointError",
    "UnknownLinkError",
    "UnknownMethodError",
    "UnphysicalInertiaError",
    "UrdfError",
    "UrdfWarning",
    "VmDynamicsError",
    "base_motion",
    "ccf_map",
    "curvature_atlas",
    "exciting_motion",
    "gait_displacement",
    "lie",
    "load",
    "plan_reorientation",
    "simulate",
    "submerge",
]
