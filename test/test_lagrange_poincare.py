# SPDX-License-Identifier: Apache-2.0
"""Lagrange-Poincare equations against Pinocchio, finite differences and a derivation in SymPy."""

import math
from functools import partial

import cases
import numpy as np
import pytest
import sympy
from cases import ALL, GROUPS, State, load, relative, text
from peer import Peer

import vm_dynamics as vm
from vm_dynamics import errors
from vm_dynamics.dynamics import lagrange_poincare as lp
from vm_dynamics.lie import SE2, SE3
from vm_dynamics.lie.se3 import ad

SAME = 1e-9  # relative: what all formulations must agree to
ROUNDING = 1e-12  # relative: the same sums in another order
# Relative: with this step the central difference of order eight has ten digits, even of A where
# M_0 changes quickly (a helical base, mimic joints that turn several times as fast).
DIFFERENCES = 1e-9
derivative = partial(cases.derivative, h=4e-3)
GRAVITY = (0.3, -0.2, -9.81)


@pytest.fixture(params=[(name, base) for name in ALL for base in GROUPS], ids="-".join)
def case(request):
    robot = load(*request.param, GRAVITY)
    return robot, State(robot, seed=21)


def every_force(robot, s):
    """All generalized forces but gravity, the wrench on the tip among them: tau and F."""
    forces = np.concatenate((s.F, s.tau)) + robot.link_jacobian(s.q, robot.tip_link).T @ s.tip
    return forces[robot.b :], forces[: robot.b]


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("base", GROUPS)
def test_accelerations_equal_those_of_pinocchio_with_all_forces(name, base):
    robot = load(name, base, GRAVITY)
    peer = Peer(robot, text(name), gravity=GRAVITY)
    for seed in range(2):
        s = State(robot, seed)
        tau, F = every_force(robot, s)
        v = np.concatenate((s.V, s.qd))
        there = peer.forward_dynamics(s.q, v, np.concatenate((F, tau)), s.g)
        here = lp.forward(robot, s.g, s.q, s.V, s.qd, tau, F)
        assert relative(np.concatenate(here), there) < SAME


def test_blocks_and_connection_equal_those_of_the_kernels(case):
    robot, s = case
    m = lp.matrices(robot, s.q)
    M, A = robot.mass_and_connection(s.q)
    assert relative(np.block([[m.M_0, m.M_0m], [m.M_0m.T, m.M_m]]), M) < ROUNDING
    assert relative(m.A, A) < 100 * ROUNDING
    shape = robot.reduced(s.q, s.qd, s.mu).Lambda_q
    assert relative(m.M_hat, shape, abs(m.M_m).max(initial=1.0)) < ROUNDING


def test_closed_form_derivatives_equal_central_differences(case):
    robot, s = case
    m = lp.matrices(robot, s.q)
    for name in ("M_0", "M_0m", "M_m", "A", "M_hat"):
        along = derivative(lambda q, name=name: getattr(lp.matrices(robot, q), name), s.q, s.qd)
        closed = np.einsum("ijk,i->jk", getattr(m, f"d{name}"), s.qd)
        size = abs(getattr(m, name)).max(initial=1e-3)  # M_0 of a gantry does not change at all
        assert relative(closed, along, size) < DIFFERENCES, name


@pytest.mark.parametrize("name", ["satellite_dual_arm", "mimic", "tree4"])
def test_each_derivative_belongs_to_its_joint(name):
    robot = load(name, "X")
    s = State(robot)
    m = lp.matrices(robot, s.q)
    for i, e in enumerate(np.eye(robot.n)):
        assert (
            relative(m.dA[i], derivative(lambda q: lp.matrices(robot, q).A, s.q, e)) < DIFFERENCES
        )


@pytest.mark.parametrize("name", ["tree5", "star", "chain"])
def test_transports_differentiate_as_in_116(name):
    robot = load(name)
    q = State(robot).q
    fixed = lp.constants(robot)
    n = len(fixed.xi)

    def blocks(q):
        return lp.transports(robot, fixed, q).reshape(n, 6, n, 6).transpose(0, 2, 1, 3)

    L = blocks(q)
    for i in range(1, n):
        along = derivative(blocks, q, np.eye(robot.n)[i - 1])
        for k in range(n):
            ahead = np.zeros((6, 6)) if k == i else L[i, k]
            assert relative(-L[:, i] @ ad(fixed.xi[i]) @ ahead, along[:, k]) < DIFFERENCES


