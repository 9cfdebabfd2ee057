# SPDX-License-Identifier: Apache-2.0
"""Messages to numbers and back: matrices, poses, covariances, joint states. No graph needed."""

import numpy as np
import pytest
from cases import GROUPS, load
from geometry_msgs.msg import Point, Pose, Quaternion, Twist
from ros_graph import ROOT, joint_state
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

import vm_dynamics as vm
from vm_dynamics.ros import matrices, messages, reference
from vm_dynamics.ros.joints import JointInputError, JointReader

ROUNDING = 1e-12


def test_a_matrix_comes_back_with_names_stamp_and_frame():
    encoder = matrices.Encoder("curvature", "base_link", (("vx", "wz"), ("a", "b", "c"), ("d",)))
    encoder.values[...] = np.arange(6.0).reshape(2, 3, 1)
    message = encoder.stamped(12_000_000_034)
    assert message.layout.dim[0].label == (
        "curvature;stamp=12.000000034;frame=base_link;rows=vx,wz"
    )
    assert message.layout.dim[1].label == "cols=a,b,c"
    assert [d.size for d in message.layout.dim] == [2, 3, 1]
    assert [d.stride for d in message.layout.dim] == [6, 3, 1]
    found = matrices.decode(message)
    assert found[:4] == (
        "curvature", 12_000_000_034, "base_link", (("vx", "wz"), ("a", "b", "c"), ("d",))
    )  # fmt: skip
    assert np.array_equal(found.values, encoder.values)


def test_a_message_is_kept_and_filled_again():
    encoder = matrices.Encoder("m", "f", (("a",), ("b",)))
    first = encoder.stamped(1)
    encoder.values[0, 0] = 7.0
    assert encoder.stamped(2) is first and first.data[0] == 7.0


def test_an_empty_matrix_travels():
    encoder = matrices.Encoder("connection", "base", (("vx",), ()))
    found = matrices.decode(encoder.stamped(0))
    assert found.values.shape == (1, 0) and found.names == (("vx",), ())


@pytest.mark.parametrize("base", GROUPS)
def test_rows_are_named_after_the_twist(base):
    names = matrices.base_names(vm.lie.group(base))
    assert len(names) == vm.lie.group(base).dimension == len(set(names))
    assert matrices.base_names(vm.lie.group("SE2")) == ("vx", "vy", "wz")


def test_what_is_no_matrix_is_refused():
    encoder = matrices.Encoder("m", "f", (("a",), ("b",)))
    good = encoder.stamped(5)
    for spoil in (
        lambda m: setattr(m.layout.dim[0], "label", "m"),
        lambda m: setattr(m.layout.dim[1], "label", "b"),
        lambda m: setattr(m.layout.dim[1], "size", 2),
        lambda m: setattr(m, "data", [1.0, 2.0]),
    ):
        bad = matrices.Encoder("m", "f", (("a",), ("b",))).stamped(5)
        spoil(bad)
        with pytest.raises(vm.DimensionError):
            matrices.decode(bad)
    with pytest.raises(vm.DimensionError):
        matrices.decode(Float64MultiArray())
    with pytest.raises(vm.DimensionError, match="separators"):
        matrices.Encoder("m", "f", (("a,b",),))
    assert matrices.decode(good).name == "m"


def test_poses_survive_the_boundary():
    rng = np.random.default_rng(0)
    for _ in range(20):
        g = vm.lie.SE3.exp(3.0 * rng.normal(size=6))
        message = Pose()
        messages.fill_pose(message, g)
        assert np.allclose(
            messages.pose_matrix(message.position, message.orientation), g, atol=ROUNDING
        )


@pytest.mark.parametrize(
    ("orientation", "error"),
    [
        (Quaternion(x=0.0, y=0.0, z=0.0, w=0.0), vm.VmDynamicsError),
        (Quaternion(x=0.0, y=0.0, z=0.0, w=1.1), vm.VmDynamicsError),
        (Quaternion(x=float("nan"), y=0.0, z=0.0, w=1.0), vm.NonFiniteError),
    ],
)
def test_a_quaternion_that_is_no_rotation_is_refused(orientation, error):
    with pytest.raises(error, match="pose"):
        messages.pose_matrix(Point(), orientation)
    with pytest.raises(vm.NonFiniteError):
        messages.pose_matrix(Point(x=float("inf")), Quaternion())


def test_a_quaternion_that_is_nearly_one_is_mended():
    g = messages.pose_matrix(Point(), Quaternion(x=0.0, y=0.0, z=0.005, w=1.005))
    assert np.allclose(g[:3, :3].T @ g[:3, :3], np.eye(3), atol=ROUNDING)


def test_twists_are_linear_first():
    message = Twist()
    messages.fill_twist(message, np.arange(1.0, 7.0))
    assert (message.linear.y, message.angular.x) == (2.0, 4.0)
    assert np.array_equal(messages.twist_vector(message), np.arange(1.0, 7.0))


