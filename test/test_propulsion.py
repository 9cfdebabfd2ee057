# SPDX-License-Identifier: Apache-2.0
"""Rotors and thrusters: the allocation matrix, who pushes how much, lags, and wrong files."""

import itertools
import math
import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
import yaml
from cases import ROBOTS, load
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from vm_dynamics import errors
from vm_dynamics.dynamics.propulsion import WRENCH_AXES, Propulsion, Rotor

ROUNDING = 1e-12  # relative: sums of a few products
BOUNDED = 1e-7  # relative: what an iterative solver of bounded least squares leaves
PER_MINUTE = 2.0 * math.pi / 60.0  # rad/s
FLYING = ("fz", "tx", "ty", "tz")


@cache
def shipped(name):
    return Propulsion.load(load(name), ROBOTS / f"{name}.yaml")


def thrusters():
    """Those of the underwater vehicle: no reaction torque, reversible, thrust along x."""
    return Propulsion(
        load("auv_arm4"),
        [
            Rotor(link=f"thruster{k}", axis=(1, 0, 0), min_thrust=-40.0, max_thrust=60.0)
            for k in range(1, 7)
        ],
    )


@pytest.fixture(params=["quad_arm1", "hexa_arm2", "thrusters"])
def propulsion(request):
    return thrusters() if request.param == "thrusters" else shipped(request.param)


# -- the matrix -------------------------------------------------------------------------------


def test_a_column_is_the_wrench_of_one_newton(propulsion):
    """By the sum (68) over rotors, each with its thrust and its reaction torque."""
    robot = propulsion.robot
    rng = np.random.default_rng(0)
    thrusts = rng.normal(size=len(propulsion.rotors))
    force, torque = np.zeros(3), np.zeros(3)
    for rotor, f in zip(propulsion.rotors, thrusts, strict=True):
        pose = robot.link_pose(rng.normal(size=robot.n), rotor.link)
        pull = f * pose[:3, :3] @ np.array(rotor.axis)
        force += pull
        torque += np.cross(pose[:3, 3], pull) + rotor.spin * rotor.k_p / rotor.k_t * pull
    assert np.allclose(propulsion.wrench(thrusts), [*force, *torque], rtol=ROUNDING, atol=ROUNDING)


def test_a_rotor_that_turns_clockwise_turns_the_body_counter_clockwise():
    above = Rotor("one", position=(0, 0, 0), spin=1, k_t=2e-4, k_p=5e-6)
    assert np.allclose(Propulsion(load("quad_arm1"), [above]).matrix[:, 0], [0, 0, 1, 0, 0, 0.025])


def test_front_left_rotor_lifts_rolls_right_and_pitches_the_nose_up():
    fx, fy, fz, tx, ty, _ = shipped("quad_arm1").matrix[:, 0]
    assert (fx, fy, fz) == (0, 0, 1) and tx > 0.0 > ty


@pytest.mark.parametrize("name, rank", [("quad_arm1", 4), ("hexa_arm2", 4), ("thrusters", 6)])
def test_ranks_of_the_shipped_vehicles(name, rank):
    propulsion = thrusters() if name == "thrusters" else shipped(name)
    assert propulsion.rank == rank
    propulsion.require_full_rank(WRENCH_AXES if rank == 6 else FLYING)


def test_the_shipped_underwater_vehicle_pushes_in_all_directions_and_back():
    propulsion = shipped("auv_arm4")
    propulsion.require_full_rank()
    assert (propulsion.min_thrusts < 0.0).all()
    assert np.allclose(propulsion.matrix, thrusters().matrix)


def test_shipped_constants_are_those_of_the_paper():
    for name, lag in (("quad_arm1", 0.2), ("hexa_arm2", 0.1)):
        propulsion = shipped(name)
        full = np.full(len(propulsion.rotors), 4500.0)
        thrusts = 2.165e-6 * full**2
        # the files print five digits
        assert np.allclose(propulsion.thrust_of_speed(full * PER_MINUTE), thrusts, rtol=1e-4)
        assert np.allclose(propulsion.max_thrusts, thrusts, rtol=1e-4)
        drags = abs(propulsion.matrix[5]) * thrusts
        assert np.allclose(drags, 5.865e-8 * full**2, rtol=1e-4)
        assert {rotor.time_constant for rotor in propulsion.rotors} == {lag}
        assert sum(rotor.spin for rotor in propulsion.rotors) == 0
        assert (propulsion.min_thrusts == 0.0).all()


