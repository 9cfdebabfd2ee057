# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario: starts the processes, shows a live line, then plots, records and judges."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from vm_dynamics.demo import SCENARIOS
from vm_dynamics.demo.drawing import draw
from vm_dynamics.demo.log import Log, Map
from vm_dynamics.demo.scenario import DEG, Bar, Scenario
from vm_dynamics.demo.supervisor import Supervisor
from vm_dynamics.errors import VmDynamicsError
from vm_dynamics.ros.client import Client, alone, free_domain
from vm_dynamics.ros.process import ending_signals
from vm_dynamics.ros.recording import Recording, fixed_frames, moving_frames

TARGET_PERIOD = 0.01  # [s] of the wall's clock between two targets
LIVE_LINE_PERIOD = 0.2  # [s] between two live lines on a terminal
LOGGED_LINE_PERIOD = 5.0  # and elsewhere
RECORDED_POSE_PERIOD = 0.05  # [s] of simulated time between frames of links in the recording
COMPILE_TIMEOUT = 600.0  # [s] that a first start may take
FIRST_TICK_TIMEOUT = 60.0  # [s] from the start of the simulation to its first tick
MIN_REAL_TIME_FACTOR = 0.2  # below it the machine cannot do it
GRACE = 60.0  # [s]


class TooSlowError(VmDynamicsError):
    """Something took longer than it may."""


def run(
    name: str, *, robot: str | None, duration: float | None, seed: int, output: str, headless: bool
) -> int:
    """Run a scenario; returns 0 if it met its bars, 1 if not.

    Args:
        name: one of ``SCENARIOS``.
        robot: another robot than the scenario's own.
        duration: another duration [s] of simulated time.
        seed: of the sensors' noise.
        output: folder that gets a folder for the scenario.
        headless: whether to open no window even if there is a screen.
    """
    scenario = SCENARIOS[name](robot, duration, seed)
    scenario.target(0.0)  # plans what is to be planned, or says why not, before anything starts
    folder = Path(output).expanduser() / name
    _clear(folder)
    viewer = not headless and bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    print(f"{name}: {scenario.TITLE}")
    print(f"robot {scenario.robot!r}, {scenario.duration:g} s, seed {seed}")
    log = Log()
    began = time.monotonic()
    domain = free_domain()
    os.environ.update(alone({}, domain))
    with ExitStack() as stack:
        recording = stack.enter_context(closing(Recording(folder / "recording")))
        client = stack.enter_context(closing(Client("demo", domain=domain, recording=recording)))
        stack.enter_context(_signals(client))
        supervisor = stack.enter_context(closing(Supervisor(folder / "logs", dict(os.environ))))
        _Run(scenario, client, supervisor, recording, log).go(viewer)
    bars = scenario.bars(log)
    pictures = draw(scenario, log, folder)
    text = table(bars)
    title = f"{name}: {scenario.robot.name}, {scenario.duration:g} s, seed {seed}"
    (folder / "summary.txt").write_text(f"{title}\n\n{text}\n")
    print(f"\n{text}\n")
    print(f"written to {folder}: {', '.join([*pictures, 'recording', 'summary.txt', 'logs'])}")
    met = all(bar.met for bar in bars)
    spent = time.monotonic() - began
    print(f"{'all bars met' if met else 'A BAR WAS NOT MET'}, {spent:.0f} s in all")
    return 0 if met else 1


def table(bars: list[Bar]) -> str:
    """What was reached, as text."""
    width = max(len(bar.what) for bar in bars)
    lines = [f"{'':<{width}}  {'reached':>10} {'bar':>10}"]
    for bar in bars:
        limit = "" if np.isinf(bar.limit) else f"{bar.limit:.3g}"
        sign = "" if np.isinf(bar.limit) else ("  met" if bar.met else "  NOT MET")
        lines.append(
            f"{bar.what:<{width}}  {bar.value:>10.3g} {limit:>10} {bar.unit:<6}{sign}".rstrip()
        )
    return "\n".join(lines)


