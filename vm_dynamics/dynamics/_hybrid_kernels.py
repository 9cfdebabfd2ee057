# SPDX-License-Identifier: Apache-2.0
"""Compiled O(N) sweeps for any set of active and passive degrees of freedom.

Implements: [Jain] eqs. (4.6), (5.x), with the branches of (4.6) as they must be: a passive hinge
computes D, G and the projection, an active one passes its inertia on whole. All in frame {1},
which moves with the base twist V, so inertias and forces of a body add to those of its parent
without a change of frame; the force on a body is ``N_k a_k + p_k``, a_k the rate of the components
of its twist, ``p_k = dN_k/dt V_k - ad_V^T N_k V_k`` less its weight and external wrench.
"""

import math

import numpy as np

from vm_dynamics.dynamics._coriolis_kernels import coadjoint, inertia_rate, times_rate
from vm_dynamics.dynamics._entry import all_finite, entry, inlined, jit
from vm_dynamics.dynamics._kernels import (
    BAD_INPUT,
    PLACED,
    P,
    column,
    inclusion,
    place_bodies,
    place_inertias,
    project_square,
    times_inertia,
    write_inertia,
)
from vm_dynamics.lie.groups import POSE_TOLERANCE
from vm_dynamics.model.table import DOF, GRAVITY, N_BASE, N_BODIES, N_DOF, PARENT


@jit
def is_rigid(g):
    """Whether the upper left of a matrix, (4, 4), is a rotation, to ``POSE_TOLERANCE``."""
    for i in range(3):
        for j in range(i + 1):
            dot = g[i, 0] * g[j, 0] + g[i, 1] * g[j, 1] + g[i, 2] * g[j, 2]
            if not abs(dot - (1.0 if i == j else 0.0)) <= POSE_TOLERANCE:
                return False
    turn = (
        g[0, 0] * (g[1, 1] * g[2, 2] - g[1, 2] * g[2, 1])
        - g[0, 1] * (g[1, 0] * g[2, 2] - g[1, 2] * g[2, 0])
        + g[0, 2] * (g[1, 0] * g[2, 1] - g[1, 1] * g[2, 0])
    )
    return turn > 0.0


@inlined
def outward(model, g, base, qd, placed, screws, work):
    """Twist terms of every body, root first.

    ``work`` has a row of 24 for each body: v_k relative to the base (6), the velocity term
    c_k = [v_k, S_k] qd_k (6), the force p_k (6), and room for a_k (6).
    """
    gx, gy, gz = model[0, GRAVITY], model[0, GRAVITY + 1], model[0, GRAVITY + 2]
    fx = g[0, 0] * gx + g[1, 0] * gy + g[2, 0] * gz
    fy = g[0, 1] * gx + g[1, 1] * gy + g[2, 1] * gz
    fz = g[0, 2] * gx + g[1, 2] * gy + g[2, 2] * gz
    for k in range(placed.shape[0]):
        if k == 0:
            for c in range(12):
                work[0, c] = 0.0
        else:
            up = np.uint64(model[k, PARENT])
            speed = qd[np.uint64(model[k, DOF])]
            vx, vy, vz = screws[0, k] * speed, screws[1, k] * speed, screws[2, k] * speed
            wx, wy, wz = screws[3, k] * speed, screws[4, k] * speed, screws[5, k] * speed
            work[k, 0] = ax = work[up, 0] + vx
            work[k, 1] = ay = work[up, 1] + vy
            work[k, 2] = az = work[up, 2] + vz
            work[k, 3] = bx = work[up, 3] + wx
            work[k, 4] = by = work[up, 4] + wy
            work[k, 5] = bz = work[up, 5] + wz
            work[k, 6] = by * vz - bz * vy + ay * wz - az * wy
            work[k, 7] = bz * vx - bx * vz + az * wx - ax * wz
            work[k, 8] = bx * vy - by * vx + ax * wy - ay * wx
            work[k, 9] = by * wz - bz * wy
            work[k, 10] = bz * wx - bx * wz
            work[k, 11] = bx * wy - by * wx
        v0, v1, v2 = work[k, 0], work[k, 1], work[k, 2]
        v3, v4, v5 = work[k, 3], work[k, 4], work[k, 5]
        x0, x1, x2 = base[0] + v0, base[1] + v1, base[2] + v2
        x3, x4, x5 = base[3] + v3, base[4] + v4, base[5] + v5
        h = times_inertia(placed, k, x0, x1, x2, x3, x4, x5)
        rate = inertia_rate(placed, k, v0, v1, v2, v3, v4, v5)
        hd = times_rate(rate, x0, x1, x2, x3, x4, x5)
        weight = times_inertia(placed, k, fx, fy, fz, 0.0, 0.0, 0.0)
        y = coadjoint(base, h)
        for c in range(6):
            work[k, 12 + c] = hd[c] - y[c] - weight[c]


