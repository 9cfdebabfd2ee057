# SPDX-License-Identifier: Apache-2.0
"""What a node reports on /diagnostics: rates and ages of inputs, cycle times, what it dropped."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
LOG_PERIOD = 2.0  # [s] between log lines of one kind of trouble


@dataclass
class Input:
    """A topic that comes in.

    Attributes:
        count: messages since the last report.
        last: when the last one came, steady clock [s].
    """

    count: int = 0
    last: float = -1.0


class Health:
    """Counts and times of a node.

    Attributes:
        counts: everything that went wrong, by kind, since the node started.
    """

    def __init__(self, node: Node) -> None:
        """Report for a node."""
        self._node = node
        self._lock = threading.Lock()  # a watchdog reports from a thread of its own
        self.counts: dict[str, int] = {}
        self._inputs: dict[str, Input] = {}
        self._logged: dict[str, float] = {}
        self._since = time.monotonic()
        self._cycles = 0
        self._all_cycles = 0
        self._busy = 0.0
        self._longest = 0.0
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", 10)

    def destroy(self) -> None:
        """Leave nothing running."""
        self._node.destroy_publisher(self._publisher)

    def heard(self, topic: str) -> None:
        """Count a message of a topic."""
        entry = self._inputs.get(topic)
        if entry is None:
            entry = self._inputs[topic] = Input()
        entry.count += 1
        entry.last = time.monotonic()

    def age(self, topic: str) -> float:
        """Seconds since the last message of a topic, infinite before the first."""
        entry = self._inputs.get(topic)
        return float("inf") if entry is None else time.monotonic() - entry.last

    def trouble(self, kind: str, message: str) -> None:
        """Count something wrong, and say so, but not too often."""
        with self._lock:
            self.counts = {**self.counts, kind: self.counts.get(kind, 0) + 1}
            now = time.monotonic()
            told = now - self._logged.get(kind, -LOG_PERIOD) < LOG_PERIOD
            if not told:
                self._logged[kind] = now
        if not told:
            self._node.get_logger().warning(f"{message} (so far {self.counts[kind]})")

    def cycle(self, start: float) -> None:
        """Count a cycle that began at ``time.perf_counter()`` = start."""
        spent = time.perf_counter() - start
        self._cycles += 1
        self._busy += spent
        self._longest = max(self._longest, spent)

    def report(
        self, state: str, level: bytes, message: str, extra: dict[str, str], stamp: Any
    ) -> None:
        """Publish, and begin to count anew.

        Args:
            state: of the life cycle.
            level: OK, WARN or ERROR.
            message: one line for the operator.
            extra: what the node itself has to say.
            stamp: time of the report.
        """
        now = time.monotonic()
        span = max(now - self._since, 1e-9)
        values = {"state": state}
        for topic, entry in self._inputs.items():
            values[f"{topic} rate [Hz]"] = f"{entry.count / span:.1f}"
            values[f"{topic} age [s]"] = f"{now - entry.last:.3f}"
            entry.count = 0
        self._all_cycles += self._cycles
        values["cycles"] = str(self._all_cycles)
        values["cycle rate [Hz]"] = f"{self._cycles / span:.1f}"
        mean = self._busy / self._cycles if self._cycles else 0.0
        values["cycle time mean [us]"] = f"{1e6 * mean:.0f}"
        values["cycle time max [us]"] = f"{1e6 * self._longest:.0f}"
        values.update({f"count: {kind}": str(n) for kind, n in sorted(self.counts.items())})
        values.update(extra)
        status = DiagnosticStatus(
            level=level,
            name=self._node.get_fully_qualified_name(),
            message=message,
            hardware_id="vm_dynamics",
            values=[KeyValue(key=key, value=value) for key, value in values.items()],
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = stamp
        self._publisher.publish(array)
        self._since, self._cycles, self._busy, self._longest = now, 0, 0.0, 0.0
