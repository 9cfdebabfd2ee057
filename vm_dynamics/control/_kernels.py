# SPDX-License-Identifier: Apache-2.0
"""Compiled control laws in O(n). Conventions as in ``vm_dynamics.dynamics.mass_kernels``.

With S_k the screw of joint k in {1}, N_k the inertia of body k, N^c_k that of all outboard of the
joint, m_k = N^c_k S_k and L = iota M_b^-1 iota^T:

* gradient of the locked energy: ``1/2 mu^T dM_b/dq_k mu = -(N^c_k mu) . [S_k, mu]``,
* the connection transposed: ``A^T x = m_k . L x``,
* all that is linear in velocities or accelerations of the joints, by one sweep out and one in.
"""

import math

import numpy as np

from vm_dynamics.compiled import all_finite, entry, jit
from vm_dynamics.dynamics.coriolis_kernels import bracket, coadjoint, relative_twists
from vm_dynamics.dynamics.general_kernels import dot, times
from vm_dynamics.dynamics.hybrid_kernels import (
    check_state,
    include_twist,
    is_rigid,
    solve_positive,
)
from vm_dynamics.dynamics.kinematics_kernels import into_frame, locate
from vm_dynamics.dynamics.mass_kernels import (
    BAD_INPUT,
    PLACED,
    column,
    composite,
    fold_columns,
    joint_momenta,
    locked_matrix,
    place_bodies,
    place_inertias,
    times_inertia,
)
from vm_dynamics.dynamics.reduced_kernels import shape_inertia
from vm_dynamics.model.table import DOF, N_BASE, N_BODIES, N_DOF, PARENT

# Rows of the settings of the momentum compensator; the first six are those of JointLimits
LOWER = 0
UPPER = 1
VELOCITY = 2
EFFORT = 3
FRICTION = 4
VISCOSITY = 5
STIFFNESS = 6
DAMPING = 7
INTEGRAL = 8  # gains, largest efforts and present efforts of the integral action
MOST_INTEGRAL = 9
INTEGRATED = 10
DRY = 11  # friction that is fed forward, and how much it feels the target's speed and the error
VISCOUS = 12
PACE = 13
PULL = 14
POSITION = 15  # the target and its derivatives
SPEED = 16
ACCELERATION = 17
SETTINGS = 18

# How a limit changed a joint's effort; the sign says in which direction it gives less than asked
BRAKED = 1.0  # but the joint is slow, so that an unknown load may hold it
LACKING = 2.0

BRAKING_RATIO = 4.0  # the least for which a joint does not pass its limit
# Errors of a target that moves faster count less for the integral action: they are not steady, and
# what they add up to would be wrong at its end [rad/s or m/s].
STEADY_SPEED = 0.02
BRAKED_SPEED = 0.5  # of the velocity limit: a joint that is faster is not held by a load
FADING_SPEED = 0.3  # of the velocity limit: so near to it friction is counted on less and less
# Nearly all are solved in two or three; one at a time, few problems of ten unknowns need fifty.
BLOCK_PIVOTS = 10
MOST_PIVOTS = 200


@jit
def has_last_row(g):
    """Whether the last row of a matrix, (4, 4), is that of a pose."""
    return g[3, 0] == 0.0 and g[3, 1] == 0.0 and g[3, 2] == 0.0 and g[3, 3] == 1.0


@entry("void(f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8[::1])")
def check(model, g, q, base, qd):
    """Raise an error unless pose and sizes are valid and all numbers finite."""
    check_state(model, g, q, base, qd)
    if not (has_last_row(g) and all_finite(g.ravel())):
        raise ValueError(BAD_INPUT)


@entry("void(f8[:,::1])")
def check_pose(g):
    """Raise an error unless a matrix is a pose, (4, 4)."""
    if g.shape[0] != 4 or g.shape[1] != 4 or not (all_finite(g.ravel()) and is_rigid(g)):
        raise ValueError(BAD_INPUT)
    if not has_last_row(g):
        raise ValueError(BAD_INPUT)


