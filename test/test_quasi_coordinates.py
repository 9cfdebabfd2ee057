# SPDX-License-Identifier: Apache-2.0
"""Equations in quasi-coordinates against Pinocchio, finite differences and worked examples."""

from functools import partial

import cases
import numpy as np
import pytest
from cases import ALL, GROUPS, State, load, relative, text
from peer import Peer

import vm_dynamics as vm
from vm_dynamics import errors
from vm_dynamics.dynamics import lagrange_poincare as lp
from vm_dynamics.dynamics import quasi_coordinates as qc
from vm_dynamics.lie import SE2, SE3
from vm_dynamics.lie.se3 import ad, ad_tilde, adjoint, hat3, inverse

SAME = 1e-9  # relative: what all formulations must agree to
ROUNDING = 1e-12  # relative: the same sums in another order
DIFFERENCES = 1e-9  # relative: what the central difference of order eight has with this step
derivative = partial(cases.derivative, h=4e-3)
GRAVITY = (0.3, -0.2, -9.81)


@pytest.fixture(params=[(name, base) for name in ALL for base in GROUPS], ids="-".join)
def case(request):
    robot = load(*request.param, GRAVITY)
    return robot, State(robot, seed=22)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("base", GROUPS)
def test_accelerations_equal_those_of_pinocchio_with_all_forces(name, base):
    robot = load(name, base, GRAVITY)
    peer = Peer(robot, text(name), gravity=GRAVITY)
    for seed in range(2):
        s = State(robot, seed)
        forces = np.concatenate((s.F, s.tau))
        forces += robot.link_jacobian(s.q, robot.tip_link).T @ s.tip
        there = peer.forward_dynamics(s.q, np.concatenate((s.V, s.qd)), forces, s.g)
        here = qc.forward(robot, s.g, s.q, s.V, s.qd, forces[robot.b :], forces[: robot.b])
        assert relative(np.concatenate(here), there) < SAME


def test_mass_matrix_and_coriolis_forces_equal_those_of_hamels_equations(case):
    robot, s = case
    v = np.concatenate((s.V, s.qd))
    here, there = qc.matrices(robot, s.q, s.V, s.qd), robot.hamel(s.q, s.V, s.qd)
    assert relative(here.M, there.M) < ROUNDING
    assert relative(here.C @ v, there.C @ v) < 100 * ROUNDING


def test_coriolis_forces_take_no_energy(case):
    """dM/dt - 2C is not skew here, as the paper says, but v sees no difference."""
    robot, s = case
    v = np.concatenate((s.V, s.qd))
    full = qc.mass_and_derivatives(robot, s.q)
    M_dot = np.einsum("kij,k->ij", qc.restrict(robot.base_group.iota, *full)[1], s.qd)
    C = qc.coriolis(robot.base_group.iota, *full, v)
    scale = max(1.0, abs(C).max() * (v @ v))
    assert abs(v @ (M_dot - 2.0 * C) @ v) < ROUNDING * scale


def test_partial_derivatives_of_the_mass_matrix_equal_central_differences(case):
    robot, s = case
    H = robot.base_group.iota

    def mass(q):
        return qc.restrict(H, *qc.mass_and_derivatives(robot, q))[0]

    _, dM = qc.restrict(H, *qc.mass_and_derivatives(robot, s.q))
    along = derivative(mass, s.q, s.qd)
    assert relative(np.einsum("kij,k->ij", dM, s.qd), along) < DIFFERENCES


@pytest.mark.parametrize("name", ["satellite_dual_arm", "mimic", "tree4"])
def test_each_partial_derivative_belongs_to_its_joint(name):
    robot = load(name)
    s = State(robot)
    _, dM = qc.mass_and_derivatives(robot, s.q)
    for k, e in enumerate(np.eye(robot.n)):
        along = derivative(lambda q: qc.mass_and_derivatives(robot, q)[0], s.q, e)
        assert relative(dM[k], along) < DIFFERENCES


