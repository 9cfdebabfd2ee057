# SPDX-License-Identifier: Apache-2.0
"""The peer of the nodes: a bare rclpy relay, joint states in and commands of the same size out."""

from __future__ import annotations

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

SENSOR = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)


class Relay(Node):
    """Answers every joint state with the same command."""

    def __init__(self, joints: int = 7) -> None:
        super().__init__("relay")
        self.message = Float64MultiArray(data=[0.1] * joints)
        self.commands = self.create_publisher(Float64MultiArray, "~/commands", 10)
        self.create_subscription(JointState, "joint_states", self.on_joints, SENSOR)

    def on_joints(self, message: JointState) -> None:
        self.commands.publish(self.message)


def main() -> None:
    rclpy.init()
    node = Relay()
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
