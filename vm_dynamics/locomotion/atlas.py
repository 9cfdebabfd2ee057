# SPDX-License-Identifier: Apache-2.0
"""Curvature atlas: which pairs of joints turn and shift the base.

Implements: [Mishra2022] Theorem 2 and eq. (71) for small loops of every pair of joints.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vm_dynamics.errors import ParameterError, UnknownNameError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion.planes import component_names, is_rotation, require_rotation
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot


class AtlasEntry(NamedTuple):
    """A pair of joints, and the displacement of the base by a loop in one component.

    Attributes:
        first: name of the joint that the loop moves first.
        second: name of the other joint.
        component: name of the component, such as ``wz``.
        displacement: displacement of the base in that component [rad or m].
        share: its share of the whole rotation (or translation); 1 if the other components of
            that kind are zero.
    """

    first: str
    second: str
    component: str
    displacement: float
    share: float


@dataclass(frozen=True, eq=False)
class CurvatureAtlas:
    """Displacement of the base by a loop of each pair of joints; see :func:`curvature_atlas`.

    Attributes:
        robot_name: name of the robot.
        joint_names: its joints.
        q: joint positions, shape (n,) [rad or m].
        area: area of the loops [rad^2], anticlockwise from the first joint to the second.
        frame: name of the frame in which displacements are expressed.
        components: names of the components.
        rotation: which components are rotations, shape (b,), bool.
        matrix: ``-DA(e_i) e_j area``, antisymmetric in i and j, shape (b, n, n) [rad or m].
    """

    robot_name: str
    joint_names: tuple[str, ...]
    q: Array
    area: float
    frame: str
    components: tuple[str, ...]
    rotation: NDArray[np.bool_]
    matrix: Array

    def ranked(self, component: str | None = None, count: int | None = None) -> list[AtlasEntry]:
        """Pairs of joints, the one with the largest displacement first.

        Args:
            component: component to rank by, such as ``wz``; if None, the largest rotation of each
                pair.
            count: number of pairs; if None, all.
        """
        if component is not None and component not in self.components:
            raise UnknownNameError("component", component, self.components)
        if count is not None and count < 1:
            raise ParameterError(f"count: got {count}, expected at least 1")
        entries = []
        for i, j in combinations(range(len(self.joint_names)), 2):
            moved = self.matrix[:, i, j]
            if component is None:
                k = int(np.argmax(np.where(self.rotation, abs(moved), -1.0)))
            else:
                k = self.components.index(component)
            whole = float(np.linalg.norm(moved[self.rotation == self.rotation[k]]))
            share = abs(float(moved[k])) / whole if whole > 0.0 else 0.0
            names = self.joint_names[i], self.joint_names[j]
            entries.append(AtlasEntry(*names, self.components[k], float(moved[k]), share))
        entries.sort(key=lambda entry: -abs(entry.displacement))
        return entries[:count]

    def __str__(self) -> str:
        """The five pairs with the largest displacement in each component."""
        lines = [
            f"{self.robot_name}: displacement of the base by a loop of {self.area:g} rad^2, "
            f"frame {self.frame}"
        ]
        for component, turns in zip(self.components, self.rotation, strict=True):
            best = [e for e in self.ranked(component, 5) if abs(e.displacement) > 1e-12]
            lines.append(f"\n{component}:" + ("" if best else "  nothing"))
            for e in best:
                size = np.degrees(e.displacement) if turns else 1000.0 * e.displacement
                unit = "deg" if turns else "mm"
                lines.append(
                    f"  {e.first} -> {e.second}: {size:+9.4f} {unit}  "
                    f"({100.0 * e.share:3.0f} % of its {'rotation' if turns else 'shift'})"
                )
        return "\n".join(lines)

    def table(self) -> list[dict[str, str | float]]:
        """One row for each pair: the names of its joints and all components [rad or m]."""
        return [
            {
                "first": self.joint_names[i],
                "second": self.joint_names[j],
                **dict(zip(self.components, self.matrix[:, i, j].tolist(), strict=True)),
            }
            for i, j in combinations(range(len(self.joint_names)), 2)
        ]


def curvature_atlas(
    robot: Robot, q: ArrayLike | None = None, area: float = 0.01, *, frame: str = "base"
) -> CurvatureAtlas:
    """Displacement of the base by a small loop of every pair of joints, at one shape.

    Args:
        robot: the robot; its base group must have a rotation.
        q: joint positions, shape (n,) [rad or m]; zero if None.
        area: area of the loops [rad^2, or rad m and m^2 with prismatic joints]. Displacements are
            proportional to it, which is accurate for small loops.
        frame: frame of the displacements: ``base``, ``centroidal`` or ``virtual_chassis``.

    Raises:
        ParameterError: the base cannot turn, the robot has fewer than two joints, or the area is
            not above zero.
    """
    require_rotation(robot.base_group)
    if robot.n < 2:
        raise ParameterError(f"robot: {robot.name!r} has {robot.n} joints, expected two or more")
    if not (np.isfinite(area) and area > 0.0):
        raise ParameterError(f"area: got {area!r}, expected a number above zero [rad^2]")
    shape = vector("q", np.zeros(robot.n) if q is None else q, robot.n)
    return CurvatureAtlas(
        robot_name=robot.name,
        joint_names=robot.joint_names,
        q=shape,
        area=float(area),
        frame=frame,
        components=component_names(robot.base_group),
        rotation=is_rotation(robot.base_group),
        matrix=-area * robot.curvature(shape, frame=frame),
    )
