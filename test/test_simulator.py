# SPDX-License-Identifier: Apache-2.0
"""The simulated robot: motors with limits and failures, thrusters that lag, poor sensors."""

import sys

import numpy as np
import pytest
from cases import load, text

import vm_dynamics as vm
from vm_dynamics.paths import robot_file
from vm_dynamics.simulation import Sensing, Simulator

EARTH = (0.0, 0.0, -9.81)
BENT = np.array([1.3, -0.7, 1.2, 1.3, -0.5, 1.0, -1.0])


def satellite(**options):
    robot = load("satellite_arm7")
    start = vm.State(np.eye(4), BENT, np.array([0.0, 0.0, 0.0, 0.1, 0.0, 0.0]), np.zeros(7))
    return Simulator(robot, text("satellite_arm7"), start, **options)


def hexacopter(**options):
    robot = vm.load(text("hexa_arm2"), gravity=EARTH)
    propulsion = vm.Propulsion.load(robot, str(robot_file("hexa_arm2").with_suffix(".yaml")))
    start = vm.State.at_rest(robot, np.array([0.3, -0.6]))
    return Simulator(robot, text("hexa_arm2"), start, propulsion=propulsion, **options)


@pytest.mark.parametrize("kind", ["text", "bytes", "path", "name of a path"])
def test_the_urdf_is_text_bytes_or_a_path(kind):
    path, robot = robot_file("satellite_arm7"), load("satellite_arm7")
    urdf = {
        "text": path.read_text(),
        "bytes": path.read_bytes(),
        "path": path,
        "name of a path": str(path),
    }[kind]
    assert Simulator(robot, urdf, vm.State.at_rest(robot)).why_own == ""


def test_a_urdf_or_state_that_is_none_is_refused():
    robot = load("satellite_arm7")
    with pytest.raises(vm.UrdfError, match="'nowhere.urdf' is neither XML text nor a readable"):
        Simulator(robot, "nowhere.urdf", vm.State.at_rest(robot))
    with pytest.raises(vm.ParameterError, match="state: got NoneType, expected a State"):
        Simulator(robot, text("satellite_arm7"), None)


