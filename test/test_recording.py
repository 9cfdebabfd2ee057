# SPDX-License-Identifier: Apache-2.0
"""Recordings: what was written is read back by rosbags, with the frames as a tree."""

import time

import numpy as np
import pytest
from cases import SHIPPED, load
from ros_graph import GRAPH_TIMEOUT, Graph
from rosbags.highlevel import AnyReader
from rosbags.interfaces import QosDurability
from rosbags.rosbag2 import Reader
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Float64MultiArray, String

import vm_dynamics as vm
from vm_dynamics.ros.client import RECORDED, Client
from vm_dynamics.ros.messages import nanoseconds, pose_matrix, to_stamp
from vm_dynamics.ros.node import COMMAND, LATCHED
from vm_dynamics.ros.recording import Recording, fixed_frames, moving_frames

TIMES = [1_000_000_000 + 50_000_000 * k for k in range(40)]
# Topics whose last message is for those who come later, too.
KEPT = {
    "/robot_description",
    "/ccf_node/map",
    "/ccf_node/gait",
    "/ccf_node/displacement",
    "/tf_static",
}


def messages(folder):
    """Messages of each topic with their times, as AnyReader has them."""
    out = {}
    with AnyReader([folder]) as reader:
        for connection, nanos, raw in reader.messages():
            message = reader.deserialize(raw, connection.msgtype)
            out.setdefault(connection.topic, []).append((nanos, message))
    return out


def kept(folder):
    """Latched topics of a recording."""
    with Reader(folder) as reader:
        return {
            connection.topic
            for connection in reader.connections
            for qos in connection.ext.offered_qos_profiles
            if qos.durability is QosDurability.TRANSIENT_LOCAL
        }


def poses_of(transforms):
    """Poses of all frames in the one at the top, by name, from a tree of transforms."""
    parents = {t.child_frame_id: t for t in transforms}
    assert len(parents) == len(transforms), "a frame with two parents"

    def pose(name):
        if name not in parents:
            assert name == "world"
            return np.eye(4)
        t = parents[name]
        g = pose_matrix(t.transform.translation, t.transform.rotation)
        return pose(t.header.frame_id) @ g

    return {name: pose(name) for name in parents}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_frames_of_a_robot_are_a_tree_of_its_links(tmp_path, name):
    robot, rng = load(name), np.random.default_rng(0)
    states = [(rng.normal(size=robot.n), vm.lie.SE3.exp(rng.normal(size=6))) for _ in TIMES]
    recording = Recording(tmp_path / "out")
    recording.write_frames(TIMES[0], fixed_frames(robot), fixed=True)
    for nanos, (q, g) in zip(TIMES, states, strict=True):
        recording.write_frames(nanos, moving_frames(robot, q, g))
    recording.close()
    found = messages(tmp_path / "out")
    assert kept(tmp_path / "out") == {"/tf_static"}
    [(_, fixed)] = found["/tf_static"]
    assert [nanos for nanos, _ in found["/tf"]] == TIMES
    joints = {joint.child: joint for joint in robot.description.joints}
    for (nanos, moving), (q, g) in zip(found["/tf"], states, strict=True):
        both = [*fixed.transforms, *moving.transforms]
        found_poses = poses_of(both)
        assert set(found_poses) == set(robot.link_names)
        for link in robot.link_names:
            assert np.abs(found_poses[link] - g @ robot.link_pose(q, link)).max() < 1e-12
        for t in both:
            parent = "world" if t.child_frame_id == robot.root_link else None
            assert t.header.frame_id == (parent or joints[t.child_frame_id].parent)
        for t in fixed.transforms:
            assert joints[t.child_frame_id].kind == "fixed"
        assert all(nanoseconds(t.header.stamp) == nanos for t in moving.transforms)


def test_a_recording_is_compressed_and_read_back_whole(tmp_path):
    robot = load("satellite_arm7")
    recording = Recording(tmp_path / "out")
    written = 0
    for k in range(2000):
        recording.write_frames(1_000_000 * k, moving_frames(robot, np.full(7, 0.01), np.eye(4)))
        written += 7 * 100  # bytes at least: a transform has 7 floats, a stamp and two names
    recording.close()
    [file] = (tmp_path / "out").glob("*.mcap")
    assert file.stat().st_size < 0.3 * written
    assert len(messages(tmp_path / "out")["/tf"]) == 2000


def test_what_is_published_is_recorded_so_that_it_can_be_read(tmp_path):
    graph = Graph(tmp_path)
    recording = Recording(tmp_path / "out")
    client = Client("recorder", domain=graph.domain, recording=recording)
    g = vm.lie.SE3.exp(np.linspace(0.1, 0.6, 6))
    try:
        for n in range(1, 8):
            client.publish_target(np.arange(n), 0.1 * np.arange(n), 0.01 * np.arange(n))
        client.publish_pose("base_target", g)
    finally:
        client.close()
        graph.close()
        recording.close()
    found = messages(tmp_path / "out")
    for n, (_, target) in enumerate(found["/target"], start=1):
        assert np.array_equal(target.positions, np.arange(n))
        assert np.array_equal(target.accelerations, 0.01 * np.arange(n))
    [(_, aim)] = found["/base_target"]
    assert aim.header.frame_id == "world"
    assert np.abs(pose_matrix(aim.pose.position, aim.pose.orientation) - g).max() < 1e-12


def test_the_client_records_clock_commands_and_latched_topics(tmp_path):
    graph = Graph(tmp_path)
    recording = Recording(tmp_path / "out")
    client = Client("recorder", domain=graph.domain, recording=recording)
    try:
        clock = graph.node.create_publisher(Clock, "/clock", COMMAND)
        commands = graph.node.create_publisher(
            Float64MultiArray, "compensator_node/commands", COMMAND
        )
        latched = {
            topic: graph.node.create_publisher(kind, topic, LATCHED)
            for topic, (kind, qos) in RECORDED.items()
            if qos is LATCHED
        }
        assert isinstance(latched["ccf_node/map"].msg_type(), PointCloud2)
        for publisher in latched.values():
            publisher.publish(publisher.msg_type())
        end = time.monotonic() + GRAPH_TIMEOUT
        for nanos in TIMES:
            while client.nanos != nanos and time.monotonic() < end:  # best effort
                clock.publish(Clock(clock=to_stamp(nanos)))
                client.spin(0.02)
            commands.publish(Float64MultiArray(data=[1e-9 * nanos]))
            client.spin(0.01)
    finally:
        client.close()
        graph.close()
        recording.close()
    found = messages(tmp_path / "out")
    assert sorted({nanos for nanos, _ in found["/clock"]}) == TIMES
    assert all(nanoseconds(message.clock) == nanos for nanos, message in found["/clock"])
    efforts = found["/compensator_node/commands"]
    assert len(efforts) > 0.8 * len(TIMES)
    assert all(message.data[0] == 1e-9 * nanos for nanos, message in efforts)
    assert {f"/{topic}" for topic in latched} == KEPT - {"/tf_static"} == kept(tmp_path / "out")
    assert found["/robot_description"][0][1].data == String().data
