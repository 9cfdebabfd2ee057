# SPDX-License-Identifier: Apache-2.0
"""Description to the packed model: fixed joints merged, frames turned, mimic joints mapped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vm_dynamics.errors import SingularMassMatrixError
from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.lie.groups import rotation_from_z_to
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model import table
from vm_dynamics.model.inertia import Inertia, combine
from vm_dynamics.model.spec import Description, Joint

# Rounding of the kernels, which sum m d^2 about the base before they subtract it again.
INERTIA_ROUNDING = 1e-14


@dataclass(frozen=True)
class Body:
    """A moving body: all links that are rigidly joined behind one joint.

    Attributes:
        joint: the joint that moves it.
        parent: row of the parent body, 0 for the base.
        placement: body's frame at joint position zero in the parent body's frame, (4, 4).
    """

    joint: Joint
    parent: int
    placement: Array


@dataclass(frozen=True)
class Frame:
    """Where a link is: row of its body, and its pose in that body's frame, (4, 4)."""

    body: int
    pose: Array


@dataclass(frozen=True)
class Tree:
    """Bodies, link frames and the packed model.

    Attributes:
        bodies: the moving bodies, rows 1 and on.
        inertias: inertia of every body in its own frame, base first.
        frames: frame of every link.
        drivers: the joints that move by themselves, in the order of q.
        packed: see :mod:`vm_dynamics.model.table`.
    """

    bodies: tuple[Body, ...]
    inertias: tuple[Inertia, ...]
    frames: dict[str, Frame]
    drivers: tuple[Joint, ...]
    packed: Array


def build(description: Description, group: DisplacementGroup, gravity: Array) -> Tree:
    """Merge what is rigidly joined and pack the rest for the kernels."""
    frames = {description.root: Frame(0, np.eye(4))}
    bodies: list[Body] = []
    for joint in description.joints:
        parent = frames[joint.parent]
        pose = parent.pose @ joint.pose_matrix
        if joint.kind == "fixed":
            frames[joint.child] = Frame(parent.body, pose)
            continue
        turn = np.eye(4)
        turn[:3, :3] = rotation_from_z_to(np.array(joint.axis))
        bodies.append(Body(joint, parent.body, pose @ turn))
        frames[joint.child] = Frame(len(bodies), np.ascontiguousarray(turn.T))
    parts: list[list[Inertia]] = [[] for _ in range(len(bodies) + 1)]
    for link in description.links:
        frame = frames[link.name]
        parts[frame.body].append(link.inertia.moved(frame.pose))
    inertias = tuple(combine(p) for p in parts)
    drivers = tuple(body.joint for body in bodies if body.joint.mimic is None)
    packed = _pack(bodies, inertias, drivers, group)
    packed[0, table.GRAVITY : table.GRAVITY + 3] = gravity
    return Tree(tuple(bodies), inertias, frames, drivers, packed)


def _pack(
    bodies: list[Body],
    inertias: tuple[Inertia, ...],
    drivers: tuple[Joint, ...],
    group: DisplacementGroup,
) -> Array:
    nj = len(bodies)
    out = np.zeros((1 + nj + 6, table.WIDTH))
    out[0, table.N_DOF] = len(drivers)
    out[0, table.N_BASE] = group.dimension
    out[0, table.N_BODIES] = nj
    index = {joint.name: i for i, joint in enumerate(drivers)}
    for k, inertia in enumerate(inertias):
        out[k, table.MASS] = inertia.mass
        out[k, table.COM : table.COM + 3] = inertia.com
        out[k, table.INERTIA : table.INERTIA + 6] = inertia.moments
    for k, body in enumerate(bodies, start=1):
        row = out[k]
        drive = body.joint.drive
        row[table.PARENT] = body.parent
        continues = body.parent == k - 1 and k > 1
        row[table.RUN_START] = out[k - 1, table.RUN_START] if continues else k
        row[table.PRISMATIC] = body.joint.kind == "prismatic"
        row[table.DOF] = index[drive.driver]
        row[table.MULTIPLIER] = drive.multiplier
        row[table.OFFSET] = drive.offset
        row[table.ROTATION : table.ROTATION + 9] = body.placement[:3, :3].ravel()
        row[table.POSITION : table.POSITION + 3] = body.placement[:3, 3]
    # Left writeable: a read-only array costs each compiled call a microsecond.
    out[nj + 1 :, : group.dimension] = group.iota
    return out


def _rounding(tree: Tree) -> Array:
    """What rounding may leave of the inertia of a joint that moves none, shape (n,)."""
    reach = [0.0]
    for body in tree.bodies:
        reach.append(reach[body.parent] + float(np.linalg.norm(body.placement[:3, 3])))
    sums = [
        inertia.mass * (distance + float(np.linalg.norm(inertia.com))) ** 2
        for inertia, distance in zip(tree.inertias, reach, strict=True)
    ]
    index = {joint.name: i for i, joint in enumerate(tree.drivers)}
    out = np.zeros(len(index))
    for k in range(len(tree.bodies), 0, -1):
        body = tree.bodies[k - 1]
        sums[body.parent] += sums[k]
        drive = body.joint.drive
        out[index[drive.driver]] += drive.multiplier**2 * sums[k]
    return INERTIA_ROUNDING * out


def require_inertia(tree: Tree, group: DisplacementGroup, mass_matrix: Array) -> None:
    """Refuse a robot that can move in some way without inertia.

    Args:
        tree: the robot.
        group: its base group.
        mass_matrix: at some shape, shape (b + n, b + n).

    Raises:
        SingularMassMatrixError: names the joint or the base motion that has no inertia.
    """
    b = group.dimension
    diagonal = np.diag(mass_matrix)
    nothing = _rounding(tree)
    for i, joint in enumerate(tree.drivers):
        if not diagonal[b + i] > nothing[i]:
            raise SingularMassMatrixError(
                f"joint {joint.name!r} moves nothing that has inertia: link {joint.child!r} and "
                "all behind it are massless, or points on its axis; give it mass and inertia or "
                "make the joint fixed"
            )
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    smallest = np.linalg.eigvalsh(mass_matrix * np.outer(scale, scale))[0]
    if not smallest > 1e-13:
        raise SingularMassMatrixError(
            "the mass matrix is not positive definite (smallest eigenvalue of its normalized "
            f"form {smallest:.2g}): some motion of the base or of several joints together moves "
            "nothing that has inertia; give the massless or point-like links an inertia"
        )
