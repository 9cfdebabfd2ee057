# SPDX-License-Identifier: Apache-2.0
"""What the launch files share: their arguments as values, robots as text, packages that must be.

Launch arguments are text. An argument that is left empty leaves the matter to the parameter file;
``auto`` looks for a file beside the URDF, and ``none`` stands for none.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
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
from rclpy.exceptions import NameValidationException
from rclpy.validate_namespace import validate_namespace
from rclpy.validate_topic_name import validate_topic_name

from vm_dynamics.errors import ParameterError, UrdfError, UrdfSyntaxError, VmDynamicsError
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


def namespace(context: Any) -> str:
    """Namespace of the argument of that name: empty, or with a slash in front.

    Raises:
        ParameterError: ROS does not take it for one.
    """
    out = f"/{given(context, 'namespace').strip('/')}".rstrip("/")
    try:
        validate_namespace(out or "/")
    except NameValidationException as error:
        raise _no_name(context, "namespace", error) from None
    return out


def topic(context: Any, name: str) -> str:
    """Topic that an argument names.

    Raises:
        ParameterError: ROS does not take it for one.
    """
    try:
        validate_topic_name(given(context, name))
    except NameValidationException as error:
        raise _no_name(context, name, error) from None
    return given(context, name)


def _no_name(context: Any, name: str, error: Exception) -> ParameterError:
    reason = str(error).splitlines()[0].rstrip(":")
    return ParameterError(f"argument {name}: got {given(context, name)!r}: {reason}")


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


def robot_text(context: Any, *, needed: bool = False) -> str:
    """URDF text of the argument ``robot``, through xacro if it is a file of that kind.

    Args:
        context: of the launch.
        needed: whether the argument may not be empty; if it may, so is the text then.

    Raises:
        UnknownNameError: no such robot.
        UrdfError: it cannot be read.
    """
    if not given(context, "robot") and not needed:
        return ""
    path = robot_file(given(context, "robot"))
    if path.suffix == ".xacro":
        try:
            import xacro  # type: ignore[import-not-found,import-untyped,unused-ignore]
        except ImportError:
            raise _missing("xacro") from None
        try:
            return str(xacro.process_file(str(path)).toxml())
        except Exception as error:  # whatever the expressions in it raise
            raise UrdfError(f"argument robot: {path}: {error}") from error
    text = xml.read(path)
    try:
        return text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError as error:
        raise UrdfSyntaxError(f"argument robot: {path}: {error}") from None


def typed(values: dict[str, Any]) -> dict[str, Any]:
    """Parameters for a node, whose text stays text: launch would read "1" or a URDF as YAML."""
    return {
        key: ParameterValue(value, value_type=str) if isinstance(value, str) else value
        for key, value in values.items()
    }


def from_file(path: str, node: str) -> dict[str, Any]:
    """Parameters that a parameter file has for a node, nested ones with dots in their names.

    Args:
        path: of the file.
        node: name of the node with its namespace, as ``/a/observer_node``.

    Raises:
        ParameterError: it is no parameter file.
    """
    try:
        content = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ParameterError(f"parameter file {path!r}: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ParameterError(f"parameter file {path!r}: expected nodes and their ros__parameters")
    out: dict[str, Any] = {}
    for pattern, values in _rules(content):
        if matches(pattern, node):  # of all that do, the last one wins
            out.update(flat(values))
    return out


def _rules(content: dict[str, Any], at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for key, value in content.items():
        if key == "ros__parameters" and isinstance(value, dict):
            yield at, value
        elif isinstance(value, dict):
            yield from _rules(value, f"{at}/{str(key).strip('/')}")


def flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by names with dots."""
    out = {}
    for key, value in values.items():
        if isinstance(value, dict):
            out.update(flat(value, f"{prefix}{key}."))
        else:
            out[f"{prefix}{key}"] = value
    return out


def matches(pattern: str, node: str) -> bool:
    """Whether a name in a parameter file means a node: /** is any number of namespaces."""
    expression = re.escape(f"/{pattern.lstrip('/')}")
    expression = expression.replace(r"/\*\*", r"(/\w+)*").replace(r"/\*", r"/\w+")
    return re.fullmatch(expression, node) is not None


def temporary(name: str, content: Any, suffix: str = ".yaml") -> str:
    """Path of a new YAML file."""
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"vm_dynamics_{name}_", suffix=suffix, delete=False
    ) as out:
        yaml.safe_dump(content, out, sort_keys=False)
    return out.name


def clock_remapping(context: Any) -> list[tuple[str, str]]:
    """Where simulated time comes from, if not from the usual topic."""
    clock = topic(context, "clock")
    return [] if clock == "/clock" else [("/clock", clock)]


def tf_remappings(context: Any) -> list[tuple[str, str]]:
    """A namespace has its own tf, unless a prefix tells the frames of two robots apart."""
    if not namespace(context) or given(context, "frame_prefix"):
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


def only(context: Any, fixed: dict[str, bool], why: str) -> None:
    """Refuse an argument that would change what a launch file fixes.

    Raises:
        ParameterError: it was given another value.
    """
    for name, value in fixed.items():
        if switch(context, name) is not value:
            asked = given(context, name)
            raise ParameterError(f"argument {name}: got {asked!r}, but {why} {str(value).lower()}")
