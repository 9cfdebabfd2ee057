# SPDX-License-Identifier: Apache-2.0
"""The Robot as a value: immutable, equal by content; a payload or a lock makes another one."""

import copy
import pickle

import numpy as np
import pinocchio as pin
import pytest
from cases import ROBOTS, relative, text
from model_cases import GRIPPER, ROUNDING, A, documents, shape
from peer import Peer
from urdf_text import joint, link, pair

import vm_dynamics as vm
from vm_dynamics import errors

# -- the robot as a value -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def arm():
    return vm.load(ROBOTS / "satellite_dual_arm.urdf", gravity=(0, 0, -9.81))


@pytest.mark.parametrize("name", ["n", "gravity", "joint_names", "packed", "something_new"])
def test_a_robot_cannot_be_changed(arm, name):
    before = copy.copy(arm)
    with pytest.raises(AttributeError, match=f"{name}.*immutable"):
        setattr(arm, name, 1)
    with pytest.raises(AttributeError, match=f"{name}.*immutable"):
        delattr(arm, name)
    assert arm == before


@pytest.mark.parametrize(
    "name",
    [
        *("gravity", "lower_limits", "upper_limits", "velocity_limits"),
        *("effort_limits", "damping", "friction"),
    ],
)
def test_the_arrays_of_a_robot_are_read_only(arm, name):
    with pytest.raises(ValueError, match="read-only"):
        getattr(arm, name)[0] = 7.0


def test_the_gravity_that_was_given_can_change_without_the_robot():
    gravity = np.array([0.0, 0.0, -9.81])
    here = vm.load(pair(), gravity=gravity)
    gravity[2] = 0.0
    assert here.gravity.tolist() == [0.0, 0.0, -9.81]


COSMETIC = {
    "whitespace": lambda t: t.replace(">", ">\n  "),
    "comments": lambda t: t.replace("<link", "<!-- a link --><link"),
    "drawings": lambda t: t.replace("</link>", "<visual><origin xyz='1 0 0'/></visual></link>"),
    "declaration": lambda t: '<?xml version="1.0" encoding="utf-8"?>\n' + t,
    "number format": lambda t: t.replace('"1"', '"1.000"').replace('"-1"', '" -1e0 "'),
    "quotes": lambda t: t.replace('"', "'"),
    "links after joints": lambda t: t.replace(A, "").replace("</robot>", f"{A}</robot>"),
    "default spelled out": lambda t: t.replace("<limit", '<axis xyz="1 0 0"/><limit'),
}


@pytest.mark.parametrize("change", COSMETIC.values(), ids=COSMETIC)
def test_robots_are_equal_by_what_they_are_and_not_by_how_they_are_written(change):
    here, there = vm.load(pair()), vm.load(change(pair()))
    assert change(pair()) != pair()
    assert here == there and hash(here) == hash(there) and len({here, there}) == 1


REAL = {
    "mass": lambda t: vm.load(t.replace('value="1"', 'value="1.001"', 1)),
    "inertia": lambda t: vm.load(t.replace('ixx="0.1"', 'ixx="0.11"', 1)),
    "limit": lambda t: vm.load(t.replace('upper="1"', 'upper="1.1"')),
    "effort": lambda t: vm.load(t.replace('effort="10"', 'effort="11"')),
    "kind": lambda t: vm.load(t.replace("revolute", "continuous")),
    "link name": lambda t: vm.load(t.replace('"b"', '"hand"')),
    "joint name": lambda t: vm.load(t.replace('"j"', '"hinge"')),
    "robot name": lambda t: vm.load(t.replace('"r"', '"s"')),
    "base": lambda t: vm.load(t, base="SO3"),
    "gravity": lambda t: vm.load(t, gravity=(0, 0, 1)),
    "tip": lambda t: vm.load(t, tip_link="a"),
    "locked": lambda t: vm.load(t, locked_joints=["j"]),
    "payload": lambda t: vm.load(t).with_payload("b", 1.0, (0, 0, 0)),
}


