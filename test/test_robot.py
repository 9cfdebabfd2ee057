# SPDX-License-Identifier: Apache-2.0
"""The Robot as users call it: inputs, errors, fresh arrays, batches, extremes, conservation."""

import threading

import numpy as np
import pinocchio as pin
import pytest
from cases import ALL, GROUPS, State, load, relative, text
from peer import Peer
from random_robots import random_urdf

import vm_dynamics as vm

ROUNDING = 1e-12


@pytest.fixture(scope="module")
def arm():
    return load("satellite_arm7")


METHODS_OF_Q = {
    "mass_matrix": lambda r, q: r.mass_matrix(q),
    "connection": lambda r, q: r.connection(q),
    "mass_and_connection": lambda r, q: r.mass_and_connection(q)[1],
    "link_pose": lambda r, q: r.link_pose(q, "tool"),
    "link_jacobian": lambda r, q: r.link_jacobian(q, "tool"),
    "center_of_mass": lambda r, q: r.center_of_mass(q),
    "curvature": lambda r, q: r.curvature(q),
    "hamel": lambda r, q: r.hamel(q, np.ones(6), np.ones(7)).C,
    "reduced": lambda r, q: r.reduced(q, np.ones(7), np.ones(6)).D_mu,
    "momentum": lambda r, q: r.momentum(q, np.ones(6), np.ones(7)),
}
Q = np.linspace(-1.0, 1.0, 7)
UNUSUAL = {
    "list": Q.tolist(),
    "tuple": tuple(Q),
    "non-contiguous": np.repeat(Q, 2)[::2],
    "column of a matrix": np.stack([Q, Q], axis=1)[:, 0],
    "read-only": np.frombuffer(Q.tobytes()),
    "big-endian": Q.astype(">f8"),
}


@pytest.mark.parametrize("method", METHODS_OF_Q)
@pytest.mark.parametrize("q", UNUSUAL.values(), ids=UNUSUAL)
def test_any_sequence_of_numbers_is_taken(arm, method, q):
    f = METHODS_OF_Q[method]
    assert np.array_equal(f(arm, q), f(arm, Q))


@pytest.mark.parametrize("method", METHODS_OF_Q)
def test_single_precision_is_taken_and_computed_in_double(arm, method):
    f = METHODS_OF_Q[method]
    q = Q.astype(np.float32)
    assert np.array_equal(f(arm, q), f(arm, q.astype(float)))
    assert f(arm, q).dtype == np.float64


WRONG = {
    "too short": (Q[:6], vm.DimensionError),
    "too long": (np.zeros(8), vm.DimensionError),
    "a matrix": (np.zeros((7, 1)), vm.DimensionError),
    "text": ("seven numbers", vm.DimensionError),
    "None": (None, vm.DimensionError),
    "a dict": ({"joint1": 0.0}, vm.DimensionError),
    "NaN": (np.r_[Q[:6], np.nan], vm.NonFiniteError),
    "infinity": (np.r_[Q[:6], -np.inf], vm.NonFiniteError),
    "opposite infinities": (np.r_[Q[:5], np.inf, -np.inf], vm.NonFiniteError),
}


@pytest.mark.parametrize("method", METHODS_OF_Q)
@pytest.mark.parametrize(("q", "error"), WRONG.values(), ids=WRONG)
def test_a_bad_shape_is_refused_by_name(arm, method, q, error):
    with pytest.raises(error, match="^q:"):
        METHODS_OF_Q[method](arm, q)


def test_every_velocity_argument_is_checked_by_name(arm):
    good6, good7, bad = np.zeros(6), np.zeros(7), np.full(7, np.nan)
    calls = {
        "V": lambda: arm.hamel(good7, good7, good7),
        "qd": lambda: arm.hamel(good7, good6, bad),
        "mu": lambda: arm.reduced(good7, good7, good7),
        "tau": lambda: arm.forward_dynamics(np.eye(4), good7, good6, good7, good6),
        "base_wrench": lambda: arm.forward_dynamics(np.eye(4), good7, good6, good7, good7, good7),
        "tip_wrench": lambda: arm.forward_dynamics(
            np.eye(4), good7, good6, good7, good7, good6, good7
        ),
        "Vd": lambda: arm.inverse_dynamics(np.eye(4), good7, good6, good7, good7, good7),
        "pose": lambda: arm.inverse_dynamics(np.eye(3), good7, good6, good7, good6, good7),
    }
    for name, call in calls.items():
        with pytest.raises(vm.VmDynamicsError, match=f"^{name}:"):
            call()


def test_unknown_names_are_refused_with_the_valid_ones(arm):
    with pytest.raises(vm.UnknownLinkError, match="'gripper'.*base_link.*tool"):
        arm.link_pose(Q, "gripper")
    with pytest.raises(vm.UnknownMethodError, match="reduced"):
        arm.forward_dynamics(
            np.eye(4), Q, np.zeros(6), np.zeros(7), np.zeros(7), method="guessing"
        )


def test_results_are_fresh_arrays_and_calls_leave_their_arguments_alone(arm):
    q = Q.copy()
    first, again = arm.mass_and_connection(q), arm.mass_and_connection(q)
    first[0][:] = first[1][:] = 0.0
    assert abs(again[0]).max() > 0.0 and abs(again[1]).max() > 0.0
    assert np.array_equal(q, Q)


