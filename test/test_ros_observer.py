# SPDX-License-Identifier: Apache-2.0
"""observer_node as a process on real DDS: the estimate of the library, whatever comes when."""

import signal

import numpy as np
import pytest
from cases import load, text
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import (
    PoseStamped,
    PoseWithCovarianceStamped,
    TransformStamped,
    TwistStamped,
    TwistWithCovarianceStamped,
    WrenchStamped,
)
from nav_msgs.msg import Odometry
from ros_graph import Graph, joint_state
from sensor_msgs.msg import Imu
from std_msgs.msg import Float64MultiArray, String

import vm_dynamics as vm
from vm_dynamics.estimation import InvariantEkf
from vm_dynamics.ros.matrices import decode
from vm_dynamics.ros.messages import (
    fill_pose,
    nanoseconds,
    pose_matrix,
    to_stamp,
    twist_vector,
    wrench_vector,
)
from vm_dynamics.ros.node import COMMAND, LATCHED, SENSOR
from vm_dynamics.ros.observer_node import ObserverParameters, _observer

# The same filter in another process; its floats count from another origin of time.
SAME = 1e-6
STEP = 2_000_000  # [ns]


class Truth:
    """A satellite that tumbles while its arm moves, and what its sensors say."""

    def __init__(self, seconds=3.0):
        robot = self.robot = load("satellite_arm7")
        V = np.array([0.01, -0.02, 0.015, 0.1, 0.05, -0.08])
        start = vm.State(np.eye(4), np.linspace(0.3, 0.9, 7), V, 0.2 * np.cos(np.arange(7)))
        self.motion = vm.simulate(
            robot, start, None, seconds, step=1e-9 * STEP, integrator="runge_kutta", friction=False
        )

    def __len__(self):
        return len(self.motion)


@pytest.fixture(scope="module")
def truth():
    return Truth()


@pytest.fixture
def graph(tmp_path):
    out = Graph(tmp_path)
    yield out
    out.close()


def pose_message(kind, g, stamp, robot, frame="world"):
    out = kind()
    out.header.stamp = stamp
    out.header.frame_id = frame
    if kind is TransformStamped:
        whole = PoseStamped()
        fill_pose(whole.pose, g)
        p = whole.pose.position
        out.transform.translation.x, out.transform.translation.y = p.x, p.y
        out.transform.translation.z = p.z
        out.transform.rotation = whole.pose.orientation
        out.child_frame_id = robot.root_link
    else:
        pose = out.pose if kind is PoseStamped else out.pose.pose
        fill_pose(pose, g)
        if kind is Odometry:
            out.child_frame_id = robot.root_link
    return out