@jit
def acceleration_window(lower, upper, velocity, time, q, qd):
    """Least and greatest acceleration of a joint that keep its limits."""
    most = max(-velocity, min(velocity, (upper - q) / time))
    least = min(velocity, max(-velocity, (lower - q) / time))
    rate = BRAKING_RATIO / time
    return rate * (least - qd), rate * (most - qd)


@entry("void(f8[:,::1], f8[::1], f8[::1], f8, f8[:,::1])")
def acceleration_windows(limits, q, qd, time, out):
    """:func:`acceleration_window` of all joints, into ``out``, (2, n); none if time is 0."""
    for i in range(q.size):
        out[0, i], out[1, i] = -math.inf, math.inf
        if time > 0.0:
            out[0, i], out[1, i] = acceleration_window(
                limits[LOWER, i], limits[UPPER, i], limits[VELOCITY, i], time, q[i], qd[i]
            )


@jit
def minus_connection(model, locked, momenta, x, out):
    """Base twist -A x, (6,), that joint velocities x, (n,), bring about at zero momentum."""
    total = np.zeros(6)
    for k in range(1, momenta.shape[1]):
        speed = x[int(model[k, DOF])]
        for c in range(6):
            total[c] -= momenta[c, k] * speed
    times(locked, total, out)


@jit
def project_forces(model, screws, momenta, locked, force, out):
    """Add the forces on the shape, S^T f - A^T f_0, of forces on the bodies, (nj + 1, 6)."""
    nj = int(model[0, N_BODIES])
    for k in range(nj, 0, -1):
        up = force[int(model[k, PARENT])]
        for c in range(6):
            up[c] += force[k, c]
    base = np.empty(6)
    times(locked, force[0], base)
    for k in range(1, nj + 1):
        d = int(model[k, DOF])
        out[d] += dot(column(screws, k), force[k]) - dot(column(momenta, k), base)


@jit
def shape_force(model, single, screws, momenta, locked, mu, x, y, z, out):
    """Add Gamma_q(x) y + Lambda_q z, (n,), if the locked velocity mu, (6,), is zero.

    With x = y it adds ``Gamma_q x + B x + tau_hat_2`` too: all that the shape needs at mu. The
    base follows with mu - A x, mu - A y. The force on a body is ``N (a - [v, W]) - ad_W^T N V``
    with v and V its twist relative to the base and in the world by x, W that in the world by y,
    and a the acceleration by z and by the rates [v_i, S_i] of the screws that y moves along.
    """
    nj = int(model[0, N_BODIES])
    motion = np.empty((nj + 1, 18))  # v, W, a
    force = np.empty((nj + 1, 6))
    base = np.empty(6)
    minus_connection(model, locked, momenta, x, base)
    minus_connection(model, locked, momenta, y, motion[0, 6:12])
    minus_connection(model, locked, momenta, z, motion[0, 12:])
    for c in range(6):
        base[c] += mu[c]
        motion[0, 6 + c] += mu[c]
    for k in range(nj + 1):
        m = motion[k]
        if k == 0:
            for c in range(6):
                m[c] = 0.0
        else:
            up = motion[int(model[k, PARENT])]
            d = int(model[k, DOF])
            s0, s1, s2, s3, s4, s5 = column(screws, k)
            s = (s0, s1, s2, s3, s4, s5)
            for c in range(6):
                m[c] = up[c] + s[c] * x[d]
                m[6 + c] = up[6 + c] + s[c] * y[d]
            rate = bracket(m[0], m[1], m[2], m[3], m[4], m[5], s0, s1, s2, s3, s4, s5)
            for c in range(6):
                m[12 + c] = up[12 + c] + rate[c] * y[d] + s[c] * z[d]
        turn = bracket(m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9], m[10], m[11])
        inertial = times_inertia(
            single, k,
            m[12] - turn[0], m[13] - turn[1], m[14] - turn[2],
            m[15] - turn[3], m[16] - turn[4], m[17] - turn[5],
        )  # fmt: skip
        h = times_inertia(
            single, k,
            base[0] + m[0], base[1] + m[1], base[2] + m[2],
            base[3] + m[3], base[4] + m[4], base[5] + m[5],
        )  # fmt: skip
        gyroscopic = coadjoint(m[6:12], h)
        for c in range(6):
            force[k, c] = inertial[c] - gyroscopic[c]
    project_forces(model, screws, momenta, locked, force, out)


