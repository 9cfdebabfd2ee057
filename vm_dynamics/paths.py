# SPDX-License-Identifier: Apache-2.0
"""Where the files that come with the package are, in a source tree or installed.

It stands beside the rooms: commands, nodes, launch files and scenarios all look for robots.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from vm_dynamics.errors import ParameterError, UnknownNameError, UrdfNotFoundError


def config_dir() -> Path:
    """The ``config`` directory: beside the sources, or in ``share`` of the installation.

    Raises:
        UrdfNotFoundError: the package was installed without it.
    """
    package = Path(__file__).resolve().parent
    candidates = [package.parent / "config"]
    # lib/pythonX.Y/site-packages/vm_dynamics -> prefix, in a colcon install space too
    candidates += [p / "share" / "vm_dynamics" / "config" for p in package.parents]
    candidates.append(Path(sys.prefix) / "share" / "vm_dynamics" / "config")
    for candidate in candidates:
        if (candidate / "robots").is_dir():
            return candidate
    raise UrdfNotFoundError(f"no config/robots in any of {[str(c) for c in candidates]}")


def robot_names() -> tuple[str, ...]:
    """Names of the robots that come with the package."""
    return tuple(sorted(path.stem for path in (config_dir() / "robots").glob("*.urdf")))


def robot_file(name: str) -> Path:
    """URDF file of a robot that comes with the package, by name, or the path of any other.

    Raises:
        UnknownNameError: neither a file nor one of the package's robots.
    """
    path = os.path.expanduser(name)
    if os.path.exists(path) and not os.path.isdir(path):  # a pipe will do: <(xacro robot.xacro)
        return Path(path)
    if name in robot_names():
        return config_dir() / "robots" / f"{name}.urdf"
    raise UnknownNameError("robot", name, (*robot_names(), "or the path of a URDF file"))


def robot_parameters(robot: Path, section: str) -> Path | None:
    """YAML file beside a robot's URDF file, of the same name, if it has a section.

    Args:
        robot: the URDF file, as of :func:`robot_file`.
        section: ``hydrodynamics`` or ``propulsion``.

    Raises:
        ParameterError: the file cannot be read.
    """
    import yaml  # not needed by those who only look for a robot

    path = robot.with_suffix(".yaml")
    if not path.is_file():
        return None
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ParameterError(f"{path}: {' '.join(str(error).split())}") from None
    return path if isinstance(content, dict) and section in content else None
