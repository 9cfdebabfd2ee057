# SPDX-License-Identifier: Apache-2.0
"""Compiled curvature over planes of shapes, and the motion of the base along a path.

Implements: [Mishra2022] Theorem 2, eq. (35), for two given directions, Property 6, Algorithm 1,
and eq. (9). Frame {1}, twists [v; w], as in ``vm_dynamics.dynamics.mass_kernels``.

Only ``DA(x) y`` of two directions is needed, so no pair of joints is looked at. With the twist
``v_k(x)`` that body k gets from the joint velocities x while the base stands still, and its
inertia N_k,

* ``M_bq x = sum_k N_k v_k(x)``, ``dM_b(x) = sum_k dN_k(x)`` with the rate of N_k under v_k(x),
* ``d_x(M_bq y) - d_y(M_bq x)
  = sum_k ad_{v_k(y)}^T N_k v_k(x) - ad_{v_k(x)}^T N_k v_k(y) - N_k [v_k(x), v_k(y)]``,
* ``M_b dA(x, y) = d_x(M_bq y) - d_y(M_bq x) - dM_b(x) A y + dM_b(y) A x``,

all sums over bodies: O(n). Joints that stay where they are over a whole map make one body of
those on both sides: a plane of two joints has three bodies, whatever the robot.
"""

import math

import numpy as np

from vm_dynamics.compiled import entry, jit
from vm_dynamics.dynamics.coriolis_kernels import (
    bracket,
    coadjoint,
    inertia_rate,
    times_rate,
)
from vm_dynamics.dynamics.general_kernels import dot
from vm_dynamics.dynamics.kinematics_kernels import (
    algebra_rate,
    compose,
    project_twist,
    twist_in_frame,
    wrench_in_frame,
)
from vm_dynamics.dynamics.mass_kernels import (
    PLACED,
    H,
    I,
    M,
    inclusion,
    locked_matrix,
    locked_solve,
    locked_solver,
    place_bodies,
    place_inertias,
    times_inertia,
)
from vm_dynamics.lie.kernels import se3_exp
from vm_dynamics.model.table import (
    COM,
    DOF,
    INERTIA,
    MASS,
    MULTIPLIER,
    N_BASE,
    N_BODIES,
    OFFSET,
    PARENT,
    POSITION,
    PRISMATIC,
    ROTATION,
)

# Frames {C} in which a curvature is expressed; BASE is {1} itself.
BASE, CENTROIDAL, CHASSIS, FIXED = 0, 1, 2, 3

# Jacobi's method converges quadratically: six sweeps take any 3 x 3 matrix to rounding.
SWEEPS = 12
DIAGONAL = 1e-17  # of the trace

# The six orders of three axes, the even ones first.
ORDERS = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2))


@jit
def joint_pose(row, travel, pose):
    """Pose of a body in its parent's frame at a travel of its joint, into ``pose``, (3, 4)."""
    c, s, slide = 1.0, 0.0, 0.0
    if row[PRISMATIC] == 0.0:
        c, s = math.cos(travel), math.sin(travel)
    else:
        slide = travel
    for i in range(3):
        x, y = row[ROTATION + 3 * i], row[ROTATION + 3 * i + 1]
        z = row[ROTATION + 3 * i + 2]
        pose[i, 0] = c * x + s * y
        pose[i, 1] = c * y - s * x
        pose[i, 2] = z
        pose[i, 3] = row[POSITION + i] + slide * z


