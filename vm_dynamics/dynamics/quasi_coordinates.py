# SPDX-License-Identifier: Apache-2.0
"""Equations of motion in quasi-coordinates, M dv/dt + C v = forces, without singularities.

Implements: [From2010] eqs. (5)-(26), (57)-(69), (83)-(88), (93)-(101) with Proposition 3.1, on
every displacement subgroup, for trees and mimic joints.

The vehicle's velocity is V, its twist H V with the constant selection matrix H (here the group's
``iota``). All is computed for H = 1, eq. (59), and then restricted, eq. (95). The momentum that C
needs is the one of all six directions: a vehicle that cannot move sideways still has momentum
there, and turning it takes a force. The printed C uses only the components along H, and has the
wrong bracket; corrected,

.. math:: C_VV = dM_VV/dt - H^T [[0, p_v^], [p_v^, p_w^]] H

which also holds for SE(2) and X(z), where (98), (99) and Table 2 have no term. Gravity (16)-(18)
and the reduced form (85)-(88) are corrected too; see ``docs/quasi_coordinates.md``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vm_dynamics.dynamics import lagrange_poincare
from vm_dynamics.dynamics._bodies import (
    block_diagonal,
    checked_forces,
    checked_state,
    joint_map,
    moved_by,
    own_screw,
    parents,
    solve,
)
from vm_dynamics.dynamics.loads import fluid_forces
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array, ad, ad_tilde, adjoint, exp, hat3, inverse
from vm_dynamics.model.robot_model import RobotModel, vector

# Of the velocities [v_x, v_y, w_z] of SE(2), those that wheels leave free, eq. (101).
WHEELS = np.eye(3)[:, [0, 2]]
SIDE = 1  # the one that they do not


class Kinematics(NamedTuple):
    """Where the bodies are; row 0 is the vehicle.

    Attributes:
        parents: row of the parent of every body.
        moved_by: whether joint k moves body i, shape (nj + 1, nj + 1).
        poses: g_bi of the bodies in {1}, shape (nj + 1, 4, 4).
        X: constant twist of every joint in the frame of the parent body, shape (nj + 1, 6).
    """

    parents: list[int]
    moved_by: NDArray[np.bool_]
    poses: Array
    X: Array


class QuasiCoordinates(NamedTuple):
    """Matrices of ``M [dV/dt; qdd] + C [V; qd] = forces``, both (b + n, b + n)."""

    M: Array
    C: Array


class FreeFloating(NamedTuple):
    """The reduced form of a robot that floats freely, and its accelerations.

    Attributes:
        M_r: reduced inertia, eq. (85), shape (n, n).
        C_r: reduced Coriolis matrix, eq. (86), shape (n, n).
        N: what the total momentum adds, shape (n,); zero without momentum.
        Vd: rate of the components of V, eq. (88), shape (b,).
        qdd: from ``M_r qdd + C_r qd + N = tau``, eq. (87), shape (n,).
    """

    M_r: Array
    C_r: Array
    N: Array
    Vd: Array
    qdd: Array


def kinematics(robot: RobotModel, q: ArrayLike) -> Kinematics:
    """Poses g_bi and joint twists X_k at a shape (n,)."""
    E, offset = joint_map(robot)
    q_body = E @ vector("q", q, robot.n) + offset
    poses = np.tile(np.eye(4), (len(q_body) + 1, 1, 1))
    X = np.zeros((len(q_body) + 1, 6))
    for k, body in enumerate(robot.tree.bodies, start=1):
        X[k] = adjoint(body.placement) @ own_screw(body.joint)
        poses[k] = poses[body.parent] @ exp(X[k] * q_body[k - 1]) @ body.placement
    return Kinematics(parents(robot), moved_by(robot), poses, X)


def adjoint_derivative(at: Kinematics, i: int, j: int, k: int) -> Array:
    """dAd_{g_ij}/dq_k, Proposition 3.1, shape (6, 6), of two bodies and the joint of a third.

    On a tree the joint changes g_ij when it moves one of the two bodies but not both:

    .. math:: +-Ad_{g_ip} ad_{X_k} Ad_{g_pj}

    p the parent of k, plus if it moves j.
    """
    sign = float(at.moved_by[j, k]) - float(at.moved_by[i, k])
    if sign == 0.0:
        return np.zeros((6, 6))
    p = at.poses[at.parents[k]]
    left, right = inverse(at.poses[i]) @ p, inverse(p) @ at.poses[j]
    return sign * adjoint(left) @ ad(at.X[k]) @ adjoint(right)


def jacobian(at: Kinematics) -> Array:
    """Joint twists in {1}, (6, nj): J_i of eq. (64) has those of the joints that move body i."""
    columns = [adjoint(at.poses[at.parents[k]]) @ at.X[k] for k in range(1, len(at.X))]
    return np.array(columns).reshape(-1, 6).T


def jacobian_derivative(at: Kinematics, k: int) -> Array:
    """Derivative of :func:`jacobian` along joint k, eq. (65), shape (6, nj)."""
    columns = [adjoint_derivative(at, 0, at.parents[j], k) @ at.X[j] for j in range(1, len(at.X))]
    return np.array(columns).reshape(-1, 6).T


def mass_and_derivatives(robot: RobotModel, q: ArrayLike) -> tuple[Array, Array]:
    """Mass matrix of a base on SE(3) and its derivatives, eqs. (12), (13), (59).

    Args:
        robot: the robot; its kinetic energy is that of ``robot.body_inertias``.
        q: shape (n,).

    Returns:
        M, shape (6 + n, 6 + n), and dM/dq_k, shape (n, 6 + n, 6 + n).
    """
    at = kinematics(robot, q)
    nj = len(at.X) - 1
    J, dJ = jacobian(at), [jacobian_derivative(at, k) for k in range(1, nj + 1)]
    M, dM = np.zeros((6 + nj, 6 + nj)), np.zeros((nj, 6 + nj, 6 + nj))
    still = np.zeros((6, 6))
    for i, inertia in enumerate(robot.body_inertias):
        Ad_ib = adjoint(inverse(at.poses[i]))
        moves = at.moved_by[i, 1:]
        G = np.hstack((np.eye(6), J * moves))
        momentum = inertia @ Ad_ib @ G
        M += (Ad_ib @ G).T @ momentum
        for k in np.flatnonzero(moves):
            dG = np.hstack((still, dJ[k] * moves))
            half = (adjoint_derivative(at, i, 0, k + 1) @ G + Ad_ib @ dG).T @ momentum
            dM[k] += half + half.T
    E, _ = joint_map(robot)
    to_all = block_diagonal(np.eye(6), E)
    return to_all.T @ M @ to_all, np.einsum("ka,kij->aij", E, to_all.T @ dM @ to_all)


def restrict(H: Array, M: Array, dM: Array) -> tuple[Array, Array]:
    """The same for a vehicle with a selection matrix H (6, b), eq. (95)."""
    H_bar = block_diagonal(H, np.eye(len(dM)))
    return H_bar.T @ M @ H_bar, H_bar.T @ dM @ H_bar


def coriolis(H: Array, M: Array, dM: Array, v: Array) -> Array:
    """C of eqs. (57), (84), (93), corrected, shape (b + n, b + n).

    Rows of the joints: half of ``v^T dM/dq_k`` is taken from dM/dt.

    Args:
        H: selection matrix, constant, shape (6, b).
        M: mass matrix on SE(3), shape (6 + n, 6 + n).
        dM: its derivatives, shape (n, 6 + n, 6 + n).
        v: [V; qd], shape (b + n,).
    """
    H_bar = block_diagonal(H, np.eye(len(dM)))
    twist = H_bar @ v
    C = np.einsum("kij,k->ij", dM, twist[6:])
    C[:6, :6] -= ad_tilde((M @ twist)[:6])
    C[6:] -= 0.5 * dM @ twist
    return H_bar.T @ C @ H_bar


def matrices(robot: RobotModel, q: ArrayLike, V: ArrayLike, qd: ArrayLike) -> QuasiCoordinates:
    """M and C on the robot's base group.

    Args:
        robot: the robot.
        q: shape (n,).
        V: base velocity in {1}, shape (b,).
        qd: joint velocities, shape (n,).
    """
    q, V, qd = checked_state(robot, q, V, qd)
    full = mass_and_derivatives(robot, q)
    H = robot.base_group.iota
    return QuasiCoordinates(restrict(H, *full)[0], coriolis(H, *full, np.concatenate((V, qd))))


def gravity(robot: RobotModel, g: ArrayLike, q: ArrayLike) -> Array:
    """Generalized force of gravity, for the right side, eqs. (16)-(18) corrected, shape (b + n,).

    .. math:: sum_i [H, J_i]^T Ad_{g_ib}^T [f; r^ f],  f = m_i R_0i^T a

    r the centre of mass and a the acceleration of free fall.

    Args:
        robot: the robot; gravity acts on ``robot.tree.inertias``.
        g: pose of the base in the world, shape (4, 4); only its rotation matters.
        q: shape (n,).
    """
    at = kinematics(robot, q)
    J, fall = jacobian(at), check_pose(g)[:3, :3].T @ robot.gravity
    on_base, on_bodies = np.zeros(6), np.zeros(J.shape[1])
    for pose, moves, body in zip(at.poses, at.moved_by, robot.tree.inertias, strict=True):
        force = body.mass * pose[:3, :3].T @ fall
        wrench = np.concatenate((force, hat3(np.array(body.com)) @ force))
        at_base = adjoint(inverse(pose)).T @ wrench
        on_base += at_base
        on_bodies += (J * moves[1:]).T @ at_base
    E, _ = joint_map(robot)
    return np.concatenate((robot.base_group.iota.T @ on_base, E.T @ on_bodies))


def surroundings(
    robot: RobotModel, g: ArrayLike, q: ArrayLike, V: ArrayLike, qd: ArrayLike
) -> Array:
    """Generalized force of gravity and of the fluid, for the right side, shape (b + n,).

    Args:
        robot: the robot.
        g: pose of the base in the world, shape (4, 4); only its rotation matters.
        q: shape (n,).
        V: base velocity in {1}, shape (b,).
        qd: joint velocities, shape (n,).
    """
    return gravity(robot, g, q) + np.concatenate(fluid_forces(robot, g, q, V, qd))


def forward(
    robot: RobotModel,
    g: ArrayLike,
    q: ArrayLike,
    V: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    F: ArrayLike,
) -> tuple[Array, Array]:
    """Accelerations of base and joints, eqs. (8), (14).

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
    M, C = matrices(robot, q, V, qd)
    forces = np.concatenate((F, tau)) + surroundings(robot, g, q, V, qd)
    acc = solve("M", M, forces - C @ np.concatenate((V, qd)))
    return acc[: robot.b], acc[robot.b :]


