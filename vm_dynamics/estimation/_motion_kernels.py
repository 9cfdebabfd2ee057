# SPDX-License-Identifier: Apache-2.0
"""Compiled motion of the estimates between measurements, one short step at a time.

Implements: row 1 of [Mishra2022] eq. (18) as ``dh/dt = ad_V^T h + F``, with moments about the
centre of mass; eqs. (37), (42), (51).
"""

import math

from vm_dynamics.dynamics._coriolis_kernels import bracket, coadjoint
from vm_dynamics.dynamics._entry import jit
from vm_dynamics.dynamics._kinematics_kernels import into_frame
from vm_dynamics.estimation._covariance_kernels import propagate
from vm_dynamics.estimation._layout import (
    ALIVE,
    COV_PERIOD,
    DIFFERENTIATED,
    EKF,
    K1,
    K2,
    LIE_GROUP,
    LIFT,
    LIGHT,
    M_0,
    MAX_STEP,
    MB,
    MEMORY,
    METHOD,
    PRINTED,
    RATE,
    SHAPE,
    T_COV,
    XI,
    B,
    H,
)
from vm_dynamics.estimation._shape_kernels import (
    adjoint,
    blend,
    compose,
    coordinates,
    folded,
    full_size,
    include,
    iota_of,
    narrow,
    outer_force,
    pinv_of,
    pose_view,
    times,
    turn_back,
    vector,
    view,
    widen,
)
from vm_dynamics.lie._kernels import dexp_inv_coefficients, se3_exp

ROUNDING = 1e-9  # [s], of stamps that count seconds since 1970


@folded
def advance(book, row, t0, t1, left, right):
    """Carry the estimate of a row from t0 to t1, the joints moving from one sample to the next."""
    tune = book.tune
    steps = max(1, int(math.ceil((t1 - t0) / tune[MAX_STEP] - ROUNDING)))
    dt = (t1 - t0) / steps
    if dt <= 0.0:
        return
    light = book.fluid.size == 0 and tune[METHOD] != LIE_GROUP
    size = LIGHT if light else full_size(book)
    for i in range(steps):
        t = t0 + (i + 1) * dt
        blend(book, left, right, t - 0.5 * dt, size)
        if tune[METHOD] == LIE_GROUP:
            move_printed(book, row, dt)
        elif tune[METHOD] == DIFFERENTIATED:
            glide(book, row, row[H : H + int(tune[B])], dt)
        else:
            move(book, row, dt)
        if tune[METHOD] == EKF and t - row[T_COV] >= tune[COV_PERIOD] - ROUNDING:
            blend(book, left, right, t, full_size(book))
            propagate(book, row, t)
        if row[ALIVE] == 0.0:
            return


@jit
def glide(book, row, V, dt):
    """Move the pose to g exp(V dt), shape of V (b,), and return the factor."""
    g = pose_view(row)
    six = vector(book, 9, 6)
    factor = view(vector(book, 10, 16), 0, 4, 4)
    include(iota_of(book), V, six)
    for c in range(6):
        six[c] *= dt
    se3_exp(six, factor)
    compose(g, factor, g)
    return factor


@jit
def move(book, row, dt):
    """One step of ``dg/dt = g V``, V = W m - A qd, and of the momentum m about the centre of mass.

    Both halves of m turn with the base, ``dm/dt = [m_v x w; m_w x w] + F``, so that in the world
    it changes by the forces alone.
    """
    shape = book.desk[SHAPE]
    b = int(book.tune[B])
    iota, pinv = iota_of(book), pinv_of(book)
    lift = view(shape, LIFT, b, b)
    m = row[H : H + b]
    V, F = vector(book, 0, b), vector(book, 1, b)
    V6, m6, x = vector(book, 2, 6), vector(book, 3, 6), vector(book, 4, b)
    g = pose_view(row)
    times(lift, m, V)
    for i in range(b):
        V[i] -= shape[XI + i]
    outer_force(book, row, g, V, F)
    # to the middle of the step, where V is taken
    include(iota, V, V6)
    widen(pinv, m, m6)
    for k in range(0, 6, 3):
        fx, fy, fz = m6[k], m6[k + 1], m6[k + 2]
        m6[k] = fy * V6[5] - fz * V6[4]
        m6[k + 1] = fz * V6[3] - fx * V6[5]
        m6[k + 2] = fx * V6[4] - fy * V6[3]
    narrow(iota, m6, x)
    for i in range(b):
        x[i] = m[i] + 0.5 * dt * (x[i] + F[i])
        m[i] += 0.5 * dt * F[i]
    times(lift, x, V)
    for i in range(b):
        V[i] -= shape[XI + i]
    turn_back(book, glide(book, row, V, dt), m)
    outer_force(book, row, g, V, F)
    for i in range(b):
        m[i] += 0.5 * dt * F[i]


# -- the printed observer -----------------------------------------------------------------------


