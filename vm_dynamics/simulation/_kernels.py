# SPDX-License-Identifier: Apache-2.0
"""Compiled steps of the integrators, from one row of a trajectory to the next.

The pose of the base advances by ``g exp(x)`` with x in the algebra of its group: no parameters of
the rotation, nothing to renormalise. Forces that the caller gives are held over the step.
"""

import math

import numpy as np

from vm_dynamics.compiled import all_finite, entry, jit
from vm_dynamics.dynamics.coriolis_kernels import bracket, coadjoint, relative_twists
from vm_dynamics.dynamics.general_kernels import dot, mass_of_inertias
from vm_dynamics.dynamics.hybrid_kernels import (
    factor_positive,
    include_twist,
    loaded_bodies,
    needed_forces,
    solve_factored,
    solve_positive,
)
from vm_dynamics.dynamics.kinematics_kernels import (
    wrench_in_frame,
)
from vm_dynamics.dynamics.mass_kernels import (
    BAD_INPUT,
    PLACED,
    at_shape,
    column,
    inclusion,
    mass_from_passes,
    place_bodies,
    place_inertias,
    times_inertia,
)
from vm_dynamics.dynamics.motion_kernels import accelerate, move_base, runge_kutta_step
from vm_dynamics.lie.kernels import dexp_inv_coefficients, se3_exp
from vm_dynamics.model.table import DOF, N_BASE, N_BODIES, PARENT

# A step of 1 ms converges to rounding in five rounds; more than this is a step far too long.
MOST_ROUNDS = 50
CONVERGED = 1e-14  # of the momentum
DIVERGED = "diverged"

STEP = (
    "void(f8[:,::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[::1], f8[::1],"
    " f8[::1], f8[::1], f8[::1], f8[:,::1], f8, f8[:,::1], f8[::1], f8[::1], f8[::1])"
)


@jit
def check_motion(base, qd):
    """Stop where velocities are beyond all bounds."""
    if not (all_finite(base) and all_finite(qd)):
        raise RuntimeError(DIVERGED)


@jit
def check_forces(acc, force, loads):
    """Refuse NaN and infinity from the caller's law."""
    if not (all_finite(acc) and all_finite(force) and all_finite(loads.ravel())):
        raise ValueError(BAD_INPUT)


@entry(STEP)
def semi_implicit(
    model,
    added,
    elements,
    current,
    g,
    q,
    base,
    qd,
    passive,
    acc,
    force,
    loads,
    h,
    g1,
    q1,
    V1,
    qd1,
):
    """Velocities by the accelerations of the old state, then positions by the new velocities.

    Args:
        model: packed model.
        added: added mass of the bodies, shape (nj + 1, 6, 6), or no rows in the dry.
        elements: coefficients of the fluid, shape (m, ELEMENT).
        current: velocity of the fluid, shape (3,).
        g: pose of the base, shape (4, 4).
        q: shape (n,).
        base: base velocity, shape (b,).
        qd: joint velocities, shape (n,).
        passive: 1 for a passive degree of freedom, shape (b + n,).
        acc: accelerations of the active ones, shape (b + n,).
        force: forces on the passive ones, shape (b + n,); those of the active ones at the step's
            beginning when it returns.
        loads: external wrenches on the bodies in {1}, shape (nj + 1, 6) or (0, 6).
        h: the step [s].
        g1: the state after it, as the four above.
        q1: the same.
        V1: the same.
        qd1: the same.
    """
    check_forces(acc, force, loads)
    b = base.size
    a = np.empty(acc.size)
    x = np.empty(b)
    accelerate(model, added, elements, current, g, q, base, qd, passive, acc, force, loads, a)
    for i in range(b):
        V1[i] = base[i] + h * a[i]
        x[i] = h * V1[i]
    for i in range(q.size):
        qd1[i] = qd[i] + h * a[b + i]
        q1[i] = q[i] + h * qd1[i]
    check_motion(V1, qd1)
    move_base(model, g, x, g1)


