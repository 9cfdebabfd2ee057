# SPDX-License-Identifier: Apache-2.0
"""Compiled covariance of the left-invariant filter, and its correction by a measurement.

The error state is [eps; zeta; bias; external]. With hats for the estimate, ``g = g^ exp(eps)``,
and the momentum m with moments about the centre of mass is ``m = diag(R, R)^T m^ + zeta``, R the
rotation of exp(eps); bias of the gyroscope and external wrench are plain differences. To first
order

* ``dV = W (T_m eps + zeta)``, V = W m - A qd, ``T_m eps = [m_v x eps_w; m_w x eps_w]``,
* ``d eps/dt = -ad_V eps + dV``,
* ``d zeta/dt = [zeta_v x w; zeta_w x w] - T_F eps + dF``, F all that pushes the base.

Moments about the origin of {1} would bring in products of its position with the momentum, large
terms that cancel as long as the robot is slow or known well.

A step is a flow without forces between two halves of their push. The flow is integrated along the
axes where the base stood before: there zeta is constant, and of -ad_V eps the turning is gone.
"""

import math

from vm_dynamics.dynamics._entry import jit
from vm_dynamics.dynamics._hybrid_kernels import factor_positive, solve_factored
from vm_dynamics.estimation._layout import (
    ALIVE,
    ANCHOR,
    BIAS_AT,
    BIAS_WALK,
    CONN,
    COV_PHI,
    COV_T,
    EXTERNAL_AT,
    EXTERNAL_WALK,
    EXTERNAL_WORLD,
    GAIN,
    LIFT,
    LIFT_COV,
    MATRICES,
    MEASURE,
    MEMORY,
    POINT,
    Q_MU,
    QD_VARIANCE,
    RATE_COV,
    SHAPE,
    SPACING,
    T_COV,
    TURN_COV,
    TURNING,
    XI,
    B,
    D,
    G,
    H,
    N,
)
from vm_dynamics.estimation._shape_kernels import (
    between_groups,
    compose,
    include,
    iota_of,
    multiply,
    outer_force,
    pinv_of,
    pose_view,
    shift,
    skew_into,
    small,
    times,
    turn_back,
    vector,
    view,
    write_momentum_matrix,
    write_rotation,
    write_turning,
)
from vm_dynamics.lie._kernels import se3_exp

HUGE_VARIANCE = 1e60  # far from overflow
DIFFERENCE = 1e-5  # step of central differences [m, rad, m/s, rad/s]


@jit
def covariance_of(book, row):
    """Covariance in a row's memory, shape (d, d)."""
    d = int(book.tune[D])
    return view(row, MEMORY, d, d)


@jit
def base_velocity(book, row, V):
    """V = W m - A qd at the joint data on the desk, shape (b,)."""
    shape = book.desk[SHAPE]
    b = int(book.tune[B])
    times(view(shape, LIFT, b, b), row[H : H + b], V)
    for i in range(b):
        V[i] -= shape[XI + i]


@jit
def anchor_of(book, row):
    """What stood at the time of the covariance: attitude, rates of eps by eps and by zeta."""
    d = int(book.tune[D])
    return row[MEMORY + d * d : MEMORY + d * d + ANCHOR]


@jit
def drop_anchor(book, row):
    """Let the next step of the covariance begin here, at the joint data on the desk."""
    b = int(book.tune[B])
    anchor, shape = anchor_of(book, row), book.desk[SHAPE]
    for i in range(3):
        for j in range(3):
            anchor[TURN_COV + 3 * i + j] = row[G + 4 * i + j]
    for c in range(b * b):
        anchor[LIFT_COV + c] = shape[LIFT + c]
    base_velocity(book, row, vector(book, 0, b))
    write_rate_of_error(book, row, vector(book, 0, b), view(anchor, RATE_COV, b, b))


@jit
def write_rate_of_error(book, row, V, out):
    """Rate of eps by eps without its turning: ``W T_m eps - [v x eps_w; 0]``, shape (b, b)."""
    b = int(book.tune[B])
    six = vector(book, 15, 6)
    turning, sliding = small(book, 4), small(book, 5)
    full = view(book.desk[MATRICES], 36 * 9, 6, 6)
    write_turning(book, row[H : H + b], turning)
    include(iota_of(book), V, six)
    full[:, :] = 0.0
    skew_into(full, 0, 3, six[0], six[1], six[2])
    between_groups(pinv_of(book), full, iota_of(book), sliding)
    multiply(view(book.desk[SHAPE], LIFT, b, b), turning, out)
    for i in range(b):
        for j in range(b):
            out[i, j] -= sliding[i, j]


