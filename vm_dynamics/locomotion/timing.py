# SPDX-License-Identifier: Apache-2.0
"""When a joint path is where: as fast as velocities, accelerations and efforts allow.

Loops follow each other at a constant rate of their phase s, which rises from zero at the start and
falls to zero at the end as ``x^2 (3 - 2 x)``. At a phase all accelerations and, without momentum,
all efforts but friction grow with the square of that rate,

    tau = (a(s) s_ramp'' + b(s) s_ramp'^2) rate^2 + friction,

where ``a`` is the effort of the joints' slope as an acceleration, and ``b`` that of their slope
and bend together, with the base moving as the conservation of momentum says. So the largest rate
is that of the worst sample, in closed form. Efforts are continuous but at the very ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion.gaits import Gait
from vm_dynamics.locomotion.loops import Loop
from vm_dynamics.robot import Robot

# Time of the acceleration at the start, and of the deceleration at the end, as a share of the time
# of one loop.
RAMP_SHARE = 0.5
# Share of the limits that is used: of velocities and accelerations, the rest is for what lies
# between samples; of efforts, for the control of the joints.
LIMIT_SHARE, EFFORT_LIMIT_SHARE = 0.995, 0.9
SAMPLES_PER_LOOP = 150


class MotionLimits(NamedTuple):
    """How fast joints may move, each shape (n,).

    Attributes:
        velocity: [rad/s or m/s].
        acceleration: [rad/s^2 or m/s^2], infinite where there is none.
        effort: [N m or N], infinite where there is none.
    """

    velocity: Array
    acceleration: Array
    effort: Array


class _Samples(NamedTuple):
    """A path at phases: its joint positions and derivatives by ``rate * t``, shape (N, n)."""

    q: Array
    velocity: Array
    acceleration: Array


def shortest_loop_time(loop: Loop, velocity: Array) -> float:
    """Shortest time of one loop within velocity limits, shape (n,), at a constant rate [s]."""
    speed = abs(loop.slope(np.linspace(0.0, 1.0, 400))).max(axis=0)
    moving = speed > 0.0
    return float((speed[moving] / velocity[moving]).max(initial=0.0))


class Timing:
    """How fast loops may follow each other, and what they take.

    Attributes:
        robot: the robot.
        loop: the loop.
        loops: number of loops.
    """

    def __init__(self, robot: Robot, loop: Loop, loops: int) -> None:
        self.robot, self.loop, self.loops = robot, loop, loops
        q, self._velocity, self._acceleration = _samples(loop, loops)
        self._efforts = _efforts(robot, q, self._velocity, self._acceleration)

    def fastest_rate(self, limits: MotionLimits) -> float:
        """Largest rate of the phase within limits [loops/s]; 0 if friction takes too much."""
        v, a = (abs(x).max(axis=0) for x in (self._velocity, self._acceleration))
        moving = v > 0.0
        by_velocity = LIMIT_SHARE * limits.velocity[moving] / v[moving]
        by_acceleration = np.sqrt(LIMIT_SHARE * limits.acceleration[moving] / a[moving])
        room = EFFORT_LIMIT_SHARE * limits.effort - np.where(moving, self.robot.friction, 0.0)
        held = np.isfinite(room)  # a joint that does not move takes an effort, too
        room = np.maximum(room[held], 0.0)
        # the root of  efforts rate^2 + damping |v| rate = room
        drag = (self.robot.damping * abs(self._velocity))[:, held]
        root = np.sqrt(drag**2 + 4.0 * abs(self._efforts[:, held]) * room)
        by_effort = 2.0 * room / np.maximum(drag + root, 1e-300)
        rates = (by_velocity, by_acceleration, by_effort)
        return min(float(rate.min(initial=np.inf)) for rate in rates)

    def peak_effort(self, rate: float, effort: Array) -> float:
        """Largest share of effort limits, shape (n,), that the loops take, with friction.

        Args:
            rate: of the phase [loops/s].
            effort: limits [N m or N]; infinite ones do not count.
        """
        speed = rate * abs(self._velocity)
        tau = rate**2 * abs(self._efforts) + self.robot.damping * speed
        tau += self.robot.friction * (speed > 0.0)
        limited = np.isfinite(effort) & (effort > 0.0)
        return float((tau[:, limited] / effort[limited]).max(initial=0.0))


def timed(loop: Loop, loops: int, rate: float) -> Gait:
    """Loops in time, at rest at both ends.

    Args:
        loop: the loop.
        loops: number of loops.
        rate: of the phase between both ramps [loops/s].
    """
    ramp = RAMP_SHARE / rate
    T = loops / rate + ramp

    def velocity(t: Array) -> Array:
        s, pace, _ = _phase(rate * t, loops)
        return np.asarray(loop.slope(s) * (rate * pace)[:, None])

    def position(t: Array) -> Array:
        return loop.position(_phase(rate * t, loops)[0])

    return Gait(T, None, (0.0, ramp, T - ramp, T), position, velocity)


def rate_for(loops: int, duration: float) -> float:
    """Rate of the phase at which loops take a time [loops/s]."""
    return (loops + RAMP_SHARE) / duration


def _phase(x: Array, loops: int) -> tuple[Array, Array, Array]:
    """Phase of timed loops and its first two derivatives by ``x = rate t``, shape (N,) each."""
    whole = loops + RAMP_SHARE
    left = np.minimum(x, whole - x)  # the end mirrors the beginning
    u = np.clip(left / RAMP_SHARE, 0.0, 1.0)
    gone = RAMP_SHARE * u**3 * (1.0 - 0.5 * u) + np.maximum(left - RAMP_SHARE, 0.0)
    first = 2.0 * x <= whole
    bend = 6.0 * u * (1.0 - u) / RAMP_SHARE
    return (
        np.where(first, gone, loops - gone),
        u**2 * (3.0 - 2.0 * u),
        np.where(first, bend, -bend),
    )


def _samples(loop: Loop, loops: int) -> _Samples:
    """Timed loops at a rate of one: all of them, or the first, one between and the last."""
    shown = min(loops, 3)
    x = np.linspace(0.0, shown + RAMP_SHARE, 1 + SAMPLES_PER_LOOP * (shown + 1))
    s, pace, change = (part[:, None] for part in _phase(x, shown))
    phase = s[:, 0]
    slope, bend = loop.slope(phase), loop.bend(phase)
    return _Samples(loop.position(phase), slope * pace, bend * pace**2 + slope * change)


def _efforts(robot: Robot, q: Array, qd: Array, qdd: Array) -> Array:
    """Joint efforts of a motion with a free base without momentum, without friction, (N, n)."""
    still, none = np.eye(4), np.zeros(robot.b)
    _, A = robot.batch_mass_and_connection(q)
    V = -np.einsum("kbi,ki->kb", A, qd)
    rows = zip(q, V, qd, qdd, strict=True)
    return np.array([robot.hybrid_dynamics(still, *row, none).tau for row in rows])
