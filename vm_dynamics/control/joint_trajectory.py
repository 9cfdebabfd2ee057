# SPDX-License-Identifier: Apache-2.0
"""Trajectories of joints, as planners send them: points in time, checked as a whole.

What they mean is what joint_trajectory_controller of ros2_control makes of them. Points of the
past are left out, and a spline leads from what the joints are to do at this moment to the first
point that is left; so a trajectory that replaces another one does it without a jump. Joints that a
trajectory does not name come to a stop. After the last point the joints stay there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vm_dynamics.control.joint_path import (
    CUBIC,
    LINEAR,
    QUINTIC,
    JointMotion,
    JointPath,
    Places,
    braking,
    splines,
)
from vm_dynamics.control.limits import BRAKING_TIME, LIMIT_ROUNDING, JointLimits
from vm_dynamics.control.targets import MOVING_TARGET_PERIOD
from vm_dynamics.errors import ParameterError, UnknownJointError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import RobotModel, vector

REST = 1e-6  # [rad/s or m/s]: a velocity at the end that is no more than rounding
TURN = 2.0 * math.pi


class TrajectoryPoint(NamedTuple):
    """Where joints shall be at a time.

    Attributes:
        time: since the start of the trajectory [s].
        q: positions, in the order of the trajectory's names, shape (k,) [rad or m].
        qd: velocities, shape (k,) [rad/s or m/s]; empty if not given.
        qdd: accelerations, shape (k,) [rad/s^2 or m/s^2]; empty if not given.
    """

    time: float
    q: ArrayLike
    qd: ArrayLike = ()
    qdd: ArrayLike = ()


class JointTrajectory:
    """Points that some or all joints of a robot shall pass.

    Attributes:
        names: its joints.
        duration: time of the last point since the start [s].
        clipped: which points were beyond the limits and clipped, in words; empty if none.
    """

    def __init__(
        self,
        robot: RobotModel,
        names: Sequence[str],
        points: Sequence[TrajectoryPoint],
        *,
        clip: bool = False,
    ) -> None:
        """Check all of it.

        Args:
            robot: the robot.
            names: joints in the order of the points.
            points: at least one, at increasing times.
            clip: whether positions and velocities beyond the robot's limits are clipped; else they
                are refused.

        Raises:
            ParameterError: joints twice, no points, times that do not increase, a velocity at the
                end, accelerations without velocities, or numbers beyond the limits.
            UnknownJointError: a name that is none of a joint.
            DimensionError: another number of values than of names.
            NonFiniteError: NaN or infinity.
        """
        self._robot, self.names = robot, tuple(names)
        places = _places(robot, self.names)
        self._order = places.argsort()
        self._places = places[self._order]  # all else is in the robot's order too
        if not len(points):
            raise ParameterError("trajectory: has no points, expected at least one")
        self._times = _times([point.time for point in points])
        self.duration = float(self._times[-1])
        self._states, self._orders = self._read(points)
        velocities = self._states[-1, 1]
        if (abs(velocities) > REST).any():
            raise ParameterError(
                f"trajectory: ends with the velocities {velocities}, expected zero or none"
            )
        self.clipped = self._keep_limits(clip)
        # all but the way to the first point is known now, when there is time
        self._splines = splines(
            np.diff(self._times),
            self._states[:-1],
            self._states[1:],
            np.minimum(self._orders[:-1], self._orders[1:]),
        )
        limits = robot.lower_limits[self._places], robot.upper_limits[self._places]
        self._turns = np.isinf(limits[0]) & np.isinf(limits[1]) & ~robot.prismatic[self._places]

    def _read(self, points: Sequence[TrajectoryPoint]) -> tuple[Array, NDArray[np.int_]]:
        """States of the points, shape (m, 3, k), NaN where not given, and the order they allow."""
        k = len(self.names)
        states = np.full((len(points), 3, k), np.nan)
        orders = np.empty(len(points), dtype=int)
        for i, (_, *parts) in enumerate(points):
            given = [bool(np.size(part)) for part in parts]
            if given[2] and not given[1]:
                raise ParameterError(
                    f"trajectory: point {i} has accelerations but no velocities, expected both"
                )
            for j, part in enumerate(parts):
                if given[j] or j == 0:
                    what = ("positions", "velocities", "accelerations")[j]
                    values = vector(f"trajectory: {what} of point {i}", part, k)
                    states[i, j] = values[self._order]
            orders[i] = (LINEAR, CUBIC, QUINTIC)[given[1] + given[2]]
        return states, orders

    def _keep_limits(self, clip: bool) -> str:
        """Clip points, or refuse them; returns what was clipped."""
        low, high, speed = JointLimits(self._robot).table[:3, self._places]
        q, qd = self._states[:, 0], self._states[:, 1]
        text = self._beyond(low, high, speed)
        if text and not clip:
            raise ParameterError(f"{text}; refused")
        self._states[:, 0] = np.clip(q, low, high)
        self._states[:, 1] = np.clip(qd, -speed, speed)
        return f"{text}; clipped" if text else ""

    def _beyond(self, low: Array, high: Array, speed: Array) -> str:
        """What the first point beyond the limits is, or the first way too fast; else empty."""
        names = [self._robot.joint_names[place] for place in self._places]
        q, qd = self._states[:, 0], self._states[:, 1]
        most = speed + LIMIT_ROUNDING
        beyond = (q < low - LIMIT_ROUNDING) | (q > high + LIMIT_ROUNDING) | (abs(qd) > most)
        if beyond.any():
            i, j = np.argwhere(beyond)[0]
            moving = "" if np.isnan(qd[i, j]) else f" at {qd[i, j]:.4g}/s"
            return (
                f"trajectory beyond the limits: {names[j]} at point {i} got {q[i, j]:.4g}"
                f"{moving}, expected {low[j]:.4g} to {high[j]:.4g} and at most {speed[j]:.4g}/s"
            )
        needed = abs(np.diff(q, axis=0)) / np.diff(self._times)[:, None]
        if (needed > most).any():
            i, j = np.argwhere(needed > most)[0]
            return (
                f"trajectory beyond the limits: {names[j]} needs {needed[i, j]:.4g}/s from point "
                f"{i} to {i + 1}, expected at most {speed[j]:.4g}/s"
            )
        return ""

    def is_of(self, robot: RobotModel) -> bool:
        """Whether it was checked for a robot with these joints and limits."""
        mine = self._robot
        return mine.joint_names == robot.joint_names and all(
            np.array_equal(getattr(mine, limits), getattr(robot, limits))
            for limits in ("lower_limits", "upper_limits", "velocity_limits")
        )

    def motion(self, late: float, state: Array, rates: Array) -> JointMotion:
        """What all joints do from now on; its time begins now.

        Args:
            late: how long ago the trajectory was to start [s].
            state: what the joints are to do now: positions, velocities, accelerations, (3, n).
            rates: largest decelerations of joints that are not named, shape (n,), infinite for
                none.
        """
        n = self._robot.n
        others = np.setdiff1d(np.arange(n), self._places)
        path = self._path(late, state[:, self._places])
        parts: tuple[tuple[Places, JointPath], ...] = ((self._places, path),)
        if len(others):
            q, qd = state[0, others], state[1, others]
            parts += ((others, braking(q, qd, BRAKING_TIME, rates[others])),)
        return JointMotion(path.end, parts)

    def _path(self, late: float, state: Array) -> JointPath:
        """Path of the joints that are named, from a state, shape (3, k)."""
        left = int(np.searchsorted(self._times, late, side="right"))
        left = min(left, len(self._times) - 1)  # the last point is where the joints stay
        states, times = self._states[left : left + 2].copy(), self._times[left:]
        # an angle that has no limits may come as any of those that are the same
        turns = TURN * np.round((state[0] - states[0, 0]) / TURN)
        offset = np.where(self._turns, turns, 0.0)
        states[:, 0] += offset
        last = self._states[-1, 0] + offset
        knots = np.concatenate(((0.0,), times - late))
        if knots[1] <= 0.0:  # there at once, as far as limits allow
            return JointPath((0.0,), np.empty((0, 6, len(self.names))), last)
        first, order = self._approach(knots, states, int(self._orders[left]), state)
        approach = splines(knots[1:2], state[None], first[None], np.array([order]))
        coefficients = np.concatenate((approach, self._splines[left:]))
        coefficients[1:, 0] += offset
        return JointPath(knots.tolist(), coefficients, last)

    @staticmethod
    def _approach(knots: Array, states: Array, order: int, state: Array) -> tuple[Array, int]:
        """Where the spline to the first point ends, shape (3, k), and its order.

        In a very short time all but a straight line would take any acceleration. To a point
        without velocity, a joint that moves takes that of the way behind the point.
        """
        if knots[1] < MOVING_TARGET_PERIOD:
            return states[0], LINEAR
        if order > LINEAR or not (abs(state[1]) > REST).any():
            return states[0], order
        first = states[0].copy()
        first[1] = 0.0
        if len(states) > 1:
            first[1] = (states[1, 0] - states[0, 0]) / (knots[2] - knots[1])
        return first, CUBIC


def _places(robot: RobotModel, names: tuple[str, ...]) -> Places:
    """Places of joints in the robot's order."""
    if not names:
        raise ParameterError("trajectory: has no joint names, expected at least one")
    for name in names:
        if name not in robot.joint_names:
            raise UnknownJointError("joint of the trajectory", name, robot.joint_names)
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ParameterError(f"trajectory: joints {twice} twice, expected each once")
    return np.array([robot.joint_names.index(name) for name in names], dtype=np.intp)


def _times(times: Sequence[float]) -> Array:
    """Times of points [s], checked."""
    out = vector("trajectory: times", times, len(times))
    if out[0] < 0.0:
        raise ParameterError(f"trajectory: its first point is at {out[0]:g} s, expected 0 or more")
    late = np.flatnonzero(np.diff(out) <= 0.0)
    if len(late):
        i = late[0]
        raise ParameterError(
            f"trajectory: point {i + 1} at {out[i + 1]:g} s is not after point {i} at {out[i]:g} s"
        )
    return out
