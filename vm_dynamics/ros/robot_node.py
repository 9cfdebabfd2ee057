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
from vm_dynamics.robot import Robot, load
from vm_dynamics.ros.diagnostics import WARN
from vm_dynamics.ros.joints import JointReader, JointSample
from vm_dynamics.ros.node import LATCHED, SENSOR, VmNode
from vm_dynamics.ros.parameters import NodeParameters, RobotParameters
from vm_dynamics.submerged import submerge

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
        self._reader: JointReader | None = None
        self._description = ""
        self._checked: Robot | None = None  # of the parameters that were last asked for

    # -- what a node adds -------------------------------------------------------------------------

    def check(self, robot: Robot, parameters: Any) -> None:
        """Refuse a robot and parameters that do not fit each other, with a VmDynamicsError."""

    def use_robot(self, robot: Robot) -> None:
        """A new robot, or other parameters of it, that passed the check: build what needs it."""

    def retune(self, before: Any) -> None:
        """Parameters have changed from ``before``, and the robot is the same."""

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
            self.listen(String, "robot_description", self._on_description, LATCHED)
        # last, so that a cycle has the newest of all else
        self.listen(JointState, "joint_states", self._on_joint_state, SENSOR, last=True)
        return True

    def _release(self) -> bool:
        self.robot, self._reader, self._description = None, None, ""
        return super()._release()

    def _on_description(self, message: String) -> None:
        if message.data == self._description and self.robot is not None:
            return
        self._load(message.data)

    def _load(self, text: str) -> bool:
        """Read a description; keep the old robot if it is no good."""
        try:
            robot = self._built(text, self.parameters)
        except VmDynamicsError as error:
            kept = "the old robot stays" if self.robot is not None else "there is no robot yet"
            self.health.trouble("bad robot_description", f"robot_description: {error}; {kept}")
            return False
        self._adopt(robot, text)
        return True

    def _adopt(self, robot: Robot, text: str) -> None:
        self._reader = JointReader(
            robot,
            differentiate=self.parameters.missing_velocity == "differentiate",
            cutoff=self.parameters.velocity_cutoff,
        )
        self.robot, self._description = robot, text
        self.use_robot(robot)
        self.get_logger().info(f"robot {robot!r}")

    def _built(self, text: str, parameters: Any) -> Robot:
        """Robot of a description, or a VmDynamicsError if the node cannot use it."""
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always", UrdfWarning)
            robot = _loaded(text, parameters)
        for doubt in doubts:
            self.get_logger().warning(f"robot_description: {doubt.message}")
        self.check(robot, parameters)
        return robot

    def _on_joint_state(self, message: JointState) -> None:
        if self._reader is None or not self.is_active:
            return
        start = time.perf_counter()
        self.on_joints(self._reader.read(message))
        self.health.cycle(start)

    def accept(self, changed: Any, names: set[str]) -> None:
        """The robot must be to be had with the new parameters, and fit them."""
        text = changed.robot_description or self._description
        self._checked = self.robot
        if text and _ROBOT_CHANGES & names:
            self._checked = self._built(text, changed)
        elif self.robot is not None:
            self.check(self.robot, changed)

    def use_parameters(self, before: Any) -> None:
        """Take over the robot that was built for the check, or the parameters alone."""
        if self._checked is not None and self._checked is not self.robot:
            self._adopt(self._checked, self.parameters.robot_description or self._description)
        else:
            self.retune(before)

    def condition(self) -> tuple[bytes, str, dict[str, str]]:
        """What an active node reports: the robot too, or that there is none."""
        if self.robot is None:
            return WARN, "waiting for robot_description", {}
        level, message, values = self.describe()
        return level, message, {"robot": repr(self.robot), **values}


def _loaded(text: str, p: RobotParameters) -> Robot:
    """Robot of a description and the parameters that shape it."""
    robot = load(
        text.encode(),  # bytes are never taken for the path of a file
        base=p.base or None,
        gravity=p.gravity,
        tip_link=p.tip_link or None,
        locked_joints=p.locked,
        root_link=p.root_link or None,
    )
    if p.payload_link:
        robot = robot.with_payload(
            p.payload_link, p.payload_mass, p.payload_com, p.payload_inertia
        )
    return submerge(robot, p.hydrodynamics) if p.hydrodynamics else robot
