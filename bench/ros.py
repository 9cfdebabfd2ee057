# SPDX-License-Identifier: Apache-2.0
"""Speed of the nodes on real DDS: separate processes, against a bare rclpy relay in the same run.

``python bench/ros.py`` prints the table; ``make bench`` puts it into results.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from report import Row, table

HERE = Path(__file__).resolve().parent
DOMAIN = "93"
os.environ["ROS_DOMAIN_ID"] = DOMAIN
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"

TITLE = "ROS 2 nodes, separate processes on Fast DDS, n = 7"
HEADER = ("what", "ours", "bare relay", "figure", "bar", "verdict")
ROUNDS = 5  # turns of both, so that they meet the same machine
TRIPS = 1500  # a turn
RATES = (500, 1000, 1500, 2000, 2500, 3000, 4000, 5000, 6000, 8000)  # [Hz]
RATE_SECONDS = 2.0
LOSS = 1e-3  # share of messages that counts as none lost
DYNAMICS_RATE = 1000  # [Hz] that it is offered
MEMORY_BAR = 300.0  # [MB]
START_BAR = 3.0  # [s]

NODES = ("relay", "dynamics_node", "observer_node", "compensator_node", "ccf_node")
CONTROL = {"require_enable": "false", "resume": "at_once", "gains.stiffness": "20.0"}


class Driver:
    """A node that sends joint states and counts what comes back."""

    def __init__(self) -> None:
        import rclpy
        from geometry_msgs.msg import TwistStamped
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.node import Node
        from sensor_msgs.msg import JointState
        from std_msgs.msg import String

        import vm_dynamics as vm
        from vm_dynamics.paths import robot_file
        from vm_dynamics.ros.node import LATCHED, SENSOR

        rclpy.init()
        self.node = Node("driver")
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.urdf = robot_file("satellite_arm7").read_text()
        self.robot = vm.load(self.urdf)
        self.description = self.node.create_publisher(String, "robot_description", LATCHED)
        self.description.publish(String(data=self.urdf))
        # a topic for each node, so that one does not wake while another is measured
        self._joints = {
            name: self.node.create_publisher(JointState, f"{name}/joint_states", SENSOR)
            for name in NODES
        }
        self.joints = self._joints[NODES[0]]
        self.velocity = self.node.create_publisher(TwistStamped, "locked_velocity", SENSOR)
        self.twist = TwistStamped()
        self.twist.header.frame_id = self.robot.root_link
        self.twist.twist.angular.z = 0.1
        self.message = JointState(
            name=list(self.robot.joint_names), position=[0.3] * 7, velocity=[0.1] * 7
        )
        self.count = 0
        self.subscriptions: list[Any] = []

    def turn_to(self, name: str, *topics: str) -> None:
        """Speak to a node, and count the messages of its topics and of no others."""
        from std_msgs.msg import Float64MultiArray

        self.joints = self._joints[name]
        for old in self.subscriptions:
            self.node.destroy_subscription(old)
        self.subscriptions = [
            self.node.create_subscription(Float64MultiArray, f"{name}/{topic}", self._heard, 100)
            for topic in topics
        ]

    def _heard(self, message: Any) -> None:
        if any(message.data):  # zeros are the compensator's watchdog, and answer nothing
            self.count += 1

    def send(self) -> None:
        self.message.header.stamp = self.node.get_clock().now().to_msg()
        self.joints.publish(self.message)

    def send_velocity(self) -> None:
        self.twist.header.stamp = self.node.get_clock().now().to_msg()
        self.velocity.publish(self.twist)

    def until(self, condition: Callable[[], bool], patience: float = 60.0) -> None:
        """Send now and then until a condition holds."""
        end = time.monotonic() + patience
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("a node of the benchmark does not answer")
            self.send_velocity()
            self.send()
            self.executor.spin_once(timeout_sec=0.02)

    def trips(self, number: int) -> list[float]:
        """Seconds of so many round trips, one after the other."""
        out = []
        self._greet()
        for k in range(number):
            if k % 10 == 0:
                self.send_velocity()
            before = self.count
            start = time.perf_counter()
            self.send()
            while self.count == before and time.perf_counter() - start < 1.0:
                self.executor.spin_once(timeout_sec=0.1)
            out.append(time.perf_counter() - start)
        return out

    def _greet(self) -> None:
        """A velocity that is there before the joint states: topics keep no order among them."""
        self.send_velocity()
        time.sleep(0.02)

    def drain(self) -> None:
        """Handle what is still on the way."""
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            self.executor.spin_once(timeout_sec=0.02)

    def flood(self, rate: float, seconds: float, answers: int = 1) -> float:
        """Share of joint states without answer at a rate [Hz]."""
        self.drain()
        self._greet()
        self.count = 0
        number = int(rate * seconds)
        start = time.perf_counter()
        for k in range(number):
            while time.perf_counter() < start + k / rate:
                self.executor.spin_once(timeout_sec=0.0)
            if k % max(1, int(rate / 50)) == 0:
                self.send_velocity()
            self.send()
        self.drain()
        return 1.0 - self.count / (answers * number)


@contextmanager
def process(name: str, parameters: dict[str, str] | None = None) -> Iterator[Any]:
    if name == "relay":
        command = [str(HERE / "ros_relay.py")]
    else:
        command = ["-m", f"vm_dynamics.ros.{name}"]
    arguments = [f"{k}:={v}" for k, v in (parameters or {}).items()]
    options = [x for a in arguments for x in ("-p", a)]
    options += ["-r", f"joint_states:={name}/joint_states"]
    child = subprocess.Popen(
        [sys.executable, *command, "--ros-args", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,  # a few lines, which fit the pipe
        env=os.environ,
    )
    try:
        yield child
    finally:
        child.terminate()
        child.wait(20)


def memory(child: Any) -> float:
    """Resident memory of a process [MB]."""
    status = Path(f"/proc/{child.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return float(line.split()[1]) / 1024.0


def measure() -> list[Row]:
    """All rows."""
    # the nodes start from a warm cache
    subprocess.run([sys.executable, "-m", "vm_dynamics.cli", "warmup"], check=True, stdout=-3)
    driver = Driver()
    return [*control_rows(driver), dynamics_row(driver), *start_rows(driver)]


def control_rows(driver: Driver) -> list[Row]:
    times: dict[str, list[float]] = {"relay": [], "compensator_node": []}
    with (
        process("relay"),
        process("compensator_node", CONTROL),
    ):
        for _ in range(ROUNDS):
            for name in times:
                driver.turn_to(name, "commands")
                before = driver.count
                driver.until(lambda b=before: driver.count > b + 5)
                driver.drain()
                times[name] += driver.trips(TRIPS)
        highest = {name: highest_rate(driver, name) for name in times}
    rows = []
    for label, share, bar in (("p50", 50.0, 1.25), ("p99", 99.0, 1.6)):
        ours, peer = (1e6 * np.percentile(times[n], share) for n in ("compensator_node", "relay"))
        cells = f"{ours:.0f} us", f"{peer:.0f} us"
        rows.append(Row(f"round trip, {label}", cells, ours / peer, bar))
    ours, peer = highest["compensator_node"], highest["relay"]
    cells = f"{ours:.0f} Hz", f"{peer:.0f} Hz"
    # the bar is a least: 0.8 of the relay's, shown as the relay's over ours
    rows.append(Row("highest rate without loss, relay / ours", cells, peer / ours, 1.0 / 0.8))
    return rows


def highest_rate(driver: Driver, name: str) -> float:
    """The highest of RATES that a node follows without loss, by the better of two tries."""
    driver.turn_to(name, "commands")
    before = driver.count
    driver.until(lambda: driver.count > before + 5)
    best = float(RATES[0])
    for rate in RATES:
        if min(driver.flood(rate, RATE_SECONDS) for _ in range(2)) > LOSS:
            break
        best = float(rate)
    return best


def dynamics_row(driver: Driver) -> Row:
    from vm_dynamics.ros.dynamics_node import MATRICES

    with process("dynamics_node"):
        driver.count = 0
        driver.turn_to("dynamics_node", *MATRICES)
        driver.until(lambda: driver.count > 50)
        driver.drain()
        driver.count = 0
        start = time.perf_counter()
        lost = driver.flood(DYNAMICS_RATE, 3.0, len(MATRICES))
        seconds = time.perf_counter() - start
    rate = DYNAMICS_RATE * (1.0 - lost) * 3.0 / seconds
    cells = f"{rate:.0f} Hz", "-"
    return Row("dynamics_node, all matrices, 500 Hz / ours", cells, 500.0 / rate, 1.0)


def start_rows(driver: Driver) -> list[Row]:
    """Until the node says that it is active, with its robot: to ask would time the discovery."""
    text = json.dumps(driver.urdf)  # the YAML of a string
    rows = []
    for name in NODES[1:]:
        driver.turn_to(name)
        start = time.perf_counter()
        with process(name, {"robot_description": text}) as child:
            while b"active" not in child.stderr.readline():
                if child.poll() is not None:
                    raise RuntimeError(f"{name} does not become active")
            seconds = time.perf_counter() - start
            for _ in range(100):
                driver.send()
                driver.executor.spin_once(timeout_sec=0.01)
            used = memory(child)
        cells = f"{seconds:.2f} s", "-"
        rows.append(Row(f"{name}, start to active, with its robot [s]", cells, seconds, START_BAR))
        rows.append(Row(f"{name}, memory [MB]", (f"{used:.0f} MB", "-"), used, MEMORY_BAR, 0))
    return rows


if __name__ == "__main__":
    print(table(HEADER, [row.line() for row in measure()]))
