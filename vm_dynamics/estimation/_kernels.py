# SPDX-License-Identifier: Apache-2.0
"""Compiled parts of the observers: the joint data of a sample, motion, flow of the errors.

All in frame {1} and in six dimensions, twists [v; w]. A base group enters by its inclusion
``iota``, shape (6, b), and the projector ``iota iota^+``, transposed, of forces on those that it
feels, shape (6, 6). Momenta m have their moments about the centre of mass, or the origin of {1}.
"""

import numpy as np

from vm_dynamics.compiled import entry, jit
from vm_dynamics.dynamics.coriolis_kernels import coadjoint
from vm_dynamics.dynamics.general_kernels import times
from vm_dynamics.dynamics.hybrid_kernels import factor_positive, solve_factored
from vm_dynamics.dynamics.kinematics_kernels import compose
from vm_dynamics.dynamics.mass_kernels import BAD_INPUT, project_square
from vm_dynamics.lie.kernels import se3_exp

# Nothing that comes is larger, in SI units, and no estimate is; all are far from overflow.
LARGEST = 1e12
HUGE = 1e18
HUGE_VARIANCE = 1e60


@jit
def within(x, limit):
    """Whether all of a vector is no larger than a limit, and no NaN."""
    for i in range(x.size):
        if not abs(x[i]) <= limit:
            return False
    return True


@jit
def multiply(a, b, out):
    """Out = a b, matrices of six rows and columns."""
    for i in range(6):
        for j in range(6):
            total = 0.0
            for k in range(6):
                total += a[i, k] * b[k, j]
            out[i, j] = total


@jit
def turned_back(g, x):
    """diag(R, R)^T x of the rotation of a pose, as six scalars."""
    return (
        g[0, 0] * x[0] + g[1, 0] * x[1] + g[2, 0] * x[2],
        g[0, 1] * x[0] + g[1, 1] * x[1] + g[2, 1] * x[2],
        g[0, 2] * x[0] + g[1, 2] * x[1] + g[2, 2] * x[2],
        g[0, 0] * x[3] + g[1, 0] * x[4] + g[2, 0] * x[5],
        g[0, 1] * x[3] + g[1, 1] * x[4] + g[2, 1] * x[5],
        g[0, 2] * x[3] + g[1, 2] * x[4] + g[2, 2] * x[5],
    )


# -- a joint sample -------------------------------------------------------------------------------


@entry(
    "b1(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8, f8[::1], f8[::1],"
    " f8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[::1])"
)
def write_shape(rigid, mass, iota, projector, about, q, qd, xi, com, lift, M_b, A, q_out, qd_out):
    """All that a joint sample decides; False if it holds no sensible numbers.

    Args:
        rigid: mass matrix of the bodies on SE(3), shape (6 + n, 6 + n).
        mass: the same with added mass, where there is a fluid.
        iota: inclusion of the base group, shape (6, b).
        projector: of forces on those that the group feels, shape (6, 6).
        about: 1 for moments of the momentum about the centre of mass, 0 about the origin.
        q: shape (n,).
        qd: shape (n,).
        xi: the twist iota A qd, shape (6,).
        com: centre of mass, shape (3,).
        lift: from a momentum to the twist iota mu of the locked velocity, shape (6, 6).
        M_b: locked inertia, shape (b, b).
        A: connection, shape (b, n).
        q_out: q again.
        qd_out: qd again.
    """
    b, n = A.shape
    if q.size != n or qd.size != n:
        raise ValueError(BAD_INPUT)
    if not (within(q, LARGEST) and within(qd, LARGEST)):
        return False
    com[0] = rigid[1, 5] / rigid[0, 0]
    com[1] = rigid[2, 3] / rigid[0, 0]
    com[2] = rigid[0, 4] / rigid[0, 0]
    project_square(iota, mass, M_b)
    # rows of iota M_b^-1, and A^T = M_bq^T iota M_b^-1
    factor = np.empty((b, b))
    half = np.empty((6, b))
    for i in range(b):
        for j in range(b):
            factor[i, j] = M_b[i, j]
    factor_positive(factor, b)
    for c in range(6):
        for i in range(b):
            half[c, i] = iota[c, i]
        solve_factored(factor, half[c], b)
    locked = np.zeros(b)
    for j in range(n):
        q_out[j] = q[j]
        qd_out[j] = qd[j]
        for i in range(b):
            total = 0.0
            for c in range(6):
                total += half[c, i] * mass[6 + j, c]
            A[i, j] = total
            locked[i] += total * qd[j]
    for c in range(6):
        xi[c] = 0.0
        for i in range(b):
            xi[c] += iota[c, i] * locked[i]
    write_lift(iota, projector, half, about * com[0], about * com[1], about * com[2], lift)
    return True


