# SPDX-License-Identifier: Apache-2.0
"""Plants: MuJoCo and the package's own integrator move the same robot in the same way."""

import sys
import warnings

import mujoco
import numpy as np
import pytest
from cases import load, text

import vm_dynamics as vm
from vm_dynamics.model.hydrodynamics import Hydrodynamics
from vm_dynamics.paths import robot_file, robot_names
from vm_dynamics.simulation.plants import MujocoPlant, OwnPlant, make_plant

STEP = 1e-3
# Both are Runge-Kutta methods of the same stages; rounding is all that is between them. Before
# version 4, MuJoCo differs by a second order of the step, 2e-9 at most here.
AGREES = 1e-12 if int(mujoco.__version__.split(".")[0]) >= 4 else 1e-8
EARTH = (0.0, 0.0, -9.81)


def moving(robot, seed=0):
    """A state in motion, away from limits."""
    rng = np.random.default_rng(seed)
    q = 0.5 * (np.maximum(robot.lower_limits, -1.0) + np.minimum(robot.upper_limits, 1.0))
    g = vm.lie.SE3.exp(rng.normal(size=6))
    return vm.State(g, q, 0.3 * rng.normal(size=6), 0.1 * rng.normal(size=robot.n))


def run(plant, state, wrench=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0), steps=500):
    robot = plant.robot
    plant.state = state
    M, A = robot.mass_and_connection(state.q)
    shape = np.diag(M[6:, 6:] - A.T @ M[:6, :6] @ A)
    tau, wrench = 0.2 * shape * np.sin(np.arange(robot.n)), robot.total_mass * np.array(wrench)
    for _ in range(steps):
        plant.step(tau, wrench)
    return plant.state


def difference(robot, urdf, step, wrench):
    """Largest difference between the engines after half a second."""
    state, steps = moving(robot), round(0.5 / step)
    engines = MujocoPlant(robot, urdf, step, friction=False), OwnPlant(robot, step, friction=False)
    theirs, ours = (run(engine, state, wrench, steps) for engine in engines)
    return max(np.abs(a - b).max() for a, b in zip(theirs, ours, strict=True))


@pytest.mark.parametrize("name", ["satellite_arm7", "lwr_floating", "hexa_arm2", "quad_arm1"])
@pytest.mark.parametrize("gravity", [(0.0, 0.0, 0.0), EARTH])
def test_both_engines_move_a_robot_without_friction_in_the_same_way(name, gravity):
    robot = vm.load(text(name), base="SE3", gravity=gravity)
    assert difference(robot, text(name), STEP, np.zeros(6)) < AGREES
    # during a step MuJoCo holds a force in the world's axes, the package in those of the base
    push = (0.01, -0.02, 0.005, 2e-4, 0.0, 0.0)
    coarse, fine = (difference(robot, text(name), h, push) for h in (STEP, 0.5 * STEP))
    assert coarse < 1e-4
    assert coarse / fine == pytest.approx(2.0, rel=0.05)


def test_friction_is_in_both_engines_and_can_be_left_out():
    robot = load("satellite_arm7")
    state = moving(robot)
    for make in (
        lambda f: MujocoPlant(robot, text("satellite_arm7"), STEP, friction=f),
        lambda f: OwnPlant(robot, STEP, friction=f),
    ):
        free, rubbing = (abs(run(make(f), state).qd).sum() for f in (False, True))
        assert rubbing < 0.5 * free


def test_a_state_comes_back_as_it_was_set():
    robot = load("satellite_arm7")
    state = moving(robot, seed=3)
    for plant in (MujocoPlant(robot, text("satellite_arm7"), STEP), OwnPlant(robot, STEP)):
        plant.state = state
        for a, b in zip(plant.state, state, strict=True):
            assert np.abs(a - b).max() < 1e-14


def test_mujoco_keeps_the_momentum_of_a_tumbling_robot():
    robot = load("satellite_arm7")
    plant = MujocoPlant(robot, text("satellite_arm7"), STEP)
    plant.state = moving(robot, seed=1)
    before = robot.spatial_momentum(*plant.state)
    for _ in range(2000):
        plant.step(np.full(robot.n, 0.5), np.zeros(6))
    after = robot.spatial_momentum(*plant.state)
    assert np.abs(after - before).max() < 1e-6 * np.abs(before).max()


def test_mimic_joints_follow_in_mujoco():
    robot, urdf = load("satellite_dual_arm"), text("satellite_dual_arm")
    plant = MujocoPlant(robot, urdf, STEP)
    assert len(plant._followers) == 2
    tau = np.where(["finger" in name for name in robot.joint_names], 3.0, 0.0)
    plant.state = vm.State.at_rest(robot, np.full(robot.n, 0.005))
    for _ in range(200):
        plant.step(tau, np.zeros(6))
    for joint, i, mimic in plant._followers:
        there = plant.data.qpos[joint.qposadr[0]]
        assert plant.state.q[i] > 0.006, "the driver has moved"
        assert there == pytest.approx(mimic.multiplier * plant.state.q[i] + mimic.offset, abs=1e-3)


