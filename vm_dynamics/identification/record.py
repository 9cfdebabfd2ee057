# SPDX-License-Identifier: Apache-2.0
"""What came, cut into windows of time once nothing older is to be expected."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vm_dynamics.estimation.history import CLOCK_PATIENCE
from vm_dynamics.estimation.observer import ROUNDING
from vm_dynamics.identification.following import Pose, Window
from vm_dynamics.lie.se3 import Array


class Sample(NamedTuple):
    """A joint sample: q, qd and, if measured, the efforts from it on until the next, (3, n)."""

    stamp: float
    values: Array


class Record:
    """Samples, poses and wrenches that wait for their window.

    Attributes:
        late: inputs from before what is worked through.
        future: joint samples after a gap; poses and wrenches too far ahead of the joints.
        repeated: joint samples with the stamp of another one.
        due: stamp of a joint sample from which on there may be a window [s].
    """

    def __init__(self, b: int, *, window: float, delay: float, gap: float) -> None:
        """Remember nothing yet.

        Args:
            b: dimension of the base group.
            window: duration of a window [s].
            delay: how late poses and wrenches may come [s].
            gap: the longest time between joint samples that is bridged [s].
        """
        self._b, self._window, self._delay, self._gap = b, window, delay, gap
        self.late = self.future = self.repeated = 0
        self.clear()

    def clear(self) -> None:
        """Forget all but the counts."""
        self._samples: list[Sample] = []
        self._poses: deque[Pose] = deque()
        self._wrenches: list[tuple[float, Array]] = [(-np.inf, np.zeros(self._b))]
        self._strange = 0  # joint samples in a row that are older than the newest
        self._start: Pose | None = None  # the pose to begin with
        self._begun = False
        self.due = -np.inf

    def add_sample(self, stamp: float, values: Array) -> None:
        """A joint sample: q, qd and perhaps efforts, a row of n each.

        One that is not newer than the last is counted and left out.
        """
        sample = Sample(stamp, values)
        if self._samples:
            newest = self._samples[-1].stamp
            if sample.stamp <= newest:
                if sample.stamp == newest:
                    self.repeated += 1
                else:
                    self.late += 1
                self._strange += 1
                if self._strange < CLOCK_PATIENCE:
                    return
                self.clear()
            elif sample.stamp > newest + self._gap:
                self.clear()
        self._strange = 0
        self._samples.append(sample)

    def add_pose(self, pose: Pose) -> None:
        """A pose, in its place among the others."""
        if self._is_untimely(pose.stamp):
            return
        at = len(self._poses)
        while at and self._poses[at - 1].stamp > pose.stamp:
            at -= 1
        self._poses.insert(at, pose)

    def add_wrench(self, stamp: float, wrench: Array) -> None:
        """A wrench on the base in {1}, shape (b,), from its stamp on."""
        if self._is_untimely(stamp):
            return
        at = len(self._wrenches)
        while self._wrenches[at - 1][0] > stamp:
            at -= 1
        self._wrenches.insert(at, (stamp, wrench))

    def _is_untimely(self, stamp: float) -> bool:
        if self._begun and stamp < self._samples[0].stamp - ROUNDING:
            self.late += 1
            return True
        if self._samples and stamp > self._samples[-1].stamp + self._gap:
            self.future += 1
            return True
        return False

    def windows(self) -> Iterator[Window]:
        """The windows that are complete, each given once."""
        while True:
            if not (self._begun or self._finds_start()):
                return
            samples = self._samples
            first, newest = samples[0].stamp, samples[-1].stamp
            self.due = first + self._window + self._delay
            if newest < self.due:
                return
            rows = len(samples[0].values)
            last = 1
            while last < len(samples) - 1:
                following = samples[last + 1].stamp
                if following > first + self._window + ROUNDING:
                    break
                if len(samples[last].values) != rows:
                    break  # a window has efforts for all or for none
                last += 1
            begin, self._start, self._begun = self._start, None, True
            yield self._cut(last, begin)

    def _finds_start(self) -> bool:
        """Whether there is a pose to begin with; joint samples before it are left out."""
        if self._start is not None:
            return True
        while self._poses and self._samples:
            pose = self._poses[0]
            after = [i for i, s in enumerate(self._samples) if s.stamp >= pose.stamp - ROUNDING]
            if not after:
                return False
            self._poses.popleft()
            if self._samples[after[0]].stamp <= pose.stamp + self._window:
                del self._samples[: after[0]]
                self._start = pose
                return True
        return False

    def _cut(self, last: int, begin: Pose | None) -> Window:
        part = self._samples[: last + 1]
        del self._samples[:last]
        stamps = np.array([s.stamp for s in part])
        poses = []
        while self._poses and self._poses[0].stamp <= stamps[-1]:
            poses.append(self._poses.popleft())
        has_efforts = len(part[0].values) == 3
        return Window(
            stamps,
            np.array([s.values[0] for s in part]),
            np.array([s.values[1] for s in part]),
            np.array([s.values[2] for s in part[:-1]]) if has_efforts else None,
            self._mean_wrenches(stamps),
            tuple(poses),
            begin,
        )

    def _mean_wrenches(self, stamps: Array) -> Array:
        """Mean of the wrench over each interval, shape (L, b)."""
        known = self._wrenches
        at = 0
        while at + 1 < len(known) and known[at + 1][0] <= stamps[0] + ROUNDING:
            at += 1
        del known[:at]
        if len(known) == 1 or known[1][0] >= stamps[-1]:
            return np.tile(known[0][1], (len(stamps) - 1, 1))
        times = np.array([stamps[0], *(t for t, _ in known[1:])])
        values = np.array([F for _, F in known])
        if times[-1] < stamps[-1]:
            times, values = np.append(times, stamps[-1]), np.append(values, values[-1:], axis=0)
        impulse = np.zeros_like(values)
        np.cumsum(values[:-1] * np.diff(times)[:, None], axis=0, out=impulse[1:])
        at_stamps = np.array([np.interp(stamps, times, column) for column in impulse.T])
        return (np.diff(at_stamps, axis=1) / np.diff(stamps)).T