@jit
def propagate(book, row, t):
    """Bring the covariance of a row up to time t; the joint data on the desk are those at t."""
    tune = book.tune
    d, b = int(tune[D]), int(tune[B])
    dt = t - row[T_COV]
    if dt <= 0.0:
        return
    P = covariance_of(book, row)
    g, before = pose_view(row), view(vector(book, 7, 16), 0, 4, 4)
    anchor = anchor_of(book, row)
    for i in range(3):
        for j in range(3):
            before[i, j] = anchor[TURN_COV + 3 * i + j]
    V, force = vector(book, 0, b), vector(book, 1, b)
    base_velocity(book, row, V)
    outer_force(book, row, g, V, force)
    pushed = tune[TURNING] != 0.0 or tune[EXTERNAL_AT] >= 0.0
    for i in range(b):
        pushed = pushed or force[i] != 0.0
    phi = view(book.desk[COV_PHI], 0, d, d)
    if pushed:
        write_push(book, row, before, V, 0.5 * dt, phi)
        congruence(book, phi, P)
    write_flow(book, row, V, dt, phi)
    congruence(book, phi, P)
    if pushed:
        write_push(book, row, g, V, 0.5 * dt, phi)
        congruence(book, phi, P)
    add_noise(book, row, dt, P)
    row[T_COV] = t
    drop_anchor(book, row)
    check_covariance(row, P)


@jit
def congruence(book, a, P):
    """P becomes a P a^T, all (d, d)."""
    d = P.shape[0]
    work = view(book.desk[COV_T], 0, d, d)
    multiply(a, P, work)
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for k in range(d):
                total += work[i, k] * a[j, k]
            P[i, j] = P[j, i] = total


@jit
def write_flow(book, row, V, dt, out):
    """Phi of a step without forces, shape (d, d).

    With Q the turn since the last step, J and W dt the means of the rates at both ends along the
    axes of the first: ``eps = Q^T ((1 + Z + Z^2 / 2) eps_0 + (1 + Z / 2) W dt zeta_0)`` with
    Z = J dt, and ``zeta = Q^T zeta_0``.
    """
    b, shape, anchor = int(book.tune[B]), book.desk[SHAPE], anchor_of(book, row)
    turn = view(vector(book, 10, 9), 0, 3, 3)
    Q, Z, W = small(book, 0), small(book, 1), small(book, 2)
    rate, work = small(book, 3), small(book, 6)
    for i in range(3):
        for j in range(3):
            turn[i, j] = 0.0
            for c in range(3):
                turn[i, j] += anchor[TURN_COV + 3 * c + i] * row[G + 4 * c + j]
    write_rotation(book, turn, Q)
    write_rate_of_error(book, row, V, rate)
    mean_of_ends(Q, view(anchor, RATE_COV, b, b), rate, dt, work, Z)
    mean_of_ends(Q, view(anchor, LIFT_COV, b, b), view(shape, LIFT, b, b), dt, work, W)
    multiply(Z, Z, rate)
    for i in range(b):
        for j in range(b):
            rate[i, j] = 0.5 * rate[i, j] + Z[i, j]
            Z[i, j] *= 0.5
        rate[i, i] += 1.0
        Z[i, i] += 1.0
    multiply(Z, W, work)
    out[:, :] = 0.0
    for i in range(out.shape[0]):
        out[i, i] = 1.0
    for i in range(b):
        for j in range(b):
            out[i, j] = out[i, b + j] = 0.0
            out[b + i, b + j] = Q[j, i]
            for k in range(b):
                out[i, j] += Q[k, i] * rate[k, j]
                out[i, b + j] += Q[k, i] * work[k, j]


@jit
def mean_of_ends(Q, first, last, dt, work, out):
    """Dt (first + Q last Q^T) / 2, all (b, b)."""
    multiply(Q, last, work)
    for i in range(Q.shape[0]):
        for j in range(Q.shape[0]):
            total = first[i, j]
            for k in range(Q.shape[0]):
                total += work[i, k] * Q[j, k]
            out[i, j] = 0.5 * dt * total


@jit
def check_covariance(row, P):
    """Give the estimate up if its covariance is none any more."""
    for i in range(P.shape[0]):
        if not 0.0 < P[i, i] <= HUGE_VARIANCE:
            row[ALIVE] = 0.0


