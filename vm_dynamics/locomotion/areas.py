# SPDX-License-Identifier: Apache-2.0
"""The corrected body velocity integral: curvature over the area inside a gait, exponentiated.

Implements: [Mishra2022] eqs. (11), (71), steps 1 to 3 of section V-B1, Appendix C2. Where it
departs: step 3 changes from {C} back to {1} with ``g_1c`` at the shape where the gait starts
(``anchor="start"``), which is accurate to the third order of the gait's size. The default changes
back at the centroid of the area, and goes from there to the start by the motion T of the base on
the straight path between the two: ``T exp(Ad_1c zeta) T^-1``, accurate to the fourth order.

In a plane, with ``F`` the integral of a component along r1, Green's theorem turns the area
integral into a path integral, ``int DA dr1 dr2 = oint F dr2``. It counts every region as often as
the gait goes around it, so a figure of eight or a double turn needs no special case. A gait that
does not lie in a plane encloses no area of a map; the surface is then the fan of straight lines
from the mean of the gait to its points.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.errors import ParameterError, UnknownNameError
from vm_dynamics.lie.se3 import Array, adjoint, exp, inverse
from vm_dynamics.locomotion import _kernels
from vm_dynamics.locomotion.ccf import CurvatureMap, grid_sizes
from vm_dynamics.locomotion.continued import continued_axes, jumps, turned_values
from vm_dynamics.locomotion.fields import (
    curvature_at,
    frame_poses,
    map_rows,
    path_twists,
    poses_at,
)
from vm_dynamics.locomotion.gaits import Gait
from vm_dynamics.locomotion.planes import FrameChoice, GaitPlane, require_rotation
from vm_dynamics.robot import Robot

# Gauss-Legendre nodes in a panel, panels between two corners of a gait, nodes across the fan.
NODES_PER_PANEL, PANELS_PER_PIECE, NODES_ACROSS_FAN = 6, 16, 8
# A gait is plane if the third singular value of its shapes is below this share of the first.
PLANE_TOLERANCE = 1e-9
# A map reaches beyond the nodes of the gait by this share of its extent, because the gait goes
# further between the nodes.
MAP_MARGIN = 0.02
# Steps of order four on the straight path to the centroid of a gait, per rad or m.
STEPS_PER_UNIT = 40
# Shapes on the straight path at which principal axes are followed.
FOLLOWED_SHAPES = 30
ANCHORS = ("centroid", "start")


class FrameWarning(UserWarning):
    """The axes of a frame jump inside a map, so that its integral is not reliable."""


class _Nodes(NamedTuple):
    """Nodes t [s] and weights [s] of a quadrature over the time of a gait, shape (N,) each."""

    t: Array
    weights: Array


def area_displacement(
    robot: Robot,
    gait: Gait,
    frame: str,
    *,
    size: ArrayLike,
    ccf: CurvatureMap | None,
    anchor: str,
) -> tuple[Array, str, int]:
    """Pose of the base after a gait by the area integral of the curvature.

    Args:
        robot: the robot.
        gait: the gait.
        frame: frame {C} of the map; if its axes jump, the centroidal frame replaces it.
        size: number of points of the map along each direction, or one number for both.
        ccf: a map to integrate instead of a new one.
        anchor: the shape at which {C} is changed back to {1}, one of ``ANCHORS``.

    Returns:
        Pose in the frame of the base before the gait, shape (4, 4); name of the frame that was
        used; number of points at which the curvature was computed.
    """
    if anchor not in ANCHORS:
        raise UnknownNameError("anchor", anchor, ANCHORS)
    require_rotation(robot.base_group)
    plane: GaitPlane | None
    if ccf is not None:
        zeta, choice = _of_map(robot, gait, ccf)
        plane, frame, points = ccf.plane, ccf.frame, ccf.values[0].size
    else:
        plane = gait.plane or _plane_of(robot, gait)
        zeta, choice, frame, points = _of_gait(robot, gait, plane, frame, size)
    q0, q = gait.position(0.0), _middle(gait, plane)
    g_1c = _followed_pose(robot, choice, q, q0 if anchor == "start" else q, whole=ccf is None)
    q = q0 if anchor == "start" else q
    T = straight_motion(robot, q0, q)
    loop = exp(adjoint(g_1c) @ robot.base_group.iota @ zeta)
    return T @ loop @ inverse(T), frame, points


def _followed_pose(
    robot: Robot, choice: FrameChoice, begin: Array, end: Array, *, whole: bool
) -> Array:
    """Pose g_1c at the shape ``end``, shape (4, 4).

    If ``whole``, the axes of a virtual chassis are followed on the straight path from ``begin``.
    """
    if not (whole and choice.is_chassis):
        return poses_at(robot, choice, end[None])[0]
    way = begin + np.linspace(0.0, 1.0, FOLLOWED_SHAPES)[:, None] * (end - begin)
    poses = poses_at(robot, choice, way)
    out = poses[-1].copy()
    out[:3, :3] = out[:3, :3] @ continued_axes(poses[:, None], (0, 0))[-1, 0]
    return out


def _middle(gait: Gait, plane: GaitPlane | None) -> Array:
    """Shape at the centroid of the area inside a gait, shape (n,).

    Without a plane, or with hardly any area, it is the mean along the path.
    """
    nodes = _nodes(gait)
    q, qd = gait.position(nodes.t), gait.velocity(nodes.t)
    along = nodes.weights * np.linalg.norm(qd, axis=1)
    mean = along @ q / along.sum()
    if plane is None:
        return mean
    r, rate = _in_plane(plane, gait, nodes.t)
    x, y = (r - r.mean(axis=0)).T
    dx, dy = (nodes.weights[:, None] * rate).T
    area = x @ dy
    # the signed area of a figure of eight is nearly zero, and its centroid may be anywhere
    if abs(area) < 0.1 * np.ptp(x) * np.ptp(y):
        return mean
    centroid = np.array([0.5 * x**2 @ dy, -0.5 * y**2 @ dx]) / area + r.mean(axis=0)
    return plane.shape_at(centroid)


def straight_motion(robot: Robot, start: Array, end: Array) -> Array:
    """Motion of the base while the joints go straight from one shape to another.

    Returns:
        Pose at the end in the frame of the base at the start, shape (4, 4).
    """
    way = end - start
    steps = 1 + int(np.ceil(STEPS_PER_UNIT * np.linalg.norm(way)))
    s = np.linspace(0.0, 1.0, 2 * steps + 1)[:, None]
    twists, none = path_twists(robot, start + s * way, np.broadcast_to(way, (len(s), robot.n)))
    poses = np.empty((steps + 1, 4, 4))
    poses[0] = np.eye(4)
    _kernels.transport.checked(twists, none, np.zeros(6), 1.0 / steps, poses)
    return poses[-1]


def _of_gait(
    robot: Robot, gait: Gait, plane: GaitPlane | None, frame: str, size: ArrayLike
) -> tuple[Array, FrameChoice, str, int]:
    """Integral over a surface inside the gait, in a frame without jumps if there is one.

    Returns:
        Integral, shape (b,); the frame; its name; number of points on the surface.
    """
    middle = _middle(gait, plane)
    # axes nearest to those in the middle, because those nearest to {1} may jump on the way
    near = robot.frame("virtual_chassis", middle).pose
    centre = middle if plane is None else plane.q_c
    for name in (frame, "centroidal"):
        choice = FrameChoice.of(robot, name, centre).near(near)
        if plane is None:
            zeta, poses = _over_fan(robot, gait, choice)
        else:
            zeta, poses = _over_plane(robot, gait, plane, choice, grid_sizes(size))
        if not jumps(poses):
            break
    return zeta, choice, name, poses.shape[0] * poses.shape[1]


def _plane_of(robot: Robot, gait: Gait) -> GaitPlane | None:
    """The plane in which a gait in full shape space lies, or None."""
    q = gait.position(_nodes(gait).t)
    centre = q.mean(axis=0)
    _, singular, right = np.linalg.svd(q - centre, full_matrices=False)
    if robot.n < 2 or (len(singular) > 2 and singular[2] > PLANE_TOLERANCE * singular[0]):
        return None
    return GaitPlane(robot.joint_names, centre, np.ascontiguousarray(right[:2].T), ("-", "-"))


def _nodes(gait: Gait) -> _Nodes:
    """Gauss-Legendre nodes and weights on all smooth pieces of a gait."""
    x, w = np.polynomial.legendre.leggauss(NODES_PER_PANEL)
    edges = np.concatenate(
        [
            np.linspace(a, b, PANELS_PER_PIECE + 1)[:-1]
            for a, b in zip(gait.breaks[:-1], gait.breaks[1:], strict=True)
        ]
        + [gait.breaks[-1:]]
    )
    half = np.diff(edges)[:, None] / 2.0
    return _Nodes((edges[:-1, None] + half * (1.0 + x)).ravel(), (half * w).ravel())


def _in_plane(plane: GaitPlane, gait: Gait, t: Array) -> tuple[Array, Array]:
    """Coordinates of a gait in a plane and their rates at times t, shape (N, 2) each."""
    if gait.plane is plane:
        return gait.coordinates(t), gait.velocity(t) @ np.linalg.pinv(plane.basis).T
    back = np.linalg.pinv(plane.basis).T
    return (gait.position(t) - plane.q_c) @ back, gait.velocity(t) @ back


def _over_plane(
    robot: Robot, gait: Gait, plane: GaitPlane, choice: FrameChoice, size: tuple[int, int]
) -> tuple[Array, Array]:
    """Integral over a plane area inside the gait, from a map over the gait's extent.

    Returns:
        Integral, shape (b,), and the frames g_1c of the map, shape (s1, s2, 4, 4).
    """
    nodes = _nodes(gait)
    r, rate = _in_plane(plane, gait, nodes.t)
    low, high = r.min(axis=0), r.max(axis=0)
    width = high - low
    if width.min() <= 1e-12 * max(1.0, width.max()):  # a line to and fro has no area
        return np.zeros(robot.b), np.tile(np.eye(4), (1, 1, 1, 1))
    r1, r2 = (
        np.linspace(low[i] - MAP_MARGIN * width[i], high[i] + MAP_MARGIN * width[i], size[i])
        for i in range(2)
    )
    values: Array = np.empty((robot.b, *size))
    map_rows(robot, plane, choice, r1, r2, rows=(0, size[0]), out=values)
    poses = frame_poses(robot, plane, choice, r1, r2)
    if choice.is_chassis and jumps(poses):
        at = np.linalg.pinv(plane.basis) @ (_middle(gait, plane) - plane.q_c)
        start = int(np.argmin(abs(r1 - at[0]))), int(np.argmin(abs(r2 - at[1])))
        turns = continued_axes(poses, start)
        values = turned_values(values, turns)
        poses[..., :3, :3] = poses[..., :3, :3] @ turns
    return _green(r1, r2, values, r, rate[:, 1] * nodes.weights), poses


def _green(r1: Array, r2: Array, values: Array, r: Array, dr2: Array) -> Array:
    """Minus the area integral of a map inside a path, ``-oint F dr2``, shape (b,).

    F is the integral along r1 of a cubic spline through the map, interpolated by a bicubic spline.

    Args:
        r1: first coordinates of the grid, shape (s1,).
        r2: second coordinates of the grid, shape (s2,).
        values: the map, shape (b, s1, s2).
        r: points of the path, shape (N, 2).
        dr2: weighted rates of the second coordinate at these points, shape (N,).
    """
    from scipy.interpolate import RectBivariateSpline, make_interp_spline

    k1, k2 = min(3, r1.size - 1), min(3, r2.size - 1)
    F = make_interp_spline(r1, values, k=k1, axis=1).antiderivative()(r1)
    out = np.zeros(len(values))
    for i, component in enumerate(F):
        surface = RectBivariateSpline(r1, r2, component, kx=k1, ky=k2)
        out[i] = -surface.ev(r[:, 0], r[:, 1]) @ dr2
    return out


def _over_fan(robot: Robot, gait: Gait, choice: FrameChoice) -> tuple[Array, Array]:
    """Integral over the fan ``q = c + s (gait(t) - c)``.

    Returns:
        Integral, shape (b,), and the frames g_1c at the nodes, shape (S, N, 4, 4).
    """
    nodes = _nodes(gait)
    q, qd = gait.position(nodes.t), gait.velocity(nodes.t)
    centre = nodes.weights @ q / nodes.weights.sum()
    x, w = np.polynomial.legendre.leggauss(NODES_ACROSS_FAN)
    s, w = (1.0 + x) / 2.0, w / 2.0
    arm = q - centre
    shapes = centre + s[:, None, None] * arm
    first = np.broadcast_to(arm, shapes.shape)
    second = s[:, None, None] * qd
    flat = (a.reshape(-1, robot.n) for a in (shapes, first, second))
    values, poses = curvature_at(robot, choice, next(flat), x=next(flat), y=next(flat))
    values = values.reshape(len(s), len(nodes.t), robot.b)
    zeta = -np.einsum("s,t,stb->b", w, nodes.weights, values)
    return zeta, poses.reshape(len(s), len(nodes.t), 4, 4)


def _of_map(robot: Robot, gait: Gait, ccf: CurvatureMap) -> tuple[Array, FrameChoice]:
    """Integral of a given map inside the gait, shape (b,), and the map's frame."""
    if ccf.is_stack or ccf.plane.joint_names != robot.joint_names:
        raise ParameterError(
            f"ccf: got a {'stack of maps' if ccf.is_stack else 'map'} of {ccf.robot_name!r}, "
            f"expected one plane of {robot.name!r}"
        )
    nodes = _nodes(gait)
    r, rate = _in_plane(ccf.plane, gait, nodes.t)
    gap = float(abs(ccf.plane.shape_at(r) - gait.position(nodes.t)).max())
    if gap > 1e-9:
        raise ParameterError(
            f"ccf: the path leaves the plane of the map by {gap:.3g}; expected a map of its plane"
        )
    for name, x, grid in zip(("r1", "r2"), r.T, (ccf.r1, ccf.r2), strict=True):
        if x.min() < grid[0] - 1e-9 or x.max() > grid[-1] + 1e-9:
            raise ParameterError(
                f"ccf: the path goes from {x.min():.4g} to {x.max():.4g} in {name}, the map only "
                f"from {grid[0]:.4g} to {grid[-1]:.4g}; expected a larger extent"
            )
    choice = FrameChoice.of(robot, ccf.frame, ccf.plane.q_c)
    rows, columns = (
        grid[(grid >= x.min()) & (grid <= x.max())]
        for x, grid in zip(r.T, (ccf.r1, ccf.r2), strict=True)
    )
    if jumps(frame_poses(robot, ccf.plane, choice, rows, columns)):
        warnings.warn(
            f"ccf: the axes of frame {ccf.frame!r} jump inside the path, where principal moments "
            "meet or change places; expect a wrong displacement, or leave the map away",
            FrameWarning,
            stacklevel=5,
        )
    return _green(ccf.r1, ccf.r2, ccf.values, r, rate[:, 1] * nodes.weights), choice
