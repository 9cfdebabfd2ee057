# SPDX-License-Identifier: Apache-2.0
"""Time of a step of the controllers, beside one ``pin.crba`` at the same number of joints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pinocchio as pin
from contest import Contest
from report import Row, microseconds
from timing import Candidate

import vm_dynamics as vm
from vm_dynamics.control import MomentumCompensator

JOINTS = 7
BAR = 5.0  # times crba
TITLE = "Control: a step of the compensator, n = 7"
HEADER = ("step of a controller", "ours [us]", "crba [us]", "ratio", "bar", "verdict")


def candidates(n: int = JOINTS) -> dict[str, Candidate]:
    """Steps of the compensator, by law and target, and ``pin.crba``."""
    contest = Contest.of_size(n)
    model, data = contest.peer.model, contest.peer.data

    def crba(states, call=pin.crba):
        for q, _, _ in states:
            call(model, data, q)

    return {
        "crba": Candidate(crba, contest.peer_states),
        "compensator, law 2, set point": _compensator(contest, 2, moves=False),
        "compensator, law 1, set point": _compensator(contest, 1, moves=False),
        "compensator, law 2, trajectory": _compensator(contest, 2, moves=True),
        "compensator, law 1, trajectory": _compensator(contest, 1, moves=True),
    }


def _compensator(contest: Contest, law: int, *, moves: bool) -> Candidate:
    robot: vm.Robot = contest.robot
    controller = MomentumCompensator(robot, 100.0, 20.0, law=law)
    rate = np.full(robot.n, 0.1) if moves else None
    controller.set_target(np.zeros(robot.n), rate, rate)

    def block(states, call=controller.step):
        for q, qd, mu in states:
            call(q, qd, mu)

    return Candidate(block, contest.states)


def rows(times: Mapping[str, float]) -> list[Row]:
    """A row for each step."""
    return [
        Row(
            what,
            (microseconds(seconds), microseconds(times["crba"])),
            seconds / times["crba"],
            bar=BAR,
            place=f"n = {JOINTS}",
        )
        for what, seconds in times.items()
        if what != "crba"
    ]
