# SPDX-License-Identifier: Apache-2.0
"""Trees, inertials, joints and masses that cannot be: errors that name the culprit."""

import pytest
from urdf_refusals import A, B, C, J, refused
from urdf_text import LIMIT, TENSOR, inertia, joint, link, pair, robot

import vm_dynamics as vm
from vm_dynamics import errors

STRUCTURE = {
    "two roots": (robot(A, B), errors.MultipleRootsError, ["2 links have no parent: 'a', 'b'"]),
    "three roots": (robot(A, B, C), errors.MultipleRootsError, ["'a', 'b', 'c'"]),
    "two parents": (
        robot(A, B, C, joint("j", "a", "c"), joint("k", "b", "c"), joint("m", "a", "b")),
        errors.KinematicLoopError,
        ["link 'c' has two parents: joint 'j' and joint 'k'"],
    ),
    "the same two links twice": (
        robot(A, B, J, joint("k", "a", "b")),
        errors.KinematicLoopError,
        ["link 'b' has two parents", "'j'", "'k'"],
    ),
    "pure cycle": (
        robot(A, B, J, joint("k", "b", "a")),
        errors.KinematicLoopError,
        ["links form a loop: a <- b <- a"],
    ),
    "cycle of one": (
        robot(A, joint("j", "a", "a")),
        errors.KinematicLoopError,
        ["links form a loop: a <- a"],
    ),
    "cycle beside a root": (
        robot(A, B, C, joint("j", "b", "c"), joint("k", "c", "b")),
        errors.KinematicLoopError,
        ["links form a loop: b <- c <- b"],
    ),
    "tail of a cycle": (
        robot(C, A, B, J, joint("k", "b", "a"), joint("m", "b", "c")),
        errors.KinematicLoopError,
        ["links form a loop: b <- a <- b"],
    ),
    "no parent": (
        robot(A, B, J.replace('<parent link="a"/>', "")),
        errors.MissingLinkError,
        ["joint 'j': its parent is missing", "Links: a, b"],
    ),
    "no child": (
        robot(A, B, J.replace('<child link="b"/>', "")),
        errors.MissingLinkError,
        ["joint 'j': its child is missing"],
    ),
    "parent without link": (
        robot(A, B, J.replace('<parent link="a"/>', "<parent/>")),
        errors.MissingLinkError,
        ["joint 'j': its parent is missing"],
    ),
    "unknown parent": (
        robot(A, B, joint("j", "nowhere", "b")),
        errors.MissingLinkError,
        ["joint 'j': its parent 'nowhere' is not a link", "Links: a, b"],
    ),
    "unknown child": (
        robot(A, joint("j", "a", "nowhere")),
        errors.MissingLinkError,
        ["joint 'j': its child 'nowhere' is not a link"],
    ),
    "unknown child of a floating joint": (
        robot(link("w", None), joint("j", "w", "nowhere", "floating", "")),
        errors.MissingLinkError,
        ["its child 'nowhere'"],
    ),
    "two parent elements": (
        robot(A, B, J.replace("<child", '<parent link="b"/><child')),
        errors.UrdfValueError,
        ["joint 'j': more than one <parent>"],
    ),
    "link twice": (
        robot(A, B, B, J),
        errors.DuplicateNameError,
        ["link 'b' is defined twice, first on line 3"],
    ),
    "joint twice": (
        robot(A, B, C, J, joint("j", "b", "c")),
        errors.DuplicateNameError,
        ["joint 'j' is defined twice, first on line 5"],
    ),
    "link without name": (
        robot(A, B, J, "<link/>"),
        errors.UrdfValueError,
        ["line 5", "a link has no name"],
    ),
    "joint without name": (
        robot(A, B, J.replace(' name="j"', "")),
        errors.UrdfValueError,
        ["line 4", "a joint has no name"],
    ),
    "unknown type": (
        robot(A, B, joint("j", "a", "b", "hinge")),
        errors.UnknownJointTypeError,
        ["joint 'j': type 'hinge' is unknown", "revolute, continuous, prismatic, fixed"],
    ),
    "type in capitals": (
        robot(A, B, joint("j", "a", "b", "Revolute")),
        errors.UnknownJointTypeError,
        ["joint 'j': type 'Revolute' is unknown"],
    ),
    "no type": (
        robot(A, B, J.replace(' type="revolute"', "")),
        errors.UnknownJointTypeError,
        ["joint 'j': type None is unknown"],
    ),
    "floating inside": (
        robot(A, B, joint("j", "a", "b", "floating", "")),
        errors.UnsupportedJointError,
        ["joint 'j': a floating joint inside the arm", "massless root"],
    ),
    "planar inside": (
        robot(
            link("w", None), A, B,
            joint("f", "w", "a", "floating", ""), joint("p", "a", "b", "planar"),
        ),
        errors.UnsupportedJointError,
        ["joint 'p': a planar joint inside the arm"],
    ),
    "floating beside another": (
        robot(
            link("w", None), A, B,
            joint("f", "w", "a", "floating", ""), joint("g", "w", "b", "fixed", ""),
        ),
        errors.UnsupportedJointError,
        ["joint 'f': a floating joint inside the arm"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("urdf", "error", "words"), STRUCTURE.values(), ids=STRUCTURE)
def test_a_tree_that_is_none_is_refused_and_names_the_culprit(urdf, error, words):
    refused(urdf, error, *words)


INERTIA = {
    "negative mass": (f'<mass value="-2"/>{TENSOR}', errors.NegativeMassError, "mass = -2 kg"),
    "negative moment": (
        f'<mass value="1"/>{inertia(-0.1, 0.1, 0.1)}',
        errors.UnphysicalInertiaError,
        "not positive definite: smallest principal moment -0.1 < 0",
    ),
    "products too large": (
        f'<mass value="1"/>{inertia(1, 1, 1, xy=2)}',
        errors.UnphysicalInertiaError,
        "not positive definite: smallest principal moment -1 < 0",
    ),
    "triangle": (
        f'<mass value="1"/>{inertia(1, 2, 4)}',
        errors.UnphysicalInertiaError,
        "triangle inequality I1 + I2 >= I3 of the principal moments is violated: 1 + 2 < 4 kg m^2",
    ),
    "triangle of turned axes": (
        f'<mass value="1"/>{inertia(2, 2, 0.5, xy=1.5)}',
        errors.UnphysicalInertiaError,
        "is violated: 0.5 + 0.5 < 3.5 kg m^2",
    ),
    "no mass": (TENSOR, errors.UrdfValueError, "<inertial> has no <mass>"),
    "mass without value": (f"<mass/>{TENSOR}", errors.UrdfValueError, "no attribute 'value'"),
    "mass of words": ('<mass value="one"/>', errors.UrdfValueError, "mass value='one'"),
    "mass of two": ('<mass value="1 2"/>', errors.UrdfValueError, "mass value='1 2'"),
    "empty mass": ('<mass value=""/>', errors.UrdfValueError, "value='', expected 1 number"),
    "decimal comma": ('<mass value="1,5"/>', errors.UrdfValueError, "mass value='1,5'"),
    "digits of Python": ('<mass value="1_0"/>', errors.UrdfValueError, "mass value='1_0'"),
    "digits of Arabic": ('<mass value="٣"/>', errors.UrdfValueError, "expected 1 number"),
    "two masses": (
        f'<mass value="1"/><mass value="-1"/>{TENSOR}',
        errors.UrdfValueError,
        "more than one <mass>",
    ),
    "two inertias": (
        f'<mass value="1"/>{TENSOR}{TENSOR}',
        errors.UrdfValueError,
        "more than one <inertia>",
    ),
    "two origins": (
        f'<origin/><origin xyz="1 0 0"/><mass value="1"/>{TENSOR}',
        errors.UrdfValueError,
        "more than one <origin>",
    ),
    "missing moment": (
        f'<mass value="1"/>{TENSOR.replace("izz", "Izz")}',
        errors.UrdfValueError,
        "<inertia> has no attribute 'izz'",
    ),
    "origin of two": (
        f'<origin xyz="1 2"/><mass value="1"/>{TENSOR}',
        errors.UrdfValueError,
        "origin xyz='1 2', expected 3 numbers",
    ),
    "overflow": (
        f'<mass value="1e300"/>{TENSOR}',
        errors.UrdfValueError,
        "mass value='1e300', expected at most 1e+30",
    ),
}


@pytest.mark.parametrize(("inertial", "error", "word"), INERTIA.values(), ids=INERTIA)
def test_a_bad_inertial_is_refused_and_names_the_link(inertial, error, word):
    refused(pair(inertial=inertial), error, "line 3", "link 'b'", word)


def test_two_inertials_are_refused():
    twice = B.replace("<inertial>", f'<inertial><mass value="1"/>{TENSOR}</inertial><inertial>')
    refused(robot(A, twice, J), errors.UrdfValueError, "link 'b': more than one <inertial>")


JOINT = {
    "zero axis": (f'<axis xyz="0 0 0"/>{LIMIT}', errors.ZeroAxisError, "axis '0 0 0'"),
    "tiny axis": (f'<axis xyz="0 0 1e-12"/>{LIMIT}', errors.ZeroAxisError, "has no direction"),
    "axis of two": (f'<axis xyz="0 1"/>{LIMIT}', errors.UrdfValueError, "axis xyz='0 1'"),
    "axis of words": (f'<axis xyz="x y z"/>{LIMIT}', errors.UrdfValueError, "axis xyz='x y z'"),
    "axis without xyz": (f"<axis/>{LIMIT}", errors.UrdfValueError, "<axis> has no attribute"),
    "axis beyond all": (f'<axis xyz="1e99 0 0"/>{LIMIT}', errors.UrdfValueError, "at most 1e+30"),
    "two axes": (
        f'<axis xyz="1 0 0"/><axis xyz="0 1 0"/>{LIMIT}',
        errors.UrdfValueError,
        "<axis>",
    ),
    "origin of four": (
        f'<origin rpy="0 0 0 1"/>{LIMIT}',
        errors.UrdfValueError,
        "origin rpy='0 0 0 1', expected 3 numbers",
    ),
    "two origins": (f"<origin/><origin/>{LIMIT}", errors.UrdfValueError, "more than one <origin>"),
    "no effort": (
        '<limit lower="0" upper="1" velocity="1"/>',
        errors.UrdfValueError,
        "<limit> has no attribute 'effort'",
    ),
    "no velocity": (
        '<limit lower="0" upper="1" effort="1"/>',
        errors.UrdfValueError,
        "<limit> has no attribute 'velocity'",
    ),
    "lower above upper": (
        '<limit lower="1" upper="-1" effort="1" velocity="1"/>',
        errors.UrdfValueError,
        "lower 1, upper -1, effort 1, velocity 1: expected lower <= upper",
    ),
    "negative effort": (
        '<limit lower="0" upper="1" effort="-1" velocity="1"/>',
        errors.UrdfValueError,
        "effort -1",
    ),
    "negative velocity": (
        '<limit lower="0" upper="1" effort="1" velocity="-1"/>',
        errors.UrdfValueError,
        "velocity -1",
    ),
    "limit in degrees": (
        '<limit lower="-90deg" upper="1" effort="1" velocity="1"/>',
        errors.UrdfValueError,
        "limit lower='-90deg', expected 1 number",
    ),
    "negative damping": (
        f'{LIMIT}<dynamics damping="-0.1"/>',
        errors.UrdfValueError,
        "damping = -0.1 is negative",
    ),
    "negative friction": (
        f'{LIMIT}<dynamics friction="-0.1"/>',
        errors.UrdfValueError,
        "friction = -0.1 is negative",
    ),
    "damping of words": (
        f'{LIMIT}<dynamics damping="low"/>',
        errors.UrdfValueError,
        "dynamics damping='low'",
    ),
    "follows nothing": (f'{LIMIT}<mimic joint="x"/>', errors.MimicError, "follows 'x', which is"),
    "follows no name": (f"{LIMIT}<mimic/>", errors.MimicError, "follows None"),
    "follows itself": (f'{LIMIT}<mimic joint="j"/>', errors.MimicError, "follows itself"),
}


@pytest.mark.parametrize(("inside", "error", "word"), JOINT.values(), ids=JOINT)
def test_a_bad_joint_is_refused_by_name(inside, error, word):
    refused(pair(inside), error, "line 4", "joint 'j'", word)


@pytest.mark.parametrize("kind", ["revolute", "continuous", "prismatic"])
def test_every_moving_joint_needs_an_axis_with_direction(kind):
    refused(pair(f'<axis xyz="0 0 0"/>{LIMIT}', kind), errors.ZeroAxisError, "joint 'j'")


def test_the_axis_of_a_fixed_joint_may_be_zero_but_not_malformed():
    assert vm.load(pair('<axis xyz="0 0 0"/>', "fixed")).n == 0
    refused(pair('<axis xyz="0 0"/>', "fixed"), errors.UrdfValueError, "joint 'j': axis")


def follower(kind="revolute", driver="j"):
    return joint("m", "b", "c", kind, f'{LIMIT}<mimic joint="{driver}"/>')


MIMIC = {
    "a fixed joint": (robot(A, B, C, joint("j", "a", "b", "fixed", ""), follower()), "is fixed"),
    "a follower": (
        robot(
            A, B, C, link("d"), J, follower(), joint("k", "c", "d", inside='<mimic joint="m"/>')
        ),
        "joint 'k': follows 'm', which is a follower itself",
    ),
    "by a fixed joint": (robot(A, B, C, J, follower("fixed")), "is fixed and cannot follow"),
    "each other": (
        robot(A, B, C, joint("j", "a", "b", inside='<mimic joint="m"/>'), follower()),
        "joint 'm': follows 'j', which is a follower itself",
    ),
}


@pytest.mark.parametrize(("urdf", "word"), MIMIC.values(), ids=MIMIC)
def test_following_what_cannot_lead_is_refused(urdf, word):
    refused(urdf, errors.MimicError, word)


@pytest.mark.parametrize("key", ["multiplier", "offset"])
def test_a_malformed_mimic_number_is_refused(key):
    inside = f'{LIMIT}<mimic joint="j" {key}="twice"/>'
    urdf = robot(A, B, C, J, joint("m", "b", "c", inside=inside))
    refused(urdf, errors.UrdfValueError, "joint 'm'", f"mimic {key}='twice'")


ON_THE_AXIS = '<origin xyz="0.1 0.2 0.3"/><mass value="1"/>'
SINGULAR = {
    "massless leaf": (robot(A, link("b", None), J), ["joint 'j'", "link 'b'", "massless"]),
    "leaf of mass zero": (pair(inertial='<mass value="0"/>'), ["joint 'j'", "link 'b'"]),
    "massless behind massless": (
        robot(A, link("b", None), link("c", None), J, joint("k", "b", "c")),
        ["joint 'j'", "link 'b'"],
    ),
    "massless slide": (robot(A, link("b", None), joint("j", "a", "b", "prismatic")), ["'j'"]),
    "point on the axis": (
        pair(f'<origin xyz="1 2 3" rpy="1 2 3"/><axis xyz="1 2 3"/>{LIMIT}', inertial=ON_THE_AXIS),
        ["joint 'j'", "link 'b'", "points on its axis"],
    ),
    "massless root below a hinge": (
        robot(link("a", None), B, J),
        ["not positive definite", "motion of the base or of several joints"],
    ),
    "two hinges in line": (
        robot(A, link("b", None), C, J, joint("k", "b", "c")),
        ["not positive definite"],
    ),
    "no mass at all": (robot(link("a", None)), ["not positive definite"]),
}  # fmt: skip


@pytest.mark.parametrize(("urdf", "words"), SINGULAR.values(), ids=SINGULAR)
def test_a_motion_without_inertia_is_refused(urdf, words):
    refused(urdf, errors.SingularMassMatrixError, *words)


def test_a_tiny_but_real_inertia_far_out_is_accepted():
    # a gear of a gram and a centimetre at the end of a boom of 10 m
    gear = f'<mass value="1e-3"/>{inertia(5e-8, 5e-8, 1e-7)}'
    robot_ = vm.load(pair(f'<origin xyz="10 0 0"/><axis xyz="0 0 1"/>{LIMIT}', inertial=gear))
    assert robot_.mass_matrix([0.0])[6, 6] == pytest.approx(1e-7, rel=1e-6)


def test_all_errors_are_in_the_message_of_the_first():
    urdf = robot(link("a", '<mass value="-1"/>'), B, joint("j", "a", "b", "hinge"))
    message = refused(urdf, errors.NegativeMassError, "line 2: link 'a'", "line 4: joint 'j'")
    assert message.count("error:") == message.count("hint:") == 2


def test_the_list_of_links_in_a_message_is_cut():
    links = [link(f"l{k}") for k in range(3000)]
    joints = [joint(f"j{k}", "nowhere", f"l{k}") for k in range(3000)]
    assert len(refused(robot(*links, *joints), errors.MissingLinkError, "l19, ...")) < 1_000_000
