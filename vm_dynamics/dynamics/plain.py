# SPDX-License-Identifier: Apache-2.0
"""The dynamics on one page of matrix algebra, to read and to test the kernels against.

Implements: [Mishra2022] eqs. (4)-(7), (9), (10), (15), (16), (18)-(20), (35) and (36), and the
screws of [Moghaddam] eqs. (13)-(19). The names are those of ``docs/reduced.md``.

Every link k counts by itself, in its own frame, as the papers write it: no merged bodies, no
composite inertias, O(n^3). The robot is in the dry. Twists are [v; w]; base twists, wrenches and
momenta are those of the base group (b components) in frame {1}, the root link's; SI units, rad.

Nothing is written in place, no value decides what is computed, and derivatives are closed forms.
So q, qd, mu may be numbers or the symbols of any array type with ``@ + - * .T`` and slices, as
columns (k, 1) or, in NumPy, as vectors (k,). What has no operator comes from a backend ``xp``:

=====================  ============================================================================
``xp.array(x)``        constant of its type from a NumPy array, always a matrix
``xp.block(rows)``     one matrix from rows of matrices, or from rows of scalars
``xp.sin``, ``xp.cos`` of a scalar
``xp.solve(a, b)``     ``a^-1 b``; a is M_b or Lambda_q, positive definite: elimination in order,
                       without a choice of pivots, is safe where there are no values to choose by
=====================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.model.inertia import Inertia
from vm_dynamics.model.robot_model import RobotModel

Matrix = Any  # of the backend
NUMPY = SimpleNamespace(
    array=np.asarray, block=np.block, sin=np.sin, cos=np.cos, solve=np.linalg.solve
)


def hat(x: Matrix, xp: Any) -> Matrix:
    """x^, ``hat(x) y = x cross y``, shape (3, 3)."""
    return xp.block([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


def ad(V: Matrix, xp: Any) -> Matrix:
    """``ad_V = [[w^, v^], [0, w^]]``, so that ``ad_V X = [V, X]``."""
    v, w = hat(V[:3], xp), hat(V[3:], xp)
    return xp.block([[w, v], [0 * w, w]])


def ad_tilde(h: Matrix, xp: Any) -> Matrix:
    """``ad~_h = [[0, hv^], [hv^, hw^]]``, so that ``ad_V^T h = ad~_h V``."""
    f, t = hat(h[:3], xp), hat(h[3:], xp)
    return xp.block([[0 * f, f], [f, t]])


def adjoint(R: Matrix, p: Matrix, xp: Any) -> Matrix:
    """``Ad = [[R, p^ R], [0, R]]`` of a pose (R, p)."""
    return xp.block([[R, hat(p, xp) @ R], [0 * R, R]])


def group_ad(robot: RobotModel, V: Matrix, xp: Any) -> Matrix:
    """Bracket of the base group, ``iota^+ ad_{iota V} iota``, shape (b, b)."""
    group = robot.base_group
    iota = xp.array(group.iota)
    return xp.array(group.iota_pinv) @ ad(iota @ V, xp) @ iota


def group_ad_tilde(robot: RobotModel, h: Matrix, xp: Any) -> Matrix:
    """``ad~_h`` of the base group, with ``ad_V^T h = ad~_h V``, shape (b, b)."""
    group = robot.base_group
    iota = xp.array(group.iota)
    return iota.T @ ad_tilde(xp.array(group.iota_pinv.T) @ h, xp) @ iota


def total(terms: Iterable[Matrix]) -> Matrix:
    """Sum of matrices; Python's ``sum`` starts at 0, which not every array type adds to."""
    return reduce(add, terms)


class LinkTerms(NamedTuple):
    """One link in its own frame: ``V_k = X V + J qd``, the rates of X and J, the inertia M."""

    X: Matrix
    J: Matrix
    X_dot: Matrix
    J_dot: Matrix
    M: Matrix


def link_map(k: LinkTerms, xp: Any = NUMPY) -> tuple[Matrix, Matrix]:
    """T_k with ``V_k = T_k [V; qd]``, shape (6, b + n), and its rate."""
    return xp.block([[k.X, k.J]]), xp.block([[k.X_dot, k.J_dot]])


def spatial_inertia(inertia: Inertia) -> np.ndarray:
    """``M_k = [[m, -m c^], [m c^, I_c - m c^ c^]]`` at the link's origin."""
    m, c = inertia.mass, hat(np.array(inertia.com), NUMPY)
    return np.block([[m * np.eye(3), -m * c], [m * c, inertia.tensor - m * c @ c]])


