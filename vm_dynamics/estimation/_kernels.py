# SPDX-License-Identifier: Apache-2.0
"""Compiled entry points of the observers: events into the history, estimates out of it.

Events are kept in the order of their stamps, each with the estimate right after it. One that comes
late goes to its place, and what follows it is worked through again; so the estimate does not
depend on the order in which the events came.
"""

import math

from vm_dynamics.dynamics._entry import entry, jit
from vm_dynamics.dynamics._hybrid_kernels import factor_positive, is_rigid
from vm_dynamics.dynamics._kernels import BAD_INPUT
from vm_dynamics.estimation._correction_kernels import apply
from vm_dynamics.estimation._covariance_kernels import covariance_of, joint_noise
from vm_dynamics.estimation._layout import (
    ALIVE,
    BIAS,
    CONN,
    COUNT,
    DATA,
    DIFFERENTIATED,
    EKF,
    EXTERNAL,
    FUTURE,
    GAP,
    HAS_JOINTS,
    HEAD,
    JOINTS,
    KIND,
    LATE,
    LEAD,
    LIE_GROUP,
    LIFT,
    MALFORMED,
    MB,
    MEMORY,
    METHOD,
    NEWEST,
    NIS,
    NOTHING,
    ORDER,
    POSE,
    POSE_COV,
    READING_COV,
    REPEATED,
    SHAPE,
    SPACING,
    STAMP,
    STARTED,
    STRANGE,
    T_POSE,
    TRIM,
    VERDICT,
    WRENCH,
    XI,
    B,
    F,
    G,
    H,
    N,
)
from vm_dynamics.estimation._motion_kernels import advance, transported, write_error
from vm_dynamics.estimation._shape_kernels import (
    Book,
    blend,
    folded,
    full_size,
    multiply,
    small,
    times,
    vector,
    view,
    within,
    write_shape,
    write_turning,
)

# Stamps that do not fit the clock are errors; so many joint samples in a row mean a new clock.
CLOCK_PATIENCE = 10
# Nothing that comes is larger, in SI units, and no estimate is; both are far from overflow.
LARGEST = 1e12
HUGE = 1e18
BOOK = "f8[:,::1], f8[::1], f8[::1], f8[:,::1], i8[::1], f8[:,::1]"


# -- history ------------------------------------------------------------------------------------


@jit
def slot_at(index, i):
    """Number of the row of the i-th oldest event; the ring's length is a power of two."""
    return index[ORDER + ((index[HEAD] + i) & (index.size - ORDER - 1))]


@jit
def is_closed(book):
    """Whether the oldest event builds on one that is gone, so that none can come before it."""
    index = book.index
    if index[COUNT] == 0:
        return False
    oldest = book.rows[slot_at(index, 0)]
    full = index[COUNT] == index.size - ORDER
    return full or (oldest[ALIVE] != 0.0 and oldest[VERDICT] != STARTED)


@jit
def claim(book, stamp, kind):
    """Make room for an event at its place among the others; -1 if there is none for it."""
    index, rows = book.index, book.rows
    mask = index.size - ORDER - 1
    count = at = index[COUNT]
    while at > 0:
        other = rows[slot_at(index, at - 1)]
        if other[STAMP] < stamp or (other[STAMP] == stamp and other[KIND] < kind):
            break
        if other[STAMP] == stamp and other[KIND] == kind:
            index[REPEATED] += 1
            return -1
        at -= 1
    full = count == mask + 1
    # when full, the second oldest builds on what leaves now
    if (at == 0 and is_closed(book)) or (full and at == 1):
        index[LATE] += 1
        return -1
    slot = count
    if full:
        slot = slot_at(index, 0)
        index[HEAD] = (index[HEAD] + 1) & mask
        at -= 1
        count -= 1
    for i in range(count, at, -1):
        index[ORDER + ((index[HEAD] + i) & mask)] = slot_at(index, i - 1)
    index[ORDER + ((index[HEAD] + at) & mask)] = slot
    index[COUNT] = count + 1
    row = rows[slot]
    row[STAMP] = stamp
    row[KIND] = kind
    row[VERDICT] = NOTHING
    return at


