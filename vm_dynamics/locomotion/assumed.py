# SPDX-License-Identifier: Apache-2.0
"""Joint limits of a planner: those given, and assumed ones where they are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vm_dynamics.errors import DimensionError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion.loops import JointLimits
from vm_dynamics.robot import Robot


class Assumed(NamedTuple):
    """Limits that are assumed for joints whose own are missing or unrealistic.

    Attributes:
        unit: unit of the joint positions.
        reach: largest distance from q0 of a joint without position limits [rad or m].
        speed: velocity limit of a joint without one [rad/s or m/s].
        fastest: a higher velocity limit is replaced by this one [rad/s or m/s].
    """

    unit: str
    reach: float
    speed: float
    fastest: float


ASSUMED_REVOLUTE = Assumed("rad", np.pi, 1.0, 2.0 * np.pi)
ASSUMED_PRISMATIC = Assumed("m", 0.5, 0.1, 1.0)


def finite_limits(
    robot: Robot, q0: Array, limits: Sequence[ArrayLike] | None
) -> tuple[JointLimits, tuple[str, ...]]:
    """Finite limits of all joints, and notes about those that were assumed.

    Args:
        robot: the robot.
        q0: joint positions at the start, shape (n,) [rad or m].
        limits: lower, upper and velocity limits, each one number or shape (n,); the robot's own
            if None.

    Raises:
        ParameterError: q0 is beyond the limits, or they are none.
    """
    given = limits
    if given is None:
        given = robot.lower_limits, robot.upper_limits, robot.velocity_limits
    try:
        lower, upper, speed = (
            np.broadcast_to(np.asarray(x, dtype=float), (robot.n,)).copy() for x in given
        )
    except (TypeError, ValueError) as error:
        raise DimensionError(
            f"limits: got {limits!r}, expected lower, upper and velocity limits, each a number or "
            f"shape ({robot.n},)"
        ) from error
    if np.isnan([lower, upper, speed]).any() or (speed < 0.0).any():
        raise ParameterError("limits: expected numbers, and velocities not below zero")
    beyond = (q0 < lower) | (q0 > upper)
    if beyond.any():
        name = robot.joint_names[int(np.argmax(beyond))]
        i = robot.joint_names.index(name)
        raise ParameterError(
            f"q0: {name} is at {q0[i]:.4g}, expected it within its limits, {lower[i]:.4g} to "
            f"{upper[i]:.4g}"
        )
    bounds = JointLimits(lower, upper, speed)
    notes = [
        *_assume(robot, q0, bounds, ~robot.prismatic, ASSUMED_REVOLUTE),
        *_assume(robot, q0, bounds, robot.prismatic, ASSUMED_PRISMATIC),
    ]
    return bounds, tuple(notes)


def _assume(
    robot: Robot, q0: Array, bounds: JointLimits, which: NDArray[np.bool_], assumed: Assumed
) -> Iterator[str]:
    """Replace missing and unrealistic limits in ``bounds``; yields a note for each kind.

    Args:
        robot: the robot.
        q0: joint positions at the start, shape (n,) [rad or m].
        bounds: the limits, changed in place.
        which: the joints to look at, shape (n,), bool.
        assumed: the limits to assume for them.
    """
    lower, upper, speed = bounds
    unit = assumed.unit

    def names(chosen: NDArray[np.bool_]) -> str:
        return ", ".join(np.array(robot.joint_names)[chosen])

    open_below, open_above = which & np.isinf(lower), which & np.isinf(upper)
    lower[open_below] = (q0 - assumed.reach)[open_below]
    upper[open_above] = (q0 + assumed.reach)[open_above]
    if (open_below | open_above).any():
        reach = "half a turn" if assumed is ASSUMED_REVOLUTE else f"{assumed.reach:g} {unit}"
        yield f"{names(open_below | open_above)}: no position limits; within {reach} of q0"
    missing = which & np.isinf(speed)
    absurd = which & ~missing & (speed > assumed.fastest)
    if missing.any():
        yield f"{names(missing)}: no velocity limit; at most {assumed.speed:g} {unit}/s"
    if absurd.any():
        yield (
            f"{names(absurd)}: velocity limits of up to {speed[absurd].max():g} {unit}/s, which "
            f"are taken as {assumed.fastest:.3g} {unit}/s"
        )
    speed[missing], speed[absurd] = assumed.speed, assumed.fastest
