# SPDX-License-Identifier: Apache-2.0
"""What a joint sample decides, at its time and between two samples.

All in frame {1}, twists [v; w]. The matrices between two samples are those of the samples, blended
linearly in time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.compiled import EntryPoint
from vm_dynamics.dynamics.coriolis_kernels import composite_motion
from vm_dynamics.dynamics.general_kernels import general_mass_matrix
from vm_dynamics.dynamics.mass_kernels import mass_matrix
from vm_dynamics.estimation import _kernels
from vm_dynamics.estimation.history import Event
from vm_dynamics.lie.groups import SE3
from vm_dynamics.lie.se3 import Array, hat3
from vm_dynamics.model.tree import build
from vm_dynamics.robot import Robot

ORIGIN = np.zeros(3)
_write_shape, _blend = _kernels.write_shape, _kernels.blend


class Shape:
    """The joint data at one time, as views of one array that can be blended at once.

    Attributes:
        numbers: all of them.
        xi: the twist iota A qd, shape (6,).
        com: centre of mass, shape (3,).
        point: that moments of the momentum are about, com or the origin of {1}, shape (3,).
        lift: from a momentum to the twist iota mu of the locked velocity, shape (6, 6).
        M_b: locked inertia, shape (b, b).
        A: connection, shape (b, n).
        q: shape (n,).
        qd: shape (n,).
        P: rate of M_b, shape (b, b), empty unless it was asked for.
    """

    __slots__ = ("A", "M_b", "P", "com", "lift", "numbers", "point", "q", "qd", "xi")

    def __init__(self, b: int, n: int, *, centroidal: bool, rates: bool) -> None:
        """Room for the data of a robot with n joints on a group of dimension b."""
        shapes = ((6,), (3,), (6, 6), (b, b), (b, n), (n,), (n,), (b, b) if rates else (0, 0))
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        self.numbers = np.zeros(ends[-1])
        parts = np.split(self.numbers, ends[:-1])
        views = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        self.xi, self.com, self.lift, self.M_b, self.A, self.q, self.qd, self.P = views
        self.point = self.com if centroidal else ORIGIN


class Shapes:
    """Joint data of one robot.

    Attributes:
        model: the packed robot, its base on SE(3), from which the group's matrices are projected.
        fluid: what is around it.
        about: 1 if moments of the momentum are about the centre of mass; with added mass no point
            moves with the momentum, and 0 means the origin of {1}.
        iota: inclusion of the base group, shape (6, b).
        pinv: its pseudo-inverse, shape (b, 6).
        projector: of forces on those that the group feels, ``(iota iota^+)^T``, shape (6, 6).
    """

    def __init__(self, robot: Robot, *, centroidal: bool, rates: bool) -> None:
        """Prepare.

        Args:
            robot: the robot.
            centroidal: whether momenta are about the centre of mass, where there is no fluid.
            rates: whether P is needed; not in a fluid.
        """
        self.model = build(robot.description, SE3, robot.gravity).packed
        self.fluid, self._inertias = robot.fluid, robot.body_inertias
        self.about = float(centroidal and self.fluid is None)
        self.iota = np.array(robot.base_group.iota, order="C")
        self.pinv = np.array(robot.base_group.iota_pinv, order="C")
        self.projector = np.ascontiguousarray((self.iota @ self.pinv).T)
        self._size = robot.b, robot.n
        self._rates = rates
        self._sample = self.room()
        self._rigid = np.empty((6 + robot.n, 6 + robot.n))
        self._mass = self._rigid if self.fluid is None else np.empty_like(self._rigid)
        self._settings = self._rigid, self._mass, self.iota, self.projector, self.about
        s = self._sample
        self._outputs = s.xi, s.com, s.lift, s.M_b, s.A, s.q, s.qd
        self._ten, self._rate = np.empty(10), np.empty(10)

    @property
    def entries(self) -> list[EntryPoint]:
        """What is called at run time."""
        out = [mass_matrix, _write_shape, _blend]
        if self._rates:
            out.append(composite_motion)
        if self.fluid is not None:
            out.append(general_mass_matrix)
        return out

    def room(self) -> Shape:
        """A shape to blend into."""
        return Shape(*self._size, centroidal=self.about != 0.0, rates=self._rates)

    def sample(self, q: ArrayLike, qd: ArrayLike) -> Array | None:
        """Numbers of the shape of a joint sample, or None if it holds no sensible ones.

        Raises:
            TypeError: q or qd is no contiguous array of floats.
            ValueError: they have another size, or q is not finite.
        """
        mass_matrix.run(self.model, q, self._rigid)
        if self.fluid is not None:
            general_mass_matrix.run(self.model, self._inertias, q, self._mass)
        if not _write_shape.run(*self._settings, q, qd, *self._outputs):
            return None
        s = self._sample
        if self._rates:
            composite_motion.run(self.model, q, qd, self._ten, self._rate)
            s.P[:] = self.iota.T @ (SIGNS * self._rate[NINE]) @ self.iota
        return s.numbers.copy()

    def between(
        self, left: Event[Any] | None, right: Event[Any] | None, t: float, out: Shape
    ) -> Shape:
        """The shape at time t between two samples, into ``out``; without one the other holds."""
        if left is None or right is None:
            only = right if left is None else left
            assert only is not None
            out.numbers[:] = only.data
        else:
            weight = (t - left.stamp) / (right.stamp - left.stamp)
            weight = 0.0 if weight < 0.0 else 1.0 if weight > 1.0 else weight
            _blend.run(left.data, right.data, weight, out.numbers)
        return out

    def shift(self, shape: Shape) -> Array:
        """Moments of the group's forces from the origin to where momenta have them, (b, b)."""
        X = np.eye(6)
        X[3:, :3] = -hat3(shape.point)
        return self.iota.T @ X @ self.pinv.T


# Where the nine numbers of an inertia's rate, d and dI, stand in [[0, -d^], [d^, dI]]
NINE = np.array(
    [
        [0, 0, 0, 0, 3, 2],
        [0, 0, 0, 3, 0, 1],
        [0, 0, 0, 2, 1, 0],
        [0, 3, 2, 4, 5, 6],
        [3, 0, 1, 5, 7, 8],
        [2, 1, 0, 6, 8, 9],
    ]
)
SIGNS = np.array(
    [
        [0, 0, 0, 0, 1, -1],
        [0, 0, 0, -1, 0, 1],
        [0, 0, 0, 1, -1, 0],
        [0, -1, 1, 1, 1, 1],
        [1, 0, -1, 1, 1, 1],
        [-1, 1, 0, 1, 1, 1],
    ],
    dtype=float,
)
