# SPDX-License-Identifier: Apache-2.0
"""Compiled poses, twists and wrenches seen from other frames, Jacobians of links.

Conventions as in ``mass_kernels``.
"""

import numpy as np

from vm_dynamics.compiled import all_finite, entry, jit
from vm_dynamics.dynamics.coriolis_kernels import bracket
from vm_dynamics.dynamics.mass_kernels import BAD_INPUT, PLACED, P, inclusion, place_bodies
from vm_dynamics.lie.kernels import dexp_inv_coefficients
from vm_dynamics.model.table import DOF, N_BASE, N_BODIES, N_DOF, PARENT


@jit
def locate(model, q, body, offset, pose):
    """Pose g_1k of a frame at ``offset``, (4, 4), in a body, into ``pose``, (4, 4)."""
    nj = int(model[0, N_BODIES])
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    place_bodies(model, q, placed, screws)
    for i in range(3):
        for j in range(4):
            total = placed[body, P + i] if j == 3 else 0.0
            for c in range(3):
                total += placed[body, 3 * i + c] * offset[c, j]
            pose[i, j] = total
        pose[3, i] = 0.0
    pose[3, 3] = 1.0
    return screws


@jit
def twist_in_frame(pose, x):
    """Ad(g)^-1 x = [R^T (x_v - p x x_w); R^T x_w] of a twist x, (6,), as six scalars."""
    px, py, pz = pose[0, 3], pose[1, 3], pose[2, 3]
    vx = x[0] - (py * x[5] - pz * x[4])
    vy = x[1] - (pz * x[3] - px * x[5])
    vz = x[2] - (px * x[4] - py * x[3])
    return (
        pose[0, 0] * vx + pose[1, 0] * vy + pose[2, 0] * vz,
        pose[0, 1] * vx + pose[1, 1] * vy + pose[2, 1] * vz,
        pose[0, 2] * vx + pose[1, 2] * vy + pose[2, 2] * vz,
        pose[0, 0] * x[3] + pose[1, 0] * x[4] + pose[2, 0] * x[5],
        pose[0, 1] * x[3] + pose[1, 1] * x[4] + pose[2, 1] * x[5],
        pose[0, 2] * x[3] + pose[1, 2] * x[4] + pose[2, 2] * x[5],
    )


@jit
def wrench_in_frame(pose, f):
    """Ad(g)^T f = [R^T f_v; R^T (f_w - p x f_v)] of a wrench or momentum, as six scalars."""
    px, py, pz = pose[0, 3], pose[1, 3], pose[2, 3]
    tx = f[3] - (py * f[2] - pz * f[1])
    ty = f[4] - (pz * f[0] - px * f[2])
    tz = f[5] - (px * f[1] - py * f[0])
    return (
        pose[0, 0] * f[0] + pose[1, 0] * f[1] + pose[2, 0] * f[2],
        pose[0, 1] * f[0] + pose[1, 1] * f[1] + pose[2, 1] * f[2],
        pose[0, 2] * f[0] + pose[1, 2] * f[1] + pose[2, 2] * f[2],
        pose[0, 0] * tx + pose[1, 0] * ty + pose[2, 0] * tz,
        pose[0, 1] * tx + pose[1, 1] * ty + pose[2, 1] * tz,
        pose[0, 2] * tx + pose[1, 2] * ty + pose[2, 2] * tz,
    )


@jit
def into_frame(pose, x, out):
    """:func:`twist_in_frame` into ``out``, shape (6,)."""
    y = twist_in_frame(pose, x)
    for c in range(6):
        out[c] = y[c]


@jit
def compose(g, h, out):
    """Product of two poses into ``out``, all (4, 4), or (3, 4) without the last row."""
    for i in range(3):
        for j in range(4):
            s = g[i, 0] * h[0, j] + g[i, 1] * h[1, j] + g[i, 2] * h[2, j]
            out[i, j] = s + g[i, 3] if j == 3 else s
    if out.shape[0] == 4:
        out[3, 0] = out[3, 1] = out[3, 2] = 0.0
        out[3, 3] = 1.0


@jit
def algebra_rate(x, v, out):
    """Rate of x in ``g exp(x)`` at a body twist v: dexp^-1(-x) v, all (6,).

    ``v + ad v / 2 + c2 ad^2 v + c4 ad^4 v``, ad that of x.
    """
    c2, c4 = dexp_inv_coefficients(x[3] ** 2 + x[4] ** 2 + x[5] ** 2)
    factors = (0.5, c2, 0.0, c4)
    p = (v[0], v[1], v[2], v[3], v[4], v[5])
    for c in range(6):
        out[c] = v[c]
    for k in range(4):
        p = bracket(x[0], x[1], x[2], x[3], x[4], x[5], p[0], p[1], p[2], p[3], p[4], p[5])
        for c in range(6):
            out[c] += factors[k] * p[c]


@jit
def project_twist(iota, x, out):
    """iota^+ x of a twist of the group, (6,) to (b,); the columns of iota are orthogonal."""
    b = iota.shape[1]
    if b == 6:
        for c in range(6):
            out[c] = x[c]
        return
    for i in range(b):
        total = 0.0
        norm = 0.0
        for c in range(6):
            total += iota[c, i] * x[c]
            norm += iota[c, i] * iota[c, i]
        out[i] = total / norm


@entry("void(f8[:,::1], f8[::1], i8, f8[:,::1], f8[:,::1])")
def link_pose(model, q, body, offset, pose):
    """Pose g_1k of a frame at ``offset`` in a body, into ``pose``, shape (4, 4)."""
    if q.size != int(model[0, N_DOF]) or not all_finite(q):
        raise ValueError(BAD_INPUT)
    locate(model, q, body, offset, pose)


@entry("void(f8[:,::1], f8[::1], i8, f8[:,::1], f8[:,::1])")
def link_jacobian(model, q, body, offset, out):
    """Body Jacobian of a frame at ``offset`` in a body, into ``out``, shape (6, b + n).

    ``V_k = J [V; qd]``, J = Ad_1k^-1 [iota, S_j of the joints on the way to k].
    """
    if q.size != int(model[0, N_DOF]) or not all_finite(q):
        raise ValueError(BAD_INPUT)
    pose = np.empty((4, 4))
    screws = locate(model, q, body, offset, pose)
    b = int(model[0, N_BASE])
    iota = inclusion(model)
    x = np.empty(6)
    y = np.empty(6)
    out[:, :] = 0.0
    for j in range(b):
        for c in range(6):
            x[c] = iota[c, j]
        into_frame(pose, x, y)
        for c in range(6):
            out[c, j] = y[c]
    k = body
    while k > 0:
        for c in range(6):
            x[c] = screws[c, k]
        into_frame(pose, x, y)
        for c in range(6):
            out[c, b + int(model[k, DOF])] += y[c]
        k = int(model[k, PARENT])
