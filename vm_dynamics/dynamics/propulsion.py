# SPDX-License-Identifier: Apache-2.0
"""Propulsion: rotors and thrusters, the wrench they put on the base, and who pushes how much.

Implements: [Kremer2022] eqs. (68)-(70), (72), (89), and the thruster matrix B of [From2010] eq.
(44). Departs from the paper: (69) is printed block-diagonal and said to map body forces to
motors. It maps motors to the body, and the column of a rotor is, for each newton of thrust,
``[n; r x n + s (k_p / k_t) n]``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.dynamics.bounded import RANK_TOLERANCE, least_squares, pseudo_inverse
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.parameters import check_keys, number, numbers, section
from vm_dynamics.model.robot_model import RobotModel, vector

WRENCH_AXES = ("fx", "fy", "fz", "tx", "ty", "tz")
ALL = 1.0 - RANK_TOLERANCE


@dataclass(frozen=True)
class Rotor:
    """A propeller in air or water.

    Attributes:
        name: the link's, unless given.
        link: a link that is rigidly joined to the base; its origin is the rotor's place.
        position: place in frame {1} [m], for a rotor without a link.
        axis: direction of positive thrust, in the link's frame, or in {1} without a link; it need
            not be of unit length.
        spin: sign of the reaction torque on the body about the axis: 1 for a propeller that turns
            clockwise seen from the tip of the axis, -1 counter-clockwise, 0 for none.
        k_t: thrust for each square of speed [N/(rad/s)^2].
        k_p: reaction torque for each square of speed [N m/(rad/s)^2].
        time_constant: of the thrust behind its command [s]; 0 follows at once.
        min_thrust: least thrust [N], below zero for a thruster that reverses.
        max_thrust: most thrust [N]; that of ``max_speed`` unless given.
        max_speed: most speed [rad/s].
    """

    name: str = ""
    link: str | None = None
    position: tuple[float, ...] | None = None
    axis: tuple[float, ...] = (0.0, 0.0, 1.0)
    spin: int = 0
    k_t: float = 1.0
    k_p: float = 0.0
    time_constant: float = 0.0
    min_thrust: float = 0.0
    max_thrust: float = math.inf
    max_speed: float = math.inf

    def __post_init__(self) -> None:
        """Check every number.

        Raises:
            ParameterError: names the rotor, the parameter, what came and what was expected.
        """
        if not self.name and isinstance(self.link, str):
            self._set("name", self.link)
        if not (isinstance(self.name, str) and self.name):
            raise ParameterError(f"rotor: got name {self.name!r}, expected a name or a link")
        if (self.link is None) == (self.position is None):
            raise self._refused("link, position", f"{self.link!r}, {self.position!r}", "one")
        if self.position is not None:
            self._set("position", numbers(self._called("position"), self.position, 3))
        axis = numbers(self._called("axis"), self.axis, 3)
        length = math.sqrt(sum(x * x for x in axis))
        if not length > 0.0:
            raise self._refused("axis", self.axis, "three numbers that are not all zero")
        self._set("axis", tuple(x / length for x in axis))
        if self.spin not in (-1, 0, 1):
            raise self._refused("spin", self.spin, "1, -1 or 0")
        self._check_constants()

    def _check_constants(self) -> None:
        for key in ("k_t", "k_p", "time_constant"):
            self._set(key, number(self._called(key), getattr(self, key)))
        if not self.k_t > 0.0:
            raise self._refused("k_t", self.k_t, "a positive number [N/(rad/s)^2]")
        for key in ("k_p", "time_constant"):
            if getattr(self, key) < 0.0:
                raise self._refused(key, getattr(self, key), "no negative number")
        speed = _limit(self._called("max_speed"), self.max_speed)
        if not speed > 0.0:
            raise self._refused("max_speed", speed, "a positive number [rad/s]")
        least = _limit(self._called("min_thrust"), self.min_thrust)
        most = min(_limit(self._called("max_thrust"), self.max_thrust), self.k_t * speed**2)
        if not least < most:
            raise self._refused("min_thrust", least, f"less than max_thrust = {most:g}")
        for key, value in (("max_speed", speed), ("min_thrust", least), ("max_thrust", most)):
            self._set(key, value)

    def _set(self, key: str, value: Any) -> None:
        object.__setattr__(self, key, value)

    def _called(self, key: str) -> str:
        return f"rotor {self.name!r}: {key}"

    def _refused(self, key: str, value: Any, expected: str) -> ParameterError:
        return ParameterError(f"{self._called(key)}: got {value}, expected {expected}")


def _limit(name: str, value: Any) -> float:
    """A number that may be infinite."""
    if isinstance(value, float) and math.isinf(value):
        return value
    return number(name, value)


class Allocation(NamedTuple):
    """Thrusts for a wrench.

    Attributes:
        thrusts: shape (m,) [N], within their limits.
        wrench: what they achieve, [f; t] in {1}, shape (6,).
        saturated: which of them are at a limit, shape (m,).
    """

    thrusts: Array
    wrench: Array
    saturated: np.ndarray[Any, np.dtype[np.bool_]]


class Propulsion:
    """The rotors or thrusters of a robot.

    Wrenches are [f; t] on the base in frame {1}, shape (6,), whatever the base group.

    Attributes:
        robot: the robot.
        rotors: m rotors, the order of all vectors of thrusts.
        matrix: B, shape (6, m): wrench for each newton of thrust, (69).
        min_thrusts: shape (m,) [N].
        max_thrusts: shape (m,) [N].
    """

    def __init__(self, robot: RobotModel, rotors: Iterable[Rotor]) -> None:
        """Place the rotors on the robot.

        Raises:
            ParameterError: no rotor, two of one name, or one on a link that moves.
            UnknownLinkError: a link that the robot does not have.
        """
        self.robot = robot
        self.rotors = tuple(rotors)
        if not self.rotors:
            raise ParameterError("rotors: got none, expected at least one")
        names = [rotor.name for rotor in self.rotors]
        for name in names:
            if names.count(name) > 1:
                raise ParameterError(f"rotors: got two named {name!r}, expected different names")
        self.matrix = np.column_stack([_column(robot, rotor) for rotor in self.rotors])
        self.matrix.setflags(write=False)
        self.min_thrusts = self._of_rotors("min_thrust")
        self.max_thrusts = self._of_rotors("max_thrust")
        self._k_t = self._of_rotors("k_t")
        self._time_constants = self._of_rotors("time_constant")

    @classmethod
    def load(
        cls, robot: RobotModel, source: str | os.PathLike[str] | Mapping[str, Any]
    ) -> Propulsion:
        """Propulsion from the section ``propulsion`` of a YAML file.

        The section has ``rotors``, a list of mappings with the attributes of :class:`Rotor` as
        keys, and ``defaults``, a mapping of those that all rotors share.

        Args:
            robot: the robot.
            source: path of the file, or what it says as a mapping.

        Raises:
            ParameterError: the file cannot be read, or names a key that means nothing.
        """
        given = source if isinstance(source, Mapping) else os.fspath(source)
        values = section(given, "propulsion")
        check_keys("propulsion", values, ("defaults", "rotors"))
        keys = tuple(field.name for field in fields(Rotor))
        defaults = values.get("defaults") or {}
        check_keys("propulsion: defaults", defaults, keys)
        entries = values.get("rotors")
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            raise ParameterError(
                f"propulsion: rotors: got {type(entries).__name__}, expected a list of mappings"
            )
        rotors = []
        for i, entry in enumerate(entries):
            check_keys(f"propulsion: rotors[{i}]", entry, keys)
            rotors.append(Rotor(**{**defaults, **entry}))
        return cls(robot, rotors)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rotors, in the order of thrusts."""
        return tuple(rotor.name for rotor in self.rotors)

    def wrench(self, thrusts: Any) -> Array:
        """Wrench on the base of thrusts [N], shape (m,), by (68)."""
        return self.matrix @ self._vector("thrusts", thrusts)

    def thrust_of_speed(self, speeds: Any) -> Array:
        """Thrusts k_t w |w| [N], shape (m,), of speeds [rad/s], (70a) with reverse thrust."""
        w = self._vector("speeds", speeds)
        return self._k_t * w * abs(w)

    def speed_of_thrust(self, thrusts: Any) -> Array:
        """Speeds [rad/s], shape (m,), of thrusts [N]: the inverse of (70a)."""
        f = self._vector("thrusts", thrusts)
        return np.sign(f) * np.sqrt(abs(f) / self._k_t)

    def motor_step(self, thrusts: Any, commands: Any, dt: float) -> Array:
        """Thrusts [N], shape (m,), a time dt later: the lag (72), exact for constant commands.

        Args:
            thrusts: now, shape (m,) [N].
            commands: what is asked for, shape (m,) [N]; cut off at the limits.
            dt: [s], not negative.
        """
        if number("dt", dt) < 0.0:
            raise ParameterError(f"dt: got {dt}, expected no negative number [s]")
        now = self._vector("thrusts", thrusts)
        aim = np.clip(self._vector("commands", commands), self.min_thrusts, self.max_thrusts)
        lags = self._time_constants > 0.0
        decay = np.exp(-dt / np.where(lags, self._time_constants, 1.0))
        return aim + np.where(lags, decay, 0.0) * (now - aim)

    # -- allocation -----------------------------------------------------------------------------

    def allocate(self, wrench: ArrayLike, weights: Any = None) -> Allocation:
        """Thrusts that come closest to a wrench, (89), with the least thrust among the closest.

        The pseudo-inverse answers while all thrusts are within their limits; otherwise
        :func:`vm_dynamics.dynamics.bounded.least_squares`. Least is the square sum of the thrusts.

        Args:
            wrench: [f; t] in {1}, shape (6,).
            weights: how much each of its components matters, shape (6,), not negative; the same
                for all unless given, which weighs a newton like a newton metre.
        """
        w = vector("wrench", wrench, 6)
        if weights is None:
            B, pinv = self.matrix, self._pinv
        else:
            scale = self._weights(weights)
            B, w = scale[:, None] * self.matrix, scale * w
            pinv = pseudo_inverse(B)
        thrusts: Array = pinv @ w
        if (thrusts < self.min_thrusts).any() or (thrusts > self.max_thrusts).any():
            thrusts = least_squares(B, w, self.min_thrusts, self.max_thrusts, thrusts)
        saturated = (thrusts == self.min_thrusts) | (thrusts == self.max_thrusts)
        return Allocation(thrusts, self.matrix @ thrusts, saturated)

    @cached_property
    def rank(self) -> int:
        """How many axes of the wrench can be had independently of each other."""
        return int(np.linalg.matrix_rank(self.matrix, rtol=RANK_TOLERANCE))

    def require_full_rank(self, axes: Iterable[str] = WRENCH_AXES) -> None:
        """Refuse a propulsion that cannot push along some axes independently of each other.

        Args:
            axes: names among ``fx fy fz tx ty tz``; all six unless given.

        Raises:
            ParameterError: the allocation is singular; the message names the axes that are
                missing.
        """
        wanted = tuple(axes)
        for axis in wanted:
            if axis not in WRENCH_AXES:
                raise ParameterError(
                    f"axes: got {axis!r}, expected some of {', '.join(WRENCH_AXES)}"
                )
        rows = self.matrix[[WRENCH_AXES.index(axis) for axis in wanted]]
        left, values, _ = np.linalg.svd(rows)
        rank = int(np.sum(values > RANK_TOLERANCE * values.max(initial=0.0)))
        if rank == len(wanted):
            return
        # how much of each axis lies in what no thrusts reach: all, some, or nothing
        share = np.linalg.norm(left[:, rank:], axis=1)
        reasons = [
            f"nothing acts along {a}" for a, s in zip(wanted, share, strict=True) if s > ALL
        ]
        mixed = [a for a, s in zip(wanted, share, strict=True) if RANK_TOLERANCE < s <= ALL]
        if mixed:
            reasons.append(f"{', '.join(mixed)} only come together")
        raise ParameterError(
            f"singular allocation: {len(self.rotors)} rotors give {rank} of the {len(wanted)} "
            f"axes {', '.join(wanted)} independently; {'; '.join(reasons)}"
        )

    # -- helpers --------------------------------------------------------------------------------

    @cached_property
    def _pinv(self) -> Array:
        return pseudo_inverse(self.matrix)

    def _weights(self, weights: Any) -> Array:
        out = vector("weights", weights, 6)
        if (out < 0.0).any() or not out.any():
            raise ParameterError(
                f"weights: got {out}, expected six numbers, none negative and not all zero"
            )
        return np.sqrt(out)

    def _vector(self, name: str, value: Any) -> Array:
        return vector(name, value, len(self.rotors))

    def _of_rotors(self, key: str) -> Array:
        out = np.array([getattr(rotor, key) for rotor in self.rotors], dtype=float)
        out.setflags(write=False)
        return out


def _column(robot: RobotModel, rotor: Rotor) -> Array:
    """Wrench of a newton of thrust, (69) corrected: [n; r x n + s (k_p / k_t) n]."""
    n = np.array(rotor.axis)
    if rotor.link is None:
        r = np.array(rotor.position)
    else:
        frame = robot.link_frame(rotor.link)
        if frame.body != 0:
            joint = robot.tree.bodies[frame.body - 1].joint.name
            raise ParameterError(
                f"rotor {rotor.name!r}: link {rotor.link!r} moves with joint {joint!r}, expected "
                f"a link that is rigidly joined to {robot.root_link!r}"
            )
        n, r = frame.pose[:3, :3] @ n, frame.pose[:3, 3]
    torque = np.cross(r, n) + rotor.spin * (rotor.k_p / rotor.k_t) * n
    return np.concatenate((n, torque))
