# SPDX-License-Identifier: Apache-2.0
"""The house: data flows one way, the core knows nothing of ROS, importing it is quick."""

import ast
import functools
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
    ("estimation", "control", "locomotion", "simulation"),
    ("identification",),
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


def private(name):
    return name.startswith("_") and not name.startswith("__")


@functools.cache
def private_names():
    """Names with an underscore that each room gives to modules, functions, classes, attributes."""
    out = {}
    for path in FILES:
        own = out.setdefault(path.relative_to(PACKAGE).with_suffix("").parts[0], {path.stem})
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.id if isinstance(node, ast.Name) else node.attr)
            elif isinstance(node, ast.keyword) and node.arg:  # __dict__.update(_name=...)
                own.add(node.arg)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # __slots__
                own.add(node.value)
    return {room: {name for name in names if private(name)} for room, names in out.items()}


def asked_for(path):
    """Private names that a file asks other objects than ``self`` for."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and private(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield node.attr


def imported(path):
    """Private names that a file imports from other rooms."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("vm_dynamics."):
            if room(node.module) != path.relative_to(PACKAGE).parts[0]:
                names = [*node.module.split("."), *(alias.name for alias in node.names)]
                yield from filter(private, names)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_room_touches_the_private_names_of_another(path):
    rooms = private_names()
    own = path.relative_to(PACKAGE).with_suffix("").parts[0]
    others = set().union(*(names for room, names in rooms.items() if room != own))
    assert not (set(asked_for(path)) & others) - rooms[own]
    assert not set(imported(path))


def test_private_names_are_seen_where_they_are_touched(monkeypatch):
    file = PACKAGE / "control" / "state.py"
    assert "_square" in private_names()["model"]
    source = "from vm_dynamics.lie import _kernels\nrobot._square\nself._own\n"
    monkeypatch.setattr(type(file), "read_text", lambda _: source)
    assert set(asked_for(file)) == {"_square"} and set(imported(file)) == {"_kernels"}


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
