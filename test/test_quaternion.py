# SPDX-License-Identifier: Apache-2.0
"""The quaternion model against the paper's sums over bodies, Pinocchio, and a backflip."""

import numpy as np
import pytest
import scipy.linalg
from cases import ALL, State, derivative, load, relative, text
from peer import Peer

import vm_dynamics as vm
from vm_dynamics import errors
from vm_dynamics.dynamics.quaternion import QuaternionModel, forward
from vm_dynamics.lie.se3 import hat3
from vm_dynamics.robot import submerge

SAME = 1e-9  # relative: what all formulations must agree to
ROUNDING = 1e-12  # relative: the same sums in another order
DIFFERENCES = 1e-8  # relative: differences of order eight lose digits where M varies quickly
GRAVITY = (0.3, -0.2, -9.81)
Q = slice(3, 7)


@pytest.fixture(params=ALL)
def case(request):
    robot = load(request.param, "SE3", GRAVITY)
    model = QuaternionModel(robot)
    s = State(robot, seed=11)
    s.x = model.coordinates(s.g, s.q)
    s.xd = model.velocities(s.x, s.V, s.qd)
    return model, s


def off_the_sphere(model, seed=3):
    """A state whose quaternion is neither of unit length nor keeps its length."""
    rng = np.random.default_rng(seed)
    x, xd, f = rng.normal(size=(3, 7 + model.robot.n))
    x[Q] *= 1.1 / np.linalg.norm(x[Q])
    return x, xd, f


# -- the paper's sums, one body at a time -----------------------------------------------------


def quaternion_product_matrices(q):
    """[q]_L and [q]_R of (A.15), (A.16)."""
    w, v = q[0], q[1:]
    left, right = w * np.eye(4), w * np.eye(4)
    for out, sign in ((left, 1.0), (right, -1.0)):
        out[0, 1:] -= v
        out[1:, 0] += v
        out[1:, 1:] += sign * hat3(v)
    return left, right


def E_and_G(q):
    """(6), (7): the last three rows of [q]_R^T and [q]_L^T."""
    left, right = quaternion_product_matrices(q)
    return right.T[1:], left.T[1:]


def bodies(robot, theta):
    """Mass, centre, J_t, J_omega and inertia in L0 of every link: (10)-(23), (18) corrected."""
    index = {name: i for i, name in enumerate(robot.joint_names)}
    state = {robot.root_link: (np.eye(4), ())}
    for joint in robot.description.joints:
        g, ancestors = state[joint.parent]
        if joint.kind == "fixed":
            state[joint.child] = g @ joint.pose_matrix, ancestors
            continue
        drive = joint.drive
        i = index[drive.driver]
        frame = g @ joint.pose_matrix
        axis = frame[:3, :3] @ np.array(joint.axis)
        entry = (i, drive.multiplier, axis, frame[:3, 3], joint.kind == "prismatic")
        there = g @ joint.pose_at(drive.multiplier * theta[i] + drive.offset)
        state[joint.child] = there, (*ancestors, entry)
    for link in robot.description.links:
        g, ancestors = state[link.name]
        center = g[:3, :3] @ np.array(link.inertia.com) + g[:3, 3]
        J_t, J_w = np.zeros((3, robot.n)), np.zeros((3, robot.n))
        for i, scale, axis, place, slides in ancestors:
            J_t[:, i] += scale * (axis if slides else np.cross(axis, center - place))
            J_w[:, i] += 0.0 if slides else scale * axis
        tensor = g[:3, :3] @ link.inertia.tensor @ g[:3, :3].T
        yield link.inertia.mass, center, J_t, J_w, tensor


def literal_mass_matrix(robot, nu, x):
    """(40), (41), (45)-(47), nu shared among the links."""
    q, n = x[Q], robot.n
    E, G = E_and_G(q)
    R = E @ G.T
    _, right = quaternion_product_matrices(q)
    out = np.zeros((7 + n, 7 + n))
    for mass, center, J_t, J_w, tensor in bodies(robot, x[7:]):
        Jw_t = np.hstack((np.eye(3), -2.0 * R @ hat3(center) @ G, R @ J_t))
        Jw_w = np.hstack((np.zeros((4, 3)), 2.0 * right.T, np.vstack((np.zeros(n), R @ J_w))))
        Theta = scipy.linalg.block_diag(nu / len(robot.link_names), R @ tensor @ R.T)
        out += mass * Jw_t.T @ Jw_t + Jw_w.T @ Theta @ Jw_w
    return out


