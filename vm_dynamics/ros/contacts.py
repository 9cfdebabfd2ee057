# SPDX-License-Identifier: Apache-2.0
"""Contacts as messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from geometry_msgs.msg import WrenchStamped

from vm_dynamics.estimation import Contact, ContactObserver, Observer
from vm_dynamics.lie.se3 import Array
from vm_dynamics.ros.joints import JointSample
from vm_dynamics.ros.messages import fill_wrench, to_stamp


class ContactReporter:
    """Runs a contact observer while somebody listens, and publishes what it finds.

    A wrench for each new look at a contact, in the frame of the likeliest link; one that is all
    zero when the contact is over.

    Attributes:
        base_wrench: last known wrench on the base in {1}, shape (b,), or None.
    """

    def __init__(
        self,
        observer: ContactObserver | None,
        publisher: Any,
        frame_of: Callable[[str], str],
        say: Callable[[str], Any],
    ) -> None:
        """Nothing yet.

        Args:
            observer: of the robot; None if it has no joints.
            publisher: of WrenchStamped.
            frame_of: gives the frame of a link.
            say: takes what begins and ends, in words.
        """
        self._observer, self._publisher = observer, publisher
        self._frame_of, self._say = frame_of, say
        self._last: Contact | None = None
        self._runs = False
        self.base_wrench: Array | None = None

    def reset(self) -> None:
        """Forget: what comes after a pause has nothing to do with what was before."""
        self._last, self._runs = None, False
        if self._observer is not None:
            self._observer.reset()

    def look(self, base: Observer, stamp: float, sample: JointSample) -> None:
        """Take a joint sample, the base's motion from its observer; the stamp in its seconds."""
        observer = self._observer
        effort = sample.effort
        self._runs = effort is not None and self._publisher.get_subscription_count() > 0
        if observer is None or effort is None or not self._runs:
            return
        _, contact = observer.step(
            stamp,
            sample.q,
            sample.qd,
            effort,
            base.locked_velocity,
            base.base_pose,
            self.base_wrench,
        )
        last, self._last = self._last, contact
        if contact is not None and contact is not last:
            if last is None:
                force = np.linalg.norm(contact.wrench[:3])
                self._say(f"contact at {' or '.join(contact.links)}, about {force:.3g} N")
            self._publish(contact.link, contact.wrench, sample.nanos)
        elif contact is None and last is not None:
            self._say(f"no contact any more, after {stamp - last.since:.3g} s")
            self._publish(last.link, np.zeros(6), sample.nanos)

    def _publish(self, link: str, wrench: Array, nanos: int) -> None:
        message = WrenchStamped()
        message.header.stamp, message.header.frame_id = to_stamp(nanos), self._frame_of(link)
        fill_wrench(message.wrench, wrench)
        self._publisher.publish(message)

    @property
    def summary(self) -> str:
        """For diagnostics: where there is contact."""
        if not self._runs:
            return "not looked for"
        return "none" if self._last is None else f"at {' or '.join(self._last.links)}"
