# SPDX-License-Identifier: Apache-2.0
"""Compiled small change of the observers: views, group coordinates, the data of a joint sample.

A twist of the base group is ``iota x``, its coordinates ``iota^+ X``; a force f of the group
stands for ``(iota^+)^T f`` in six dimensions and a wrench W acts as ``iota^T W``.
"""

from collections import namedtuple

import numpy as np
from numba import njit

from vm_dynamics.dynamics._coriolis_kernels import inertia_rate, relative_twists
from vm_dynamics.dynamics._entry import FASTMATH, jit
from vm_dynamics.dynamics._fluid_kernels import ELEMENT, fluid_forces
from vm_dynamics.dynamics._general_kernels import general_passes
from vm_dynamics.dynamics._hybrid_kernels import factor_positive, solve_factored
from vm_dynamics.dynamics._kernels import (
    PLACED,
    composite,
    connection_from_passes,
    joint_momenta,
    locked_solver,
    place_bodies,
    place_inertias,
    project_square,
    write_inertia,
)
from vm_dynamics.dynamics._kernels import H as MOMENT
from vm_dynamics.dynamics._kernels import M as WEIGHT
from vm_dynamics.estimation._layout import (
    CONN,
    DATA,
    EXTERNAL,
    EXTERNAL_AT,
    EXTERNAL_WORLD,
    INERTIA_ROW,
    IOTA,
    LIE_GROUP,
    LIFT,
    MASS,
    MATRICES,
    MB,
    METHOD,
    PINV,
    PLACED_ROW,
    POINT,
    RATE,
    RATES_ROW,
    SCREWS_ROW,
    SHAPE,
    STAMP,
    VECTORS,
    XI,
    B,
    F,
    G,
    H,
    N,
)
from vm_dynamics.model.table import DOF, GRAVITY, N_BODIES

Book = namedtuple("Book", "model fluid tune rows index desk")
# A function with one caller: each level of calls would be optimized with all below it once more.
folded = njit(cache=True, error_model="numpy", nogil=True, fastmath=FASTMATH, inline="always")


@jit
def within(x, limit):
    """Whether all of a vector is no larger than a limit, and no NaN."""
    for i in range(x.size):
        if not abs(x[i]) <= limit:
            return False
    return True


@jit
def view(x, start, rows, columns):
    """A block of a flat array as a matrix."""
    return x[start : start + rows * columns].reshape((rows, columns))


@jit
def iota_of(book):
    """Inclusion of the group, shape (6, b)."""
    return view(book.tune, IOTA, 6, int(book.tune[B]))


@jit
def pinv_of(book):
    """Its pseudo-inverse, shape (b, 6)."""
    return view(book.tune, PINV, int(book.tune[B]), 6)


@jit
def small(book, i):
    """Small matrix number i of the desk, shape (b, b)."""
    b = int(book.tune[B])
    return view(book.desk[MATRICES], 36 * i, b, b)


@jit
def vector(book, i, size):
    """Small vector number i of the desk."""
    return book.desk[VECTORS, 16 * i : 16 * i + size]


@jit
def times(a, x, out):
    """Out = a x."""
    for i in range(a.shape[0]):
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j] * x[j]
        out[i] = total


@jit
def transposed_times(a, x, out):
    """Out = a^T x."""
    for j in range(a.shape[1]):
        out[j] = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j] += a[i, j] * x[i]


@jit
def include(iota, x, out):
    """Twist iota x, shape (6,), of coordinates x, shape (b,); iota of SE(3) is 1."""
    if iota.shape[1] == 6:
        for c in range(6):
            out[c] = x[c]
    else:
        times(iota, x, out)


@jit
def coordinates(pinv, twist, out):
    """Coordinates iota^+ X, shape (b,), of a twist."""
    if pinv.shape[0] == 6:
        for c in range(6):
            out[c] = twist[c]
    else:
        times(pinv, twist, out)


@jit
def widen(pinv, f, out):
    """Wrench, shape (6,), that a force f of the group, shape (b,), stands for."""
    if pinv.shape[0] == 6:
        for c in range(6):
            out[c] = f[c]
    else:
        transposed_times(pinv, f, out)


@jit
def narrow(iota, wrench, out):
    """Force of the group, shape (b,), that a wrench exerts."""
    if iota.shape[1] == 6:
        for c in range(6):
            out[c] = wrench[c]
    else:
        transposed_times(iota, wrench, out)


