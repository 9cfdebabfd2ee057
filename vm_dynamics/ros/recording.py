# SPDX-License-Identifier: Apache-2.0
"""Writes messages to an MCAP file, which Foxglove and ``ros2 bag`` open; needs no ROS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie._kernels import quaternion
from vm_dynamics.lie.se3 import Array
from vm_dynamics.ros.node import LATCHED


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
            from rosbags.rosbag2 import StoragePlugin, Writer
            from rosbags.typesys import Stores, get_typestore
        except ImportError:
            raise ParameterError("a recording needs rosbags: pip install rosbags") from None
        self._types = get_typestore(Stores.ROS2_JAZZY)
        self._writer = Writer(folder, version=9, storage_plugin=StoragePlugin.MCAP)
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

    def write_frames(self, nanos: int, parent: str, frames: Mapping[str, Array]) -> None:
        """Write poses of frames in a parent frame to ``/tf``."""
        of = self._types.types
        seconds, rest = divmod(nanos, 1_000_000_000)
        stamp = of["builtin_interfaces/msg/Time"](sec=seconds, nanosec=rest)
        header = of["std_msgs/msg/Header"](stamp=stamp, frame_id=parent)
        transforms = []
        for child, g in frames.items():
            x, y, z, w = quaternion(g)
            place = of["geometry_msgs/msg/Vector3"](*map(float, g[:3, 3]))
            turn = of["geometry_msgs/msg/Quaternion"](x, y, z, w)
            transforms.append(
                of["geometry_msgs/msg/TransformStamped"](
                    header=header,
                    child_frame_id=child,
                    transform=of["geometry_msgs/msg/Transform"](place, turn),
                )
            )
        kind = "tf2_msgs/msg/TFMessage"
        message = of[kind](transforms=transforms)
        self.write("/tf", kind, nanos, bytes(self._types.serialize_cdr(message, kind)))


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
