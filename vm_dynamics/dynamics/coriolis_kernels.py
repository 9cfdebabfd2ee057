# SPDX-License-Identifier: Apache-2.0
"""Compiled velocity-dependent terms: Hamel's C, rates of inertias.

Frame {1}, twists [v; w], see ``mass_kernels``. S_k are the joint screws, N_k the inertia of body
k, N^c_k that of all bodies outboard of joint k, v_k the twist of body k relative to the base and
V_k = V + v_k its twist in the world. With

* the Coriolis matrix of one body, ``E_k = -(N_k ad_{v_k} + ad~_{N_k V_k})``,
* the rate of an inertia that moves with a twist x, ``-(ad_x^T N + N ad_x)``, which is nine
  numbers: d of the first moment and dI of the rotational inertia, ``[[0, -d^], [d^, dI]]``,

all is a sum over joints, so every matrix costs O(n^2).
"""

import numpy as np

from vm_dynamics.compiled import all_finite, entry, jit
from vm_dynamics.dynamics.mass_kernels import (
    BAD_INPUT,
    PLACED,
    H,
    I,
    M,
    column,
    composite,
    fold_square,
    inclusion,
    joint_momenta,
    mass_from_passes,
    place_bodies,
    place_inertias,
    project_square,
    times_inertia,
)
from vm_dynamics.model.table import DOF, N_BASE, N_BODIES, N_DOF, PARENT, RUN_START


@jit
def inertia_rate(placed, k, vx, vy, vz, wx, wy, wz):
    """Rate of the inertia of a placed body k under a twist: d (3) and dI (xx xy xz yy yz zz).

    ``d = m v + w x h`` and ``dI = 2 (h . v) 1 - h v^T - v h^T + w^ I - I w^``, as nine scalars.
    """
    m = placed[k, M]
    hx, hy, hz = placed[k, H], placed[k, H + 1], placed[k, H + 2]
    xx, xy, xz = placed[k, I], placed[k, I + 1], placed[k, I + 2]
    yy, yz, zz = placed[k, I + 3], placed[k, I + 4], placed[k, I + 5]
    return (
        m * vx + wy * hz - wz * hy,
        m * vy + wz * hx - wx * hz,
        m * vz + wx * hy - wy * hx,
        2.0 * (hy * vy + hz * vz + wy * xz - wz * xy),
        wy * yz - wz * yy + wz * xx - wx * xz - hx * vy - hy * vx,
        wy * zz - wz * yz + wx * xy - wy * xx - hx * vz - hz * vx,
        2.0 * (hx * vx + hz * vz + wz * xy - wx * yz),
        wz * xz - wx * zz + wx * yy - wy * xy - hy * vz - hz * vy,
        2.0 * (hx * vx + hy * vy + wx * yz - wy * xz),
    )


@jit
def times_rate(d, vx, vy, vz, wx, wy, wz):
    """D x of an inertia rate and a twist, as six scalars."""
    return (
        wy * d[2] - wz * d[1],
        wz * d[0] - wx * d[2],
        wx * d[1] - wy * d[0],
        d[3] * wx + d[4] * wy + d[5] * wz + d[1] * vz - d[2] * vy,
        d[4] * wx + d[6] * wy + d[7] * wz + d[2] * vx - d[0] * vz,
        d[5] * wx + d[7] * wy + d[8] * wz + d[0] * vy - d[1] * vx,
    )


@jit
def bracket(ax, ay, az, bx, by, bz, vx, vy, vz, wx, wy, wz):
    """[x, y] of twists x = (a, b) and y = (v, w), as six scalars."""
    return (
        by * vz - bz * vy + ay * wz - az * wy,
        bz * vx - bx * vz + az * wx - ax * wz,
        bx * vy - by * vx + ax * wy - ay * wx,
        by * wz - bz * wy,
        bz * wx - bx * wz,
        bx * wy - by * wx,
    )


@jit
def coadjoint(v, h):
    """ad_V^T h = [h_v x w; h_w x w + h_v x v] of a twist and a momentum, as six scalars."""
    return (
        h[1] * v[5] - h[2] * v[4],
        h[2] * v[3] - h[0] * v[5],
        h[0] * v[4] - h[1] * v[3],
        h[4] * v[5] - h[5] * v[4] + h[1] * v[2] - h[2] * v[1],
        h[5] * v[3] - h[3] * v[5] + h[2] * v[0] - h[0] * v[2],
        h[3] * v[4] - h[4] * v[3] + h[0] * v[1] - h[1] * v[0],
    )


