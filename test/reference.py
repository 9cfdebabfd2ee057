# SPDX-License-Identifier: Apache-2.0
"""Readable NumPy forms of the kernels: the papers' sums over links, one formula at a time.

Nothing here uses merged bodies, packed models or composite inertias: every link of the
description counts by itself, in its own frame, as the papers write it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vm_dynamics.lie.se3 import ad, ad_tilde, adjoint, hat3, inverse


@dataclass
class LinkTerms:
    """One link: Ad_1k^-1, its Jacobian J_k (6, n), inertia M_k (6, 6) in its own frame."""

    Ad_inv: np.ndarray
    J: np.ndarray
    J_dot: np.ndarray
    M: np.ndarray


def spatial_inertia(inertia):
    """M_k = [[m, -m c^], [m c^, I_c - m c^ c^]] at the link's origin."""
    c = hat3(np.array(inertia.com))
    m = inertia.mass
    out = np.zeros((6, 6))
    out[:3, :3] = m * np.eye(3)
    out[:3, 3:] = -m * c
    out[3:, :3] = m * c
    out[3:, 3:] = inertia.tensor - m * c @ c
    return out


def link_terms(robot, q, qd):
    """Terms of every link, with screws S_j in {1} and dS_j/dt = [v_j, S_j]."""
    description, n = robot.description, robot.n
    index = {name: i for i, name in enumerate(robot.joint_names)}
    state = {description.root: (np.eye(4), np.zeros((6, n)), np.zeros((6, n)))}
    for joint in description.joints:
        g, S, S_dot = state[joint.parent]
        S, S_dot = S.copy(), S_dot.copy()
        if joint.kind == "fixed":
            state[joint.child] = g @ joint.pose_matrix, S, S_dot
            continue
        i, scale, offset = index[joint.drive.driver], joint.drive.multiplier, joint.drive.offset
        axis, zero = np.array(joint.axis), np.zeros(3)
        own = (axis, zero) if joint.kind == "prismatic" else (zero, axis)
        screw = scale * adjoint(g @ joint.pose_matrix) @ np.concatenate(own)
        S_dot[:, i] += ad(S @ qd) @ screw
        S[:, i] += screw
        state[joint.child] = g @ joint.pose_at(scale * q[i] + offset), S, S_dot
    out = []
    for link in description.links:
        g, S, S_dot = state[link.name]
        back = adjoint(inverse(g))
        J = back @ S
        out.append(
            LinkTerms(back, J, back @ S_dot - ad(J @ qd) @ J, spatial_inertia(link.inertia))
        )
    return out


def mass_matrix(robot, q):
    """[Mishra2022] (7)."""
    b = robot.b
    iota = robot.base_group.iota
    out = np.zeros((b + robot.n, b + robot.n))
    for k in link_terms(robot, q, np.zeros(robot.n)):
        T = np.hstack((k.Ad_inv @ iota, k.J))
        out += T.T @ k.M @ T
    return out


def mass_rate(robot, q, qd):
    """dM/dt along qd: sum of dT/dt^T M T and its transpose."""
    iota = robot.base_group.iota
    out = np.zeros((robot.b + robot.n, robot.b + robot.n))
    for k in link_terms(robot, q, qd):
        T, T_dot = link_map(k, iota, qd)
        out += T_dot.T @ k.M @ T + T.T @ k.M @ T_dot
    return out


def link_map(k, iota, qd):
    """T_k with V_k = T_k [V; qd], and its rate."""
    T = np.hstack((k.Ad_inv @ iota, k.J))
    T_dot = np.hstack((-ad(k.J @ qd) @ k.Ad_inv @ iota, k.J_dot))
    return T, T_dot


def connection(robot, q):
    """A = M_b^-1 M_bq."""
    M = mass_matrix(robot, q)
    return np.linalg.solve(M[: robot.b, : robot.b], M[: robot.b, robot.b :])


def coriolis(robot, q, V, qd):
    """C = sum T^T (M dT/dt - ad~_{M V_k} T), [Mishra2022] (6) with ad~ for the skew property."""
    iota = robot.base_group.iota
    out = np.zeros((robot.b + robot.n, robot.b + robot.n))
    for k in link_terms(robot, q, qd):
        T, T_dot = link_map(k, iota, qd)
        V_k = T @ np.concatenate((V, qd))
        out += T.T @ (k.M @ T_dot - ad_tilde(k.M @ V_k) @ T)
    return out


