# SPDX-License-Identifier: Apache-2.0
"""Scenarios for the observers: true motions with a moving arm, and what sensors make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from cases import load

import vm_dynamics as vm
from vm_dynamics.lie import se3

DEG = np.pi / 180.0
MU = np.array([0.0, 0.0, 0.0, 10.0 * DEG, 1.14 * DEG, 0.0])  # of the paper's simulation
POSITION_NOISE, ATTITUDE_NOISE = 5e-3, 0.3 * DEG
JOINT_NOISE = 5e-3  # [rad/s]
RATE = 1000  # [Hz], of the joints
POSE_EVERY = 100  # joint samples
# A bent arm, at which joint noise moves the base as much as in the study that the bars are from:
# 0.11 deg/s, 0.5 mm/s (heavy) and 0.34 deg/s, 0.8 mm/s (light)
BENT = (1.3, -0.7, 1.2, 1.3, -0.5, 1.0, -1.0)


def swinging(robot: vm.Robot, amplitude: float = 0.3) -> Callable[[float], np.ndarray]:
    """Joint accelerations of an arm that swings, each joint at a frequency of its own."""
    w = 2.0 * np.pi * (0.1 + 0.05 * np.arange(robot.n))
    phase = np.arange(robot.n)
    scale = amplitude / np.maximum(1.0, w)

    def accelerations(t: float) -> np.ndarray:
        return -scale * w * w * np.sin(w * t + phase)

    return accelerations


def begin(
    robot: vm.Robot,
    mu: np.ndarray | None = None,
    *,
    posture: Sequence[float] = BENT,
    amplitude: float = 0.3,
) -> vm.State:
    """The state at which :func:`swinging` starts, at a locked velocity mu, shape (b,)."""
    w = 2.0 * np.pi * (0.1 + 0.05 * np.arange(robot.n))
    phase = np.arange(robot.n)
    scale = amplitude / np.maximum(1.0, w)
    q = np.resize(posture, robot.n) + scale * np.sin(phase)
    qd = scale * w * np.cos(phase)
    mu = robot.base_group.iota_pinv @ MU if mu is None else mu
    return vm.State(np.eye(4), q, mu - robot.connection(q) @ qd, qd)


def truth(
    robot: vm.Robot,
    seconds: float,
    *,
    wrench: Callable[[float, vm.State], Any] | None = None,
    state: vm.State | None = None,
) -> vm.Trajectory:
    """Motion of a robot whose joints are driven and whose base is free, at ``RATE``."""
    drive = swinging(robot)

    def law(t: float, state: vm.State) -> vm.Command:
        active = dict(zip(robot.joint_names, drive(t), strict=True))
        return vm.Command(base_wrench=None if wrench is None else wrench(t, state), active=active)

    state = begin(robot) if state is None else state
    return vm.simulate(
        robot,
        state,
        law,
        seconds,
        step=1.0 / RATE,
        integrator="runge_kutta",
        friction=False,  # the joints are driven
        progress=False,
    )


@cache
def standard(name: str, seconds: float = 40.0) -> vm.Trajectory:
    """The motion of the standard conditions, without forces."""
    return truth(load(name), seconds)


@cache
def short(
    name: str = "lwr_floating",
    seconds: float = 4.0,
    gravity: tuple[float, ...] = (0.0, 0.0, 0.0),
) -> Sensed:
    """A few seconds of a robot that swings its arm, as the sensors see them."""
    return sense(truth(load(name, "SE3", gravity), seconds), 1)


def misjudged(robot: vm.Robot, factor: Callable[[str], float]) -> vm.Robot:
    """The same robot with the inertia of each link scaled by a factor."""
    links = tuple(
        replace(
            link,
            inertia=replace(
                link.inertia,
                mass=factor(link.name) * link.inertia.mass,
                moments=tuple(factor(link.name) * x for x in link.inertia.moments),
            ),
        )
        for link in robot.description.links
    )
    return robot._changed(replace(robot.description, links=links))


@dataclass(frozen=True)
class Sensed:
    """What the sensors say of a motion.

    Attributes:
        motion: the truth.
        qd: measured joint velocities, shape (N + 1, n).
        floor: error of the twist by joint noise alone, A n_qd, shape (N + 1, b).
        samples: numbers of the joint samples at which poses are taken.
        poses: measured poses, one for each.
        delay: of the poses' arrival, in joint samples.
    """

    motion: vm.Trajectory
    qd: np.ndarray
    floor: np.ndarray
    samples: np.ndarray
    poses: np.ndarray
    delay: int = 0

    def without(self, drop: np.ndarray) -> Sensed:
        """Without the poses where ``drop`` is true."""
        return replace(self, samples=self.samples[~drop], poses=self.poses[~drop])

    def delayed(self, samples: int) -> Sensed:
        """With poses that come so many joint samples late, stamped when they were taken."""
        return replace(self, delay=samples)


def sense(
    motion: vm.Trajectory,
    seed: int = 0,
    *,
    every: int = POSE_EVERY,
    position: float = POSITION_NOISE,
    attitude: float = ATTITUDE_NOISE,
    joint: float = JOINT_NOISE,
) -> Sensed:
    """Sensors with white noise."""
    rng = np.random.default_rng(seed)
    robot = motion.robot
    noise = joint * rng.normal(size=motion.qd.shape)
    _, A = robot.batch_mass_and_connection(motion.q)
    samples = np.arange(0, len(motion), every)
    scale = np.repeat((position, attitude), 3)
    iota = robot.base_group.iota
    # in directions the base can move in; what a sensor says of others is another matter
    errors = scale * rng.normal(size=(len(samples), 6)) @ robot.base_group.iota_pinv.T @ iota.T
    poses = np.array([motion.g[k] @ se3.exp(e) for k, e in zip(samples, errors, strict=True)])
    floor = np.einsum("kbn,kn->kb", A, noise)
    return Sensed(motion, motion.qd + noise, floor, samples, poses)


@dataclass(frozen=True)
class Run:
    """What an observer made of it, at every joint sample.

    Attributes:
        t: times, shape (N + 1,).
        twist: estimates, shape (N + 1, b).
        error: of the twist, shape (N + 1, b).
        locked_error: of the locked velocity, shape (N + 1, b).
        pose_error: Log(g^-1 g_t) in group coordinates, at the poses, shape (m, b).
        nis: at the poses, shape (m,).
        sigma: standard deviations of (pose, twist) at the poses, shape (m, 2b), or None.
        at: numbers of the joint samples at which those were read.
    """

    t: np.ndarray
    twist: np.ndarray
    error: np.ndarray
    locked_error: np.ndarray
    pose_error: np.ndarray
    nis: np.ndarray
    sigma: np.ndarray | None
    at: np.ndarray

    def rms(self, since: float) -> tuple[float, float]:
        """RMS of the twist's error from a time on: angular [deg/s] and linear [mm/s]."""
        return pair_of(self.error[self.t >= since])

    def settled(self, angular: float = 0.5, linear: float = 5.0) -> float:
        """Time from which mu stays within so many deg/s and mm/s, on SE(3) [s]."""
        fast = np.linalg.norm(self.locked_error[:, 3:], axis=1) > angular * DEG
        fast |= np.linalg.norm(self.locked_error[:, :3], axis=1) > linear * 1e-3
        return float(self.t[np.flatnonzero(fast)[-1]]) if fast.any() else 0.0