def test_without_mujoco_the_package_steps_it_with_a_warning(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.warns(vm.SimulationWarning, match="own integrator, without joint limits.*pip"):
        sim = satellite()
    assert "MuJoCo is not installed (pip install" in sim.why_own
    sim.advance(10)
    assert sim.state.q.shape == (7,)


def test_time_is_a_whole_number_of_nanoseconds_and_never_drifts():
    sim = satellite(step=1e-3)
    for _ in range(10):
        sim.advance(100)
    assert sim.nanos == 1_000_000_000


def test_efforts_are_cut_off_at_the_motors_limits():
    sim = satellite()
    sim.command(np.full(7, 1e6))
    assert np.array_equal(sim.efforts, sim.robot.effort_limits)
    sim.command(np.full(7, -1e6))
    assert np.array_equal(sim.efforts, -sim.robot.effort_limits)


def test_a_failed_motor_gives_nothing_and_may_come_back():
    sim = satellite()
    sim.command(np.ones(7))
    sim.fail(["joint3"])
    assert sim.efforts.tolist() == [1, 1, 0, 1, 1, 1, 1]
    sim.fail([])
    assert sim.efforts.tolist() == [1] * 7
    with pytest.raises(vm.UnknownJointError, match="joint99"):
        sim.fail(["joint99"])


@pytest.mark.filterwarnings("ignore::vm_dynamics.SimulationWarning")
@pytest.mark.parametrize("engine", ["mujoco", "own"])
def test_a_body_that_is_grasped_moves_with_the_link_from_then_on(monkeypatch, engine):
    if engine == "own":
        monkeypatch.setitem(sys.modules, "mujoco", None)
    body = ("tool", 60.0, (0.1, -0.05, 0.3), (3.0, 0.2, -0.1, 3.5, 0.15, 2.5))
    bare, loaded = load("satellite_arm7"), load("satellite_arm7").with_payload(*body)
    sim = satellite(friction=False)
    sim.advance(50)
    before = sim.state
    sim.grasp(*body)
    np.testing.assert_allclose(sim.state.V, before.V)  # nothing bumps
    sim.command(np.array([5.0, -3.0, 2.0, 1.0, 1.0, 0.5, 0.5]))
    sim.advance(250)
    after = sim.state
    assert abs(after.qd).max() > 1e-3
    h = loaded.spatial_momentum(*before)
    # an integrator of order one in MuJoCo
    np.testing.assert_allclose(loaded.spatial_momentum(*after), h, atol=0.02 * np.linalg.norm(h))
    assert np.linalg.norm(bare.spatial_momentum(*after) - h) > 0.1 * np.linalg.norm(h)
    sim.grasp("", 0.0, np.zeros(3), np.zeros(6))
    assert sim.robot.total_mass == bare.total_mass


def test_a_body_that_cannot_be_is_not_grasped():
    sim = satellite()
    with pytest.raises(vm.UnknownLinkError, match="hand"):
        sim.grasp("hand", 1.0, np.zeros(3), np.eye(3))
    with pytest.raises(vm.VmDynamicsError, match="mass"):
        sim.grasp("tool", -1.0, np.zeros(3), np.eye(3))
    assert sim.robot.total_mass == load("satellite_arm7").total_mass


@pytest.mark.parametrize("bad", [np.zeros(6), np.full(7, np.nan), np.full(7, np.inf)])
def test_a_bad_command_is_refused_and_the_last_one_stays(bad):
    sim = satellite()
    sim.command(np.ones(7))
    with pytest.raises(vm.VmDynamicsError, match="commands"):
        sim.command(bad)
    assert sim.efforts.tolist() == [1] * 7


def test_the_last_command_is_held_and_moves_the_joints():
    sim = satellite(friction=False)
    sim.command(np.array([5.0, 0, 0, 0, 0, 0, 0]))
    sim.advance(200)
    assert sim.state.qd[0] > 0.02


def test_a_push_from_outside_moves_the_base():
    sim = satellite()
    sim.push([36.0, 0, 0, 0, 0, 0])
    sim.advance(1000)
    assert 0.05 < sim.state.V[0] < 0.3


def test_reset_goes_back_to_the_start_and_the_clock_goes_on():
    sim = satellite()
    start = sim.state
    sim.command(np.ones(7))
    sim.advance(500)
    sim.reset()
    for a, b in zip(sim.state, start, strict=True):
        assert np.abs(a - b).max() < 1e-12
    assert not sim.efforts.any()
    assert sim.nanos == 500_000_000


def test_a_held_robot_stands_still_until_the_first_command_that_is_not_zero():
    sim = hexacopter(hold=True)
    sim.command(np.zeros(2))
    sim.thrust(np.zeros(6))
    sim.advance(1000)
    assert sim.held and sim.state.g[2, 3] == 0.0
    # the stand carries the weight
    assert sim.driving_wrench[2] == pytest.approx(9.81 * sim.robot.total_mass)
    sim.thrust(sim.thrusts)
    assert not sim.held


def test_rotors_that_hover_on_the_stand_hover_without_it():
    sim = hexacopter(hold=True, friction=False)
    gravity = sim.robot.inverse_dynamics(*sim.state, np.zeros(6), np.zeros(2))[1]
    sim.command(gravity)
    before = sim.thrusts.copy()
    sim.thrust(before)
    assert np.allclose(sim.driving_wrench[2], 9.81 * sim.robot.total_mass)
    sim.advance(200)
    assert np.abs(sim.state.g[:3, 3]).max() < 1e-4


def test_without_thrust_it_falls_as_fast_as_the_rotors_lag_allows():
    sim = hexacopter(hold=True)
    sim.command(np.full(2, 1e-3))  # lets go
    sim.thrust(np.zeros(6))
    first = sim.thrusts.sum()
    sim.advance(100)
    # one time constant
    assert sim.thrusts.sum() == pytest.approx(first * np.exp(-1.0), rel=0.01)
    assert -0.05 < sim.state.g[2, 3] < 0.0
    sim.advance(900)
    state = sim.state
    assert (state.g[:3, :3] @ state.V[:3])[2] < -7.0


def test_sensors_have_the_noise_that_was_asked_for():
    sensing = Sensing(
        joint_position_deviation=1e-3,
        joint_velocity_deviation=5e-3,
        pose_rate=1000.0,
        pose_position_deviation=5e-3,
        pose_attitude_deviation=2e-3,
        pose_delay=0.0,
    )
    sim = satellite(sensing=sensing, hold=True)
    state = sim.state
    q, qd, poses = [], [], []
    for _ in range(4000):
        sim.advance(1)
        positions, velocities = sim.joints(state)
        q.append(positions - state.q)
        qd.append(velocities - state.qd)
        poses += [vm.lie.se3.log(np.linalg.inv(state.g) @ g) for _, g in sim.poses(state.g)]
    assert np.std(q) == pytest.approx(1e-3, rel=0.05)
    assert np.std(qd) == pytest.approx(5e-3, rel=0.05)
    assert len(poses) == 4000
    assert np.std(np.array(poses)[:, :3]) == pytest.approx(5e-3, rel=0.05)
    assert np.std(np.array(poses)[:, 3:]) == pytest.approx(2e-3, rel=0.05)


def test_poses_are_slow_late_and_stamped_when_they_were_taken():
    sim = satellite(sensing=Sensing(pose_rate=10.0, pose_delay=0.05))
    heard = []
    for _ in range(1000):
        sim.advance(1)
        heard += [(sim.nanos, stamp) for stamp, _ in sim.poses(sim.state.g)]
    assert len(heard) == 10
    assert {now - stamp for now, stamp in heard} == {50_000_000}
    assert set(np.diff([stamp for _, stamp in heard]).tolist()) == {100_000_000}


def test_poses_drop_out():
    sensing = Sensing(pose_rate=1000.0, pose_delay=0.0, pose_dropout=0.3)
    sim = satellite(sensing=sensing, hold=True)
    count = 0
    for _ in range(3000):
        sim.advance(1)
        count += sum(1 for _ in sim.poses(np.eye(4)))
    assert 0.65 < count / 3000 < 0.75


def test_the_same_seed_gives_the_same_noise():
    a, b, c = (satellite(seed=s) for s in (1, 1, 2))
    qa, qb, qc = (sim.joints(sim.state)[1] for sim in (a, b, c))
    assert np.array_equal(qa, qb) and not np.array_equal(qa, qc)


def test_a_planar_base_is_measured_in_the_plane():
    robot = vm.load(text("rover_arm2"), base="SE2")
    start = vm.State.at_rest(robot)
    sim = Simulator(
        robot, text("rover_arm2"), start, sensing=Sensing(pose_rate=1000.0, pose_delay=0.0)
    )
    assert "SE2" in sim.why_own
    sim.push([10.0, 0, 0, 0, 0, 0])
    sim.advance(500)
    assert sim.state.V[0] > 0.05
    ((_, g),) = list(sim.poses(sim.state.g))
    assert g[2, 3] == 0.0 and g[2, 2] == 1.0
