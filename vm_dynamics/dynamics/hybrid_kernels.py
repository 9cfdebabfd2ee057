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

from vm_dynamics.compiled import all_finite, entry, jit
from vm_dynamics.dynamics.coriolis_kernels import coadjoint, inertia_rate, times_rate
from vm_dynamics.dynamics.general_kernels import carry_inertia, times, write_derivative
from vm_dynamics.dynamics.mass_kernels import (
    BAD_INPUT,
    PLACED,
    column,
    inclusion,
    place_bodies,
    place_inertias,
    project_square,
    times_inertia,
    write_inertia,
)
from vm_dynamics.lie.kernels import POSE_TOLERANCE
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


@jit
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


@jit
def inward(model, placed, screws, passive, acc, force, articulated, work, hinge):
    """Articulated inertias and forces, tips first, (4.6); ``articulated`` has those of the bodies.

    A row of ``hinge`` has G = P S / D (6) and (tau - S . p) / D of a passive joint. What it
    passes on is ``P - U U^T / D`` and ``p + P c + U (tau - S . p - U . c) / D`` with U = P S.
    """
    b = int(model[0, N_BASE])
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


@jit
def factor_positive(a, n):
    """Cholesky factor of a symmetric positive definite (n, n) matrix, in its place.

    Its diagonal becomes the inverse of the factor's. Inlined, so that a constant n unrolls the
    loops.
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


@jit
def solve_factored(a, x, n):
    """Solve in place with what :func:`factor_positive` left."""
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


@jit
def solve_positive(a, x, n):
    """Solve a x = x in place, a symmetric positive definite (n, n), which it destroys."""
    factor_positive(a, n)
    solve_factored(a, x, n)


@jit
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


@jit
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
def add_fluid_inertia(added, placed, base, work, articulated):
    """Let each body carry its added mass, shape (nj + 1, 6, 6) in its own frame, with it.

    Adds ``dA_k/dt V_k - ad_V^T A_k V_k`` to p_k as for a rigid body, and A_k to its inertia.
    """
    here = np.empty((6, 6))
    rate = np.empty((6, 6))
    x = np.empty(6)
    h = np.empty(6)
    hd = np.empty(6)
    for k in range(placed.shape[0]):
        carry_inertia(placed, k, added[k], here)
        for c in range(6):
            x[c] = base[c] + work[k, c]
        write_derivative(here, work[k, :6], rate)
        times(here, x, h)
        times(rate, x, hd)
        y = coadjoint(base, h)
        for c in range(6):
            work[k, 12 + c] += hd[c] - y[c]
            for d in range(6):
                articulated[k, c, d] += here[c, d]


@jit
def subtract_loads(loads, work):
    """Take external wrenches on the bodies, shape (nj + 1, 6) in {1}, off p_k."""
    for k in range(loads.shape[0]):
        for c in range(6):
            work[k, 12 + c] -= loads[k, c]


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


@jit
def moving_bodies(model, g, q, base, qd):
    """Placed bodies, screws, the rows of :func:`outward` and inertias, in new arrays."""
    nj = int(model[0, N_BODIES])
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    work = np.empty((nj + 1, 24))
    inertias = np.empty((nj + 1, 6, 6))
    twist = np.empty(6)
    place_bodies(model, q, placed, screws)
    place_inertias(model, placed)
    include_twist(model, base, twist)
    outward(model, g, twist, qd, placed, screws, work)
    for k in range(nj + 1):
        write_inertia(placed, k, inertias[k])
    return placed, screws, work, inertias


@jit
def solve_motion(model, placed, screws, work, passive, acc, force, articulated):
    """The unknown half of accelerations and forces, by the inward and the outward sweep."""
    hinge = np.empty((placed.shape[0], 7))
    inward(model, placed, screws, passive, acc, force, articulated, work, hinge)
    base_motion(model, passive, acc, force, articulated, work)
    joint_motion(model, screws, passive, acc, force, articulated, work, hinge)


@jit
def loaded_bodies(model, added, g, q, base, qd, loads):
    """:func:`moving_bodies` with added mass and external wrenches; either may have no rows."""
    placed, screws, work, inertias = moving_bodies(model, g, q, base, qd)
    if added.shape[0] > 0:
        twist = np.empty(6)
        include_twist(model, base, twist)
        add_fluid_inertia(added, placed, twist, work, inertias)
    subtract_loads(loads, work)
    return placed, screws, work, inertias


@jit
def needed_forces(model, screws, inertias, work, base_acc, qdd, out):
    """Forces [F; tau], (b + n,), of a motion: N_k a_k + p_k of the bodies, summed inward.

    ``work`` has c_k and p_k, which become the sums, as left by :func:`outward`.
    """
    b = base_acc.size
    include_twist(model, base_acc, work[0, 18:])
    for k in range(1, screws.shape[1]):
        up = int(model[k, PARENT])
        for c in range(6):
            push = screws[c, k] * qdd[int(model[k, DOF])]
            work[k, 18 + c] = work[up, 18 + c] + work[k, 6 + c] + push
    out[:] = 0.0
    for k in range(screws.shape[1] - 1, -1, -1):
        for c in range(6):
            for d in range(6):
                work[k, 12 + c] += inertias[k, c, d] * work[k, 18 + d]
        if k == 0:
            break
        for c in range(6):
            out[b + int(model[k, DOF])] += screws[c, k] * work[k, 12 + c]
            work[int(model[k, PARENT]), 12 + c] += work[k, 12 + c]
    iota = inclusion(model)
    for i in range(b):
        for c in range(6):
            out[i] += iota[c, i] * work[0, 12 + c]


@jit
def solve_dense(model, screws, inertias, work, passive, acc, force):
    """:func:`solve_motion` by the mass matrix: mimic joints are no tree of hinges."""
    size = passive.size
    b = int(model[0, N_BASE])
    mass = np.empty((size, size))
    unit = np.zeros(size)
    bias = np.empty(size)
    none = np.zeros(size)
    for j in range(size):
        unit[j] = 1.0
        still = np.zeros(work.shape)
        needed_forces(model, screws, inertias, still, unit[:b], unit[b:], mass[j])
        unit[j] = 0.0
    needed_forces(model, screws, inertias, work, none[:b], none[b:], bias)
    free = np.flatnonzero(passive)
    small = np.empty((free.size, free.size))
    x = np.empty(free.size)
    for r in range(free.size):
        x[r] = force[free[r]] - bias[free[r]]
        for c in range(size):
            if passive[c] == 0.0:
                x[r] -= mass[free[r], c] * acc[c]
        for c in range(free.size):
            small[r, c] = mass[free[r], free[c]]
    solve_positive(small, x, free.size)
    for r in range(free.size):
        acc[free[r]] = x[r]
    for r in range(size):
        if passive[r] == 0.0:
            force[r] = bias[r]
            for c in range(size):
                force[r] += mass[r, c] * acc[c]


@jit
def hybrid_sweeps(model, added, g, q, base, qd, passive, acc, force, loads):
    """:func:`hybrid` without its checks."""
    placed, screws, work, inertias = loaded_bodies(model, added, g, q, base, qd, loads)
    if model[0, N_BODIES] == model[0, N_DOF]:
        solve_motion(model, placed, screws, work, passive, acc, force, inertias)
    else:
        solve_dense(model, screws, inertias, work, passive, acc, force)


@entry(
    "void(f8[:,::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1],"
    " f8[::1], f8[:,::1])"
)
def hybrid(model, added, g, q, base, qd, passive, acc, force, loads):
    """Fill in the unknown half of accelerations and forces, both [base; joints], (b + n,).

    Args:
        model: packed model; with mimic joints it takes O(n^3).
        added: added mass of every body in its own frame, shape (nj + 1, 6, 6) or (0, 6, 6).
        g: pose of the base in the world, shape (4, 4).
        q: shape (n,).
        base: base velocity, shape (b,).
        qd: joint velocities, shape (n,).
        passive: 1 where the force is given and the acceleration wanted, 0 for the opposite,
            shape (b + n,); the base is as its first entry says.
        acc: accelerations, given where active.
        force: forces, given where passive.
        loads: external wrench on every body in {1}, shape (nj + 1, 6) or (0, 6).
    """
    check_state(model, g, q, base, qd)
    hybrid_sweeps(model, added, g, q, base, qd, passive, acc, force, loads)


@entry(
    "void(f8[:,::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1],"
    " f8[:,::1], f8[::1])"
)
def inverse_dynamics(model, added, g, q, base, qd, base_acc, qdd, loads, out):
    """Base wrench and joint efforts [F; tau], (b + n,), of a motion.

    The arguments are those of :func:`hybrid`.
    """
    check_state(model, g, q, base, qd)
    n = int(model[0, N_DOF])
    b = int(model[0, N_BASE])
    if qdd.size != n or base_acc.size != b or not (all_finite(qdd) and all_finite(base_acc)):
        raise ValueError(BAD_INPUT)
    _, screws, work, inertias = loaded_bodies(model, added, g, q, base, qd, loads)
    needed_forces(model, screws, inertias, work, base_acc, qdd, out)


@entry("void(f8[:,::1], f8[::1], f8[:,::1], f8[::1])")
def generalized_loads(model, q, loads, out):
    """Generalized forces [base; joints], (b + n,), of wrenches on the bodies in {1}."""
    nj = int(model[0, N_BODIES])
    b = int(model[0, N_BASE])
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    place_bodies(model, q, placed, screws)
    total = loads.copy()
    out[:] = 0.0
    for k in range(nj, 0, -1):
        for c in range(6):
            out[b + int(model[k, DOF])] += screws[c, k] * total[k, c]
            total[int(model[k, PARENT]), c] += total[k, c]
    iota = inclusion(model)
    for i in range(b):
        for c in range(6):
            out[i] += iota[c, i] * total[0, c]


@jit
def forward_sweeps(model, g, q, base, qd, force, acc):
    """Accelerations [base; joints] when all are passive: the articulated-body algorithm."""
    placed, screws, work, inertias = moving_bodies(model, g, q, base, qd)
    solve_motion(model, placed, screws, work, np.ones(acc.size), acc, force, inertias)


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


@entry("void(f8[:,::1], f8[:,:,::1], f8[::1], f8[::1], f8[:,::1])")
def disturbance(model, added, q, passive, out):
    """Motion of the passive for a unit motion of each active one, [Jain] (6.4), (b + n, b + n).

    One sweep at rest and without forces for each active column; the others stay zero.
    """
    if q.size != int(model[0, N_DOF]) or not all_finite(q):
        raise ValueError(BAD_INPUT)
    size = passive.size
    nj = int(model[0, N_BODIES])
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    work = np.zeros((nj + 1, 24))
    inertias = np.empty((nj + 1, 6, 6))
    acc = np.empty(size)
    force = np.empty(size)
    place_bodies(model, q, placed, screws)
    place_inertias(model, placed)
    for k in range(nj + 1):
        write_inertia(placed, k, inertias[k])
    if added.shape[0] > 0:
        add_fluid_inertia(added, placed, np.zeros(6), work, inertias)
    out[:, :] = 0.0
    for moved in range(size):
        if passive[moved] != 0.0:
            continue
        work[:, :] = 0.0
        acc[:] = 0.0
        force[:] = 0.0
        acc[moved] = 1.0
        solve_motion(model, placed, screws, work, passive, acc, force, inertias.copy())
        for i in range(size):
            if passive[i] != 0.0:
                out[i, moved] = acc[i]
