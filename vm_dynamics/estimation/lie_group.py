# SPDX-License-Identifier: Apache-2.0
"""The SE(3) group observer of the paper, as printed and with a gain of its own for the momentum.

Implements: [Mishra2022] eqs. (37), (42), (51), in the order [v; w] and on every base group. (40)
should read ``- ad_(mu_e - K eps) mu_o``, the first term of (53) is weighted by K, and (56) ends in
``- mu_e^T F_o``; none of them enters the observer.
"""

from __future__ import annotations

from typing import Any

from vm_dynamics.errors import ParameterError, UnknownNameError
from vm_dynamics.estimation import _layout as at
from vm_dynamics.estimation.observer import Observer, positive
from vm_dynamics.robot import Robot
from vm_dynamics.submerged import SubmergedRobot

GAINS = ("two", "printed")


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

    _method = at.LIE_GROUP

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
        if isinstance(robot, SubmergedRobot):
            raise ParameterError(
                "robot: the observer of [Mishra2022] knows no fluid; use InvariantEkf"
            )
        if gains not in GAINS:
            raise UnknownNameError("gains", gains, GAINS)
        super().__init__(robot, **options)
        printed = gains == "printed"
        self._tune[at.PRINTED] = printed
        self._tune[at.K1] = positive("k", k) if printed else positive("k1", k1)
        self._tune[at.K2] = positive("k", k) if printed else positive("k2", k2)