@entry(STEP)
def runge_kutta(
    model,
    added,
    elements,
    current,
    g,
    q,
    base,
    qd,
    passive,
    acc,
    force,
    loads,
    h,
    g1,
    q1,
    V1,
    qd1,
):
    """Runge-Kutta-Munthe-Kaas of order four; the arguments are those of :func:`semi_implicit`."""
    check_forces(acc, force, loads)
    runge_kutta_step(
        model, added, elements, current, g, q, base, qd, passive, acc, force, loads, h,
        g1, q1, V1, qd1,
    )  # fmt: skip
    check_motion(V1, qd1)
    check_motion(g1.ravel(), q1)


@jit
def momenta_and_gradient(model, q, base, qd, momenta, gradient):
    """Momenta [P; p] = M [V; qd], (b + n,), and the gradient of the kinetic energy by q, (n,).

    A joint turns all that is outboard of it, so ``dT/dq_k = -H_k . [S_k, V_k]`` with the momentum
    H_k of it and the twist V_k of its body.
    """
    nj = int(model[0, N_BODIES])
    b = base.size
    placed = np.empty((nj + 1, PLACED))
    six = np.empty((2, 6, nj + 1))
    screws = six[0]
    twists = np.empty((nj + 1, 6))
    sums = np.empty((nj + 1, 6))
    V = np.empty(6)
    place_bodies(model, q, placed, screws)
    place_inertias(model, placed)
    include_twist(model, base, V)
    relative_twists(model, screws, qd, twists, six[1])
    for k in range(nj + 1):
        for c in range(6):
            twists[k, c] += V[c]
        v = twists[k]
        h = times_inertia(placed, k, v[0], v[1], v[2], v[3], v[4], v[5])
        for c in range(6):
            sums[k, c] = h[c]
    momenta[:] = 0.0
    gradient[:] = 0.0
    for k in range(nj, 0, -1):
        d = int(model[k, DOF])
        s, v = column(screws, k), twists[k]
        y = bracket(s[0], s[1], s[2], s[3], s[4], s[5], v[0], v[1], v[2], v[3], v[4], v[5])
        momenta[b + d] += dot(s, sums[k])
        gradient[d] -= dot(y, sums[k])
        sums[int(model[k, PARENT])] += sums[k]
    iota = inclusion(model)
    for i in range(b):
        for c in range(6):
            momenta[i] += iota[c, i] * sums[0, c]


@jit
def lift_momentum(iota, x, out):
    """A momentum of SE(3), (6,), whose part on the group is x, (b,)."""
    out[:] = 0.0
    for i in range(iota.shape[1]):
        norm = 0.0
        for c in range(6):
            norm += iota[c, i] * iota[c, i]
        for c in range(6):
            out[c] += iota[c, i] * x[i] / norm


@jit
def carry_momentum(model, x, momentum, out):
    """Ad^T of exp(iota x) on a momentum, both (b,): from the frame before to that after."""
    iota = inclusion(model)
    twist = np.empty(6)
    move = np.empty((4, 4))
    full = np.empty(6)
    include_twist(model, x, twist)
    se3_exp(twist, move)
    lift_momentum(iota, momentum, full)
    after = wrench_in_frame(move, full)
    for i in range(iota.shape[1]):
        out[i] = 0.0
        for c in range(6):
            out[i] += iota[c, i] * after[c]


@jit
def node_momentum(model, x, momentum, out):
    """dexp^-T(x) of a momentum, both (b,): from the middle of a move exp(x) to its beginning."""
    iota = inclusion(model)
    twist = np.empty(6)
    power = np.empty(6)
    total = np.empty(6)
    include_twist(model, x, twist)
    lift_momentum(iota, momentum, power)
    total[:] = power
    c2, c4 = dexp_inv_coefficients(twist[3] ** 2 + twist[4] ** 2 + twist[5] ** 2)
    factors = (-0.5, c2, 0.0, c4)
    for k in range(4):
        y = coadjoint(twist, power)
        for c in range(6):
            power[c] = y[c]
            total[c] += factors[k] * y[c]
    for i in range(iota.shape[1]):
        out[i] = 0.0
        for c in range(6):
            out[i] += iota[c, i] * total[c]


