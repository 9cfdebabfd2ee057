# SPDX-License-Identifier: Apache-2.0
"""Curvature maps: against differences of the connection, in every frame, saved and loaded."""

import time
import tracemalloc

import numpy as np
import pytest
from cases import GROUPS, ROBOTS, derivative, load, relative

import vm_dynamics as vm
from vm_dynamics.errors import UnknownNameError
from vm_dynamics.lie.se3 import inverse
from vm_dynamics.locomotion import CurvatureMap, GaitPlane, LimitsWarning, ccf_map
from vm_dynamics.locomotion.continued import continued_map

# The bar of the issue; central differences of order eight have some digits to spare.
DIFFERENCED = 1e-6
# Translations in the virtual chassis: rounding of quantities of the order of one.
VANISHES = 1e-10
# The same sums in another order.
ROUNDING = 1e-12
TURNING = tuple(g for g in GROUPS if g not in ("T1", "T2", "T3"))
CASES = ("lwr_floating", "satellite_dual_arm", "tree2", "tree5", "chain", "prismatic", "mimic")
FRAMES = ("base", "centroidal", "virtual_chassis", "center")


def differenced(robot, q, x, y):
    """DA(x) y of the connection's central differences, in {1}, shape (b,)."""
    A = robot.connection(q)
    exterior = derivative(robot.connection, q, x) @ y - derivative(robot.connection, q, y) @ x
    return exterior - robot.base_group.ad(A @ x) @ A @ y


def frame_pose(robot, frame, q, q_c):
    """Where the frame of a map is at a shape."""
    if frame == "center":
        return robot.frame("virtual_chassis", q_c).pose
    return robot.frame(frame, q).pose


# random shapes do not ask for limits
@pytest.mark.filterwarnings("ignore::vm_dynamics.locomotion.LimitsWarning")
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", CASES)
def test_every_value_is_the_curvature_by_differences_of_the_connection(name, frame):
    robot = load(name)
    rng = np.random.default_rng(len(name))
    q_c, basis = rng.uniform(-1, 1, robot.n), rng.normal(size=(robot.n, 2))
    found = ccf_map(
        robot, q_c=q_c, basis=basis, extent=((-0.3, 0.5), (-0.4, 0.2)), size=(3, 4), frame=frame
    )
    for i, r1 in enumerate(found.r1):
        for j, r2 in enumerate(found.r2):
            q = q_c + basis @ [r1, r2]
            to_frame = robot.base_group.adjoint(inverse(frame_pose(robot, frame, q, q_c)))
            expected = to_frame @ differenced(robot, q, *basis.T)
            assert relative(found.values[:, i, j], expected, floor=1.0) < DIFFERENCED


@pytest.mark.parametrize("base", TURNING)
@pytest.mark.parametrize("frame", FRAMES)
def test_maps_hold_on_every_base_group_that_turns(base, frame):
    robot = load("tree3", base)
    q_c = np.linspace(-0.4, 0.6, robot.n)
    found = ccf_map(robot, robot.joint_names[1:3], q_c, extent=0.3, size=3, frame=frame)
    q = q_c.copy()
    q[1], q[2] = q_c[1] + found.r1[2], q_c[2] + found.r2[0]
    to_frame = robot.base_group.adjoint(inverse(frame_pose(robot, frame, q, q_c)))
    expected = to_frame @ robot.curvature(q)[:, 1, 2]
    assert found.values.shape == (robot.b, 3, 3)
    assert relative(found.values[:, 2, 0], expected) < ROUNDING


@pytest.mark.parametrize("name", ["lwr_floating", "satellite_arm7", "tree4", "chain", "mimic"])
def test_translations_vanish_in_the_virtual_chassis(name):
    robot = load(name)
    q_c = np.linspace(-1.0, 1.0, robot.n)
    found = ccf_map(robot, robot.joint_names[:2], q_c, extent=1.0, size=8)
    assert found.frame == "virtual_chassis"
    assert abs(found.values[~found.rotation]).max() < VANISHES
    assert abs(found.values[found.rotation]).max() > 1e-3, "there is something to vanish from"