@inlined
def inward(model, placed, screws, passive, acc, force, articulated, work, hinge):
    """Articulated inertias and forces, tips first, (4.6).

    A row of ``hinge`` has G = P S / D (6) and (tau - S . p) / D of a passive joint. What it
    passes on is ``P - U U^T / D`` and ``p + P c + U (tau - S . p - U . c) / D`` with U = P S.
    """
    b = int(model[0, N_BASE])
    for k in range(placed.shape[0]):
        write_inertia(placed, k, articulated[k])
    for k in range(placed.shape[0] - 1, 0, -1):
        up = np.uint64(model[k, PARENT])
        d = b + int(model[k, DOF])
        free = passive[d] != 0.0
        s0, s1, s2, s3, s4, s5 = column(screws, k)
        # the velocity term, and the given acceleration of an active joint
        extra = 0.0 if free else acc[d]
        c0, c1 = work[k, 6] + extra * s0, work[k, 7] + extra * s1
        c2, c3 = work[k, 8] + extra * s2, work[k, 9] + extra * s3
        c4, c5 = work[k, 10] + extra * s4, work[k, 11] + extra * s5
        for i in range(6):
            p0, p1, p2 = articulated[k, i, 0], articulated[k, i, 1], articulated[k, i, 2]
            p3, p4, p5 = articulated[k, i, 3], articulated[k, i, 4], articulated[k, i, 5]
            hinge[k, i] = p0 * s0 + p1 * s1 + p2 * s2 + p3 * s3 + p4 * s4 + p5 * s5
            work[up, 12 + i] += (
                work[k, 12 + i] + p0 * c0 + p1 * c1 + p2 * c2 + p3 * c3 + p4 * c4 + p5 * c5
            )
            for j in range(6):
                articulated[up, i, j] += articulated[k, i, j]
        if free:
            u0, u1, u2 = hinge[k, 0], hinge[k, 1], hinge[k, 2]
            u3, u4, u5 = hinge[k, 3], hinge[k, 4], hinge[k, 5]
            inverse = 1.0 / (s0 * u0 + s1 * u1 + s2 * u2 + s3 * u3 + s4 * u4 + s5 * u5)
            push = force[d] - (
                s0 * work[k, 12]
                + s1 * work[k, 13]
                + s2 * work[k, 14]
                + s3 * work[k, 15]
                + s4 * work[k, 16]
                + s5 * work[k, 17]
            )
            rest = push - (u0 * c0 + u1 * c1 + u2 * c2 + u3 * c3 + u4 * c4 + u5 * c5)
            hinge[k, 6] = push * inverse
            for i in range(6):
                g = hinge[k, i] * inverse
                work[up, 12 + i] += g * rest
                articulated[up, i, 0] -= g * u0
                articulated[up, i, 1] -= g * u1
                articulated[up, i, 2] -= g * u2
                articulated[up, i, 3] -= g * u3
                articulated[up, i, 4] -= g * u4
                articulated[up, i, 5] -= g * u5
                hinge[k, i] = g


@inlined
def solve_positive(a, x, n):
    """Solve a x = x in place for a symmetric positive definite (n, n) matrix, which it destroys.

    Inlined, so that a constant n unrolls the loops.
    """
    for j in range(n):
        total = a[j, j]
        for k in range(j):
            total -= a[j, k] * a[j, k]
        inverse = 1.0 / math.sqrt(total)
        a[j, j] = inverse
        for i in range(j + 1, n):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = total * inverse
    for i in range(n):
        total = x[i]
        for k in range(i):
            total -= a[i, k] * x[k]
        x[i] = total * a[i, i]
    for i in range(n - 1, -1, -1):
        total = x[i]
        for k in range(i + 1, n):
            total -= a[k, i] * x[k]
        x[i] = total * a[i, i]


