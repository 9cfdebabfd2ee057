# SPDX-License-Identifier: Apache-2.0
"""Observers of the base velocity of a robot whose base moves, behind one interface."""

from vm_dynamics.estimation.alpha_beta import AlphaBetaObserver
from vm_dynamics.estimation.contact import Contact, ContactObserver, ContactStatus
from vm_dynamics.estimation.differentiated_pose import DifferentiatedPose
from vm_dynamics.estimation.estimate import Status
from vm_dynamics.estimation.invariant_ekf import InvariantEkf
from vm_dynamics.estimation.lie_group import LieGroupObserver
from vm_dynamics.estimation.observer import Observer
from vm_dynamics.estimation.pose_delay import PoseDelay

OBSERVERS: dict[str, type[Observer]] = {
    "lie_group": LieGroupObserver,
    "alpha_beta": AlphaBetaObserver,
    "invariant_ekf": InvariantEkf,
    "differentiated_pose": DifferentiatedPose,
}

__all__ = [
    "OBSERVERS",
    "AlphaBetaObserver",
    "Contact",
    "ContactObserver",
    "ContactStatus",
    "DifferentiatedPose",
    "InvariantEkf",
    "LieGroupObserver",
    "Observer",
    "PoseDelay",
    "Status",
]
