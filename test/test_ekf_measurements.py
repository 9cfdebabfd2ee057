# SPDX-License-Identifier: Apache-2.0
"""What the invariant filter makes of gyroscopes, velocities, wrong poses and covariances."""

from dataclasses import replace

import numpy as np
import pytest
from cases import State, load
from ekf_bars import ANGULAR, INSIDE, NIS_RANGE, SETTLED
from observing import (
    ATTITUDE_NOISE,
    JOINT_NOISE,
    POSITION_NOISE,
    begin,
    observe,
    pair_of,
    sense,
    short,
    truth,
    z_scores,
)

import vm_dynamics as vm
from vm_dynamics.estimation import InvariantEkf
from vm_dynamics.lie import se3

# -- other sensors --------------------------------------------------------------------------------


def with_gyro(ekf, sensed, link, bias, noise, every=1, seed=5):
    """A function for :func:`observe` that feeds a gyroscope at a link, biased and noisy."""
    motion, robot = sensed.motion, sensed.motion.robot
    rng = np.random.default_rng(seed)

    def each(k):
        if k >= every and k % every == 0:
            i = k - 1  # the reading comes with the last joint sample
            twist = robot.link_jacobian(motion.q[i], link) @ np.concatenate(
                (motion.V[i], motion.qd[i])
            )
            ekf.gyro(float(motion.t[i]), twist[3:] + bias + noise * rng.normal(size=3))

    return each


@pytest.mark.parametrize("where", ["root", "tip"])
def test_a_gyroscope_improves_the_estimate_and_its_bias_is_found(where):
    sensed = short(seconds=10.0)
    robot = sensed.motion.robot
    link = robot.root_link if where == "root" else robot.tip_link
    bias, noise = np.array([0.01, -0.02, 0.015]), 5e-4
    ekf = InvariantEkf(robot, gyro_link=link, gyro_deviation=noise)
    run = observe(ekf, sensed, each=with_gyro(ekf, sensed, link, bias, noise, every=10))
    plain = observe(InvariantEkf(robot), sensed)
    sigma = np.sqrt(np.diag(ekf.error_covariance))[12:15]
    # what ten seconds of poses say of an angular velocity: 0.3 deg / 10 s, and the joints' noise
    assert abs(ekf.gyro_bias - bias).max() < 2e-3
    assert (abs(ekf.gyro_bias - bias) < 4.0 * sigma).all()
    assert NIS_RANGE[0] < run.nis[10:].mean() < NIS_RANGE[1]
    mean = [pair_of(r.locked_error[3000:])[0] for r in (run, plain)]
    assert mean[0] < mean[1]