def free_floating(
    robot: RobotModel, q: ArrayLike, V: ArrayLike, qd: ArrayLike, tau: ArrayLike
) -> FreeFloating:
    """The reduced form (85)-(88) of a robot that no force acts on but its joint efforts.

    (86) and (87) hold as printed for zero momentum; otherwise N of [Moghaddam] (100) is added.
    Gravity is not counted: in free fall it is not felt.

    Args:
        robot: the robot.
        q: shape (n,).
        V: base velocity in {1}, shape (b,).
        qd: joint velocities, shape (n,).
        tau: joint efforts, shape (n,).

    Raises:
        ParameterError: the robot is submerged, and a fluid pushes its base.
    """
    if robot.fluid is not None:
        raise ParameterError(
            f"robot: {robot.name!r} is submerged, expected one whose base no force acts on; "
            "forward_dynamics counts the fluid"
        )
    q, V, qd = checked_state(robot, q, V, qd)
    tau = vector("tau", tau, robot.n)
    b, H, v = robot.b, robot.base_group.iota, np.concatenate((V, qd))
    full = mass_and_derivatives(robot, q)
    M, dM = restrict(H, *full)
    m = lagrange_poincare.decouple(M, dM, b)
    C_r = lagrange_poincare.coriolis(m, qd)
    N = lagrange_poincare.N_hat(robot.base_group, m, qd, M[:b] @ v)
    qdd = solve("M_r", m.M_hat, tau - C_r @ qd - N)
    C_V = coriolis(H, *full, v)[:b]
    return FreeFloating(m.M_hat, C_r, N, -solve("M_VV", m.M_0, m.M_0m @ qdd + C_V @ v), qdd)


