# SPDX-License-Identifier: Apache-2.0
"""Plans that can be executed: nothing touches, efforts hold, times fit, reasons are true."""

import numpy as np
import pytest
from cases import load, text
from peer import Peer
from planner_bars import ROBOTS, Contacts, executed, turn
from scipy.spatial.transform import Rotation

import vm_dynamics as vm
from vm_dynamics.locomotion import CLEARANCE_RESOLUTION, base_motion, gait_displacement

BENT = np.array([0.0, 0.6, 0.0, -1.2, 0.0, 0.8, 0.0])
X, Y, Z = np.eye(3)
MARGIN = 0.02  # [m], the default
LIMIT_SHARE = 0.9  # of the efforts, which a plan uses at most


def angle_between(a, b):
    return Rotation.from_matrix(np.asarray(a)[:3, :3].T @ np.asarray(b)[:3, :3]).magnitude()


def with_base_mass(name, kilograms):
    """A robot with a base of another mass, inertia in proportion."""
    robot = load(name)
    own = robot.description.links[0].inertia
    factor = kilograms / own.mass
    about = np.array(own.matrix[3:, 3:]) - own.mass * _cross(own.com) @ _cross(own.com).T
    return robot.with_inertia(robot.root_link, kilograms, own.com, factor * about)


def _cross(c):
    return np.array([[0.0, -c[2], c[1]], [c[2], 0.0, -c[0]], [-c[1], c[0], 0.0]])


def efforts_by_pinocchio(robot, name, path, count=400):
    """Joint efforts of a path with a free base without momentum, with friction, (count, n)."""
    peer, b = Peer(robot, text(name)), robot.b
    h = 1e-5 * path.duration
    out = []
    for t in np.linspace(2.0 * h, path.duration - 2.0 * h, count):
        q, qd = path.position(t), path.velocity(t)
        qdd = (path.velocity(t + h) - path.velocity(t - h)) / (2.0 * h)
        M = peer.mass_matrix(q)
        V = -np.linalg.solve(M[:b, :b], M[:b, b:] @ qd)
        bias = peer.bias(q, np.concatenate((V, qd)))
        Vd = -np.linalg.solve(M[:b, :b], M[:b, b:] @ qdd + bias[:b])
        tau = M[b:] @ np.concatenate((Vd, qdd)) + bias[b:]
        out.append(tau + robot.damping * qd + robot.friction * np.sign(qd))
    return np.array(out)


# -- collisions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("axis", "degrees"),
    [
        (X, 90.0),
        pytest.param(Y, 120.0, marks=pytest.mark.slow),
        pytest.param(Z, 180.0, marks=pytest.mark.slow),
    ],
)
def test_a_large_turn_touches_nothing_in_mujoco(axis, degrees):
    robot = load("satellite_arm7")
    plan = vm.plan_reorientation(robot, BENT, np.radians(degrees) * axis)
    assert plan.reached and plan.clearance >= MARGIN - CLEARANCE_RESOLUTION
    contacts = Contacts(robot, text("satellite_arm7"))
    q = plan.path.sample(2000).q
    assert not any(contacts.of(row) for row in q)
    assert contacts.of(np.array([0.0, 2.0, 0.0, 2.0, 0.0, 0.0, 0.0])), "it would see one"
    assert len(plan.nearest) == 2 and set(plan.nearest) <= set(robot.link_names)


def test_a_wider_margin_is_kept():
    robot = load("satellite_arm7")
    plan = vm.plan_reorientation(robot, BENT, np.radians(60.0) * Y, margin=0.09)
    assert plan.reached and plan.clearance >= 0.09 - CLEARANCE_RESOLUTION


# -- efforts and times --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["satellite_arm7", "lwr_floating"])
def test_the_peak_effort_is_that_of_pinocchio(name):
    robot = load(name)
    plan = vm.plan_reorientation(robot, BENT, np.radians(15.0) * Z)
    shares = abs(efforts_by_pinocchio(robot, name, plan.path)) / robot.effort_limits
    assert plan.peak_effort == pytest.approx(shares.max(), rel=0.02)  # other samples


def test_small_efforts_make_a_slower_plan_that_keeps_them():
    robot = load("lwr_floating")
    wanted = np.radians(15.0) * Z
    quick = vm.plan_reorientation(robot, BENT, wanted)
    peak = abs(efforts_by_pinocchio(robot, "lwr_floating", quick.path)).max(axis=0)
    weak = np.full(7, 0.2 * peak.max())
    slow = vm.plan_reorientation(robot, BENT, wanted, effort_limits=weak)
    assert slow.reached and slow.duration > 1.5 * quick.duration
    assert slow.peak_effort <= LIMIT_SHARE + 1e-9
    taken = abs(efforts_by_pinocchio(robot, "lwr_floating", slow.path)).max(axis=0)
    assert (taken <= 0.92 * weak).all() and taken.max() > 0.85 * weak[0], "it does not dawdle"