def test_two_joints_are_a_basis_of_unit_vectors():
    robot = load("lwr_floating")
    basis = np.eye(7)[:, [1, 3]]
    by_name = ccf_map(robot, ("joint2", "joint4"), extent=0.5, size=5)
    by_basis = ccf_map(robot, basis=basis, extent=0.5, size=5)
    of_some = ccf_map(
        robot, ("joint2", "joint3", "joint4"), basis=[[1, 0], [0, 0], [0, 1]], extent=0.5, size=5
    )
    for other in (by_basis, of_some):
        assert np.array_equal(by_name.values, other.values)
    assert by_name.plane.axis_names == ("joint2", "joint4")
    assert of_some.components == ("vx", "vy", "vz", "wx", "wy", "wz")


def test_a_map_turns_its_sign_with_the_order_of_the_joints():
    robot = load("lwr_floating")
    there = ccf_map(robot, ("joint2", "joint4"), extent=0.5, size=4, frame="base")
    back = ccf_map(robot, ("joint4", "joint2"), extent=0.5, size=4, frame="base")
    assert np.allclose(there.values, -back.values.transpose(0, 2, 1), rtol=0, atol=ROUNDING)


def test_threads_do_not_change_a_map():
    robot = load("satellite_arm7")
    one = ccf_map(robot, ("joint2", "joint4"), size=(90, 110), threads=1)
    many = ccf_map(robot, ("joint2", "joint4"), size=(90, 110), threads=3)
    assert np.array_equal(one.values, many.values)


def test_a_stack_of_planes_is_each_of_its_planes():
    robot = load("lwr_floating")
    centers = np.zeros((3, 7))
    centers[:, 2] = 0.0, 0.4, 0.8
    stack = ccf_map(robot, ("joint2", "joint4"), centers, extent=0.7, size=(4, 5))
    assert stack.is_stack and len(stack) == 3 and stack.values.shape == (6, 3, 4, 5)
    for k, centre in enumerate(centers):
        alone = ccf_map(robot, ("joint2", "joint4"), centre, extent=0.7, size=(4, 5))
        assert np.array_equal(stack[k].values, alone.values)
        assert np.array_equal(stack[k].plane.q_c, centre)
    with pytest.raises(vm.ParameterError, match="it is one plane"):
        stack[0][0]


@pytest.mark.filterwarnings("ignore::vm_dynamics.locomotion.LimitsWarning")
def test_a_submerged_robot_has_its_added_mass_in_the_map():
    dry = load("auv_arm4")
    wet = vm.submerge(dry, ROBOTS / "auv_arm4.yaml")
    q_c = np.array([0.2, 0.6, -0.5, 0.1])
    joints = wet.joint_names[1:3]
    for frame in ("base", "virtual_chassis"):
        found = ccf_map(wet, joints, q_c, extent=0.4, size=3, frame=frame)
        q = q_c + [0.0, found.r1[2], found.r2[0], 0.0]
        expected = wet.curvature(q, frame=frame)[:, 1, 2]
        assert relative(found.values[:, 2, 0], expected) < ROUNDING
        assert relative(dry.curvature(q, frame=frame)[:, 1, 2], expected) > 0.01


# -- what a map is ------------------------------------------------------------------------------


def test_a_map_survives_its_file(tmp_path):
    robot = load("lwr_floating")
    centers = np.zeros((2, 7))
    with pytest.warns(LimitsWarning):
        found = ccf_map(robot, ("joint2", "joint4"), centers, extent=2.5, size=(4, 5))
    for given, kept in (("map", "map.npz"), ("other.npz", "other.npz")):
        path = found.save(tmp_path / given)
        assert path == tmp_path / kept
        again = CurvatureMap.load(path)
        for key in ("r1", "r2", "values", "rotation", "outside", "centers"):
            assert np.array_equal(getattr(again, key), getattr(found, key)), key
        for key in ("robot_name", "components", "frame"):
            assert getattr(again, key) == getattr(found, key), key
        assert again.plane.joint_names == robot.joint_names and again.plane.units == ("rad", "rad")
        assert np.array_equal(again.plane.basis, found.plane.basis)


