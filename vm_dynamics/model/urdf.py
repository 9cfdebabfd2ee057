# SPDX-License-Identifier: Apache-2.0
"""robot_description to :class:`Description`: checked, read with urdf_parser_py, put in order."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

from vm_dynamics import errors
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model import check, xml
from vm_dynamics.model.inertia import Inertia
from vm_dynamics.model.shapes import collision_shapes
from vm_dynamics.model.spec import Description, Joint, Link, Mimic, Shape

Shapes = dict[str, tuple[Shape, ...]]  # of links, by name

# What urdf_parser_py needs to see: drawings slow it down, and it complains on stderr of every
# tag and attribute that some simulator added.
_CHILDREN = {
    "robot": ("link", "joint"),
    "link": ("inertial",),
    "inertial": ("origin", "mass", "inertia"),
    "joint": ("origin", "axis", "parent", "child", "limit", "dynamics", "mimic"),
}
_ATTRIBUTES = {
    "robot": ("name",),
    "link": ("name",),
    "joint": ("name", "type"),
    "origin": ("xyz", "rpy"),
    "mass": ("value",),
    "inertia": ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"),
    "axis": ("xyz",),
    "parent": ("link",),
    "child": ("link",),
    "limit": ("lower", "upper", "effort", "velocity"),
    "dynamics": ("damping", "friction"),
    "mimic": ("joint", "multiplier", "offset"),
}


@dataclass(frozen=True)
class Reading:
    """A description and what its document says of the base.

    Attributes:
        description: the robot, its root link's frame being {1}.
        base: ``SE3`` or ``SE2`` if a floating or planar joint holds the robot, else None.
        axis: normal of the plane of a planar joint in {1}, else None.
    """

    description: Description
    base: str | None = None
    axis: tuple[float, ...] | None = None


def read(urdf: str | bytes | os.PathLike[str], *, strict: bool = True) -> Reading:
    """Read URDF text or a file.

    Args:
        urdf: XML text, its bytes, or a path.
        strict: whether moments that violate the triangle inequality are an error.

    Raises:
        UrdfError: one of its children, for the first error; the message lists the others.
    """
    root = xml.parse(xml.read(urdf))
    found = check.problems(root, strict=strict)
    worst = [p for p in found if p.severity == "error"]
    if worst:
        raise worst[0].kind("\n".join(str(p) for p in worst))
    for problem in found:
        warnings.warn(str(problem), errors.UrdfWarning, stacklevel=3)  # who called load
    return _anchored(_parse(root), collision_shapes(root, xml.folder(urdf)))


def _parse(root: ElementTree.Element) -> Any:
    from urdf_parser_py.urdf import URDF  # slow to import, and only needed here

    lean = _lean(root)
    lean.set("name", root.get("name") or "robot")
    try:
        return URDF.from_xml_string(ElementTree.tostring(lean, encoding="unicode"))
    except Exception as error:  # the parser raises many kinds, all meaning the same
        raise errors.UrdfValueError(f"urdf_parser_py: {error}") from error


def _lean(element: ElementTree.Element) -> ElementTree.Element:
    known = _ATTRIBUTES.get(element.tag, ())
    copy = ElementTree.Element(
        element.tag, {key: value for key, value in element.attrib.items() if key in known}
    )
    tags = _CHILDREN.get(element.tag, ())
    copy.extend([_lean(child) for child in element if child.tag in tags])
    return copy


def _anchored(urdf: Any, shapes: Shapes) -> Reading:
    """Drop a massless root that stands for the inertial frame."""
    root = urdf.get_root()
    below = [j for j in urdf.joints if j.parent == root]
    if len(below) == 1 and _inertia(urdf.link_map[root]).mass == 0.0:
        joint = below[0]
        description = _ordered(urdf, joint.child, shapes)
        if joint.type == "floating":
            return Reading(description, "SE3")
        if joint.type == "planar":
            return Reading(description, "SE2", _axis(joint))
        if joint.type == "fixed" and root == "world":  # check has warned of it
            return Reading(description)
    return Reading(_ordered(urdf, root, shapes))


def _ordered(urdf: Any, root: str, shapes: Shapes) -> Description:
    """Links and joints depth first from the root, children in document order."""

    def link(name: str) -> Link:
        return Link(name, _inertia(urdf.link_map[name]), shapes.get(name, ()))

    below: dict[str, list[Any]] = {}
    for joint in urdf.joints:
        below.setdefault(joint.parent, []).append(joint)
    links, joints = [link(root)], []
    stack = list(reversed(below.get(root, [])))
    while stack:
        joint = stack.pop()
        joints.append(_joint(joint))
        links.append(link(joint.child))
        stack.extend(reversed(below.get(joint.child, [])))
    return Description(urdf.name, root, tuple(links), tuple(joints))


def _inertia(link: Any) -> Inertia:
    if link.inertial is None:
        return Inertia()
    tensor = (
        np.zeros((3, 3)) if link.inertial.inertia is None else link.inertial.inertia.to_matrix()
    )
    return Inertia.of(link.inertial.mass, np.zeros(3), tensor).moved(_pose(link.inertial.origin))


def _joint(joint: Any) -> Joint:
    limit = joint.limit
    unlimited = limit is None or joint.type == "continuous"
    mimic = joint.mimic
    return Joint(
        name=joint.name,
        kind=joint.type,
        parent=joint.parent,
        child=joint.child,
        pose=tuple(_pose(joint.origin).ravel().tolist()),
        axis=_axis(joint),
        lower=-np.inf if unlimited else float(limit.lower or 0.0),
        upper=np.inf if unlimited else float(limit.upper or 0.0),
        velocity=np.inf if limit is None else float(limit.velocity),
        effort=np.inf if limit is None else float(limit.effort),
        damping=0.0 if joint.dynamics is None else float(joint.dynamics.damping or 0.0),
        friction=0.0 if joint.dynamics is None else float(joint.dynamics.friction or 0.0),
        mimic=None
        if mimic is None
        else Mimic(
            mimic.joint,
            1.0 if mimic.multiplier is None else float(mimic.multiplier),
            float(mimic.offset or 0.0),
        ),
    )


def _axis(joint: Any) -> tuple[float, ...]:
    axis = np.array([1.0, 0.0, 0.0] if joint.axis is None else joint.axis, dtype=float)
    norm = np.linalg.norm(axis)
    return tuple((axis / norm).tolist()) if norm > 0.0 else (0.0, 0.0, 1.0)


def _pose(origin: Any) -> Array:
    """Frame of an <origin>: fixed-axis roll, pitch, yaw [rad], then the shift; shape (4, 4)."""
    pose = np.eye(4)
    if origin is None:
        return pose
    if origin.rpy is not None:
        roll, pitch, yaw = np.eye(6)[3:] * np.reshape(origin.rpy, (3, 1))
        pose = se3.exp(yaw) @ se3.exp(pitch) @ se3.exp(roll)
    if origin.xyz is not None:
        pose[:3, 3] = origin.xyz
    return pose


def all_problems(urdf: str | bytes | os.PathLike[str]) -> Iterator[check.Problem]:
    """Problems of a document for a report; what cannot even be parsed is one problem."""
    try:
        root = xml.parse(xml.read(urdf))
    except errors.UrdfError as error:
        yield check.Problem("error", str(error), "Give a readable URDF file.", kind=type(error))
        return
    yield from check.problems(root)