@pytest.mark.parametrize("changed", REAL.values(), ids=REAL)
def test_robots_that_differ_are_not_equal(changed):
    here, there = vm.load(pair()), changed(pair())
    assert here != there and hash(here) != hash(there) and here != "a robot"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_robot_pickles(arm, protocol):
    again = pickle.loads(pickle.dumps(arm, protocol))
    assert again == arm and hash(again) == hash(arm) and type(again) is vm.Robot
    assert np.array_equal(again.mass_matrix(shape(arm)), arm.mass_matrix(shape(arm)))
    with pytest.raises(ValueError, match="read-only"):
        again.gravity[0] = 1.0


@pytest.mark.parametrize("base", vm.lie.GROUP_NAMES)
def test_a_robot_pickles_on_every_base(base):
    here = vm.load(pair(), base=base)
    assert pickle.loads(pickle.dumps(here)) == here


def test_the_hash_survives_pickling_after_it_was_asked_for():
    here = vm.load(pair())
    first = hash(here)
    assert hash(pickle.loads(pickle.dumps(here))) == first == hash(here)


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy])
def test_a_copy_is_equal_and_works(arm, how):
    again = how(arm)
    assert again == arm and hash(again) == hash(arm)
    assert np.array_equal(again.mass_matrix(shape(arm)), arm.mass_matrix(shape(arm)))


def test_errors_pickle_too():
    with pytest.raises(vm.UnknownLinkError) as caught:
        vm.load(pair(), tip_link="hand")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is vm.UnknownLinkError and str(again) == str(caught.value)


def test_a_robot_is_shown_on_one_line():
    assert repr(vm.load(GRIPPER)) == "<Robot 'r': base SE3 (b = 6), n = 2, 4 kg>"


def test_a_robot_prints_as_a_tree():
    urdf = GRIPPER.replace(
        "</robot>", link("tool", None) + joint("w", "d", "tool", "fixed", "") + "</robot>"
    )
    assert str(vm.load(urdf)) == "\n".join(
        [
            "r: base SE3 (b = 6), n = 2, 4 kg",
            "a (1 kg)",
            "├─ [q0 k: revolute] d (1 kg)",
            "│  └─ · tool",
            "└─ [q1 j: revolute] b (1 kg)",
            "   └─ [m: prismatic, -2 x k +0.1] c (1 kg)",
        ]
    )
    assert str(vm.load(pair(), base="H", pitch=0.25)).startswith(
        "r: base H (b = 1), pitch 0.25 m/rad, n = 1, 2 kg\n"
    )


@documents
def test_the_printed_tree_has_a_line_for_every_link(urdf):
    here = vm.load(urdf)
    header, *lines = str(here).split("\n")
    assert here.name in header and f"n = {here.n}" in header
    assert len(lines) == len(here.link_names)
    for line, name in zip(lines, here.link_names, strict=True):
        assert line.split(" (")[0].endswith(name) or f" {name} (" in line
    for i, name in enumerate(here.joint_names):
        assert f"[q{i} {name}: " in str(here)


# -- payload ------------------------------------------------------------------------------------

PAYLOAD = 2.5, np.array([0.1, -0.2, 0.3]), np.array(
    [[0.3, 0.01, 0.02], [0.01, 0.4, 0.03], [0.02, 0.03, 0.5]]
)  # fmt: skip


@pytest.mark.parametrize("name", ["left_tool", "right_forearm", "base_link"])
def test_a_payload_is_what_pinocchio_makes_of_an_appended_inertia(arm, name):
    mass, com, tensor = PAYLOAD
    peer = Peer(arm, text("satellite_dual_arm"))
    frame = peer.model.frames[peer.model.getFrameId(name, pin.FrameType.BODY)]
    more = pin.Inertia(mass, com, tensor)
    peer.model.appendBodyToJoint(frame.parentJoint, more, frame.placement)
    peer.data = peer.model.createData()
    q = shape(arm)
    loaded = arm.with_payload(name, mass, com, tensor)
    assert relative(loaded.mass_matrix(q), peer.mass_matrix(q)) < ROUNDING
    assert loaded.total_mass == pytest.approx(arm.total_mass + mass)
    assert (
        relative(arm.mass_matrix(q), Peer(arm, text("satellite_dual_arm")).mass_matrix(q)) < 1e-10
    )


