# SPDX-License-Identifier: Apache-2.0
"""Tells tf where the base is, from odometry, so that RViz can draw the robot in the world.

Of no use to the other nodes, which read odometry itself. It needs the messages tf2_msgs, which
every ROS installation has.
"""

from __future__ import annotations

from typing import Any

from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry

from vm_dynamics.errors import ParameterError
from vm_dynamics.ros.messages import pose_matrix
from vm_dynamics.ros.node import COMMAND, SENSOR, VmNode
from vm_dynamics.ros.process import run


class OdomTfNode(VmNode):
    """Lifecycle node that publishes the base's odometry as a transform."""

    def __init__(self) -> None:
        """Name the node."""
        super().__init__("odom_tf_node")
        self._kind: Any = None

    def start(self) -> None:
        """Odometry in, transforms out."""
        try:
            from tf2_msgs.msg import TFMessage  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise ParameterError(f"tf needs the ROS package tf2_msgs: {error}") from None
        self._kind = TFMessage
        self._out = self.publisher(TFMessage, "/tf", COMMAND)
        self.listen(Odometry, "odom", self._on_odom, SENSOR)

    def _on_odom(self, message: Odometry) -> None:
        if self.is_active:
            self._out.publish(self._kind(transforms=[transform(message)]))


def transform(odometry: Odometry) -> TransformStamped:
    """Transform from the world to the base.

    Raises:
        NonFiniteError: NaN or infinity.
        NotInGroupError: the quaternion is no rotation.
        ParameterError: a frame without a name, of which tf would make nonsense.
    """
    parent, child = odometry.header.frame_id, odometry.child_frame_id
    if not parent or not child:
        raise ParameterError(f"odom: is of frame {child!r} in {parent!r}, expected both names")
    pose = odometry.pose.pose
    pose_matrix(pose.position, pose.orientation)  # raises what is wrong with it
    out = TransformStamped(header=odometry.header, child_frame_id=child)
    place = out.transform.translation
    place.x, place.y, place.z = pose.position.x, pose.position.y, pose.position.z
    out.transform.rotation = pose.orientation
    return out


def main(args: list[str] | None = None) -> int:
    """Entry point."""
    return run(OdomTfNode, args)


if __name__ == "__main__":
    raise SystemExit(main())
