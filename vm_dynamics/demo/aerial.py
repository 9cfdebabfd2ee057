# SPDX-License-Identifier: Apache-2.0
"""A hexacopter hovers by computed torque while its arm moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from vm_dynamics.control.tilt import TiltGuidance
from vm_dynamics.demo.log import Log, turned
from vm_dynamics.demo.scenario import Bar, Scenario, by_name, there_and_back
from vm_dynamics.demo.tumbling import DEG
from vm_dynamics.lie.se3 import Array
from vm_dynamics.ros.client import Client
from vm_dynamics.simulation import State

PLACE = (0.0, 0.0, 2.0)  # [m]
SHAPE = (0.3, -0.6)
WAY = np.array([0.8, -1.0])
SETTLED = 5.0  # [s]
POSITION, ATTITUDE = 2e-3, 5e-3  # noise of the pose, as of motion capture [m], [rad]


class Aerial(Scenario):
    """See the module."""

    NAME = "aerial"
    TITLE = "a hexacopter hovers by computed torque while its arm swings"
    ROBOT = "hexa_arm2"
    DURATION = 45.0
    SHORTEST = 15.0
    GRAVITY = (0.0, 0.0, -9.81)

    @property
    def start(self) -> State:
        """Hovering."""
        g = np.eye(4)
        g[:3, 3] = PLACE
        still = np.zeros(6), np.zeros(self.robot.n)
        return State(g, np.resize(SHAPE, self.robot.n), *still)

    def target(self, t: float) -> tuple[Array, Array, Array]:
        """There and back, again and again."""
        period = 0.5 * (self.duration - SETTLED)
        begin = SETTLED + period * max(0.0, (t - SETTLED) // period)
        x, v, a = there_and_back(t, begin, begin + 0.8 * period)
        way = np.resize(WAY, self.robot.n)
        return self.start.q + x * way, v * way, a * way

    def sim_parameters(self) -> dict[str, Any]:
        """A pose as of motion capture; the rotors already turn."""
        return {
            "propulsion": self.yaml_file(),
            "initial.hold": True,
            "pose.rate": 30.0,
            "pose.position_deviation": POSITION,
            "pose.attitude_deviation": ATTITUDE,
            "pose.delay": 0.02,
        }

    def observer_parameters(self) -> dict[str, Any]:
        """It knows how good the pose is."""
        return {
            "pose.position_deviation": POSITION,
            "pose.attitude_deviation": ATTITUDE,
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
        """Lean to where it has to go."""
        super().drive(t, client, log)
        place, seen = self.start.g, log.estimate.last
        if seen is not None:
            guidance = TiltGuidance(self.GRAVITY, stiffness=1.0, damping=1.6)
            place = guidance.target(place, *seen)
        client.publish_pose("base_target", place)

    def bars(self, log: Log) -> list[Bar]:
        """How well it stayed where it was."""
        seen = log.truth.all.between(SETTLED, self.duration)
        off = np.linalg.norm(seen.first[:, :3, 3] - PLACE, axis=1)
        tilt = max(turned(np.eye(4), g) for g in seen.first)
        joints = self.joint_rms(log, SETTLED, self.duration)
        linear, angular = log.velocity_rms(SETTLED)
        return [
            Bar("off its place, RMS", 1e3 * float(np.sqrt((off**2).mean())), 50.0, "mm"),
            Bar("off its place, at most", 1e3 * float(off.max()), 150.0, "mm"),
            Bar("leant, at most", tilt / DEG, 5.0, "deg"),
            Bar("joint error, RMS", joints / DEG, 2.0, "deg"),
            Bar("linear velocity error, RMS", 1e3 * linear, np.inf, "mm/s"),
            Bar("angular velocity error, RMS", angular / DEG, np.inf, "deg/s"),
        ]
