# SPDX-License-Identifier: Apache-2.0
"""What all nodes share: life cycle, the robot from its description, joint states, a clean end.

A node activates itself unless ``autostart`` is false. It compiles its kernels when it is
configured, so no control cycle ever waits for a compiler. The robot may come later: until then an
active node waits and says so in its diagnostics. A changed description replaces the robot; one
that cannot be read is refused with its reason, and the old robot stays.
"""

from __future__ import annotations

import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, ClassVar

import rclpy
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from vm_dynamics.dynamics._entry import EntryPoint
from vm_dynamics.errors import UrdfWarning, VmDynamicsError
from vm_dynamics.robot import Robot, load
from vm_dynamics.ros.diagnostics import ERROR, OK, WARN, Health
from vm_dynamics.ros.joints import JointInputError, JointReader, JointSample
from vm_dynamics.ros.parameters import RobotParameters
from vm_dynamics.ros.spinning import Topics, spin
from vm_dynamics.submerged import submerge

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
# Sensor data, with room for a hiccup of the scheduler: at 1 kHz, what is not older than 0.1 s.
SENSOR = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
COMMAND = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)

_ROBOT_CHANGES = {
    "robot_description",
    "base",
    "root_link",
    "tip_link",
    "locked_joints",
    "gravity",
    "hydrodynamics",
    "payload.link",
    "payload.mass",
    "payload.com",
    "payload.inertia",
    "missing_velocity",
    "velocity_cutoff",
}


