# SPDX-License-Identifier: Apache-2.0
"""Streams the map of the connection's curvature: which loops of two joints turn the base.

The map is centred on the present shape, or on a fixed one, and made anew when the shape has moved
by more than ``threshold``. With it come a gait, drawn over the map, and the displacement of the
base that one round of it gives. What stays valid is sent again from time to time with a new stamp:
a viewer drops what is older than its memory of tf. A robot with fewer than two joints has no map.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from geometry_msgs.msg import Point, PoseStamped
from sensor_msgs.msg import PointCloud2, PointField
from visualization_msgs.msg import Marker

from vm_dynamics.errors import DimensionError, ParameterError, UnknownNameError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.locomotion import CurvatureMap, Gait, ccf_map, curvature_atlas, gait_displacement
from vm_dynamics.locomotion.planes import MAP_FRAMES, LimitsWarning
from vm_dynamics.robot import Robot
from vm_dynamics.ros.diagnostics import OK, WARN
from vm_dynamics.ros.joints import JointSample
from vm_dynamics.ros.messages import fill_pose, to_stamp
from vm_dynamics.ros.node import LATCHED
from vm_dynamics.ros.parameters import RobotParameters, parameter
from vm_dynamics.ros.process import run
from vm_dynamics.ros.robot_node import RobotNode

GAIT_POINTS = 100
RESTAMP_PERIOD = 1_000_000_000  # [ns] after which what is still valid gets a new stamp


@dataclass(frozen=True)
class CcfParameters(RobotParameters):
    """Parameters of the curvature map node."""

    GROUPS: ClassVar[tuple[str, ...]] = ("payload", "gait")

    joints: tuple[str, ...] = parameter(
        (), "the two joints of the map; if empty, the pair whose loops turn the base most"
    )
    extent: float = parameter(
        0.5, "how far the map goes from its centre", unit="rad or m", minimum=1e-6, maximum=100.0
    )
    size: int = parameter(30, "points along each side", minimum=2, maximum=2000)
    frame: str = parameter("virtual_chassis", "frame of the components", choices=MAP_FRAMES)
    center: tuple[float, ...] = parameter(
        (), "centre of the map, a number for each joint; if empty, the present shape", of=float
    )
    threshold: float = parameter(
        0.02, "how far a joint must move for a new map", unit="rad or m", minimum=0.0
    )
    rate: float = parameter(10.0, "most maps a second", unit="Hz", minimum=0.01, maximum=1000.0)
    component: str = parameter(
        "", "which component z and intensity show, as wz; if empty, the largest rotation"
    )
    z_scale: float = parameter(1.0, "height of a curvature of one", unit="m", minimum=0.0)
    gait_radius: float = parameter(
        0.25, "radius of the circle that is drawn and integrated", unit="rad or m", minimum=0.0
    )


class CcfNode(RobotNode):
    """Lifecycle node that publishes the curvature map, a gait and its displacement."""

    PARAMETERS = CcfParameters

    def __init__(self) -> None:
        """Name the node."""
        super().__init__("ccf_node")
        self._centre: Array | None = None
        self._next = 0
        self._again = 0
        self._maps = 0
        self._sent: list[tuple[Any, Any]] = []  # publishers and what they sent last
        self._joints: tuple[str, str] | None = None

    def start(self) -> None:
        """Latched, so that a viewer that comes late sees the last map."""
        self._map = self.publisher(PointCloud2, "~/map", LATCHED)
        self._gait = self.publisher(Marker, "~/gait", LATCHED)
        self._displacement = self.publisher(PoseStamped, "~/displacement", LATCHED)

    def prepare(self, robot: Robot, parameters: CcfParameters) -> None:
        """Make a small map and go round its gait, so that all is compiled, or refused."""
        p = parameters
        if p.center and len(p.center) != robot.n:
            raise DimensionError(
                f"parameter center: got {len(p.center)} numbers, expected {robot.n} or none"
            )
        if p.joints and len(p.joints) != 2:
            raise ParameterError(f"parameter joints: got {list(p.joints)}, expected two or none")
        if not _has_map(robot, p):
            return
        small = _map_of(robot, p, np.zeros(robot.n), _pair(robot, p, np.zeros(robot.n)), size=2)
        if p.component and p.component not in small.components:
            raise UnknownNameError("component", p.component, small.components)
        gait_displacement(robot, Gait.circle(small.plane, 0.1), tolerance=1e-8)
        fill_pose(PoseStamped().pose, np.eye(4))

    def use_robot(self, robot: Robot, prepared: None) -> None:
        """Begin anew."""
        self._centre = self._joints = None

    def retune(self, prepared: None, before: CcfParameters) -> None:
        """The next joint state makes a new map."""
        self._centre = self._joints = None

    def begin(self) -> None:
        """The same."""
        self._centre = None

    def on_joints(self, sample: JointSample) -> None:
        """A new map if the shape has moved enough."""
        p, robot = self.parameters, self.robot
        if robot is None or not _has_map(robot, p):
            return
        if sample.nanos < self._next and not sample.restarted:
            return
        centre = np.array(p.center) if p.center else sample.q
        if self._centre is None or abs(centre - self._centre).max() > p.threshold:
            self._centre = centre.copy()
            self._next = sample.nanos + int(1e9 / p.rate)
            self._joints = _pair(robot, p, centre)
            self._sent = self._messages(robot, _map_of(robot, p, centre, self._joints))
            self._maps += 1
        elif sample.nanos < self._again and not sample.restarted:
            return
        self._again = sample.nanos + RESTAMP_PERIOD
        for publisher, message in self._sent:
            message.header.stamp = to_stamp(sample.nanos)
            message.header.frame_id = p.frame_of(robot.root_link)
            publisher.publish(message)

    def _messages(self, robot: Robot, ccf: CurvatureMap) -> list[tuple[Any, Any]]:
        """Publishers, and what of a map they are to send."""
        p = self.parameters
        shown = _shown(ccf, p.component)
        cloud = _cloud(ccf, shown, p.z_scale)
        if p.gait_radius <= 0.0:
            return [(self._map, cloud)]
        gait = Gait.circle(ccf.plane, p.gait_radius)
        displacement = PoseStamped()
        fill_pose(displacement.pose, gait_displacement(robot, gait, tolerance=1e-8).pose)
        return [
            (self._map, cloud),
            (self._gait, _marker(gait, ccf, shown, p.z_scale)),
            (self._displacement, displacement),
        ]

    def describe(self) -> tuple[bytes, str, dict[str, str]]:
        """Which joints, how many maps."""
        if self.robot is not None and not _has_map(self.robot, self.parameters):
            return WARN, f"no map: it needs two joints, the robot has {self.robot.n}", {}
        if self._joints is None:
            return WARN, "waiting for joints", {}
        return OK, "mapping", {"joints": ", ".join(self._joints), "maps": str(self._maps)}


def _has_map(robot: Robot, p: CcfParameters) -> bool:
    """Whether there is a plane of shapes, or joints were asked for that must be there."""
    return robot.n >= 2 or bool(p.joints)


def _pair(robot: Robot, p: CcfParameters, q: Array) -> tuple[str, str]:
    """The joints of the map."""
    if p.joints:
        return p.joints[0], p.joints[1]
    best = curvature_atlas(robot, q).ranked(count=1)[0]
    return best.first, best.second


def _map_of(
    robot: Robot, p: CcfParameters, centre: Array, joints: tuple[str, str], size: int = 0
) -> CurvatureMap:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LimitsWarning)  # a shape near a limit is nothing wrong
        return ccf_map(
            robot,
            joints,
            centre,
            extent=p.extent,
            size=size or p.size,
            frame=p.frame,
            progress=False,
        )


def _shown(ccf: CurvatureMap, component: str) -> Array:
    """The component to show, shape (s1, s2)."""
    if component:
        return ccf.component(component)
    turning = ccf.values[ccf.rotation]
    return turning[int(np.argmax(abs(turning).max(axis=(1, 2))))]


def _cloud(ccf: CurvatureMap, shown: Array, z_scale: float) -> PointCloud2:
    """Organized cloud: a row for each value of the second joint, a column for the first."""
    names = ("x", "y", "z", "intensity", *ccf.components)
    r1, r2 = np.meshgrid(ccf.r1, ccf.r2)
    layers = (r1, r2, z_scale * shown.T, shown.T, *np.swapaxes(ccf.values, 1, 2))
    values = np.stack(layers, axis=-1).astype(np.float32)
    step = 4 * len(names)
    return PointCloud2(
        height=len(ccf.r2),
        width=len(ccf.r1),
        fields=[
            PointField(name=name, offset=4 * i, datatype=PointField.FLOAT32, count=1)
            for i, name in enumerate(names)
        ],
        is_bigendian=False,
        point_step=step,
        row_step=step * len(ccf.r1),
        data=values.tobytes(),
        is_dense=True,
    )


def _marker(gait: Gait, ccf: CurvatureMap, shown: Array, z_scale: float) -> Marker:
    """The gait as a line that lies on the map."""
    out = Marker(ns="gait", id=0, type=Marker.LINE_STRIP, action=Marker.ADD)
    out.scale.x = 0.01 * float(ccf.r1[-1] - ccf.r1[0])
    out.color.r, out.color.g, out.color.b, out.color.a = 0.1, 0.1, 0.1, 1.0
    out.pose.orientation.w = 1.0
    times = np.linspace(0.0, gait.duration, GAIT_POINTS)
    for a, b in gait.coordinates(times):
        i = int(np.clip(np.searchsorted(ccf.r1, a), 0, len(ccf.r1) - 1))
        j = int(np.clip(np.searchsorted(ccf.r2, b), 0, len(ccf.r2) - 1))
        out.points.append(Point(x=float(a), y=float(b), z=float(z_scale * shown[i, j])))
    return out


def main(args: list[str] | None = None) -> int:
    """Entry point."""
    return run(CcfNode, args)


if __name__ == "__main__":
    raise SystemExit(main())