@jit
def multiply(a, b, out):
    """Out = a b."""
    out[:, :] = 0.0
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            factor = a[i, k]
            if factor != 0.0:
                for j in range(b.shape[1]):
                    out[i, j] += factor * b[k, j]


@jit
def adjoint(g, x, out):
    """Ad_g x of a pose and a twist: [R v + p x R w; R w]."""
    for i in range(3):
        out[i] = g[i, 0] * x[0] + g[i, 1] * x[1] + g[i, 2] * x[2]
        out[3 + i] = g[i, 0] * x[3] + g[i, 1] * x[4] + g[i, 2] * x[5]
    px, py, pz = g[0, 3], g[1, 3], g[2, 3]
    out[0] += py * out[5] - pz * out[4]
    out[1] += pz * out[3] - px * out[5]
    out[2] += px * out[4] - py * out[3]


@jit
def compose(a, b, out):
    """Pose a b; ``out`` may be a."""
    for i in range(3):
        x, y, z = a[i, 0], a[i, 1], a[i, 2]
        p = a[i, 3]
        for j in range(4):
            out[i, j] = x * b[0, j] + y * b[1, j] + z * b[2, j]
        out[i, 3] += p
    out[3, 0] = out[3, 1] = out[3, 2] = 0.0
    out[3, 3] = 1.0


@jit
def between(a, b, out):
    """Pose a^-1 b."""
    for i in range(3):
        for j in range(4):
            total = 0.0
            for c in range(3):
                part = b[c, j] - a[c, 3] if j == 3 else b[c, j]
                total += a[c, i] * part
            out[i, j] = total
    out[3, 0] = out[3, 1] = out[3, 2] = 0.0
    out[3, 3] = 1.0


@jit
def straighten(g):
    """Take the rounding of many products off a rotation: R (3 - R^T R) / 2."""
    for _ in range(2):
        a00 = g[0, 0] * g[0, 0] + g[1, 0] * g[1, 0] + g[2, 0] * g[2, 0]
        a11 = g[0, 1] * g[0, 1] + g[1, 1] * g[1, 1] + g[2, 1] * g[2, 1]
        a22 = g[0, 2] * g[0, 2] + g[1, 2] * g[1, 2] + g[2, 2] * g[2, 2]
        a01 = g[0, 0] * g[0, 1] + g[1, 0] * g[1, 1] + g[2, 0] * g[2, 1]
        a02 = g[0, 0] * g[0, 2] + g[1, 0] * g[1, 2] + g[2, 0] * g[2, 2]
        a12 = g[0, 1] * g[0, 2] + g[1, 1] * g[1, 2] + g[2, 1] * g[2, 2]
        for i in range(3):
            x, y, z = g[i, 0], g[i, 1], g[i, 2]
            g[i, 0] = 0.5 * (3.0 * x - (x * a00 + y * a01 + z * a02))
            g[i, 1] = 0.5 * (3.0 * y - (x * a01 + y * a11 + z * a12))
            g[i, 2] = 0.5 * (3.0 * z - (x * a02 + y * a12 + z * a22))


@jit
def write_turning(book, m, out):
    """How a momentum or force m changes when the base turns by eps: [m_v x eps_w; m_w x eps_w].

    Shape (b, b), in coordinates of the group.
    """
    six = vector(book, 15, 6)
    full = view(book.desk[MATRICES], 36 * 9, 6, 6)
    widen(pinv_of(book), m, six)
    full[:, :] = 0.0
    skew_into(full, 0, 3, six[0], six[1], six[2])
    skew_into(full, 3, 3, six[3], six[4], six[5])
    project_square(iota_of(book), full, out)


@jit
def write_rotation(book, turn, out):
    """diag(R, R) of a rotation, (3, 3), in coordinates of the group, shape (b, b)."""
    full = view(book.desk[MATRICES], 36 * 9, 6, 6)
    full[:, :] = 0.0
    for i in range(3):
        for j in range(3):
            full[i, j] = full[3 + i, 3 + j] = turn[i, j]
    between_groups(pinv_of(book), full, iota_of(book), out)


@jit
def turn_back(book, turn, m):
    """Turn a momentum: m becomes diag(R, R)^T m, shape (b,), R the upper left of ``turn``."""
    six, turned = vector(book, 14, 6), vector(book, 15, 6)
    widen(pinv_of(book), m, six)
    for i in range(3):
        turned[i] = turn[0, i] * six[0] + turn[1, i] * six[1] + turn[2, i] * six[2]
        turned[3 + i] = turn[0, i] * six[3] + turn[1, i] * six[4] + turn[2, i] * six[5]
    narrow(iota_of(book), turned, m)


