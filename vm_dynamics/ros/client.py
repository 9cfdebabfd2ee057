# SPDX-License-Identifier: Apache-2.0
"""Takes part in a graph for a program that knows no messages: hears, publishes, asks, records."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, TwistStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState, PointCloud2
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectoryPoint
from visualization_msgs.msg import Marker

from vm_dynamics.errors import VmDynamicsError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.ros.messages import fill_pose, nanoseconds, pose_matrix, to_stamp, twist_vector
from vm_dynamics.ros.node import COMMAND, LATCHED, SENSOR
from vm_dynamics.ros.recording import Recording, type_name
from vm_dynamics.ros.spinning import Topics, drain

# What is recorded, where it is published, and how it is listened to. The clock comes first: what
# has come at the same time has its time.
RECORDED: dict[str, tuple[type, QoSProfile]] = {
    "/clock": (Clock, SENSOR),
    "robot_description": (String, LATCHED),
    "joint_states": (JointState, SENSOR),
    "pose": (PoseStamped, SENSOR),
    "ground_truth/odom": (Odometry, SENSOR),
    "observer_node/odom": (Odometry, SENSOR),
    "observer_node/locked_velocity": (TwistStamped, SENSOR),
    "compensator_node/commands": (Float64MultiArray, SENSOR),
    "compensator_node/torques": (JointState, SENSOR),
    "compensator_node/thrusts": (Float64MultiArray, SENSOR),
    "dynamics_node/mass_matrix": (Float64MultiArray, SENSOR),
    "identifier_node/payload": (Float64MultiArray, SENSOR),
    "ccf_node/map": (PointCloud2, LATCHED),
    "ccf_node/gait": (Marker, LATCHED),
    "ccf_node/displacement": (PoseStamped, LATCHED),
    "/diagnostics": (DiagnosticArray, COMMAND),
}
SERVICE_TIMEOUT = 20.0  # [s] for the answer of a service
SERVICE_RETRY = 3.0  # [s] without an answer, after which it is taken for lost
ANSWER_POLL_PERIOD = 0.005  # [s] at most between two looks at the answers of services


class ServiceError(VmDynamicsError):
    """A service did not answer, or refused."""


def ask(
    node: Node,
    kind: Any,
    name: str,
    request: Any,
    wait: Callable[[Callable[[], bool], float], None],
    patience: float = SERVICE_TIMEOUT,
) -> Any:
    """Answer of a service that may be asked twice.

    With Fast DDS an answer is lost where the server does not know within 0.1 s where a new client
    listens (ros2/rmw_fastrtps, issue 842): what was asked is done all the same.

    Args:
        node: who asks.
        kind: type of the service.
        name: of the service.
        request: what is asked; doing it twice must be the same as doing it once.
        wait: handles messages until a condition holds, or a time of the steady clock [s] comes.
        patience: for the service to appear and to answer [s].

    Raises:
        ServiceError: there is no service of that name, or no answer.
    """
    client = node.create_client(kind, name)
    end = time.monotonic() + patience
    asked: list[Any] = []

    def answered() -> bool:
        return any(future.done() for future in asked)

    try:
        wait(client.service_is_ready, end)
        while not answered():
            if (now := time.monotonic()) > end:
                raise ServiceError(f"{name}: no answer after {patience:g} s")
            asked.append(client.call_async(request))
            wait(answered, min(now + SERVICE_RETRY, end))
        return next(future for future in asked if future.done()).result()
    finally:
        node.destroy_client(client)


class Client:
    """A node without a life cycle of its own.

    Attributes:
        nanos: simulated time, of ``/clock`` [ns]; zero before the first tick.
        conditions: the last diagnostics of each node, by its full name: values by key.
        interrupted: set by a signal's handler: whoever waits raises KeyboardInterrupt then, where
            nothing of rclpy is in the middle of something.
    """

    def __init__(self, name: str, *, domain: int, recording: Recording | None = None) -> None:
        """Join a domain."""
        self.nanos = 0
        self.interrupted = False
        self.conditions: dict[str, dict[str, str]] = {}
        self._recording = recording
        self._handlers: dict[str, Callable[[Any], None]] = {}
        self._publishers: dict[str, Any] = {}
        self._context = Context()
        rclpy.init(context=self._context, domain_id=domain)
        self._node = Node(name, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._topics = Topics()
        self._handlers["/clock"] = self._on_clock
        self._handlers["/diagnostics"] = self._on_diagnostics
        for topic, (kind, qos) in RECORDED.items():
            self._subscribe(kind, topic, qos)

    def close(self) -> None:
        """Leave."""
        self._executor.remove_node(self._node)
        self._node.destroy_node()
        self._executor.shutdown()
        with suppress(Exception):
            rclpy.shutdown(context=self._context)

    # -- hearing ----------------------------------------------------------------------------------

    def on_odometry(self, topic: str, handle: Callable[[int, Array, Array], None]) -> None:
        """Call with stamp [ns], pose (4, 4) and twist (6,) of a recorded topic."""

        def heard(m: Odometry) -> None:
            pose = pose_matrix(m.pose.pose.position, m.pose.pose.orientation)
            handle(nanoseconds(m.header.stamp), pose, twist_vector(m.twist.twist))

        self._handlers[topic] = heard

    def on_joints(
        self, topic: str, names: Iterable[str], handle: Callable[[int, Array, Array, Array], None]
    ) -> None:
        """Call with stamp [ns], positions, velocities and efforts, in the order of ``names``."""
        wanted = list(names)

        def heard(m: JointState) -> None:
            at = [m.name.index(name) for name in wanted]
            parts = (np.array(x)[at] for x in (m.position, m.velocity, m.effort))
            handle(nanoseconds(m.header.stamp), *parts)

        self._handlers[topic] = heard

    def on_array(self, topic: str, handle: Callable[[Array], None]) -> None:
        """Call with the numbers of a recorded Float64MultiArray."""
        self._handlers[topic] = lambda m: handle(np.array(m.data))

    def on_map(self, topic: str, handle: Callable[[Array, Array, Array], None]) -> None:
        """Call with the coordinates of a map's columns and rows, and its values by row, column."""

        def heard(m: PointCloud2) -> None:
            at = {field.name: field.offset // 4 for field in m.fields}
            whole = np.frombuffer(m.data, dtype=np.float32).reshape(m.height, m.width, -1)
            handle(whole[0, :, at["x"]], whole[:, 0, at["y"]], whole[..., at["intensity"]])

        self._handlers[topic] = heard

    def _subscribe(self, kind: type, topic: str, qos: QoSProfile) -> None:
        whole, name = type_name(kind), _absolute(topic)

        def heard(raw: bytes) -> None:
            # before it is recorded: a tick of the clock has its own time
            if topic in self._handlers:
                self._handlers[topic](deserialize_message(raw, kind))
            if self._recording is not None:
                self._recording.write(name, whole, self.nanos, raw, kept=qos is LATCHED)

        out = self._node.create_subscription(
            kind, topic, heard, qos, callback_group=self._topics.group, raw=True
        )
        self._topics.add(out, kind, heard, most=qos.depth, raw=True)

    def _on_clock(self, message: Clock) -> None:
        self.nanos = nanoseconds(message.clock)

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            self.conditions[status.name] = {item.key: item.value for item in status.values}

    # -- publishing -------------------------------------------------------------------------------

    def publish_target(self, q: Array, qd: Array, qdd: Array) -> None:
        """What the joints shall do, on ``target``."""
        point = JointTrajectoryPoint(
            positions=q.tolist(), velocities=qd.tolist(), accelerations=qdd.tolist()
        )
        self._publish("target", point)

    def publish_pose(self, topic: str, g: Array, frame: str = "world") -> None:
        """A pose, shape (4, 4), as on ``base_target``."""
        message = PoseStamped()
        message.header.stamp, message.header.frame_id = to_stamp(self.nanos), frame
        fill_pose(message.pose, g)
        self._publish(topic, message)

    def publish_description(self, urdf: str) -> None:
        """A robot, on ``robot_description``, for all who come later too."""
        self._publisher(String, "robot_description", LATCHED).publish(String(data=urdf))

    def _publish(self, topic: str, message: Any) -> None:
        self._publisher(type(message), topic, COMMAND).publish(message)
        if self._recording is not None:
            self._recording.write_message(_absolute(topic), self.nanos, message)

    def _publisher(self, kind: type, topic: str, qos: QoSProfile) -> Any:
        if topic not in self._publishers:
            self._publishers[topic] = self._node.create_publisher(kind, topic, qos)
        return self._publishers[topic]

    # -- asking -----------------------------------------------------------------------------------

    def set_parameter(self, node: str, name: str, value: Any) -> None:
        """Set a parameter of a node; see :meth:`set_parameters`."""
        self.set_parameters(node, {name: value})

    def set_parameters(self, node: str, values: dict[str, Any]) -> None:
        """Set parameters of a node at once, and wait until they are.

        Raises:
            ServiceError: the node does not answer, or refuses, with its reason.
        """
        messages = [Parameter(name, value=x).to_parameter_msg() for name, x in values.items()]
        request = SetParametersAtomically.Request(parameters=messages)
        service = f"{node}/set_parameters_atomically"
        answer = ask(self._node, SetParametersAtomically, service, request, self.spin_until)
        if not answer.result.successful:
            asked = ", ".join(f"{name} = {value!r}" for name, value in values.items())
            raise ServiceError(f"{node}: {asked} is refused: {answer.result.reason}")

    def trigger(self, service: str) -> tuple[bool, str]:
        """Call a service of std_srvs/Trigger; whether it succeeded, and what it said."""
        answer = ask(self._node, Trigger, service, Trigger.Request(), self.spin_until)
        return answer.success, answer.message

    def spin_until(self, condition: Callable[[], bool], end: float = math.inf) -> None:
        """Hear until a condition holds, or a time of the steady clock [s] is reached."""
        while not (self.interrupted or condition() or time.monotonic() > end):
            self._topics.wait(ANSWER_POLL_PERIOD, self._context)
            drain(self._executor)
        if self.interrupted:
            raise KeyboardInterrupt

    def spin(self, seconds: float) -> None:
        """Hear for some time."""
        self.spin_until(lambda: False, time.monotonic() + seconds)


def _absolute(topic: str) -> str:
    return topic if topic.startswith("/") else f"/{topic}"


def alone(environment: dict[str, str], domain: int) -> dict[str, str]:
    """Environment of processes that talk to no other machine and no other graph of this one."""
    return {
        **environment,
        "ROS_DOMAIN_ID": str(domain),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
    }


def free_domain() -> int:
    """A domain in which no process of this machine takes part.

    Raises:
        VmDynamicsError: there is none.
    """
    for k in range(100):
        domain = 1 + (os.getpid() + k) % 100
        if unused(domain):
            return domain
    raise VmDynamicsError("every ROS domain from 1 to 100 is in use on this machine")


def unused(domain: int) -> bool:
    """Whether no process of this machine has a port of a domain (RTPS 2.5, 9.6.2.3)."""
    for process in range(8):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("", 7410 + 250 * domain + 2 * process))
            except OSError:
                return False
    return True