def nabla(M, X):
    """M_k nabla_X, [Mishra2022] (20)."""
    return ad(X).T @ M + ad_tilde(M @ X) - M @ ad(X)


def locked_rate(links, iota, x):
    """P(x), [Mishra2022] (19b)."""
    return -sum(
        iota.T @ k.Ad_inv.T @ (ad(k.J @ x).T @ k.M + k.M @ ad(k.J @ x)) @ k.Ad_inv @ iota
        for k in links
    )


def locked_derivative(links, iota, mu):
    """S(mu)^T, [Mishra2022] (19c)."""
    out = 0.0
    for k in links:
        x = k.Ad_inv @ iota @ mu
        out = out + k.J.T @ (ad(x).T @ k.M + ad_tilde(k.M @ x)) @ k.Ad_inv @ iota
    return out


def reduced(robot, q, qd, mu):
    """All of [Mishra2022] (19a)-(19e) as a dictionary, with the rate of A."""
    group, iota = robot.base_group, robot.base_group.iota
    links = link_terms(robot, q, qd)
    M = mass_matrix(robot, q)
    b = robot.b
    M_b, M_bq = M[:b, :b], M[:b, b:]
    A = np.linalg.solve(M_b, M_bq)
    P = locked_rate(links, iota, qd)
    S_T = locked_derivative(links, iota, mu)
    M_bq_dot = sum(
        iota.T @ k.Ad_inv.T @ (k.M @ k.J_dot - ad(k.J @ qd).T @ k.M @ k.J) for k in links
    )
    A_dot = np.linalg.solve(M_b, M_bq_dot - P @ A)
    Lambda_q = sum(k.J.T @ k.M @ k.J for k in links) - A.T @ M_b @ A
    Gamma_q, cross = 0.0, 0.0
    for k in links:
        J = k.J - k.Ad_inv @ iota @ A
        J_dot = k.J_dot + ad(k.J @ qd) @ k.Ad_inv @ iota @ A - k.Ad_inv @ iota @ A_dot
        Gamma_q = Gamma_q + J.T @ (-ad_tilde(k.M @ J @ qd) @ J + k.M @ J_dot)
        cross = cross + k.J.T @ nabla(k.M, k.Ad_inv @ iota @ mu) @ k.J
    ad_h = group.ad_tilde(M_b @ mu)
    B = -A.T @ ad_h @ A + S_T @ A - A.T @ S_T.T - cross
    D_qd = np.block([[P / 2, np.zeros_like(A)], [np.zeros_like(A.T), Gamma_q]])
    D_mu = np.block([[ad_h, -S_T.T / 2 - ad_h @ A], [S_T / 2 - A.T @ ad_h, -B]])
    return dict(
        M_b=M_b, Lambda_q=Lambda_q, A=A, A_dot=A_dot, P=P, S=S_T.T, Gamma_q=Gamma_q, B=B,
        D_qd=D_qd, D_mu=D_mu,
    )  # fmt: skip


def curvature(robot, q):
    """DA(e_i) = -M_b^-1 B(e_i)^T with B of [Mishra2022] (36); shape (b, n, n)."""
    group, iota, n = robot.base_group, robot.base_group.iota, robot.n
    links = link_terms(robot, q, np.zeros(n))
    M = mass_matrix(robot, q)
    M_b = M[: robot.b, : robot.b]
    A = np.linalg.solve(M_b, M[: robot.b, robot.b :])
    out = np.zeros((robot.b, n, n))
    for i in range(n):
        x = np.eye(n)[i]
        B = sum(
            k.J.T @ (nabla(k.M, k.J @ x) + 2.0 * k.M @ ad(k.J @ x)) @ k.Ad_inv @ iota
            for k in links
        )
        B = B - locked_derivative(links, iota, A @ x) + A.T @ locked_rate(links, iota, x)
        B = B + A.T @ group.ad(A @ x).T @ M_b
        out[:, i, :] = -np.linalg.solve(M_b, B.T)
    return out


def solve_dense(mass, bias, passive, acc, force):
    """All accelerations and forces, given those of the active and the forces of the passive."""
    p, a = passive != 0.0, passive == 0.0
    out = acc.copy()
    if p.any():
        right = force[p] - bias[p] - mass[np.ix_(p, a)] @ acc[a]
        out[p] = np.linalg.solve(mass[np.ix_(p, p)], right)
    return out, np.where(p, force, mass @ out + bias)