def literal_potential(robot, x):
    """(49) with g0 = -(acceleration of free fall)."""
    E, G = E_and_G(x[Q])
    R = E @ G.T
    return sum(-m * robot.gravity @ (x[:3] + R @ c) for m, c, *_ in bodies(robot, x[7:]))


def literal_rates(robot, nu, x, v, f_x, dt):
    """(78)-(80) with derivatives by differences and M^-1/2, B^+ as printed; b_q = 0."""
    size = len(x)
    M = literal_mass_matrix(robot, nu, x)
    D = np.array([derivative(lambda y: literal_mass_matrix(robot, nu, y), x, e)
                  for e in np.eye(size)])  # fmt: skip
    gradient = np.array([derivative(lambda y: literal_potential(robot, y), x, e)
                         for e in np.eye(size)])  # fmt: skip
    C = 0.5 * (
        np.einsum("kij,k->ij", D, v) + np.einsum("jik,k->ij", D, v) - np.einsum("ijk,k->ij", D, v)
    )
    a = np.linalg.solve(M, f_x - C @ v - gradient)
    q, qd = x[Q], v[Q]
    norm = np.linalg.norm(q)
    A = np.zeros((1, size))
    A[0, Q] = q / norm
    root = np.linalg.inv(np.real(scipy.linalg.sqrtm(M)))
    solver = root @ np.linalg.pinv(A @ root)
    b_v = -qd @ (np.eye(4) - np.outer(q, q) / norm**2) @ qd / norm
    phi, phi_rate, rate = norm - 1.0, A @ v, 0.0 if dt is None else 1.0 / dt
    return v + solver @ (-A @ v - rate * phi), a + solver @ (b_v - A @ a - rate * phi_rate)


def test_the_mass_matrix_is_the_sum_over_bodies(case):
    model, s = case
    expected = literal_mass_matrix(model.robot, model.nu, s.x)
    assert relative(model.mass_matrix(s.x), expected) < ROUNDING
    assert np.linalg.eigvalsh(model.mass_matrix(s.x)).min() > 0.0


def test_gravity_is_the_gradient_of_the_sum_over_bodies(case):
    model, s = case
    expected = [derivative(lambda x: literal_potential(model.robot, x), s.x, e)
                for e in np.eye(len(s.x))]  # fmt: skip
    assert relative(model.gravity(s.x), np.array(expected)) < DIFFERENCES
    assert model.potential_energy(s.x) == pytest.approx(literal_potential(model.robot, s.x))


@pytest.mark.parametrize("name", ["quad_arm1", "hexa_arm2", "auv_arm4", "tree0", "no_joint"])
@pytest.mark.parametrize("dt", [None, 1 / 240])
def test_the_constrained_system_is_the_printed_one_with_its_errata(name, dt):
    """On the sphere, where it does not matter how the model is continued off it."""
    robot = load(name, "SE3", GRAVITY)
    model = QuaternionModel(robot)
    s = State(robot, seed=11)
    x = model.coordinates(s.g, s.q)
    v = model.velocities(x, s.V, s.qd)
    f_x = np.random.default_rng(1).normal(size=7 + robot.n)
    xd, vd = literal_rates(robot, model.nu, x, v, f_x, dt)
    assert relative(model.accelerations(x, v, f_x, dt), vd) < DIFFERENCES
    if dt is not None:
        found = model.rates(x, v, f_x, dt)
        assert relative(found.xd, xd) < DIFFERENCES and relative(found.vd, vd) < DIFFERENCES


# -- properties -------------------------------------------------------------------------------


