# SPDX-License-Identifier: Apache-2.0
"""The robot as users see it: built from a description, asked for its dynamics.

Conventions: twists are [v; w] and wrenches [f; t] in frame {1}, the root link's frame, at its
origin; on a base group of dimension b they are the group's b coordinates. Positions q are in
the order of ``robot.joint_names``. SI units and radians. Every method returns fresh arrays.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.dynamics import (
    _coriolis_kernels,
    _hybrid_kernels,
    _kernels,
    _kinematics_kernels,
    _reduced_kernels,
)
from vm_dynamics.dynamics._entry import REFUSED, EntryPoint
from vm_dynamics.dynamics.frames import FRAMES, MovingFrame, centroidal_frame, virtual_chassis
from vm_dynamics.dynamics.hybrid import (
    BASE,
    HybridMotion,
    passive_mask,
    solve_dense,
    spread,
    spring_force,
)
from vm_dynamics.dynamics.reduced import Reduced
from vm_dynamics.errors import (
    DimensionError,
    NonFiniteError,
    UnknownMethodError,
    UnknownNameError,
)
from vm_dynamics.lie import DisplacementGroup, group
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array, inverse
from vm_dynamics.model.robot_model import RobotModel, vector
from vm_dynamics.model.spec import Description, locked_positions
from vm_dynamics.model.tree import require_inertia
from vm_dynamics.model.urdf import read

METHODS = ("hybrid", "reduced")

_mass_matrix = _kernels.mass_matrix
_connection = _kernels.connection
_mass_and_connection = _kernels.mass_and_connection
_forward = _hybrid_kernels.forward
_forward_with_wrench = _hybrid_kernels.forward_with_wrench


class Hamel(NamedTuple):
    """Matrices of ``M [dV/dt; qdd] + C [V; qd] = [F; tau]``, both (b + n, b + n)."""

    M: Array
    C: Array


class Robot(RobotModel):
    """A robot that can be asked for its dynamics; build one with :func:`load`."""

    def __init__(
        self,
        description: Description,
        base_group: DisplacementGroup,
        gravity: Any = (0.0, 0.0, 0.0),
        tip_link: str | None = None,
    ) -> None:
        """Merge, pack and check a description."""
        super().__init__(description, base_group, gravity, tip_link)
        require_inertia(self.tree, base_group, self.mass_matrix(np.full(self.n, 0.1)))

    # -- shape ----------------------------------------------------------------------------------

    def mass_matrix(self, q: Any) -> Array:
        """Full symmetric mass matrix, base block first, shape (b + n, b + n).

        .. math:: M = [[M_b, M_bq], [M_bq^T, M_q]]

        so that the kinetic energy is ``[V; qd]^T M [V; qd] / 2``, [Mishra2022] eq. (7).
        """
        out = np.empty(self._square)
        try:
            _mass_matrix.run(self._packed, q, out)
        except REFUSED:
            _mass_matrix.checked(self._packed, vector("q", q, self.n), out)
        return out

    def connection(self, q: Any) -> Array:
        """Mechanical connection A = M_b^-1 M_bq, shape (b, n): at rest V = -A qd."""
        out = np.empty(self._wide)
        try:
            _connection.run(self._packed, q, out)
        except REFUSED:
            _connection.checked(self._packed, vector("q", q, self.n), out)
        return out

    def mass_and_connection(self, q: Any) -> tuple[Array, Array]:
        """Mass matrix, shape (b + n, b + n), and connection, shape (b, n), from one pass."""
        mass = np.empty(self._square)
        conn = np.empty(self._wide)
        try:
            _mass_and_connection.run(self._packed, q, mass, conn)
        except REFUSED:
            _mass_and_connection.checked(self._packed, vector("q", q, self.n), mass, conn)
        return mass, conn

    def batch_mass_and_connection(
        self, q: Any, *, threads: int | None = None
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
        count = len(shapes)
        mass = np.empty((count, *self._square))
        conn = np.empty((count, *self._wide))
        workers = max(1, min(threads or os.cpu_count() or 1, count // 256))
        # several parts a thread, so that one on a busy core does not keep the others waiting
        edges = np.linspace(0, count, 4 * workers + 1).astype(int)

        def part(start: int, end: int) -> None:
            rows = slice(start, end)
            _kernels.batch_mass_and_connection.checked(
                self._packed, shapes[rows], mass[rows], conn[rows]
            )

        if workers == 1:
            part(0, count)
        else:
            part(0, 0)  # compiles before the threads start
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(part, edges[:-1], edges[1:]))
        return mass, conn

    def link_pose(self, q: Any, link: str) -> Array:
        """Pose g_1k of a link in frame {1}, shape (4, 4)."""
        return self._of_link(_kinematics_kernels.link_pose, q, link, np.empty((4, 4)))

    def link_jacobian(self, q: Any, link: str) -> Array:
        """Body Jacobian of a link: V_k = J [V; qd] in the link's frame, shape (6, b + n)."""
        out = np.empty((6, self.b + self.n))
        return self._of_link(_kinematics_kernels.link_jacobian, q, link, out)

    def center_of_mass(self, q: Any) -> Array:
        """Centre of mass of the whole robot in frame {1}, shape (3,) [m]."""
        ten, _ = self._composite(q, np.zeros(self.n))
        return ten[1:4] / ten[0]

    def frame(self, name: str, q: Any, qd: Any = None) -> MovingFrame:
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

    def curvature(self, q: Any, *, frame: str = "base") -> Array:
        """Curvature of the connection, [Mishra2022] Theorem 2, shape (b, n, n).

        .. math:: DA(e_i) e_j = dA_j/dq_i - dA_i/dq_j - [A_i, A_j]

        antisymmetric in i, j. A small loop in the plane of joints i and j, of area da, displaces
        a base without momentum by ``exp(-DA(e_i) e_j da)``.

        Args:
            q: shape (n,).
            frame: the frame its components are in, see :meth:`frame` (Property 6).
        """
        out = np.empty((self.b, self.n, self.n))
        try:
            _reduced_kernels.curvature.run(self._packed, q, out)
        except REFUSED:
            _reduced_kernels.curvature.checked(self._packed, vector("q", q, self.n), out)
        if frame == "base":
            return out
        to_frame = self.base_group.adjoint(inverse(self.frame(frame, q).pose))
        return np.einsum("ab,bij->aij", to_frame, out)

    # -- motion ---------------------------------------------------------------------------------

    def momentum(self, q: Any, V: Any, qd: Any) -> Array:
        """Body momentum P = M_b V + M_bq qd = M_b mu in frame {1}, shape (b,)."""
        M = self.mass_matrix(q)[: self.b]
        return M @ np.concatenate((vector("V", V, self.b), vector("qd", qd, self.n)))

    def spatial_momentum(self, g: Any, q: Any, V: Any, qd: Any) -> Array:
        """Momentum in the world frame, Ad_g^-T P, which is kept without forces; shape (b,).

        Args:
            g: pose of the base in the world, shape (4, 4), a displacement of the base group.
            q: shape (n,).
            V: base velocity in {1}, shape (b,).
            qd: joint velocities, shape (n,).
        """
        return self.base_group.adjoint(inverse(check_pose(g))).T @ self.momentum(q, V, qd)

    def kinetic_energy(self, q: Any, V: Any, qd: Any) -> float:
        """Kinetic energy [J]."""
        v = np.concatenate((vector("V", V, self.b), vector("qd", qd, self.n)))
        return float(0.5 * v @ self.mass_matrix(q) @ v)

    def hamel(self, q: Any, V: Any, qd: Any) -> Hamel:
        """Matrices of Hamel's equations, with dM/dt - 2C skew, [Mishra2022] eqs. (4)-(6).

        Args:
            q: shape (n,).
            V: base velocity, shape (b,).
            qd: joint velocities, shape (n,).
        """
        mass, coriolis = np.empty(self._square), np.empty(self._square)
        try:
            _coriolis_kernels.hamel.run(self._packed, q, V, qd, mass, coriolis)
        except REFUSED:
            checked = vector("q", q, self.n), vector("V", V, self.b), vector("qd", qd, self.n)
            _coriolis_kernels.hamel.checked(self._packed, *checked, mass, coriolis)
        return Hamel(mass, coriolis)

    def reduced(self, q: Any, qd: Any, mu: Any) -> Reduced:
        """Matrices of the reduced Euler-Lagrange equations, [Mishra2022] Theorem 1.

        Args:
            q: shape (n,).
            qd: joint velocities, shape (n,).
            mu: locked velocity V + A qd, shape (b,).
        """
        b, n = self._wide
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
            _reduced_kernels.reduced.run(self._packed, q, qd, mu, *out)
        except REFUSED:
            checked = vector("q", q, n), vector("qd", qd, n), vector("mu", mu, b)
            _reduced_kernels.reduced.checked(self._packed, *checked, *out)
        return Reduced(self.base_group, *out)

    def inverse_dynamics(
        self, g: Any, q: Any, V: Any, qd: Any, Vd: Any, qdd: Any, tip_wrench: Any = None
    ) -> tuple[Array, Array]:
        """Base wrench and joint efforts that a motion needs.

        Args:
            g: pose of the base in the world, shape (4, 4); only its rotation matters.
            q: shape (n,).
            V: base velocity, shape (b,).
            qd: joint velocities, shape (n,).
            Vd: rate of the components of V, shape (b,).
            qdd: joint accelerations, shape (n,).
            tip_wrench: external wrench [f; t] on ``tip_link``, in its frame, shape (6,).

        Returns:
            F in frame {1}, shape (b,), and tau, shape (n,).
        """
        out = np.empty(self.b + self.n)
        fall = check_pose(g)[:3, :3].T @ self.gravity
        _coriolis_kernels.inverse_dynamics.checked(
            self._packed,
            vector("q", q, self.n),
            vector("V", V, self.b),
            vector("qd", qd, self.n),
            vector("Vd", Vd, self.b),
            vector("qdd", qdd, self.n),
            fall,
            out,
        )
        if tip_wrench is not None:
            wrench = vector("tip_wrench", tip_wrench, 6)
            out -= self.link_jacobian(q, self.tip_link).T @ wrench
        return out[: self.b], out[self.b :]

    def forward_dynamics(
        self,
        g: Any,
        q: Any,
        V: Any,
        qd: Any,
        tau: Any,
        base_wrench: Any = None,
        tip_wrench: Any = None,
        method: str = "hybrid",
    ) -> tuple[Array, Array]:
        """Accelerations of base and joints.

        Args:
            g: pose of the base in the world, shape (4, 4); only its rotation matters.
            q: shape (n,).
            V: base velocity, shape (b,).
            qd: joint velocities, shape (n,).
            tau: joint efforts, shape (n,).
            base_wrench: external wrench on the base in frame {1}, shape (b,).
            tip_wrench: external wrench [f; t] on ``tip_link``, in its frame, shape (6,).
            method: the formulation, one of ``vm_dynamics.METHODS``: ``hybrid`` is O(n),
                ``reduced`` solves the equations of :meth:`reduced`.

        Returns:
            Rate of the components of V, shape (b,), and qdd, shape (n,).
        """
        if method == "hybrid" and tip_wrench is None and not self._mimics:
            acc = np.empty(self._square[0])
            try:
                if base_wrench is None:
                    _forward.run(self._packed, g, q, V, qd, tau, acc)
                else:
                    _forward_with_wrench.run(self._packed, g, q, V, qd, tau, base_wrench, acc)
            except REFUSED:
                checked = (*self._state(g, q, V, qd), vector("tau", tau, self.n))
                _forward.compile()
                _forward_with_wrench.checked(
                    self._packed, *checked, self._wrench(base_wrench), acc
                )
            return acc[: self.b], acc[self.b :]
        if method not in METHODS:
            raise UnknownMethodError("method", method, METHODS)
        F = self._wrench(base_wrench)
        tau = vector("tau", tau, self.n)
        if method == "reduced":
            return self._forward_by_theorem_1(*self._state(g, q, V, qd), tau, F, tip_wrench)
        every = (BASE, *self.joint_names)
        forces = np.concatenate((F, tau))
        motion = self.hybrid_dynamics(g, q, V, qd, [], forces, every, tip_wrench=tip_wrench)
        return motion.Vd, motion.qdd

    def _forward_by_theorem_1(
        self, g: Array, q: Array, V: Array, qd: Array, tau: Array, F: Array, tip_wrench: Any
    ) -> tuple[Array, Array]:
        still, rest = np.zeros(self.b), np.zeros(self.n)
        weight, load = self.inverse_dynamics(g, q, still, rest, still, rest, tip_wrench)
        mu = V + self.connection(q) @ qd
        reduced = self.reduced(q, qd, mu)
        mu_dot, qdd = reduced.accelerations(mu, qd, F - weight, tau - load)
        return mu_dot - reduced.A @ qdd - reduced.A_dot @ qd, qdd

    def hybrid_dynamics(
        self,
        g: Any,
        q: Any,
        V: Any,
        qd: Any,
        active_acc: Any,
        passive_force: Any,
        passive: Any = (BASE,),
        *,
        stiffness: Any = 0.0,
        damping: Any = 0.0,
        rest: Any = 0.0,
        tip_wrench: Any = None,
    ) -> HybridMotion:
        """Motion with some degrees of freedom driven and the others passive, [Jain], in O(n).

        Args:
            g: pose of the base in the world, shape (4, 4); only its rotation matters.
            q: shape (n,).
            V: base velocity, shape (b,).
            qd: joint velocities, shape (n,).
            active_acc: accelerations of the active degrees of freedom, base first then joints in
                their order; or one for each of all b + n, of which the active are taken.
            passive_force: forces on the passive ones, in the same way.
            passive: names of the passive joints, and ``base``; all others are active. It may
                differ from call to call.
            stiffness: of springs in the passive joints, shape (n,), a number for all, or by
                name [N m/rad or N/m].
            damping: of dampers in the passive joints, in the same way.
            rest: positions at which the springs are slack, in the same way.
            tip_wrench: external wrench [f; t] on ``tip_link``, in its frame, shape (6,).

        Returns:
            All accelerations and all forces; those given come back as they are, springs and
            dampers counted in tau.
        """
        mask = passive_mask(self, passive)
        g, q, V, qd = self._state(g, q, V, qd)
        acc = spread("active_acc", active_acc, 1.0 - mask)
        force = spread("passive_force", passive_force, mask)
        force[self.b :] += mask[self.b :] * spring_force(self, q, qd, stiffness, damping, rest)
        wrench = np.zeros(6) if tip_wrench is None else vector("tip_wrench", tip_wrench, 6)
        if self._mimics:
            none = np.zeros(self.b), np.zeros(self.n)
            bias = np.concatenate(self.inverse_dynamics(g, q, V, qd, *none, wrench))
            acc, force = solve_dense(self.mass_matrix(q), bias, mask, acc, force)
        else:
            frame = self.link_frame(self.tip_link)
            _hybrid_kernels.hybrid.checked(
                self._packed, g, q, V, qd, mask, acc, force, frame.body, frame.pose, wrench
            )
        b = self.b
        return HybridMotion(acc[:b], acc[b:], force[:b], force[b:])

    def disturbance_jacobian(self, q: Any, passive: Any = (BASE,)) -> Array:
        """Velocities of the passive for those of the active, at rest: J_D = -M_pp^-1 M_pa.

        Args:
            q: shape (n,).
            passive: names of the passive joints, and ``base``.

        Returns:
            J_D, a row for each passive and a column for each active degree of freedom, base
            first then joints. With only the base passive it is -A.
        """
        mask = passive_mask(self, passive)
        p, a = mask != 0.0, mask == 0.0
        if not (p.any() and a.any()):
            raise DimensionError(
                f"passive: got {sorted(passive)}, expected at least one passive and one active "
                "degree of freedom"
            )
        q = vector("q", q, self.n)
        if self._mimics:
            M = self.mass_matrix(q)
            return -np.linalg.solve(M[np.ix_(p, p)], M[np.ix_(p, a)])
        out = np.empty(self._square)
        _hybrid_kernels.disturbance.checked(self._packed, q, mask, out)
        return out[np.ix_(p, a)]

    def generalized_jacobian(self, q: Any, link: str, passive: Any = (BASE,)) -> Array:
        """Twist of a link for the active velocities, the passive following: J_a + J_p J_D.

        Args:
            q: shape (n,).
            link: name of the link; the twist is in its frame.
            passive: names of the passive joints, and ``base``.

        Returns:
            J_G, shape (6, number of active degrees of freedom).
        """
        p = passive_mask(self, passive) != 0.0
        J = self.link_jacobian(q, link)
        return J[:, ~p] + J[:, p] @ self.disturbance_jacobian(q, passive)

    # -- helpers --------------------------------------------------------------------------------

    def _of_link(self, kernel: EntryPoint, q: Any, link: str, out: Array) -> Array:
        frame = self.link_frame(link)
        try:
            kernel.run(self._packed, q, frame.body, frame.pose, out)
        except REFUSED:
            checked = vector("q", q, self.n)
            kernel.checked(self._packed, checked, frame.body, frame.pose, out)
        return out

    @cached_property
    def _mimics(self) -> bool:
        return len(self.tree.bodies) != self.n

    def _wrench(self, base_wrench: Any) -> Array:
        value = np.zeros(self.b) if base_wrench is None else base_wrench
        return vector("base_wrench", value, self.b)

    def _state(self, g: Any, q: Any, V: Any, qd: Any) -> tuple[Array, Array, Array, Array]:
        motion = vector("V", V, self.b), vector("qd", qd, self.n)
        return check_pose(g).copy(), vector("q", q, self.n), *motion

    def _composite(self, q: Any, qd: Any) -> tuple[Array, Array]:
        ten, rate = np.empty(10), np.empty(10)
        checked = vector("q", q, self.n), vector("qd", qd, self.n)
        _coriolis_kernels.composite_motion.checked(self._packed, *checked, ten, rate)
        return ten, rate


