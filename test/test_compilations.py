# SPDX-License-Identifier: Apache-2.0
"""Nothing is left to compile, load or import when a controller, an observer or a node runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ros_graph import compile_kernels

SCRIPT = Path(__file__).resolve().parent / "compilations.py"


@pytest.mark.slow
@pytest.mark.parametrize(("which", "least"), [("core", 50), ("nodes", 25)])
def test_no_step_waits_for_a_compiler(which, least):
    compile_kernels()  # so that the processes of the cases find them in the cache
    out = subprocess.run(
        [sys.executable, str(SCRIPT), which], capture_output=True, text=True, timeout=600
    )
    assert out.returncode == 0, out.stderr
    found = json.loads(out.stdout.splitlines()[-1])
    assert len(found) >= least
    assert {case: names for case, names in found.items() if names} == {}


def test_the_count_sees_what_is_compiled_later():
    """It would be of no use if it saw nothing."""
    code = (
        f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import compilations as c\n"
        "robot = c.load('planar_3link')\n"
        "print(c.waited_for(lambda: lambda: robot.connection([0.1, 0.2])))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "connection" in out.stdout
