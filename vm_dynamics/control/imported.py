# SPDX-License-Identifier: Apache-2.0
"""Controllers of a user's own, by their import path: found, built, rehearsed, or refused.

Nothing of such a class is trusted: whatever it raises becomes an error that says what it was doing
and where, and whoever asked for it goes on with what there is.
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

from vm_dynamics.control.controller import ATTRIBUTES, METHODS, Controller, Efforts, rehearse
from vm_dynamics.errors import ParameterError
from vm_dynamics.robot import Robot

FORM = "package.module:Class"
# Files that an error passes through without being of the user's making.
_NOT_THEIRS = ("<", importlib.__file__, np.__path__[0], str(Path(__file__).parents[1]))
_PATH = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*)[.:]([^\W\d]\w*)")


def is_import_path(text: str) -> bool:
    """Whether a text has the form of an import path, with a colon or a dot before the class."""
    return _PATH.fullmatch(text) is not None


def controller_class(path: str) -> type[Any]:
    """Class of an import path, ``package.module:Class`` or ``package.module.Class``.

    Raises:
        ParameterError: there is none, or it lacks methods of a controller.
    """
    found = _PATH.fullmatch(path)
    if found is None:
        raise ParameterError(f"controller: got {path!r}, expected {FORM}")
    module, name = found.groups()
    with _blamed(path, f"importing {module}"):
        made = importlib.import_module(module)
    cls = getattr(made, name, None)
    if not isinstance(cls, type):
        raise ParameterError(f"controller {path}: the module has no class {name}")
    _require(path, [part for part in METHODS if not _is_there(cls, part)])
    return cls


def imported_controller(
    path: str, robot: Robot, settings: Mapping[str, Any]
) -> tuple[Controller, Efforts]:
    """A controller of a user's own, and the efforts that it gave at rest.

    Args:
        path: import path of its class.
        robot: first argument of its constructor.
        settings: the others, by keyword.

    Raises:
        ParameterError: something is wrong with it; the message says what and where.
    """
    cls = controller_class(path)
    with _blamed(path, "its constructor"):
        out: Controller = cls(robot, **settings)
    _require(path, [part for part in ATTRIBUTES if not hasattr(out, part)])
    with _blamed(path, "a step at rest"):
        return out, rehearse(out, robot)


def _is_there(cls: type[Any], part: str) -> bool:
    """Whether a class has a method that is more than its announcement."""
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
    """Make one error of all that may be raised, with the place in the user's file."""
    try:
        yield
    except (Exception, SystemExit) as error:
        places = [
            f" ({Path(frame.filename).name}, line {frame.lineno})"
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith(_NOT_THEIRS)
        ]
        where = places[-1] if places else ""
        raise ParameterError(
            f"controller {path}: {what} raised {type(error).__name__}: {error}{where}"
        ) from error
