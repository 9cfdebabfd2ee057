# SPDX-License-Identifier: Apache-2.0
"""Compiled reduced Euler-Lagrange matrices and curvature of the connection.

Frame {1}, twists [v; w], see ``mass_kernels`` and ``coriolis_kernels``. With the derivative of the
locked inertia ``D_k = dM_b/dq_k = -(ad_{S_k}^T N^c_k + N^c_k ad_{S_k})``, nine numbers, and the
columns m_k = N^c_k S_k of M_bq, everything is a sum over joints or pairs of joints: O(n^2).
Inside, base quantities have six components; ``iota`` projects them at the end.
"""

import numpy as np

from vm_dynamics.compiled import all_finite, entry, jit
from vm_dynamics.dynamics.coriolis_kernels import (
    bracket,
    composite_coriolis,
    coriolis_columns,
    inertia_rate,
    joint_coriolis,
    related_sums,
    relative_twists,
    times_rate,
)
from vm_dynamics.dynamics.mass_kernels import (
    BAD_INPUT,
    PLACED,
    column,
    composite,
    fold_columns,
    inclusion,
    invert_symmetric,
    joint_momenta,
    locked_projection,
    locked_solve,
    locked_solver,
    mirror_lower,
    place_bodies,
    place_inertias,
    project_columns,
    project_square,
    related_products,
    times_inertia,
    write_inertia,
)
from vm_dynamics.model.table import DOF, N_BASE, N_BODIES, N_DOF, PARENT, RUN_START


@jit
def write_rate(d, out):
    """D of an inertia rate as a matrix, into ``out``, shape (6, 6)."""
    out[:, :] = 0.0
    out[0, 4] = out[4, 0] = d[2]
    out[0, 5] = out[5, 0] = -d[1]
    out[1, 3] = out[3, 1] = -d[2]
    out[1, 5] = out[5, 1] = d[0]
    out[2, 3] = out[3, 2] = d[1]
    out[2, 4] = out[4, 2] = -d[0]
    out[3, 3] = d[3]
    out[3, 4] = out[4, 3] = d[4]
    out[3, 5] = out[5, 3] = d[5]
    out[4, 4] = d[6]
    out[4, 5] = out[5, 4] = d[7]
    out[5, 5] = d[8]


@jit
def write_ad_tilde(h, out):
    """ad~ of a momentum, six scalars, into ``out``, shape (6, 6)."""
    out[:, :] = 0.0
    for r, c in ((0, 3), (3, 0)):
        out[r, c + 1] = -h[2]
        out[r, c + 2] = h[1]
        out[r + 1, c] = h[2]
        out[r + 1, c + 2] = -h[0]
        out[r + 2, c] = -h[1]
        out[r + 2, c + 1] = h[0]
    out[3, 4] = -h[5]
    out[3, 5] = h[4]
    out[4, 3] = h[5]
    out[4, 5] = -h[3]
    out[5, 3] = -h[4]
    out[5, 4] = h[3]


@jit
def include_columns(iota, x, out):
    """Include: out = iota x, shapes (b, n) to (6, n); iota of SE(3) is 1."""
    if iota.shape[1] == 6:
        for c in range(6):
            for j in range(x.shape[1]):
                out[c, j] = x[c, j]
        return
    for c in range(6):
        for j in range(x.shape[1]):
            total = 0.0
            for i in range(iota.shape[1]):
                total += iota[c, i] * x[i, j]
            out[c, j] = total


@jit
def solve_columns(inverse, x, out):
    """Out = inverse x, shapes (b, b), (b, n)."""
    out[:, :] = 0.0
    for i in range(x.shape[0]):
        for k in range(x.shape[0]):
            a = inverse[i, k]
            for j in range(x.shape[1]):
                out[i, j] += a * x[k, j]


@jit
def locked_columns(model, comp, mb_inverse, columns, out):
    """M_b^-1 iota^T columns, shapes (6, n) to (b, n), from composite inertias."""
    if out.shape[0] == 6:
        solver = locked_solver(comp)
        for j in range(columns.shape[1]):
            f0, f1, f2, f3, f4, f5 = column(columns, j)
            x = locked_solve(solver, f0, f1, f2, f3, f4, f5)
            for c in range(6):
                out[c, j] = x[c]
        return
    projected = np.empty(out.shape)
    project_columns(inclusion(model), columns, projected)
    solve_columns(mb_inverse, projected, out)


