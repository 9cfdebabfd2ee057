# SPDX-License-Identifier: Apache-2.0
"""Compiled passes over the tree: poses, screws, composite inertias, mass matrix, connection.

All quantities are in frame {1}, the root link's, at its origin; twists are [v; w]. The readable
form of every formula stands in :mod:`vm_dynamics.dynamics.plain`.

A rigid-body inertia is ten numbers: mass m, first moment h = m c, and the six entries xx xy xz
yy yz zz of the rotational inertia I about the origin of {1}; as a matrix
``N = [[m, -h^], [h^, I]]``. Bodies are numbered as the rows of the packed model, 0 the base.
Arrays of 6-vectors are (6, nj + 1), so that a loop over a run of ancestors is contiguous.
"""

import math

import numpy as np

from vm_dynamics.compiled import all_finite, entry, jit
from vm_dynamics.model.table import (
    COM,
    DOF,
    INERTIA,
    MASS,
    MULTIPLIER,
    N_BASE,
    N_BODIES,
    N_DOF,
    OFFSET,
    PARENT,
    POSITION,
    PRISMATIC,
    ROTATION,
    RUN_START,
)

# Columns of a placed body
R = 0  # 9 numbers, row major: axes of the body in {1}
P = 9  # 3 numbers: origin of the body in {1}
M = 12  # inertia in {1}
H = 13
I = 16  # noqa: E741 - the inertia of the papers
PLACED = 22

BAD_INPUT = "bad input"  # the caller checks again and says what is wrong


@jit
def place_bodies(model, q, placed, screws):
    """Poses g_1k and joint screws S_k, each scaled by its mimic multiplier.

    Product of exponentials, [Moghaddam] eqs. (13)-(19), one factor at a time.
    """
    base = placed[0]
    for c in range(12):
        base[c] = 0.0
    base[0] = 1.0
    base[4] = 1.0
    base[8] = 1.0
    for c in range(6):
        screws[c, 0] = 0.0
    for k in range(1, int(model[0, N_BODIES]) + 1):
        m = model[k]
        up = placed[int(m[PARENT])]
        b = placed[k]
        px, py, pz = m[POSITION], m[POSITION + 1], m[POSITION + 2]
        for i in range(3):
            x, y, z = up[3 * i], up[3 * i + 1], up[3 * i + 2]
            b[3 * i] = x * m[ROTATION] + y * m[ROTATION + 3] + z * m[ROTATION + 6]
            b[3 * i + 1] = x * m[ROTATION + 1] + y * m[ROTATION + 4] + z * m[ROTATION + 7]
            b[3 * i + 2] = x * m[ROTATION + 2] + y * m[ROTATION + 5] + z * m[ROTATION + 8]
            b[P + i] = up[P + i] + x * px + y * py + z * pz
        scale = m[MULTIPLIER]
        travel = scale * q[int(m[DOF])] + m[OFFSET]
        zx, zy, zz = scale * b[2], scale * b[5], scale * b[8]
        if m[PRISMATIC] == 0.0:
            cosine = math.cos(travel)
            sine = math.sin(travel)
            for i in range(3):
                x, y = b[3 * i], b[3 * i + 1]
                b[3 * i] = cosine * x + sine * y
                b[3 * i + 1] = cosine * y - sine * x
            px, py, pz = b[P], b[P + 1], b[P + 2]
            screws[0, k] = py * zz - pz * zy
            screws[1, k] = pz * zx - px * zz
            screws[2, k] = px * zy - py * zx
            screws[3, k] = zx
            screws[4, k] = zy
            screws[5, k] = zz
        else:
            for i in range(3):
                b[P + i] += travel * b[3 * i + 2]
            screws[0, k] = zx
            screws[1, k] = zy
            screws[2, k] = zz
            screws[3, k] = 0.0
            screws[4, k] = 0.0
            screws[5, k] = 0.0


