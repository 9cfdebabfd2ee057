# SPDX-License-Identifier: Apache-2.0
"""Compiled corrections of the estimates by poses, gyroscopes and velocities, and their beginning.

A pose measures ``eps = Log(g^^-1 g_m)`` itself. A gyroscope on link k measures
``R_1k^T (w + J_w qd) + bias``, a velocity log ``v`` or ``R v``; both through V = W m - A qd,
so that the noise of the joints' velocities is in their residuals too.
"""

import math

from vm_dynamics.dynamics._entry import jit
from vm_dynamics.dynamics._hybrid_kernels import factor_positive, solve_factored
from vm_dynamics.dynamics._kernels import PLACED, place_bodies
from vm_dynamics.estimation._covariance_kernels import (
    base_velocity,
    correct,
    covariance_of,
    drop_anchor,
    joint_noise,
    measurement,
    propagate,
    weigh,
)
from vm_dynamics.estimation._layout import (
    ALIVE,
    ALPHA_BETA,
    BANDWIDTH,
    BIAS,
    BIAS_AT,
    BIAS_START,
    CONN,
    COV_F,
    CUTOFF,
    DATA,
    EKF,
    EXTERNAL,
    EXTERNAL_AT,
    EXTERNAL_START,
    GAIN,
    GATE_POSE,
    GATE_READING,
    GYRO,
    GYRO_BODY,
    GYRO_ROTATION,
    KIND,
    LIE_GROUP,
    LIFT,
    M_0,
    MB,
    MEMORY,
    METHOD,
    MISSES,
    MU_0,
    NIS,
    NOTHING,
    PATIENCE,
    PLACED_ROW,
    POSE,
    POSE_COV,
    READING_AXES,
    READING_COV,
    REJECTED,
    SCREWS_ROW,
    SHAPE,
    STAMP,
    START_MU,
    STARTED,
    T_COV,
    T_POSE,
    TRIM,
    USED,
    WIDE,
    B,
    D,
    G,
    H,
    N,
)
from vm_dynamics.estimation._shape_kernels import (
    between,
    blend,
    compose,
    coordinates,
    folded,
    full_size,
    include,
    iota_of,
    multiply,
    pinv_of,
    pose_view,
    small,
    straighten,
    times,
    turn_back,
    vector,
    view,
    write_momentum_matrix,
    write_turning,
)
from vm_dynamics.lie._kernels import se3_exp, se3_log
from vm_dynamics.model.table import DOF, N_BODIES, PARENT

WIDENING = 3.0  # of the start's deviation, each time that it was too narrow
WIDEST = 8.0
SHORTEST = 1e-6  # [s], between poses whose difference is a velocity


@folded
def apply(book, row, left, right):
    """Take in a measurement at the end of a row's step; returns its verdict."""
    tune = book.tune
    t = row[STAMP]
    blend(book, left, right, t, full_size(book))
    if row[KIND] == POSE:
        if row[ALIVE] == 0.0:
            return begin(book, row, False)
        if tune[METHOD] == EKF:
            propagate(book, row, t)
            return apply_pose(book, row) if row[ALIVE] != 0.0 else NOTHING
        pose_error(book, row)
        weigh_plainly(book, row)
        if tune[METHOD] == ALPHA_BETA:
            return apply_constant_gains(book, row)
        if tune[METHOD] == LIE_GROUP:
            return hold_error(book, row)
        return differentiate(book, row)
    if row[ALIVE] == 0.0 or tune[METHOD] != EKF:
        return NOTHING
    propagate(book, row, t)
    if row[ALIVE] == 0.0:
        return NOTHING
    if row[KIND] == GYRO:
        expect_gyro(book, row)
    else:
        expect_velocity(book, row)
    return apply_reading(book, row)


@jit
def measured_pose(book, row):
    """The pose that came with a row, shape (4, 4)."""
    return view(row, int(book.tune[DATA]), 4, 4)


