# SPDX-License-Identifier: Apache-2.0
"""Reading a robot right, and the Robot as a value: immutable, equal by content."""

import copy
import pickle
import time
import warnings
from xml.sax.saxutils import escape

import numpy as np
import pinocchio as pin
import pytest
from cases import ROBOTS, SHIPPED, relative, text
from peer import Peer
from random_robots import random_urdf
from urdf_text import LIMIT, TENSOR, inertia, joint, link, pair, robot

import vm_dynamics as vm
from vm_dynamics import errors
from vm_dynamics.lie import se3
from vm_dynamics.model.inertia import Inertia, combine

# The same sums in another order, in double precision.
ROUNDING = 1e-12
RANDOM = {seed: random_urdf(seed, 8, mimic=0.2) for seed in range(20, 25)}
DOCUMENTS = {
    **{name: text(name) for name in SHIPPED},
    **{f"tree{k}": t for k, t in RANDOM.items()},
}
documents = pytest.mark.parametrize("urdf", DOCUMENTS.values(), ids=DOCUMENTS)
A, B, C, D = (link(name) for name in "abcd")


def shape(robot, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, robot.n)


# -- reading ------------------------------------------------------------------------------------


@documents
def test_masses_are_those_that_pinocchio_reads(urdf):
    here, there = vm.load(urdf), pin.buildModelFromXML(urdf, pin.JointModelFreeFlyer())
    assert here.total_mass == pytest.approx(pin.computeTotalMass(there), rel=ROUNDING)
    assert (
        relative(here.mass_matrix(shape(here)), Peer(here, urdf).mass_matrix(shape(here))) < 1e-10
    )


@documents
def test_limits_efforts_damping_and_friction_are_those_that_pinocchio_reads(urdf):
    here, there = vm.load(urdf), pin.buildModelFromXML(urdf)
    assert here.n == len(here.joint_names) > 0
    for i, name in enumerate(here.joint_names):
        other = there.joints[there.getJointId(name)]
        assert here.effort_limits[i] == there.upperEffortLimit[other.idx_v]
        assert here.velocity_limits[i] == there.upperVelocityLimit[other.idx_v]
        assert here.damping[i] == there.damping[other.idx_v]
        assert here.friction[i] == there.upperDryFrictionLimit[other.idx_v]
        if other.nq == 2:  # Pinocchio's continuous joint, a point on the circle
            assert here.lower_limits[i] == -np.inf and here.upper_limits[i] == np.inf
        else:
            assert here.lower_limits[i] == there.lowerPositionLimit[other.idx_q]
            assert here.upper_limits[i] == there.upperPositionLimit[other.idx_q]


TREE = robot(
    *(link(name) for name in ("right", "left", "base", "left2", "right2", "hand")),
    joint("jr", "base", "right"),
    joint("jl2", "left", "left2", "prismatic"),
    joint("jl", "base", "left"),
    joint("jh", "left2", "hand", "fixed", ""),
    joint("jr2", "right", "right2", "continuous", ""),
)


def test_joints_go_depth_first_and_children_in_document_order():
    here = vm.load(TREE)
    assert here.root_link == "base"
    assert here.joint_names == ("jr", "jr2", "jl", "jl2")
    assert here.link_names == ("base", "right", "right2", "left", "left2", "hand")
    assert here.tip_link == "hand"


@pytest.mark.parametrize("urdf", RANDOM.values(), ids=RANDOM)
def test_every_joint_comes_after_those_that_carry_it(urdf):
    here = vm.load(urdf)
    known = {here.root_link}
    for one, name in zip(here.description.joints, here.link_names[1:], strict=True):
        assert one.parent in known and one.child == name
        known.add(name)
    assert known == set(here.link_names)


def test_a_continuous_joint_has_no_position_limit_but_keeps_the_others():
    limited = '<limit lower="-1" upper="1" effort="5" velocity="3"/><dynamics damping="2"/>'
    here = vm.load(pair(limited, "continuous"))
    assert here.lower_limits.tolist() == [-np.inf] and here.upper_limits.tolist() == [np.inf]
    assert here.effort_limits.tolist() == [5.0] and here.velocity_limits.tolist() == [3.0]
    assert here.damping.tolist() == [2.0] and here.friction.tolist() == [0.0]


@pytest.mark.filterwarnings("ignore::vm_dynamics.errors.UrdfWarning")
def test_a_joint_without_limit_is_unlimited():
    here = vm.load(pair(""))
    for limit in (here.upper_limits, here.velocity_limits, here.effort_limits, -here.lower_limits):
        assert limit.tolist() == [np.inf]


