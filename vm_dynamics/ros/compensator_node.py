# SPDX-License-Identifier: Apache-2.0
"""Commands joint torques: runs a controller, one of the package's or one of the user's own.

What can hurt someone is the output, so it is zero unless all is well: clamped to the URDF's effort
limits, zero when joints or the velocity estimate are older than ``timeout``, zero when disabled,
deactivated or shut down, never NaN, and off until enabled with ``require_enable``. The last gate
before the actuators and its watchdog are in :mod:`vm_dynamics.ros.torques`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from geometry_msgs.msg import (
    PoseStamped,
    TwistStamped,
    TwistWithCovarianceStamped,
    WrenchStamped,
)
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, String
from std_srvs.srv import SetBool
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from vm_dynamics.control import Controller, ControlState, Efforts, JointReference, Tolerances
from vm_dynamics.control.controller import TARGET_KEYWORDS, heard_by
from vm_dynamics.errors import DimensionError, NonFiniteError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot
from vm_dynamics.ros.compensator_parameters import (
    CompensatorParameters,
    acceleration_limits,
    check_not_wider,
    order_of,
)
from vm_dynamics.ros.controllers import Built, build
from vm_dynamics.ros.diagnostics import ERROR, OK, WARN
from vm_dynamics.ros.follow_joint_trajectory import Server, action_type
from vm_dynamics.ros.gain_watch import GainWatch
from vm_dynamics.ros.joint_targets import JointTargets
from vm_dynamics.ros.joint_trajectories import Code, JointTrajectories, Outcome
from vm_dynamics.ros.joints import JointSample
from vm_dynamics.ros.messages import nanoseconds, pose_matrix, twist_vector, wrench_vector
from vm_dynamics.ros.node import COMMAND, LATCHED, SENSOR
from vm_dynamics.ros.process import run
from vm_dynamics.ros.robot_node import RobotNode
from vm_dynamics.ros.torques import Outputs, TorqueGate, TorqueWriter
from vm_dynamics.ros.trajectory_messages import tolerances_of
from vm_dynamics.ros.trust import Trust
from vm_dynamics.ros.watchdog import Watchdog

BLEND = 1.0  # [s] from the torques of one controller to those of another
CONTACT_MEMORY = 500_000_000  # [ns] for which a contact is believed that is not heard of again
PUSHED = "something pushes the robot"
PERIODS = 2.0  # of the joint states: the least that a timeout must bridge
# Topics of what a controller needs to hear, and of what can be aimed.
TOPICS = {
    "pose": "odom",
    "twist": "odom",
    "locked_velocity": "locked_velocity",
    "joints": "target",
    "base_pose": "base_target",
    "tool_pose": "tool_target",
}
BASE_INPUTS = frozenset({"pose", "twist", "locked_velocity"})
# What an observer says of its own estimate, for whoever uses it.
TRUST_TOPICS = frozenset({"estimate_state", "locked_velocity_with_covariance"})


class _Prepared(NamedTuple):
    """A robot, a controller that is ready, and what moves the targets of its joints."""

    robot: Robot
    built: Built
    targets: JointTargets
    tolerances: Tolerances
    rates: Array  # limits of acceleration, shape (n,)


class _Aim(NamedTuple):
    """A pose that base or tool shall have, shape (4, 4), and the frame that it is in."""

    pose: Array
    frame: str


class CompensatorNode(RobotNode):
    """Runs a controller, and stands between it and the actuators."""

    PARAMETERS = CompensatorParameters

    def __init__(self) -> None:
        """Name the node."""
        super().__init__("compensator_node")
        p = self.parameters
        self.controller: Controller | None = None
        self.gate = TorqueGate(
            require_enable=p.require_enable,
            timeout=p.timeout,
            resume=p.resume,
            stopped=self._on_stop,
        )
        self.trajectories = JointTrajectories(
            self.lock,
            obstacle=self._obstacle,
            torqueless=self._torqueless,
            now=lambda: self.get_clock().now().nanoseconds,
            trouble=self.health.trouble,
        )
        self._watchdog: Watchdog | None = None
        self._targets: JointTargets | None = None
        self._aims: dict[str, _Aim] = {}  # by what is aimed
        self._held = False  # whether what has no target was told to stay where it is
        self._losses = 0
        self._sizes: tuple[Any, ...] = ()  # of the controller's efforts
        self._rotors, self._pushes = 0, False  # with what this node has ever pushed the base
        self._ran: Controller | None = None  # that gave the last torques
        self._former: tuple[Controller, int] | None = None  # that fades out, and since when [ns]
        self._gain_watch = GainWatch(self.health.trouble)
        self._trust = Trust()
        self._forget_base()

    def _forget_base(self) -> None:
        """What was heard of the base."""
        self._mu: Array | None = None
        self._mu_nanos = 0
        self._g: Array | None = None
        self._V: Array | None = None
        self._base_nanos = 0
        self._world = ""  # frame of odom
        self._step_nanos = 0
        self._newest: JointSample | None = None
        self._touched_nanos = 0  # stamp of the last contact, zero when it is over
        self._gain_watch.forget()
        self._trust.forget()

    def start(self) -> None:
        """Topics, the service and the watchdog."""
        self._outputs = Outputs(
            self.publisher(Float64MultiArray, "~/commands", COMMAND, sole=True),
            self.publisher(JointState, "~/torques", COMMAND),
            self.publisher(Float64MultiArray, "~/thrusts", COMMAND, sole=True),
            self.publisher(WrenchStamped, "~/base_wrench", COMMAND),
        )
        self._heard: dict[str, Any] = {}
        self.serve(SetBool, "~/enable", self._on_enable)
        self.listen_aside(JointTrajectory, "~/joint_trajectory", self.trajectories.hear, COMMAND)
        kind = action_type()
        if kind is not None:
            server = Server(self, kind, self.trajectories, self.parameters.action_monitor_rate)
            self._entities.append((Server.destroy, server))
        self._watchdog = Watchdog(
            self.gate.look, lambda: self.gate.timeout, self.get_logger().error
        )

    def forget(self) -> None:
        """No robot, no watchdog."""
        super().forget()
        if self._watchdog is not None:
            self._watchdog.stop()
        self._watchdog = self.controller = self._targets = self._former = None
        self.trajectories.pause("the node was cleaned up")
        self.gate.use(None)

    def _wire(self) -> None:
        """Listen to what the controller, and one that fades out, needs.

        Nothing else: each topic costs every cycle.
        """
        wanted = set()
        for controller in (self.controller, self._former[0] if self._former else None):
            if controller is not None:
                wanted |= {TOPICS[name] for name in controller.needs | controller.targets}
                wanted |= TRUST_TOPICS if controller.needs & BASE_INPUTS else set()
        if self.parameters.on_contact != "ignore":
            wanted.add("contact")
        point = self.parameters.target_type == "trajectory_point"
        sources: dict[str, tuple[type, Any, Any, bool]] = {
            "target": (
                JointTrajectoryPoint if point else JointState,
                self._on_target,
                COMMAND,
                False,
            ),
            "locked_velocity": (TwistStamped, self._on_locked_velocity, SENSOR, True),
            "locked_velocity_with_covariance": (
                TwistWithCovarianceStamped,
                self._on_covariance,
                SENSOR,
                False,
            ),
            "estimate_state": (String, self._on_estimate_state, LATCHED, False),
            "odom": (Odometry, self._on_odom, SENSOR, True),
            "base_target": (PoseStamped, partial(self._on_aim, "base_pose"), COMMAND, False),
            "tool_target": (PoseStamped, partial(self._on_aim, "tool_pose"), COMMAND, False),
            "contact": (WrenchStamped, self._on_contact, SENSOR, False),
        }
        for topic in set(self._heard) - wanted:
            self.ignore(self._heard.pop(topic))
        for topic in wanted - set(self._heard):
            kind, callback, qos, sole = sources[topic]
            self._heard[topic] = self.listen(kind, topic, callback, qos, sole=sole)

    # -- the robot ------------------------------------------------------------------------------

    def prepare(self, robot: Robot, parameters: CompensatorParameters) -> _Prepared:
        """A controller for the robot, compiled and rehearsed."""
        built = build(robot, parameters)
        names, rates = order_of(robot, parameters), acceleration_limits(robot, parameters)
        targets = JointTargets(robot, names, rates)
        return _Prepared(robot, built, targets, tolerances_of(robot, parameters), rates)

    def use_robot(self, robot: Robot, prepared: _Prepared) -> None:
        """Another robot: torques stop until all inputs fit it, and until enabled again."""
        if self.controller is not None:
            self.gate.stop("another robot")
            if self.parameters.require_enable:
                self.gate.disable("another robot")
        self._forget_base()
        self._rotors, self._pushes = 0, False
        self._put(prepared)
        self._forget_targets("another robot")
        for name, effort, speed in zip(
            robot.joint_names, robot.effort_limits, robot.velocity_limits, strict=True
        ):
            if not np.isfinite(effort):
                self.get_logger().warning(f"joint {name!r} has no effort limit in the URDF")
            if not np.isfinite(speed):
                self.get_logger().warning(
                    f"joint {name!r} has no velocity limit in the URDF: a target that jumps is "
                    "followed at once"
                )

    def use_payload(self, robot: Robot, prepared: _Prepared, before: Any) -> None:
        """Go on with another payload: torques pass over to those of the new model."""
        self.retune(prepared, before)

    def retune(self, prepared: _Prepared, before: CompensatorParameters) -> None:
        """Other gains: the same target goes on. Another controller: it holds where it is."""
        former, targets, p = self.controller, self._targets, self.parameters
        self.gate.timeout, self.gate.resume = p.timeout, p.resume
        self._put(prepared)
        if former is None or targets is None:
            return
        if p.controller == before.controller:
            self._held = prepared.built.controller.take_over(former) and self._held
            prepared.targets.take_over(targets)
        else:
            self._forget_targets("another controller")
        if self.gate.is_on and self._newest is not None:
            faded = self._former
            if p.controller != before.controller:
                self._begin_torques(self._newest)
            # one that never gave torques has nothing to fade out of
            self._former = (former, self._newest.nanos) if former is self._ran else faded
            if p.failed_joints != before.failed_joints:
                self._former = None  # it counts with a motor that is not there, or forgets one
            self._wire()

    def _put(self, prepared: _Prepared) -> None:
        """Use a controller from now on."""
        robot, (self.controller, efforts), self._targets, tolerances, rates = prepared
        clip = self.parameters.target_limits == "clip"
        self.trajectories.use(robot, self._targets, tolerances, rates=rates, clip=clip)
        self._sizes = efforts.sizes
        self._rotors = max(self._rotors, 0 if efforts.thrusts is None else len(efforts.thrusts))
        self._pushes = self._pushes or efforts.wrench is not None
        self._wire()
        scale = self.parameters.effort_scale
        self.gate.use(
            TorqueWriter(
                self._outputs,
                names=self._targets.names,
                order=self._targets.order,
                limits=robot.effort_limits * scale if scale > 0.0 else np.zeros(robot.n),
                rotors=self._rotors,
                pushes=self._pushes,
                frame=self.parameters.frame_of(robot.root_link),
                now=lambda: self.get_clock().now().nanoseconds,
            )
        )

    def accept(self, changed: CompensatorParameters, names: set[str]) -> None:
        """What widens limits needs torques off, and no gain may shake a joint."""
        wanted = self.is_active and self.gate.enabled
        if wanted:
            check_not_wider(self.parameters, changed)
        period = self._gain_watch.period
        if "timeout" in names and changed.timeout < PERIODS * period:
            raise ParameterError(
                f"parameter timeout: got {changed.timeout:g} s, expected at least "
                f"{PERIODS * period:.3g} s, two periods of the joint states"
            )
        super().accept(changed, names)
        if not wanted or self._next_robot is not self.robot:
            return
        controller, newest, prepared = self.controller, self._newest, self.prepared
        if controller is not None and newest is not None and prepared is not None:
            same = changed.controller == self.parameters.controller
            self._gain_watch.check(prepared.built.controller, controller, same, newest.q)

    def _forget_targets(self, why: str) -> None:
        """What was wanted, and what integral action has gathered on the way there."""
        self.trajectories.end(why)
        self._aims.clear()
        self._held = False
        self._losses = self.gate.losses
        if self.controller is not None:
            self.controller.reset()
        if self._targets is not None:
            self._targets.forget()

    # -- inputs ---------------------------------------------------------------------------------

    def _on_enable(self, request: Any, response: Any) -> Any:
        response.success = self.is_active or not request.data
        if not response.success:
            response.message = f"refused: the node is {self.state_label}"
            return response
        if request.data:
            self.gate.enable()
            with self.lock:
                why = "waiting for joint states"
                if self._newest is not None:
                    why = self._missing(self._newest)
            response.message = (
                f"enabled, but torques stay zero for now: {why}"
                if why
                else "enabled: torques come with the next joint state"
            )
        else:
            # not with the lock: a callback that hangs must not keep anybody from disabling
            self.gate.disable()
            response.message = "disabled: torques are zero"
        self.get_logger().info(response.message)
        return response

    def _on_target(self, message: Any) -> None:
        if self._targets is None or self._refuses_targets():
            return
        self._note_losses()
        clipped = self._targets.read(message, clip=self.parameters.target_limits == "clip")
        self.trajectories.end("replaced by a target")
        if clipped:
            self.health.trouble("clipped target", clipped)

    def _on_aim(self, target: str, message: PoseStamped) -> None:
        if self._refuses_targets():
            return
        self._note_losses()
        aim = pose_matrix(message.pose.position, message.pose.orientation)
        if not _same_frame(message.header.frame_id, self._world):
            self._refuse_frame(message.header.frame_id)
            return
        # of a controller that fades out: the next one may have nothing of the kind
        if self.controller is not None and target in self.controller.targets:
            self.controller.set_target(**{TARGET_KEYWORDS[target][0]: aim})
            self._aims[target] = _Aim(aim, message.header.frame_id)

    def _on_contact(self, message: WrenchStamped) -> None:
        wrench = wrench_vector(message.wrench)
        if not np.isfinite(wrench).all():
            raise NonFiniteError(f"contact: NaN or infinity: {wrench}")
        goes_on = self._is_touched
        self._touched_nanos = nanoseconds(message.header.stamp) if wrench.any() else 0
        if goes_on or not self._is_touched:
            return
        place = f"contact at {message.header.frame_id}"
        if self.parameters.on_contact == "zero":
            self.gate.disable(f"{place}, until ~/enable")
        elif self._newest is not None and self._targets is not None:
            self.health.trouble("contact", f"{place}: the joints hold where they are")
            self._forget_targets(place)
            self._targets.hold(self._newest.q)

    @property
    def _is_touched(self) -> bool:
        """Whether something pushes the robot, as far as is known now."""
        if self._newest is None or not self._touched_nanos:
            return False
        return self._newest.nanos - self._touched_nanos <= CONTACT_MEMORY

    def _refuses_targets(self) -> bool:
        if self._is_held:
            self.health.trouble("target in contact", f"target refused: {PUSHED}")
        return self._is_held

    @property
    def _is_held(self) -> bool:
        """Whether the joints stay where they are, for something that pushes the robot."""
        return self.parameters.on_contact == "hold" and self._is_touched

    def _obstacle(self) -> str:
        """Why no trajectory can be followed now, empty if it can."""
        if not self.is_active:
            return f"the node is {self.state_label}"
        if self.controller is None:
            return "there is no robot yet"
        if "joints" not in self.controller.targets:
            return f"the controller {self.parameters.controller} has no targets of joints"
        if self._torqueless() or self._is_held:
            return self._torqueless() or PUSHED
        return self._doubts() if self.parameters.on_inconsistent == "fade" else ""

    def _torqueless(self) -> str:
        """Why there are no torques, empty if there are."""
        return "" if self.gate.is_on else f"torques are zero: {self.gate.why}"

    def _refuse_frame(self, frame: str) -> None:
        self.health.trouble(
            "bad target pose", f"target pose: is in frame {frame!r}, odom in {self._world!r}"
        )

    def _note_losses(self) -> None:
        """Targets of before torques were lost count no more.

        Whoever enables them again may have moved the arm by hand: it holds where it is then.
        """
        if self._losses != self.gate.losses:
            self._forget_targets("torques were lost")

    def _on_locked_velocity(self, message: TwistStamped) -> None:
        if self.robot is None:
            return
        frame, root = message.header.frame_id, self.parameters.frame_of(self.robot.root_link)
        if frame not in ("", root):
            raise ParameterError(f"locked_velocity: is in frame {frame!r}, expected {root!r}")
        mu = self.robot.base_group.iota_pinv @ twist_vector(message.twist)
        if not np.isfinite(mu).all():
            raise NonFiniteError(f"locked_velocity: NaN or infinity: {mu}")
        self._mu, self._mu_nanos = mu, nanoseconds(message.header.stamp)

    def _on_covariance(self, message: TwistWithCovarianceStamped) -> None:
        covariance = np.array(message.twist.covariance).reshape(6, 6)
        if not np.isfinite(covariance).all():
            raise NonFiniteError("locked_velocity_with_covariance: NaN or infinity")
        self._trust.hear_covariance(covariance)

    def _on_estimate_state(self, message: String) -> None:
        self._trust.hear_state(message.data)

    def _on_odom(self, message: Odometry) -> None:
        if self.robot is None:
            return
        child, root = message.child_frame_id, self.parameters.frame_of(self.robot.root_link)
        if child not in ("", root):
            raise ParameterError(f"odom: is of frame {child!r}, expected {root!r}")
        V = self.robot.base_group.iota_pinv @ twist_vector(message.twist.twist)
        if not np.isfinite(V).all():
            raise NonFiniteError(f"odom: NaN or infinity in the twist: {V}")
        self._world = message.header.frame_id
        for aim in list(self._aims.values()):
            if not _same_frame(aim.frame, self._world):
                self._forget_targets("a target in another frame")  # it came before odom did
                self._refuse_frame(aim.frame)
        self._g = pose_matrix(message.pose.pose.position, message.pose.pose.orientation)
        self._V, self._base_nanos = V, nanoseconds(message.header.stamp)

    # -- output ---------------------------------------------------------------------------------

    def on_joints(self, sample: JointSample) -> None:
        """A step, or the reason why there is none."""
        ticket = self.gate.ticket
        if sample.restarted:
            self._forget_base()
            self.gate.stop("the clock began anew")
        self._gain_watch.hear(sample.nanos, int(1e9 * self.gate.timeout))
        self._newest = sample
        why = self._missing(sample)
        if why:
            self.gate.stop(why)
        if why or not self.gate.enabled:
            self.trajectories.pause(self._torqueless())
            return
        self._note_losses()
        if not self.gate.is_on:
            self._begin_torques(sample)
        try:
            efforts = self._step(sample)
        except Exception:
            self.gate.stop("error in the controller")
            raise
        if self.gate.send(ticket, efforts, sample.nanos):
            self._ran = self.controller

    def _begin_torques(self, sample: JointSample) -> None:
        """Torques begin: from where the robot is now to where it shall be, if that was said."""
        self._former = None
        self._step_nanos = 0
        self.trajectories.pause("torques began anew")
        if self._targets is not None:
            self._targets.hold(sample.q)

    def _hold(self, controller: Controller, state: ControlState) -> None:
        """What has no target stays where it is."""
        controller.hold(state)
        for target, aim in self._aims.items():
            controller.set_target(**{TARGET_KEYWORDS[target][0]: aim.pose})
        self._held = True

    def _missing(self, sample: JointSample) -> str:
        """What a step lacks, empty if nothing."""
        limit = int(1e9 * self.gate.timeout)
        clock: Any = self.get_clock()
        age = clock.now().nanoseconds - sample.nanos
        if age > limit:
            return "joint states are old"
        # a simulated clock comes as a topic, perhaps after what is stamped with it
        if age < -limit and not clock.ros_time_is_active:
            return "joint states are ahead of the clock"
        if self.parameters.second_publisher == "stop" and self.sole.conflicts:
            return self.sole.message
        return "" if self.controller is None else self._unheard(self.controller, sample.nanos)

    def _unheard(self, controller: Controller, nanos: int) -> str:
        """What a controller lacks at the time of a joint state [ns], empty if nothing."""
        limit, needs = int(1e9 * self.gate.timeout), controller.needs
        if "locked_velocity" in needs:
            if self._mu is None:
                return "no locked_velocity"
            if abs(nanos - self._mu_nanos) > limit:
                return "locked_velocity is old"
        if "pose" in needs or "twist" in needs:
            if self._g is None:
                return "no odom"
            if abs(nanos - self._base_nanos) > limit:
                return "odom is old"
        return ""

    def _step(self, sample: JointSample) -> Efforts:
        """Efforts of the controller, and of the one before it while that fades out."""
        controller, targets = self.controller, self._targets
        if controller is None or targets is None:
            raise ParameterError("controller: there is none without a robot")
        since = 1e-9 * (sample.nanos - self._step_nanos) if self._step_nanos else 0.0
        self._step_nanos = sample.nanos
        period = min(max(since, 0.0), self.gate.timeout)
        self.trajectories.step(sample)
        targets.reference.step(period)
        self._doubt(controller, period)
        state = self._state(controller, sample, period)
        if not self._held:
            self._hold(controller, state)
        efforts = _command(controller, state, targets.reference)
        if efforts.sizes != self._sizes:
            raise DimensionError(
                f"controller: efforts of shapes {efforts.sizes}, expected {self._sizes}"
            )
        if self._former is not None:
            former, began = self._former
            share = min(max(1e-9 * (sample.nanos - began) / BLEND, 0.0), 1.0)
            if not self._unheard(former, sample.nanos):
                state = self._state(former, sample, period)
                efforts = _command(former, state, targets.reference).blended(efforts, share)
            if share == 1.0:
                self._former = None
                self._wire()
        return efforts

    def _state(self, controller: Controller, sample: JointSample, period: float) -> ControlState:
        """What a controller needs of all that was heard, a period [s] after its last step."""
        stamp = 1e-9 * sample.nanos
        mu = self._mu
        if mu is not None and _compensates(controller):
            mu = self._trust.share * mu
        heard = self._g, self._V, mu
        return heard_by(controller, sample.q, sample.qd, period, stamp, *heard)

    def _doubt(self, controller: Controller, period: float) -> None:
        """Fade the compensation out, or in again, by what is said of the estimate."""
        doubts = self._doubts()
        is_fading = bool(doubts) and self.parameters.on_inconsistent == "fade"
        self._trust.step(is_fading, period)
        if is_fading:
            self.trajectories.stop(Outcome(Code.INVALID_GOAL, doubts))
        if not doubts:
            return
        if not _compensates(controller):
            what = "it moves the base by that estimate all the same"
        elif is_fading:
            what = "the compensation fades out to a plain PD law"
        else:
            what = "the compensation goes on (on_inconsistent)"
        self.health.trouble("doubtful estimate", f"{doubts}: {what}")

    def _doubts(self) -> str:
        """What speaks against the estimate that the controller uses, empty if nothing."""
        if self.controller is None or not self.controller.needs & BASE_INPUTS:
            return ""
        return self._trust.doubts(self.parameters.max_deviation)

    def _on_stop(self, why: str) -> None:
        self.health.trouble(f"stopped: {why}", f"torques stopped: {why}")

    def fault(self) -> None:
        """An error that nobody foresaw: zeros, and whoever wants torques has to say so again."""
        if self.parameters.require_enable:
            self.gate.disable("an error, see the log")
        else:
            self.gate.stop("an error, see the log")

    def begin(self) -> None:
        """Nothing of before counts."""
        self._forget_targets("the node began anew")
        self._forget_base()
        self.gate.open()

    def end(self) -> None:
        """Zeros, whatever was before."""
        self.gate.close()
        self.delivered(self._outputs.commands, self._outputs.thrusts, self._outputs.wrench)

    def describe(self) -> tuple[bytes, str, dict[str, str]]:
        """Whether there are torques, and if not why."""
        values = {
            "controller": self.parameters.controller,
            "enabled": str(self.gate.enabled),
            "resume": self.parameters.resume,
            "trajectory": self.trajectories.state,
        }
        if self.trajectories.refusal:
            values["refused trajectory"] = self.trajectories.refusal
        self._gain_watch.judge(self.controller, None if self._newest is None else self._newest.q)
        if self._gain_watch.shaken:
            values["gains"] = f"may shake {self._gain_watch.shaken}"
        why, doubts = self.gate.why, self._doubts()
        compensates = _compensates(self.controller)
        if compensates:
            values["compensation"] = f"{100.0 * self._trust.share:.0f} %"
        if not why and doubts and not compensates:
            return ERROR, f"torques on, but {doubts}: it moves the base by that estimate", values
        if not why and doubts:
            return WARN, f"torques on, compensation {values['compensation']}: {doubts}", values
        if not why and self.sole.conflicts:
            return WARN, f"torques on, but {self.sole.message}", values
        if not why and self._gain_watch.shaken:
            return WARN, f"torques on, gains {values['gains']}", values
        if not why:
            return OK, "torques on", values
        waits = why == "not enabled" or "waiting" in why or why == "disabled"
        return WARN if waits else ERROR, f"torques zero: {why}", values


def _command(controller: Controller, state: ControlState, reference: JointReference) -> Efforts:
    """Efforts of a controller on the way of the joints to their target."""
    if "joints" in controller.targets:
        controller.set_target(q=reference.q, qd=reference.qd, qdd=reference.qdd)
    return controller.command(state)


def _compensates(controller: Controller | None) -> bool:
    """Whether a controller can be faded out to a joint law; one of the user's own need not say."""
    return getattr(controller, "compensates", False)


def _same_frame(aim: str, world: str) -> bool:
    """A pose to be at is of use only in the frame of the pose that is; empty ones are any."""
    return not (aim and world) or aim == world


def main(args: list[str] | None = None) -> int:
    """Entry point."""
    return run(CompensatorNode, args)


if __name__ == "__main__":
    raise SystemExit(main())