@jit
def place_inertias(model, placed):
    """Inertia N_k of every placed body in {1}."""
    for k in range(int(model[0, N_BODIES]) + 1):
        m = model[k]
        b = placed[k]
        mass = m[MASS]
        cx, cy, cz = m[COM], m[COM + 1], m[COM + 2]
        x = b[P] + b[0] * cx + b[1] * cy + b[2] * cz
        y = b[P + 1] + b[3] * cx + b[4] * cy + b[5] * cz
        z = b[P + 2] + b[6] * cx + b[7] * cy + b[8] * cz
        xx, xy, xz = m[INERTIA], m[INERTIA + 1], m[INERTIA + 2]
        yy, yz, zz = m[INERTIA + 3], m[INERTIA + 4], m[INERTIA + 5]
        # R I R^T by rows of R I, then the parallel-axis term
        x0 = b[0] * xx + b[1] * xy + b[2] * xz
        x1 = b[0] * xy + b[1] * yy + b[2] * yz
        x2 = b[0] * xz + b[1] * yz + b[2] * zz
        y0 = b[3] * xx + b[4] * xy + b[5] * xz
        y1 = b[3] * xy + b[4] * yy + b[5] * yz
        y2 = b[3] * xz + b[4] * yz + b[5] * zz
        z0 = b[6] * xx + b[7] * xy + b[8] * xz
        z1 = b[6] * xy + b[7] * yy + b[8] * yz
        z2 = b[6] * xz + b[7] * yz + b[8] * zz
        hx, hy, hz = mass * x, mass * y, mass * z
        b[M] = mass
        b[H] = hx
        b[H + 1] = hy
        b[H + 2] = hz
        b[I] = x0 * b[0] + x1 * b[1] + x2 * b[2] + hy * y + hz * z
        b[I + 1] = x0 * b[3] + x1 * b[4] + x2 * b[5] - hx * y
        b[I + 2] = x0 * b[6] + x1 * b[7] + x2 * b[8] - hx * z
        b[I + 3] = y0 * b[3] + y1 * b[4] + y2 * b[5] + hx * x + hz * z
        b[I + 4] = y0 * b[6] + y1 * b[7] + y2 * b[8] - hy * z
        b[I + 5] = z0 * b[6] + z1 * b[7] + z2 * b[8] + hx * x + hy * y


@jit
def composite(model, placed):
    """Turn each inertia into that of the body with all bodies outboard of it, N^c_k."""
    for k in range(int(model[0, N_BODIES]), 0, -1):
        b = placed[k]
        up = placed[int(model[k, PARENT])]
        for c in range(M, PLACED):
            up[c] += b[c]


@jit
def times_inertia(placed, k, vx, vy, vz, wx, wy, wz):
    """N V of the placed inertia of body k and a twist, as six scalars."""
    hx, hy, hz = placed[k, H], placed[k, H + 1], placed[k, H + 2]
    return (
        placed[k, M] * vx + wy * hz - wz * hy,
        placed[k, M] * vy + wz * hx - wx * hz,
        placed[k, M] * vz + wx * hy - wy * hx,
        placed[k, I] * wx + placed[k, I + 1] * wy + placed[k, I + 2] * wz + hy * vz - hz * vy,
        placed[k, I + 1] * wx + placed[k, I + 3] * wy + placed[k, I + 4] * wz + hz * vx - hx * vz,
        placed[k, I + 2] * wx + placed[k, I + 4] * wy + placed[k, I + 5] * wz + hx * vy - hy * vx,
    )


@jit
def column(x, k):
    """Six scalars of column k of a (6, nj + 1) array."""
    return x[0, k], x[1, k], x[2, k], x[3, k], x[4, k], x[5, k]


@jit
def joint_momenta(model, placed, screws, momenta):
    """Columns of M_bq in 6 dimensions: m_k = N^c_k S_k."""
    for k in range(1, int(model[0, N_BODIES]) + 1):
        s0, s1, s2, s3, s4, s5 = column(screws, k)
        f = times_inertia(placed, k, s0, s1, s2, s3, s4, s5)
        for c in range(6):
            momenta[c, k] = f[c]


