# SPDX-License-Identifier: Apache-2.0
"""Compiled poses and Jacobians of links. Conventions as in ``_kernels``."""

import numpy as np

from vm_dynamics.dynamics._entry import all_finite, entry, jit
from vm_dynamics.dynamics._kernels import BAD_INPUT, PLACED, P, inclusion, place_bodies
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
def into_frame(pose, x, out):
    """Ad(g)^-1 x of a twist x, shape (6,), into ``out``, shape (6,)."""
    px, py, pz = pose[0, 3], pose[1, 3], pose[2, 3]
    vx = x[0] - (py * x[5] - pz * x[4])
    vy = x[1] - (pz * x[3] - px * x[5])
    vz = x[2] - (px * x[4] - py * x[3])
    for i in range(3):
        out[i] = pose[0, i] * vx + pose[1, i] * vy + pose[2, i] * vz
        out[3 + i] = pose[0, i] * x[3] + pose[1, i] * x[4] + pose[2, i] * x[5]


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