def load(
    urdf: str | bytes | os.PathLike[str],
    base: str | DisplacementGroup | None = None,
    gravity: Any = (0.0, 0.0, 0.0),
    *,
    tip_link: str | None = None,
    locked_joints: Any = (),
    pitch: float | None = None,
    strict: bool = True,
) -> Robot:
    """Robot of a URDF.

    Args:
        urdf: XML text, its bytes, or the path of a file.
        base: how the base moves: ``SE3 SE2 SO3 X T3 T2 C SO2 T1 H`` or a group from
            :func:`vm_dynamics.lie.group`. Unless given: what a floating or planar joint below a
            massless root says, else ``SE3``.
        gravity: acceleration of free fall in the world frame, shape (3,) [m/s^2].
        tip_link: the link that tip wrenches act on; the last one unless given.
        locked_joints: joints to fix: a mapping of names to positions, or names, fixed at zero.
        pitch: advance of the helical base group H [m/rad].
        strict: whether principal moments of inertia that violate the triangle inequality are an
            error; else a warning, as long as the mass matrix is positive definite.

    Raises:
        UrdfError: one of its children, with a message that says what is wrong and where.
    """
    reading = read(urdf, strict=strict)
    description = reading.description
    positions = locked_positions(locked_joints)
    if positions:
        description = description.with_locked(positions)
    if base is None:
        base_group = group(reading.base or "SE3", axis=reading.axis)
    else:
        base_group = group(base, pitch=pitch)
    return Robot(description, base_group, gravity, tip_link)
