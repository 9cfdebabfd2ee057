# SPDX-License-Identifier: Apache-2.0
"""What a filter says of a motion when its model is wrong: masses, payloads, thrusts, stamps."""

from functools import cache

import numpy as np
from cases import load
from observing import (
    ATTITUDE_NOISE,
    DEG,
    POSITION_NOISE,
    RATE,
    begin,
    misjudged,
    observe,
    pair_of,
    sense,
    swinging,
    truth,
)
from random_robots import random_urdf

import vm_dynamics as vm
from vm_dynamics.estimation import InvariantEkf
from vm_dynamics.lie import se3

NOISE = (POSITION_NOISE, ATTITUDE_NOISE)
AXIS = np.array([1.0, 0.3, -0.2]) / np.linalg.norm([1.0, 0.3, -0.2])


@cache
def robot_of(name):
    """A shipped robot, or one of a random tree if the name is a number."""
    return vm.load(random_urdf(int(name), 5)) if name.isdigit() else load(name)


@cache
def motion_of(name, speed=0.0, seconds=20.0):
    """An arm that swings on a base that turns, at 10 deg/s or so many."""
    robot = robot_of(name)
    mu = None if speed == 0.0 else np.concatenate((np.zeros(3), speed * DEG * AXIS))
    return truth(robot, seconds, state=begin(robot, mu))


def with_base(robot, factor):
    """The robot as a model whose base has so many times the mass and inertia."""
    return misjudged(robot, lambda name: factor if name == robot.root_link else 1.0)


class Record:
    """What a filter said of a motion while it went: rows at every twentieth joint sample."""

    def __init__(self, observer, motion, t0=0.0):
        self.observer, self.motion, self.t0 = observer, motion, t0
        self.t, self.error, self.nees, self.worst, self.state = [], [], [], [], []

    def __call__(self, k):
        if k % 20 or k == 0:
            return
        observer, motion, i = self.observer, self.motion, k - 1  # before sample k
        pinv = motion.robot.base_group.iota_pinv
        away = pinv @ se3.log(se3.inverse(observer.base_pose) @ motion.g[i])
        error = np.concatenate((away, motion.V[i] - observer.twist))
        P = observer.covariance
        self.t.append(self.t0 + float(motion.t[i]))
        self.error.append(error[len(away) :])
        self.nees.append(error @ np.linalg.solve(P, error))
        self.worst.append((abs(error) / np.sqrt(np.diag(P))).max())
        self.state.append(observer.status.state)

    def since(self, t):
        """Errors of the twist [deg/s, mm/s] and mean NEES from a time on."""
        late = np.array(self.t) >= t
        return *pair_of(np.array(self.error)[late]), float(np.array(self.nees)[late].mean())

    def overconfident(self):
        """Longest time that it was ``tracking`` with an error above five deviations [s]."""
        longest, start = 0.0, None
        for t, worst, state in zip(self.t, self.worst, self.state, strict=True):
            if worst > 5.0 and state == "tracking":
                start = t if start is None else start
                longest = max(longest, t - start)
            else:
                start = None
        return longest


def watched(model, motion, seed, *, every=100, shift=0.0, **options):
    """A filter that has seen a motion, and what it said meanwhile."""
    ekf = InvariantEkf(model, pose_deviation=NOISE, **options)
    record = Record(ekf, motion)
    sensed = sense(motion, seed, every=every)
    if shift:  # poses whose stamps are off
        pose = ekf.pose
        ekf.pose = lambda t, g: pose(t + shift, g)
    observe(ekf, sensed, each=record)
    return ekf, record