@jit
def pose_error(book, row):
    """Pose error e = iota^+ Log(g^^-1 g_m), shape (b,), as vector 0 of the desk."""
    e = vector(book, 0, int(book.tune[B]))
    six = vector(book, 9, 6)
    away = view(vector(book, 10, 16), 0, 4, 4)
    between(pose_view(row), measured_pose(book, row), away)
    se3_log(away, six)
    coordinates(pinv_of(book), six, e)
    return e


@jit
def pose_noise(book, row):
    """Covariance that came with a pose, shape (b, b)."""
    b = int(book.tune[B])
    return view(row, int(book.tune[DATA]) + POSE_COV, b, b)


# -- beginning ----------------------------------------------------------------------------------


@jit
def begin(book, row, keep):
    """Begin with a pose: m = M mu_0 unless it is kept, P = diag(R, M s^2 M^T, ...)."""
    tune = book.tune
    b = int(tune[B])
    M = small(book, 1)
    h = row[H : H + b]
    write_momentum_matrix(book, M)
    for c in range(16):
        row[G + c] = row[int(tune[DATA]) + c]
    for i in range(b):
        row[TRIM + i] = 0.0
    if tune[METHOD] == EKF:
        if not keep:
            times(M, tune[MU_0 : MU_0 + b], h)
            for i in range(6):
                row[EXTERNAL + i] = 0.0
            for i in range(3):
                row[BIAS + i] = 0.0
        begin_covariance(book, row)
    elif tune[METHOD] == ALPHA_BETA:
        times(M, tune[MU_0 : MU_0 + b], h)
    elif tune[METHOD] == LIE_GROUP:
        begin_printed(book, row)
    else:
        for c in range(16):
            row[MEMORY + c] = row[G + c]
        row[MEMORY + 16] = 0.0
        for i in range(b):
            h[i] = 0.0
    row[ALIVE] = 1.0
    row[T_COV] = row[T_POSE] = row[STAMP]
    row[MISSES] = row[NIS] = 0.0
    return STARTED


@jit
def begin_covariance(book, row):
    """Covariance of an estimate that begins with the pose of its row."""
    tune = book.tune
    b = int(tune[B])
    P, M, R = covariance_of(book, row), small(book, 1), pose_noise(book, row)
    write_momentum_matrix(book, M)
    start, push = view(tune, START_MU, b, b), small(book, 0)
    wide = WIDENING ** (2.0 * min(row[WIDE], WIDEST))
    multiply(M, start, push)
    P[:, :] = 0.0
    for i in range(b):
        for j in range(b):
            P[i, j] = R[i, j]
            total = 0.0
            for k in range(b):
                total += push[i, k] * M[j, k]
            P[b + i, b + j] = wide * total
    if tune[BIAS_AT] >= 0.0:
        for i in range(3):
            at = int(tune[BIAS_AT]) + i
            P[at, at] = tune[BIAS_START]
    if tune[EXTERNAL_AT] >= 0.0:
        at = int(tune[EXTERNAL_AT])
        external = view(tune, EXTERNAL_START, b, b)
        for i in range(b):
            for j in range(b):
                P[at + i, at + j] = external[i, j]
    drop_anchor(book, row)


@jit
def begin_printed(book, row):
    """Begin without error; M_b here is the M_b(q0) of the second gain."""
    tune, shape = book.tune, book.desk[SHAPE]
    b = int(tune[B])
    for i in range(b):
        row[H + i] = tune[MU_0 + i]
        row[MEMORY + i] = 0.0
    for i in range(b * b):
        tune[M_0 + i] = shape[MB + i]


# -- poses --------------------------------------------------------------------------------------