@folded
def settle(book, at):
    """Work through the events from number ``at`` on, and those that a joint sample changes.

    Each inherits the estimate of the one before it, moves it on, and takes in what came.
    """
    index, rows = book.index, book.rows
    data, b = int(book.tune[DATA]), int(book.tune[B])
    count = index[COUNT]
    start = first_changed(book, at)
    left = joints_before(book, start)
    ahead = start
    for i in range(start, count):
        row = rows[slot_at(index, i)]
        t = row[STAMP]
        ahead = max(ahead, i)
        while ahead < count and rows[slot_at(index, ahead), KIND] != JOINTS:
            ahead += 1
        right = slot_at(index, ahead) if ahead < count else -1
        lost = interrupted(book, t, left, right)
        before = rows[slot_at(index, max(i - 1, 0))]
        for c in range(ALIVE, data):
            row[c] = before[c] if i > 0 else 0.0
        if lost:
            row[ALIVE] = 0.0
        elif row[ALIVE] != 0.0:
            if left >= 0 and right >= 0:
                row[SPACING] = rows[right, STAMP] - rows[left, STAMP]
            advance(book, row, before[STAMP], t, left, right)
        verdict = NOTHING
        if row[KIND] == JOINTS:
            row[TRIM : TRIM + 6] = 0.0
            left = right
        elif row[KIND] == WRENCH:
            for c in range(b):
                row[F + c] = row[data + c]
        elif not lost:
            verdict = apply(book, row, left, right)
        index[int(row[VERDICT])] -= 1
        index[verdict] += 1
        row[VERDICT] = verdict
        if row[ALIVE] != 0.0 and not within(row[G:MEMORY], HUGE):
            row[ALIVE] = 0.0


@jit
def first_changed(book, at):
    """Number of the first event that event ``at`` changes: joints change all since the last."""
    index, rows = book.index, book.rows
    if rows[slot_at(index, at), KIND] != JOINTS:
        return at
    start = at
    while start > 0 and rows[slot_at(index, start - 1), KIND] != JOINTS:
        start -= 1
    return 1 if start == 0 and at > 0 and is_closed(book) else start


@jit
def joints_before(book, i):
    """Row of the last joint sample before event i, -1 if there is none."""
    for k in range(i - 1, -1, -1):
        if book.rows[slot_at(book.index, k), KIND] == JOINTS:
            return slot_at(book.index, k)
    return -1


@jit
def interrupted(book, t, left, right):
    """Whether nothing is known of the joints at time t."""
    rows, gap = book.rows, book.tune[GAP]
    if left < 0 and right < 0:
        return True
    if left < 0:
        return rows[right, STAMP] - t > gap
    if right < 0:
        return t - rows[left, STAMP] > gap
    return rows[right, STAMP] - rows[left, STAMP] > gap


# -- events -------------------------------------------------------------------------------------


@jit
def keeps_time(book, stamp):
    """Whether a joint sample's stamp fits the clock; if many in a row do not, a new one begins."""
    index, tune = book.index, book.tune
    if index[HAS_JOINTS] == 0:
        return True
    ahead = stamp > tune[NEWEST] + tune[GAP]
    behind = is_closed(book) and stamp < book.rows[slot_at(index, 0), STAMP]
    if not (ahead or behind):
        index[STRANGE] = 0
        return True
    index[FUTURE if ahead else LATE] += 1
    index[STRANGE] += 1
    if index[STRANGE] < CLOCK_PATIENCE:
        return False
    index[COUNT] = index[HEAD] = index[STRANGE] = index[HAS_JOINTS] = 0
    return True


@jit
def is_covariance(a, factor):
    """Whether a matrix is symmetric to rounding and positive definite."""
    m = a.shape[0]
    for i in range(m):
        for j in range(m):
            if not abs(a[i, j] - a[j, i]) <= 1e-9 * (abs(a[i, i]) + abs(a[j, j])):
                return False
            factor[i, j] = a[i, j]
    factor_positive(factor, m)
    for i in range(m):
        if not (factor[i, i] > 0.0 and math.isfinite(factor[i, i])):
            return False
    return True


@jit
def is_good(book, kind, stamp, value, other, covariance):
    """Whether an event holds sensible numbers, a pose that is one, a covariance that is one."""
    if not (math.isfinite(stamp) and within(value, LARGEST) and within(other, LARGEST)):
        return False
    if kind == JOINTS or kind == WRENCH:
        return True
    if kind == POSE:
        g = view(value, 0, 4, 4)
        if g[3, 0] != 0.0 or g[3, 1] != 0.0 or g[3, 2] != 0.0 or g[3, 3] != 1.0:
            return False
        if not is_rigid(g):
            return False
    m = covariance.shape[0]
    return is_covariance(covariance, view(book.desk[SHAPE], 0, m, m))


@entry(f"void({BOOK}, i8, f8, f8[::1], f8[::1], f8[:,::1])")
def event(model, fluid, tune, rows, index, desk, kind, stamp, value, other, covariance):
    """Whatever comes: joints, a base wrench, a gyroscope's reading, a velocity or a pose.

    One entry point for all, for the whole observer is compiled with it.

    Args:
        model: and the next five, see ``_layout``.
        fluid: the same.
        tune: the same.
        rows: the same.
        index: the same.
        desk: the same.
        kind: which of them.
        stamp: [s].
        value: q; F; w; v and its axes (1 for the world's); or a pose's 16 numbers.
        other: qd for joints, else nothing.
        covariance: of a pose, shape (b, b), or a reading, (3, 3).
    """
    if kind == JOINTS and (value.size != int(tune[N]) or other.size != value.size):
        raise ValueError(BAD_INPUT)
    book = Book(model, fluid, tune, rows, index, desk)
    if not is_good(book, kind, stamp, value, other, covariance):
        index[MALFORMED] += 1
        return
    if kind == JOINTS:
        if not keeps_time(book, stamp):
            return
    elif index[HAS_JOINTS] != 0 and stamp > tune[NEWEST] + tune[LEAD]:
        index[FUTURE] += 1
        return
    at = claim(book, stamp, kind)
    if at < 0:
        return
    row = rows[slot_at(index, at)]
    if kind == JOINTS:
        if index[HAS_JOINTS] == 0 or stamp > tune[NEWEST]:
            tune[NEWEST] = stamp
            index[HAS_JOINTS] = 1
        write_shape(book, row, value, other)
    else:
        data = int(tune[DATA])
        m = covariance.shape[0]
        where = data + (POSE_COV if kind == POSE else READING_COV)
        for c in range(value.size):
            row[data + c] = value[c]
        for i in range(m):
            for j in range(m):
                row[where + i * m + j] = covariance[i, j]
    settle(book, at)