def test_the_default_axis_is_x():
    x, y = (vm.load(pair(f'<axis xyz="{axis}"/>{LIMIT}')) for axis in ("1 0 0", "0 1 0"))
    assert np.array_equal(vm.load(pair()).mass_matrix([0.4]), x.mass_matrix([0.4]))
    assert not np.allclose(x.link_pose([0.4], "b"), y.link_pose([0.4], "b"))


@pytest.mark.parametrize("axis", ["0 0 1", "0 0 -1", "1 0 0", "0.6 0 -0.8", "0 -1 1e-9"])
@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_a_joint_moves_along_its_axis_in_the_frame_of_its_child(axis, kind):
    origin = '<origin xyz="1 2 3" rpy="0.3 -0.4 0.5"/>'
    here = vm.load(pair(f'{origin}<axis xyz="{axis}"/>{LIMIT}', kind))
    start = here.link_pose([0.0], "b")
    direction = np.array(axis.split(), dtype=float)
    twist = np.r_[direction, 0, 0, 0] if kind == "prismatic" else np.r_[0, 0, 0, direction]
    assert np.allclose(here.link_pose([0.7], "b"), start @ se3.exp(0.7 * twist), atol=ROUNDING)


def test_rpy_turns_about_the_fixed_axes_roll_first():
    roll, pitch, yaw = 0.3, -0.4, 0.5
    here = vm.load(pair(f'<origin xyz="1 2 3" rpy="{roll} {pitch} {yaw}"/>{LIMIT}'))
    cr, sr, cp, sp, cy, sy = (f(x) for x in (roll, pitch, yaw) for f in (np.cos, np.sin))
    Rx = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    Ry = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    Rz = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    pose = here.link_pose([0.0], "b")
    assert np.allclose(pose[:3, :3], Rz @ Ry @ Rx, atol=ROUNDING)
    assert np.allclose(pose[:3, 3], [1, 2, 3], atol=ROUNDING)


TURNED = (
    '<origin xyz="0.1 -0.2 0.3" rpy="0.5 1.2 -2"/><mass value="3"/>'
    f"{inertia(0.3, 0.4, 0.5, xy=0.05, xz=-0.04, yz=0.03)}"
)


def test_a_turned_inertial_frame_turns_the_inertia():
    urdf = pair(f'<axis xyz="0 1 0"/>{LIMIT}', inertial=TURNED)
    here = vm.load(urdf)
    assert relative(here.mass_matrix([0.3]), Peer(here, urdf).mass_matrix([0.3])) < ROUNDING
    straight = vm.load(urdf.replace("0.5 1.2 -2", "0 0 0"))
    assert relative(here.mass_matrix([0.3]), straight.mass_matrix([0.3])) > 1e-3


def test_a_missing_lower_or_upper_limit_is_zero():
    here = vm.load(pair('<limit upper="2" effort="1" velocity="1"/>'))
    assert (here.lower_limits.tolist(), here.upper_limits.tolist()) == ([0.0], [2.0])


# -- mimic and fixed joints ---------------------------------------------------------------------

GRIPPER = robot(
    *(A, B, C, D),
    joint("k", "a", "d"),
    joint("m", "b", "c", "prismatic", f'{LIMIT}<mimic joint="k" multiplier="-2" offset="0.1"/>'),
    joint("j", "a", "b"),
)


def test_followers_are_not_counted_and_move_with_their_driver():
    here = vm.load(GRIPPER)
    assert here.joint_names == ("k", "j") and here.n == 2
    free = vm.load(GRIPPER.replace('<mimic joint="k" multiplier="-2" offset="0.1"/>', ""))
    assert free.joint_names == ("k", "j", "m")
    q = np.array([0.3, -0.7])
    moved = np.array([0.3, -0.7, -2 * 0.3 + 0.1])
    assert np.allclose(here.link_pose(q, "c"), free.link_pose(moved, "c"), atol=ROUNDING)
    follow = np.eye(9, 8)
    follow[8, 6] = -2.0
    expected = follow.T @ free.mass_matrix(moved) @ follow
    assert relative(here.mass_matrix(q), expected) < ROUNDING


def test_a_follower_may_come_before_its_driver_in_the_tree():
    urdf = robot(
        A, B, C, joint("m", "a", "b", inside=f'{LIMIT}<mimic joint="j"/>'), joint("j", "b", "c")
    )
    here = vm.load(urdf)
    assert here.joint_names == ("j",)
    assert relative(here.mass_matrix([0.4]), Peer(here, urdf).mass_matrix([0.4])) < ROUNDING


