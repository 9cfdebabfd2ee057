# SPDX-License-Identifier: Apache-2.0
"""Commands joint torques: momentum compensation, computed torque, or reaction mode.

What can hurt someone is the output, so it is zero unless all is well: clamped to the URDF's effort
limits, zero when joints or the velocity estimate are older than ``timeout``, zero when disabled,
deactivated or shut down, never NaN, and off until enabled with ``require_enable``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectoryPoint

from vm_dynamics.control import (
    ComputedTorque,
    MomentumCompensator,
    ReactionMode,
    critical_damping,
    free_inertias,
    soft_stiffness,
)
from vm_dynamics.control.computed_torque import AXES
from vm_dynamics.control.gains import gains, shaken_joint, shape_inertia
from vm_dynamics.dynamics import _hybrid_kernels
from vm_dynamics.dynamics._entry import EntryPoint, entries_of
from vm_dynamics.dynamics.propulsion import Propulsion
from vm_dynamics.errors import NonFiniteError, ParameterError, UnknownJointError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot
from vm_dynamics.ros.diagnostics import ERROR, OK, WARN
from vm_dynamics.ros.joints import JointSample
from vm_dynamics.ros.messages import (
    fill_wrench,
    nanoseconds,
    pose_matrix,
    to_stamp,
    twist_vector,
)
from vm_dynamics.ros.node import COMMAND, SENSOR, run
from vm_dynamics.ros.parameters import RobotParameters, numbers_by_name, parameter
from vm_dynamics.ros.robot_node import RobotNode

CONTROLLERS = ("momentum", "computed_torque", "reaction")
FEW = 20  # joint states, and
SHORT = 1_000_000_000  # [ns]: too little to know their period, on a busy machine
SAME = 0.2  # of a period: what is no other one


@dataclass(frozen=True)
class CompensatorParameters(RobotParameters):
    """Parameters of the compensator node."""

    GROUPS: ClassVar[tuple[str, ...]] = ("payload", "gains")

    controller: str = parameter("momentum", "which controller", choices=CONTROLLERS)
    law: int = parameter(
        2,
        "momentum: compensation 1 (with the gyroscopic term), 2 (quieter), 0 for a plain PD law",
        minimum=0,
        maximum=2,
    )
    joints: tuple[str, ...] = parameter(
        (), "order of the commands and of targets; if empty, the robot's", read_only=True
    )
    gains_stiffness: float = parameter(
        -1.0,
        "stiffness of every joint; below zero for 20, and less where a light joint would shake",
        unit="N m/rad, or 1/s^2 of computed_torque",
    )
    gains_damping: float = parameter(
        -1.0,
        "damping of every joint; below zero for critical damping",
        unit="N m s/rad, or 1/s of computed_torque",
    )
    gains_stiffness_of: tuple[str, ...] = parameter(
        (), "stiffness of single joints (or axes of computed_torque): name=value"
    )
    gains_damping_of: tuple[str, ...] = parameter(
        (), "damping of single joints (or axes of computed_torque): name=value"
    )
    gains_integral_of: tuple[str, ...] = parameter(
        (), "integral gains of computed_torque, by axis or joint: name=value [1/s^3]"
    )
    timeout: float = parameter(
        0.1, "age of joints or velocity estimate that stops the torques", unit="s", minimum=1e-3
    )
    require_enable: bool = parameter(
        True, "no torque until the service ~/enable says so", read_only=True
    )
    effort_scale: float = parameter(
        1.0, "share of the URDF's effort limits that is used", minimum=0.0, maximum=1.0
    )
    target_type: str = parameter(
        "trajectory_point",
        "message type of the topic target",
        choices=("trajectory_point", "joint_state"),
        read_only=True,
    )
    propulsion: str = parameter(
        "", "computed_torque: YAML file with a section propulsion", read_only=True
    )
    tool_link: str = parameter("", "reaction: link that follows tool_target; the tip if empty")
    position_only: bool = parameter(True, "reaction: leave the tool's orientation free")
    base_weight: float = parameter(
        -1.0, "reaction: how much a still base matters; below zero for the controller's own choice"
    )
    failed_joints: tuple[str, ...] = parameter((), "reaction: joints that have no motor now")


class CompensatorNode(RobotNode):
    """See the module."""

    PARAMETERS = CompensatorParameters

    def __init__(self) -> None:
        """Name the node."""
        super().__init__("compensator_node")
        self.controller: Any = None
        self._enabled = not self.parameters.require_enable
        self._why = "starting"  # no torque, and this is the reason; empty when there is
        self._target: tuple[Array, Array, Array] | None = None
        self._aim: Any = None  # pose that base or tool shall have
        self._aim_frame = ""
        self._last_command = 0.0
        self._shaken = ""  # joint that may be, and at which rate
        self._judged: tuple[Any, float] = None, 0.0  # controller and period that were looked at
        self._forget()

    def _forget(self) -> None:
        """What was heard of the base."""
        self._mu: Array | None = None
        self._mu_nanos = 0
        self._g: Array | None = None
        self._V: Array | None = None
        self._base_nanos = 0
        self._world = ""  # frame of odom
        self._step_nanos = 0
        self._newest: JointSample | None = None
        self._span = self._gaps = 0  # [ns] and number of the times between joint states

    def kernels(self) -> Iterable[EntryPoint]:
        """Those of the controllers."""
        control = entries_of("vm_dynamics.control")
        return (*control, _hybrid_kernels.hybrid, _hybrid_kernels.inverse_dynamics)

    def start(self) -> None:
        """Topics, the service and the watchdog."""
        p = self.parameters
        self._commands = self.publisher(Float64MultiArray, "~/commands", COMMAND)
        self._torques = self.publisher(JointState, "~/torques", COMMAND)
        self._thrusts = self.publisher(Float64MultiArray, "~/thrusts", COMMAND)
        self._wrench = self.publisher(WrenchStamped, "~/base_wrench", COMMAND)
        self._heard: dict[str, Any] = {}
        self.serve(SetBool, "~/enable", self._on_enable)
        self.every(0.25 * p.timeout, self._watch)

    def _wire(self) -> None:
        """Listen to what the controller needs, and no more: each topic costs every cycle."""
        p, controller = self.parameters, self.controller
        point = p.target_type == "trajectory_point"
        sources: dict[str, tuple[type, Any, Any]] = {
            "target": (JointTrajectoryPoint if point else JointState, self._on_target, COMMAND),
            "locked_velocity": (TwistStamped, self._on_locked_velocity, SENSOR),
            "odom": (Odometry, self._on_odom, SENSOR),
            "base_target": (PoseStamped, self._on_aim, COMMAND),
            "tool_target": (PoseStamped, self._on_aim, COMMAND),
        }
        if isinstance(controller, MomentumCompensator):
            wanted = {"target", *(["odom"] if controller.robot.gravity.any() else [])}
            wanted |= {"locked_velocity"} if p.law else set()
        elif isinstance(controller, ReactionMode):
            wanted = {"odom", "tool_target"}
        else:
            wanted = {"target", "odom", "base_target"}
        self._timeout = int(1e9 * p.timeout)
        for topic in set(self._heard) - wanted:
            self.ignore(self._heard.pop(topic))
        for topic in wanted - set(self._heard):
            kind, callback, qos = sources[topic]
            self._heard[topic] = self.listen(kind, topic, callback, qos)

    # -- the robot ------------------------------------------------------------------------------

    def check(self, robot: Robot, parameters: CompensatorParameters) -> None:
        """A controller must be to be had for the robot."""
        _order(robot, parameters)
        _controller(robot, parameters)

    def use_robot(self, robot: Robot) -> None:
        """Another robot: torques stop until all inputs fit it, and until enabled again."""
        self._stop("another robot")
        self._enabled = not self.parameters.require_enable
        self._forget_targets()
        self._forget()
        self.controller = _controller(robot, self.parameters)
        self._wire()
        self._order = _order(robot, self.parameters)
        self._limits = robot.effort_limits * self.parameters.effort_scale
        for name, limit in zip(robot.joint_names, robot.effort_limits, strict=True):
            if not np.isfinite(limit):
                self.get_logger().warning(f"joint {name!r} has no effort limit in the URDF")
        self._message = Float64MultiArray(data=[0.0] * len(self._order))
        self._out = np.frombuffer(self._message.data, dtype=float)
        self._named = JointState(
            name=[robot.joint_names[i] for i in self._order], effort=[0.0] * len(self._order)
        )
        self._efforts = np.frombuffer(self._named.effort, dtype=float)
        self._names = {self._named.name[i]: i for i in range(len(self._order))}

    def retune(self, before: CompensatorParameters) -> None:
        """Other gains: the same target goes on. Another controller: it holds where it is."""
        if self.robot is None:
            return
        self.controller = _controller(self.robot, self.parameters)
        if self.parameters.controller != before.controller:
            self._forget_targets()
        self._wire()
        self._limits = self.robot.effort_limits * self.parameters.effort_scale
        self._set_target()

    def _forget_targets(self) -> None:
        """What was wanted, and what integral action has gathered on the way there."""
        self._target = self._aim = None
        if isinstance(self.controller, ComputedTorque):
            self.controller.reset()

    # -- inputs ---------------------------------------------------------------------------------

    def _on_enable(self, request: Any, response: Any) -> Any:
        response.success = self.is_active or not request.data
        if not response.success:
            response.message = f"node is {self.state_label}"
            return response
        self._enabled = bool(request.data)
        if not self._enabled:
            self._stop("disabled")
            # whoever enables it again may have moved the arm by hand: it holds where it is then
            self._forget_targets()
        elif self._target is None:
            self._why = "enabled, waiting for joints"
        self.get_logger().info("enabled" if self._enabled else "disabled")
        return response

    def _on_target(self, message: Any) -> None:
        robot = self.robot
        if robot is None:
            return
        if isinstance(message, JointState):
            unknown = [name for name in message.name if name not in self._names]
            if unknown:
                raise UnknownJointError("target", unknown[0], self._names)
            at = [int(self._order[self._names[name]]) for name in message.name]
            parts = message.position, message.velocity, ()
        else:
            at = [int(i) for i in self._order]
            parts = message.positions, message.velocities, message.accelerations
        values = []
        for name, part in zip(("position", "velocity", "acceleration"), parts, strict=True):
            if len(part) not in (0, len(at)) or (name == "position" and not len(part)):
                raise ParameterError(
                    f"target: got {len(part)} numbers of {name}, expected {len(at)}"
                )
            whole = self._target[0].copy() if name == "position" and self._target else None
            out = np.zeros(robot.n) if whole is None else whole
            if len(part):
                out[at] = vector(f"target {name}", np.array(part), len(at))
            values.append(out)
        if self._target is None and len(at) < robot.n:
            raise ParameterError(f"target: got {len(at)} joints, the first one needs {robot.n}")
        self._target = values[0], values[1], values[2]
        self._set_target()

    def _on_aim(self, message: PoseStamped) -> None:
        aim = pose_matrix(message.pose.position, message.pose.orientation)
        _check_frames(message.header.frame_id, self._world)
        self._aim, self._aim_frame = aim, message.header.frame_id
        self._set_target()

    def _set_target(self) -> None:
        """Tell the controller; what is missing of a target is where the robot is."""
        controller = self.controller
        if isinstance(controller, MomentumCompensator):
            if self._target is not None:
                controller.set_target(*self._target)
        elif isinstance(controller, ComputedTorque):
            if self._target is not None and self._aim is not None:
                q, qd, qdd = self._target
                controller.set_target(self._aim, q, qd=qd, qdd=qdd)
        elif isinstance(controller, ReactionMode) and self._aim is not None:
            aim = self._aim[:3, 3] if controller.position_only else self._aim
            controller.set_target(aim)

    def _on_locked_velocity(self, message: TwistStamped) -> None:
        if self.robot is None:
            return
        frame, root = message.header.frame_id, self.robot.root_link
        if frame not in ("", root):
            raise ParameterError(f"locked_velocity: is in frame {frame!r}, expected {root!r}")
        mu = self.robot.base_group.iota_pinv @ twist_vector(message.twist)
        if not np.isfinite(mu).all():
            raise NonFiniteError(f"locked_velocity: NaN or infinity: {mu}")
        self._mu, self._mu_nanos = mu, nanoseconds(message.header.stamp)

    def _on_odom(self, message: Odometry) -> None:
        if self.robot is None:
            return
        child, root = message.child_frame_id, self.robot.root_link
        if child not in ("", root):
            raise ParameterError(f"odom: is of frame {child!r}, expected {root!r}")
        V = self.robot.base_group.iota_pinv @ twist_vector(message.twist.twist)
        if not np.isfinite(V).all():
            raise NonFiniteError(f"odom: NaN or infinity in the twist: {V}")
        self._world = message.header.frame_id
        if self._aim is not None:
            _check_frames(self._aim_frame, self._world)
        self._g = pose_matrix(message.pose.pose.position, message.pose.pose.orientation)
        self._V, self._base_nanos = V, nanoseconds(message.header.stamp)

    # -- output ---------------------------------------------------------------------------------

    def on_joints(self, sample: JointSample) -> None:
        """A step, or the reason why there is none."""
        if sample.restarted:
            self._forget()
        if self._newest is not None:
            gap = sample.nanos - self._newest.nanos
            if 0 < gap < self._timeout:  # a longer one is a pause
                self._span += gap
                self._gaps += 1
        self._newest = sample
        if not self._enabled:
            self._why = "not enabled"
            return
        why = self._missing(sample)
        if why:
            self._stop(why)
            return
        if self._target is None:
            self._target = sample.q.copy(), np.zeros_like(sample.q), np.zeros_like(sample.q)
            self._set_target()
        try:
            tau = self._step(sample)
        except Exception:
            self._stop("error in the controller")
            raise
        self._send(tau, sample.nanos)
        self._why = ""
        self._last_command = time.monotonic()

    def _missing(self, sample: JointSample) -> str:
        """What a step lacks, empty if nothing."""
        limit = self._timeout
        clock: Any = self.get_clock()
        age = clock.now().nanoseconds - sample.nanos
        if age > limit:
            return "joint states are old"
        # a simulated clock comes as a topic, perhaps after what is stamped with it
        if age < -limit and not clock.ros_time_is_active:
            return "joint states are ahead of the clock"
        if "locked_velocity" in self._heard:
            if self._mu is None:
                return "no locked_velocity"
            if abs(sample.nanos - self._mu_nanos) > limit:
                return "locked_velocity is old"
        if "odom" in self._heard:
            if self._g is None:
                return "no odom"
            if abs(sample.nanos - self._base_nanos) > limit:
                return "odom is old"
        if self._aim is None:
            for topic in ("base_target", "tool_target"):
                if topic in self._heard:
                    return f"no {topic}"
        return ""

    def _step(self, sample: JointSample) -> Array:
        """Joint efforts, shape (n,); a driven base is told of its thrusts too."""
        controller, q, qd = self.controller, sample.q, sample.qd
        if isinstance(controller, MomentumCompensator):
            mu = self._mu if "locked_velocity" in self._heard else np.zeros(controller.robot.b)
            g = self._g if "odom" in self._heard else None
            return controller.step(q, qd, mu, g=g).tau
        if isinstance(controller, ReactionMode):
            return controller.step(self._g, q, self._V, qd).tau
        since = 1e-9 * (sample.nanos - self._step_nanos) if self._step_nanos else 0.0
        self._step_nanos = sample.nanos
        period = min(max(since, 1e-6), self.parameters.timeout)
        command = controller.step(self._g, q, self._V, qd, dt=period)
        self._push(command.thrusts, command.wrench, sample.nanos)
        return command.tau

    def _push(self, thrusts: Array, wrench: Array, nanos: int) -> None:
        self._thrusts.publish(Float64MultiArray(data=thrusts.tolist()))
        message = WrenchStamped()
        message.header.stamp = to_stamp(nanos)
        message.header.frame_id = self.controller.robot.root_link
        fill_wrench(message.wrench, wrench)
        self._wrench.publish(message)

    def _send(self, tau: Array, nanos: int) -> None:
        """The last gate: finite and within limits, or an error and zeros."""
        if not math.isfinite(tau @ tau):  # a sum of squares is NaN or infinite if any term is
            self._stop("efforts are not finite")
            raise NonFiniteError(f"efforts: NaN or infinity: {tau}")
        np.minimum(tau, self._limits, out=tau)
        np.maximum(tau, -self._limits, out=tau)
        self._out[:] = tau[self._order]
        self._commands.publish(self._message)
        if self._torques.get_subscription_count() > 0:
            self._efforts[:] = self._out
            self._named.header.stamp = to_stamp(nanos)
            self._torques.publish(self._named)

    def _stop(self, why: str) -> None:
        """Zeros, once for each reason; the watchdog repeats them while torques are wanted."""
        if why != self._why and self.controller is not None:
            self._zero()
            if self.is_active and self._why == "":
                self.health.trouble(f"stopped: {why}", f"torques stopped: {why}")
        self._why = why

    def _zero(self) -> None:
        if self.controller is None:
            return
        self._out[:] = 0.0
        self._commands.publish(self._message)
        if self._torques.get_subscription_count() > 0:
            self._efforts[:] = 0.0
            self._named.header.stamp = self.get_clock().now().to_msg()
            self._torques.publish(self._named)
        if isinstance(self.controller, ComputedTorque):
            rotors = len(self.controller.propulsion.rotors)
            self._push(np.zeros(rotors), np.zeros(6), self.get_clock().now().nanoseconds)

    def _watch(self) -> None:
        """Stop when joints no longer come, and say zero again while they do not."""
        if not self.is_active or not self._enabled or self.controller is None:
            return
        if self._why:
            self._zero()
        elif time.monotonic() - self._last_command > self.parameters.timeout:
            self._stop("joint states stopped")

    def begin(self) -> None:
        """Nothing of before counts."""
        self._why = "waiting for joints" if self._enabled else "not enabled"
        self._forget_targets()
        self._forget()

    def end(self) -> None:
        """Zeros, whatever was before."""
        self._why = "not active"
        if self.parameters.require_enable:
            self._enabled = False
            self._forget_targets()
        self._zero()
        self.delivered(self._commands, self._thrusts, self._wrench)

    def describe(self) -> tuple[bytes, str, dict[str, str]]:
        """Whether there are torques, and if not why."""
        values = {"controller": self.parameters.controller, "enabled": str(self._enabled)}
        self._judge_gains()
        if self._shaken:
            values["gains"] = f"may shake {self._shaken}"
        if not self._why and self._shaken:
            return WARN, f"torques on, gains {values['gains']}", values
        if not self._why:
            return OK, "torques on", values
        level = WARN if not self._enabled or "waiting" in self._why else ERROR
        return level, f"torques zero: {self._why}", values

    def _judge_gains(self) -> None:
        """Whether the gains suit the rate of the joint states: torques act a sample late."""
        controller, newest = self.controller, self._newest
        if controller is not self._judged[0]:
            self._shaken = ""
        if isinstance(controller, ReactionMode) or newest is None:
            return
        if self._gaps < FEW or self._span < SHORT:
            return
        period = 1e-9 * self._span / self._gaps
        self._span = self._gaps = 0
        if self._judged[0] is controller and abs(period / self._judged[1] - 1.0) < SAME:
            return
        self._judged = controller, period
        robot = controller.robot
        if isinstance(controller, MomentumCompensator):
            names, inertia = robot.joint_names, shape_inertia(robot, newest.q)
        else:  # computed torque, whose feedback is of accelerations
            names, inertia = (*AXES, *robot.joint_names), np.eye(6 + robot.n)
        joint = shaken_joint(inertia, controller.stiffness, controller.damping, period)
        self._shaken = "" if joint is None else f"{names[joint]} at {1.0 / period:.0f} Hz"
        if self._shaken:
            self.health.trouble(
                "gains too high", f"gains may shake {self._shaken}: less damping or stiffness"
            )


def _order(robot: Robot, p: CompensatorParameters) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Indices of the joints in the order of the commands."""
    for name in p.joints:
        if name not in robot.joint_names:
            raise UnknownJointError("parameter joints", name, robot.joint_names)
    if len(set(p.joints)) != len(p.joints):
        raise ParameterError(f"parameter joints: got {list(p.joints)}, a joint twice")
    names = p.joints or robot.joint_names
    return np.array([robot.joint_names.index(name) for name in names], dtype=np.intp)


