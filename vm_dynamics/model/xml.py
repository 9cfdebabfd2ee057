# SPDX-License-Identifier: Apache-2.0
"""Text or file to an XML tree with line numbers, refusing what could hurt the reader."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.parsers import expat

from vm_dynamics.errors import (
    UrdfEntityError,
    UrdfError,
    UrdfNotFoundError,
    UrdfSyntaxError,
    UrdfTooLargeError,
)

# The largest humanoids, meshes inlined by no one, are below one megabyte.
MAX_BYTES = 10_000_000
MAX_DEPTH = 100  # of nested elements; a robot, simulator tags included, has about ten
LINE = "vm_dynamics:line"  # attribute that carries an element's line


def read(urdf: str | bytes | os.PathLike[str]) -> bytes | str:
    """XML text itself, or the bytes of the file that a path names.

    Bytes are a document, never a path.

    Raises:
        UrdfNotFoundError: the file does not exist or cannot be read.
        UrdfTooLargeError: more than ``MAX_BYTES``.
    """
    if isinstance(urdf, str | bytes | bytearray) and len(urdf) > MAX_BYTES:
        raise UrdfTooLargeError(_too_large("the text", len(urdf)))
    if isinstance(urdf, bytes | bytearray):
        return bytes(urdf)
    if isinstance(urdf, str) and _is_text(urdf):
        return urdf
    if not isinstance(urdf, str | os.PathLike):
        raise UrdfSyntaxError(f"urdf: got {type(urdf).__name__}, expected XML text or a path")
    try:
        return _file(Path(urdf).expanduser())
    except UrdfError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: ~ of an unknown user
        reason = error.strerror if isinstance(error, OSError) else error
        shown = str(urdf) if len(str(urdf)) <= 200 else f"{str(urdf)[:200]}..."
        raise UrdfNotFoundError(
            f"urdf: {shown!r} is neither XML text nor a readable file ({reason})"
        ) from error


def folder(urdf: str | bytes | os.PathLike[str]) -> Path | None:
    """The folder of the file that a path names; None for XML text."""
    if isinstance(urdf, bytes | bytearray) or (isinstance(urdf, str) and _is_text(urdf)):
        return None
    return Path(urdf).expanduser().parent


def _is_text(urdf: str) -> bool:
    """Whether a string is a document, not a path."""
    return "<" in urdf or "\n" in urdf or not urdf.strip()


def _file(path: Path) -> bytes:
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise UrdfTooLargeError(_too_large(str(path), size))
    with path.open("rb") as stream:  # a pipe or device says nothing of its size
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UrdfTooLargeError(_too_large(str(path)))
    return content


def parse(text: bytes | str) -> ElementTree.Element:
    """Root element; every element carries its line in the attribute ``LINE``.

    Raises:
        UrdfSyntaxError: not well-formed, or nested deeper than ``MAX_DEPTH``.
        UrdfEntityError: a document type declaration, the door to entity expansion.
    """
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()
    depth = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise UrdfSyntaxError(
                f"line {parser.CurrentLineNumber}: <{tag}> is nested deeper than {MAX_DEPTH}"
            )
        builder.start(tag, {**attributes, LINE: str(parser.CurrentLineNumber)})

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(tag)

    def doctype(*_: Any) -> None:
        raise UrdfEntityError(
            f"line {parser.CurrentLineNumber}: a document type declaration (<!DOCTYPE ...>) is "
            "not accepted: a robot needs none, and entities can expand without bound"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(text, True)
    except UrdfError:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two: encodings
        raise UrdfSyntaxError(f"not well-formed XML: {error}") from error
    return builder.close()


def _too_large(what: str, size: int | None = None) -> str:
    largest = f"{MAX_BYTES / 1e6:.0f} MB"
    came = f"more than {largest}" if size is None else f"{size / 1e6:.3g} MB"
    return f"urdf: {what} has {came}, expected at most {largest}; is it a mesh or a recording?"
