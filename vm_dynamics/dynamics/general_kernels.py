# SPDX-License-Identifier: Apache-2.0
"""Compiled mass matrix and its derivatives for bodies whose inertia is any symmetric matrix.

A body in a fluid has an added mass that is not that of a rigid body, so its inertia is 36 numbers
instead of ten. Frame {1}, twists [v; w], see ``mass_kernels``. With the composite inertia N^c_k of
all that is outboard of joint k, ``D_k = dN^c_0/dq_k = -(ad_{S_k}^T N^c_k + N^c_k ad_{S_k})`` and
the momenta m_k = N^c_k S_k, a joint i turns all that is outboard of it, so

* ``dM_b/dq_i = D_i``,
* ``dm_j/dq_i = -ad_{S_i}^T m_j`` if i is j or inboard of it, ``D_i S_j`` if it is outboard,
* ``d(S_j . m_k)/dq_i``, j inboard of k or k itself, is 0 if i is j or inboard of it,
  ``-[S_i, S_j] . m_k`` if it is outboard of j up to k, ``S_j . D_i S_k`` if it is outboard of k.
"""

import numpy as np

from vm_dynamics.compiled import all_finite, entry, jit
from vm_dynamics.dynamics.coriolis_kernels import bracket, coadjoint
from vm_dynamics.dynamics.mass_kernels import BAD_INPUT, PLACED, P, column, inclusion, place_bodies
from vm_dynamics.model.table import DOF, N_BASE, N_BODIES, N_DOF, PARENT


@jit
def carry_inertia(placed, k, inertia, out):
    """Inertia of body k, (6, 6) in its own frame, to frame {1}: X^T N X, X = Ad(g_1k)^-1."""
    x = np.zeros((6, 6))
    px, py, pz = placed[k, P], placed[k, P + 1], placed[k, P + 2]
    for i in range(3):  # row i of R^T, and of -R^T p^
        rx, ry, rz = placed[k, i], placed[k, 3 + i], placed[k, 6 + i]
        x[i, 0] = x[3 + i, 3] = rx
        x[i, 1] = x[3 + i, 4] = ry
        x[i, 2] = x[3 + i, 5] = rz
        x[i, 3] = rz * py - ry * pz
        x[i, 4] = rx * pz - rz * px
        x[i, 5] = ry * px - rx * py
    half = np.zeros((6, 6))
    for i in range(6):
        for c in range(6):
            for j in range(6):
                half[i, j] += inertia[i, c] * x[c, j]
    for i in range(6):
        for j in range(6):
            total = 0.0
            for c in range(6):
                total += x[c, i] * half[c, j]
            out[i, j] = total


@jit
def times(matrix, x, out):
    """Out = matrix x, shapes (6, 6) and (6,)."""
    for i in range(6):
        total = 0.0
        for j in range(6):
            total += matrix[i, j] * x[j]
        out[i] = total


@jit
def write_derivative(inertia, x, out):
    """-(ad_x^T N + N ad_x) of a twist, six scalars, into ``out``, shape (6, 6)."""
    ad = np.zeros((6, 6))
    for r, c, h in ((0, 0, 3), (0, 3, 0), (3, 3, 3)):
        ad[r, c + 1] = -x[h + 2]
        ad[r, c + 2] = x[h + 1]
        ad[r + 1, c] = x[h + 2]
        ad[r + 1, c + 2] = -x[h]
        ad[r + 2, c] = -x[h + 1]
        ad[r + 2, c + 1] = x[h]
    for i in range(6):
        for j in range(6):
            total = 0.0
            for c in range(6):
                total += inertia[i, c] * ad[c, j] + ad[c, i] * inertia[c, j]
            out[i, j] = -total


@jit
def dot(x, y):
    """Product of two 6-vectors."""
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3] + x[4] * y[4] + x[5] * y[5]


@jit
def general_passes(model, inertias, q):
    """Screws (6, nj + 1), composite inertias N^c_k (nj + 1, 6, 6) and momenta m_k (nj + 1, 6)."""
    nj = int(model[0, N_BODIES])
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    comp = np.empty((nj + 1, 6, 6))
    momenta = np.zeros((nj + 1, 6))
    place_bodies(model, q, placed, screws)
    for k in range(nj + 1):
        carry_inertia(placed, k, inertias[k], comp[k])
    for k in range(nj, 0, -1):
        comp[int(model[k, PARENT])] += comp[k]
        times(comp[k], column(screws, k), momenta[k])
    return screws, comp, momenta


