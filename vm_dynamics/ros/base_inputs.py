# SPDX-License-Identifier: Apache-2.0
"""What nodes hear of the base: its pose and known wrenches, checked and in {1}."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from geometry_msgs.msg import (
    PoseStamped,
    PoseWithCovarianceStamped,
    TransformStamped,
    WrenchStamped,
)
from nav_msgs.msg import Odometry

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot
from vm_dynamics.ros.messages import body_covariance, pose_matrix, wrench_to_group, wrench_vector
from vm_dynamics.ros.parameters import RobotParameters, parameter

POSE_TYPES = {
    "pose": PoseStamped,
    "pose_with_covariance": PoseWithCovarianceStamped,
    "odometry": Odometry,
    "transform": TransformStamped,
}


@dataclass(frozen=True)
class BaseParameters(RobotParameters):
    """Parameters of nodes that hear poses of the base."""

    GROUPS: ClassVar[tuple[str, ...]] = ("payload", "pose")

    pose_type: str = parameter(
        "pose", "message type of the topic pose", choices=tuple(POSE_TYPES), read_only=True
    )
    pose_position_deviation: float = parameter(
        5e-3, "noise of a position that comes without covariance", unit="m", minimum=1e-9
    )
    pose_attitude_deviation: float = parameter(
        5e-3, "noise of an attitude that comes without covariance", unit="rad", minimum=1e-9
    )
    pose_use_covariance: bool = parameter(
        True, "whether the covariance of pose messages is believed"
    )
    pose_delay: float = parameter(
        0.0,
        "how late the stamps of poses are against those of the joints",
        unit="s",
        minimum=-1.0,
        maximum=1.0,
    )
    world_frame: str = parameter(
        "",
        "frame that poses must be in, unless they name none, and of the odometry; if empty, any",
    )

    @property
    def pose_deviation(self) -> tuple[float, float]:
        """Of position [m] and attitude [rad]."""
        return self.pose_position_deviation, self.pose_attitude_deviation


class Seconds:
    """Stamps as time since the first of them, where a float still tells nanoseconds apart."""

    def __init__(self) -> None:
        """None yet."""
        self._first = 0

    def __call__(self, nanos: int) -> float:
        """Time of a stamp [ns] since the first [s]."""
        if self._first == 0:
            self._first = nanos
        return 1e-9 * (nanos - self._first)


class BasePose(NamedTuple):
    """A pose of the root link.

    Attributes:
        g: in the world, shape (4, 4).
        covariance: in coordinates of the base group, shape (b, b); None if it is not known.
        frame: of the world.
    """

    g: Array
    covariance: Array | None
    frame: str


def read_pose(message: Any, robot: Robot, p: BaseParameters) -> BasePose:
    """Pose of a message of one of ``POSE_TYPES``.

    Raises:
        ParameterError: it is in another frame, or of another link.
    """
    frame, child, position, orientation, covariance = _parts(message)
    root = p.frame_of(robot.root_link)
    if p.world_frame and frame not in ("", p.world_frame):
        raise ParameterError(f"pose: is in frame {frame!r}, expected {p.world_frame!r}")
    if child not in ("", root):
        raise ParameterError(f"pose: is of frame {child!r}, expected {root!r}")
    g = pose_matrix(position, orientation)
    noise = None
    if covariance is not None and p.pose_use_covariance:
        noise = body_covariance(covariance, g, robot.base_group)
    return BasePose(g, noise, frame)


def read_wrench(message: WrenchStamped, robot: Robot, p: RobotParameters) -> Array:
    """Known wrench on the base in {1}, shape (b,) [N, N m].

    Raises:
        ParameterError: its frame moves against the root link.
    """
    frame, root, pose = message.header.frame_id, p.frame_of(robot.root_link), None
    if frame not in ("", root):
        link = robot.link_frame(p.link_of(frame))
        if link.body != 0:
            raise ParameterError(
                f"base_wrench: is in frame {frame!r}, which moves against {root!r}"
            )
        pose = link.pose
    return wrench_to_group(robot.base_group, wrench_vector(message.wrench), pose)


def _parts(message: Any) -> tuple[str, str, Any, Any, Any]:
    """Frame, child frame, position, orientation and covariance (or None) of a pose message."""
    frame = message.header.frame_id
    if isinstance(message, PoseStamped):
        return frame, "", message.pose.position, message.pose.orientation, None
    if isinstance(message, TransformStamped):
        transform = message.transform
        return frame, message.child_frame_id, transform.translation, transform.rotation, None
    child = message.child_frame_id if isinstance(message, Odometry) else ""
    pose = message.pose.pose
    return frame, child, pose.position, pose.orientation, message.pose.covariance