@pytest.mark.parametrize("name", ["tree3", "star", "chain"])
def test_proposition_3_1_holds_for_any_two_bodies_of_a_tree(name):
    robot = load(name)
    q = State(robot).q
    at = qc.kinematics(robot, q)

    def adjoints(q):
        poses = qc.kinematics(robot, q).poses
        return np.array([[adjoint(inverse(a) @ b) for b in poses] for a in poses])

    bodies = range(len(at.poses))
    for k in range(1, len(at.poses)):
        along = derivative(adjoints, q, np.eye(robot.n)[k - 1])
        closed = np.array([[qc.adjoint_derivative(at, i, j, k) for j in bodies] for i in bodies])
        assert relative(closed, along) < DIFFERENCES


def test_the_weight_equals_that_of_inverse_dynamics(case):
    robot, s = case
    still = np.zeros(robot.b), np.zeros(robot.n)
    weight = np.concatenate(robot.inverse_dynamics(s.g, s.q, *still, *still))
    found = qc.gravity(robot, s.g, s.q)
    assert relative(found, -weight, robot.total_mass) < ROUNDING
    f_u, du_dq = lp.potential_wrench(robot, s.g, s.q)
    assert relative(found, -np.concatenate((f_u, du_dq)), robot.total_mass) < ROUNDING


# -- the term of the base group ------------------------------------------------------------------


def base_term(robot, s):
    """C_VV - dM_VV/dt, and the momentum in group coordinates."""
    full = qc.mass_and_derivatives(robot, s.q)
    H, b = robot.base_group.iota, robot.b
    M, dM = qc.restrict(H, *full)
    v = np.concatenate((s.V, s.qd))
    C = qc.coriolis(H, *full, v)
    return C[:b, :b] - np.einsum("kij,k->ij", dM, s.qd)[:b, :b], (M @ v)[:b]


def test_the_base_term_is_the_bracket_of_the_group(case):
    robot, s = case
    term, p = base_term(robot, s)
    scale = max(1.0, abs(p).max())
    assert abs(term + robot.base_group.ad_tilde(p)).max() < ROUNDING * scale
    assert abs(term @ s.V + robot.base_group.ad(s.V).T @ p).max() < ROUNDING * scale


@pytest.mark.parametrize("base", GROUPS)
def test_which_groups_have_a_base_term(base):
    """Not only SE(3) and SO(3), as Table 2 says: every group that does not commute."""
    robot = load("satellite_arm7", base)
    s = State(robot)
    term, p = base_term(robot, s)
    commutes = base in ("T3", "T2", "T1", "C", "SO2", "H")
    assert bool(abs(term).max() < ROUNDING * abs(p).max()) == commutes
    if base == "SE2":
        x, y, _ = p
        assert relative(term, np.array([[0, 0, -y], [0, 0, x], [y, -x, 0]])) < ROUNDING
    if base == "SO3":
        assert relative(term, -hat3(p)) < ROUNDING


def test_a_single_rigid_body_obeys_kirchhoffs_equations_111():
    robot = load("no_joint")
    s = State(robot)
    M, C = qc.matrices(robot, s.q, s.V, s.qd)
    p = M @ s.V
    expected = -np.block([[np.zeros((3, 3)), hat3(p[:3])], [hat3(p[:3]), hat3(p[3:])]])
    assert relative(C, expected) < ROUNDING
    assert relative(C + C.T, np.zeros((6, 6))) < ROUNDING


def test_the_one_link_robot_of_section_6_obeys_108():
    l, m = 0.7, 2.5
    unit = '<inertia ixx="1" iyy="2" izz="2.5" ixy="0" ixz="0" iyz="0"/>'
    robot = vm.load(
        '<robot name="one"><link name="base"><inertial><mass value="4"/>'
        f'{unit}</inertial></link><link name="slider"><inertial><mass value="{m}"/>{unit}'
        '</inertial></link><joint name="rail" type="prismatic"><parent link="base"/>'
        f'<child link="slider"/><origin xyz="0 0 {l}"/><axis xyz="0 1 0"/>'
        '<limit lower="-9" upper="9" effort="9" velocity="9"/></joint></robot>'
    )
    s = State(robot)
    Vd, qdd = qc.forward(robot, np.eye(4), s.q, s.V, s.qd, s.tau, s.F)
    vx, _, vz, wx, wy, wz = s.V
    left = qdd[0] + Vd[1] - l * Vd[3] + (vx + l * wy) * wz - vz * wx - s.q[0] * (wx**2 + wz**2)
    assert left == pytest.approx(s.tau[0] / m, rel=SAME)