@jit
def shift(book, x, y, z, f):
    """Take the moments of a force or momentum f, shape (b,), about the point (x, y, z)."""
    six = vector(book, 15, 6)
    widen(pinv_of(book), f, six)
    six[3] -= y * six[2] - z * six[1]
    six[4] -= z * six[0] - x * six[2]
    six[5] -= x * six[1] - y * six[0]
    narrow(iota_of(book), six, f)


@jit
def write_momentum_matrix(book, out):
    """Momentum about POINT for mu: M_b, shifted, at the joint data on the desk; shape (b, b)."""
    shape = book.desk[SHAPE]
    b = int(book.tune[B])
    M_b, x = view(shape, MB, b, b), vector(book, 13, b)
    for j in range(b):
        for i in range(b):
            x[i] = M_b[i, j]
        shift(book, shape[POINT], shape[POINT + 1], shape[POINT + 2], x)
        for i in range(b):
            out[i, j] = x[i]


@jit
def skew_into(out, r, c, x, y, z):
    """Write x^ into the 3 x 3 block at row r, column c of a matrix of zeros."""
    out[r, c + 1] = -z
    out[r, c + 2] = y
    out[r + 1, c] = z
    out[r + 1, c + 2] = -x
    out[r + 2, c] = -y
    out[r + 2, c + 1] = x


@jit
def between_groups(left, full, right, out):
    """Left full right, shapes (b, 6), (6, 6), (6, b); both are 1 on SE(3)."""
    b = left.shape[0]
    for i in range(b):
        for j in range(b):
            if b == 6:
                out[i, j] = full[i, j]
            else:
                total = 0.0
                for c in range(6):
                    for d in range(6):
                        total += left[i, c] * full[c, d] * right[d, j]
                out[i, j] = total


@jit
def invert_positive(a, factor, out):
    """Inverse of a symmetric positive definite matrix, (b, b), with room for its factor."""
    b = a.shape[0]
    for i in range(b):
        for j in range(b):
            factor[i, j] = a[i, j]
            out[i, j] = 1.0 if i == j else 0.0
    factor_positive(factor, b)
    for i in range(b):
        solve_factored(factor, out[i], b)


# -- a joint sample -----------------------------------------------------------------------------