@jit
def related_products(model, left, right, out, offset):
    """out[k, i] = left_k . right_i for every ancestor i of k and k itself, zero elsewhere below.

    Fills the lower triangle, diagonal included, of the joint block that starts at ``offset``.
    Unsigned indices spare the test for negative ones, without which the loop vectorizes.
    """
    one = np.uint64(1)
    shift = np.uint64(offset)
    for k in range(1, int(model[0, N_BODIES]) + 1):
        row = shift + np.uint64(k) - one
        l0, l1, l2 = left[0, k], left[1, k], left[2, k]
        l3, l4, l5 = left[3, k], left[4, k], left[5, k]
        end = np.uint64(k)
        while end > 0:
            start = np.uint64(model[end, RUN_START])
            for i in range(start, end + one):
                out[row, shift + i - one] = (
                    l0 * right[0, i]
                    + l1 * right[1, i]
                    + l2 * right[2, i]
                    + l3 * right[3, i]
                    + l4 * right[4, i]
                    + l5 * right[5, i]
                )
            end = np.uint64(model[start, PARENT])
            for i in range(end + one, start):
                out[row, shift + i - one] = 0.0


@jit
def mirror_lower(out, offset, sign):
    """Copy the lower triangle of the block behind ``offset``, times ``sign``, to the upper one."""
    for i in range(offset + 1, out.shape[0]):
        for j in range(offset, i):
            out[j, i] = sign * out[i, j]


@jit
def fold_square(model, tree, offset, out):
    """Sum rows and columns of mimic joints into those of their drivers, behind ``offset``."""
    out[:, :] = 0.0
    for i in range(tree.shape[0]):
        a = i if i < offset else offset + int(model[i - offset + 1, DOF])
        for j in range(tree.shape[1]):
            c = j if j < offset else offset + int(model[j - offset + 1, DOF])
            out[a, c] += tree[i, j]


@jit
def fold_columns(model, tree, out):
    """Sum 6-vectors of bodies, (6, nj + 1), into those of their joints, (6, n)."""
    out[:, :] = 0.0
    for k in range(1, int(model[0, N_BODIES]) + 1):
        d = int(model[k, DOF])
        for c in range(6):
            out[c, d] += tree[c, k]


@jit
def write_inertia(placed, k, out):
    """N of the placed body k as a matrix, into ``out``, shape (6, 6)."""
    hx, hy, hz = placed[k, H], placed[k, H + 1], placed[k, H + 2]
    for i in range(3):
        for j in range(3):
            out[i, j] = 0.0
        out[i, i] = placed[k, M]
        out[i, 3 + i] = 0.0
        out[3 + i, i] = 0.0
    out[0, 4] = out[4, 0] = hz
    out[0, 5] = out[5, 0] = -hy
    out[1, 3] = out[3, 1] = -hz
    out[1, 5] = out[5, 1] = hx
    out[2, 3] = out[3, 2] = hy
    out[2, 4] = out[4, 2] = -hx
    out[3, 3] = placed[k, I]
    out[3, 4] = out[4, 3] = placed[k, I + 1]
    out[3, 5] = out[5, 3] = placed[k, I + 2]
    out[4, 4] = placed[k, I + 3]
    out[4, 5] = out[5, 4] = placed[k, I + 4]
    out[5, 5] = placed[k, I + 5]


@jit
def inclusion(model):
    """View of iota, shape (6, b), in the packed model."""
    return model[int(model[0, N_BODIES]) + 1 :, : int(model[0, N_BASE])]


@jit
def project_square(iota, full, out):
    """Project: out = iota^T full iota, the leading (b, b) block of ``out``; iota of SE(3) is 1."""
    b = iota.shape[1]
    if b == 6:
        for i in range(6):
            for j in range(6):
                out[i, j] = full[i, j]
        return
    for i in range(b):
        for j in range(b):
            total = 0.0
            for c in range(6):
                for d in range(6):
                    total += iota[c, i] * full[c, d] * iota[d, j]
            out[i, j] = total