def grasped(name, mass):
    """Ten seconds without and twenty with a payload that nobody tells of."""
    robot = robot_of(name)
    first = truth(robot, 10.0)
    heavy = robot.with_payload(robot.tip_link, mass, (0.0, 0.0, 0.1), 0.02 * mass * np.eye(3))
    drive = swinging(robot)

    def law(t, state):
        active = dict(zip(robot.joint_names, drive(10.0 + t), strict=True))
        return vm.Command(active=active)

    state = vm.State(first.g[-1], first.q[-1], first.V[-1], first.qd[-1])
    second = vm.simulate(
        heavy,
        state,
        law,
        20.0,
        step=1.0 / RATE,
        integrator="runge_kutta",
        friction=False,
        progress=False,
    )
    return first, second


def grasp_errors(observer, motions, seed, gyro=False):
    """RMS of the twist's error from three seconds after the grasp on [deg/s, mm/s]."""
    rng, errors = np.random.default_rng(seed), []
    for part, motion in enumerate(motions):
        sensed = sense(motion, seed + 100 * part)
        for k in range(part, len(motion)):
            t = 10.0 * part + float(motion.t[k])
            observer.joints(t, motion.q[k], sensed.qd[k])
            if gyro and k % 10 == 0:
                observer.gyro(t, motion.V[k, 3:] + 2e-3 * rng.normal(size=3) + 0.01)
            if k % 100 == 0:
                observer.pose(t, sensed.poses[k // 100])
            if t >= 13.0 and k % 20 == 0:
                errors.append(motion.V[k] - observer.twist)
    return pair_of(np.array(errors))


def with_encoders(motion, seed, bits=12):
    """A filter that hears velocities which are differences of coarse positions at 500 Hz.

    Returns:
        The filter, the RMS of V's angular error [deg/s] and its mean NEES (b is right), from 5 s
        on, and the states meanwhile.
    """
    robot, sensed = motion.robot, sense(motion, seed)
    step = 2.0 * np.pi / 2**bits
    q = np.round(motion.q[::2] / step) * step
    qd = np.vstack((motion.qd[:1], 0.5 * RATE * np.diff(q, axis=0)))
    ekf = InvariantEkf(robot, pose_deviation=NOISE)
    errors, nees, states = [], [], set()
    for k in range(len(q)):
        t = float(motion.t[2 * k])
        ekf.joints(t, q[k], qd[k])
        if k % 50 == 0:
            ekf.pose(t, sensed.poses[k // 50])
        if t > 5.0 and k % 10 == 0:
            error = motion.V[2 * k] - ekf.twist
            errors.append(error)
            nees.append(error @ np.linalg.solve(ekf.covariance[robot.b :, robot.b :], error))
            states.add(ekf.status.state)
    return ekf, pair_of(np.array(errors))[0], float(np.mean(nees)), states


def hover(robot, seed, error):
    """A filter and its record of 15 s of hovering, the thrust wrong by a factor 1 + error."""
    weight = 9.81 * robot.total_mass

    def hold(t, state):
        """Hold the place and the attitude, and carry the weight where it acts."""
        R, V = state.g[:3, :3], state.V
        M = robot.mass_matrix(state.q)
        com = np.array([M[5, 1], M[3, 2], M[4, 0]]) / M[0, 0]
        f = R.T @ (np.array([0.0, 0.0, weight]) - 0.4 * weight * state.g[:3, 3])
        f -= 0.3 * weight * V[:3]
        t = np.cross(com, f) - 0.5 * V[3:] - 2.0 * se3.log(state.g)[3:]
        return np.concatenate((f, t))

    rest = begin(robot, np.zeros(6))
    state = vm.State(np.eye(4), rest.q, np.zeros(6), rest.qd)
    motion = truth(robot, 15.0, wrench=hold, state=state)
    ekf = InvariantEkf(robot, pose_deviation=NOISE)
    record = Record(ekf, motion)

    def each(k):
        record(k)
        if k % 10 == 0 and 0 < k < len(motion):
            ekf.base_wrench(float(motion.t[k - 1]), (1.0 + error) * motion.F[k - 1])

    observe(ekf, sense(motion, seed), each=each)
    return ekf, record
