# SPDX-License-Identifier: Apache-2.0
"""What the launch files share: their arguments as values, robots as text, packages that must be.

Launch arguments are text. An argument that is left empty leaves the matter to the parameter file;
``auto`` looks for a file beside the URDF, and ``none`` stands for none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from ament_index_python import packages  # type: ignore[import-not-found,unused-ignore]
from launch.actions import (  # type: ignore[import-not-found,unused-ignore]
    DeclareLaunchArgument,
)
from launch_ros.parameter_descriptions import (  # type: ignore[import-not-found,unused-ignore]
    ParameterValue,
)

from vm_dynamics.errors import ParameterError, VmDynamicsError
from vm_dynamics.model import xml
from vm_dynamics.paths import robot_file, robot_parameters


class MissingPackageError(VmDynamicsError, LookupError):
    """A ROS package that a launch file needs is not installed."""


def declared(arguments: Iterable[tuple[str, Any, str]]) -> list[Any]:
    """Declarations of arguments: name, default and what it is."""
    return [
        DeclareLaunchArgument(name, default_value=default, description=what)
        for name, default, what in arguments
    ]


def given(context: Any, name: str) -> str:
    """Value of an argument."""
    return str(context.launch_configurations[name]).strip()


def switch(context: Any, name: str) -> bool:
    """Whether an argument says true.

    Raises:
        ParameterError: it says neither true nor false.
    """
    value = given(context, name).lower()
    if value not in ("true", "false", "1", "0"):
        raise ParameterError(f"argument {name}: got {value!r}, expected true or false")
    return value in ("true", "1")


def numbers(context: Any, name: str, count: int) -> list[float]:
    """The numbers of an argument, as '[0.0, 0.0, -9.81]'.

    Raises:
        ParameterError: not so many numbers.
    """
    try:
        out = [float(x) for x in given(context, name).strip("[]").replace(",", " ").split()]
    except ValueError:
        out = []
    if len(out) != count:
        raise ParameterError(
            f"argument {name}: got {given(context, name)!r}, expected {count} "
            f"number{'s' if count > 1 else ''}, as {[0.0] * count}"
        )
    return out


def file(context: Any, name: str) -> str:
    """Path of an argument.

    Raises:
        ParameterError: there is no such file.
    """
    path = Path(given(context, name)).expanduser()
    if not path.is_file():
        raise ParameterError(f"argument {name}: there is no file {str(path)!r}")
    return str(path)


def beside(context: Any, name: str) -> str:
    """Path of a YAML file that an argument names; empty if there is none.

    ``auto`` is the file beside the URDF of the argument ``robot``, if it has a section of the
    argument's name.
    """
    value = given(context, name)
    if value == "none" or (value == "auto" and not given(context, "robot")):
        return ""
    if value != "auto":
        return file(context, name)
    found = robot_parameters(robot_file(given(context, "robot")), name)
    return "" if found is None else str(found)


def robot_text(context: Any) -> str:
    """URDF text of the argument ``robot``, through xacro if it is a file of that kind.

    Raises:
        UnknownNameError: no such robot.
        UrdfError: it cannot be read.
    """
    path = robot_file(given(context, "robot"))
    if path.suffix == ".xacro":
        try:
            import xacro  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            raise _missing("xacro") from None
        return str(xacro.process_file(str(path)).toxml())
    text = xml.read(path)
    return text if isinstance(text, str) else text.decode()


def text(value: str) -> Any:
    """A parameter that stays text: launch would read "1" or a URDF as YAML."""
    return ParameterValue(value, value_type=str)


def temporary(name: str, content: Any) -> str:
    """Path of a new YAML file."""
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"vm_dynamics_{name}_", suffix=".yaml", delete=False
    ) as out:
        yaml.safe_dump(content, out, sort_keys=False)
    return out.name


def clock_remapping(context: Any) -> list[tuple[str, str]]:
    """Where simulated time comes from, if not from the usual topic."""
    clock = given(context, "clock")
    return [] if clock == "/clock" else [("/clock", clock)]


def tf_remappings(context: Any) -> list[tuple[str, str]]:
    """A namespace has its own tf: the frames of two robots have the same names."""
    if not given(context, "namespace").strip("/"):
        return []
    return [("/tf", "tf"), ("/tf_static", "tf_static")]


def require(*names: str) -> None:
    """Say which packages are missing, and how to get them.

    Raises:
        MissingPackageError: some are.
    """
    missing = [name for name in names if not _is_installed(name)]
    if missing:
        raise _missing(*missing)


def _missing(*names: str) -> MissingPackageError:
    debs = " ".join(f"ros-$ROS_DISTRO-{name.replace('_', '-')}" for name in names)
    return MissingPackageError(
        f"not installed, but needed here: {', '.join(names)}; sudo apt install {debs}"
    )


def _is_installed(name: str) -> bool:
    try:
        packages.get_package_prefix(name)
    except packages.PackageNotFoundError:
        return False
    return True


def only(context: Any, fixed: dict[str, str], why: str) -> None:
    """Refuse an argument that would change what a launch file fixes.

    Raises:
        ParameterError: it was given another value.
    """
    for name, value in fixed.items():
        asked = context.launch_configurations.get(name, value)
        if asked.lower() != value:
            raise ParameterError(f"argument {name}: got {asked!r}, but {why} {value}")
