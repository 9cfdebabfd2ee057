# SPDX-License-Identifier: Apache-2.0
"""External wrenches on links, forces of a fluid, and friction in joints.

Whatever pushes a link reaches the dynamics as a wrench on its body in frame {1}: a row of the
array of loads, shape (nj + 1, 6), base first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.dynamics import fluid_kernels, hybrid_kernels
from vm_dynamics.errors import DimensionError, UnknownNameError
from vm_dynamics.lie.groups import check_pose
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import RobotModel, vector

NO_LOADS = np.empty((0, 6))
LINK_WRENCH_AXES = ("link", "world")
# Below this speed dry friction fades to zero, so that a joint at rest does not chatter.
STICTION_SPEED = 1e-2  # [rad/s or m/s]


class LinkWrench(NamedTuple):
    """A wrench on a link.

    Attributes:
        link: name of the link.
        wrench: [f; t] at the link's origin, shape (6,) [N, N m].
        axes: ``link`` if its components are along the link's axes, ``world`` along the world's.
    """

    link: str
    wrench: Any
    axes: str = "link"


def check_wrenches(wrenches: Iterable[LinkWrench]) -> tuple[LinkWrench, ...]:
    """Wrenches with six numbers each and axes that exist."""
    out = []
    for item in wrenches:
        if not isinstance(item, LinkWrench):
            raise DimensionError(
                f"link_wrenches: got {type(item).__name__}, expected a LinkWrench(link, wrench)"
            )
        if item.axes not in LINK_WRENCH_AXES:
            raise UnknownNameError("axes", item.axes, LINK_WRENCH_AXES)
        out.append(item._replace(wrench=vector(f"wrench on {item.link!r}", item.wrench, 6)))
    return tuple(out)


def loads_of(robot: RobotModel, wrenches: tuple[LinkWrench, ...], poses: Any, g: Array) -> Array:
    """Loads on the bodies in {1}, shape (nj + 1, 6).

    Args:
        robot: the robot.
        wrenches: from :func:`check_wrenches`.
        poses: function that gives the pose g_1k of a link by its name.
        g: pose of the base in the world, shape (4, 4).
    """
    out = np.zeros((len(robot.tree.inertias), 6))
    for link, wrench, axes in wrenches:
        pose = poses(link)
        turn = pose[:3, :3] if axes == "link" else g[:3, :3].T
        force = turn @ wrench[:3]
        row = out[robot.link_frame(link).body]
        row[:3] += force
        row[3:] += turn @ wrench[3:] + np.cross(pose[:3, 3], force)
    return out


def fluid_loads(robot: RobotModel, g: Array, q: Array, V: Array, qd: Array) -> Array:
    """Drag, buoyancy and current on the bodies in {1}, shape (nj + 1, 6), or no rows in the dry.

    Args:
        robot: the robot.
        g: pose of the base in the world, shape (4, 4).
        q: shape (n,).
        V: base velocity in {1}, shape (b,).
        qd: joint velocities, shape (n,).
    """
    if robot.fluid is None:
        return NO_LOADS
    _, added_mass, elements, current = robot.fluid
    out = np.zeros((len(added_mass), 6))
    fluid_kernels.fluid_loads.checked(
        robot.packed, added_mass, elements, current, g, q, V, qd, out
    )
    return out


def generalized(robot: RobotModel, q: Array, loads: Array) -> Array:
    """Forces [F; tau] of loads on the bodies, shape (b + n,)."""
    out = np.zeros(robot.b + robot.n)
    if len(loads):
        hybrid_kernels.generalized_loads.checked(robot.packed, q, loads, out)
    return out


def fluid_forces(
    robot: RobotModel, g: ArrayLike, q: ArrayLike, V: ArrayLike, qd: ArrayLike
) -> tuple[Array, Array]:
    """What a fluid does to base and joints beyond its added mass, which the matrices have.

    Drag, buoyancy and, with added mass, the current; zero in the dry.

    Args:
        robot: the robot.
        g: pose of the base in the world, shape (4, 4); only its rotation matters.
        q: shape (n,).
        V: base velocity in {1}, shape (b,).
        qd: joint velocities, shape (n,).

    Returns:
        F in {1}, shape (b,), and tau, shape (n,).
    """
    if robot.fluid is None:
        return np.zeros(robot.b), np.zeros(robot.n)
    state = check_state(robot, g, q, V, qd)
    out = generalized(robot, state[1], fluid_loads(robot, *state))
    return out[: robot.b], out[robot.b :]


def check_state(
    robot: RobotModel, g: ArrayLike, q: ArrayLike, V: ArrayLike, qd: ArrayLike
) -> tuple[Array, Array, Array, Array]:
    """Fresh arrays (g, q, V, qd) that kernels take, or an error that names the argument."""
    motion = vector("V", V, robot.b), vector("qd", qd, robot.n)
    return check_pose(g).copy(), vector("q", q, robot.n), *motion


def joint_friction(robot: RobotModel, qd: Array) -> Array:
    """Effort of the URDF's damping and dry friction at joint velocities, shape (n,).

    .. math:: -d qd - f tanh(qd / v_s)

    Dry friction fades below v_s = ``STICTION_SPEED``.
    """
    return -robot.damping * qd - robot.friction * np.tanh(qd / STICTION_SPEED)
