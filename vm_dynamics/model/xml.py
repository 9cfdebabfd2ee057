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
    UrdfNotFoundError,
    UrdfSyntaxError,
    UrdfTooLargeError,
)

# The largest humanoids, meshes inlined by no one, are below one megabyte.
MAX_BYTES = 10_000_000
LINE = "vm_dynamics:line"  # attribute that carries an element's line


def read(urdf: str | os.PathLike[str]) -> bytes | str:
    """XML text itself, or the bytes of the file that a path names.

    Raises:
        UrdfNotFoundError: the file does not exist or cannot be read.
        UrdfTooLargeError: more than ``MAX_BYTES``.
    """
    if isinstance(urdf, bytes | bytearray):
        urdf = bytes(urdf).decode("utf-8", errors="replace")
    if isinstance(urdf, str) and ("<" in urdf or "\n" in urdf or not urdf.strip()):
        if len(urdf) > MAX_BYTES:
            raise UrdfTooLargeError(_too_large("the text", len(urdf)))
        return urdf
    if not isinstance(urdf, str | os.PathLike):
        raise UrdfSyntaxError(f"urdf: got {type(urdf).__name__}, expected XML text or a path")
    path = Path(urdf).expanduser()
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UrdfTooLargeError(_too_large(str(path), size))
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise UrdfNotFoundError(
            f"urdf: {str(urdf)!r} is neither XML text nor a readable file ({error})"
        ) from error


def parse(text: bytes | str) -> ElementTree.Element:
    """Root element; every element carries its line in the attribute ``LINE``.

    Raises:
        UrdfSyntaxError: not well-formed.
        UrdfEntityError: a document type declaration, the door to entity expansion.
    """
    builder = ElementTree.TreeBuilder()
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        builder.start(tag, {**attributes, LINE: str(parser.CurrentLineNumber)})

    def doctype(*_: Any) -> None:
        raise UrdfEntityError(
            f"line {parser.CurrentLineNumber}: a document type declaration (<!DOCTYPE ...>) is "
            "not accepted: a robot needs none, and entities can expand without bound"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        raise UrdfSyntaxError(f"not well-formed XML: {error}") from error
    return builder.close()


def _too_large(what: str, size: int) -> str:
    return (
        f"urdf: {what} has {size / 1e6:.0f} MB, expected at most {MAX_BYTES / 1e6:.0f} MB; "
        "is it a mesh or a recording?"
    )
