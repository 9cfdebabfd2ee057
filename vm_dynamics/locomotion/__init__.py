# SPDX-License-Identifier: Apache-2.0
"""Locomotion: curvature maps, gaits, how they displace the base, and plans that turn it."""

from vm_dynamics.locomotion.areas import FrameWarning
from vm_dynamics.locomotion.atlas import AtlasEntry, CurvatureAtlas, curvature_atlas
from vm_dynamics.locomotion.ccf import CurvatureMap, ccf_map
from vm_dynamics.locomotion.collisions import (
    CLEARANCE_RESOLUTION,
    CollisionModel,
    LeftOut,
    Nearest,
)
from vm_dynamics.locomotion.displacement import (
    Comparison,
    Displacement,
    base_motion,
    gait_displacement,
)
from vm_dynamics.locomotion.gaits import Gait, GaitSamples
from vm_dynamics.locomotion.loops import JointLimits
from vm_dynamics.locomotion.plan import BasePath, ReorientationPlan
from vm_dynamics.locomotion.planes import MAP_FRAMES, GaitPlane, LimitsWarning
from vm_dynamics.locomotion.planner import ReorientationPlanner
from vm_dynamics.locomotion.reorientation import plan_reorientation
from vm_dynamics.locomotion.reorientation_control import ReorientationController

__all__ = [
    "CLEARANCE_RESOLUTION",
    "MAP_FRAMES",
    "AtlasEntry",
    "BasePath",
    "CollisionModel",
    "Comparison",
    "CurvatureAtlas",
    "CurvatureMap",
    "Displacement",
    "FrameWarning",
    "Gait",
    "GaitPlane",
    "GaitSamples",
    "JointLimits",
    "LeftOut",
    "LimitsWarning",
    "Nearest",
    "ReorientationController",
    "ReorientationPlan",
    "ReorientationPlanner",
    "base_motion",
    "ccf_map",
    "curvature_atlas",
    "gait_displacement",
    "plan_reorientation",
]