class Bench:
    """An observer node and its sensors."""

    def __init__(self, graph, truth, kind=PoseStamped, parameters=None):
        self.graph, self.truth, self.kind = graph, truth, kind
        self.process = graph.start(
            "observer_node", parameters={"diagnostics_rate": 10.0, **(parameters or {})}
        )
        graph.describe(text("satellite_arm7"))
        self.joints = graph.joints()
        self.poses = graph.node.create_publisher(kind, "pose", SENSOR)
        self.odom = graph.collect(Odometry, "observer_node/odom", COMMAND)
        self.twists = graph.collect(TwistWithCovarianceStamped, "observer_node/twist", COMMAND)
        self.locked = graph.collect(TwistStamped, "observer_node/locked_velocity", COMMAND)
        self.momentum = graph.collect(Float64MultiArray, "observer_node/momentum", COMMAND)
        self.epoch = 1_000_000_000_000
        graph.until(self._is_ready, "the robot")
        # all ends have found each other
        graph.until(
            lambda: self.joints.get_subscription_count() and self.poses.get_subscription_count(),
            "subscriptions",
        )
        graph.spin(0.5)

    def _is_ready(self):
        return bool(self.graph.values(self.process).get("robot"))

    def stamp(self, k):
        return to_stamp(self.epoch + k * STEP)

    def send_joints(self, k):
        motion = self.truth.motion
        self.joints.publish(
            joint_state(self.truth.robot, motion.q[k], motion.qd[k], stamp=self.stamp(k))
        )

    def send_pose(self, k, frame="world"):
        g = self.truth.motion.g[k]
        message = pose_message(self.kind, g, self.stamp(k), self.truth.robot, frame)
        self.poses.publish(message)

    def play(self, begin, end, *, late=0, every=50):
        """Joints one by one and a pose now and then, each when the last was answered."""
        for k in range(begin, end):
            self.send_joints(k)
            measured = k - late
            if measured >= 0 and measured % every == 0:
                self.send_pose(measured)
            self.graph.spin(0.002)

    def wait(self, k):
        """The estimate with the stamp of sample k."""
        wanted = self.stamp(k)
        self.graph.until(
            lambda: self.odom and self.odom[-1].header.stamp == wanted, f"odometry of sample {k}"
        )
        return self.odom[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("pose", PoseStamped),
        ("pose_with_covariance", PoseWithCovarianceStamped),
        ("odometry", Odometry),
        ("transform", TransformStamped),
    ],
)
def test_the_estimate_converges_to_the_truth_from_every_kind_of_pose(graph, truth, name, kind):
    setup = Bench(graph, truth, kind, {"pose.type": name})
    end = 700
    setup.play(0, end + 1)
    odom = setup.wait(end)
    motion, robot = truth.motion, truth.robot
    found = twist_vector(odom.twist.twist)
    # poses and joints without noise: what is left is the filter's own convergence
    assert abs(found - motion.V[end]).max() < 2e-3
    g = pose_matrix(odom.pose.pose.position, odom.pose.pose.orientation)
    assert abs(vm.lie.SE3.log(vm.lie.SE3.inverse(motion.g[end]) @ g)).max() < 2e-3
    assert odom.header.frame_id == "world" and odom.child_frame_id == robot.root_link
    assert odom.pose.covariance[0] > 0.0 and odom.twist.covariance[35] > 0.0
    mu = motion.V[end] + robot.connection(motion.q[end]) @ motion.qd[end]
    graph.until(lambda: setup.locked[-1].header.stamp == setup.stamp(end), "locked velocity")
    assert abs(twist_vector(setup.locked[-1].twist) - mu).max() < 2e-3
    h = decode(setup.momentum[-1])
    assert h.names[0] == ("vx", "vy", "vz", "wx", "wy", "wz")
    assert np.allclose(
        h.values, robot.mass_matrix(motion.q[end])[:6, :6] @ mu, rtol=0.05, atol=1.0
    )
    assert setup.twists[-1].header.frame_id == robot.root_link


def test_the_estimate_is_that_of_the_library_with_poses_that_come_late(graph, truth):
    setup = Bench(graph, truth)
    end, late = 400, 30
    setup.play(0, end + 1, late=late)
    odom = setup.wait(end)
    observer = InvariantEkf(truth.robot, pose_deviation=(5e-3, 5e-3))
    for k in range(end + 1):
        observer.joints(1e-9 * STEP * k, truth.motion.q[k], truth.motion.qd[k])
        if k - late >= 0 and (k - late) % 50 == 0:
            observer.pose(1e-9 * STEP * (k - late), truth.motion.g[k - late])
    assert abs(twist_vector(odom.twist.twist) - observer.twist).max() < SAME
    covariance = np.array(odom.twist.covariance).reshape(6, 6)
    assert np.allclose(covariance, observer.covariance[6:, 6:], rtol=1e-3, atol=1e-12)
    graph.until(
        lambda: int(graph.values(setup.process)["measurements used"]) > 5, "a report of them"
    )
    assert int(graph.values(setup.process)["measurements late"]) == 0


def test_poses_that_are_stamped_late_are_put_back_by_their_delay(graph, truth):
    setup = Bench(graph, truth, parameters={"pose.delay": 0.06, "pose.find_delay": True})
    widths = graph.collect(
        TwistWithCovarianceStamped, "observer_node/locked_velocity_with_covariance", COMMAND
    )
    end, late = 400, 30  # 60 ms
    observer = InvariantEkf(truth.robot, pose_deviation=(5e-3, 5e-3))
    for k in range(end + 1):
        setup.send_joints(k)
        observer.joints(1e-9 * STEP * k, truth.motion.q[k], truth.motion.qd[k])
        if k >= late and (k - late) % 50 == 0:
            g = truth.motion.g[k - late]
            setup.poses.publish(pose_message(PoseStamped, g, setup.stamp(k), truth.robot))
            observer.pose(1e-9 * STEP * (k - late), g)
        graph.spin(0.002)
    odom = setup.wait(end)
    assert abs(twist_vector(odom.twist.twist) - observer.twist).max() < SAME
    graph.until(lambda: widths, "a covariance")
    graph.until(lambda: "pose delay" in graph.values(setup.process), "what was found")