def rotation(axis: np.ndarray, angle: Matrix, xp: Any) -> Matrix:
    """Rodrigues: ``1 + sin(t) a^ + (1 - cos(t)) a^ a^``, a a unit vector."""
    a = hat(axis, NUMPY)
    turn, square = xp.sin(angle) * xp.array(a), (1 - xp.cos(angle)) * xp.array(a @ a)
    return xp.array(np.eye(3)) + turn + square


def link_terms(robot: RobotModel, q: Matrix, qd: Matrix, xp: Any = NUMPY) -> list[LinkTerms]:
    """Terms of every link, with the screws S in {1}, ``dS_j/dt = [v_j, S_j]``, (6, n)."""
    index = {name: i for i, name in enumerate(robot.joint_names)}
    zero = xp.array(np.zeros((6, robot.n)))
    start = xp.array(np.eye(3)), xp.array(np.zeros((3, 1))), zero, zero
    state = {robot.description.root: start}
    for joint in robot.description.joints:
        R, p, S, S_dot = state[joint.parent]
        placed = joint.pose_matrix
        R, p = R @ xp.array(placed[:3, :3]), p + R @ xp.array(placed[:3, 3:])
        if joint.kind != "fixed":
            i, drive, axis = index[joint.drive.driver], joint.drive, np.array(joint.axis)
            slides = joint.kind == "prismatic"
            unit = np.concatenate((slides * axis, (not slides) * axis))[:, None]
            # a mimic joint adds to the column of the joint that drives it
            column = xp.array(drive.multiplier * np.eye(robot.n)[i : i + 1])
            screw = adjoint(R, p, xp) @ xp.array(unit) @ column
            S, S_dot = S + screw, S_dot + ad(S @ qd, xp) @ screw
            travel = drive.multiplier * q[i] + drive.offset
            if slides:
                p = p + R @ xp.array(axis[:, None]) * travel
            else:
                R = R @ rotation(axis, travel, xp)
        state[joint.child] = R, p, S, S_dot
    out = []
    for link in robot.description.links:
        R, p, S, S_dot = state[link.name]
        back = adjoint(R.T, -R.T @ p, xp)  # Ad_1k^-1
        X, J = back @ xp.array(robot.base_group.iota), back @ S
        turn = ad(J @ qd, xp)
        M = xp.array(spatial_inertia(link.inertia))
        out.append(LinkTerms(X, J, -turn @ X, back @ S_dot - turn @ J, M))
    return out


def at_rest(robot: RobotModel, q: Matrix, xp: Any) -> list[LinkTerms]:
    """Terms of every link where only the shape matters."""
    return link_terms(robot, q, xp.array(np.zeros((robot.n, 1))), xp)


def mass_matrix(robot: RobotModel, q: Matrix, xp: Any = NUMPY) -> Matrix:
    """``M = sum_k T_k^T M_k T_k``, base block first, (7); shape (b + n, b + n)."""
    maps = ((k.M, link_map(k, xp)[0]) for k in at_rest(robot, q, xp))
    return total(T.T @ M @ T for M, T in maps)


def mass_rate(robot: RobotModel, q: Matrix, qd: Matrix, xp: Any = NUMPY) -> Matrix:
    """``dM/dt`` along qd: the sum of ``dT_k/dt^T M_k T_k`` and its transpose."""
    maps = ((k.M, *link_map(k, xp)) for k in link_terms(robot, q, qd, xp))
    half = total(T_dot.T @ M @ T for M, T, T_dot in maps)
    return half + half.T


def connection(robot: RobotModel, q: Matrix, xp: Any = NUMPY) -> Matrix:
    """``A = M_b^-1 M_bq``, Def. 3; shape (b, n)."""
    M, b = mass_matrix(robot, q, xp), robot.b
    return xp.solve(M[:b, :b], M[:b, b:])


def coriolis(robot: RobotModel, q: Matrix, V: Matrix, qd: Matrix, xp: Any = NUMPY) -> Matrix:
    """``C = sum_k T_k^T (M_k dT_k/dt - ad~_{M_k V_k} T_k)``; ad~ in (6) makes dM/dt - 2C skew."""
    out = []
    for k in link_terms(robot, q, qd, xp):
        T, T_dot = link_map(k, xp)
        out.append(T.T @ (k.M @ T_dot - ad_tilde(k.M @ (k.X @ V + k.J @ qd), xp) @ T))
    return total(out)


def nabla(M: Matrix, V: Matrix, xp: Any) -> Matrix:
    """``M_k nabla_V = ad_V^T M_k + ad~_{M_k V} - M_k ad_V``, (20)."""
    return ad(V, xp).T @ M + ad_tilde(M @ V, xp) - M @ ad(V, xp)


