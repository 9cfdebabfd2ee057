# SPDX-License-Identifier: Apache-2.0
"""Rigid-body inertias: combination, change of frame, and what makes one physical."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import DimensionError, NonFiniteError
from vm_dynamics.lie.se3 import Array, hat3

# A CAD export prints about six digits; principal moments of a flat plate meet the triangle
# inequality with equality and may miss it by as much.
TRIANGLE_TOLERANCE = 1e-5
# Beyond it the products of a mass matrix overflow.
LARGEST_INERTIA = 1e100


@dataclass(frozen=True)
class Inertia:
    """Mass, centre of mass and rotational inertia of a rigid body in some frame.

    Attributes:
        mass: [kg].
        com: centre of mass, three numbers [m].
        moments: xx xy xz yy yz zz about the centre of mass, in the frame's axes [kg m^2].
    """

    mass: float = 0.0
    com: tuple[float, ...] = (0.0, 0.0, 0.0)
    moments: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    @staticmethod
    def of(mass: float, com: ArrayLike, tensor: Any) -> Inertia:
        """From a mass, a centre (3,) and a rotational inertia (3, 3) or six moments."""
        try:
            weight = float(mass)
            centre = np.asarray(com, dtype=float)
            moments = np.asarray(tensor, dtype=float)
        except (TypeError, ValueError) as error:
            raise DimensionError(f"mass, com or inertia: expected numbers ({error})") from error
        if moments.shape == (3, 3):
            if not np.allclose(moments, moments.T, rtol=1e-9, atol=1e-12):
                raise DimensionError("inertia: got a matrix that is not symmetric")
            moments = moments[np.triu_indices(3)]
        if centre.shape != (3,):
            raise DimensionError(f"com: got shape {centre.shape}, expected (3,)")
        if moments.shape != (6,):
            raise DimensionError(f"inertia: got shape {moments.shape}, expected (3, 3) or (6,)")
        if not (abs(np.array([weight, *centre, *moments])) < LARGEST_INERTIA).all():
            raise NonFiniteError(
                "inertia: mass, com or inertia holds NaN, infinity or a number beyond "
                f"{LARGEST_INERTIA:g}: {weight}, {centre}, {moments}"
            )
        return Inertia(weight, tuple(centre.tolist()), tuple(moments.tolist()))

    @property
    def tensor(self) -> Array:
        """Rotational inertia about the centre of mass, shape (3, 3)."""
        xx, xy, xz, yy, yz, zz = self.moments
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

    @property
    def matrix(self) -> Array:
        """Spatial inertia ``[[m, -m c^], [m c^, I_c - m c^ c^]]`` at the origin, shape (6, 6)."""
        moment = self.mass * hat3(np.array(self.com))
        out = np.zeros((6, 6))
        out[:3, :3] = self.mass * np.eye(3)
        out[:3, 3:] = -moment
        out[3:, :3] = moment
        out[3:, 3:] = self.tensor - moment @ hat3(np.array(self.com))
        return out

    def __add__(self, other: Inertia) -> Inertia:
        """Both bodies as one, in the frame that they share."""
        return combine((self, other))

    def moved(self, pose: Array) -> Inertia:
        """The same body seen from frame i, given g_ij, shape (4, 4), of its frame j."""
        rotation = pose[:3, :3]
        com = rotation @ np.array(self.com) + pose[:3, 3]
        return Inertia.of(self.mass, com, _symmetric(rotation @ self.tensor @ rotation.T))

    def unphysical(self) -> str | None:
        """The inequality that no mass distribution violates but this one does, or None."""
        if self.mass < 0.0:
            return f"mass = {self.mass:g} kg is negative"
        principal = np.linalg.eigvalsh(self.tensor)
        scale = abs(principal).max()
        if principal[0] < -1e-12 * scale:
            return (
                "inertia is not positive definite: smallest principal moment "
                f"{principal[0]:.6g} < 0 kg m^2"
            )
        return None

    def triangle_violation(self) -> str | None:
        """The violated triangle inequality of the principal moments, or None."""
        a, b, c = np.linalg.eigvalsh(self.tensor)
        if a + b >= c * (1.0 - TRIANGLE_TOLERANCE):
            return None
        return (
            f"triangle inequality I1 + I2 >= I3 of the principal moments is violated: "
            f"{a:.6g} + {b:.6g} < {c:.6g} kg m^2"
        )


def combine(parts: Iterable[Inertia]) -> Inertia:
    """One inertia of bodies that are rigidly joined, all given in one frame."""
    bodies = tuple(parts)
    mass = sum(b.mass for b in bodies)
    if mass == 0.0:
        tensor = np.sum([b.tensor for b in bodies], axis=0)
        return Inertia.of(0.0, np.zeros(3), tensor)
    com = np.sum([b.mass * np.array(b.com) for b in bodies], axis=0) / mass
    tensor = np.zeros((3, 3))
    for b in bodies:
        d = np.array(b.com) - com
        tensor += b.tensor + b.mass * (d @ d * np.eye(3) - np.outer(d, d))
    return Inertia.of(mass, com, tensor)


def _symmetric(matrix: Array) -> Array:
    return 0.5 * (matrix + matrix.T)
