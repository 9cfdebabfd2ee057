# SPDX-License-Identifier: Apache-2.0
"""Timing of several functions in turns, so that all of them meet the same machine.

A noisy neighbour only ever makes a call slower, so the figure of a function is the least of all
its rounds. A round takes one block of calls of every function, one after the other.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from time import perf_counter
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)

BLOCK_SECONDS = 4e-3
MOST_CALLS = 5000
CALIBRATIONS = 10  # a block made too short by one slow call would never be warm


@dataclass(frozen=True)
class Candidate:
    """Something to time.

    Attributes:
        block: runs a loop over a list of inputs, one call each.
        inputs: inputs to cycle through.
        calls: how many inputs make a block; as many as fit BLOCK_SECONDS if 0.
        share: how many results a call gives, by which its time is divided.
    """

    block: Callable[[Sequence[Any]], None]
    inputs: Sequence[Any]
    calls: int = 0
    share: int = 1


def interleaved(
    candidates: Mapping[Key, Candidate], rounds: int, tick: Callable[[], Any]
) -> dict[Key, float]:
    """Least time of a call of each candidate [s], after ``rounds`` turns.

    Args:
        candidates: what to time.
        rounds: how many turns each gets.
        tick: called after every round.
    """
    best = dict.fromkeys(candidates, float("inf"))
    with _without_collector():
        streams = {key: _blocks(candidate) for key, candidate in candidates.items()}
        for _ in range(rounds):
            for key, candidate in candidates.items():
                best[key] = min(best[key], _seconds_per_call(candidate, next(streams[key])))
            tick()
    return best


def _blocks(candidate: Candidate) -> Iterator[list[Any]]:
    """Endless blocks of inputs, each one going on where the last one stopped."""
    calls = candidate.calls or _calls_per_block(candidate)
    endless = cycle(candidate.inputs)
    while True:
        yield list(islice(endless, calls))


def _calls_per_block(candidate: Candidate) -> int:
    few = candidate.inputs[:3]
    candidate.block(few)  # whatever happens only once
    seconds = min(_seconds_per_call(candidate, few) for _ in range(CALIBRATIONS))
    return max(1, min(MOST_CALLS, int(BLOCK_SECONDS / (seconds * candidate.share))))


def _seconds_per_call(candidate: Candidate, inputs: Sequence[Any]) -> float:
    start = perf_counter()
    candidate.block(inputs)
    return (perf_counter() - start) / (len(inputs) * candidate.share)


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
