# SPDX-License-Identifier: Apache-2.0
"""The house: data flows one way, the core knows nothing of ROS, importing it is quick."""

import ast
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "vm_dynamics"
# A room may import from those before it; rooms of one line do not see each other. At the top level
# stand only what every room may use (errors, compiled, paths) and what puts rooms together: the
# robot is dynamics behind one class, the command calls all.
FLOORS = (
    ("errors", "compiled"),
    ("lie", "paths"),
    ("model",),
    ("dynamics",),
    ("robot",),
    ("submerged",),
    ("estimation", "control", "locomotion", "simulation"),
    ("ros",),
    ("demo",),
    ("cli",),
)
FLOOR = {room: i for i, rooms in enumerate(FLOORS) for room in rooms}
# The messages and the client library, which only the room ``ros`` may know.
ROS = {"rclpy", "launch", "launch_ros", "tf2_ros"}


def imports(path):
    """Every module that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            if node.module == "vm_dynamics":
                yield from (f"vm_dynamics.{alias.name}" for alias in node.names)
            else:
                yield node.module


def room(module):
    return module.split(".")[1]


FILES = [p for p in sorted(PACKAGE.rglob("*.py")) if p != PACKAGE / "__init__.py"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_room_imports_one_to_its_right(path):
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    for module in imports(path):
        if module.startswith("vm_dynamics."):
            other = room(module)
            assert other == own or FLOOR[other] < FLOOR[own], f"{own} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_ros_room_imports_ros(path):
    if path.relative_to(PACKAGE).parts[0] == "ros":
        return
    names = {module.split(".")[0] for module in imports(path)}
    assert not names & ROS
    assert not {name for name in names if name.endswith("_msgs")}


def test_every_room_has_its_place():
    rooms = {p.relative_to(PACKAGE).with_suffix("").parts[0] for p in FILES}
    assert rooms <= set(FLOOR)


def test_every_module_has_a_licence_line_and_says_what_it_is():
    for path in PACKAGE.rglob("*.py"):
        lines = path.read_text().splitlines()
        assert lines[0] == "# SPDX-License-Identifier: Apache-2.0", path
        assert ast.get_docstring(ast.parse(path.read_text())), path


def run(code):
    start = time.perf_counter()
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    return out.stdout, time.perf_counter() - start


def test_importing_the_package_imports_neither_ros_nor_slow_libraries():
    loaded = set(run("import sys, vm_dynamics; print(*sys.modules)")[0].split())
    assert "vm_dynamics" in loaded
    # numba looks at the version of scipy, which loads none of its rooms
    slow = {"matplotlib", "mujoco", "urdf_parser_py"}
    slow |= {f"scipy.{name}" for name in ("linalg", "optimize", "spatial")}
    assert not loaded & {*ROS, *slow}


def test_importing_the_package_takes_less_than_a_second():
    run("import vm_dynamics")
    code = (
        "import time; start = time.process_time(); import vm_dynamics; "
        "print(time.process_time() - start)"
    )
    assert min(float(run(code)[0]) for _ in range(5)) < 1.0


def test_a_second_process_starts_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    code = (
        "import vm_dynamics as vm, time\n"
        f"robot = vm.load({str(PACKAGE.parent / 'config/robots/planar_3link.urdf')!r})\n"
        "start = time.perf_counter(); robot.mass_and_connection([0.0, 0.0])\n"
        "print(time.perf_counter() - start)"
    )
    first, second = float(run(code)[0]), float(run(code)[0])
    assert first > 1.0, "the first process compiles"
    assert second < 0.2 * first
