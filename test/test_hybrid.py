# SPDX-License-Identifier: Apache-2.0
"""Hybrid dynamics against Pinocchio and the mass matrix, for any set of passive joints."""

import numpy as np
import pytest
from cases import ALL, GROUPS, State, load, relative, text
from peer import Peer
from random_robots import random_urdf

import vm_dynamics as vm
from vm_dynamics import errors
from vm_dynamics.dynamics import hybrid

SAME = 1e-9  # relative: what all formulations must agree to
GRAVITY = (0.3, -0.2, -9.81)


@pytest.fixture(params=[(name, base) for name in ALL for base in GROUPS], ids="-".join)
def case(request):
    robot = load(*request.param, GRAVITY)
    return robot, State(robot, seed=8)


def everything(robot):
    return {"base", *robot.joint_names}


def random_set(robot, seed):
    rng = np.random.default_rng(seed)
    return {name for name in sorted(everything(robot)) if rng.random() < 0.5}


def test_all_passive_equals_forward_dynamics_by_theorem_1_with_all_forces(case):
    robot, s = case
    arguments = s.g, s.q, s.V, s.qd, s.tau, s.F, s.tip
    expected = np.concatenate(robot.forward_dynamics(*arguments, method="reduced"))
    for found in (
        robot.forward_dynamics(*arguments),
        robot.hybrid_dynamics(
            *arguments[:4], [], [*s.F, *s.tau], everything(robot), tip_wrench=s.tip
        )[:2],
    ):
        assert relative(np.concatenate(found), expected) < SAME


def test_all_active_equals_inverse_dynamics(case):
    robot, s = case
    motion = robot.hybrid_dynamics(
        s.g, s.q, s.V, s.qd, [*s.Vd, *s.qdd], [], passive=(), tip_wrench=s.tip
    )
    F, tau = robot.inverse_dynamics(s.g, s.q, s.V, s.qd, s.Vd, s.qdd, s.tip)
    assert relative(np.concatenate((motion.F, motion.tau)), np.concatenate((F, tau))) < SAME


def solve_dense(mass, bias, passive, acc, force):
    """All accelerations and forces, given those of the active and the forces of the passive."""
    p, a = passive != 0.0, passive == 0.0
    out = acc.copy()
    if p.any():
        right = force[p] - bias[p] - mass[np.ix_(p, a)] @ acc[a]
        out[p] = np.linalg.solve(mass[np.ix_(p, p)], right)
    return out, np.where(p, force, mass @ out + bias)


@pytest.mark.parametrize("seed", range(4))
def test_any_set_agrees_with_the_mass_matrix(case, seed):
    robot, s = case
    passive = random_set(robot, seed)
    mask = hybrid.passive_mask(robot, passive)
    acc, force = np.concatenate((s.Vd, s.qdd)), np.concatenate((s.F, s.tau))
    motion = robot.hybrid_dynamics(s.g, s.q, s.V, s.qd, acc, force, passive, tip_wrench=s.tip)
    zero = np.zeros(robot.b), np.zeros(robot.n)
    bias = np.concatenate(robot.inverse_dynamics(s.g, s.q, s.V, s.qd, *zero, s.tip))
    expected = solve_dense(robot.mass_matrix(s.q), bias, mask, acc, force)
    assert relative(np.concatenate(motion[:2]), expected[0]) < SAME
    assert relative(np.concatenate(motion[2:]), expected[1]) < SAME
    compact = robot.hybrid_dynamics(
        s.g, s.q, s.V, s.qd, acc[mask == 0.0], force[mask == 1.0], passive, tip_wrench=s.tip
    )
    assert np.array_equal(np.concatenate(compact), np.concatenate(motion))


@pytest.mark.parametrize("name", ALL)
def test_forward_dynamics_equals_pinocchio(name):
    robot = load(name, "SE3", GRAVITY)
    peer = Peer(robot, text(name), gravity=GRAVITY)
    s = State(robot, seed=9)
    forces = np.concatenate((s.F, s.tau))
    there = peer.forward_dynamics(s.q, np.concatenate((s.V, s.qd)), forces, s.g)
    here = robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, s.F)
    assert relative(np.concatenate(here), there) < SAME


def test_jacobians_are_those_of_the_mass_matrix(case):
    robot, s = case
    for seed in range(4):
        passive = random_set(robot, seed)
        p = hybrid.passive_mask(robot, passive) == 1.0
        M = robot.mass_matrix(s.q)
        J_D = -np.linalg.solve(M[np.ix_(p, p)], M[np.ix_(p, ~p)])
        assert relative(robot.disturbance_jacobian(s.q, passive), J_D) < SAME
        J = robot.link_jacobian(s.q, robot.tip_link)
        J_G = robot.generalized_jacobian(s.q, robot.tip_link, passive)
        assert relative(J_G, J[:, ~p] + J[:, p] @ J_D) < SAME


