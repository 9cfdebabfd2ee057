# SPDX-License-Identifier: Apache-2.0
"""Dynamics, observation and control of robots whose base moves."""

from vm_dynamics import lie
from vm_dynamics.errors import (
    DimensionError,
    NonFiniteError,
    UnknownGroupError,
    UnknownJointError,
    UnknownLinkError,
    UnknownMethodError,
    UnphysicalInertiaError,
    UrdfError,
    UrdfWarning,
    VmDynamicsError,
)
from vm_dynamics.robot import METHODS, Hamel, Robot, load

__version__ = "0.1.0"
__all__ = [
    "METHODS",
    "DimensionError",
    "Hamel",
    "NonFiniteError",
    "Robot",
    "UnknownGroupError",
    "UnknownJointError",
    "UnknownLinkError",
    "UnknownMethodError",
    "UnphysicalInertiaError",
    "UrdfError",
    "UrdfWarning",
    "VmDynamicsError",
    "lie",
    "load",
]