def test_coriolis_is_made_of_the_christoffel_symbols_of_the_mass_matrix(case):
    model, _ = case
    x, xd, _ = off_the_sphere(model)
    C = model.coriolis(x, xd)
    rate = derivative(model.mass_matrix, x, xd)
    assert relative(C + C.T, rate) < DIFFERENCES, "dM/dt - 2C is skew"
    gradient = [derivative(lambda y: 0.5 * xd @ model.mass_matrix(y) @ xd, x, e)
                for e in np.eye(len(x))]  # fmt: skip
    assert relative(C @ xd, rate @ xd - gradient) < DIFFERENCES, "(52)"
    assert relative(C @ xd + model.gravity(x), model.bias(x, xd)) < ROUNDING


def test_force_map_keeps_power_and_has_the_corrected_inverse(case):
    model, s = case
    forces = np.concatenate((s.F, s.tau))
    f_x = model.force_map(s.x) @ forces
    assert f_x @ s.xd == pytest.approx(s.F @ s.V + s.tau @ s.qd, rel=ROUNDING)
    inverse = model.force_map_pinv(s.x)
    assert relative(inverse @ f_x, forces) < ROUNDING
    x, _, _ = off_the_sphere(model)
    assert relative(model.force_map_pinv(x), np.linalg.pinv(model.force_map(x))) < ROUNDING


def test_coordinates_and_velocities_return_where_they_came_from(case):
    model, s = case
    g, q = model.pose(s.x)
    V, qd = model.twist(s.x, s.xd)
    assert relative(g, s.g) < ROUNDING and np.array_equal(q, s.q)
    assert relative(V, s.V) < ROUNDING and np.array_equal(qd, s.qd)
    assert np.linalg.norm(s.x[Q]) == pytest.approx(1.0, abs=ROUNDING)
    assert abs(s.x[Q] @ s.xd[Q]) < ROUNDING
    stretched = np.concatenate((s.x[:3], 1.3 * s.x[Q], s.x[7:]))
    assert relative(model.pose(stretched)[0], s.g) < ROUNDING
    assert relative(model.twist(stretched, model.velocities(stretched, s.V, qd))[0], V) < ROUNDING


def test_no_motion_depends_on_nu(case):
    model, s = case
    f_x = model.force_map(s.x) @ np.concatenate((s.F, s.tau))
    expected = model.accelerations(s.x, s.xd, f_x)
    for factor in (1e-3, 1e3):
        other = QuaternionModel(model.robot, nu=factor * model.nu)
        assert relative(other.accelerations(s.x, s.xd, f_x), expected) < SAME


def test_minus_q_is_the_same_attitude(case):
    model, s = case
    flip = np.ones(len(s.x))
    flip[Q] = -1.0
    f_x = model.force_map(s.x) @ np.concatenate((s.F, s.tau))
    here = model.accelerations(s.x, s.xd, f_x)
    there = model.accelerations(flip * s.x, flip * s.xd, flip * f_x)
    assert relative(flip * there, here) < ROUNDING


@pytest.mark.parametrize("name", ["quad_arm1", "hexa_arm2", "lwr_floating", "tree2"])
def test_energy_is_kept_without_forces_but_gravity(name):
    robot = load(name, "SE3", GRAVITY)
    model = QuaternionModel(robot)
    s = State(robot, seed=5)
    x = model.coordinates(s.g, s.q)
    z = np.concatenate((x, model.velocities(x, 0.5 * s.V, 0.5 * s.qd)))
    size, dt = len(x), 1e-3
    idle = np.zeros(size)

    def rate(z):
        return np.concatenate((z[size:], model.accelerations(z[:size], z[size:], idle)))

    def energy(z):
        xd = z[size:]
        return 0.5 * xd @ model.mass_matrix(z[:size]) @ xd + model.potential_energy(z[:size])

    def kinetic(z):
        return 0.5 * z[size:] @ model.mass_matrix(z[:size]) @ z[size:]

    start = energy(z)
    for _ in range(300):
        k1 = rate(z)
        k2 = rate(z + 0.5 * dt * k1)
        k3 = rate(z + 0.5 * dt * k2)
        k4 = rate(z + dt * k3)
        z = z + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    # RK4 of steps of 1 ms: its own error, (1e-3 |w|)^4 a step
    assert abs(energy(z) - start) < 1e-8 * kinetic(z)
    assert abs(np.linalg.norm(z[Q]) - 1.0) < 1e-9


