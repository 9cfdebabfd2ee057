# SPDX-License-Identifier: Apache-2.0
"""The checker: all problems at once, with severity, line and hint; warnings do not stop."""

import re
import time
import warnings

import pytest
from cases import ROBOTS, SHIPPED
from urdf_text import LIMIT, TENSOR, inertia, joint, link, pair, robot

import vm_dynamics as vm
from vm_dynamics import errors
from vm_dynamics.model import check, xml
from vm_dynamics.model.urdf import all_problems

# Ten errors and three warnings; EXPECTED tells the line of each.
MANY = """<robot name="many">
  <link name="a">
    <inertial>
      <mass value="-1"/>
      <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>
    </inertial>
  </link>
  <link name="b">
    <inertial>
      <origin xyz="0 0 nan"/>
      <mass value="1"/>
    </inertial>
  </link>
  <link name="b"/>
  <joint name="j" type="hinge">
    <parent link="a"/>
    <child link="b"/>
    <axis xyz="0 0 2"/>
  </joint>
  <joint name="k" type="revolute">
    <parent link="b"/>
    <child link="nowhere"/>
    <axis xyz="0 0 0"/>
    <dynamics damping="-1"/>
  </joint>
  <joint name="m" type="continuous">
    <parent link="b"/>
    <child link="a"/>
    <axis xyz="0 0 2"/>
    <limit
      effort="0"
      velocity="one"/>
    <mimic joint="x"/>
  </joint>
</robot>
"""
EXPECTED = [
    ("error", 3, errors.NegativeMassError, "link 'a': mass = -1 kg"),
    ("error", 10, errors.NonFiniteNumberError, "link 'b': origin xyz='0 0 nan'"),
    ("error", 14, errors.DuplicateNameError, "link 'b' is defined twice, first on line 8"),
    ("error", 15, errors.UnknownJointTypeError, "joint 'j': type 'hinge'"),
    ("error", 20, errors.MissingLinkError, "joint 'k': its child 'nowhere'"),
    ("error", 23, errors.ZeroAxisError, "joint 'k': axis '0 0 0'"),
    ("error", 24, errors.UrdfValueError, "joint 'k': damping = -1"),
    ("error", 26, errors.KinematicLoopError, "links form a loop: a <- b <- a"),
    ("error", 30, errors.UrdfValueError, "joint 'm': limit velocity='one'"),
    ("error", 33, errors.MimicError, "joint 'm': follows 'x'"),
    ("warning", 9, errors.UrdfError, "link 'b': <inertial> has no <inertia>"),
    ("warning", 20, errors.UrdfError, "joint 'k': no <limit>"),
    ("warning", 29, errors.UrdfError, "joint 'm': axis '0 0 2' has length 2"),
]


def found_in(urdf, **options):
    return check.problems(xml.parse(urdf), **options)


def test_all_problems_are_found_at_once_each_on_its_line():
    found = found_in(MANY)
    assert [(p.severity, p.line, p.kind) for p in found] == [e[:3] for e in EXPECTED]
    for problem, (*_, words) in zip(found, EXPECTED, strict=True):
        assert words in problem.message


def test_errors_come_before_warnings_and_both_by_line():
    found = found_in(MANY)
    order = [(p.severity != "error", p.line) for p in found]
    assert order == sorted(order)
    assert {p.severity for p in found} == {"error", "warning"}


def test_every_problem_has_a_hint_and_prints_it_with_severity_and_line():
    for problem in found_in(MANY):
        assert re.match(r"[A-Z]\w", problem.hint)
        assert str(problem) == (
            f"{problem.severity}: line {problem.line}: {problem.message}\n    hint: {problem.hint}"
        )


