# SPDX-License-Identifier: Apache-2.0
"""The controller of reorientations: loop by loop to the goal, though the masses are wrong."""

import numpy as np
import pytest
from cases import load, text
from observing import misjudged
from planner_bars import executed
from scipy.spatial.transform import Rotation

import vm_dynamics as vm
from vm_dynamics.locomotion import gait_displacement

BENT = np.array([0.0, 0.6, 0.0, -1.2, 0.0, 0.8, 0.0])
END = 0.5  # [deg], the bar of the issue
WRONG = 0.1  # of every mass and inertia


def wrong_model(robot, seed):
    """The robot as a model has it, each mass ten per cent too large or too small."""
    rng = np.random.default_rng(seed)
    signs = {name: rng.choice((-1.0, 1.0)) for name in robot.link_names}
    return misjudged(robot, lambda name: 1.0 + WRONG * signs[name])


def angle(a, b):
    return np.degrees(Rotation.from_matrix(a[:3, :3].T @ b[:3, :3]).magnitude())


def turned(controller, truth, attitude, limit=60):
    """Attitudes of a base while a controller turns it, each after a loop of the true robot."""
    out = [attitude]
    for _ in range(limit):
        path = controller.next_loop(out[-1])
        if path is None:
            return out
        assert np.allclose(path.velocity(path.duration), 0.0, rtol=0, atol=1e-9)
        out.append(out[-1] @ gait_displacement(truth, path, tolerance=1e-6).rotation)
    raise AssertionError(f"not done after {limit} loops")


@pytest.mark.parametrize("seed", range(3))
def test_wrong_masses_do_not_keep_it_from_its_goal(seed):
    truth = load("lwr_floating")
    rng = np.random.default_rng(seed)
    start = Rotation.random(random_state=seed).as_matrix()
    axis = rng.normal(size=3)
    goal = start @ Rotation.from_rotvec(axis / np.linalg.norm(axis) * 0.8).as_matrix()
    model = wrong_model(truth, seed)
    blind = vm.plan_reorientation(model, BENT, start.T @ goal)
    missed = angle(start @ gait_displacement(truth, blind.path, tolerance=1e-6).rotation, goal)
    controller = vm.ReorientationController(model, BENT, goal)
    way = turned(controller, truth, start)
    assert controller.done and controller.reached and controller.reason == "reached"
    assert angle(way[-1], goal) < END < missed, "without a look it misses"
    assert controller.loops == len(way) - 1
    assert np.degrees(controller.error) == pytest.approx(angle(way[-1], goal), abs=1e-6)


def test_a_right_model_takes_the_loops_of_its_plan():
    robot = load("planar_3link")
    goal = Rotation.from_rotvec([0.0, 0.0, np.radians(20.0)]).as_matrix()
    plan = vm.plan_reorientation(robot, [0.5, -0.5], goal)
    controller = vm.ReorientationController(robot, [0.5, -0.5], goal)
    assert len(turned(controller, robot, np.eye(3))) - 1 == plan.loops == controller.loops


def test_a_pose_is_taken_for_its_rotation():
    robot = load("planar_3link")
    pose = np.eye(4)
    pose[:3, 3] = 1.0, 2.0, 3.0
    controller = vm.ReorientationController(robot, [0.5, -0.5], pose)
    assert controller.next_loop(np.eye(3)) is None and controller.reached


def test_what_cannot_be_is_said_and_nothing_moves():
    robot = load("planar_3link")
    goal = Rotation.from_rotvec([0.2, 0.0, 0.0]).as_matrix()
    controller = vm.ReorientationController(robot, [0.5, -0.5], goal)
    assert controller.next_loop(np.eye(3)) is None
    assert controller.done and not controller.reached and controller.loops == 0
    assert "impossible about x" in controller.reason


def test_it_gives_up_if_the_base_does_not_turn():
    robot = load("planar_3link")
    goal = Rotation.from_rotvec([0.0, 0.0, 0.2]).as_matrix()
    controller = vm.ReorientationController(robot, [0.5, -0.5], goal)
    loops = 0
    while controller.next_loop(np.eye(3)) is not None:
        loops += 1
        assert loops < 20
    assert controller.done and not controller.reached and "came no nearer" in controller.reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"goal": np.ones((3, 3))}, "goal: not a rotation matrix"),
        ({"goal": np.ones(3)}, "goal: got shape"),
        ({"q0": [0.0]}, "q0: got shape"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"margin": -1.0}, "margin"),
    ],
)
def test_a_bad_argument_is_named(options, words):
    given = {"robot": load("planar_3link"), "q0": [0.5, -0.5], "goal": np.eye(3), **options}
    with pytest.raises(vm.VmDynamicsError, match=words):
        vm.ReorientationController(given.pop("robot"), given.pop("q0"), given.pop("goal"), **given)
    controller = vm.ReorientationController(load("planar_3link"), [0.5, -0.5], np.eye(3))
    with pytest.raises(vm.VmDynamicsError, match="attitude"):
        controller.next_loop(np.full((3, 3), np.nan))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["satellite_arm7", "lwr_floating"])
def test_mujoco_ends_at_the_goal_with_wrong_masses(name):
    truth = load(name)
    attitude = np.eye(3)
    goal = Rotation.from_rotvec(np.radians([20.0, -30.0, 45.0])).as_matrix()
    controller = vm.ReorientationController(wrong_model(truth, 5), BENT, goal)
    while (path := controller.next_loop(attitude)) is not None:
        attitude = attitude @ executed(truth, text(name), path).pose[:3, :3]
        assert controller.loops < 30
    print(f"\n{name}: {angle(attitude, goal):.3f} deg off after {controller.loops} loops")
    assert controller.reached and angle(attitude, goal) < END