@jit
def subtract_products(left, right, out):
    """out[i, j] -= sum_c left[c, i] right[c, j] for j <= i."""
    for i in range(out.shape[0]):
        l0, l1, l2, l3, l4, l5 = column(left, i)
        row = out[i]
        for j in range(i + 1):
            row[j] -= (
                l0 * right[0, j]
                + l1 * right[1, j]
                + l2 * right[2, j]
                + l3 * right[3, j]
                + l4 * right[4, j]
                + l5 * right[5, j]
            )


@jit
def assemble(iota, p, ad_tilde, s, minus_ad_a, d_qd, d_mu):
    """The base rows and columns of D_qd = diag(P/2, Gamma_q) and of D_mu, (18)."""
    b, n = s.shape
    project_square(iota, ad_tilde, d_mu)
    projected = np.empty((b, n))
    project_columns(iota, minus_ad_a, projected)
    for i in range(b):
        for j in range(b):
            d_qd[i, j] = 0.5 * p[i, j]
        for j in range(n):
            value = projected[i, j] - 0.5 * s[i, j]
            d_mu[i, b + j] = value
            d_mu[b + j, i] = -value
            d_qd[i, b + j] = 0.0
            d_qd[b + j, i] = 0.0


@jit
def locked_connection(model, comp, momenta, mb, mb_inverse, mbq, conn, a6):
    """M_b, its inverse unless b is 6, M_bq (6, n), A (b, n) and iota A (6, n)."""
    iota = inclusion(model)
    full = np.empty((6, 6))
    write_inertia(comp, 0, full)
    project_square(iota, full, mb)
    if mb.shape[0] != 6:
        invert_symmetric(mb, mb_inverse)
    fold_columns(model, momenta, mbq)
    locked_columns(model, comp, mb_inverse, mbq, conn)
    include_columns(iota, conn, a6)


@jit
def subtract_matrix_times(matrix, x, out):
    """Out -= matrix x, shapes (6, 6), (6, n)."""
    for c in range(6):
        for d in range(6):
            e = matrix[c, d]
            if e != 0.0:
                for j in range(x.shape[1]):
                    out[c, j] -= e * x[d, j]


@jit
def composite_rates(model, single, twists, rate):
    """Rates along qd of the inertias of each body with all outboard of it, shape (nj + 1, 9)."""
    nj = int(model[0, N_BODIES])
    for k in range(nj + 1):
        v = twists[k]
        r = inertia_rate(single, k, v[0], v[1], v[2], v[3], v[4], v[5])
        for c in range(9):
            rate[k, c] = r[c]
    for k in range(nj, 0, -1):
        up = rate[int(model[k, PARENT])]
        for c in range(9):
            up[c] += rate[k, c]


@jit
def joint_derivatives(model, comp, screws, rates, rate, mu6, s_mu, moved, mbq_dot):
    """Columns D_k mu of S(mu), [S_k, mu], and dm_k/dt = N^c_k dS_k/dt + dN^c_k/dt S_k."""
    for k in range(1, int(model[0, N_BODIES]) + 1):
        s0, s1, s2, s3, s4, s5 = column(screws, k)
        derivative = inertia_rate(comp, k, s0, s1, s2, s3, s4, s5)
        x = times_rate(derivative, mu6[0], mu6[1], mu6[2], mu6[3], mu6[4], mu6[5])
        y = bracket(s0, s1, s2, s3, s4, s5, mu6[0], mu6[1], mu6[2], mu6[3], mu6[4], mu6[5])
        d0, d1, d2, d3, d4, d5 = column(rates, k)
        f = times_inertia(comp, k, d0, d1, d2, d3, d4, d5)
        z = times_rate(rate[k], s0, s1, s2, s3, s4, s5)
        for c in range(6):
            s_mu[c, k] = x[c]
            moved[c, k] = y[c]
            mbq_dot[c, k] = f[c] + z[c]


@jit
def shape_inertia(model, momenta, screws, a6, mbq, out):
    """Lambda_q = M_q - A^T M_bq, (19a)."""
    if int(model[0, N_BODIES]) == out.shape[0]:
        related_products(model, momenta, screws, out, 0)
    else:
        folded_shape_mass(model, momenta, screws, out)
    subtract_products(a6, mbq, out)
    mirror_lower(out, 0, 1.0)