@jit
def gyroscopic_force(model, single, screws, momenta, locked, mu, y, out):
    """Add B(mu) y, (n,): what is bilinear in the locked velocity, (6,), and in y.

    The force on a body is ``-N [w, mu] - ad_mu^T N W - ad_W^T N mu`` with w and W its twist
    relative to the base and in the world by y, the base following at zero momentum.
    """
    nj = int(model[0, N_BODIES])
    twists = np.empty((nj + 1, 6))
    force = np.empty((nj + 1, 6))
    minus_connection(model, locked, momenta, y, twists[0])
    base = twists[0]
    for k in range(nj + 1):
        w = twists[k]
        if k > 0:
            up = twists[int(model[k, PARENT])]
            speed = y[int(model[k, DOF])]
            for c in range(6):
                w[c] = up[c] + screws[c, k] * speed
        moved = bracket(
            w[0] - base[0], w[1] - base[1], w[2] - base[2],
            w[3] - base[3], w[4] - base[4], w[5] - base[5],
            mu[0], mu[1], mu[2], mu[3], mu[4], mu[5],
        )  # fmt: skip
        inertial = times_inertia(
            single, k, moved[0], moved[1], moved[2], moved[3], moved[4], moved[5]
        )
        of_y = coadjoint(mu, times_inertia(single, k, w[0], w[1], w[2], w[3], w[4], w[5]))
        of_mu = coadjoint(w, times_inertia(single, k, mu[0], mu[1], mu[2], mu[3], mu[4], mu[5]))
        for c in range(6):
            force[k, c] = -inertial[c] - of_y[c] - of_mu[c]
    project_forces(model, screws, momenta, locked, force, out)


@jit
def momentum_torque(model, comp, screws, momenta, locked, mu, out):
    """Add tau_hat_2 of [Mishra2022] (45), -(S(mu)^T / 2 - A^T ad~_h) mu with h = M_b mu."""
    h = times_inertia(comp, 0, mu[0], mu[1], mu[2], mu[3], mu[4], mu[5])
    turned = np.empty(6)
    base = np.empty(6)
    rate = coadjoint(mu, h)
    for c in range(6):
        turned[c] = rate[c]
    times(locked, turned, base)
    for k in range(1, int(model[0, N_BODIES]) + 1):
        s0, s1, s2, s3, s4, s5 = column(screws, k)
        moved = bracket(s0, s1, s2, s3, s4, s5, mu[0], mu[1], mu[2], mu[3], mu[4], mu[5])
        carried = times_inertia(comp, k, mu[0], mu[1], mu[2], mu[3], mu[4], mu[5])
        out[int(model[k, DOF])] += dot(carried, moved) + dot(column(momenta, k), base)


@jit
def task_torque(settings, q, qd, out):
    """Add tau_c of [Mishra2022] (52) with a quadratic potential, -K (q - q_d) - D (qd - qd_d).

    What friction takes at the velocity that this asks for comes on top.
    """
    for i in range(q.size):
        off, speed = q[i] - settings[POSITION, i], settings[SPEED, i]
        out[i] -= settings[STIFFNESS, i] * off + settings[DAMPING, i] * (qd[i] - speed)
        out[i] += settings[VISCOUS, i] * speed
        if settings[DRY, i] > 0.0:
            sliding = settings[PACE, i] * speed - settings[PULL, i] * off
            out[i] += settings[DRY, i] * math.tanh(sliding)


