# SPDX-License-Identifier: Apache-2.0
"""Properties 1 to 6 of [Mishra2022], the frames {C}, and the curvature, on every base group."""

import numpy as np
import pytest
from cases import ALL, GROUPS, SHIPPED, State, derivative, load, relative

import vm_dynamics as vm
from vm_dynamics import errors, lie
from vm_dynamics.dynamics import plain
from vm_dynamics.lie import se3
from vm_dynamics.model.inertia import Inertia
from vm_dynamics.model.spec import Description, Joint, Link

PROPERTY = 1e-10
FRAMES = ("base", "centroidal", "virtual_chassis")


@pytest.fixture(params=[(name, base) for name in ALL for base in GROUPS], ids="-".join)
def case(request):
    robot = load(*request.param)
    return robot, State(robot, seed=2)


@pytest.fixture(params=[(name, base) for name in SHIPPED for base in GROUPS], ids="-".join)
def shipped(request):
    robot = load(*request.param)
    return robot, State(robot, seed=3)


def skew_error(x):
    return abs(x + x.T).max() / max(abs(x).max(), 1e-3) if x.size else 0.0


def test_property_1_a_rigid_body_is_skew_in_any_moving_frame():
    robot = load("no_joint")
    s = State(robot)
    body = robot.reduced([], [], s.mu)
    assert skew_error(-2.0 * robot.hamel([], s.V, []).C) < PROPERTY
    moved = body.in_frame(s.g, s.V)
    # a constant inertia seen from a moving frame: d/dt (Ad^T M Ad) = M ad_V + (M ad_V)^T
    drift = moved.M_b @ robot.base_group.ad(s.V)
    coriolis = moved.D_qd - moved.D_mu
    assert skew_error(drift + drift.T - 2.0 * coriolis) < PROPERTY


def test_property_2_locked_inertia_terms_commute(case):
    robot, s = case
    x, y = s.mu, s.V
    of_x, of_y = robot.reduced(s.q, s.qd, x), robot.reduced(s.q, s.qd, y)
    assert relative(of_x.S.T @ y, of_y.S.T @ x) < PROPERTY
    assert relative(of_y.P @ y, of_y.S @ s.qd) < PROPERTY
    z = x - y
    of_z = robot.reduced(s.q, s.qd, z)
    left = of_x.S.T @ x - of_y.S.T @ y
    assert relative(left, (2.0 * of_x.S.T - of_z.S.T) @ z) < PROPERTY


def test_property_3_skew_symmetry(case):
    robot, s = case
    r = robot.reduced(s.q, s.qd, s.mu)
    b = robot.b
    M_dot = plain.mass_rate(robot, s.q, s.qd)
    assert relative(r.P, M_dot[:b, :b]) < PROPERTY
    cross = M_dot[:b, b:].T @ r.A
    Lambda_dot = M_dot[b:, b:] - cross - cross.T + r.A.T @ M_dot[:b, :b] @ r.A
    assert skew_error(Lambda_dot - 2.0 * r.Gamma_q) < PROPERTY
    for matrix in (r.B, r.D_mu, r.D_mu[: robot.b, : robot.b]):
        assert skew_error(matrix) < 1e-12


def test_properties_4_and_5_motion_is_the_same_in_every_frame(case):
    robot, s = case
    group = robot.base_group
    r = robot.reduced(s.q, s.qd, s.mu)
    mu_dot, qdd = r.accelerations(s.mu, s.qd, s.F, s.tau)
    moving = [robot.frame(name, s.q, s.qd) for name in FRAMES]
    moving.append((group.exp(0.5 * s.V), s.Vd))
    for pose, velocity in moving:
        there = group.adjoint(se3.inverse(pose))
        mu_c = there @ s.mu
        F_c = group.adjoint(pose).T @ s.F
        in_c = r.in_frame(pose, velocity)
        mu_c_dot, qdd_c = in_c.accelerations(mu_c, s.qd, F_c, s.tau)
        assert relative(mu_c_dot, there @ mu_dot - group.ad(velocity) @ mu_c) < PROPERTY
        assert relative(qdd_c, qdd) < PROPERTY
        assert skew_error(in_c.D_mu) < PROPERTY


def test_a_frame_moves_with_its_stated_velocity(shipped):
    robot, s = shipped
    for name in FRAMES:
        frame = robot.frame(name, s.q, s.qd)
        # a smaller step: principal axes turn fast where two moments are close
        rate = derivative(lambda q, name=name: robot.frame(name, q).pose, s.q, s.qd, h=1e-4)
        body = se3.vee(se3.inverse(frame.pose) @ rate)
        assert abs(robot.base_group.iota @ frame.velocity - body).max() < 1e-6
        assert robot.base_group.contains(frame.pose)


def test_the_connection_and_its_rate_follow_the_frame(shipped):
    robot, s = shipped
    group = robot.base_group
    for name in FRAMES:
        frame = robot.frame(name, s.q, s.qd)
        r = robot.reduced(s.q, s.qd, s.mu).in_frame(*frame)

        def transformed(q, name=name):
            return group.adjoint(se3.inverse(robot.frame(name, q).pose)) @ robot.connection(q)

        assert relative(r.A, transformed(s.q)) < PROPERTY
        assert relative(r.A_dot, derivative(transformed, s.q, s.qd, h=1e-4)) < 1e-6