@jit
def fluid_parts(book):
    """Added mass, inertias with it, elements and current out of the flat array."""
    bodies = int(book.model[0, N_BODIES]) + 1
    size = 36 * bodies
    added = book.fluid[:size].reshape((bodies, 6, 6))
    inertias = book.fluid[size : 2 * size].reshape((bodies, 6, 6))
    current = book.fluid[2 * size : 2 * size + 3]
    rest = book.fluid[2 * size + 3 :]
    return added, inertias, rest.reshape((rest.size // ELEMENT, ELEMENT)), current


@jit
def write_shape(book, row, q, qd):
    """All that a joint sample decides: M_b, its inverse, A, A qd, mass and its first moment."""
    model, desk = book.model, book.desk
    bodies, b, n = int(model[0, N_BODIES]) + 1, int(book.tune[B]), int(book.tune[N])
    data = row[int(book.tune[DATA]) :]
    placed = view(desk[PLACED_ROW], 0, bodies, PLACED)
    screws = view(desk[SCREWS_ROW], 0, 6, bodies)
    momenta = view(desk[SCREWS_ROW], 6 * bodies, 6, bodies)
    place_bodies(model, q, placed, screws)
    place_inertias(model, placed)
    if book.tune[METHOD] == LIE_GROUP:
        write_rate(book, placed, screws, qd, view(data, RATE, b, b))
    composite(model, placed)
    full = view(desk[INERTIA_ROW], 0, 6, 6)
    dry = book.fluid.size == 0 and book.tune[METHOD] != LIE_GROUP
    data[MASS] = placed[0, WEIGHT]
    for c in range(3):
        data[MASS + 1 + c] = placed[0, MOMENT + c]
        # about the centre of mass; with added mass there is no point that moves with the momentum
        data[POINT + c] = placed[0, MOMENT + c] / placed[0, WEIGHT] if dry else 0.0
    for j in range(n):
        data[CONN + 6 * n + j] = q[j]
        data[CONN + 7 * n + j] = qd[j]
    if dry and b == 6 and n == bodies - 1:
        joint_momenta(model, placed, screws, momenta)
        write_inertia(placed, 0, view(data, MB, 6, 6))
        write_centroidal_lift(placed, view(data, LIFT, 6, 6))
        connection_from_passes(model, placed, momenta, view(data, CONN, 6, n))
        times(view(data, CONN, b, n), qd, data[XI : XI + b])
        return
    if book.fluid.size > 0:
        _, inertias, _, _ = fluid_parts(book)
        _, comp, wet = general_passes(model, inertias, q)
        for c in range(6):
            for k in range(bodies):
                momenta[c, k] = wet[k, c]
            for d in range(6):
                full[c, d] = comp[0, c, d]
    else:
        joint_momenta(model, placed, screws, momenta)
        write_inertia(placed, 0, full)
    M_b, inverse = view(data, MB, b, b), small(book, 7)
    project_square(iota_of(book), full, M_b)
    invert_positive(M_b, small(book, 8), inverse)
    write_connection(book, momenta, inverse, view(data, CONN, b, n))
    times(view(data, CONN, b, n), qd, data[XI : XI + b])
    write_lift(book, data, inverse, view(data, LIFT, b, b))


@jit
def write_centroidal_lift(placed, out):
    """W on SE(3) in closed form: mu_w = I_c^-1 m_w, mu_v = m_v / m + c x mu_w."""
    s, cx, cy, cz, xx, xy, xz, yy, yz, zz = locked_solver(placed)
    out[:, :] = 0.0
    out[0, 0] = out[1, 1] = out[2, 2] = s
    out[3, 3], out[4, 4], out[5, 5] = xx, yy, zz
    out[3, 4] = out[4, 3] = xy
    out[3, 5] = out[5, 3] = xz
    out[4, 5] = out[5, 4] = yz
    for j in range(3, 6):
        out[0, j] = cy * out[5, j] - cz * out[4, j]
        out[1, j] = cz * out[3, j] - cx * out[5, j]
        out[2, j] = cx * out[4, j] - cy * out[3, j]


@jit
def write_lift(book, data, inverse, out):
    """Write W, mu for a momentum about POINT: M_b^-1 S^-1, S the shift to it; all (b, b)."""
    full = view(book.desk[INERTIA_ROW], 0, 6, 6)
    back = small(book, 6)
    full[:, :] = 0.0
    for c in range(6):
        full[c, c] = 1.0
    skew_into(full, 0, 3, -data[POINT], -data[POINT + 1], -data[POINT + 2])
    between_groups(pinv_of(book), full, iota_of(book), back)
    for i in range(out.shape[0]):
        for j in range(out.shape[0]):
            total = 0.0
            for k in range(out.shape[0]):
                total += inverse[i, k] * back[j, k]
            out[i, j] = total


@jit
def write_connection(book, momenta, inverse, A):
    """A = M_b^-1 M_bq from the momenta of the bodies, mimic joints with their drivers."""
    iota = iota_of(book)
    base = vector(book, 15, iota.shape[1])
    A[:, :] = 0.0
    for k in range(1, momenta.shape[1]):
        for i in range(base.size):
            total = 0.0
            for c in range(6):
                total += iota[c, i] * momenta[c, k]
            base[i] = total
        j = int(book.model[k, DOF])
        for i in range(base.size):
            total = 0.0
            for c in range(base.size):
                total += inverse[i, c] * base[c]
            A[i, j] += total


@jit
def write_rate(book, placed, screws, qd, out):
    """P = dM_b/dt along qd, shape (b, b), from the inertias of the single bodies."""
    bodies = placed.shape[0]
    twists = view(book.desk[RATES_ROW], 0, bodies, 6)
    rates = view(book.desk[RATES_ROW], 6 * bodies, 6, bodies)
    relative_twists(book.model, screws, qd, twists, rates)
    d = vector(book, 15, 9)
    d[:] = 0.0
    for k in range(bodies):
        v = twists[k]
        nine = inertia_rate(placed, k, v[0], v[1], v[2], v[3], v[4], v[5])
        for c in range(9):
            d[c] += nine[c]
    full = view(book.desk[INERTIA_ROW], 0, 6, 6)
    full[:, :] = 0.0
    skew_into(full, 0, 3, -d[0], -d[1], -d[2])
    skew_into(full, 3, 0, d[0], d[1], d[2])
    at = 3
    for i in range(3):
        for j in range(i, 3):
            full[3 + i, 3 + j] = full[3 + j, 3 + i] = d[at]
            at += 1
    project_square(iota_of(book), full, out)


@jit
def blend(book, left, right, t, count):
    """The first ``count`` numbers of the joint data at time t, between two samples.

    Either may be missing (-1), then the other is held.
    """
    at = int(book.tune[DATA])
    out = book.desk[SHAPE]
    if left < 0 or right < 0:
        only = book.rows[right if left < 0 else left]
        for c in range(count):
            out[c] = only[at + c]
        return
    a, b = book.rows[left], book.rows[right]
    weight = (t - a[STAMP]) / (b[STAMP] - a[STAMP])
    weight = min(max(weight, 0.0), 1.0)
    for c in range(count):
        out[c] = a[at + c] + weight * (b[at + c] - a[at + c])


@jit
def full_size(book):
    """How many numbers the data of a joint sample are."""
    return CONN + 8 * int(book.tune[N])


@jit
def outer_force(book, row, g, V, out):
    """All that pushes the base, moments about POINT, in coordinates of the group, shape (b,).

    The known wrench, the estimated one, weight, and what a fluid does, where moments are about
    the origin of {1}, which moves past the momentum: h_v x v. The joint data on the desk must be
    blended in full where there is a fluid.
    """
    tune, model = book.tune, book.model
    iota = iota_of(book)
    b = iota.shape[1]
    for i in range(b):
        out[i] = row[F + i]
    six = vector(book, 14, 6)
    turned = vector(book, 15, 6)
    if tune[EXTERNAL_AT] >= 0.0:
        external = row[EXTERNAL : EXTERNAL + b]
        if tune[EXTERNAL_WORLD] != 0.0:
            widen(pinv_of(book), external, six)
            for i in range(3):
                turned[i] = g[0, i] * six[0] + g[1, i] * six[1] + g[2, i] * six[2]
                turned[3 + i] = g[0, i] * six[3] + g[1, i] * six[4] + g[2, i] * six[5]
            add_wrench(iota, turned, out)
        else:
            for i in range(b):
                out[i] += external[i]
    gx, gy, gz = model[0, GRAVITY], model[0, GRAVITY + 1], model[0, GRAVITY + 2]
    shape = book.desk[SHAPE]
    if gx != 0.0 or gy != 0.0 or gz != 0.0:
        fx = g[0, 0] * gx + g[1, 0] * gy + g[2, 0] * gz
        fy = g[0, 1] * gx + g[1, 1] * gy + g[2, 1] * gz
        fz = g[0, 2] * gx + g[1, 2] * gy + g[2, 2] * gz
        cx, cy, cz = shape[MASS + 1], shape[MASS + 2], shape[MASS + 3]
        six[0], six[1], six[2] = shape[MASS] * fx, shape[MASS] * fy, shape[MASS] * fz
        six[3] = cy * fz - cz * fy
        six[4] = cz * fx - cx * fz
        six[5] = cx * fy - cy * fx
        add_wrench(iota, six, out)
    if book.fluid.size > 0:
        added, _, elements, current = fluid_parts(book)
        n = int(tune[N])
        q = shape[CONN + 6 * n : CONN + 7 * n]
        qd = shape[CONN + 7 * n : CONN + 8 * n]
        push = np.zeros((added.shape[0], 6))
        fluid_forces(model, added, elements, current, g, q, V, qd, push)
        for k in range(push.shape[0]):
            add_wrench(iota, push[k], out)
        widen(pinv_of(book), row[H : H + b], six)
        include(iota, V, turned)
        hx, hy, hz = six[0], six[1], six[2]
        six[0] = six[1] = six[2] = 0.0
        six[3] = hy * turned[2] - hz * turned[1]
        six[4] = hz * turned[0] - hx * turned[2]
        six[5] = hx * turned[1] - hy * turned[0]
        add_wrench(iota, six, out)
    else:
        shift(book, shape[POINT], shape[POINT + 1], shape[POINT + 2], out)


@jit
def add_wrench(iota, wrench, out):
    """Add iota^T W of a wrench, shape (6,), to ``out``, shape (b,)."""
    for i in range(iota.shape[1]):
        for c in range(6):
            out[i] += iota[c, i] * wrench[c]


@jit
def pose_view(row):
    """The estimated pose in a row, shape (4, 4)."""
    return view(row, G, 4, 4)