@jit
def integrate(gain, limit, error, lacking, dt, output):
    """Output of integral action after a step of dt: it stops where actuators give less than asked.

    Args:
        gain: not negative.
        limit: largest magnitude of the output.
        error: what is integrated.
        lacking: its sign is the direction in which actuators give less than asked, else 0.
        dt: time since the last step [s].
        output: that of the last step.
    """
    change = gain * error * dt
    if change * lacking > 0.0:
        return output
    return min(max(output + change, -limit), limit)


@entry("void(f8[::1], f8[::1], f8[::1], f8[::1], f8, f8[::1])")
def integrate_all(gains, limits, errors, lacking, dt, outputs):
    """:func:`integrate` of vectors, (k,); the outputs are changed in place."""
    for i in range(outputs.size):
        outputs[i] = integrate(gains[i], limits[i], errors[i], lacking[i], dt, outputs[i])


@jit
def position_error(settings, q, i):
    """Error of a joint to its target, or to its limit if the target is beyond it."""
    wanted = min(max(settings[POSITION, i], settings[LOWER, i]), settings[UPPER, i])
    return wanted - q[i]


@jit
def shape_matrix(model, screws, momenta, locked, out):
    """Lambda_q, (n, n)."""
    n = out.shape[0]
    mbq = np.empty((6, n))
    a6 = np.empty((6, n))
    fold_columns(model, momenta, mbq)
    for c in range(6):
        for j in range(n):
            total = 0.0
            for d in range(6):
                total += locked[c, d] * mbq[d, j]
            a6[c, j] = total
    shape_inertia(model, momenta, screws, a6, mbq, out)


@jit
def solve_bounded(H, f, low, high, x, side):
    """Minimise 1/2 x.H x - f.x within bounds, H positive definite, by principal pivoting.

    Unknowns beyond a bound go to it, those at a bound whose force points inwards come free: all
    at once as long as that helps, then one at a time, the last first, which comes to an end.

    Args:
        H: shape (n, n).
        f: shape (n,).
        low: shape (n,).
        high: shape (n,).
        x: the solution, shape (n,).
        side: -1, 0 or 1 where x is at its lower bound, free, or at its upper, shape (n,).
    """
    n = f.size
    free = np.empty(n, dtype=np.int64)
    turn = np.empty(n)
    side[:] = 0.0
    for pivot in range(MOST_PIVOTS):
        count = 0
        for i in range(n):
            if side[i] == 0.0:
                free[count] = i
                count += 1
            else:
                x[i] = high[i] if side[i] > 0.0 else low[i]
        block = np.empty((count, count))
        right = np.empty(count)
        for i in range(count):
            k = free[i]
            right[i] = f[k]
            for j in range(n):
                if side[j] != 0.0:
                    right[i] -= H[k, j] * x[j]
            for j in range(count):
                block[i, j] = H[k, free[j]]
        solve_positive(block, right, count)
        for i in range(count):
            x[free[i]] = right[i]
        last = -1
        for i in range(n):
            turn[i] = side[i]
            if side[i] == 0.0:
                turn[i] = 1.0 if x[i] > high[i] else (-1.0 if x[i] < low[i] else 0.0)
            elif low[i] < high[i]:
                force = -f[i]
                for j in range(n):
                    force += H[i, j] * x[j]
                if force * side[i] > 0.0:
                    turn[i] = 0.0
            if turn[i] != side[i]:
                last = i
        if last < 0:
            return
        for i in range(n):
            if i == last or pivot < BLOCK_PIVOTS:
                side[i] = turn[i]
    for i in range(n):
        x[i] = min(max(x[i], low[i]), high[i])


@entry("void(f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1])")
def bounded(H, f, low, high, x, side):
    """:func:`solve_bounded` from Python."""
    solve_bounded(H, f, low, high, x, side)


