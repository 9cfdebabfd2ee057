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
KERNELS = sorted(PACKAGE.rglob("*kernels.py"))
POSE = """
import numpy as np
from vm_dynamics.lie import kernels
out = np.empty((4, 4))
kernels.exp.checked(np.arange(6.0), out)
print(*out.ravel())
"""

NESTED = """
from vm_dynamics.compiled import entry, jit

@jit
def deepest(x):
    if x.size != 2:
        raise ValueError("two", "numbers")
    return x[0] / x[1]

@jit
def deeper(x):
    return 2.0 * deepest(x)

@entry("float64(float64[::1])")
def first(x):
    return deeper(x)

@entry("float64(float64[::1])")
def second(x):
    return 3.0 * deeper(x)
"""
CALL = """
import numpy as np, nested
print(nested.{name}.checked(np.array([1.0, 2.0])))
try:
    nested.{name}.checked(np.ones(3))
except ValueError as error:
    print(*error.args)
inner = [*nested.deepest.overloads.values(), *nested.deeper.overloads.values()]
assert not any(c.library.get_pointer_to_function(c.fndesc.llvm_func_name) for c in inner)
print(len(inner))
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


def run(code, folder, cache, package):
    """Words that a process prints, and what it says beside them."""
    environment = {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split(), done.stderr


def first_pose(folder, cache):
    return run(POSE, folder, cache, folder)


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


def test_what_only_kernels_call_is_linked_into_them_and_never_becomes_machine_code(tmp_path):
    """Compiled, loaded, and linked from the cache into a kernel that is new."""
    (tmp_path / "nested.py").write_text(NESTED)
    cache = tmp_path / "cache"
    for name, value, inner in (
        ("first", "1.0", "2"),  # both compiled
        ("first", "1.0", "0"),  # the kernel comes from the cache and needs no other code
        ("second", "3.0", "1"),  # linked from the cache, with what it calls
        ("second", "3.0", "0"),
    ):
        out, _ = run(CALL.format(name=name), tmp_path, cache, PACKAGE.parent)
        assert out == [value, "two", "numbers", inner]
