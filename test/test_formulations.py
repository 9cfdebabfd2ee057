# SPDX-License-Identifier: Apache-2.0
"""All formulations of the dynamics give the same accelerations, and Pinocchio's."""

import numpy as np
import pinocchio as pin
import pytest
from cases import ALL, GROUPS, State, load, relative, text
from peer import Peer

import vm_dynamics as vm

SAME = 1e-9  # relative: what all formulations must agree to
GRAVITY = (0.3, -0.2, -9.81)


def accelerations(robot, s, method):
    found = robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, s.F, s.tip, method=method)
    return np.concatenate(found)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("base", GROUPS)
@pytest.mark.parametrize("name", ALL)
def test_all_methods_agree_with_gravity_base_wrench_torques_and_tip_wrench(name, base, seed):
    robot = load(name, base, GRAVITY)
    s = State(robot, seed=20 + seed)
    expected = accelerations(robot, s, "hybrid")
    for method in vm.METHODS[1:]:
        if method != "quaternion" or base == "SE3":
            assert relative(accelerations(robot, s, method), expected) < SAME, method


@pytest.mark.parametrize("name", [n for n in ALL if "mimic" not in n and "dual" not in n])
@pytest.mark.parametrize("method", vm.METHODS)
def test_every_method_agrees_with_the_articulated_bodies_of_pinocchio(name, method):
    robot = load(name, "SE3", GRAVITY)
    peer = Peer(robot, text(name), gravity=GRAVITY)
    s = State(robot, seed=30)
    forces = np.concatenate((s.F, s.tau)) + robot.link_jacobian(s.q, robot.tip_link).T @ s.tip
    v = np.concatenate((s.V, s.qd))
    there = pin.aba(peer.model, peer.data, peer.q(s.q, s.g), peer.E @ v, peer.E @ forces)
    # joints have another order there
    assert relative(accelerations(robot, s, method), peer.E.T @ there) < SAME


def test_a_method_that_does_not_exist_is_named_with_those_that_do():
    robot = load("tree0")
    s = State(robot)
    with pytest.raises(vm.UnknownMethodError, match="'newton'.*hybrid.*quaternion"):
        robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, method="newton")


def test_the_quaternion_model_is_for_a_free_base():
    robot = load("tree0", "SE2")
    s = State(robot)
    with pytest.raises(vm.UnknownGroupError, match="SE2.*SE3"):
        robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, method="quaternion")


@pytest.mark.parametrize("method", vm.METHODS)
def test_every_method_checks_its_arguments_by_name(method):
    robot = load("tree0", "SE3", GRAVITY)
    s = State(robot)
    good = dict(g=s.g, q=s.q, V=s.V, qd=s.qd, tau=s.tau, base_wrench=s.F, tip_wrench=s.tip)
    for key in ("q", "V", "qd", "tau", "base_wrench", "tip_wrench"):
        bad = good | {key: np.full_like(good[key], np.nan)}
        with pytest.raises(vm.NonFiniteError, match=f"^{key}:"):
            robot.forward_dynamics(**bad, method=method)
    with pytest.raises(vm.VmDynamicsError, match="^pose:"):
        robot.forward_dynamics(**(good | {"g": 2.0 * s.g}), method=method)


def test_the_robot_offers_the_matrices_of_the_papers():
    robot = load("satellite_arm7")
    s = State(robot, seed=31)
    M, C = robot.quasi_coordinates(s.q, s.V, s.qd)
    assert relative(M, robot.mass_matrix(s.q)) < SAME
    v = np.concatenate((s.V, s.qd))
    assert relative(C @ v, robot.hamel(s.q, s.V, s.qd).C @ v) < SAME
    m = robot.lagrange_poincare(s.q)
    assert relative(m.A, robot.connection(s.q)) < SAME
    free = robot.free_floating(s.q, s.V, s.qd, s.tau)
    Vd, qdd = robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau)
    assert relative(np.concatenate((free.Vd, free.qdd)), np.concatenate((Vd, qdd))) < SAME
    twin = robot.dynamically_equivalent_manipulator()
    assert twin.base_group.name == "SO3" and twin.joint_names == robot.joint_names
    rover = load("rover_arm2", "SE2", (0.0, 0.0, -9.81))
    s = State(rover, seed=32)
    vd, qdd, side = rover.wheeled_dynamics(np.eye(4), s.q, [0.5, 0.2], s.qd, s.tau)
    # with the force of the wheels, the vehicle of SE(2) moves the same way
    Vd, same = rover.forward_dynamics(
        np.eye(4), s.q, [0.5, 0.0, 0.2], s.qd, s.tau, base_wrench=[0.0, side, 0.0]
    )
    assert relative(np.array([Vd[0], Vd[2]]), vd) < SAME and relative(same, qdd) < SAME
    assert abs(Vd[1]) < SAME
