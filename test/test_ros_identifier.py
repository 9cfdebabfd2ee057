# SPDX-License-Identifier: Apache-2.0
"""identifier_node as a process on real DDS: it learns a payload and hands it to the others."""

import numpy as np
import pytest
from cases import text
from geometry_msgs.msg import PoseStamped, TwistStamped
from identifying import POSE_EVERY, RATE
from ros_graph import Graph, joint_state
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger
from test_identification import NOISE, excited, sensed_of

from vm_dynamics.ros.matrices import decode
from vm_dynamics.ros.messages import fill_pose, to_stamp
from vm_dynamics.ros.node import COMMAND, SENSOR

NAME = "satellite_arm7"


class Bench:
    """Nodes that hear a satellite with 60 kg at its tool, none of whom knows of it."""

    def __init__(self, folder, *others):
        self.graph = Graph(folder)
        self.motion, self.payload = excited(NAME, 60.0, 8.0)
        self.sensed = sensed_of(NAME, self.motion, 1)
        report = {"diagnostics_rate": 10.0}
        learning = {"effort_deviation": NOISE[NAME][0], "friction": False, "rate": 5.0}
        learning |= {"nodes": list(others), "effort_of": "next"}
        self.node = self.graph.start("identifier_node", parameters={**report, **learning})
        self.others = {
            name: self.graph.start(name, parameters={**report, **OPTIONS.get(name, {})}, **more)
            for name, more in ((name, REMAPPED.get(name, {})) for name in others)
        }
        self.graph.describe(text(NAME))
        self.joints = self.graph.joints()
        self.poses = self.graph.node.create_publisher(PoseStamped, "pose", SENSOR)
        self.found = self.graph.collect(Float64MultiArray, "identifier_node/payload", COMMAND)
        everybody = [self.node, *self.others.values()]
        self.graph.until(
            lambda: all(self.graph.values(node).get("robot") for node in everybody), "the robot"
        )

    def play(self, begin, end, each=lambda: None):
        """Samples in real time, on time or late."""
        clock = self.graph.node.get_clock()
        start = clock.now().nanoseconds - int(1e9 * begin / RATE)
        for k in range(begin, end):
            stamp = start + int(1e9 * k / RATE)
            if k % POSE_EVERY == 0:
                message = PoseStamped()
                message.header.stamp = to_stamp(stamp)
                fill_pose(message.pose, self.sensed.poses[k // POSE_EVERY])
                self.poses.publish(message)
            message = joint_state(
                self.motion.robot, self.sensed.q[k], self.sensed.qd[k], stamp=to_stamp(stamp)
            )
            message.effort = self.sensed.tau[k].tolist()
            self.joints.publish(message)
            each()
            ahead = 1e-9 * (stamp - clock.now().nanoseconds) + 1.0 / RATE
            self.graph.spin(max(ahead, 0.0005))

    def apply(self):
        return self.graph.call(Trigger, "/identifier_node/apply", Trigger.Request())


OPTIONS = {
    "compensator_node": {
        "require_enable": False,
        "resume": "at_once",
        "timeout": 2.0,
        "gains.stiffness": 5.0,
        "on_inconsistent": "ignore",
    }
}
REMAPPED = {
    "compensator_node": {"arguments": ("-r", "locked_velocity:=observer_node/locked_velocity")}
}


@pytest.fixture
def bench(tmp_path):
    made = []

    def start(*others):
        made.append(Bench(tmp_path, *others))
        return made[-1]

    yield start
    for item in made:
        item.graph.close()


def test_nothing_is_handed_over_before_it_is_learnt(bench):
    setup = bench("observer_node")
    answer = setup.apply()
    assert not answer.success and "nothing is learnt yet" in answer.message
    is_done, reason = setup.graph.set_parameter(setup.node, "payload.link", "tool")
    assert not is_done and "learns the payload" in reason


@pytest.mark.slow
@pytest.mark.alone
def test_a_payload_is_learnt_and_handed_over_without_a_jump(bench):
    setup = bench("observer_node", "compensator_node")
    graph = setup.graph
    locked = graph.collect(TwistStamped, "observer_node/locked_velocity", COMMAND)
    commands = graph.collect(Float64MultiArray, "compensator_node/commands", COMMAND)
    count = len(setup.motion.t)
    last = count - RATE
    setup.play(0, last)
    graph.until(lambda: setup.found, "an estimate")
    found = decode(setup.found[-1])
    assert found.names[0][0] == "mass" and found.frame == "tool"
    assert abs(found.values[0] / 60.0 - 1.0) < 0.05
    before = np.array([c.data for c in commands])
    assert before.any()
    locked.clear()
    answer = setup.apply()
    assert answer.success, answer.message
    assert "observer_node has it" in answer.message and "compensator_node has it" in answer.message
    for process in setup.others.values():
        assert graph.get_parameter(process, "payload.link") == "tool"
        assert abs(graph.get_parameter(process, "payload.mass") / 60.0 - 1.0) < 0.05
    commands.clear()
    setup.play(last, count)
    after = np.array([c.data for c in commands])
    assert len(locked) and after.any()
    graph.until(
        lambda: graph.values(setup.others["observer_node"])["estimate"] == "tracking", "it"
    )
    steps = abs(np.diff(before[len(before) // 2 :], axis=0)).max()
    assert abs(np.diff(after, axis=0)).max() < 2.0 * steps
    answer = graph.call(Trigger, "/identifier_node/reset", Trigger.Request())
    assert answer.success
    assert not setup.apply().success
