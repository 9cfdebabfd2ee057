# SPDX-License-Identifier: Apache-2.0
"""What fresh processes cost: the import, the first result, and the compilation of kernels."""

from __future__ import annotations

import os
import re
import resource
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
OBSERVER = "import sys, vm_dynamics as vm;vm.OBSERVERS[{name!r}](vm.load(sys.stdin.read()))"
WARMUP = "from vm_dynamics.cli import main; main(['warmup'])"


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


def compile_seconds(code: str) -> float:
    """CPU time of a process that begins with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process_seconds(code, chain_urdf(7), cache)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def warmup() -> tuple[float, float]:
    """CPU time of `vm_dynamics warmup` with an empty cache, and most memory of a process [MB]."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", WARMUP],
            env={**os.environ, "NUMBA_CACHE_DIR": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    found = re.search(r"\((.*) s of CPU time, at most (.*) MB", done.stdout)
    if found is None:
        raise RuntimeError(f"warmup says nothing of its cost: {done.stdout!r}")
    return float(found[1]), float(found[2])


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
