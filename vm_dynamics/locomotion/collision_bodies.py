# SPDX-License-Identifier: Apache-2.0
"""The links of a robot as bodies of MuJoCo with their collision shapes, and which can meet."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.spec import Joint, Shape
from vm_dynamics.robot import Robot


def readable_shapes(robot: Robot, mujoco: Any) -> tuple[dict[str, list[Shape]], tuple[str, ...]]:
    """Shapes of links by name, without meshes that MuJoCo cannot read, and notes about those."""
    shapes: dict[str, list[Shape]] = {}
    notes = []
    for link in robot.description.links:
        for shape in link.shapes:
            why = _unreadable(shape, mujoco) if shape.kind == "mesh" else ""
            if why:
                notes.append(f"{link.name}: mesh {shape.file} is not looked at: {why}")
            else:
                shapes.setdefault(link.name, []).append(shape)
    return shapes, tuple(notes)


def _unreadable(shape: Shape, mujoco: Any) -> str:
    """Why MuJoCo cannot read a mesh; empty if it can."""
    if not Path(shape.file).is_file():
        return "no such file"
    spec = mujoco.MjSpec()
    _add(spec, spec.worldbody, shape, 0, mujoco)
    try:
        spec.compile()
    except ValueError as error:
        return str(error).splitlines()[0]
    return ""


def collision_spec(robot: Robot, shapes: dict[str, list[Shape]], mujoco: Any) -> Any:
    """The links as bodies of MuJoCo; masses are of no concern."""
    spec = mujoco.MjSpec()
    joint_above: dict[str, Joint] = {j.child: j for j in robot.description.joints}
    bodies: dict[str, Any] = {}
    for link in robot.description.links:
        joint = joint_above.get(link.name)
        parent = spec.worldbody if joint is None else bodies[joint.parent]
        pose = np.eye(4) if joint is None else joint.pose_matrix
        body = parent.add_body(name=link.name, pos=pose[:3, 3], quat=_quaternion(pose, mujoco))
        body.mass, body.inertia, body.explicitinertial = 1.0, np.ones(3), True
        if joint is not None and joint.kind != "fixed":
            kind = mujoco.mjtJoint.mjJNT_HINGE
            if joint.kind == "prismatic":
                kind = mujoco.mjtJoint.mjJNT_SLIDE
            body.add_joint(name=joint.name, type=kind, axis=joint.axis)
        for k, shape in enumerate(shapes.get(link.name, ())):
            _add(spec, body, shape, k, mujoco)
        bodies[link.name] = body
    return spec


def _add(spec: Any, body: Any, shape: Shape, k: int, mujoco: Any) -> None:
    """Add a shape, the k-th of its body."""
    pose = shape.pose_matrix
    where = {"pos": pose[:3, 3], "quat": _quaternion(pose, mujoco)}
    kinds = mujoco.mjtGeom
    if shape.kind == "mesh":
        name = f"{body.name}/{k}"
        shell = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL  # takes open surfaces, too
        spec.add_mesh(name=name, file=shape.file, scale=shape.size, inertia=shell)
        body.add_geom(type=kinds.mjGEOM_MESH, meshname=name, **where)
        return
    size = np.zeros(3)
    size[: len(shape.size)] = shape.size
    if shape.kind == "box":
        size *= 0.5
    elif shape.kind in ("cylinder", "capsule"):
        size[1] *= 0.5
    body.add_geom(type=getattr(kinds, f"mjGEOM_{shape.kind.upper()}"), size=size, **where)


def _quaternion(pose: Array, mujoco: Any) -> Array:
    """Quaternion of a pose, real part first, shape (4,), as MuJoCo has it."""
    out = np.empty(4)
    mujoco.mju_mat2Quat(out, np.ascontiguousarray(pose[:3, :3]).ravel())
    return out


def movable_pairs(robot: Robot, shapes: dict[str, list[Shape]]) -> Iterator[tuple[str, str]]:
    """Pairs of links with shapes that are not rigidly joined."""
    for a, b in combinations([name for name in robot.link_names if name in shapes], 2):
        if robot.link_frame(a).body != robot.link_frame(b).body:
            yield a, b


def are_joined(robot: Robot, shapes: dict[str, list[Shape]], first: str, second: str) -> bool:
    """Whether one moving joint, and no link with a shape, is between two links."""
    joints = [joint for way in ways_to_meeting(robot, first, second) for joint in way]
    between = {name for joint in joints for name in (joint.parent, joint.child)}
    moving = [joint for joint in joints if joint.kind != "fixed"]
    return len(moving) == 1 and not (between - {first, second}) & shapes.keys()


def ways_to_meeting(robot: Robot, first: str, second: str) -> tuple[list[Joint], list[Joint]]:
    """Joints from each of two links inwards, to the link where both ways meet."""
    above = {joint.child: joint for joint in robot.description.joints}

    def inwards(link: str) -> list[Joint]:
        out = []
        while link in above:
            out.append(above[link])
            link = above[link].parent
        return out

    one, other = inwards(first), inwards(second)
    while one and other and one[-1] is other[-1]:
        one.pop()
        other.pop()
    return one, other
