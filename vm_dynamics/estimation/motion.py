# SPDX-License-Identifier: Apache-2.0
"""Motion of pose and momentum between measurements, under known forces.

Implements: row 1 of [Mishra2022] eq. (18) as ``dh/dt = ad_V^T h + F``. In the dry the momentum m
is h with its moments about the centre of mass: both halves turn with the base,
``dm/dt = [m_v x w; m_w x w] + F``, so that in the world it changes by the forces alone. All in
frame {1}, in six dimensions, order [v; w].
"""

from __future__ import annotations

import numpy as np

from vm_dynamics.compiled import EntryPoint
from vm_dynamics.dynamics.fluid_kernels import fluid_loads
from vm_dynamics.estimation import _kernels
from vm_dynamics.estimation.estimate import is_reasonable
from vm_dynamics.estimation.shape import Shape, Shapes
from vm_dynamics.lie.se3 import Array, hat3
from vm_dynamics.robot import Robot


class Motion:
    """How a robot moves whose joints are known."""

    def __init__(self, robot: Robot, shapes: Shapes) -> None:
        """Prepare."""
        self._shapes = shapes
        self._weight = robot.total_mass * np.array(robot.gravity)
        self._loads = np.zeros((len(robot.tree.inertias), 6))
        self._V = np.empty(6)

    @property
    def entries(self) -> list[EntryPoint]:
        """What is called at run time."""
        if self._shapes.fluid is None:
            return [_kernels.move, _kernels.dry_force]
        return [_kernels.half_move, _kernels.dry_force, fluid_loads]

    def step(
        self, shape: Shape, wrenches: Array, g: Array, m: Array, dt: float
    ) -> tuple[Array, Array] | None:
        """Pose and momentum after a time dt, or None when they are beyond reason.

        Args:
            shape: in the middle of the step.
            wrenches: on {1}, row 0 along its axes, row 1 along the world's, shape (2, 6).
            g: pose, shape (4, 4).
            m: momentum, shape (6,).
            dt: [s].
        """
        g_out, m_out = np.empty((4, 4)), np.empty(6)
        if self._shapes.fluid is None:
            is_sane = _kernels.move.run(
                shape.point,
                shape.xi,
                shape.lift,
                shape.com,
                self._weight,
                wrenches,
                self._shapes.projector,
                g,
                m,
                dt,
                g_out,
                m_out,
            )
            return (g_out, m_out) if is_sane else None
        V = self._V
        force = self.force(shape, wrenches, g, shape.lift @ m - shape.xi, m)
        _kernels.half_move.run(shape.xi, shape.lift, force, g, m, dt, g_out, m_out, V)
        m_out += 0.5 * dt * self.force(shape, wrenches, g_out, V, m_out)
        return (g_out, m_out) if is_reasonable(g_out, m_out) else None

    def force(self, shape: Shape, wrenches: Array, g: Array, V: Array, m: Array) -> Array:
        """All that pushes the momentum, shape (6,).

        The wrenches, weight, and what a fluid does; there moments are about the origin of {1},
        which moves past the momentum: h_v x v.

        Args:
            shape: joint data.
            wrenches: on {1}, row 0 along its axes, row 1 along the world's, shape (2, 6).
            g: pose, shape (4, 4).
            V: twist of the base, shape (6,), of which the fluid's force depends.
            m: momentum, shape (6,).
        """
        shapes, out = self._shapes, np.empty(6)
        _kernels.dry_force.run(
            shape.point, shape.com, self._weight, wrenches, shapes.projector, g, out
        )
        if shapes.fluid is not None:
            fluid, loads = shapes.fluid, self._loads
            loads[:] = 0.0
            fluid_loads.run(
                shapes.model,
                fluid.added_mass,
                fluid.elements,
                fluid.current,
                g,
                shape.q,
                V,
                shape.qd,
                loads,
            )
            total = loads.sum(axis=0)
            total[3:] += hat3(m[:3]) @ V[:3]
            out += shapes.projector @ total
        return out
