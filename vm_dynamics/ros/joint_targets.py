# SPDX-License-Identifier: Apache-2.0
"""Targets of the joints: read by name, kept within limits, approached no faster than allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sensor_msgs.msg import JointState

from vm_dynamics.control import JointLimits, JointReference
from vm_dynamics.errors import ParameterError, UnknownJointError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

PARTS = ("position", "velocity", "acceleration")


class JointTargets:
    """Where the joints of a robot shall be.

    Attributes:
        names: joints in the order of commands and trajectory points.
        order: their places in the robot's order.
        reference: where the joints shall be now.
    """

    def __init__(self, robot: Robot, names: Sequence[str], acceleration_limits: Array) -> None:
        """No target yet.

        Args:
            robot: the robot.
            names: joints in the order of commands and trajectory points.
            acceleration_limits: on the way to a target that jumps, shape (n,).
        """
        self.names = tuple(names)
        self.order = np.array([robot.joint_names.index(name) for name in names], dtype=np.intp)
        self.reference = JointReference(robot, acceleration_limits)
        self._robot, self._limits = robot, JointLimits(robot)
        self._target: tuple[Array, Array, Array] | None = None

    def forget(self) -> None:
        """There is no target any more."""
        self._target = None

    def hold(self, q: Array) -> None:
        """Start from joint positions, shape (n,), towards the target, if there is one."""
        self.reference.start(q)
        if self._target is not None:
            self.reference.set_target(*self._target)

    def start(self, q: Array, qd: Array) -> None:
        """Be at joint positions and velocities, shape (n,) each, which are the target too."""
        self.reference.start(q, qd)
        self._target = self.reference.q, self.reference.qd, self.reference.qdd

    @property
    def state(self) -> Array:
        """Where the joints shall be now: positions, velocities, accelerations, shape (3, n)."""
        return np.array((self.reference.q, self.reference.qd, self.reference.qdd))

    def follow(self, state: Array) -> None:
        """Take the next target of a motion that keeps the limits.

        Args:
            state: positions, velocities and accelerations, shape (3, n).
        """
        self._target = state[0], state[1], state[2]
        self.reference.set_target(*self._target)

    def take_over(self, former: JointTargets) -> None:
        """Go on with the target of another one, from where that is."""
        self.reference.start(former.reference.q)
        self._target = former._target
        if self._target is not None:
            self.reference.start(former.reference.q, former.reference.qd)
            self.reference.set_target(*self._target)

    def read(self, message: Any, *, clip: bool) -> str:
        """Take a target from a JointTrajectoryPoint or a JointState.

        Args:
            message: the former has all joints in the order of ``names``, the latter any of them.
            clip: whether a target beyond the limits is clipped; else it is refused.

        Returns:
            What was clipped, empty if nothing.

        Raises:
            ParameterError: numbers are missing, or beyond the limits.
            UnknownJointError: a name that is none of a joint.
            NonFiniteError: NaN or infinity.
        """
        if isinstance(message, JointState):
            at = self._places(message.name)
            parts: tuple[Any, ...] = message.position, message.velocity, ()
        else:
            at = self.order
            parts = message.positions, message.velocities, message.accelerations
        n = self._robot.n
        if self._target is None and len(at) < n:
            raise ParameterError(f"target: got {len(at)} joints, the first one needs {n}")
        target = np.zeros((3, n))
        if self._target is not None:
            target[0] = self._target[0]
        for row, name, part in zip(target, PARTS, parts, strict=True):
            if len(part) not in (0, len(at)) or (name == "position" and not len(part)):
                raise ParameterError(
                    f"target: got {len(part)} numbers of {name}, expected {len(at)}"
                )
            if len(part):
                row[at] = vector(f"target {name}", np.array(part), len(at))
        clipped = self._keep_limits(target, clip)
        self._target = target[0], target[1], target[2]
        self.reference.set_target(*self._target)
        return clipped

    def _places(self, names: Sequence[str]) -> Any:
        unknown = [name for name in names if name not in self.names]
        if unknown:
            raise UnknownJointError("target", unknown[0], self.names)
        return np.array([self.order[self.names.index(name)] for name in names], dtype=np.intp)

    def _keep_limits(self, target: Array, clip: bool) -> str:
        """Clip a target, shape (3, n), or refuse it; returns what was clipped."""
        beyond = np.flatnonzero(self._limits.beyond(target[0], target[1]))
        if not len(beyond):
            return ""
        low, high, speed = self._limits.table[:3]
        text = "target beyond the limits: " + "; ".join(
            f"{self._robot.joint_names[i]} got {target[0, i]:.4g} at {target[1, i]:.4g}/s, "
            f"expected {low[i]:.4g} to {high[i]:.4g} and at most {speed[i]:.4g}/s"
            for i in beyond
        )
        if not clip:
            raise ParameterError(f"{text}; refused")
        target[0] = np.clip(target[0], low, high)
        target[1] = np.clip(target[1], -speed, speed)
        return f"{text}; clipped"
