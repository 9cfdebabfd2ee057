# SPDX-License-Identifier: Apache-2.0
"""States of a robot and what a simulation returns: arrays with names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot


class State(NamedTuple):
    """Where a robot is and how it moves.

    Attributes:
        g: pose of the base in the world, shape (4, 4).
        q: joint positions, shape (n,) [rad or m].
        V: base velocity in {1}, shape (b,) [m/s, rad/s].
        qd: joint velocities, shape (n,).
    """

    g: Array
    q: Array
    V: Array
    qd: Array

    @staticmethod
    def at_rest(robot: Robot, q: ArrayLike | None = None) -> State:
        """At the origin of the world and at rest, at joint positions q, zero unless given."""
        shape = np.zeros(robot.n) if q is None else vector("q", q, robot.n)
        return State(np.eye(4), shape, np.zeros(robot.b), np.zeros(robot.n))


def checked_state(robot: Robot, state: Any) -> State:
    """A state in arrays of its own that fits a robot, or an error that says what does not."""
    try:
        g, q, V, qd = state
    except (TypeError, ValueError):
        raise ParameterError(
            f"state: got {type(state).__name__}, expected a State(g, q, V, qd), as "
            "State.at_rest(robot)"
        ) from None
    return State(*robot.check_state(g, q, V, qd))


@dataclass(frozen=True)
class Trajectory:
    """A simulated motion of N steps.

    Attributes:
        robot: what moved.
        t: times, shape (N + 1,) [s].
        g: poses of the base in the world, shape (N + 1, 4, 4).
        q: joint positions, shape (N + 1, n).
        V: base velocities in {1}, shape (N + 1, b).
        qd: joint velocities, shape (N + 1, n).
        tau: joint efforts held from each time to the next, without friction, shape (N, n); of a
            driven joint what its drive gives at the first of the two, friction overcome.
        F: base wrenches in {1} held likewise, shape (N, b); of a driven base what drives it.
    """

    robot: Robot
    t: Array
    g: Array
    q: Array
    V: Array
    qd: Array
    tau: Array
    F: Array

    def __len__(self) -> int:
        """Number of states."""
        return len(self.t)

    def __getitem__(self, k: int) -> State:
        """State number k."""
        return State(self.g[k], self.q[k], self.V[k], self.qd[k])

    @cached_property
    def kinetic_energy(self) -> Array:
        """Shape (N + 1,) [J]."""
        robot = self.robot
        return np.array([robot.kinetic_energy(s.q, s.V, s.qd) for s in self._states()])

    @cached_property
    def potential_energy(self) -> Array:
        """Of gravity, zero at the world's origin, shape (N + 1,) [J]."""
        robot = self.robot
        centres = np.array([robot.center_of_mass(s.q) for s in self._states()])
        world = np.einsum("kij,kj->ki", self.g[:, :3, :3], centres) + self.g[:, :3, 3]
        return -robot.total_mass * world @ robot.gravity

    @cached_property
    def energy(self) -> Array:
        """Kinetic energy and that of gravity, shape (N + 1,) [J]."""
        return self.kinetic_energy + self.potential_energy

    @cached_property
    def spatial_momentum(self) -> Array:
        """Momentum in the world frame, kept without external forces, shape (N + 1, b)."""
        robot = self.robot
        return np.array([robot.spatial_momentum(*s) for s in self._states()])

    def _states(self) -> list[State]:
        return [self[k] for k in range(len(self))]
