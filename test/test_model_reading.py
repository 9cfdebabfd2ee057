# SPDX-License-Identifier: Apache-2.0
"""Reading a robot right: masses, joints, base group, and documents of any form."""

import copy
import pickle
import time
import warnings
from xml.sax.saxutils import escape

import numpy as np
import pinocchio as pin
import pytest
from cases import relative
from model_cases import GRIPPER, RANDOM, ROUNDING, A, B, C, D, documents, shape
from peer import Peer
from random_robots import random_urdf
from urdf_text import LIMIT, TENSOR, inertia, joint, link, pair, robot

import vm_dynamics as vm
from vm_dynamics.lie import se3

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


@pytest.mark.slow
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