@jit
def breakaway(net, friction, velocity, least, most):
    """Part of a torque that may go into friction: all of it, less near a limit, and none there.

    Friction is taken to be there only as far as there is speed to gain, for it may be less than
    the URDF says, and then this much would drive the joint.

    Args:
        net: torque beyond what the shape needs.
        friction: of the URDF at the present speed.
        velocity: limit.
        least: speed that may be gained backwards, negative.
        most: speed that may be gained forwards.
    """
    room = most if net > 0.0 else -least
    if room <= 0.0:
        return 0.0
    share = min(1.0, room / (FADING_SPEED * velocity)) if math.isfinite(velocity) else 1.0
    return math.copysign(min(abs(net), share * friction), net)


@jit
def brake(inertia, coriolis, limits, time, q, qd, task, hit):
    """Let brakes act on the joints that would leave their windows of acceleration.

    Gauss' principle: the accelerations are the closest within the windows, in the metric of the
    inertia, so only joints at an edge get another torque than theirs.

    Args:
        inertia: Lambda_q, shape (n, n).
        coriolis: what the shape needs at its velocities and zero acceleration, shape (n,).
        limits: those of JointLimits, in rows, (6 or more, n).
        time: braking time [s].
        q: shape (n,).
        qd: joint velocities, shape (n,).
        task: torques, shape (n,), those of held joints are changed.
        hit: BRAKED or LACKING is written where a joint is held, with the sign of the edge that
            holds it, shape (n,).
    """
    n = q.size
    work = np.empty((6, n))
    low, high, acc, side, f, rub = work[0], work[1], work[2], work[3], work[4], work[5]
    for i in range(n):
        low[i], high[i] = acceleration_window(
            limits[LOWER, i], limits[UPPER, i], limits[VELOCITY, i], time, q[i], qd[i]
        )
        net = task[i] - coriolis[i]
        rub[i] = breakaway(
            net,
            limits[FRICTION, i] + limits[VISCOSITY, i] * abs(qd[i]),
            limits[VELOCITY, i],
            low[i] * time / BRAKING_RATIO,
            high[i] * time / BRAKING_RATIO,
        )
        f[i] = net - rub[i]
    solve_bounded(inertia, f, low, high, acc, side)
    for i in range(n):
        if side[i] != 0.0:
            fast = side[i] * qd[i] > BRAKED_SPEED * limits[VELOCITY, i]
            hit[i] = side[i] * (LACKING if fast else BRAKED)
            task[i] = coriolis[i] + rub[i]
            for j in range(n):
                task[i] += inertia[i, j] * acc[j]


@entry("void(f8[:,::1], f8[::1], f8[:,::1], f8, f8[::1], f8[::1], f8[::1], f8[::1])")
def brakes(inertia, coriolis, limits, time, q, qd, task, hit):
    """:func:`brake` for those who have the matrices; nothing if time is 0."""
    hit[:] = 0.0
    if time > 0.0:
        brake(inertia, coriolis, limits, time, q, qd, task, hit)


