# SPDX-License-Identifier: Apache-2.0
"""Diagnostics of an observer tell a wrong model, outliers and restarts from a good estimate."""

import numpy as np
import pytest
from cases import text

import vm_dynamics as vm
from vm_dynamics.ros.consistency import Consistency

ROBOT = vm.load(text("satellite_arm7"))
NOISE = (5e-3, 5e-3)


def watched(*, seed=0, scale=1.0, jumps=(), seconds=20.0):
    """Doubts about a filter at rest, whose poses are ``scale`` times as noisy as it believes."""
    random = np.random.default_rng(seed)
    ekf = vm.InvariantEkf(ROBOT, pose_deviation=NOISE)
    consistency = Consistency(ekf)
    q, qd = np.full(7, 0.3), np.zeros(7)
    doubts = []
    for k in range(int(seconds * 100)):
        t = 0.01 * k
        ekf.joints(t, q, qd)
        if k % 10 == 0:
            error = scale * np.repeat(NOISE, 3) * random.normal(size=6)
            if k // 10 in jumps:
                error[:3] += 1.0
            ekf.pose(t, vm.lie.SE3.exp(error))
            consistency.heard_pose()
        if k % 100 == 99:
            doubts.append(consistency.doubts(t))
    return doubts


@pytest.mark.parametrize("seed", range(10))
def test_there_are_no_doubts_when_all_is_as_it_should_be(seed):
    assert not any(watched(seed=seed))


@pytest.mark.parametrize("seed", range(3))
def test_poses_that_are_worse_than_believed_show_in_their_innovations(seed):
    last = watched(seed=seed, scale=1.7)[-1]
    assert "NIS" in last and "instead of 6" in last


def test_outliers_are_told_as_long_as_they_are_recent():
    doubts = watched(jumps=range(50, 80, 2), seconds=25.0)
    assert not doubts[4]
    assert any("of" in text and "measurements rejected" in text for text in doubts[6:9])
    assert "rejected" not in doubts[-1]


def test_an_estimate_that_began_anew_is_told():
    doubts = watched(jumps=range(50, 200))
    assert "began anew once in the last minute" in doubts[-1]
