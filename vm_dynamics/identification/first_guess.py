# SPDX-License-Identifier: Apache-2.0
"""Unknowns to begin with: efforts that the motion seen so far needs, compared with those given.

Accelerations of joints and base are taken from polynomials through samples and poses. This is
rough, and biased by noise, but does not depend on where it begins as a simulated motion does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vm_dynamics.dynamics import hybrid_kernels
from vm_dynamics.dynamics.loads import NO_LOADS, fluid_loads
from vm_dynamics.identification._kernels import NUDGE
from vm_dynamics.identification.fitting import Prior, least_squares
from vm_dynamics.identification.following import Noise, Unknowns, Window
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

SPAN = 0.4  # [s], of a polynomial through joint samples
POSE_SPAN = 0.6  # [s], to either side
CLOSE = 1e-2  # it is rough anyway
DOUBT = 0.05  # of efforts, as a part of their size
BASE_DOUBT = 0.3  # deviation of the base's acceleration [m/s^2, rad/s^2]


class Instant(NamedTuple):
    """Motion and forces at a time, from what was measured around it."""

    g: Array
    q: Array
    V: Array
    qd: Array
    acc: Array
    wrench: Array
    effort: Array | None


class FirstGuess:
    """Fits the unknowns to instants of a motion.

    Attributes:
        twist: velocity of the base where the windows begin, in {1}, shape (b,), or None.
    """

    def __init__(
        self, robot: Robot, unknowns: Unknowns, noise: Noise, windows: list[Window]
    ) -> None:
        """Smooth what came."""
        self._robot, self._unknowns = robot, unknowns
        mean = (windows[-1].stamps[-1] - windows[0].stamps[0]) / len(windows)
        many = max(1, min(round(SPAN / mean), len(windows)))
        spans = [windows[i : i + many] for i in range(len(windows) - many + 1)]
        poses = [p for w in windows for p in ((w.begin,) if w.begin else ()) + w.poses]
        self._instants = [self._instant(span, poses, noise) for span in spans]
        efforts = [x.effort for x in self._instants if x.effort is not None]
        size = np.sqrt(np.mean(np.square(efforts), axis=0)) if efforts else np.ones(robot.n)
        doubt = noise.effort + DOUBT * np.maximum(size, DOUBT * size.max())
        self.twist = self._begin(windows[0].stamps[0], poses)
        self._weights = 1.0 / np.concatenate((np.full(robot.b, BASE_DOUBT), doubt))

    def _instant(self, span: list[Window], poses: list, noise: Noise) -> Instant:
        stamps = np.concatenate([w.stamps for w in span])
        t = 0.5 * (stamps[0] + stamps[-1])
        scale = stamps[-1] - stamps[0]
        s = (stamps - t) / scale
        k = np.arange(4)
        values = s[:, None] ** k
        rates = k * s[:, None] ** np.maximum(k - 1, 0) / scale
        basis = np.concatenate((values / noise.q.max(), rates / noise.qd.max()))
        q = np.concatenate([w.q for w in span]) / noise.q.max()
        qd = np.concatenate([w.qd for w in span]) / noise.qd.max()
        fit = np.linalg.lstsq(basis, np.concatenate((q, qd)), rcond=None)[0]
        g, V, a = self._base(t, poses)
        middle = span[len(span) // 4 : len(span) - len(span) // 4]
        has_effort = all(w.effort is not None for w in middle)
        return Instant(
            g,
            fit[0].copy(),
            V,
            fit[1] / scale,
            np.concatenate((a, 2.0 * fit[2] / scale**2)),
            np.mean(np.concatenate([w.wrench for w in middle]), axis=0),
            np.mean(np.concatenate([w.effort for w in middle]), axis=0) if has_effort else None,
        )

    def _base(self, t: float, poses: list) -> tuple[Array, Array, Array]:
        """Pose, velocity and acceleration of the base, by a polynomial through poses."""
        group = self._robot.base_group
        near = [p for p in poses if abs(p.stamp - t) <= POSE_SPAN] or poses[-1:]
        first = min(near, key=lambda p: abs(p.stamp - t)).g
        ways = np.array([group.iota_pinv @ se3.log(se3.inverse(first) @ p.g) for p in near])
        times = np.array([p.stamp - t for p in near])
        order = min(4, (len(near) + 1) // 2)
        fit = np.zeros((4, group.dimension))
        basis = times[:, None] ** np.arange(order)
        fit[:order] = np.linalg.lstsq(basis, ways, rcond=None)[0]
        return first @ se3.exp(group.iota @ fit[0]), fit[1].copy(), 2.0 * fit[2]

    def _begin(self, t: float, poses: list) -> Array | None:
        """Velocity of the base at the beginning, in {1}, shape (b,), from the first poses."""
        group = self._robot.base_group
        near = [p for p in poses if p.stamp - t <= POSE_SPAN]
        if len(near) < 3:
            return None
        ways = np.array([group.iota_pinv @ se3.log(se3.inverse(poses[0].g) @ p.g) for p in near])
        times = np.array([p.stamp - t for p in near])
        return np.polyfit(times, ways, 1)[0]

    def search(self, prior: Prior) -> Array:
        """The unknowns that fit best, shape (p,)."""
        return least_squares(self._errors, prior, prior.mean, CLOSE).at

    def _errors(self, theta: Array) -> tuple[Array, Array]:
        """Weighted errors of accelerations and efforts, (m,), and their derivative (m, p)."""
        robot, b = self._robot, self._robot.b
        numbers = self._unknowns.numbers(theta)
        models = self._unknowns.models(numbers)
        mask = np.zeros(b + robot.n)
        mask[:b] = 1.0
        errors, slopes = [], []
        for g, q, V, qd, seen, wrench, effort in self._instants:
            loads = NO_LOADS if robot.fluid is None else fluid_loads(robot, g, q, V, qd)
            off = np.zeros((len(models), b + robot.n))
            for i, model in enumerate(models):
                acc, force = seen.copy(), np.concatenate((wrench, np.zeros(robot.n)))
                hybrid_kernels.hybrid.checked(
                    model, robot.added_mass, g, q, V, qd, mask, acc, force, loads
                )
                off[i, :b] = acc[:b] - seen[:b]
                off[i, b:] = force[b:]
            slope = (off[1:] - off[0]) / NUDGE
            error = off[0]
            if effort is None:
                error[b:], slope[:, b:] = 0.0, 0.0
            else:
                error[b:] -= effort
                if self._unknowns.rubs:
                    error[b:] -= self._unknowns.friction(numbers, qd[None])[0]
                if len(models) == 1:
                    slope = np.zeros((len(theta), b + robot.n))
                    slope[:, b:] = -self._unknowns.friction_slopes(qd[None])
            errors.append(error * self._weights)
            slopes.append(slope.T * self._weights[:, None])
        return np.concatenate(errors), np.concatenate(slopes) @ self._unknowns.slope(theta)
