# SPDX-License-Identifier: Apache-2.0
"""Gains that suit a joint's inertia hold every robot, where the same for all shake a wrist."""

import numpy as np
import pytest
from cases import SHIPPED, load, text

import vm_dynamics as vm
from vm_dynamics.control import critical_damping, free_inertias, shaken_joint, soft_stiffness
from vm_dynamics.control.gains import shape_inertia
from vm_dynamics.simulation.plants import make_plant

STEP = 1e-3  # [s]
AWAY = 0.05  # [rad or m] from the target to begin with


@pytest.mark.parametrize("name", SHIPPED)
def test_a_free_inertia_is_a_torque_by_the_acceleration_it_gives(name):
    robot = load(name)
    q = np.clip(np.linspace(-0.6, 0.8, robot.n), robot.lower_limits, robot.upper_limits)
    found = free_inertias(robot, q)
    still = np.zeros(robot.b), np.zeros(robot.n)
    for i, tau in enumerate(np.eye(robot.n)):
        _, qdd = robot.forward_dynamics(np.eye(4), q, *still, tau)
        assert found[i] == pytest.approx(1.0 / qdd[i], rel=1e-9)


def start(robot, seed):
    """A random shape."""
    low, high = np.maximum(robot.lower_limits, -2.5), np.minimum(robot.upper_limits, 2.5)
    return np.random.default_rng(seed).uniform(low, high)


def speeds_at_the_end(name, rate, stiffness, damping, seed):
    """Highest in the last half of the fourth second, of each joint; torques are a sample late."""
    robot = load(name)
    plant = make_plant(robot, text(name), STEP, friction=False).plant
    q = start(robot, seed)
    plant.state = vm.State(np.eye(4), q, np.zeros(robot.b), np.zeros(robot.n))
    controller = vm.MomentumCompensator(robot, stiffness, damping)
    controller.set_target(np.where(q + AWAY < robot.upper_limits, q + AWAY, q - AWAY))
    late = next_tau = np.zeros(robot.n)
    fastest = np.zeros(robot.n)
    for k in range(4000):
        s = plant.state
        if k % round(1.0 / (rate * STEP)) == 0:
            mu = s.V + robot.connection(s.q) @ s.qd
            late, next_tau = next_tau, controller.step(s.q, s.qd, mu).tau
        plant.step(late, np.zeros(6))
        if k >= 3500:
            fastest = np.maximum(fastest, abs(s.qd))
    return fastest


@pytest.mark.parametrize("rate", [100.0, 1000.0])
@pytest.mark.parametrize("name", SHIPPED)
def test_soft_stiffness_with_critical_damping_brings_every_robot_to_rest(name, rate):
    robot = load(name)
    inertias = free_inertias(robot)
    K = soft_stiffness(inertias)
    D = critical_damping(K, inertias)
    for seed in range(2):
        inertia = shape_inertia(robot, start(robot, seed))
        assert shaken_joint(inertia, K, D, 1.0 / rate) is None
        assert speeds_at_the_end(name, rate, K, D, seed).max() < AWAY


@pytest.mark.parametrize("name", SHIPPED)
def test_the_same_gains_for_all_joints_shake_the_joint_that_is_named(name):
    robot = load(name)
    inertia = shape_inertia(robot, start(robot, 0))
    K, D = np.full(robot.n, 20.0), np.full(robot.n, 10.0)
    joint = shaken_joint(inertia, K, D, 1.0 / 250.0)
    assert (joint is None) == (name in {"planar_3link", "quad_arm1", "rover_arm2"})
    speeds = speeds_at_the_end(name, 250.0, K, D, 0)
    if joint is None:
        assert speeds.max() < 1e-3
    else:
        assert speeds.argmax() == joint and speeds[joint] > AWAY


@pytest.mark.parametrize("name", SHIPPED)
def test_an_integral_time_of_twenty_seconds_suits_the_soft_gains(name):
    robot = load(name)
    inertias = free_inertias(robot)
    K = soft_stiffness(inertias)
    D = critical_damping(K, inertias)
    for seed in range(2):
        inertia = shape_inertia(robot, start(robot, seed))
        assert shaken_joint(inertia, K, D, 1e-2, K / 20.0) is None


def test_integral_gains_that_grow_are_found():
    # s^3 + 2 s^2 + s + K_i is unstable from K_i = 2 on; only the second joint has more
    one = np.ones(2)
    args = np.eye(2), one, 2.0 * one, 1e-3
    assert shaken_joint(*args, np.array([0.0, 1.9])) is None
    assert shaken_joint(*args, np.array([1.0, 2.1])) == 1


def test_damping_is_critical_unless_given():
    robot = load("satellite_arm7")
    K = np.full(7, 20.0)
    q, qd, mu = np.full(7, 0.1), np.full(7, 0.01), np.zeros(6)
    chosen = vm.MomentumCompensator(robot, 20.0)
    given = vm.MomentumCompensator(robot, K, critical_damping(K, free_inertias(robot)))
    assert np.array_equal(chosen.step(q, qd, mu).tau, given.step(q, qd, mu).tau)
