# SPDX-License-Identifier: Apache-2.0
"""What all nodes share: life cycle, parameters, topics, diagnostics, a clean end.

A node activates itself unless ``autostart`` is false. It compiles its kernels when it is
configured, so no control cycle ever waits for a compiler.
"""

from __future__ import annotations

import math
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, ClassVar

import rclpy
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.duration import Duration
from rclpy.executors import SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions

from vm_dynamics.dynamics._entry import EntryPoint
from vm_dynamics.errors import VmDynamicsError
from vm_dynamics.ros.diagnostics import ERROR, OK, Health
from vm_dynamics.ros.parameters import NodeParameters
from vm_dynamics.ros.spinning import Topics, spin

ACKNOWLEDGED = 0.2  # [s] for the last zeros to arrive, before those who listen to them are gone
RCLError = rclpy_implementation.RCLError
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
# Sensor data, with room for a hiccup of the scheduler: at 1 kHz, what is not older than 0.1 s.
SENSOR = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
COMMAND = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)


class VmNode(LifecycleNode):
    """Base of the nodes.

    Attributes:
        PARAMETERS: class of its parameters.
        parameters: their values.
        health: counts and times for diagnostics.
        is_active: whether output is allowed.
        topics: the subscriptions of :meth:`listen`.
    """

    PARAMETERS: ClassVar[type[NodeParameters]] = NodeParameters
    parameters: Any

    def __init__(self, name: str) -> None:
        """Declare the parameters; all else waits for the life cycle."""
        super().__init__(name)
        self.parameters = self.PARAMETERS.declare(self)
        self.topics = Topics(self.context)
        self.health = Health(self)
        self.is_active = False
        self._entities: list[tuple[Callable[[Any], Any], Any]] = []
        self._refuse_wrong_transitions()
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

    def accept(self, changed: Any, names: set[str]) -> None:
        """Refuse parameters that do not fit, with a VmDynamicsError; ``names`` are asked for."""

    def use_parameters(self, before: Any) -> None:
        """Parameters have changed from ``before``."""

    def work(self) -> float:
        """Do what is due, between messages; returns when to be called again, steady clock [s]."""
        return math.inf

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

    def delivered(self, *publishers: Any) -> None:
        """Wait a little until all that listen reliably have what was published."""
        for publisher in publishers:
            publisher.wait_for_all_acked(Duration(seconds=ACKNOWLEDGED))

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
        except VmDynamicsError as error:
            self.health.trouble(getattr(error, "kind", f"bad {what}"), str(error))
        except Exception:
            self.health.trouble(f"error in {what}", f"{what}: {traceback.format_exc()}")
            self.fault()

    def fault(self) -> None:
        """A callback failed in a way nobody foresaw: leave a safe output."""
        if self.is_active:
            self.end()

    def failed(self, error: Exception) -> None:
        """A service, a timer or rclpy itself raised something: it shall not end the node."""
        trace = "".join(traceback.format_exception(error))
        self.health.trouble("error in a service", f"error in a service or timer: {trace}")
        # rcl's own, as of an answer to one who has left, say nothing of our state
        if not isinstance(error, RCLError):
            self.fault()

    # -- parameters -------------------------------------------------------------------------------

    def _on_set_parameters(self, asked: Sequence[Parameter]) -> SetParametersResult:
        try:
            self.accept(self.parameters.changed(asked), {p.name for p in asked})
        except VmDynamicsError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _after_set_parameters(self, asked: Sequence[Parameter]) -> None:
        before = self.parameters
        self.parameters = before.changed(asked)
        if self._entities:
            self.use_parameters(before)

    # -- life cycle -------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Compile, create publishers and subscriptions."""

        def configure() -> bool:
            if self.configure():
                return True
            self._release()
            return False

        return self._transition("configure", configure)

    def configure(self) -> bool:
        """Get ready; False if that failed, with the reason in the log."""
        for kernel in self.kernels():
            kernel.compile()
        self.start()
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
        """Destroy publishers and subscriptions."""
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
        return True

    def _refuse_wrong_transitions(self) -> None:
        """Answer no to a transition that the state does not have.

        rclpy up to Jazzy raises instead, out of the executor (ros2/rclpy, issue 1209).
        """
        service = next(s for s in self.services if s.srv_type is ChangeState)
        change = service.callback

        def obey(request: Any, response: Any) -> Any:
            try:
                return change(request, response)
            except RCLError:
                asked = request.transition.label or request.transition.id
                self.get_logger().warning(f"no transition {asked} from {self.state_label}")
                response.success = False
                return response

        service.callback = obey

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
        if self.is_active:
            try:
                level, message, extra = self.condition()
            except Exception as error:
                level, message = ERROR, f"cannot describe itself: {error}"
        self.health.report(self.state_label, level, message, extra)

    def condition(self) -> tuple[bytes, str, dict[str, str]]:
        """What an active node reports."""
        return self.describe()

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


def _steady() -> Any:
    return Clock(clock_type=ClockType.STEADY_TIME)


def ending_signals() -> list[signal.Signals]:
    """Signals that ask for the end: Ctrl-C, SIGTERM, and a terminal or connection that is gone.

    A lost ssh connection would otherwise end a node without the zeros that an actuator waits for.
    ``nohup`` is obeyed.
    """
    out = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        out.append(signal.SIGHUP)
    return out


class _Stop:
    """Whether a signal asked for the end; in a long start it interrupts."""

    def __init__(self) -> None:
        self.asked = False
        self.starting = True
        for number in ending_signals():
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
        spin(executor, node.topics, lambda: stop.asked, node.work, node.failed)
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
