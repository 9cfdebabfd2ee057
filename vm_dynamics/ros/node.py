# SPDX-License-Identifier: Apache-2.0
"""What all nodes share: life cycle, parameters, topics, diagnostics, a clean end.

A node activates itself unless ``autostart`` is false. Messages are handled in the main thread,
with ``lock`` held; services, parameters and descriptions in another one (see
:mod:`vm_dynamics.ros.spinning`), which builds and compiles what it has to without the lock, and
takes it only to put the result in place. So no control cycle ever waits for a compiler.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import SetParametersResult
from rclpy.duration import Duration
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock

from vm_dynamics.errors import VmDynamicsError
from vm_dynamics.ros.diagnostics import ERROR, OK, WARN, Health
from vm_dynamics.ros.parameters import NodeParameters
from vm_dynamics.ros.publishers import SolePublishers
from vm_dynamics.ros.spinning import Topics

# For the last zeros to arrive, before those who listen to them are gone.
LAST_COMMAND_TIMEOUT = 0.2  # [s]
RCLError = rclpy_implementation.RCLError
SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
# Sensor data, with room for a hiccup of the scheduler: at 1 kHz, what is not older than 0.1 s.
SENSOR = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
COMMAND = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
INPUT_TIMEOUT = 2.0  # [s] without a message, after which a node that needs the topic is not well
LEVELS = {"unconfigured": WARN, "inactive": WARN, "finalized": ERROR}  # of nodes that do nothing


class VmNode(LifecycleNode):
    """Base of the nodes.

    Attributes:
        PARAMETERS: class of its parameters.
        parameters: their values.
        health: counts and times for diagnostics.
        is_active: whether output is allowed.
        topics: the subscriptions of :meth:`listen`.
        sole: who else publishes what only one should.
        lock: held while a message is handled and while anything that messages touch is replaced.
    """

    PARAMETERS: ClassVar[type[NodeParameters]] = NodeParameters
    parameters: Any

    def __init__(self, name: str) -> None:
        """Declare the parameters; all else waits for the life cycle."""
        self.lock = threading.RLock()
        self.topics = Topics()  # before rclpy, which may listen to a clock at once
        self.sole = SolePublishers(self)
        super().__init__(name)
        self.parameters = self.PARAMETERS.declare(self)
        self.health = Health(self)
        self.is_active = False
        self._entities: list[tuple[Callable[[Any], Any], Any]] = []
        self._needed: list[str] = []
        self._next_report = self._next_work = 0.0
        self._refuse_wrong_transitions()
        self.add_on_set_parameters_callback(self._on_set_parameters)
        self.add_post_set_parameters_callback(self._after_set_parameters)

    # -- what a node adds -------------------------------------------------------------------------

    def start(self) -> None:
        """Create publishers and subscriptions, with :meth:`listen`, :meth:`publisher`."""

    def accept(self, changed: Any, names: set[str]) -> None:
        """Refuse parameters that do not fit, with a VmDynamicsError; ``names`` are asked for.

        What they need is built and compiled here, without the lock.
        """

    def use_parameters(self, before: Any) -> None:
        """Parameters have changed from ``before``; called with the lock."""

    def work(self) -> float:
        """Do what is due, between messages; returns when to be called again, steady clock [s]."""
        return math.inf

    def begin(self) -> None:
        """The node becomes active."""

    def end(self) -> None:
        """The node is active no more, or is about to end: leave a safe output."""

    def forget(self) -> None:
        """The node is cleaned up: nothing of before counts."""

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
        needed: bool = False,
        sole: bool = False,
    ) -> Any:
        """Subscribe until the node is cleaned up; a callback's exception is logged, not fatal.

        Args:
            kind: type of the messages.
            topic: its name.
            callback: called with each message.
            qos: quality of service.
            last: whether it comes after all others when several topics have messages.
            needed: whether the node is not well without it.
            sole: whether more than one publisher of it is a mistake.
        """

        def heard(message: Any) -> None:
            self.health.heard(topic)
            with self.lock:
                self._guarded(topic, callback, message)

        out = self.create_subscription(kind, topic, heard, qos, callback_group=self.topics.group)
        self.topics.add(out, kind, heard, most=qos.depth, last=last)
        self._entities.append((self.destroy_subscription, out))
        if needed:
            self._needed.append(topic)
        if sole:
            self.sole.watch(topic, out)
        return out

    def listen_aside(
        self, kind: type, topic: str, callback: Callable[[Any], None], qos: QoSProfile
    ) -> None:
        """Subscribe likewise, but beside the data: the callback may take its time.

        It runs in the thread of services and has not got the lock.
        """

        def heard(message: Any) -> None:
            self.health.heard(topic)
            self._guarded(topic, callback, message)

        out = self.create_subscription(kind, topic, heard, qos)
        self._entities.append((self.destroy_subscription, out))

    def ignore(self, subscription: Any) -> None:
        """End a subscription of :meth:`listen`."""
        self._entities = [item for item in self._entities if item[1] is not subscription]
        self.destroy_subscription(subscription)

    def create_subscription(
        self, msg_type: Any, topic: str, callback: Any, qos_profile: Any, **options: Any
    ) -> Any:
        """As rclpy's, but a simulated clock comes with the data, not with the services.

        It ticks with every joint state, and a whole wait set for each tick is far too much.
        """
        if msg_type is not Clock or "callback_group" in options:
            return super().create_subscription(msg_type, topic, callback, qos_profile, **options)
        out = super().create_subscription(
            msg_type, topic, callback, qos_profile, callback_group=self.topics.group, **options
        )
        self.topics.add(out, msg_type, callback, most=1)
        self.sole.watch(topic, out)
        return out

    def destroy_subscription(self, subscription: Any) -> bool:
        """As rclpy's, and nobody waits for it any more."""
        self.topics.remove(subscription)
        self.sole.forget(subscription)
        return bool(super().destroy_subscription(subscription))

    def publisher(self, kind: type, topic: str, qos: QoSProfile, *, sole: bool = False) -> Any:
        """Publisher until the node is cleaned up.

        Args:
            kind: type of the messages.
            topic: its name.
            qos: quality of service.
            sole: whether another publisher of it is a mistake.
        """
        out = self.create_publisher(kind, topic, qos)
        self._entities.append((self._end_publisher, out))
        if sole:
            self.sole.watch(topic, out)
        return out

    def _end_publisher(self, publisher: Any) -> None:
        self.sole.forget(publisher)
        self.destroy_publisher(publisher)

    def delivered(self, *publishers: Any) -> None:
        """Wait a little until all that listen reliably have what was published."""
        for publisher in publishers:
            publisher.wait_for_all_acked(Duration(seconds=LAST_COMMAND_TIMEOUT))

    def serve(self, kind: type, name: str, callback: Callable[[Any, Any], Any]) -> Any:
        """Service until the node is cleaned up; its callback has not got the lock."""
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
        with self.lock:
            before = self.parameters
            self.parameters = before.changed(asked)
            if self._entities:
                self.use_parameters(before)

    # -- life cycle -------------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Create publishers and subscriptions; build and compile what is known already."""

        def configure() -> bool:
            if self.configure():
                return True
            self.release()
            return False

        return self._transition("configure", configure)

    def configure(self) -> bool:
        """Get ready; False if that failed, with the reason in the log."""
        self.start()
        return True

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Allow output."""

        def activate() -> bool:
            with self.lock:
                self.begin()
                self.is_active = True
            self.get_logger().info("active")
            return True

        return self._transition("activate", activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Forbid output."""
        return self._transition("deactivate", self.make_safe)

    def make_safe(self) -> bool:
        """Forbid output and leave a safe one; not with the lock, which a stuck callback has."""
        if self.is_active:
            self.is_active = False
            self.end()
        return True

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Destroy publishers and subscriptions."""
        return self._transition("clean up", self.release)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """The same from any state, with a safe output first."""
        return self._transition("shut down", lambda: self.make_safe() and self.release())

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """After a failed transition: unconfigured, with nothing left."""
        return self._transition("recover", lambda: self.make_safe() and self.release())

    def release(self) -> bool:
        """Destroy what was created since the node was configured."""
        with self.lock:
            entities, self._entities, self._needed = self._entities, [], []
            for destroy, entity in entities:
                destroy(entity)
            self.forget()
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

    # -- what is due between messages -------------------------------------------------------------

    def turn(self) -> float:
        """Do what is due; returns when something is due again, steady clock [s]."""
        now = time.monotonic()
        if now >= self._next_work:
            with self.lock:
                self._next_work = self.work()
        if now >= self._next_report:
            self._next_report = now + 1.0 / self.parameters.diagnostics_rate
            self.report()
        if now >= self.sole.due:
            self.sole.look()
        return min(self._next_work, self._next_report, self.sole.due)

    def report(self) -> None:
        """Say on /diagnostics how the node is."""
        state = self.state_label
        level, message, extra = LEVELS.get(state, OK), state, dict[str, str]()
        if self.is_active:
            try:
                with self.lock:
                    level, message, extra = self.condition()
            except Exception as error:
                level, message = ERROR, f"cannot describe itself: {error}"
        for topic, who in self.sole.conflicts.items():
            extra[f"publishers of {topic}"] = who
        others = self.sole.message
        if extra and level in (OK, WARN) and others not in message:
            # first: another warning may well be its consequence
            level, message = WARN, others if level == OK else f"{others}; {message}"
        self.health.report(state, level, message, extra, self.stamp())

    def stamp(self) -> Any:
        """Time of a report."""
        return self.get_clock().now().to_msg()

    def condition(self) -> tuple[bytes, str, dict[str, str]]:
        """What an active node reports."""
        for topic in self._needed:
            if self.health.age(topic) > INPUT_TIMEOUT:
                _, _, values = self.describe()
                return WARN, f"no {topic}", values
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