@jit
def folded_shape_mass(model, momenta, screws, out):
    """M_q with mimic joints summed into their drivers."""
    nj = int(model[0, N_BODIES])
    tree = np.empty((nj, nj))
    related_products(model, momenta, screws, tree, 0)
    mirror_lower(tree, 0, 1.0)
    fold_block(model, tree, out, 0)


@jit
def shape_coriolis(
    model, momenta, screws, rates, columns, rows, base_block, a6, out, offset, gamma
):
    """Gamma_q = C_qq - A^T (C_bq - C_bb A) - C_qb A with C at zero momentum, (19d).

    Into the block of ``out`` behind ``offset``, and into ``gamma``.
    """
    n = a6.shape[1]
    if int(model[0, N_BODIES]) == n:
        joint_coriolis(model, momenta, screws, rates, columns, rows, out, offset)
    else:
        folded_coriolis(model, momenta, screws, rates, columns, rows, out, offset)
    right = np.empty((6, n))
    below = np.empty((6, n))
    fold_columns(model, columns, right)
    fold_columns(model, rows, below)
    subtract_matrix_times(base_block, a6, right)
    for i in range(n):
        x0, x1, x2, x3, x4, x5 = column(a6, i)
        y0, y1, y2, y3, y4, y5 = column(below, i)
        row = out[offset + i, offset:]
        same = gamma[i]
        for j in range(n):
            row[j] -= (
                x0 * right[0, j] + y0 * a6[0, j]
                + x1 * right[1, j] + y1 * a6[1, j]
                + x2 * right[2, j] + y2 * a6[2, j]
                + x3 * right[3, j] + y3 * a6[3, j]
                + x4 * right[4, j] + y4 * a6[4, j]
                + x5 * right[5, j] + y5 * a6[5, j]
            )  # fmt: skip
        for j in range(n):
            same[j] = row[j]


@jit
def folded_coriolis(model, momenta, screws, rates, columns, rows, out, offset):
    """C_qq with mimic joints summed into their drivers, in the block behind ``offset``."""
    nj = int(model[0, N_BODIES])
    tree = np.empty((nj, nj))
    joint_coriolis(model, momenta, screws, rates, columns, rows, tree, 0)
    fold_block(model, tree, out, offset)


@jit
def minus_gyroscopic(model, momenta, screws, s_mu, moved, s6, a6, minus_ad_a, out, offset):
    """-B = mu^T (d_i m_j - d_j m_i) - S^T A + A^T (S + ad~ A), all skew, (19e).

    For i an ancestor of j, mu . (d_i m_j - d_j m_i) = -[S_i, mu] . m_j - (D_j mu) . S_i. Fills
    the lower triangle of the block behind ``offset`` and mirrors it.
    """
    n = a6.shape[1]
    if int(model[0, N_BODIES]) == n:
        related_sums(model, momenta, moved, s_mu, screws, out, offset)
    else:
        folded_gyroscopic(model, momenta, screws, s_mu, moved, out, offset)
    right = np.empty((6, n))
    for c in range(6):
        for j in range(n):
            right[c, j] = s6[c, j] - minus_ad_a[c, j]
    for i in range(n):
        x0, x1, x2, x3, x4, x5 = column(a6, i)
        y0, y1, y2, y3, y4, y5 = column(s6, i)
        row = out[offset + i, offset:]
        for j in range(i):
            row[j] += (
                x0 * right[0, j] - y0 * a6[0, j]
                + x1 * right[1, j] - y1 * a6[1, j]
                + x2 * right[2, j] - y2 * a6[2, j]
                + x3 * right[3, j] - y3 * a6[3, j]
                + x4 * right[4, j] - y4 * a6[4, j]
                + x5 * right[5, j] - y5 * a6[5, j]
            )  # fmt: skip
    complete_skew(out, offset)


@jit
def folded_gyroscopic(model, momenta, screws, s_mu, moved, out, offset):
    """The related pairs of -B with mimic joints summed into their drivers."""
    nj = int(model[0, N_BODIES])
    tree = np.empty((nj, nj))
    related_sums(model, momenta, moved, s_mu, screws, tree, 0)
    complete_skew(tree, 0)
    fold_block(model, tree, out, offset)