@pytest.mark.parametrize("name", ["satellite_dual_arm", "tree5", "chain"])
def test_transports_are_zero_without_a_path(name):
    robot = load(name)
    q = State(robot).q
    fixed = lp.constants(robot)
    n = len(fixed.xi)
    blocks = lp.transports(robot, fixed, q).reshape(n, 6, n, 6)
    path = {0: {0}}
    for k, body in enumerate(robot.tree.bodies, start=1):
        path[k] = path[body.parent] | {k}
    for j in range(n):
        for k in range(n):
            assert (k in path[j]) == bool(blocks[j, :, k].any())
            if j == k:
                assert np.array_equal(blocks[j, :, k], np.eye(6))


def test_f_u_and_du_dq_are_the_derivatives_of_the_potential(case):
    robot, s = case
    f_u, du_dq = lp.potential_wrench(robot, s.g, s.q)
    for i, e in enumerate(np.eye(robot.b)):
        along = derivative(
            lambda x: np.array(lp.potential(robot, s.g @ robot.base_group.exp(x), s.q)),
            np.zeros(robot.b),
            e,
        )
        assert relative(f_u[i], along, robot.total_mass) < DIFFERENCES
    along = derivative(lambda q: np.array(lp.potential(robot, s.g, q)), s.q, s.qd)
    assert relative(du_dq @ s.qd, along, robot.total_mass) < DIFFERENCES


def test_a_free_robot_at_rest_falls():
    robot = load("satellite_dual_arm", "SE3", GRAVITY)
    s = State(robot)
    none = np.zeros(robot.n), np.zeros(6)
    Vd, qdd = lp.forward(robot, s.g, s.q, none[1], none[0], *none)
    assert relative(s.g[:3, :3] @ Vd[:3], np.array(GRAVITY)) < SAME
    assert abs(qdd).max() < 1e-8 and abs(Vd[3:]).max() < 1e-8  # rounding of 183 kg at 9.81 m/s^2


def test_link_jacobians_equal_those_of_the_kernels(case):
    robot, s = case
    for link in robot.link_names:
        J = np.hstack(lp.link_jacobians(robot, s.q, link))
        assert relative(J, robot.link_jacobian(s.q, link)) < ROUNDING


def rate(robot, s, acc, f):
    """Time derivative of f(q, V, qd) along the motion."""
    n, b = robot.n, robot.b
    state = np.concatenate((s.q, s.V, s.qd))
    direction = np.concatenate((s.qd, *acc))
    return derivative(lambda x: np.array(f(x[:n], x[n : n + b], x[n + b :])), state, direction)


def test_the_momentum_obeys_96(case):
    robot, s = case
    acc = lp.forward(robot, s.g, s.q, s.V, s.qd, s.tau, s.F)
    f_u, _ = lp.potential_wrench(robot, s.g, s.q)
    P = robot.momentum(s.q, s.V, s.qd)
    expected = robot.base_group.ad(s.V).T @ P + s.F - f_u
    found = rate(robot, s, acc, robot.momentum)
    assert relative(found, expected, robot.total_mass) < DIFFERENCES


def test_energy_grows_by_the_power_of_the_forces(case):
    robot, s = case
    acc = lp.forward(robot, s.g, s.q, s.V, s.qd, s.tau, s.F)
    f_u, du_dq = lp.potential_wrench(robot, s.g, s.q)
    power = s.F @ s.V + s.tau @ s.qd - f_u @ s.V - du_dq @ s.qd
    found = rate(robot, s, acc, robot.kinetic_energy)
    assert relative(found, power, 10.0 * robot.total_mass) < DIFFERENCES


def test_coriolis_forces_of_the_shape_take_no_energy(case):
    robot, s = case
    m = lp.matrices(robot, s.q)
    M_hat_dot = np.einsum("ijk,i->jk", m.dM_hat, s.qd)
    power = s.qd @ (M_hat_dot - 2.0 * lp.coriolis(m, s.qd)) @ s.qd
    assert abs(power) < ROUNDING * max(1.0, abs(m.dM_hat).max(initial=0.0) * robot.n)


def test_without_momentum_the_shape_feels_none(case):
    robot, s = case
    m = lp.matrices(robot, s.q)
    assert not lp.N_hat(robot.base_group, m, s.qd, np.zeros(robot.b)).any()
    if robot.n and robot.base_group == SE3:
        P = m.M_0 @ s.V + m.M_0m @ s.qd
        assert abs(lp.N_hat(robot.base_group, m, s.qd, P)).max() > 1e-3


# -- the rover of the paper's Examples 1 to 3, by SymPy ------------------------------------------


def rover(base="SE2"):
    """The shipped rover, its right angles exact: the file has six decimals of pi."""
    urdf = text("rover_arm2")
    for short, angle in (("3.141593", math.pi), ("1.570796", math.pi / 2)):
        assert short in urdf
        urdf = urdf.replace(short, repr(angle))
    return vm.load(urdf, base=base)


