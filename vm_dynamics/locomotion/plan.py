# SPDX-License-Identifier: Apache-2.0
"""A plan that turns the base: the path of the joints, and what it does on the way."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array, exp, inverse, log
from vm_dynamics.locomotion.collisions import LeftOut
from vm_dynamics.locomotion.gaits import Gait
from vm_dynamics.locomotion.loops import Loop

# Columns of a table that hold the pose of the base: position [m] and quaternion.
POSE_COLUMNS = ("base_x", "base_y", "base_z", "base_qx", "base_qy", "base_qz", "base_qw")


class BasePath(NamedTuple):
    """Poses of a base without momentum, in the frame of the base before the motion.

    Attributes:
        t: times, shape (N,) [s].
        poses: shape (N, 4, 4).
    """

    t: Array
    poses: Array

    def at(self, t: ArrayLike) -> Array:
        """Poses at times t, shape (..., 4, 4): on the screw from one given pose to the next."""
        times = np.asarray(t, dtype=float)
        out = np.empty((times.size, 4, 4))
        last = max(len(self.t) - 2, 0)
        before = np.clip(np.searchsorted(self.t, times.ravel(), side="right") - 1, 0, last)
        for row, k, x in zip(out, before, times.ravel(), strict=True):
            row[:] = self.poses[k]
            if len(self.t) > 1:
                share = np.clip((x - self.t[k]) / (self.t[k + 1] - self.t[k]), 0.0, 1.0)
                row[:] = row @ exp(share * log(inverse(self.poses[k]) @ self.poses[k + 1]))
        return out.reshape(*times.shape, 4, 4)


@dataclass(frozen=True, eq=False)
class ReorientationPlan:
    """A closed joint path that turns the base; made by :func:`vm_dynamics.plan_reorientation`.

    Attributes:
        joint_names: the robot's joints.
        path: the path, at rest at both ends: ``plan.path.position(t)``, ``.velocity(t)``,
            ``.sample(count)``. None if nothing moves.
        duration: duration of the path [s].
        loops: number of loops.
        wanted: wanted rotation matrix, shape (3, 3).
        rotation: rotation matrix that the path gives, by ``integrate``, shape (3, 3).
        displacement: pose of the base after the path, in the frame of the base before it, shape
            (4, 4).
        error: angle between the two rotations [rad].
        reached: whether the error is within the tolerance.
        reason: how the rotation is reached, or why it is not.
        notes: assumptions in place of missing or unrealistic limits, and what was not checked.
        clearance: least distance of two links on the path [m], to half of
            ``vm_dynamics.locomotion.CLEARANCE_RESOLUTION``; infinite if nothing was checked.
        nearest: names of these two links; empty if nothing was checked.
        left_out: pairs of links that were not held against each other, and why.
        peak_effort: largest share of a joint's effort limit that the path takes, with the motion
            of the base and the joints' friction; 0 without effort limits.
        base_path: poses of the base on the path.
        loop: one of the loops, without its timing; None if nothing moves.
    """

    joint_names: tuple[str, ...]
    path: Gait | None
    duration: float
    loops: int
    wanted: Array
    rotation: Array
    displacement: Array
    error: float
    reached: bool
    reason: str
    notes: tuple[str, ...]
    clearance: float
    nearest: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    peak_effort: float
    base_path: BasePath
    loop: Loop | None

    def save_csv(
        self, path: str | os.PathLike[str], rate: float = 100.0, *, base: bool = False
    ) -> Path:
        """Write times, joint positions and joint velocities as a table.

        Args:
            path: path of the file.
            rate: approximate number of rows per second [Hz]; both ends of the path have a row.
            base: whether the pose of the base follows, position [m] and quaternion (x, y, z, w),
                in the frame of the base before the motion.

        Returns:
            The path of the file.
        """
        if not (np.isfinite(rate) and rate > 0.0):
            raise ParameterError(f"rate: got {rate!r}, expected a number above zero [Hz]")
        if self.path is None:
            raise ParameterError("plan: nothing moves, so there is nothing to write")
        samples = self.path.sample(2 + int(self.duration * rate))
        rows = np.column_stack((samples.t, samples.q, samples.qd))
        heads = ["time", *self.joint_names, *(f"{name}_velocity" for name in self.joint_names)]
        if base:
            heads += POSE_COLUMNS
            rows = np.hstack((rows, _rows_of(self.base_path.at(samples.t))))
        file = Path(path)
        with file.open("w", newline="", encoding="utf-8") as stream:
            table = csv.writer(stream)
            table.writerow(heads)
            table.writerows([f"{x:.9g}" for x in row] for row in rows)
        return file


def _rows_of(poses: Array) -> Array:
    """Positions and quaternions of poses, in the order of ``POSE_COLUMNS``, shape (N, 7)."""
    from scipy.spatial.transform import Rotation

    return np.hstack((poses[:, :3, 3], Rotation.from_matrix(poses[:, :3, :3]).as_quat()))