@jit
def fold_block(model, tree, out, offset):
    """Sum a matrix of bodies, (nj, nj), into the block of joints behind ``offset``."""
    for i in range(offset, out.shape[0]):
        for j in range(offset, out.shape[1]):
            out[i, j] = 0.0
    for i in range(tree.shape[0]):
        for j in range(tree.shape[1]):
            a = offset + int(model[i + 1, DOF])
            c = offset + int(model[j + 1, DOF])
            out[a, c] += tree[i, j]


@jit
def complete_skew(out, offset):
    """Make the block behind ``offset`` skew from its lower triangle."""
    for i in range(offset, out.shape[0]):
        out[i, i] = 0.0
    mirror_lower(out, offset, -1.0)


@entry("void(f8[:,::1], f8[::1], f8[::1], f8[::1]" + 10 * ", f8[:,::1]" + ")")
def reduced(model, q, qd, mu, mb, lam, conn, conn_dot, p, s, gamma, btilde, d_qd, d_mu):
    """The whole set of [Mishra2022] Theorem 1, eqs. (18)-(20), and the rate of A.

    Gamma_q is the joint block of ``L^T (M dL/dt + C L)`` at mu = 0, which needs no rate of A
    because M_bq^T - A^T M_b = 0.
    """
    n = int(model[0, N_DOF])
    b = int(model[0, N_BASE])
    nj = int(model[0, N_BODIES])
    if q.size != n or qd.size != n or mu.size != b:
        raise ValueError(BAD_INPUT)
    if not (all_finite(q) and all_finite(qd) and all_finite(mu)):
        raise ValueError(BAD_INPUT)
    iota = inclusion(model)
    single = np.empty((nj + 1, PLACED))
    six = np.empty((8, 6, nj + 1))
    screws, momenta, rates, columns, rows = six[0], six[1], six[2], six[3], six[4]
    s_mu, moved, mbq_dot = six[5], six[6], six[7]
    place_bodies(model, q, single, screws)
    place_inertias(model, single)
    comp = single.copy()
    composite(model, comp)
    joint_momenta(model, comp, screws, momenta)

    mb_inverse = np.empty((b, b))
    of_joints = np.empty((4, 6, n))
    mbq, a6, s6, work = of_joints[0], of_joints[1], of_joints[2], of_joints[3]
    locked_connection(model, comp, momenta, mb, mb_inverse, mbq, conn, a6)
    mu6 = np.zeros(6)
    base = np.zeros(6)  # twist of the base at zero momentum
    for c in range(6):
        for i in range(b):
            mu6[c] += iota[c, i] * mu[i]
        for j in range(n):
            base[c] -= a6[c, j] * qd[j]
    twists = np.empty((nj + 1, 6))
    relative_twists(model, screws, qd, twists, rates)
    shape_inertia(model, momenta, screws, a6, mbq, lam)

    per_body = np.empty((nj + 1, 36))
    composite_coriolis(model, single, twists, base, per_body)
    coriolis_columns(model, comp, screws, rates, per_body, columns, rows)
    base_block = per_body[0].reshape((6, 6))
    shape_coriolis(model, momenta, screws, rates, columns, rows, base_block, a6, d_qd, b, gamma)

    rate = np.empty((nj + 1, 9))
    composite_rates(model, single, twists, rate)
    matrix = np.empty((6, 6))
    write_rate(rate[0], matrix)
    project_square(iota, matrix, p)
    joint_derivatives(model, comp, screws, rates, rate, mu6, s_mu, moved, mbq_dot)
    fold_columns(model, s_mu, s6)
    project_columns(iota, s6, s)

    # dA/dt = M_b^-1 (dM_bq/dt - P A)
    fold_columns(model, mbq_dot, work)
    subtract_matrix_times(matrix, a6, work)
    locked_columns(model, comp, mb_inverse, work, conn_dot)

    h = times_inertia(comp, 0, mu6[0], mu6[1], mu6[2], mu6[3], mu6[4], mu6[5])
    write_ad_tilde(h, matrix)
    work[:, :] = 0.0
    subtract_matrix_times(matrix, a6, work)
    minus_gyroscopic(model, momenta, screws, s_mu, moved, s6, a6, work, d_mu, b)
    assemble(iota, p, matrix, s, work, d_qd, d_mu)
    for i in range(n):
        for j in range(n):
            btilde[i, j] = -d_mu[b + i, b + j]
        btilde[i, i] = 0.0