def test_the_length_of_q_is_not_accelerated_even_when_it_is_wrong(case):
    model, _ = case
    x, xd, f_x = off_the_sphere(model)
    q, qd, qdd = x[Q], xd[Q], model.accelerations(x, xd, f_x)[Q]
    norm = np.linalg.norm(q)
    second = (qd @ qd + q @ qdd) / norm - (q @ qd) ** 2 / norm**3
    assert abs(second) < ROUNDING * (qd @ qd)


def test_euler_steps_return_to_unit_length_and_lose_only_their_own_second_order():
    model = QuaternionModel(load("hexa_arm2", "SE3", GRAVITY))
    x, v, f_x = off_the_sphere(model)
    x[Q] *= 1.001 / np.linalg.norm(x[Q])
    dt = 1 / 240
    step = model.rates(x, v, f_x, dt)
    after = x + dt * step.xd
    leap = 0.5 * dt**2 * (step.xd[Q] @ step.xd[Q])
    assert abs(np.linalg.norm(after[Q]) - 1.0) < leap < 1e-4
    vd = model.accelerations(x, v, f_x)
    assert not np.allclose(vd[Q], step.vd[Q]), "the rate of |q| is taken out only with dt"


# -- against Pinocchio ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("seed", range(3))
def test_forward_dynamics_equals_pinocchio(name, seed):
    robot = load(name, "SE3", GRAVITY)
    peer = Peer(robot, text(name), gravity=GRAVITY)
    s = State(robot, seed)
    tip = robot.link_jacobian(s.q, robot.tip_link).T @ s.tip
    F, tau = s.F + tip[:6], s.tau + tip[6:]
    v = np.concatenate((s.V, s.qd))
    there = peer.forward_dynamics(s.q, v, np.concatenate((F, tau)), s.g)
    here = forward(robot, s.g, s.q, s.V, s.qd, tau, F)
    assert relative(np.concatenate(here), there) < SAME


def test_added_mass_moves_with_the_robot_but_does_not_weigh():
    fluid = {"links": {"base_link": {"added_mass": [30, 60, 90, 2, 8, 9]}}}
    robot = load("auv_arm4", "SE3", GRAVITY)
    wet, floating = submerge(robot, fluid), submerge(load("auv_arm4"), fluid)
    s = State(robot)
    x = QuaternionModel(robot).coordinates(s.g, s.q)
    assert relative(QuaternionModel(wet).gravity(x), QuaternionModel(robot).gravity(x)) < ROUNDING
    Vd, qdd = forward(floating, s.g, s.q, s.V, s.qd, np.zeros(4), np.zeros(6))
    M, C = floating.hamel(s.q, s.V, s.qd)
    expected = np.linalg.solve(M, -C @ np.concatenate((s.V, s.qd)))
    assert relative(np.concatenate((Vd, qdd)), expected) < SAME
    dry = forward(load("auv_arm4"), s.g, s.q, s.V, s.qd, np.zeros(4), np.zeros(6))
    assert relative(np.concatenate(dry), expected) > 0.1


# -- the backflip -----------------------------------------------------------------------------

RATE = 240.0  # Hz, the paper's
FLIP = 1.6  # s
PUSH = 0.3  # s of torque one way at the start, and the other way at the end
TORQUE = 12.0  # N m
FLIP_ERROR = 0.1  # rad: first-order steps of 1/240 s at 5 rad/s, of which 1/4 is left at 960 Hz
ROLLING = 0.02  # rad/s at the start: no vehicle flips in its plane alone


def flip_forces(robot, t, q, qd):
    """Lift along the body's z axis and a torque about y, backwards; the arm is held down."""
    torque = -TORQUE if t < PUSH else TORQUE if t > FLIP - PUSH else 0.0
    F = np.array([0.0, 0.0, 9.81 * robot.total_mass, 0.0, torque, 0.0])
    return F, 200.0 * (np.pi / 2 - q) - 20.0 * qd