def test_efforts_that_do_not_overcome_friction_are_refused_by_name():
    robot = load("lwr_floating").with_friction(np.zeros(7), [0, 0, 0, 3.0, 0, 0, 0])
    plan = vm.plan_reorientation(robot, BENT, 0.1 * Z, effort_limits=2.0)
    assert not plan.reached and plan.path is None
    assert plan.reason == "joint4: the effort limit does not overcome the friction"


def test_accelerations_are_kept_if_given():
    robot = load("lwr_floating")
    plan = vm.plan_reorientation(robot, BENT, np.radians(15.0) * Z, acceleration_limits=0.3)
    t, _, qd = plan.path.sample(20_000)
    fastest = abs(np.diff(qd, axis=0) / np.diff(t)[:, None]).max()
    assert plan.reached and 0.25 < fastest <= 0.3


def test_a_velocity_and_a_duration_can_be_asked_for():
    robot = load("lwr_floating")
    wanted = np.radians(15.0) * Z
    quick = vm.plan_reorientation(robot, BENT, wanted)
    slow = vm.plan_reorientation(robot, BENT, wanted, max_velocity=0.2)
    assert slow.duration > quick.duration and abs(slow.path.sample(3000).qd).max() <= 0.2
    timed = vm.plan_reorientation(robot, BENT, wanted, duration=30.0)
    assert timed.duration == pytest.approx(30.0) and timed.reached
    assert timed.peak_effort < quick.peak_effort
    with pytest.raises(
        vm.ParameterError, match=r"duration: got 0.5 s, expected at least [\d.]+ s"
    ):
        vm.plan_reorientation(robot, BENT, wanted, duration=0.5)


# -- the base -----------------------------------------------------------------------------------


@pytest.mark.parametrize("degrees", [10.0, 170.0])
def test_the_path_of_the_base_is_what_integration_gives(degrees):
    robot = load("satellite_arm7")
    plan = vm.plan_reorientation(robot, BENT, np.radians(degrees) * X)
    t, poses = plan.base_path
    assert t[0] == 0.0 and t[-1] == pytest.approx(plan.duration) and (np.diff(t) > 0.0).all()
    assert np.allclose(poses[-1], plan.displacement, rtol=0, atol=1e-5)
    whole = gait_displacement(robot, plan.path, tolerance=1e-8).pose
    assert np.allclose(plan.displacement, whole, rtol=0, atol=1e-6)
    times, expected = base_motion(robot, plan.path, 5001)
    assert np.allclose(plan.base_path.at(times), expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize(("kilograms", "least"), [(20e3, 2), (200e3, 20)])
def test_a_heavy_base_is_turned_by_many_loops(kilograms, least):
    robot = with_base_mass("satellite_arm7", kilograms)
    assert robot.total_mass > kilograms
    plan = vm.plan_reorientation(robot, BENT, np.radians(20.0) * Z)
    assert plan.reached and least < plan.loops < 200
    again = gait_displacement(robot, plan.path, tolerance=1e-6).pose
    assert angle_between(again, Rotation.from_rotvec(np.radians(20.0) * Z).as_matrix()) < 0.009


# -- what is possible ---------------------------------------------------------------------------


def test_an_axis_without_curvature_is_impossible_and_says_so():
    plan = vm.plan_reorientation(load("planar_3link"), [0.5, -0.5], 0.2 * X)
    assert "impossible about x: the curvature there is zero" in plan.reason
    assert "turn its base about z only" in plan.reason
    both = vm.plan_reorientation(load("planar_3link"), [0.5, -0.5], 0.2 * (X + Z))
    assert not both.reached and "impossible about [0.7071, 0.0, 0.7071]" in both.reason


def test_two_parallel_joints_turn_a_spatial_robot_about_their_axis_only():
    robot = load("lwr_floating")
    lower, upper = BENT.copy(), BENT.copy()
    for i in (1, 3):  # both about y
        lower[i], upper[i] = robot.lower_limits[i], robot.upper_limits[i]
    limits = (lower, upper, robot.velocity_limits)
    about_y = vm.plan_reorientation(robot, BENT, np.radians(3.0) * Y, limits=limits)
    about_x = vm.plan_reorientation(robot, BENT, np.radians(3.0) * X, limits=limits)
    assert about_y.reached and not about_x.reached
    assert "impossible about x" in about_x.reason and "about y only" in about_x.reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_random_turns_are_solved_and_executed(name):
    turns = [turn(name, seed) for seed in range(1000, 1004)]
    print(f"\n{name}: {[round(t.seconds, 1) for t in turns]} s of CPU time")
    for t in turns:
        assert t.reached and not t.touched and t.peak <= 1.0 and t.error < 1.0, t
        assert t.clearance > 0.0


@pytest.mark.slow
def test_the_planned_peak_effort_is_what_mujoco_takes():
    robot = load("lwr_floating")
    plan = vm.plan_reorientation(robot, BENT, np.radians(20.0) * Z, max_velocity=1.0)
    run = executed(robot, text("lwr_floating"), plan.path, step=1e-3)
    assert run.peak == pytest.approx(plan.peak_effort, rel=0.1)  # with feedback on top
