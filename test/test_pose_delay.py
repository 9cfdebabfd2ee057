# SPDX-License-Identifier: Apache-2.0
"""A delay of the poses against the joints is found, and said to be unknown where nothing tells."""

import numpy as np
import pytest
from imperfect import NOISE, motion_of, robot_of
from observing import RATE, begin, sense

import vm_dynamics as vm

BAR = 5e-3  # [s]


def found(name, motion, delay, seed):
    """A finder that has seen a motion, its poses stamped when they came."""
    finder = vm.PoseDelay(robot_of(name), pose_deviation=NOISE)
    sensed, late = sense(motion, seed), round(RATE * delay)
    poses = dict(zip((sensed.samples + late).tolist(), sensed.poses, strict=True))
    for k in range(len(motion)):
        t = float(motion.t[k])
        finder.joints(t, motion.q[k], sensed.qd[k])
        if k in poses:
            finder.pose(t, poses[k])
    return finder


@pytest.mark.parametrize("delay", [0.0, 0.12])
def test_a_delay_is_found(delay):
    finder = found("lwr_floating", motion_of("lwr_floating"), delay, 1)
    assert finder.deviation < 2.0 * BAR
    assert abs(finder.value - delay) < 3.0 * finder.deviation


@pytest.mark.slow
@pytest.mark.parametrize("speed", [0.0, 60.0])
@pytest.mark.parametrize("name", ["satellite_arm7", "lwr_floating", "2"])
def test_a_delay_is_found_to_5_ms_in_a_minute(name, speed):
    motion = motion_of(name, speed, 60.0)
    finders = {
        (delay, seed): found(name, motion, delay, seed) for delay in (0.05, 0.5) for seed in (1, 2)
    }
    errors = np.array([abs(finder.value - delay) for (delay, _), finder in finders.items()])
    print(f"\n{name}: median {1e3 * np.median(errors):.1f} ms, worst {1e3 * errors.max():.1f} ms")
    assert errors.max() < BAR
    for (delay, _), finder in finders.items():
        assert abs(finder.value - delay) < 4.0 * finder.deviation


def test_a_base_that_only_drifts_does_not_tell():
    robot = robot_of("satellite_arm7")
    still = vm.State(np.eye(4), begin(robot).q, np.array([0.1, 0, 0, 0, 0, 0]), np.zeros(robot.n))
    drift = vm.simulate(robot, still, None, 10.0, step=1.0 / RATE, progress=False)
    finder = found("satellite_arm7", drift, 0.1, 1)
    assert finder.deviation > 0.05


def test_what_it_is_told_is_checked():
    robot = robot_of("lwr_floating")
    with pytest.raises(vm.ParameterError, match="history"):
        vm.PoseDelay(robot, history=10)
    finder = vm.PoseDelay(robot)
    with pytest.raises(vm.VmDynamicsError, match="qd"):
        finder.joints(0.0, np.zeros(robot.n), np.zeros(2))
    with pytest.raises(vm.VmDynamicsError, match="g"):
        finder.pose(0.0, np.eye(3))
    finder.pose(0.0, np.full((4, 4), np.nan))
    finder.pose(np.nan, np.eye(4))
    assert finder.deviation > 0.3


def test_reset_forgets():
    finder = found("lwr_floating", motion_of("lwr_floating"), 0.12, 1)
    assert finder.deviation < 2.0 * BAR
    finder.reset()
    assert finder.deviation > 0.3