def flip_by_quaternion(robot, dt):
    model = QuaternionModel(robot)
    x = model.coordinates(np.eye(4), [np.pi / 2])
    v = model.velocities(x, [0, 0, 0, ROLLING, 0, 0], [0.0])
    turns, norm = [], 0.0
    for k in range(round(FLIP / dt)):
        F, tau = flip_forces(robot, k * dt, x[7:], v[7:])
        step = model.rates(x, v, model.force_map(x) @ np.concatenate((F, tau)), dt)
        x, v = x + dt * step.xd, v + dt * step.vd
        turns.append(model.pose(x)[0][:3, :3])
        norm = max(norm, abs(np.linalg.norm(x[Q]) - 1.0))
    return np.array(turns), norm


def roll_pitch_yaw(eta):
    """R = Rz(yaw) Ry(pitch) Rx(roll), and W with w = W d(eta)/dt."""
    (sr, sp, sy), (cr, cp, cy) = np.sin(eta), np.cos(eta)
    R = np.array([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ])  # fmt: skip
    return R, np.array([[1.0, 0.0, -sp], [0.0, cr, sr * cp], [0.0, -sr, cr * cp]])


def flip_by_angles(robot, dt):
    """The same vehicle with roll, pitch and yaw as coordinates; NaN once it is lost."""
    eta, eta_rate = np.zeros(3), np.array([ROLLING, 0.0, 0.0])
    p_rate, q, qd = np.zeros(3), np.array([np.pi / 2]), np.zeros(1)
    turns = np.full((round(FLIP / dt), 3, 3), np.nan)
    for k in range(len(turns)):
        R, W = roll_pitch_yaw(eta)
        w, v = W @ eta_rate, R.T @ p_rate
        F, tau = flip_forces(robot, k * dt, q, qd)
        g = np.eye(4)
        g[:3, :3] = R
        Vd, qdd = robot.forward_dynamics(g, q, np.concatenate((v, w)), qd, tau, F)
        W_rate = derivative(lambda y: roll_pitch_yaw(y)[1], eta, eta_rate, h=1e-3)
        eta_acc = np.linalg.solve(W, Vd[3:] - W_rate @ eta_rate)
        eta, eta_rate = eta + dt * eta_rate, eta_rate + dt * eta_acc
        p_rate = p_rate + dt * R @ (Vd[:3] + np.cross(w, v))
        q, qd = q + dt * qd, qd + dt * qdd
        if not np.isfinite([*eta, *eta_rate, *p_rate]).all():
            break
        turns[k] = roll_pitch_yaw(eta)[0]
    return turns


def flip_by_pinocchio(robot, dt, finer=8):
    """Reference: Pinocchio's accelerations, the midpoint rule on the group, small steps."""
    peer = Peer(robot, text("quad_arm1"), gravity=robot.gravity)
    g, V = np.eye(4), np.array([0, 0, 0, ROLLING, 0, 0])
    q, qd = np.array([np.pi / 2]), np.zeros(1)
    h = dt / finer
    turns = []
    for k in range(round(FLIP / h)):
        for half in (0.5, 1.0):
            if half == 0.5:
                at = g, q, V, qd
            pose, joint, twist, speed = at
            forces = np.concatenate(flip_forces(robot, k * h, joint, speed))
            acc = peer.forward_dynamics(joint, np.concatenate((twist, speed)), forces, pose)
            at = (
                g @ vm.lie.SE3.exp(half * h * twist),
                q + half * h * speed,
                V + half * h * acc[:6],
                qd + half * h * acc[6:],
            )
        g, q, V, qd = at
        if (k + 1) % finer == 0:
            turns.append(g[:3, :3])
    return np.array(turns)


def angles_between(turns, others):
    cosine = 0.5 * (np.einsum("kij,kij->k", turns, others) - 1.0)
    return np.arccos(np.clip(cosine, -1.0, 1.0))


@pytest.fixture(scope="module")
def flips():
    robot = load("quad_arm1", "SE3", (0.0, 0.0, -9.81))
    reference = flip_by_pinocchio(robot, 1 / RATE)
    with np.errstate(all="ignore"):
        angles = flip_by_angles(robot, 1 / RATE)
    return reference, *flip_by_quaternion(robot, 1 / RATE), angles


