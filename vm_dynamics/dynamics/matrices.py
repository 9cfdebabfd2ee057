# SPDX-License-Identifier: Apache-2.0
"""The matrices of a robot: what its shape and its velocity alone decide.

Conventions: twists are [v; w] and wrenches [f; t] in frame {1}, the root link's frame, at its
origin; on a base group of dimension b they are the group's b coordinates. Positions q are in
the order of ``robot.joint_names``. SI units and radians. Every method returns fresh arrays.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.compiled import REFUSED, EntryPoint
from vm_dynamics.dynamics import (
    coriolis_kernels,
    general,
    general_kernels,
    kinematics_kernels,
    mass_kernels,
    plain,
    reduced_kernels,
)
from vm_dynamics.dynamics.frames import FRAMES, MovingFrame, centroidal_frame, virtual_chassis
from vm_dynamics.dynamics.lagrange_poincare import decouple
from vm_dynamics.dynamics.reduced import Reduced
from vm_dynamics.errors import DimensionError, NonFiniteError, UnknownNameError
from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array, inverse
from vm_dynamics.model.hydrodynamics import Hydrodynamics
from vm_dynamics.model.robot_model import RobotModel, vector
from vm_dynamics.model.spec import Description
from vm_dynamics.model.tree import require_inertia

_mass_matrix = mass_kernels.mass_matrix
_connection = mass_kernels.connection
_mass_and_connection = mass_kernels.mass_and_connection


class Hamel(NamedTuple):
    """Matrices of ``M [dV/dt; qdd] + C [V; qd] = [F; tau]``, both (b + n, b + n)."""

    M: Array
    C: Array


class RobotMatrices(RobotModel):
    """A robot that can be asked for its kinematics, mass matrix, connection and curvature.

    In a fluid all of these include the added mass. The centre of mass and the frames of
    :meth:`frame` are those of the robot's own mass.
    """

    def __init__(
        self,
        description: Description,
        base_group: DisplacementGroup,
        gravity: ArrayLike = (0.0, 0.0, 0.0),
        tip_link: str | None = None,
        hydrodynamics: Hydrodynamics | None = None,
    ) -> None:
        """Merge, pack and check a description."""
        super().__init__(description, base_group, gravity, tip_link)
        # Of the bodies alone: a fluid that adds mass to them may be gone tomorrow. The plain
        # formula, because a kernel would be compiled for one value of which nobody may ask more.
        require_inertia(self.tree, base_group, plain.mass_matrix(self, np.full(self.n, 0.1)))
        self._enter(hydrodynamics)

    # -- shape ----------------------------------------------------------------------------------

    def mass_matrix(self, q: ArrayLike) -> Array:
        """Full symmetric mass matrix, base block first, shape (b + n, b + n).

        .. math:: M = [[M_b, M_bq], [M_bq^T, M_q]]

        so that the kinetic energy is ``[V; qd]^T M [V; qd] / 2``, [Mishra2022] eq. (7).
        """
        out = np.empty(self._square)
        if self.fluid is not None:
            checked = vector("q", q, self.n)
            general_kernels.general_mass_matrix.checked(
                self.packed, self.body_inertias, checked, out
            )
            return out
        try:
            _mass_matrix.run(self.packed, q, out)
        except REFUSED:
            _mass_matrix.checked(self.packed, vector("q", q, self.n), out)
        return out

    def connection(self, q: ArrayLike) -> Array:
        """Mechanical connection A = M_b^-1 M_bq, shape (b, n): at rest V = -A qd."""
        if self.fluid is not None:
            return self.mass_and_connection(q)[1]
        out = np.empty(self._wide)
        try:
            _connection.run(self.packed, q, out)
        except REFUSED:
            _connection.checked(self.packed, vector("q", q, self.n), out)
        return out

    def mass_and_connection(self, q: ArrayLike) -> tuple[Array, Array]:
        """Mass matrix, shape (b + n, b + n), and connection, shape (b, n), from one pass."""
        if self.fluid is not None:
            M, b = self.mass_matrix(q), self.b
            return M, np.linalg.solve(M[:b, :b], M[:b, b:])
        mass = np.empty(self._square)
        conn = np.empty(self._wide)
        try:
            _mass_and_connection.run(self.packed, q, mass, conn)
        except REFUSED:
            _mass_and_connection.checked(self.packed, vector("q", q, self.n), mass, conn)
        return mass, conn

    def mass_derivatives(self, q: ArrayLike) -> Array:
        """Derivative of the mass matrix by every joint, shape (n, b + n, b + n)."""
        out = np.empty((self.n, *self._square))
        checked = vector("q", q, self.n)
        general_kernels.mass_derivatives.checked(self.packed, self.body_inertias, checked, out)
        return out

    def batch_mass_and_connection(
        self, q: ArrayLike, *, threads: int | None = None
    ) -> tuple[Array, Array]:
        """Mass matrices and connections of N shapes, on all cores.

        Args:
            q: shapes, shape (N, n).
            threads: how many threads share the work; one a core unless given.

        Returns:
            Mass matrices, shape (N, b + n, b + n), and connections, shape (N, b, n).
        """
        shapes = np.array(q, dtype=float, order="C", ndmin=2)
        if shapes.ndim != 2 or shapes.shape[1] != self.n:
            raise DimensionError(f"q: got shape {np.shape(q)}, expected (N, {self.n})")
        if not np.isfinite(shapes).all():
            raise NonFiniteError("q: holds NaN or infinity")
        if self.fluid is not None:
            pairs = [self.mass_and_connection(row) for row in shapes]
            return np.array([M for M, _ in pairs]), np.array([A for _, A in pairs])
        count = len(shapes)
        mass = np.empty((count, *self._square))
        conn = np.empty((count, *self._wide))
        workers = max(1, min(threads or os.cpu_count() or 1, count // 256))
        # several parts a thread, so that one on a busy core does not keep the others waiting
        edges = np.linspace(0, count, 4 * workers + 1).astype(int)

        def part(start: int, end: int) -> None:
            rows = slice(start, end)
            mass_kernels.batch_mass_and_connection.checked(
                self.packed, shapes[rows], mass[rows], conn[rows]
            )

        if workers == 1:
            part(0, count)
        else:
            part(0, 0)  # compiles before the threads start
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(part, edges[:-1], edges[1:]))
        return mass, conn

    def link_pose(self, q: ArrayLike, link: str) -> Array:
        """Pose g_1k of a link in frame {1}, shape (4, 4)."""
        return self._of_link(kinematics_kernels.link_pose, q, link, np.empty((4, 4)))

    def link_jacobian(self, q: ArrayLike, link: str) -> Array:
        """Body Jacobian of a link: V_k = J [V; qd] in the link's frame, shape (6, b + n)."""
        out = np.empty((6, self.b + self.n))
        return self._of_link(kinematics_kernels.link_jacobian, q, link, out)

    def center_of_mass(self, q: ArrayLike) -> Array:
        """Centre of mass of the whole robot in frame {1}, shape (3,) [m]."""
        ten, _ = self._composite(q, np.zeros(self.n))
        return ten[1:4] / ten[0]

    def frame(self, name: str, q: ArrayLike, qd: ArrayLike | None = None) -> MovingFrame:
        """A frame {C} in which the momentum is simpler, for Properties 4 to 6 of [Mishra2022].

        Args:
            name: ``base`` ({1} itself), ``centroidal`` (axes of {1} at the centre of mass) or
                ``virtual_chassis`` (principal axes there, where M_b is diagonal).
            q: shape (n,).
            qd: joint velocities, shape (n,); zero if None.

        Returns:
            Its pose g_1c and its body velocity relative to {1} in group coordinates, shape (b,).
        """
        if name not in FRAMES:
            raise UnknownNameError("frame", name, FRAMES)
        ten, rate = self._composite(q, np.zeros(self.n) if qd is None else qd)
        if name == "base":
            return MovingFrame(np.eye(4), np.zeros(self.b))
        return (centroidal_frame if name == "centroidal" else virtual_chassis)(
            self.base_group, ten, rate
        )

    def curvature(self, q: ArrayLike, *, frame: str = "base") -> Array:
        """Curvature of the connection, [Mishra2022] Theorem 2, shape (b, n, n).

        .. math:: DA(e_i) e_j = dA_j/dq_i - dA_i/dq_j - [A_i, A_j]

        antisymmetric in i, j. A small loop in the plane of joints i and j, of area da, displaces
        a base without momentum by ``exp(-DA(e_i) e_j da)``.

        Args:
            q: shape (n,).
            frame: the frame its components are in, see :meth:`frame` (Property 6).
        """
        out = self._base_curvature(q)
        if frame == "base":
            return out
        to_frame = self.base_group.adjoint(inverse(self.frame(frame, q).pose))
        return np.einsum("ab,bij->aij", to_frame, out)

    def _base_curvature(self, q: ArrayLike) -> Array:
        if self.fluid is not None:
            m = decouple(self.mass_matrix(q), self.mass_derivatives(q), self.b)
            return general.curvature(m, self.base_group)
        out = np.empty((self.b, self.n, self.n))
        try:
            reduced_kernels.curvature.run(self.packed, q, out)
        except REFUSED:
            reduced_kernels.curvature.checked(self.packed, vector("q", q, self.n), out)
        return out

    # -- motion ---------------------------------------------------------------------------------

    def momentum(self, q: ArrayLike, V: ArrayLike, qd: ArrayLike) -> Array:
        """Body momentum P = M_b V + M_bq qd = M_b mu in frame {1}, shape (b,)."""
        M = self.mass_matrix(q)[: self.b]
        return M @ np.concatenate((vector("V", V, self.b), vector("qd", qd, self.n)))

    def spatial_momentum(self, g: ArrayLike, q: ArrayLike, V: ArrayLike, qd: ArrayLike) -> Array:
        """Momentum in the world frame, Ad_g^-T P, which is kept without forces; shape (b,).

        Args:
            g: pose of the base in the world, shape (4, 4), a displacement of the base group.
            q: shape (n,).
            V: base velocity in {1}, shape (b,).
            qd: joint velocities, shape (n,).
        """
        return self.base_group.adjoint(inverse(check_pose(g))).T @ self.momentum(q, V, qd)

    def kinetic_energy(self, q: ArrayLike, V: ArrayLike, qd: ArrayLike) -> float:
        """Kinetic energy [J]."""
        v = np.concatenate((vector("V", V, self.b), vector("qd", qd, self.n)))
        return float(0.5 * v @ self.mass_matrix(q) @ v)

    def hamel(self, q: ArrayLike, V: ArrayLike, qd: ArrayLike) -> Hamel:
        """Matrices of Hamel's equations, with dM/dt - 2C skew, [Mishra2022] eqs. (4)-(6).

        Args:
            q: shape (n,).
            V: base velocity, shape (b,).
            qd: joint velocities, shape (n,).
        """
        if self.fluid is not None:
            velocity = np.concatenate((vector("V", V, self.b), vector("qd", qd, self.n)))
            M, dM = self.mass_matrix(q), self.mass_derivatives(q)
            return Hamel(M, general.coriolis(M, dM, self.base_group, velocity))
        mass, coriolis = np.empty(self._square), np.empty(self._square)
        try:
            coriolis_kernels.hamel.run(self.packed, q, V, qd, mass, coriolis)
        except REFUSED:
            checked = vector("q", q, self.n), vector("V", V, self.b), vector("qd", qd, self.n)
            coriolis_kernels.hamel.checked(self.packed, *checked, mass, coriolis)
        return Hamel(mass, coriolis)

    def reduced(self, q: ArrayLike, qd: ArrayLike, mu: ArrayLike) -> Reduced:
        """Matrices of the reduced Euler-Lagrange equations, [Mishra2022] Theorem 1.

        Args:
            q: shape (n,).
            qd: joint velocities, shape (n,).
            mu: locked velocity V + A qd, shape (b,).
        """
        b, n = self._wide
        if self.fluid is not None:
            motion = vector("qd", qd, n), vector("mu", mu, b)
            M, dM = self.mass_matrix(q), self.mass_derivatives(q)
            return general.reduced(M, dM, self.base_group, *motion)
        empty = np.empty
        out = (
            empty((b, b)),
            empty((n, n)),
            empty((b, n)),
            empty((b, n)),
            empty((b, b)),
            empty((b, n)),
            empty((n, n)),
            empty((n, n)),
            empty(self._square),
            empty(self._square),
        )
        try:
            reduced_kernels.reduced.run(self.packed, q, qd, mu, *out)
        except REFUSED:
            checked = vector("q", q, n), vector("qd", qd, n), vector("mu", mu, b)
            reduced_kernels.reduced.checked(self.packed, *checked, *out)
        return Reduced(self.base_group, *out)

    def _of_link(self, kernel: EntryPoint, q: ArrayLike, link: str, out: Array) -> Array:
        frame = self.link_frame(link)
        try:
            kernel.run(self.packed, q, frame.body, frame.pose, out)
        except REFUSED:
            checked = vector("q", q, self.n)
            kernel.checked(self.packed, checked, frame.body, frame.pose, out)
        return out

    def _composite(self, q: ArrayLike, qd: ArrayLike) -> tuple[Array, Array]:
        ten, rate = np.empty(10), np.empty(10)
        checked = vector("q", q, self.n), vector("qd", qd, self.n)
        coriolis_kernels.composite_motion.checked(self.packed, *checked, ten, rate)
        return ten, rate