@pytest.mark.parametrize("base", GROUPS)
def test_covariances_turn_with_the_base(base):
    group = vm.lie.group(base)
    g = group.exp(np.linspace(0.3, 0.9, group.dimension))
    root = np.random.default_rng(1).normal(size=(group.dimension,) * 2)
    covariance = root @ root.T + np.eye(group.dimension)
    there = messages.world_covariance(covariance, g, group)
    # a sample of the error in {1} turned to the world has the covariance there
    back = messages.body_covariance(there.ravel(), g, group)
    assert np.allclose(back, covariance, atol=1e-9)
    assert messages.body_covariance(np.zeros(36), g, group) is None
    assert messages.body_covariance(-np.eye(6).ravel(), g, group) is None
    assert messages.body_covariance(np.full(36, np.nan), g, group) is None


def test_a_wrench_of_another_frame_acts_as_it_would_there():
    group, rng = vm.lie.SE3, np.random.default_rng(2)
    g, wrench, V = group.exp(rng.normal(size=6)), rng.normal(size=6), rng.normal(size=6)
    here = messages.wrench_to_group(group, wrench, g)
    there = np.linalg.inv(vm.lie.se3.adjoint(g)) @ V
    assert here @ V == pytest.approx(wrench @ there)


# -- joint states -------------------------------------------------------------------------------


@pytest.fixture
def robot():
    return load("lwr_floating")


def reader(robot, **options):
    return JointReader(robot, **{"differentiate": False, "cutoff": 20.0, **options})


def at(message, nanos):
    message.header.stamp = messages.to_stamp(nanos)
    return message


def test_joints_are_mapped_by_name_whatever_the_order_and_the_extras(robot):
    q, qd = np.arange(7.0), np.arange(7.0) + 10.0
    order = [3, 1, 6, 0, 2, 5, 4]
    names = [robot.joint_names[i] for i in order] + ["wheel"]
    message = joint_state(robot, [*q[order], 99.0], [*qd[order], 99.0], names=names)
    sample = reader(robot).read(at(message, 5))
    assert np.array_equal(sample.q, q) and np.array_equal(sample.qd, qd)
    assert sample.nanos == 5 and not sample.restarted


def spoiled(robot, **changes):
    message = joint_state(robot, np.zeros(7), np.zeros(7))
    for key, value in changes.items():
        setattr(message, key, value)
    return at(message, 1)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("missing joints", dict(name=["joint1"], position=[0.0], velocity=[0.0])),
        ("missing joints", dict(name=[], position=[], velocity=[])),
        ("duplicate names", dict(name=["joint1"] * 7)),
        ("lengths", dict(position=[0.0] * 6)),
        ("lengths", dict(velocity=[0.0] * 6)),
        ("not finite", dict(position=[float("nan")] * 7)),
        ("not finite", dict(velocity=[float("inf"), float("-inf")] + [0.0] * 5)),
        ("no velocity", dict(velocity=[])),
    ],
)
def test_a_bad_joint_state_is_refused_and_says_why(robot, kind, changes):
    look = reader(robot)
    with pytest.raises(JointInputError, match="^joint state:") as caught:
        look.read(spoiled(robot, **changes))
    assert caught.value.kind == kind
    assert look.read(at(joint_state(robot, np.ones(7), np.ones(7)), 2)).q[0] == 1.0


def test_time_that_goes_back_a_little_is_refused_and_a_restart_is_noticed(robot):
    look, second = reader(robot), 1_000_000_000
    good = joint_state(robot, np.zeros(7), np.zeros(7))
    look.read(at(good, 10 * second))
    for nanos, kind in ((10 * second, "repeated stamps"), (10 * second - 5, "time backwards")):
        with pytest.raises(JointInputError) as caught:
            look.read(at(good, nanos))
        assert caught.value.kind == kind
    assert look.read(at(good, 2 * second)).restarted
    assert not look.read(at(good, 2 * second + 1)).restarted


def test_velocities_are_differentiated_through_a_low_pass_when_asked(robot):
    look = reader(robot, differentiate=True, cutoff=50.0)
    step, speed = 1_000_000, 0.3
    for k in range(200):
        message = joint_state(robot, np.full(7, speed * 1e-3 * k))
        sample = look.read(at(message, (k + 1) * step))
    assert np.allclose(sample.qd, speed, rtol=1e-6), "ten time constants later"
    first = reader(robot, differentiate=True).read(at(joint_state(robot, np.ones(7)), 1))
    assert not first.qd.any()


def test_an_empty_message_of_a_robot_without_joints_is_fine():
    robot = load("no_joint")
    message = JointState()
    message.header.stamp = messages.to_stamp(3)
    assert reader(robot).read(message).q.shape == (0,)


def test_the_page_of_the_nodes_has_the_topics_and_parameters_of_the_code():
    page = (ROOT / "docs/nodes.md").read_text()
    assert page.endswith(reference.page())