def test_a_jump_is_gated_and_a_gap_is_bridged(graph, truth):
    setup = Bench(graph, truth)
    setup.play(0, 300)
    jump = truth.motion.g[300].copy()
    jump[:3, 3] += 5.0
    setup.poses.publish(pose_message(PoseStamped, jump, setup.stamp(300), truth.robot))
    setup.play(300, 900, every=10_000)  # over a second without any pose
    odom = setup.wait(899)
    assert abs(twist_vector(odom.twist.twist) - truth.motion.V[899]).max() < 5e-3
    graph.until(
        lambda: int(graph.values(setup.process)["measurements rejected"]) == 1, "the count"
    )


def test_a_clock_that_begins_anew_begins_a_new_estimate(graph, truth):
    setup = Bench(graph, truth)
    setup.play(0, 200)
    setup.wait(199)
    setup.epoch = 5_000_000_000  # long before
    setup.play(0, 400)
    odom = setup.wait(399)
    assert abs(twist_vector(odom.twist.twist) - truth.motion.V[399]).max() < 5e-3
    assert "began anew" in setup.process.output


def test_bad_input_is_counted_and_ignored(graph, truth):
    setup = Bench(graph, truth, parameters={"world_frame": "world"})
    setup.play(0, 200)
    setup.wait(199)
    zero = pose_message(PoseStamped, np.eye(4), setup.stamp(200), truth.robot)
    zero.pose.orientation.w = 0.0
    long = pose_message(PoseStamped, np.eye(4), setup.stamp(200), truth.robot)
    long.pose.orientation.w = 2.0
    nan = pose_message(PoseStamped, np.eye(4), setup.stamp(200), truth.robot)
    nan.pose.position.x = float("nan")
    moon = pose_message(PoseStamped, truth.motion.g[200], setup.stamp(200), truth.robot, "moon")
    count = 0
    for bad in (zero, long, nan, moon):
        setup.poses.publish(bad)
        count += 1
        graph.until(
            lambda c=count: int(graph.values(setup.process).get("count: bad pose", 0)) >= c,
            "the count",
        )
    broken = joint_state(truth.robot, truth.motion.q[200], stamp=setup.stamp(200))
    setup.joints.publish(broken)
    graph.until(lambda: "count: no velocity" in graph.values(setup.process), "no velocity")
    wrenches = graph.node.create_publisher(WrenchStamped, "base_wrench", SENSOR)
    push = WrenchStamped()
    push.header.frame_id = "link3"
    graph.until(
        lambda: "count: bad base_wrench" in graph.values(setup.process),
        "a wrench on a link that moves",
        each=lambda: wrenches.publish(push),
    )
    setup.play(201, 400)
    odom = setup.wait(399)
    assert np.isfinite(twist_vector(odom.twist.twist)).all()
    assert abs(twist_vector(odom.twist.twist) - truth.motion.V[399]).max() < 5e-3


def test_gyroscope_and_velocity_are_used(graph, truth):
    setup = Bench(graph, truth, parameters={"imu.link": "base_link", "velocity_axes": "body"})
    imus = graph.node.create_publisher(Imu, "imu", SENSOR)
    logs = graph.node.create_publisher(TwistWithCovarianceStamped, "velocity", SENSOR)
    graph.until(lambda: imus.get_subscription_count() and logs.get_subscription_count(), "both")
    graph.spin(0.3)
    for k in range(150):
        setup.send_joints(k)
        if k == 5:
            setup.send_pose(5)
        V = truth.motion.V[k]
        imu, log = Imu(), TwistWithCovarianceStamped()
        imu.header.stamp = log.header.stamp = setup.stamp(k)
        rate = imu.angular_velocity
        rate.x, rate.y, rate.z = map(float, V[3:])
        linear = log.twist.twist.linear
        linear.x, linear.y, linear.z = map(float, V[:3])
        imus.publish(imu)
        logs.publish(log)
        graph.spin(0.003)
    odom = setup.wait(149)
    # one pose tells no velocity: it came from the gyroscope and the log
    found = twist_vector(odom.twist.twist)
    assert abs(found[:3] - truth.motion.V[149][:3]).max() < 0.01
    assert abs(found[3:] - truth.motion.V[149][3:]).max() < 0.05, "the bias is not known yet"
    graph.until(
        lambda: int(graph.values(setup.process)["measurements used"]) > 100, "a report of them"
    )


