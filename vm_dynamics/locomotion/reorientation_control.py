# SPDX-License-Identifier: Apache-2.0
"""Turn the base to an attitude loop by loop, looking at the attitude reached after each.

A plan is as good as the masses it was made with. After a loop an observer says what it really did;
the rest is planned anew from there, so that errors of the model do not add up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import DimensionError, ParameterError
from vm_dynamics.lie.se3 import Array, log
from vm_dynamics.locomotion.gaits import Gait
from vm_dynamics.locomotion.plan import ReorientationPlan
from vm_dynamics.locomotion.planner import ReorientationPlanner
from vm_dynamics.locomotion.wanted import check_rotation, pose_of
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

ATTITUDE_TOLERANCE = np.radians(0.25)  # [rad]
# Plans are this much more exact than what they are to reach in the end.
PLAN_TOLERANCE_SHARE = 0.5
# It gives up after so many loops in a row without a smaller error than before.
MAX_IDLE_LOOPS = 5


class ReorientationController:
    """Gives the joints' path loop by loop until the base has the wanted attitude.

    Ask :meth:`next_loop` with the attitude of the base, move the joints along the path that it
    returns, let them come to rest, and ask again until it returns None. It knows nothing of time
    and moves nothing.

    Attributes:
        robot: the robot.
        q0: joint positions at start and end of every loop, shape (n,) [rad or m].
        goal: wanted orientation of the base in the world, shape (3, 3).
        tolerance: largest angle to it [rad].
        plan: the last plan, for what was left to turn then; None before the first.
        loops: number of loops that were given out.
        error: angle to the goal at the last attitude [rad]; infinite before the first.
        done: whether there are no more loops.
        reached: whether the last attitude was within the tolerance.
        reason: why there are no more loops; empty while there are.
    """

    def __init__(
        self,
        robot: Robot,
        q0: ArrayLike,
        goal: ArrayLike,
        *,
        tolerance: float = ATTITUDE_TOLERANCE,
        **options: Any,
    ) -> None:
        """Nothing is planned yet.

        Args:
            robot: the robot.
            q0: joint positions at start and end of every loop, shape (n,) [rad or m].
            goal: wanted orientation of the base in the world, shape (3, 3) or a pose, (4, 4).
            tolerance: largest angle to it [rad].
            options: ``limits``, ``max_loops`` (in all), ``margin``, ``max_velocity``,
                ``acceleration_limits``, ``effort_limits``, as of
                :func:`vm_dynamics.plan_reorientation`.
        """
        if not (np.isfinite(tolerance) and tolerance > 0.0):
            raise ParameterError(f"tolerance: got {tolerance!r}, expected an angle above zero")
        planned = PLAN_TOLERANCE_SHARE * tolerance
        self._planner = ReorientationPlanner(robot, tolerance=planned, **options)
        self.robot, self.q0 = robot, vector("q0", q0, robot.n)
        self.goal, self.tolerance = _attitude("goal", goal), tolerance
        self.plan: ReorientationPlan | None = None
        self.loops, self.error, self.reason = 0, np.inf, ""
        self._least, self._idle = np.inf, 0

    @property
    def done(self) -> bool:
        """Whether there are no more loops."""
        return bool(self.reason)

    @property
    def reached(self) -> bool:
        """Whether the last attitude was within the tolerance."""
        return self.error <= self.tolerance

    def next_loop(self, attitude: ArrayLike) -> Gait | None:
        """The path of the next loop, at rest at both ends; None if there is none.

        Args:
            attitude: orientation of the base in the world now, with the joints at rest at q0,
                shape (3, 3) or a pose, (4, 4).
        """
        left = _attitude("attitude", attitude).T @ self.goal
        self.error = float(np.linalg.norm(log(pose_of(left))[3:]))
        self.reason = self._why_no_more()
        if self.reason:
            return None
        near = None if self.plan is None else self.plan.loop
        self.plan = self._planner.plan(self.q0, left, near=near)
        if self.plan.loop is None:
            self.reason = self.plan.reason
            return None
        self.loops += 1
        return self._planner.fastest_path(self.plan.loop, 1)

    def _why_no_more(self) -> str:
        if self.error <= self.tolerance:
            return "reached"
        if self.loops >= self._planner.max_loops:
            return f"not reached with max_loops = {self._planner.max_loops}"
        self._idle = 0 if self.error < self._least else self._idle + 1
        self._least = min(self._least, self.error)
        if self._idle >= MAX_IDLE_LOOPS:
            return (
                f"{MAX_IDLE_LOOPS} loops in a row came no nearer than "
                f"{np.degrees(self._least):.2f} degrees; is the model of the robot right?"
            )
        return ""


def _attitude(name: str, value: ArrayLike) -> Array:
    """Rotation matrix, shape (3, 3), of one or of a pose, shape (4, 4)."""
    try:
        given = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise DimensionError(f"{name}: got {value!r}, expected a rotation matrix") from error
    if given.shape not in ((3, 3), (4, 4)):
        raise DimensionError(f"{name}: got shape {given.shape}, expected (3, 3) or (4, 4)")
    return check_rotation(name, given[:3, :3])