def lengths(robot):
    """l0, l1, l2 of the loaded description."""
    joints = {joint.name: joint.pose_matrix[:3, 3] for joint in robot.description.joints}
    return joints["joint1"][2], joints["joint2"][0], joints["tool_joint"][0]


def derived_rover():
    """Mass matrix in [v_x, v_y, w_z, q1', q2'] from the kinetic energy, and its symbols.

    World poses of the three bodies are differentiated. The arm stands upright at zero: joint 1
    turns it about x, joint 2 about y of the vehicle. Principal moments are those of the link
    frames (22), (25), whose x axis is along the link and z axis the joint.
    """
    x, y, theta, q1, q2 = coordinates = sympy.symbols("x y theta q1 q2")
    l0, l1, l2, *m = sympy.symbols("l0 l1 l2 m0 m1 m2")
    moments = sympy.symbols("J0x J0y J0z J1x J1y J1z J2x J2y J2z")
    up = sympy.Matrix([0, 0, 1])
    R0 = sympy.rot_ccw_axis3(theta)
    R1 = R0 * sympy.rot_ccw_axis1(q1)
    R2 = R1 * sympy.rot_ccw_axis2(q2)
    p0 = sympy.Matrix([x, y, l0])
    elbow = p0 + R0 * up * l0 + R1 * up * l1
    centres = p0, p0 + R0 * up * l0 + R1 * up * l1 / 2, elbow + R2 * up * l2 / 2
    J0, J1, J2 = (moments[i : i + 3] for i in (0, 3, 6))
    # vehicle's axes x, y, z at zero are link 1's z, -y, x and link 2's y, z, x
    tensors = sympy.diag(*J0), sympy.diag(J1[2], J1[1], J1[0]), sympy.diag(J2[1], J2[2], J2[0])
    M = sympy.zeros(5, 5)
    for mass, centre, R, tensor in zip(m, centres, (R0, R1, R2), tensors, strict=True):
        turn = [(R.T * R.diff(c)) for c in coordinates]
        Jw = sympy.Matrix.hstack(*(sympy.Matrix([W[2, 1], W[0, 2], W[1, 0]]) for W in turn))
        Jv = centre.jacobian(coordinates)
        M += mass * Jv.T * Jv + Jw.T * tensor * Jw
    body = sympy.diag(R0[:2, :2], 1, 1, 1)  # [x', y'] of [v_x, v_y]
    return body.T * M * body, (theta, q1, q2, l0, l1, l2, *m, *moments)


@pytest.fixture(scope="module")
def rover_functions():
    M, symbols = derived_rover()
    robot = rover()
    inertia = [link.inertia for link in robot.description.links if link.name != "tool"]
    numbers = [*lengths(robot), *(i.mass for i in inertia)]
    numbers += [x for i in inertia for x in (i.moments[0], i.moments[3], i.moments[5])]
    functions = [sympy.lambdify(symbols, f) for f in (M, *(M.diff(q) for q in symbols[1:3]))]
    return [lambda theta, q, f=f: np.array(f(theta, *q, *numbers)) for f in functions]


@pytest.mark.parametrize("q", [(0.0, 0.0), (0.4, -0.9), (-1.3, 2.2), (1.5, -2.5), (0.1, 3.0)])
def test_the_rover_has_the_matrices_that_sympy_derives(rover_functions, q):
    m = lp.matrices(rover(), q)
    for theta in (0.0, 0.7):  # the vehicle's heading must not matter
        M, *dM = (f(theta, q) for f in rover_functions)
        assert relative(m.M_0, M[:3, :3]) < ROUNDING
        assert relative(m.M_0m, M[:3, 3:]) < ROUNDING
        assert relative(m.M_m, M[3:, 3:]) < ROUNDING
        assert relative(m.A, np.linalg.solve(M[:3, :3], M[:3, 3:])) < ROUNDING
        for i in range(2):
            assert relative(m.dM_0[i], dM[i][:3, :3]) < ROUNDING
            assert relative(m.dM_0m[i], dM[i][:3, 3:]) < ROUNDING
            assert relative(m.dM_m[i], dM[i][3:, 3:]) < ROUNDING


def test_the_rover_has_the_twists_127_and_inclusion_39():
    robot = rover()
    l0, l1, _ = lengths(robot)
    xi = lp.constants(robot).xi[1:]
    assert relative(xi[0], np.array([0, l0, 0, 1, 0, 0])) < ROUNDING
    assert relative(xi[1], np.array([-(l0 + l1), 0, 0, 0, 1, 0])) < ROUNDING
    Xi = lp.constants(robot).Xi
    assert np.array_equal(Xi[:6, :3], np.eye(6)[:, [0, 1, 5]])
    assert np.array_equal(Xi[6:, 3:], np.kron(np.eye(2), np.ones((6, 1))) * xi.reshape(-1, 1))


