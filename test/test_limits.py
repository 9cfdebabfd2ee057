# SPDX-License-Identifier: Apache-2.0
"""Limits of effort, velocity and position: cut off, braked in time, and reported."""

import numpy as np
import pytest
from cases import ROBOTS, load, text

import vm_dynamics as vm
from vm_dynamics.control import JointLimits, MomentumCompensator
from vm_dynamics.control.gains import gains

# What a torque that is held for 1 ms leaves over of a law in continuous time.
PASSED = 1e-6  # [rad]
TOO_FAST = 1e-3  # of the velocity limit
START = np.array([0.3, 0.6, 0.2, 1.2, -0.3, 0.8, 0.1])
# soft enough to leave the motors effort for braking
STIFFNESS = np.array([3.0, 3.0, 2.0, 2.0, 0.5, 0.5, 0.1])
DAMPING = np.array([5.0, 5.0, 4.0, 4.0, 1.0, 1.0, 0.2])


@pytest.fixture
def limits():
    return JointLimits(load("satellite_arm7"))


def test_efforts_are_cut_off_and_those_cut_are_named(limits):
    tau = np.array([100.0, -81.0, 80.0, 0.0, -80.0, 39.0, -1e9])
    cut, mask = limits.efforts(tau)
    assert np.array_equal(cut, [80.0, -80.0, 80.0, 0.0, -80.0, 39.0, -40.0])
    assert limits.names(mask) == ("joint1", "joint2", "joint7")


def test_efforts_that_are_not_numbers_raise(limits):
    with pytest.raises(vm.NonFiniteError, match="tau"):
        limits.efforts(np.full(7, np.nan))


def test_the_window_of_a_joint_in_the_middle_is_that_of_its_velocity_limit(limits):
    low, high = limits.window(np.zeros(7), np.full(7, 0.1))
    rate = 4.0 / limits.braking_time
    np.testing.assert_allclose(high, rate * (0.35 - 0.1), rtol=1e-12)
    np.testing.assert_allclose(low, rate * (-0.35 - 0.1), rtol=1e-12)


def test_a_joint_at_its_limit_may_not_accelerate_outwards(limits):
    robot = limits.robot
    qdd, mask = limits.accelerations(robot.upper_limits, np.zeros(7), np.ones(7))
    assert not qdd.any() and mask.all()
    qdd, mask = limits.accelerations(robot.upper_limits, np.zeros(7), -np.ones(7))
    assert np.array_equal(qdd, -np.ones(7)) and not mask.any()


def test_a_joint_beyond_its_limit_is_led_back(limits):
    low, high = limits.window(limits.robot.lower_limits - 0.1, np.zeros(7))
    assert (low > 0.0).all() and (high >= low).all()


def test_without_limits_in_the_urdf_there_are_none():
    robot = load("auv_arm4")  # its wrist turns without end
    _, high = JointLimits(robot).window(np.full(4, 1.0), np.zeros(4))
    assert high[3] == pytest.approx(20.0 * robot.velocity_limits[3])
    low, high = JointLimits(robot, None).window(np.full(4, 99.0), np.full(4, 99.0))
    assert np.isneginf(low).all() and np.isposinf(high).all()


def test_a_braking_joint_obeys_its_law_without_passing_the_limit():
    # the law alone, on a joint that accelerates as it may: outwards with all its might
    limits = JointLimits(load("satellite_arm7"))
    q, qd, h = np.zeros(7), np.zeros(7), 1e-3
    for _ in range(11_000):
        qdd, _ = limits.accelerations(q, qd, np.full(7, 100.0))
        qd = qd + h * qdd
        q = q + h * qd
        assert (qd <= 0.35 * (1.0 + 1e-12)).all()
        assert (q <= limits.robot.upper_limits).all()
    np.testing.assert_allclose(q, limits.robot.upper_limits, atol=1e-6)


def driven_outside(robot, sign):
    """Motion towards a target far outside of all limits, without friction, and what was hit."""
    controller = MomentumCompensator(robot, STIFFNESS, DAMPING)
    controller.set_target(np.full(7, sign * 10.0))
    hits = []

    def law(t, s):
        out = controller.step(s.q, s.qd, s.V + robot.connection(s.q) @ s.qd)
        assert (abs(out.tau) <= robot.effort_limits).all()
        hits.append(out.saturated)
        return out.tau

    out = vm.simulate(robot, vm.State.at_rest(robot, START), law, 25.0, friction=False)
    edge = robot.upper_limits if sign > 0.0 else robot.lower_limits
    np.testing.assert_allclose(out.q[-1], edge, atol=1e-3)  # the last of an exponential approach
    assert controller.limits.names(hits[-1]) == robot.joint_names
    return out