@jit
def project_columns(iota, full, out):
    """Project: out = iota^T full, shapes (6, n) to (b, n); iota of SE(3) is 1."""
    if iota.shape[1] == 6:
        for c in range(6):
            for j in range(full.shape[1]):
                out[c, j] = full[c, j]
        return
    for i in range(iota.shape[1]):
        for j in range(full.shape[1]):
            total = 0.0
            for c in range(6):
                total += iota[c, i] * full[c, j]
            out[i, j] = total


@jit
def base_rows(model, placed, momenta, out):
    """Write M_b, M_bq and its transpose into a mass matrix of (b + nj) rows."""
    if model[0, N_BASE] != 6.0:
        base_rows_of_group(model, placed, momenta, out)
    else:
        write_inertia(placed, 0, out)
        for k in range(1, placed.shape[0]):
            f0, f1, f2, t0, t1, t2 = column(momenta, k)
            out[0, 5 + k] = out[5 + k, 0] = f0
            out[1, 5 + k] = out[5 + k, 1] = f1
            out[2, 5 + k] = out[5 + k, 2] = f2
            out[3, 5 + k] = out[5 + k, 3] = t0
            out[4, 5 + k] = out[5 + k, 4] = t1
            out[5, 5 + k] = out[5 + k, 5] = t2


@jit
def base_rows_of_group(model, placed, momenta, out):
    """:func:`base_rows` on a proper subgroup: iota^T M_b iota and iota^T M_bq."""
    iota = inclusion(model)
    b = iota.shape[1]
    full = np.empty((6, 6))
    write_inertia(placed, 0, full)
    project_square(iota, full, out)
    for i in range(b):
        for k in range(1, placed.shape[0]):
            total = 0.0
            for c in range(6):
                total += iota[c, i] * momenta[c, k]
            out[i, b + k - 1] = total
            out[b + k - 1, i] = total


@jit
def passes(model, q, placed, screws, momenta):
    """Everything in {1} that depends on the shape alone: poses, screws, N^c_k and m_k."""
    place_bodies(model, q, placed, screws)
    place_inertias(model, placed)
    composite(model, placed)
    joint_momenta(model, placed, screws, momenta)


@jit
def at_shape(model, q):
    """:func:`passes` into new arrays: placed bodies with N^c_k, screws and joint momenta."""
    nj = int(model[0, N_BODIES])
    placed = np.empty((nj + 1, PLACED))
    six = np.empty((2, 6, nj + 1))
    passes(model, q, placed, six[0], six[1])
    return placed, six[0], six[1]


@jit
def tree_mass(model, placed, screws, momenta, out):
    """Mass matrix of all moving bodies, mimic joints by themselves, shape (b + nj, b + nj)."""
    b = int(model[0, N_BASE])
    related_products(model, momenta, screws, out, b)
    mirror_lower(out, b, 1.0)
    base_rows(model, placed, momenta, out)


@jit
def folded_mass(model, placed, screws, momenta, out):
    """:func:`tree_mass` with mimic joints summed into their drivers, shape (b + n, b + n)."""
    size = int(model[0, N_BASE]) + int(model[0, N_BODIES])
    tree = np.empty((size, size))
    tree_mass(model, placed, screws, momenta, tree)
    fold_square(model, tree, int(model[0, N_BASE]), out)
    mirror_lower(out, int(model[0, N_BASE]), 1.0)  # sums in another order differ in rounding


@jit
def mass_from_passes(model, placed, screws, momenta, out):
    """Full symmetric mass matrix (b + n, b + n) of [Mishra2022] eq. (7)."""
    if model[0, N_BODIES] == model[0, N_DOF]:
        tree_mass(model, placed, screws, momenta, out)
    else:
        folded_mass(model, placed, screws, momenta, out)


