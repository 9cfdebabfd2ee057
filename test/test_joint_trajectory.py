# SPDX-License-Identifier: Apache-2.0
"""Trajectories of joints: SciPy's splines, replacement without a jump, bad ones refused."""

import time

import numpy as np
import pytest
from cases import text
from scipy.interpolate import BPoly, CubicHermiteSpline

import vm_dynamics as vm
from vm_dynamics.control import (
    Following,
    JointLimits,
    JointReference,
    JointTrajectory,
    Tolerances,
    TrajectoryPoint,
    Verdict,
)
from vm_dynamics.control.limits import BRAKING_TIME
from vm_dynamics.errors import (
    DimensionError,
    NonFiniteError,
    ParameterError,
    UnknownJointError,
    VmDynamicsError,
)

ROBOT = vm.load(text("satellite_arm7"))
N, NAMES = ROBOT.n, ROBOT.joint_names
NO_RATES = np.full(N, np.inf)
REST = np.zeros((3, N))
ROUNDING = 1e-9  # of fifth powers of a few seconds


def states(count, seed, spread=0.05):
    """Random states, shape (count, 3, n), slow enough, of which the last one is at rest."""
    out = np.random.default_rng(seed).uniform(-spread, spread, size=(count, 3, N))
    out[-1, 1:] = 0.0
    return out