@jit
def add_body(row, pose, sums):
    """Add a body's mass, first moment and inertia about the origin, ten numbers, to ``sums``."""
    m = row[MASS]
    c = np.empty(3)
    turned = np.empty((3, 3))
    for i in range(3):
        c[i] = pose[i, 3]
        for j in range(3):
            c[i] += pose[i, j] * row[COM + j]
    xx, xy, xz = row[INERTIA], row[INERTIA + 1], row[INERTIA + 2]
    yy, yz, zz = row[INERTIA + 3], row[INERTIA + 4], row[INERTIA + 5]
    for i in range(3):
        x, y, z = pose[i, 0], pose[i, 1], pose[i, 2]
        turned[i, 0] = x * xx + y * xy + z * xz
        turned[i, 1] = x * xy + y * yy + z * yz
        turned[i, 2] = x * xz + y * yz + z * zz
    square = c[0] * c[0] + c[1] * c[1] + c[2] * c[2]
    sums[0] += m
    at = 4
    for i in range(3):
        sums[1 + i] += m * c[i]
        for j in range(i, 3):
            total = m * ((square if i == j else 0.0) - c[i] * c[j])
            for d in range(3):
                total += turned[i, d] * pose[j, d]
            sums[at] += total
            at += 1


@jit
def write_body(sums, row):
    """Mass, centre of mass and inertia about it, of ten numbers about the origin, into a row."""
    m = sums[0]
    row[MASS] = m
    x, y, z = (sums[1] / m, sums[2] / m, sums[3] / m) if m > 0.0 else (0.0, 0.0, 0.0)
    row[COM], row[COM + 1], row[COM + 2] = x, y, z
    row[INERTIA] = sums[4] - m * (y * y + z * z)
    row[INERTIA + 1] = sums[5] + m * x * y
    row[INERTIA + 2] = sums[6] + m * x * z
    row[INERTIA + 3] = sums[7] - m * (x * x + z * z)
    row[INERTIA + 4] = sums[8] + m * y * z
    row[INERTIA + 5] = sums[9] - m * (x * x + y * y)


@jit
def condensed(model, q, x, y):
    """The model without the joints that neither x nor y moves; q keeps its length.

    Bodies on both sides of such a joint become one. The column RUN_START, which only other
    kernels use, is not valid in the result.
    """
    nj = int(model[0, N_BODIES])
    carrier = np.zeros(nj + 1, dtype=np.int64)
    poses = np.zeros((nj + 1, 3, 4))
    sums = np.zeros((nj + 1, 10))
    local = np.empty((3, 4))
    rows = np.zeros(model.shape)
    rows[0] = model[0]
    for i in range(3):
        poses[0, i, i] = 1.0
    add_body(model[0], poses[0], sums[0])
    count = 0
    for k in range(1, nj + 1):
        row = model[k]
        up = int(row[PARENT])
        d = int(row[DOF])
        moves = x[d] != 0.0 or y[d] != 0.0
        joint_pose(row, 0.0 if moves else row[MULTIPLIER] * q[d] + row[OFFSET], local)
        compose(poses[up], local, poses[k])
        if moves:
            count += 1
            rows[count] = row
            rows[count, PARENT] = carrier[up]
            for i in range(3):
                for j in range(3):
                    rows[count, ROTATION + 3 * i + j] = poses[k, i, j]
                    poses[k, i, j] = 1.0 if i == j else 0.0
                rows[count, POSITION + i] = poses[k, i, 3]
                poses[k, i, 3] = 0.0
            carrier[k] = count
        else:
            carrier[k] = carrier[up]
        add_body(row, poses[k], sums[carrier[k]])
    for k in range(count + 1):
        write_body(sums[k], rows[k])
    rows[0, N_BODIES] = count
    for i in range(6):
        rows[count + 1 + i] = model[nj + 1 + i]
    return rows[: count + 7]


@jit
def add_composite(placed, total):
    """Write the sum of all placed inertias into row 0 of ``total``, shape (1, PLACED)."""
    for c in range(M, PLACED):
        total[0, c] = 0.0
    for k in range(placed.shape[0]):
        for c in range(M, PLACED):
            total[0, c] += placed[k, c]