@entry("void(f8[:,::1], f8[::1], f8[:,::1])")
def mass_matrix(model, q, out):
    """Mass matrix at a shape q, shape (n,), into ``out``, shape (b + n, b + n)."""
    if q.size != int(model[0, N_DOF]) or not all_finite(q):
        raise ValueError(BAD_INPUT)
    placed, screws, momenta = at_shape(model, q)
    mass_from_passes(model, placed, screws, momenta, out)


@jit
def locked_solver(placed):
    """What is needed to apply M_b^-1 on SE(3), from the composite inertia of the base.

    Moments about the centre of mass decouple the angular part:
    ``w = I_c^-1 (h_w - c x h_v)``, ``v = h_v / m - w x c``.

    Returns:
        1/m, the centre of mass c (3) and I_c^-1 (xx xy xz yy yz zz).
    """
    s = 1.0 / placed[0, M]
    cx, cy, cz = s * placed[0, H], s * placed[0, H + 1], s * placed[0, H + 2]
    xx = placed[0, I] - placed[0, H + 1] * cy - placed[0, H + 2] * cz
    xy = placed[0, I + 1] + placed[0, H] * cy
    xz = placed[0, I + 2] + placed[0, H] * cz
    yy = placed[0, I + 3] - placed[0, H] * cx - placed[0, H + 2] * cz
    yz = placed[0, I + 4] + placed[0, H + 1] * cz
    zz = placed[0, I + 5] - placed[0, H] * cx - placed[0, H + 1] * cy
    axx = yy * zz - yz * yz
    axy = xz * yz - xy * zz
    axz = xy * yz - xz * yy
    d = 1.0 / (xx * axx + xy * axy + xz * axz)
    return (
        s,
        cx,
        cy,
        cz,
        d * axx,
        d * axy,
        d * axz,
        d * (xx * zz - xz * xz),
        d * (xy * xz - xx * yz),
        d * (xx * yy - xy * xy),
    )


@jit
def locked_solve(solver, f0, f1, f2, t0, t1, t2):
    """M_b^-1 [f; t] on SE(3), as six scalars."""
    s, cx, cy, cz, xx, xy, xz, yy, yz, zz = solver
    a = t0 - (cy * f2 - cz * f1)
    b = t1 - (cz * f0 - cx * f2)
    c = t2 - (cx * f1 - cy * f0)
    wx = xx * a + xy * b + xz * c
    wy = xy * a + yy * b + yz * c
    wz = xz * a + yz * b + zz * c
    return (
        s * f0 - (wy * cz - wz * cy),
        s * f1 - (wz * cx - wx * cz),
        s * f2 - (wx * cy - wy * cx),
        wx,
        wy,
        wz,
    )


@jit
def invert_symmetric(a, out):
    """Inverse of a small symmetric positive definite matrix, by Cholesky, into ``out``."""
    n = a.shape[0]
    low = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= low[i, k] * low[j, k]
            low[i, j] = math.sqrt(total) if i == j else total / low[j, j]
    for col in range(n):
        x = out[:, col]
        for i in range(n):
            total = 1.0 if i == col else 0.0
            for k in range(i):
                total -= low[i, k] * x[k]
            x[i] = total / low[i, i]
        for i in range(n - 1, -1, -1):
            total = x[i]
            for k in range(i + 1, n):
                total -= low[k, i] * x[k]
            x[i] = total / low[i, i]


@jit
def locked_inverse(model, placed, out):
    """M_b^-1 in the coordinates of the base group, into ``out``, shape (b, b)."""
    full = np.empty((6, 6))
    write_inertia(placed, 0, full)
    reduced = np.empty(out.shape)
    project_square(inclusion(model), full, reduced)
    invert_symmetric(reduced, out)