def test_links_behind_fixed_joints_are_merged():
    origin = '<origin xyz="0.3 0.2 0.1" rpy="0 0 1.5707963267948966"/>'
    welded = robot(
        A,
        B,
        link("c", f'<origin xyz="0.1 0 0"/><mass value="2"/>{inertia(0.1, 0.2, 0.3)}'),
        joint("j", "a", "b"),
        joint("weld", "b", "c", "fixed", origin),
    )
    # c's mass lies at (0.3, 0.3, 0.1) in b, its x axis along b's y: combine by hand
    bodies = [(1.0, (0, 0, 0), (0.1, 0.1, 0.1)), (2.0, (0.3, 0.3, 0.1), (0.2, 0.1, 0.3))]
    centre = sum(m * np.array(c) for m, c, _ in bodies) / 3.0
    tensor = np.zeros((3, 3))
    for m, c, moments in bodies:
        d = c - centre
        tensor += np.diag(moments) + m * (d @ d * np.eye(3) - np.outer(d, d))
    one = f'<origin xyz="{" ".join(map(str, centre))}"/><mass value="3"/>' + inertia(
        *np.diag(tensor), xy=tensor[0, 1], xz=tensor[0, 2], yz=tensor[1, 2]
    )
    merged = robot(A, link("b", one), joint("j", "a", "b"))
    assert relative(vm.load(welded).mass_matrix([0.6]), vm.load(merged).mass_matrix([0.6])) < 1e-12
    assert vm.load(welded).link_names == ("a", "b", "c")
    assert np.allclose(vm.load(welded).link_pose([0.0], "c")[:3, 3], [0.3, 0.2, 0.1])


def test_moving_links_behind_a_chain_of_fixed_ones_stand_where_pinocchio_puts_them():
    step = '<origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/>'
    urdf = robot(
        *(A, link("b", None), link("c", TURNED), D, link("e")),
        joint("w1", "a", "b", "fixed", step),
        joint("w2", "b", "c", "fixed", step),
        joint("j", "c", "d", inside=f"{step}{LIMIT}"),
        joint("w3", "d", "e", "fixed", step),
    )
    here = vm.load(urdf)
    peer = Peer(here, urdf)
    assert relative(here.mass_matrix([0.5]), peer.mass_matrix([0.5])) < ROUNDING
    for name in here.link_names:
        assert np.allclose(here.link_pose([0.5], name), peer.link_pose([0.5], name), atol=1e-12)


# -- the root and the base group ----------------------------------------------------------------


def held(kind, root="w", inside="", inertial=None):
    """A pair of links whose first is held by another root."""
    return robot(
        link(root, inertial), A, B, joint("hold", root, "a", kind, inside), joint("j", "a", "b")
    )


def test_a_floating_joint_below_a_massless_root_makes_its_child_the_base():
    here = vm.load(held("floating"))
    assert (here.root_link, here.base_group.name) == ("a", "SE3")
    assert here.link_names == ("a", "b") and here.joint_names == ("j",)
    assert here == vm.load(pair())


def test_a_planar_joint_below_a_massless_root_sets_the_plane():
    here = vm.load(held("planar", inside='<axis xyz="0 1 0"/>'))
    assert (here.root_link, here.base_group.name, here.b) == ("a", "SE2", 3)
    assert np.allclose(here.base_group.axis, [0, 1, 0])
    # free are the two directions of the plane and the turn about its normal
    assert np.linalg.matrix_rank(np.c_[here.base_group.iota, np.eye(6)[:, [0, 2, 4]]]) == 3
    default = vm.load(held("planar"))
    assert np.allclose(default.base_group.axis, [1, 0, 0])  # URDF's default axis


@pytest.mark.parametrize("kind", ["floating", "planar"])
@pytest.mark.parametrize("base", ["SE3", "SE2", "SO3", "T1"])
def test_a_given_base_overrides_the_joint_that_holds_the_root(kind, base):
    assert vm.load(held(kind), base=base) == vm.load(pair(), base=base)


@pytest.mark.filterwarnings("ignore::vm_dynamics.errors.UrdfWarning")
def test_a_robot_fixed_to_world_is_set_free():
    assert vm.load(held("fixed", "world")) == vm.load(pair())
    assert vm.load(held("fixed", "world"), base="SE2") == vm.load(pair(), base="SE2")