@jit
def add_rate_columns(d, x, out, end):
    """Add D x_j of one inertia rate and columns x, (6, m), to ``out`` for 0 < j < end."""
    d0, d1, d2 = d[0], d[1], d[2]
    d3, d4, d5, d6, d7, d8 = d[3], d[4], d[5], d[6], d[7], d[8]
    for j in range(1, end):
        out[0, j] += x[4, j] * d2 - x[5, j] * d1
    for j in range(1, end):
        out[1, j] += x[5, j] * d0 - x[3, j] * d2
    for j in range(1, end):
        out[2, j] += x[3, j] * d1 - x[4, j] * d0
    for j in range(1, end):
        out[3, j] += d3 * x[3, j] + d4 * x[4, j] + d5 * x[5, j] + d1 * x[2, j] - d2 * x[1, j]
    for j in range(1, end):
        out[4, j] += d4 * x[3, j] + d6 * x[4, j] + d7 * x[5, j] + d2 * x[0, j] - d0 * x[2, j]
    for j in range(1, end):
        out[5, j] += d5 * x[3, j] + d7 * x[4, j] + d8 * x[5, j] + d0 * x[1, j] - d1 * x[0, j]


@jit
def add_rates_times(d, a, out, end):
    """Add D_j a of many inertia rates, (9, m), and one twist to ``out`` for 0 < j < end."""
    vx, vy, vz, wx, wy, wz = a
    for j in range(1, end):
        out[0, j] += wy * d[2, j] - wz * d[1, j]
    for j in range(1, end):
        out[1, j] += wz * d[0, j] - wx * d[2, j]
    for j in range(1, end):
        out[2, j] += wx * d[1, j] - wy * d[0, j]
    for j in range(1, end):
        out[3, j] += d[3, j] * wx + d[4, j] * wy + d[5, j] * wz + d[1, j] * vz - d[2, j] * vy
    for j in range(1, end):
        out[4, j] += d[4, j] * wx + d[6, j] * wy + d[7, j] * wz + d[2, j] * vx - d[0, j] * vz
    for j in range(1, end):
        out[5, j] += d[5, j] * wx + d[7, j] * wy + d[8, j] * wz + d[0, j] * vy - d[1, j] * vx


@jit
def add_coadjoint_columns(x, h, out, start, end):
    """Add ad_{x_j}^T h of columns x, (6, m), and one momentum to ``out`` for start <= j < end."""
    f0, f1, f2, t0, t1, t2 = h
    for j in range(start, end):
        out[0, j] += f1 * x[5, j] - f2 * x[4, j]
    for j in range(start, end):
        out[1, j] += f2 * x[3, j] - f0 * x[5, j]
    for j in range(start, end):
        out[2, j] += f0 * x[4, j] - f1 * x[3, j]
    for j in range(start, end):
        out[3, j] += t1 * x[5, j] - t2 * x[4, j] + f1 * x[2, j] - f2 * x[1, j]
    for j in range(start, end):
        out[4, j] += t2 * x[3, j] - t0 * x[5, j] + f2 * x[0, j] - f0 * x[2, j]
    for j in range(start, end):
        out[5, j] += t0 * x[4, j] - t1 * x[3, j] + f0 * x[1, j] - f1 * x[0, j]


@jit
def bracket_columns(a, x, out, end):
    """Write [a, x_j] of one twist and columns x, (6, m), into ``out`` for 0 < j < end."""
    vx, vy, vz, wx, wy, wz = a
    for j in range(1, end):
        out[0, j] = wy * x[2, j] - wz * x[1, j] + vy * x[5, j] - vz * x[4, j]
    for j in range(1, end):
        out[1, j] = wz * x[0, j] - wx * x[2, j] + vz * x[3, j] - vx * x[5, j]
    for j in range(1, end):
        out[2, j] = wx * x[1, j] - wy * x[0, j] + vx * x[4, j] - vy * x[3, j]
    for j in range(1, end):
        out[3, j] = wy * x[5, j] - wz * x[4, j]
    for j in range(1, end):
        out[4, j] = wz * x[3, j] - wx * x[5, j]
    for j in range(1, end):
        out[5, j] = wx * x[4, j] - wy * x[3, j]


