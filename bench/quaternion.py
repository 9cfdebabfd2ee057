# SPDX-License-Identifier: Apache-2.0
"""Growth of the quaternion model with the number of links, beside Table 2 of [Kremer2022].

The paper generates code for each robot, whose length grows some sixfold with every link. It
calls the solution of its eq. (79) for the accelerations inverse dynamics; its times are of C
code on a Ryzen 1600X, ours are of a call from Python.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from report import Row, microseconds
from timing import Candidate

import vm_dynamics as vm
from vm_dynamics.dynamics.quaternion import forward

LINKS = (1, 2, 3)
PAPER = {1: 11e-6, 2: 66e-6, 3: 731e-6}  # [s], Table 2, Ryzen 1600X, "inv. dynamics"
TITLE = "Quaternion model, forward dynamics, beside Table 2 of the paper"
HEADER = (
    "quaternion model",
    "ours [us]",
    "paper [us]",
    "paper, growth",
    "growth",
    "bar",
    "verdict",
)
GROWTH_BAR = 4.0  # from one link to three; the paper's is 66
STATES = 50

# Base and links of the paper's Fig. 11.
_BASE = '<mass value="6"/><inertia ixx="0.48" iyy="0.48" izz="0.95" ixy="0" ixz="0" iyz="0"/>'
_LINK = (
    '<origin xyz="0.22 0 0"/><mass value="0.78"/><inertia ixx="0.000595" iyy="0.003824" '
    'izz="0.0037" ixy="0" ixz="0" iyz="0"/>'
)


def uav_urdf(links: int) -> str:
    """A multicopter with a planar arm of so many links, each 0.44 m long."""
    parts = [f'<link name="link0"><inertial>{_BASE}</inertial></link>']
    for k in range(1, links + 1):
        origin = "0 0 -0.05" if k == 1 else "0.44 0 0"
        parts.append(
            f'<link name="link{k}"><inertial>{_LINK}</inertial></link>'
            f'<joint name="joint{k}" type="continuous"><origin xyz="{origin}"/>'
            f'<parent link="link{k - 1}"/><child link="link{k}"/><axis xyz="0 1 0"/></joint>'
        )
    return f'<robot name="uav{links}">{"".join(parts)}</robot>'


def candidates() -> dict[str, Candidate]:
    """Forward dynamics by the quaternion model, by number of links."""
    return {str(links): _candidate(links) for links in LINKS}


def _candidate(links: int) -> Candidate:
    robot = vm.load(uav_urdf(links), base="SE3", gravity=(0.0, 0.0, -9.81))
    rng = np.random.default_rng(links)
    states = [
        (
            vm.lie.SE3.exp(rng.normal(size=6)),
            rng.uniform(-3, 3, links),
            rng.normal(size=6),
            rng.normal(size=links),
            rng.normal(size=links),
            rng.normal(size=6),
        )
        for _ in range(STATES)
    ]

    def block(states, call=forward):
        for g, q, V, qd, tau, F in states:
            call(robot, g, q, V, qd, tau, F)

    return Candidate(block, states)


def rows(times: Mapping[str, float]) -> list[Row]:
    """A row for each number of links: our time, the paper's, growth from one link of both.

    Args:
        times: seconds of a call, by number of links.
    """
    return [
        Row(
            f"UAV + {k} link{'s' if k > 1 else ''}",
            (microseconds(times[str(k)]), microseconds(PAPER[k]), f"{PAPER[k] / PAPER[1]:.1f}"),
            times[str(k)] / times["1"],
            bar=GROWTH_BAR if k == max(LINKS) else None,
            place="growth",
        )
        for k in LINKS
    ]