def test_a_fixed_root_of_another_name_stays_the_frame_of_the_base():
    step = '<origin xyz="1 0 0"/>'
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        here = vm.load(held("fixed", "base_link", step))
    assert here.root_link == "base_link" and here.link_names == ("base_link", "a", "b")
    assert np.allclose(here.link_pose([0.0], "a")[:3, 3], [1, 0, 0])
    # seen from a, it is the robot that begins there
    g = se3.adjoint(se3.inverse(here.link_pose([0.0], "a")))
    M, alone = here.mass_matrix([0.3]), vm.load(pair()).mass_matrix([0.3])
    assert relative(M[:6, :6], g.T @ alone[:6, :6] @ g) < ROUNDING
    assert relative(M[6:, 6:], alone[6:, 6:]) < ROUNDING


@pytest.mark.filterwarnings("ignore::vm_dynamics.errors.UrdfWarning")
def test_a_world_with_mass_or_with_two_children_is_a_link_like_others():
    heavy = vm.load(held("fixed", "world", inertial=f'<mass value="1"/>{TENSOR}'))
    assert heavy.root_link == "world" and heavy.total_mass == 3.0
    table = robot(
        *(link("world", None), A, B),
        joint("h1", "world", "a", "fixed", ""),
        joint("h2", "world", "b", "fixed", ""),
    )
    assert vm.load(table).root_link == "world"


def test_base_groups_are_taken_by_name_or_as_objects():
    for name in vm.lie.GROUP_NAMES:
        by_name, by_group = vm.load(pair(), base=name), vm.load(pair(), base=vm.lie.group(name))
        assert by_name == by_group and by_name.b == by_group.base_group.dimension
    assert vm.load(pair(), base="H", pitch=0.2).base_group.pitch == 0.2
    assert vm.load(pair(), base="H", pitch=0.2) != vm.load(pair(), base="H", pitch=0.3)


@pytest.mark.parametrize("base", [None, "SE3", "H", vm.lie.group("H")])
def test_a_pitch_without_meaning_is_refused(base):
    with pytest.raises(vm.NonFiniteError, match="pitch: got nan"):
        vm.load(pair(), base=base, pitch=np.nan)
    if base != "H":
        with pytest.raises(vm.ParameterError, match="pitch: got 0.2"):
            vm.load(pair(), base=base, pitch=0.2)


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


# -- extremes -----------------------------------------------------------------------------------


def test_a_single_link_is_a_robot():
    here = vm.load(robot(link("a", TURNED)))
    assert (here.n, here.b, here.joint_names, here.tip_link) == (0, 6, (), "a")
    M = here.mass_matrix([])
    assert M.shape == (6, 6) and np.allclose(M[:3, :3], 3.0 * np.eye(3))
    assert here.effort_limits.shape == (0,)
    assert str(here).split("\n") == ["r: base SE3 (b = 6), n = 0, 3 kg", "a (3 kg)"]
    assert pickle.loads(pickle.dumps(here)) == here


def test_a_hundred_joints_load_in_reasonable_time():
    urdf = random_urdf(1, 100)
    begin = time.process_time()
    assert vm.load(urdf).n == 100
    assert time.process_time() - begin < 2.0


def test_a_chain_of_three_thousand_links_is_no_matter_of_recursion():
    count = 3000
    links = [link(f"l{k}") for k in range(count)]
    step = '<origin xyz="0.001 0 0"/>'
    joints = [
        joint(f"j{k}", f"l{k}", f"l{k + 1}", "fixed", step)
        if k % 100
        else joint(f"j{k}", f"l{k}", f"l{k + 1}", "revolute", f"{step}{LIMIT}")
        for k in range(count - 1)
    ]
    here = vm.load(robot(*links, *joints))
    assert here.n == 30 and len(here.link_names) == count
    assert here.total_mass == pytest.approx(count)
    assert str(here).count("\n") == count
    assert here.with_locked(["j0"]).n == 29
    again = pickle.loads(pickle.dumps(here))
    assert again == here and hash(again) == hash(copy.deepcopy(here))


NAMES = "Körper", "手", "ссылка", "a b", "l&<r", "'q'", "ünï"


