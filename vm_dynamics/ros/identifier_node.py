# SPDX-License-Identifier: Apache-2.0
"""Learns what the robot carries, and hands it to the other nodes when asked to.

Joint states (with efforts, where the motors tell them), poses and known wrenches go into a
:class:`~vm_dynamics.identification.PayloadIdentifier`. ``~/apply`` sets the parameters
``payload.*`` of the other nodes, which go on with it as they run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from vm_dynamics.errors import ParameterError
from vm_dynamics.identification import PayloadIdentifier
from vm_dynamics.robot import Robot
from vm_dynamics.ros.base_inputs import (
    POSE_TYPES,
    BaseParameters,
    Seconds,
    read_pose,
    read_wrench,
)
from vm_dynamics.ros.client import ServiceError, ask
from vm_dynamics.ros.diagnostics import OK, WARN
from vm_dynamics.ros.joints import JointSample
from vm_dynamics.ros.matrices import Encoder
from vm_dynamics.ros.messages import nanoseconds
from vm_dynamics.ros.node import COMMAND, SENSOR
from vm_dynamics.ros.parameters import parameter
from vm_dynamics.ros.process import run
from vm_dynamics.ros.robot_node import RobotNode

APPLY_TIMEOUT = 10.0  # [s] for the answer of each node
NEGLIGIBLE_MASS = 1e-3  # of the robot's: nothing to hand over
INCONSISTENT = (
    "wrong masses or friction in the URDF, another link that holds it, efforts of another kind "
    "(effort_of, friction), more noise than told, or a body grasped a moment ago"
)


@dataclass(frozen=True)
class IdentifierParameters(BaseParameters):
    """Parameters of the identifier node."""

    link: str = parameter("", "link that holds what is to be learnt; the tip if empty")
    joint_position_deviation: float = parameter(
        1e-4, "noise of joint positions", unit="rad or m", minimum=1e-12
    )
    joint_velocity_deviation: float = parameter(
        5e-3, "noise of joint velocities", unit="rad/s or m/s", minimum=1e-9
    )
    effort_deviation: float = parameter(
        0.02, "noise of efforts, and of friction", unit="N m or N", minimum=1e-9
    )
    effort_of: str = parameter(
        "past",
        "whether efforts of a joint state are those since the one before, as motors tell them, "
        "or those until the next, as commands do",
        choices=("past", "next"),
    )
    friction: bool = parameter(
        True, "whether the URDF's friction acts besides the efforts, as with those of motors"
    )
    rate: float = parameter(
        1.0, "how often the estimate is published", unit="Hz", minimum=0.01, maximum=100.0
    )
    nodes: tuple[str, ...] = parameter(
        ("dynamics_node", "observer_node", "compensator_node", "ccf_node"),
        "nodes that ~/apply hands the payload to, those of them that run",
    )

    def __post_init__(self) -> None:
        """It learns all that is carried: nothing may be known of it already."""
        super().__post_init__()
        if self.payload_link:
            raise ParameterError(
                "parameter payload.link: identifier_node learns the payload; leave it empty"
            )


class IdentifierNode(RobotNode):
    """Lifecycle node around a payload identifier."""

    PARAMETERS = IdentifierParameters

    def __init__(self) -> None:
        """Name the node."""
        super().__init__("identifier_node")
        self.identifier: PayloadIdentifier | None = None
        self._seconds, self._next = Seconds(), 0
        self._has_efforts = False
        self._waiting: JointSample | None = None  # for the efforts of the next
        self._applied = "nothing"

    def start(self) -> None:
        """Topics and services."""
        self._payload = self.publisher(Float64MultiArray, "~/payload", COMMAND)
        self._covariance = self.publisher(Float64MultiArray, "~/covariance", COMMAND)
        kind = POSE_TYPES[self.parameters.pose_type]
        self.listen(kind, "pose", self._on_pose, SENSOR, sole=True)
        self.listen(WrenchStamped, "base_wrench", self._on_wrench, SENSOR)
        self.serve(Trigger, "~/apply", self._on_apply)
        self.serve(Trigger, "~/reset", self._on_reset)

    def prepare(self, robot: Robot, parameters: IdentifierParameters) -> PayloadIdentifier:
        """An identifier for the robot, compiled."""
        p = parameters
        return PayloadIdentifier(
            robot,
            p.link or robot.tip_link,
            friction=p.friction,
            pose_deviation=p.pose_deviation,
            joint_position_deviation=p.joint_position_deviation,
            joint_velocity_deviation=p.joint_velocity_deviation,
            effort_deviation=p.effort_deviation,
        )

    def use_robot(self, robot: Robot, prepared: PayloadIdentifier) -> None:
        """Begin anew with another robot."""
        self.identifier, self._waiting = prepared, None
        self._seconds, self._next = Seconds(), 0
        names, frame = prepared.NAMES, self.parameters.frame_of(prepared.link)
        self._encoders = (
            Encoder("payload", frame, (names,)),
            Encoder("covariance", frame, (names, names)),
        )

    def retune(self, prepared: PayloadIdentifier, before: IdentifierParameters) -> None:
        """Begin anew with other parameters."""
        if self.robot is not None:
            self.use_robot(self.robot, prepared)

    def end(self) -> None:
        """Forget: what comes after a pause has nothing to do with what was before."""
        if self.identifier is not None:
            self.identifier.reset()

    # -- inputs -----------------------------------------------------------------------------------

    def _on_pose(self, message: Any) -> None:
        if self.is_active and self.robot is not None and self.identifier is not None:
            pose = read_pose(message, self.robot, self.parameters)
            stamp = self._seconds(nanoseconds(message.header.stamp)) - self.parameters.pose_delay
            self.identifier.pose(stamp, pose.g, pose.covariance)

    def _on_wrench(self, message: WrenchStamped) -> None:
        if self.is_active and self.robot is not None and self.identifier is not None:
            F = read_wrench(message, self.robot, self.parameters)
            self.identifier.base_wrench(self._seconds(nanoseconds(message.header.stamp)), F)

    def on_joints(self, sample: JointSample) -> None:
        """Learn, and publish now and then."""
        identifier = self.identifier
        if identifier is None:
            return
        if sample.restarted:
            self.get_logger().warning("the clock began anew, and so does the estimate")
            identifier.reset()
            self._seconds, self._next = Seconds(), 0
            self._waiting = None
        self._has_efforts = sample.effort is not None
        self._learn(identifier, sample)
        if sample.nanos >= self._next:
            self._next = sample.nanos + int(1e9 / self.parameters.rate)
            self._publish(identifier, sample.nanos)

    def _learn(self, identifier: PayloadIdentifier, sample: JointSample) -> None:
        """Give a joint sample the efforts that act from it on."""
        known: JointSample | None = sample
        if self.parameters.effort_of == "past":
            known, self._waiting = self._waiting, sample
        if known is not None:
            identifier.joints(self._seconds(known.nanos), known.q, known.qd, sample.effort)

    # -- outputs ----------------------------------------------------------------------------------

    def _publish(self, identifier: PayloadIdentifier, nanos: int) -> None:
        if identifier.status.duration == 0.0:
            return
        payload, covariance = self._encoders
        payload.values[...] = identifier.numbers
        covariance.values[...] = identifier.covariance
        self._payload.publish(payload.stamped(nanos))
        self._covariance.publish(covariance.stamped(nanos))

    def _on_reset(self, request: Any, response: Any) -> Any:
        with self.lock:
            if self.identifier is not None:
                self.identifier.reset()
            self._seconds, self._next = Seconds(), 0
        response.success, response.message = True, "learning begins anew"
        return response

    def _on_apply(self, request: Any, response: Any) -> Any:
        with self.lock:
            parameters, why = self._found()
        if why:
            response.success, response.message = False, f"refused: {why}"
            return response
        said = [self._hand(node, parameters) for node in self.parameters.nodes]
        response.success = any(is_done for is_done, _ in said)
        response.message = "; ".join(words for _, words in said)
        self._applied = response.message
        self.get_logger().info(f"~/apply: {response.message}")
        return response

    def _found(self) -> tuple[list[Any], str]:
        """Parameters of the payload for other nodes, or why there are none."""
        identifier, robot = self.identifier, self.robot
        if not self.is_active or identifier is None or robot is None:
            return [], "the node is not active, or has no robot"
        if identifier.status.state == "waiting":
            return [], "nothing is learnt yet: it takes joint states and poses of a moving robot"
        if identifier.status.state == "inconsistent":
            return [], f"what is learnt does not fit the motion: {INCONSISTENT}"
        if unknown := identifier.unexcited:
            return [], f"the motion so far does not tell {', '.join(unknown)}"
        is_light = identifier.mass < NEGLIGIBLE_MASS * robot.total_mass
        moments = identifier.inertia[np.triu_indices(3)]
        values = {
            "payload.link": "" if is_light else identifier.link,
            "payload.mass": 0.0 if is_light else identifier.mass,
            "payload.com": identifier.com.tolist(),
            "payload.inertia": moments.tolist(),
        }
        return [Parameter(name, value=x).to_parameter_msg() for name, x in values.items()], ""

    def _hand(self, name: str, parameters: list[Any]) -> tuple[bool, str]:
        """Set parameters of another node; whether it did, and what it said."""
        # with an executor of its own: that of this node is busy with the one who asks
        helper = Node(
            f"{self.get_name()}_hand", namespace=self.get_namespace(), context=self.context
        )
        executor = SingleThreadedExecutor(context=self.context)
        executor.add_node(helper)

        def wait(condition: Any, end: float) -> None:
            while not condition() and time.monotonic() < end:
                executor.spin_once(timeout_sec=0.02)

        try:
            answer = ask(
                helper,
                SetParametersAtomically,
                f"{name}/set_parameters_atomically",
                SetParametersAtomically.Request(parameters=parameters),
                wait,
                APPLY_TIMEOUT,
            )
        except ServiceError as error:
            return False, str(error)
        finally:
            executor.remove_node(helper)
            helper.destroy_node()
            executor.shutdown()
        result = answer.result
        return result.successful, f"{name} {'has it' if result.successful else result.reason}"

    def describe(self) -> tuple[bytes, str, dict[str, str]]:
        """What was learnt, and what the motion does not tell."""
        if self.identifier is None:
            return WARN, "no identifier", {}
        identifier, status = self.identifier, self.identifier.status
        values = {
            "link": identifier.link,
            "identifier": status.state,
            "efforts": "heard" if self._has_efforts else "none: the momentum alone tells",
            "learnt from": f"{status.duration:.1f} s",
            "misfit": f"{status.misfit:.2f}, 1 is right",
            "restarts": str(status.restarts),
            "applied": self._applied,
        }
        if status.state == "waiting":
            return WARN, "waiting for joint states and poses", values
        sigma = np.sqrt(identifier.covariance[0, 0])
        values["mass"] = f"{identifier.mass:.4g} +- {sigma:.2g} kg"
        unknown = identifier.unexcited
        values["not told yet"] = ", ".join(unknown) or "nothing"
        if status.state == "inconsistent":
            return WARN, f"inconsistent: {INCONSISTENT}", values
        return OK, f"learning, {'some' if unknown else 'all'} of it told", values


def main(args: list[str] | None = None) -> int:
    """Entry point."""
    return run(IdentifierNode, args)


if __name__ == "__main__":
    raise SystemExit(main())
