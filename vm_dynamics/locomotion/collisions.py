# SPDX-License-Identifier: Apache-2.0
"""How far the links of a robot are from each other, by the collision shapes of its URDF.

The distances are MuJoCo's; a mesh counts as its convex hull. Looked at are all pairs of links that
can move against each other, but for those that a joint joins and those that touch at rest, which
is the shape nearest to zero within the position limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.model.spec import Joint, Shape
from vm_dynamics.robot import Robot

INSTALL = "pip install 'vm_dynamics[sim]'"
JOINED, TOUCH_AT_REST = "joined by a joint", "touch at rest"  # why pairs are left out
TOUCHING = 1e-3  # [m]: links nearer than this at rest touch
# No two shapes move by more than this against each other from one sample of a path to the next,
# where it matters for the least clearance [m].
CLEARANCE_RESOLUTION = 5e-3
COARSE_SAMPLES = 32  # of a path, for a first idea of its least clearance
NEAR_SHARE = 0.5  # of the distance at the start that shapes nearer than the margin keep
FARTHEST = 1e3  # [m]: farther apart than any two links


class LeftOut(NamedTuple):
    """Two links that are not held against each other, and why."""

    first: str
    second: str
    why: str


class Nearest(NamedTuple):
    """The two links that are nearest to each other.

    Attributes:
        distance: between them [m], negative if they overlap, infinite if no two are looked at.
        first: name of one link.
        second: name of the other.
    """

    distance: float
    first: str = ""
    second: str = ""


class CollisionModel:
    """Distances between the links of a robot.

    Attributes:
        robot: the robot.
        pairs: names of links that are held against each other.
        left_out: pairs of links that are not.
        notes: what could not be looked at: shapes without a mesh file that can be read.
    """

    def __init__(self, robot: Robot) -> None:
        """Read the shapes.

        Raises:
            ParameterError: MuJoCo is not installed.
        """
        try:
            import mujoco
        except ImportError:
            raise ParameterError(f"collisions need MuJoCo: {INSTALL}") from None
        self.robot, self._mujoco = robot, mujoco
        shapes, self.notes = _readable(robot, mujoco)
        self.model = _spec(robot, shapes, mujoco).compile()
        self.data = mujoco.MjData(self.model)
        self._offset, self._drive = np.zeros(self.model.nq), np.zeros((self.model.nq, robot.n))
        for joint in robot.description.joints:
            if joint.kind != "fixed":
                at = self.model.joint(joint.name).qposadr[0]
                drive = joint.drive
                self._offset[at] = drive.offset
                self._drive[at, robot.joint_names.index(drive.driver)] = drive.multiplier
        links = [self.model.body(i).name for i in self.model.geom_bodyid]
        self._links = links
        self.pairs: tuple[tuple[str, str], ...] = ()
        apart: list[tuple[str, str]] = list(_movable(robot, shapes))
        joined = {pair for pair in apart if _joined(robot, shapes, *pair)}
        self._select([pair for pair in apart if pair not in joined])
        touching = self._touching()
        self._select([pair for pair in self.pairs if pair not in touching])
        self.left_out = tuple(
            LeftOut(*pair, JOINED if pair in joined else TOUCH_AT_REST)
            for pair in apart
            if pair in joined or pair in touching
        )

    def _select(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Hold these pairs of links against each other."""
        self.pairs = tuple(pairs)
        of_link: dict[str, list[int]] = {}
        for geom, link in enumerate(self._links):
            of_link.setdefault(link, []).append(geom)
        geoms = [(i, j) for a, b in self.pairs for i in of_link[a] for j in of_link[b]]
        self._geoms = np.array(geoms, dtype=int).reshape(-1, 2)
        self._spheres = self.model.geom_rbound[self._geoms].sum(axis=1)

    def _touching(self) -> set[tuple[str, str]]:
        """Pairs of links that touch at rest."""
        robot = self.robot
        distances = self.distances(
            np.clip(np.zeros(robot.n), robot.lower_limits, robot.upper_limits)
        )
        near = self._geoms[distances < TOUCHING]
        return {(self._links[i], self._links[j]) for i, j in near}

    # -- one shape ------------------------------------------------------------------------------

    def clearance(self, q: Any) -> float:
        """Least distance of two links at joint positions q, shape (n,) [m]."""
        return self.nearest(q).distance

    def nearest(self, q: Any) -> Nearest:
        """The two links that are nearest to each other at joint positions q, shape (n,)."""
        return self._nearest(vector("q", q, self.robot.n), np.zeros(len(self._geoms)))

    def distances(self, q: Array) -> Array:
        """Distances of all pairs of shapes that are looked at, shape (pairs,) [m]."""
        self._place(q)
        return np.array([self._distance(i, j, FARTHEST) for i, j in self._geoms])

    def kept_distances(self, q0: Array, margin: float) -> Array:
        """Distances that a path from q0 keeps, shape (pairs,) [m].

        That is the margin; and half of the distance at q0 for shapes that are nearer there.

        Args:
            q0: joint positions, shape (n,), without any overlap.
            margin: [m], above zero.
        """
        return np.minimum(margin, NEAR_SHARE * self.distances(q0))

    def _place(self, q: Array) -> Array:
        """Put the links where q says; lower bounds of the distances, shape (pairs,) [m]."""
        self.data.qpos[:] = self._drive @ q + self._offset
        self._mujoco.mj_kinematics(self.model, self.data)
        centres = self.data.geom_xpos[self._geoms]
        return np.asarray(np.linalg.norm(centres[:, 0] - centres[:, 1], axis=1) - self._spheres)

    def _distance(self, i: int, j: int, most: float, segment: Array | None = None) -> float:
        return float(self._mujoco.mj_geomDistance(self.model, self.data, i, j, most, segment))

    def _nearest(self, q: Array, kept: Array) -> Nearest:
        """Least of the distances beyond those to keep, ``kept``, shape (pairs,) [m]."""
        bounds = self._place(q) - kept
        best, which = np.inf, -1
        for k in np.argsort(bounds):
            if bounds[k] >= best:
                break
            i, j = self._geoms[k]
            beyond = self._distance(i, j, min(best, FARTHEST) + max(kept[k], 0.0) + TOUCHING)
            if beyond - kept[k] < best:
                best, which = beyond - kept[k], k
        if which < 0:
            return Nearest(np.inf)
        i, j = self._geoms[which]
        return Nearest(float(best), self._links[i], self._links[j])

    def shortfall(self, q: Array, kept: Array) -> tuple[Array, Array]:
        """By how much shapes are nearer than wanted, and its derivative by q.

        Args:
            q: joint positions, shape (S, n) [rad or m].
            kept: wanted distance of each pair of shapes, above zero, shape (pairs,) [m].

        Returns:
            Root of the sum of squares over all pairs, shape (S,) [m], and its slope, (S, n).
        """
        value, slope = np.zeros(len(q)), np.zeros(q.shape)
        segment = np.zeros(6)
        J = np.zeros((2, 3, self.model.nv))
        body = self.model.geom_bodyid
        for s, row in enumerate(q):
            near = np.flatnonzero(self._place(row) < kept)
            if not near.size:
                continue
            self._mujoco.mj_comPos(self.model, self.data)
            for k in near:
                i, j = self._geoms[k]
                distance = self._distance(i, j, kept[k], segment)
                lack = kept[k] - distance
                if lack <= 0.0 or distance == 0.0:
                    continue
                for side, geom, point in zip(J, (i, j), segment.reshape(2, 3), strict=True):
                    self._mujoco.mj_jac(self.model, self.data, side, None, point, body[geom])
                normal = (segment[3:] - segment[:3]) / distance
                value[s] += lack**2
                slope[s] -= lack * (normal @ (J[1] - J[0]) @ self._drive)
        value = np.sqrt(value)
        slope[value > 0.0] /= value[value > 0.0, None]
        return value, slope

    # -- paths ----------------------------------------------------------------------------------

    def least_along(
        self,
        position: Callable[[Array], Array],
        end: float,
        kept: Array | None = None,
        enough: float = -np.inf,
    ) -> Nearest:
        """Least clearance along a path, to half of ``CLEARANCE_RESOLUTION``.

        From a sample, the next may be as far as the clearance there exceeds the least one found
        so far: no clearance changes by more than the shapes move.

        Args:
            position: joint positions, shape (N, n), at parameters, shape (N,).
            end: the path goes from parameter 0 to this one.
            kept: distances to keep, subtracted from those found, shape (pairs,) [m].
            enough: stop at the first clearance below this [m]. If there is none, the result is
                above it, but not the least.
        """
        kept = np.zeros(len(self._geoms)) if kept is None else kept
        if not len(self._geoms):
            return Nearest(np.inf)
        s = np.linspace(0.0, end, 1001)
        coarse = position(s)
        levers = self._levers(abs(coarse).max(axis=0))
        length = float((abs(np.diff(coarse, axis=0)) @ levers).sum())
        s = np.linspace(0.0, end, 1001 + int(np.ceil(2.0 * length / CLEARANCE_RESOLUTION)))
        q = position(s)
        moved = np.concatenate(([0.0], np.cumsum(abs(np.diff(q, axis=0)) @ levers)))
        best = Nearest(np.inf)
        for k in np.linspace(0, len(s) - 1, COARSE_SAMPLES).astype(int):
            best = min(best, self._nearest(q[k], kept))
            if best.distance < enough:
                return best
        k = 0
        while k < len(s):
            here = self._nearest(q[k], kept)
            best = min(best, here)
            if best.distance < enough:
                return best
            floor = best.distance if enough == -np.inf else enough
            step = max(CLEARANCE_RESOLUTION, here.distance - floor)
            k = max(k + 1, int(np.searchsorted(moved, moved[k] + step, side="right")) - 1)
        return best

    def _levers(self, travel: Array) -> Array:
        """Largest motion of any shape for a unit of each joint, shape (n,) [m per rad or m].

        Args:
            travel: largest absolute joint positions, shape (n,) [rad or m].
        """
        far: dict[str, float] = {}
        for geom, link in enumerate(self._links):
            at = float(np.linalg.norm(self.model.geom_pos[geom])) + self.model.geom_rbound[geom]
            far[link] = max(far.get(link, 0.0), float(at))
        out = np.zeros(self.robot.n)
        names = self.robot.joint_names
        for joint in reversed(self.robot.description.joints):  # children before their parents
            reach = far.get(joint.child, 0.0)
            slide = 0.0
            if joint.kind != "fixed" and reach > 0.0:
                drive = joint.drive
                i, factor = names.index(drive.driver), abs(drive.multiplier)
                sliding = joint.kind == "prismatic"
                out[i] += factor * (1.0 if sliding else reach)
                slide = factor * travel[i] + abs(drive.offset) if sliding else 0.0
            if reach > 0.0:
                reach += float(np.linalg.norm(joint.pose_matrix[:3, 3])) + slide
                far[joint.parent] = max(far.get(joint.parent, 0.0), reach)
        return out


