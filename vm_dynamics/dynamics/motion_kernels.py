# SPDX-License-Identifier: Apache-2.0
"""Compiled motion on the group: accelerations under given forces, and a step of order four."""

import numpy as np

from vm_dynamics.compiled import jit
from vm_dynamics.dynamics.fluid_kernels import fluid_forces
from vm_dynamics.dynamics.hybrid_kernels import forward_sweeps, hybrid_sweeps, include_twist
from vm_dynamics.dynamics.kinematics_kernels import algebra_rate, compose, project_twist
from vm_dynamics.dynamics.mass_kernels import inclusion
from vm_dynamics.lie.kernels import se3_exp
from vm_dynamics.model.table import N_BODIES, N_DOF


@jit
def accelerate(model, added, elements, current, g, q, base, qd, passive, acc, force, loads, out):
    """Accelerations [base; joints], (b + n,), into ``out``; ``acc`` has those of the active.

    The forces of the active go into ``force``, which has those on the passive.
    """
    for i in range(out.size):
        out[i] = acc[i]
    if added.shape[0] == 0 and loads.shape[0] == 0 and passive.all():
        if model[0, N_BODIES] == model[0, N_DOF]:
            forward_sweeps(model, g, q, base, qd, force, out)
            return
    push = loads
    if added.shape[0] > 0:
        push = np.zeros((added.shape[0], 6))
        push[: loads.shape[0]] += loads
        fluid_forces(model, added, elements, current, g, q, base, qd, push)
    hybrid_sweeps(model, added, g, q, base, qd, passive, out, force, push)


@jit
def move_base(model, g, x, out):
    """Pose g exp(iota x), x (b,), into ``out``, shape (4, 4)."""
    twist = np.empty(6)
    move = np.empty((4, 4))
    include_twist(model, x, twist)
    se3_exp(twist, move)
    compose(g, move, out)


@jit
def group_rate(model, x, base, out):
    """:func:`algebra_rate` in the coordinates of the base group, all (b,)."""
    twist = np.empty(6)
    velocity = np.empty(6)
    rate = np.empty(6)
    include_twist(model, x, twist)
    include_twist(model, base, velocity)
    algebra_rate(twist, velocity, rate)
    project_twist(inclusion(model), rate, out)


@jit
def runge_kutta_step(
    model, added, elements, current, g, q, base, qd, passive, acc, force, loads, h, g1, q1, V1, qd1
):
    """Runge-Kutta-Munthe-Kaas of order four, forces held over the step.

    The forces of the active at the step's beginning go into ``force``.
    """
    b, n = base.size, q.size
    size = 2 * (b + n)  # x of the pose, q, V, qd
    start = np.zeros(size)
    start[b : b + n] = q
    start[b + n : 2 * b + n] = base
    start[2 * b + n :] = qd
    mean = np.zeros(size)
    rate = np.zeros(size)
    a = np.empty(b + n)
    pose = np.empty((4, 4))
    later = force.copy()
    for stage in range(4):
        reach = 0.0 if stage == 0 else (h if stage == 3 else 0.5 * h)
        now = start + reach * rate
        move_base(model, g, now[:b], pose)
        accelerate(
            model, added, elements, current, pose, now[b : b + n], now[b + n : 2 * b + n],
            now[2 * b + n :], passive, acc, force if stage == 0 else later, loads, a,
        )  # fmt: skip
        group_rate(model, now[:b], now[b + n : 2 * b + n], rate[:b])
        rate[b : b + n] = now[2 * b + n :]
        rate[b + n :] = a
        weight = 1.0 if stage == 0 or stage == 3 else 2.0
        mean += (weight / 6.0) * rate
    end = start + h * mean
    move_base(model, g, end[:b], g1)
    q1[:] = end[b : b + n]
    V1[:] = end[b + n : 2 * b + n]
    qd1[:] = end[2 * b + n :]