def locked_rate(links: list[LinkTerms], x: Matrix, xp: Any) -> Matrix:
    """``P(x) = -sum_k X^T (ad_{J x}^T M_k + M_k ad_{J x}) X``, (19b): dM_b/dt for x = qd, (15)."""
    half = total(k.X.T @ k.M @ ad(k.J @ x, xp) @ k.X for k in links)
    return -half - half.T


def locked_derivative(links: list[LinkTerms], mu: Matrix, xp: Any) -> Matrix:
    """``S(mu)^T``, (19c), with ``S(mu)^T mu = d(mu . M_b mu)/dq``, (16); shape (n, b)."""
    moved = ((k, k.X @ mu) for k in links)
    return total(k.J.T @ (ad(V, xp).T @ k.M + ad_tilde(k.M @ V, xp)) @ k.X for k, V in moved)


def reduced(
    robot: RobotModel, q: Matrix, qd: Matrix, mu: Matrix, xp: Any = NUMPY
) -> dict[str, Matrix]:
    """All matrices of (18), by (19a)-(19e), and the rate of A.

    Args:
        robot: the robot.
        q: shape, n numbers [rad or m].
        qd: its velocity, n numbers.
        mu: locked velocity ``V + A qd``, (10), in {1}, b numbers.
        xp: backend.
    """
    links, b = link_terms(robot, q, qd, xp), robot.b
    M, M_dot = mass_matrix(robot, q, xp), mass_rate(robot, q, qd, xp)
    M_b = M[:b, :b]
    A = xp.solve(M_b, M[:b, b:])
    P, S_T = locked_rate(links, qd, xp), locked_derivative(links, mu, xp)
    A_dot = xp.solve(M_b, M_dot[:b, b:] - P @ A)
    gamma, cross = [], []
    for k in links:
        J, J_dot = k.J - k.X @ A, k.J_dot - k.X_dot @ A - k.X @ A_dot
        gamma.append(J.T @ (k.M @ J_dot - ad_tilde(k.M @ J @ qd, xp) @ J))
        cross.append(k.J.T @ nabla(k.M, k.X @ mu, xp) @ k.J)
    Lambda_q, Gamma_q = M[b:, b:] - A.T @ M_b @ A, total(gamma)
    ad_h = group_ad_tilde(robot, M_b @ mu, xp)
    B = S_T @ A - A.T @ S_T.T - A.T @ ad_h @ A - total(cross)
    D_qd = xp.block([[P / 2, 0 * A], [0 * A.T, Gamma_q]])
    D_mu = xp.block([[ad_h, -S_T.T / 2 - ad_h @ A], [S_T / 2 - A.T @ ad_h, -B]])
    return dict(
        M_b=M_b, Lambda_q=Lambda_q, A=A, A_dot=A_dot, P=P, S=S_T.T, Gamma_q=Gamma_q, B=B,
        D_qd=D_qd, D_mu=D_mu,
    )  # fmt: skip


def accelerations(
    r: dict[str, Matrix], mu: Matrix, qd: Matrix, F: Matrix, tau: Matrix, xp: Any = NUMPY
) -> tuple[Matrix, Matrix]:
    """``mu_dot`` and ``qdd`` by rows 1 and 2 of (18), of the matrices r of :func:`reduced`.

    F is the wrench on the base in {1} [N, N m], tau the efforts of the joints [N m or N].
    """
    D, b = r["D_mu"] - r["D_qd"], r["M_b"].shape[0]
    mu_dot = xp.solve(r["M_b"], D[:b, :b] @ mu + D[:b, b:] @ qd + F)
    qdd = xp.solve(r["Lambda_q"], D[b:, :b] @ mu + D[b:, b:] @ qd + tau - r["A"].T @ F)
    return mu_dot, qdd


def curvature(robot: RobotModel, q: Matrix, xp: Any = NUMPY) -> list[Matrix]:
    """``DA(e_i) = -M_b^-1 B(e_i)^T``, (35), one (b, n) matrix for each joint i, B of (36)."""
    links, A = at_rest(robot, q, xp), connection(robot, q, xp)
    M_b = mass_matrix(robot, q, xp)[: robot.b, : robot.b]
    out = []
    for i in range(robot.n):
        x = xp.array(np.eye(robot.n)[:, i : i + 1])
        moved = [(k, k.J @ x) for k in links]
        B = total(k.J.T @ (nabla(k.M, V, xp) + 2 * k.M @ ad(V, xp)) @ k.X for k, V in moved)
        B = B - locked_derivative(links, A @ x, xp) + A.T @ locked_rate(links, x, xp)
        B = B + A.T @ group_ad(robot, A @ x, xp).T @ M_b
        out.append(-xp.solve(M_b, B.T))
    return out
