# SPDX-License-Identifier: Apache-2.0
"""Compiled reduced Euler-Lagrange matrices and curvature of the connection.

Frame {1}, twists [v; w], see ``_kernels`` and ``_coriolis_kernels``. With the derivative of the
locked inertia ``D_k = dM_b/dq_k = -(ad_{S_k}^T N^c_k + N^c_k ad_{S_k})``, nine numbers, and the
columns m_k = N^c_k S_k of M_bq, everything is a sum over joints or pairs of joints: O(n^2).
Inside, base quantities have six components; ``iota`` projects them at the end.
"""

import numpy as np

from vm_dynamics.dynamics._coriolis_kernels import (
    add_related_products,
    bracket,
    coadjoint,
    column,
    composite_coriolis,
    coriolis_columns,
    inertia_rate,
    joint_coriolis,
    relative_twists,
    times_rate,
)
from vm_dynamics.dynamics._entry import entry, jit
from vm_dynamics.dynamics._kernels import (
    BAD_INPUT,
    PLACED,
    composite,
    fold_columns,
    fold_square,
    inclusion,
    invert_symmetric,
    joint_momenta,
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
from vm_dynamics.model.table import DOF, N_BASE, N_BODIES, N_DOF, PARENT


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
    """Out = iota x, shapes (b, n) to (6, n)."""
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
def locked_columns(model, base, mb_inverse, columns, out):
    """M_b^-1 iota^T columns, shapes (6, n) to (b, n), of a composite base inertia."""
    if out.shape[0] == 6:
        solver = locked_solver(base)
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
def assemble(iota, p, gamma, ad_tilde, s, minus_ad_a, btilde, d_qd, d_mu):
    """D_qd = diag(P/2, Gamma_q) and the skew D_mu of [Mishra2022] eq. (18)."""
    b, n = s.shape
    project_square(iota, ad_tilde, d_mu)
    for i in range(b):
        for j in range(b):
            d_qd[i, j] = 0.5 * p[i, j]
        for j in range(n):
            total = 0.0
            for c in range(6):
                total += iota[c, i] * minus_ad_a[c, j]
            value = total - 0.5 * s[i, j]
            d_mu[i, b + j] = value
            d_mu[b + j, i] = -value
            d_qd[i, b + j] = 0.0
            d_qd[b + j, i] = 0.0
    for i in range(n):
        for j in range(n):
            d_qd[b + i, b + j] = gamma[i, j]
            d_mu[b + i, b + j] = -btilde[i, j]


@jit
def locked_connection(model, base, momenta, mb, mb_inverse, mbq, conn, a6):
    """M_b, its inverse unless b is 6, M_bq (6, n), A (b, n) and iota A (6, n)."""
    iota = inclusion(model)
    full = np.empty((6, 6))
    write_inertia(base, full)
    project_square(iota, full, mb)
    if mb.shape[0] != 6:
        invert_symmetric(mb, mb_inverse)
    fold_columns(model, momenta, mbq)
    locked_columns(model, base, mb_inverse, mbq, conn)
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
        inertia_rate(single[k], v[0], v[1], v[2], v[3], v[4], v[5], rate[k])
    for k in range(nj, 0, -1):
        up = rate[int(model[k, PARENT])]
        for c in range(9):
            up[c] += rate[k, c]


@jit
def joint_derivatives(model, comp, screws, rates, rate, mu6, s_mu, moved, mbq_dot):
    """Columns D_k mu of S(mu), [mu, S_k], and dm_k/dt = N^c_k dS_k/dt + dN^c_k/dt S_k."""
    derivative = np.empty(9)
    for k in range(1, int(model[0, N_BODIES]) + 1):
        s0, s1, s2, s3, s4, s5 = column(screws, k)
        inertia_rate(comp[k], s0, s1, s2, s3, s4, s5, derivative)
        x = times_rate(derivative, mu6[0], mu6[1], mu6[2], mu6[3], mu6[4], mu6[5])
        y = bracket(mu6[0], mu6[1], mu6[2], mu6[3], mu6[4], mu6[5], s0, s1, s2, s3, s4, s5)
        d0, d1, d2, d3, d4, d5 = column(rates, k)
        f = times_inertia(comp[k], d0, d1, d2, d3, d4, d5)
        z = times_rate(rate[k], s0, s1, s2, s3, s4, s5)
        for c in range(6):
            s_mu[c, k] = x[c]
            moved[c, k] = y[c]
            mbq_dot[c, k] = f[c] + z[c]


@jit
def shape_inertia(model, momenta, screws, a6, mbq, out):
    """Lambda_q = M_q - A^T M_bq, (19a)."""
    nj = int(model[0, N_BODIES])
    tree = out if nj == out.shape[0] else np.empty((nj, nj))
    related_products(model, momenta, screws, tree, 0)
    if nj != out.shape[0]:
        mirror_lower(tree, 0)
        fold_square(model, tree, 0, out)
    subtract_products(a6, mbq, out)
    mirror_lower(out, 0)


@jit
def shape_coriolis(model, momenta, screws, rates, columns, rows, base_block, a6, out):
    """Gamma_q = C_qq - A^T (C_bq - C_bb A) - C_qb A with C at zero momentum, (19d)."""
    n = out.shape[0]
    nj = int(model[0, N_BODIES])
    tree = out if nj == n else np.empty((nj, nj))
    joint_coriolis(model, momenta, screws, rates, columns, rows, tree, 0)
    if nj != n:
        fold_square(model, tree, 0, out)
    right = np.empty((6, n))
    below = np.empty((6, n))
    fold_columns(model, columns, right)
    fold_columns(model, rows, below)
    subtract_matrix_times(base_block, a6, right)
    for i in range(n):
        row = out[i]
        for c in range(6):
            x, y = a6[c, i], below[c, i]
            for j in range(n):
                row[j] -= x * right[c, j] + y * a6[c, j]


@jit
def gyroscopic(model, momenta, screws, s_mu, moved, s6, a6, minus_ad_a, out):
    """B = S^T A - A^T S - A^T ad~ A - mu^T (d_i m_j - d_j m_i), all skew, (19e).

    For i an ancestor of j, mu . (d_i m_j - d_j m_i) = [mu, S_i] . m_j - (D_j mu) . S_i.
    """
    n = out.shape[0]
    nj = int(model[0, N_BODIES])
    tree = out if nj == n else np.empty((nj, nj))
    related_products(model, momenta, moved, tree, 0)
    s_mu *= -1.0
    add_related_products(model, s_mu, screws, tree, 0)
    if nj != n:
        complete_skew(tree)
        fold_square(model, tree, 0, out)
    for i in range(n):
        row = out[i]
        for c in range(6):
            x, y = s6[c, i], a6[c, i]
            for j in range(i):
                row[j] += x * a6[c, j] - y * (s6[c, j] - minus_ad_a[c, j])
    complete_skew(out)


@jit
def complete_skew(out):
    """Make a matrix skew from its lower triangle."""
    for i in range(out.shape[0]):
        out[i, i] = 0.0
        for j in range(i):
            out[j, i] = -out[i, j]


@entry(
    "void(f8[:,::1], f8[::1], f8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1],"
    " f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1])"
)
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
    if not np.isfinite(q.sum() + qd.sum() + mu.sum()):
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
    wide = np.empty((4, 6, n))
    mbq, a6, s6, work = wide[0], wide[1], wide[2], wide[3]
    locked_connection(model, comp[0], momenta, mb, mb_inverse, mbq, conn, a6)
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
    shape_coriolis(model, momenta, screws, rates, columns, rows, base_block, a6, gamma)

    rate = np.empty((nj + 1, 9))
    composite_rates(model, single, twists, rate)
    full = np.empty((6, 6))
    write_rate(rate[0], full)
    project_square(iota, full, p)
    joint_derivatives(model, comp, screws, rates, rate, mu6, s_mu, moved, mbq_dot)
    fold_columns(model, s_mu, s6)
    project_columns(iota, s6, s)

    # dA/dt = M_b^-1 (dM_bq/dt - P A)
    fold_columns(model, mbq_dot, work)
    subtract_matrix_times(full, a6, work)
    locked_columns(model, comp[0], mb_inverse, work, conn_dot)

    h = times_inertia(comp[0], mu6[0], mu6[1], mu6[2], mu6[3], mu6[4], mu6[5])
    write_ad_tilde(h, full)
    work[:, :] = 0.0
    subtract_matrix_times(full, a6, work)
    gyroscopic(model, momenta, screws, s_mu, moved, s6, a6, work, btilde)
    assemble(iota, p, gamma, full, s, work, btilde, d_qd, d_mu)


@jit
def curvature_pairs(model, comp, screws, momenta, rates, pairs):
    """D of every joint, (n, 9), and d_i m_j - d_j m_i of every pair of related joints.

    For i an ancestor of j it is -ad_{S_i}^T m_j - D_j S_i.
    """
    rate = np.empty(9)
    rates[:, :] = 0.0
    pairs[:, :, :] = 0.0
    for k in range(1, int(model[0, N_BODIES]) + 1):
        d = int(model[k, DOF])
        s0, s1, s2, s3, s4, s5 = column(screws, k)
        inertia_rate(comp[k], s0, s1, s2, s3, s4, s5, rate)
        for c in range(9):
            rates[d, c] += rate[c]
        h = column(momenta, k)
        i = int(model[k, PARENT])
        while i > 0:
            e = int(model[i, DOF])
            x = column(screws, i)
            y = times_rate(rate, x[0], x[1], x[2], x[3], x[4], x[5])
            z = coadjoint(x, h)
            for c in range(6):
                value = -z[c] - y[c]
                pairs[c, e, d] += value
                pairs[c, d, e] -= value
            i = int(model[i, PARENT])


@jit
def curvature_of_pair(rate_i, rate_j, a_i, a_j, pair, out):
    """M_b (d_i A_j - d_j A_i), into ``out``, and [A_i, A_j], returned."""
    left = times_rate(rate_i, a_j[0], a_j[1], a_j[2], a_j[3], a_j[4], a_j[5])
    right = times_rate(rate_j, a_i[0], a_i[1], a_i[2], a_i[3], a_i[4], a_i[5])
    for c in range(6):
        out[c] = pair[c] - left[c] + right[c]
    return bracket(
        a_i[0], a_i[1], a_i[2], a_i[3], a_i[4], a_i[5],
        a_j[0], a_j[1], a_j[2], a_j[3], a_j[4], a_j[5],
    )  # fmt: skip


@entry("void(f8[:,::1], f8[::1], f8[:,:,::1])")
def curvature(model, q, out):
    """Curvature DA(e_i) e_j of the connection, [Mishra2022] Theorem 2, shape (b, n, n).

    ``M_b (d_i A_j - d_j A_i) = d_i m_j - d_j m_i - D_i A_j + D_j A_i``, less the bracket.
    """
    n = int(model[0, N_DOF])
    b = int(model[0, N_BASE])
    nj = int(model[0, N_BODIES])
    if q.size != n or not np.isfinite(q.sum()):
        raise ValueError(BAD_INPUT)
    iota = inclusion(model)
    comp = np.empty((nj + 1, PLACED))
    six = np.empty((2, 6, nj + 1))
    screws, momenta = six[0], six[1]
    place_bodies(model, q, comp, screws)
    place_inertias(model, comp)
    composite(model, comp)
    joint_momenta(model, comp, screws, momenta)
    mbq = np.empty((6, n))
    a6 = np.empty((6, n))
    conn = np.empty((b, n))
    mb = np.empty((b, b))
    mb_inverse = np.empty((b, b))
    locked_connection(model, comp[0], momenta, mb, mb_inverse, mbq, conn, a6)

    rates = np.empty((n, 9))
    pairs = out if b == 6 else np.empty((6, n, n))
    curvature_pairs(model, comp, screws, momenta, rates, pairs)
    solver = locked_solver(comp[0])
    x = np.empty(6)
    for i in range(n):
        for r in range(b):
            out[r, i, i] = 0.0
        a_i = column(a6, i)
        for j in range(i + 1, n):
            lie = curvature_of_pair(rates[i], rates[j], a_i, column(a6, j), pairs[:, i, j], x)
            if b == 6:
                y = locked_solve(solver, x[0], x[1], x[2], x[3], x[4], x[5])
                for r in range(6):
                    out[r, i, j] = y[r] - lie[r]
                    out[r, j, i] = lie[r] - y[r]
                continue
            for r in range(b):
                value = 0.0
                for k in range(b):
                    for c in range(6):
                        value += mb_inverse[r, k] * iota[c, k] * x[c]
                for c in range(6):
                    # iota^T is iota^+ but for the helical group, where the bracket is zero
                    value -= iota[c, r] * lie[c]
                out[r, i, j] = value
                out[r, j, i] = -value
