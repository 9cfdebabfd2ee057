# SPDX-License-Identifier: Apache-2.0
"""Wall times of fresh processes: the import, and the first result with and without a cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from chain import chain_urdf

IMPORT = "import vm_dynamics"
FIRST_RESULT = (
    "import sys, vm_dynamics as vm;"
    "robot = vm.load(sys.stdin.read());"
    "robot.mass_matrix([0.1] * robot.n)"
)


def import_seconds(repeats: int) -> float:
    """Least wall time of a process that imports the package, its caches being warm."""
    process_seconds(IMPORT)
    return min(process_seconds(IMPORT) for _ in range(repeats))


def first_result_seconds() -> tuple[float, float, int]:
    """Time to the first result with an empty cache of kernels, and again in a second process.

    Returns:
        Both wall times, and how many files of the cache the second process wrote.
    """
    urdf = chain_urdf(7)
    with tempfile.TemporaryDirectory() as cache:
        first = process_seconds(FIRST_RESULT, urdf, cache)
        before = _stamps(cache)
        second = process_seconds(FIRST_RESULT, urdf, cache)
        written = len(_stamps(cache) - before)
    if not before:
        raise RuntimeError("the first process left no compiled kernel in NUMBA_CACHE_DIR")
    return first, second, written


def process_seconds(code: str, text: str = "", cache: str | None = None) -> float:
    """Wall time of a Python process that runs ``code`` with ``text`` on its standard input."""
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    command = [sys.executable, "-c", code]
    start = perf_counter()
    subprocess.run(command, input=text, text=True, env=environment, check=True)
    return perf_counter() - start


def _stamps(cache: str) -> set[tuple[Path, int]]:
    return {(path, path.stat().st_mtime_ns) for path in Path(cache).rglob("*") if path.is_file()}
