# SPDX-License-Identifier: Apache-2.0
"""States that are checked once per step, and the dynamics at a checked state.

The dynamics here do not check their arguments again, which saves time in a control cycle.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.compiled import REFUSED
from vm_dynamics.control import _kernels
from vm_dynamics.dynamics import hybrid_kernels
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

# Largest difference, relative to the demand, between a demanded wrench and one that rotors give
# without saturation.
WRENCH_TOLERANCE = 1e-9
CheckedState = tuple[Array, Array, Array, Array]  # g, q, V, qd


def checked_state(
    robot: Robot, g: ArrayLike, q: ArrayLike, V: ArrayLike, qd: ArrayLike
) -> CheckedState:
    """Check a state and return it as arrays that kernels accept; an error names the argument.

    Args:
        robot: the robot.
        g: pose of the base in the world, shape (4, 4).
        q: joint positions, shape (n,) [rad or m].
        V: base velocity in {1}, shape (b,) [m/s, rad/s].
        qd: joint velocities, shape (n,) [rad/s or m/s].

    Returns:
        The four arrays, in the order of the arguments. They are the caller's own if the kernels
        accept them as they are, otherwise copies.
    """
    try:
        _kernels.check.run(robot.packed, g, q, V, qd)
    except REFUSED:
        _kernels.check.compile()
        return robot.check_state(g, q, V, qd)
    return cast(CheckedState, (g, q, V, qd))  # the kernel accepts nothing but arrays


def at_rest(robot: Robot) -> CheckedState:
    """State (g, q, V, qd) at rest: at the origin, in the shape nearest to q = 0 within the limits.

    Every controller makes one step at this state when it is built. Thus all that it calls is
    compiled before the first control cycle, and a robot that it cannot control is refused at once.
    """
    q = np.clip(np.zeros(robot.n), robot.lower_limits, robot.upper_limits)
    return np.eye(4), q, np.zeros(robot.b), np.zeros(robot.n)


def checked_pose(g: ArrayLike) -> Array:
    """Check that a matrix, shape (4, 4), is a pose, and return a copy."""
    try:
        _kernels.check_pose.run(g)
    except REFUSED:
        _kernels.check_pose.compile()
        return check_pose(g).copy()
    return np.array(g)


def inverse_dynamics(robot: Robot, state: CheckedState, Vd: Array, qdd: Array) -> Array:
    """Forces [F; tau] that accelerations require, shape (b + n,), F in {1}.

    Args:
        robot: the robot.
        state: the checked state.
        Vd: rate of the components of V in {1}, shape (b,) [m/s^2, rad/s^2].
        qdd: joint accelerations, shape (n,) [rad/s^2 or m/s^2].
    """
    out = np.empty(robot.b + robot.n)
    loads = robot.loads(*state)
    hybrid_kernels.inverse_dynamics.checked(
        robot.packed, robot.added_mass, *state, Vd, qdd, loads, out
    )
    return out


def hybrid_dynamics(
    robot: Robot,
    state: CheckedState,
    passive: Array,
    acc: Array,
    force: Array,
) -> tuple[Array, Array]:
    """Accelerations [Vd; qdd] and forces [F; tau], where some of each are known.

    Args:
        robot: the robot.
        state: the checked state.
        passive: 1 for a passive degree of freedom, whose force is known, and 0 for an active one,
            whose acceleration is known; shape (b + n,).
        acc: accelerations of the active ones, shape (b + n,), overwritten.
        force: forces on the passive ones, shape (b + n,), overwritten.

    Returns:
        All accelerations and all forces, shape (b + n,) each, base part in {1}.
    """
    return robot.hybrid_sweep(*state, passive, acc, force, robot.loads(*state))


def shortfall(demand: Array, wrench: Array) -> Array:
    """What actuators lack of a demanded wrench, shape (k,); zero where it is only rounding.

    Args:
        demand: demanded wrench, shape (k,) [N, N m].
        wrench: the wrench that the actuators give, shape (k,) [N, N m].
    """
    lacking = demand - wrench
    lacking[abs(lacking) <= WRENCH_TOLERANCE * (1.0 + abs(demand).max())] = 0.0
    return lacking


def cross(a: Array, b: Array) -> Array:
    """Cross product of two 3-vectors; ten times as fast as NumPy's."""
    ax, ay, az = a.tolist()
    bx, by, bz = b.tolist()
    return np.array([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])
