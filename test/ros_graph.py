# SPDX-License-Identifier: Apache-2.0
"""A ROS graph for a test: nodes as processes, as a user starts them, and a client beside them.

Every graph has a ``ROS_DOMAIN_ID`` of its own and stays on this machine.
"""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.msg import Parameter as ParameterMessage
from rcl_interfaces.srv import GetParameters, SetParameters
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from vm_dynamics.compiled import ENTRY_POINTS
from vm_dynamics.demo.supervisor import ask_to_end
from vm_dynamics.ros.client import ServiceError, ask, unused
from vm_dynamics.ros.node import LATCHED, SENSOR

ROOT = Path(__file__).resolve().parent.parent
GRAPH_TIMEOUT = (
    90.0  # [s]: what a busy machine may take to start a process that compiles its kernels
)
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_domains = itertools.cycle(range(10 + 20 * (_WORKER % 4), 30 + 20 * (_WORKER % 4)))
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"


@cache
def compile_kernels():
    """Fill the cache that the nodes start from; a cold one takes minutes."""
    for package in ("estimation", "control", "locomotion"):
        importlib.import_module(f"vm_dynamics.{package}")
    for point in ENTRY_POINTS:
        point.compile()


class Process:
    """A node as a process of its own; its output goes to a file."""

    def __init__(
        self,
        graph,
        name,
        *,
        parameters=None,
        arguments=(),
        namespace=None,
        node=None,
        script=None,
        environment=None,
    ):
        self.name = node or name
        program = ["-m", f"vm_dynamics.ros.{name}"] if script is None else [str(script)]
        command = [sys.executable, *program, "--ros-args"]
        for key, value in (parameters or {}).items():
            command += ["-p", f"{key}:={_yaml(value)}"]
        if namespace:
            command += ["-r", f"__ns:={namespace}"]
        if node:
            command += ["-r", f"__node:={node}"]
        self.full_name = f"{namespace or ''}/{self.name}"
        self.log = graph.folder / f"{name}-{len(graph.processes)}.log"
        environment = {
            **os.environ,
            "ROS_DOMAIN_ID": str(graph.domain),
            **(environment or {}),
        }
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, *arguments], stdout=output, stderr=subprocess.STDOUT, env=environment
            )

    @property
    def output(self):
        return self.log.read_text(errors="replace")

    def stop(self, number=signal.SIGINT, patience=GRAPH_TIMEOUT):
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(patience)


def _yaml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_yaml, value))}]"
    return repr(value)


class Graph:
    """Processes and a client node in one domain."""

    def __init__(self, folder):
        compile_kernels()
        self.folder = folder
        self.domain = next(filter(unused, _domains))
        self.processes = []
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=self.domain)
        self.node = Node("client", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.diagnostics = {}
        self.node.create_subscription(DiagnosticArray, "/diagnostics", self._diagnosed, 50)

    def close(self):
        # Asked, not killed: one that is killed while it holds a lock in shared memory takes along,
        # in Fast DDS 2.14, a reader that closes later, which is this process.
        ask_to_end([process.process for process in self.processes], 0.5 * GRAPH_TIMEOUT)
        # the other way round, rclpy may free a wait set that the executor still looks at
        self.executor.remove_node(self.node)
        self.node.destroy_node()
        self.executor.shutdown()
        with suppress(Exception):
            rclpy.shutdown(context=self.context)

    def start(self, name, **options):
        """Start a node as a process."""
        process = Process(self, name, **options)
        self.processes.append(process)
        return process

    def spin(self, duration):
        """Handle messages for some time [s]."""
        end = time.monotonic() + duration
        while (left := end - time.monotonic()) > 0:
            self.executor.spin_once(timeout_sec=min(left, 0.05))

    def until(self, condition, what="condition", patience=GRAPH_TIMEOUT, each=lambda: None):
        """Handle messages, calling ``each`` in between, until a condition holds."""
        self._wait(condition, time.monotonic() + patience, each)
        if not condition():
            raise self._missed(f"no {what} after {patience} s")

    def _wait(self, condition, end, each=lambda: None):
        while not condition() and time.monotonic() <= end:
            each()
            self.executor.spin_once(timeout_sec=0.01)

    def _missed(self, what):
        logs = "\n".join(f"--- {p.name}\n{p.output}" for p in self.processes)
        return AssertionError(f"{what}\n{logs}")

    def collect(self, kind, topic, qos):
        """List that fills with the messages of a topic."""
        out = []
        self.node.create_subscription(kind, topic, out.append, qos)
        return out

    def describe(self, text, topic="robot_description"):
        """Publish a robot description, for those who come later too."""
        publisher = self.node.create_publisher(String, topic, LATCHED)
        publisher.publish(String(data=text))
        return publisher

    def joints(self, topic="joint_states"):
        """Publisher of joint states."""
        return self.node.create_publisher(JointState, topic, SENSOR)

    def now(self):
        return self.node.get_clock().now().to_msg()

    def _diagnosed(self, message):
        for status in message.status:
            values = {item.key: item.value for item in status.values}
            self.diagnostics[status.name] = (status.level, status.message, values)

    def values(self, process):
        """Values of the last diagnostics of a process."""
        return self.diagnostics.get(process.full_name, (b"", "", {}))[2]

    def call(self, kind, name, request, patience=GRAPH_TIMEOUT):
        """Call a service that may be asked twice."""
        try:
            return ask(self.node, kind, name, request, self._wait, patience)
        except ServiceError as error:
            raise self._missed(error) from error

    def send(self, kind, name, request):
        """Ask a service for something to which no answer is expected."""
        client = self.node.create_client(kind, name)
        self.until(client.service_is_ready, f"service {name}")
        client.call_async(request)

    def set_parameter(self, process, name, value):
        """Set a parameter; returns (successful, reason)."""
        message = Parameter(name, value=value).to_parameter_msg()
        assert isinstance(message, ParameterMessage)
        answer = self.call(
            SetParameters,
            f"{process.full_name}/set_parameters",
            SetParameters.Request(parameters=[message]),
        )
        return answer.results[0].successful, answer.results[0].reason

    def get_parameter(self, process, name):
        answer = self.call(
            GetParameters,
            f"{process.full_name}/get_parameters",
            GetParameters.Request(names=[name]),
        )
        return Parameter.from_parameter_msg(
            ParameterMessage(name=name, value=answer.values[0])
        ).value

    def state(self, process):
        """State of the life cycle."""
        return self.call(
            GetState, f"{process.full_name}/get_state", GetState.Request()
        ).current_state.label

    def transition(self, process, number):
        """Ask for a transition of the life cycle; False if it was refused."""
        before = self.state(process)
        request = ChangeState.Request()
        request.transition.id = number
        answer = self.call(ChangeState, f"{process.full_name}/change_state", request)
        # asked twice, as an answer was lost, the second one is refused
        return answer.success or self.state(process) != before


def joint_state(robot, q, qd=None, *, effort=None, stamp=None, names=None):
    """A joint state message."""
    out = JointState()
    if stamp is not None:
        out.header.stamp = stamp
    out.name = list(robot.joint_names if names is None else names)
    out.position = [float(x) for x in q]
    if qd is not None:
        out.velocity = [float(x) for x in qd]
    if effort is not None:
        out.effort = [float(x) for x in effort]
    return out
