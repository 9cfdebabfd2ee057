# SPDX-License-Identifier: Apache-2.0
"""A tumbling satellite holds and moves its arm, by plain PD and with both compensations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vm_dynamics.demo.log import Log
from vm_dynamics.demo.scenario import (
    DEG,
    Bar,
    Scenario,
    there_and_back,
    way_within_limits,
    within_limits,
)
from vm_dynamics.lie.se3 import Array
from vm_dynamics.ros.client import Client
from vm_dynamics.simulation import State

# A bent arm: a straight one along the axis hardly feels the tumbling.
BENT = (1.3, -0.7, 1.2, 1.3, -0.5, 1.0, -1.0)
TUMBLING = np.array([0.0, 0.0, 0.0, 10.0, 1.14, 0.0]) * DEG  # of [Mishra2022] section VI
ARM_MOVE = 0.3  # [rad]
JUDGED_FROM = 20.0  # [s], from when on the observer is judged
HELD_SHARE = 0.65  # part of each law's time in which the arm is held
# What a compensation has beside plain PD: the joints rub as the URDF says.
FEEDBACK = {"friction": True, "gains.integral_time": 2.0}
LAW_NAMES = ("plain PD", "tau_hat_1", "tau_hat_2")


class Tumbling(Scenario):
    """Scenario: a tumbling satellite holds and moves its arm under three laws in turn."""

    NAME = "tumbling"
    TITLE = "a satellite tumbles at 10 deg/s; its arm is held, then moved, under three laws"
    DURATION = 60.0
    MIN_DURATION = 45.0

    @property
    def start(self) -> State:
        """Tumbling, the arm bent and at rest."""
        q = within_limits(self.robot, BENT)
        return State(np.eye(4), q, TUMBLING, np.zeros(self.robot.n))

    @property
    def _part(self) -> float:
        """Time of each law [s]."""
        return self.duration / len(LAW_NAMES)

    def law(self, t: float) -> int:
        """Which law rules at a time."""
        return min(int(t / self._part), len(LAW_NAMES) - 1)

    def target(self, t: float) -> tuple[Array, Array, Array]:
        """Held, then there and back, once under each law."""
        begin = self.law(t) * self._part
        x, v, a = there_and_back(t, begin + HELD_SHARE * self._part, begin + self._part)
        q = self.start.q
        inward = np.where(q > 0.0, -ARM_MOVE, ARM_MOVE)
        way = way_within_limits(self.robot, q, inward, 0.5 * (1.0 - HELD_SHARE) * self._part)
        return q + x * way, v * way, a * way

    def compensator_parameters(self) -> dict[str, Any]:
        """It begins without compensation."""
        return {"law": 0, **self.gains(20.0)}

    def drive(self, t: float, client: Client, log: Log) -> None:
        """Another law after each third."""
        if len(log.events) <= self.law(t):
            settings = {"law": self.law(t), **FEEDBACK} if self.law(t) > 0 else {}
            for name, value in settings.items():
                client.set_parameter("compensator_node", name, value)
            log.events.append((t, LAW_NAMES[self.law(t)]))
        super().drive(t, client, log)

    def steady(self, log: Log, law: int, limits: Mapping[str, float]) -> list[Bar]:
        """RMS error of the worst joint at the end of a law's hold."""
        end = (law + HELD_SHARE) * self._part
        what, begin = f"steady joint error, {LAW_NAMES[law]}", end - 0.4 * HELD_SHARE * self._part
        return [
            bar if np.isinf(bar.limit) else replace(bar, what=f"{what} (bar: a tenth of it)")
            for bar in self.joint_bars(what, log, begin, end, limits)
        ]

    def moving(self, log: Log, law: int) -> list[Bar]:
        """The same while the arm moves."""
        what, begin = (
            f"joint error while moving, {LAW_NAMES[law]}",
            (law + HELD_SHARE) * self._part,
        )
        return self.joint_bars(what, log, begin, (law + 1) * self._part, {})

    def bars(self, log: Log) -> list[Bar]:
        """The observer after its first seconds, and what the compensation is worth."""
        linear, angular = log.velocity_rms(JUDGED_FROM)
        plain = self.steady(log, 0, {})
        tenth = {bar.unit: 0.1 * bar.value for bar in plain if bar.unit == "deg"}
        return [
            Bar(
                f"angular velocity error, RMS after {JUDGED_FROM:g} s",
                angular / DEG,
                0.25,
                "deg/s",
            ),
            Bar(f"linear velocity error, RMS after {JUDGED_FROM:g} s", 1e3 * linear, 4.0, "mm/s"),
            *plain,
            *self.steady(log, 1, tenth),
            *self.steady(log, 2, tenth),
            *(bar for law in range(3) for bar in self.moving(log, law)),
        ]
