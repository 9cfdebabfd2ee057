# SPDX-License-Identifier: Apache-2.0
"""Publishes mass matrix, connection, locked and shape inertia, Coriolis matrix and curvature.

Only what somebody subscribes to is computed. The Coriolis matrix is taken at the base velocity of
the topic ``base_twist`` (the observer's ``~/twist``), at rest without one. All matrices of a cycle
have the stamp of the joint state they come from; see :mod:`vm_dynamics.ros.matrices` for how they
travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from geometry_msgs.msg import PointStamped, TwistWithCovarianceStamped
from std_msgs.msg import Float64MultiArray

from vm_dynamics.errors import NonFiniteError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot
from vm_dynamics.ros.joints import JointSample
from vm_dynamics.ros.matrices import Encoder, base_names
from vm_dynamics.ros.messages import to_stamp, twist_vector
from vm_dynamics.ros.node import COMMAND, SENSOR
from vm_dynamics.ros.parameters import RobotParameters, parameter
from vm_dynamics.ros.process import run
from vm_dynamics.ros.robot_node import RobotNode

MATRICES = (
    "mass_matrix",
    "connection",
    "locked_inertia",
    "shape_inertia",
    "coriolis",
    "curvature",
)


@dataclass(frozen=True)
class DynamicsParameters(RobotParameters):
    """Parameters of the dynamics node."""

    rate: float = parameter(
        0.0, "most cycles a second; 0 for one with every joint state", unit="Hz", minimum=0.0
    )
    frame: str = parameter(
        "base",
        "frame of the curvature's components",
        choices=("base", "centroidal", "virtual_chassis"),
    )


class DynamicsNode(RobotNode):
    """Lifecycle node that publishes the robot's matrices, those that somebody listens to."""

    PARAMETERS = DynamicsParameters

    def __init__(self) -> None:
        """Name the node."""
        super().__init__("dynamics_node")
        self._outputs: dict[str, Any] = {}
        self._encoders: dict[str, Encoder] = {}
        self._next = 0
        self._V = np.zeros(6)

    def start(self) -> None:
        """A publisher for each matrix; the velocity of the base, where someone observes it."""
        for name in MATRICES:
            self._outputs[name] = self.publisher(Float64MultiArray, f"~/{name}", COMMAND)
        self._outputs["com"] = self.publisher(PointStamped, "~/com", COMMAND)
        self.listen(TwistWithCovarianceStamped, "base_twist", self._on_twist, SENSOR)

    def prepare(self, robot: Robot, parameters: DynamicsParameters) -> None:
        """Compute everything once, whatever is wanted together."""
        V, still = np.zeros(robot.b), np.zeros(robot.n)
        sample = JointSample(0, still, still, False)
        for wanted in (*({name} for name in MATRICES), set(MATRICES)):
            _values(robot, sample, V, wanted, parameters.frame)
        robot.center_of_mass(still)

    def use_robot(self, robot: Robot, prepared: None) -> None:
        """Lay out the messages."""
        base, joints = base_names(robot.base_group), robot.joint_names
        root = self.parameters.frame_of(robot.root_link)
        both = (*base, *joints)
        names = {
            "mass_matrix": (both, both),
            "connection": (base, joints),
            "locked_inertia": (base, base),
            "shape_inertia": (joints, joints),
            "coriolis": (both, both),
            "curvature": (base, joints, joints),
        }
        self._encoders = {name: Encoder(name, root, along) for name, along in names.items()}
        self._com = PointStamped()
        self._com.header.frame_id = root
        self._V = np.zeros(robot.b)

    def _on_twist(self, message: TwistWithCovarianceStamped) -> None:
        if self.robot is not None:
            V = self.robot.base_group.iota_pinv @ twist_vector(message.twist.twist)
            if not np.isfinite(V).all():
                raise NonFiniteError(f"base_twist: NaN or infinity: {V}")
            self._V = V

    def on_joints(self, sample: JointSample) -> None:
        """Publish what is wanted."""
        robot, rate = self.robot, self.parameters.rate
        if robot is None or (sample.nanos < self._next and not sample.restarted):
            return
        if rate > 0.0:
            self._next = sample.nanos + int(1e9 / rate)
        wanted = {n for n, out in self._outputs.items() if out.get_subscription_count() > 0}
        for name, value in _values(robot, sample, self._V, wanted, self.parameters.frame).items():
            encoder = self._encoders[name]
            encoder.values[...] = value
            self._outputs[name].publish(encoder.stamped(sample.nanos))
        if "com" in wanted:
            point = self._com.point
            point.x, point.y, point.z = map(float, robot.center_of_mass(sample.q))
            self._com.header.stamp = to_stamp(sample.nanos)
            self._outputs["com"].publish(self._com)


def _values(
    robot: Robot, sample: JointSample, V: Array, wanted: set[str], frame: str
) -> dict[str, Array]:
    """The matrices that are wanted, each computed once."""
    out: dict[str, Array] = {}
    b, q = robot.b, sample.q
    if "shape_inertia" in wanted or {"connection", "mass_matrix"} <= wanted:
        M, A = robot.mass_and_connection(q)
    elif wanted & {"mass_matrix", "locked_inertia"}:
        M, A = robot.mass_matrix(q), None
    else:
        M, A = None, robot.connection(q) if "connection" in wanted else None
    if M is not None:
        out["mass_matrix"], out["locked_inertia"] = M, M[:b, :b]
    if A is not None:
        out["connection"] = A
    if M is not None and A is not None:
        out["shape_inertia"] = M[b:, b:] - M[:b, b:].T @ A
    if "coriolis" in wanted:
        out["coriolis"] = robot.hamel(q, V, sample.qd).C
    if "curvature" in wanted:
        out["curvature"] = robot.curvature(q, frame=frame)
    return {name: value for name, value in out.items() if name in wanted}


def main(args: list[str] | None = None) -> int:
    """Entry point."""
    return run(DynamicsNode, args)


if __name__ == "__main__":
    raise SystemExit(main())
