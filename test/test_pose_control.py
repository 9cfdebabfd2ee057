# SPDX-License-Identifier: Apache-2.0
"""Pose control of a driven base: every group, half a turn away, thrusters in a current."""

from dataclasses import replace

import numpy as np
import pytest
from cases import GROUPS, ROBOTS, State, load, text
from control_plant import MujocoFlight, smooth

import vm_dynamics as vm
from vm_dynamics.control import PoseControl
from vm_dynamics.control.tracking import geometric_feedback, pose_errors, pose_target
from vm_dynamics.dynamics.propulsion import Propulsion, Rotor

EARTH = (0.0, 0.0, -9.81)
ARRIVED = 1e-4  # [m, rad]: what exp(-t) leaves over of a metre or a turn in 10 s and more


def turned(angle, axis=(1.0, 2.0, -1.0), shift=(0.0, 0.0, 0.0)):
    axis = np.array(axis) / np.linalg.norm(axis)
    g = vm.lie.SE3.exp(np.r_[0.0, 0.0, 0.0, angle * axis])
    g[:3, 3] = shift
    return g


@pytest.mark.parametrize("base", GROUPS)
def test_the_energy_of_the_error_falls_by_the_damping_alone(base):
    group = vm.lie.group(base)
    rng = np.random.default_rng(4)
    b, h = group.dimension, 1e-5
    K, D = rng.uniform(0.5, 2.0, size=(2, b))
    g, g_d = group.exp(rng.normal(size=b)), group.exp(rng.normal(size=b))
    V, V_d, Vd_d = rng.normal(size=(3, b))

    def energy(t, Vd):
        target = pose_target(
            group, g_d @ group.exp(t * V_d + 0.5 * t**2 * Vd_d), V_d + t * Vd_d, Vd_d
        )
        errors = pose_errors(group, g @ group.exp(t * V + 0.5 * t**2 * Vd), V + t * Vd, target)
        return errors, 0.5 * errors.velocity @ errors.velocity + 0.5 * errors.pose @ (
            K * errors.pose
        )

    errors, _ = energy(0.0, 0.0 * V)
    Vd = geometric_feedback(group, errors, K, D)
    rate = (energy(h, Vd)[1] - energy(-h, Vd)[1]) / (2.0 * h)
    expected = -errors.velocity @ (D * errors.velocity)
    assert rate == pytest.approx(expected, rel=1e-6)  # differences of order 2


@pytest.mark.parametrize("base", GROUPS)
def test_every_group_comes_to_its_target_and_stays(base):
    robot = load("tree2", base, EARTH)
    s = State(robot, 1)
    group = robot.base_group
    control = PoseControl(robot, 4.0, 4.0)
    goal = group.exp(0.8 * s.mu)
    control.set_target(goal)
    start = vm.State(group.exp(-0.5 * s.V), 0.2 * s.q, 0.3 * s.F, np.zeros(robot.n))

    def law(t, state):
        out = control.step(*state)
        # the arms are held by inverse dynamics, as their controller would
        motion = robot.hybrid_dynamics(*state, -4.0 * state.qd, out.wrench, ("base",))
        return vm.Command(motion.tau, out.wrench)

    out = vm.simulate(robot, start, law, 8.0, step=4e-3, friction=False)
    error = group.log(vm.lie.SE3.inverse(out.g[-1]) @ goal)
    assert abs(error).max() < ARRIVED
    assert abs(out.V[-1]).max() < ARRIVED