def test_the_rover_has_the_body_inertias_124_and_125_corrected():
    robot = rover()
    l = lengths(robot)
    for k in (1, 2):
        inertia, half = robot.tree.inertias[k], l[k] / 2
        m = inertia.mass
        cross = np.zeros((3, 3))
        cross[1, 2], cross[2, 1] = m * half, -m * half
        lower = inertia.tensor + m * half**2 * np.diag((0.0, 1.0, 1.0))
        expected = np.block([[m * np.eye(3), cross], [cross.T, lower]])
        # joint axes are z in the link frames, so body and link frames are one
        assert relative(robot.body_inertias[k], expected) < ROUNDING


def test_the_rover_has_the_adjoints_43_and_44():
    robot = rover()
    l0, l1, _ = lengths(robot)
    q1, q2 = q = np.array([0.7, -0.4])
    fixed = lp.constants(robot)
    L = lp.transports(robot, fixed, q).reshape(3, 6, 3, 6)
    first, second = np.linalg.inv(L[1, :, 0]), np.linalg.inv(L[2, :, 1])
    c, s = np.cos(q1), np.sin(q1)
    row = np.array([0, c, -s, l0 * (1 - c), 0, 0])
    assert relative(first[1], row) < ROUNDING
    c, s = np.cos(q2), np.sin(q2)
    row = np.array([c, 0, s, 0, (l0 + l1) * (c - 1), 0])
    assert relative(second[0], row) < ROUNDING
    assert relative(L[2, :, 0], L[2, :, 1] @ L[1, :, 0]) < ROUNDING  # (128)


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "value", "error", "message"),
    [
        (0, np.eye(3), errors.DimensionError, r"pose: got shape \(3, 3\), expected \(4, 4\)"),
        (0, 2.0 * np.eye(4), errors.NotInGroupError, "pose: not a rigid displacement"),
        (1, [0.0], errors.DimensionError, r"q: got shape \(1,\), expected \(2,\)"),
        (2, np.zeros(6), errors.DimensionError, r"V: got shape \(6,\), expected \(3,\)"),
        (3, [0.0, np.nan], errors.NonFiniteError, "qd: holds NaN"),
        (4, "x", errors.DimensionError, "tau: got str, expected 2 numbers"),
        (5, [1.0, 2.0], errors.DimensionError, r"F: got shape \(2,\), expected \(3,\)"),
    ],
)
def test_wrong_arguments_are_refused_by_name(index, value, error, message):
    robot = load("rover_arm2", "SE2")
    arguments = [np.eye(4), [0.1, 0.2], np.zeros(3), np.zeros(2), np.zeros(2), np.zeros(3)]
    lp.forward(robot, *arguments)
    arguments[index] = value
    with pytest.raises(error, match=message):
        lp.forward(robot, *arguments)


def test_an_unknown_link_is_refused():
    with pytest.raises(errors.UnknownLinkError, match="'hand'.*tool"):
        lp.link_jacobians(load("rover_arm2"), [0.0, 0.0], "hand")


def with_inertias(robot, inertias, group):
    out = vm.Robot(robot.description, group)
    out.__dict__["body_inertias"] = inertias
    return out


@pytest.mark.parametrize(("lost", "matrix"), [(slice(None), "M_0"), (2, "M_hat")])
def test_motion_without_inertia_is_refused(lost, matrix):
    robot = load("rover_arm2", "SE2")
    inertias = robot.body_inertias.copy()
    inertias[lost] = 0.0
    broken = with_inertias(robot, inertias, SE2)
    with pytest.raises(errors.SingularMassMatrixError, match=f"{matrix}: .*positive definite"):
        lp.forward(broken, np.eye(4), [0.1, 0.2], *np.zeros((1, 3)), *np.zeros((2, 2)), np.ones(3))


def test_kinetic_energy_is_that_of_the_body_inertias_and_weight_that_of_the_masses():
    robot = vm.Robot(load("auv_arm4").description, SE3, GRAVITY)
    s = State(robot)
    weight = lp.potential_wrench(robot, s.g, s.q)
    light = lp.matrices(robot, s.q)
    robot.__dict__["body_inertias"] = 3.0 * robot.body_inertias
    heavy = lp.matrices(robot, s.q)
    assert relative(heavy.M_0, 3.0 * light.M_0) < ROUNDING
    assert relative(heavy.A, light.A) < ROUNDING
    for before, after in zip(weight, lp.potential_wrench(robot, s.g, s.q), strict=True):
        assert np.array_equal(before, after)
