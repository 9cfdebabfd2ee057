# SPDX-License-Identifier: Apache-2.0
"""A robot in water: Kirchhoff's equations, Galilei, energy, equilibrium, bad files."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from cases import ALL, GROUPS, ROBOTS, State, derivative, load, relative
from test_kernels import REDUCED

import vm_dynamics as vm
from vm_dynamics.dynamics import general, lagrange_poincare, plain, quasi_coordinates, quaternion
from vm_dynamics.lie.se3 import ad, ad_tilde, hat3

GRAVITY = (0.0, 0.0, -9.81)
ROUNDING = 1e-11  # relative: another order of summation
SAME = 1e-9  # relative: what all formulations must agree to
DIFFERENCED = 1e-8  # relative: what the differences of order eight are good for
FILE = ROBOTS / "auv_arm4.yaml"


def random_fluid(robot, seed, current=(0.0, 0.0, 0.0)):
    """Full matrices on every link, whatever its frame."""
    rng = np.random.default_rng(seed)
    links = {}
    for link in robot.link_names:
        root = rng.normal(size=(3, 6, 6)) * 0.4
        links[link] = {
            "added_mass": root[0] @ root[0].T,
            "linear_damping": root[1] @ root[1].T,
            "quadratic_damping": abs(rng.normal(size=6)),
            "volume": 1e-3 * rng.random(),
            "center_of_buoyancy": rng.normal(size=3) * 0.1,
        }
    fluid = {"links": links, "current": current, "density": 1000.0}
    return vm.Hydrodynamics.load({"hydrodynamics": fluid})


@pytest.fixture(
    params=[(name, base) for name in ALL for base in ("SE3", "SE2", "H")], ids="-".join
)
def case(request):
    dry = load(*request.param, GRAVITY)
    robot = vm.submerge(dry, random_fluid(dry, 3, (0.4, -0.3, 0.2)))
    return robot, State(robot, seed=5)


def dry_of(robot):
    """The same robot without its fluid."""
    return vm.Robot(robot.description, robot.base_group, robot.gravity, robot.tip_link)


def link_forces(robot, g, q, V, qd, Vd, qdd):
    """Wrench of the fluid on every link in its frame, link by link as in the text books.

    Kirchhoff: ``-(A V_r' - ad_{V_r}^T A V_r)``, drag, buoyancy; V_r of the link relative to the
    current. Returns the generalized force [base; joints].
    """
    fluid = robot.fluid.hydrodynamics
    terms = dict(zip(robot.link_names, plain.link_terms(robot, q, qd), strict=True))
    out = np.zeros(robot.b + robot.n)
    for part in fluid.links:
        T, T_dot = plain.link_map(terms[part.link])
        v, a = np.concatenate((V, qd)), np.concatenate((Vd, qdd))
        turn = (g @ robot.link_pose(q, part.link))[:3, :3]
        stream = turn.T @ np.array(fluid.current)
        V_k, V_k_dot = T @ v, T @ a + T_dot @ v
        V_r = V_k - np.concatenate((stream, np.zeros(3)))
        # the stream's components in the link's axes change as the link turns
        V_r_dot = V_k_dot + np.concatenate((np.cross(V_k[3:], stream), np.zeros(3)))
        A = np.array(part.added_mass).reshape(6, 6)
        D = np.array(part.linear_damping).reshape(6, 6)
        D2 = np.array(part.quadratic_damping).reshape(6, 6)
        wrench = -(A @ V_r_dot - ad(V_r).T @ A @ V_r) - D @ V_r - D2 @ (abs(V_r) * V_r)
        lift = -turn.T @ robot.gravity * fluid.density * part.volume
        wrench += np.concatenate((lift, np.cross(part.center_of_buoyancy, lift)))
        out += T.T @ wrench
    return out


def test_inverse_dynamics_has_the_forces_of_the_text_books_on_every_link(case):
    robot, s = case
    dry = dry_of(robot)
    motion = s.g, s.q, s.V, s.qd, s.Vd, s.qdd
    found = np.concatenate(robot.inverse_dynamics(*motion, s.tip))
    expected = np.concatenate(dry.inverse_dynamics(*motion, s.tip)) - link_forces(robot, *motion)
    assert relative(found, expected) < ROUNDING


@pytest.mark.parametrize("method", [m for m in vm.METHODS if m != "quaternion"])
def test_every_formulation_solves_the_inverse_dynamics(case, method):
    robot, s = case
    acc = robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, s.F, s.tip, method=method)
    back = robot.inverse_dynamics(s.g, s.q, s.V, s.qd, *acc, s.tip)
    assert relative(np.concatenate(back), np.concatenate((s.F, s.tau))) < SAME


def test_the_quaternion_model_too():
    dry = load("auv_arm4", "SE3", GRAVITY)
    robot = vm.submerge(dry, random_fluid(dry, 3, (0.4, -0.3, 0.2)))
    s = State(robot, seed=5)
    acc = robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, s.F, s.tip, method="quaternion")
    back = robot.inverse_dynamics(s.g, s.q, s.V, s.qd, *acc, s.tip)
    assert relative(np.concatenate(back), np.concatenate((s.F, s.tau))) < SAME


def test_fluid_forces_are_those_of_the_text_books_without_added_mass(case):
    robot, s = case
    fluid, none = robot.fluid.hydrodynamics, (0.0,) * 36
    links = tuple(replace(part, added_mass=none) for part in fluid.links)
    light = vm.submerge(dry_of(robot), replace(fluid, links=links))
    still = np.zeros(robot.b), np.zeros(robot.n)
    expected = link_forces(light, s.g, s.q, s.V, s.qd, *still)
    found = np.concatenate(light.fluid_forces(s.g, s.q, s.V, s.qd))
    assert relative(found, expected) < ROUNDING


def test_there_are_no_fluid_forces_in_the_dry():
    robot = load("auv_arm4", "SE2", GRAVITY)
    s = State(robot, 5)
    F, tau = robot.fluid_forces(s.g, s.q, s.V, s.qd)
    assert F.shape == (3,) and tau.shape == (4,) and not F.any() and not tau.any()
    assert robot.fluid is None


@pytest.mark.parametrize("formulation", [lagrange_poincare, quasi_coordinates, quaternion])
def test_the_forward_dynamics_of_each_formulation_obeys_the_fluid(formulation):
    dry = load("auv_arm4", "SE3", GRAVITY)
    robot = vm.submerge(dry, random_fluid(dry, 3, (0.4, -0.3, 0.2)))
    s = State(robot, seed=5)
    found = formulation.forward(robot, s.g, s.q, s.V, s.qd, s.tau, s.F)
    expected = robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, s.F)
    assert relative(np.concatenate(found), np.concatenate(expected)) < SAME


def test_the_coordinates_of_the_quaternion_model_obey_the_fluid():
    dry = load("auv_arm4", "SE3", GRAVITY)
    robot = vm.submerge(dry, random_fluid(dry, 3, (0.4, -0.3, 0.2)))
    s, model = State(robot, seed=5), vm.QuaternionModel(robot)
    x = model.coordinates(s.g, s.q)
    xd = model.velocities(x, s.V, s.qd)
    f_x = model.force_map(x) @ np.concatenate((s.F, s.tau))
    Vd, qdd = robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, s.F)
    for xdd in (model.accelerations(x, xd, f_x), model.rates(x, xd, f_x, 1e-3).vd):
        assert relative(xdd[7:], qdd) < SAME
        turn, w = s.g[:3, :3], s.V[3:]
        assert relative(turn.T @ xdd[:3] - np.cross(w, s.V[:3]), Vd[:3]) < SAME


def test_a_vehicle_on_wheels_obeys_the_fluid():
    dry = load("rover_arm2", "SE2", GRAVITY)
    robot = vm.submerge(dry, random_fluid(dry, 4, (0.4, -0.3, 0.0)))
    s = State(robot, seed=6)
    v = np.array([0.5, 0.2])
    V = np.array([v[0], 0.0, v[1]])
    vd, qdd, side = robot.wheeled_dynamics(s.g, s.q, v, s.qd, s.tau, s.F)
    F, tau = robot.inverse_dynamics(s.g, s.q, V, s.qd, [vd[0], 0.0, vd[1]], qdd)
    assert relative(F, s.F + [0.0, side, 0.0]) < SAME
    assert relative(tau, s.tau) < SAME


def test_what_knows_no_forces_on_the_base_refuses_a_submerged_robot():
    robot = vm.submerge(load("auv_arm4", "SE3", GRAVITY), FILE)
    s = State(robot, seed=5)
    with pytest.raises(vm.ParameterError, match="'auv_arm4' is submerged"):
        robot.free_floating(s.q, s.V, s.qd, s.tau)
    with pytest.raises(vm.ParameterError, match="'auv_arm4' is submerged"):
        robot.dynamically_equivalent_manipulator()


def test_the_reduced_equations_take_the_fluid_as_a_force(case):
    robot, s = case
    mu = s.V + robot.connection(s.q) @ s.qd
    reduced = robot.reduced(s.q, s.qd, mu)
    still = np.zeros(robot.b), np.zeros(robot.n)
    dry = dry_of(robot)
    weight = dry.inverse_dynamics(s.g, s.q, *still, *still)
    F, tau = robot.fluid_forces(s.g, s.q, s.V, s.qd)
    mu_dot, qdd = reduced.accelerations(mu, s.qd, s.F + F - weight[0], s.tau + tau - weight[1])
    _, expected = robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, s.F)
    assert relative(qdd, expected) < SAME


def test_a_steady_current_is_the_same_as_moving_through_water_at_rest():
    dry = load("auv_arm4", "SE3", GRAVITY)
    u = np.array([0.5, -0.3, 0.2])
    still, stream = (vm.submerge(dry, random_fluid(dry, 1, c)) for c in ((0, 0, 0), u))
    s = State(dry, seed=6)
    U = np.concatenate((s.g[:3, :3].T @ u, np.zeros(3)))
    U_dot = np.concatenate((np.cross(U[:3], s.V[3:]), np.zeros(3)))
    Vd, qdd = stream.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, s.F)
    Vd_still, qdd_still = still.forward_dynamics(s.g, s.q, s.V - U, s.qd, s.tau, s.F)
    assert relative(Vd - U_dot, Vd_still) < ROUNDING
    assert relative(qdd, qdd_still) < ROUNDING


def test_a_vehicle_alone_obeys_the_equations_of_underwater_vehicles():
    """[From2010] (40), C of (111) for M_RB and M_A alike."""
    dry = load("auv_arm4", "SE3", GRAVITY).with_locked(load("auv_arm4").joint_names)
    base_only = {"links": {"base_link": vm_file()["links"]["base_link"]}}
    robot = vm.submerge(dry, base_only)
    rng = np.random.default_rng(2)
    V, F = rng.normal(size=(2, 6))
    g = vm.lie.SE3.exp(rng.normal(size=6))
    M_RB = dry.mass_matrix(())
    part = robot.fluid.hydrodynamics.links[0]
    M = M_RB + np.array(part.added_mass).reshape(6, 6)
    p = M @ V
    C = -np.block([[np.zeros((3, 3)), hat3(p[:3])], [hat3(p[:3]), hat3(p[3:])]])
    D = np.array(part.linear_damping).reshape(6, 6)
    D = D + np.array(part.quadratic_damping).reshape(6, 6) * abs(V)
    down = g[:3, :3].T @ robot.gravity
    weight = robot.total_mass * down
    lift = -1025.0 * part.volume * down
    restoring = np.concatenate(
        (
            weight + lift,
            np.cross(dry.center_of_mass(()), weight) + np.cross(part.center_of_buoyancy, lift),
        )
    )
    expected = np.linalg.solve(M, F + restoring - C @ V - D @ V)
    found, _ = robot.forward_dynamics(g, (), V, (), (), F)
    assert relative(found, expected) < ROUNDING


def vm_file():
    import yaml

    return yaml.safe_load(FILE.read_text())["hydrodynamics"]


@pytest.mark.parametrize("base", GROUPS)
def test_matrices_with_added_mass_are_derivatives_of_its_kinetic_energy(base):
    dry = load("auv_arm4", base, GRAVITY)
    robot = vm.submerge(dry, FILE)
    s = State(robot, seed=7)
    M, C = robot.hamel(s.q, s.V, s.qd)
    v = np.concatenate((s.V, s.qd))
    M_dot = derivative(robot.mass_matrix, s.q, s.qd)
    balance = M_dot - 2.0 * C
    assert relative(balance, -balance.T) < DIFFERENCED
    gradient = [0.5 * v @ derivative(robot.mass_matrix, s.q, unit) @ v for unit in np.eye(robot.n)]
    p = (M @ v)[: robot.b]
    expected = M_dot @ v - np.concatenate((robot.base_group.ad(s.V).T @ p, gradient))
    assert relative(C @ v, expected) < DIFFERENCED
    A, curvature = robot.connection(s.q), robot.curvature(s.q)
    for i, unit in enumerate(np.eye(robot.n)):
        dA = derivative(robot.connection, s.q, unit)
        lie = robot.base_group.ad(A[:, i]) @ A
        for j, other in enumerate(np.eye(robot.n)):
            back = derivative(robot.connection, s.q, other)[:, i]
            assert relative(curvature[:, i, j], dA[:, j] - back - lie[:, j]) < DIFFERENCED


def test_added_mass_changes_which_loops_turn_the_base():
    dry = load("auv_arm4")
    wet = vm.submerge(dry, FILE)
    q = np.array([0.2, 0.4, 0.6, 0.1])
    assert relative(wet.curvature(q), dry.curvature(q)) > 0.1


@pytest.mark.parametrize("name", ["auv_arm4", "tree4", "mimic"])
@pytest.mark.parametrize("base", GROUPS)
def test_matrices_from_derivatives_equal_the_kernels_where_there_is_no_fluid(name, base):
    robot = load(name, base)
    s = State(robot, seed=8)
    M, dM = robot.mass_matrix(s.q), robot.mass_derivatives(s.q)
    ours = general.reduced(M, dM, robot.base_group, s.qd, s.mu)
    kernels = robot.reduced(s.q, s.qd, s.mu)
    floor = 1e-2 * max(abs(getattr(kernels, key)).max() for key in REDUCED)
    for key in set(REDUCED) - {"Gamma_q", "D_qd"}:
        assert relative(getattr(ours, key), getattr(kernels, key), floor) < ROUNDING, key
    # Gamma_q is not unique, its product with qd is
    assert relative(ours.Gamma_q @ s.qd, kernels.Gamma_q @ s.qd, floor) < ROUNDING


@pytest.mark.parametrize("name", ["auv_arm4", "tree4", "mimic_chain", "prismatic"])
@pytest.mark.parametrize("base", GROUPS)
def test_mass_derivatives_equal_central_differences(name, base):
    robot = load(name, base)
    s = State(robot, seed=9)
    found = robot.mass_derivatives(s.q)
    for i, unit in enumerate(np.eye(robot.n)):
        assert relative(found[i], derivative(robot.mass_matrix, s.q, unit)) < DIFFERENCED


def test_jacobians_of_a_submerged_robot_include_the_added_mass():
    robot = vm.submerge(load("auv_arm4"), FILE)
    q = np.array([0.2, 0.4, 0.6, 0.1])
    assert relative(robot.disturbance_jacobian(q), -robot.connection(q)) < ROUNDING
    assert relative(robot.connection(q), load("auv_arm4").connection(q)) > 0.1


def test_drag_only_takes_energy():
    dry = load("auv_arm4")
    robot = vm.submerge(dry, FILE)
    for seed in range(20):
        s = State(robot, seed)
        v = np.concatenate((s.V, s.qd))
        rest = np.zeros(robot.b), np.zeros(robot.n)
        assert v @ np.concatenate(robot.fluid_forces(s.g, s.q, s.V, s.qd)) < 0.0
        assert not np.concatenate(robot.fluid_forces(s.g, s.q, *rest)).any()


def test_the_vehicle_floats_level_and_rights_itself():
    robot = vm.submerge(load("auv_arm4", "SE3", GRAVITY), FILE)
    rest = np.zeros(6), np.zeros(4)
    F, _ = robot.inverse_dynamics(np.eye(4), np.zeros(4), *rest, *rest)
    assert F[2] == pytest.approx(1.0, abs=0.1), "1 N holds it"
    assert abs(F[3:]).max() < 0.5, "next to no moment"
    tilted = vm.lie.SE3.exp([0, 0, 0, 0.3, 0, 0])
    Vd, _ = robot.forward_dynamics(tilted, np.zeros(4), *rest, np.zeros(4))
    assert Vd[3] < -0.1


def test_a_submerged_robot_is_a_value_and_changes_with_its_description():
    robot = vm.submerge(load("auv_arm4"), FILE)
    again = vm.submerge(load("auv_arm4"), vm.Hydrodynamics.load(FILE))
    assert robot == again and hash(robot) == hash(again)
    assert robot != load("auv_arm4")
    assert pickle.loads(pickle.dumps(robot)) == robot
    heavier = robot.with_payload("tool", 1.0, (0, 0, 0))
    assert heavier.fluid is not None and heavier.total_mass == 101.0
    assert robot.with_locked(["slew_joint"]).n == 3
    M, A = robot.batch_mass_and_connection(np.zeros((2, 4)))
    assert np.array_equal(M[1], robot.mass_matrix(np.zeros(4)))
    assert np.array_equal(A[1], robot.connection(np.zeros(4)))


def with_value(path, value):
    values = copy.deepcopy(vm_file())
    at = values
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return {"hydrodynamics": values}


BASE = ("links", "base_link")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("wind",), 1.0, "unknown key 'wind'.*density, current, links"),
        (("density",), -1.0, "density.*-1"),
        (("density",), "salty", "density.*'salty'.*number"),
        (("current",), [0.0, 1.0], "current.*3 numbers"),
        (("current",), [0.0, float("nan"), 1.0], "current.*nan"),
        (("links",), {}, "links.*mapping"),
        ((*BASE, "drag"), 1.0, "'base_link'.*unknown key 'drag'.*linear_damping"),
        ((*BASE, "linear_damping"), [1, 1, -2, 1, 1, 1], "linear_damping is negative.*-2"),
        ((*BASE, "quadratic_damping"), [-1, 1, 2, 1, 1, 1], "quadratic_damping is negative"),
        ((*BASE, "added_mass"), [1, 1, 2, 1, 1, -1], "added_mass is negative"),
        ((*BASE, "added_mass"), np.triu(np.ones((6, 6))), "added_mass is not symmetric"),
        ((*BASE, "added_mass"), [1, 2, 3], "added_mass.*6 numbers"),
        ((*BASE, "added_mass"), np.ones((5, 6)), "5 rows, expected 6"),
        ((*BASE, "volume"), -0.1, "volume is -0.1"),
        ((*BASE, "center_of_buoyancy"), 3.0, "center_of_buoyancy.*3 numbers"),
    ],
)
def test_impossible_parameters_are_refused_by_name(path, value, message):
    with pytest.raises(vm.ParameterError, match=message):
        vm.submerge(load("auv_arm4"), with_value(path, value))


def test_files_that_are_none_are_refused(tmp_path):
    robot = load("auv_arm4")
    for name, content in (("list", "- 1\n"), ("broken", "{a: ["), ("other", "x: 1\n")):
        path = tmp_path / f"{name}.yaml"
        path.write_text(content)
        with pytest.raises(vm.ParameterError, match=name):
            vm.submerge(robot, path)
    with pytest.raises(vm.ParameterError, match="nowhere"):
        vm.submerge(robot, tmp_path / "nowhere.yaml")
    with pytest.raises(vm.UnknownLinkError, match="keel.*base_link"):
        vm.submerge(robot, {"links": {"keel": {}}})
    with pytest.raises(vm.ParameterError, match="submerged already"):
        vm.submerge(vm.submerge(robot, FILE), FILE)


def test_kirchhoffs_bracket_is_the_one_of_the_package():
    rng = np.random.default_rng(0)
    V, h = rng.normal(size=(2, 6))
    assert np.allclose(ad(V).T @ h, ad_tilde(h) @ V, atol=1e-14)