def test_readings_without_covariance_have_the_deviations_of_the_parameters(truth):
    robot, motion = load("satellite_arm7"), truth.motion
    parameters = ObserverParameters(
        imu_link="base_link", imu_deviation=0.1, velocity_deviation=0.3
    )
    given = InvariantEkf(robot, gyro_link="base_link"), (0.01 * np.eye(3), 0.09 * np.eye(3))
    found = []
    for observer, noise in (given, (_observer(robot, parameters), (None, None))):
        observer.joints(0.0, motion.q[0], motion.qd[0])
        observer.pose(0.0, motion.g[0])
        observer.gyro(0.0, motion.V[0, 3:], noise[0])
        observer.velocity(0.0, motion.V[0, :3], noise[1])
        found.append(observer.twist)
    assert np.array_equal(*found) and found[0].any()


def test_a_contact_is_published_in_the_link_s_frame_until_it_is_over(graph, truth):
    setup = Bench(graph, truth)
    robot, q, still = truth.robot, np.full(7, 0.4), np.zeros(7)
    contacts = graph.collect(WrenchStamped, "observer_node/contact", COMMAND)
    graph.spin(0.5)
    setup.poses.publish(pose_message(PoseStamped, np.eye(4), setup.stamp(0), robot))

    def hold(begin, end, effort):
        """An arm that does not move whatever its motors do."""
        for k in range(begin, end):
            stamp = setup.stamp(k)
            setup.joints.publish(joint_state(robot, q, still, effort=effort, stamp=stamp))
            if k % 50 == 0:
                setup.poses.publish(pose_message(PoseStamped, np.eye(4), stamp, robot))
            graph.spin(0.002)
        setup.wait(end - 1)

    hold(0, 400, still)
    assert not contacts
    effort = np.zeros(7)
    effort[3] = 20.0
    hold(400, 500, effort)
    graph.until(lambda: contacts, "a contact")
    graph.until(
        lambda: graph.values(setup.process)["contact"].startswith("at link"), "a report of it"
    )
    assert contacts[-1].header.frame_id in robot.link_names[1:]
    assert nanoseconds(contacts[0].header.stamp) <= setup.epoch + 450 * STEP, "a tenth of a second"
    assert abs(wrench_vector(contacts[-1].wrench)).max() > 1.0
    hold(500, 700, still)
    graph.until(lambda: not wrench_vector(contacts[-1].wrench).any(), "its end")
    assert "contact at link" in setup.process.output
    assert "no contact any more" in setup.process.output
    # without efforts there is nothing to look for
    setup.joints.publish(joint_state(robot, q, still, stamp=setup.stamp(700)))
    graph.until(
        lambda: graph.values(setup.process)["contact"] == "not looked for", "a report of that"
    )


def test_the_observer_can_be_changed_and_nonsense_is_refused(graph, truth):
    setup = Bench(graph, truth)
    assert graph.set_parameter(setup.process, "observer", "alpha_beta")[0]
    setup.play(0, 200)
    setup.wait(199)
    for name, value in (("observer", "oracle"), ("gate", 2.0), ("disturbance", -1.0)):
        fine, reason = graph.set_parameter(setup.process, name, value)
        assert not fine and reason
    assert graph.get_parameter(setup.process, "observer") == "alpha_beta"


@pytest.mark.slow
def test_a_killed_observer_starts_again_and_finds_the_truth(graph, truth):
    setup = Bench(graph, truth)
    setup.play(0, 100)
    setup.wait(99)
    assert setup.process.stop(signal.SIGKILL) == -signal.SIGKILL
    setup.process = graph.start("observer_node", parameters={"diagnostics_rate": 10.0})
    graph.diagnostics.clear()
    graph.until(setup._is_ready, "the robot again")
    graph.spin(0.5)
    setup.play(100, 500)
    odom = setup.wait(499)
    assert abs(twist_vector(odom.twist.twist) - truth.motion.V[499]).max() < 5e-3
    assert setup.process.stop() == 0


def test_a_model_that_is_wrong_is_told_in_the_diagnostics(graph, truth):
    setup = Bench(graph, truth, parameters={"gravity": [0.0, 0.0, -0.5]})  # there is none
    setup.play(0, 800, every=20)

    def is_told():
        level, message, values = graph.diagnostics[setup.process.full_name]
        return level == DiagnosticStatus.WARN and message.startswith("inconsistent: ")

    graph.until(is_told, "a warning")
    values = graph.values(setup.process)
    assert values["estimate"] == "inconsistent" and float(values["disturbance factor"]) > 1.0
    assert float(values["nis windowed"]) > 0.0
    states = graph.collect(String, "observer_node/estimate_state", LATCHED)
    graph.until(lambda: states and states[-1].data == "inconsistent", "its state")
