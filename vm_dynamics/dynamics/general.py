# SPDX-License-Identifier: Apache-2.0
"""All matrices of the dynamics from the mass matrix and its derivatives by the joints.

Implements: [Mishra2022] Theorems 1 and 2 in terms of the derivatives of [Moghaddam]. What the
kernels of ``reduced_kernels`` do quicker for rigid bodies holds here for bodies of any inertia,
as those with added mass.
"""

from __future__ import annotations

import numpy as np

from vm_dynamics.dynamics.lagrange_poincare import Matrices, decouple
from vm_dynamics.dynamics.reduced import Reduced
from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.se3 import Array


def coriolis(M: Array, dM: Array, group: DisplacementGroup, velocity: Array) -> Array:
    """C of Hamel's equations with dM/dt - 2C skew, shape (b + n, b + n).

    The forces are ``dM/dt v - [ad_V^T p; grad_q v^T M v / 2]`` with p = M_b V + M_bq qd.

    Args:
        M: mass matrix, shape (b + n, b + n).
        dM: its derivatives, shape (n, b + n, b + n).
        group: the base group.
        velocity: v = [V; qd], shape (b + n,).
    """
    b = group.dimension
    out = symmetric_coriolis(M, dM, b, velocity)
    out[:b, :b] -= group.ad_tilde(M[:b] @ velocity)
    return out


def symmetric_coriolis(M: Array, dM: Array, b: int, velocity: Array) -> Array:
    """Christoffel symbols of a mass matrix that depends on the last n coordinates only."""
    gradient = np.zeros_like(M)
    gradient[b:] = dM @ velocity
    rate = np.tensordot(velocity[b:], dM, 1)
    return 0.5 * (rate + gradient.T - gradient)


def curvature(m: Matrices, group: DisplacementGroup) -> Array:
    """Curvature dA_j/dq_i - dA_i/dq_j - [A_i, A_j] of :func:`decouple`'s A, shape (b, n, n)."""
    turn = np.swapaxes(m.dA, 0, 1)  # [:, i, j] is the derivative of A_j by q_i
    lie = np.zeros_like(turn)
    for i in range(m.A.shape[1]):
        lie[:, i] = group.ad(m.A[:, i]) @ m.A
    return turn - np.swapaxes(turn, 1, 2) - lie


def reduced(M: Array, dM: Array, group: DisplacementGroup, qd: Array, mu: Array) -> Reduced:
    """Matrices of the reduced Euler-Lagrange equations, [Mishra2022] (18), (19).

    Args:
        M: mass matrix, shape (b + n, b + n).
        dM: its derivatives, shape (n, b + n, b + n).
        group: the base group.
        qd: joint velocities, shape (n,).
        mu: locked velocity, shape (b,).
    """
    b = group.dimension
    m = decouple(M, dM, b)
    ad_h = group.ad_tilde(m.M_0 @ mu)
    P = np.tensordot(qd, m.dM_0, 1)
    S = (m.dM_0 @ mu).T
    Gamma_q = symmetric_coriolis(m.M_hat, m.dM_hat, 0, qd)
    B = -np.tensordot(m.M_0 @ mu, curvature(m, group), 1)
    D_qd, D_mu = np.zeros_like(M), np.zeros_like(M)
    D_qd[:b, :b] = 0.5 * P
    D_qd[b:, b:] = Gamma_q
    D_mu[:b, :b] = ad_h
    D_mu[:b, b:] = -0.5 * S - ad_h @ m.A
    D_mu[b:, :b] = -D_mu[:b, b:].T
    D_mu[b:, b:] = -B
    A_dot = np.tensordot(qd, m.dA, 1)
    return Reduced(group, m.M_0, m.M_hat, m.A, A_dot, P, S, Gamma_q, B, D_qd, D_mu)