@jit
def write_push(book, row, g, V, dt, out):
    """1 and what forces do to zeta in a time dt, at the attitude of a pose g; shape (d, d)."""
    tune, shape = book.tune, book.desk[SHAPE]
    d, b = int(tune[D]), int(tune[B])
    push, force = small(book, 0), vector(book, 1, b)
    out[:, :] = 0.0
    outer_force(book, row, g, V, force)
    write_turning(book, force, push)
    for i in range(b):
        for j in range(b):
            out[b + i, j] = -push[i, j]
    if tune[TURNING] != 0.0:
        add_turning(book, row, g, V, out)
    if book.fluid.size > 0:
        lift, tilt = view(shape, LIFT, b, b), small(book, 1)
        write_turning(book, row[H : H + b], push)
        multiply(lift, push, tilt)
        add_drag(book, row, g, V, tilt, lift, out)
        add_sliding(book, V, push, out)
    if tune[EXTERNAL_AT] >= 0.0:
        at = int(tune[EXTERNAL_AT])
        write_external(book, g, push)
        for i in range(b):
            for j in range(b):
                out[b + i, at + j] = push[i, j]
    for i in range(d):
        for j in range(d):
            out[i, j] *= dt
        out[i, i] += 1.0


@jit
def add_turning(book, row, g, V, out):
    """Add dF/deps, how forces in {1} change when the base turns, by central differences."""
    b = int(book.tune[B])
    iota = iota_of(book)
    six, ahead, behind = vector(book, 9, 6), vector(book, 2, b), vector(book, 3, b)
    factor = view(vector(book, 10, 16), 0, 4, 4)
    turned = view(vector(book, 11, 16), 0, 4, 4)
    for j in range(b):
        for side in range(2):
            for c in range(6):
                six[c] = (DIFFERENCE if side == 0 else -DIFFERENCE) * iota[c, j]
            se3_exp(six, factor)
            compose(g, factor, turned)
            outer_force(book, row, turned, V, ahead if side == 0 else behind)
        for i in range(b):
            out[b + i, j] += (ahead[i] - behind[i]) / (2.0 * DIFFERENCE)


@jit
def add_drag(book, row, g, V, tilt, lift, out):
    """Add dF/dV dV, dV = W T_m eps + W zeta, by central differences."""
    b = int(book.tune[B])
    x, ahead, behind = vector(book, 9, b), vector(book, 2, b), vector(book, 3, b)
    for k in range(b):
        for side in range(2):
            for i in range(b):
                x[i] = V[i]
            x[k] += DIFFERENCE if side == 0 else -DIFFERENCE
            outer_force(book, row, g, x, ahead if side == 0 else behind)
        for i in range(b):
            slope = (ahead[i] - behind[i]) / (2.0 * DIFFERENCE)
            for j in range(b):
                out[b + i, j] += slope * tilt[k, j]
                out[b + i, b + j] += slope * lift[k, j]


@jit
def add_sliding(book, V, turning, out):
    """Add dm_v x v, dm = T_m eps + zeta, of moments about an origin that moves with v."""
    b = int(book.tune[B])
    iota, pinv = iota_of(book), pinv_of(book)
    six = vector(book, 15, 6)
    full = view(book.desk[MATRICES], 36 * 9, 6, 6)
    include(iota, V, six)
    full[:, :] = 0.0
    skew_into(full, 3, 0, -six[0], -six[1], -six[2])
    for i in range(b):
        for k in range(b):
            slope = 0.0
            for c in range(3):
                for e in range(3):
                    slope += iota[3 + c, i] * full[3 + c, e] * pinv[k, e]
            out[b + i, b + k] += slope
            for j in range(b):
                out[b + i, j] += slope * turning[k, j]


@jit
def write_external(book, g, out):
    """How the estimated wrench acts on the momentum, turned and shifted; shape (b, b)."""
    b, shape = int(book.tune[B]), book.desk[SHAPE]
    x = vector(book, 13, b)
    for j in range(b):
        for i in range(b):
            x[i] = 1.0 if i == j else 0.0
        if book.tune[EXTERNAL_WORLD] != 0.0:
            turn_back(book, g, x)
        shift(book, shape[POINT], shape[POINT + 1], shape[POINT + 2], x)
        for i in range(b):
            out[i, j] = x[i]