@jit
def locked_projection(model, placed, out):
    """M_b^-1 iota^T, shape (b, 6)."""
    iota = inclusion(model)
    b = iota.shape[1]
    inverse = np.empty((b, b))
    locked_inverse(model, placed, inverse)
    for r in range(b):
        for c in range(6):
            total = 0.0
            for k in range(b):
                total += inverse[r, k] * iota[c, k]
            out[r, c] = total


@jit
def locked_matrix(model, placed, out):
    """L = iota M_b^-1 iota^T, shape (6, 6): momentum to locked velocity, both in {1}."""
    iota = inclusion(model)
    b = iota.shape[1]
    if b == 6:
        solver = locked_solver(placed)
        for c in range(6):
            x = locked_solve(solver, c == 0.0, c == 1.0, c == 2.0, c == 3.0, c == 4.0, c == 5.0)
            for d in range(6):
                out[d, c] = x[d]
        return
    projection = np.empty((b, 6))
    locked_projection(model, placed, projection)
    for c in range(6):
        for d in range(6):
            total = 0.0
            for i in range(b):
                total += iota[c, i] * projection[i, d]
            out[c, d] = total


@jit
def connection_from_passes(model, placed, momenta, out):
    """Mechanical connection A = M_b^-1 M_bq, shape (b, n), of [Mishra2022] Def. 3."""
    if model[0, N_BASE] != 6.0 or model[0, N_BODIES] != model[0, N_DOF]:
        connection_of_group(model, placed, momenta, out)
    else:
        solver = locked_solver(placed)
        for k in range(1, placed.shape[0]):
            f0, f1, f2, t0, t1, t2 = column(momenta, k)
            a = locked_solve(solver, f0, f1, f2, t0, t1, t2)
            for c in range(6):
                out[c, k - 1] = a[c]


@jit
def connection_of_group(model, placed, momenta, out):
    """:func:`connection_from_passes` on any group, with mimic joints."""
    b = int(model[0, N_BASE])
    iota = inclusion(model)
    inverse = np.empty((b, b))
    locked_inverse(model, placed, inverse)
    base = np.empty(b)
    out[:, :] = 0.0
    for k in range(1, placed.shape[0]):
        for i in range(b):
            total = 0.0
            for c in range(6):
                total += iota[c, i] * momenta[c, k]
            base[i] = total
        d = int(model[k, DOF])
        for i in range(b):
            for j in range(b):
                out[i, d] += inverse[i, j] * base[j]


@entry("void(f8[:,::1], f8[::1], f8[:,::1])")
def connection(model, q, out):
    """Connection at a shape q, shape (n,), into ``out``, shape (b, n)."""
    if q.size != int(model[0, N_DOF]) or not all_finite(q):
        raise ValueError(BAD_INPUT)
    placed, screws, momenta = at_shape(model, q)
    connection_from_passes(model, placed, momenta, out)


@entry("void(f8[:,::1], f8[::1], f8[:,::1], f8[:,::1])")
def mass_and_connection(model, q, mass, conn):
    """Mass matrix and connection from one pass over the tree."""
    if q.size != int(model[0, N_DOF]) or not all_finite(q):
        raise ValueError(BAD_INPUT)
    placed, screws, momenta = at_shape(model, q)
    mass_from_passes(model, placed, screws, momenta, mass)
    connection_from_passes(model, placed, momenta, conn)


@entry("void(f8[:,::1], f8[:,::1], f8[:,:,::1], f8[:,:,::1])")
def batch_mass_and_connection(model, q, mass, conn):
    """Mass matrices (N, b + n, b + n) and connections (N, b, n) of shapes q, (N, n)."""
    nj = int(model[0, N_BODIES])
    placed = np.empty((nj + 1, PLACED))
    six = np.empty((2, 6, nj + 1))
    screws, momenta = six[0], six[1]
    for i in range(q.shape[0]):
        passes(model, q[i], placed, screws, momenta)
        mass_from_passes(model, placed, screws, momenta, mass[i])
        connection_from_passes(model, placed, momenta, conn[i])