@jit
def write_lift(iota, projector, half, x, y, z, out):
    """Iota half^T X^-1 projector, half = iota M_b^-1, X the shift of moments to (x, y, z)."""
    row = np.empty(6)
    b = half.shape[1]
    for i in range(6):
        for c in range(6):
            row[c] = half[c, i] if b == 6 else 0.0  # iota of SE(3) is 1
            if b < 6:
                for k in range(b):
                    row[c] += iota[i, k] * half[c, k]
        row[0] += row[4] * z - row[5] * y
        row[1] += row[5] * x - row[3] * z
        row[2] += row[3] * y - row[4] * x
        for j in range(6):
            out[i, j] = row[j]
        if b < 6:
            for j in range(6):
                out[i, j] = 0.0
                for c in range(6):
                    out[i, j] += row[c] * projector[c, j]


@entry("void(f8[::1], f8[::1], f8, f8[::1])")
def blend(left, right, weight, out):
    """Numbers between two samples: out = left + weight (right - left)."""
    for i in range(out.size):
        out[i] = left[i] + weight * (right[i] - left[i])


# -- forces and motion ----------------------------------------------------------------------------


@jit
def push(shift, com, weight, wrenches, projector, g, out):
    """All that pushes a robot in the dry, on the momentum, shape (6,).

    Args:
        shift: the point that moments are about, shape (3,).
        com: centre of mass, shape (3,).
        weight: mass times the acceleration of free fall in the world, shape (3,).
        wrenches: row 0 on {1} along its axes, row 1 along the world's, shape (2, 6).
        projector: of forces on those that the group feels, shape (6, 6).
        g: pose of the base, shape (4, 4).
        out: the force.
    """
    x = np.empty(6)
    turned = turned_back(g, wrenches[1])
    down = turned_back(g, (weight[0], weight[1], weight[2], 0.0, 0.0, 0.0))
    # minus the moment that the weight loses by a shift to the origin
    moment = coadjoint((com[0], com[1], com[2], 0.0, 0.0, 0.0), down)
    for i in range(6):
        x[i] = turned[i] + down[i] - moment[i]
    times(projector, x, out)
    for i in range(6):
        out[i] += wrenches[0, i]
    moved = coadjoint((shift[0], shift[1], shift[2], 0.0, 0.0, 0.0), out)
    for i in range(6):
        x[i] = out[i] + moved[i]
    times(projector, x, out)


@jit
def velocity(lift, xi, m, out):
    """Twist of the base, iota V = lift m - iota A qd, shape (6,)."""
    times(lift, m, out)
    for i in range(6):
        out[i] -= xi[i]


@jit
def turn(xi, lift, force, g, m, dt, g_out, m_out, V):
    """Move for a time dt: ``dg/dt = g V``, both halves of m turn with the base; half the force.

    V is that in the middle of the step. The half of the force's push that belongs to the end of
    the step is left to the caller, who knows the force there.
    """
    x = np.empty(6)
    factor = np.empty((4, 4))
    velocity(lift, xi, m, V)
    turning = coadjoint((0.0, 0.0, 0.0, V[3], V[4], V[5]), m)
    for i in range(6):
        x[i] = m[i] + 0.5 * dt * (turning[i] + force[i])
    velocity(lift, xi, x, V)
    for i in range(6):
        x[i] = dt * V[i]
    se3_exp(x, factor)
    compose(g, factor, g_out)
    for i in range(6):
        x[i] = m[i] + 0.5 * dt * force[i]
    turned = turned_back(factor, x)
    for i in range(6):
        m_out[i] = turned[i]


