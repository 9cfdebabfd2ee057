# SPDX-License-Identifier: Apache-2.0
"""A trajectory of a tumbling satellite's arm: MuJoCo, friction, noise, observer, controller."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from trajectory_bench import TrajectoryBench, message, point

import vm_dynamics as vm
from vm_dynamics.control import MomentumCompensator
from vm_dynamics.demo.scenario import JOINT_RATE
from vm_dynamics.demo.tumbling import BENT, FEEDBACK, Tumbling
from vm_dynamics.ros.joint_trajectories import Code
from vm_dynamics.ros.joints import JointSample
from vm_dynamics.simulation import Simulator

BAR = 0.2  # [deg], RMS of the worst joint over the whole trajectory
DURATION, SETTLED = 10.0, 6.0  # [s]: of the trajectory, and before it, while the observer settles
REACH = 0.2  # [rad], of the trajectory's places around the bent arm
EVERY = round(1e3 / JOINT_RATE)  # steps of the physics, of 1 ms, in a period of the controller


def way(random):
    """A trajectory of 10 s through five random places, at up to 0.25 rad/s, four points a second.

    Velocities and accelerations are those of a spline, as a planner gives them.
    """
    times = np.linspace(0.0, DURATION, 6)
    q = np.array(BENT) + np.vstack((np.zeros(7), random.uniform(-REACH, REACH, size=(5, 7))))
    spline = CubicSpline(times, q, bc_type="clamped")
    grid = np.linspace(0.0, DURATION, 41)[1:]
    rows = [spline(grid, d) for d in range(3)]
    rows[1][-1] = 0.0
    return [point(t, *parts) for t, *parts in zip(grid, *rows, strict=True)]


def error_of(seed, law=2, feedback=True):
    """RMS error of each joint on a trajectory [deg], shape (7,), and its outcome."""
    random = np.random.default_rng(seed)
    scenario = Tumbling(None, None, seed)
    robot, start = scenario.robot, scenario.start
    simulator = Simulator(robot, scenario.urdf, start, friction=True, seed=seed)
    assert not simulator.why_own, "MuJoCo steps it"
    gains = scenario.gains(20.0)
    stiffness, damping = (
        np.array([float(item.partition("=")[2]) for item in gains[f"gains.{name}_of"]])
        for name in ("stiffness", "damping")
    )
    options = (
        {"friction": True, "integral": stiffness / FEEDBACK["gains.integral_time"]}
        if feedback
        else {}
    )
    controller = MomentumCompensator(robot, stiffness, damping, law=law, **options)
    observer = vm.InvariantEkf(robot)
    bench = TrajectoryBench(period=1e-3 * EVERY)
    bench.targets.hold(start.q)
    points, errors, began = way(random), [], None
    while simulator.nanos < 1e9 * (SETTLED + DURATION + 1.0):
        state = simulator.state
        q, qd = simulator.joints(state)
        stamp = 1e-9 * simulator.nanos
        observer.joints(stamp, q, qd)
        for taken, g in simulator.poses(state.g):
            observer.pose(1e-9 * taken, g)
        bench.nanos = simulator.nanos + 1
        bench.trajectories.step(JointSample(bench.nanos, q, qd, False))
        bench.targets.reference.step(bench.period)
        if began is None and stamp >= SETTLED:
            bench.follow(message(*points))
            began = stamp
        elif began is not None and stamp < began + DURATION:
            errors.append(state.q - bench.trajectories.progress.desired[0])
        reference = bench.targets.reference
        controller.set_target(reference.q, reference.qd, reference.qdd)
        mu = observer.locked_velocity if observer.status.state != "waiting" else np.zeros(6)
        simulator.command(controller.step(q, qd, mu, dt=bench.period).tau)
        simulator.advance(EVERY)
    return np.rad2deg(np.sqrt((np.array(errors) ** 2).mean(axis=0))), bench.outcomes


@pytest.mark.slow
def test_a_trajectory_of_ten_seconds_is_followed_while_the_satellite_tumbles():
    results = [error_of(seed) for seed in range(8)]
    worst = np.array([error.max() for error, _ in results])
    plain = error_of(0, law=0, feedback=False)[0].max()
    print(f"median {np.median(worst):.3f}, worst {worst.max():.3f} deg; plain PD {plain:.3f} deg")
    assert all(outcomes == [(Code.SUCCESSFUL, "")] for _, outcomes in results)
    assert worst.max() < BAR < plain
