# SPDX-License-Identifier: Apache-2.0
"""Lagrangian model of a free-flying robot in world position, unit quaternion and joint positions.

Implements: [Kremer2022] eqs. (6)-(8), (36)-(50), (52), (65)-(66), (73)-(80), (88). Coordinates
are x = [p (3); q (4); theta (n)], p the origin of {1} in the world, q = (w, x, y, z) its
attitude, with the constraint |q| = 1. The sum over bodies (47) is ``T^T M T`` with the mass
matrix M(theta) in frame {1} and ``[V; qd] = T(q) xd``, so only its derivatives by theta are
needed; those by q are polynomials.

Departs from the paper, whose print is wrong or incomplete there: (48) differentiates the world
inertias through q too; (49) has g0 = +9.81 z; (73) has ``-J_phi^T lambda``; (79a) has A v in
place of A vdot; (80c), (80d) are partial derivatives, so b_q = 0; (88) is
``blkdiag(R^T, G/2, 1)``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.dynamics.mass_kernels import mass_matrix
from vm_dynamics.dynamics.quaternion_kernels import accelerations, equations
from vm_dynamics.errors import DimensionError, ParameterError, UnknownGroupError
from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.kernels import POSE_TOLERANCE
from vm_dynamics.lie.se3 import Array, quaternion
from vm_dynamics.model.parameters import number
from vm_dynamics.model.robot_model import vector

P, Q = slice(0, 3), slice(3, 7)  # position and quaternion in x; the joints follow
_SHORT = 1e-6  # squared norm of a quaternion that is no attitude any more


class FloatingRobot(Protocol):
    """What the model asks of a robot."""

    n: int
    base_group: DisplacementGroup
    gravity: Array
    fluid: Any
    packed: Array

    def mass_matrix(self, q: ArrayLike) -> Array:
        """M, shape (6 + n, 6 + n), base block first, with added mass if it is in a fluid."""

    def mass_derivatives(self, q: ArrayLike) -> Array:
        """Derivatives of M by the joint positions, shape (n, 6 + n, 6 + n)."""

    def fluid_forces(
        self, g: ArrayLike, q: ArrayLike, V: ArrayLike, qd: ArrayLike
    ) -> tuple[Array, Array]:
        """What a fluid does beyond its added mass, on base (6,) and joints (n,)."""

    def __hash__(self) -> int:
        """Robots are remembered by content."""


class Rates(NamedTuple):
    """Right-hand side of the first-order system (79): xd and vd, both shape (7 + n,)."""

    xd: Array
    vd: Array


def _E(q: Array) -> Array:
    """E of (6), shape (3, 4): the angular velocity in world axes is 2 E qd."""
    w, x, y, z = q.tolist()
    return np.array([[-x, w, -z, y], [-y, z, w, -x], [-z, -y, x, w]])


def _G(q: Array) -> Array:
    """G of (7), shape (3, 4): the angular velocity in {1} is 2 G qd."""
    w, x, y, z = q.tolist()
    return np.array([[-x, w, z, -y], [-y, -z, w, x], [-z, y, -x, w]])


def rotation(q: Array) -> Array:
    """Rotation matrix E G^T of (8), shape (3, 3); |q|^2 times one if q is no unit quaternion.

    Args:
        q: quaternion (w, x, y, z), shape (4,).
    """
    return _E(q) @ _G(q).T


# Derivatives of E and G by the components of q, shape (4, 3, 4).
_DE = np.array([_E(e) for e in np.eye(4)])
_DG = np.array([_G(e) for e in np.eye(4)])


class QuaternionModel:
    """The constrained Lagrangian model of a robot on a free base.

    Attributes:
        robot: the robot.
        nu: inertia against change of |q| [kg m^2], the sum of (46) over the bodies. No motion
            depends on it, as M [0; q; 0] = 4 nu |q|^2 [0; q; 0]: the direction of q is coupled to
            no other. Unless given it is the mean moment of inertia at joint positions zero,
            because M is best conditioned with an entry as large as the others.
    """

    def __init__(self, robot: FloatingRobot, nu: float | None = None) -> None:
        """Check base group and nu.

        Raises:
            UnknownGroupError: the base group is not SE3.
            ParameterError: nu is not positive.
        """
        if robot.base_group.name != "SE3":
            name = robot.base_group.name
            raise UnknownGroupError("base group of the quaternion model", name, ("SE3",))
        if nu is None:
            nu = float(np.trace(robot.mass_matrix(np.zeros(robot.n))[3:6, 3:6])) / 3.0
        self.robot = robot
        self.nu = _positive("nu", nu, "kg m^2")
        self._fall = np.array(robot.gravity)
        self._n = robot.n
        self._size = 7 + robot.n

    # -- coordinates ----------------------------------------------------------------------------

    def coordinates(self, g: ArrayLike, q: ArrayLike) -> Array:
        """Coordinates x = [p; q_wxyz; theta] with w >= 0, shape (7 + n,).

        Args:
            g: pose of {1} in the world, shape (4, 4).
            q: joint positions, shape (n,).
        """
        return self._coordinates(check_pose(g), vector("q", q, self._n))

    def velocities(self, x: ArrayLike, V: ArrayLike, qd: ArrayLike) -> Array:
        """Rates xd of the coordinates, shape (7 + n,), that keep |q|.

        Args:
            x: coordinates, shape (7 + n,).
            V: twist [v; w] of the base in {1}, shape (6,).
            qd: joint velocities, shape (n,).
        """
        x = self._checked("x", x)
        V, q = vector("V", V, 6), x[Q]
        linear = rotation(q) @ V[:3] / (q @ q)
        return np.concatenate((linear, 0.5 * V[3:] @ _G(q), vector("qd", qd, self._n)))

    def pose(self, x: ArrayLike) -> tuple[Array, Array]:
        """Pose g of {1} in the world, shape (4, 4), and joint positions, shape (n,)."""
        x = self._checked("x", x)
        g = np.eye(4)
        g[:3, :3] = rotation(x[Q]) / (x[Q] @ x[Q])
        g[:3, 3] = x[P]
        return g, x[7:]

    def twist(self, x: ArrayLike, xd: ArrayLike) -> tuple[Array, Array]:
        """Twist V = [R^T pd; 2 G qd] of the base in {1}, shape (6,), and joint velocities, (n,).

        The inverse of :meth:`velocities`; a rate of |q| is left out.
        """
        x, xd = self._checked("x", x), vector("xd", xd, self._size)
        squared = x[Q] @ x[Q]
        moved = rotation(x[Q]).T @ xd[P], 2.0 * _G(x[Q]) @ xd[Q]
        return np.concatenate(moved) / squared, xd[7:]

    # -- matrices of (43) -----------------------------------------------------------------------

    def mass_matrix(self, x: ArrayLike) -> Array:
        """Mass matrix (47), shape (7 + n, 7 + n), symmetric and positive definite.

        .. math:: M_x = T^T M(theta) T + 4 nu [0; q; 0] [0; q; 0]^T
        """
        return self._equations(self._checked("x", x), np.zeros(self._size))[0]

    def mass_derivatives(self, x: ArrayLike) -> Array:
        """Derivatives of the mass matrix by x, shape (7 + n, 7 + n, 7 + n), [k] by x_k."""
        x = self._checked("x", x)
        q = x[Q]
        M, T = self.robot.mass_matrix(x[7:]), self._map(q)
        out = np.zeros((self._size, self._size, self._size))
        dT = np.zeros((4, 6 + self._n, self._size))
        dT[:, :3, :3] = 2.0 * _G(q) @ _DE.swapaxes(1, 2)
        dT[:, 3:6, Q] = 2.0 * _DG
        half = T.T @ M @ dT
        half[:, Q, Q] += 4.0 * self.nu * np.eye(4)[:, :, None] * q
        out[Q] = half + half.swapaxes(1, 2)
        out[7:] = T.T @ self.robot.mass_derivatives(x[7:]) @ T
        return out

    def coriolis(self, x: ArrayLike, xd: ArrayLike) -> Array:
        """Coriolis matrix of the Christoffel symbols (48), shape (7 + n, 7 + n).

        dM/dt - 2C is skew.

        Args:
            x: coordinates, shape (7 + n,).
            xd: their rates, shape (7 + n,).
        """
        xd = vector("xd", xd, self._size)
        D = self.mass_derivatives(x)
        crossed = (D @ xd).T
        return 0.5 * (np.tensordot(xd, D, 1) + crossed - crossed.T)

    def gravity(self, x: ArrayLike) -> Array:
        """Gradient (50) of the potential energy (49), shape (7 + n,)."""
        return self.bias(x, np.zeros(self._size))

    def potential_energy(self, x: ArrayLike) -> float:
        """Potential energy (49) [J], zero with the centre of mass in the world's origin."""
        x = self._checked("x", x)
        M = self._rigid(x[7:])
        moment = np.array([M[1, 5], M[2, 3], M[0, 4]])  # m c, from the block -m c^
        return float(-self.robot.gravity @ (M[0, 0] * x[P] + rotation(x[Q]) @ moment))

    def force_map(self, x: ArrayLike) -> Array:
        """M_F of (65), shape (7 + n, 6 + n): from [F; tau] in {1} to generalized forces."""
        return self._map(self._checked("x", x)[Q]).T

    def force_map_pinv(self, x: ArrayLike) -> Array:
        """Pseudo-inverse of M_F, (88) corrected, shape (6 + n, 7 + n).

        .. math:: M_F^+ = blkdiag(R^T, G / 2, 1)
        """
        q = self._checked("x", x)[Q]
        out = self._map(q)
        squared = q @ q
        out[:3] /= squared * squared
        out[3:6] /= 4.0 * squared
        return out

    # -- motion ---------------------------------------------------------------------------------

    def bias(self, x: ArrayLike, xd: ArrayLike) -> Array:
        """Forces ``C xd + g`` at no acceleration, lumped as in (52), shape (7 + n,).

        Those of a fluid are not in it; :meth:`accelerations` and :meth:`rates` count them.
        """
        x, xd = self._checked("x", x), vector("xd", xd, self._size)
        return self._equations(x, xd)[1]

    def accelerations(
        self, x: ArrayLike, xd: ArrayLike, f_x: ArrayLike, dt: float | None = None
    ) -> Array:
        """Constrained accelerations (78), (79b), shape (7 + n,).

        Args:
            x: coordinates, shape (7 + n,).
            xd: their rates, shape (7 + n,).
            f_x: generalized forces, shape (7 + n,), all but those of gravity and fluid.
            dt: step [s] within which a rate of |q| is taken out; not at all if None.
        """
        x, xd = self._checked("x", x), vector("xd", xd, self._size)
        return self._accelerations(x, xd, self._all_forces(x, xd, f_x), _rate(dt))

    def rates(self, x: ArrayLike, v: ArrayLike, f_x: ArrayLike, dt: float) -> Rates:
        """Right-hand side of the constrained first-order system (79).

        A step ``x + dt xd`` returns to |q| = 1 but for ``|qd|^2 dt^2 / 2``, so that q need not be
        normalized.

        Args:
            x: coordinates, shape (7 + n,).
            v: their rates, shape (7 + n,).
            f_x: generalized forces, shape (7 + n,), all but those of gravity and fluid.
            dt: step of the integration [s].
        """
        x, v = self._checked("x", x), vector("v", v, self._size)
        rate = 1.0 / _positive("dt", dt, "s")
        vd = self._accelerations(x, v, self._all_forces(x, v, f_x), rate)
        norm = float(np.sqrt(x[Q] @ x[Q]))
        a = x[Q] / norm
        xd = v.copy()
        xd[Q] -= a * (a @ v[Q] + rate * (norm - 1.0))
        return Rates(xd, vd)

    # -- helpers --------------------------------------------------------------------------------

    def _checked(self, name: str, x: ArrayLike) -> Array:
        out = vector(name, x, self._size)
        if not out[Q] @ out[Q] > _SHORT:
            raise DimensionError(
                f"{name}: got the quaternion {out[Q]} in places 3 to 6, expected one of norm 1"
            )
        return out

    def _coordinates(self, g: Array, theta: Array) -> Array:
        x, y, z, w = quaternion(g)
        return np.array([g[0, 3], g[1, 3], g[2, 3], w, x, y, z, *theta.tolist()])

    def _map(self, q: Array) -> Array:
        """T of ``[V; qd] = T xd``, shape (6 + n, 7 + n)."""
        out = np.eye(6 + self._n, self._size, 1)
        G = _G(q)
        out[:3, :4] = 0.0
        out[:3, :3] = G @ _E(q).T
        out[3:6, Q] = 2.0 * G
        return out

    def _all_forces(self, x: Array, xd: Array, f_x: ArrayLike) -> Array:
        """Given generalized forces and those of a fluid, shape (7 + n,)."""
        out = vector("f_x", f_x, self._size)
        if self.robot.fluid is not None:
            fluid = self.robot.fluid_forces(*self.pose(x), *self.twist(x, xd))
            out += self.force_map(x) @ np.concatenate(fluid)
        return out

    def _inertias(self, theta: Array) -> tuple[Array, Array, Array]:
        """M(theta), its derivatives, and M without the added mass of a fluid."""
        robot = self.robot
        return robot.mass_matrix(theta), robot.mass_derivatives(theta), self._rigid(theta)

    def _rigid(self, theta: Array) -> Array:
        out = np.empty((6 + self._n, 6 + self._n))
        mass_matrix.checked(self.robot.packed, theta, out)
        return out

    def _equations(self, x: Array, xd: Array) -> tuple[Array, Array]:
        """Mass matrix and C xd + g."""
        mass, bias = np.empty((self._size, self._size)), np.empty(self._size)
        equations.checked(x, xd, *self._inertias(x[7:]), self._fall, self.nu, mass, bias)
        return mass, bias

    def _accelerations(self, x: Array, xd: Array, f_x: Array, rate: float) -> Array:
        """Constrained accelerations, written over the generalized forces."""
        accelerations.checked(x, xd, *self._inertias(x[7:]), self._fall, self.nu, rate, f_x)
        return f_x