@jit
def add_noise(book, row, dt, P):
    """Noise of the joints' velocities on the pose, of forces on the momentum, and random walks."""
    tune, shape = book.tune, book.desk[SHAPE]
    b, n = int(tune[B]), int(tune[N])
    A, Q = view(shape, CONN, b, n), view(tune, Q_MU, b, b)
    M, push, spread = small(book, 2), small(book, 0), small(book, 1)
    joint_noise(book, A, A, spread)
    write_momentum_matrix(book, M)
    multiply(M, Q, push)
    for i in range(b):
        for j in range(b):
            P[i, j] += spread[i, j] * row[SPACING] * dt
            total = 0.0
            for k in range(b):
                total += push[i, k] * M[j, k]
            P[b + i, b + j] += total * dt
    if tune[BIAS_AT] >= 0.0:
        at = int(tune[BIAS_AT])
        for i in range(3):
            P[at + i, at + i] += tune[BIAS_WALK] * dt
    if tune[EXTERNAL_AT] >= 0.0:
        at = int(tune[EXTERNAL_AT])
        walk = view(tune, EXTERNAL_WALK, b, b)
        for i in range(b):
            for j in range(b):
                P[at + i, at + j] += walk[i, j] * dt


@jit
def joint_noise(book, left, right, out):
    """Left S right^T, S the variances of the joints' velocities; shapes (l, n), (r, n), (l, r)."""
    for i in range(left.shape[0]):
        for j in range(right.shape[0]):
            total = 0.0
            for k in range(left.shape[1]):
                total += left[i, k] * book.tune[QD_VARIANCE + k] * right[j, k]
            out[i, j] = total


# -- correction ---------------------------------------------------------------------------------


@jit
def measurement(book, m):
    """Room for a measurement of m numbers: H (m, d), noise R (m, m), residual (m,), cross (b, m).

    ``cross`` is the covariance of what joint noise does to the twist and to the residual.
    """
    d, b = int(book.tune[D]), int(book.tune[B])
    desk = book.desk[MEASURE]
    at = m * d
    return (
        view(desk, 0, m, d),
        view(desk, at, m, m),
        desk[at + m * m : at + m * m + m],
        view(desk, at + m * m + m, b, m),
    )


@jit
def weigh(book, row, m):
    """NIS of a measurement on the desk, and gains for it; infinite if it cannot be weighed.

    ``G = P H^T``, ``S = H G + R``, ``K = G S^-1``.
    """
    H_, R, residual, _ = measurement(book, m)
    d = int(book.tune[D])
    P = covariance_of(book, row)
    gain = view(book.desk[GAIN], 0, d, m)
    G_ = view(book.desk[GAIN], d * m, d, m)
    S = view(book.desk[GAIN], 2 * d * m, m, m)
    x = vector(book, 5, m)
    for i in range(d):
        for k in range(m):
            total = 0.0
            for j in range(d):
                total += P[i, j] * H_[k, j]
            G_[i, k] = gain[i, k] = total
    for k in range(m):
        for l in range(m):
            total = R[k, l]
            for j in range(d):
                total += H_[k, j] * G_[j, l]
            S[k, l] = total
    factor_positive(S, m)
    for k in range(m):
        x[k] = residual[k]
    solve_factored(S, x, m)
    nis = 0.0
    for k in range(m):
        nis += residual[k] * x[k]
    for i in range(d):
        solve_factored(S, gain[i], m)
    return nis if math.isfinite(nis) and nis >= 0.0 else math.inf


@jit
def correct(book, row, m):
    """Correct covariance (Joseph) and estimate's differences by what :func:`weigh` left.

    ``P = T - T H^T K^T + K R K^T`` with ``T = (1 - K H) P``. The correction K r stays on the desk
    as vectors 6 and 7, shape (d,).
    """
    H_, R, residual, _ = measurement(book, m)
    d = int(book.tune[D])
    P = covariance_of(book, row)
    gain = view(book.desk[GAIN], 0, d, m)
    G_ = view(book.desk[GAIN], d * m, d, m)
    T = view(book.desk[COV_T], 0, d, d)
    delta = vector(book, 6, d)
    for i in range(d):
        delta[i] = 0.0
        for k in range(m):
            delta[i] += gain[i, k] * residual[k]
        for j in range(d):
            total = P[i, j]
            for k in range(m):
                total -= gain[i, k] * G_[j, k]
            T[i, j] = total
    for i in range(d):
        for k in range(m):
            total = 0.0
            for l in range(m):
                total += gain[i, l] * R[l, k]
            for j in range(d):
                total -= T[i, j] * H_[k, j]
            G_[i, k] = total  # K R - T H^T
    for i in range(d):
        for j in range(i + 1):
            total = 0.5 * (T[i, j] + T[j, i])
            for k in range(m):
                total += 0.5 * (G_[i, k] * gain[j, k] + G_[j, k] * gain[i, k])
            P[i, j] = P[j, i] = total
    check_covariance(row, P)
    return delta