@entry(
    "b1(f8[::1], f8[::1], f8[:,::1], f8[::1], f8[::1], f8[:,::1], f8[:,::1],"
    " f8[:,::1], f8[::1], f8, f8[:,::1], f8[::1])"
)
def move(shift, xi, lift, com, weight, wrenches, projector, g, m, dt, g_out, m_out):
    """One step of pose and momentum in the dry; False when the numbers are beyond reason.

    Arguments as in :func:`push` and :func:`write_shape`; from (g, m) to (g_out, m_out).
    """
    force = np.zeros(6)
    V = np.empty(6)
    is_pushed = not (within(wrenches[0], 0.0) and within(wrenches[1], 0.0) and within(weight, 0.0))
    if is_pushed:
        push(shift, com, weight, wrenches, projector, g, force)
    turn(xi, lift, force, g, m, dt, g_out, m_out, V)
    if is_pushed:
        push(shift, com, weight, wrenches, projector, g_out, force)
        for i in range(6):
            m_out[i] += 0.5 * dt * force[i]
    return within(m_out, HUGE) and within(g_out[0], HUGE) and within(g_out[1], HUGE)


@entry("void(f8[::1], f8[::1], f8[::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1])")
def dry_force(shift, com, weight, wrenches, projector, g, out):
    """:func:`push` by itself."""
    push(shift, com, weight, wrenches, projector, g, out)


@entry("void(f8[::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8, f8[:,::1], f8[::1], f8[::1])")
def half_move(xi, lift, force, g, m, dt, g_out, m_out, V):
    """:func:`turn` by itself, for forces that the caller works out."""
    turn(xi, lift, force, g, m, dt, g_out, m_out, V)


# -- flow of the errors ---------------------------------------------------------------------------


@jit
def write_error_rate(xi, lift, m, out):
    """Rate of eps by eps without its turning: ``W T_m eps - [v x eps_w; 0]``, shape (6, 6)."""
    V = np.empty(6)
    velocity(lift, xi, m, V)
    for i in range(6):
        for c in range(3):
            d, e = (c + 1) % 3, (c + 2) % 3
            out[i, c] = 0.0
            # a^T x^ = (a x x)^T, by halves
            out[i, 3 + c] = lift[i, d] * m[e] - lift[i, e] * m[d]
            out[i, 3 + c] += lift[i, 3 + d] * m[3 + e] - lift[i, 3 + e] * m[3 + d]
    out[0, 4] += V[2]
    out[0, 5] -= V[1]
    out[1, 3] -= V[2]
    out[1, 5] += V[0]
    out[2, 3] += V[1]
    out[2, 4] -= V[0]


@jit
def mean_of_ends(Q, first, last, dt, work, out):
    """Dt (first + Q last Q^T) / 2, all (6, 6)."""
    multiply(Q, last, work)
    for i in range(6):
        for j in range(6):
            total = first[i, j]
            for k in range(6):
                total += work[i, k] * Q[j, k]
            out[i, j] = 0.5 * dt * total


