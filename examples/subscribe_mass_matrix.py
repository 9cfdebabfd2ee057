# SPDX-License-Identifier: Apache-2.0
"""How another node reads the matrices of dynamics_node: prints the mass matrix by its names.

Run it beside ``dynamics_node``; ``--count 1`` ends after the first matrix.
"""

from __future__ import annotations

import argparse

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from std_msgs.msg import Float64MultiArray

from vm_dynamics.ros.matrices import decode


class MassMatrixListener(Node):
    """Prints every mass matrix that comes."""

    def __init__(self, count: int) -> None:
        super().__init__("mass_matrix_listener")
        self.left = count
        self.create_subscription(
            Float64MultiArray, "dynamics_node/mass_matrix", self.on_matrix, 10
        )

    def on_matrix(self, message: Float64MultiArray) -> None:
        matrix = decode(message)
        rows, _ = matrix.names
        print(f"{matrix.name} in {matrix.frame} at {1e-9 * matrix.stamp:.3f} s")
        for name, row in zip(rows, matrix.values, strict=True):
            print(f"  {name:>12} " + " ".join(f"{x:9.3f}" for x in row))
        self.left -= 1
        if self.left == 0:
            raise SystemExit


def main() -> None:
    rclpy.init()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=-1, help="matrices to print [endless]")
    options = parser.parse_args(remove_ros_args()[1:])
    node = MassMatrixListener(options.count)
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException, SystemExit):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
