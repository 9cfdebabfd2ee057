# SPDX-License-Identifier: Apache-2.0
"""Compiled mass matrix and bias forces of the Lagrangian model with a quaternion.

Implements: [Kremer2022] eqs. (47), (49)-(50), (52) in the notation of ``quaternion``: coordinates
x = [p; q; theta], xi = [V; qd] = T(q) xd with T = blkdiag(R^T, 2 G, 1), momentum pi = M xi.
"""

import math

import numpy as np

from vm_dynamics.compiled import entry, jit
from vm_dynamics.dynamics.hybrid_kernels import solve_positive


@jit
def write_map(q, sign, out):
    """[-q_v, q_w 1 + sign q_v^], shape (3, 4): E of (6) for sign = 1, G of (7) for sign = -1."""
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[i, 0] = -q[1 + i]
        out[i, 1 + i] = q[0]
        out[i, 1 + j] = -sign * q[1 + k]
        out[i, 1 + k] = sign * q[1 + j]


@jit
def write_product(scale, E, G, out):
    """Scale E G^T, shape (3, 3)."""
    for i in range(3):
        for j in range(3):
            total = 0.0
            for c in range(4):
                total += E[i, c] * G[j, c]
            out[i, j] = scale * total


@jit
def to_body(R, G, xd, out):
    """Out = T xd, shape (6 + n,)."""
    for i in range(3):
        out[i] = R[0, i] * xd[0] + R[1, i] * xd[1] + R[2, i] * xd[2]
        total = 0.0
        for c in range(4):
            total += G[i, c] * xd[3 + c]
        out[3 + i] = 2.0 * total
    for i in range(6, out.size):
        out[i] = xd[1 + i]


@jit
def to_generalized(R, G, force, out):
    """Out = T^T force, shape (7 + n,): (66) with M_F = T^T of (65)."""
    for i in range(3):
        out[i] = R[i, 0] * force[0] + R[i, 1] * force[1] + R[i, 2] * force[2]
    for c in range(4):
        total = 0.0
        for i in range(3):
            total += G[i, c] * force[3 + i]
        out[3 + c] = 2.0 * total
    for i in range(6, force.size):
        out[1 + i] = force[i]


@jit
def subtract_gradient(u0, u1, u2, p, q, out):
    """Subtract the gradient by q of ``p . R(q) u`` from the places of q: 2 p q u^* by (A.10)."""
    w = -(p[0] * q[1] + p[1] * q[2] + p[2] * q[3])
    x = q[0] * p[0] + p[1] * q[3] - p[2] * q[2]
    y = q[0] * p[1] + p[2] * q[1] - p[0] * q[3]
    z = q[0] * p[2] + p[0] * q[2] - p[1] * q[1]
    out[3] -= 2.0 * (x * u0 + y * u1 + z * u2)
    out[4] += 2.0 * (w * u0 + y * u2 - z * u1)
    out[5] += 2.0 * (w * u1 + z * u0 - x * u2)
    out[6] += 2.0 * (w * u2 + x * u1 - y * u0)


@jit
def write_mass(R, G, q, inertia, nu, mass):
    """T^T M T + 4 nu q q^T: T^T applied to the rows of M, then to the columns."""
    m = inertia.shape[0]
    rows = np.empty((m, m + 1))
    column = np.empty(m)
    for i in range(m):
        to_generalized(R, G, inertia[i], rows[i])
    for j in range(m + 1):
        for i in range(m):
            column[i] = rows[i, j]
        to_generalized(R, G, column, mass[j])
    for i in range(4):
        for j in range(4):
            mass[3 + i, 3 + j] += 4.0 * nu * q[i] * q[j]


@jit
def momentum_rates(inertia, derivatives, xi, carried, pi, pi_rate):
    """Momentum pi and its rate at constant xd, for T^ xd = [carried; 0; 0], T^ the rate of T."""
    m = xi.size
    for i in range(m):
        total = 0.0
        for j in range(m):
            total += inertia[i, j] * xi[j]
        pi[i] = total
        rate = 0.0
        for j in range(3):
            rate += inertia[i, j] * carried[j]
        for k in range(m - 6):
            total = 0.0
            for j in range(m):
                total += derivatives[k, i, j] * xi[j]
            rate += total * xi[6 + k]
        pi_rate[i] = rate


@jit
def subtract_joint_gradients(derivatives, xi, rigid, fall, bias):
    """Gradients by theta of kinetic energy and weight; rigid[:3, 6 + k] is m dc/dtheta_k."""
    m = xi.size
    for k in range(m - 6):
        total = 0.0
        for i in range(m):
            for j in range(m):
                total += xi[i] * derivatives[k, i, j] * xi[j]
        weight = 0.0
        for i in range(3):
            weight += fall[i] * rigid[i, 6 + k]
        bias[7 + k] -= 0.5 * total + weight