def wheeled_forward(
    robot: RobotModel,
    g: ArrayLike,
    q: ArrayLike,
    v: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    F: ArrayLike,
) -> tuple[Array, Array, float]:
    """Accelerations of a robot on wheels that roll but do not slip sideways, eqs. (96)-(101).

    The equations on SE(2), multiplied from the left by the constant selection matrix (d'Alembert:
    the wheels' force does no work). To put (101) in place of H everywhere, as the paper says,
    loses the sideways momentum p_y, hence the forces ``p_y w_z`` along x and ``-p_y v_x`` about z.
    The directions v_x and w_z are no subgroup: their bracket is sideways.

    Args:
        robot: the robot, with base group SE2; the wheels' axle passes through the origin of {1}.
        g: pose of the base in the world, shape (4, 4); only its rotation matters.
        q: shape (n,).
        v: velocities [v_x, w_z], shape (2,) [m/s, rad/s].
        qd: joint velocities, shape (n,).
        tau: all forces on the joints but those of gravity and fluid, shape (n,).
        F: all forces on the base but those and that of the wheels, [f_x, f_y, t_z], shape (3,).

    Returns:
        Rates of v, shape (2,), qdd, shape (n,), and the sideways force of the wheels on the robot,
        along y of {1} [N].

    Raises:
        ParameterError: the base group is not SE2.
    """
    if robot.base_group.name != "SE2":
        raise ParameterError(
            f"robot: got base group {robot.base_group.name}, expected SE2 (a vehicle on wheels)"
        )
    q, V, qd = checked_state(robot, q, WHEELS @ vector("v", v, 2), qd)
    g, tau, F = checked_forces(robot, g, tau, F)
    M, C = matrices(robot, q, V, qd)
    forces = np.concatenate((F, tau)) + surroundings(robot, g, q, V, qd)
    forces -= C @ np.concatenate((V, qd))
    select = block_diagonal(WHEELS, np.eye(robot.n))
    free = solve("M", select.T @ M @ select, select.T @ forces)
    side_force = float((M @ select @ free - forces)[SIDE])
    return free[:2], free[2:], side_force
