# SPDX-License-Identifier: Apache-2.0
"""An underwater vehicle keeps its station in a current that nobody told it of."""

from __future__ import annotations

from typing import Any

import numpy as np

from vm_dynamics.demo.log import Log, turned
from vm_dynamics.demo.scenario import (
    DEG,
    Bar,
    Scenario,
    by_name,
    there_and_back,
    way_within_limits,
    within_limits,
)
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot, submerge
from vm_dynamics.ros.client import Client
from vm_dynamics.simulation import State

STATION = (0.0, 0.0, -10.0)  # [m]
CURRENT = (0.25, 0.15, 0.0)  # [m/s]
ARM_START = (0.0, 0.4, 0.6, 0.3)
ARM_SWING = (0.8, 0.4, 0.5, 0.0)
JUDGED_FROM = 15.0  # [s], once it has settled
# As of acoustics and a compass.
POSE_POSITION_NOISE, POSE_ATTITUDE_NOISE = 1e-2, 5e-3  # [m], [rad]
BASE_AXES = ("x", "y", "z", "roll", "pitch", "yaw")


class Underwater(Scenario):
    """Scenario: an underwater vehicle keeps station in a current that its nodes do not know."""

    NAME = "underwater"
    TITLE = "an underwater vehicle keeps station in an unknown current while its arm moves"
    ROBOT = "auv_arm4"
    DURATION = 55.0
    MIN_DURATION = 30.0
    GRAVITY = (0.0, 0.0, -9.81)

    def load(self) -> Robot:
        """In still water: the nodes do not know of the current."""
        return submerge(super().load(), self.yaml_file())

    @property
    def start(self) -> State:
        """On station."""
        g = np.eye(4)
        g[:3, 3] = STATION
        still = np.zeros(6), np.zeros(self.robot.n)
        return State(g, within_limits(self.robot, ARM_START), *still)

    def target(self, t: float) -> tuple[Array, Array, Array]:
        """There and back, once it has settled."""
        begin, end = JUDGED_FROM + 3.0, self.duration - 3.0
        x, v, a = there_and_back(t, begin, end)
        q = self.start.q
        way = way_within_limits(self.robot, q, ARM_SWING, 0.5 * (end - begin))
        return q + x * way, v * way, a * way

    def sim_parameters(self) -> dict[str, Any]:
        """Water that flows; a slow pose."""
        return {
            "propulsion": self.yaml_file(),
            "hydrodynamics": self.yaml_file(),
            "current": list(CURRENT),
            "initial.hold": True,
            "pose.rate": 5.0,
            "pose.position_deviation": POSE_POSITION_NOISE,
            "pose.attitude_deviation": POSE_ATTITUDE_NOISE,
            "pose.delay": 0.1,
        }

    def observer_parameters(self) -> dict[str, Any]:
        """The current is a wrench that is to be found."""
        return {
            "hydrodynamics": self.yaml_file(),
            "external_wrench": "world",
            "pose.position_deviation": POSE_POSITION_NOISE,
            "pose.attitude_deviation": POSE_ATTITUDE_NOISE,
        }

    def compensator_parameters(self) -> dict[str, Any]:
        """Integral action against the current; stiff joints against their friction."""
        joints, n = self.robot.joint_names, self.robot.n
        # the wrist has hardly any inertia and as much friction as it takes
        stiffness = [25.0] * (n - 1) + [900.0]
        damping = [10.0] * (n - 1) + [60.0]
        integral = [20.0] * (n - 1) + [3000.0]

        def of(base: float, values: list[float]) -> list[str]:
            return by_name(dict.fromkeys(BASE_AXES, base) | dict(zip(joints, values, strict=True)))

        return {
            "controller": "computed_torque",
            "hydrodynamics": self.yaml_file(),
            "propulsion": self.yaml_file(),
            "gains.stiffness_of": of(2.0, stiffness),
            "gains.damping_of": of(3.0, damping),
            "gains.integral_of": of(0.6, integral),
        }

    def drive(self, t: float, client: Client, log: Log) -> None:
        """Stay where it is."""
        super().drive(t, client, log)
        client.publish_pose("base_target", self.start.g)

    def bars(self, log: Log) -> list[Bar]:
        """How well it stayed."""
        whole = log.truth.all
        off = np.linalg.norm(whole.first[:, :3, 3] - STATION, axis=1)
        late = off[whole.t >= JUDGED_FROM]
        settled = whole.between(JUDGED_FROM, self.duration)
        turn = max(turned(np.eye(4), g) for g in settled.first)
        linear, angular = log.velocity_rms(JUDGED_FROM)
        return [
            Bar(
                f"off station, RMS after {JUDGED_FROM:g} s",
                1e3 * float(np.sqrt((late**2).mean())),
                30.0,
                "mm",
            ),
            Bar("off station, at most, from the start", 1e3 * float(off.max()), 150.0, "mm"),
            Bar(f"turned, at most after {JUDGED_FROM:g} s", turn / DEG, 5.0, "deg"),
            *self.joint_bars(
                f"joint error, RMS after {JUDGED_FROM:g} s",
                log,
                JUDGED_FROM,
                self.duration,
                {"deg": 2.0, "mm": 5.0},
            ),
            Bar("linear velocity error, RMS", 1e3 * linear, np.inf, "mm/s"),
            Bar("angular velocity error, RMS", angular / DEG, np.inf, "deg/s"),
        ]
