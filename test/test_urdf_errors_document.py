# SPDX-License-Identifier: Apache-2.0
"""What is no robot description, or beyond all bars, gets an error of its own class."""

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
from urdf_refusals import GOOD, A, B, J, refused
from urdf_text import LIMIT, pair, robot

import vm_dynamics as vm
from vm_dynamics import errors
from vm_dynamics.model import xml


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


XACRO = {
    "tag": robot(A, '<xacro:macro name="leg"/>'),
    "expression": robot(A, B, J.replace('lower="-1"', 'lower="${-pi}"')),
    "in a drawing": robot(A.replace("</link>", '<visual name="${prefix}_v"/></link>')),
}


@pytest.mark.parametrize("urdf", XACRO.values(), ids=XACRO)
def test_unexpanded_xacro_is_told_from_bad_numbers(urdf):
    refused(urdf, errors.UrdfValueError, "is not expanded xacro", "xacro robot.urdf.xacro")


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
