# SPDX-License-Identifier: Apache-2.0
"""Simulation on the group: fixed-step integrators that need no parameters of the rotation."""

from vm_dynamics.simulation.simulate import INTEGRATORS, Command, simulate
from vm_dynamics.simulation.trajectory import State, Trajectory

__all__ = ["INTEGRATORS", "Command", "State", "Trajectory", "simulate"]
