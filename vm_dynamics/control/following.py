# SPDX-License-Identifier: Apache-2.0
"""A motion as it is followed: how far the joints may be from it, on the way and at its end."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import numpy as np

from vm_dynamics.control.joint_path import JointMotion
from vm_dynamics.lie.se3 import Array

PARTS = ("position", "velocity")


class Tolerances(NamedTuple):
    """How far joints may be from where they shall be; infinite for no matter how far.

    Attributes:
        path: on the way, positions [rad or m] and velocities, shape (2, n).
        goal: at the end, positions and velocities, shape (2, n).
        goal_time: how long after the end they may still be on their way [s].
    """

    path: Array
    goal: Array
    goal_time: float


class Verdict(Enum):
    """What has come of a motion."""

    REACHED = "reached"
    LEFT_PATH = "left the path"
    MISSED_GOAL = "missed the goal"


class Following:
    """A motion that joints follow.

    Attributes:
        motion: what they shall do.
        tolerances: how well.
        desired: what they were to do when last asked, shape (3, n).
        error: positions and velocities that were lacking then, shape (2, n).
    """

    def __init__(
        self, motion: JointMotion, tolerances: Tolerances, names: tuple[str, ...]
    ) -> None:
        """Begin.

        Args:
            motion: what the joints shall do; its time begins now.
            tolerances: how well.
            names: of the robot's joints.
        """
        self.motion, self.tolerances, self._names = motion, tolerances, names
        self.desired = motion.at(0.0)
        self.error: Array = np.zeros_like(self.desired[:2])

    def judge(self, time: float, q: Array, qd: Array) -> tuple[Verdict | None, str]:
        """Look at the joints at a time since it began.

        Args:
            time: [s].
            q: positions, shape (n,) [rad or m].
            qd: velocities, shape (n,).

        Returns:
            What has come of it, None while it goes on, and why in words.
        """
        self.desired = self.motion.at(time)
        self.error = self.desired[:2] - (q, qd)
        late = time - self.motion.end
        if late < 0.0:
            why = self._beyond(self.tolerances.path)
            return (Verdict.LEFT_PATH, why) if why else (None, "")
        why = self._beyond(self.tolerances.goal)
        if not why:
            return Verdict.REACHED, ""
        if late > self.tolerances.goal_time:
            return Verdict.MISSED_GOAL, f"{why}, {late:.3g} s after the end"
        return None, ""

    def _beyond(self, most: Array) -> str:
        """Which joint is too far off, and by how much; empty if none."""
        beyond = abs(self.error) > most
        if not beyond.any():
            return ""
        part, joint = np.argwhere(beyond)[0]
        return (
            f"{self._names[joint]} is off by {self.error[part, joint]:.4g} in {PARTS[part]}, "
            f"expected at most {most[part, joint]:.4g}"
        )