def test_a_payload_keeps_everything_else(arm):
    loaded = arm.with_payload("left_tool", *PAYLOAD)
    assert type(loaded) is vm.Robot
    for name in ("joint_names", "link_names", "base_group", "tip_link", "root_link", "name"):
        assert getattr(loaded, name) == getattr(arm, name)
    assert np.array_equal(loaded.gravity, arm.gravity)
    assert np.array_equal(loaded.effort_limits, arm.effort_limits)


def test_six_moments_and_a_point_mass_are_payloads_too(arm):
    mass, com, tensor = PAYLOAD
    six = tensor[np.triu_indices(3)]
    assert arm.with_payload("left_tool", mass, com, six) == arm.with_payload("left_tool", *PAYLOAD)
    point = arm.with_payload("left_tool", mass, com)
    assert point == arm.with_payload("left_tool", mass, com, np.zeros((3, 3)))
    nothing = arm.with_payload("left_tool", 0.0, com)
    assert relative(nothing.mass_matrix(shape(arm)), arm.mass_matrix(shape(arm))) < ROUNDING


BAD_PAYLOADS = {
    "unknown link": (("hand", 1.0, (0, 0, 0)), errors.UnknownLinkError, "'hand'; valid: base"),
    "negative mass": (("left_tool", -1.0, (0, 0, 0)), errors.NegativeMassError, "left_tool.*-1"),
    "asymmetric": (
        ("left_tool", 1.0, (0, 0, 0), np.eye(3) + np.eye(3, k=1)),
        errors.DimensionError,
        "inertia: .*not symmetric",
    ),
    "indefinite": (
        ("left_tool", 1.0, (0, 0, 0), -np.eye(3)),
        errors.UnphysicalInertiaError,
        "payload at 'left_tool': .*not positive definite",
    ),
    "triangle": (
        ("left_tool", 1.0, (0, 0, 0), np.diag([1, 1, 3])),
        errors.UnphysicalInertiaError,
        "triangle inequality",
    ),
    "com of two": (("left_tool", 1.0, (0, 0)), errors.DimensionError, r"com: got shape \(2,\)"),
    "com of words": (("left_tool", 1.0, "here"), errors.DimensionError, "com"),
    "mass None": (("left_tool", None, (0, 0, 0)), errors.DimensionError, "mass"),
    "moments of four": (
        ("left_tool", 1.0, (0, 0, 0), np.zeros(4)),
        errors.DimensionError,
        r"inertia: got shape \(4,\)",
    ),
    "NaN": (("left_tool", np.nan, (0, 0, 0)), errors.NonFiniteError, "inertia"),
    "overflow": (("left_tool", 1e300, (0, 0, 0)), errors.NonFiniteError, "1e[+]100"),
    "overflow of inertia": (("left_tool", 1, (0, 0, 1e60)), errors.NonFiniteError, "1e[+]100"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "error", "words"), BAD_PAYLOADS.values(), ids=BAD_PAYLOADS)
def test_a_bad_payload_is_refused(arm, arguments, error, words):
    with pytest.raises(error, match=words) as caught:
        arm.with_payload(*arguments)
    assert type(caught.value) is error


# -- locked joints ------------------------------------------------------------------------------

LOCKED = {"left_joint2": 0.7, "right_joint1": -0.3, "right_finger_joint": 0.01}


def _at(here, positions):
    """Shape of the whole robot, the locked joints at their positions, and the mask of the rest."""
    q = shape(here)
    for name, position in positions.items():
        q[here.joint_names.index(name)] = position
    free = np.array([name not in positions for name in here.joint_names])
    return q, free


def test_locking_deletes_rows_and_columns_of_the_mass_matrix(arm):
    q, free = _at(arm, LOCKED)
    locked = arm.with_locked(LOCKED)
    keep = np.r_[np.ones(6, dtype=bool), free]
    expected = arm.mass_matrix(q)[np.ix_(keep, keep)]
    assert relative(locked.mass_matrix(q[free]), expected) < ROUNDING
    assert locked.joint_names == tuple(np.array(arm.joint_names)[free])
    assert locked.link_names == arm.link_names
    assert np.array_equal(locked.effort_limits, arm.effort_limits[free])


