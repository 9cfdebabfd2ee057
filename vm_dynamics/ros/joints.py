# SPDX-License-Identifier: Apache-2.0
"""Joint states to the robot's order: by name, checked, velocities differentiated if need be."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from sensor_msgs.msg import JointState

from vm_dynamics.errors import VmDynamicsError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import RobotModel
from vm_dynamics.ros.messages import nanoseconds

# A clock that jumps back by more than this was set anew, as by the reset of a simulation.
CLOCK_RESET_JUMP = 1_000_000_000  # [ns]


class JointSample(NamedTuple):
    """Joints at a time.

    Attributes:
        nanos: stamp [ns].
        q: positions, shape (n,) [rad or m].
        qd: velocities, shape (n,).
        restarted: whether the clock began anew before it.
        effort: of the motors, shape (n,) [N m or N]; None if not all are there and finite.
    """

    nanos: int
    q: Array
    qd: Array
    restarted: bool
    effort: Array | None = None


class JointInputError(VmDynamicsError):
    """A joint state that cannot be used; ``kind`` is what diagnostics count it under."""

    def __init__(self, kind: str, message: str) -> None:
        """Remember the kind of trouble."""
        super().__init__(message)
        self.kind = kind


class JointReader:
    """Reads joint states of one robot.

    Args:
        robot: whose joints they are.
        differentiate: whether velocities that are missing are made from positions.
        cutoff: of the low pass on those [Hz].
    """

    def __init__(self, robot: RobotModel, *, differentiate: bool, cutoff: float) -> None:
        """Look for nothing yet."""
        self._names = robot.joint_names
        self._given: list[str] | None = None
        self._order = np.arange(robot.n)
        self._in_order = True
        self._differentiate = differentiate
        self._time_constant = 1.0 / (2.0 * math.pi * cutoff)
        self._last: JointSample | None = None

    def read(self, message: JointState) -> JointSample:
        """Joints of a message.

        Raises:
            JointInputError: names, lengths, numbers or stamp are wrong; it says how.
        """
        if message.name != self._given:
            self._learn(message.name)
        count = len(message.name)
        if len(message.position) != count:
            raise JointInputError(
                "lengths", f"joint state: {count} names but {len(message.position)} positions"
            )
        q = self._pick(message.position)
        nanos, restarted = self._stamp(nanoseconds(message.header.stamp))
        if len(message.velocity) == count:
            qd = self._pick(message.velocity)
        elif len(message.velocity):
            raise JointInputError(
                "lengths", f"joint state: {count} names but {len(message.velocity)} velocities"
            )
        else:
            qd = self._difference(nanos, q, restarted)
        # a sum of squares is NaN or infinite if any term is
        if not math.isfinite(q @ q + qd @ qd):
            raise JointInputError("not finite", f"joint state: NaN or infinity: q {q}, qd {qd}")
        self._last = JointSample(nanos, q, qd, restarted, self._efforts(message))
        return self._last

    def _learn(self, given: list[str]) -> None:
        """Map a new list of names."""
        if len(set(given)) != len(given):
            twice = sorted({name for name in given if given.count(name) > 1})
            raise JointInputError("duplicate names", f"joint state: names twice: {twice}")
        index = {name: i for i, name in enumerate(given)}
        missing = [name for name in self._names if name not in index]
        if missing:
            raise JointInputError(
                "missing joints", f"joint state: no {missing} among {list(given)}"
            )
        self._order = np.array([index[name] for name in self._names], dtype=int)
        self._in_order = len(given) == len(self._names) and bool(
            (self._order == np.arange(len(given))).all()
        )
        self._given = list(given)

    def _pick(self, values: object) -> Array:
        numbers: Array = np.array(values, dtype=float)
        return numbers if self._in_order else numbers[self._order]

    def _efforts(self, message: JointState) -> Array | None:
        if len(message.effort) != len(message.name):
            return None
        effort = self._pick(message.effort)
        return effort if math.isfinite(effort @ effort) else None

    def _stamp(self, nanos: int) -> tuple[int, bool]:
        last = self._last
        if last is None or nanos > last.nanos:
            return nanos, False
        if nanos < last.nanos - CLOCK_RESET_JUMP:
            return nanos, True
        kind = "repeated stamps" if nanos == last.nanos else "time backwards"
        raise JointInputError(
            kind, f"joint state: stamp {nanos} ns is not after the last one, {last.nanos} ns"
        )

    def _difference(self, nanos: int, q: Array, restarted: bool) -> Array:
        """Low-passed difference of positions; zero for the first one."""
        if not self._differentiate:
            raise JointInputError(
                "no velocity",
                "joint state: has no velocities; parameter missing_velocity: differentiate would "
                "make them from positions",
            )
        last = self._last
        if last is None or restarted:
            return np.zeros_like(q)
        dt = 1e-9 * (nanos - last.nanos)
        weight = dt / (dt + self._time_constant)
        return last.qd + weight * ((q - last.q) / dt - last.qd)
