# SPDX-License-Identifier: Apache-2.0
"""What a robot description says, as immutable, hashable values: links, joints, their tree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vm_dynamics.errors import (
    DimensionError,
    MimicError,
    NonFiniteError,
    UnknownJointError,
    UnknownLinkError,
)
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.inertia import Inertia, combine

Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Shape:
    """A shape with which a link may touch others.

    Attributes:
        kind: ``box``, ``cylinder``, ``capsule``, ``sphere`` or ``mesh``.
        size: edges of a box, radius and length along z of a cylinder or capsule, radius of a
            sphere [m]; factors of a mesh along its axes.
        pose: its frame in the link's, (4, 4) row major.
        file: of a mesh, its path or the name that the URDF gives.
    """

    kind: str
    size: Numbers
    pose: Numbers
    file: str = ""

    @property
    def pose_matrix(self) -> Array:
        """Its frame in the link's, shape (4, 4)."""
        return np.array(self.pose).reshape(4, 4)


@dataclass(frozen=True)
class Link:
    """A named rigid body with its own frame.

    Attributes:
        name: unique name.
        inertia: mass, centre of mass and rotational inertia in the link's frame.
        shapes: with which it may touch other links.
    """

    name: str
    inertia: Inertia
    shapes: tuple[Shape, ...] = ()


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another: ``q = multiplier * q_driver + offset``."""

    driver: str
    multiplier: float
    offset: float


@dataclass(frozen=True)
class Joint:
    """A joint between two links.

    Attributes:
        name: unique name.
        kind: ``revolute``, ``continuous``, ``prismatic`` or ``fixed``.
        parent: name of the parent link.
        child: name of the child link.
        pose: child's frame in the parent's at position zero, (4, 4) row major.
        axis: unit vector in the joint's frame.
        lower: lower position limit [rad or m], ``-inf`` without one.
        upper: upper position limit [rad or m], ``inf`` without one.
        velocity: velocity limit [rad/s or m/s], ``inf`` without one.
        effort: effort limit [N m or N], ``inf`` without one.
        damping: viscous friction [N m s/rad or N s/m].
        friction: dry friction [N m or N].
        mimic: the joint it follows, or None.
    """

    name: str
    kind: str
    parent: str
    child: str
    pose: Numbers
    axis: Numbers = (0.0, 0.0, 1.0)
    lower: float = -np.inf
    upper: float = np.inf
    velocity: float = np.inf
    effort: float = np.inf
    damping: float = 0.0
    friction: float = 0.0
    mimic: Mimic | None = None

    @property
    def drive(self) -> Mimic:
        """What moves it: the joint it follows, or itself."""
        return Mimic(self.name, 1.0, 0.0) if self.mimic is None else self.mimic

    @property
    def pose_matrix(self) -> Array:
        """Child's frame in the parent's at position zero, shape (4, 4)."""
        return np.array(self.pose).reshape(4, 4)

    def pose_at(self, position: float) -> Array:
        """Child's frame in the parent's at a joint position [rad or m], shape (4, 4)."""
        axis = np.array(self.axis)
        zero = np.zeros(3)
        screw = (axis, zero) if self.kind == "prismatic" else (zero, axis)
        return self.pose_matrix @ se3.exp(np.concatenate(screw) * position)


@dataclass(frozen=True)
class Description:
    """A tree of links, what remains of a URDF once it has been read and checked.

    Attributes:
        name: the robot's name.
        root: name of the root link, whose frame is {1}.
        links: all links, depth first from the root.
        joints: the joint above each link but the root, in the same order.
    """

    name: str
    root: str
    links: tuple[Link, ...]
    joints: tuple[Joint, ...]

    @property
    def link_names(self) -> tuple[str, ...]:
        """Names of all links, depth first."""
        return tuple(link.name for link in self.links)

    def with_payload(self, link: str, payload: Inertia) -> Description:
        """The same robot with more inertia at a link, given in the link's frame."""
        own = [x.inertia for x in self.links if x.name == link]
        return self.with_inertia(link, combine((*own, payload)))

    def with_inertia(self, link: str, inertia: Inertia) -> Description:
        """The same robot with another inertia of a link, given in the link's frame."""
        if link not in self.link_names:
            raise UnknownLinkError("link", link, self.link_names)
        links = tuple(replace(x, inertia=inertia) if x.name == link else x for x in self.links)
        return replace(self, links=links)

    def with_root(self, link: str) -> Description:
        """The part of the robot from a link on, which becomes the root."""
        if link not in self.link_names:
            raise UnknownLinkError("root_link", link, self.link_names)
        kept, joints = {link}, []
        for joint in self.joints:  # parents come before their children
            if joint.parent in kept:
                kept.add(joint.child)
                joints.append(joint)
        for joint in joints:
            if joint.mimic is not None and joint.mimic.driver not in {j.name for j in joints}:
                raise MimicError(
                    f"joint {joint.name!r} mimics {joint.mimic.driver!r}, which is inboard of the "
                    f"new root link {link!r}"
                )
        links = tuple(x for x in self.links if x.name in kept)
        return replace(self, root=link, links=links, joints=tuple(joints))

    def with_locked(self, positions: dict[str, float]) -> Description:
        """The same robot with joints fixed at positions [rad or m]; followers are fixed too."""
        moving = {j.name: j for j in self.joints if j.kind != "fixed"}
        for name, position in positions.items():
            if name not in moving:
                raise UnknownJointError("joint", name, moving)
            if not np.isfinite(position):
                raise NonFiniteError(f"locked joint {name!r}: got {position}, expected a number")
        at = dict(positions)
        for j in moving.values():
            if j.mimic is not None and j.mimic.driver in positions and j.name not in positions:
                at[j.name] = j.mimic.multiplier * positions[j.mimic.driver] + j.mimic.offset
        joints = tuple(_locked(j, at[j.name]) if j.name in at else j for j in self.joints)
        return replace(self, joints=joints)


def _locked(joint: Joint, position: float) -> Joint:
    pose = tuple(joint.pose_at(position).ravel().tolist())
    return Joint(joint.name, "fixed", joint.parent, joint.child, pose)


def locked_positions(joints: Any) -> dict[str, float]:
    """Positions of joints to lock: from a mapping, or zero for each of a list of names."""
    if isinstance(joints, str):
        return {joints: 0.0}
    try:
        if hasattr(joints, "items"):
            return {name: float(position) for name, position in joints.items()}
        return {name: 0.0 for name in joints}
    except (TypeError, ValueError) as error:
        raise DimensionError(
            f"locked joints: got {joints!r}, expected names, or a mapping of names to positions "
            f"({error})"
        ) from error