@jit
def apply_pose(book, row):
    """Correct the filter by a pose, or reject it; begin anew after too many rejections."""
    tune = book.tune
    b = int(tune[B])
    H_, R, residual, _ = measurement(book, b)
    noise = pose_noise(book, row)
    e = pose_error(book, row)
    H_[:, :] = 0.0
    for i in range(b):
        H_[i, i] = 1.0
        residual[i] = e[i]
        for j in range(b):
            R[i, j] = noise[i, j]
    row[NIS] = nis = min(weigh(book, row, b), 1e300)
    if not nis <= tune[GATE_POSE]:
        row[MISSES] += 1.0
        if row[MISSES] < tune[PATIENCE]:
            return REJECTED
        # when the frame of the poses jumps, the momentum does not: drop it only if that has failed
        verdict = begin(book, row, row[WIDE] == 0.0)
        row[WIDE] += 1.0
        row[NIS] = nis
        return verdict
    inject(book, row, correct(book, row, b))
    straighten(pose_view(row))
    row[T_POSE] = row[STAMP]
    row[MISSES] = row[WIDE] = 0.0
    return USED


@jit
def inject(book, row, delta):
    """Move the estimate by a correction: g exp(d_eps), m turned back + d_zeta, and the rest."""
    tune = book.tune
    b = int(tune[B])
    g = pose_view(row)
    six = vector(book, 9, 6)
    factor = view(vector(book, 10, 16), 0, 4, 4)
    h = row[H : H + b]
    include(iota_of(book), delta[:b], six)
    se3_exp(six, factor)
    compose(g, factor, g)
    turn_back(book, factor, h)
    for i in range(b):
        h[i] += delta[b + i]
    recentre(book, row, delta[b : 2 * b])
    if tune[BIAS_AT] >= 0.0:
        for i in range(3):
            row[BIAS + i] += delta[int(tune[BIAS_AT]) + i]
    if tune[EXTERNAL_AT] >= 0.0:
        for i in range(b):
            row[EXTERNAL + i] += delta[int(tune[EXTERNAL_AT]) + i]
    drop_anchor(book, row)


@jit
def recentre(book, row, delta):
    """Write the covariance for the corrected momentum: zeta becomes ``zeta - T_delta eps``.

    The momentum that is known to turn with the pose has grown by delta, shape (b,). Without this a
    gyroscope, which is blind to the attitude, would seem to measure it.
    """
    b, d = int(book.tune[B]), int(book.tune[D])
    P, turn = covariance_of(book, row), small(book, 0)
    write_turning(book, delta, turn)
    for i in range(b):
        for j in range(d):
            for k in range(b):
                P[b + i, j] -= turn[i, k] * P[k, j]
    for j in range(d):
        for i in range(b):
            for k in range(b):
                P[j, b + i] -= turn[i, k] * P[j, k]


@jit
def weigh_plainly(book, row):
    """Error of a pose in units of its own noise, for observers without covariance."""
    b = int(book.tune[B])
    e, x = vector(book, 0, b), vector(book, 5, b)
    noise, factor = pose_noise(book, row), small(book, 0)
    for i in range(b):
        x[i] = e[i]
        for j in range(b):
            factor[i, j] = noise[i, j]
    factor_positive(factor, b)
    solve_factored(factor, x, b)
    total = 0.0
    for i in range(b):
        total += e[i] * x[i]
    row[NIS] = total if total <= 1e300 else 1e300  # NaN too, of a covariance near singular


@jit
def apply_constant_gains(book, row):
    """Correct to g exp(alpha e), m + M (beta / T) e, critically damped at the bandwidth w."""
    tune = book.tune
    b = int(tune[B])
    T = row[STAMP] - row[T_POSE]
    z = math.exp(-tune[BANDWIDTH] * T)
    alpha, beta = 1.0 - z * z, (1.0 - z) * (1.0 - z)
    e, push, six = vector(book, 0, b), vector(book, 1, b), vector(book, 9, 6)
    factor = view(vector(book, 10, 16), 0, 4, 4)
    write_momentum_matrix(book, small(book, 0))
    times(small(book, 0), e, push)
    include(iota_of(book), e, six)
    for c in range(6):
        six[c] *= alpha
    se3_exp(six, factor)
    compose(pose_view(row), factor, pose_view(row))
    straighten(pose_view(row))
    for i in range(b):
        row[H + i] += beta / T * push[i]
    row[T_POSE] = row[STAMP]
    return USED