@pytest.mark.parametrize("base", ["SE3", "SE2", "H"])
def test_poses_of_all_links_stay_when_joints_are_locked_where_they_are(base):
    arm = vm.load(ROBOTS / "satellite_dual_arm.urdf", base=base)
    q, free = _at(arm, LOCKED)
    locked = arm.with_locked(LOCKED)
    for name in arm.link_names:
        assert np.allclose(locked.link_pose(q[free], name), arm.link_pose(q, name), atol=1e-12)


def test_names_alone_are_locked_at_zero(arm):
    names = ["left_joint2", "left_joint3"]
    expected = arm.with_locked(dict.fromkeys(names, 0.0))
    assert arm.with_locked(names) == expected == arm.with_locked(name for name in names)
    assert arm.with_locked("left_joint2") == arm.with_locked(["left_joint2"])
    assert arm.with_locked([]) == arm


def test_a_follower_is_locked_with_its_driver():
    here = vm.load(GRIPPER)
    locked = here.with_locked({"k": 0.3})
    assert locked.joint_names == ("j",)
    for name in here.link_names:
        there = here.link_pose([0.3, 0.5], name)
        assert np.allclose(locked.link_pose([0.5], name), there, atol=ROUNDING)


def test_a_follower_can_be_locked_alone():
    locked = vm.load(GRIPPER).with_locked({"m": 0.2})
    assert locked.joint_names == ("k", "j")
    first, other = (locked.link_pose([k, 0.5], "c") for k in (0.1, 0.9))
    assert np.array_equal(first, other)


def test_locking_everything_leaves_a_rigid_body(arm):
    stiff = arm.with_locked(arm.joint_names)
    q = np.zeros(arm.n)
    assert stiff.n == 0 and stiff.mass_matrix([]).shape == (6, 6)
    assert relative(stiff.mass_matrix([]), arm.mass_matrix(q)[:6, :6]) < ROUNDING


def test_locking_while_loading_is_locking_later(arm):
    path = ROBOTS / "satellite_dual_arm.urdf"
    assert vm.load(path, gravity=(0, 0, -9.81), locked_joints=LOCKED) == arm.with_locked(LOCKED)


BAD_LOCKS = {
    "unknown": (["elbow"], errors.UnknownJointError, "unknown joint 'elbow'; valid: left_joint1"),
    "fixed": (["left_tool_joint"], errors.UnknownJointError, "unknown joint 'left_tool_joint'"),
    "infinite": ({"left_joint1": np.inf}, errors.NonFiniteError, "'left_joint1': got inf"),
    "words": ({"left_joint1": "up"}, errors.DimensionError, "locked joints"),
    "None": (None, errors.DimensionError, "locked joints: got None"),
    "unhashable": ([["left_joint1"]], errors.DimensionError, "locked joints"),
}


@pytest.mark.parametrize(("joints", "error", "words"), BAD_LOCKS.values(), ids=BAD_LOCKS)
def test_a_bad_lock_is_refused(arm, joints, error, words):
    with pytest.raises(error, match=words) as caught:
        arm.with_locked(joints)
    assert type(caught.value) is error


def test_the_tip_is_the_last_link_unless_given(arm):
    assert arm.tip_link == arm.link_names[-1]
    path = ROBOTS / "satellite_dual_arm.urdf"
    other = vm.load(path, tip_link="left_tool")
    assert other.tip_link == "left_tool" == other.with_locked(["left_joint1"]).tip_link
    F = other.inverse_dynamics(
        np.eye(4), *([np.zeros(arm.n), np.zeros(6)] + [np.zeros(arm.n), np.zeros(6)]),
        np.zeros(arm.n), tip_wrench=np.ones(6),
    )  # fmt: skip
    J = other.link_jacobian(np.zeros(arm.n), "left_tool")
    assert np.allclose(np.concatenate(F), -J.T @ np.ones(6), atol=ROUNDING)