def _positive(name: str, value: Any, unit: str) -> float:
    out = number(name, value)
    if not out > 0.0:
        raise ParameterError(f"{name}: got {out}, expected a positive number [{unit}]")
    return out


def _rate(dt: float | None) -> float:
    return 0.0 if dt is None else 1.0 / _positive("dt", dt, "s")


def _quick_pose(g: ArrayLike) -> Array:
    """All of :func:`check_pose` but whether the rotation is one, which costs most of its time."""
    out = np.ascontiguousarray(g, dtype=float)
    rigid = out.shape == (4, 4) and out[3].tolist() == [0.0, 0.0, 0.0, 1.0]
    return out if rigid and np.isfinite(out).all() else check_pose(g)


@lru_cache(maxsize=64)
def _model(robot: FloatingRobot) -> QuaternionModel:
    return QuaternionModel(robot)


def forward(
    robot: FloatingRobot,
    g: ArrayLike,
    q: ArrayLike,
    V: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    F: ArrayLike,
) -> tuple[Array, Array]:
    """Accelerations of base and joints by the constrained Lagrangian model.

    Args:
        robot: the robot, on the base group SE3.
        g: pose of {1} in the world, shape (4, 4).
        q: joint positions, shape (n,).
        V: twist [v; w] of the base in {1}, shape (6,).
        qd: joint velocities, shape (n,).
        tau: all forces on the joints but those of gravity and fluid, shape (n,).
        F: all forces [f; t] on the base but those, in {1}, shape (6,).

    Returns:
        Rate of the components of V, shape (6,), and qdd, shape (n,).
    """
    model = _model(robot)
    g = _quick_pose(g)
    x = model._coordinates(g, vector("q", q, robot.n))
    E, G = _E(x[Q]), _G(x[Q])
    R = E @ G.T
    if not abs(R - g[:3, :3]).max() < POSE_TOLERANCE:
        check_pose(g)
    V, F, tau = vector("V", V, 6), vector("F", F, 6), vector("tau", tau, robot.n)
    if robot.fluid is not None:
        on_base, on_joints = robot.fluid_forces(g, q, V, qd)
        F, tau = F + on_base, tau + on_joints
    xd = np.concatenate((R @ V[:3], 0.5 * V[3:] @ G, vector("qd", qd, robot.n)))
    f_x = np.concatenate((R @ F[:3], 2.0 * F[3:] @ G, tau))
    xdd = model._accelerations(x, xd, f_x, 0.0)
    R_rate = 2.0 * E @ _G(xd[Q]).T
    Vd = np.concatenate((xdd[P] @ R + xd[P] @ R_rate, 2.0 * G @ xdd[Q]))
    return Vd, xdd[7:]
