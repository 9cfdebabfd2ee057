# SPDX-License-Identifier: Apache-2.0
"""Reduced Euler-Lagrange equations: momentum and shape decoupled.

Implements: [Mishra2022] eqs. (8)-(20) (Theorem 1) and (31)-(34) (Properties 4 and 5), in the
order [v; w] and on every displacement subgroup. The lower right block of D_mu is -B in every
frame, where (34) prints a plus.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.lie import DisplacementGroup, se3
from vm_dynamics.lie.se3 import Array


class Reduced:
    """The matrices of the reduced equations at (q, qd, mu).

    .. math::
        [M_b dmu/dt; Lambda_q qdd] + D_qd [mu; qd] = D_mu [mu; qd] + [F; tau - A^T F]

    with the locked velocity mu = V + A qd. Base quantities are in frame {1}, or in the frame {C}
    of :meth:`in_frame`.

    Attributes:
        group: the base group.
        M_b: locked inertia, shape (b, b).
        Lambda_q: shape inertia, shape (n, n).
        A: mechanical connection, shape (b, n).
        A_dot: rate of A along qd, shape (b, n).
        P: locked inertia velocity dM_b/dt, shape (b, b).
        S: locked inertia derivative S(mu), column j is dM_b/dq_j mu, shape (b, n).
        Gamma_q: Coriolis matrix of the shape, dLambda_q/dt - 2 Gamma_q skew, shape (n, n).
        B: gyroscopic matrix of the curvature at mu, skew, shape (n, n).
        D_qd: diag(P/2, Gamma_q), shape (b + n, b + n).
        D_mu: skew, shape (b + n, b + n).
    """

    __slots__ = (
        "A",
        "A_dot",
        "B",
        "D_mu",
        "D_qd",
        "Gamma_q",
        "Lambda_q",
        "M_b",
        "P",
        "S",
        "group",
    )

    def __init__(
        self,
        group: DisplacementGroup,
        M_b: Array,
        Lambda_q: Array,
        A: Array,
        A_dot: Array,
        P: Array,
        S: Array,
        Gamma_q: Array,
        B: Array,
        D_qd: Array,
        D_mu: Array,
    ) -> None:
        """Hold the matrices; :meth:`vm_dynamics.robot.Robot.reduced` computes them."""
        self.group = group
        self.M_b = M_b
        self.Lambda_q = Lambda_q
        self.A = A
        self.A_dot = A_dot
        self.P = P
        self.S = S
        self.Gamma_q = Gamma_q
        self.B = B
        self.D_qd = D_qd
        self.D_mu = D_mu

    def accelerations(
        self, mu: Array, qd: Array, base_wrench: Array, tau: Array
    ) -> tuple[Array, Array]:
        """Rates of the locked velocity and of qd, (18) solved; shapes (b,) and (n,).

        Args:
            mu: locked velocity, shape (b,).
            qd: joint velocities, shape (n,).
            base_wrench: all forces on the base F, shape (b,): those of gravity and of a fluid
                (``robot.fluid_forces``) too, for the matrices have none of them.
            tau: all forces on the joints, shape (n,), likewise.
        """
        b = len(self.M_b)
        coriolis = (self.D_mu - self.D_qd) @ np.concatenate((mu, qd))
        mu_dot = np.linalg.solve(self.M_b, coriolis[:b] + base_wrench)
        if not len(qd):
            return mu_dot, np.zeros(0)
        qdd = np.linalg.solve(self.Lambda_q, coriolis[b:] + tau - self.A.T @ base_wrench)
        return mu_dot, qdd

    def in_frame(self, pose: ArrayLike, velocity: Any = None) -> Reduced:
        """The same equations with the momentum in another frame {C}, Property 4.

        mu_c = Ad_1c^-1 mu and F_c = Ad_1c^T F; the shape equation stays as it is (Property 5).

        Args:
            pose: g_1c, shape (4, 4), a displacement of the base group.
            velocity: body velocity of {C} relative to {1}, shape (b,); zero if it stands still.

        Raises:
            NotInGroupError: the pose is not a displacement of the base group.
        """
        self.group.log(pose)  # refuses what is not a displacement of the group
        pose = np.asarray(pose, dtype=float)
        adjoint = self.group.adjoint(pose)
        inverse = self.group.adjoint(se3.inverse(pose))
        b = len(self.M_b)
        M_b = adjoint.T @ self.M_b @ adjoint
        bracket = self.group.ad(np.zeros(b) if velocity is None else velocity)
        drift = M_b @ bracket
        D_qd, D_mu = self.D_qd.copy(), self.D_mu.copy()
        D_qd[:b, :b] = adjoint.T @ self.D_qd[:b, :b] @ adjoint + drift
        D_mu[:b, :b] = adjoint.T @ self.D_mu[:b, :b] @ adjoint
        D_mu[:b, b:] = adjoint.T @ self.D_mu[:b, b:]
        D_mu[b:, :b] = -D_mu[:b, b:].T
        A_dot = inverse @ self.A_dot - bracket @ inverse @ self.A
        return Reduced(
            self.group,
            M_b,
            self.Lambda_q.copy(),
            inverse @ self.A,
            A_dot,
            adjoint.T @ self.P @ adjoint + drift + drift.T,
            adjoint.T @ self.S,
            self.Gamma_q.copy(),
            self.B.copy(),
            D_qd,
            D_mu,
        )
