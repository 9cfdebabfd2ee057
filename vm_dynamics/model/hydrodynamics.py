# SPDX-License-Identifier: Apache-2.0
"""What a fluid does to the links of a robot: added mass, damping, buoyancy, current.

Implements: [From2010] section 3, eqs. (40), (43), (58), for every link instead of the vehicle
alone. In (43) only the linear part of the velocity is relative to the current. Added mass moves
with the relative velocity (Kirchhoff's equations), so a current also makes a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model import fluid_table as columns
from vm_dynamics.model.parameters import check_keys, number, numbers, section
from vm_dynamics.model.tree import Frame

Numbers = tuple[float, ...]
ZERO: Numbers = (0.0,) * 36
SEA_WATER = 1025.0  # [kg/m^3]


@dataclass(frozen=True)
class LinkFluid:
    """Coefficients of one link, all in the link's frame, at its origin, twists [v; w].

    Attributes:
        link: name of the link.
        added_mass: symmetric, positive semidefinite, (6, 6) row major [kg, kg m, kg m^2].
        linear_damping: D of the drag ``-D V``, (6, 6) row major.
        quadratic_damping: D_2 of the drag ``-D_2 (|V| V)`` by components, (6, 6) row major.
        volume: of the fluid it displaces [m^3].
        center_of_buoyancy: [m].
    """

    link: str
    added_mass: Numbers = ZERO
    linear_damping: Numbers = ZERO
    quadratic_damping: Numbers = ZERO
    volume: float = 0.0
    center_of_buoyancy: Numbers = (0.0, 0.0, 0.0)

    @staticmethod
    def of(link: str, values: Mapping[str, Any]) -> LinkFluid:
        """From a section of a file; matrices as six numbers of their diagonal or six rows.

        Raises:
            ParameterError: an unknown key, or a coefficient that would feed energy in.
        """
        what = f"hydrodynamics of {link!r}"
        valid = [key for key in LinkFluid.__dataclass_fields__ if key != "link"]
        check_keys(what, values, valid)
        matrices = {
            key: _matrix(f"{what}: {key}", values[key])
            for key in ("added_mass", "linear_damping", "quadratic_damping")
            if key in values
        }
        added = matrices.get("added_mass", np.zeros((6, 6)))
        if not np.allclose(added, added.T, rtol=1e-9, atol=1e-9):
            raise ParameterError(f"{what}: added_mass is not symmetric")
        for key, matrix in matrices.items():
            least = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))[0]
            if least < -1e-9 * abs(matrix).max():
                raise ParameterError(
                    f"{what}: {key} is negative in some direction (smallest eigenvalue of its "
                    f"symmetric part {least:.4g}), expected none below zero"
                )
        volume = number(f"{what}: volume", values.get("volume", 0.0))
        if volume < 0.0:
            raise ParameterError(f"{what}: volume is {volume:g} m^3, expected none below zero")
        centre = numbers(
            f"{what}: center_of_buoyancy", values.get("center_of_buoyancy", (0, 0, 0)), 3
        )
        flat = {key: tuple(matrix.ravel().tolist()) for key, matrix in matrices.items()}
        return LinkFluid(link, volume=volume, center_of_buoyancy=centre, **flat)


@dataclass(frozen=True)
class Hydrodynamics:
    """A fluid and what it does to each link.

    Attributes:
        links: coefficients of the links that feel it.
        density: of the fluid [kg/m^3].
        current: its velocity in the world, constant and uniform, three numbers [m/s].
    """

    links: tuple[LinkFluid, ...]
    density: float = SEA_WATER
    current: Numbers = (0.0, 0.0, 0.0)

    @staticmethod
    def load(source: str | Path | Mapping[str, Any]) -> Hydrodynamics:
        """From the section ``hydrodynamics`` of a YAML file, or from a mapping like it.

        Raises:
            ParameterError: the file cannot be read, or says something impossible.
        """
        values = section(source, "hydrodynamics")
        check_keys("hydrodynamics", values, ("density", "current", "links"))
        links = values.get("links")
        if not isinstance(links, Mapping) or not links:
            raise ParameterError("hydrodynamics: links: expected a mapping of link names")
        density = number("hydrodynamics: density", values.get("density", SEA_WATER))
        if density < 0.0:
            raise ParameterError(f"hydrodynamics: density is {density:g} kg/m^3, below zero")
        current = numbers("hydrodynamics: current", values.get("current", (0, 0, 0)), 3)
        parts = tuple(LinkFluid.of(str(link), item or {}) for link, item in links.items())
        return Hydrodynamics(parts, density, current)

    def with_current(self, current: ArrayLike) -> Hydrodynamics:
        """The same in another current, three numbers in the world [m/s]."""
        return replace(self, current=numbers("current", current, 3))


def _matrix(name: str, value: Any) -> Array:
    """Matrix (6, 6) from its six rows or from its diagonal."""
    if np.ndim(value) == 2:
        rows = [numbers(f"{name}, row {i + 1}", row, 6) for i, row in enumerate(value)]
        if len(rows) != 6:
            raise ParameterError(f"{name}: got {len(rows)} rows, expected 6")
        return np.array(rows)
    return np.diag(numbers(name, value, 6))


class Fluid(NamedTuple):
    """The fluid around one robot, as kernels take it; ``robot.fluid``."""

    hydrodynamics: Hydrodynamics  # what it was made from
    added_mass: Array  # of every body in its own frame, base first, (nj + 1, 6, 6)
    elements: Array  # coefficients of the links, a row for each that is named
    current: Array  # velocity of the fluid in the world frame, (3,) [m/s]


def fluid_around(
    bodies: int, frame_of: Callable[[str], Frame], hydrodynamics: Hydrodynamics
) -> Fluid:
    """Coefficients of the links as those of the bodies.

    Args:
        bodies: how many there are, the base among them.
        frame_of: gives body and pose of a link by its name.
        hydrodynamics: coefficients of the links.
    """
    added = np.zeros((bodies, 6, 6))
    elements = np.zeros((len(hydrodynamics.links), columns.WIDTH))
    for row, part in zip(elements, hydrodynamics.links, strict=True):
        frame = frame_of(part.link)
        back = se3.adjoint(se3.inverse(frame.pose))
        added[frame.body] += back.T @ np.array(part.added_mass).reshape(6, 6) @ back
        row[columns.BODY] = frame.body
        row[columns.OFFSET : columns.OFFSET + 12] = frame.pose[:3].ravel()
        row[columns.LINEAR : columns.LINEAR + 36] = part.linear_damping
        row[columns.QUADRATIC : columns.QUADRATIC + 36] = part.quadratic_damping
        row[columns.DISPLACED] = hydrodynamics.density * part.volume
        row[columns.CENTRE : columns.CENTRE + 3] = part.center_of_buoyancy
    return Fluid(hydrodynamics, added, elements, np.array(hydrodynamics.current))