@jit
def curvature_row(model, k, screws, momenta, a6, rates, numerator, lie):
    """Row k of the curvature of the tree, columns 0 < j < k, before it is projected.

    Into ``numerator`` goes ``M_b (d_k A_j - d_j A_k)``, which is ``D_j A_k - D_k A_j`` and, where
    j is an ancestor of k, also ``ad_{S_j}^T m_k + D_k S_j``; into ``lie`` the bracket [A_k, A_j].
    The loops are one for each component, so that the compiler sees few arrays in each.
    """
    one = np.uint64(1)
    for c in range(6):
        for j in range(1, k):
            numerator[c, j] = 0.0
            lie[c, j] = -a6[c, j]
    end = np.uint64(model[k, PARENT])
    h = column(momenta, k)
    while end > 0:
        start = np.uint64(model[end, RUN_START])
        for c in range(6):
            for j in range(start, end + one):
                lie[c, j] += screws[c, j]
        add_coadjoint_columns(screws, h, numerator, start, end + one)
        end = np.uint64(model[start, PARENT])
    add_rate_columns(rates[:, k], lie, numerator, k)  # S_j - A_j, or -A_j
    a_k = column(a6, k)
    add_rates_times(rates, a_k, numerator, k)
    bracket_columns(a_k, a6, lie, k)


@entry("void(f8[:,::1], f8[::1], f8[:,:,::1])")
def curvature(model, q, out):
    """Curvature DA(e_i) e_j of the connection, [Mishra2022] Theorem 2, shape (b, n, n).

    ``M_b (d_i A_j - d_j A_i) = d_i m_j - d_j m_i - D_i A_j + D_j A_i``, less the bracket. It is
    bilinear in the joints, so that of mimic joints adds to that of their drivers.
    """
    n = int(model[0, N_DOF])
    b = int(model[0, N_BASE])
    nj = int(model[0, N_BODIES])
    if q.size != n or not all_finite(q):
        raise ValueError(BAD_INPUT)
    iota = inclusion(model)
    comp = np.empty((nj + 1, PLACED))
    six = np.empty((3, 6, nj + 1))
    screws, momenta, a6 = six[0], six[1], six[2]
    place_bodies(model, q, comp, screws)
    place_inertias(model, comp)
    composite(model, comp)
    joint_momenta(model, comp, screws, momenta)
    projection = np.empty((b, 6))
    locked_projection(model, comp, projection)
    rates = np.empty((9, nj + 1))
    for k in range(1, nj + 1):
        s0, s1, s2, s3, s4, s5 = column(screws, k)
        rate = inertia_rate(comp, k, s0, s1, s2, s3, s4, s5)
        for c in range(9):
            rates[c, k] = rate[c]
        for c in range(6):
            total = 0.0
            for r in range(b):
                for d in range(6):
                    total += iota[c, r] * projection[r, d] * momenta[d, k]
            a6[c, k] = total

    out[:, :, :] = 0.0
    rows = np.empty((2, 6, nj + 1))
    numerator, lie = rows[0], rows[1]
    line = np.empty(nj + 1)
    for k in range(2, nj + 1):
        curvature_row(model, k, screws, momenta, a6, rates, numerator, lie)
        i = int(model[k, DOF])
        for r in range(b):
            p0, p1, p2 = projection[r, 0], projection[r, 1], projection[r, 2]
            p3, p4, p5 = projection[r, 3], projection[r, 4], projection[r, 5]
            # iota^T is iota^+ but for the helical group, where the bracket is zero
            t0, t1, t2, t3, t4, t5 = column(iota, r)
            for j in range(1, k):
                line[j] = (
                    p0 * numerator[0, j] + p1 * numerator[1, j] + p2 * numerator[2, j]
                    + p3 * numerator[3, j] + p4 * numerator[4, j] + p5 * numerator[5, j]
                )  # fmt: skip
            for j in range(1, k):
                line[j] -= (
                    t0 * lie[0, j] + t1 * lie[1, j] + t2 * lie[2, j]
                    + t3 * lie[3, j] + t4 * lie[4, j] + t5 * lie[5, j]
                )  # fmt: skip
            plane = out[r]
            if nj == n:
                row = plane[i]
                for j in range(1, k):
                    row[j - 1] = line[j]
            else:
                for j in range(1, k):
                    d = int(model[j, DOF])
                    plane[i, d] += line[j]
                    plane[d, i] -= line[j]
    if nj == n:
        for r in range(b):
            mirror_lower(out[r], 0, -1.0)
