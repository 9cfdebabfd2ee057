# SPDX-License-Identifier: Apache-2.0
"""A joint reference follows its target within the limits, and a good one at once."""

import numpy as np
import pytest
from cases import text

import vm_dynamics as vm
from vm_dynamics.control import JointLimits, JointReference

ROBOT = vm.load(text("satellite_arm7"))
SPEED = ROBOT.velocity_limits
PERIOD = 0.002


def run(reference, steps, each=lambda k: None):
    """Positions, velocities and accelerations after each step, shape (steps, n) each."""
    rows = []
    for k in range(steps):
        each(k)
        reference.step(PERIOD)
        rows.append((reference.q, reference.qd, reference.qdd))
    return (np.array(part) for part in zip(*rows, strict=True))


@pytest.mark.parametrize("limit", [np.inf, 2.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_a_jump_is_followed_within_the_limits_and_ends_at_the_target(limit, seed):
    random = np.random.default_rng(seed)
    start, target = random.uniform(-1.5, 1.5, size=(2, ROBOT.n))
    reference = JointReference(ROBOT, limit)
    reference.start(start)
    reference.set_target(target)
    q, qd, _ = run(reference, 8000)
    moved = np.diff(np.vstack((start, q)), axis=0) / PERIOD
    assert (abs(moved) <= SPEED + 1e-9).all() and (abs(qd) <= SPEED + 1e-9).all()
    if np.isfinite(limit):
        rates = np.diff(np.vstack((0.0 * start, moved)), axis=0) / PERIOD
        assert (abs(rates) <= limit * (1.0 + 1e-6)).all()
    low, high = np.minimum(start, target), np.maximum(start, target)
    assert (q >= low - 1e-9).all() and (q <= high + 1e-9).all(), "without overshoot"
    assert reference.arrived and (q[-1] == target).all() and not qd[-1].any()
    # about as fast as the limits allow
    quickest = max(abs(target - start) / SPEED + (SPEED / limit if np.isfinite(limit) else 0.0))
    arrival = PERIOD * (1 + np.argmax((q == target).all(axis=1)))
    assert arrival <= 1.05 * quickest + 10 * PERIOD


@pytest.mark.parametrize("limit", [np.inf, 2.0])
def test_a_target_that_moves_within_the_limits_is_followed_at_once(limit):
    reference = JointReference(ROBOT, limit)
    reference.start(np.zeros(ROBOT.n))
    share, rate = 0.5 * SPEED, 0.8

    def target(k):
        t = PERIOD * k
        return (
            share / rate * (1.0 - np.cos(rate * t)),
            share * np.sin(rate * t),
            share * rate * np.cos(rate * t),
        )

    given = run(reference, 3000, lambda k: reference.set_target(*target(k)))
    for part, wanted in zip(
        given, zip(*(target(k) for k in range(3000)), strict=True), strict=True
    ):
        assert (part == np.array(wanted)).all()


@pytest.mark.parametrize("limit", [np.inf, 2.0])
def test_a_target_that_comes_in_steps_keeps_its_velocity(limit):
    """Targets at 100 Hz, control at 500: no kick of the velocity at every target."""
    reference = JointReference(ROBOT, limit)
    reference.start(np.zeros(ROBOT.n))
    speed = 0.5 * SPEED

    def each(k):
        if k % 5 == 0:
            t = PERIOD * k
            way = 0.5 * t**2 if t < 1.0 else t - 0.5
            reference.set_target(way * speed, min(t, 1.0) * speed)

    q, qd, _ = run(reference, 2000, each)
    assert abs(qd[1000:] - speed).max() <= (0.05 if np.isinf(limit) else 0.1) * SPEED.max()


def test_a_second_jump_on_the_way_turns_it_round():
    reference = JointReference(ROBOT, 1.0)
    reference.start(np.zeros(ROBOT.n))
    reference.set_target(np.ones(ROBOT.n))
    run(reference, 500)
    assert not reference.arrived
    reference.set_target(-0.5 * np.ones(ROBOT.n))
    q, qd, qdd = run(reference, 8000)
    assert reference.arrived and (q[-1] == -0.5).all()
    assert (abs(qd) <= SPEED + 1e-9).all() and (abs(qdd) <= 1.0 + 1e-6).all()


def test_a_joint_without_limits_jumps_and_others_do_not_wait_for_it():
    plain = text("satellite_arm7").replace('velocity="0.35"', 'velocity="1e9"', 1)
    robot = vm.load(plain)
    quick = int(np.argmax(robot.velocity_limits))
    reference = JointReference(robot)
    reference.start(np.zeros(robot.n))
    reference.set_target(np.ones(robot.n))
    reference.step(PERIOD)
    assert reference.q[quick] == 1.0
    assert (np.delete(reference.q, quick) <= 0.35 * PERIOD + 1e-12).all()
    before = reference.q
    reference.step(0.0)
    assert (reference.q == before).all(), "no time, no way"


def test_what_is_beyond_the_limits_is_told_by_joint():
    limits = JointLimits(ROBOT)
    q, still = np.zeros(ROBOT.n), np.zeros(ROBOT.n)
    assert not limits.beyond(ROBOT.upper_limits, ROBOT.velocity_limits).any(), "at the limit"
    q[1], fast = 3.0, still.copy()
    fast[4] = -0.4
    assert limits.names(limits.beyond(q, fast)) == ("joint2", "joint5")
