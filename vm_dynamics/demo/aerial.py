# SPDX-License-Identifier: Apache-2.0
"""A hexacopter hovers by computed torque while its arm moves."""

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
from vm_dynamics.ros.client import Client
from vm_dynamics.simulation import State

HOVER_POSITION = (0.0, 0.0, 2.0)  # [m]
ARM_START = (0.3, -0.6)
ARM_SWING = (0.8, -1.0)
JUDGED_FROM = 5.0  # [s], once it has settled
# As of motion capture.
POSE_POSITION_NOISE, POSE_ATTITUDE_NOISE = 2e-3, 5e-3  # [m], [rad]


class Aerial(Scenario):
    """Scenario: a hexacopter hovers by computed torque while its arm swings."""

    NAME = "aerial"
    TITLE = "a hexacopter hovers by computed torque while its arm swings"
    ROBOT = "hexa_arm2"
    DURATION = 45.0
    MIN_DURATION = 15.0
    GRAVITY = (0.0, 0.0, -9.81)

    @property
    def start(self) -> State:
        """Hovering."""
        g = np.eye(4)
        g[:3, 3] = HOVER_POSITION
        still = np.zeros(6), np.zeros(self.robot.n)
        return State(g, within_limits(self.robot, ARM_START), *still)

    def target(self, t: float) -> tuple[Array, Array, Array]:
        """There and back, again and again."""
        period = 0.5 * (self.duration - JUDGED_FROM)
        begin = JUDGED_FROM + period * max(0.0, (t - JUDGED_FROM) // period)
        x, v, a = there_and_back(t, begin, begin + 0.8 * period)
        q = self.start.q
        way = way_within_limits(self.robot, q, ARM_SWING, 0.4 * period)
        return q + x * way, v * way, a * way

    def sim_parameters(self) -> dict[str, Any]:
        """A pose as of motion capture; the rotors already turn."""
        return {
            "propulsion": self.yaml_file(),
            "initial.hold": True,
            "pose.rate": 30.0,
            "pose.position_deviation": POSE_POSITION_NOISE,
            "pose.attitude_deviation": POSE_ATTITUDE_NOISE,
            "pose.delay": 0.02,
        }

    def observer_parameters(self) -> dict[str, Any]:
        """It knows how good the pose is."""
        return {
            "pose.position_deviation": POSE_POSITION_NOISE,
            "pose.attitude_deviation": POSE_ATTITUDE_NOISE,
            "disturbance": 1e-2,
        }

    def compensator_parameters(self) -> dict[str, Any]:
        """Height and attitude stiff, sideways by leaning."""
        axes = {"x": 0.0, "y": 0.0, "z": 6.0, "roll": 40.0, "pitch": 40.0, "yaw": 20.0}
        rates = {"x": 0.0, "y": 0.0, "z": 4.0, "roll": 12.0, "pitch": 12.0, "yaw": 8.0}
        joints = self.robot.joint_names
        return {
            "controller": "computed_torque",
            "propulsion": self.yaml_file(),
            "gains.stiffness_of": by_name(axes | dict.fromkeys(joints, 100.0)),
            "gains.damping_of": by_name(rates | dict.fromkeys(joints, 20.0)),
            "gains.integral_of": by_name({"z": 2.0} | dict.fromkeys(joints, 150.0)),
        }

    def drive(self, t: float, client: Client, log: Log) -> None:
        """Stay; the controller leans to where it has to go."""
        super().drive(t, client, log)
        client.publish_pose("base_target", self.start.g)

    def bars(self, log: Log) -> list[Bar]:
        """How well it stayed where it was."""
        seen = log.truth.all.between(JUDGED_FROM, self.duration)
        off = np.linalg.norm(seen.first[:, :3, 3] - HOVER_POSITION, axis=1)
        tilt = max(turned(np.eye(4), g) for g in seen.first)
        linear, angular = log.velocity_rms(JUDGED_FROM)
        return [
            Bar("off its place, RMS", 1e3 * float(np.sqrt((off**2).mean())), 50.0, "mm"),
            Bar("off its place, at most", 1e3 * float(off.max()), 150.0, "mm"),
            Bar("leant, at most", tilt / DEG, 5.0, "deg"),
            *self.joint_bars(
                "joint error, RMS", log, JUDGED_FROM, self.duration, {"deg": 2.0, "mm": 5.0}
            ),
            Bar("linear velocity error, RMS", 1e3 * linear, np.inf, "mm/s"),
            Bar("angular velocity error, RMS", angular / DEG, np.inf, "deg/s"),
        ]
