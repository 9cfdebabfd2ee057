# SPDX-License-Identifier: Apache-2.0
"""Writes messages to an MCAP file, which Foxglove and ``ros2 bag`` open; needs no ROS.

The frames of a robot's links are written as ROS has them: each in the frame of its parent, those
that never move once and latched on ``/tf_static``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array, quaternion
from vm_dynamics.model.robot_model import RobotModel
from vm_dynamics.ros.node import LATCHED


class Frame(NamedTuple):
    """A frame in another one.

    Attributes:
        parent: the other one.
        child: its name.
        pose: shape (4, 4).
    """

    parent: str
    child: str
    pose: Array


def fixed_frames(robot: RobotModel) -> list[Frame]:
    """Links that never move in the frame of their parent."""
    return [
        Frame(joint.parent, joint.child, joint.pose_matrix)
        for joint in robot.description.joints
        if joint.kind == "fixed"
    ]


def moving_frames(robot: RobotModel, q: Array, g: Array, world: str = "world") -> list[Frame]:
    """The root link in the world, and all other links that move in the frame of their parent.

    Args:
        robot: whose links they are.
        q: joint positions, shape (n,) [rad or m].
        g: pose of the base in the world, shape (4, 4).
        world: name of that frame.
    """
    position: Mapping[str, float] = dict(zip(robot.joint_names, q, strict=True))
    out = [Frame(world, robot.root_link, g)]
    for joint in robot.description.joints:
        if joint.kind != "fixed":
            drive = joint.drive
            at = drive.multiplier * position[drive.driver] + drive.offset
            out.append(Frame(joint.parent, joint.child, joint.pose_at(at)))
    return out


class Recording:
    """A recording in the making: a folder with an ``.mcap`` file and its metadata."""

    def __init__(self, folder: Path) -> None:
        """Begin.

        Args:
            folder: must not exist.

        Raises:
            ParameterError: rosbags is not installed.
        """
        try:
            from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
            from rosbags.typesys import Stores, get_typestore
        except ImportError:
            raise ParameterError(
                "a recording needs rosbags: pip install 'rosbags>=0.11'"
            ) from None
        self._types = get_typestore(Stores.ROS2_JAZZY)
        self._writer = Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP)
        # of the chunks in the file, which every reader of MCAP knows
        self._writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
        self._writer.open()
        self._connections: dict[str, Any] = {}

    def close(self) -> None:
        """End it; without this it is no file that anybody can read."""
        self._writer.close()

    def write(self, topic: str, kind: str, nanos: int, raw: bytes, *, kept: bool = False) -> None:
        """Write a message as it travels.

        Args:
            topic: with its namespace.
            kind: such as ``nav_msgs/msg/Odometry``.
            nanos: when, simulated time [ns].
            raw: the message.
            kept: whether the topic is latched.
        """
        if topic not in self._connections:
            self._connections[topic] = self._writer.add_connection(
                topic, kind, typestore=self._types, offered_qos_profiles=_qos(kept)
            )
        self._writer.write(self._connections[topic], nanos, raw)

    def write_frames(self, nanos: int, frames: Iterable[Frame], *, fixed: bool = False) -> None:
        """Write frames to ``/tf``, or to ``/tf_static`` if they never move."""
        of = self._types.types
        seconds, rest = divmod(nanos, 1_000_000_000)
        stamp = of["builtin_interfaces/msg/Time"](sec=seconds, nanosec=rest)
        transforms = []
        for parent, child, g in frames:
            place = of["geometry_msgs/msg/Vector3"](*map(float, g[:3, 3]))
            turn = of["geometry_msgs/msg/Quaternion"](*quaternion(g))
            transforms.append(
                of["geometry_msgs/msg/TransformStamped"](
                    header=of["std_msgs/msg/Header"](stamp=stamp, frame_id=parent),
                    child_frame_id=child,
                    transform=of["geometry_msgs/msg/Transform"](place, turn),
                )
            )
        message = of["tf2_msgs/msg/TFMessage"](transforms=transforms)
        self._serialize("/tf_static" if fixed else "/tf", nanos, message, kept=fixed)

    def write_message(self, topic: str, nanos: int, message: Any) -> None:
        """Write a message of rclpy.

        Its own serialization may leave unused bytes at the end, which rosbags refuses to read.
        """
        self._serialize(topic, nanos, self._converted(message))

    def _serialize(self, topic: str, nanos: int, message: Any, *, kept: bool = False) -> None:
        kind = message.__msgtype__
        self.write(topic, kind, nanos, bytes(self._types.serialize_cdr(message, kind)), kept=kept)

    def _converted(self, value: Any) -> Any:
        """Message of rosbags, or a value of one, from that of rclpy."""
        if hasattr(value, "get_fields_and_field_types"):
            parts = {
                name: self._converted(getattr(value, name))
                for name in value.get_fields_and_field_types()
            }
            return self._types.types[type_name(type(value))](**parts)
        if isinstance(value, list):
            return [self._converted(item) for item in value]
        return np.array(value) if isinstance(value, array) else value


def type_name(kind: type) -> str:
    """Name of a message type, as ``nav_msgs/msg/Odometry``."""
    return f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}"


def _qos(kept: bool) -> tuple[Any, ...]:
    """Quality of service that a player offers again."""
    if not kept:
        return ()
    from rosbags.interfaces import (
        Qos,
        QosDurability,
        QosHistory,
        QosLiveliness,
        QosReliability,
        QosTime,
    )

    never = QosTime(sec=2147483647, nsec=4294967295)
    return (
        Qos(
            history=QosHistory.KEEP_LAST,
            depth=LATCHED.depth,
            reliability=QosReliability.RELIABLE,
            durability=QosDurability.TRANSIENT_LOCAL,
            deadline=never,
            lifespan=never,
            liveliness=QosLiveliness.AUTOMATIC,
            liveliness_lease_duration=never,
            avoid_ros_namespace_conventions=False,
        ),
    )
