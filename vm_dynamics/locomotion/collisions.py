# SPDX-License-Identifier: Apache-2.0
"""How far the links of a robot are from each other, by the collision shapes of its URDF.

The distances are MuJoCo's; a mesh counts as its convex hull. Looked at are all pairs of links that
can move against each other, but for those that a joint joins and those that touch at rest, which
is the shape nearest to zero within the position limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion.collision_bodies import (
    are_joined,
    collision_spec,
    movable_pairs,
    readable_shapes,
    ways_to_meeting,
)
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

INSTALL = "pip install 'vm_dynamics[sim]'"
JOINED, TOUCH_AT_REST = "joined by a joint", "touch at rest"  # why pairs are left out
TOUCHING = 1e-3  # [m]: links nearer than this at rest touch
# No two shapes move by more than this against each other from one sample of a path to the next,
# where it matters for the least clearance [m].
CLEARANCE_RESOLUTION = 5e-3
SLIDE_STEP = 0.1  # [m], to which the travel of a sliding joint is rounded up
COARSE_STEPS = 1000  # of a path, for how fast the shapes move
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

    pairs: tuple[tuple[str, str], ...]

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
        shapes, self.notes = readable_shapes(robot, mujoco)
        self.model = collision_spec(robot, shapes, mujoco).compile()
        self.data = mujoco.MjData(self.model)
        self._centres = self.data.geom_xpos
        self._levers_at: tuple[bytes, Array] = b"", np.empty(0)
        self._offset, self._drive = np.zeros(self.model.nq), np.zeros((self.model.nq, robot.n))
        for joint in robot.description.joints:
            if joint.kind != "fixed":
                at = self.model.joint(joint.name).qposadr[0]
                drive = joint.drive
                self._offset[at] = drive.offset
                self._drive[at, robot.joint_names.index(drive.driver)] = drive.multiplier
        links = [self.model.body(i).name for i in self.model.geom_bodyid]
        self._links = links
        apart = list(movable_pairs(robot, shapes))
        joined = {pair for pair in apart if are_joined(robot, shapes, *pair)}
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
        self._first, self._second = np.array(geoms, dtype=int).reshape(-1, 2).T
        radius = self.model.geom_rbound
        self._spheres = radius[self._first] + radius[self._second]

    def _touching(self) -> set[tuple[str, str]]:
        """Pairs of links that touch at rest."""
        robot = self.robot
        rest = np.clip(np.zeros(robot.n), robot.lower_limits, robot.upper_limits)
        near = self.distances(rest) < TOUCHING
        geoms = zip(self._first[near], self._second[near], strict=True)
        return {(self._links[i], self._links[j]) for i, j in geoms}

    # -- one shape ------------------------------------------------------------------------------

    def clearance(self, q: Any) -> float:
        """Least distance of two links at joint positions q, shape (n,) [m]."""
        return self.nearest(q).distance

    def nearest(self, q: Any) -> Nearest:
        """The two links that are nearest to each other at joint positions q, shape (n,)."""
        bounds, which = self._bounds(vector("q", q, self.robot.n), np.zeros(len(self._first)))
        return self._named(bounds[which] if which >= 0 else np.inf, which)

    def distances(self, q: Array) -> Array:
        """Distances of all pairs of shapes that are looked at, shape (pairs,) [m]."""
        self._place(q)
        pairs = zip(self._first, self._second, strict=True)
        return np.array([self._distance(i, j, FARTHEST) for i, j in pairs])

    def kept_distances(self, q0: Array, margin: float) -> Array:
        """Distances that a path from q0 keeps, shape (pairs,) [m].

        That is the margin; and half of the distance at q0 for shapes that are nearer there.

        Args:
            q0: joint positions, shape (n,), without any overlap.
            margin: [m], above zero.
        """
        return np.minimum(margin, NEAR_SHARE * self.distances(q0))

    def _place(self, q: Array) -> Array:
        """Put the links where q says; distances of centres, squared, shape (pairs,) [m^2]."""
        self.data.qpos[:] = self._drive @ q + self._offset
        self._mujoco.mj_kinematics(self.model, self.data)
        apart = self._centres[self._first] - self._centres[self._second]
        return np.einsum("pi,pi->p", apart, apart)

    def _distance(self, i: int, j: int, most: float, segment: Array | None = None) -> float:
        return float(self._mujoco.mj_geomDistance(self.model, self.data, i, j, most, segment))

    def _bounds(self, q: Array, kept: Array) -> tuple[Array, int]:
        """Lower bounds of the distances beyond those to keep, and which is the least.

        The least is exact, as are all that might be less.

        Args:
            q: joint positions, shape (n,).
            kept: distances to keep, shape (pairs,) [m].
        """
        bounds = np.sqrt(self._place(q)) - self._spheres - kept
        best, which = np.inf, -1
        for k in np.argsort(bounds):
            if bounds[k] >= best:
                break
            most = min(best, FARTHEST) + max(kept[k], 0.0) + TOUCHING
            bounds[k] = self._distance(self._first[k], self._second[k], most) - kept[k]
            if bounds[k] < best:
                best, which = bounds[k], k
        return bounds, which

    def _named(self, distance: float, which: int) -> Nearest:
        """A distance with the names of its two links; ``which`` is below zero for none."""
        if which < 0:
            return Nearest(np.inf)
        names = (self._links[geoms[which]] for geoms in (self._first, self._second))
        return Nearest(float(distance), *names)

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
        reach = (self._spheres + kept) ** 2
        for s, row in enumerate(q):
            axes_known = False
            for k in (self._place(row) < reach).nonzero()[0]:
                i, j = self._first[k], self._second[k]
                distance = self._distance(i, j, kept[k], segment)
                lack = kept[k] - distance
                if lack <= 0.0 or distance == 0.0:
                    continue
                if not axes_known:
                    self._mujoco.mj_comPos(self.model, self.data)
                    axes_known = True
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
        kept = np.zeros(len(self._first)) if kept is None else kept
        if not len(self._first):
            return Nearest(np.inf)
        coarse = position(np.linspace(0.0, end, COARSE_STEPS + 1))
        levers = self._levers(abs(coarse).max(axis=0))
        fastest = float((abs(np.diff(coarse, axis=0)) @ levers.T).max())
        # so fine that a single step is always within the resolution
        count = 2 + COARSE_STEPS * int(np.ceil(1.2 * fastest / CLEARANCE_RESOLUTION))
        q = position(np.linspace(0.0, end, count))
        turned = np.vstack((np.zeros(self.robot.n), np.cumsum(abs(np.diff(q, axis=0)), axis=0)))
        best, least = np.inf, -1
        for k in np.linspace(0, count - 1, COARSE_SAMPLES).astype(int):
            bounds, which = self._bounds(q[k], kept)
            if bounds[which] < best:
                best, least = bounds[which], which
        k, step = 0, 1
        while k < count and best >= enough:
            bounds, which = self._bounds(q[k], kept)
            if bounds[which] < best:
                best, least = bounds[which], which
            floor = best if enough == -np.inf else enough
            room = np.maximum(CLEARANCE_RESOLUTION, bounds - floor)
            last = count - 1 - k
            while step < last and (levers @ (turned[k + step] - turned[k]) <= room).all():
                step *= 2
            while step > 1 and (levers @ (turned[k + min(step, last)] - turned[k]) > room).any():
                step //= 2
            k += step
        return self._named(best, least)

    def _levers(self, travel: Array) -> Array:
        """Largest motion of two shapes against each other for a unit of each joint.

        Args:
            travel: largest absolute joint positions, shape (n,) [rad or m].

        Returns:
            Shape (pairs, n) [m per rad or m]; zero for joints that are not between the two.
        """
        travel = np.where(self.robot.prismatic, np.ceil(travel / SLIDE_STEP) * SLIDE_STEP, 0.0)
        if self._levers_at[0] == travel.tobytes():
            return self._levers_at[1]
        out = np.zeros((len(self._first), self.robot.n))
        for row, *pair in zip(out, self._first, self._second, strict=True):
            links = [self._links[geom] for geom in pair]
            for geom, way in zip(pair, ways_to_meeting(self.robot, *links), strict=True):
                reach = float(np.linalg.norm(self.model.geom_pos[geom]))
                reach += float(self.model.geom_rbound[geom])
                for joint in way:
                    drive = joint.drive
                    if joint.kind == "prismatic":
                        i = self.robot.joint_names.index(drive.driver)
                        row[i] += abs(drive.multiplier)
                        reach += abs(drive.multiplier) * travel[i] + abs(drive.offset)
                    elif joint.kind != "fixed":
                        i = self.robot.joint_names.index(drive.driver)
                        row[i] += abs(drive.multiplier) * reach
                    reach += float(np.linalg.norm(joint.pose_matrix[:3, 3]))
        self._levers_at = travel.tobytes(), out
        return out