def test_both_vehicles_can_carry_themselves():
    for name in ("quad_arm1", "hexa_arm2"):
        propulsion = shipped(name)
        weight = 9.81 * propulsion.robot.total_mass
        assert not propulsion.allocate([0, 0, weight, 0, 0, 0]).saturated.any()
        assert propulsion.max_thrusts.sum() > 1.5 * weight


def test_speeds_and_thrusts_are_inverses_in_reverse_too():
    propulsion = thrusters()
    speeds = np.array([-3.0, -0.5, 0.0, 0.1, 2.0, 5.0])
    assert np.allclose(propulsion.speed_of_thrust(propulsion.thrust_of_speed(speeds)), speeds)
    assert (np.sign(propulsion.thrust_of_speed(speeds)) == np.sign(speeds)).all()


# -- allocation -------------------------------------------------------------------------------


def reachable(propulsion, seed, low=0.2, high=0.8):
    rng = np.random.default_rng(seed)
    span = propulsion.max_thrusts - propulsion.min_thrusts
    thrusts = propulsion.min_thrusts + span * rng.uniform(low, high, size=len(span))
    return propulsion.wrench(thrusts), thrusts


@pytest.mark.parametrize("seed", range(10))
def test_a_wrench_within_reach_is_met_with_the_least_thrust(propulsion, seed):
    wrench, thrusts = reachable(propulsion, seed)
    found = propulsion.allocate(wrench)
    assert np.allclose(found.wrench, wrench, rtol=ROUNDING, atol=1e-10)
    assert np.allclose(found.wrench, propulsion.wrench(found.thrusts), rtol=ROUNDING)
    assert np.linalg.norm(found.thrusts) <= np.linalg.norm(thrusts) * (1.0 + ROUNDING)
    assert not found.saturated.any()


def best_by_enumeration(propulsion, wrench, weights):
    """Least weighted error over every choice of which thrusts are at which limit."""
    scale = np.sqrt(weights)
    B, w = scale[:, None] * propulsion.matrix, scale * wrench
    low, high = propulsion.min_thrusts, propulsion.max_thrusts
    best = np.inf
    for choice in itertools.product((-1, 0, 1), repeat=len(low)):
        choice = np.array(choice)
        thrusts = np.where(choice < 0, low, high)
        free = choice == 0
        rest = w - B[:, ~free] @ thrusts[~free]
        thrusts[free] = np.linalg.pinv(B[:, free]) @ rest
        if (thrusts >= low - 1e-9).all() and (thrusts <= high + 1e-9).all():
            best = min(best, np.linalg.norm(B @ thrusts - w))
    return best


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", [None, (0.0, 0.0, 1.0, 10.0, 10.0, 0.1)])
def test_beyond_the_limits_no_thrusts_come_closer(propulsion, seed, weights):
    wrench = 4.0 * reachable(propulsion, seed, 0.0, 1.0)[0] + 20.0
    given_weights = np.ones(6) if weights is None else np.array(weights)
    found = propulsion.allocate(wrench, weights)
    error = np.linalg.norm(np.sqrt(given_weights) * (found.wrench - wrench))
    best = best_by_enumeration(propulsion, wrench, given_weights)
    assert error <= best * (1.0 + BOUNDED) + 1e-9
    assert found.saturated.any()
    at_limit = (found.thrusts == propulsion.min_thrusts) | (
        found.thrusts == propulsion.max_thrusts
    )
    assert np.array_equal(found.saturated, at_limit)
    assert (found.thrusts >= propulsion.min_thrusts).all()
    assert (found.thrusts <= propulsion.max_thrusts).all()


def ring(count):
    """A multicopter of many rotors: rank 4."""
    at = 2.0 * np.pi * np.arange(count) / count
    return [
        Rotor(
            str(k),
            position=(0.4 * np.cos(a), 0.4 * np.sin(a), 0.0),
            spin=(-1) ** k,
            k_p=0.03,
            max_thrust=40.0,
        )
        for k, a in enumerate(at)
    ]


