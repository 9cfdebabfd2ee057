# SPDX-License-Identifier: Apache-2.0
"""The SE(3) group observer of the paper, as printed and with a gain of its own for the momentum.

Implements: [Mishra2022] eqs. (37), (42), (51), in the order [v; w] and on every base group. (40)
should read ``- ad_(mu_e - K eps) mu_o``, the first term of (53) is weighted by K, and (56) ends in
``- mu_e^T F_o``; none of them enters the observer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.compiled import EntryPoint
from vm_dynamics.errors import ParameterError, UnknownNameError
from vm_dynamics.estimation import _kernels
from vm_dynamics.estimation.checks import positive
from vm_dynamics.estimation.estimate import (
    Estimate,
    Measurement,
    is_reasonable,
    plain_nis,
    straightened,
)
from vm_dynamics.estimation.history import Verdict
from vm_dynamics.estimation.observer import Observer
from vm_dynamics.estimation.shape import Shape
from vm_dynamics.lie import kernels as lie_kernels
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

GAINS = ("two", "printed")


class HeldError(NamedTuple):
    """The error eps of the last pose, held until the next, and what follows from it.

    Attributes:
        M_0: M_b where the estimate began, shape (b, b), for the second gain.
        pull: K eps, shape (b,).
        Ad: Ad_eta, eta = exp(eps), shape (b, b).
        Ad_inverse: Ad_eta^-1, shape (b, b).
        ad_pull: ad_{K eps}, shape (b, b).
        force: H^T k2 M_0 eps, or H^T k eps as printed in (51), shape (b,).
    """

    M_0: Array
    pull: Array
    Ad: Array
    Ad_inverse: Array
    ad_pull: Array
    force: Array


class LieGroupObserver(Observer):
    """Observer of pose and locked velocity by injection of the pose error.

    .. math::
        dg^/dt = g^ (mu^ - Ad_eta A qd + Ad_eta K eps), eta = g^^-1 g = exp(eps)

        M_b Ad_eta^-1 dmu^/dt = -P mu_o + ad_{mu_o - A qd}^T M_b mu_o + F_o - M_b ad_{K eps} mu_o

    with ``mu_o = Ad_eta^-1 mu^``, which is what it estimates. Between poses the error is held, so
    K times their period must stay well below 2. It has no test for outliers.

    Args:
        robot: the robot, on any base group, not submerged. A known wrench and gravity are added to
            the paper's F_o.
        gains: ``two`` for ``K = k1``, ``F_o = H^T k2 M_b(q0) eps``, poles at ``s^2 + k1 s + k2``;
            ``printed`` for K = k and F_o of (51), whose slow pole is about ``-1/lambda(M_b)``
            whatever k is and whose qd terms disturb the estimate while the arm moves.
        k1: gain of the pose [1/s].
        k2: gain of the momentum [1/s^2].
        k: the gain of (51), which is [1/s] in K and [N s^2/m ...] in F_o.
        options: those of every :class:`Observer`.

    Raises:
        ParameterError: the robot is submerged.
    """

    _centroidal = False
    _rates = True

    def __init__(
        self,
        robot: Robot,
        *,
        gains: str = "two",
        k1: float = 2.0,
        k2: float = 1.0,
        k: float = 10.0,
        **options: Any,
    ) -> None:
        if robot.fluid is not None:
            raise ParameterError(
                "robot: the observer of [Mishra2022] knows no fluid; use InvariantEkf"
            )
        if gains not in GAINS:
            raise UnknownNameError("gains", gains, GAINS)
        super().__init__(robot, **options)
        self._is_printed = gains == "printed"
        self._k1 = positive("k", k) if self._is_printed else positive("k1", k1)
        self._k2 = positive("k", k) if self._is_printed else positive("k2", k2)
        # ad_x = brackets @ x
        self._brackets = np.stack([robot.base_group.ad(e) for e in np.eye(robot.b)], axis=2)

    def _entries(self) -> list[EntryPoint]:
        return [*super()._entries(), _kernels.dry_force, lie_kernels.dexp_inv_polynomial]

    def _hold(self, eps: Array, M_0: Array) -> HeldError:
        group = self.robot.base_group
        eta = se3.exp(self._iota @ eps)
        pull = self._k1 * eps
        gain = self._k2 * eps if self._is_printed else self._k2 * (M_0 @ eps)
        H = group.dexp_inv(-eps)
        return HeldError(
            M_0,
            pull,
            group.adjoint(eta),
            group.adjoint(se3.inverse(eta)),
            self._brackets @ pull,
            H.T @ gain,
        )

    # ``m`` of the estimates is mu^ in {1^}, shape (b,)

    def _predict(self, estimate: Estimate, shape: Shape, dt: float) -> tuple[Array, Array] | None:
        """One midpoint step of (37) and (42)."""
        held, mu, xi = estimate.memory, estimate.m, self._pinv @ shape.xi
        middle = mu + 0.5 * dt * self._rate(estimate, mu, shape, xi)
        # Ad_eta K eps = K eps
        V = middle - held.Ad @ xi + held.pull
        mu = mu + dt * self._rate(estimate, middle, shape, xi)
        g = estimate.g @ se3.exp(dt * (self._iota @ V))
        return (g, mu) if is_reasonable(g, mu) else None

    def _rate(self, estimate: Estimate, mu: Array, shape: Shape, xi: Array) -> Array:
        """Rate of mu^ by (42), with S(mu) qd = P(qd) mu (Property 2) and the known force added."""
        held, pinv = estimate.memory, self._pinv
        mu_o = held.Ad_inverse @ mu
        p, V = shape.M_b @ mu_o, mu_o - xi
        known = self._motion.force(
            shape, estimate.wrenches, estimate.g, self._iota @ V, pinv.T @ p
        )
        f = self._iota.T @ known + (self._brackets @ V).T @ p + held.force
        if self._is_printed:  # the qd terms of (51) take P mu_o away again
            ad_xi = self._brackets @ xi
            f += ad_xi.T @ p + shape.M_b @ (ad_xi @ mu_o)
        else:
            f -= shape.P @ mu_o
        # the term that cancels that of (41)
        f -= shape.M_b @ (held.ad_pull @ mu_o)
        return held.Ad @ (pinv @ (shape.lift @ (pinv.T @ f)))

    def _begin(self, estimate: Estimate, t: float, pose: Measurement, shape: Shape) -> Estimate:
        held = self._hold(np.zeros(self.robot.b), shape.M_b.copy())
        return self._begun(estimate, t, pose.value, self._mu_0, held)

    def _correct_with_pose(
        self, estimate: Estimate, t: float, pose: Measurement, shape: Shape
    ) -> tuple[Estimate, Verdict]:
        eps = self._pose_error(estimate.g, pose.value)
        corrected = estimate._replace(
            g=straightened(estimate.g),
            t_pose=t,
            nis=plain_nis(eps, pose.covariance),
            memory=self._hold(eps, estimate.memory.M_0),
        )
        return corrected, Verdict.USED

    def _locked_velocity(self, estimate: Estimate, shape: Shape) -> Array:
        return estimate.memory.Ad_inverse @ estimate.m
