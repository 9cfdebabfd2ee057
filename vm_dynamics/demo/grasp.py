# SPDX-License-Identifier: Apache-2.0
"""A tumbling satellite grasps a body that nobody knows, learns what it is, and goes on with it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from vm_dynamics.demo.log import Log
from vm_dynamics.demo.scenario import DEG, Bar, Scenario, within_limits
from vm_dynamics.demo.tumbling import BENT, TUMBLING
from vm_dynamics.identification import ExcitingMotion, exciting_motion
from vm_dynamics.lie.se3 import Array
from vm_dynamics.ros.client import Client
from vm_dynamics.simulation import State

MASS = 60.0  # [kg]
COM = (0.1, -0.05, 0.3)  # [m]
INERTIA = (3.0, 0.2, -0.1, 3.5, 0.15, 2.5)  # [kg m^2]
GRASPED_AT, MOVED_FOR, PAUSE = 10.0, 18.0, 3.0  # [s]
RETRY = 2.0  # [s] until the payload is asked for again, if that was refused
HEAVIEST = 200.0  # [kg] that the arm's motion leaves effort for
STIFFNESS = 200.0  # [N m/rad]; an integral would shake an arm whose load is unknown
UNHURRIED = 0.9  # part of the motion that is proposed; control needs room too
SETTLED = 3.0  # [s] of a motion after which it is judged
ENCODER_NOISE = 1e-4  # [rad]: exact positions would tell everything at once


class Grasp(Scenario):
    """Scenario: an unknown body is grasped, noticed, learnt and handed to all nodes."""

    NAME = "grasp"
    TITLE = "a tumbling satellite grasps 60 kg that nobody knows of, and learns what it is"
    DURATION = 60.0
    MIN_DURATION = 55.0

    def __init__(self, robot: str | None, duration: float | None, seed: int) -> None:
        """Nothing found yet."""
        super().__init__(robot, duration, seed)
        self._next_try = self.moves_at[1] - 0.5 * PAUSE
        self.found: list[tuple[float, float]] = []  # times [s] and masses [kg]
        self._listens = False

    @property
    def start(self) -> State:
        """Tumbling, the arm bent and at rest."""
        q = within_limits(self.robot, BENT)
        return State(np.eye(4), q, TUMBLING, np.zeros(self.robot.n))

    @cached_property
    def motion(self) -> ExcitingMotion:
        """What the arm does to learn what it holds."""
        proposal = exciting_motion(
            self.robot,
            self.robot.tip_link,
            duration=MOVED_FOR,
            heaviest=HEAVIEST,
            start=self.start.q,
            candidates=8,
        )
        return replace(proposal, amplitudes=UNHURRIED * proposal.amplitudes)

    @property
    def moves_at(self) -> tuple[float, float]:
        """When the motion begins, with the body unknown and known [s]."""
        first = GRASPED_AT + PAUSE
        return first, first + MOVED_FOR + PAUSE

    def target(self, t: float) -> tuple[Array, Array, Array]:
        """The same motion twice."""
        first, second = self.moves_at
        return self.motion(t - (second if t >= second else first))

    def sim_parameters(self) -> dict[str, Any]:
        """Encoders that are not exact."""
        return {"joint_position_deviation": ENCODER_NOISE}

    def compensator_parameters(self) -> dict[str, Any]:
        """Compensation from the start on."""
        return {"law": 2, "friction": True, "gains.stiffness": STIFFNESS}

    def parameters(self, viewer: bool) -> dict[str, dict[str, Any]]:
        """With somebody who learns."""
        out = super().parameters(viewer)
        shared = {"use_sim_time": True, "gravity": list(self.GRAVITY), "rate": 5.0}
        return {"identifier_node": shared, **out}

    @property
    def _body(self) -> dict[str, Any]:
        """Parameters of the simulation."""
        return {
            "grasp.link": self.robot.tip_link,
            "grasp.mass": MASS,
            "grasp.com": list(COM),
            "grasp.inertia": list(INERTIA),
        }

    def drive(self, t: float, client: Client, log: Log) -> None:
        """Grasp, notice, learn, hand over."""
        if not self._listens:
            self._listens = True
            client.on_array(
                "identifier_node/payload",
                lambda x: self.found.append((1e-9 * client.nanos, float(x[0]))),
            )
        happened = [name for _, name in log.events]
        if "grasped" not in happened and t >= GRASPED_AT:
            client.set_parameters("sim_node", self._body)
            log.events.append((t, "grasped"))
        estimate = client.conditions.get("/observer_node", {}).get("estimate")
        if happened == ["grasped"] and estimate == "inconsistent":
            client.trigger("identifier_node/reset")  # what it learnt before counts no more
            log.events.append((t, "noticed"))
        if "applied" not in happened and t >= self._next_try:
            self._next_try += RETRY
            is_done, words = client.trigger("identifier_node/apply")
            log.events.append((t, "applied" if is_done else words))
        super().drive(t, client, log)

    def bars(self, log: Log) -> list[Bar]:
        """How soon it was noticed, how well it was learnt, and what that is worth."""
        first, second = (begin + SETTLED for begin in self.moves_at)
        t, errors = log.velocity_errors

        def angular(begin: float) -> float:
            late = errors[(t >= begin) & (t < begin + MOVED_FOR - SETTLED)]
            return (
                float(np.sqrt((late[:, 3:] ** 2).sum(axis=1).mean())) / DEG
                if len(late)
                else np.inf
            )

        times = {name: t for t, name in reversed(log.events)}
        mass = self.found[-1][1] if self.found else np.inf
        unknown, known = (
            self.joint_rms(log, begin, begin + MOVED_FOR - SETTLED) for begin in (first, second)
        )
        return [
            Bar(
                "noticed after the grasp",
                times.get("noticed", np.inf) - times.get("grasped", 0.0),
                6.0,
                "s",
            ),
            Bar("mass off", 100.0 * abs(mass / MASS - 1.0), 2.0, "%"),
            Bar("angular velocity error, body unknown", angular(first), np.inf, "deg/s"),
            Bar("angular velocity error, body known", angular(second), 0.3, "deg/s"),
            *(Bar("joint error, body unknown", value, np.inf, unit) for value, unit in unknown),
            *(
                Bar("joint error, body known (bar: a fifth of it)", value, 0.2 * before, unit)
                for (value, unit), (before, _) in zip(known, unknown, strict=True)
            ),
        ]
