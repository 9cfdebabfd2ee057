# SPDX-License-Identifier: Apache-2.0
"""Gaits: closed, with the velocity of their positions, in a plane or in full shape space."""

import numpy as np
import pytest
from cases import load

import vm_dynamics as vm
from vm_dynamics.locomotion import Gait, GaitPlane
from vm_dynamics.locomotion.gaits import as_gait

# Central differences of this step: h^2 / 6 of a third derivative of some thousand.
STEP, DIFFERENCED = 1e-5, 1e-6
ROUNDING = 1e-12

ROBOT = load("lwr_floating")
PLANE = GaitPlane.of(ROBOT, ("joint2", "joint4"), np.linspace(-0.3, 0.3, 7))
SLANTED = GaitPlane.of(ROBOT, basis=np.random.default_rng(3).normal(size=(7, 2)))
RNG = np.random.default_rng(5)
GAITS = {
    "circle": Gait.circle(PLANE, 0.4, (0.1, -0.2), start=0.3, duration=2.0),
    "clockwise": Gait.circle(SLANTED, 0.4, start=1.0, clockwise=True),
    "ellipse": Gait.ellipse(PLANE, (0.4, 0.1), tilt=0.5, duration=3.0),
    "rectangle": Gait.rectangle(PLANE, (0.4, 0.8), (0.2, 0.0), duration=2.0),
    "fourier": Gait.fourier(RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2)), plane=SLANTED),
    "fourier in shape space": Gait.fourier(
        RNG.normal(size=(2, 7)), RNG.normal(size=(2, 7)), RNG.normal(size=7), duration=4.0
    ),
    "polyline": Gait.polyline([[0, 0], [1, 0], [0, 1], [0, 0]], plane=PLANE, duration=1.5),
    "polyline in shape space": Gait.polyline(np.vstack((np.zeros(7), np.eye(7), np.zeros(7)))),
    "function": Gait.function(lambda t: [np.sin(t) ** 2, np.sin(2 * t)], np.pi, plane=PLANE),
    "backwards": Gait.rectangle(PLANE, (0.4, 0.8), duration=2.0).reversed(),
    "thrice": Gait.rectangle(PLANE, (0.4, 0.8), duration=2.0).repeated(3),
}


@pytest.fixture(params=GAITS, ids=str)
def gait(request):
    return GAITS[request.param]


def test_a_gait_is_closed_and_moves_all_joints(gait):
    t, q, qd = gait.sample(57)
    assert t[0] == 0.0 and t[-1] == gait.duration
    assert q.shape == qd.shape == (57, 7)
    assert np.allclose(q[0], q[-1], rtol=0, atol=ROUNDING)
    assert abs(q - q[0]).max() > 0.05


def test_the_velocity_is_the_derivative_of_the_position(gait):
    edges = np.array(gait.breaks)
    for t in np.linspace(0.0, gait.duration, 41):
        if abs(edges - t).min() < 2 * STEP:
            continue
        slope = (gait.position(t + STEP) - gait.position(t - STEP)) / (2 * STEP)
        assert np.allclose(gait.velocity(t), slope, rtol=0, atol=DIFFERENCED)


def test_a_gait_goes_on_periodically(gait):
    t = 0.3 * gait.duration
    for k in (-1, 1, 2):
        assert np.allclose(
            gait.position(t + k * gait.duration), gait.position(t), rtol=0, atol=1e-9
        )


def test_a_call_takes_a_time_or_many():
    circle = GAITS["circle"]
    t = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    assert circle.position(t).shape == (2, 3, 7) and circle.coordinates(t).shape == (2, 3, 2)
    assert np.array_equal(circle.position(t)[1, 2], circle.position(0.6))