@jit
def inboard(model):
    """Whether body i is k or inboard of it, [k, i], shape (nj + 1, nj + 1)."""
    nj = int(model[0, N_BODIES])
    out = np.zeros((nj + 1, nj + 1), dtype=np.bool_)
    for k in range(nj + 1):
        i = k
        while i > 0:
            out[k, i] = True
            i = int(model[i, PARENT])
    return out


@jit
def add_base_block(iota, full, out):
    """Add iota^T full iota to the leading (b, b) block of ``out``."""
    b = iota.shape[1]
    for i in range(b):
        for j in range(b):
            for c in range(6):
                for d in range(6):
                    out[i, j] += iota[c, i] * full[c, d] * iota[d, j]


@jit
def add_border(iota, x, dof, out):
    """Add iota^T x, x (6,), to the base's rows of column b + dof, and to its mirror."""
    b = iota.shape[1]
    for i in range(b):
        total = 0.0
        for c in range(6):
            total += iota[c, i] * x[c]
        out[i, b + dof] += total
        out[b + dof, i] += total


@jit
def add_pair(model, b, j, k, value, out):
    """Add a value at the joints of bodies j and k, and at its mirror if they are two bodies."""
    r, c = b + int(model[j, DOF]), b + int(model[k, DOF])
    out[r, c] += value
    if j != k:
        out[c, r] += value


@jit
def mass_of_inertias(model, inertias, q, out):
    """:func:`general_mass_matrix` without its checks."""
    nj = int(model[0, N_BODIES])
    b = int(model[0, N_BASE])
    iota = inclusion(model)
    screws, comp, momenta = general_passes(model, inertias, q)
    out[:, :] = 0.0
    add_base_block(iota, comp[0], out)
    for k in range(1, nj + 1):
        add_border(iota, momenta[k], int(model[k, DOF]), out)
        j = k
        while j > 0:
            add_pair(model, b, j, k, dot(column(screws, j), momenta[k]), out)
            j = int(model[j, PARENT])


@entry("void(f8[:,::1], f8[:,:,::1], f8[::1], f8[:,::1])")
def general_mass_matrix(model, inertias, q, out):
    """Mass matrix (b + n, b + n) of bodies with inertias (nj + 1, 6, 6) in their own frames."""
    if q.size != int(model[0, N_DOF]) or not all_finite(q):
        raise ValueError(BAD_INPUT)
    mass_of_inertias(model, inertias, q, out)


@entry("void(f8[:,::1], f8[:,:,::1], f8[::1], f8[:,:,::1])")
def mass_derivatives(model, inertias, q, out):
    """dM/dq_i of every joint, shape (n, b + n, b + n), of bodies with inertias (nj + 1, 6, 6)."""
    if q.size != int(model[0, N_DOF]) or not all_finite(q):
        raise ValueError(BAD_INPUT)
    nj = int(model[0, N_BODIES])
    b = int(model[0, N_BASE])
    iota = inclusion(model)
    screws, comp, momenta = general_passes(model, inertias, q)
    is_inboard = inboard(model)
    rate = np.empty((6, 6))
    x = np.empty(6)
    out[:, :, :] = 0.0
    for i in range(1, nj + 1):
        here = out[int(model[i, DOF])]
        s = column(screws, i)
        write_derivative(comp[i], s, rate)
        add_base_block(iota, rate, here)
        for k in range(1, nj + 1):
            if is_inboard[k, i]:
                c = coadjoint(s, momenta[k])
                for r in range(6):
                    x[r] = -c[r]
            elif is_inboard[i, k]:
                times(rate, column(screws, k), x)
            else:
                continue
            add_border(iota, x, int(model[k, DOF]), here)
            j = k
            while j > 0:
                if is_inboard[k, i] and not is_inboard[j, i]:  # j < i <= k
                    t = column(screws, j)
                    lie = bracket(
                        s[0], s[1], s[2], s[3], s[4], s[5], t[0], t[1], t[2], t[3], t[4], t[5]
                    )
                    add_pair(model, b, j, k, -dot(lie, momenta[k]), here)
                elif not is_inboard[k, i]:  # k < i
                    add_pair(model, b, j, k, dot(column(screws, j), x), here)
                j = int(model[j, PARENT])
