# SPDX-License-Identifier: Apache-2.0
"""A satellite at rest turns itself by a planned motion of its arm alone."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from vm_dynamics.demo.log import Log, turned
from vm_dynamics.demo.scenario import DEG, Bar, Scenario, within_limits
from vm_dynamics.demo.tumbling import BENT
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array, exp
from vm_dynamics.locomotion import plan_reorientation
from vm_dynamics.locomotion.plan import ReorientationPlan
from vm_dynamics.simulation import State

TURN = 20.0 * DEG  # about z
REST_BEFORE, REST_AFTER = 5.0, 5.0  # [s] at rest before and after
UNHURRIED = 1.2  # the plan goes to the limits of velocity, where there is no room for control
DIFFERENCE_STEP = 1e-3  # [s], of differences


class Reorient(Scenario):
    """Scenario: a planned motion of the arm alone turns a satellite that is at rest."""

    NAME = "reorient"
    TITLE = "the planner turns a free-floating base by 20 degrees with the arm alone"
    DURATION = 65.0
    MIN_DURATION = 20.0

    @property
    def start(self) -> State:
        """At rest, with a bent arm."""
        q = within_limits(self.robot, BENT, margin=0.6)
        return State.at_rest(self.robot, q)

    @property
    def wanted(self) -> Array:
        """Pose whose attitude the base shall have in the end, shape (4, 4)."""
        return exp(np.array([0.0, 0.0, 0.0, 0.0, 0.0, TURN]))

    @cached_property
    def plan(self) -> ReorientationPlan:
        """The joints' path."""
        plan = plan_reorientation(self.robot, self.start.q, self.wanted[:3, :3])
        if plan.path is None or not plan.reached:
            raise ParameterError(f"no plan for {self.robot.name!r}: {plan.reason}")
        needed = UNHURRIED * plan.duration + REST_BEFORE + REST_AFTER
        if needed > self.duration:
            raise ParameterError(
                f"duration: the plan for {self.robot.name!r} needs {needed:.0f} s, got "
                f"{self.duration:g} s"
            )
        return plan

    def target(self, t: float) -> tuple[Array, Array, Array]:
        """The plan, a little slower than it could be."""
        path = self.plan.path
        assert path is not None
        s = min(max((t - REST_BEFORE) / UNHURRIED, 0.0), path.duration)
        before, after = max(s - DIFFERENCE_STEP, 0.0), min(s + DIFFERENCE_STEP, path.duration)
        rate = (path.velocity(after) - path.velocity(before)) / max(
            after - before, DIFFERENCE_STEP
        )
        moves = 0.0 < s < path.duration
        qd = path.velocity(s) / UNHURRIED if moves else np.zeros(self.robot.n)
        return path.position(s), qd, rate / UNHURRIED**2 if moves else 0.0 * qd

    def compensator_parameters(self) -> dict[str, Any]:
        """Stiff enough for what is left of the joints' friction."""
        return {"friction": True, **self.gains(200.0)}

    def bars(self, log: Log) -> list[Bar]:
        """Attitude in the end."""
        g = log.truth.all.first
        first, last = g[0], g[-1]
        linear, angular = log.velocity_rms(REST_BEFORE)
        return [
            Bar(
                "attitude off the one wanted", turned(first @ self.wanted, last) / DEG, 0.5, "deg"
            ),
            Bar("turned by", turned(first, last) / DEG, np.inf, "deg"),
            *self.joint_bars(
                "joints off the plan, RMS",
                log,
                REST_BEFORE,
                self.duration,
                {"deg": 0.5, "mm": 2.0},
            ),
            Bar("angular velocity error, RMS", angular / DEG, 0.25, "deg/s"),
            Bar("linear velocity error, RMS", 1e3 * linear, 4.0, "mm/s"),
        ]