@jit
def weight(model, g, q, out):
    """Generalized force of gravity [base; joints], (b + n,)."""
    n, b = q.size, int(model[0, N_BASE])
    none = np.zeros(b + n)
    _, screws, work, inertias = loaded_bodies(
        model, np.empty((0, 6, 6)), g, q, none[:b], none[b:], np.empty((0, 6))
    )
    needed_forces(model, screws, inertias, work, none[:b], none[b:], out)
    for i in range(b + n):
        out[i] = -out[i]


@jit
def mass_factor(model, q):
    """Cholesky factor of the mass matrix, for :func:`solve_factored`."""
    size = int(model[0, N_BASE]) + q.size
    out = np.empty((size, size))
    placed, screws, momenta = at_shape(model, q)
    mass_from_passes(model, placed, screws, momenta, out)
    factor_positive(out, size)
    return out


@jit
def midpoint_forces(model, g, q, x, eta, force, h, total):
    """Given forces and weight in the middle of the step, its pose g exp(x / 2); (b + n,)."""
    b = x.size
    pose = np.empty((4, 4))
    move_base(model, g, 0.5 * x, pose)
    weight(model, pose, q + 0.5 * h * eta, total)
    for i in range(b + q.size):
        total[i] += force[i]


@entry(
    "void(f8[:,::1], f8[:,::1], f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8,"
    " f8[:,::1], f8[::1], f8[::1], f8[::1])"
)
def variational(model, g, q, base, qd, momenta, force, h, g1, q1, base1, qd1):
    """A step of the variational midpoint rule on the group, which keeps momentum to rounding.

    The discrete Lagrangian is ``h l(q + h eta / 2, xi, eta)`` with ``g1 = g exp(h xi)`` and
    ``q1 = q + h eta``. Its momenta at both ends, P and p those of the middle:

    * ``P_0 = dexp^-T(h xi) P``, ``p_0 = p - h/2 dT/dq``, solved for xi and eta,
    * ``P_1 = Ad^T(exp(h xi)) P_0``, ``p_1 = p + h/2 dT/dq``,

    with half of the impulse of the forces at either end.

    Args:
        model: packed model.
        g: pose of the base, shape (4, 4).
        q: shape (n,).
        base: base velocity, shape (b,), where the search starts.
        qd: joint velocities, shape (n,), likewise.
        momenta: [P; p] before the step, shape (b + n,); after it when it returns.
        force: given forces [F; tau], shape (b + n,).
        h: the step [s].
        g1: the state after it.
        q1: the same.
        base1: the same.
        qd1: the same.
    """
    b, n = base.size, q.size
    if not all_finite(force):
        raise ValueError(BAD_INPUT)
    middle = np.empty(b + n)
    total = np.empty(b + n)
    residual = np.empty(b + n)
    gradient = np.empty(n)
    early = np.zeros(b)
    xi = base.copy()
    eta = qd.copy()
    scale = 0.0
    for i in range(b + n):
        scale = max(scale, abs(momenta[i]))
    factor = mass_factor(model, q + 0.5 * h * eta)
    for round_ in range(MOST_ROUNDS):
        midpoint_forces(model, g, q, h * xi, eta, force, h, total)
        momenta_and_gradient(model, q + 0.5 * h * eta, xi, eta, middle, gradient)
        node_momentum(model, h * xi, middle[:b], residual[:b])
        carry_momentum(model, -0.5 * h * xi, total[:b], early)
        largest = 0.0
        for i in range(b):
            residual[i] -= 0.5 * h * early[i] + momenta[i]
            largest = max(largest, abs(residual[i]))
        for i in range(n):
            residual[b + i] = middle[b + i] - 0.5 * h * (gradient[i] + total[b + i])
            residual[b + i] -= momenta[b + i]
            largest = max(largest, abs(residual[b + i]))
        solve_factored(factor, residual, b + n)
        for i in range(b):
            xi[i] -= residual[i]
        for i in range(n):
            eta[i] -= residual[b + i]
        if largest <= CONVERGED * max(scale, h * np.abs(total).max()):
            break
        if not largest < math.inf or round_ == MOST_ROUNDS - 1:
            raise RuntimeError(DIVERGED)
    for i in range(b):
        momenta[i] += 0.5 * h * early[i]
    carry_momentum(model, h * xi, momenta[:b].copy(), momenta[:b])
    carry_momentum(model, 0.5 * h * xi, total[:b], early)
    for i in range(b):
        momenta[i] += 0.5 * h * early[i]
    for i in range(n):
        # p_1 = p_0 + h (dT/dq + tau): the middle's p need not be exact
        momenta[b + i] += h * (gradient[i] + total[b + i])
        q1[i] = q[i] + h * eta[i]
    move_base(model, g, h * xi, g1)
    factor = mass_factor(model, q1)
    residual[:] = momenta
    solve_factored(factor, residual, b + n)
    check_motion(momenta, residual)
    base1[:] = residual[:b]
    qd1[:] = residual[b:]