@jit
def body_coriolis(placed, k, v, h, out):
    """E = -(N ad_v + ad~_h), flattened, of the placed body k, v (6,) and a momentum h.

    ``N ad_v = [[m w^, m v^ - a^ w^], [a^ w^, a^ v^ + I w^]]``, a the first moment.
    """
    m = placed[k, M]
    a = (placed[k, H], placed[k, H + 1], placed[k, H + 2])
    vl = (v[0], v[1], v[2])
    w = (v[3], v[4], v[5])
    aw = a[0] * w[0] + a[1] * w[1] + a[2] * w[2]
    av = a[0] * vl[0] + a[1] * vl[1] + a[2] * vl[2]
    rows = (
        (placed[k, I], placed[k, I + 1], placed[k, I + 2]),
        (placed[k, I + 1], placed[k, I + 3], placed[k, I + 4]),
        (placed[k, I + 2], placed[k, I + 4], placed[k, I + 5]),
    )
    for i in range(3):
        for j in range(3):
            cross = w[i] * a[j]
            out[6 * i + j] = 0.0
            out[6 * i + 3 + j] = cross
            out[6 * (3 + i) + j] = -cross
        out[6 * i + 3 + i] -= aw
        out[6 * (3 + i) + i] += aw
        r = rows[i]
        out[6 * (3 + i) + 3] = -(vl[i] * a[0] + r[1] * w[2] - r[2] * w[1])
        out[6 * (3 + i) + 4] = -(vl[i] * a[1] + r[2] * w[0] - r[0] * w[2])
        out[6 * (3 + i) + 5] = -(vl[i] * a[2] + r[0] * w[1] - r[1] * w[0])
        out[6 * (3 + i) + 3 + i] += av
    # skew parts: -m w^ above left, -(m v + hv)^ above right, -hv^ below left, -hw^ below right
    add_skew(out, 0, 0, -m * w[0], -m * w[1], -m * w[2])
    add_skew(out, 0, 3, -m * vl[0] - h[0], -m * vl[1] - h[1], -m * vl[2] - h[2])
    add_skew(out, 3, 0, -h[0], -h[1], -h[2])
    add_skew(out, 3, 3, -h[3], -h[4], -h[5])


@jit
def add_skew(out, r, c, x, y, z):
    """Add x^ to the 3 x 3 block at row r, column c of a flattened 6 x 6 matrix."""
    out[6 * r + c + 1] -= z
    out[6 * r + c + 2] += y
    out[6 * (r + 1) + c] += z
    out[6 * (r + 1) + c + 2] -= x
    out[6 * (r + 2) + c] -= y
    out[6 * (r + 2) + c + 1] += x


@jit
def relative_twists(model, screws, qd, twists, rates):
    """Twists v_k relative to the base and the rates dS_k/dt = [v_k, S_k] of the screws."""
    for c in range(6):
        twists[0, c] = 0.0
        rates[c, 0] = 0.0
    for k in range(1, int(model[0, N_BODIES]) + 1):
        up = twists[int(model[k, PARENT])]
        v = twists[k]
        speed = qd[int(model[k, DOF])]
        for c in range(6):
            v[c] = up[c] + screws[c, k] * speed
        s0, s1, s2, s3, s4, s5 = column(screws, k)
        d = bracket(v[0], v[1], v[2], v[3], v[4], v[5], s0, s1, s2, s3, s4, s5)
        for c in range(6):
            rates[c, k] = d[c]


@jit
def composite_coriolis(model, single, twists, base, out):
    """E^c_k, flattened: sums of E over the bodies outboard of k, at base twist ``base`` (6,)."""
    nj = int(model[0, N_BODIES])
    for k in range(nj + 1):
        v = twists[k]
        h = times_inertia(
            single,
            k,
            base[0] + v[0],
            base[1] + v[1],
            base[2] + v[2],
            base[3] + v[3],
            base[4] + v[4],
            base[5] + v[5],
        )
        body_coriolis(single, k, v, h, out[k])
    for k in range(nj, 0, -1):
        up = out[int(model[k, PARENT])]
        for c in range(36):
            up[c] += out[k, c]


@jit
def coriolis_columns(model, comp, screws, rates, coriolis, columns, rows):
    """c_k = N^c_k dS_k + E^c_k S_k (columns of C_bq) and r_k = E^c_k^T S_k (rows of C_qb)."""
    for k in range(1, int(model[0, N_BODIES]) + 1):
        d0, d1, d2, d3, d4, d5 = column(rates, k)
        f = times_inertia(comp, k, d0, d1, d2, d3, d4, d5)
        e = coriolis[k]
        for i in range(6):
            c = f[i]
            r = 0.0
            for j in range(6):
                c += e[6 * i + j] * screws[j, k]
                r += e[6 * j + i] * screws[j, k]
            columns[i, k] = c
            rows[i, k] = r


@jit
def related_sums(model, a, x, b, y, out, offset):
    """out[k, i] = a_k . x_i + b_k . y_i, where ``related_products`` has one product."""
    one = np.uint64(1)
    shift = np.uint64(offset)
    for k in range(1, int(model[0, N_BODIES]) + 1):
        row = shift + np.uint64(k) - one
        a0, a1, a2, a3, a4, a5 = column(a, k)
        b0, b1, b2, b3, b4, b5 = column(b, k)
        end = np.uint64(k)
        while end > 0:
            start = np.uint64(model[end, RUN_START])
            for i in range(start, end + one):
                out[row, shift + i - one] = (
                    a0 * x[0, i] + b0 * y[0, i]
                    + a1 * x[1, i] + b1 * y[1, i]
                    + a2 * x[2, i] + b2 * y[2, i]
                    + a3 * x[3, i] + b3 * y[3, i]
                    + a4 * x[4, i] + b4 * y[4, i]
                    + a5 * x[5, i] + b5 * y[5, i]
                )  # fmt: skip
            end = np.uint64(model[start, PARENT])
            for i in range(end + one, start):
                out[row, shift + i - one] = 0.0


