# SPDX-License-Identifier: Apache-2.0
"""Starts nodes as processes and ends them, whatever happens."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from vm_dynamics.errors import VmDynamicsError

NODE_END_TIMEOUT = 5.0  # [s] for a node to end, before it is asked once more
# Who hears whom, as the launch files have it.
REMAPPINGS = {
    "dynamics_node": {"base_twist": "observer_node/twist"},
    "observer_node": {"base_wrench": "thruster_wrench"},
    "identifier_node": {"base_wrench": "thruster_wrench"},
    "compensator_node": {
        "locked_velocity": "observer_node/locked_velocity",
        "locked_velocity_with_covariance": "observer_node/locked_velocity_with_covariance",
        "estimate_state": "observer_node/estimate_state",
        "contact": "observer_node/contact",
        "odom": "observer_node/odom",
    },
    "sim_node": {
        "commands": "compensator_node/commands",
        "thrusts": "compensator_node/thrusts",
        "torques": "compensator_node/torques",
        "odom": "observer_node/odom",
    },
}


class NodeDiedError(VmDynamicsError):
    """A node ended that should not have."""


class Supervisor:
    """Processes that end when it is closed."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        """None yet.

        Args:
            folder: for parameters and logs.
            environment: of the processes.
        """
        self._folder, self._environment = folder, environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, node: str, parameters: dict[str, Any]) -> None:
        """Start a node with its parameters; its output goes to a file."""
        file = self._folder / f"{node}.yaml"
        file.write_text(yaml.safe_dump({node: {"ros__parameters": parameters}}))
        command = [sys.executable, "-m", f"vm_dynamics.ros.{node}", "--ros-args"]
        command += ["--params-file", str(file)]
        for name, topic in REMAPPINGS.get(node, {}).items():
            command += ["-r", f"{name}:={topic}"]
        with self._log(node).open("wb") as output:
            self._processes[node] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                # a Ctrl-C of the terminal is for the supervisor, which ends them in order
                start_new_session=True,
            )

    def check(self) -> None:
        """Look whether all are alive.

        Raises:
            NodeDiedError: one is not; the message has the end of its log.
        """
        for node, process in self._processes.items():
            code = process.poll()
            if code is not None:
                lines = self._log(node).read_text(errors="replace").splitlines()[-12:]
                raise NodeDiedError(f"{node} ended with exit code {code}:\n" + "\n".join(lines))

    def close(self) -> None:
        """End all processes."""
        ask_to_end(self._processes.values(), NODE_END_TIMEOUT)

    def _log(self, node: str) -> Path:
        return self._folder / f"{node}.log"


def ask_to_end(processes: Iterable[subprocess.Popen[bytes]], patience: float) -> None:
    """End processes: ask, ask again, then insist.

    Python loses a signal now and then in its first 60 ms (one in 200), so one that was just
    started is asked twice. A process that is killed may take others along, which share memory
    with it.

    Args:
        processes: those that still run are asked.
        patience: for all of them to end, each time [s].
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        running = [process for process in processes if process.poll() is None]
        for process in running:
            with suppress(ProcessLookupError):
                process.send_signal(number)
        end = time.monotonic() + patience
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