def test_a_circle_has_its_radius_centre_start_and_sense():
    r = GAITS["circle"].coordinates(np.linspace(0, 2, 50)) - [0.1, -0.2]
    assert np.allclose(np.linalg.norm(r, axis=1), 0.4, rtol=0, atol=ROUNDING)
    assert np.allclose(r[0], [0.4 * np.cos(0.3), 0.4 * np.sin(0.3)], rtol=0, atol=ROUNDING)
    for gait, sign in ((GAITS["circle"], 1.0), (GAITS["clockwise"], -1.0)):
        x, y = gait.coordinates(np.linspace(0, gait.duration, 400)).T
        area = 0.5 * np.sum(x[:-1] * np.diff(y) - y[:-1] * np.diff(x))
        assert area == pytest.approx(sign * np.pi * 0.16, rel=1e-3)


def test_a_rectangle_has_its_corners_and_constant_speed():
    gait = GAITS["rectangle"]
    corners = gait.coordinates(np.array(gait.breaks))
    expected = [[0, -0.4], [0.4, -0.4], [0.4, 0.4], [0, 0.4], [0, -0.4]]
    assert np.allclose(corners, expected, rtol=0, atol=ROUNDING)
    speed = np.linalg.norm(gait.velocity(np.linspace(0.01, 1.99, 37)), axis=1)
    assert np.allclose(speed, 2.4 / 2.0, rtol=1e-12)


def test_turning_round_is_the_same_path_backwards():
    gait = Gait.circle(PLANE, 0.3, duration=2.0)
    back, t = gait.reversed(), np.linspace(0.0, 2.0, 9)
    assert np.allclose(back.position(t), gait.position(2.0 - t), rtol=0, atol=ROUNDING)
    assert np.allclose(back.velocity(t), -gait.velocity(2.0 - t), rtol=0, atol=ROUNDING)


def test_differences_stand_in_for_a_missing_velocity_without_crossing_a_corner():
    def triangle(t):
        return [min(t, 1.0 - t, 0.4), 0.0]

    gait = Gait.function(triangle, 1.0, plane=PLANE, breaks=(0.4, 0.6))
    speeds = [gait.velocity(t)[1] for t in (0.0, 0.2, 0.4 - 1e-9, 0.5, 0.6 + 1e-9, 1.0)]
    assert np.allclose(speeds, [1.0, 1.0, 1.0, 0.0, -1.0, -1.0], rtol=0, atol=1e-6)


# -- errors -------------------------------------------------------------------------------------

BAD = {
    "an open polyline": (lambda: Gait.polyline([[0, 0], [1, 0], [1, 1]], plane=PLANE), "open"),
    "an open function": (lambda: Gait.function(lambda t: [t, 0.0], 1.0, plane=PLANE), "open"),
    "an open array": (lambda: as_gait(np.eye(7), 7), "open.*first point again"),
    "a polyline that stands": (lambda: Gait.polyline(np.zeros((3, 7))), "does not move"),
    "no time": (lambda: Gait.circle(PLANE, 1.0, duration=0.0), "above zero"),
    "time in words": (lambda: Gait.circle(PLANE, 1.0, duration="long"), "above zero"),
    "three coordinates": (lambda: Gait.polyline(np.zeros((3, 3)), plane=PLANE), r"\(N, 2\)"),
    "other sines": (lambda: Gait.fourier(np.ones((2, 7)), np.ones((1, 7))), r"\(2, 7\)"),
    "no joints": (lambda: Gait.fourier(1.0, 1.0), "cosines"),
    "NaN": (lambda: Gait.polyline([[0, np.nan], [0, 0]], plane=PLANE), "NaN"),
    "words": (lambda: as_gait("circle", 7), "path"),
    "another robot": (lambda: as_gait(GAITS["circle"], 3), "moves 7 joints, expected 3"),
    "one sample": (lambda: GAITS["circle"].sample(1), "at least 2"),
    "no turn": (lambda: GAITS["circle"].repeated(0), "at least 1"),
    "three axes": (lambda: Gait.ellipse(PLANE, (1, 2, 3)), "semi_axes"),
}


@pytest.mark.parametrize(("make", "words"), BAD.values(), ids=BAD)
def test_a_bad_gait_is_refused(make, words):
    with pytest.raises(vm.VmDynamicsError, match=words):
        make()
