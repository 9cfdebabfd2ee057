# SPDX-License-Identifier: Apache-2.0
"""The planner: it turns the base as asked, within limits, in the dynamics and in MuJoCo too."""

import csv
import time

import numpy as np
import pytest
from cases import load, text
from scipy.spatial.transform import Rotation
from test_displacement import drive, track

import vm_dynamics as vm
from vm_dynamics.lie.se3 import exp
from vm_dynamics.locomotion import JointLimits, gait_displacement, plan_reorientation

# Bars of the issue: half a degree by `integrate`, one degree executed in MuJoCo, 20 s.
PLANNED, EXECUTED = np.radians(0.5), np.radians(1.0)
SECONDS = 20.0

BENT = np.array([0.0, 0.6, 0.0, -1.2, 0.0, 0.8, 0.0])
X, Y, Z = np.eye(3)
TASKS = {
    "planar_3link, straight": ("planar_3link", np.zeros(2), Z, 20.0),
    "planar_3link, bent": ("planar_3link", np.array([0.5, -0.5]), -Z, 20.0),
    **{
        f"{name}, {axis}": (name, BENT, unit, 10.0)
        for name in ("satellite_arm7", "lwr_floating")
        for axis, unit in (("x", X), ("y", Y), ("z", Z))
    },
}


def planned(task):
    name, q0, axis, degrees = TASKS[task]
    robot = load(name)
    return robot, plan_reorientation(robot, q0, axis * np.radians(degrees)), q0


def angle_between(a, b):
    return Rotation.from_matrix(np.asarray(a)[:3, :3].T @ np.asarray(b)[:3, :3]).magnitude()


@pytest.mark.parametrize("task", TASKS)
def test_the_plan_turns_the_base_within_all_limits(task):
    robot, plan, q0 = planned(task)
    _, _, axis, degrees = TASKS[task]
    wanted = Rotation.from_rotvec(axis * np.radians(degrees)).as_matrix()
    assert plan.reached and plan.error < PLANNED
    again = gait_displacement(robot, plan.path).pose
    assert angle_between(again, wanted) < PLANNED
    assert angle_between(plan.rotation, again) < 1e-6
    t, q, qd = plan.path.sample(5000)
    assert t[-1] == plan.duration > 0.0 and plan.loops >= 1
    for row in (0, -1):  # closed, and at rest at both ends
        assert np.allclose(q[row], q0, rtol=0, atol=1e-9)
        assert np.allclose(qd[row], 0.0, rtol=0, atol=1e-9)
    assert (q >= robot.lower_limits).all() and (q <= robot.upper_limits).all()
    assert (abs(qd) <= robot.velocity_limits).all()
    assert (abs(qd) / robot.velocity_limits).max() > 0.5, "it does not dawdle"


def test_the_velocity_of_a_plan_is_the_derivative_of_its_position():
    _, plan, _ = planned("planar_3link, straight")
    h = 1e-6
    for t in np.linspace(0.01, 0.99, 23) * plan.duration:
        slope = (plan.path.position(t + h) - plan.path.position(t - h)) / (2 * h)
        assert np.allclose(plan.path.velocity(t), slope, rtol=0, atol=1e-6)


def test_the_full_dynamics_turns_as_planned():
    robot, plan, _ = planned("lwr_floating, z")
    steps = np.ceil(plan.duration / 5e-4)
    turned = drive(robot, plan.path, step=plan.duration / steps)
    assert angle_between(turned, plan.rotation) < 1e-5  # accelerations are held over a step


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_mujoco_executes_the_plan(task):
    robot, plan, _ = planned(task)
    name, _, axis, degrees = TASKS[task]
    steps = np.ceil(plan.duration / 2e-3)
    turned = track(robot, text(name), plan.path, step=plan.duration / steps)
    wanted = Rotation.from_rotvec(axis * np.radians(degrees)).as_matrix()
    off = angle_between(turned, wanted)
    print(
        f"\n{task}: {degrees:g} deg in {plan.duration:.1f} s, {plan.loops} loop(s), planned to "
        f"{np.degrees(plan.error):.1e} deg, executed in MuJoCo to {np.degrees(off):.1e} deg"
    )
    assert off < EXECUTED


def test_planning_is_quick():
    robot = load("satellite_arm7")
    plan_reorientation(load("planar_3link"), [0.5, -0.5], 0.01 * Z)  # compiles
    start = time.perf_counter()
    plan = plan_reorientation(robot, BENT, np.radians(10.0) * X)
    seconds = time.perf_counter() - start
    print(f"\nplanning 10 deg of satellite_arm7: {seconds:.2f} s")
    assert plan.reached and seconds < SECONDS


