# SPDX-License-Identifier: Apache-2.0
"""States checked once a step, and the dynamics at them without checking again."""

from __future__ import annotations

from typing import Any

import numpy as np

from vm_dynamics.compiled import REFUSED
from vm_dynamics.control import _kernels
from vm_dynamics.dynamics import hybrid_kernels
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot


def checked_state(
    robot: Robot, g: Any, q: Any, V: Any, qd: Any
) -> tuple[Array, Array, Array, Array]:
    """A state as arrays that kernels take, or an error that names the argument.

    Args:
        robot: the robot.
        g: pose of the base in the world, shape (4, 4).
        q: joint positions, shape (n,).
        V: base velocity in {1}, shape (b,).
        qd: joint velocities, shape (n,).
    """
    try:
        _kernels.check.run(robot.packed, g, q, V, qd)
    except REFUSED:
        _kernels.check.compile()
        return robot.check_state(g, q, V, qd)
    return g, q, V, qd


def at_rest(robot: Robot) -> tuple[Array, Array, Array, Array]:
    """A state to rehearse a step at: at the origin, the shape nearest to q = 0 within limits.

    A controller rehearses a step when it is built. So whatever it calls is compiled before its
    first cycle, on every robot, and a robot that it cannot work with is refused at once.
    """
    q = np.clip(np.zeros(robot.n), robot.lower_limits, robot.upper_limits)
    return np.eye(4), q, np.zeros(robot.b), np.zeros(robot.n)


def checked_pose(g: Any) -> Array:
    """A copy of a rigid displacement, shape (4, 4), or an error."""
    try:
        _kernels.check_pose.run(g)
    except REFUSED:
        _kernels.check_pose.compile()
        return check_pose(g).copy()
    return g.copy()


def inverse_dynamics(
    robot: Robot, state: tuple[Array, Array, Array, Array], Vd: Array, qdd: Array
) -> Array:
    """Forces [F; tau], shape (b + n,), that accelerations need at a checked state."""
    out = np.empty(robot.b + robot.n)
    loads = robot.loads(*state)
    hybrid_kernels.inverse_dynamics.checked(
        robot.packed, robot.added_mass, *state, Vd, qdd, loads, out
    )
    return out


def hybrid_dynamics(
    robot: Robot,
    state: tuple[Array, Array, Array, Array],
    passive: Array,
    acc: Array,
    force: Array,
) -> tuple[Array, Array]:
    """All accelerations and forces, shape (b + n,), at a checked state.

    Args:
        robot: the robot.
        state: the checked state.
        passive: 1 for a passive degree of freedom, shape (b + n,).
        acc: accelerations of the others, shape (b + n,), overwritten.
        force: forces on the passive ones, shape (b + n,), overwritten.
    """
    return robot.hybrid_sweep(*state, passive, acc, force, robot.loads(*state))


def cross(a: Array, b: Array) -> Array:
    """Vector product of 3-vectors; NumPy's takes ten times as long."""
    ax, ay, az = a.tolist()
    bx, by, bz = b.tolist()
    return np.array([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])
