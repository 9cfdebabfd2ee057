# SPDX-License-Identifier: Apache-2.0
"""Pieces of URDF to write small robots with, right or wrong."""

from __future__ import annotations

from xml.etree import ElementTree

LIMIT = '<limit lower="-1" upper="1" effort="10" velocity="2"/>'
TENSOR = '<inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/>'


def inertia(xx: float, yy: float, zz: float, xy: float = 0, xz: float = 0, yz: float = 0) -> str:
    """An <inertia> element."""
    return f'<inertia ixx="{xx}" iyy="{yy}" izz="{zz}" ixy="{xy}" ixz="{xz}" iyz="{yz}"/>'


def link(name: str, inertial: str | None = f'<mass value="1"/>{TENSOR}') -> str:
    """A link, of 1 kg unless told what its <inertial> says; massless for None."""
    return f'<link name="{name}">' + (
        "</link>" if inertial is None else f"<inertial>{inertial}</inertial></link>"
    )


def joint(name: str, parent: str, child: str, kind: str = "revolute", inside: str = LIMIT) -> str:
    """A joint; ``inside`` is what it says beside its parent and child."""
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f"{inside}</joint>"
    )


def robot(*parts: str, name: str = "r") -> str:
    """A document, every part on a line of its own, the first on line 2."""
    return "\n".join([f'<robot name="{name}">', *parts, "</robot>"])


def pair(inside: str = LIMIT, kind: str = "revolute", inertial: str = "") -> str:
    """Two links, a and b, and a joint j between them; b's <inertial> unless empty."""
    b = link("b", inertial) if inertial else link("b")
    return robot(link("a"), b, joint("j", "a", "b", kind, inside))


def from_root(urdf: str, root: str) -> str:
    """The same without what is above a link: the world, and the joint that holds the link."""
    tree = ElementTree.fromstring(urdf)
    for joint in tree.findall("joint"):
        if joint.find("child").get("link") == root:
            above = joint.find("parent").get("link")
            tree.remove(joint)
            tree.remove(next(x for x in tree.findall("link") if x.get("name") == above))
    return ElementTree.tostring(tree, encoding="unicode")