@jit
def hold_error(book, row):
    """Remember the pose error for the steps to come."""
    e = vector(book, 0, int(book.tune[B]))
    for i in range(e.size):
        row[MEMORY + i] = e[i]
    straighten(pose_view(row))
    row[T_POSE] = row[STAMP]
    return USED


@jit
def differentiate(book, row):
    """Velocity from the last pose to this one, through a low pass."""
    tune = book.tune
    b = int(tune[B])
    T = row[STAMP] - row[T_POSE]
    if T < SHORTEST:
        return NOTHING
    six, V = vector(book, 9, 6), vector(book, 1, b)
    away = view(vector(book, 10, 16), 0, 4, 4)
    between(view(row, MEMORY, 4, 4), measured_pose(book, row), away)
    se3_log(away, six)
    coordinates(pinv_of(book), six, V)
    # the first difference is all that is known
    share = 1.0 - math.exp(-2.0 * math.pi * tune[CUTOFF] * T) if row[MEMORY + 16] > 0.0 else 1.0
    for i in range(b):
        row[H + i] += share * (V[i] / T - row[H + i])
    for c in range(16):
        row[G + c] = row[MEMORY + c] = row[int(tune[DATA]) + c]
    row[MEMORY + 16] = 1.0
    row[T_POSE] = row[STAMP]
    return USED


# -- readings -----------------------------------------------------------------------------------


@jit
def expect(book, row, turn, part, through):
    """Fill in H and R of a reading ``turn part V``, and the noise of the joints in both.

    Args:
        book: the observer.
        row: the row whose estimate it is compared with.
        turn: shape (3, 3).
        part: three rows of iota, shape (3, b).
        through: how the reading's residual depends on the joints' noise, shape (3, n).
    """
    tune, shape = book.tune, book.desk[SHAPE]
    b, n = int(tune[B]), int(tune[N])
    H_, R, _, cross = measurement(book, 3)
    lift = view(shape, LIFT, b, b)
    turning, tilt = small(book, 0), small(book, 1)
    write_turning(book, row[H : H + b], turning)
    multiply(lift, turning, tilt)
    H_[:, :] = 0.0
    for i in range(3):
        for k in range(b):
            weight = turn[0, i] * part[0, k] + turn[1, i] * part[1, k] + turn[2, i] * part[2, k]
            for j in range(b):
                H_[i, j] += weight * tilt[k, j]
                H_[i, b + j] += weight * lift[k, j]
    joint_noise(book, through, through, R)
    joint_noise(book, view(shape, CONN, b, n), through, cross)


