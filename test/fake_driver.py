# SPDX-License-Identifier: Apache-2.0
"""A driver of hardware for a test: joint states out, efforts in, and a watchdog of its own.

It is what docs/launch.md asks of a real one: efforts that nobody repeats are forgotten.
"""

import sys
import time

import rclpy
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from vm_dynamics.ros.node import COMMAND, SENSOR

RATE = 200.0  # [Hz]
TIMEOUT = 0.1  # [s]


class FakeDriver(Node):
    """Joints that stay where they are, whatever effort they are given."""

    def __init__(self, names):
        super().__init__("fake_driver")
        self._names, self._effort, self._last = names, [0.0] * len(names), 0.0
        self._states = self.create_publisher(JointState, "joint_states", SENSOR)
        self.create_subscription(Float64MultiArray, "commands", self._on_commands, COMMAND)
        self.create_timer(1.0 / RATE, self._tick)

    def _on_commands(self, message):
        self._effort, self._last = list(message.data), time.monotonic()

    def _tick(self):
        if time.monotonic() - self._last > TIMEOUT:
            self._effort = [0.0] * len(self._names)
        state = JointState(
            name=self._names,
            position=[0.3] * len(self._names),
            velocity=[0.01] * len(self._names),
            effort=self._effort,
        )
        state.header.stamp = self.get_clock().now().to_msg()
        self._states.publish(state)


if __name__ == "__main__":
    rclpy.init()
    try:
        rclpy.spin(FakeDriver(sys.argv[sys.argv.index("--joints") + 1].split(",")))
    except (KeyboardInterrupt, rclpy.executors.ExternalShutdownException):
        pass