def test_a_backflip_past_the_vertical_completes_in_the_quaternion_model(flips):
    reference, turns, norm, _ = flips
    assert reference[:, 2, 2].min() < -0.99, "the vehicle is upside down in between"
    assert turns[-1, 2, 2] > 0.95, "and upright at the end"
    coarse = angles_between(turns, reference).max()
    robot = load("quad_arm1", "SE3", (0.0, 0.0, -9.81))
    fine = angles_between(flip_by_quaternion(robot, 0.25 / RATE)[0][3::4], reference).max()
    assert coarse < FLIP_ERROR and fine < 0.35 * coarse
    assert norm < 1e-4, "without ever normalizing"


def test_the_same_backflip_fails_in_roll_pitch_and_yaw(flips):
    reference, turns, _, angles = flips
    nose = abs(reference[:, 0, 0])  # the cosine of pitch
    vertical = np.argmax(nose < 0.1)
    errors_ = angles_between(angles, reference)
    # until the pole both are the same vehicle, with errors of the same steps
    assert errors_[: np.argmax(nose < 0.5)].max() < FLIP_ERROR
    assert vertical > 0 and not errors_[vertical:].max() < 1.0
    assert angles_between(turns, reference)[vertical:].max() < FLIP_ERROR


def test_at_the_vertical_the_angles_have_no_mass_matrix_but_the_quaternion_has():
    _, W = roll_pitch_yaw(np.array([0.3, np.pi / 2, 0.2]))
    assert np.linalg.cond(W) > 1e12
    model = QuaternionModel(load("quad_arm1"))
    upright = model.coordinates(np.eye(4), [0.3])
    g = np.eye(4)
    g[:3, :3] = roll_pitch_yaw(np.array([0.3, np.pi / 2, 0.2]))[0]
    vertical = model.coordinates(g, [0.3])
    conditions = [np.linalg.cond(model.mass_matrix(x)) for x in (upright, vertical)]
    assert conditions[1] == pytest.approx(conditions[0], rel=1e-9)


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["SE2", "SO3", "X"])
def test_only_a_free_base_has_a_quaternion(base):
    robot = load("quad_arm1", base)
    with pytest.raises(errors.UnknownGroupError, match=f"quaternion model '{base}'; valid: SE3"):
        QuaternionModel(robot)
    state = np.zeros(robot.b), [0.0], [0.0], np.zeros(6)
    with pytest.raises(errors.UnknownGroupError):
        forward(robot, np.eye(4), [0.0], *state)


def test_wrong_arguments_are_named():
    model = QuaternionModel(load("quad_arm1"))
    x = model.coordinates(np.eye(4), [0.1])
    still = np.zeros(8)
    for nu in (0.0, -1.0, np.nan, np.inf, "1"):
        with pytest.raises(errors.ParameterError, match="nu: got"):
            QuaternionModel(model.robot, nu)
    with pytest.raises(errors.DimensionError, match=r"x: got shape \(7,\), expected \(8,\)"):
        model.mass_matrix(x[:7])
    with pytest.raises(errors.DimensionError, match="x: got the quaternion .*norm 1"):
        model.gravity(still)
    with pytest.raises(errors.NonFiniteError, match="xd"):
        model.coriolis(x, np.full(8, np.nan))
    for dt in (0.0, -1.0, np.nan, None):
        with pytest.raises(errors.ParameterError, match="dt: got"):
            model.rates(x, still, still, dt)
    with pytest.raises(errors.DimensionError, match="f_x"):
        model.accelerations(x, still, [1.0])
    rest = [0.1], np.zeros(6), [0.0], [0.0], np.zeros(6)
    for g, error in (
        (2.0 * np.eye(4), errors.NotInGroupError),
        (np.diag([1.0, 1.0, -1.0, 1.0]), errors.NotInGroupError),
        (np.diag([1.0, 1.0, 1.0, 2.0]), errors.NotInGroupError),
        (np.full((4, 4), np.nan), errors.NonFiniteError),
        (np.eye(3), errors.DimensionError),
    ):
        with pytest.raises(error, match="pose"):
            forward(model.robot, g, *rest)
    with pytest.raises(errors.DimensionError, match="tau"):
        forward(model.robot, np.eye(4), [0.1], np.zeros(6), [0.0], [0.0, 1.0], np.zeros(6))