def trajectory(times, given, order, robot=ROBOT, names=NAMES, **options):
    """Of states, with positions alone, with velocities, or with accelerations too."""
    points = [
        TrajectoryPoint(t, *(state[: (order + 1) // 2]))
        for t, state in zip(times, given, strict=True)
    ]
    return JointTrajectory(robot, names, points, **options)


def sampled(motion, times):
    """Shape (times, 3, n)."""
    return np.array([motion.at(t) for t in times])


@pytest.mark.parametrize("order", [1, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_splines_are_those_of_scipy(order, seed):
    times, given = np.array([0.5, 1.1, 1.4, 2.6]), states(4, seed)
    start = states(2, seed + 10)[0]
    if order == 1:
        start[1:] = 0.0  # from a moving state it would not be a straight line
    motion = trajectory(times, given, order).motion(0.0, start, NO_RATES)
    knots = np.concatenate(((0.0,), times))
    through = np.concatenate((start[None], given))
    t = np.linspace(0.0, 2.6, 500)[1:-1]
    got = sampled(motion, t)
    for joint in range(N):
        rows = through[:, :, joint]
        if order == 1:
            expected = [np.interp(t, knots, rows[:, 0])]
        elif order == 3:
            spline = CubicHermiteSpline(knots, rows[:, 0], rows[:, 1])
            expected = [spline(t, d) for d in range(3)]
        else:
            spline = BPoly.from_derivatives(knots, rows)
            expected = [spline(t, d) for d in range(3)]
        for d, values in enumerate(expected):
            np.testing.assert_allclose(got[:, d, joint], values, atol=ROUNDING)
    if order == 1:
        assert not got[:, 2].any()
        slopes = np.diff(through[:, 0], axis=0) / np.diff(knots)[:, None]
        at = np.searchsorted(knots, t, side="right") - 1
        np.testing.assert_allclose(got[:, 1], slopes[at], atol=ROUNDING)


def test_a_segment_has_the_order_that_both_its_points_allow():
    given = states(3, 1)
    points = [
        TrajectoryPoint(1.0, *given[0]),
        TrajectoryPoint(2.0, given[1, 0]),
        TrajectoryPoint(3.0, given[2, 0], np.zeros(N)),
    ]
    motion = JointTrajectory(ROBOT, NAMES, points).motion(0.0, REST, NO_RATES)
    between = sampled(motion, np.linspace(1.01, 1.99, 20))
    assert not between[:, 2].any() and np.ptp(between[:, 1], axis=0).max() < ROUNDING
    assert motion.at(0.5)[2].any(), "the spline to the first point has accelerations"


def test_the_joints_stay_at_the_last_point():
    given = states(2, 2)
    motion = trajectory([0.5, 1.0], given, 5).motion(0.0, REST, NO_RATES)
    assert motion.end == 1.0
    for t in (1.0, 1.5, 1e6):
        np.testing.assert_array_equal(motion.at(t), [given[-1, 0], REST[0], REST[0]])


@pytest.mark.parametrize("order", [1, 3, 5])
@pytest.mark.parametrize("late", [0.0, 0.3, 0.7, 1.95])
def test_replacing_a_running_one_is_without_a_jump(order, late):
    """Positions go on, and velocities too where there is time for it."""
    before = trajectory([1.0, 2.0], states(2, 3), 5).motion(0.0, REST, NO_RATES)
    state = before.at(1.3)
    after = trajectory([0.4, 0.9, 1.9, 3.0], states(4, 4), order).motion(late, state, NO_RATES)
    first = after.at(0.0)
    np.testing.assert_allclose(first[0], state[0], atol=ROUNDING)
    np.testing.assert_allclose(first[1], state[1], atol=ROUNDING)
    if order == 5:
        np.testing.assert_allclose(first[2], state[2], atol=ROUNDING)
    grid = np.arange(0.0, after.end, 1e-3)
    steps = np.diff(sampled(after, grid)[:, 0], axis=0)
    assert abs(steps).max() < 1e-3 * 1.01 * abs(sampled(after, grid)[:, 1]).max()


def test_points_of_the_past_are_left_out():
    given = states(3, 5)
    late = trajectory([0.5, 1.0, 2.0], given, 5).motion(0.8, REST, NO_RATES)
    rest = trajectory([0.2, 1.2], given[1:], 5).motion(0.0, REST, NO_RATES)
    t = np.linspace(0.0, 1.5, 50)
    np.testing.assert_allclose(sampled(late, t), sampled(rest, t), atol=ROUNDING)


def test_a_single_point_at_its_start_is_where_to_go_at_once():
    q = states(1, 6)[0, 0]
    motion = JointTrajectory(ROBOT, NAMES, [TrajectoryPoint(0.0, q)]).motion(0.0, REST, NO_RATES)
    np.testing.assert_array_equal(motion.at(0.0), [q, REST[0], REST[0]])


def test_joints_are_matched_by_name():
    given, names = states(2, 7), NAMES[::-1]
    motion = trajectory([0.5, 1.0], given[:, :, ::-1], 5, names=names).motion(0.0, REST, NO_RATES)
    same = trajectory([0.5, 1.0], given, 5).motion(0.0, REST, NO_RATES)
    np.testing.assert_array_equal(motion.at(0.7), same.at(0.7))


@pytest.mark.parametrize("rate", [np.inf, 0.1])
def test_joints_that_are_not_named_come_to_a_stop(rate):
    state = states(2, 8)[0]
    state[1, 5] = 0.3
    named = [NAMES[4], NAMES[1]]
    given = states(2, 9)
    points = [TrajectoryPoint(t, *s[:, [4, 1]]) for t, s in zip((0.5, 5.0), given, strict=True)]
    motion = JointTrajectory(ROBOT, named, points).motion(0.0, state, np.full(N, rate))
    np.testing.assert_allclose(motion.at(0.5)[:, [4, 1]], given[0][:, [4, 1]], atol=ROUNDING)
    others = [i for i in range(N) if i not in (4, 1)]
    path = sampled(motion, np.arange(0.0, 5.0, 1e-3))[:, :, others]
    np.testing.assert_allclose(path[0, :2], state[:2, others], atol=ROUNDING)
    duration = max(BRAKING_TIME, abs(state[1, others]).max() / rate)
    np.testing.assert_allclose(path[-1, 0], state[0, others] + 0.5 * duration * state[1, others])
    assert not path[-1, 1:].any()
    assert abs(path[:, 2]).max() <= min(rate, 0.3 / BRAKING_TIME) + ROUNDING
    rates = np.diff(path[:, 1], axis=0) / 1e-3
    assert abs(rates).max() <= abs(path[:, 2]).max() + 1e-6


def test_an_angle_without_limits_takes_the_near_turn():
    urdf = text("satellite_arm7").replace('type="revolute"', 'type="continuous"')
    robot = vm.load(urdf)
    state = REST.copy()
    state[0] = 7.0
    q = np.full(N, 0.5)
    motion = JointTrajectory(robot, NAMES, [TrajectoryPoint(1.0, q)]).motion(0.0, state, NO_RATES)
    np.testing.assert_allclose(motion.at(2.0)[0], q + 2.0 * np.pi)


LIMIT = ROBOT.upper_limits[2]
SPEED = ROBOT.velocity_limits[2]


def changed(part, value):
    """A row of n numbers with another third one."""
    row = np.zeros(N)
    row[2] = value
    return TrajectoryPoint(1.0, *[row if part == p else np.zeros(N) for p in range(3)])


GOOD = TrajectoryPoint(1.0, np.zeros(N))
BAD = {
    "no names": ((), [GOOD], ParameterError, "no joint names"),
    "no points": (NAMES, [], ParameterError, "has no points"),
    "unknown joint": (("elbow", *NAMES[1:]), [GOOD], UnknownJointError, "'elbow'; valid: joint1"),
    "joint twice": ((NAMES[0], *NAMES[:6]), [GOOD], ParameterError, r"\['joint1'\] twice"),
    "too few": (
        NAMES,
        [TrajectoryPoint(1.0, np.zeros(6))],
        DimensionError,
        "positions of point 0",
    ),
    "no positions": (NAMES, [TrajectoryPoint(1.0, ())], DimensionError, "positions of point 0"),
    "velocities": (
        NAMES,
        [GOOD._replace(qd=np.zeros(3))],
        DimensionError,
        "velocities of point 0",
    ),
    "rates alone": (NAMES, [GOOD._replace(qdd=np.zeros(N))], ParameterError, "no velocities"),
    "time order": (NAMES, [GOOD, GOOD], ParameterError, "point 1 at 1 s is not after point 0"),
    "before": (NAMES, [GOOD._replace(time=-0.1)], ParameterError, "first point is at -0.1 s"),
    "NaN time": (NAMES, [GOOD._replace(time=np.nan)], NonFiniteError, "times"),
    "NaN": (NAMES, [changed(0, np.nan)], NonFiniteError, "positions of point 0"),
    "infinity": (NAMES, [changed(2, np.inf)], NonFiniteError, "accelerations of point 0"),
    "position limit": (NAMES, [changed(0, LIMIT + 0.01)], ParameterError, "joint3 at point 0"),
    "velocity limit": (
        NAMES,
        [changed(1, -SPEED - 0.01), GOOD._replace(time=9.0)],
        ParameterError,
        "joint3 at point 0",
    ),
    "too fast": (
        NAMES,
        [GOOD, GOOD._replace(time=1.001, q=changed(0, 0.9).q)],
        ParameterError,
        "joint3 needs 900/s from point 0 to 1",
    ),
    "end velocity": (NAMES, [changed(1, 0.1)], ParameterError, "ends with the velocities"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_one_is_refused_with_the_reason(case):
    names, points, kind, reason = BAD[case]
    with pytest.raises(kind, match=reason) as error:
        JointTrajectory(ROBOT, names, points)
    assert isinstance(error.value, VmDynamicsError)


def test_what_is_beyond_the_limits_is_clipped_if_asked_for():
    out = JointTrajectory(ROBOT, NAMES, [changed(0, LIMIT + 1.0)], clip=True)
    assert "joint3 at point 0" in out.clipped and out.clipped.endswith("; clipped")
    assert out.motion(0.0, REST, NO_RATES).at(2.0)[0, 2] == LIMIT
    assert JointTrajectory(ROBOT, NAMES, [GOOD], clip=True).clipped == ""


def test_a_spline_that_overshoots_rests_at_the_limit():
    state = REST.copy()
    state[0, 2], state[1], state[2, 2] = LIMIT + 0.1, 9.0, 4.0
    kept = JointLimits(ROBOT).kept(state)
    assert (kept[:, 2] == (LIMIT, 0.0, 0.0)).all()
    assert (kept[1, :2] == ROBOT.velocity_limits[:2]).all()


# -- how well it is followed ----------------------------------------------------------------------


def following(path=np.inf, goal=np.inf, stopped=0.01, goal_time=np.inf):
    motion = trajectory([1.0], states(1, 11), 5).motion(0.0, REST, NO_RATES)
    tolerances = Tolerances(
        np.full((2, N), path), np.array([np.full(N, goal), np.full(N, stopped)]), goal_time
    )
    return Following(motion, tolerances, NAMES)


def off(state, joint, by, part=0):
    out = state[:2].copy()
    out[part, joint] -= by
    return out


def test_a_goal_is_reached_once_the_joints_have_stopped():
    run = following(goal=0.1)
    assert run.judge(0.5, *run.motion.at(0.5)[:2]) == (None, "")
    end = run.motion.at(1.0)
    assert run.judge(1.0, *off(end, 3, 0.02, part=1)) == (None, ""), "still moving"
    assert run.judge(1.1, *off(end, 3, 0.12)) == (None, ""), "not yet there"
    assert run.judge(1.2, *off(end, 3, 0.08)) == (Verdict.REACHED, "")
    assert run.error[0, 3] == pytest.approx(0.08)


def test_leaving_the_path_and_missing_the_goal_are_told_with_joint_and_amount():
    run = following(path=0.05, goal=0.01, goal_time=0.2)
    verdict, why = run.judge(0.5, *off(run.motion.at(0.5), 3, 0.06))
    assert verdict is Verdict.LEFT_PATH
    assert why == "joint4 is off by 0.06 in position, expected at most 0.05"
    end = run.motion.at(1.0)
    assert run.judge(1.15, *off(end, 2, 0.06)) == (None, ""), "the path is over, the time is not"
    verdict, why = run.judge(1.3, *off(end, 2, 0.06))
    assert verdict is Verdict.MISSED_GOAL
    assert why == "joint3 is off by 0.06 in position, expected at most 0.01, 0.3 s after the end"


# -- within a controller's reference --------------------------------------------------------------


def test_a_reference_follows_a_trajectory_within_its_limits_at_once():
    motion = trajectory([1.0, 2.0], states(2, 12), 5).motion(0.0, REST, NO_RATES)
    reference = JointReference(ROBOT)
    reference.start(REST[0])
    for t in np.arange(1, 2500) * 1e-3:
        desired = motion.at(t)
        reference.set_target(*desired)
        reference.step(1e-3)
        np.testing.assert_array_equal((reference.q, reference.qd, reference.qdd), desired)


def test_asking_for_a_state_is_quick():
    """Once a control cycle, at up to 1 kHz; the best of many, as the machine may be busy."""
    motion = trajectory(np.arange(1, 1001) * 0.1, states(1000, 13, spread=1e-3), 5).motion(
        0.0, REST, NO_RATES
    )
    best = np.inf
    for _ in range(20):
        start = time.perf_counter()
        for t in range(100):
            motion.at(t)
        best = min(best, (time.perf_counter() - start) / 100)
    assert best < 20e-6
