# SPDX-License-Identifier: Apache-2.0
"""Momentum of the shape, what changes it, and how well that is known.

Implements: row 2 of [Mishra2022] eq. (18) for the momentum ``p = Lambda_q qd``. By the skewness of
``dLambda_q/dt - 2 Gamma_q``

    dp/dt = Gamma_q^T qd + (D_mu [mu; qd])_q + tau - A^T F + r,   r = (J_q - J_b A)^T W

for a wrench W on a link with the Jacobian [J_b, J_q]. The base does not accelerate in it, so it
needs no derivative of a noisy twist. All in frame {1}, order [v; w].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vm_dynamics.dynamics import hybrid_kernels
from vm_dynamics.dynamics.loads import NO_LOADS
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model import table
from vm_dynamics.model.robot_model import NO_ADDED_MASS
from vm_dynamics.robot import Robot

_inverse_dynamics = hybrid_kernels.inverse_dynamics
# Below some such speed a joint may stick, and its dry friction be anything up to the URDF's.
STICKING_SPEED = 0.03  # [rad/s or m/s]
STICKING_DEVIATION = 0.6  # of the dry friction: that of a number between -1 and 1
FRICTION_SHARE = 0.05  # of the friction of a joint that moves: how well any is known


class Inputs(NamedTuple):
    """What is known at a joint sample.

    Attributes:
        q: positions, shape (n,) [rad or m].
        qd: velocities, shape (n,).
        effort: of the motors, shape (n,) [N m or N].
        mu: locked velocity, shape (b,).
        g: pose of {1} in the world, shape (4, 4).
        wrench: known, on {1}, shape (b,).
    """

    q: Array
    qd: Array
    effort: Array
    mu: Array
    g: Array
    wrench: Array


class ShapeMotion(NamedTuple):
    """What the shape does at a joint sample.

    Attributes:
        A: connection, shape (b, n).
        inertia: Lambda_q, shape (n, n).
        p: momentum Lambda_q qd, shape (n,).
        rate: of p by all that moves with the robot: velocities, weight, wrench on the base, (n,).
        effort: of motors and friction, shape (n,).
        gyroscopic: the part of the rate that depends on mu, shape (n,).
    """

    A: Array
    inertia: Array
    p: Array
    rate: Array
    effort: Array
    gyroscopic: Array


class ShapeModel:
    """The equation above, for one robot."""

    def __init__(self, robot: Robot) -> None:
        """Prepare."""
        _inverse_dynamics.compile()
        self.robot = robot
        self._heavy = bool(robot.gravity.any())
        self._still = np.zeros(robot.b), np.zeros(robot.n)
        self._bodies = [_only(robot, k) for k in range(len(robot.tree.inertias))]

    @property
    def needs_pose(self) -> bool:
        """Whether the pose of the base matters, because of weight or a fluid."""
        return self._heavy or self.robot.fluid is not None

    def motion(self, x: Inputs) -> ShapeMotion:
        """The shape at a sample."""
        robot, b = self.robot, self.robot.b
        found = robot.reduced(x.q, x.qd, x.mu)
        A, on_base = found.A, x.wrench
        gyroscopic = found.D_mu[b:] @ np.concatenate((x.mu, x.qd))
        rate = found.Gamma_q.T @ x.qd + gyroscopic
        if self._heavy:
            weight = self._forces(robot.packed, x, *self._still, *self._still)
            on_base = on_base - weight[:b]
            rate -= weight[b:]
        if robot.fluid is not None:
            F, tau = robot.fluid_forces(x.g, x.q, x.mu - A @ x.qd, x.qd)
            on_base = on_base + F
            rate += tau
        rate -= A.T @ on_base
        effort = x.effort + robot.joint_friction(x.qd)
        p = found.Lambda_q @ x.qd
        return ShapeMotion(A, found.Lambda_q, p, rate, effort, gyroscopic)

    def shares(self, x: Inputs, motion: ShapeMotion, residual: Array) -> Array:
        """What each body adds to the forces on the shape, its inertia and its weight, (nj + 1, n).

        The accelerations are those that the forces make of the model, so they have no noise of a
        derivative. A body whose mass is wrong by a part makes a residual of that part of its row.

        Args:
            x: the sample.
            motion: from :meth:`motion`.
            residual: force on the shape from outside, shape (n,).
        """
        robot, b, A = self.robot, self.robot.b, motion.A
        V, force = x.mu - A @ x.qd, motion.effort + residual
        Vd, qdd = robot.forward_dynamics(x.g, x.q, V, x.qd, force, x.wrench)
        rows = [self._forces(model, x, V, x.qd, Vd, qdd) for model in self._bodies]
        forces = np.array(rows)
        return forces[:, b:] - forces[:, :b] @ A

    def friction_deviation(self, qd: Array) -> Array:
        """How well friction is known, shape (n,) [N m or N]."""
        robot = self.robot
        sticking = STICKING_DEVIATION / np.cosh(np.minimum(abs(qd) / STICKING_SPEED, 50.0)) ** 2
        return robot.friction * (FRICTION_SHARE + sticking) + FRICTION_SHARE * robot.damping * abs(
            qd
        )

    def _forces(
        self, model: Array, x: Inputs, V: Array, qd: Array, Vd: Array, qdd: Array
    ) -> Array:
        """Forces [F; tau] that a motion needs, without a fluid, shape (b + n,)."""
        out = np.empty(self.robot.b + self.robot.n)
        _inverse_dynamics.run(model, NO_ADDED_MASS, x.g, x.q, V, qd, Vd, qdd, NO_LOADS, out)
        return out


def _only(robot: Robot, body: int) -> Array:
    """The packed robot with the inertia of one body alone."""
    out = robot.packed.copy()
    rows = [k for k in range(len(robot.tree.inertias)) if k != body]
    out[rows, table.MASS] = 0.0
    out[rows, table.COM : table.COM + 3] = 0.0
    out[rows, table.INERTIA : table.INERTIA + 6] = 0.0
    return out