@entry(
    "void(f8[:,::1], f8[:,:,::1], f8[::1], f8[::1], f8[::1], f8, f8, f8[::1], f8[::1], f8[::1],"
    " f8[::1], f8[::1])"
)
def rub(model, inertias, q, damping, friction, speed, h, passive, force, base, qd, impulse):
    """Let the joints rub for a step, implicitly: ``(M + h D) v1 = M v``, v = [V; qd] in place.

    ``D = d + f tanh(|qd| / speed) / |qd|``. It acts between bodies, so it leaves the momentum,
    and it is stable whatever the friction. Driven degrees of freedom keep their velocities: their
    drives overcome the friction and hold against that of the others.

    Args:
        model: packed model.
        inertias: of the bodies in their frames, shape (nj + 1, 6, 6), if a fluid adds to them,
            else no rows.
        q: shape (n,).
        damping: d, shape (n,).
        friction: f, shape (n,).
        speed: below which dry friction fades [rad/s or m/s].
        h: the step [s].
        passive: 0 for a driven degree of freedom, shape (b + n,).
        force: forces of the drives, shape (b + n,), to which goes what the friction takes.
        base: base velocity, shape (b,).
        qd: joint velocities, shape (n,).
        impulse: what the friction did to the joints' momenta, shape (n,).
    """
    b, n = base.size, q.size
    mass = np.empty((b + n, b + n))
    if inertias.shape[0] > 0:
        mass_of_inertias(model, inertias, q, mass)
    else:
        placed, screws, momenta = at_shape(model, q)
        mass_from_passes(model, placed, screws, momenta, mass)
    v = np.empty(b + n)
    v[:b] = base
    v[b:] = qd
    driven = np.flatnonzero(passive == 0.0)
    rows = mass[driven]
    for d in driven:
        mass[d, :] = 0.0
        mass[:, d] = 0.0
        mass[d, d] = 1.0
    x = mass @ v
    for i in range(n):
        fast = abs(qd[i])
        dry = math.tanh(fast / speed) / fast if fast > 1e-6 * speed else 1.0 / speed
        impulse[i] = -h * (damping[i] + friction[i] * dry)
        if passive[b + i] != 0.0:
            mass[b + i, b + i] -= impulse[i]
    solve_positive(mass, x, b + n)
    impulse *= x[b:]
    for k in range(driven.size):
        d = driven[k]
        for j in range(b + n):
            force[d] += rows[k, j] * (x[j] - v[j]) / h
        if d >= b:
            force[d] -= impulse[d - b] / h
    base[:] = x[:b]
    qd[:] = x[b:]
