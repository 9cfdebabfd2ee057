# SPDX-License-Identifier: Apache-2.0
"""The validation of [Kremer2022] section 5: its model and Bullet fly the same flight.

A quadcopter moves its arm for 4 s at 240 Hz. The Lagrange model (79) flies by forward Euler steps
under a controller, through rotors that lag behind their commands; the thrusts go to Bullet
open-loop, whose joint tracks the Lagrange model's. The paper shows the deviations in the graphs
of Fig. 8 only; its one printed number is the largest error of |q|, 2.9e-6. ``pytest -s`` prints
ours.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from bullet import Bullet
from cases import ROBOTS, load, text

from vm_dynamics.dynamics.propulsion import Propulsion
from vm_dynamics.dynamics.quaternion import QuaternionModel

NAME = "quad_arm1"
GRAVITY = (0.0, 0.0, -9.81)
SECONDS = 4.0
RATE = 240  # Hz
PRINTED_NORM_ERROR = 2.9e-6

# What two first-order schemes may differ by: forward Euler places a body with the velocity before
# a step, Bullet with the one after it. At 3 m/s and 1/240 s that is 13 mm, and an error of pitch
# is integrated twice. Both shrink with the step, see below.
POSITION_BAR = 0.05  # m, of a flight over more than 10 m
PITCH_BAR = np.radians(0.5)  # of swings of more than 25 degrees
NORM_BAR = 1e-4
IN_PLANE = 1e-9  # m and rad: nothing moves out of the xz-plane


def smooth_step(s):
    s = np.clip(s, 0.0, 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s * s)


def arm_reference(t, h=1e-3):
    """From 0 to 90 degrees and back, with rates by differences."""
    late, now, early = (
        0.5 * np.pi * (smooth_step((s - 0.3) / 1.5) - smooth_step((s - 2.2) / 1.5))
        for s in (t + h, t, t - h)
    )
    return now, (late - early) / (2.0 * h), (late - 2.0 * now + early) / h**2


def control(robot, model, x, v, t):
    """Computed torque that holds height and attitude and moves the arm; x and y are left free."""
    g, q = model.pose(x)
    V, qd = model.twist(x, v)
    climb = np.array([0.0, 0.0, -4.0 * x[2] - 4.0 * v[2]])
    turn = -4.0 * np.sign(x[3]) * x[4:7] - 2.2 * V[3:]
    Vd = np.concatenate((g[:3, :3].T @ climb - np.cross(V[3:], V[:3]), turn))
    position, velocity, acceleration = arm_reference(t)
    qdd = acceleration + 60.0 * (position - q) + 12.0 * (velocity - qd)
    F, tau = robot.inverse_dynamics(g, q, V, qd, Vd, qdd)
    return F, np.clip(tau, -robot.effort_limits, robot.effort_limits)


@dataclass
class Flight:
    """States before and after every step, and the thrusts during it."""

    x: np.ndarray
    v: np.ndarray
    thrusts: np.ndarray


def fly(rate):
    """The Lagrange model, never normalized."""
    robot = load(NAME, "SE3", GRAVITY)
    model, rotors = QuaternionModel(robot), propulsion(robot)
    weights = (0, 0, 1, 1, 1, 1)
    dt = 1.0 / rate
    x, v = model.coordinates(np.eye(4), [0.0]), np.zeros(8)
    thrusts = rotors.allocate(control(robot, model, x, v, 0.0)[0], weights).thrusts
    out = Flight(*([] for _ in range(3)))
    for k in range(round(SECONDS * rate)):
        F, tau = control(robot, model, x, v, k * dt)
        thrusts = rotors.motor_step(thrusts, rotors.allocate(F, weights).thrusts, dt)
        out.x.append(x), out.v.append(v), out.thrusts.append(thrusts)
        forces = np.concatenate((rotors.wrench(thrusts), tau))
        step = model.rates(x, v, model.force_map(x) @ forces, dt)
        x, v = x + dt * step.xd, v + dt * step.vd
    return Flight(np.array([*out.x, x]), np.array([*out.v, v]), np.array(out.thrusts))


def propulsion(robot):
    return Propulsion.load(robot, ROBOTS / f"{NAME}.yaml")


def follow(flight, rate, folder, urdf=None):
    """Bullet under the same thrusts: positions (k, 3) and rotations (k, 3, 3) after every step."""
    robot = load(NAME, "SE3", GRAVITY)
    rotors = propulsion(robot).rotors
    places = [robot.link_frame(rotor.link).pose[:3, 3] for rotor in rotors]
    drag = np.array([rotor.spin * rotor.k_p / rotor.k_t for rotor in rotors])
    world = Bullet(robot, text(NAME) if urdf is None else urdf, folder, 1.0 / rate)
    try:
        world.reset(np.eye(4), flight.x[0, 7:], np.zeros(6), flight.v[0, 7:])
        out = []
        for k, thrusts in enumerate(flight.thrusts):
            for place, thrust in zip(places, thrusts, strict=True):
                world.push((0.0, 0.0, thrust), place)
            world.twist((0.0, 0.0, drag @ thrusts))
            # Bullet wants where the joint is now and the velocity to leave with
            world.track(flight.x[k, 7:], flight.v[k, 7:], force=1000.0)
            world.step()
            out.append(world.state())
    finally:
        world.close()
    return (
        np.array([s[0] for s in out]),
        np.array([s[1] for s in out]),
        np.array([s[3] for s in out]),
    )


def roll_pitch_yaw(R):
    pitch = np.arctan2(-R[:, 2, 0], np.hypot(R[:, 0, 0], R[:, 1, 0]))
    angles = np.arctan2(R[:, 2, 1], R[:, 2, 2]), pitch, np.arctan2(R[:, 1, 0], R[:, 0, 0])
    return np.stack(angles, axis=1)


def attitudes(flight):
    model = QuaternionModel(load(NAME, "SE3", GRAVITY))
    return roll_pitch_yaw(np.array([model.pose(x)[0][:3, :3] for x in flight.x]))


def deviations(flight, rate, folder, urdf=None):
    """Of positions (k, 3), roll pitch yaw (k, 3) and joint (k, 1)."""
    places, turns, joints = follow(flight, rate, folder, urdf)
    return (
        places - flight.x[1:, :3],
        roll_pitch_yaw(turns) - attitudes(flight)[1:],
        joints - flight.x[1:, 7:],
    )


@pytest.fixture(scope="module")
def flight():
    return fly(RATE)


@pytest.fixture
def deviation(flight, tmp_path):
    return deviations(flight, RATE, tmp_path)


def test_the_flight_is_worth_comparing(flight):
    assert flight.x[:, 7].min() < 0.05 and flight.x[:, 7].max() > np.radians(80.0)
    pitch = np.degrees(attitudes(flight)[:, 1])
    assert 25.0 < abs(pitch).max() < 60.0
    assert abs(flight.x[:, 0]).max() > 10.0
    assert np.ptp(flight.thrusts, axis=0).min() > 5.0


def test_the_quaternion_keeps_its_length_without_being_normalized(flight):
    error = abs(np.linalg.norm(flight.x[:, 3:7], axis=1) - 1.0).max()
    print(f"\nlargest error of |q|: {error:.1e} (paper {PRINTED_NORM_ERROR:.1e})")
    assert error < NORM_BAR
    # what a step of the tangent's length leaves, |qd|^2 dt^2 / 2, and no more: nothing adds up
    speed = np.linalg.norm(flight.v[:, 3:7], axis=1).max()
    assert error < 1.01 * 0.5 * (speed / RATE) ** 2


def test_bullet_flies_the_same_flight_under_the_same_thrusts(deviation):
    place, turn, joint = (abs(d).max(axis=0) for d in deviation)
    print(
        f"\nlargest deviation from Bullet in {SECONDS:g} s: x {1e3 * place[0]:.1f} mm, "
        f"z {1e3 * place[2]:.1f} mm, pitch {np.degrees(turn[1]):.2f} deg"
    )
    assert joint.max() < 1e-12, "Bullet's joint is where ours is"
    assert max(place[0], place[2]) < POSITION_BAR
    assert turn[1] < PITCH_BAR
    assert max(place[1], turn[0], turn[2]) < IN_PLANE


def test_the_deviation_is_that_of_the_steps_and_shrinks_with_them(deviation, tmp_path):
    fine = deviations(fly(4 * RATE), 4 * RATE, tmp_path)
    for coarse, small in zip(deviation[:2], fine[:2], strict=True):
        assert abs(small).max() < 0.35 * abs(coarse).max()  # a quarter, for first order


def test_five_percent_more_mass_of_the_arm_would_be_noticed(flight, tmp_path):
    heavier = text(NAME).replace('<mass value="1"/>', '<mass value="1.05"/>')
    assert heavier != text(NAME)
    place, turn, _ = deviations(flight, RATE, tmp_path, heavier)
    assert abs(place).max() > 5.0 * POSITION_BAR and abs(turn).max() > 5.0 * PITCH_BAR