class _Run:
    """A scenario on its way."""

    def __init__(
        self,
        scenario: Scenario,
        client: Client,
        supervisor: Supervisor,
        recording: Recording,
        log: Log,
    ) -> None:
        self.scenario, self.client, self.supervisor = scenario, client, supervisor
        self.recording, self.log = recording, log
        self._last_line = 0.0
        self._maps: list[float] = []
        self._next_frames = 0
        client.on_odometry("ground_truth/odom", log.truth.hear)
        client.on_odometry("observer_node/odom", log.estimate.hear)
        client.on_joints("joint_states", scenario.robot.joint_names, self._on_joints)
        client.on_map("ccf_node/map", self._on_map)

    def go(self, viewer: bool) -> None:
        """Start all, drive until the end."""
        parameters = self.scenario.parameters(viewer)
        simulation = parameters.pop("sim_node")
        # before the simulation, which does not wait for nodes that compile
        self.client.publish_description(self.scenario.urdf)
        for node, values in parameters.items():
            self.supervisor.start(node, values)
        self._wait_ready(list(parameters))
        # last, so that its first second is not lost on the others
        self.supervisor.start("sim_node", simulation)
        began = time.monotonic()
        most = GRACE + self.scenario.duration / MIN_REAL_TIME_FACTOR
        while self.time < self.scenario.duration:
            self.client.spin(TARGET_PERIOD)
            self.supervisor.check()
            spent = time.monotonic() - began
            if spent > FIRST_TICK_TIMEOUT and not self.client.nanos:
                raise TooSlowError(f"no tick of the simulation after {FIRST_TICK_TIMEOUT:g} s")
            if spent > most:
                raise TooSlowError(
                    f"{self.time:.1f} s of simulated time took {spent:.0f} s: the machine is too "
                    "slow, or busy"
                )
            if self.client.nanos:
                self.scenario.drive(self.time, self.client, self.log)
                self._show()
        self._say(self._line(), last=True)

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return 1e-9 * self.client.nanos

    def _wait_ready(self, nodes: list[str]) -> None:
        """Wait until all nodes are active and have the robot."""
        began = time.monotonic()
        waiting = nodes
        while waiting:
            self.client.spin(0.1)
            self.supervisor.check()
            heard = {node: self.client.conditions.get(f"/{node}", {}) for node in nodes}
            waiting = [
                node
                for node, values in heard.items()
                if values.get("state") != "active" or "robot" not in values
            ]
            spent = time.monotonic() - began
            if spent > COMPILE_TIMEOUT:
                raise TooSlowError(f"{', '.join(waiting)} not ready after {COMPILE_TIMEOUT:g} s")
            if spent > 3.0 and waiting:
                self._say(
                    f"starting {', '.join(waiting)}, {spent:.0f} s (the first start on a machine "
                    "compiles the kernels)"
                )
        self._say("", last=True)

    def _on_joints(self, nanos: int, q: Any, qd: Any, effort: Any) -> None:
        self.log.joints.hear(nanos, q, qd)
        true = self.log.truth.last
        if nanos >= self._next_frames and true is not None:
            robot = self.scenario.robot
            if not self._next_frames:
                self.recording.write_frames(nanos, fixed_frames(robot), fixed=True)
            self.recording.write_frames(nanos, moving_frames(robot, q, true[0]))
            self._next_frames = nanos + int(1e9 * RECORDED_POSE_PERIOD)

    def _on_map(self, columns: Any, rows: Any, values: Any) -> None:
        joints = self.client.conditions.get("/ccf_node", {}).get("joints", "two joints")
        self.log.curvature = Map(joints, columns, rows, values)
        self._maps.append(time.monotonic())

    # -- the live line ----------------------------------------------------------------------------

    def _line(self) -> str:
        error = self.log.velocity_error_now
        parts = [f"t {self.time:5.1f} s"]
        if error is not None:
            parts.append(
                f"velocity error {np.linalg.norm(error[3:]) / DEG:6.3f} deg/s "
                f"{1e3 * np.linalg.norm(error[:3]):6.2f} mm/s"
            )
        parts.append(self.scenario.error_now(self.log))
        recent = [t for t in self._maps if t > time.monotonic() - 5.0]
        parts.append(f"maps {len(recent) / 5.0:3.1f} Hz")
        if self.log.events:
            parts.append(self.log.events[-1][1])
        return " | ".join(part for part in parts if part)

    def _show(self) -> None:
        if time.monotonic() >= self._last_line + (
            LIVE_LINE_PERIOD if sys.stdout.isatty() else LOGGED_LINE_PERIOD
        ):
            self._say(self._line())

    def _say(self, line: str, last: bool = False) -> None:
        """A line that replaces itself on a terminal."""
        if not sys.stdout.isatty():
            if line and (last or time.monotonic() >= self._last_line + LOGGED_LINE_PERIOD):
                print(line, flush=True)
                self._last_line = time.monotonic()
            return
        columns = shutil.get_terminal_size().columns - 1
        print(f"\r{line[:columns]:<{columns}}", end="\n" if last and line else "", flush=True)
        self._last_line = time.monotonic()


def _clear(folder: Path) -> None:
    """Make a folder for results and logs, without the recording of an earlier run."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "recording", ignore_errors=True)


@contextmanager
def _signals(client: Client) -> Iterator[None]:
    """Let signals that ask for the end stop the client's waiting; elsewhere they wait for that."""

    def handle(number: int, frame: FrameType | None) -> None:
        client.interrupted = True

    numbers = ending_signals()
    before = [signal.signal(number, handle) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
