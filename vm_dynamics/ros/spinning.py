# SPDX-License-Identifier: Apache-2.0
"""Two threads of a node: one for data and control, one for services, parameters and descriptions.

rclpy's executors build a wait set of all entities for every message. A lifecycle node has some
twenty of them, services mostly, and that costs several times a control cycle. Here data topics
wait in a set of their own (:class:`Topics`), in the main thread; an ordinary executor serves all
else in a thread beside it (:class:`Services`), where a request may take its time, as for building
and compiling another controller, while control goes on.

That takes parts of rclpy which it does not promise to keep. They are listed in ``PARTS``, and a
node that does not find them says so when it starts.
"""

from __future__ import annotations

import gc
import importlib
import importlib.metadata
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import reduce
from typing import Any, NamedTuple

from rclpy.callback_groups import CallbackGroup
from rclpy.exceptions import InvalidHandle
from rclpy.executors import (
    Executor,
    ExternalShutdownException,
    ShutdownException,
    TimeoutException,
)
from rclpy.impl.implementation_singleton import rclpy_implementation

from vm_dynamics.compiled import ENTRY_POINTS
from vm_dynamics.errors import VmDynamicsError

SHUTDOWN_POLL_PERIOD = 0.2  # [s] after which the executor looks whether it shall end
WAIT_SET_TIMEOUT = 0.02  # [s] at most until a signal, or a topic that another thread adds, is seen
DRAINED = 200  # callbacks, and looks for them, in a row before data have their turn again

_INNER = "rclpy.impl.implementation_singleton"
# Parts of rclpy beneath its documented interface: module, name in it, and what it is for here.
PARTS: tuple[tuple[str, str, str], ...] = (
    ("rclpy.subscription", "Subscription.handle", "subscriptions as the wait set takes them"),
    ("rclpy.context", "Context.handle", "the context of the wait set"),
    (_INNER, "rclpy_implementation.Context.__enter__", "keeps the context while it is waited for"),
    (_INNER, "rclpy_implementation.Subscription.__enter__", "keeps a subscription likewise"),
    (_INNER, "rclpy_implementation.Subscription.pointer", "tells which subscription is ready"),
    (_INNER, "rclpy_implementation.Subscription.take_message", "takes a message"),
    (_INNER, "rclpy_implementation.WaitSet.clear_entities", "empties the wait set"),
    (_INNER, "rclpy_implementation.WaitSet.add_subscription", "fills the wait set"),
    (_INNER, "rclpy_implementation.WaitSet.wait", "waits for messages"),
    (_INNER, "rclpy_implementation.WaitSet.get_ready_entities", "tells what has messages"),
    ("rclpy.callback_groups", "CallbackGroup.can_execute", "keeps executors from data topics"),
    ("rclpy.callback_groups", "CallbackGroup.beginning_execution", "likewise"),
    ("rclpy.executors", "Executor.wait_for_ready_callbacks", "serves all that is ready"),
)


class RclpyError(VmDynamicsError, RuntimeError):
    """An rclpy whose inner parts are not those that this package knows."""


def require_parts() -> None:
    """Look for the parts of rclpy that are used here.

    Raises:
        RclpyError: some are missing; the message names them and the version of rclpy.
    """
    missing = [f"{module}.{name} ({use})" for module, name, use in PARTS if not _has(module, name)]
    if not missing:
        return
    try:
        version = importlib.metadata.version("rclpy")
    except importlib.metadata.PackageNotFoundError:
        version = "of an unknown version"
    raise RclpyError(
        f"rclpy {version} lacks what the nodes wait for data with: {'; '.join(missing)}. "
        "They were written for the rclpy of ROS 2 Jazzy, 7.1"
    )


def _has(module: str, name: str) -> bool:
    try:
        reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError):
        return False
    return True


@contextmanager
def without_collection() -> Iterator[None]:
    """Build something beside control, without the pauses of garbage collection.

    A compiler leaves so many objects that looking through them takes 0.15 s, again and again, in
    which no thread runs. They are here to stay, and are never looked at again.
    """
    before = _compiled()
    gc.disable()
    try:
        yield
    finally:
        if _compiled() > before:
            gc.freeze()
        gc.enable()


def _compiled() -> int:
    return sum(point.is_compiled for point in ENTRY_POINTS)


class Aside(CallbackGroup):
    """Group of entities that no executor touches."""

    def can_execute(self, entity: Any) -> bool:
        """Never."""
        return False

    def beginning_execution(self, entity: Any) -> bool:
        """Never."""
        return False

    def ending_execution(self, entity: Any) -> None:
        """Nothing to end."""


class _Source(NamedTuple):
    """A subscription, what its messages are, who handles them, and how many at a time."""

    handle: Any
    kind: type
    callback: Callable[[Any], None]
    most: int
    last: bool
    raw: bool

    def take(self) -> bool:
        """Handle a message; False if there was none."""
        try:
            with self.handle:
                taken = self.handle.take_message(self.kind, self.raw)
        except InvalidHandle:  # another thread has destroyed it
            return False
        if taken is None:
            return False
        self.callback(taken[0])
        return True


