# SPDX-License-Identifier: Apache-2.0
"""The last step before the actuators: torques while all is well, zeros otherwise.

Three threads meet here: control sends, a service enables and disables, a watchdog looks. So this
has a lock of its own, which nobody holds for longer than it takes to publish.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from vm_dynamics.control import Efforts
from vm_dynamics.errors import NonFiniteError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.ros.messages import fill_wrench, to_stamp

RESUME = ("enable", "ramp", "at_once")  # from the strictest on
RISE = 1.0  # [s] in which torques come back after a stop, with ``ramp``


class Outputs(NamedTuple):
    """Publishers: efforts as numbers and by name, thrusts, and the wrench they give."""

    commands: Any
    torques: Any
    thrusts: Any
    wrench: Any


class TorqueWriter:
    """Writes efforts of one robot within its limits.

    Args:
        outputs: where to.
        names: joints in the order of the commands.
        order: their places in the robot's order.
        limits: most effort of each joint, in the robot's order, shape (n,).
        rotors: how many there are.
        pushes: whether the base is pushed without rotors that the controller knows of.
        frame: of the wrench.
        now: returns the time for messages that no joint state asked for [ns].
    """

    def __init__(
        self,
        outputs: Outputs,
        *,
        names: Sequence[str],
        order: Any,
        limits: Array,
        rotors: int,
        pushes: bool = False,
        frame: str,
        now: Callable[[], int],
    ) -> None:
        """Lay out the messages, filled anew each time."""
        self.limits = limits
        self._outputs, self._order, self._rotors, self._now = outputs, order, rotors, now
        self._pushes = pushes or rotors > 0
        self._message = Float64MultiArray(data=[0.0] * len(order))
        self._out = np.frombuffer(self._message.data, dtype=float)
        self._named = JointState(name=list(names), effort=[0.0] * len(order))
        self._efforts = np.frombuffer(self._named.effort, dtype=float)
        self._wrench = WrenchStamped()
        self._wrench.header.frame_id = frame

    def write(self, efforts: Efforts, share: float, nanos: int) -> None:
        """Publish a share of efforts, cut off at the limits, for a time [ns].

        Raises:
            NonFiniteError: NaN or infinity; nothing was published.
        """
        tau = share * efforts.tau
        squares = tau @ tau  # a sum of squares is not finite if any term is not
        for part in (efforts.thrusts, efforts.wrench):
            if part is not None:
                squares += part @ part
        if not math.isfinite(squares):
            raise NonFiniteError(f"efforts: NaN or infinity: {efforts}")
        np.minimum(tau, self.limits, out=tau)
        np.maximum(tau, -self.limits, out=tau)
        self._out[:] = tau[self._order]
        self._publish(nanos)
        if efforts.thrusts is not None:
            self._thrust(share * efforts.thrusts)
        if efforts.wrench is not None:
            self._push(share * efforts.wrench, nanos)

    def zero(self) -> None:
        """Publish zeros."""
        self._out[:] = 0.0
        self._publish(self._now())
        if self._rotors:
            self._thrust(np.zeros(self._rotors))
        if self._pushes:
            self._push(np.zeros(6), self._now())

    def _publish(self, nanos: int) -> None:
        self._outputs.commands.publish(self._message)
        if self._outputs.torques.get_subscription_count() > 0:
            self._efforts[:] = self._out
            self._named.header.stamp = to_stamp(nanos)
            self._outputs.torques.publish(self._named)

    def _thrust(self, thrusts: Array) -> None:
        self._outputs.thrusts.publish(Float64MultiArray(data=thrusts.tolist()))

    def _push(self, wrench: Array, nanos: int) -> None:
        self._wrench.header.stamp = to_stamp(nanos)
        fill_wrench(self._wrench.wrench, wrench)
        self._outputs.wrench.publish(self._wrench)


class Ticket(NamedTuple):
    """What a step takes when it begins, and shows when it sends its torques."""

    stops: int  # how many there had been
    began: float  # when it was, steady clock [s]


class TorqueGate:
    """Lets torques through, or says why not.

    Closed, it is silent; open, it sends torques or, as often as it is looked at, zeros.

    Attributes:
        enabled: whether torques are wanted.
        is_on: whether there are any.
        why: why there are none; empty when there are.
        losses: how often torques were wanted no more. Targets of before count no more then.
        timeout: age of the last torque at which it is stopped [s].
        resume: what follows a stop, one of ``RESUME``.
    """

    def __init__(
        self,
        *,
        require_enable: bool,
        timeout: float,
        resume: str,
        stopped: Callable[[str], None],
    ) -> None:
        """Closed.

        Args:
            require_enable: whether torques wait for :meth:`enable`, at first and when the gate was
                closed.
            timeout: see the attributes.
            resume: see the attributes.
            stopped: called with the reason when torques stop.
        """
        self._lock = threading.RLock()
        self._require_enable = require_enable
        self._stopped = stopped
        self._writer: TorqueWriter | None = None
        self._last = 0.0  # when torques were last sent, steady clock [s]
        self._rises_from: float | None = None  # since when they rise from zero
        self._rises = False  # whether they will
        self._open = False
        self.timeout, self.resume = timeout, resume
        self.enabled = not require_enable
        self.is_on = False
        self.why = "starting"
        self.losses = self._stops = 0

    @property
    def ticket(self) -> Ticket:
        """For a step that begins now."""
        return Ticket(self._stops, time.monotonic())

    def use(self, writer: TorqueWriter | None) -> None:
        """Write through another writer from now on."""
        with self._lock:
            self._writer = writer

    def open(self) -> None:
        """The node is active."""
        with self._lock:
            self._open = True
            self.why = "waiting for joint states" if self.enabled else "not enabled"

    def close(self, why: str = "not active") -> None:
        """Zeros, then silence."""
        with self._lock:
            if self._writer is not None:
                self._writer.zero()
            self._end(why)
            self._open = False
            if self._require_enable:
                self._lose()

    def enable(self) -> None:
        """Torques are wanted, from now on at their full size."""
        with self._lock:
            self.enabled, self._rises = True, False
            if not self.is_on:
                self.why = "waiting for joint states"

    def disable(self, why: str = "disabled") -> None:
        """Torques are wanted no more."""
        with self._lock:
            was_on = self._end(why)
            self._lose()
        if was_on:
            self._stopped(why)

    def send(self, ticket: Ticket, efforts: Efforts, nanos: int) -> bool:
        """Send the torques of a step; False if they were stopped since it began.

        A process may be suspended at any line. What it then sends is old, and stops.

        Args:
            ticket: of when the step began.
            efforts: of the step.
            nanos: stamp of the joint state that it answers [ns].

        Raises:
            NonFiniteError: the efforts are no numbers; torques have stopped.
        """
        with self._lock:
            if ticket.stops != self._stops or not (self._open and self.enabled):
                return False
            if self._writer is None:
                return False
            now = time.monotonic()
            if self.is_on and now - self._last > self.timeout:
                self.stop("joint states stopped")  # before the watchdog could see it
                return False
            if now - ticket.began > self.timeout:
                self.stop("a step took too long")
                return False
            if not self.is_on:
                self._rises_from = now if self._rises else None
            share = 1.0
            if self._rises_from is not None:
                share = min(1.0, (now - self._rises_from) / RISE)
            try:
                self._writer.write(efforts, share, nanos)
            except NonFiniteError:
                self.stop("efforts are not finite")
                raise
            self.is_on, self.why, self._last = True, "", now
            if time.monotonic() - now > self.timeout:
                self.stop("sending took too long")
                return False
            return True

    def stop(self, why: str) -> None:
        """Zeros, if there were torques; what follows is decided by ``resume``."""
        with self._lock:
            was_on = self._end(why)
            if was_on:
                self._rises = self.resume == "ramp"
                if self.resume == "enable":
                    self._lose()
                    self.why = f"not enabled, stopped: {why}"
        if was_on:
            self._stopped(why)

    def look(self) -> None:
        """What the watchdog does: zeros while there are no torques, or when they are too old."""
        with self._lock:
            if not self._open or self._writer is None:
                return
            if not self.is_on:
                self._writer.zero()
            elif time.monotonic() - self._last > self.timeout:
                self.stop("joint states stopped")

    def _end(self, why: str) -> bool:
        """No torques from now on; returns whether there were any."""
        was_on, self.is_on = self.is_on, False
        self._stops += 1
        if self.enabled:
            self.why = why
        if was_on and self._writer is not None:
            self._writer.zero()
        return was_on

    def _lose(self) -> None:
        if self.enabled:
            self.losses += 1
        self.enabled = False