def test_a_batch_equals_single_calls(arm):
    shapes = np.random.default_rng(0).normal(size=(1000, 7))
    M, A = arm.batch_mass_and_connection(shapes)
    assert M.shape == (1000, 13, 13) and A.shape == (1000, 6, 7)
    for threads in (1, 2, 3):
        again = arm.batch_mass_and_connection(shapes, threads=threads)
        assert np.array_equal(again[0], M) and np.array_equal(again[1], A)
    for k in (0, 499, 500, 999):
        single = arm.mass_and_connection(shapes[k])
        assert relative(M[k], single[0]) < ROUNDING and relative(A[k], single[1]) < ROUNDING


def test_a_bad_batch_is_refused(arm):
    with pytest.raises(vm.DimensionError, match="q"):
        arm.batch_mass_and_connection(np.zeros((3, 6)))
    with pytest.raises(vm.NonFiniteError, match="q"):
        arm.batch_mass_and_connection(np.full((3, 7), np.nan))
    M, A = arm.batch_mass_and_connection(np.zeros((0, 7)))
    assert M.shape == (0, 13, 13) and A.shape == (0, 6, 7)


def test_threads_do_not_disturb_each_other(arm):
    shapes = np.random.default_rng(1).normal(size=(200, 7))
    expected = [arm.reduced(q, q, q[:6]).D_mu for q in shapes]
    failures = []

    def work():
        for q, right in zip(shapes, expected, strict=True):
            if not np.array_equal(arm.reduced(q, q, q[:6]).D_mu, right):
                failures.append(q)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("base", GROUPS)
def test_a_robot_without_joints_is_a_rigid_body(base):
    robot = load("no_joint", base)
    s = State(robot)
    M, A = robot.mass_and_connection([])
    assert M.shape == (robot.b, robot.b) and A.shape == (robot.b, 0)
    assert robot.curvature([]).shape == (robot.b, 0, 0)
    Vd, qdd = robot.forward_dynamics(s.g, [], s.V, [], [], s.F)
    euler = np.linalg.solve(M, robot.base_group.ad(s.V).T @ M @ s.V + s.F)
    assert qdd.shape == (0,) and relative(Vd, euler) < 1e-10


def test_a_chain_of_a_hundred_joints_agrees_with_pinocchio():
    description = random_urdf(42, 100, branching=0.0, prismatic=0.1)
    robot = vm.load(description)
    peer = Peer(robot, description)
    s = State(robot)
    v = np.concatenate((s.V, s.qd))
    assert robot.n == 100
    assert relative(robot.mass_matrix(s.q), peer.mass_matrix(s.q)) < 1e-10
    C = robot.hamel(s.q, s.V, s.qd).C
    assert relative(C @ v, peer.bias(s.q, v)) < 1e-10
    given = np.concatenate((s.F, s.tau))
    back = robot.inverse_dynamics(
        np.eye(4), s.q, s.V, s.qd, *robot.forward_dynamics(np.eye(4), s.q, s.V, s.qd, s.tau, s.F)
    )
    assert relative(np.concatenate(back), given) < 1e-6  # M of a hundred links is ill conditioned


@pytest.mark.parametrize("method", vm.METHODS)
@pytest.mark.parametrize("name", [x for x in ALL if "mimic" not in x and "dual" not in x])
def test_forward_dynamics_equals_the_articulated_body_algorithm(name, method):
    robot = load(name)
    peer = Peer(robot, text(name))
    s = State(robot, seed=6)
    v, forces = np.concatenate((s.V, s.qd)), np.concatenate((s.F, s.tau))
    there = pin.aba(peer.model, peer.data, peer.q(s.q), peer.E @ v, peer.E @ forces)
    here = robot.forward_dynamics(np.eye(4), s.q, s.V, s.qd, s.tau, s.F, method=method)
    assert relative(np.concatenate(here), peer.E.T @ there) < 1e-10


@pytest.mark.parametrize("base", GROUPS)
@pytest.mark.parametrize("name", ["satellite_dual_arm", "tree4", "mimic"])
def test_momentum_and_energy_are_kept_without_forces(name, base):
    robot = load(name, base)
    rng = np.random.default_rng(7)
    g, q = np.eye(4), rng.normal(size=robot.n)
    V, qd = 0.3 * rng.normal(size=robot.b), 0.5 * rng.normal(size=robot.n)
    momentum, energy = robot.spatial_momentum(g, q, V, qd), robot.kinetic_energy(q, V, qd)
    start = vm.State(g, q, V, qd)
    motion = vm.simulate(
        robot, start, None, 0.1, step=2e-3, integrator="runge_kutta", friction=False
    )
    g, q, V, qd = motion[-1]
    assert relative(robot.spatial_momentum(g, q, V, qd), momentum) < 1e-9
    assert abs(robot.kinetic_energy(q, V, qd) / energy - 1.0) < 1e-9
    assert robot.base_group.contains(g)


def test_gravity_acts_at_the_centre_of_mass(arm):
    falling = load("satellite_arm7", "SE3", (0.0, 0.0, -9.81))
    s = State(arm)
    Vd, qdd = falling.forward_dynamics(s.g, s.q, np.zeros(6), np.zeros(7), np.zeros(7))
    assert relative(Vd[:3], s.g[:3, :3].T @ [0.0, 0.0, -9.81]) < 1e-10
    assert abs(Vd[3:]).max() < 1e-10 and abs(qdd).max() < 1e-10