class Topics:
    """Subscriptions that wait by themselves; they may be added and removed in any thread."""

    def __init__(self) -> None:
        """None yet.

        Raises:
            RclpyError: this rclpy cannot wait in this way.
        """
        require_parts()
        self.group = Aside()
        self._sources: dict[Any, _Source] = {}
        self._wait_set: Any = None
        self._size = -1

    def add(
        self,
        subscription: Any,
        kind: type,
        handle: Callable[[Any], None],
        *,
        most: int,
        last: bool = False,
        raw: bool = False,
    ) -> None:
        """Wait for a subscription of ``group``.

        Args:
            subscription: the subscription.
            kind: type of its messages.
            handle: called with each message.
            most: messages to take at a time before others have their turn.
            last: whether it comes after all others when several have messages.
            raw: whether messages are handed over as they travel, as bytes.
        """
        source = _Source(subscription.handle, kind, handle, most, last, raw)
        sources = {**self._sources, subscription: source}
        # a stable sort: False before True; replaced as a whole, for the other thread's sake
        self._sources = dict(sorted(sources.items(), key=lambda item: item[1].last))

    def remove(self, subscription: Any) -> None:
        """Wait for it no more."""
        self._sources = {s: source for s, source in self._sources.items() if s is not subscription}

    def wait(self, timeout: float, context: Any) -> None:
        """Wait for messages at most so long [s], and handle all that came."""
        with ExitStack() as stack:
            sources = [s for s in self._sources.values() if _entered(stack, s.handle)]
            if not sources:
                time.sleep(timeout)
                return
            stack.enter_context(context.handle)
            if self._size != len(sources):
                self._wait_set = rclpy_implementation.WaitSet(
                    len(sources), 0, 0, 0, 0, 0, context.handle
                )
                self._size = len(sources)
            waiting = self._wait_set
            waiting.clear_entities()
            for source in sources:
                waiting.add_subscription(source.handle)
            waiting.wait(max(0, int(1e9 * timeout)))
            ready = waiting.get_ready_entities("subscription")
            pending = [source for source in sources if source.handle.pointer in ready]
        rounds = 0
        # one of each in turn: after a hiccup, what belongs together is still handled together
        while pending:
            rounds += 1
            pending = [source for source in pending if source.most >= rounds and source.take()]


def _entered(stack: ExitStack, handle: Any) -> bool:
    """Keep a handle from being destroyed; False if it is already."""
    try:
        stack.enter_context(handle)
    except InvalidHandle:
        return False
    return True


def drain(executor: Executor) -> None:
    """Serve all that is ready, and do not wait for more.

    ``spin_once`` serves one callback a call: beside data that are waited for in between, answers
    of services would come at the pace of the waiting.
    """
    served = False
    for _ in range(DRAINED):
        try:
            handler, *_ = executor.wait_for_ready_callbacks(timeout_sec=0.0)
        except ShutdownException:
            return
        except TimeoutException:
            # also comes after what was ready at one look: only a look in vain is the end
            if not served:
                return
            served = False
            continue
        served = True
        handler()
        error = handler.exception()
        if error is not None:
            raise error


class Services:
    """An executor in a thread of its own.

    Args:
        executor: what serves.
        failed: called with what a service, a timer or rclpy itself raised.
    """

    def __init__(self, executor: Executor, failed: Callable[[Exception], None]) -> None:
        """Not running yet."""
        self._executor, self._failed = executor, failed
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="services", daemon=True)

    def start(self) -> None:
        """Serve from now on."""
        self._thread.start()

    def stop(self, patience: float) -> bool:
        """Serve no more; False if a request is still being served after some time [s]."""
        self._stopped = True
        if self._thread.ident is not None:
            self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._executor.spin_once(timeout_sec=SHUTDOWN_POLL_PERIOD)
            except (ShutdownException, ExternalShutdownException):
                return
            except Exception as error:
                self._failed(error)


def control(
    topics: Topics,
    context: Any,
    stopped: Callable[[], bool],
    work: Callable[[], float],
    failed: Callable[[Exception], None],
) -> None:
    """Handle data, until told to stop or the context ends.

    Args:
        topics: the subscriptions.
        context: of rclpy.
        stopped: whether to stop.
        work: called when it is due; returns when it is next, by the steady clock [s].
        failed: called with what rclpy raised.
    """
    due = time.monotonic()
    while not stopped() and context.ok():
        try:
            topics.wait(min(max(0.0, due - time.monotonic()), WAIT_SET_TIMEOUT), context)
            if time.monotonic() >= due:
                due = work()
        except Exception as error:
            failed(error)
            time.sleep(WAIT_SET_TIMEOUT)
