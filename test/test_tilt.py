# SPDX-License-Identifier: Apache-2.0
"""Leaning: a multicopter tilts to where it wants to go."""

import numpy as np
import pytest

import vm_dynamics as vm
from vm_dynamics.control import TiltGuidance

EARTH = (0.0, 0.0, -9.81)
STILL = np.zeros(6)


def pose(x=0.0, y=0.0, yaw=0.0, tilt=(0.0, 0.0)):
    out = vm.lie.se3.exp(np.array([0.0, 0.0, 0.0, 0.0, 0.0, yaw]))
    out = out @ vm.lie.se3.exp(np.array([0.0, 0.0, 0.0, *tilt, 0.0]))
    out[:2, 3] = x, y
    return out


def guidance(**options):
    return TiltGuidance(EARTH, **{"stiffness": 1.0, "damping": 1.5, **options})


def test_on_its_place_and_at_rest_it_does_not_lean():
    place = pose(1.0, 2.0, yaw=0.7)
    assert np.array_equal(guidance().target(place, place, STILL), place)


@pytest.mark.parametrize("yaw", [0.0, 0.7, -2.0])
def test_thrust_along_the_target_gives_the_acceleration_that_is_wanted(yaw):
    place, there = pose(yaw=yaw), pose(0.4, -0.3, yaw=yaw, tilt=(0.1, -0.2))
    V = np.array([0.1, -0.05, 0.2, 0.0, 0.0, 0.0])
    target = guidance().target(place, there, V)
    wanted = -1.0 * there[:3, 3] - 1.5 * there[:3, :3] @ V[:3]
    # a thrust that carries the weight
    thrust = target[:3, 2] * 9.81 / target[2, 2]
    assert np.allclose(thrust[:2], wanted[:2], atol=1e-12)
    assert np.array_equal(target[:3, 3], place[:3, 3])


def test_it_keeps_its_heading():
    target = guidance().target(pose(yaw=0.5), pose(0.3, 0.2, yaw=0.5), STILL)
    ahead = np.arctan2(target[1, 0], target[0, 0])
    assert ahead == pytest.approx(0.5, abs=0.01)


def test_it_never_leans_more_than_it_may():
    target = guidance(most_tilt=0.2).target(pose(), pose(1e3, -1e3), STILL)
    assert np.arccos(target[2, 2]) == pytest.approx(0.2)


def test_a_steady_error_is_leant_against_more_and_more_within_bounds():
    tilt = guidance(integral=0.5, most_tilt=0.3)
    place, off = pose(), pose(0.1, 0.0)
    first = tilt.target(place, off, STILL)
    for _ in range(10):
        tilt.target(place, off, STILL, dt=0.1)
    more = tilt.target(place, off, STILL)[:3, 2] * 9.81
    assert more[0] / more[2] * 9.81 == pytest.approx(-0.1 - 0.5 * 0.1, rel=1e-9)
    for _ in range(10_000):
        tilt.target(place, off, STILL, dt=1e3)  # a pause counts as a tenth of a second
    most = np.arccos(tilt.target(place, place, STILL)[2, 2])
    assert most == pytest.approx(0.15)
    tilt.reset()
    assert np.array_equal(tilt.target(place, off, STILL), first)


def test_a_base_that_leans_accelerates_to_that_side():
    there = pose(tilt=(0.0, 0.2))
    np.testing.assert_allclose(
        guidance().acceleration(there), [9.81 * np.tan(0.2), 0.0, 0.0], atol=1e-12
    )
    upside_down = pose(tilt=(np.pi, 0.0))
    assert np.isfinite(guidance().acceleration(upside_down)).all()


def test_gravity_may_point_anywhere():
    sideways = TiltGuidance((9.81, 0.0, 0.0), stiffness=1.0, damping=1.0)
    place = np.eye(4)
    place[:3, :3] = [[0.0, 0.0, -1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]  # z is up, against it
    off = place.copy()
    off[:3, 3] = 5.0, 0.4, 0.0  # what is along the vertical is not its business
    thrust = sideways.target(place, off, STILL)[:3, 2]
    assert thrust[1] / -thrust[0] == pytest.approx(-0.4 / 9.81)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"stiffness": -1.0}, "stiffness"),
        ({"damping": np.nan}, "damping"),
        ({"integral": -1.0}, "integral"),
        ({"most_tilt": 2.0}, "most_tilt"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(vm.VmDynamicsError, match=words):
        guidance(**options)
    with pytest.raises(vm.ParameterError, match="gravity"):
        TiltGuidance((0, 0, 0), stiffness=1.0, damping=1.0)