@jit
def move_printed(book, row, dt):
    """One midpoint step of (37) and (42), the pose error held; H holds mu^ in {1^}."""
    b = int(book.tune[B])
    mu = row[H : H + b]
    rate, middle, V = vector(book, 0, b), vector(book, 1, b), vector(book, 2, b)
    xi6, out6 = vector(book, 3, 6), vector(book, 4, 6)
    eta = view(vector(book, 11, 16), 0, 4, 4)
    write_error(book, row, eta)
    printed_rate(book, row, eta, mu, rate)
    for i in range(b):
        middle[i] = mu[i] + 0.5 * dt * rate[i]
    printed_rate(book, row, eta, middle, rate)
    # V^ = mu^ - Ad_eta A qd + Ad_eta K eps, and Ad_eta eps = eps
    include(iota_of(book), book.desk[SHAPE, XI : XI + b], xi6)
    adjoint(eta, xi6, out6)
    coordinates(pinv_of(book), out6, V)
    for i in range(b):
        V[i] = middle[i] - V[i] + book.tune[K1] * row[MEMORY + i]
        mu[i] += dt * rate[i]
    glide(book, row, V, dt)


@jit
def write_error(book, row, eta):
    """Pose error eta = exp(eps) that is held in a row's memory."""
    six = vector(book, 9, 6)
    include(iota_of(book), row[MEMORY : MEMORY + int(book.tune[B])], six)
    se3_exp(six, eta)


@jit
def transported(book, eta, mu, out):
    """mu_o = Ad_eta^-1 mu^, in coordinates of the group."""
    six, out6 = vector(book, 12, 6), vector(book, 13, 6)
    include(iota_of(book), mu, six)
    into_frame(eta, six, out6)
    coordinates(pinv_of(book), out6, out)


@jit
def printed_rate(book, row, eta, mu, out):
    """Rate of mu^ by (42), with S(mu) qd = P(qd) mu (Property 2) and the known force added."""
    shape, tune = book.desk[SHAPE], book.tune
    b = int(tune[B])
    iota, pinv = iota_of(book), pinv_of(book)
    M_b, P = view(shape, MB, b, b), view(shape, RATE, b, b)
    mu_o, p, f, x = vector(book, 5, b), vector(book, 6, b), vector(book, 7, b), vector(book, 8, b)
    mu6, p6, y6 = vector(book, 12, 6), vector(book, 13, 6), vector(book, 9, 6)
    transported(book, eta, mu, mu_o)
    times(M_b, mu_o, p)
    for i in range(b):
        x[i] = mu_o[i] - shape[XI + i]
    outer_force(book, row, pose_view(row), x, f)
    include(iota, mu_o, mu6)
    widen(pinv, p, p6)
    include(iota, x, y6)
    add_coadjoint(iota, y6, p6, f)
    times(P, mu_o, x)
    include(iota, shape[XI : XI + b], y6)
    if tune[PRINTED] != 0.0:  # the qd terms of (51) take P mu_o away again
        add_coadjoint(iota, y6, p6, f)
        bracket_of(pinv, y6, mu6, x)
        times(M_b, x, p)
        for i in range(b):
            f[i] += p[i]
    else:
        for i in range(b):
            f[i] -= x[i]
    add_error_force(book, row, f)
    # the term that cancels that of (41): M_b ad_(K eps) mu_o
    include(iota, row[MEMORY : MEMORY + b], y6)
    bracket_of(pinv, y6, mu6, x)
    times(M_b, x, p)
    for i in range(b):
        f[i] -= tune[K1] * p[i]
    times(view(shape, LIFT, b, b), f, x)
    include(iota, x, y6)
    adjoint(eta, y6, mu6)
    coordinates(pinv, mu6, out)


@jit
def add_coadjoint(iota, V6, h6, out):
    """Add ad_V^T h, of a twist and a momentum in six numbers, to ``out``, shape (b,)."""
    y = coadjoint(V6, h6)
    for i in range(iota.shape[1]):
        for c in range(6):
            out[i] += iota[c, i] * y[c]


@jit
def bracket_of(pinv, x6, y6, out):
    """[x, y] of two twists, in coordinates of the group."""
    y = bracket(x6[0], x6[1], x6[2], x6[3], x6[4], x6[5], y6[0], y6[1], y6[2], y6[3], y6[4], y6[5])
    for i in range(pinv.shape[0]):
        out[i] = 0.0
        for c in range(6):
            out[i] += pinv[i, c] * y[c]


@jit
def add_error_force(book, row, out):
    """Add H(eps)^T K2 eps: k eps as printed in (51), or k2 M_b(q0) eps.

    H^T = 1 + ad^T/2 + c2 (ad^T)^2 + c4 (ad^T)^4, applied to a vector.
    """
    tune = book.tune
    b = int(tune[B])
    iota, pinv = iota_of(book), pinv_of(book)
    eps = row[MEMORY : MEMORY + b]
    power, total = vector(book, 8, b), vector(book, 6, b)
    eps6, f6 = vector(book, 9, 6), vector(book, 13, 6)
    if tune[PRINTED] != 0.0:
        for i in range(b):
            power[i] = tune[K2] * eps[i]
    else:
        times(view(tune, M_0, b, b), eps, power)
        for i in range(b):
            power[i] *= tune[K2]
    include(iota, eps, eps6)
    c2, c4 = dexp_inv_coefficients(eps6[3] ** 2 + eps6[4] ** 2 + eps6[5] ** 2)
    factors = (0.5, c2, 0.0, c4)
    for i in range(b):
        total[i] = power[i]
    for k in range(4):
        widen(pinv, power, f6)
        for i in range(b):
            power[i] = 0.0
        add_coadjoint(iota, eps6, f6, power)
        for i in range(b):
            total[i] += factors[k] * power[i]
    for i in range(b):
        out[i] += total[i]
