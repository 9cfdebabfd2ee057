# SPDX-License-Identifier: Apache-2.0
"""A robot with its motors, thrusters and sensors, stepped in simulated time.

Around a :class:`vm_dynamics.simulation.plants.Plant` it has what a real robot has: efforts are cut
off at the motors' limits, a failed motor gives none, thrusters lag, the pose is slow, noisy, late
and sometimes missing. As a driver does, it holds the last command until another comes, or for a
time only.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.dynamics.propulsion import Propulsion
from vm_dynamics.errors import ParameterError, UnknownJointError
from vm_dynamics.lie.se3 import Array, exp
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot
from vm_dynamics.simulation.plants import Urdf, make_plant, with_inertial
from vm_dynamics.simulation.trajectory import State, checked_state

NANO = 1_000_000_000


@dataclass(frozen=True)
class Sensing:
    """What the sensors are like; standard deviations of white noise.

    Attributes:
        joint_position_deviation: [rad or m].
        joint_velocity_deviation: [rad/s or m/s].
        pose_rate: poses a second [Hz].
        pose_position_deviation: [m].
        pose_attitude_deviation: [rad].
        pose_delay: from when a pose is taken to when it is there [s].
        pose_dropout: part of the poses that never come.
    """

    joint_position_deviation: float = 0.0
    joint_velocity_deviation: float = 5e-3
    pose_rate: float = 10.0
    pose_position_deviation: float = 5e-3
    pose_attitude_deviation: float = 5.236e-3
    pose_delay: float = 0.05
    pose_dropout: float = 0.0


class Simulator:
    """A robot with motors, thrusters and sensors that is stepped in simulated time.

    Attributes:
        robot: the robot.
        propulsion: its thrusters, or None.
        why_own: why MuJoCo does not step it; empty if it does.
        nanos: simulated time [ns].
        sensing: what the sensors are like; may be replaced at any time.
        held: whether the robot stands still, as on a stand, until the first command that is not
            zero; its rotors already give what keeps it there.
        thrusts: of the thrusters now, shape (m,) [N].
        command_timeout: time without a command after which efforts, and likewise thrusts, are
            zero [s]; may be replaced at any time.
    """

    def __init__(
        self,
        robot: Robot,
        urdf: Urdf,
        start: State,
        *,
        step: float = 1e-3,
        propulsion: Propulsion | None = None,
        sensing: Sensing | None = None,
        friction: bool = True,
        hold: bool = False,
        command_timeout: float = math.inf,
        seed: int = 0,
    ) -> None:
        """Put the robot where it starts.

        Args:
            robot: the robot, with its gravity and fluid.
            urdf: what it was read from, for MuJoCo: text, bytes or the path of a file.
            start: where it starts, and goes back to on :meth:`reset`.
            step: of the physics [s], a whole number of nanoseconds.
            propulsion: its thrusters, if it has some.
            sensing: what the sensors are like.
            friction: whether the joints rub as the URDF says.
            hold: see ``held``.
            command_timeout: see the attributes.
            seed: of all noise.
        """
        self._step = round(step * NANO)
        if self._step < 1:
            raise ParameterError(f"step: got {step} s, expected a nanosecond at least")
        self.robot, self.propulsion = robot, propulsion
        self._bare, self._urdf, self._friction = robot, urdf, friction
        self._start = checked_state(robot, start)
        self._plant, self.why_own = make_plant(robot, urdf, self._step / NANO, friction=friction)
        self.sensing = sensing or Sensing()
        self._hold = hold
        if not command_timeout > 0.0:
            raise ParameterError(
                f"command_timeout: got {command_timeout} s, expected a number above zero"
            )
        self.command_timeout = command_timeout
        self._random = np.random.default_rng(seed)
        self._works = np.ones(robot.n)
        self.nanos = 0
        self.reset()
        exp(np.zeros(6))  # compiles what the first pose would have to wait for

    def reset(self) -> None:
        """Back to the start; the clock goes on."""
        self._plant.state = self._start
        robot, thrusters = self.robot, self.propulsion
        still = np.zeros(robot.b), np.zeros(robot.n)
        g, q = self._start.g, self._start.q
        # what a stand gives to a robot that stands still
        self._stand = robot.inverse_dynamics(g, q, *still, *still)[0]
        self.held = self._hold
        self._tau: Array = np.zeros(robot.n)
        self._push: Array = np.zeros(robot.b)
        self._commanded = self._thrusted = self.nanos  # when the last commands came [ns]
        self.thrusts: Array = np.zeros(0 if thrusters is None else len(thrusters.rotors))
        self._asked: Array = self.thrusts
        if thrusters is not None and self.held:
            needed = robot.base_group.iota_pinv.T @ self._stand
            self.thrusts = self._asked = thrusters.allocate(needed).thrusts
        self._poses: deque[tuple[int, int, Array]] = deque()  # arrival, stamp, pose
        self._next_pose: int | None = None  # the first one is taken when it is asked for

    # -- actuators --------------------------------------------------------------------------------

    def command(self, tau: ArrayLike) -> None:
        """Joint efforts, shape (n,), until the next ones."""
        limits = self.robot.effort_limits
        self._commanded = self.nanos
        self._tau = np.clip(vector("commands", tau, self.robot.n), -limits, limits)
        self._release(self._tau)

    def thrust(self, thrusts: Any) -> None:
        """What the thrusters shall give, shape (m,) [N], until the next."""
        self._thrusted = self.nanos
        self._asked = vector("thrusts", thrusts, len(self.thrusts))
        self._release(self._asked)

    def push(self, wrench: ArrayLike) -> None:
        """Wrench from outside on the base, [f; t] in {1}, shape (6,), until the next."""
        self._push = self.robot.base_group.iota.T @ vector("base_wrench", wrench, 6)
        self._release(self._push)

    def fail(self, joints: Iterable[str]) -> None:
        """Take the motors of these joints away, and give back those of all others."""
        names = self.robot.joint_names
        works = np.ones(self.robot.n)
        for name in joints:
            if name not in names:
                raise UnknownJointError("failed_joints", name, names)
            works[names.index(name)] = 0.0
        self._works = works

    def grasp(self, link: str, mass: float, com: ArrayLike, inertia: ArrayLike) -> None:
        """Let a link hold a body from now on, which moves as the link does; none if it is empty.

        Args:
            link: name of the link; empty to let go.
            mass: [kg].
            com: its centre of mass in the link's frame, shape (3,) [m].
            inertia: as in ``robot.with_payload``.
        """
        robot, urdf = self._bare, self._urdf
        if link:
            robot = robot.with_payload(link, mass, com, inertia)
            (held,) = (x.inertia for x in robot.description.links if x.name == link)
            urdf = with_inertial(urdf, link, held)
        state = self._plant.state
        self._plant, self.why_own = make_plant(
            robot, urdf, self._step / NANO, friction=self._friction
        )
        self._plant.state = state
        self.robot = robot

    def _release(self, command: Array) -> None:
        if command.any():
            self.held = False

    @property
    def efforts(self) -> Array:
        """What the joint motors give, shape (n,)."""
        return self._works * self._tau

    @property
    def driving_wrench(self) -> Array:
        """What thrusters, or the stand, give to the base, [f; t] in {1}, shape (6,)."""
        if self.held:
            return self.robot.base_group.iota_pinv.T @ self._stand
        return np.zeros(6) if self.propulsion is None else self.propulsion.wrench(self.thrusts)

    # -- time -------------------------------------------------------------------------------------

    def advance(self, steps: int = 1) -> None:
        """Go on by some steps.

        Raises:
            DivergedError: the motion grew beyond all bounds.
        """
        thrusters, h = self.propulsion, self._step / NANO
        self.nanos += steps * self._step
        if self.held:
            return
        self._forget_old_commands()
        wrench, tau = self._push, self.efforts
        for _ in range(steps):
            if thrusters is not None:
                given = self.robot.base_group.iota.T @ thrusters.wrench(self.thrusts)
                wrench = self._push + given
                self.thrusts = thrusters.motor_step(self.thrusts, self._asked, h)
            self._plant.step(tau, wrench)

    def _forget_old_commands(self) -> None:
        """Let nothing stand that nobody repeats."""
        if self.nanos - self._commanded > self.command_timeout * NANO:
            self._tau = np.zeros(self.robot.n)
        if self.nanos - self._thrusted > self.command_timeout * NANO:
            self._asked = np.zeros(len(self.thrusts))

    # -- sensors ----------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The truth."""
        return self._plant.state

    def joints(self, state: State) -> tuple[Array, Array]:
        """Measured positions and velocities, shape (n,) each, of a true state."""
        noise = self._random.normal(size=(2, self.robot.n))
        s = self.sensing
        q = state.q + s.joint_position_deviation * noise[0]
        return q, state.qd + s.joint_velocity_deviation * noise[1]

    def poses(self, g: Array) -> Iterator[tuple[int, Array]]:
        """Stamps [ns] and poses (4, 4) that have arrived by now; g is the true pose."""
        if self._next_pose is None or self.nanos >= self._next_pose:
            self._take_pose(g)
        while self._poses and self._poses[0][0] <= self.nanos:
            _, stamp, pose = self._poses.popleft()
            yield stamp, pose

    def _take_pose(self, g: Array) -> None:
        s, group = self.sensing, self.robot.base_group
        last = self.nanos if self._next_pose is None else self._next_pose
        self._next_pose = last + round(NANO / s.pose_rate)
        if self._next_pose <= self.nanos:  # more poses are wanted than there are steps
            self._next_pose = self.nanos + 1
        scale = np.repeat((s.pose_position_deviation, s.pose_attitude_deviation), 3)
        # along the ways in which the base can move
        error = group.iota @ (group.iota_pinv @ (scale * self._random.normal(size=6)))
        lost = self._random.random() < s.pose_dropout
        if not lost:
            arrival = self.nanos + round(s.pose_delay * NANO)
            self._poses.append((arrival, self.nanos, g @ exp(error)))