@entry("void(f8[:,::1], f8[::1], f8[::1], f8[::1], f8[:,::1], f8[::1], i8, b1, f8, f8, f8[:,::1])")
def compensate(model, q, qd, mu, settings, carried, law, moves, time, dt, out):
    """Torques of the momentum compensator, tau = tau_c + tau_hat of (45), within their limits.

    Args:
        model: packed model.
        q: shape (n,).
        qd: joint velocities, shape (n,).
        mu: locked velocity, shape (b,).
        settings: limits, gains, integral action and target, shape (SETTINGS, n); the row of the
            integral action is changed.
        carried: torques to add for weight and base wrench, shape (n,).
        law: 1 or 2, which of (45).
        moves: whether the target moves.
        time: braking time [s], 0 to limit efforts only.
        dt: time since the last step [s], for the integral action.
        out: tau, tau_hat with ``carried``, and BRAKED or LACKING where a limit was met; shape
            (3, n).
    """
    n = int(model[0, N_DOF])
    nj = int(model[0, N_BODIES])
    if q.size != n or qd.size != n or mu.size != int(model[0, N_BASE]):
        raise ValueError(BAD_INPUT)
    if not (all_finite(q) and all_finite(qd) and all_finite(mu)):
        raise ValueError(BAD_INPUT)
    single = np.empty((nj + 1, PLACED))
    six = np.empty((2, 6, nj + 1))
    screws, momenta = six[0], six[1]
    place_bodies(model, q, single, screws)
    place_inertias(model, single)
    comp = single.copy()
    composite(model, comp)
    joint_momenta(model, comp, screws, momenta)
    locked = np.empty((6, 6))
    locked_matrix(model, comp, locked)
    twist = np.empty(6)
    include_twist(model, mu, twist)

    hat, hit = out[1], out[2]
    task = np.zeros(n)
    for i in range(n):
        hat[i] = carried[i]
        hit[i] = 0.0
    momentum_torque(model, comp, screws, momenta, locked, twist, hat)
    if law == 1:
        gyroscopic_force(model, single, screws, momenta, locked, twist, qd, hat)
    if moves:
        speed = settings[SPEED]
        if law == 2:
            gyroscopic_force(model, single, screws, momenta, locked, twist, speed, task)
        z = settings[ACCELERATION]
        still = np.zeros(6)
        shape_force(model, single, screws, momenta, locked, still, qd, speed, z, task)
    task_torque(settings, q, qd, task)
    if time > 0.0:
        coriolis = np.zeros(n)  # what the shape needs and the compensation does not give
        none = np.zeros(n)
        shape_force(model, single, screws, momenta, locked, twist, qd, qd, none, coriolis)
        for i in range(n):
            coriolis[i] -= hat[i] - carried[i]
        inertia = np.empty((n, n))
        shape_matrix(model, screws, momenta, locked, inertia)
        brake(inertia, coriolis, settings, time, q, qd, task, hit)
    tau = out[0]
    for i in range(n):
        # The brakes leave out the integral action: what it holds against does not accelerate.
        tau[i] = task[i] + hat[i] + settings[INTEGRATED, i]
    if not all_finite(tau):
        raise ValueError(BAD_INPUT)
    for i in range(n):
        limit = settings[EFFORT, i]
        if abs(tau[i]) > limit:
            hit[i] = math.copysign(LACKING, tau[i])
            tau[i] = math.copysign(limit, tau[i])
        settings[INTEGRATED, i] = integrate(
            settings[INTEGRAL, i],
            settings[MOST_INTEGRAL, i],
            position_error(settings, q, i),
            hit[i] if abs(hit[i]) == LACKING else 0.0,
            dt / (1.0 + (settings[SPEED, i] / STEADY_SPEED) ** 2),
            settings[INTEGRATED, i],
        )


@entry("void(f8[:,::1], f8[::1], f8[::1], f8[::1], i8, f8[:,::1], f8[:,::1], f8[::1])")
def link_bias(model, q, base, qd, body, offset, pose, out):
    """Rate dJ/dt [V; qd] of a link's body twist at zero accelerations, (6,), and its pose g_1k.

    .. math:: Ad_1k^-1 (sum_i [v_i, S_i] qd_i - [v_k, V])

    over the joints i on the way to the link, v_i the twists relative to the base.
    """
    nj = int(model[0, N_BODIES])
    screws = locate(model, q, body, offset, pose)
    rates = np.empty((6, nj + 1))
    twists = np.empty((nj + 1, 6))
    relative_twists(model, screws, qd, twists, rates)
    V = np.empty(6)
    include_twist(model, base, V)
    v = twists[body]
    moved = bracket(v[0], v[1], v[2], v[3], v[4], v[5], V[0], V[1], V[2], V[3], V[4], V[5])
    total = np.empty(6)
    for c in range(6):
        total[c] = -moved[c]
    k = body
    while k > 0:
        speed = qd[int(model[k, DOF])]
        for c in range(6):
            total[c] += rates[c, k] * speed
        k = int(model[k, PARENT])
    into_frame(pose, total, out)
