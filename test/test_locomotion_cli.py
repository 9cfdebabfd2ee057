# SPDX-License-Identifier: Apache-2.0
"""The commands ccf, atlas and reorient: what they print and write, and their exit codes."""

import argparse
import builtins
import csv
import struct

import numpy as np
import pytest
from cases import load, text
from scipy.spatial.transform import Rotation

import vm_dynamics as vm
from vm_dynamics.locomotion import CurvatureMap, Gait, GaitPlane, animation, ccf_map, drawing
from vm_dynamics.locomotion.commands import add_commands, angle, rpy_matrix, shape_of, turn
from vm_dynamics.paths import robot_file

pytest.importorskip("matplotlib")


def run(*arguments):
    """Exit code of a command, by a parser like that of ``vm_dynamics``."""
    parser = argparse.ArgumentParser()
    add_commands(parser.add_subparsers(dest="command", required=True), robot_file)
    options = parser.parse_args([str(x) for x in arguments])
    return options.run(options)


def picture_size(path):
    """Width and height of a PNG file."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


# -- ccf ----------------------------------------------------------------------------------------


def test_ccf_draws_the_map_and_prints_what_the_gait_does(tmp_path, capsys):
    picture, saved = tmp_path / "ccf.png", tmp_path / "map.npz"
    arguments = "--size", 20, "--radius", "20deg", "-o", picture, "--save", saved
    assert run("ccf", "lwr_floating", "--joints", "joint2", "joint4", *arguments) == 0
    out = capsys.readouterr().out
    assert "lwr_floating: 400 points, frame virtual_chassis" in out
    assert "circle of radius 20 deg:" in out and "exact" in out and "difference" in out
    width, height = picture_size(picture)
    assert width > 800 and height > 600
    assert CurvatureMap.load(saved).values.shape == (6, 20, 20)


def test_ccf_takes_a_basis_a_centre_an_extent_and_a_frame(tmp_path, capsys):
    options = "--basis", 0.7071, 0.7071, 0, 0, 0, 1, "--extent", "-30deg", 1.6, -1, 1
    more = "--center", "joint1=-20deg", "--frame", "base", "--clockwise", "--around", 0.5, 0
    saved = tmp_path / "map.npz"
    code = run(
        "ccf", "lwr_floating", "--joints", "joint2", "joint3", "joint4", "--size", 8, 9,
        *options, *more, "--radius", 0.3, "--save", saved,
    )  # fmt: skip
    found = CurvatureMap.load(saved)
    assert code == 0 and found.frame == "base" and found.values.shape == (6, 8, 9)
    assert found.r1[0] == pytest.approx(np.radians(-30)) and found.r1[-1] == 1.6
    assert found.plane.q_c[0] == pytest.approx(np.radians(-20))
    assert found.plane.axis_names == ("0.707 joint2 + 0.707 joint3", "joint4")


def test_ccf_warns_in_a_line_where_the_map_leaves_the_limits(tmp_path, capsys):
    picture = tmp_path / "ccf.svg"
    assert (
        run("ccf", "lwr_floating", "--joints", "joint2", "joint4", "--extent", "150deg",
            "--size", 12, "-o", picture) == 0
    )  # fmt: skip
    err = capsys.readouterr().err
    assert err.startswith("warning: extent: ") and err.count("\n") == 1
    assert "hatched: beyond joint limits" in picture.read_text()


def test_a_picture_names_the_joints_in_degrees_and_the_displacement(tmp_path):
    picture = tmp_path / "ccf.svg"
    run("ccf", "lwr_floating", "--joints", "joint2", "joint4", "--size", 10, "-o", picture)
    words = picture.read_text()
    for part in ("joint2 [deg]", "joint4 [deg]", "the gait turns the base by", "area integral"):
        assert part in words, part
    # rotations only: translations vanish in the virtual chassis, so one unit and one bar
    assert words.count("curvature of the connection, rotation [deg per rad") == 1
    assert "translation [mm" not in words


def test_translations_have_a_colour_bar_of_their_own(tmp_path):
    picture = tmp_path / "ccf.svg"
    run("ccf", "lwr_floating", "--joints", "joint2", "joint4", "--size", 10, "--frame", "base",
        "-o", picture)  # fmt: skip
    words = picture.read_text()
    assert words.count("rotation [deg per rad") == 1
    assert words.count("translation [mm per rad") == 1


def test_a_map_is_drawn_without_a_gait_and_a_stack_is_not(tmp_path):
    robot = load("planar_3link", "SE2")
    found = ccf_map(robot, robot.joint_names, size=6)
    assert picture_size(drawing.draw_map(found, tmp_path / "map.png"))
    stack = ccf_map(robot, robot.joint_names, np.zeros((2, 2)), size=6)
    with pytest.raises(vm.ParameterError, match="expected one plane"):
        drawing.draw_map(stack, tmp_path / "stack.png")
    gait = Gait.circle(GaitPlane.of(robot, robot.joint_names), 0.4)
    assert picture_size(drawing.draw_map(stack[0], tmp_path / "one.png", gait=gait))


# -- atlas --------------------------------------------------------------------------------------


def test_atlas_prints_the_pairs_and_draws_them(tmp_path, capsys):
    picture = tmp_path / "atlas.png"
    shape = 0, 0.6, 0, "-1.2", 0, "45deg", 0
    assert run("atlas", "satellite_arm7", "--shape", *shape, "-o", picture) == 0
    out = capsys.readouterr().out
    assert "wz:\n  joint2 -> joint3:" in out and "deg" in out
    width, height = picture_size(picture)
    assert width > 800 and height > 600


def test_atlas_lists_one_component_and_writes_a_table(tmp_path, capsys):
    path = tmp_path / "atlas.csv"
    assert (
        run("atlas", "planar_3link", "--base", "SE2", "--shape", "joint1=30deg", "joint2=-0.5",
            "--component", "wz", "-o", path) == 0
    )  # fmt: skip
    assert capsys.readouterr().out.startswith("joint1 -> joint2: ")
    with path.open() as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["first", "second", "vx", "vy", "wz"] and len(rows) == 1


# -- reorient -----------------------------------------------------------------------------------


def test_reorient_writes_the_plan_and_its_picture(tmp_path, capsys):
    table, picture = tmp_path / "plan.csv", tmp_path / "plan.png"
    arguments = "--rpy", 0, 0, "20deg", "-o", table, "--plot", picture, "--rate", 20
    assert run("reorient", "planar_3link", *arguments) == 0
    out = capsys.readouterr().out
    assert "planar_3link: reached: " in out and "off by 0.0000 deg" in out
    with table.open() as stream:
        rows = list(csv.reader(stream))
    assert rows[0][:3] == ["time", "joint1", "joint2"] and len(rows) > 20
    assert picture_size(picture)[0] > 800


def test_reorient_takes_negative_degrees_and_a_start(capsys):
    arguments = "--rpy", "0", "0", "-5deg", "--start", "joint1=-30deg", "joint2=.5"
    assert run("reorient", "planar_3link", *arguments) == 0


@pytest.mark.parametrize(("word", "degrees"), [("0.35", "20.0535"), ("-20deg", "-20")])
def test_reorient_says_in_degrees_what_it_was_asked_for(word, degrees, capsys):
    assert run("reorient", "planar_3link", "--rpy", 0, 0, word, "--tolerance", "0.01") == 0
    wanted = f"wanted roll 0, pitch 0, yaw {degrees} deg, to 0.573 deg"
    assert wanted in capsys.readouterr().out


@pytest.mark.parametrize("word", ["45", "-45", "6.3", "1e3"])
def test_reorient_takes_radians_beyond_a_turn_for_degrees_without_their_unit(word, capsys):
    with pytest.raises(SystemExit):
        run("reorient", "planar_3link", "--rpy", 0, 0, word)
    assert f"got {word}, which is" in (err := capsys.readouterr().err)
    assert f"expected {word}deg for degrees, or {word}rad" in err
    assert turn(f"{word}rad") == float(word) and turn(f"{word} DEG") == pytest.approx(
        np.radians(float(word))
    )


def test_reorient_names_joints_whose_velocity_limit_no_arm_has(tmp_path, capsys):
    path = tmp_path / "robot.urdf"
    path.write_text(text("planar_3link").replace('velocity="6"', 'velocity="1e4"'))
    assert run("reorient", path, "--rpy", 0, 0, "20deg") == 0
    out = capsys.readouterr().out
    assert "takes 0.0" not in out
    assert "note: joint1, joint2: velocity limits of up to 10000 rad/s, which are taken as" in out


def test_reorient_starts_within_the_limits_unless_told_otherwise(tmp_path, capsys):
    path, table = tmp_path / "robot.urdf", tmp_path / "plan.csv"
    path.write_text(text("planar_3link").replace('lower="-2.6"', 'lower="0.4"'))
    assert load("planar_3link").lower_limits[0] == -2.6, "zero is now beyond"
    assert run("reorient", path, "--rpy", 0, 0, "3deg", "-o", table) == 0
    with table.open() as stream:
        assert list(csv.reader(stream))[1][1:3] == ["0.4", "0.4"]
    with pytest.raises(vm.ParameterError, match="expected it within its limits"):
        run("reorient", path, "--rpy", 0, 0, "3deg", "--start", 0, 0)


def test_reorient_exits_with_1_and_says_why_if_it_cannot(tmp_path, capsys):
    table = tmp_path / "plan.csv"
    assert run("reorient", "planar_3link", "--rpy", "10deg", "0", "0", "-o", table) == 1
    out = capsys.readouterr().out
    assert "NOT reached: no loop of the joints" in out and not table.exists()


def test_reorient_writes_the_pose_of_the_base_beside_the_joints(tmp_path):
    table = tmp_path / "plan.csv"
    assert run("reorient", "planar_3link", "--rpy", 0, 0, "20deg", "-o", table) == 0
    with table.open() as stream:
        rows = list(csv.reader(stream))
    assert rows[0][-7:] == [f"base_{x}" for x in ("x", "y", "z", "qx", "qy", "qz", "qw")]
    last = np.array(rows[-1][-7:], dtype=float)
    turned = Rotation.from_quat(last[3:]).as_rotvec(degrees=True)
    assert np.allclose(turned, [0.0, 0.0, 20.0], rtol=0, atol=1e-3)
    assert rows[1][-7:] == ["0", "0", "0", "0", "0", "0", "1"]


def test_reorient_takes_a_velocity_a_duration_and_a_margin(tmp_path, capsys):
    wanted = "reorient", "planar_3link", "--rpy", 0, 0, "10deg", "-o", tmp_path / "plan.csv"
    assert run(*wanted, "--max-velocity", "30deg", "--margin", 0.1) == 0
    out = capsys.readouterr().out
    assert "link1 and link2 come as near as" in out and "% of the effort limits" in out
    table = np.loadtxt(tmp_path / "plan.csv", delimiter=",", skiprows=1)
    assert abs(table[:, 3:5]).max() <= np.radians(30.0)
    assert run(*wanted, "--duration", 12.5) == 0
    assert "takes 12.50 s" in capsys.readouterr().out
    with pytest.raises(vm.ParameterError, match="duration: got 0.01 s, expected at least"):
        run(*wanted, "--duration", 0.01)
    with pytest.raises(vm.ParameterError, match="margin"):
        run(*wanted, "--margin", -1)


def test_reorient_plays_the_plan_as_an_animation(tmp_path, monkeypatch, capsys):
    pytest.importorskip("PIL")
    from PIL import Image

    monkeypatch.setattr(animation, "FRAMES", 5)
    file = tmp_path / "plan.gif"
    assert run("reorient", "planar_3link", "--rpy", 0, 0, "20deg", "--play", file) == 0
    assert f"animation written to {file}" in capsys.readouterr().out
    with Image.open(file) as picture:
        assert picture.n_frames == 5 and picture.width > 300
        frames = []
        for k in range(5):
            picture.seek(k)
            frames.append(np.asarray(picture.convert("L"), dtype=float))
    assert abs(frames[2] - frames[0]).max() > 50.0, "something moves"
    with pytest.raises(vm.ParameterError, match="expected one of .gif .webp .mp4"):
        run("reorient", "planar_3link", "--rpy", 0, 0, "20deg", "--play", tmp_path / "plan.txt")


# -- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "value"),
    [("20deg", np.radians(20)), ("-1.5", -1.5), ("0.3rad", 0.3), (" 1e-2 DEG", np.radians(0.01))],
)
def test_angles_are_radians_or_degrees(word, value):
    assert angle(word) == pytest.approx(value)


@pytest.mark.parametrize("word", ["", "deg", "20 grad", "nan", "infdeg", "left", "5raddeg"])
def test_what_is_no_angle_is_refused(word):
    with pytest.raises(argparse.ArgumentTypeError, match="expected radians or, as 20deg, degrees"):
        angle(word)


def test_roll_pitch_yaw_are_those_of_urdf():
    expected = Rotation.from_euler("xyz", [0.3, -0.5, 1.2]).as_matrix()
    assert np.allclose(rpy_matrix(0.3, -0.5, 1.2), expected, rtol=0, atol=1e-15)


BAD = {
    "an unknown robot": (("atlas", "nonsense"), "unknown robot 'nonsense'"),
    "a short shape": (("atlas", "lwr_floating", "--shape", 1, 2), "got 2 numbers, expected 7"),
    "an unknown joint": (("atlas", "lwr_floating", "--shape", "elbow=1"), "'elbow'; valid"),
    "no number": (("atlas", "lwr_floating", "--shape", "joint1=up"), "expected radians or"),
    "a short basis": (
        ("ccf", "lwr_floating", "--joints", "joint1", "joint2", "--basis", 1, 2, 3),
        "got 3 numbers, expected two for each of 2 joints",
    ),
    "an extent of three": (
        ("ccf", "lwr_floating", "--joints", "joint1", "joint2", "--extent", 1, 2, 3),
        "expected 1, 2 or 4",
    ),
    "no such folder": (("atlas", "planar_3link", "-o", "no/such/atlas.png"), "cannot write"),
    "no such table": (("atlas", "planar_3link", "-o", "no/such/atlas.csv"), "cannot write"),
    "a roll of a rover": (
        ("reorient", "rover_arm2", "--rpy", "5deg", 0, 0),
        r"about \[1.0, 0.0, 0.0\] is impossible: a base SE2",
    ),
    "no rotation": (("atlas", "lwr_floating", "--base", "T3"), "T3 has no rotation"),
}


@pytest.mark.parametrize(("arguments", "words"), BAD.values(), ids=BAD)
def test_a_bad_argument_is_named(arguments, words):
    with pytest.raises(vm.VmDynamicsError, match=words):
        run(*arguments)


def test_without_matplotlib_a_picture_says_what_to_install(monkeypatch, tmp_path):
    real = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    found = ccf_map(load("planar_3link", "SE2"), ("joint1", "joint2"), size=4)
    with pytest.raises(vm.ParameterError, match=r"pip install 'vm_dynamics\[plot\]'"):
        drawing.draw_map(found, tmp_path / "map.png")


def test_a_shape_may_be_left_away():
    assert np.array_equal(shape_of(load("planar_3link"), []), [0.0, 0.0])
