# SPDX-License-Identifier: Apache-2.0
"""Trajectories without a node: messages in, a reference out, joints that follow it as told."""

import threading

import numpy as np
from cases import text
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

import vm_dynamics as vm
from vm_dynamics.control import Tolerances
from vm_dynamics.ros.joint_targets import JointTargets
from vm_dynamics.ros.joint_trajectories import JointTrajectories
from vm_dynamics.ros.joints import JointSample
from vm_dynamics.ros.messages import to_stamp

ROBOT = vm.load(text("satellite_arm7"))
N, NAMES = ROBOT.n, ROBOT.joint_names
BEGIN = 1_700_000_000 * 10**9  # [ns]: stamps as of a real clock


def point(time, *parts):
    """A point of a trajectory message: positions, velocities, accelerations."""
    out = JointTrajectoryPoint()
    out.time_from_start.sec = int(time // 1.0)
    out.time_from_start.nanosec = round(1e9 * (time % 1.0))
    names = ("positions", "velocities", "accelerations")
    for name, part in zip(names, parts, strict=False):
        setattr(out, name, [float(x) for x in part])
    return out


def message(*points, names=NAMES, start=None):
    """A trajectory message; start is a stamp [ns], None for now."""
    out = JointTrajectory(joint_names=list(names), points=list(points))
    if start is not None:
        out.header.stamp = to_stamp(start)
    return out


def tolerances(path=0.0, goal=0.0, stopped=0.01, goal_time=np.inf):
    """The same for all joints; zero for none."""
    table = np.array([[path, 0.0], [goal, stopped]])
    table = np.where(table > 0.0, table, np.inf)[:, :, None] * np.ones(N)
    return Tolerances(table[0], table[1], goal_time)


class TrajectoryBench:
    """Steps at a rate; the joints are where the reference is, less what lags."""

    def __init__(self, period=0.002, rates=np.inf, clip=False, robot=ROBOT, **limits):
        self.period, self.nanos = period, BEGIN
        self.obstacle = self.torqueless = ""
        self.robot = robot
        self.rates = np.full(robot.n, rates)
        self.troubles, self.outcomes, self.rows = [], [], []
        self.lag = np.zeros((2, robot.n))
        self.targets = JointTargets(robot, robot.joint_names, self.rates)
        self.trajectories = JointTrajectories(
            threading.RLock(),
            obstacle=lambda: self.obstacle or self.torqueless,
            torqueless=lambda: self.torqueless,
            now=lambda: self.nanos,
            trouble=lambda kind, what: self.troubles.append((kind, what)),
        )
        self.trajectories.use(
            robot, self.targets, tolerances(**limits), rates=self.rates, clip=clip
        )
        self.targets.hold(np.zeros(robot.n))

    def order(self, what):
        """What a message asks for; its outcome goes to the list."""
        return self.trajectories.read(what)._replace(told=self.outcomes.append)

    def follow(self, what):
        self.trajectories.follow(self.order(what))

    def step(self, count=1):
        """As a node does with each joint state."""
        for _ in range(count):
            self.nanos += round(1e9 * self.period)
            reference = self.targets.reference
            q, qd = (reference.q, reference.qd) - self.lag
            self.trajectories.step(JointSample(self.nanos, q, qd, False))
            reference.step(self.period)
            self.rows.append(self.targets.state)

    def run(self, seconds):
        self.step(round(seconds / self.period))