def test_with_a_gyroscope_at_every_sample_the_twist_is_better_than_the_floor():
    sensed = short()
    motion, robot = sensed.motion, sensed.motion.robot
    ekf = InvariantEkf(robot, gyro_link=robot.root_link, gyro_deviation=2e-4)
    rng, errors = np.random.default_rng(0), []
    for k in range(len(motion)):
        t = float(motion.t[k])
        ekf.joints(t, motion.q[k], sensed.qd[k])
        ekf.gyro(t, motion.V[k, 3:] + 2e-4 * rng.normal(size=3))
        if k % 100 == 0:
            ekf.pose(t, sensed.poses[k // 100])
        errors.append(motion.V[k] - ekf.twist)
    angular, linear = pair_of(np.array(errors)[2000:])
    floor = pair_of(sensed.floor[2000:])
    # the bias that two seconds of poses leave is what remains
    assert angular < 0.6 * floor[0]
    assert ekf.status.rejected < 5


def test_gyroscope_and_velocity_carry_the_estimate_through_a_gap_with_an_unknown_push():
    robot = load("lwr_floating")

    def kick(t, state):
        return np.array([3.0, 0.0, -2.0, 0.4, -0.3, 0.2]) * (3.0 < t < 4.0)

    sensed = sense(truth(robot, 6.0, wrench=kick), 0)
    sensed = sensed.without((sensed.samples > 2000) & (sensed.samples < 5500))
    motion, rng = sensed.motion, np.random.default_rng(1)
    helped = InvariantEkf(robot, gyro_link=robot.root_link, gyro_deviation=1e-3, disturbance=0.3)
    gyro = with_gyro(helped, sensed, robot.root_link, np.zeros(3), 1e-3, every=5)
    alone = InvariantEkf(robot, disturbance=0.3)

    def each(k):
        gyro(k)
        if k > 20 and k % 20 == 0:
            i = k - 2
            axes = ("body", "world")[k % 40 == 0]
            R = motion.g[i, :3, :3] if axes == "world" else np.eye(3)
            v = R @ motion.V[i, :3] + 1e-2 * rng.normal(size=3)
            helped.velocity(float(motion.t[i]), v, np.eye(3) * 1e-4, axes)

    runs = observe(helped, sensed, each=each), observe(alone, sensed)
    gap = (motion.t > 3.0) & (motion.t < 5.4)
    with_help, without = (pair_of(run.error[gap]) for run in runs)
    assert with_help[0] < 0.1 * without[0]
    assert with_help[1] < 0.1 * without[1]
    assert (z_scores(runs[0], 5.0) < 3.0).mean() > INSIDE
    assert helped.status.rejected < 10


def test_a_gyroscope_does_not_seem_to_measure_the_attitude():
    sensed = short()
    motion, robot = sensed.motion, sensed.motion.robot
    ekf = InvariantEkf(robot, gyro_link=robot.root_link, gyro_deviation=2e-4)
    rng = np.random.default_rng(0)
    ekf.joints(0.0, motion.q[0], sensed.qd[0])
    ekf.pose(0.0, sensed.poses[0])
    for k in range(1, 500):
        t = float(motion.t[k])
        ekf.joints(t, motion.q[k], sensed.qd[k])
        ekf.gyro(t, motion.V[k, 3:] + 2e-4 * rng.normal(size=3))
    sigma = np.sqrt(np.diag(ekf.error_covariance))[3:6]
    # one pose of 5 mrad is all there was; a tenth is what linearization may cost
    assert (sigma > 0.9 * 5e-3).all()


@pytest.mark.parametrize("axes", ["body", "world"])
def test_a_velocity_is_believed_along_its_axes(axes):
    robot = load("tree3")
    s = State(robot, 2)
    g = se3.exp(s.V)
    V = np.array([0.3, -0.2, 0.1, 0.0, 0.0, 0.0])
    v = V[:3] if axes == "body" else g[:3, :3] @ V[:3]
    ekf = InvariantEkf(robot)
    ekf.joints(0.0, s.q, np.zeros(robot.n))
    ekf.pose(0.0, g)
    for k in range(1, 200):
        ekf.joints(1e-3 * k, s.q, np.zeros(robot.n))
        ekf.velocity(1e-3 * k, v, np.eye(3) * 1e-6, axes)
    assert abs(ekf.twist[:3] - V[:3]).max() < 1e-2


def test_a_gyroscope_needs_its_link_and_a_velocity_its_axes():
    ekf = InvariantEkf(load("tree3"))
    with pytest.raises(vm.ParameterError):
        ekf.gyro(0.0, np.zeros(3))
    with pytest.raises(vm.VmDynamicsError):
        ekf.velocity(0.0, np.zeros(3), axes="moon")
    with pytest.raises(vm.DimensionError):
        ekf.velocity(0.0, np.zeros(2))


# -- gates, beginnings, covariances ---------------------------------------------------------------


def test_the_estimate_begins_anew_when_the_frame_of_the_poses_jumps_and_keeps_its_momentum():
    sensed = short()
    jump = se3.exp(np.array([1.0, -2.0, 0.5, 0.4, 0.3, -0.8]))
    poses = sensed.poses.copy()
    poses[20:] = jump @ poses[20:]
    ekf = InvariantEkf(load("lwr_floating"), patience=4)
    run = observe(ekf, replace(sensed, poses=poses))
    status = ekf.status
    assert (status.reinitialisations, status.rejected, status.state) == (1, 3, "tracking")
    away = se3.log(se3.inverse(ekf.base_pose) @ jump @ sensed.motion.g[-1])
    assert abs(away).max() < 0.02
    # the velocity hardly notices: the pose jumped, not the robot
    assert pair_of(run.locked_error[2350:2400])[0] < 1.0


@pytest.mark.parametrize("speed", [0.1, 1.0])
def test_a_start_that_was_too_narrow_is_widened_until_it_fits(speed):
    robot = load("lwr_floating")
    mu = speed * np.array([1.0, -0.5, 0.3, 0.2, 0.1, -0.2])
    sensed = sense(truth(robot, 6.0, state=begin(robot, mu)), 0)
    ekf = InvariantEkf(robot, start_deviation=0.01)
    run = observe(ekf, sensed)
    assert run.settled() < 5.0
    assert ekf.status.state == "tracking"


def test_a_first_pose_that_is_an_outlier_is_overcome():
    sensed = short()
    poses = sensed.poses.copy()
    poses[0] = se3.exp(np.array([3.0, 2.0, -4.0, 1.0, -0.5, 1.0]))
    ekf = InvariantEkf(load("lwr_floating"))
    run = observe(ekf, replace(sensed, poses=poses))
    assert ekf.status.reinitialisations >= 1
    assert run.settled() < SETTLED


def test_a_covariance_that_comes_with_a_pose_weighs_it():
    robot = load("tree3")
    s = State(robot, 1)
    moved = se3.exp(np.full(6, 1e-3))

    def after(covariance):
        ekf = InvariantEkf(robot)
        ekf.joints(0.0, s.q, np.zeros(robot.n))
        ekf.pose(0.0, np.eye(4), np.eye(6) * 1e-6)
        ekf.joints(1e-3, s.q, np.zeros(robot.n))
        ekf.pose(1e-3, moved, covariance)
        return se3.log(ekf.base_pose)

    assert abs(after(np.eye(6) * 1e-12) - 1e-3).max() < 1e-5
    assert abs(after(np.eye(6) * 1e2)).max() < 1e-6
    assert np.array_equal(after(None), after(np.zeros((6, 6))))
    half = np.diag((1e-12,) * 3 + (1e2,) * 3)
    assert abs(after(half)[:3] - 1e-3).max() < 1e-4
    assert abs(after(half)[3:]).max() < 2e-4


def test_a_planar_robot_takes_covariances_of_poses_in_space():
    robot = load("rover_arm2", "SE2")
    C = np.diag((1e-4, 2e-4, 9.0, 9.0, 9.0, 3e-4))
    found = []
    for covariance in (C, np.diag((1e-4, 2e-4, 3e-4))):
        ekf = InvariantEkf(robot)
        ekf.joints(0.0, np.zeros(2), np.zeros(2))
        ekf.pose(0.0, np.eye(4), covariance)
        found.append(ekf.covariance)
    assert np.allclose(found[0], found[1])
    assert np.allclose(np.diag(found[0])[:3], (1e-4, 2e-4, 3e-4))


def test_joints_at_a_tenth_of_the_rate_do_nearly_as_well():
    sensed = short(seconds=10.0)
    motion, ekf = sensed.motion, InvariantEkf(load("lwr_floating"))
    errors = []
    for k in range(0, len(motion), 10):
        ekf.joints(float(motion.t[k]), motion.q[k], sensed.qd[k])
        if k % 100 == 0:
            ekf.pose(float(motion.t[k]), sensed.poses[k // 100])
        errors.append(motion.V[k] - ekf.twist)
    angular, _ = pair_of(np.array(errors)[500:])
    assert angular < ANGULAR * pair_of(sensed.floor[5000:])[0]


def test_the_floor_is_in_the_covariance_of_the_twist():
    sensed = short()
    ekf = InvariantEkf(load("lwr_floating"))
    run = observe(ekf, sensed)
    A = load("lwr_floating").connection(sensed.motion.q[-1])
    floor = JOINT_NOISE**2 * np.diag(A @ A.T)
    variance = np.diag(ekf.covariance)[6:]
    assert (variance > floor).all()
    assert (variance < 10.0 * floor + 1e-4).all()
    tail = run.error[3000:] / np.sqrt(variance)
    assert (abs(tail) < 3.0).mean() > INSIDE


def test_the_noise_of_the_poses_is_the_default_of_the_filter():
    ekf = InvariantEkf(load("tree3"))
    deviations = np.sqrt(np.diag(ekf._pose_covariance))
    assert np.allclose(deviations, (POSITION_NOISE,) * 3 + (ATTITUDE_NOISE,) * 3, rtol=0.05)