# -- the free-floating form ----------------------------------------------------------------------


def test_the_reduced_form_gives_the_same_accelerations_with_momentum(case):
    robot, s = case
    floating = load_free(robot)
    r = qc.free_floating(robot, s.q, s.V, s.qd, s.tau)
    Vd, qdd = floating.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau)
    assert relative(np.concatenate((r.Vd, r.qdd)), np.concatenate((Vd, qdd))) < SAME
    assert relative(r.M_r, robot.reduced(s.q, s.qd, s.mu).Lambda_q) < SAME


def load_free(robot):
    """The same robot without gravity: one that floats does not feel it."""
    return vm.Robot(robot.description, robot.base_group)


def test_as_printed_the_reduced_form_holds_only_without_momentum():
    robot = load("satellite_arm7")
    s = State(robot)
    still = -robot.connection(s.q) @ s.qd
    for V, holds in ((still, True), (s.V, False)):
        r = qc.free_floating(robot, s.q, V, s.qd, s.tau)
        printed = np.linalg.solve(r.M_r, s.tau - r.C_r @ s.qd)
        assert (relative(printed, r.qdd) < SAME) == holds
        assert (abs(r.N).max() < SAME) == holds


# -- wheels --------------------------------------------------------------------------------------

WHEELED = ("rover_arm2", "satellite_dual_arm", "tree5", "mimic", "prismatic", "no_joint")


def sideways_free(robot, s):
    """Velocity on SE(2) of a robot on wheels."""
    return np.array([s.V[0], 0.0, s.V[2]])


@pytest.mark.parametrize("name", WHEELED)
def test_wheels_equal_a_lagrange_multiplier_on_hamels_equations(name):
    robot = load(name, "SE2", GRAVITY)
    s = State(robot, seed=3)
    V = sideways_free(robot, s)
    v = np.concatenate((V, s.qd))
    still = np.zeros(3), np.zeros(robot.n)
    weight = np.concatenate(robot.inverse_dynamics(s.g, s.q, *still, *still))
    M, C = robot.hamel(s.q, V, s.qd)
    side = np.eye(len(v))[1]
    left = np.block([[M, -side[:, None]], [side, np.zeros(1)]])
    right = np.concatenate((s.F, s.tau)) - weight - C @ v
    expected = np.linalg.solve(left, np.append(right, 0.0))
    vd, qdd, force = qc.wheeled_forward(robot, s.g, s.q, V[[0, 2]], s.qd, s.tau, s.F)
    found = np.concatenate((vd[:1], [0.0], vd[1:], qdd, [force]))
    assert relative(found, expected) < SAME


@pytest.mark.parametrize("name", WHEELED)
def test_the_side_force_is_what_keeps_the_robot_from_sliding(name):
    robot = load(name, "SE2", GRAVITY)
    s = State(robot, seed=4)
    V = sideways_free(robot, s)
    vd, qdd, force = qc.wheeled_forward(robot, s.g, s.q, V[[0, 2]], s.qd, s.tau, s.F)
    Vd, free = robot.forward_dynamics(s.g, s.q, V, s.qd, s.tau, s.F + [0.0, force, 0.0])
    expected = np.concatenate(([vd[0], 0.0, vd[1]], qdd))
    assert relative(np.concatenate((Vd, free)), expected) < SAME
    Vd, _ = robot.forward_dynamics(s.g, s.q, V, s.qd, s.tau, s.F)
    assert abs(Vd[1]) > 1e-3, "without the wheels it slides"


