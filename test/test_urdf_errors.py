# SPDX-License-Identifier: Apache-2.0
"""Bad robot descriptions: each gets an error of its own class that names the culprit."""

import random
import re
import time
import warnings
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest
from cases import ROBOTS, SHIPPED
from hypothesis import example, given
from hypothesis import strategies as st
from urdf_text import LIMIT, TENSOR, inertia, joint, link, pair, robot

import vm_dynamics as vm
from vm_dynamics import errors
from vm_dynamics.model import xml

A, B, C = link("a"), link("b"), link("c")
J = joint("j", "a", "b")
GOOD = robot(A, B, J)


def refused(urdf, error, *words, **options):
    """Check that a description is refused with just this class, its message naming the words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vm.UrdfWarning)
        with pytest.raises(vm.VmDynamicsError) as caught:
            vm.load(urdf, **options)
    assert type(caught.value) is error
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


def test_the_robot_that_the_cases_spoil_is_good():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vm.load(GOOD).joint_names == ("j",)
        assert vm.load(pair()) == vm.load(GOOD)


NOT_A_ROBOT = {
    "empty": ("", errors.UrdfSyntaxError, ["no element found"]),
    "blank": ("  \n ", errors.UrdfSyntaxError, ["no element found"]),
    "unclosed": (GOOD[:-3], errors.UrdfSyntaxError, ["not well-formed", "line 5"]),
    "crossed": ("<robot><link></robot></link>", errors.UrdfSyntaxError, ["mismatched tag"]),
    "prose": ("a robot\nof two links", errors.UrdfSyntaxError, ["not well-formed", "line 1"]),
    "two documents": (GOOD + GOOD, errors.UrdfSyntaxError, ["junk after"]),
    "attribute twice": ('<robot name="a" name="b"/>', errors.UrdfSyntaxError, ["duplicate"]),
    "sdf": ('<sdf version="1.9"/>', errors.UrdfSyntaxError, ["<sdf>", "expected <robot>"]),
    "lone surrogate": ("<robot \ud800/>", errors.UrdfSyntaxError, ["surrogates"]),
    "deep": (
        robot("<a>" * 100_000, "</a>" * 100_000),
        errors.UrdfSyntaxError,
        ["line 2", "<a> is nested deeper than 100"],
    ),
    "deep in a joint": (
        pair("<a>" * 2000 + "</a>" * 2000),
        errors.UrdfSyntaxError,
        ["line 4", "nested deeper"],
    ),
    "number": (5, errors.UrdfSyntaxError, ["got int, expected XML text or a path"]),
    "None": (None, errors.UrdfSyntaxError, ["got NoneType"]),
    "file contents": ([GOOD], errors.UrdfSyntaxError, ["got list"]),
    "missing file": ("no/such.urdf", errors.UrdfNotFoundError, ["no/such.urdf", "No such file"]),
    "unknown home": ("~nobody_at_all/r.urdf", errors.UrdfNotFoundError, ["~nobody_at_all"]),
    "NUL": ("\0", errors.UrdfNotFoundError, ["embedded null"]),
    "no link": ('<robot name="r"/>', errors.NoLinkError, ["the robot has no link"]),
    "joint only": (robot(J), errors.NoLinkError, ["the robot has no link"]),
}


@pytest.mark.parametrize(("urdf", "error", "words"), NOT_A_ROBOT.values(), ids=NOT_A_ROBOT)
def test_what_is_no_robot_description_is_refused(urdf, error, words):
    refused(urdf, error, *words)


def test_a_directory_is_refused(tmp_path):
    refused(tmp_path, errors.UrdfNotFoundError, str(tmp_path), "directory")
    refused(str(tmp_path), errors.UrdfNotFoundError, str(tmp_path))


def test_a_missing_file_is_also_a_file_not_found_error():
    with pytest.raises(FileNotFoundError):
        vm.load("no/such.urdf")


def test_a_long_wrong_path_is_not_repeated_at_length():
    assert len(refused("x" * 100_000, errors.UrdfNotFoundError, "xxx...")) < 400


def test_a_file_that_is_not_text_is_refused(tmp_path):
    path = tmp_path / "mesh.urdf"
    path.write_bytes(bytes(np.random.default_rng(0).integers(0, 256, 1000, dtype=np.uint8)))
    refused(path, errors.UrdfSyntaxError, "not well-formed")


@pytest.mark.parametrize("encoding", ["nonsense", "shift_jis"])
def test_an_encoding_that_cannot_be_read_is_refused(encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?>{GOOD}'
    refused(text.encode(), errors.UrdfSyntaxError, "encoding")


def test_bytes_are_a_document():
    assert vm.load(GOOD.encode()) == vm.load(GOOD)
    assert vm.load(bytearray(GOOD.encode())) == vm.load(GOOD)
    refused(GOOD[:-3].encode(), errors.UrdfSyntaxError, "not well-formed")
    refused(b"no/such.urdf", errors.UrdfSyntaxError, "not well-formed")


def test_a_file_of_50_megabytes_is_refused_without_being_read(tmp_path, monkeypatch):
    path = tmp_path / "big.urdf"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    monkeypatch.setattr(type(path), "open", None)
    refused(path, errors.UrdfTooLargeError, "big.urdf has 50 MB, expected at most 10 MB")
    refused(str(path), errors.UrdfTooLargeError, "big.urdf has 50 MB")


def test_a_device_without_end_is_read_only_up_to_the_bar():
    refused("/dev/zero", errors.UrdfTooLargeError, "/dev/zero has more than 10 MB")


@pytest.mark.parametrize("start", ["<robot>", "", b"<robot>"], ids=["text", "path", "bytes"])
def test_a_text_of_50_megabytes_is_refused_at_once(start):
    text = start + (b" " if isinstance(start, bytes) else " ") * 50_000_000
    begin = time.perf_counter()
    message = refused(text, errors.UrdfTooLargeError, "50 MB", "at most 10 MB")
    assert time.perf_counter() - begin < 0.5
    assert len(message) < 200


LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 10))
DECLARATIONS = {
    "billion laughs": (
        f'<!DOCTYPE robot [<!ENTITY l0 "ha">{LAUGHS}]>'
        + robot(A).replace(' name="r"', "").replace("</robot>", "&l9;</robot>")
    ),
    "quadratic blowup": (
        f'<!DOCTYPE r [<!ENTITY a "{"a" * 50_000}">]><robot>{"&a;" * 50_000}</robot>'
    ),
    "external entity": '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><robot>&x;</robot>',
    "external type": '<!DOCTYPE robot SYSTEM "http://localhost:9/robot.dtd">' + GOOD,
    "parameter entity": '<!DOCTYPE r [<!ENTITY % p SYSTEM "file:///etc/passwd"> %p;]>' + GOOD,
    "plain": "<!DOCTYPE robot>" + GOOD,
}


@pytest.mark.parametrize("urdf", DECLARATIONS.values(), ids=DECLARATIONS)
def test_a_document_type_is_refused_before_anything_expands(urdf, tmp_path):
    begin = time.perf_counter()
    refused(urdf, errors.UrdfEntityError, "line 1", "<!DOCTYPE")
    path = tmp_path / "robot.urdf"
    path.write_text(urdf, encoding="utf-16")
    refused(path, errors.UrdfEntityError, "<!DOCTYPE")
    assert time.perf_counter() - begin < 0.5


def test_an_entity_without_declaration_is_refused():
    refused(robot(A, "&boom;"), errors.UrdfSyntaxError, "undefined entity", "line 3")


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


EVERY_NUMBER = """<robot name="r">
<material name="steel"><color rgba="0.1 0.2 0.3 1"/></material>
<link name="a"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<link name="b">
<inertial><origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/><mass value="1"/>
<inertia ixx="1" ixy="0.1" ixz="0.1" iyy="1" iyz="0.1" izz="1"/></inertial>
<visual><origin xyz="0 0 0.1" rpy="0 0 0.1"/><geometry><box size="1 1 1"/></geometry>
<material name="m"><color rgba="1 1 1 1"/></material></visual>
<collision><origin xyz="0 0 1" rpy="0 0 1"/><geometry><cylinder radius="1" length="1"/></geometry>
</collision>
</link>
<link name="c"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
<joint name="j" type="revolute"><parent link="a"/><child link="b"/>
<origin xyz="0.1 0.2 0.3" rpy="0.1 0.2 0.3"/><axis xyz="0.6 0 0.8"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/><dynamics damping="0.1" friction="0.1"/>
<safety_controller k_velocity="1" k_position="1" soft_lower_limit="-1" soft_upper_limit="1"/>
<calibration rising="0"/></joint>
<joint name="m" type="revolute"><parent link="b"/><child link="c"/>
<mimic joint="j" multiplier="2" offset="0.1"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
</robot>"""
NUMBERS = [*re.finditer(r'(?<=[" ])-?[0-9.]+(?=[" ])', EVERY_NUMBER)]


def _place(number):
    return re.findall(r'(\w+)="', EVERY_NUMBER[: number.start()])[-1]


def test_the_robot_of_every_number_is_good():
    assert len(NUMBERS) == 78
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vm.load(EVERY_NUMBER).n == 1


@pytest.mark.parametrize("number", NUMBERS, ids=_place)
@pytest.mark.parametrize("word", ["nan", "-inf"])
def test_a_number_that_is_not_finite_is_refused_wherever_it_is(number, word):
    before, after = EVERY_NUMBER[: number.start()], EVERY_NUMBER[number.end() :]
    owner = re.findall(r'^<(\w+) name="(\w+)"', before, flags=re.MULTILINE)[-1]
    owner = ("link", "b") if before.count("<link") == 2 and owner[1] == "m" else owner
    refused(
        before + word + after,
        errors.NonFiniteNumberError,
        f"line {before.count(chr(10)) + 1}: {owner[0]} {owner[1]!r}: ",
        word,
        "is not finite",
    )


@pytest.mark.parametrize("word", ["NaN", "+inf", "Infinity", "-INFINITY", "1e999"])
def test_every_spelling_of_what_is_not_finite_is_refused(word):
    refused(pair(inertial=f'<mass value="{word}"/>'), errors.NonFiniteNumberError, "'b'", word)


@pytest.mark.parametrize("word", ["nan", "inf", "infinity"])
def test_names_may_be_spelled_like_numbers(word):
    urdf = robot(link(word), B, joint(word, word, "b"), name=word)
    assert vm.load(urdf).link_names == (word, "b")


XACRO = {
    "tag": robot(A, '<xacro:macro name="leg"/>'),
    "expression": robot(A, B, J.replace('lower="-1"', 'lower="${-pi}"')),
    "in a drawing": robot(A.replace("</link>", '<visual name="${prefix}_v"/></link>')),
}


@pytest.mark.parametrize("urdf", XACRO.values(), ids=XACRO)
def test_unexpanded_xacro_is_told_from_bad_numbers(urdf):
    refused(urdf, errors.UrdfValueError, "is not expanded xacro", "xacro robot.urdf.xacro")


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


LOAD_ARGUMENTS = {
    "base": (
        {"base": "SE4"},
        errors.UnknownGroupError,
        "unknown base group 'SE4'; valid: SE3, SE2, SO3, X, T3, T2, C, SO2, T1, H",
    ),
    "tip": ({"tip_link": "hand"}, errors.UnknownLinkError, "unknown tip_link 'hand'; valid: a, b"),
    "locked": ({"locked_joints": ["k"]}, errors.UnknownJointError, "unknown joint 'k'; valid: j"),
    "locked at NaN": ({"locked_joints": {"j": np.nan}}, errors.NonFiniteError, "'j': got nan"),
    "locked at text": ({"locked_joints": {"j": "up"}}, errors.DimensionError, "locked joints"),
    "locked number": ({"locked_joints": 3}, errors.DimensionError, "locked joints: got 3"),
    "gravity": ({"gravity": (0, 0)}, errors.DimensionError, "gravity: got shape (2,)"),
    "gravity NaN": ({"gravity": (0, 0, np.nan)}, errors.NonFiniteError, "gravity"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "error", "word"), LOAD_ARGUMENTS.values(), ids=LOAD_ARGUMENTS)
def test_a_bad_argument_of_load_is_refused_by_name(options, error, word):
    refused(GOOD, error, word, **options)


# -- anything at all --------------------------------------------------------------------------

JUNK = (
    "", " ", "0", "-1", "nan", "-inf", "1e308", "-1e308", "1e-320", "1e31", "1 2", "0 0 0",
    "1e29 1e29 1e29", "x", "base_link", "joint1", "fixed", "floating", "planar", "prismatic",
    "continuous", "&amp;", "${x}", "\ud7ff", "９", "0x10", "1e", "--1", "+1", ".", "1.", "١",
)  # fmt: skip


def _mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 2, 3))):
        how = rng.choices(range(6), (1, 1, 2, 2, 4, 4))[0]
        if how == 0:  # a few characters go
            start = rng.randrange(len(text))
            text = text[:start] + text[start + rng.randint(1, 20) :]
        elif how == 1:  # a character changes
            start = rng.randrange(len(text))
            text = text[:start] + rng.choice('<>/"=&;! \n\0a0-é') + text[start + 1 :]
        elif how == 2:  # an element goes
            found = rng.choice([*re.finditer(r"<(\w+)[^<>]*/>|</?\w+[^<>]*>", text)] or [None])
            if found:
                text = text[: found.start()] + text[found.end() :]
        elif how == 3:  # an element comes twice
            found = rng.choice([*re.finditer(r"<(\w+)[^<>]*/>", text)] or [None])
            if found:
                text = text[: found.end()] + found[0] + text[found.end() :]
        else:  # a value becomes junk, or that of another attribute
            values = [*re.finditer(r'"([^"<]*)"', text)]
            if values:
                found = rng.choice(values)
                new = rng.choice(JUNK) if how == 4 else rng.choice(values)[1]
                text = f'{text[: found.start()]}"{new}"{text[found.end() :]}'
    return text


def _lean(text: str) -> str:
    """Without comments and drawings, where a mutation hits nothing."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return re.sub(r"<(visual|collision|material)\b.*?</\1>", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_mutated_robot_is_loaded_or_refused_but_never_crashes(name, capfd):
    text = _lean((ROBOTS / f"{name}.urdf").read_text())
    rng = random.Random(name)
    loaded, kinds = 0, set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vm.UrdfWarning)
        for _ in range(150):
            try:
                robot_ = vm.load(_mutate(text, rng))
            except vm.UrdfError as error:
                kinds.add(type(error))
            else:
                loaded += 1
                assert np.isfinite(robot_.mass_matrix(np.full(robot_.n, 0.3))).all()
    assert loaded > 3 and len(kinds) > 3  # else the mutations would show nothing
    assert capfd.readouterr().err == ""


@given(st.text(max_size=60) | st.binary(max_size=60))
@example("\x00")
@example("~")
def test_any_text_is_refused_with_an_error_of_the_package(text):
    with pytest.raises(vm.UrdfError):
        vm.load(text)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20))
def test_any_attribute_value_is_taken_or_refused(value):
    for key in ('value="1"', 'xyz="1 0 0"', 'type="revolute"', 'link="b"', 'lower="-1"'):
        text = pair(f'<axis xyz="1 0 0"/>{LIMIT}').replace(
            key, key.split("=")[0] + "=" + quoteattr(value)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", vm.UrdfWarning)
            try:
                assert vm.load(text).total_mass > 0.0
            except vm.UrdfError as error:
                assert str(error)


def test_the_bar_on_size_lies_far_above_the_shipped_robots(robot_files):
    assert len(robot_files) == 8
    assert max(path.stat().st_size for path in robot_files) < 0.01 * xml.MAX_BYTES
