# SPDX-License-Identifier: Apache-2.0
"""Time of a joint sample and of a replay in the observers, beside one ``pin.crba``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import pinocchio as pin
from peer import Peer, pinocchio_q
from report import Row, microseconds, table
from timing import Candidate, interleaved

import vm_dynamics as vm
from vm_dynamics.estimation import OBSERVERS, InvariantEkf, Observer
from vm_dynamics.paths import robot_file

TITLE = "Observers of satellite_arm7 (n = 7): a joint sample, M_b and A included; a late pose"
HEADER = ("what", "ours [us]", "crba [us]", "figure", "bar", "verdict")
SAMPLE_BAR = 8.0  # times crba
REPLAY_BAR = 1.5  # [ms]
PERIOD = 1e-3  # [s], of the joints
SAMPLES = 1000  # one second, which repeats itself
LATE = 100  # samples
EVERY = 10  # samples from one late pose to the next
REPLAY = f"pose {LATE} samples late, with {EVERY} samples"

Sample = tuple[np.ndarray, np.ndarray, np.ndarray]


def motion(robot: vm.Robot) -> list[Sample]:
    """q, qd and the pose of the base at every sample of a second of a swinging arm, at rest."""
    t = PERIOD * np.arange(SAMPLES)[:, None]
    w = 2.0 * np.pi * (1 + np.arange(robot.n) % 3)
    q, qd = 0.5 + 0.1 * np.sin(w * t), 0.1 * w * np.cos(w * t)
    model = InvariantEkf(robot)
    model.joints(0.0, q[0], qd[0])
    model.pose(0.0, np.eye(4))
    out = [(q[0], qd[0], np.eye(4))]
    for k in range(1, SAMPLES):
        model.joints(PERIOD * k, q[k], qd[k])
        out.append((q[k].copy(), qd[k].copy(), model.base_pose))
    return out


def _begun(observer: Observer, samples: Sequence[Sample]) -> Callable[[], float]:
    """Let an observer begin, and return the clock for the samples to come."""
    observer.joints(0.0, *samples[0][:2])
    observer.pose(0.0, samples[0][2])
    ticks = count(1)
    return lambda: PERIOD * next(ticks)


def _sampling(observer: Observer, samples: Sequence[Sample]) -> Candidate:
    clock = _begun(observer, samples)

    def block(inputs: Sequence[Sample], call: Any = observer.joints) -> None:
        for q, qd, _ in inputs:
            call(clock(), q, qd)

    return Candidate(block, samples)


def _replaying(observer: Observer, samples: Sequence[Sample]) -> Candidate:
    """Calls of ``EVERY`` samples and a pose that was taken ``LATE`` samples before the last."""
    clock = _begun(observer, samples)
    for q, qd, _ in samples[1:]:
        observer.joints(clock(), q, qd)
    starts = range(0, SAMPLES, EVERY)

    def block(inputs: Sequence[int]) -> None:
        for start in inputs:
            for q, qd, _ in samples[start : start + EVERY]:
                t = clock()
                observer.joints(t, q, qd)
            observer.pose(t - LATE * PERIOD, samples[start + EVERY - 1 - LATE][2])

    return Candidate(block, starts)


def candidates() -> dict[str, Candidate]:
    """A joint sample of every observer, a late pose, and ``pin.crba``."""
    urdf = robot_file("satellite_arm7")
    robot, peer = vm.load(urdf), Peer(urdf.read_text())
    samples = motion(robot)

    def crba(qs, call=pin.crba, model=peer.model, data=peer.data):
        for q in qs:
            call(model, data, q)

    out = {name: _sampling(cls(robot), samples) for name, cls in OBSERVERS.items()}
    out[REPLAY] = _replaying(InvariantEkf(robot), samples)
    out["crba"] = Candidate(crba, [pinocchio_q(q) for q, _, _ in samples])
    return out


def rows(times: Mapping[str, float]) -> list[Row]:
    """A row for each observer, in units of crba, and one for the replay.

    Args:
        times: seconds of a call, by candidate.
    """
    crba = times["crba"]
    out = [
        Row(
            f"{name}.joints",
            (microseconds(times[name]), microseconds(crba)),
            times[name] / crba,
            bar=SAMPLE_BAR if name == "invariant_ekf" else None,
            place="times crba",
        )
        for name in OBSERVERS
    ]
    replay = times[REPLAY]
    cells = (microseconds(replay), microseconds(crba))
    out.append(Row(REPLAY, cells, 1e3 * replay, bar=REPLAY_BAR, place="ms"))
    return out


def measure(rounds: int = 50) -> list[Row]:
    """Measure and compare."""
    return rows(interleaved(candidates(), rounds, tick=lambda: None))


if __name__ == "__main__":
    print(table(HEADER, [row.line() for row in measure()]))
