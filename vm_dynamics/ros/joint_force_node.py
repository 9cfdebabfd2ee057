# SPDX-License-Identifier: Apache-2.0
"""Gives every joint of a simulated robot a topic of its own for its force, and stops them in time.

Gazebo's ApplyJointForce listens to one number for each joint and holds it for ever, also when
nobody sends any more. So zeros are sent when commands stop, are malformed, or this node ends.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import Any

from std_msgs.msg import Float64, Float64MultiArray

from vm_dynamics.errors import DimensionError, NonFiniteError, ParameterError
from vm_dynamics.ros.diagnostics import OK, WARN
from vm_dynamics.ros.gazebo import force_topic
from vm_dynamics.ros.node import COMMAND, VmNode
from vm_dynamics.ros.parameters import NodeParameters, parameter
from vm_dynamics.ros.process import run
from vm_dynamics.ros.watchdog import Watchdog, timeout_parameter


@dataclass(frozen=True)
class JointForceParameters(NodeParameters):
    """Parameters of the joint force node."""

    joints: tuple[str, ...] = parameter(
        (), "joints in the order of the commands; at least one", read_only=True
    )
    timeout: float = timeout_parameter("time without commands after which forces are zero")


class JointForceNode(VmNode):
    """Lifecycle node that hands each joint its force, and zeros when commands stop."""

    PARAMETERS = JointForceParameters

    def __init__(self) -> None:
        """Name the node."""
        super().__init__("joint_force_node")
        self._outputs: list[Any] = []
        self._watchdog: Watchdog | None = None
        self._sending = threading.Lock()  # between commands and the watchdog
        self._last = -math.inf  # when the last good command came, steady clock [s]
        self._stopped = True
        self._open = False

    def start(self) -> None:
        """A publisher for each joint, the commands, the watchdog."""
        joints = self.parameters.joints
        topics = [force_topic(joint) for joint in joints]
        if not joints or len(set(topics)) != len(topics):
            raise ParameterError(f"parameter joints: got {list(joints)}, expected different names")
        self._outputs = [self.publisher(Float64, topic, COMMAND, sole=True) for topic in topics]
        self.listen(Float64MultiArray, "commands", self._on_commands, COMMAND, sole=True)
        self._watchdog = Watchdog(
            self._watch, lambda: self.parameters.timeout, self.get_logger().error
        )

    def _on_commands(self, message: Float64MultiArray) -> None:
        if not self.is_active:
            return
        count, expected = len(message.data), len(self._outputs)
        if count != expected:
            self._stop()
            raise DimensionError(f"commands: got {count} numbers, expected {expected}")
        if not all(map(math.isfinite, message.data)):
            self._stop()
            raise NonFiniteError(f"commands: NaN or infinity: {list(message.data)}")
        start = time.perf_counter()
        with self._sending:
            if not self._open:  # it ended meanwhile, in another thread
                return
            for output, force in zip(self._outputs, message.data, strict=True):
                output.publish(Float64(data=force))
            self._last, self._stopped = time.monotonic(), False
        self.health.cycle(start)

    def _watch(self) -> None:
        """Say zero, again and again, while there are no commands: one may get lost."""
        if not self.is_active or time.monotonic() - self._last <= self.parameters.timeout:
            return
        if not self._stopped:
            self.health.trouble("commands stopped", "commands stopped: forces are zero")
        self._stop()

    def _stop(self) -> None:
        with self._sending:
            self._last, self._stopped = -math.inf, True
            for output in self._outputs:
                output.publish(Float64(data=0.0))

    def begin(self) -> None:
        """Nothing of before counts."""
        self._open = True
        self._stop()

    def end(self) -> None:
        """Zeros, whatever was before."""
        self._open = False
        self._stop()
        self.delivered(*self._outputs)

    def describe(self) -> tuple[bytes, str, dict[str, str]]:
        """Whether there are forces."""
        values = {"joints": ", ".join(self.parameters.joints)}
        if self._stopped:
            return WARN, "forces zero: waiting for commands", values
        return OK, "forces on", values

    def forget(self) -> None:
        """No outputs, no watchdog."""
        if self._watchdog is not None:
            self._watchdog.stop()
        self._watchdog, self._outputs = None, []


def main(args: list[str] | None = None) -> int:
    """Entry point."""
    return run(JointForceNode, args)


if __name__ == "__main__":
    raise SystemExit(main())
