# SPDX-License-Identifier: Apache-2.0
"""What a node does with trajectories: starts, replaces, refuses, stops; never with a jump."""

import numpy as np
import pytest
from trajectory_bench import NAMES, ROBOT, N, TrajectoryBench, message, point

from vm_dynamics.errors import VmDynamicsError
from vm_dynamics.ros.compensator_parameters import CompensatorParameters
from vm_dynamics.ros.joint_trajectories import Code, Outcome
from vm_dynamics.ros.trajectory_messages import tolerances_of

ZERO, Q1, Q2 = np.zeros(N), np.full(N, 0.1), np.linspace(-0.05, 0.1, N)
SPEED = ROBOT.velocity_limits
REPLACED = Outcome(Code.INVALID_GOAL, "replaced by another trajectory")
SAME = 1e-12


def moving():
    """A bench in the middle of a trajectory to Q1, which takes a second."""
    out = TrajectoryBench()
    out.step()
    out.follow(message(point(1.0, Q1, ZERO, ZERO)))
    out.run(0.5)
    return out


def test_one_without_a_stamp_starts_now_and_ends_where_it_stays():
    bench = moving()
    assert bench.trajectories.state == "running" and not bench.outcomes
    np.testing.assert_allclose(bench.rows[-1][0], 0.5 * Q1, atol=SAME)
    bench.run(0.5)
    assert bench.outcomes == [(Code.SUCCESSFUL, "")]
    assert bench.trajectories.state == "none"
    bench.run(0.3)
    np.testing.assert_allclose(bench.rows[-1], [Q1, ZERO, ZERO], atol=SAME)


def test_one_with_a_stamp_waits_for_it_and_the_one_before_goes_on():
    bench = moving()
    start = bench.nanos + 100_000_000
    bench.follow(message(point(1.0, Q2, ZERO, ZERO), start=start))
    assert bench.outcomes == [REPLACED], "whoever sent the first one knows at once"
    before = len(bench.rows)
    bench.run(0.1)
    undisturbed = moving()
    undisturbed.run(0.1)
    np.testing.assert_array_equal(bench.rows[-2], undisturbed.rows[-2])
    bench.run(1.0)
    np.testing.assert_allclose(bench.rows[-1], [Q2, ZERO, ZERO], atol=SAME)
    path = np.array(bench.rows[before:])
    assert abs(np.diff(path[:, 0], axis=0)).max() <= 1.01 * abs(path[:, 1]).max() * bench.period
    assert bench.outcomes[1:] == [(Code.SUCCESSFUL, "")]


def test_one_that_began_in_the_past_does_only_what_is_left_of_it():
    bench = moving()
    start = bench.nanos - 500_000_000
    bench.follow(message(point(0.2, 2.0 * Q1), point(1.4, Q2, ZERO, ZERO), start=start))
    bench.run(0.9)
    np.testing.assert_allclose(bench.rows[-1], [Q2, ZERO, ZERO], atol=SAME)


def test_one_that_is_over_already_is_refused_and_the_running_one_goes_on():
    bench = moving()
    with pytest.raises(VmDynamicsError, match="ended 0.1 s ago, by its stamp; refused"):
        bench.follow(message(point(0.4, Q2), start=bench.nanos - 500_000_000))
    bench.run(0.6)
    np.testing.assert_allclose(bench.rows[-1][0], Q1, atol=SAME)
    assert bench.outcomes == [(Code.SUCCESSFUL, "")]


