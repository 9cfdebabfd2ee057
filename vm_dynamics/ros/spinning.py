# SPDX-License-Identifier: Apache-2.0
"""A loop that waits for data topics alone, and lets an ordinary executor do the rest in between.

rclpy's executors build a wait set of all entities for every message. A lifecycle node has some
twenty of them, services mostly, and that costs several times a control cycle. Here topics wait in
a set of their own that is kept; services, timers and parameters have their turn every
``SLOW`` seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rclpy.callback_groups import CallbackGroup
from rclpy.executors import Executor, ExternalShutdownException, ShutdownException
from rclpy.impl.implementation_singleton import rclpy_implementation

SLOW = 0.005  # [s]


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


class Topics:
    """Subscriptions that wait by themselves."""

    def __init__(self, context: Any) -> None:
        """None yet."""
        self.group = Aside()
        self._context = context
        self._handlers: dict[Any, tuple[bool, Any, type, Callable[[Any], None], int, bool]] = {}
        self._wait_set: Any = None

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
        self._handlers[subscription] = (last, subscription.handle, kind, handle, most, raw)
        # a stable sort: False before True
        self._handlers = dict(sorted(self._handlers.items(), key=lambda item: item[1][0]))
        self._wait_set = None

    def remove(self, subscription: Any) -> None:
        """Wait for it no more."""
        if self._handlers.pop(subscription, None) is not None:
            self._wait_set = None

    def wait(self, timeout: float) -> None:
        """Wait for messages at most so long [s], and handle all that came."""
        handlers = list(self._handlers.values())
        if self._wait_set is None:
            self._wait_set = rclpy_implementation.WaitSet(
                len(handlers), 0, 0, 0, 0, 0, self._context.handle
            )
        waiting = self._wait_set
        if not handlers:
            time.sleep(timeout)
            return
        waiting.clear_entities()
        for _, handle, *_ in handlers:
            waiting.add_subscription(handle)
        waiting.wait(max(0, int(1e9 * timeout)))
        ready = waiting.get_ready_entities("subscription")
        pending = [entry for entry in handlers if entry[1].pointer in ready]
        rounds = 0
        # one of each in turn: after a hiccup, what belongs together is still handled together
        while pending:
            rounds += 1
            pending = [entry for entry in pending if entry[4] >= rounds and _take(*entry)]


def _take(
    last: bool, handle: Any, kind: type, callback: Callable[[Any], None], most: int, raw: bool
) -> bool:
    """Handle a message of a subscription; False if there was none."""
    taken = handle.take_message(kind, raw)
    if taken is None:
        return False
    callback(taken[0])
    return True


def spin(
    executor: Executor,
    topics: Topics,
    stopped: Callable[[], bool],
    work: Callable[[], float],
    failed: Callable[[Exception], None],
) -> None:
    """Serve topics and, every now and then, all else, until told to stop.

    Args:
        executor: what serves all else.
        topics: the subscriptions.
        stopped: whether to stop.
        work: called when it is due; returns when it is next, by the steady clock [s].
        failed: called with what a service, a timer or rclpy itself raised in the executor's turn.
    """
    turn = due = time.monotonic()
    while not stopped():
        topics.wait(max(0.0, min(turn, due) - time.monotonic()))
        if time.monotonic() >= due:
            due = work()
        if time.monotonic() >= turn:
            try:
                executor.spin_once(timeout_sec=0.0)
            except (ShutdownException, ExternalShutdownException):
                return
            except Exception as error:
                failed(error)
            turn = time.monotonic() + SLOW
