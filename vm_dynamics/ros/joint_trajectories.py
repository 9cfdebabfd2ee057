# SPDX-License-Identifier: Apache-2.0
"""The trajectory that the joints follow, from its message to the last word on it.

Whatever can go wrong with it has one end: whoever sent it is told an :class:`Outcome`.
Trajectories come in the thread of services, and steps in that of control; both meet under the
node's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.control import (
    Following,
    JointLimits,
    JointMotion,
    JointTrajectory,
    Tolerances,
    Verdict,
)
from vm_dynamics.control.joint_path import braking
from vm_dynamics.control.limits import BRAKING_TIME
from vm_dynamics.errors import ParameterError, VmDynamicsError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot
from vm_dynamics.ros.joint_targets import JointTargets
from vm_dynamics.ros.joints import JointSample
from vm_dynamics.ros.messages import nanoseconds
from vm_dynamics.ros.trajectory_messages import trajectory_of


class Code(IntEnum):
    """Ends of a trajectory, as ``control_msgs/action/FollowJointTrajectory`` numbers them."""

    SUCCESSFUL = 0
    INVALID_GOAL = -1
    PATH_TOLERANCE_VIOLATED = -4
    GOAL_TOLERANCE_VIOLATED = -5


CODES = {
    Verdict.REACHED: Code.SUCCESSFUL,
    Verdict.LEFT_PATH: Code.PATH_TOLERANCE_VIOLATED,
    Verdict.MISSED_GOAL: Code.GOAL_TOLERANCE_VIOLATED,
}


class Outcome(NamedTuple):
    """What has come of a trajectory, and why."""

    code: Code
    text: str


class Progress(NamedTuple):
    """Where the joints were and should have been at a joint state.

    Attributes:
        nanos: its stamp [ns].
        desired: positions, velocities and accelerations, shape (3, n).
        actual: positions and velocities, shape (2, n).
    """

    nanos: int
    desired: Array
    actual: Array


class Order(NamedTuple):
    """A trajectory that somebody wants.

    Attributes:
        trajectory: the trajectory.
        start: its stamp [ns], zero for now.
        tolerances: how well it is to be followed.
        told: called with its outcome, with the lock, once; it must not wait for anything.
    """

    trajectory: JointTrajectory
    start: int
    tolerances: Tolerances
    told: Callable[[Outcome], None]


class _Running(NamedTuple):
    """A motion since a time [ns]."""

    following: Following
    begun: int
    told: Callable[[Outcome], None]
    is_stop: bool = False


class _Use(NamedTuple):
    """What depends on the robot and the parameters."""

    robot: Robot
    targets: JointTargets
    limits: JointLimits
    tolerances: Tolerances
    rates: Array
    clip: bool


class JointTrajectories:
    """Follows trajectories, one after the other.

    Attributes:
        progress: of the present one, None before its first step.
        refusal: why the last one that was refused was; empty if none was.
    """

    def __init__(
        self,
        lock: AbstractContextManager[Any],
        *,
        obstacle: Callable[[], str],
        torqueless: Callable[[], str],
        now: Callable[[], int],
        trouble: Callable[[str, str], None],
    ) -> None:
        """None yet.

        Args:
            lock: of the node.
            obstacle: returns why no trajectory can be followed now, empty if it can.
            torqueless: returns why there are no torques, empty if there are.
            now: returns the time [ns].
            trouble: called with a kind and a text, for what a trajectory ended by.
        """
        self._lock, self._now, self._trouble = lock, now, trouble
        self._obstacle, self._torqueless = obstacle, torqueless
        self._use: _Use | None = None
        self._running: _Running | None = None
        self._waiting: Order | None = None
        self._stepped = 0  # stamp of the last step [ns], zero while there are no torques
        self.progress: Progress | None = None
        self.refusal = ""

    def use(
        self,
        robot: Robot,
        targets: JointTargets,
        tolerances: Tolerances,
        *,
        rates: Array,
        clip: bool,
    ) -> None:
        """Go on with another robot, or with other parameters of the same one.

        Args:
            robot: the robot; one with other joints has to :meth:`end` what runs.
            targets: what it moves.
            tolerances: for trajectories that bring none.
            rates: largest accelerations, shape (n,), infinite for none.
            clip: whether points beyond the limits are clipped; else they are refused.
        """
        self._use = _Use(robot, targets, JointLimits(robot), tolerances, rates, clip)

    @property
    def _used(self) -> _Use:
        if self._use is None:
            raise ParameterError("trajectory: there is no robot yet; refused")
        return self._use

    @property
    def state(self) -> str:
        """What there is, in a word."""
        if self._running is not None and not self._running.is_stop:
            return "running"
        if self._waiting is not None:
            return "waiting"
        return "none" if self._running is None else "stopping"

    def hear(self, message: Any) -> None:
        """Take a ``trajectory_msgs/JointTrajectory`` from a topic; an empty one stops the joints.

        Raises:
            VmDynamicsError: it is refused, for the reason in the message; the one before goes on.
        """
        if not message.points:
            self.stop(Outcome(Code.INVALID_GOAL, "stopped by an empty trajectory"))
            return
        try:
            self.follow(self.read(message))
        except VmDynamicsError as error:
            self.refusal = str(error)
            raise

    def read(self, message: Any) -> Order:
        """What a ``trajectory_msgs/JointTrajectory`` asks for, checked, with the usual tolerances.

        Raises:
            VmDynamicsError: what is wrong with it.
        """
        use = self._used
        trajectory = trajectory_of(use.robot, message, clip=use.clip)
        order = Order(trajectory, nanoseconds(message.header.stamp), use.tolerances, _nobody)
        self._check(order)
        if trajectory.clipped:
            self._trouble("clipped trajectory", trajectory.clipped)
        return order

    @property
    def robot(self) -> Robot:
        """Whose joints they are.

        Raises:
            ParameterError: there is no robot yet.
        """
        return self._used.robot

    def look(self) -> None:
        """End a trajectory that waits in vain for joint states, as torques have stopped."""
        with self._lock:
            why = self._torqueless()
            if why and self.state != "none":
                self.pause(why)

    def _check(self, order: Order) -> None:
        """Refuse a trajectory that cannot be followed now."""
        why = self._obstacle()
        if why:
            raise ParameterError(f"trajectory: {why}; refused")
        if not order.trajectory.is_of(self._used.robot):
            raise ParameterError("trajectory: the robot has changed since it was read; refused")
        late = 1e-9 * (self._now() - order.start) - order.trajectory.duration
        if order.start and late > 0.0:
            raise ParameterError(f"trajectory: ended {late:.3g} s ago, by its stamp; refused")

    def follow(self, order: Order) -> None:
        """Follow a trajectory from its start on; what was before is told that it is replaced.

        Raises:
            ParameterError: it cannot be followed; the one before goes on.
        """
        with self._lock:
            self._check(order)
            self._tell(Outcome(Code.INVALID_GOAL, "replaced by another trajectory"))
            self._waiting = order
            self.progress = None

    def step(self, sample: JointSample) -> None:
        """Say where the joints shall be at a joint state, and look at where they are."""
        use = self._used
        before, self._stepped = self._stepped or sample.nanos, sample.nanos
        order = self._waiting
        if order is not None and order.start <= sample.nanos:
            late = 1e-9 * (before - order.start) if order.start else 0.0
            motion = order.trajectory.motion(late, use.targets.state, use.rates)
            following = Following(motion, order.tolerances, use.robot.joint_names)
            self._running, self._waiting = _Running(following, before, order.told), None
        running = self._running
        if running is None:
            return
        time = 1e-9 * (sample.nanos - running.begun)
        verdict, why = running.following.judge(time, sample.q, sample.qd)
        self.progress = Progress(
            sample.nanos, running.following.desired, np.array((sample.q, sample.qd))
        )
        if verdict is Verdict.REACHED or verdict is None:
            use.targets.follow(use.limits.kept(running.following.desired))
        else:
            # something holds the joints: do not pull any further
            use.targets.start(sample.q, sample.qd)
            self._brake(sample.nanos)
            use.targets.follow(use.limits.kept(use.targets.state))
            self._trouble("left trajectory", f"trajectory {verdict.value}: {why}; stopped")
        if verdict is not None:
            if verdict is Verdict.REACHED:
                self._running = None  # the joints stay at the last target
            running.told(Outcome(CODES[verdict], why))

    def stop(self, outcome: Outcome) -> None:
        """Come to a stop and stay there."""
        with self._lock:
            if self.state in ("running", "waiting"):
                self._tell(outcome)
                self._waiting = None
                self._brake(self._stepped)

    def end(self, why: str) -> None:
        """Forget what there is: torques have stopped, or something else moves the joints now."""
        with self._lock:
            self._tell(Outcome(Code.INVALID_GOAL, why))
            self._running = self._waiting = self.progress = None

    def pause(self, why: str) -> None:
        """There are no torques: when they begin anew, the joints stay where they are then."""
        with self._lock:
            self._stepped = 0
            if self.state != "none":
                self._used.targets.forget()
                self.end(why)

    def _brake(self, begun: int) -> None:
        """Move on to a stop, since a time [ns]."""
        use = self._used
        q, qd, _ = use.targets.state
        path = braking(q, qd, BRAKING_TIME, use.rates)
        motion = JointMotion(path.end, ((np.arange(use.robot.n), path),))
        anything = np.full((2, use.robot.n), np.inf)
        tolerances = Tolerances(anything, anything, np.inf)
        following = Following(motion, tolerances, use.robot.joint_names)
        self._running = _Running(following, begun, _nobody, is_stop=True)

    def _tell(self, outcome: Outcome) -> None:
        """Tell those who sent the present one and the next one, once."""
        running, waiting = self._running, self._waiting
        if running is not None:
            self._running = running._replace(told=_nobody)
            running.told(outcome)
        if waiting is not None:
            self._waiting = waiting._replace(told=_nobody)
            waiting.told(outcome)


def _nobody(outcome: Outcome) -> None:
    """Nobody waits for this outcome."""