def test_what_is_no_map_is_not_loaded(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    (tmp_path / "text.npz").write_text("no archive")
    for name, words in (("other", "is no curvature map"), ("text", "cannot"), ("none", "cannot")):
        with pytest.raises(vm.ParameterError, match=words):
            CurvatureMap.load(tmp_path / f"{name}.npz")


def test_a_component_has_a_name():
    robot = load("planar_3link", "SE2")
    found = ccf_map(robot, robot.joint_names, [0.5, -0.5], size=3)
    assert found.components == ("vx", "vy", "wz")
    assert np.array_equal(found.component("wz"), found.values[2])
    with pytest.raises(vm.ParameterError, match="'wx', expected one of vx, vy, wz"):
        found.component("wx")


def test_the_default_extent_stays_within_the_joint_limits():
    robot = load("lwr_floating")
    q_c = np.zeros(7)
    q_c[1] = 1.5
    found = ccf_map(robot, ("joint2", "joint4"), q_c, size=5)
    assert q_c[1] + found.r1[-1] == pytest.approx(robot.upper_limits[1])
    assert found.r1[0] == pytest.approx(-np.pi / 2) == -found.r2[-1]
    assert not found.outside.any()


def test_an_extent_beyond_joint_limits_warns_and_is_marked():
    robot = load("lwr_floating")
    with pytest.warns(LimitsWarning, match="beyond the position limits of joint2, joint4"):
        found = ccf_map(robot, ("joint2", "joint4"), extent=2.5, size=11)
    r1, r2 = np.meshgrid(found.r1, found.r2, indexing="ij")
    limit = robot.upper_limits[1]
    assert np.array_equal(found.outside, (abs(r1) > limit) | (abs(r2) > limit))
    assert 0 < found.outside.sum() < found.outside.size


def test_axes_are_followed_without_jumps_for_a_picture():
    robot = load("lwr_floating")
    basis = np.zeros((7, 2))
    basis[1, 0] = basis[2, 0] = np.sqrt(0.5)
    basis[3, 1] = 1.0
    # along this line the long axis leaves {1}'s z by more than an eighth of a turn
    found = ccf_map(robot, basis=basis, extent=((-0.6, 1.6), (-0.6, 0.2)), size=40)
    smooth = continued_map(robot, found)
    for values, jumps in ((found.values, True), (smooth.values, False)):
        steps = abs(np.diff(values[3:], axis=1)).max()
        assert (steps > 0.1) == jumps
    sizes = [np.linalg.norm(m.values[3:], axis=0) for m in (found, smooth)]
    assert np.allclose(*sizes, rtol=0, atol=ROUNDING), "axes change, lengths do not"


# -- errors -------------------------------------------------------------------------------------

TWO = {"joints": ("joint2", "joint4")}
BAD = {
    "a joint named twice": ({"joints": ("joint2", "joint2")}, vm.ParameterError, "'joint2' 2 tim"),
    "an unknown joint": ({"joints": ("joint2", "elbow")}, vm.UnknownJointError, "'elbow'; valid"),
    "three joints": ({"joints": ("joint1", "joint2", "joint3")}, vm.ParameterError, "got 3"),
    "one joint": ({"joints": "joint1"}, vm.ParameterError, "got 1"),
    "no plane": ({}, vm.ParameterError, "got neither"),
    "a basis of rank one": ({"basis": np.ones((7, 2))}, vm.ParameterError, "parallel or zero"),
    "a zero direction": ({"basis": np.eye(7)[:, :2] * [1, 0]}, vm.ParameterError, "parallel or"),
    "a basis of three": ({"basis": np.eye(7)[:, :3]}, vm.DimensionError, r"expected \(7, 2\)"),
    "NaN in the basis": ({"basis": np.full((7, 2), np.nan)}, vm.ParameterError, "NaN"),
    "words as basis": ({"basis": "ab"}, vm.DimensionError, "basis"),
    "a short centre": (TWO | {"q_c": [0.0]}, vm.DimensionError, r"q_c: got shape \(1,\)"),
    "words as centre": (TWO | {"q_c": "here"}, vm.DimensionError, "q_c: got str"),
    "NaN in a stack": (TWO | {"q_c": np.full((2, 7), np.nan)}, vm.NonFiniteError, "q_c"),
    "a stack too narrow": (TWO | {"q_c": np.zeros((2, 3))}, vm.DimensionError, r"\(K, 7\)"),
    "size one": (TWO | {"size": 1}, vm.ParameterError, "from 2 on"),
    "half a point": (TWO | {"size": (3, 2.5)}, vm.ParameterError, "whole numbers"),
    "three sizes": (TWO | {"size": (3, 3, 3)}, vm.DimensionError, "one int or two"),
    "too many points": (TWO | {"size": 100_000}, vm.ParameterError, "1e\\+08"),
    "extent backwards": (TWO | {"extent": (1.0, -1.0)}, vm.ParameterError, "low below high"),
    "an extent of three": (TWO | {"extent": (1, 2, 3)}, vm.DimensionError, "extent"),
    "an extent of words": (TWO | {"extent": "wide"}, vm.DimensionError, "extent"),
    "an unknown frame": (TWO | {"frame": "world"}, UnknownNameError, "'world'; valid: virtual"),
}


@pytest.mark.parametrize(("options", "kind", "words"), BAD.values(), ids=BAD)
def test_a_bad_argument_is_named(options, kind, words):
    with pytest.raises(kind, match=words):
        ccf_map(load("lwr_floating"), **options)


@pytest.mark.parametrize("base", ["T1", "T2", "T3"])
def test_a_base_without_rotation_has_no_map(base):
    with pytest.raises(vm.ParameterError, match=f"base group {base} has no rotation"):
        ccf_map(load("lwr_floating", base), ("joint1", "joint2"))


def test_a_direction_is_written_in_words():
    robot = load("lwr_floating")
    basis = np.zeros((7, 2))
    basis[[1, 2], 0] = 0.5, -2.0
    basis[3, 1] = -1.0
    assert GaitPlane.of(robot, basis=basis).axis_names == ("0.5 joint2 - 2 joint3", "-joint4")


# -- size and speed -----------------------------------------------------------------------------


def test_a_large_grid_shows_a_bar_and_a_small_one_does_not(capsys):
    robot = load("planar_3link")
    for progress in (None, False):
        ccf_map(robot, robot.joint_names, size=(50, 60), progress=progress)
        assert capsys.readouterr().err == ""
    centers = np.zeros((4, 2))
    ccf_map(robot, robot.joint_names, centers, size=(30, 40), progress=True)
    assert "curvature: 100%" in capsys.readouterr().err


@pytest.mark.slow
def test_a_large_map_takes_little_memory_and_time_in_proportion():
    robot = load("lwr_floating")
    joints = "joint2", "joint4"
    ccf_map(robot, joints, size=10)
    tracemalloc.start()
    found = ccf_map(robot, joints, size=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    ratio = peak / found.values.nbytes
    seconds = {}
    for size in (250, 1000):
        times = []
        for _ in range(4):
            start = time.perf_counter()
            ccf_map(robot, joints, size=size, threads=1)
            times.append(time.perf_counter() - start)
        seconds[size] = min(times)
    growth = seconds[1000] / seconds[250] / 16.0
    print(f"\n1000 x 1000: {seconds[1000]:.2f} s on a core, memory {ratio:.2f} x the result, ")
    print(f"time per point {growth:.2f} x that of 250 x 250")
    assert ratio < 3.0
    assert growth < 1.5  # a machine that others use