@pytest.mark.parametrize("name", SHIPPED)
def test_locked_inertia_is_diagonal_in_the_virtual_chassis_and_decoupled_at_the_centre(name):
    robot = load(name)
    s = State(robot, seed=4)
    r = robot.reduced(s.q, s.qd, s.mu)
    chassis = r.in_frame(*robot.frame("virtual_chassis", s.q)).M_b
    assert abs(chassis - np.diag(np.diag(chassis))).max() < PROPERTY * abs(chassis).max()
    centre = r.in_frame(*robot.frame("centroidal", s.q)).M_b
    assert abs(centre[:3, 3:]).max() < PROPERTY * abs(centre).max()
    assert (
        abs(robot.frame("virtual_chassis", s.q).pose[:3, 3] - robot.center_of_mass(s.q)).max()
        < 1e-12
    )


def test_property_6_curvature_follows_the_frame(shipped):
    """The connection seen from {C}, A_c = Ad^-1 A - J_1c, has the curvature Ad^-1 DA."""
    robot, s = shipped
    group, n = robot.base_group, robot.n
    for name in FRAMES:

        def connection(q, name=name):
            there = group.adjoint(se3.inverse(robot.frame(name, q).pose))
            moves = [robot.frame(name, q, np.eye(n)[i]).velocity for i in range(n)]
            return there @ robot.connection(q) - np.array(moves).T

        A = connection(s.q)
        expected = np.zeros((robot.b, n, n))
        for i in range(n):
            dA = derivative(connection, s.q, np.eye(n)[i], h=1e-3)
            expected[:, i, :] += dA - group.ad(A[:, i]) @ A
            expected[:, :, i] -= dA
        assert relative(robot.curvature(s.q, frame=name), expected) < 1e-6


def test_properties_4_to_6_hold_for_a_robot_with_another_root_frame(case):
    """The same robot rooted at a massless frame {C}, welded to the old root, is seen from {C}."""
    robot, s = case
    group, old = robot.base_group, robot.description
    g_1c = group.exp(0.7 * s.V)
    weld = Joint("weld", "fixed", "C", old.root, tuple(se3.inverse(g_1c).ravel()))
    links, joints = (Link("C", Inertia()), *old.links), (weld, *old.joints)
    seen = vm.Robot(Description(old.name, "C", links, joints), group)
    there, wrench = group.adjoint(se3.inverse(g_1c)), group.adjoint(g_1c).T
    ours = robot.reduced(s.q, s.qd, s.mu).in_frame(g_1c)
    theirs = seen.reduced(s.q, s.qd, there @ s.mu)
    floor = 1e-3 * abs(ours.M_b).max()  # of what cancels to zero
    for name in ("M_b", "Lambda_q", "A", "A_dot", "P", "S", "Gamma_q", "B", "D_qd", "D_mu"):
        assert relative(getattr(ours, name), getattr(theirs, name), floor) < PROPERTY, name
    momentum = seen.momentum(s.q, there @ s.V, s.qd)
    assert relative(wrench @ robot.momentum(s.q, s.V, s.qd), momentum) < PROPERTY
    DA = np.einsum("ab,bij->aij", there, robot.curvature(s.q))
    assert relative(DA, seen.curvature(s.q)) < PROPERTY


def test_curvature_is_antisymmetric(case):
    robot, s = case
    DA = robot.curvature(s.q)
    assert DA.shape == (robot.b, robot.n, robot.n)
    assert abs(DA + DA.transpose(0, 2, 1)).max(initial=0.0) < 1e-12


def test_translations_of_the_curvature_vanish_in_the_virtual_chassis():
    for name in ALL:
        robot = load(name)
        DA = robot.curvature(State(robot, seed=5).q, frame="virtual_chassis")
        assert abs(DA[:3]).max(initial=0.0) < PROPERTY
        if robot.n > 1 and name in ("lwr_floating", "satellite_arm7"):
            assert abs(DA[3:]).max() > 1e-3


@pytest.mark.parametrize("base", ["T3", "T2", "T1"])
def test_a_base_that_only_translates_has_no_curvature(base):
    robot = load("satellite_arm7", base)
    assert abs(robot.curvature(State(robot).q)).max() < 1e-12


def test_a_small_loop_of_two_joints_displaces_the_base_by_the_curvature():
    robot = load("lwr_floating")
    q0, size = np.linspace(-0.5, 0.8, 7), 1e-2
    i, j = 1, 3
    corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
    g, steps = np.eye(4), 200
    for (a, b), (c, d) in zip(corners[:-1], corners[1:], strict=True):
        step = np.zeros(7)
        step[[i, j]] = (c - a) * size / steps, (d - b) * size / steps
        for k in range(steps):
            q = q0.copy()
            q[[i, j]] += np.array([a, b]) * size
            g = g @ lie.SE3.exp(-robot.connection(q + (k + 0.5) * step) @ step)
    moved = lie.SE3.log(g) / size**2
    assert relative(moved, -robot.curvature(q0)[:, i, j]) < 0.05  # third order in the loop's size


def test_an_unknown_frame_is_refused_with_the_valid_names():
    robot = load("planar_3link")
    with pytest.raises(errors.UnknownNameError, match="virtual_chassis"):
        robot.frame("tool", [0.0, 0.0])


def test_a_frame_must_be_a_displacement_of_the_base_group():
    robot = load("rover_arm2", "SE2")
    reduced = robot.reduced([0.1, 0.2], [0.0, 0.0], [0.0, 0.0, 0.0])
    lifted = np.eye(4)
    lifted[:3, :3] = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]
    with pytest.raises(errors.NotInGroupError):
        reduced.in_frame(lifted)
