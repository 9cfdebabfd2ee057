# SPDX-License-Identifier: Apache-2.0
"""A user's own controllers: imported by their path, built, and tried once at rest.

Such a class may raise anything. It becomes one kind of error that says what failed and where, so
that the caller can report it and continue with the controller it has.
"""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from vm_dynamics.control.controller import (
    CONTROLLER_ATTRIBUTES,
    CONTROLLER_METHODS,
    Controller,
    Efforts,
    rehearse,
)
from vm_dynamics.errors import ParameterError
from vm_dynamics.robot import Robot

IMPORT_PATH_FORM = "package.module:Class"
# Files in a traceback that the user did not write.
_NOT_USER_FILES = ("<", importlib.__file__, np.__path__[0], str(Path(__file__).parents[1]))
_IMPORT_PATH = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)[.:]([^\W\d]\w*)")


def is_import_path(text: str) -> bool:
    """Whether a text looks like an import path, with a colon or a dot before the class."""
    return _IMPORT_PATH.fullmatch(text) is not None


def controller_class(path: str) -> type[Any]:
    """Import a class by its path, ``package.module:Class`` or ``package.module.Class``.

    Raises:
        ParameterError: there is no such class, or it lacks methods of a controller.
    """
    found = _IMPORT_PATH.fullmatch(path)
    if found is None:
        raise ParameterError(f"controller: got {path!r}, expected {IMPORT_PATH_FORM}")
    module, name = found.groups()
    with _blamed(path, f"importing {module}"):
        made = importlib.import_module(module)
    cls = getattr(made, name, None)
    if not isinstance(cls, type):
        raise ParameterError(f"controller {path}: the module has no class {name}")
    _require(path, [part for part in CONTROLLER_METHODS if not _is_there(cls, part)])
    return cls


def imported_controller(
    path: str, robot: Robot, settings: Mapping[str, Any]
) -> tuple[Controller, Efforts]:
    """Build a user's own controller; also returns its efforts at rest.

    Args:
        path: import path of its class.
        robot: first argument of its constructor.
        settings: the other arguments, by keyword.

    Raises:
        ParameterError: the class cannot be used; the message says what failed and where.
    """
    cls = controller_class(path)
    with _blamed(path, "its constructor"):
        out: Controller = cls(robot, **settings)
    _require(path, [part for part in CONTROLLER_ATTRIBUTES if not hasattr(out, part)])
    with _blamed(path, "a step at rest"):
        return out, rehearse(out, robot)


def _is_there(cls: type[Any], part: str) -> bool:
    """Whether a class has a method that is not abstract."""
    found = getattr(cls, part, None)
    return callable(found) and not getattr(found, "__isabstractmethod__", False)


def _require(path: str, missing: list[str]) -> None:
    if missing:
        raise ParameterError(
            f"controller {path} lacks {', '.join(missing)}; a class that inherits from "
            "vm_dynamics.Controller has to write needs, set_target, command and reset only"
        )


@contextmanager
def _blamed(path: str, what: str) -> Iterator[None]:
    """Turn anything that is raised into a ParameterError with the line in the user's file."""
    try:
        yield
    except (Exception, SystemExit) as error:
        places = [
            f" ({Path(frame.filename).name}, line {frame.lineno})"
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith(_NOT_USER_FILES)
        ]
        where = places[-1] if places else ""
        raise ParameterError(
            f"controller {path}: {what} raised {type(error).__name__}: {error}{where}"
        ) from error
