# SPDX-License-Identifier: Apache-2.0
"""The tool of a free-floating satellite goes its way although a joint's motor fails on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from vm_dynamics.demo.log import Log, together, turned
from vm_dynamics.demo.scenario import DEG, Bar, Scenario, smooth, within_limits
from vm_dynamics.lie.se3 import Array
from vm_dynamics.ros.client import Client
from vm_dynamics.simulation import State

ARM_START = (-0.3, -1.2, 0.6, -1.2, -0.3, 1.0, -0.1)
TOOL_WAY = np.array([0.21, -0.07, 0.2])  # [m], of the tool, in the world
REST_BEFORE, REST_AFTER = 4.0, 10.0  # [s] at rest before and after
FAILURE_PHASE = 0.4  # part of the way's time
REPORT_DELAY = 0.3  # [s] until the controller knows


class Failure(Scenario):
    """Scenario: the tool of a satellite goes its way though a joint's motor fails."""

    NAME = "failure"
    TITLE = "a joint's motor fails while the tool moves; the base shall hardly turn"
    DURATION = 45.0
    MIN_DURATION = 30.0

    @property
    def start(self) -> State:
        """At rest."""
        return State.at_rest(self.robot, within_limits(self.robot, ARM_START))

    @property
    def failing(self) -> str:
        """The joint that fails: in the middle of the arm."""
        return self.robot.joint_names[self.robot.n // 2]

    @property
    def fails_at(self) -> float:
        """When [s]."""
        return REST_BEFORE + FAILURE_PHASE * (self.duration - REST_BEFORE - REST_AFTER)

    def tool(self, t: float) -> Array:
        """Where the tool shall be, in the world, shape (4, 4)."""
        out = self.robot.link_pose(self.start.q, self.robot.tip_link)
        out[:3, 3] += smooth(t, REST_BEFORE, self.duration - REST_AFTER)[0] * TOOL_WAY
        return out

    def compensator_parameters(self) -> dict[str, Any]:
        """Follow the tool, keep the base still."""
        return {"controller": "reaction", "base_weight": 0.5}

    def drive(self, t: float, client: Client, log: Log) -> None:
        """The motor fails; a little later the controller is told."""
        happened = len(log.events)
        if happened == 0 and t >= self.fails_at:
            client.set_parameter("sim_node", "failed_joints", [self.failing])
            log.events.append((t, f"{self.failing} fails"))
        elif happened == 1 and t >= self.fails_at + REPORT_DELAY:
            client.set_parameter("compensator_node", "failed_joints", [self.failing])
            log.events.append((t, "controller told"))
        client.publish_pose("tool_target", self.tool(t))

    def error_now(self, log: Log) -> str:
        """How far the tool is off, for the live line."""
        nanos = log.truth.newest
        base, joints = log.truth.at(nanos), log.joints.at(nanos)
        if base is None or joints is None:
            return ""
        place = base[0] @ self.robot.link_pose(joints[0], self.robot.tip_link)
        off = np.linalg.norm(place[:3, 3] - self.tool(1e-9 * nanos)[:3, 3])
        return f"tool error {1e3 * off:6.2f} mm"

    def tool_errors(self, log: Log) -> tuple[Array, Array]:
        """Times and distances of the tool from where it shall be, shape (N,) each [s], [m]."""
        truth, joints = together(log.truth.all, log.joints.all)
        t, tip = truth.t, self.robot.tip_link
        places = [
            (g @ self.robot.link_pose(q, tip))[:3, 3]
            for g, q in zip(truth.first, joints.first, strict=True)
        ]
        wanted = np.array([self.tool(x)[:3, 3] for x in t])
        return t, np.linalg.norm(np.array(places) - wanted, axis=1)

    def bars(self, log: Log) -> list[Bar]:
        """The tool arrives, the base has hardly turned."""
        t, off = self.tool_errors(log)
        late = off[t >= self.duration - 3.0]
        after = off[t >= self.fails_at]
        g = log.truth.all.first
        turn = max(turned(g[0], pose) for pose in g)
        linear, angular = log.velocity_rms(REST_BEFORE)
        return [
            Bar(
                "tool off its goal, last 3 s, RMS",
                1e3 * float(np.sqrt((late**2).mean())),
                10.0,
                "mm",
            ),
            Bar(
                "tool off its way after the failure, at most", 1e3 * float(after.max()), 50.0, "mm"
            ),
            Bar("base turned, at most", turn / DEG, 2.0, "deg"),
            Bar("angular velocity error, RMS", angular / DEG, 0.25, "deg/s"),
            Bar("linear velocity error, RMS", 1e3 * linear, 4.0, "mm/s"),
        ]
