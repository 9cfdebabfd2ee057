# SPDX-License-Identifier: Apache-2.0
"""Speed of curvature maps and of the planner, beside differences of Pinocchio's connection."""

from __future__ import annotations

import timeit
import tracemalloc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pinocchio as pin
from peer import Peer, pinocchio_q
from report import Row
from timing import Candidate

import vm_dynamics as vm
from vm_dynamics.lie.se3 import adjoint, inverse
from vm_dynamics.locomotion import ccf_map, plan_reorientation
from vm_dynamics.paths import robot_file

TITLE = "Curvature maps of lwr_floating, all 6 components, one core; planning on satellite_arm7"
HEADER = ("what", "ours", "peer", "figure", "bar", "verdict")
SIZE = 30
LARGE = 1000
GROWN = 250
EXTENT = 1.0  # [rad] either way
STEP = 1e-5  # of the central differences [rad]
RATIO_BAR = 0.02
MAP_BAR = 1000.0 / 50.0  # [ms]: fifty maps a second
GROWTH_BAR = 1.25  # time of a point, large map to small one: linear but for a busy machine
MEMORY_BAR = 3.0
PLAN_BAR = 20.0  # [s]
REPEATS = 3
SHAPE = np.array([0.0, 0.6, 0.0, -1.2, 0.0, 0.8, 0.0])
FRAMES = ("base", "virtual_chassis")


def candidates() -> dict[str, Candidate]:
    """Maps of two joints in two frames, by us and by Pinocchio."""
    urdf = robot_file("lwr_floating")
    robot = vm.load(urdf)
    peer = Peer(urdf.read_text())
    centres = [np.zeros(7), np.full(7, 0.1)]
    out = {}
    for frame in FRAMES:
        out[f"map {frame}"] = Candidate(_each(_map_of(robot, SIZE, frame)), centres)
        by_peer = _each(lambda q, frame=frame: differenced_map(peer, q, frame))
        out[f"peer {frame}"] = Candidate(by_peer, centres, calls=1)
    return out


def _each(call: Callable[[Any], Any]) -> Callable[[Any], None]:
    def block(inputs: Any) -> None:
        for value in inputs:
            call(value)

    return block


def _map_of(robot: vm.Robot, size: int, frame: str) -> Callable[[np.ndarray], Any]:
    def call(q_c: np.ndarray) -> Any:
        return ccf_map(
            robot, ("joint2", "joint4"), q_c, extent=EXTENT, size=size, frame=frame, threads=1,
            progress=False,
        )  # fmt: skip

    return call


def differenced_map(peer: Peer, q_c: np.ndarray, frame: str) -> np.ndarray:
    """The same map as a careful user of Pinocchio would make it, shape (6, 30, 30).

    Of the derivatives of A only the two that are needed are made, from four ``crba`` and one
    stacked solve a point, with a fifth for A itself and its bracket.
    """
    model, data, crba = peer.model, peer.data, pin.crba
    i, j = 8, 10  # joint2 and joint4 in Pinocchio's q
    steps = ((i, STEP), (i, -STEP), (j, STEP), (j, -STEP), (i, 0.0))
    rows = np.empty((5, 6, model.nv))
    grid = np.linspace(-EXTENT, EXTENT, SIZE)
    out = np.empty((6, SIZE, SIZE))
    q = pinocchio_q(q_c)
    for a, r1 in enumerate(grid):
        for b, r2 in enumerate(grid):
            q[i], q[j] = q_c[1] + r1, q_c[3] + r2
            for row, (at, step) in zip(rows, steps, strict=True):
                q[at] += step
                row[:] = crba(model, data, q)[:6]
                q[at] -= step
            A = np.linalg.solve(rows[:, :, :6], rows[:, :, [7, 9]])
            dA = (A[0, :, 1] - A[1, :, 1] - A[2, :, 0] + A[3, :, 0]) / (2.0 * STEP)
            dA -= bracket(*A[4].T.tolist())
            out[:, a, b] = dA if frame == "base" else _in_chassis(rows[4, :, :6], dA)
    return out


def bracket(x: list[float], y: list[float]) -> tuple[float, ...]:
    """[x, y] of two twists, by hand: ``np.cross`` takes longer than all else."""
    ax, ay, az, bx, by, bz = x
    vx, vy, vz, wx, wy, wz = y
    return (
        by * vz - bz * vy + ay * wz - az * wy,
        bz * vx - bx * vz + az * wx - ax * wz,
        bx * vy - by * vx + ax * wy - ay * wx,
        by * wz - bz * wy,
        bz * wx - bx * wz,
        bx * wy - by * wx,
    )


def _in_chassis(M_b: np.ndarray, twist: np.ndarray) -> np.ndarray:
    """Components of a twist at the centre of mass, in the principal axes as they come."""
    m = M_b[0, 0]
    h = M_b[3:, :3]  # m c^
    pose = np.eye(4)
    pose[:3, 3] = h[2, 1] / m, h[0, 2] / m, h[1, 0] / m
    pose[:3, :3] = np.linalg.eigh(M_b[3:, 3:] + h @ h / m)[1]
    return adjoint(inverse(pose)) @ twist


def least_seconds(call: Callable[[], Any]) -> float:
    """Least time of a few calls, for what is too slow to take part in every round [s]."""
    call()  # whatever happens only once
    return min(timeit.repeat(call, number=1, repeat=REPEATS))


def peak_memory(call: Callable[[], Any]) -> float:
    """Most memory that a call took, to that of the map it returns."""
    tracemalloc.start()
    found = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak / found.values.nbytes)


def rows(times: Mapping[str, float]) -> list[Row]:
    """Ratios and milliseconds of maps; growth and memory of a large one; seconds of a plan.

    Args:
        times: seconds of a map by the names of :func:`candidates`.
    """
    out = []
    for frame in FRAMES:
        ours, peer = times[f"map {frame}"], times[f"peer {frame}"]
        cells = f"{1e3 * ours:.2f} ms", f"{1e3 * peer:.1f} ms"
        name = f"{SIZE} x {SIZE}, frame {frame}"
        out.append(Row(f"{name}: ours / differences", cells, ours / peer, RATIO_BAR, digits=4))
        out.append(Row(f"{name} [ms]", (f"{1.0 / ours:.0f} a second", "-"), 1e3 * ours, MAP_BAR))
    robot = vm.load(robot_file("lwr_floating"))
    maps = {size: partial(_map_of(robot, size, FRAMES[1]), np.zeros(7)) for size in (GROWN, LARGE)}
    small, large = (least_seconds(call) for call in maps.values())
    name = f"{LARGE} x {LARGE}"
    growth = large / small * (GROWN / LARGE) ** 2
    cells = f"{large:.2f} s", "-"
    out.append(Row(f"{name}: a point, to one of {GROWN} x {GROWN}", cells, growth, GROWTH_BAR))
    out.append(Row(f"{name}: memory / result", ("-", "-"), peak_memory(maps[LARGE]), MEMORY_BAR))
    plans = [least_seconds(partial(_plan, axis)) for axis in np.radians(10.0) * np.eye(3)]
    what = "plan_reorientation, 10 degrees, slowest axis [s]"
    out.append(Row(what, ("-", "-"), max(plans), PLAN_BAR))
    return out


def _plan(rotation: np.ndarray) -> None:
    if not plan_reorientation(vm.load(robot_file("satellite_arm7")), SHAPE, rotation).reached:
        raise RuntimeError("the plan was not reached")
