# SPDX-License-Identifier: Apache-2.0
"""compensator_node as a process: trajectories on a topic, and what ends them."""

import time

import numpy as np
import pytest
from compensator_bench import ON, Q
from std_msgs.msg import String
from trajectory_bench import message, point
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from vm_dynamics.control import free_inertias, soft_stiffness
from vm_dynamics.ros.messages import nanoseconds
from vm_dynamics.ros.node import COMMAND, LATCHED

END = Q + 0.03  # so near that no joint has to brake on the way
# patient with a busy machine: a stop of torques ends a trajectory
PATIENT = {**ON, "timeout": 2.0}
PD = {**PATIENT, "law": 0}


class Sender:
    """A bench whose joints stand still, so that torques tell where they shall be."""

    def __init__(self, compensator, parameters, **options):
        self.bench = compensator(parameters, **options)
        self.graph = self.bench.graph
        self.bench.qd = np.zeros(7)
        self.stiffness = soft_stiffness(free_inertias(self.bench.robot))
        self.publisher = self.graph.node.create_publisher(
            JointTrajectory, "compensator_node/joint_trajectory", COMMAND
        )
        self.graph.until(
            lambda: self.says() == "torques on" and self.publisher.get_subscription_count(),
            "torques",
            each=self.feed,
        )

    def feed(self):
        self.bench.feed()

    def says(self):
        return self.graph.diagnostics.get(self.bench.process.full_name, (b"", "", {}))[1]

    def value(self, name):
        return self.graph.values(self.bench.process).get(name)

    def send(self, *points, **options):
        self.publisher.publish(message(*points, **options))

    def state(self, wanted):
        self.graph.until(
            lambda: self.value("trajectory") == wanted, f"a trajectory {wanted}", each=self.feed
        )

    def at(self, q):
        """Whether the torques are those of a reference at rest at q."""
        return self.bench.gives(self.stiffness * (q - Q))

    def until_at(self, q, what):
        self.graph.until(lambda: self.at(q), what, each=self.feed)


@pytest.fixture
def sender(compensator):
    return lambda parameters, **options: Sender(compensator, parameters, **options)


def test_a_trajectory_is_followed_to_its_end_and_the_arm_stays_there(sender):
    it = sender(PD)
    began = time.monotonic()
    it.send(point(0.5, 0.5 * (Q + END), np.full(7, 0.03)), point(1.0, END, np.zeros(7)))
    it.until_at(END, "the end")
    assert time.monotonic() - began > 0.9, "on the way, not at once"
    it.state("none")
    assert it.at(END)


def test_a_bad_one_is_refused_whole_and_the_running_one_goes_on(sender):
    it = sender(PD)
    it.send(point(2.0, END))
    it.state("running")
    it.send(point(0.1, END + 9.0))
    it.graph.until(
        lambda: it.value("count: bad ~/joint_trajectory") == "1", "a refusal", each=it.feed
    )
    assert "joint1 at point 0 got 9.33" in it.bench.process.output
    assert "joint1 at point 0 got 9.33" in it.value("refused trajectory")
    it.until_at(END, "the end of the first one")


def test_one_for_later_waits_and_an_empty_one_stops_it(sender):
    it = sender(PD)
    start = nanoseconds(it.graph.now()) + 600 * 10**9
    it.send(point(1.0, END), start=start)
    it.state("waiting")
    it.send()
    it.state("none")
    assert it.at(Q)


def test_a_target_takes_over_from_a_trajectory(sender):
    it = sender(PD)
    it.send(point(600.0, END))
    it.state("running")
    it.bench.targets.publish(JointTrajectoryPoint(positions=(Q - 0.03).tolist()))
    it.until_at(Q - 0.03, "the target")
    it.state("none")


def test_without_torques_none_is_taken_and_disabling_ends_it(sender):
    it = sender(PD)
    it.send(point(600.0, END))
    it.state("running")
    it.bench.enable(False)
    it.state("none")
    it.send(point(1.0, END))
    it.graph.until(lambda: it.value("count: bad ~/joint_trajectory"), "a refusal", each=it.feed)
    assert "trajectory: torques are zero: disabled; refused" in it.bench.process.output
    it.bench.enable(True)
    it.until_at(Q, "the arm held where it is")


def test_a_joint_that_leaves_the_path_stops_there(sender):
    it = sender({**PD, "constraints.trajectory": 0.02})
    it.send(point(1.0, END))  # the joints of the bench stand still
    it.until_at(Q, "the arm held where it is")
    it.graph.until(lambda: it.value("count: left trajectory") == "1", "the reason", each=it.feed)
    assert "expected at most 0.02; stopped" in it.bench.process.output


def test_other_gains_let_it_go_on_and_a_bad_tolerance_is_refused(sender):
    it = sender(PD)
    it.send(point(3.0, END))
    it.state("running")
    done = it.graph.set_parameter(it.bench.process, "constraints.goal_of", ["elbow=0.1"])
    assert not done[0] and "elbow" in done[1]
    assert it.graph.set_parameter(it.bench.process, "acceleration_limit", 3.0)[0]
    it.until_at(END, "the end")


def test_an_inconsistent_estimate_ends_it(sender):
    it = sender({**PATIENT, "law": 2})
    states = it.graph.node.create_publisher(String, "estimate_state", LATCHED)
    it.send(point(600.0, END))
    it.state("running")
    states.publish(String(data="inconsistent"))
    it.state("none")
    it.send(point(1.0, END))
    it.graph.until(lambda: it.value("count: bad ~/joint_trajectory"), "a refusal", each=it.feed)
    assert "estimate of the base is inconsistent" in it.bench.process.output
