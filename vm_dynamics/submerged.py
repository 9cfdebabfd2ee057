# SPDX-License-Identifier: Apache-2.0
"""A robot in a fluid: its links carry added mass, feel drag, float and drift with the current."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from vm_dynamics.dynamics import _fluid_kernels, _general_kernels, general
from vm_dynamics.dynamics.hydrodynamics import Hydrodynamics, pack
from vm_dynamics.dynamics.lagrange_poincare import decouple
from vm_dynamics.dynamics.loads import LinkWrench
from vm_dynamics.dynamics.matrices import Hamel
from vm_dynamics.dynamics.reduced import Reduced
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.model.spec import Description
from vm_dynamics.robot import Robot


class SubmergedRobot(Robot):
    """A robot whose links feel a fluid; build one with :func:`submerge`.

    Mass matrix, connection, curvature and all that follows from them include the added mass;
    drag, buoyancy and current act as external forces in every formulation. The centre of mass,
    the frames of :meth:`frame` and gravity are those of the robot's own mass.

    Attributes:
        hydrodynamics: the fluid.
    """

    hydrodynamics: Hydrodynamics
    _elements: Array
    _added: Array
    _current: Array

    def __init__(
        self,
        description: Description,
        base_group: DisplacementGroup,
        gravity: Any,
        tip_link: str | None,
        hydrodynamics: Hydrodynamics,
    ) -> None:
        """Build the robot, then put it into the fluid."""
        super().__init__(description, base_group, gravity, tip_link)
        added, elements = pack(self, hydrodynamics)
        self.__dict__.update(
            hydrodynamics=hydrodynamics,
            _added=added,
            _elements=elements,
            _current=np.array(hydrodynamics.current),
        )

    @property
    def _content(self) -> tuple[Any, ...]:
        return *super()._content, self.hydrodynamics

    @property
    def _added_mass(self) -> Array:
        return self._added

    @cached_property
    def body_inertias(self) -> Array:
        """Inertia of every body with its added mass, in its own frame, (nj + 1, 6, 6)."""
        return np.array([inertia.matrix for inertia in self.tree.inertias]) + self._added

    def mass_matrix(self, q: Any) -> Array:
        """Mass matrix with added mass, M_RB + M_A, shape (b + n, b + n)."""
        out = np.empty(self._square)
        checked = vector("q", q, self.n)
        _general_kernels.general_mass_matrix.checked(
            self._packed, self.body_inertias, checked, out
        )
        return out

    def connection(self, q: Any) -> Array:
        """Mechanical connection A = M_b^-1 M_bq with added mass, shape (b, n)."""
        return self.mass_and_connection(q)[1]

    def mass_and_connection(self, q: Any) -> tuple[Array, Array]:
        """Mass matrix, shape (b + n, b + n), and connection, shape (b, n)."""
        M, b = self.mass_matrix(q), self.b
        return M, np.linalg.solve(M[:b, :b], M[:b, b:])

    def batch_mass_and_connection(
        self, q: Any, *, threads: int | None = None
    ) -> tuple[Array, Array]:
        """Mass matrices and connections of N shapes, shape (N, n), one after the other."""
        pairs = [self.mass_and_connection(row) for row in np.array(q, dtype=float, ndmin=2)]
        return np.array([M for M, _ in pairs]), np.array([A for _, A in pairs])

    def hamel(self, q: Any, V: Any, qd: Any) -> Hamel:
        """M and C of Hamel's equations with added mass, in a fluid at rest; dM/dt - 2C skew."""
        velocity = np.concatenate((vector("V", V, self.b), vector("qd", qd, self.n)))
        M, dM = self.mass_matrix(q), self.mass_derivatives(q)
        return Hamel(M, general.coriolis(M, dM, self.base_group, velocity))

    def reduced(self, q: Any, qd: Any, mu: Any) -> Reduced:
        """Matrices of the reduced Euler-Lagrange equations with added mass."""
        motion = vector("qd", qd, self.n), vector("mu", mu, self.b)
        M, dM = self.mass_matrix(q), self.mass_derivatives(q)
        return general.reduced(M, dM, self.base_group, *motion)

    def _base_curvature(self, q: Any) -> Array:
        m = decouple(self.mass_matrix(q), self.mass_derivatives(q), self.b)
        return general.curvature(m, self.base_group)

    def fluid_forces(self, g: Any, q: Any, V: Any, qd: Any) -> tuple[Array, Array]:
        """Drag, buoyancy and current on base, shape (b,), and joints, shape (n,).

        The arguments are those of :meth:`forward_dynamics`; the added mass is in the matrices.
        """
        g, q, V, qd = self._state(g, q, V, qd)
        out = self._generalized(q, self._loads(g, q, V, qd, None, ()))
        return out[: self.b], out[self.b :]

    def _loads(
        self,
        g: Array,
        q: Array,
        V: Array,
        qd: Array,
        tip_wrench: Any,
        link_wrenches: Iterable[LinkWrench],
    ) -> Array:
        out = np.zeros((len(self._added), 6))
        given = self._given_loads(g, q, tip_wrench, link_wrenches)
        if len(given):
            out += given
        _fluid_kernels.fluid_loads.checked(
            self._packed, self._added, self._elements, self._current, g, q, V, qd, out
        )
        return out


def submerge(
    robot: Robot, hydrodynamics: Hydrodynamics | str | Path | Mapping[str, Any]
) -> SubmergedRobot:
    """The same robot in a fluid.

    Args:
        robot: the robot; give it gravity, or nothing floats.
        hydrodynamics: the fluid, or the YAML file or mapping to read it from.

    Raises:
        ParameterError: the parameters say something impossible, or the robot is submerged.
        UnknownLinkError: they name a link that the robot does not have.
    """
    if isinstance(robot, SubmergedRobot):
        raise ParameterError(f"robot: {robot!r} is submerged already")
    if not isinstance(hydrodynamics, Hydrodynamics):
        hydrodynamics = Hydrodynamics.load(hydrodynamics)
    description, base_group, gravity, tip_link = robot._content
    return SubmergedRobot(description, base_group, gravity, tip_link, hydrodynamics)