@pytest.mark.parametrize("name", WHEELED)
def test_the_wheels_do_no_work(name):
    robot = load(name, "SE2", GRAVITY)
    s = State(robot, seed=5)
    V = sideways_free(robot, s)
    vd, qdd, _ = qc.wheeled_forward(robot, s.g, s.q, V[[0, 2]], s.qd, s.tau, s.F)
    Vd = np.array([vd[0], 0.0, vd[1]])
    n = robot.n

    def energy(x):
        return np.array(robot.kinetic_energy(x[:n], x[n : n + 3], x[n + 3 :]))

    rate = derivative(energy, np.concatenate((s.q, V, s.qd)), np.concatenate((s.qd, Vd, qdd)))
    weight = qc.gravity(robot, s.g, s.q)
    power = (s.F + weight[:3]) @ V + (s.tau + weight[3:]) @ s.qd
    assert relative(rate, np.array(power), 10.0 * robot.total_mass) < DIFFERENCES


def test_a_wheeled_robot_that_coasts_in_a_curve_keeps_its_energy():
    robot = load("rover_arm2", "SE2")
    q, v, qd, h = np.array([0.4, -0.7]), np.array([1.0, 0.8]), np.array([0.5, -0.3]), 1e-4

    def rates(q, v, qd):
        vd, qdd, _ = qc.wheeled_forward(robot, np.eye(4), q, v, qd, np.zeros(2), np.zeros(3))
        return qd, vd, qdd

    def energy():
        return robot.kinetic_energy(q, [v[0], 0.0, v[1]], qd)

    start, first = energy(), v.copy()
    for _ in range(500):
        k1 = rates(q, v, qd)
        k2 = rates(*(x + h / 2 * k for x, k in zip((q, v, qd), k1, strict=True)))
        q, v, qd = (x + h * k for x, k in zip((q, v, qd), k2, strict=True))
    assert abs(v - first).max() > 1e-3, "the arm should have changed the vehicle's motion"
    assert abs(energy() / start - 1.0) < 1e-9  # second order at 0.1 ms over 50 ms


M_SLEIGH, I_SLEIGH, A_SLEIGH = 3.0, 0.8, 0.4


def sleigh():
    """Chaplygin's sleigh: one body whose centre of mass is ahead of the blade at the origin."""
    return vm.load(
        f'<robot name="sleigh"><link name="body"><inertial><origin xyz="{A_SLEIGH} 0 0"/>'
        f'<mass value="{M_SLEIGH}"/><inertia ixx="1" iyy="1" izz="{I_SLEIGH}" ixy="0" ixz="0" '
        'iyz="0"/></inertial></link></robot>',
        base="SE2",
    )


def test_chaplygins_sleigh_moves_as_in_the_textbooks():
    v, w = 1.3, -0.7
    vd, _, force = qc.wheeled_forward(sleigh(), np.eye(4), [], [v, w], [], [], np.zeros(3))
    m, a = M_SLEIGH, A_SLEIGH
    wd = -m * a * v * w / (I_SLEIGH + m * a**2)
    assert relative(vd, np.array([a * w**2, wd])) < ROUNDING
    assert force == pytest.approx(m * (v * w + a * wd), rel=ROUNDING)


def test_to_put_101_in_place_of_H_loses_the_sideways_momentum():
    """The paper's recipe: the momentum along v_x and w_z only. It would not move the sleigh."""
    robot, v = sleigh(), np.array([1.3, -0.7])
    H = SE2.iota @ qc.WHEELS
    M, dM = qc.mass_and_derivatives(robot, [])
    p = H.T @ M @ H @ v
    naive = -H.T @ ad_tilde(H @ p) @ H
    assert not naive.any()
    right = qc.coriolis(H, M, dM, v)
    p_y = (M @ H @ v)[1]
    assert p_y == pytest.approx(M_SLEIGH * A_SLEIGH * v[1], rel=ROUNDING)
    assert relative(right, np.array([[0.0, -p_y], [p_y, 0.0]])) < ROUNDING


