# SPDX-License-Identifier: Apache-2.0
"""Compiled forces of a fluid on the bodies, but for the inertia of the added mass.

Frame {1}, twists [v; w], see ``mass_kernels``. Added mass moves with its body relative to the
current, whose twist in {1} is U = [R^T u; 0]; the dynamics carries it as if the fluid were at
rest, and what that neglects is a force that no acceleration enters.
"""

import numpy as np

from vm_dynamics.compiled import entry, jit
from vm_dynamics.dynamics.coriolis_kernels import coadjoint
from vm_dynamics.dynamics.general_kernels import carry_inertia, times, write_derivative
from vm_dynamics.dynamics.hybrid_kernels import include_twist
from vm_dynamics.dynamics.mass_kernels import PLACED, P, place_bodies
from vm_dynamics.model.fluid_table import (
    BODY,
    CENTRE,
    DISPLACED,
    LINEAR,
    OFFSET,
    QUADRATIC,
)
from vm_dynamics.model.table import DOF, GRAVITY, N_BODIES, PARENT


@jit
def element_pose(placed, element, rotation, position):
    """Pose of an element's link in {1}."""
    body = int(element[BODY])
    for i in range(3):
        position[i] = placed[body, P + i]
        for c in range(3):
            turn = placed[body, 3 * i + c]
            position[i] += turn * element[OFFSET + 4 * c + 3]
            if c == 0:
                for j in range(3):
                    rotation[i, j] = 0.0
            for j in range(3):
                rotation[i, j] += turn * element[OFFSET + 4 * c + j]


@jit
def drag_and_buoyancy(element, rotation, position, twist, lift, out):
    """Add an element's drag, at its body's twist relative to the fluid in {1}, and its buoyancy.

    In the link's frame the drag is ``-(D + D_2 diag |V|) V``; ``lift`` is minus the acceleration
    of free fall in {1}.
    """
    px, py, pz = position[0], position[1], position[2]
    vx = twist[0] - (py * twist[5] - pz * twist[4])
    vy = twist[1] - (pz * twist[3] - px * twist[5])
    vz = twist[2] - (px * twist[4] - py * twist[3])
    v = np.empty(6)
    for i in range(3):
        v[i] = rotation[0, i] * vx + rotation[1, i] * vy + rotation[2, i] * vz
        v[3 + i] = (
            rotation[0, i] * twist[3] + rotation[1, i] * twist[4] + rotation[2, i] * twist[5]
        )
    drag = np.zeros(6)
    for i in range(6):
        for j in range(6):
            weight = element[LINEAR + 6 * i + j] + element[QUADRATIC + 6 * i + j] * abs(v[j])
            drag[i] -= weight * v[j]
    force = np.empty(3)
    x = np.empty(3)
    for i in range(3):
        force[i] = x[i] = 0.0
        for j in range(3):
            force[i] += rotation[i, j] * drag[j]
            x[i] += rotation[i, j] * element[CENTRE + j]
            out[3 + i] += rotation[i, j] * drag[3 + j]
        x[i] += position[i]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[i] += force[i] + element[DISPLACED] * lift[i]
        out[3 + i] += position[j] * force[k] - position[k] * force[j]
        out[3 + i] += element[DISPLACED] * (x[j] * lift[k] - x[k] * lift[j])


@jit
def current_force(inertia, base, twist, relative, stream, out):
    """Add what added mass feels of a current beyond the same motion in a fluid at rest.

    ``ad_(V - U)^T A (V_k - U) + A dU/dt - (ad_V^T A V_k - dA/dt U)``, where the relative twist of
    the body alone, V_k less V, moves A.

    Args:
        inertia: A in {1}, shape (6, 6).
        base: V, shape (6,).
        twist: V_k, shape (6,).
        relative: V_k - V, shape (6,).
        stream: U, shape (6,).
        out: wrench on the body, shape (6,).
    """
    rate = np.empty((6, 6))
    x = np.empty(6)
    y = np.empty(6)
    still = np.empty(6)
    moving = np.empty(6)
    for c in range(6):
        x[c] = twist[c] - stream[c]
        y[c] = base[c] - stream[c]
    times(inertia, twist, still)
    times(inertia, x, moving)
    a = coadjoint(base, still)
    b = coadjoint(y, moving)
    write_derivative(inertia, relative, rate)
    times(rate, stream, x)
    # U turns against the base: its components change by u x w
    y[0] = stream[1] * base[5] - stream[2] * base[4]
    y[1] = stream[2] * base[3] - stream[0] * base[5]
    y[2] = stream[0] * base[4] - stream[1] * base[3]
    y[3] = y[4] = y[5] = 0.0
    times(inertia, y, moving)
    for c in range(6):
        out[c] += b[c] - a[c] + x[c] + moving[c]


@jit
def fluid_forces(model, added, elements, current, g, q, base, qd, out):
    """:func:`fluid_loads`, added to ``out``."""
    nj = int(model[0, N_BODIES])
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    relative = np.zeros((nj + 1, 6))
    V = np.empty(6)
    stream = np.zeros(6)
    lift = np.zeros(3)
    twist = np.empty(6)
    place_bodies(model, q, placed, screws)
    include_twist(model, base, V)
    for k in range(1, nj + 1):
        for c in range(6):
            relative[k, c] = relative[int(model[k, PARENT]), c]
            relative[k, c] += screws[c, k] * qd[int(model[k, DOF])]
    for i in range(3):
        for j in range(3):
            stream[i] += g[j, i] * current[j]
            lift[i] -= g[j, i] * model[0, GRAVITY + j]
    if stream[0] != 0.0 or stream[1] != 0.0 or stream[2] != 0.0:
        inertia = np.empty((6, 6))
        for k in range(nj + 1):
            carry_inertia(placed, k, added[k], inertia)
            for c in range(6):
                twist[c] = V[c] + relative[k, c]
            current_force(inertia, V, twist, relative[k], stream, out[k])
    rotation = np.empty((3, 3))
    position = np.empty(3)
    for e in range(elements.shape[0]):
        k = int(elements[e, BODY])
        element_pose(placed, elements[e], rotation, position)
        for c in range(6):
            twist[c] = V[c] + relative[k, c] - stream[c]
        drag_and_buoyancy(elements[e], rotation, position, twist, lift, out[k])


@entry(
    "void(f8[:,::1], f8[:,:,::1], f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[::1], f8[::1],"
    " f8[:,::1])"
)
def fluid_loads(model, added, elements, current, g, q, base, qd, out):
    """Add drag, buoyancy and the effect of a current to the loads, shape (nj + 1, 6) in {1}.

    Args:
        model: packed model.
        added: added mass of every body in its own frame, shape (nj + 1, 6, 6).
        elements: coefficients of the links, shape (m, ELEMENT).
        current: velocity of the fluid in the world, shape (3,).
        g: pose of the base in the world, shape (4, 4).
        q: shape (n,).
        base: base velocity, shape (b,).
        qd: joint velocities, shape (n,).
        out: loads that they are added to.
    """
    fluid_forces(model, added, elements, current, g, q, base, qd, out)