def pair_of(error: np.ndarray) -> tuple[float, float]:
    """RMS of twists on SE(3), angular [deg/s] and linear [mm/s], of the 3-vectors."""
    linear, angular = error[:, :3], error[:, 3:]
    return (
        float(np.sqrt((angular**2).sum(1).mean()) / DEG),
        float(np.sqrt((linear**2).sum(1).mean()) * 1e3),
    )


def z_scores(run: Run, since: float) -> np.ndarray:
    """Pose errors in units of their standard deviations."""
    b = run.pose_error.shape[1]
    return (abs(run.pose_error) / run.sigma[:, :b])[run.t[run.at] >= since]


def observe(
    observer: Any,
    sensed: Sensed,
    *,
    wrench: bool = False,
    each: Callable[[int], None] | None = None,
) -> Run:
    """Let an observer watch; ``each`` is called with the number of a joint sample before it."""
    motion = sensed.motion
    robot, count = motion.robot, len(motion)
    arrivals = {int(k) + sensed.delay: i for i, k in enumerate(sensed.samples)}
    twist, locked = np.zeros((2, count, robot.b))
    pose_error, nis, sigma, at = [], [], [], []
    last = None
    for k in range(count):
        t = float(motion.t[k])
        if each is not None:
            each(k)
        observer.joints(t, motion.q[k], sensed.qd[k])
        if wrench and k < count - 1 and (last is None or (motion.F[k] != last).any()):
            last = motion.F[k]
            observer.base_wrench(t, last)
        if k in arrivals:
            i = arrivals[k]
            observer.pose(float(motion.t[sensed.samples[i]]), sensed.poses[i])
            away = se3.log(se3.inverse(observer.base_pose) @ motion.g[k])
            pose_error.append(robot.base_group.iota_pinv @ away)
            nis.append(observer.nis)
            at.append(k)
            covariance = observer.covariance
            if covariance is not None:
                sigma.append(np.sqrt(np.diag(covariance)))
        twist[k] = observer.twist
        locked[k] = observer.locked_velocity
    _, A = robot.batch_mass_and_connection(motion.q)
    mu = motion.V + np.einsum("kbn,kn->kb", A, motion.qd)
    return Run(
        motion.t,
        twist,
        motion.V - twist,
        mu - locked,
        np.array(pose_error),
        np.array(nis),
        np.array(sigma) if len(sigma) == len(nis) else None,
        np.array(at),
    )