@jit
def shape_twists(model, screws, x, twists):
    """Twists v_k(x), shape (nj + 1, 6), of the bodies for joint velocities x, base at rest."""
    for c in range(6):
        twists[0, c] = 0.0
    for k in range(1, int(model[0, N_BODIES]) + 1):
        up = twists[int(model[k, PARENT])]
        speed = x[int(model[k, DOF])]
        for c in range(6):
            twists[k, c] = up[c] + screws[c, k] * speed


@jit
def solved(full, h):
    """Matrix (6, 6) times six scalars, as six scalars."""
    return (
        dot(full[0], h), dot(full[1], h), dot(full[2], h),
        dot(full[3], h), dot(full[4], h), dot(full[5], h),
    )  # fmt: skip


@jit
def directed_curvature(model, q, x, y, placed, screws, twists, total, sums, locked):
    """DA(x) y at a shape q as six scalars in {1}; leaves the composite inertia in ``total``.

    Args:
        model: packed model.
        q: shape (n,).
        x: first direction, shape (n,).
        y: second direction, shape (n,).
        placed: work, shape (nj + 1, PLACED).
        screws: work, shape (6, nj + 1).
        twists: work, shape (2, nj + 1, 6).
        total: composite inertia of the robot, shape (1, PLACED).
        sums: work, shape (5, 9).
        locked: work, shape (6, 6).
    """
    place_bodies(model, q, placed, screws)
    place_inertias(model, placed)
    px, py, num, dx, dy = sums[0], sums[1], sums[2], sums[3], sums[4]
    sums[:, :] = 0.0
    for c in range(6):
        twists[0, 0, c] = 0.0
        twists[1, 0, c] = 0.0
    for c in range(M, PLACED):
        total[0, c] = placed[0, c]
    for k in range(1, placed.shape[0]):
        for c in range(M, PLACED):
            total[0, c] += placed[k, c]
        up = int(model[k, PARENT])
        dof = int(model[k, DOF])
        u, v = twists[0, k], twists[1, k]
        for c in range(6):
            u[c] = twists[0, up, c] + screws[c, k] * x[dof]
            v[c] = twists[1, up, c] + screws[c, k] * y[dof]
        hu = times_inertia(placed, k, u[0], u[1], u[2], u[3], u[4], u[5])
        hv = times_inertia(placed, k, v[0], v[1], v[2], v[3], v[4], v[5])
        w = bracket(u[0], u[1], u[2], u[3], u[4], u[5], v[0], v[1], v[2], v[3], v[4], v[5])
        hw = times_inertia(placed, k, w[0], w[1], w[2], w[3], w[4], w[5])
        right, left = coadjoint(v, hu), coadjoint(u, hv)
        for c in range(6):
            px[c] += hu[c]
            py[c] += hv[c]
            num[c] += right[c] - left[c] - hw[c]
        ru = inertia_rate(placed, k, u[0], u[1], u[2], u[3], u[4], u[5])
        rv = inertia_rate(placed, k, v[0], v[1], v[2], v[3], v[4], v[5])
        for c in range(9):
            dx[c] += ru[c]
            dy[c] += rv[c]
    if model[0, N_BASE] == 6.0:
        solver = locked_solver(total)
        ax = locked_solve(solver, px[0], px[1], px[2], px[3], px[4], px[5])
        ay = locked_solve(solver, py[0], py[1], py[2], py[3], py[4], py[5])
        subtract_rates(num, dx, dy, ax, ay)
        d = locked_solve(solver, num[0], num[1], num[2], num[3], num[4], num[5])
    else:
        locked_matrix(model, total, locked)
        ax = solved(locked, px)
        ay = solved(locked, py)
        subtract_rates(num, dx, dy, ax, ay)
        d = solved(locked, num)
    lie = bracket(
        ax[0], ax[1], ax[2], ax[3], ax[4], ax[5], ay[0], ay[1], ay[2], ay[3], ay[4], ay[5]
    )
    return (
        d[0] - lie[0], d[1] - lie[1], d[2] - lie[2],
        d[3] - lie[3], d[4] - lie[4], d[5] - lie[5],
    )  # fmt: skip


