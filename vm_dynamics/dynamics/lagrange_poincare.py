# SPDX-License-Identifier: Apache-2.0
"""Lagrange-Poincare equations: momentum of the base group, shape of the arm, in closed form.

Implements: [Moghaddam] eqs. (13)-(19), (50)-(77), (90)-(100), (111)-(122), on every displacement
subgroup, for trees and mimic joints.

.. math::
    dP/dt = ad_V^T P + F - f_u
    M_hat qdd + C_hat qd + N_hat + du/dq = tau - A^T (F - f_u)
    V = M_0^-1 P - A qd

Departures from the print: the sign of all forces in (96) and that of f_u in (97); (98) is as
above; the signs of both terms with dA in (100); the order of the adjoints in (92), (93); zero
diagonal blocks in (115); brackets of (117), (118), (120); the minus in (122); g in (130) is minus
the acceleration of free fall. ``docs/lagrange_poincare.md`` has them one by one.

Bodies are rows: 0 is the vehicle, k the body behind joint k. A path from k to j takes the place
of the paper's k, ..., j; where there is none, blocks are zero. A mimic joint is a joint like any
other until ``E`` maps the coordinates q to those of all joints.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.dynamics._bodies import (
    block_diagonal,
    checked_forces,
    checked_state,
    joint_map,
    own_screw,
    parents,
    solve,
)
from vm_dynamics.dynamics.loads import fluid_forces
from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array, ad, adjoint, exp, hat, inverse
from vm_dynamics.model.robot_model import RobotModel, vector


class Constants(NamedTuple):
    """What does not depend on the configuration.

    Attributes:
        zero: poses gbar_k^0 of the bodies in {1} with all joints at zero, (nj + 1, 4, 4).
        xi: joint twists in {1} there, eq. (17), shape (nj + 1, 6); row 0, the vehicle's, is zero.
        Xi: inclusion of [V; qd], eq. (58), shape (6 (nj + 1), b + n).
        inertias: those of the bodies seen from {1} there, eq. (55), shape (nj + 1, 6, 6).
    """

    zero: Array
    xi: Array
    Xi: Array
    inertias: Array


class Matrices(NamedTuple):
    """The inertia at a shape, its blocks, and their derivatives along each joint (first axis).

    Attributes:
        M_0: locked inertia, eq. (65), shape (b, b).
        M_0m: coupling, eq. (66), shape (b, n).
        M_m: inertia of the joints, eq. (67), shape (n, n).
        A: connection M_0^-1 M_0m, eq. (69), shape (b, n).
        M_hat: inertia of the shape M_m - A^T M_0 A, eq. (75), shape (n, n).
        dM_0: eq. (117), shape (n, b, b).
        dM_0m: eq. (118), shape (n, b, n).
        dM_m: eq. (120), shape (n, n, n).
        dA: eq. (122), shape (n, b, n).
        dM_hat: eq. (119), shape (n, n, n).
    """

    M_0: Array
    M_0m: Array
    M_m: Array
    A: Array
    M_hat: Array
    dM_0: Array
    dM_0m: Array
    dM_m: Array
    dA: Array
    dM_hat: Array


def constants(robot: RobotModel) -> Constants:
    """Zero poses, joint twists and inertias in frame {1}, eqs. (16), (17), (55), (58)."""
    nj = len(robot.tree.bodies)
    zero = np.tile(np.eye(4), (nj + 1, 1, 1))
    xi = np.zeros((nj + 1, 6))
    for k, body in enumerate(robot.tree.bodies, start=1):
        zero[k] = zero[body.parent] @ body.placement
        xi[k] = adjoint(zero[k]) @ own_screw(body.joint)
    to_body = np.array([adjoint(inverse(pose)) for pose in zero])
    Xi_m = np.zeros((6 * nj, nj))
    for k in range(nj):
        Xi_m[6 * k : 6 * k + 6, k] = xi[k + 1]
    E, _ = joint_map(robot)
    Xi = block_diagonal(robot.base_group.iota, Xi_m @ E)
    return Constants(zero, xi, Xi, to_body.transpose(0, 2, 1) @ robot.body_inertias @ to_body)


def transports(robot: RobotModel, fixed: Constants, q: Array) -> Array:
    """The matrix L of eq. (59), shape (nj + 1, 6, 6 (nj + 1)), a row of blocks for each body.

    Block (j, k) is Ad of ``exp(-xi_j q_j) ... exp(-xi_i q_i)`` over the path from the joint i that
    follows k to j, eq. (60); it is one at j = k and zero without a path.
    """
    E, offset = joint_map(robot)
    q_body = E @ q + offset
    nj = len(q_body)
    L = np.zeros((nj + 1, 6, 6 * (nj + 1)))
    for j, parent in enumerate(parents(robot)):
        if j > 0:
            L[j] = adjoint(exp(-fixed.xi[j] * q_body[j - 1])) @ L[parent]
        L[j, :, 6 * j : 6 * j + 6] = np.eye(6)
    return L


def matrices(robot: RobotModel, q: ArrayLike) -> Matrices:
    """Inertia, connection and their closed-form derivatives, eqs. (54)-(77) and (114)-(122).

    With the total Jacobian ``J = L Xi`` of (57) the mass matrix is ``J^T diag(M_k) J``. The
    derivatives (114)-(116) of all blocks of L are ``-L_{.i} ad_{xi_i} (L - 1)_{i.}``, and the one
    meets only the joint's own twist, which its bracket takes to zero:

    .. math:: dJ/dq_i = -L_{.i} ad_{xi_i} J_{i.}

    Args:
        robot: the robot; its kinetic energy is that of ``robot.body_inertias``.
        q: shape (n,).
    """
    q = vector("q", q, robot.n)
    fixed = constants(robot)
    L = transports(robot, fixed, q)
    J = L @ fixed.Xi
    size = J.shape[-1]
    MJ = (fixed.inertias @ J).reshape(-1, size)
    M = J.reshape(-1, size).T @ MJ
    dM = np.zeros((len(J) - 1, size, size))
    for i in range(1, len(J)):
        dJ = -L[:, :, 6 * i : 6 * i + 6] @ ad(fixed.xi[i]) @ J[i]
        half = dJ.reshape(-1, size).T @ MJ
        dM[i - 1] = half + half.T
    E, _ = joint_map(robot)
    return decouple(M, np.einsum("ia,ijk->ajk", E, dM), robot.b)


def decouple(M: Array, dM: Array, b: int) -> Matrices:
    """Blocks, connection and shape inertia of a mass matrix, eqs. (69), (75), (119)-(122).

    Args:
        M: mass matrix, shape (b + n, b + n).
        dM: its derivatives, shape (n, b + n, b + n).
        b: dimension of the base.
    """
    M_0, M_0m, M_m = M[:b, :b], M[:b, b:], M[b:, b:]
    dM_0, dM_0m, dM_m = dM[:, :b, :b], dM[:, :b, b:], dM[:, b:, b:]
    A = solve("M_0", M_0, M_0m)
    dA = np.linalg.solve(M_0, dM_0m - dM_0 @ A)
    half = dA.transpose(0, 2, 1) @ M_0m
    dM_hat = dM_m - half - half.transpose(0, 2, 1) - A.T @ dM_0 @ A
    return Matrices(M_0, M_0m, M_m, A, M_m - A.T @ M_0m, dM_0, dM_0m, dM_m, dA, dM_hat)


def coriolis(m: Matrices, qd: Array) -> Array:
    """C_hat of eq. (99), shape (n, n): dM_hat/dt, less half of the rows ``qd^T dM_hat/dq_i``."""
    return np.einsum("ijk,i->jk", m.dM_hat, qd) - 0.5 * np.einsum("ijk,j->ik", m.dM_hat, qd)


def N_hat(group: DisplacementGroup, m: Matrices, qd: Array, P: Array) -> Array:
    """What the momentum does to the shape, eq. (100) with its signs corrected, shape (n,).

    .. math:: N_i = (A^T ad_V^T P + dA/dt^T P)_i - P^T dA/dq_i qd + 1/2 P^T dM_0^-1/dq_i P

    Args:
        group: base group.
        m: matrices at the shape.
        qd: joint velocities, shape (n,).
        P: momentum in {1}, shape (b,).
    """
    locked = solve("M_0", m.M_0, P)
    V = locked - m.A @ qd
    dA_qd = np.einsum("ijk,k->ij", m.dA, qd)
    A_dot = np.einsum("ijk,i->jk", m.dA, qd)
    kinetic = np.einsum("ijk,j,k->i", m.dM_0, locked, locked)
    return (m.A.T @ group.ad(V).T + A_dot.T - dA_qd) @ P - 0.5 * kinetic


def _first_moments(robot: RobotModel, q: Array) -> tuple[Array, Array]:
    """First moments of what joints carry, (nj + 1, 4), and their twists, (nj + 1, 6), in {1}.

    A first moment is ``[m r; m]`` of the centre of mass r, so that poses act on it, eq. (18).
    """
    fixed = constants(robot)
    E, offset = joint_map(robot)
    q_body = E @ q + offset
    up = parents(robot)
    poses = np.tile(np.eye(4), (len(up), 1, 1))
    twists = np.zeros((len(up), 6))
    for k in range(1, len(up)):
        twists[k] = adjoint(poses[up[k]]) @ fixed.xi[k]
        poses[k] = poses[up[k]] @ exp(fixed.xi[k] * q_body[k - 1])
    moments = np.array(
        [
            body.mass * pose @ zero @ (*body.com, 1.0)
            for body, pose, zero in zip(robot.tree.inertias, poses, fixed.zero, strict=True)
        ]
    )
    for k in range(len(up) - 1, 0, -1):
        moments[up[k]] += moments[k]
    return moments, twists


def potential(robot: RobotModel, g: ArrayLike, q: ArrayLike) -> float:
    """Potential energy of gravity, zero at the world's origin, eq. (130) [J].

    Args:
        robot: the robot.
        g: pose of the base in the world, shape (4, 4).
        q: shape (n,).
    """
    moments, _ = _first_moments(robot, vector("q", q, robot.n))
    return float(-robot.gravity @ (check_pose(g) @ moments[0])[:3])


def potential_wrench(robot: RobotModel, g: ArrayLike, q: ArrayLike) -> tuple[Array, Array]:
    """Derivatives of the potential: f_u along the base group (b,), du/dq (n,), eqs. (111)-(133).

    f_u is what breaks the symmetry; it needs no coordinates of the group:
    ``f_u,i = d/de u(g + g e zeta_i)``, zeta_i the i-th direction of the group's algebra.

    Args:
        robot: the robot; gravity acts on ``robot.tree.inertias``.
        g: pose of the base in the world, shape (4, 4); only its rotation matters.
        q: shape (n,).
    """
    moments, twists = _first_moments(robot, vector("q", q, robot.n))
    up = -np.append(robot.gravity, 0.0) @ check_pose(g)
    f_u = np.array([up @ hat(zeta) @ moments[0] for zeta in robot.base_group.iota.T])
    pairs = zip(twists[1:], moments[1:], strict=True)
    du_body = np.array([up @ hat(twist) @ moment for twist, moment in pairs])
    E, _ = joint_map(robot)
    return f_u, E.T @ du_body


def link_jacobians(robot: RobotModel, q: ArrayLike, link: str) -> tuple[Array, Array]:
    """J_e0 (6, b) and J_em (6, n) of a link, in its own frame, eqs. (92), (93) corrected.

    A wrench f on the link is ``J_e0^T f`` on the base and ``J_em^T f`` on the joints, (90), (91).
    The adjoints stand in the order Ad^-1 of gbar_e^k, then Ad^-1 of g_k^0.
    """
    frame = robot.link_frame(link)
    fixed = constants(robot)
    L = transports(robot, fixed, vector("q", q, robot.n))
    to_link = adjoint(inverse(fixed.zero[frame.body] @ frame.pose))
    J = to_link @ L[frame.body] @ fixed.Xi
    return J[:, : robot.b], J[:, robot.b :]


def forward(
    robot: RobotModel,
    g: ArrayLike,
    q: ArrayLike,
    V: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    F: ArrayLike,
) -> tuple[Array, Array]:
    """Accelerations of base and joints, eqs. (96)-(100) corrected.

    Args:
        robot: the robot.
        g: pose of the base in the world, shape (4, 4); only its rotation matters.
        q: shape (n,).
        V: base velocity in {1}, shape (b,).
        qd: joint velocities, shape (n,).
        tau: all forces on the joints but those of gravity and fluid, shape (n,).
        F: all forces on the base but those, in {1}, shape (b,).

    Returns:
        Rate of the components of V, shape (b,), and qdd, shape (n,).

    Raises:
        DimensionError: an argument of the wrong size.
        NonFiniteError: an argument holds NaN or infinity.
        SingularMassMatrixError: some motion has no inertia.
    """
    q, V, qd = checked_state(robot, q, V, qd)
    g, tau, F = checked_forces(robot, g, tau, F)
    m = matrices(robot, q)
    P = m.M_0 @ V + m.M_0m @ qd
    f_u, du_dq = potential_wrench(robot, g, q)
    on_base, on_joints = fluid_forces(robot, g, q, V, qd)
    on_base += F - f_u
    P_dot = robot.base_group.ad(V).T @ P + on_base
    on_shape = on_joints + tau - du_dq - m.A.T @ on_base
    bias = coriolis(m, qd) @ qd + N_hat(robot.base_group, m, qd, P)
    qdd = solve("M_hat", m.M_hat, on_shape - bias)
    # the time derivative of (98), V = M_0^-1 P - A qd
    M_0_dot, A_dot = np.einsum("ijk,i->jk", m.dM_0, qd), np.einsum("ijk,i->jk", m.dA, qd)
    locked_dot = solve("M_0", m.M_0, P_dot - M_0_dot @ (V + m.A @ qd))
    return locked_dot - A_dot @ qd - m.A @ qdd, qdd