def _feedback(
    p: CompensatorParameters, names: tuple[str, ...], inertias: Array
) -> tuple[Array, Array]:
    """Stiffness and damping in the order of ``names``, chosen here where they are negative."""
    soft = soft_stiffness(inertias)
    K = np.full_like(soft, p.gains_stiffness) if p.gains_stiffness >= 0.0 else soft
    K = _gains("gains.stiffness_of", p.gains_stiffness_of, K, names)
    critical = critical_damping(K, inertias)
    D = np.full_like(critical, p.gains_damping) if p.gains_damping >= 0.0 else critical
    return K, _gains("gains.damping_of", p.gains_damping_of, D, names)


def _gains(name: str, items: Iterable[str], default: Array, names: tuple[str, ...]) -> Array:
    """Gains in the order of ``names``: a default, but for the ones that items name."""
    out = default.copy()
    for key, value in numbers_by_name(name, items).items():
        if key not in names:
            raise UnknownJointError(f"parameter {name}", key, names)
        out[names.index(key)] = value
    return gains(f"parameter {name}", out, names)


def _check_frames(aim: str, world: str) -> None:
    """A pose to be at is of use only in the frame of the pose that is; empty ones are any."""
    if aim and world and aim != world:
        raise ParameterError(f"target pose: is in frame {aim!r}, odom in {world!r}")


def _controller(robot: Robot, p: CompensatorParameters) -> Any:
    """Controller of a robot and parameters."""
    if p.controller == "momentum":
        K, D = _feedback(p, robot.joint_names, free_inertias(robot))
        return MomentumCompensator(robot, K, D, law=max(p.law, 1))
    if p.controller == "reaction":
        return ReactionMode(
            robot,
            p.tool_link or robot.tip_link,
            position_only=p.position_only,
            base_weights=p.base_weight if p.base_weight >= 0.0 else None,
            failed=p.failed_joints,
        )
    if not p.propulsion:
        raise ParameterError("parameter propulsion: computed_torque needs a YAML file")
    names = (*AXES, *robot.joint_names)
    K, D = _feedback(p, names, np.ones(len(names)))
    return ComputedTorque(
        robot,
        Propulsion.load(robot, p.propulsion),
        stiffness=K,
        damping=D,
        integral=_gains("gains.integral_of", p.gains_integral_of, np.zeros(len(names)), names),
    )


def main(args: list[str] | None = None) -> int:
    """Entry point."""
    return run(CompensatorNode, args)


if __name__ == "__main__":
    raise SystemExit(main())