# -- estimates ----------------------------------------------------------------------------------


@jit
def newest_shape(book):
    """Blend the joint data at the newest event and return its row, or -1 if none is alive."""
    index, rows = book.index, book.rows
    last = index[COUNT] - 1
    if last < 0 or rows[slot_at(index, last), ALIVE] == 0.0:
        return -1
    for i in range(last, -1, -1):
        slot = slot_at(index, i)
        if rows[slot, KIND] == JOINTS:
            blend(book, slot, -1, rows[slot, STAMP], full_size(book))
            return slot_at(index, last)
    return -1


@entry(f"void({BOOK}, f8[:,::1])")
def read(model, fluid, tune, rows, index, desk, out):
    """The newest estimate into ``out``, shape (7, 16), zeros while there is none.

    Rows: pose; V; mu; h; stamp, stamp of the last pose used, NIS, whether alive; bias; external
    wrench.
    """
    book = Book(model, fluid, tune, rows, index, desk)
    out[:, :] = 0.0
    last = index[COUNT] - 1
    if last >= 0:
        newest = rows[slot_at(index, last)]
        out[4, 0], out[4, 1], out[4, 2] = newest[STAMP], newest[T_POSE], newest[NIS]
    for c in range(4):
        out[0, 5 * c] = 1.0
    slot = newest_shape(book)
    if slot < 0:
        return
    out[4, 3] = 1.0
    row = rows[slot]
    b = int(tune[B])
    shape = desk[SHAPE]
    V, mu, h = out[1, :b], out[2, :b], out[3, :b]
    state = row[H : H + b]
    for c in range(16):
        out[0, c] = row[G + c]
    if tune[METHOD] == LIE_GROUP:
        eta = view(vector(book, 11, 16), 0, 4, 4)
        write_error(book, row, eta)
        transported(book, eta, state, mu)
    elif tune[METHOD] == DIFFERENTIATED:
        for i in range(b):
            mu[i] = state[i] + shape[XI + i]
    else:
        times(view(shape, LIFT, b, b), state, mu)
    times(view(shape, MB, b, b), mu, h)
    for i in range(b):
        V[i] = mu[i] - shape[XI + i] + row[TRIM + i]
        out[6, i] = row[EXTERNAL + i]
    for i in range(3):
        out[5, i] = row[BIAS + i]


@entry(f"void({BOOK}, f8[:,::1], f8[:,::1])")
def read_covariance(model, fluid, tune, rows, index, desk, inner, out):
    """Covariance of the error state, (d, d), and of (pose error, twist error), (2b, 2b).

    The error of the twist is ``W (T_m eps + zeta) + A n``, n the noise of the joints' velocities.
    """
    book = Book(model, fluid, tune, rows, index, desk)
    inner[:, :] = 0.0
    out[:, :] = 0.0
    slot = newest_shape(book)
    if slot < 0 or tune[METHOD] != EKF:
        return
    row = rows[slot]
    b, n = int(tune[B]), int(tune[N])
    inner[:, :] = covariance_of(book, row)
    shape = desk[SHAPE]
    lift = view(shape, LIFT, b, b)
    A = view(shape, CONN, b, n)
    turning, tilt, noise = small(book, 0), small(book, 1), small(book, 2)
    write_turning(book, row[H : H + b], turning)
    multiply(lift, turning, tilt)
    joint_noise(book, A, A, noise)
    for i in range(b):
        for j in range(b):
            out[i, j] = inner[i, j]
            cross = 0.0
            total = noise[i, j]
            for k in range(b):
                cross += inner[i, k] * tilt[j, k] + inner[i, b + k] * lift[j, k]
                for l in range(b):
                    total += tilt[i, k] * (inner[k, l] * tilt[j, l] + inner[k, b + l] * lift[j, l])
                    total += lift[i, k] * (
                        inner[b + k, l] * tilt[j, l] + inner[b + k, b + l] * lift[j, l]
                    )
            out[i, b + j] = out[b + j, i] = cross
            out[b + i, b + j] = total