@pytest.mark.parametrize("name", ["satellite_arm7", "mimic", "no_joint"])
def test_nothing_passive_leaves_the_plain_jacobian_and_nothing_active_none(name):
    robot = load(name)
    s = State(robot)
    size, all_of_it = robot.b + robot.n, ("base", *robot.joint_names)
    J = robot.link_jacobian(s.q, robot.tip_link)
    assert np.array_equal(robot.generalized_jacobian(s.q, robot.tip_link, passive=()), J)
    assert robot.generalized_jacobian(s.q, robot.tip_link, all_of_it).shape == (6, 0)
    assert robot.disturbance_jacobian(s.q, ()).shape == (0, size)
    assert robot.disturbance_jacobian(s.q, all_of_it).shape == (size, 0)


def test_with_a_passive_base_the_disturbance_is_minus_the_connection(case):
    robot, s = case
    assert relative(robot.disturbance_jacobian(s.q), -robot.connection(s.q)) < SAME


def test_springs_and_dampers_act_on_passive_joints_only():
    robot = load("satellite_arm7")
    s = State(robot)
    passive = {"base", "joint3"}
    given = s.g, s.q, s.V, s.qd, np.concatenate((s.Vd, s.qdd))
    tau = -50.0 * (s.q[2] - 0.3) - 4.0 * s.qd[2]
    sprung = robot.hybrid_dynamics(
        *given, np.zeros(13), passive, stiffness=50.0, damping={"joint3": 4.0}, rest=0.3
    )
    assert sprung.tau[2] == pytest.approx(tau, rel=1e-12)
    plain = robot.hybrid_dynamics(*given, [*np.zeros(6), tau], passive)
    assert relative(sprung.qdd, plain.qdd) < SAME and relative(sprung.Vd, plain.Vd) < SAME


def test_a_hundred_joints_agree_with_pinocchio():
    description = random_urdf(43, 100, branching=0.1)
    robot = vm.load(description)
    peer = Peer(robot, description)
    s = State(robot)
    forces = np.concatenate((s.F, s.tau))
    there = peer.forward_dynamics(s.q, np.concatenate((s.V, s.qd)), forces)
    here = robot.forward_dynamics(np.eye(4), s.q, s.V, s.qd, s.tau, s.F)
    assert relative(np.concatenate(here), there) < 1e-8  # a mass matrix of a hundred links


def test_wrong_sets_and_values_are_refused():
    robot = load("planar_3link")
    state = np.eye(4), [0.1, 0.2], np.zeros(6), [0.0, 0.0]
    with pytest.raises(errors.UnknownJointError, match="'elbow'.*base, joint1, joint2"):
        robot.hybrid_dynamics(*state, [0.0, 0.0], np.zeros(6), {"base", "elbow"})
    with pytest.raises(errors.DimensionError, match="active_acc: got 3 numbers, expected 2"):
        robot.hybrid_dynamics(*state, np.zeros(3), np.zeros(6))
    with pytest.raises(errors.NonFiniteError, match="passive_force"):
        robot.hybrid_dynamics(*state, np.zeros(2), np.full(6, np.nan))
    with pytest.raises(vm.ParameterError, match="damping.*negative"):
        robot.hybrid_dynamics(*state, np.zeros(2), np.zeros(6), damping=-1.0)
    with pytest.raises(errors.UnknownJointError, match="stiffness.*'elbow'"):
        robot.hybrid_dynamics(*state, np.zeros(2), np.zeros(6), stiffness={"elbow": 1.0})
    with pytest.raises(errors.NotInGroupError, match="pose"):
        robot.forward_dynamics(2.0 * np.eye(4), *state[1:], [0.0, 0.0])


def test_the_set_may_change_while_the_robot_moves():
    """A joint that fails, active before and passive after, keeps the momentum."""
    robot = load("lwr_floating")
    rng = np.random.default_rng(1)
    q, qd, qdd = rng.normal(size=(3, 7))
    V = -robot.connection(q) @ qd
    for passive in ({"base"}, {"base", "joint4"}):
        active = [qdd[i] for i, name in enumerate(robot.joint_names) if name not in passive]
        motion = robot.hybrid_dynamics(
            np.eye(4), q, V, qd, active, np.zeros(5 + len(passive)), passive
        )
        Vd, after = robot.forward_dynamics(np.eye(4), q, V, qd, motion.tau, method="reduced")
        assert relative(motion.Vd, Vd) < SAME and relative(motion.qdd, after) < SAME
        if "joint4" in passive:
            assert motion.tau[3] == 0.0
