# SPDX-License-Identifier: Apache-2.0
"""Compiled: the motion over a window of samples, and how accelerations depend on everything."""

import math

import numpy as np

from vm_dynamics.compiled import entry, jit
from vm_dynamics.dynamics.motion_kernels import accelerate, move_base, runge_kutta_step
from vm_dynamics.model.table import GRAVITY

# Of finite differences, in SI units: rounding and curvature both leave seven digits of a slope.
NUDGE = 1e-6
LONGEST_STEP = 0.01  # [s], of the integration


@jit
def accelerations(model, added, elements, current, passive, given, g, q, base, qd, out):
    """Accelerations [base; joints], (b + n,); ``given`` has forces on the passive, others' own."""
    acc = given * (1.0 - passive)
    force = given * passive
    loads = np.empty((0, 6))
    accelerate(model, added, elements, current, g, q, base, qd, passive, acc, force, loads, out)


@jit
def write_slopes(models, added, elements, current, passive, given, g, q, base, qd, out):
    """Derivatives of the accelerations, as :func:`follow` has them, by finite differences."""
    n, b = q.size, base.size
    size = b + n
    point = np.zeros(3 * size)
    point[b:size] = q
    point[size : size + b] = base
    point[size + b : 2 * size] = qd
    point[2 * size :] = given
    here = np.empty(size)
    moved = np.empty((4, 4))
    accelerations(models[0], added, elements, current, passive, given, g, q, base, qd, here)
    gravity = models[0, 0, GRAVITY : GRAVITY + 3]
    floats = added.shape[0] == 0 and not gravity.any()  # the pose does not matter
    for i in range(out.shape[0]):
        if floats and i < b:
            out[i] = 0.0
            continue
        now = point.copy()
        model = models[0]
        if i < 3 * size:
            now[i] += NUDGE
        else:
            model = models[1 + i - 3 * size]
        move_base(model, g, now[:b], moved)
        accelerations(
            model, added, elements, current, passive, now[2 * size :], moved, now[b:size],
            now[size : size + b], now[size + b : 2 * size], out[i],
        )  # fmt: skip
        for j in range(size):
            out[i, j] = (out[i, j] - here[j]) / NUDGE


@entry(
    "void(f8[:,:,::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[::1], f8[:,::1], f8[::1],"
    " f8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1])"
)
def follow(models, added, elements, current, passive, given, steps, g, q, base, qd, slopes):
    """Motion from sample to sample, and the slopes of the accelerations in the middle.

    Args:
        models: packed models, shape (1 + p, rows, width): the robot, and the robot with each of
            p parameters a ``NUDGE`` larger.
        added: added mass of the bodies, shape (nj + 1, 6, 6), or no rows in the dry.
        elements: coefficients of the fluid, shape (m, ELEMENT).
        current: velocity of the fluid, shape (3,).
        passive: 1 where forces are given, 0 where accelerations are, shape (b + n,).
        given: forces or accelerations over each step, shape (L, b + n).
        steps: [s], shape (L,); negative ones go back.
        g: poses of the base, shape (L + 1, 4, 4); the first is given, the others are written.
        q: shape (L + 1, n), likewise.
        base: base velocities, shape (L + 1, b), likewise.
        qd: joint velocities, shape (L + 1, n), likewise.
        slopes: derivatives of [dV/dt; qdd] by the pose error (b), q, V, qd, what is given, and
            the parameters, a row for each, shape (3 (b + n) + p, b + n).
    """
    model = models[0]
    n, b = q.shape[1], base.shape[1]
    loads = np.empty((0, 6))
    for i in range(steps.size):
        count = max(1, int(math.ceil(abs(steps[i]) / LONGEST_STEP - 1e-6)))
        acc = given[i] * (1.0 - passive)
        for k in range(count):
            at = i if k == 0 else i + 1
            force = given[i] * passive
            runge_kutta_step(
                model, added, elements, current, g[at].copy(), q[at].copy(), base[at].copy(),
                qd[at].copy(), passive, acc, force, loads, steps[i] / count,
                g[i + 1], q[i + 1], base[i + 1], qd[i + 1],
            )  # fmt: skip
    mean = np.zeros(b + n)
    for i in range(steps.size):
        mean += given[i] / steps.size
    at = steps.size // 2
    write_slopes(
        models, added, elements, current, passive, mean, g[at], q[at], base[at], qd[at], slopes
    )
