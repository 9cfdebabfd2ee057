# SPDX-License-Identifier: Apache-2.0
"""A node as a process: from its start to an end that leaves zeros and no traceback."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions

from vm_dynamics.errors import VmDynamicsError
from vm_dynamics.ros.node import VmNode
from vm_dynamics.ros.spinning import Services, control

# Python's own 5 ms would let a control cycle wait that long, several times, for a thread that
# computes, as one that builds another controller.
SWITCH_INTERVAL = 5e-4  # [s]
REQUEST_END_TIMEOUT = 1.0  # [s] that a request may still take when the node ends
PROCESS_END_TIMEOUT = 5.0  # [s] from the safe output to the end of the process, whatever hangs


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
        self._numbers = ending_signals()
        for number in self._numbers:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if self.starting:
            raise KeyboardInterrupt

    def ignore(self) -> None:
        """Let no further signal disturb the end: ``ros2 launch`` sends a second one."""
        self.starting = False
        for number in self._numbers:
            signal.signal(number, signal.SIG_IGN)


def run(make: Callable[[], VmNode], args: list[str] | None = None) -> int:
    """Run a node until a signal, and end it cleanly; returns the exit code.

    The signals are ours: rclpy's own handlers invalidate the context at once, and the node could
    not publish the zeros that an actuator waits for.
    """
    stop = _Stop()
    sys.setswitchinterval(SWITCH_INTERVAL)
    rclpy.init(args=args, signal_handler_options=SignalHandlerOptions.NO)
    node, services, code = None, None, 0
    try:
        node = make()
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        if node.autostart():
            stop.starting = False
            gc.collect()
            gc.freeze()  # what there is now stays, and need not be looked through again
            services = Services(executor, node.failed)
            services.start()
            control(node.topics, node.context, lambda: stop.asked, node.turn, node.failed)
        else:
            code = 1
    except KeyboardInterrupt:
        pass
    except VmDynamicsError as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        code = 1
    finally:
        stop.ignore()
        _end(node, services, code)
    return code


def _end(node: VmNode | None, services: Services | None, code: int) -> None:
    """A safe output first, then the rest, within a time that nothing can stretch."""
    if node is not None:
        node.make_safe()
    # a request that hangs, or a participant that does not leave, must not keep the process
    backstop = threading.Timer(PROCESS_END_TIMEOUT, _leave, (code,))
    backstop.daemon = True
    backstop.start()
    if services is not None and not services.stop(REQUEST_END_TIMEOUT):
        _leave(code)
    if node is not None:
        node.finish()
        node.destroy_node()
    rclpy.utilities.try_shutdown()
    # nor must a library that does not let the interpreter end: then the system ends it
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(round(PROCESS_END_TIMEOUT))


def _leave(code: int) -> None:
    """End the process at once; all that matters has been said."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