# -- harder requests ----------------------------------------------------------------------------


def test_narrow_limits_need_more_loops():
    robot = load("planar_3link")
    q0 = np.array([0.8, -0.8])
    wide = plan_reorientation(robot, q0, np.radians(8.0) * Z)
    limits = JointLimits(q0 - 0.5, q0 + 0.5, np.full(2, 6.0))
    narrow = plan_reorientation(robot, q0, np.radians(8.0) * Z, limits=limits)
    assert wide.reached and narrow.reached
    assert narrow.loops > wide.loops
    q = narrow.path.sample(5000).q
    assert (q >= limits.lower).all() and (q <= limits.upper).all()


def test_a_plan_that_cannot_be_says_what_it_reached_and_why():
    robot = load("planar_3link")
    q0 = np.array([0.8, -0.8])
    limits = (q0 - 0.3, q0 + 0.3, 6.0)
    plan = plan_reorientation(robot, q0, np.radians(90.0) * Z, limits=limits, max_loops=2)
    turned = Rotation.from_matrix(plan.rotation).as_rotvec(degrees=True)[2]
    assert not plan.reached and plan.error > PLANNED and plan.loops == 2
    assert 0.5 < turned < 45.0
    assert f"turn the base by {turned:.2f} of the wanted 90.00 degrees" in plan.reason
    assert "position limits of joint1, joint2 allow no larger loops" in plan.reason


def test_a_planar_robot_cannot_turn_out_of_its_plane():
    plan = plan_reorientation(load("planar_3link"), [0.5, -0.5], 0.2 * X)
    assert not plan.reached and plan.path is None and plan.loops == 0
    assert "turns the base about that axis" in plan.reason
    assert plan.error == pytest.approx(0.2)


def test_joints_that_cannot_move_make_no_loop():
    robot = load("lwr_floating")
    speed = np.zeros(7)
    speed[2] = 1.0
    limits = JointLimits(robot.lower_limits, robot.upper_limits, speed)
    plan = plan_reorientation(robot, BENT, 0.1 * Z, limits=limits)
    assert not plan.reached and "fewer than two joints can move" in plan.reason


def test_locked_joints_stay_where_they_are():
    robot = load("lwr_floating")
    lower, upper = robot.lower_limits.copy(), robot.upper_limits.copy()
    lower[4:] = upper[4:] = BENT[4:]
    limits = JointLimits(lower, upper, robot.velocity_limits)
    plan = plan_reorientation(robot, BENT, np.radians(5.0) * Z, limits=limits)
    assert plan.reached
    assert np.array_equal(plan.path.sample(300).q[:, 4:], np.tile(BENT[4:], (300, 1)))


def test_a_shape_at_its_limit_can_still_be_left():
    robot = load("lwr_floating")
    q0 = BENT.copy()
    q0[3] = robot.lower_limits[3]
    plan = plan_reorientation(robot, q0, np.radians(5.0) * Z)
    q = plan.path.sample(5000).q
    assert plan.reached and (q >= robot.lower_limits - 1e-9).all()


def test_nothing_to_turn_is_no_motion():
    plan = plan_reorientation(load("lwr_floating"), BENT, np.eye(3))
    assert plan.reached and plan.path is None and plan.duration == 0.0 and plan.loops == 0
    with pytest.raises(vm.ParameterError, match="nothing moves"):
        plan.save_csv("nowhere.csv")


@pytest.mark.parametrize("base", ["SE2", "SO3", "X", "C", "SO2", "H"])
def test_every_base_group_that_turns_can_be_turned(base):
    robot = load("lwr_floating", base)
    plan = plan_reorientation(robot, BENT, np.radians(10.0) * Z)
    assert plan.reached
    assert angle_between(
        plan.displacement, Rotation.from_rotvec(np.radians(10.0) * Z).as_matrix()
    ) < (PLANNED)


def test_unlimited_joints_are_bounded_with_a_note():
    robot = load("tree5")  # has continuous joints
    limits = JointLimits(-np.inf, np.inf, np.inf)
    plan = plan_reorientation(robot, np.zeros(robot.n), 0.1 * X, limits=limits)
    assert plan.reached and abs(plan.path.sample(2000).q).max() <= np.pi
    turning, sliding = ~robot.prismatic, robot.prismatic
    assert turning.any() and sliding.any()
    t, q, qd = plan.path.sample(2000)
    assert abs(qd[:, turning]).max() <= 1.0
    assert abs(q[:, sliding]).max() <= 0.5 and abs(qd[:, sliding]).max() <= 0.1
    names = np.array(robot.joint_names)
    for some, reach, speed in ((turning, "half a turn", "1 rad/s"), (sliding, "0.5 m", "0.1 m/s")):
        named = ", ".join(names[some])
        assert f"{named}: no position limits; within {reach} of q0" in plan.notes
        assert f"{named}: no velocity limit; at most {speed}" in plan.notes