@jit
def expect_gyro(book, row):
    """Residual, H and R of a gyroscope's reading."""
    tune, shape, model = book.tune, book.desk[SHAPE], book.model
    b, n = int(tune[B]), int(tune[N])
    bodies = int(model[0, N_BODIES]) + 1
    data = int(tune[DATA])
    q = shape[CONN + 6 * n : CONN + 7 * n]
    qd = shape[CONN + 7 * n : CONN + 8 * n]
    placed = view(book.desk[PLACED_ROW], 0, bodies, PLACED)
    screws = view(book.desk[SCREWS_ROW], 0, 6, bodies)
    place_bodies(model, q, placed, screws)
    body = int(tune[GYRO_BODY])
    turn = view(vector(book, 2, 9), 0, 3, 3)
    for i in range(3):
        for j in range(3):
            turn[i, j] = 0.0
            for c in range(3):
                turn[i, j] += placed[body, 3 * i + c] * tune[GYRO_ROTATION + 3 * c + j]
    part = iota_of(book)[3:]
    V, w = vector(book, 0, b), vector(book, 3, 3)
    base_velocity(book, row, V)
    times(part, V, w)
    # turn^T (iota_w A - J_w), and w of the link in {1}
    through = view(book.desk[COV_F], 0, 3, n)
    A = view(shape, CONN, b, n)
    multiply(part, A, through)
    k = body
    while k > 0:
        j = int(model[k, DOF])
        for c in range(3):
            w[c] += screws[3 + c, k] * qd[j]
            through[c, j] -= screws[3 + c, k]
        k = int(model[k, PARENT])
    turn_columns(turn, through)
    expect(book, row, turn, part, through)
    H_, R, residual, _ = measurement(book, 3)
    at = int(tune[BIAS_AT])
    for i in range(3):
        H_[i, at + i] = 1.0
        expected = turn[0, i] * w[0] + turn[1, i] * w[1] + turn[2, i] * w[2]
        residual[i] = row[data + i] - row[BIAS + i] - expected
        for j in range(3):
            R[i, j] += row[data + READING_COV + 3 * i + j]


@jit
def turn_columns(turn, x):
    """Turn columns: x becomes turn^T x, shape (3, n)."""
    for j in range(x.shape[1]):
        a, b, c = x[0, j], x[1, j], x[2, j]
        for i in range(3):
            x[i, j] = turn[0, i] * a + turn[1, i] * b + turn[2, i] * c


@jit
def expect_velocity(book, row):
    """Residual, H and R of a linear velocity of {1}'s origin, all in {1}."""
    tune, shape = book.tune, book.desk[SHAPE]
    b, n = int(tune[B]), int(tune[N])
    data = int(tune[DATA])
    g = pose_view(row)
    iota = iota_of(book)
    part = iota[:3]
    turn = view(vector(book, 2, 9), 0, 3, 3)
    turn[:, :] = 0.0
    turn[0, 0] = turn[1, 1] = turn[2, 2] = 1.0
    V, v = vector(book, 0, b), vector(book, 3, 3)
    base_velocity(book, row, V)
    times(part, V, v)
    through = view(book.desk[COV_F], 0, 3, n)
    multiply(part, view(shape, CONN, b, n), through)
    expect(book, row, turn, part, through)
    H_, R, residual, _ = measurement(book, 3)
    noise = view(row, data + READING_COV, 3, 3)
    world = row[data + READING_AXES] != 0.0
    for i in range(3):
        residual[i] = -v[i]
        for j in range(3):
            # R^T v_m and R^T noise R for one along the world's axes
            residual[i] += (g[j, i] if world else turn[j, i]) * row[data + j]
            for c in range(3):
                for d in range(3):
                    left = g[c, i] if world else turn[c, i]
                    R[i, j] += left * noise[c, d] * (g[d, j] if world else turn[d, j])
    if world:  # R exp(eps) v = R (v + eps_w x v)
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            for c in range(b):
                H_[i, c] += iota[3 + j, c] * v[k] - iota[3 + k, c] * v[j]


@jit
def apply_reading(book, row):
    """Correct the filter by a reading of three numbers, and the twist for the joints' noise."""
    nis = weigh(book, row, 3)
    if not nis <= book.tune[GATE_READING]:
        return REJECTED
    _, _, residual, cross = measurement(book, 3)
    d, b = int(book.tune[D]), int(book.tune[B])
    S = view(book.desk[GAIN], 6 * d, 3, 3)
    x = vector(book, 5, 3)
    for i in range(3):
        x[i] = residual[i]
    solve_factored(S, x, 3)
    for i in range(b):
        row[TRIM + i] = cross[i, 0] * x[0] + cross[i, 1] * x[1] + cross[i, 2] * x[2]
    inject(book, row, correct(book, row, 3))
    return USED
