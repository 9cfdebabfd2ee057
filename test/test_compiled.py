# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled code: never stale, and no silence while it is filled."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vm_dynamics.compiled import ENTRY_POINTS, sources_of

PACKAGE = Path(__file__).resolve().parent.parent / "vm_dynamics"
KERNELS = sorted(PACKAGE.rglob("_*kernels.py"))
POSE = """
import numpy as np
from vm_dynamics.lie import kernels
out = np.empty((4, 4))
kernels.exp.checked(np.arange(6.0), out)
print(*out.ravel())
"""


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_kernels_import_names_from_modules_of_numbers_and_kernels(path):
    """The key of the cache follows ``from module import name``, and should cover no more."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("vm_dynamics") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module.startswith("vm_dynamics"):
            last = node.module.split(".")[-1]
            assert last.endswith("kernels") or last in ("compiled", "table", "fluid_table")


def test_the_key_of_a_kernel_covers_what_it_calls():
    modules = {point.module for point in ENTRY_POINTS}
    assert "vm_dynamics.dynamics.hybrid_kernels" in modules
    covered = sources_of("vm_dynamics.dynamics.hybrid_kernels")
    direct = {
        "vm_dynamics.dynamics.mass_kernels",
        "vm_dynamics.model.table",
        "vm_dynamics.compiled",
    }
    assert direct <= covered
    assert "vm_dynamics.lie.kernels" in covered


def first_pose(folder, cache):
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", POSE],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split(), done.stderr


def test_an_edited_source_leaves_nothing_stale_and_the_first_compilation_is_announced(tmp_path):
    shutil.copytree(
        PACKAGE, tmp_path / "vm_dynamics", ignore=shutil.ignore_patterns("__pycache__", "ros")
    )
    cache = tmp_path / "cache"
    before, said = first_pose(tmp_path, cache)
    assert said.count("once per installation") == 1
    again, said = first_pose(tmp_path, cache)
    assert again == before and said == ""
    # of another file than the kernel's, and of the same size and age: only its text differs
    source = tmp_path / "vm_dynamics" / "compiled.py"
    stat = source.stat()
    source.write_text(source.read_text().replace("Decorator of what", "Decorator of that"))
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    after, said = first_pose(tmp_path, cache)
    assert after == before and said.count("once per installation") == 1