class VmNode(LifecycleNode):
    """Base of the nodes.

    Attributes:
        PARAMETERS: class of its parameters.
        parameters: their values.
        robot: the robot, or None until there is a description.
        health: counts and times for diagnostics.
        is_active: whether output is allowed.
        topics: the subscriptions of :meth:`listen`.
    """

    PARAMETERS: ClassVar[type[RobotParameters]] = RobotParameters
    parameters: Any

    def __init__(self, name: str) -> None:
        """Declare the parameters; all else waits for the life cycle."""
        super().__init__(name)
        self.parameters = self.PARAMETERS.declare(self)
        self.topics = Topics(self.context)
        self.robot: Robot | None = None
        self.health = Health(self)
        self.is_active = False
        self._reader: JointReader | None = None
        self._description = ""
        self._checked: Robot | None = None  # of the parameters that were last asked for
        self._entities: list[tuple[Callable[[Any], Any], Any]] = []
        self.add_on_set_parameters_callback(self._on_set_parameters)
        self.add_post_set_parameters_callback(self._after_set_parameters)
        period = 1.0 / self.parameters.diagnostics_rate
        # by the steady clock: a simulation that stands still is worth a report too
        self._report_timer = self.create_timer(period, self._report, clock=_steady())

    # -- what a node adds -------------------------------------------------------------------------

    def kernels(self) -> Iterable[EntryPoint]:
        """Kernels to compile before the node is configured."""
        return ()

    def start(self) -> None:
        """Create publishers and subscriptions, with :meth:`listen`, :meth:`publisher`."""

    def check(self, robot: Robot, parameters: Any) -> None:
        """Refuse a robot and parameters that do not fit each other, with a VmDynamicsError."""

    def use_robot(self, robot: Robot) -> None:
        """A new robot, or other parameters of it, that passed the check: build what needs it."""

    def use_parameters(self, before: Any) -> None:
        """Parameters have changed from ``before``."""

    def on_joints(self, sample: JointSample) -> None:
        """A good joint state came while the node is active."""

    def begin(self) -> None:
        """The node becomes active."""

    def end(self) -> None:
        """The node is active no more, or is about to end: leave a safe output."""

    def describe(self) -> tuple[bytes, str, dict[str, str]]:
        """Level, message and values for diagnostics, beyond what all nodes report."""
        return OK, "running", {}

    # -- entities ---------------------------------------------------------------------------------

    def listen(
        self,
        kind: type,
        topic: str,
        callback: Callable[[Any], None],
        qos: QoSProfile,
        *,
        last: bool = False,
    ) -> Any:
        """Subscribe until the node is cleaned up; a callback's exception is logged, not fatal.

        Args:
            kind: type of the messages.
            topic: its name.
            callback: called with each message.
            qos: quality of service.
            last: whether it comes after all others when several topics have messages.
        """

        def heard(message: Any) -> None:
            self.health.heard(topic)
            self._guarded(topic, callback, message)

        out = self.create_subscription(kind, topic, heard, qos, callback_group=self.topics.group)
        self.topics.add(out, kind, heard, most=qos.depth, last=last)
        self._entities.append((self._end_subscription, out))
        return out

    def ignore(self, subscription: Any) -> None:
        """End a subscription of :meth:`listen`."""
        self._entities = [item for item in self._entities if item[1] is not subscription]
        self._end_subscription(subscription)

    def _end_subscription(self, subscription: Any) -> None:
        self.topics.remove(subscription)
        self.destroy_subscription(subscription)

    def publisher(self, kind: type, topic: str, qos: QoSProfile) -> Any:
        """Publisher until the node is cleaned up."""
        out = self.create_publisher(kind, topic, qos)
        self._entities.append((self.destroy_publisher, out))
        return out

    def every(self, period: float, callback: Callable[[], None]) -> Any:
        """Timer of the steady clock until the node is cleaned up [s]."""
        out = self.create_timer(
            period, lambda: self._guarded("timer", lambda _: callback(), None), clock=_steady()
        )
        self._entities.append((self.destroy_timer, out))
        return out

    def serve(self, kind: type, name: str, callback: Callable[[Any, Any], Any]) -> Any:
        """Service until the node is cleaned up."""
        out = self.create_service(kind, name, callback)
        self._entities.append((self.destroy_service, out))
        return out

    def _guarded(self, what: str, callback: Callable[[Any], None], message: Any) -> None:
        try:
            callback(message)
        except JointInputError as error:
            self.health.trouble(error.kind, str(error))
        except VmDynamicsError as error:
            self.health.trouble(f"bad {what}", str(error))
        except Exception:
            self.health.trouble(f"error in {what}", f"{what}: {traceback.format_exc()}")
            self.fault()

    def fault(self) -> None:
        """A callback failed in a way nobody foresaw: leave a safe output."""
        if self.is_active:
            self.end()

    # -- the robot --------------------------------------------------------------------------------

    def _on_description(self, message: String) -> None:
        if message.data == self._description and self.robot is not None:
            return
        self._load(message.data)

    def _load(self, text: str) -> bool:
        """Read a description; keep the old robot if it is no good."""
        try:
            robot = self._built(text, self.parameters)
        except VmDynamicsError as error:
            kept = "the old robot stays" if self.robot is not None else "there is no robot yet"
            self.health.trouble("bad robot_description", f"robot_description: {error}; {kept}")
            return False
        self._adopt(robot, text)
        return True

    def _adopt(self, robot: Robot, text: str) -> None:
        self._reader = JointReader(
            robot,
            differentiate=self.parameters.missing_velocity == "differentiate",
            cutoff=self.parameters.velocity_cutoff,
        )
        self.robot, self._description = robot, text
        self.use_robot(robot)
        self.get_logger().info(f"robot {robot!r}")

    def _built(self, text: str, parameters: Any) -> Robot:
        """Robot of a description, or a VmDynamicsError if the node cannot use it."""
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always", UrdfWarning)
            robot = _loaded(text, parameters)
        for doubt in doubts:
            self.get_logger().warning(f"robot_description: {doubt.message}")
        self.check(robot, parameters)
        return robot

    def _on_joint_state(self, message: JointState) -> None:
        if self._reader is None or not self.is_active:
            return
        start = time.perf_counter()
        self.on_joints(self._reader.read(message))
        self.health.cycle(start)

    # -- parameters -------------------------------------------------------------------------------

    def _on_set_parameters(self, asked: Sequence[Parameter]) -> SetParametersResult:
        try:
            changed = self.parameters.changed(asked)
            text = changed.robot_description or self._description
            self._checked = self.robot
            if text and _ROBOT_CHANGES & {p.name for p in asked}:
                self._checked = self._built(text, changed)
            elif self.robot is not None:
                self.check(self.robot, changed)
        except VmDynamicsError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _after_set_parameters(self, asked: Sequence[Parameter]) -> None:
        before = self.parameters
        self.parameters = before.changed(asked)
        if not self._entities:
            return
        if self._checked is not None and self._checked is not self.robot:
            self._adopt(self._checked, self.parameters.robot_description or self._description)
        else:
            self.use_parameters(before)

    # -- life cycle -------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Compile, create publishers and subscriptions, read the robot if it is known."""
        return self._transition("configure", self._configure)

    def _configure(self) -> bool:
        for kernel in self.kernels():
            kernel.compile()
        self.start()
        if self.parameters.robot_description:
            if not self._load(self.parameters.robot_description):
                self._release()
                return False
        else:
            self.listen(String, "robot_description", self._on_description, LATCHED)
        # last, so that a cycle has the newest of all else
        self.listen(JointState, "joint_states", self._on_joint_state, SENSOR, last=True)
        return True

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Allow output."""

        def activate() -> bool:
            self.begin()
            self.is_active = True
            self.get_logger().info("active")
            return True

        return self._transition("activate", activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forbid output."""
        return self._transition("deactivate", self._deactivate)

    def _deactivate(self) -> bool:
        if self.is_active:
            self.is_active = False
            self.end()
        return True

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Destroy publishers, subscriptions and the robot."""
        return self._transition("clean up", self._release)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """The same from any state, with a safe output first."""
        return self._transition("shut down", lambda: self._deactivate() and self._release())

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """After a failed transition: unconfigured, with nothing left."""
        return self._transition("recover", lambda: self._deactivate() and self._release())

    def _release(self) -> bool:
        for destroy, entity in self._entities:
            destroy(entity)
        self._entities.clear()
        self.robot, self._reader, self._description = None, None, ""
        return True

    def _transition(self, what: str, work: Callable[[], bool]) -> TransitionCallbackReturn:
        """Run a transition; rclpy itself would swallow what goes wrong in it."""
        try:
            return SUCCESS if work() else FAILURE
        except VmDynamicsError as error:
            self.get_logger().error(f"cannot {what}: {error}")
        except Exception:
            self.get_logger().error(f"cannot {what}: {traceback.format_exc()}")
        return FAILURE

    @property
    def state_label(self) -> str:
        """State of the life cycle."""
        return str(self._state_machine.current_state[1])

    # -- diagnostics ------------------------------------------------------------------------------

    def _report(self) -> None:
        level, message = OK, self.state_label
        extra: dict[str, str] = {}
        if self.is_active and self.robot is None:
            level, message = WARN, "waiting for robot_description"
        elif self.is_active:
            try:
                level, message, extra = self.describe()
            except Exception as error:
                level, message = ERROR, f"cannot describe itself: {error}"
        if self.robot is not None:
            extra = {"robot": repr(self.robot), **extra}
        self.health.report(self.state_label, level, message, extra)

    # -- start and end ----------------------------------------------------------------------------

    def autostart(self) -> bool:
        """Configure and activate; False if that failed."""
        if not self.parameters.autostart:
            return True
        return self.trigger_configure() == SUCCESS and self.trigger_activate() == SUCCESS

    def finish(self) -> None:
        """Safe output, nothing left running, whatever the state."""
        if self.state_label in ("unconfigured", "inactive", "active"):
            self.trigger_shutdown()
        self.health.destroy()


def _loaded(text: str, p: RobotParameters) -> Robot:
    """Robot of a description and the parameters that shape it."""
    robot = load(
        text.encode(),  # bytes are never taken for the path of a file
        base=p.base or None,
        gravity=p.gravity,
        tip_link=p.tip_link or None,
        locked_joints=p.locked,
        root_link=p.root_link or None,
    )
    if p.payload_link:
        robot = robot.with_payload(
            p.payload_link, p.payload_mass, p.payload_com, p.payload_inertia
        )
    return submerge(robot, p.hydrodynamics) if p.hydrodynamics else robot


def _steady() -> Any:
    return Clock(clock_type=ClockType.STEADY_TIME)


class _Stop:
    """Whether a signal asked for the end; in a long start it interrupts."""

    def __init__(self) -> None:
        self.asked = False
        self.starting = True
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self.starting:
            raise KeyboardInterrupt


def run(make: Callable[[], VmNode], args: list[str] | None = None) -> int:
    """Run a node until a signal, and end it cleanly; returns the exit code.

    The signals are ours: rclpy's own handlers invalidate the context at once, and the node could
    not publish the zeros that an actuator waits for.
    """
    stop = _Stop()
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    node, code = None, 0
    try:
        node = make()
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        if not node.autostart():
            code = 1
            stop.asked = True
        stop.starting = False
        spin(executor, node.topics, lambda: stop.asked)
    except KeyboardInterrupt:
        pass
    except VmDynamicsError as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        code = 1
    finally:
        stop.starting = False
        if node is not None:
            node.finish()
            node.destroy_node()
        rclpy.utilities.try_shutdown()
    return code