@jit
def subtract_rates(num, dx, dy, ax, ay):
    """Subtract ``dM_b(x) A y - dM_b(y) A x`` from ``num``."""
    of_x = times_rate(dx, ay[0], ay[1], ay[2], ay[3], ay[4], ay[5])
    of_y = times_rate(dy, ax[0], ax[1], ax[2], ax[3], ax[4], ax[5])
    for c in range(6):
        num[c] += of_y[c] - of_x[c]


@jit
def principal_axes(inertia, axes):
    """Principal axes of a symmetric matrix, (3, 3), in the columns of ``axes``, by Jacobi.

    ``inertia`` becomes diagonal. The axes are right-handed.
    """
    for i in range(3):
        for j in range(3):
            axes[i, j] = 1.0 if i == j else 0.0
    small = DIAGONAL * (abs(inertia[0, 0]) + abs(inertia[1, 1]) + abs(inertia[2, 2]))
    for _ in range(SWEEPS):
        off = abs(inertia[0, 1]) + abs(inertia[0, 2]) + abs(inertia[1, 2])
        if off <= small:
            return
        for p in range(2):
            for r in range(p + 1, 3):
                if inertia[p, r] == 0.0:
                    continue
                tau = (inertia[r, r] - inertia[p, p]) / (2.0 * inertia[p, r])
                t = 1.0 / (abs(tau) + math.sqrt(1.0 + tau * tau))
                if tau < 0.0:
                    t = -t
                c = 1.0 / math.sqrt(1.0 + t * t)
                s = t * c
                for i in range(3):
                    a, b = inertia[i, p], inertia[i, r]
                    inertia[i, p] = c * a - s * b
                    inertia[i, r] = s * a + c * b
                for i in range(3):
                    a, b = inertia[p, i], inertia[r, i]
                    inertia[p, i] = c * a - s * b
                    inertia[r, i] = s * a + c * b
                for i in range(3):
                    a, b = axes[i, p], axes[i, r]
                    axes[i, p] = c * a - s * b
                    axes[i, r] = s * a + c * b


@jit
def nearest_turn(axes, reference, out):
    """The columns of ``axes`` in the order and with the signs nearest to ``reference``, (3, 3).

    Nearest is the largest trace of ``reference^T out``, out right-handed.
    """
    best = -math.inf
    for k in range(6):
        odd = k > 2
        trace = 0.0
        smallest = math.inf
        for i in range(3):
            j = ORDERS[k][i]
            d = 0.0
            for c in range(3):
                d += reference[c, i] * axes[c, j]
            trace += abs(d)
            smallest = min(smallest, abs(d))
            odd = odd != (d < 0.0)
        if odd:  # one more column must turn round
            trace -= 2.0 * smallest
        if trace > best:
            best = trace
            flip = odd
            for i in range(3):
                j = ORDERS[k][i]
                d = 0.0
                for c in range(3):
                    d += reference[c, i] * axes[c, j]
                sign = -1.0 if d < 0.0 else 1.0
                if flip and abs(d) == smallest:
                    sign = -sign
                    flip = False
                for c in range(3):
                    out[c, i] = sign * axes[c, j]