def test_wheels_need_a_base_in_the_plane():
    robot = load("rover_arm2", "SE3")
    with pytest.raises(errors.ParameterError, match="robot: got base group SE3, expected SE2"):
        qc.wheeled_forward(robot, np.eye(4), *np.zeros((4, 2)), np.zeros(3))


# -- inertia of a fluid --------------------------------------------------------------------------


def submerged(robot, seed):
    """The robot with a random symmetric positive matrix added to the inertia of every body."""
    out = vm.Robot(robot.description, robot.base_group, robot.gravity)
    root = np.random.default_rng(seed).normal(size=(*robot.body_inertias.shape[:1], 6, 6))
    out.__dict__["body_inertias"] = robot.body_inertias + root @ root.transpose(0, 2, 1)
    return out


def by_bodies(robot, s):
    """Accelerations from sum T_k^T (N_k dV_k/dt - ad_{V_k}^T N_k V_k) = forces on the whole."""
    first = [robot.root_link, *(body.joint.child for body in robot.tree.bodies)]
    v = np.concatenate((s.V, s.qd))

    def maps(q):
        return np.array(
            [adjoint(robot.link_frame(k).pose) @ robot.link_jacobian(q, k) for k in first]
        )

    M, bias = 0.0, 0.0
    T_dot = derivative(maps, s.q, s.qd)
    for N, T, Td in zip(robot.body_inertias, maps(s.q), T_dot, strict=True):
        V_k = T @ v
        M = M + T.T @ N @ T
        bias = bias + T.T @ (N @ Td @ v - ad(V_k).T @ N @ V_k)
    forces = np.concatenate((s.F, s.tau)) + qc.gravity(robot, s.g, s.q)
    return np.linalg.solve(M, forces - bias)


@pytest.mark.parametrize("formulation", [lp, qc], ids=["lagrange_poincare", "quasi_coordinates"])
@pytest.mark.parametrize("name", ["auv_arm4", "tree5", "mimic", "no_joint"])
@pytest.mark.parametrize("base", GROUPS)
def test_inertias_may_be_any_symmetric_matrices_as_those_of_a_body_in_water(
    formulation, name, base
):
    robot = submerged(load(name, base, GRAVITY), seed=6)
    s = State(robot, seed=7)
    found = np.concatenate(formulation.forward(robot, s.g, s.q, s.V, s.qd, s.tau, s.F))
    assert relative(found, by_bodies(robot, s)) < DIFFERENCES


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "value", "error", "message"),
    [
        (0, np.eye(3), errors.DimensionError, r"pose: got shape \(3, 3\), expected \(4, 4\)"),
        (1, [0.0], errors.DimensionError, r"q: got shape \(1,\), expected \(2,\)"),
        (2, np.zeros(6), errors.DimensionError, r"[vV]: got shape \(6,\), expected \([23],\)"),
        (3, [0.0, np.inf], errors.NonFiniteError, "qd: holds NaN or infinity"),
        (4, None, errors.DimensionError, "tau: got"),
        (5, [1.0, 2.0], errors.DimensionError, r"F: got shape \(2,\), expected \(3,\)"),
    ],
)
@pytest.mark.parametrize(("function", "size"), [(qc.forward, 3), (qc.wheeled_forward, 2)])
def test_wrong_arguments_are_refused_by_name(function, size, index, value, error, message):
    robot = load("rover_arm2", "SE2")
    arguments = [np.eye(4), [0.1, 0.2], np.zeros(size), np.zeros(2), np.zeros(2), np.zeros(3)]
    function(robot, *arguments)
    arguments[index] = value
    with pytest.raises(error, match=message):
        function(robot, *arguments)


def test_motion_without_inertia_is_refused():
    robot = vm.Robot(load("rover_arm2").description, SE3)
    robot.__dict__["body_inertias"] = np.zeros((3, 6, 6))
    with pytest.raises(errors.SingularMassMatrixError, match="M: .*positive definite"):
        qc.forward(robot, np.eye(4), [0.1, 0.2], *np.zeros((1, 6)), *np.zeros((2, 2)), np.ones(6))
