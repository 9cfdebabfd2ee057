# SPDX-License-Identifier: Apache-2.0
"""Speed of the simulation: satellite_arm7 at 1 ms, its law and its friction in Python's reach."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from report import Row
from timing import Candidate

import vm_dynamics as vm
from vm_dynamics.paths import robot_file

TITLE = "Simulation of satellite_arm7, steps of 1 ms, a PD law of NumPy"
HEADER = (
    "integrator",
    "friction",
    "times real time",
    "wall time of a second [ms]",
    "bar",
    "verdict",
)
STEPS = 1000
BAR = 1000.0 / 50.0  # [ms]: fifty times real time


def candidates() -> dict[str, Candidate]:
    """A second by every integrator; times are for one step."""
    robot = vm.load(robot_file("satellite_arm7"))
    wanted = np.linspace(0.3, 0.9, robot.n)
    state = vm.State(np.eye(4), wanted + 0.1, np.full(6, 0.05), np.zeros(robot.n))

    def law(t: float, s: vm.State) -> np.ndarray:
        return -20.0 * (s.q - wanted) - 8.0 * s.qd

    def candidate(integrator: str, friction: bool) -> Candidate:
        def block(states):
            for start in states:
                vm.simulate(
                    robot, start, law, 1e-3 * STEPS, integrator=integrator, friction=friction
                )

        return Candidate(block, [state], calls=1, share=STEPS)

    return {
        f"{name}, {'friction' if rubs else 'smooth'}": candidate(name, rubs)
        for name in vm.INTEGRATORS
        for rubs in (False, True)
    }


def rows(times: Mapping[str, float]) -> list[Row]:
    """A row for each integrator, with and without friction.

    Args:
        times: seconds of a step, by the names of :func:`candidates`.
    """
    out = []
    for key, seconds in times.items():
        name, friction = key.split(", ")
        bar = BAR if name == "semi_implicit" else None
        cells = "yes" if friction == "friction" else "no", f"{1e-3 / seconds:.0f}"
        out.append(Row(name, cells, 1e6 * seconds, bar, digits=1, place=friction))
    return out