@pytest.mark.parametrize("axis", [(1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (1.0, 2.0, -1.0)])
def test_a_base_170_degrees_and_two_metres_away_comes_back(axis):
    robot = load("hexa_arm2", "SE3", EARTH)
    control = PoseControl(robot, 4.0, 4.0)
    g = turned(np.deg2rad(170.0), axis, (1.0, -2.0, 0.5))
    start = vm.State(g, np.array([1.2, -0.4]), np.zeros(6), np.zeros(2))

    def law(t, s):
        out = control.step(*s)
        tau = robot.hybrid_dynamics(*s, -4.0 * s.qd, out.wrench, ("base",)).tau
        return vm.Command(tau, out.wrench)

    out = vm.simulate(robot, start, law, 8.0, step=4e-3, friction=False)
    errors = np.array([vm.lie.SE3.log(g) for g in out.g])
    assert np.linalg.norm(errors[0][3:]) == pytest.approx(np.deg2rad(170.0))
    assert abs(errors[-1]).max() < ARRIVED
    # it turns the short way: the angle never grows
    assert np.diff(np.linalg.norm(errors[:, 3:], axis=1)).max() < 1e-6


@pytest.mark.slow
def test_it_comes_back_when_mujoco_moves_the_robot():
    robot = load("hexa_arm2", "SE3", EARTH)
    control = PoseControl(robot, 4.0, 4.0)
    g = turned(np.deg2rad(170.0), shift=(1.0, -2.0, 0.5))
    start = vm.State(g, np.array([1.2, -0.4]), np.zeros(6), np.zeros(2))

    def law(t, s):
        out = control.step(*s)
        tau = robot.hybrid_dynamics(*s, -4.0 * s.qd, out.wrench, ("base",)).tau
        return vm.Command(tau, out.wrench)

    states = MujocoFlight(robot, text("hexa_arm2"), 2e-3).run(start, law, 10.0)
    error = vm.lie.SE3.log(states[-1].g)
    print(f"MuJoCo, from 170 deg and 2.3 m: {abs(error).max():.1e} after 10 s")
    assert abs(error).max() < ARRIVED


def test_a_path_is_followed_exactly_by_feed_forward():
    robot = load("satellite_arm7")
    control = PoseControl(robot, 4.0, 4.0)
    twist = np.array([0.5, -0.2, 0.3, 0.4, -0.6, 0.5])

    def path(t):
        x, v, a = smooth(t, 0.0, 5.0)
        return vm.lie.SE3.exp(x * twist), v * twist, a * twist

    def law(t, s):
        control.set_target(*path(t))
        out = control.step(*s)
        tau = robot.hybrid_dynamics(*s, -4.0 * s.qd, out.wrench, ("base",)).tau
        return vm.Command(tau, out.wrench)

    start = vm.State.at_rest(robot, np.linspace(0.2, 0.8, 7))
    errors = []
    for step in (4e-3, 2e-3):
        out = vm.simulate(
            robot, start, law, 5.0, step=step, integrator="runge_kutta", friction=False
        )
        logs = [
            vm.lie.SE3.log(vm.lie.SE3.inverse(g) @ path(t)[0])
            for t, g in zip(out.t, out.g, strict=True)
        ]
        errors.append(abs(np.array(logs)).max())
    # what is left is the wrench that is held over a step: half of it at half the step
    assert errors[1] < 1e-3 and errors[1] < 0.6 * errors[0]


class Underwater:
    """auv_arm4 with its thrusters in a current that its controller knows or does not know."""

    def __init__(self, current=(0.4, -0.2, 0.1), *, known=False, integral=0.0):
        dry = vm.load(ROBOTS / "auv_arm4.urdf", gravity=EARTH)
        still = vm.Hydrodynamics.load(ROBOTS / "auv_arm4.yaml")
        self.robot = vm.submerge(dry, replace(still, current=tuple(current)))
        model = self.robot if known else vm.submerge(dry, still)
        self.propulsion = Propulsion.load(dry, ROBOTS / "auv_arm4.yaml")
        self.control = PoseControl(model, 1.0, 2.0, propulsion=self.propulsion, integral=integral)
        self.hold = np.array([0.2, 0.3, 0.6, 0.0])

    def run(self, t, step=1e-2):
        thrusts = np.zeros(6)
        robot, commands = self.robot, []

        def law(time, s):
            nonlocal thrusts
            out = self.control.step(*s, dt=step)
            commands.append(out)
            thrusts = self.propulsion.motor_step(thrusts, out.thrusts, step)
            tau = -40.0 * (s.q - self.hold) - 20.0 * s.qd
            return vm.Command(
                np.clip(tau, -robot.effort_limits, robot.effort_limits),
                self.propulsion.wrench(thrusts),
            )

        g = turned(0.3, shift=(0.5, -0.4, 0.3))
        start = vm.State(g, self.hold, np.zeros(6), np.zeros(4))
        out = vm.simulate(robot, start, law, t, step=step)
        return out, commands


def test_thrusters_keep_station_in_a_current_that_is_known():
    out, commands = Underwater(known=True).run(30.0)
    error = vm.lie.SE3.log(out.g[-1])
    away, angle = np.linalg.norm(error[:3]), np.rad2deg(np.linalg.norm(error[3:]))
    print(f"known current: {1e3 * away:.2f} mm, {angle:.3f} deg")
    assert abs(error).max() < 0.02  # the arm sags a little, and dry friction holds it
    limits = Propulsion.load(out.robot, ROBOTS / "auv_arm4.yaml")
    thrusts = np.array([c.thrusts for c in commands])
    assert (thrusts >= limits.min_thrusts).all() and (thrusts <= limits.max_thrusts).all()


def test_integral_action_keeps_station_in_a_current_that_is_not_known():
    drifted, _ = Underwater().run(40.0)
    kept, _ = Underwater(integral=0.2).run(40.0)
    away, near = (np.linalg.norm(out.g[-1][:3, 3]) for out in (drifted, kept))
    angle = np.rad2deg(np.linalg.norm(vm.lie.SE3.log(kept.g[-1])[3:]))
    print(
        f"unknown current: {1e3 * away:.1f} mm off without, {1e3 * near:.2f} mm, {angle:.3f} deg "
        "with integral action"
    )
    assert away > 0.1
    assert near < 0.05 * away


def test_saturated_thrusters_are_reported_and_do_not_wind_up():
    far = Underwater(current=(0.0, 0.0, 0.0), integral=0.2)
    far.control.set_target(turned(0.0, shift=(30.0, 0.0, 0.0)))
    out, commands = far.run(2.0)
    assert commands[-1].saturated[0] and commands[-1].saturated_rotors.any()
    assert commands[-1].wrench[0] < commands[-1].demand[0]
    # growing errors add nothing where the thrusters are at their limits
    assert abs(far.control._integral.output[0]) <= 0.2 * 30.0 * 1e-2 * 2


def test_without_propulsion_wrench_limits_cut_off_and_are_reported():
    robot = load("satellite_arm7")
    control = PoseControl(robot, 1.0, 2.0, wrench_limits=(5.0, 5.0, 5.0, 1.0, 1.0, 1.0))
    control.set_target(turned(0.0, shift=(1.0, 0.001, 0.0)))
    out = control.step(np.eye(4), np.zeros(7), np.zeros(6), np.zeros(7))
    assert out.wrench[0] == 5.0 and out.saturated[0] and out.demand[0] > 300.0
    assert out.wrench[1] == out.demand[1] and not out.saturated[1]
    assert out.thrusts is None


def test_construction_and_steps_refuse_what_cannot_be():
    robot = load("hexa_arm2", "SE3", EARTH)
    propulsion = Propulsion.load(robot, ROBOTS / "hexa_arm2.yaml")
    with pytest.raises(vm.ParameterError, match="fx"):
        PoseControl(robot, 1.0, 1.0, propulsion=propulsion)
    rover = load("rover_arm2", "SE2")
    pushers = Propulsion(rover, [Rotor("a", position=(0.0, 0.0, 0.0), axis=(1.0, 0.0, 0.0))])
    with pytest.raises(vm.ParameterError, match="1 of the 3 coordinates of SE2"):
        PoseControl(rover, 1.0, 1.0, propulsion=pushers)
    with pytest.raises(vm.ParameterError, match="stiffness"):
        PoseControl(robot, -1.0, 1.0)
    with pytest.raises(vm.ParameterError, match="wrench_limits"):
        PoseControl(robot, (0, 0, 1, 1, 1, 1), 0.0, propulsion=propulsion, wrench_limits=1.0)
    control = PoseControl(robot, 1.0, 1.0, integral=0.1)
    state = np.eye(4), np.zeros(2), np.zeros(6), np.zeros(2)
    with pytest.raises(vm.ParameterError, match="dt"):
        control.step(*state)
    with pytest.raises(vm.NonFiniteError):
        control.step(np.eye(4), np.full(2, np.nan), np.zeros(6), np.zeros(2), dt=0.01)
    with pytest.raises(vm.DimensionError):
        control.step(np.eye(3), *state[1:], dt=0.01)
    with pytest.raises(vm.VmDynamicsError, match="pose"):
        control.set_target(2.0 * np.eye(4))
    with pytest.raises(vm.VmDynamicsError, match="SE2"):
        PoseControl(rover, 1.0, 1.0).set_target(turned(0.3, shift=(0.0, 0.0, 1.0)))
