# SPDX-License-Identifier: Apache-2.0
"""Covariance of the left-invariant filter: its error state and its motion.

The error state is [eps; zeta; bias; external]. With hats for the estimate, ``g = g^ exp(eps)``,
and the momentum m with moments about the centre of mass is ``m = diag(R, R)^T m^ + zeta``, R the
rotation of exp(eps); bias of the gyroscope and external wrench are plain differences. To first
order

* ``dV = W (T_m eps + zeta)``, V = W m - A qd, ``T_m eps = [m_v x eps_w; m_w x eps_w]``,
* ``d eps/dt = -ad_V eps + dV``,
* ``d zeta/dt = [zeta_v x w; zeta_w x w] - T_F eps + dF``, F all that pushes the base.

Moments about the origin of {1} would bring in products of its position with the momentum, large
terms that cancel as long as the robot is slow or known well.

A step is a flow without forces between two halves of their push.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from vm_dynamics.estimation import _kernels
from vm_dynamics.estimation.estimate import NO_WRENCH, Estimate
from vm_dynamics.estimation.motion import Motion
from vm_dynamics.estimation.shape import Shape, Shapes
from vm_dynamics.estimation.watch import Watch
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array, hat3
from vm_dynamics.robot import Robot

DIFFERENCE = 1e-5  # step of central differences [m, rad, m/s, rad/s]


class Belief(NamedTuple):
    """What the filter keeps beside pose and momentum.

    Attributes:
        P: covariance of the error state, shape (d, d).
        t: time that it stands at [s].
        g: pose then.
        m: momentum then.
        xi: iota A qd then, see :class:`Shape`.
        lift: the same.
        misses: poses rejected since the last one that was used.
        readings_missed: the same of gyroscope readings and velocities.
        wide: how often the estimate began anew without success.
        bias: of the gyroscope, shape (3,) [rad/s].
        external: estimated wrench, shape (b,) [N, N m].
        trim: what a gyroscope says of the twist beyond the joints' noise, shape (b,), or None.
        watch: how well corrections agree with the covariance.
    """

    P: Array
    t: float
    g: Array
    m: Array
    xi: Array
    lift: Array
    misses: int
    readings_missed: int
    wide: int
    bias: Array
    external: Array
    trim: Array | None
    watch: Watch

    @classmethod
    def empty(cls, bias: Array, external: Array, wide: int, watch: Watch) -> Belief:
        """One whose covariance is yet to come."""
        none = np.empty(0)
        return cls(none, 0.0, none, none, none, none, 0, 0, wide, bias, external, None, watch)


class Covariance:
    """The error state of a filter, and how its covariance moves.

    Attributes:
        size: d.
        parts: numbers of the linear and of the angular coordinates of the base group.
        eps: where eps stands in the error state; and so on, None for what is not estimated.
    """

    entries = (_kernels.flow, _kernels.propagate)

    def __init__(
        self,
        robot: Robot,
        shapes: Shapes,
        motion: Motion,
        *,
        external_axes: str | None,
        has_bias: bool,
        joint_variance: Array,
        disturbance: Array,
        bias_walk: float,
        external_walk: Array,
    ) -> None:
        """Lay out the error state.

        Args:
            robot: the robot.
            shapes: its joint data.
            motion: its motion.
            external_axes: ``body``, ``world`` or None for no external wrench.
            has_bias: whether there is a gyroscope.
            joint_variance: of the joints' velocities, shape (n,).
            disturbance: random walk of the locked velocity, covariance a second, shape (b, b).
            bias_walk: the same of the gyroscope's bias.
            external_walk: the same of the external wrench, shape (b, b).
        """
        b = robot.b
        self.eps, self.zeta = slice(0, b), slice(b, 2 * b)
        self.bias = slice(2 * b, 2 * b + 3) if has_bias else None
        self.size = 2 * b + 3 * has_bias
        self.external = None
        if external_axes is not None:
            self.external = slice(self.size, self.size + b)
            self.size += b
        self._shapes, self._motion = shapes, motion
        self._iota, self._pinv = shapes.iota, shapes.pinv
        # of a flow in six dimensions on the group's coordinates of eps and zeta
        zero = np.zeros((b, 6))
        self._left = np.block([[self._pinv, zero], [zero, self._iota.T]])
        self._right = np.block([[self._iota, zero.T], [zero.T, self._pinv.T]])
        is_angular = self._iota[3:].any(axis=0)  # a screw counts as angular
        self.parts = np.flatnonzero(~is_angular), np.flatnonzero(is_angular)
        self._is_flow_alone = b == 6 and self.size == 12
        self._is_world = external_axes == "world"
        self._is_turning = bool(robot.gravity.any()) or shapes.fluid is not None
        self._is_turning = self._is_turning or self._is_world
        self._is_pushed = self._is_turning or external_axes is not None
        self._joint_noise, self._disturbance = np.diag(joint_variance), disturbance
        self._walks = np.zeros((self.size, self.size))
        if self.bias is not None:
            self._walks[self.bias, self.bias] = bias_walk * np.eye(3)
        if self.external is not None:
            self._walks[self.external, self.external] = external_walk
        steps = DIFFERENCE * self._iota.T
        self._nudges = [(se3.exp(x), se3.exp(-x)) for x in steps]
        self._flow = np.empty((12, 12))

    def widths(self, widenings: tuple[float, float]) -> Array:
        """Factors on deviations of the group's coordinates, shape (b,), from logarithms."""
        out = np.empty(len(self._pinv))
        for part, widening in zip(self.parts, widenings, strict=True):
            out[part] = math.exp(0.5 * widening)
        return out

    def turning(self, m: Array) -> Array:
        """T_m of a momentum or force, shape (6,), in coordinates of the group, shape (b, b)."""
        out = np.zeros((6, 6))
        out[:3, 3:], out[3:, 3:] = hat3(m[:3]), hat3(m[3:])
        return self._iota.T @ out @ self._iota

    def velocity_row(self, J: Array, estimate: Estimate, shape: Shape) -> Array:
        """H of a measurement of J V, J (k, b): ``J dV = J W (T_m eps + zeta)``, shape (k, d)."""
        H = np.zeros((len(J), self.size))
        JW = J @ (self._pinv @ shape.lift @ self._pinv.T)
        H[:, self.eps], H[:, self.zeta] = JW @ self.turning(estimate.m), JW
        return H

    def set_joint_variance(self, variances: Array) -> None:
        """Take joint velocities to have other noise from now on, variances of shape (n,)."""
        self._joint_noise = np.diag(variances)

    def joint_noise(self, left: Array, right: Array) -> Array:
        """Left S right^T, S the variances of the joints' velocities."""
        return left @ self._joint_noise @ right.T

    def of_twist(self, estimate: Estimate, shape: Shape) -> Array:
        """Covariance of (pose error, twist error), shape (2b, 2b).

        The error of the twist is ``W (T_m eps + zeta) + A n``, n the noise of the joints.
        """
        b = len(self._pinv)
        J = np.vstack((np.eye(b, self.size), self.velocity_row(np.eye(b), estimate, shape)))
        out = J @ estimate.memory.P @ J.T
        out[b:, b:] += self.joint_noise(shape.A, shape.A)
        return 0.5 * (out + out.T)

    # -- motion ---------------------------------------------------------------------------------

    def propagated(self, estimate: Estimate, t: float, shape: Shape) -> tuple[Array, bool]:
        """The covariance of an estimate at time t, that of the joint data, and whether it is one.

        Noise of the joints' velocities moves the pose, that of forces the momentum.
        """
        belief = estimate.memory
        dt = t - belief.t
        widths = self.widths(belief.watch.widenings)
        out = np.empty((self.size, self.size))
        is_possible = _kernels.propagate.run(
            self._transition(estimate, dt, shape),
            belief.P,
            self._iota,
            self._pinv,
            shape.M_b,
            shape.point,
            shape.A,
            self._joint_noise,
            self._disturbance * np.outer(widths, widths),
            self._walks,
            estimate.spacing,
            dt,
            out,
        )
        return out, is_possible

    def _transition(self, estimate: Estimate, dt: float, shape: Shape) -> Array:
        """How errors move in the time dt since the covariance was propagated, shape (d, d)."""
        belief, out = estimate.memory, self._flow
        _kernels.flow.run(
            belief.g,
            belief.xi,
            belief.lift,
            belief.m,
            estimate.g,
            shape.xi,
            shape.lift,
            estimate.m,
            dt,
            self._flow,
        )
        if not self._is_flow_alone:
            moving = slice(0, self.zeta.stop)
            out = np.eye(self.size)
            out[moving, moving] = self._left @ self._flow @ self._right
        if self._is_pushed or estimate.known is not NO_WRENCH:
            first = self._push(estimate, shape, belief.g, 0.5 * dt)
            last = self._push(estimate, shape, estimate.g, 0.5 * dt)
            out = last @ out @ first
        return out

    def _push(self, estimate: Estimate, shape: Shape, g: Array, dt: float) -> Array:
        """1 and what forces do to zeta in a time dt, at the attitude of a pose g; shape (d, d)."""
        iota, V = self._iota, shape.lift @ estimate.m - shape.xi
        out = np.zeros((self.size, self.size))

        def force(pose: Array, twist: Array) -> Array:
            return self._motion.force(shape, estimate.wrenches, pose, twist, estimate.m)

        by_eps = -self.turning(force(g, V))
        if self._is_turning:  # forces that depend on the attitude
            ends = [(force(g @ ahead, V), force(g @ behind, V)) for ahead, behind in self._nudges]
            by_eps += iota.T @ slopes(ends)
        if self._shapes.fluid is not None:
            steps = DIFFERENCE * iota.T
            by_V = iota.T @ slopes([(force(g, V + x), force(g, V - x)) for x in steps])
            # moments about an origin that moves with v: dm_v x v, dm = T_m eps + zeta
            by_m = by_V @ (self._pinv @ shape.lift @ self._pinv.T)
            by_m -= iota[3:].T @ hat3(V[:3]) @ self._pinv[:, :3].T
            by_eps += by_m @ self.turning(estimate.m)
            out[self.zeta, self.zeta] = by_m
        out[self.zeta, self.eps] = by_eps
        if self.external is not None:
            out[self.zeta, self.external] = self._external_push(shape, g)
        out *= dt
        out += np.eye(self.size)
        return out

    def _external_push(self, shape: Shape, g: Array) -> Array:
        """How the estimated wrench acts on the momentum, turned and shifted; shape (b, b)."""
        shift = self._shapes.shift(shape)
        if not self._is_world:
            return shift
        turn = np.zeros((6, 6))
        turn[:3, :3] = turn[3:, 3:] = g[:3, :3].T
        return shift @ self._iota.T @ turn @ self._pinv.T


def slopes(ends: list[tuple[Array, Array]]) -> Array:
    """Columns of a derivative from values ahead and behind, each at a distance DIFFERENCE."""
    return np.array([ahead - behind for ahead, behind in ends]).T / (2.0 * DIFFERENCE)


def is_possible(P: Array) -> bool:
    """Whether a matrix can be a covariance by its diagonal."""
    diagonal = P.diagonal()
    return bool(diagonal.min() > 0.0 and diagonal.max() <= _kernels.HUGE_VARIANCE)
