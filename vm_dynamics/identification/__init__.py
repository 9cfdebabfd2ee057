# SPDX-License-Identifier: Apache-2.0
"""What a robot carries and how its joints rub, from the way it moves."""

from vm_dynamics.identification.friction import FrictionIdentifier
from vm_dynamics.identification.motion import ExcitingMotion, exciting_motion
from vm_dynamics.identification.payload import PayloadIdentifier

__all__ = ["ExcitingMotion", "FrictionIdentifier", "PayloadIdentifier", "exciting_motion"]
