# SPDX-License-Identifier: Apache-2.0
"""The robot as users see it: built from a description, asked how it moves.

Conventions: twists are [v; w] and wrenches [f; t] in frame {1}, the root link's frame, at its
origin; on a base group of dimension b they are the group's b coordinates. Positions q are in
the order of ``robot.joint_names``. SI units and radians. Every method returns fresh arrays.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.compiled import REFUSED
from vm_dynamics.dynamics import (
    hybrid_kernels,
    lagrange_poincare,
    quasi_coordinates,
    quaternion,
)
from vm_dynamics.dynamics.equivalent import dynamically_equivalent
from vm_dynamics.dynamics.hybrid import (
    BASE,
    HybridMotion,
    passive_mask,
    spread,
    spring_force,
)
from vm_dynamics.dynamics.lagrange_poincare import Matrices
from vm_dynamics.dynamics.loads import (
    NO_LOADS,
    LinkWrench,
    check_state,
    check_wrenches,
    fluid_forces,
    fluid_loads,
    generalized,
    joint_friction,
    loads_of,
)
from vm_dynamics.dynamics.matrices import RobotMatrices
from vm_dynamics.dynamics.quasi_coordinates import FreeFloating, QuasiCoordinates
from vm_dynamics.errors import ParameterError, UnknownMethodError
from vm_dynamics.lie import DisplacementGroup, group
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.hydrodynamics import Hydrodynamics
from vm_dynamics.model.robot_model import NO_ADDED_MASS, vector
from vm_dynamics.model.spec import locked_positions
from vm_dynamics.model.urdf import read

METHODS = ("hybrid", "reduced", "lagrange_poincare", "quasi_coordinates", "quaternion")

_FORMULATIONS: dict[str, Any] = {
    "lagrange_poincare": lagrange_poincare,
    "quasi_coordinates": quasi_coordinates,
    "quaternion": quaternion,
}
_forward = hybrid_kernels.forward
_forward_with_wrench = hybrid_kernels.forward_with_wrench


class Robot(RobotMatrices):
    """A robot that can be asked for its dynamics; build one with :func:`load`.

    Drag, buoyancy and current of a fluid act as external forces in every formulation.
    """

    def joint_friction(self, qd: ArrayLike) -> Array:
        """Effort of the URDF's damping and dry friction, shape (n,); not part of the dynamics.

        Add it to tau where it matters; :func:`vm_dynamics.simulate` does so.
        """
        return joint_friction(self, vector("qd", qd, self.n))

    def inverse_dynamics(
        self,
        g: ArrayLike,
        q: ArrayLike,
        V: ArrayLike,
        qd: ArrayLike,
        Vd: ArrayLike,
        qdd: ArrayLike,
        tip_wrench: ArrayLike | None = None,
        *,
        link_wrenches: Iterable[LinkWrench] = (),
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
            link_wrenches: external wrenches on any links, see :class:`LinkWrench`.

        Returns:
            F in frame {1}, shape (b,), and tau, shape (n,).
        """
        g, q, V, qd = self.check_state(g, q, V, qd)
        out = np.empty(self.b + self.n)
        hybrid_kernels.inverse_dynamics.checked(
            self.packed,
            self.added_mass,
            g,
            q,
            V,
            qd,
            vector("Vd", Vd, self.b),
            vector("qdd", qdd, self.n),
            self.loads(g, q, V, qd, tip_wrench, link_wrenches),
            out,
        )
        return out[: self.b], out[self.b :]

    def forward_dynamics(
        self,
        g: ArrayLike,
        q: ArrayLike,
        V: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        base_wrench: ArrayLike | None = None,
        tip_wrench: ArrayLike | None = None,
        method: str = "hybrid",
        *,
        link_wrenches: Iterable[LinkWrench] = (),
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
            method: the formulation, one of ``vm_dynamics.METHODS``: ``hybrid`` ([Jain], O(n)),
                ``reduced`` ([Mishra2022]), ``lagrange_poincare`` ([Moghaddam]),
                ``quasi_coordinates`` ([From2010]) or ``quaternion`` ([Kremer2022], base SE3
                only). All give the same.
            link_wrenches: external wrenches on any links, see :class:`LinkWrench`.

        Returns:
            Rate of the components of V, shape (b,), and qdd, shape (n,).
        """
        if method == "hybrid" and tip_wrench is None and self._is_dry_tree and not link_wrenches:
            acc = np.empty(self._square[0])
            try:
                if base_wrench is None:
                    _forward.run(self.packed, g, q, V, qd, tau, acc)
                else:
                    _forward_with_wrench.run(self.packed, g, q, V, qd, tau, base_wrench, acc)
            except REFUSED:
                checked = (*self.check_state(g, q, V, qd), vector("tau", tau, self.n))
                _forward.compile()
                _forward_with_wrench.checked(
                    self.packed, *checked, self.check_wrench(base_wrench), acc
                )
            return acc[: self.b], acc[self.b :]
        if method not in METHODS:
            raise UnknownMethodError("method", method, METHODS)
        g, q, V, qd = self.check_state(g, q, V, qd)
        force = np.concatenate((self.check_wrench(base_wrench), vector("tau", tau, self.n)))
        if method == "hybrid":
            loads = self.loads(g, q, V, qd, tip_wrench, link_wrenches)
            free = np.ones_like(force)
            found, _ = self.hybrid_sweep(g, q, V, qd, free, np.zeros_like(force), force, loads)
            return found[: self.b], found[self.b :]
        # gravity and fluid are the formulations' own
        force += self.generalized(q, self.given_loads(g, q, tip_wrench, link_wrenches))
        F, tau = force[: self.b], force[self.b :]
        if method == "reduced":
            return self._forward_by_theorem_1(g, q, V, qd, tau, F)
        return _FORMULATIONS[method].forward(self, g, q, V, qd, tau, F)

    def fluid_forces(
        self, g: ArrayLike, q: ArrayLike, V: ArrayLike, qd: ArrayLike
    ) -> tuple[Array, Array]:
        """What a fluid does to base and joints beyond its added mass, which the matrices have.

        Drag, buoyancy and, with added mass, the current; zero in the dry.

        Args:
            g: pose of the base in the world, shape (4, 4); only its rotation matters.
            q: shape (n,).
            V: base velocity in {1}, shape (b,).
            qd: joint velocities, shape (n,).

        Returns:
            F in {1}, shape (b,), and tau, shape (n,).
        """
        return fluid_forces(self, g, q, V, qd)

    def _forward_by_theorem_1(
        self, g: Array, q: Array, V: Array, qd: Array, tau: Array, F: Array
    ) -> tuple[Array, Array]:
        still, rest = np.zeros(self.b), np.zeros(self.n)
        weight = np.empty(self.b + self.n)
        hybrid_kernels.inverse_dynamics.checked(
            self.packed, NO_ADDED_MASS, g, q, still, rest, still, rest, NO_LOADS, weight
        )
        mu = V + self.connection(q) @ qd
        reduced = self.reduced(q, qd, mu)
        on_base, on_joints = self.fluid_forces(g, q, V, qd)
        on_base += F - weight[: self.b]
        on_joints += tau - weight[self.b :]
        mu_dot, qdd = reduced.accelerations(mu, qd, on_base, on_joints)
        return mu_dot - reduced.A @ qdd - reduced.A_dot @ qd, qdd

    def hybrid_dynamics(
        self,
        g: ArrayLike,
        q: ArrayLike,
        V: ArrayLike,
        qd: ArrayLike,
        active_acc: ArrayLike,
        passive_force: ArrayLike,
        passive: Any = (BASE,),
        *,
        stiffness: ArrayLike = 0.0,
        damping: ArrayLike = 0.0,
        rest: ArrayLike = 0.0,
        tip_wrench: ArrayLike | None = None,
        link_wrenches: Iterable[LinkWrench] = (),
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
            link_wrenches: external wrenches on any links, see :class:`LinkWrench`.

        Returns:
            All accelerations and all forces; those given come back as they are, springs and
            dampers counted in tau.
        """
        mask = passive_mask(self, passive)
        g, q, V, qd = self.check_state(g, q, V, qd)
        acc = spread("active_acc", active_acc, 1.0 - mask)
        force = spread("passive_force", passive_force, mask)
        force[self.b :] += mask[self.b :] * spring_force(self, q, qd, stiffness, damping, rest)
        loads = self.loads(g, q, V, qd, tip_wrench, link_wrenches)
        acc, force = self.hybrid_sweep(g, q, V, qd, mask, acc, force, loads)
        b = self.b
        return HybridMotion(acc[:b], acc[b:], force[:b], force[b:])

    def disturbance_jacobian(self, q: ArrayLike, passive: Any = (BASE,)) -> Array:
        """Velocities of the passive for those of the active, at rest: J_D = -M_pp^-1 M_pa.

        Args:
            q: shape (n,).
            passive: names of the passive joints, and ``base``.

        Returns:
            J_D, a row for each passive and a column for each active degree of freedom, base
            first then joints. With only the base passive it is -A; with nothing passive it has
            no rows, with nothing active no columns.
        """
        mask = passive_mask(self, passive)
        p, a = mask != 0.0, mask == 0.0
        q = vector("q", q, self.n)
        if self._mimics:
            M = self.mass_matrix(q)
            return -np.linalg.solve(M[np.ix_(p, p)], M[np.ix_(p, a)])
        out = np.empty(self._square)
        hybrid_kernels.disturbance.checked(self.packed, self.added_mass, q, mask, out)
        return out[np.ix_(p, a)]

    def generalized_jacobian(self, q: ArrayLike, link: str, passive: Any = (BASE,)) -> Array:
        """Twist of a link for the active velocities, the passive following: J_a + J_p J_D.

        Args:
            q: shape (n,).
            link: name of the link; the twist is in its frame.
            passive: names of the passive joints, and ``base``.

        Returns:
            J_G, shape (6, number of active degrees of freedom); with nothing passive it is
            :meth:`link_jacobian`.
        """
        p = passive_mask(self, passive) != 0.0
        J = self.link_jacobian(q, link)
        return J[:, ~p] + J[:, p] @ self.disturbance_jacobian(q, passive)

    # -- other formulations -----------------------------------------------------------------------

    def lagrange_poincare(self, q: ArrayLike) -> Matrices:
        """Matrices of the Lagrange-Poincare equations and their derivatives, [Moghaddam]."""
        return lagrange_poincare.matrices(self, q)

    def quasi_coordinates(self, q: ArrayLike, V: ArrayLike, qd: ArrayLike) -> QuasiCoordinates:
        """M and C of [From2010] (14), (57), both (b + n, b + n); dM/dt - 2C is not skew."""
        return quasi_coordinates.matrices(self, q, V, qd)

    def free_floating(
        self, q: ArrayLike, V: ArrayLike, qd: ArrayLike, tau: ArrayLike
    ) -> FreeFloating:
        """The reduced form without forces on the base, [From2010] (85)-(88).

        Raises:
            ParameterError: the robot is submerged: a fluid pushes its base.
        """
        return quasi_coordinates.free_floating(self, q, V, qd, tau)

    def wheeled_dynamics(
        self,
        g: ArrayLike,
        q: ArrayLike,
        v: ArrayLike,
        qd: ArrayLike,
        tau: ArrayLike,
        base_wrench: ArrayLike | None = None,
    ) -> tuple[Array, Array, float]:
        """Accelerations of a vehicle on wheels, which moves along x and turns about z only.

        Gravity acts on it, and drag, buoyancy and current if it is submerged.

        Args:
            g: pose of the base in the world, shape (4, 4).
            q: shape (n,).
            v: [v_x, w_z] in {1}.
            qd: joint velocities, shape (n,).
            tau: joint efforts, shape (n,).
            base_wrench: [f_x, f_y, t_z] on the base in {1}.

        Returns:
            Rates of v_x and w_z, qdd, and the sideways force that the wheels take [N].

        Raises:
            ParameterError: the base group is not SE2.
        """
        wrench = self.check_wrench(base_wrench)
        return quasi_coordinates.wheeled_forward(self, g, q, v, qd, tau, wrench)

    def dynamically_equivalent_manipulator(self) -> Robot:
        """The robot on a ball joint whose joints and attitude move as those of this free one.

        [From2010] (82): for a chain on a free base without gravity, under the same torques.

        Raises:
            ParameterError: the robot branches, has mimic joints, its base is not free, or it is
                submerged.
        """
        return Robot(dynamically_equivalent(self), group("SO3"), tip_link=self.tip_link)

    # -- for whoever calls kernels ----------------------------------------------------------------

    def check_state(
        self, g: ArrayLike, q: ArrayLike, V: ArrayLike, qd: ArrayLike
    ) -> tuple[Array, Array, Array, Array]:
        """Fresh arrays (g, q, V, qd) that kernels take, or an error that names the argument."""
        return check_state(self, g, q, V, qd)

    def check_wrench(self, base_wrench: ArrayLike | None) -> Array:
        """A wrench on the base in {1}, shape (b,); zero if None."""
        value = np.zeros(self.b) if base_wrench is None else base_wrench
        return vector("base_wrench", value, self.b)

    def given_loads(
        self,
        g: Array,
        q: Array,
        tip_wrench: ArrayLike | None = None,
        link_wrenches: Iterable[LinkWrench] = (),
    ) -> Array:
        """The wrenches that a caller gives, on bodies, in {1}, shape (nj + 1, 6) or no rows."""
        wrenches = check_wrenches(link_wrenches)
        if tip_wrench is not None:
            tip = LinkWrench(self.tip_link, vector("tip_wrench", tip_wrench, 6))
            wrenches = (*wrenches, tip)
        if not wrenches:
            return NO_LOADS
        return loads_of(self, wrenches, lambda link: self.link_pose(q, link), g)

    def loads(
        self,
        g: Array,
        q: Array,
        V: Array,
        qd: Array,
        tip_wrench: ArrayLike | None = None,
        link_wrenches: Iterable[LinkWrench] = (),
    ) -> Array:
        """All that pushes the bodies but gravity, in {1}, shape (nj + 1, 6) or no rows.

        That is what a caller gives, and drag, buoyancy and current of a fluid; its added mass is
        in the matrices.

        Args:
            g: pose of the base in the world, shape (4, 4).
            q: shape (n,).
            V: base velocity, shape (b,).
            qd: joint velocities, shape (n,).
            tip_wrench: external wrench [f; t] on ``tip_link``, in its frame, shape (6,).
            link_wrenches: external wrenches on any links.
        """
        given = self.given_loads(g, q, tip_wrench, link_wrenches)
        fluid = fluid_loads(self, g, q, V, qd)
        if not len(given):
            return fluid
        return given + fluid if len(fluid) else given

    def generalized(self, q: Array, loads: Array) -> Array:
        """Forces [F; tau] of loads on the bodies, shape (b + n,)."""
        return generalized(self, q, loads)

    def hybrid_sweep(
        self,
        g: Array,
        q: Array,
        V: Array,
        qd: Array,
        mask: Array,
        acc: Array,
        force: Array,
        loads: Array,
    ) -> tuple[Array, Array]:
        """All accelerations and forces, (b + n,), those given filled in with the others.

        Args:
            g: pose of the base in the world, shape (4, 4).
            q: shape (n,).
            V: base velocity, shape (b,).
            qd: joint velocities, shape (n,).
            mask: 1 for a passive degree of freedom, 0 for a driven one, shape (b + n,).
            acc: accelerations of the driven ones; the others are written.
            force: forces on the passive ones; the others are written.
            loads: see :meth:`loads`.
        """
        hybrid_kernels.hybrid.checked(
            self.packed, self.added_mass, g, q, V, qd, mask, acc, force, loads
        )
        return acc, force

    @cached_property
    def _mimics(self) -> bool:
        return len(self.tree.bodies) != self.n

    @cached_property
    def _is_dry_tree(self) -> bool:
        """Whether the quickest kernels serve: one hinge a joint, and no fluid."""
        return self.fluid is None and not self._mimics


def load(
    urdf: str | bytes | os.PathLike[str],
    base: str | DisplacementGroup | None = None,
    gravity: ArrayLike = (0.0, 0.0, 0.0),
    *,
    tip_link: str | None = None,
    locked_joints: Any = (),
    root_link: str | None = None,
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
        root_link: a link to take for the root, whose frame is {1}; all that is inboard of it, as
            a massless ``odom`` or another vehicle, is left out.
        pitch: advance of the helical base group [m/rad], with ``base="H"`` only; one metre a turn
            unless given.
        strict: whether principal moments of inertia that violate the triangle inequality are an
            error; else a warning, as long as the mass matrix is positive definite.

    Raises:
        UrdfError: one of its children, with a message that says what is wrong and where.
        ParameterError: a pitch for a base that has none.
    """
    reading = read(urdf, strict=strict)
    description = reading.description
    if root_link is not None and root_link != description.root:
        description = description.with_root(root_link)
    positions = locked_positions(locked_joints)
    if positions:
        description = description.with_locked(positions)
    if base is None:
        base_group = group(reading.base or "SE3", axis=reading.axis, pitch=pitch)
    else:
        base_group = group(base, pitch=pitch)
    return Robot(description, base_group, gravity, tip_link)


def submerge(robot: Robot, hydrodynamics: Hydrodynamics | str | Path | Mapping[str, Any]) -> Robot:
    """The same robot in a fluid, ``robot.fluid``.

    Its links carry added mass, feel drag, float and drift with the current.

    Args:
        robot: the robot; give it gravity, or nothing floats.
        hydrodynamics: the fluid, or the YAML file or mapping to read it from.

    Raises:
        ParameterError: the parameters say something impossible, or the robot is submerged.
        UnknownLinkError: they name a link that the robot does not have.
    """
    if robot.fluid is not None:
        raise ParameterError(f"robot: {robot!r} is submerged already")
    if not isinstance(hydrodynamics, Hydrodynamics):
        hydrodynamics = Hydrodynamics.load(hydrodynamics)
    dry = robot.description, robot.base_group, robot.gravity, robot.tip_link
    return Robot(*dry, hydrodynamics)
