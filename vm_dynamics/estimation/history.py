# SPDX-License-Identifier: Apache-2.0
"""Events in the order of their stamps, each with the estimate right after it.

An event that comes late goes to its place, and what follows it is worked through again; so the
estimate does not depend on the order in which the events came. What an estimate is, and how an
event changes it, is up to the filter.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import IntEnum
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

# Stamps that do not fit the clock are errors; so many joint samples in a row mean a new clock.
CLOCK_PATIENCE = 10


class Kind(IntEnum):
    """Kinds of events; those of one stamp count in this order."""

    JOINTS = 0
    WRENCH = 1
    GYRO = 2
    VELOCITY = 3
    POSE = 4


class Verdict(IntEnum):
    """What became of a measurement."""

    NOTHING = 0
    USED = 1
    REJECTED = 2
    STARTED = 3  # a pose that the estimate began with, anew or for the first time


JOINTS, NOTHING, STARTED = Kind.JOINTS, Verdict.NOTHING, Verdict.STARTED
place_of = attrgetter("stamp", "kind")  # of an event among the others


class EstimateLike(Protocol):
    """What the history wants to know about an estimate."""

    @property
    def alive(self) -> bool:
        """Whether there is one."""
        ...


E = TypeVar("E", bound=EstimateLike)


class Event(Generic[E]):
    """Something that came, and the estimate after it.

    Attributes:
        stamp: [s].
        kind: what it is.
        data: what came; for joints, what the filter made of it.
        estimate: right after it.
        verdict: what became of it.
    """

    __slots__ = ("data", "estimate", "kind", "stamp", "verdict")

    def __init__(self, stamp: float, kind: Kind, data: Any, estimate: E) -> None:
        """An event that was not worked through yet, and an estimate to hold its place."""
        self.stamp = stamp
        self.kind = kind
        self.data = data
        self.estimate = estimate
        self.verdict = NOTHING


class Filter(Protocol[E]):
    """How estimates follow from events.

    ``left`` and ``right`` are the joint samples before and after the time in question, right the
    event itself if it is one; either may be missing.
    """

    nothing: E

    def lose(self, estimate: E) -> E:
        """The estimate when nothing is known of the joints: not alive."""
        ...

    def advance(
        self, estimate: E, t0: float, t1: float, left: Event[E] | None, right: Event[E] | None
    ) -> E:
        """An estimate that is alive, carried from t0 to t1."""
        ...

    def at_joints(self, estimate: E) -> E:
        """The estimate after a joint sample at its time."""
        ...

    def take(
        self, estimate: E, event: Event[E], left: Event[E] | None, right: Event[E] | None
    ) -> tuple[E, Verdict]:
        """The estimate after any other event; ``left`` and ``right`` are None if it was lost."""
        ...


class History(Generic[E]):
    """The events that are remembered, oldest first, and counts of those that are not.

    Attributes:
        events: in the order of their stamps, then kinds.
        verdicts: how many measurements met each verdict, forgotten ones included.
        late: inputs from before the history.
        future: inputs too far ahead of the newest joint sample.
        repeated: inputs with the stamp of another one of their kind.
        malformed: inputs that could not be read; counted by whoever reads them.
    """

    def __init__(self, work: Filter[E], size: int, *, lead: float, gap: float) -> None:
        """Remember nothing yet.

        Args:
            work: what makes estimates out of events.
            size: events that are remembered.
            lead: how far a stamp may lie ahead of the newest joint sample [s].
            gap: the longest time between joint samples that is bridged [s].
        """
        self._filter, self._size, self._lead, self._gap = work, size, lead, gap
        self.verdicts = dict.fromkeys(Verdict, 0)
        self.late = self.future = self.repeated = self.malformed = 0
        self.clear()

    def clear(self) -> None:
        """Forget all events, and the clock; not the counts."""
        self.events: list[Event[E]] = []
        self._newest: float | None = None  # stamp of the newest joint sample
        self._strange = 0  # joint samples in a row whose stamps do not fit the clock

    def forget_past(self) -> None:
        """Forget all but the newest joint sample, with the newest estimate: nothing changes it."""
        newest = self.newest_joints()
        if newest is not None:
            newest.estimate = self.events[-1].estimate
            self.events = [newest]

    def newest_joints(self) -> Event[E] | None:
        """The newest joint sample, if one is remembered."""
        return self._joints_before(len(self.events))

    def add(self, stamp: float, kind: Kind, data: Any) -> None:
        """Put an event in its place, if there is one for it, and work through what follows."""
        newest = self._newest
        if newest is not None:
            if kind is not JOINTS:
                if stamp > newest + self._lead:
                    self.future += 1
                    return
            elif self.events[0].stamp <= stamp <= newest + self._gap:
                self._strange = 0
            elif not self._keeps_time(stamp, newest):
                return
        event = Event(stamp, kind, data, self._filter.nothing)
        at = self._insert(event)
        if at is None:
            return
        if kind is JOINTS and (newest is None or stamp > newest):
            self._newest = stamp
        self._settle(self._first_changed(at, kind))

    # -- the clock ------------------------------------------------------------------------------

    def _keeps_time(self, stamp: float, newest: float) -> bool:
        """Whether a joint sample fits the clock; if many in a row do not, a new one begins."""
        ahead = stamp > newest + self._gap
        if not (ahead or self._is_closed()):
            self._strange = 0
            return True
        if ahead:
            self.future += 1
        else:
            self.late += 1
        self._strange += 1
        if self._strange < CLOCK_PATIENCE:
            return False
        self.clear()
        return True

    # -- places ---------------------------------------------------------------------------------

    def _is_closed(self) -> bool:
        """Whether the oldest event builds on one that is gone, so that none can come before it."""
        if not self.events:
            return False
        oldest = self.events[0]
        full = len(self.events) == self._size
        return full or (oldest.estimate.alive and oldest.verdict is not STARTED)

    def _insert(self, event: Event[E]) -> int | None:
        """Number of an event among the others, which moves up; None if it has no place."""
        events, at = self.events, len(self.events)
        if events and not events[-1].stamp < event.stamp:
            at = bisect_left(events, place_of(event), key=place_of)
            if at < len(events) and place_of(events[at]) == place_of(event):
                self.repeated += 1
                return None
        full = len(events) == self._size
        # when full, the second oldest builds on what leaves now
        if (at == 0 and self._is_closed()) or (full and at == 1):
            self.late += 1
            return None
        events.insert(at, event)
        if full:
            del events[0]
            at -= 1
        return at

    def _first_changed(self, at: int, kind: Kind) -> int:
        """Number of the first event that event ``at`` changes: joints change all since others."""
        if kind is not JOINTS:
            return at
        start = at
        while start > 0 and self.events[start - 1].kind is not JOINTS:
            start -= 1
        return 1 if start == 0 and at > 0 and self._is_closed() else start

    def _joints_before(self, i: int) -> Event[E] | None:
        for k in range(i - 1, -1, -1):
            if self.events[k].kind is JOINTS:
                return self.events[k]
        return None

    # -- replay ---------------------------------------------------------------------------------

    def _settle(self, start: int) -> None:
        """Work through the events from number ``start`` on.

        Each inherits the estimate of the one before it, moves it on, and takes in what came.
        """
        events, work = self.events, self._filter
        left, right, ahead = self._joints_before(start), None, start - 1
        for i in range(start, len(events)):
            event = events[i]
            if ahead < i:
                ahead = i
                while ahead < len(events) and events[ahead].kind is not JOINTS:
                    ahead += 1
                right = events[ahead] if ahead < len(events) else None
            lost = self._is_interrupted(event.stamp, left, right)
            before = events[i - 1]
            estimate = before.estimate if i else work.nothing
            if lost:
                estimate = work.lose(estimate)
            elif estimate.alive:
                estimate = work.advance(estimate, before.stamp, event.stamp, left, right)
            verdict = NOTHING
            if event.kind is JOINTS:
                estimate = work.at_joints(estimate)
                left = event
            elif lost:
                estimate, verdict = work.take(estimate, event, None, None)
            else:
                estimate, verdict = work.take(estimate, event, left, right)
            event.estimate = estimate
            if verdict is not event.verdict:
                self.verdicts[event.verdict] -= 1
                self.verdicts[verdict] += 1
                event.verdict = verdict

    def _is_interrupted(self, t: float, left: Event[E] | None, right: Event[E] | None) -> bool:
        """Whether nothing is known of the joints at time t."""
        if left is None:
            return right is None or right.stamp - t > self._gap
        if right is None:
            return t - left.stamp > self._gap
        return right.stamp - left.stamp > self._gap