@jit
def frame_pose(code, shift, given, total, inertia, axes, pose):
    """Pose g_1c of a frame {C} in which a curvature is written, into ``pose``, (4, 4).

    Args:
        code: BASE, CENTROIDAL, CHASSIS or FIXED.
        shift: projection on the translations of the base group, shape (3, 3).
        given: the pose if it is FIXED; for CHASSIS, its rotation has the axes to be near to.
        total: composite inertia of the robot, shape (1, PLACED).
        inertia: work, shape (3, 3).
        axes: work, shape (3, 3).
        pose: shape (4, 4).
    """
    for i in range(4):
        for j in range(4):
            pose[i, j] = given[i, j] if code == FIXED else (1.0 if i == j else 0.0)
    if code == BASE or code == FIXED:
        return
    s = 1.0 / total[0, M]
    for i in range(3):
        pose[i, 3] = s * (
            shift[i, 0] * total[0, H]
            + shift[i, 1] * total[0, H + 1]
            + shift[i, 2] * total[0, H + 2]
        )
    if code == CENTROIDAL:
        return
    x, y, z, m = pose[0, 3], pose[1, 3], pose[2, 3], total[0, M]
    inertia[0, 0] = total[0, I] - m * (y * y + z * z)
    inertia[1, 1] = total[0, I + 3] - m * (x * x + z * z)
    inertia[2, 2] = total[0, I + 5] - m * (x * x + y * y)
    inertia[0, 1] = inertia[1, 0] = total[0, I + 1] + m * x * y
    inertia[0, 2] = inertia[2, 0] = total[0, I + 2] + m * x * z
    inertia[1, 2] = inertia[2, 1] = total[0, I + 4] + m * y * z
    principal_axes(inertia, axes)
    nearest_turn(axes, given, pose)


@jit
def write_components(code, iota, pose, twist, out):
    """iota^+ Ad_{g_1c}^-1 of a twist in {1}, six scalars, into ``out``, shape (b,)."""
    if code != BASE:
        twist = twist_in_frame(pose, twist)
    project_twist(iota, twist, out)


@entry(
    "void(f8[:,::1], f8[:,::1], i8, f8[:,::1], f8[::1], f8[:,::1], f8[::1], f8[::1], i8, i8,"
    " f8[:,:,::1])"
)
def map_rows(model, shift, code, given, q_c, basis, r1, r2, start, end, out):
    """Rows ``start`` to ``end`` of a map, [Mishra2022] Algorithm 1.

    Args:
        model: packed model.
        shift: projection on the translations of the base group, shape (3, 3).
        code: the frame, see :func:`frame_pose`.
        given: its pose, or the axes to be near to, shape (4, 4).
        q_c: centre of the plane, shape (n,).
        basis: its two directions, shape (2, n).
        r1: first coordinates of the grid, shape (s1,).
        r2: second coordinates, shape (s2,).
        start: first row.
        end: row behind the last.
        out: the map, shape (b, s1, s2).
    """
    small = condensed(model, q_c, basis[0], basis[1])
    nj = int(small[0, N_BODIES])
    iota = inclusion(small)
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    twists = np.empty((2, nj + 1, 6))
    total = np.empty((1, PLACED))
    sums = np.empty((5, 9))
    locked = np.empty((6, 6))
    three = np.empty((2, 3, 3))
    pose = np.empty((4, 4))
    q = np.empty(q_c.size)
    one = np.empty(out.shape[0])
    for i in range(start, end):
        for j in range(r2.size):
            for d in range(q.size):
                q[d] = q_c[d] + basis[0, d] * r1[i] + basis[1, d] * r2[j]
            c = directed_curvature(
                small, q, basis[0], basis[1], placed, screws, twists, total, sums, locked
            )
            if code != BASE:
                frame_pose(code, shift, given, total, three[0], three[1], pose)
            write_components(code, iota, pose, c, one)
            for k in range(one.size):
                out[k, i, j] = one[k]


@entry(
    "void(f8[:,::1], f8[:,::1], i8, f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1],"
    " f8[:,:,::1])"
)
def curvature_along(model, shift, code, given, q, x, y, out, poses):
    """DA(x_i) y_i at shapes q_i, all (N, n), into ``out``, (N, b), and the frames' poses.

    The first four arguments are those of :func:`map_rows`; ``poses`` is (N, 4, 4).
    """
    nj = int(model[0, N_BODIES])
    iota = inclusion(model)
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    twists = np.empty((2, nj + 1, 6))
    total = np.empty((1, PLACED))
    sums = np.empty((5, 9))
    locked = np.empty((6, 6))
    three = np.empty((2, 3, 3))
    for i in range(q.shape[0]):
        c = directed_curvature(
            model, q[i], x[i], y[i], placed, screws, twists, total, sums, locked
        )
        frame_pose(code, shift, given, total, three[0], three[1], poses[i])
        write_components(code, iota, poses[i], c, out[i])