def scattered(count, rng, doubled=0):
    """Thrusters anywhere, some of them twice at the same place: rank 6 or less."""
    half = count - doubled
    axes, places = rng.normal(size=(2, half, 3))
    return [
        Rotor(
            str(k),
            position=tuple(0.4 * places[k % half]),
            axis=tuple(axes[k % half]),
            min_thrust=-30.0,
            max_thrust=50.0,
        )
        for k in range(count)
    ]


def random_propulsion(seed):
    """4 to 10 rotors: a ring, thrusters anywhere, in pairs, or a shipped vehicle."""
    rng = np.random.default_rng(seed)
    count, kind = int(rng.integers(4, 11)), seed % 4
    if kind == 3:
        return shipped(("quad_arm1", "hexa_arm2", "auv_arm4")[seed // 4 % 3]), rng
    made = (ring(count), scattered(count, rng), scattered(count, rng, count // 2))[kind]
    return Propulsion(load("quad_arm1"), made), rng


def excess(B, w, low, high, f):
    """How far thrusts are from the conditions of Karush, Kuhn and Tucker, which prove them best.

    Of the error: its gradient p is zero within the limits and points outward at them. Of the norm
    among all f with the same B f, where thrusts with p != 0 cannot but stay: f = B^T x + y with y
    zero within the limits and inward at them, found by SciPy's non-negative least squares.
    """
    p = B.T @ (B @ f - w)
    weight = np.linalg.norm(B, axis=0) * np.linalg.norm(B, 2) * high.max()
    inward = (f == low).astype(float) - (f == high)
    first = np.where(inward == 0.0, abs(p), -inward * p) / weight
    held = abs(p) > 1e-9 * weight
    columns = [
        B.T,
        -B.T,
        np.diag(inward),
        np.diag(held.astype(float)),
        -np.diag(held.astype(float)),
    ]
    _, second = nnls(np.hstack(columns), f)
    return max(first.max(), second / high.max())


@pytest.mark.parametrize("weights", [None, (0.5, 0.0, 1.0, 10.0, 10.0, 0.1)])
@pytest.mark.parametrize("beyond", ["partly", "far", "a corner"])
def test_of_all_thrusts_that_come_closest_the_least_are_taken(beyond, weights):
    saturated = 0
    for seed in range(200):
        propulsion, rng = random_propulsion(seed)
        low, high = propulsion.min_thrusts, propulsion.max_thrusts
        share = {
            "partly": rng.uniform(-0.3, 1.3, len(low)),
            "far": rng.uniform(-2.0, 3.0, len(low)),
            "a corner": rng.integers(0, 2, len(low)),
        }[beyond]
        wrench = propulsion.matrix @ (low + (high - low) * share)
        found = propulsion.allocate(wrench, weights)
        scale = np.ones(6) if weights is None else np.sqrt(weights)
        B, w = scale[:, None] * propulsion.matrix, scale * wrench
        assert excess(B, w, low, high, found.thrusts) < BOUNDED, seed
        saturated += found.saturated.any()
    assert saturated > 80


def test_the_first_wrench_beyond_the_limits_imports_nothing():
    code = (
        "import sys, vm_dynamics as vm\n"
        f"robot = vm.load({str(ROBOTS / 'hexa_arm2.urdf')!r})\n"
        f"propulsion = vm.Propulsion.load(robot, {str(ROBOTS / 'hexa_arm2.yaml')!r})\n"
        "before = set(sys.modules)\n"
        "assert propulsion.allocate([0, 0, 1e3, 5, 0, 0]).saturated.any()\n"
        "print(*set(sys.modules) - before)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert out.stdout.split() == []


def test_weights_decide_which_axis_gives_way():
    propulsion = shipped("quad_arm1")
    wrench = np.array([0, 0, 170.0, 0, 10.0, 0])  # close to all that the rotors have
    lift = propulsion.allocate(wrench, (1, 1, 100, 1, 1, 1)).wrench
    turn = propulsion.allocate(wrench, (1, 1, 1, 1, 100, 1)).wrench
    assert abs(lift[2] - 170.0) < 0.1 * abs(turn[2] - 170.0)
    assert abs(turn[4] - 10.0) < 0.1 * abs(lift[4] - 10.0)


@given(st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=6))
def test_thrusts_always_keep_their_limits(wrench):
    propulsion = shipped("hexa_arm2")
    found = propulsion.allocate(wrench)
    assert np.isfinite(found.thrusts).all()
    assert (found.thrusts >= propulsion.min_thrusts).all()
    assert (found.thrusts <= propulsion.max_thrusts).all()


def test_a_singular_allocation_is_refused_and_says_what_is_missing():
    with pytest.raises(
        errors.ParameterError, match="singular allocation: 4 rotors give 4 of the 6.*fx.*fy"
    ):
        shipped("quad_arm1").require_full_rank()
    robot = load("quad_arm1")
    line = Propulsion(robot, [Rotor(str(x), position=(x, 0, 0)) for x in (0.1, 0.2, 0.3)])
    with pytest.raises(errors.ParameterError, match="give 2 of the 3.*nothing acts along tx"):
        line.require_full_rank(("fz", "tx", "ty"))
    one = Propulsion(robot, [Rotor("one", position=(0.1, 0, 0))])
    with pytest.raises(errors.ParameterError, match="fz, ty only come together"):
        one.require_full_rank(("fz", "ty"))
    with pytest.raises(errors.ParameterError, match="axes: got 'lift', expected some of fx"):
        one.require_full_rank(("lift",))


# -- motors -----------------------------------------------------------------------------------


def test_the_lag_is_the_exact_exponential_however_long_the_steps():
    propulsion = shipped("quad_arm1")
    start, aim = np.array([1.0, 5.0, 20.0, 0.0]), np.array([10.0, 5.0, 2.0, 40.0])
    expected = aim + math.exp(-0.3 / 0.2) * (start - aim)
    for steps in (1, 7, 300):
        thrusts = start
        for _ in range(steps):
            thrusts = propulsion.motor_step(thrusts, aim, 0.3 / steps)
        assert np.allclose(thrusts, expected, rtol=1e-10)
    assert np.array_equal(propulsion.motor_step(start, aim, 0.0), start)


def test_commands_beyond_the_limits_are_cut_off_and_motors_without_lag_follow_at_once():
    propulsion = thrusters()
    aim = [100.0, -100.0, 60.0, -40.0, 1.0, 0.0]
    after = propulsion.motor_step(np.zeros(6), aim, 0.01)
    assert np.array_equal(after, [60.0, -40.0, 60.0, -40.0, 1.0, 0.0])


# -- wrong rotors and files -------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"axis": (0, 0, 0)}, "axis: got .*not all zero"),
        ({"axis": (0, 1)}, "axis: got .*expected 3 numbers"),
        ({"axis": (0, 0, math.nan)}, "axis: got nan"),
        ({"position": (0, 0)}, "position: got .*expected 3 numbers"),
        ({"position": None}, "link, position: got None, None, expected one"),
        ({"link": "rotor1"}, "link, position: got 'rotor1'.*expected one"),
        ({"spin": 2}, "spin: got 2, expected 1, -1 or 0"),
        ({"spin": "cw"}, "spin: got cw, expected 1, -1 or 0"),
        ({"k_t": 0.0}, "k_t: got 0.0, expected a positive number"),
        ({"k_t": -1e-4}, "k_t: got -0.0001, expected a positive number"),
        ({"k_t": math.inf}, "k_t: got inf, expected a finite number"),
        ({"k_p": -1.0}, "k_p: got -1.0, expected no negative number"),
        ({"time_constant": -0.1}, "time_constant: got -0.1, expected no negative"),
        ({"time_constant": "fast"}, "time_constant: got 'fast', expected a finite number"),
        ({"min_thrust": 5.0, "max_thrust": 5.0}, "min_thrust: got 5.0, expected less than"),
        ({"max_thrust": math.nan}, "max_thrust: got nan"),
        ({"max_speed": 0.0}, "max_speed: got 0.0, expected a positive"),
    ],
)
def test_a_wrong_rotor_is_refused_by_name(wrong, message):
    with pytest.raises(errors.ParameterError, match=f"rotor 'r': {message}"):
        Rotor(**{"name": "r", "position": (0, 0, 0), **wrong})


def test_a_rotor_needs_a_name():
    with pytest.raises(errors.ParameterError, match="rotor: got name ''"):
        Rotor(position=(0, 0, 0))


def test_the_lesser_of_both_limits_holds():
    rotor = Rotor("r", position=(0, 0, 0), k_t=2.0, max_speed=3.0)
    assert rotor.max_thrust == 18.0
    assert Rotor("r", position=(0, 0, 0), k_t=2.0, max_speed=3.0, max_thrust=5).max_thrust == 5.0


def test_rotors_that_cannot_be_placed_are_refused():
    robot = load("quad_arm1")
    with pytest.raises(errors.ParameterError, match="rotors: got none"):
        Propulsion(robot, [])
    with pytest.raises(errors.ParameterError, match="two named 'rotor1'"):
        Propulsion(robot, [Rotor(link="rotor1"), Rotor(link="rotor1")])
    with pytest.raises(errors.UnknownLinkError, match="'rotor9'.*rotor1"):
        Propulsion(robot, [Rotor(link="rotor9")])
    with pytest.raises(
        errors.ParameterError, match="link 'tool' moves with joint 'joint1'.*joined to 'base_link'"
    ):
        Propulsion(robot, [Rotor(link="tool")])


def test_wrong_arguments_are_named():
    propulsion = shipped("quad_arm1")
    with pytest.raises(errors.DimensionError, match=r"wrench: got shape \(4,\), expected \(6,\)"):
        propulsion.allocate(np.zeros(4))
    with pytest.raises(errors.NonFiniteError, match="wrench"):
        propulsion.allocate([0, 0, math.nan, 0, 0, 0])
    for weights in (np.zeros(6), [1, 1, 1, 1, 1, -1]):
        with pytest.raises(errors.ParameterError, match="weights: got"):
            propulsion.allocate(np.zeros(6), weights)
    for call in (propulsion.wrench, propulsion.thrust_of_speed, propulsion.speed_of_thrust):
        with pytest.raises(errors.DimensionError, match=r"got shape \(3,\), expected \(4,\)"):
            call(np.zeros(3))
    for dt in (-1.0, math.nan, math.inf, "1"):
        with pytest.raises(errors.ParameterError, match="dt: got"):
            propulsion.motor_step(np.zeros(4), np.zeros(4), dt)


def section(**changes):
    rotors = [{"link": f"rotor{k}", "spin": (-1) ** k} for k in range(1, 5)]
    return {"propulsion": {"defaults": {"k_t": 1e-4}, "rotors": rotors, **changes}}


@pytest.mark.parametrize(
    "content, message",
    [
        (section(motors=[]), "propulsion: unknown key 'motors'; valid: defaults, rotors"),
        (section(defaults={"kt": 1.0}), "defaults: unknown key 'kt'; valid: name, link"),
        (section(rotors=[{"lnk": "rotor1"}]), r"rotors\[0\]: unknown key 'lnk'; valid: name"),
        (section(rotors={}), "rotors: got dict, expected a list"),
        (section(rotors=None), "rotors: got NoneType, expected a list"),
        (section(rotors=["rotor1"]), r"rotors\[0\]: got str, expected a mapping"),
        (section(rotors=[]), "rotors: got none"),
        (section(defaults=[1]), "defaults: got list, expected a mapping"),
        ({"propulsion": [1]}, "propulsion: got list, expected a mapping"),
        ({"hydrodynamics": {}}, "propulsion"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_valid(tmp_path, content, message):
    path = tmp_path / "robot.yaml"
    path.write_text(yaml.safe_dump(content))
    for source in (path, str(path), content):
        with pytest.raises(errors.ParameterError, match=message):
            Propulsion.load(load("quad_arm1"), source)


def test_a_file_that_is_none_is_refused(tmp_path):
    robot = load("quad_arm1")
    for text in ("propulsion: {rotors: [", "just words", ""):
        path = tmp_path / "robot.yaml"
        path.write_text(text)
        with pytest.raises(errors.ParameterError, match="robot.yaml"):
            Propulsion.load(robot, path)
    with pytest.raises(errors.ParameterError, match="nowhere.yaml"):
        Propulsion.load(robot, tmp_path / "nowhere.yaml")


def test_files_and_mappings_say_the_same():
    robot = load("quad_arm1")
    path = ROBOTS / "quad_arm1.yaml"
    read = Propulsion.load(robot, yaml.safe_load(path.read_text()))
    assert read.rotors == Propulsion.load(robot, str(path)).rotors
    own = Propulsion.load(
        robot, section(rotors=[{"link": "rotor1", "k_t": 3e-4}, {"link": "rotor2"}])
    )
    assert [rotor.k_t for rotor in own.rotors] == [3e-4, 1e-4]
    assert own.names == ("rotor1", "rotor2")
