# SPDX-License-Identifier: Apache-2.0
"""A node of a robot: its description from a topic or parameter, its joint states by name.

The robot may come later: until then an active node waits and says so in its diagnostics. A changed
description replaces the robot; one that cannot be read is refused with its reason, and the old
robot stays.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import fields
from typing import Any, ClassVar

from sensor_msgs.msg import JointState
from std_msgs.msg import String

from vm_dynamics.errors import UrdfWarning, VmDynamicsError
from vm_dynamics.robot import Robot
from vm_dynamics.ros.diagnostics import WARN
from vm_dynamics.ros.joints import JointReader, JointSample
from vm_dynamics.ros.node import LATCHED, SENSOR, VmNode
from vm_dynamics.ros.parameters import NodeParameters, RobotParameters
from vm_dynamics.ros.spinning import without_collection

# The parameters that shape the robot or how its joints are read.
_ROBOT_CHANGES = {
    RobotParameters.ros_name(item.name)
    for item in fields(RobotParameters)
    if item.name not in {shared.name for shared in fields(NodeParameters)}
}


class RobotNode(VmNode):
    """Base of the nodes that compute with a robot.

    Attributes:
        robot: the robot, or None until there is a description.
    """

    PARAMETERS: ClassVar[type[RobotParameters]] = RobotParameters

    def __init__(self, name: str) -> None:
        """No robot yet."""
        super().__init__(name)
        self.robot: Robot | None = None
        self.prepared: Any = None  # of the parameters that were last asked for
        self._reader: JointReader | None = None
        self._description = ""
        self._next_robot: Robot | None = None  # likewise

    # -- what a node adds -------------------------------------------------------------------------

    def prepare(self, robot: Robot, parameters: Any) -> Any:
        """What the node needs with a robot and parameters: built, compiled, rehearsed.

        Called without the lock, while the node goes on with what it has.

        Raises:
            VmDynamicsError: robot and parameters do not fit each other, or the node.
        """

    def use_robot(self, robot: Robot, prepared: Any) -> None:
        """Another robot, and what was prepared for it; called with the lock."""

    def use_payload(self, robot: Robot, prepared: Any, before: Any) -> None:
        """The same robot with another payload; called with the lock, ``before`` as in retune."""
        self.use_robot(robot, prepared)

    def retune(self, prepared: Any, before: Any) -> None:
        """Parameters have changed from ``before``, the robot has not; called with the lock."""

    def on_joints(self, sample: JointSample) -> None:
        """A good joint state came while the node is active."""

    # -- the robot --------------------------------------------------------------------------------

    def configure(self) -> bool:
        """Get ready, and read the robot if it is known."""
        super().configure()
        if self.parameters.robot_description:
            if not self._load(self.parameters.robot_description):
                return False
        else:
            # a robot takes its time to be built
            self.listen_aside(String, "robot_description", self._on_description, LATCHED)
        # last, so that a cycle has the newest of all else
        self.listen(
            JointState,
            "joint_states",
            self._on_joint_state,
            SENSOR,
            last=True,
            needed=True,
            sole=True,
        )
        return True

    def forget(self) -> None:
        """No robot."""
        self.robot, self._reader, self._description = None, None, ""

    def _on_description(self, message: String) -> None:
        if message.data == self._description and self.robot is not None:
            return
        self._load(message.data)

    def _load(self, text: str) -> bool:
        """Read a description; keep the old robot if it is no good."""
        try:
            with without_collection():
                robot = self._built(text, self.parameters)
                prepared = self.prepare(robot, self.parameters)
        except VmDynamicsError as error:
            kept = "the old robot stays" if self.robot is not None else "there is no robot yet"
            self.health.trouble("bad robot_description", f"robot_description: {error}; {kept}")
            return False
        with self.lock:
            self._adopt(robot, text, prepared)
        return True

    def _adopt(self, robot: Robot, text: str, prepared: Any) -> None:
        self._reader = JointReader(
            robot,
            differentiate=self.parameters.missing_velocity == "differentiate",
            cutoff=self.parameters.velocity_cutoff,
        )
        self.robot, self._description = robot, text
        self.use_robot(robot, prepared)
        self.get_logger().info(f"robot {robot!r}")

    def _built(self, text: str, parameters: Any) -> Robot:
        """Robot of a description, with its doubts in the log."""
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always", UrdfWarning)
            robot = parameters.robot_of(text)
        for doubt in doubts:
            self.get_logger().warning(f"robot_description: {doubt.message}")
        return robot

    def _on_joint_state(self, message: JointState) -> None:
        if self._reader is None or not self.is_active:
            return
        start = time.perf_counter()
        self.on_joints(self._reader.read(message))
        self.health.cycle(start)

    def accept(self, changed: Any, names: set[str]) -> None:
        """Prepare what the new parameters need, or refuse them."""
        text = changed.robot_description or self._description
        self._next_robot = self.robot
        with without_collection():
            if text and _ROBOT_CHANGES & names:
                self._next_robot = self._built(text, changed)
            if self._next_robot is not None:
                self.prepared = self.prepare(self._next_robot, changed)

    def use_parameters(self, before: Any) -> None:
        """Take over what was prepared."""
        robot, prepared, self.prepared = self._next_robot, self.prepared, None
        if robot is None:
            return
        if robot is self.robot:
            self.retune(prepared, before)
        elif self.robot is not None and _only_payload(before, self.parameters):
            self.robot = robot
            self.use_payload(robot, prepared, before)
            self.get_logger().info(f"payload {self.parameters.payload_mass:g} kg, robot {robot!r}")
        else:
            self._adopt(robot, self.parameters.robot_description or self._description, prepared)

    def condition(self) -> tuple[bytes, str, dict[str, str]]:
        """What an active node reports: the robot too, or that there is none."""
        if self.robot is None:
            return WARN, "waiting for robot_description", {}
        level, message, values = super().condition()
        return level, message, {"robot": repr(self.robot), **values}


def _only_payload(before: Any, now: Any) -> bool:
    """Whether parameters differ in the payload and in nothing else."""
    changed = [x.name for x in fields(now) if getattr(now, x.name) != getattr(before, x.name)]
    return all(name.startswith("payload_") for name in changed)