@inlined
def base_motion(model, passive, acc, force, articulated, work):
    """Acceleration of a passive base, or wrench of an active one; a_0 into ``work``."""
    iota = inclusion(model)
    b = iota.shape[1]
    if b == 6:
        if passive[0] != 0.0:
            for c in range(6):
                acc[c] = force[c] - work[0, 12 + c]
            solve_positive(articulated[0], acc, 6)  # its inertia is not needed any more
        for c in range(6):
            work[0, 18 + c] = acc[c]
    else:
        if passive[0] != 0.0:
            for i in range(b):
                acc[i] = force[i]
                for c in range(6):
                    acc[i] -= iota[c, i] * work[0, 12 + c]
            small = np.empty((b, b))
            project_square(iota, articulated[0], small)
            solve_positive(small, acc, b)
        for c in range(6):
            total = 0.0
            for i in range(b):
                total += iota[c, i] * acc[i]
            work[0, 18 + c] = total
    if passive[0] == 0.0:
        for i in range(b):
            total = 0.0
            for c in range(6):
                part = work[0, 12 + c]
                for d in range(6):
                    part += articulated[0, c, d] * work[0, 18 + d]
                total += iota[c, i] * part
            force[i] = total


@inlined
def joint_motion(model, screws, passive, acc, force, articulated, work, hinge):
    """Accelerations of the passive joints and forces of the active ones, root first."""
    b = int(model[0, N_BASE])
    for k in range(1, screws.shape[1]):
        up = np.uint64(model[k, PARENT])
        d = b + int(model[k, DOF])
        for c in range(6):
            work[k, 18 + c] = work[up, 18 + c] + work[k, 6 + c]
        if passive[d] != 0.0:
            total = hinge[k, 6]
            for c in range(6):
                total -= hinge[k, c] * work[k, 18 + c]
            acc[d] = total
        for c in range(6):
            work[k, 18 + c] += acc[d] * screws[c, k]
        if passive[d] == 0.0:
            total = 0.0
            for i in range(6):
                part = work[k, 12 + i]
                for j in range(6):
                    part += articulated[k, i, j] * work[k, 18 + j]
                total += screws[i, k] * part
            force[d] = total


@jit
def include_twist(model, x, out):
    """Write iota x of a base velocity, shape (b,), into ``out``, shape (6,)."""
    iota = inclusion(model)
    if iota.shape[1] == 6:
        for c in range(6):
            out[c] = x[c]
        return
    for c in range(6):
        out[c] = 0.0
        for i in range(iota.shape[1]):
            out[c] += iota[c, i] * x[i]


@jit
def add_wrench(placed, body, offset, wrench, work):
    """Take an external wrench [f; t] in the axes of a frame at ``offset`` in a body off p_k."""
    f = np.zeros(3)
    t = np.zeros(3)
    x = np.empty(3)
    for i in range(3):
        x[i] = placed[body, P + i]
        for j in range(3):
            x[i] += placed[body, 3 * i + j] * offset[j, 3]
            for c in range(3):
                turn = placed[body, 3 * i + j] * offset[j, c]
                f[i] += turn * wrench[c]
                t[i] += turn * wrench[3 + c]
    t[0] += x[1] * f[2] - x[2] * f[1]
    t[1] += x[2] * f[0] - x[0] * f[2]
    t[2] += x[0] * f[1] - x[1] * f[0]
    for c in range(3):
        work[body, 12 + c] -= f[c]
        work[body, 15 + c] -= t[c]


@jit
def check_state(model, g, q, base, qd):
    """Refuse sizes that do not fit, NaN, and a pose that is none."""
    n = int(model[0, N_DOF])
    if q.size != n or qd.size != n or base.size != int(model[0, N_BASE]) or g.shape[0] != 4:
        raise ValueError(BAD_INPUT)
    if g.shape[1] != 4 or not is_rigid(g):
        raise ValueError(BAD_INPUT)
    if not (all_finite(q) and all_finite(base) and all_finite(qd)):
        raise ValueError(BAD_INPUT)


@inlined
def moving_bodies(model, g, q, base, qd):
    """Placed bodies, screws and the rows of :func:`outward`, in new arrays."""
    nj = int(model[0, N_BODIES])
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    work = np.empty((nj + 1, 24))
    twist = np.empty(6)
    place_bodies(model, q, placed, screws)
    place_inertias(model, placed)
    include_twist(model, base, twist)
    outward(model, g, twist, qd, placed, screws, work)
    return placed, screws, work