@jit
def joint_coriolis(model, momenta, screws, rates, columns, rows, out, offset):
    """C_qq: S_i . c_j where i is an ancestor of j, m_i . dS_j + r_i . S_j where j is one of i."""
    nj = int(model[0, N_BODIES])
    related_sums(model, momenta, rates, rows, screws, out, offset)
    last = np.arange(nj + 1)  # of a body and all outboard of it, which follow it in the table
    for k in range(nj, 0, -1):
        parent = int(model[k, PARENT])
        last[parent] = max(last[parent], last[k])
    one = np.uint64(1)
    shift = np.uint64(offset)
    for i in range(1, nj + 1):
        row = shift + np.uint64(i) - one
        s0, s1, s2, s3, s4, s5 = column(screws, i)
        for j in range(np.uint64(i) + one, np.uint64(last[i]) + one):
            out[row, shift + j - one] = (
                s0 * columns[0, j]
                + s1 * columns[1, j]
                + s2 * columns[2, j]
                + s3 * columns[3, j]
                + s4 * columns[4, j]
                + s5 * columns[5, j]
            )
        for j in range(np.uint64(last[i]) + one, np.uint64(nj) + one):
            out[row, shift + j - one] = 0.0


@jit
def border(iota, columns, rows, out):
    """Write iota^T columns to the right of the (b, b) block and its like from rows below it."""
    b = iota.shape[1]
    for i in range(b):
        for k in range(1, columns.shape[1]):
            right = 0.0
            below = 0.0
            for c in range(6):
                right += iota[c, i] * columns[c, k]
                below += iota[c, i] * rows[c, k]
            out[i, b + k - 1] = right
            out[b + k - 1, i] = below


@entry("void(f8[:,::1], f8[::1], f8[::1], f8[::1], f8[:,::1], f8[:,::1])")
def hamel(model, q, base, qd, mass, coriolis):
    """Mass and Coriolis matrices of Hamel's equations, [Mishra2022] eqs. (4)-(6).

    Unlike the printed Lemma 1, C uses ad~ and so makes dM/dt - 2C skew:
    ``C = sum_k T_k^T (M_k dT_k/dt - ad~_{M_k V_k} T_k)``.
    """
    n = int(model[0, N_DOF])
    b = int(model[0, N_BASE])
    nj = int(model[0, N_BODIES])
    if q.size != n or qd.size != n or base.size != b:
        raise ValueError(BAD_INPUT)
    if not (all_finite(q) and all_finite(qd) and all_finite(base)):
        raise ValueError(BAD_INPUT)
    single = np.empty((nj + 1, PLACED))
    six = np.empty((5, 6, nj + 1))
    screws, momenta, rates, columns, rows = six[0], six[1], six[2], six[3], six[4]
    place_bodies(model, q, single, screws)
    place_inertias(model, single)
    comp = single.copy()
    composite(model, comp)
    joint_momenta(model, comp, screws, momenta)
    iota = inclusion(model)
    twist = np.zeros(6)
    for c in range(6):
        for i in range(b):
            twist[c] += iota[c, i] * base[i]
    twists = np.empty((nj + 1, 6))
    relative_twists(model, screws, qd, twists, rates)
    per_body = np.empty((nj + 1, 36))
    composite_coriolis(model, single, twists, twist, per_body)
    coriolis_columns(model, comp, screws, rates, per_body, columns, rows)

    mass_from_passes(model, comp, screws, momenta, mass)
    tree = coriolis if nj == n else np.empty((b + nj, b + nj))
    joint_coriolis(model, momenta, screws, rates, columns, rows, tree, b)
    border(iota, columns, rows, tree)
    project_square(iota, per_body[0].reshape((6, 6)), tree)
    if nj != n:
        fold_square(model, tree, b, coriolis)


@entry("void(f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1])")
def composite_motion(model, q, qd, ten, rate):
    """Composite inertia of the whole robot in {1}, ten numbers, and its rate along qd."""
    n = int(model[0, N_DOF])
    nj = int(model[0, N_BODIES])
    if q.size != n or qd.size != n or not (all_finite(q) and all_finite(qd)):
        raise ValueError(BAD_INPUT)
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    rates = np.empty((6, nj + 1))
    twists = np.empty((nj + 1, 6))
    place_bodies(model, q, placed, screws)
    place_inertias(model, placed)
    relative_twists(model, screws, qd, twists, rates)
    ten[:] = 0.0
    rate[:] = 0.0
    for k in range(nj + 1):
        v = twists[k]
        nine = inertia_rate(placed, k, v[0], v[1], v[2], v[3], v[4], v[5])
        for c in range(10):
            ten[c] += placed[k, M + c]
        for c in range(9):
            rate[1 + c] += nine[c]
