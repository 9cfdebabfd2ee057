# SPDX-License-Identifier: Apache-2.0
"""A tumbling satellite holds and moves its arm, by plain PD and with both compensations."""

from __future__ import annotations

from typing import Any

import numpy as np

from vm_dynamics.demo.log import Log
from vm_dynamics.demo.scenario import Bar, Scenario, there_and_back, within_limits
from vm_dynamics.lie.se3 import Array
from vm_dynamics.ros.client import Client
from vm_dynamics.simulation import State

DEG = np.pi / 180.0
# A bent arm: a straight one along the axis hardly feels the tumbling.
BENT = (1.3, -0.7, 1.2, 1.3, -0.5, 1.0, -1.0)
TUMBLING = np.array([0.0, 0.0, 0.0, 10.0, 1.14, 0.0]) * DEG  # of [Mishra2022] section VI
MOVED = 0.3  # [rad]
SETTLED = 20.0  # [s], from when on the observer is judged
HOLD = 0.65  # part of each law's time in which the arm is held
LAWS = ("plain PD", "tau_hat_1", "tau_hat_2")


class Tumbling(Scenario):
    """See the module."""

    NAME = "tumbling"
    TITLE = "a satellite tumbles at 10 deg/s; its arm is held, then moved, under three laws"
    DURATION = 60.0
    SHORTEST = 45.0

    @property
    def start(self) -> State:
        """Tumbling, the arm bent and at rest."""
        q = within_limits(self.robot, np.resize(BENT, self.robot.n))
        return State(np.eye(4), q, TUMBLING, np.zeros(self.robot.n))

    @property
    def _part(self) -> float:
        """Time of each law [s]."""
        return self.duration / len(LAWS)

    def law(self, t: float) -> int:
        """Which law rules at a time."""
        return min(int(t / self._part), len(LAWS) - 1)

    def target(self, t: float) -> tuple[Array, Array, Array]:
        """Held, then there and back, once under each law."""
        begin = self.law(t) * self._part
        x, v, a = there_and_back(t, begin + HOLD * self._part, begin + self._part)
        way = np.where(self.start.q > 0.0, -MOVED, MOVED)  # away from the limits
        return self.start.q + x * way, v * way, a * way

    def sim_parameters(self) -> dict[str, Any]:
        """A late pose, and drives that compensate their own friction, as torque sensors allow."""
        return {"friction": False}

    def compensator_parameters(self) -> dict[str, Any]:
        """It begins without compensation."""
        return {"law": 0, **self.gains(20.0)}

    def drive(self, t: float, client: Client, log: Log) -> None:
        """Another law after each third."""
        if len(log.events) <= self.law(t):
            if self.law(t) > 0:
                client.set_parameter("compensator_node", "law", self.law(t))
            log.events.append((t, LAWS[self.law(t)]))
        super().drive(t, client, log)

    def steady(self, log: Log, law: int) -> float:
        """RMS error of the worst joint at the end of a law's hold [rad]."""
        end = (law + HOLD) * self._part
        return self.joint_rms(log, end - 0.4 * HOLD * self._part, end)

    def moving(self, log: Log, law: int) -> float:
        """The same while the arm moves [rad]."""
        return self.joint_rms(log, (law + HOLD) * self._part, (law + 1) * self._part)

    def bars(self, log: Log) -> list[Bar]:
        """The observer after its first seconds, and what the compensation is worth."""
        linear, angular = log.velocity_rms(SETTLED)
        plain, first, second = (self.steady(log, law) for law in range(3))
        tenth = 0.1 * plain / DEG
        return [
            Bar(f"angular velocity error, RMS after {SETTLED:g} s", angular / DEG, 0.25, "deg/s"),
            Bar(f"linear velocity error, RMS after {SETTLED:g} s", 1e3 * linear, 4.0, "mm/s"),
            Bar("steady joint error, plain PD", plain / DEG, np.inf, "deg"),
            Bar("steady joint error, tau_hat_1 (bar: a tenth of it)", first / DEG, tenth, "deg"),
            Bar("steady joint error, tau_hat_2 (bar: a tenth of it)", second / DEG, tenth, "deg"),
            Bar("joint error while moving, plain PD", self.moving(log, 0) / DEG, np.inf, "deg"),
            Bar("joint error while moving, tau_hat_1", self.moving(log, 1) / DEG, np.inf, "deg"),
            Bar("joint error while moving, tau_hat_2", self.moving(log, 2) / DEG, np.inf, "deg"),
        ]