def test_lines_count_from_the_start_of_the_file(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text('<?xml version="1.0"?>\n<!-- two\nlines -->\n' + MANY)
    shifted = [p.line - 3 for p in all_problems(path)]
    assert shifted == [p.line for p in found_in(MANY)]
    path.write_bytes(MANY.replace("\n", "\r\n").encode())
    assert [p.line for p in all_problems(path)] == [p.line for p in found_in(MANY)]


def test_the_first_error_is_the_one_that_load_raises():
    with pytest.raises(errors.NegativeMassError) as caught:
        vm.load(MANY)
    worst = [str(p) for p in found_in(MANY) if p.severity == "error"]
    assert str(caught.value) == "\n".join(worst)


def test_what_cannot_be_parsed_is_one_problem():
    (problem,) = all_problems("<robot>")
    assert problem.severity == "error" and problem.kind is errors.UrdfSyntaxError
    assert "no element found" in problem.message
    (problem,) = all_problems("no/such.urdf")
    assert problem.kind is errors.UrdfNotFoundError


def test_a_wrong_root_is_the_only_problem_of_its_document():
    (problem,) = found_in("<sdf><link/><link/></sdf>")
    assert problem.kind is errors.UrdfSyntaxError and "SDF" in problem.hint


def test_every_loop_is_reported():
    links = [link(name) for name in "abcde"]
    loops = [
        joint("j", "a", "b"),
        joint("k", "b", "a"),
        joint("m", "c", "d"),
        joint("n", "d", "c"),
    ]
    found = [p for p in found_in(robot(*links, *loops)) if p.kind is errors.KinematicLoopError]
    assert [p.message for p in found] == [
        "links form a loop: a <- b <- a",
        "links form a loop: c <- d <- c",
    ]


def test_a_missing_link_is_not_reported_again_as_a_second_root():
    found = found_in(robot(link("a"), link("b"), joint("j", "a", "B")))
    assert [p.kind for p in found] == [errors.MissingLinkError]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_robot_has_no_problem(name):
    path = ROBOTS / f"{name}.urdf"
    assert list(all_problems(path)) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vm.load(path).name == name


def based(kind, inside):
    """One link, held by a joint of a kind."""
    return robot(link("w", None), link("a"), joint("j", "w", "a", kind, inside))


MASS = '<mass value="1"/>'
DOUBTFUL = {
    "long axis": (pair(f'<axis xyz="0 3 4"/>{LIMIT}'), 4, "joint 'j': axis '0 3 4' has length 5"),
    "no limit": (pair(""), 4, "joint 'j': no <limit>, taken as unlimited"),
    "no limit of a slide": (pair("", "prismatic"), 4, "joint 'j': no <limit>"),
    "no range": (
        pair('<limit effort="1" velocity="1"/>'),
        4,
        "joint 'j': lower and upper limit are both 0",
    ),
    "no effort": (
        pair('<limit lower="0" upper="1" effort="0" velocity="1"/>'),
        4,
        "joint 'j': effort limit 0",
    ),
    "point mass": (
        pair(inertial=f'<origin xyz="0 1 0"/>{MASS}'),
        3,
        "link 'b': <inertial> has no <inertia>; taken as a point mass",
    ),
    "inertia without mass": (
        pair(inertial=f'<mass value="0"/>{TENSOR}'),
        3,
        "link 'b': inertia without mass",
    ),
    "world": (
        robot(link("world", None), link("a"), joint("j", "world", "a", "fixed", "")),
        4,
        "joint 'j': fixes the robot to 'world'; its base is taken as free to move and 'a' as",
    ),
    "origin of a planar base": (
        based("planar", '<axis xyz="0 0 1"/><origin xyz="0 0 0.2" rpy="0 0 0"/>'),
        4,
        "joint 'j': its origin, xyz='0 0 0.2' rpy='0 0 0', is left out: 'a' is frame {1}, and",
    ),
    "origin of a floating base": (
        based("floating", '<origin rpy="0 0 1.57"/>'),
        4,
        "joint 'j': its origin, rpy='0 0 1.57', is left out",
    ),
}


@pytest.mark.parametrize(("urdf", "line", "words"), DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_doubtful_description_is_loaded_with_a_warning(urdf, line, words):
    (problem,) = found_in(urdf)
    assert (problem.severity, problem.line) == ("warning", line)
    assert words in problem.message
    with pytest.warns(vm.UrdfWarning) as record:
        assert vm.load(urdf).total_mass > 0.0
    (warning,) = record
    assert str(warning.message) == str(problem)
    assert warning.filename == __file__  # it points at who called load


@pytest.mark.filterwarnings("ignore::vm_dynamics.errors.UrdfWarning")
def test_the_origin_of_a_robot_fixed_to_world_is_left_out_with_a_warning():
    step = joint("j", "world", "a", "fixed", '<origin xyz="0 0 1"/>')
    urdf = robot(link("world", None), link("a"), step)
    freed, left_out = found_in(urdf)
    assert "free to move" in freed.message and "xyz='0 0 1', is left out" in left_out.message
    assert vm.load(urdf) == vm.load(robot(link("a")))


HARMLESS = {
    "nearly a unit vector": pair(f'<axis xyz="0.7071 0.7071 0"/>{LIMIT}'),
    "continuous without limit": pair("", "continuous"),
    "follower without effort": robot(
        *(link(name) for name in "abc"),
        joint("j", "a", "b"),
        joint(
            "m", "b", "c", inside='<limit lower="0" upper="1" effort="0" velocity="1"/>'
            '<mimic joint="j"/>',
        ),
    ),
    "flat plate of six digits": pair(inertial=f"{MASS}{inertia(0.0833333, 0.0833333, 0.166667)}"),
    "no robot name": robot(link("a")).replace(' name="r"', ""),
    "a base at the origin": based("floating", '<origin xyz="0 0 0" rpy="0 -0.0 0"/>'),
    "unlimited limits": pair('<limit lower="-1e308" upper="1e308" effort="1e99" velocity="9"/>'),
}  # fmt: skip


@pytest.mark.parametrize("urdf", HARMLESS.values(), ids=HARMLESS)
def test_what_is_usual_draws_no_warning(urdf):
    assert found_in(urdf) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vm.load(urdf)


LONG = pair(inertial=f"{MASS}{inertia(1, 1, 4)}")


def test_the_triangle_inequality_is_an_error_only_when_strict():
    (error,) = found_in(LONG)
    (warning,) = found_in(LONG, strict=False)
    assert (error.severity, warning.severity) == ("error", "warning")
    assert error.message == warning.message
    assert "link 'b': triangle inequality" in error.message and "strict=False" in error.hint
    with pytest.raises(vm.UnphysicalInertiaError, match="triangle inequality"):
        vm.load(LONG)
    with pytest.warns(vm.UrdfWarning, match="triangle inequality.*1 [+] 1 < 4"):
        assert vm.load(LONG, strict=False).total_mass == 2.0


def test_an_indefinite_inertia_is_an_error_even_when_not_strict():
    urdf = pair(inertial=f"{MASS}{inertia(-1, 1, 1)}")
    with pytest.raises(vm.UnphysicalInertiaError, match="not positive definite"):
        vm.load(urdf, strict=False)


def test_checking_a_long_chain_from_its_leaf_takes_no_quadratic_time():
    count = 40_000
    links = [link(f"l{k}", None) for k in reversed(range(count))]
    joints = [joint(f"j{k}", f"l{k}", f"l{k + 1}", inside="") for k in range(count - 1)]
    root = xml.parse(robot(*links, *joints))
    begin = time.process_time()
    assert {p.severity for p in check.problems(root)} == {"warning"}
    assert time.process_time() - begin < 8.0  # a list searched at each step: a minute