@entry(
    "void(f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8,"
    " f8[:,::1])"
)
def flow(g0, xi0, lift0, m0, g, xi, lift, m, dt, out):
    """How (eps, zeta) move in a time dt without forces, shape (12, 12).

    The flow is integrated along the axes where the base stood before: there zeta is constant, and
    of -ad_V eps the turning is gone. With Q the turn since then, J and W the means of the rates at
    both ends, Z = J dt:
    ``eps = Q^T ((1 + Z + Z^2 / 2) eps_0 + (1 + Z / 2) W dt zeta_0)`` and ``zeta = Q^T zeta_0``.
    """
    Q = np.zeros((6, 6))
    first = np.empty((6, 6))
    last = np.empty((6, 6))
    Z = np.empty((6, 6))
    W = np.empty((6, 6))
    work = np.empty((6, 6))
    for i in range(3):
        for j in range(3):
            total = g0[0, i] * g[0, j] + g0[1, i] * g[1, j] + g0[2, i] * g[2, j]
            Q[i, j] = Q[3 + i, 3 + j] = total
    write_error_rate(xi0, lift0, m0, first)
    write_error_rate(xi, lift, m, last)
    mean_of_ends(Q, first, last, dt, work, Z)
    mean_of_ends(Q, lift0, lift, dt, work, W)
    multiply(Z, Z, first)
    multiply(Z, W, last)
    for i in range(6):
        for j in range(6):
            first[i, j] = (1.0 if i == j else 0.0) + Z[i, j] + 0.5 * first[i, j]
            last[i, j] = W[i, j] + 0.5 * last[i, j]
    for i in range(6):
        for j in range(6):
            upper = right = 0.0
            for k in range(6):
                upper += Q[k, i] * first[k, j]
                right += Q[k, i] * last[k, j]
            out[i, j] = upper
            out[i, 6 + j] = right
            out[6 + i, j] = 0.0
            out[6 + i, 6 + j] = Q[j, i]


@jit
def write_momentum_matrix(iota, pinv, M_b, point, out):
    """Momentum about a point for a locked velocity: M_b with its moments shifted, shape (b, b)."""
    six = np.empty(6)
    for j in range(M_b.shape[0]):
        for c in range(6):
            six[c] = 0.0
            for i in range(M_b.shape[0]):
                six[c] += pinv[i, c] * M_b[i, j]
        moved = coadjoint((point[0], point[1], point[2], 0.0, 0.0, 0.0), six)
        for i in range(M_b.shape[0]):
            total = 0.0
            for c in range(6):
                total += iota[c, i] * (six[c] + moved[c])
            out[i, j] = total


@jit
def add_product(factor, a, middle, out, at):
    """Add factor a middle a^T to the block of ``out`` that begins at (at, at)."""
    rows, columns = a.shape
    half = np.zeros((rows, columns))
    for i in range(rows):
        for k in range(columns):
            for j in range(columns):
                half[i, j] += factor * a[i, k] * middle[k, j]
    for i in range(rows):
        for j in range(rows):
            total = 0.0
            for k in range(columns):
                total += half[i, k] * a[j, k]
            out[at + i, at + j] += total


@entry(
    "b1(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[:,::1],"
    " f8[:,::1], f8[:,::1], f8, f8, f8[:,::1])"
)
def propagate(
    Phi, P, iota, pinv, M_b, point, A, joint_noise, disturbance, walks, spacing, dt, out
):
    """Covariance after a step: ``Phi P Phi^T`` and noise; False if it can be none.

    Args:
        Phi: of the step, shape (d, d).
        P: before it, the same.
        iota: inclusion of the base group, shape (6, b).
        pinv: its pseudo-inverse, shape (b, 6).
        M_b: locked inertia, shape (b, b).
        point: that moments of the momentum are about, shape (3,).
        A: connection, shape (b, n).
        joint_noise: covariance of the joints' velocities, shape (n, n).
        disturbance: of the locked velocity, a second, shape (b, b).
        walks: of what is estimated besides, a second, shape (d, d).
        spacing: of the joint samples [s].
        dt: [s].
        out: P after the step.
    """
    b = M_b.shape[0]
    M = np.empty((b, b))
    for i in range(out.shape[0]):
        for j in range(out.shape[0]):
            out[i, j] = 0.0
    add_product(1.0, Phi, P, out, 0)
    add_product(spacing * dt, A, joint_noise, out, 0)
    write_momentum_matrix(iota, pinv, M_b, point, M)
    add_product(dt, M, disturbance, out, b)
    is_possible = True
    for i in range(out.shape[0]):
        for j in range(i + 1):
            mean = 0.5 * (out[i, j] + out[j, i]) + dt * walks[i, j]
            out[i, j] = out[j, i] = mean
        is_possible = is_possible and 0.0 < out[i, i] <= HUGE_VARIANCE
    return is_possible
