# SPDX-License-Identifier: Apache-2.0
"""Numbers that are not finite are refused wherever a robot description has them."""

import re
import warnings

import pytest
from urdf_refusals import B, refused
from urdf_text import joint, link, pair, robot

import vm_dynamics as vm
from vm_dynamics import errors

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
