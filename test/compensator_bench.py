# SPDX-License-Identifier: Apache-2.0
"""A compensator node as a process, and all that it listens to."""

import time

import numpy as np
from cases import text
from geometry_msgs.msg import PoseStamped, TwistStamped
from nav_msgs.msg import Odometry
from ros_graph import Graph, joint_state
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectoryPoint

import vm_dynamics as vm
from vm_dynamics.ros.messages import fill_pose, fill_twist, to_stamp
from vm_dynamics.ros.node import COMMAND, SENSOR

SAME = 1e-9  # the same kernels in another process; stamps and poses travel as messages
Q = np.linspace(0.3, 0.9, 7)
QD = np.linspace(-0.1, 0.1, 7)
MU = np.array([0.01, -0.02, 0.015, 0.1, 0.05, -0.08])
ON = {"require_enable": False, "resume": "at_once", "diagnostics_rate": 10.0}


class Bench:
    """A compensator node, and all that it listens to."""

    def __init__(
        self, folder, parameters, robot="satellite_arm7", gravity=(0.0, 0.0, 0.0), **options
    ):
        self.graph = Graph(folder)
        self.robot = vm.load(text(robot), gravity=gravity)
        self.process = self.graph.start("compensator_node", parameters=parameters, **options)
        self.description = self.graph.describe(text(robot))
        self.joints = self.graph.joints()
        node = self.graph.node
        self.velocities = node.create_publisher(TwistStamped, "locked_velocity", SENSOR)
        self.odometry = node.create_publisher(Odometry, "odom", SENSOR)
        self.targets = node.create_publisher(JointTrajectoryPoint, "target", COMMAND)
        self.aims = {
            name: node.create_publisher(PoseStamped, name, COMMAND)
            for name in ("base_target", "tool_target")
        }
        self.commands = self.graph.collect(Float64MultiArray, "compensator_node/commands", COMMAND)
        self.q, self.qd, self.mu = Q[: self.robot.n], QD[: self.robot.n], MU.copy()
        self.g, self.V = vm.lie.SE3.exp([0.1, 0.2, 0.3, 0.2, -0.1, 0.3]), 0.1 * MU
        self.world = ""

    def close(self):
        self.graph.close()

    def feed(self, *, joints=True, velocity=True, odom=True, age=0):
        """Send the state of now, or of ``age`` nanoseconds ago."""
        stamp = to_stamp(self.graph.node.get_clock().now().nanoseconds - age)
        if velocity:
            message = TwistStamped()
            message.header.stamp = stamp
            message.header.frame_id = self.robot.root_link
            fill_twist(message.twist, self.mu)
            self.velocities.publish(message)
        if odom:
            message = Odometry(child_frame_id=self.robot.root_link)
            message.header.stamp = stamp
            message.header.frame_id = self.world
            fill_pose(message.pose.pose, self.g)
            fill_twist(message.twist.twist, self.V)
            self.odometry.publish(message)
        if joints:
            self.joints.publish(joint_state(self.robot, self.q, self.qd, stamp=stamp))

    def last(self):
        return np.array(self.commands[-1].data) if self.commands else None

    def gives(self, tau):
        """Whether the last command is this one."""
        return self.commands and abs(self.last() - tau).max() <= SAME * max(abs(tau).max(), 1.0)

    def quiet(self, seconds, **options):
        """Feed for a while and return the commands of that time."""
        self.graph.spin(0.1)
        self.commands.clear()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.feed(**options)
            self.graph.spin(0.01)
        return [np.array(c.data) for c in self.commands]

    def only_zeros(self, seconds, **options):
        """Whether zeros come for a while, again and again, and nothing else."""
        given = self.quiet(seconds, **options)
        return len(given) > 10 * seconds and not any(tau.any() for tau in given)

    def enable(self, on):
        return self.graph.call(SetBool, "/compensator_node/enable", SetBool.Request(data=on))
