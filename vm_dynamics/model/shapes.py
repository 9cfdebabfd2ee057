# SPDX-License-Identifier: Apache-2.0
"""Collision shapes of links as a URDF gives them: boxes, cylinders, spheres, capsules, meshes."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import numpy as np

from vm_dynamics.errors import UrdfWarning
from vm_dynamics.lie import se3
from vm_dynamics.model.spec import Numbers, Shape

# Attributes that give the size of each kind of shape, each with the number of values in it.
_SIZES: dict[str, tuple[tuple[str, int], ...]] = {
    "box": (("size", 3),),
    "cylinder": (("radius", 1), ("length", 1)),
    "capsule": (("radius", 1), ("length", 1)),
    "sphere": (("radius", 1),),
    "mesh": (("scale", 3),),
}


def collision_shapes(
    root: ElementTree.Element, folder: Path | None
) -> dict[str, tuple[Shape, ...]]:
    """Collision shapes of every link that has some, by the link's name.

    A shape that cannot be read is left out, with a :class:`UrdfWarning`: nothing but the check
    of collisions needs it.

    Args:
        root: the document.
        folder: where relative names of mesh files start, or None if nobody knows.
    """
    out: dict[str, tuple[Shape, ...]] = {}
    for link in root.findall("link"):
        shapes = []
        for element in link.findall("collision"):
            try:
                shapes.append(_shape(element, folder))
            except ValueError as error:
                warnings.warn(
                    f"link {link.get('name')!r}: a collision shape is left out: {error}",
                    UrdfWarning,
                    stacklevel=4,
                )
        if shapes:
            out[str(link.get("name"))] = tuple(shapes)
    return out


def _shape(collision: ElementTree.Element, folder: Path | None) -> Shape:
    geometry = collision.find("geometry")
    found = [] if geometry is None else [e for e in geometry if e.tag in _SIZES]
    if len(found) != 1:
        raise ValueError(f"expected a <geometry> with one of {', '.join(_SIZES)}")
    element = found[0]
    size: list[float] = []
    for name, count in _SIZES[element.tag]:
        default = "1 1 1" if element.tag == "mesh" else None
        size += _numbers(f"{element.tag} {name}", element.get(name, default), count)
    if element.tag == "mesh":
        if not element.get("filename"):
            raise ValueError("mesh filename: got nothing, expected the name of a file")
        file = mesh_file(element.get("filename", ""), folder)
        return Shape("mesh", tuple(size), _pose(collision), file)
    if min(size) <= 0.0:
        raise ValueError(f"{element.tag}: got size {size}, expected numbers above zero")
    return Shape(element.tag, tuple(size), _pose(collision))


def _numbers(what: str, text: str | None, count: int) -> list[float]:
    try:
        values = [float(word) for word in (text or "").split()]
    except ValueError:
        values = []
    if len(values) != count or not np.isfinite(values).all():
        raise ValueError(f"{what}: got {text!r}, expected {count} number(s)")
    return values


def _pose(collision: ElementTree.Element) -> Numbers:
    """Frame of the shape in the link's, (4, 4) row major."""
    pose = np.eye(4)
    origin = collision.find("origin")
    if origin is not None:
        rpy = _numbers("origin rpy", origin.get("rpy", "0 0 0"), 3)
        for turn in np.eye(6)[3:] * np.reshape(rpy, (3, 1)):  # roll first, about fixed axes
            pose = se3.exp(turn) @ pose
        pose[:3, 3] = _numbers("origin xyz", origin.get("xyz", "0 0 0"), 3)
    return tuple(pose.ravel().tolist())


def mesh_file(uri: str, folder: Path | None) -> str:
    """Path of a mesh; the name as it came if nobody knows where it is.

    Args:
        uri: ``package://name/path``, ``file:///path``, or a path.
        folder: the folder of the URDF, or None.
    """
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return unquote(parts.path)
    if parts.scheme == "package":
        rest = unquote(parts.path).lstrip("/")
        for share in _shares(parts.netloc, folder):
            if (share / rest).is_file():
                return str(share / rest)
        return uri
    if parts.scheme or folder is None or Path(uri).is_absolute():
        return uri
    return str(folder / uri)


def _shares(package: str, folder: Path | None) -> list[Path]:
    """Folders in which the files of a ROS package may be."""

    def listed(variable: str) -> list[Path]:
        return [Path(p) for p in os.environ.get(variable, "").split(os.pathsep) if p]

    out = [prefix / "share" / package for prefix in listed("AMENT_PREFIX_PATH")]
    out += [path / package for path in listed("ROS_PACKAGE_PATH")]
    if folder is not None:  # the URDF is often within the package that has the meshes
        out += [parent for parent in folder.resolve().parents if parent.name == package]
        out += [folder.resolve()] if folder.resolve().name == package else []
    return out