BAD = {
    "unknown joint": message(point(1.0, Q1), names=("elbow", *NAMES[1:])),
    "twice": message(point(1.0, Q1), names=(NAMES[1], *NAMES[1:])),
    "positions of point 1": message(point(1.0, Q1), point(2.0, Q1[:6])),
    "is not after": message(point(1.0, Q1), point(1.0, Q2)),
    "NaN": message(point(1.0, np.nan * Q1)),
    "beyond the limits": message(point(1.0, 90.0 * Q1)),
    "ends with the velocities": message(point(1.0, Q1, Q1)),
    "no joint names": message(point(1.0, Q1), names=()),
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_one_is_refused_whole_and_the_running_one_goes_on(reason):
    bench = moving()
    with pytest.raises(VmDynamicsError, match=reason):
        bench.trajectories.hear(BAD[reason])
    bench.run(0.6)
    np.testing.assert_allclose(bench.rows[-1][0], Q1, atol=SAME)
    assert bench.outcomes == [(Code.SUCCESSFUL, "")]


def test_efforts_are_refused():
    bad = message(point(1.0, Q1))
    bad.points[0].effort = [0.0] * N
    with pytest.raises(VmDynamicsError, match="point 0 has efforts, expected none"):
        moving().trajectories.hear(bad)


def test_too_many_points_are_refused():
    many = message(*(point(0.01 * (k + 1), ZERO) for k in range(2001)))
    with pytest.raises(VmDynamicsError, match="has 2001 points, expected at most 2000"):
        moving().trajectories.hear(many)


def test_none_is_taken_while_something_stands_against_it():
    bench = moving()
    bench.obstacle = "torques are zero: not enabled"
    with pytest.raises(VmDynamicsError, match="torques are zero: not enabled; refused"):
        bench.trajectories.hear(message(point(1.0, Q2)))


def test_an_empty_one_stops_the_joints_smoothly():
    bench = moving()
    bench.trajectories.hear(message())
    assert bench.outcomes == [(Code.INVALID_GOAL, "stopped by an empty trajectory")]
    speed = bench.rows[-1][1].copy()
    bench.run(0.5)
    path = np.array(bench.rows[-260:])
    rates = np.diff(path[:, 1], axis=0) / bench.period
    assert abs(rates).max() <= 1.01 * abs(speed).max() / 0.2
    np.testing.assert_allclose(bench.rows[-1], [0.5 * Q1 + 0.1 * speed, ZERO, ZERO], atol=1e-6)
    bench.trajectories.hear(message())  # nothing is left to stop
    bench.step()
    np.testing.assert_array_equal(bench.rows[-1], bench.rows[-2])


def test_joints_that_are_not_named_stop_and_the_others_move():
    bench = moving()
    bench.follow(message(point(0.5, Q2[[6, 0]]), names=(NAMES[6], NAMES[0])))
    speed = bench.rows[-1][1].copy()
    bench.run(1.0)
    expected = 0.5 * Q1 + 0.1 * speed
    expected[[6, 0]] = Q2[[6, 0]]
    np.testing.assert_allclose(bench.rows[-1][0], expected, atol=1e-6)


def test_who_leaves_the_path_stops_where_it_is():
    bench = TrajectoryBench(path=0.05)
    bench.step()
    bench.follow(message(point(1.0, Q1, ZERO, ZERO)))
    bench.run(0.5)
    bench.lag[0, 3] = 0.06
    held = bench.targets.reference.q - bench.lag[0]
    bench.step()
    assert bench.outcomes[0].code is Code.PATH_TOLERANCE_VIOLATED
    assert "joint4 is off by 0.06" in bench.outcomes[0].text
    assert bench.troubles[0][0] == "left trajectory"
    np.testing.assert_allclose(bench.rows[-1][0], held, atol=1e-3)
    bench.lag[:] = 0.0
    bench.run(1.0)
    assert not bench.rows[-1][1].any() and bench.rows[-1][0, 3] < 0.05


def test_who_does_not_arrive_in_time_has_missed_the_goal():
    bench = TrajectoryBench(goal=0.01, goal_time=0.2)
    bench.step()
    bench.follow(message(point(0.5, Q1, ZERO, ZERO)))
    bench.lag[0, 2] = 0.02
    bench.run(0.6)
    assert not bench.outcomes
    bench.run(0.2)
    assert bench.outcomes[0].code is Code.GOAL_TOLERANCE_VIOLATED
    assert "joint3 is off by 0.02 in position" in bench.outcomes[0].text


def test_one_who_still_moves_has_not_arrived():
    bench = TrajectoryBench()
    bench.step()
    bench.follow(message(point(0.5, Q1, ZERO, ZERO)))
    bench.lag[1, 2] = 0.02
    bench.run(0.6)
    assert not bench.outcomes
    bench.lag[:] = 0.0
    bench.step()
    assert bench.outcomes == [(Code.SUCCESSFUL, "")]


def test_when_torques_stop_it_is_over_and_the_arm_holds_where_it_is_then():
    bench = moving()
    bench.trajectories.pause("torques stopped: disabled")
    assert bench.outcomes == [(Code.INVALID_GOAL, "torques stopped: disabled")]
    by_hand = Q2 + 0.3
    bench.targets.hold(by_hand)
    bench.run(0.5)
    np.testing.assert_array_equal(bench.rows[-1], [by_hand, ZERO, ZERO])


def test_other_parameters_let_it_go_on():
    from vm_dynamics.ros.joint_targets import JointTargets

    bench = moving()
    former, bench.targets = bench.targets, JointTargets(ROBOT, NAMES, bench.rates)
    bench.targets.take_over(former)
    use = bench.trajectories._use._replace(targets=bench.targets)
    bench.trajectories.use(ROBOT, use.targets, use.tolerances, rates=use.rates, clip=False)
    bench.run(0.6)
    np.testing.assert_allclose(bench.rows[-1][0], Q1, atol=SAME)
    path = np.array(bench.rows)
    assert abs(np.diff(path[:, 1], axis=0)).max() < 0.01, "velocities without a jump"


def test_what_is_clipped_is_said():
    bench = TrajectoryBench(clip=True)
    bench.step()
    bench.follow(message(point(30.0, 90.0 * Q1)))
    assert bench.troubles[0][0] == "clipped trajectory"
    bench.run(31.0)
    np.testing.assert_allclose(bench.rows[-1][0], ROBOT.upper_limits)


def test_tolerances_of_the_parameters():
    p = CompensatorParameters(
        constraints_trajectory=0.1,
        constraints_trajectory_of=("joint2=0.3", "joint3=0"),
        constraints_goal_of=("joint1=0.02",),
        constraints_goal_time=1.5,
    )
    out = tolerances_of(ROBOT, p)
    np.testing.assert_array_equal(out.path[0, :4], [0.1, 0.3, np.inf, 0.1])
    assert np.isinf(out.path[1]).all() and out.goal_time == 1.5
    np.testing.assert_array_equal(out.goal[:, :2], [[0.02, np.inf], [0.01, 0.01]])
    assert tolerances_of(ROBOT, CompensatorParameters()).goal_time == np.inf
    for bad in ({"constraints_goal_of": ("elbow=1",)}, {"constraints_goal_of": ("joint1=-1",)}):
        with pytest.raises(VmDynamicsError, match=r"constraints\.goal_of"):
            tolerances_of(ROBOT, CompensatorParameters(**bad))


# -- a thousand of them ---------------------------------------------------------------------------


def any_trajectory(random, now):
    """Late, early, overlapping, partial or malformed; about half of them are good."""
    count = int(random.integers(1, 8))
    names = list(random.permutation(NAMES)[: random.integers(1, N + 1)])
    times = np.cumsum(random.exponential(0.3, count)) + random.choice([0.0, 0.002])
    scale = random.choice([0.02, 0.05, 0.3])
    places = [NAMES.index(name) for name in names]
    centre = random.uniform(-0.5, 0.5, N)[places]
    q = centre + scale * random.uniform(-1.0, 1.0, size=(count, len(names)))
    qd = 0.5 * scale * random.uniform(-1.0, 1.0, size=q.shape)
    qdd = random.normal(scale=0.2, size=q.shape)
    qd[-1] = 0.0
    order = random.integers(1, 4)
    points = [point(t, *rows[:order]) for t, *rows in zip(times, q, qd, qdd, strict=True)]
    start = None
    if random.random() < 0.5:
        start = now + int(1e9 * random.uniform(-1.5, 0.3))
    flaw = random.integers(0, 20)
    if flaw == 0:
        points[-1].positions = points[-1].positions[:-1]
    elif flaw == 1:
        points[0].positions[0] = random.choice([np.nan, np.inf, 90.0])
    elif flaw == 2:
        names[0] = "elbow"
    elif flaw == 3:
        points.reverse()
    elif flaw == 4:
        points = []
    return message(*points, names=names, start=start)


@pytest.mark.parametrize("rates", [np.inf, 0.5])
def test_a_thousand_random_trajectories_leave_no_jump(rates):
    """Whatever comes, the reference keeps the limits of velocity and acceleration."""
    random = np.random.default_rng(7)
    bench = TrajectoryBench(rates=rates, period=0.005)
    bench.step()
    refused = 0
    for _ in range(1000):
        try:
            bench.trajectories.hear(any_trajectory(random, bench.nanos))
        except VmDynamicsError:
            refused += 1
        bench.step(int(random.integers(1, 30)))
    assert 200 < refused < 800, "some of them are good and some are not"
    path = np.array(bench.rows)
    assert np.isfinite(path).all()
    moved = np.diff(path[:, 0], axis=0) / bench.period
    assert (abs(path[:, 1]) <= SPEED + 1e-9).all()
    assert abs(path[:, 0]).max() > 0.3, "they did move"
    assert (path[:, 0] <= ROBOT.upper_limits).all() and (path[:, 0] >= ROBOT.lower_limits).all()
    if np.isinf(rates):
        assert (abs(moved) <= SPEED * (1.0 + 1e-6)).all()
    else:
        # velocity itself may be new at every step, by what the limit allows
        slack = rates * bench.period
        assert (abs(moved) <= SPEED + slack).all()
        changes = np.diff(path[:, 1], axis=0)
        assert (abs(changes) <= slack * (1.0 + 1e-6)).all()