@pytest.mark.parametrize("name", robot_names())
def test_every_robot_of_the_package_is_stepped_by_mujoco(name):
    robot = vm.load(text(name), base="SE3")
    plant, why = make_plant(robot, text(name), STEP)
    assert isinstance(plant, MujocoPlant) and why == ""


def test_what_mujoco_cannot_do_the_package_does_and_says_why():
    yaml = str(robot_file("auv_arm4").with_suffix(".yaml"))
    robot = vm.submerge(vm.load(text("auv_arm4"), gravity=EARTH), yaml)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nobody expects MuJoCo here
        plant, why = make_plant(robot, text("auv_arm4"), STEP)
        assert isinstance(plant, OwnPlant) and "added mass" in why
        rover = vm.load(text("rover_arm2"))
        plant, why = make_plant(rover, text("rover_arm2"), STEP)
        assert isinstance(plant, OwnPlant) and "SE2" in why


def test_a_model_that_mujoco_refuses_is_stepped_by_the_package():
    # a massless link between two joints: a sound robot, but not for MuJoCo
    urdf = (
        "<robot name='two'>"
        + "".join(
            f"<link name='{name}'><inertial><mass value='{mass}'/>"
            "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial></link>"
            for name, mass in (("base", 10), ("tip", 1))
        )
        + "<link name='between'/>"
        + "".join(
            f"<joint name='{name}' type='revolute'><parent link='{parent}'/>"
            f"<child link='{child}'/>"
            f"<axis xyz='{axis}'/><limit lower='-1' upper='1' effort='1' velocity='1'/></joint>"
            for name, parent, child, axis in (
                ("a", "base", "between", "1 0 0"),
                ("b", "between", "tip", "0 1 0"),
            )
        )
        + "</robot>"
    )
    with pytest.warns(vm.SimulationWarning, match="'two'.*own integrator.*MuJoCo refuses it"):
        plant, why = make_plant(vm.load(urdf), urdf, STEP)
    assert isinstance(plant, OwnPlant) and "MuJoCo refuses" in why


def test_drag_and_buoyancy_without_added_mass_act_in_mujoco():
    fluid = {
        "hydrodynamics": {
            "links": {
                "base_link": {
                    "linear_damping": [20.0] * 3 + [5.0] * 3,
                    "volume": 0.02,
                    "center_of_buoyancy": [0.0, 0.0, 0.1],
                }
            }
        }
    }
    dry = vm.load(text("auv_arm4"), gravity=EARTH)
    robot = vm.submerge(dry, Hydrodynamics.load(fluid))
    plant, why = make_plant(robot, text("auv_arm4"), STEP, friction=False)
    assert isinstance(plant, MujocoPlant) and why == ""
    state = moving(robot, seed=2)
    theirs, ours = run(plant, state), run(OwnPlant(robot, STEP, friction=False), state)
    dried = run(OwnPlant(dry, STEP, friction=False), state)
    # the fluid acts once a step there, and within the step here
    assert np.abs(theirs.V - ours.V).max() < 1e-3
    assert np.abs(theirs.V - dried.V).max() > 0.1


def test_a_motion_beyond_all_bounds_is_reported():
    robot = load("satellite_arm7")
    plant = MujocoPlant(robot, text("satellite_arm7"), STEP)
    with pytest.raises(vm.DivergedError, match="satellite_arm7"):
        for _ in range(1000):
            plant.step(np.full(robot.n, 1e12), np.zeros(6))


def test_meshes_and_what_is_above_the_base_do_not_matter():
    urdf = (
        text("lwr_floating")
        .replace(
            "</robot>",
            "<link name='world'/><joint name='free' type='floating'><parent link='world'/>"
            f"<child link='{load('lwr_floating').root_link}'/></joint></robot>",
        )
        .replace(
            "<inertial>",
            "<visual><geometry><mesh filename='package://x/y.stl'/></geometry></visual><inertial>",
            1,
        )
    )
    robot = vm.load(urdf)
    plant, why = make_plant(robot, urdf, STEP)
    assert why == "" and plant.model.nv == 6 + robot.n


def test_another_mass_in_mujoco_is_an_error():
    robot = load("satellite_arm7")
    heavier = text("satellite_arm7").replace('<mass value="9"', '<mass value="9.1"', 1)
    assert heavier != text("satellite_arm7")
    for make in (MujocoPlant, make_plant):
        with pytest.raises(vm.ParameterError, match=r"360\.1"):
            make(robot, heavier, STEP)


def test_without_mujoco_its_plant_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(vm.ParameterError, match="pip install 'mujoco"):
        MujocoPlant(load("satellite_arm7"), text("satellite_arm7"), STEP)


def test_the_model_is_as_the_urdf_says():
    robot = load("satellite_arm7")
    model = MujocoPlant(robot, text("satellite_arm7"), STEP).model
    assert model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4
    at = [model.joint(name).id for name in robot.joint_names]
    assert np.allclose(model.jnt_range[at], np.c_[robot.lower_limits, robot.upper_limits])
