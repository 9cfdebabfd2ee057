# SPDX-License-Identifier: Apache-2.0
"""Simulation on the group, and of a robot with its motors and sensors by MuJoCo."""

from vm_dynamics.simulation.simulate import INTEGRATORS, Command, simulate
from vm_dynamics.simulation.simulator import Sensing, Simulator
from vm_dynamics.simulation.trajectory import State, Trajectory

__all__ = ["INTEGRATORS", "Command", "Sensing", "Simulator", "State", "Trajectory", "simulate"]