def test_velocity_limits_that_no_arm_has_are_capped_and_named():
    absurd = text("planar_3link").replace('velocity="6"', 'velocity="1e4"', 1)
    plan = plan_reorientation(vm.load(absurd), np.zeros(2), np.radians(20.0) * Z)
    fastest = np.array([2.0 * np.pi, 6.0])
    assert plan.reached and (abs(plan.path.sample(5000).qd) <= fastest).all()
    plain = plan_reorientation(load("planar_3link"), np.zeros(2), np.radians(20.0) * Z)
    assert plan.duration == pytest.approx(plain.duration, rel=0.05), "where it was 0.00 s"
    assert plan.notes == (
        "joint1: velocity limits of up to 10000 rad/s, which are taken as 6.28 rad/s",
    )
    assert plain.notes == ()


def test_a_turn_within_the_tolerance_is_reached_without_a_motion_and_says_so():
    plan = plan_reorientation(load("planar_3link"), [0.5, -0.5], 1e-3 * X)
    assert plan.reached and plan.path is None and "within the tolerance" in plan.reason


def test_a_matrix_and_a_vector_ask_for_the_same():
    robot = load("planar_3link")
    by_vector = plan_reorientation(robot, [0.5, -0.5], 0.2 * Z)
    matrix = Rotation.from_rotvec(0.2 * Z).as_matrix()
    assert np.allclose(by_vector.wanted, matrix, rtol=0, atol=1e-14)
    # to the last bit, since a search makes more of any difference
    matrix = exp(np.concatenate((np.zeros(3), 0.2 * Z)))[:3, :3]
    by_matrix = plan_reorientation(robot, [0.5, -0.5], matrix)
    assert by_matrix.duration == by_vector.duration


def test_a_plan_is_written_as_a_table(tmp_path):
    robot, plan, q0 = planned("planar_3link, bent")
    path = plan.save_csv(tmp_path / "plan.csv", rate=50.0)
    with path.open() as stream:
        rows = list(csv.reader(stream))
    speeds = [f"{name}_velocity" for name in robot.joint_names]
    assert rows[0] == ["time", *robot.joint_names, *speeds]
    table = np.array(rows[1:], dtype=float)
    assert table[-1, 0] == pytest.approx(plan.duration, rel=1e-8)
    assert np.diff(table[:, 0]).max() <= 1.0 / 50.0
    assert np.allclose(table[:, 1:3], plan.path.position(table[:, 0]), rtol=0, atol=1e-7)
    with pytest.raises(vm.ParameterError, match="rate"):
        plan.save_csv(path, rate=0.0)


# -- errors -------------------------------------------------------------------------------------

BAD = {
    "no rotation": ({"robot": load("lwr_floating", "T3")}, "T3 has no rotation"),
    "another axis": (
        {"robot": load("lwr_floating", "SE2"), "rotation": X},
        r"about \[1.0, 0.0, 0.0\] is impossible: a base SE2 turns about \[0.0, 0.0, 1.0\] only",
    ),
    "a short q0": ({"q0": [0.0]}, "q0: got shape"),
    "q0 beyond": ({"q0": np.full(7, 2.5)}, "joint2 is at 2.5, expected it within"),
    "no matrix": ({"rotation": 2.0 * np.eye(3)}, "not a rotation matrix"),
    "a quaternion": ({"rotation": np.ones(4)}, "rotation: got shape"),
    "words": ({"rotation": "left"}, "rotation"),
    "NaN": ({"rotation": [np.nan, 0, 0]}, "rotation: holds NaN"),
    "two limits": ({"limits": (0.0, 1.0)}, "expected lower, upper and velocity"),
    "negative speed": ({"limits": (-3.0, 3.0, -1.0)}, "not below zero"),
    "no tolerance": ({"tolerance": 0.0}, "tolerance"),
    "no loops": ({"max_loops": 0}, "max_loops"),
}


@pytest.mark.parametrize(("options", "words"), BAD.values(), ids=BAD)
def test_a_bad_argument_is_named(options, words):
    given = {"robot": load("lwr_floating"), "q0": BENT, "rotation": 0.1 * Z, **options}
    with pytest.raises(vm.VmDynamicsError, match=words):
        plan_reorientation(given.pop("robot"), given.pop("q0"), given.pop("rotation"), **given)