@jit
def write_equations(x, xd, inertia, derivatives, rigid, gravity, nu, mass, bias):
    """Mass matrix (47) and C xd + g, the latter lumped as in (52).

    The bias is the rate of the momentum T^T pi at constant xd less the gradient of the kinetic
    energy, which is that of ``pi . T(q) xd`` by q. As G(a) b = -G(b) a, G(qd) qd vanishes and the
    gradient of ``pi_w . 2 G(q) qd`` is -2 G(qd)^T pi_w.

    Args:
        x: shape (7 + n,).
        xd: shape (7 + n,).
        inertia: M(theta), shape (6 + n, 6 + n).
        derivatives: of M by theta, shape (n, 6 + n, 6 + n).
        rigid: M without the added mass of a fluid, whose first rows are the linear momentum and
            tell what gravity pulls at.
        gravity: acceleration of free fall in the world, shape (3,).
        nu: sum of (46) over the bodies.
        mass: receives (47), shape (7 + n, 7 + n).
        bias: receives C xd + g, shape (7 + n,).
    """
    m = x.size - 1
    q, qd = x[3:7], xd[3:7]
    E, G, G_rate = np.empty((3, 4)), np.empty((3, 4)), np.empty((3, 4))
    R, R_rate = np.empty((3, 3)), np.empty((3, 3))
    write_map(q, 1.0, E)
    write_map(q, -1.0, G)
    write_map(qd, -1.0, G_rate)
    write_product(1.0, E, G, R)
    write_product(2.0, E, G_rate, R_rate)  # E(a) G(b)^T is symmetric in a and b
    write_mass(R, G, q, inertia, nu, mass)

    xi, pi, pi_rate, carried = np.empty(m), np.empty(m), np.empty(m), np.empty(3)
    to_body(R, G, xd, xi)
    for i in range(3):
        carried[i] = R_rate[0, i] * xd[0] + R_rate[1, i] * xd[1] + R_rate[2, i] * xd[2]
    momentum_rates(inertia, derivatives, xi, carried, pi, pi_rate)
    to_generalized(R, G, pi_rate, bias)
    squared = qd[0] * qd[0] + qd[1] * qd[1] + qd[2] * qd[2] + qd[3] * qd[3]
    for i in range(3):
        bias[i] += R_rate[i, 0] * pi[0] + R_rate[i, 1] * pi[1] + R_rate[i, 2] * pi[2]
        bias[i] -= rigid[0, 0] * gravity[i]
    for c in range(4):
        for i in range(3):
            bias[3 + c] += 4.0 * G_rate[i, c] * pi[3 + i]
        bias[3 + c] += 4.0 * nu * squared * q[c]
    subtract_gradient(pi[0], pi[1], pi[2], xd, q, bias)
    # the first moment m c from the block -m c^ of the mass matrix
    subtract_gradient(rigid[1, 5], rigid[2, 3], rigid[0, 4], gravity, q, bias)
    fall = np.empty(3)
    for i in range(3):
        fall[i] = R[0, i] * gravity[0] + R[1, i] * gravity[1] + R[2, i] * gravity[2]
    subtract_joint_gradients(derivatives, xi, rigid, fall, bias)


@entry(
    "void(f8[::1], f8[::1], f8[:,::1], f8[:,:,::1], f8[:,::1], f8[::1], f8, f8[:,::1], f8[::1])"
)
def equations(x, xd, inertia, derivatives, rigid, gravity, nu, mass, bias):
    """See :func:`write_equations`."""
    write_equations(x, xd, inertia, derivatives, rigid, gravity, nu, mass, bias)


@entry("void(f8[::1], f8[::1], f8[:,::1], f8[:,:,::1], f8[:,::1], f8[::1], f8, f8, f8[::1])")
def accelerations(x, xd, inertia, derivatives, rigid, gravity, nu, rate, out):
    """Accelerations (78), then (79b) with M^-1 A^T (A M^-1 A^T)^-1 = A^T.

    A^T = [0; q; 0] / |q| is an eigenvector of the mass matrix, so its inverse cancels.

    Args:
        x: shape (7 + n,).
        xd: shape (7 + n,).
        inertia: M(theta), shape (6 + n, 6 + n).
        derivatives: of M by theta, shape (n, 6 + n, 6 + n).
        rigid: M without the added mass of a fluid.
        gravity: acceleration of free fall in the world, shape (3,).
        nu: sum of (46) over the bodies.
        rate: 1 / dt of (79b), or 0.
        out: generalized forces, shape (7 + n,), which the accelerations replace.
    """
    size = x.size
    mass, bias = np.empty((size, size)), np.empty(size)
    write_equations(x, xd, inertia, derivatives, rigid, gravity, nu, mass, bias)
    for i in range(size):
        out[i] -= bias[i]
    solve_positive(mass, out, size)
    norm = math.sqrt(x[3] * x[3] + x[4] * x[4] + x[5] * x[5] + x[6] * x[6])
    phi_rate = squared = along = 0.0
    for c in range(3, 7):
        phi_rate += x[c] * xd[c] / norm
        squared += xd[c] * xd[c]
        along += x[c] * out[c] / norm
    b_v = (phi_rate * phi_rate - squared) / norm
    for c in range(3, 7):
        out[c] += x[c] / norm * (b_v - along - rate * phi_rate)
