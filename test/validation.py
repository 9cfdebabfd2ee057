# SPDX-License-Identifier: Apache-2.0
"""Largest errors against Pinocchio, MuJoCo and differences, over all robots and base groups.

``python test/validation.py`` prints the table of the README; the test holds every row to its bar.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from cases import ALL, GROUPS, State, derivative, load, relative, text
from mujoco_peer import MujocoPeer
from peer import Peer

import vm_dynamics as vm


@dataclass(frozen=True)
class Row:
    """A quantity, what it is compared with, and the error allowed, all relative."""

    what: str
    against: str
    bar: float
    error: float


_ROWS = {
    "mass": ("mass matrix", "`pin.crba`", 1e-10),
    "momentum": ("momentum", "`pin.computeCentroidalMomentum`", 1e-10),
    "pose": ("link poses", "`pin.framesForwardKinematics`", 1e-10),
    "jacobian": ("link Jacobians", "`pin.getFrameJacobian`", 1e-10),
    "com": ("centre of mass", "`pin.centerOfMass`", 1e-10),
    "bias": ("Coriolis and centrifugal forces `C [V; qd]`", "`pin.rnea`", 1e-10),
    "inverse": ("inverse dynamics with gravity and tip wrench", "`pin.rnea`", 1e-10),
    "hybrid": ("forward dynamics `hybrid`, the same forces", "`pin.crba`, `pin.rnea`", 1e-10),
    "reduced": ("forward dynamics `reduced`", "`pin.crba`, `pin.rnea`", 1e-10),
    "lagrange_poincare": ("forward dynamics `lagrange_poincare`", "`pin.crba`, `pin.rnea`", 1e-10),
    "quasi_coordinates": ("forward dynamics `quasi_coordinates`", "`pin.crba`, `pin.rnea`", 1e-10),
    "quaternion": ("forward dynamics `quaternion`, base SE3", "`pin.crba`, `pin.rnea`", 1e-10),
    "mujoco": ("forward dynamics `hybrid`, base SE3", "MuJoCo's `mj_forward`", 1e-6),
    "curvature": ("curvature", "central differences of the connection", 1e-6),
}


def errors_of(name: str, base: str) -> dict[str, float]:
    """Relative error of every row for one robot on one base group."""
    gravity = (0.3, -0.2, -9.81)
    robot = load(name, base, gravity)
    peer, falling = Peer(robot, text(name)), Peer(robot, text(name), gravity=gravity)
    s = State(robot, seed=len(name))
    v, b = np.concatenate((s.V, s.qd)), robot.b
    link = robot.link_names[-1]
    C = robot.hamel(s.q, s.V, s.qd).C
    tip = robot.link_jacobian(s.q, robot.tip_link).T @ s.tip
    given = np.concatenate((s.F, s.tau))
    acceleration = falling.forward_dynamics(s.q, v, given + tip, s.g)
    forward = {
        method: relative(
            np.concatenate(
                robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, s.F, s.tip, method=method)
            ),
            acceleration,
        )
        for method in vm.METHODS
        if method != "quaternion" or base == "SE3"
    }
    if base == "SE3":
        found = robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, s.F, s.tip)
        there = MujocoPeer(robot, text(name), gravity).forward_dynamics(
            s.g, s.q, s.V, s.qd, s.tau, s.F, s.tip
        )
        forward["mujoco"] = relative(np.concatenate(found), np.concatenate(there))
    back = robot.inverse_dynamics(
        s.g, s.q, s.V, s.qd, acceleration[:b], acceleration[b:], tip_wrench=s.tip
    )
    return {
        "mass": relative(robot.mass_matrix(s.q), peer.mass_matrix(s.q)),
        "momentum": relative(robot.momentum(s.q, s.V, s.qd), peer.momentum(s.q, v)),
        "pose": relative(robot.link_pose(s.q, link), peer.link_pose(s.q, link)),
        "jacobian": relative(robot.link_jacobian(s.q, link), peer.link_jacobian(s.q, link)),
        "com": relative(robot.center_of_mass(s.q), peer.center_of_mass(s.q)),
        "bias": relative(C @ v, peer.bias(s.q, v)),
        **forward,
        "inverse": relative(np.concatenate(back), given),
        "curvature": relative(robot.curvature(s.q), differenced_curvature(robot, s.q)),
    }


def differenced_curvature(robot: vm.Robot, q: np.ndarray) -> np.ndarray:
    """dA_j/dq_i - dA_i/dq_j - [A_i, A_j] by central differences, shape (b, n, n)."""
    n, A = robot.n, robot.connection(q)
    out = np.zeros((robot.b, n, n))
    for i in range(n):
        dA = derivative(robot.connection, q, np.eye(n)[i])
        out[:, i, :] += dA - robot.base_group.ad(A[:, i]) @ A
        out[:, :, i] -= dA
    return out


def measure() -> list[Row]:
    """Every row with the largest error found."""
    worst = dict.fromkeys(_ROWS, 0.0)
    for name in ALL:
        for base in GROUPS:
            for key, error in errors_of(name, base).items():
                worst[key] = max(worst[key], error)
    return [Row(*_ROWS[key], worst[key]) for key in _ROWS]


def table(rows: list[Row]) -> str:
    """Markdown table of the rows."""
    lines = ["| what | against | largest relative error is below | bar |", "|---|---|---|---|"]
    lines += [f"| {r.what} | {r.against} | {_above(r.error):.0e} | {r.bar:.0e} |" for r in rows]
    return "\n".join(lines)


def _above(error: float) -> float:
    """A power of ten that leaves room for another processor's rounding."""
    return 10.0 ** np.ceil(np.log10(2.0 * error))


if __name__ == "__main__":
    print(table(measure()))