@entry("void(f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,:,::1])")
def path_twists(model, q, qd, twists, inverses):
    """Twists ``-A qd`` of a base without momentum along a path, in {1}.

    Args:
        model: packed model.
        q: shapes, shape (N, n).
        qd: their velocities, shape (N, n).
        twists: shape (N, 6).
        inverses: ``iota M_b^-1 iota^T``, shape (N, 6, 6), or no rows where it is not wanted.
    """
    nj = int(model[0, N_BODIES])
    placed = np.empty((nj + 1, PLACED))
    screws = np.empty((6, nj + 1))
    moves = np.empty((nj + 1, 6))
    total = np.empty((1, PLACED))
    full = np.empty((6, 6))
    h = np.empty(6)
    for i in range(q.shape[0]):
        place_bodies(model, q[i], placed, screws)
        place_inertias(model, placed)
        add_composite(placed, total)
        shape_twists(model, screws, qd[i], moves)
        h[:] = 0.0
        for k in range(1, nj + 1):
            v = moves[k]
            hk = times_inertia(placed, k, v[0], v[1], v[2], v[3], v[4], v[5])
            for c in range(6):
                h[c] += hk[c]
        if model[0, N_BASE] == 6.0 and inverses.shape[0] == 0:
            a = locked_solve(locked_solver(total), h[0], h[1], h[2], h[3], h[4], h[5])
        else:
            locked_matrix(model, total, full)
            a = solved(full, h)
            if inverses.shape[0] > 0:
                inverses[i] = full
        for c in range(6):
            twists[i, c] = -a[c]


@jit
def base_twist(twist, inverse, momentum, g, out):
    """V = -A qd + M_b^-1 Ad_g^T pi, shape (6,), with the momentum pi of the world at pose g."""
    for c in range(6):
        out[c] = twist[c]
    if inverse.shape[0] == 0:
        return
    carried = wrench_in_frame(g, momentum)
    for c in range(6):
        out[c] += dot(inverse[c], carried)


@entry("void(f8[:,::1], f8[:,:,::1], f8[::1], f8, f8[:,:,::1])")
def transport(twists, inverses, momentum, step, poses):
    """Poses of the base along a path, by Runge-Kutta-Munthe-Kaas of order four on the group.

    Args:
        twists: ``-A qd`` at both ends and the middle of every step, shape (2 N + 1, 6).
        inverses: M_b^-1 there, shape (2 N + 1, 6, 6), or no rows without momentum.
        momentum: in the world, shape (6,).
        step: [s].
        poses: shape (N + 1, 4, 4); the first is where the path begins.
    """
    rate = np.empty((4, 6))
    v = np.empty(6)
    x = np.empty(6)
    move = np.empty((4, 4))
    here = np.empty((4, 4))
    none = np.empty((0, 0))
    for k in range(poses.shape[0] - 1):
        x[:] = 0.0
        for stage in range(4):
            at = 2 * k + (stage + 1) // 2
            se3_exp(x, move)
            compose(poses[k], move, here)
            inverse = inverses[at] if inverses.shape[0] > 0 else none
            base_twist(twists[at], inverse, momentum, here, v)
            algebra_rate(x, v, rate[stage])
            reach = step if stage == 2 else 0.5 * step
            for c in range(6):
                x[c] = reach * rate[stage, c]
        for c in range(6):
            x[c] = step / 6.0 * (rate[0, c] + 2.0 * (rate[1, c] + rate[2, c]) + rate[3, c])
        se3_exp(x, move)
        compose(poses[k], move, poses[k + 1])