def passed(out):
    """By how much positions [rad] and velocities, relative to them, pass their limits."""
    robot = out.robot
    beyond = np.maximum(out.q - robot.upper_limits, robot.lower_limits - out.q).max()
    return beyond, (abs(out.qd) / robot.velocity_limits).max() - 1.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_target_far_outside_ends_at_the_limits_and_says_so(sign):
    robot = vm.load(text("satellite_arm7").replace("<dynamics ", "<dynamics_ignored "))
    position, velocity = passed(driven_outside(robot, sign))
    assert position <= PASSED and velocity <= TOO_FAST


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_friction_that_is_only_in_the_urdf_hardly_makes_joints_pass_their_limits(sign):
    # what one joint is given for its friction also moves its neighbours
    position, velocity = passed(driven_outside(load("satellite_arm7"), sign))
    assert position <= 1e-4 and velocity <= 0.01


def test_efforts_keep_their_limits_when_nothing_else_can():
    robot = load("satellite_arm7")
    controller = MomentumCompensator(robot, 1e4, 10.0)
    controller.set_target(np.full(7, 3.0))
    s = np.random.default_rng(0)
    for _ in range(50):
        out = controller.step(s.normal(size=7), 5.0 * s.normal(size=7), s.normal(size=6))
        assert (abs(out.tau) <= robot.effort_limits).all() and out.saturated.any()


def test_without_a_braking_time_the_same_target_passes_the_limits():
    robot = load("satellite_arm7")
    controller = MomentumCompensator(robot, STIFFNESS, DAMPING, braking_time=None)
    controller.set_target(np.full(7, 10.0))

    def law(t, s):
        return controller.step(s.q, s.qd, np.zeros(6)).tau

    out = vm.simulate(robot, vm.State.at_rest(robot, START), law, 5.0, friction=False)
    assert (out.q[-1] > robot.upper_limits + 0.1).any()


def test_gains_are_a_number_a_list_or_a_mapping():
    names = ("a", "b")
    assert np.array_equal(gains("k", 2, names), [2.0, 2.0])
    assert np.array_equal(gains("k", [1, 2], names), [1.0, 2.0])
    assert np.array_equal(gains("k", {"b": 2, "a": 1}, names), [1.0, 2.0])


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (-1.0, vm.ParameterError, "k: got"),
        ([1.0, -0.1], vm.ParameterError, "no negative"),
        ([1.0, 2.0, 3.0], vm.DimensionError, r"\(3,\), expected \(2,\)"),
        ({"a": 1.0}, vm.ParameterError, "none for b"),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, vm.UnknownJointError, "'c'; valid: a, b"),
        (np.nan, vm.NonFiniteError, "k: holds NaN"),
        ("much", vm.DimensionError, "k: got str"),
    ],
)
def test_gains_that_cannot_be_are_refused_by_name(value, error, words):
    with pytest.raises(error, match=words):
        gains("k", value, ("a", "b"))


@pytest.mark.parametrize("time", [0.0, -1.0, np.nan, "soon"])
def test_a_braking_time_must_be_positive(time):
    with pytest.raises(vm.ParameterError, match="braking_time"):
        JointLimits(vm.load(ROBOTS / "planar_3link.urdf"), time)


# -- friction -------------------------------------------------------------------------------------


def moved(friction, seconds=6.0):
    """Positions and velocities of the wrist of satellite_arm7 on its way to a target far off."""
    robot = load("satellite_arm7")
    controller = MomentumCompensator(robot, 20.0, 0.5)
    q0 = np.array([1.3, -0.7, 1.2, 1.3, -0.5, 1.0, -1.0])
    controller.set_target(q0 + 1.2 * (np.arange(7) == 6))
    out = vm.simulate(
        robot,
        vm.State.at_rest(robot, q0),
        lambda t, s: controller.step(s.q, s.qd, np.zeros(6)).tau,
        seconds,
        friction=friction,
    )
    return out.q[:, 6], out.qd[:, 6]


def test_a_light_joint_breaks_loose_from_its_friction():
    # its window alone gives 0.07 N m, and the URDF has 0.1 N m of dry friction
    q, qd = moved(friction=True, seconds=20.0)
    assert q[-1] == pytest.approx(0.2, abs=0.02)


def test_friction_that_is_not_there_does_not_make_it_faster_than_its_limit():
    q, qd = moved(friction=False)
    assert q[-1] == pytest.approx(0.2, abs=0.02)
    assert qd.max() < 0.35 * 1.01