def test_names_may_hold_any_letters(tmp_path):
    quoted = [escape(name) for name in NAMES]
    joints = [
        joint(f"⚙{k}", a, b) for k, (a, b) in enumerate(zip(quoted, quoted[1:], strict=False))
    ]
    urdf = robot(*(link(name) for name in quoted), *joints, name="Roboter №1")
    here = vm.load(urdf)
    assert here.link_names == NAMES and here.name == "Roboter №1"
    assert here.joint_names == tuple(f"⚙{k}" for k in range(len(NAMES) - 1))
    assert all(name in str(here) for name in NAMES)
    path = tmp_path / "робот.urdf"
    path.write_text(urdf, encoding="utf-8")
    assert vm.load(path) == vm.load(str(path)) == here


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "iso-8859-1"])
def test_the_declared_encoding_of_a_file_is_obeyed(tmp_path, encoding):
    plain = robot(link("Körper"))
    named = encoding.removesuffix("-sig")
    urdf = f'<?xml version="1.0" encoding="{named}"?>\n{plain}'
    path = tmp_path / "robot.urdf"
    path.write_bytes(urdf.encode(encoding))
    assert vm.load(path) == vm.load(path.read_bytes()) == vm.load(plain)
    assert vm.load(urdf) == vm.load(plain)  # text has been decoded, whatever it declares


def test_a_path_may_look_like_anything(tmp_path):
    folder = tmp_path / "a <b>\nc"
    folder.mkdir()
    path = folder / "robot"
    path.write_text(pair())
    assert vm.load(path) == vm.load(pair())


OTHERS = """
<material name="red"><color rgba="1 0 0 1"/></material>
<transmission name="t"><type>simple</type><joint name="j"><hardwareInterface>effort
</hardwareInterface></joint><actuator name="m"><mechanicalReduction>1</mechanicalReduction>
</actuator></transmission>
<gazebo reference="a"><material>Gazebo/Red</material><mu1>nan</mu1></gazebo>
<gazebo><plugin name="p" filename="x.so"><joint name="j"/><link name="b"/></plugin></gazebo>
<ros2_control name="s" type="system"><hardware><plugin>mock</plugin></hardware>
<joint name="j"><command_interface name="effort"/></joint></ros2_control>
<drake:ball_constraint/><mujoco><compiler meshdir="."/></mujoco><sensor name="cam"/>
<link_group name="a"/>
"""
INSIDE = f"""
<origin xyz="0 0 1" rpy="0 0 0" frame="x"/><axis xyz="0 0 1" expressed_in="child"/>
<limit lower="-1" upper="1" effort="10" velocity="2" drake:acceleration="9"/>
<dynamics damping="0.5" friction="0.1" spring_stiffness="3"/>
<drake:damping value="7"/><hardwareInterface>effort</hardwareInterface>
<safety_controller k_velocity="1"/><calibration rising="0"/><!-- {LIMIT} -->
"""


def test_what_belongs_to_simulators_is_ignored_in_silence(capfd):
    plain = (
        f'<origin xyz="0 0 1"/><axis xyz="0 0 1"/>{LIMIT}<dynamics damping="0.5" friction="0.1"/>'
    )
    rich = pair(INSIDE).replace("</robot>", f"{OTHERS}</robot>")
    rich = rich.replace(
        '<robot name="r">', '<robot name="r" xmlns:drake="http://d" version="1.0">'
    )
    rich = rich.replace("<inertial>", '<self_collide/><inertial density="5"><drake:rotor/>')
    rich = rich.replace('<mass value="1"/>', '<mass value="1" unit="kg"/>')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vm.load(rich) == vm.load(pair(plain))
    assert capfd.readouterr() == ("", "")


# -- inertias -----------------------------------------------------------------------------------


def _points(seed, count=6):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 2.0, count), rng.normal(size=(count, 3))


def _of_points(masses, points):
    """Inertia of point masses, by its definition."""
    com = masses @ points / masses.sum()
    arms = points - com
    tensor = sum(
        m * (d @ d * np.eye(3) - np.outer(d, d)) for m, d in zip(masses, arms, strict=True)
    )
    return Inertia.of(masses.sum(), com, tensor)


def _close(one, other):
    mine, theirs = ([x.mass, *x.com, *x.moments] for x in (one, other))
    return np.allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_inertias_of_point_clouds_combine_and_move_as_the_points_do(seed):
    masses, points = _points(seed)
    whole = _of_points(masses, points)
    assert _close(_of_points(masses[:2], points[:2]) + _of_points(masses[2:], points[2:]), whole)
    pose = se3.exp(np.random.default_rng(seed).normal(size=6))
    moved = points @ pose[:3, :3].T + pose[:3, 3]
    assert _close(whole.moved(pose), _of_points(masses, moved))
    assert whole.unphysical() is None and whole.triangle_violation() is None


def test_nothing_combined_with_nothing_is_nothing():
    assert combine([Inertia(), Inertia()]) == Inertia()
    only = Inertia.of(0.0, np.zeros(3), np.diag([1.0, 2.0, 3.0]))
    assert combine([only, Inertia()]) == only