def _readable(robot: Robot, mujoco: Any) -> tuple[dict[str, list[Shape]], tuple[str, ...]]:
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


def _spec(robot: Robot, shapes: dict[str, list[Shape]], mujoco: Any) -> Any:
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


def _movable(robot: Robot, shapes: dict[str, list[Shape]]) -> Iterator[tuple[str, str]]:
    """Pairs of links with shapes that are not rigidly joined."""
    for a, b in combinations([name for name in robot.link_names if name in shapes], 2):
        if robot.link_frame(a).body != robot.link_frame(b).body:
            yield a, b


def _joined(robot: Robot, shapes: dict[str, list[Shape]], first: str, second: str) -> bool:
    """Whether one moving joint, and no link with a shape, is between two links."""
    above = {j.child: j for j in robot.description.joints}

    def ancestors(link: str) -> list[str]:
        out = [link]
        while out[-1] in above:
            out.append(above[out[-1]].parent)
        return out

    up, down = ancestors(first), ancestors(second)
    top = next(link for link in up if link in down)
    way = [*up[: up.index(top)], *down[: down.index(top)]]  # each below one joint of the way
    moving = [link for link in way if above[link].kind != "fixed"]
    between = ({*way, top} - {first, second}) & shapes.keys()
    return len(moving) == 1 and not between