@inlined
def solve_motion(model, placed, screws, work, passive, acc, force):
    """The unknown half of accelerations and forces, by the inward and the outward sweep."""
    articulated = np.empty((placed.shape[0], 6, 6))
    hinge = np.empty((placed.shape[0], 7))
    inward(model, placed, screws, passive, acc, force, articulated, work, hinge)
    base_motion(model, passive, acc, force, articulated, work)
    joint_motion(model, screws, passive, acc, force, articulated, work, hinge)


@entry(
    "void(f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], i8,"
    " f8[:,::1], f8[::1])"
)
def hybrid(model, g, q, base, qd, passive, acc, force, body, offset, wrench):
    """Fill in the unknown half of accelerations and forces, both [base; joints], (b + n,).

    Args:
        model: packed model without mimic joints.
        g: pose of the base in the world, shape (4, 4).
        q: shape (n,).
        base: base velocity, shape (b,).
        qd: joint velocities, shape (n,).
        passive: 1 where the force is given and the acceleration wanted, 0 for the opposite,
            shape (b + n,); the base is as its first entry says.
        acc: accelerations, given where active.
        force: forces, given where passive.
        body: body that an external wrench acts on.
        offset: frame of the wrench in that body, shape (4, 4).
        wrench: [f; t] in that frame, shape (6,).
    """
    check_state(model, g, q, base, qd)
    placed, screws, work = moving_bodies(model, g, q, base, qd)
    add_wrench(placed, body, offset, wrench, work)
    solve_motion(model, placed, screws, work, passive, acc, force)


@jit
def forward_sweeps(model, g, q, base, qd, force, acc):
    """Accelerations [base; joints] when all are passive: the articulated-body algorithm."""
    placed, screws, work = moving_bodies(model, g, q, base, qd)
    solve_motion(model, placed, screws, work, np.ones(acc.size), acc, force)


@entry("void(f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1])")
def forward(model, g, q, base, qd, tau, acc):
    """Accelerations, (b + n,), of a robot whose base nothing pushes but gravity."""
    check_state(model, g, q, base, qd)
    n = int(model[0, N_DOF])
    b = int(model[0, N_BASE])
    if tau.size != n or not all_finite(tau):
        raise ValueError(BAD_INPUT)
    force = np.zeros(b + n)
    for i in range(n):
        force[b + i] = tau[i]
    forward_sweeps(model, g, q, base, qd, force, acc)


@entry("void(f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1])")
def forward_with_wrench(model, g, q, base, qd, tau, base_wrench, acc):
    """Accelerations, (b + n,), with a wrench on the base, shape (b,)."""
    check_state(model, g, q, base, qd)
    n = int(model[0, N_DOF])
    b = int(model[0, N_BASE])
    if tau.size != n or base_wrench.size != b:
        raise ValueError(BAD_INPUT)
    if not (all_finite(tau) and all_finite(base_wrench)):
        raise ValueError(BAD_INPUT)
    force = np.empty(b + n)
    for i in range(b):
        force[i] = base_wrench[i]
    for i in range(n):
        force[b + i] = tau[i]
    forward_sweeps(model, g, q, base, qd, force, acc)


@entry("void(f8[:,::1], f8[::1], f8[::1], f8[:,::1])")
def disturbance(model, q, passive, out):
    """Motion of the passive for a unit motion of each active one, [Jain] (6.4), (b + n, b + n).

    One sweep at rest and without forces for each active column; the others stay zero.
    """
    if q.size != int(model[0, N_DOF]) or not all_finite(q):
        raise ValueError(BAD_INPUT)
    size = passive.size
    nj = int(model[0, N_BODIES])
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    work = np.empty((nj + 1, 24))
    acc = np.empty(size)
    force = np.empty(size)
    place_bodies(model, q, placed, screws)
    place_inertias(model, placed)
    out[:, :] = 0.0
    for moved in range(size):
        if passive[moved] != 0.0:
            continue
        work[:, :] = 0.0
        acc[:] = 0.0
        force[:] = 0.0
        acc[moved] = 1.0
        solve_motion(model, placed, screws, work, passive, acc, force)
        for i in range(size):
            if passive[i] != 0.0:
                out[i, moved] = acc[i]
