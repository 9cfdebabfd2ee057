# SPDX-License-Identifier: Apache-2.0
"""The vm_dynamics command: what it prints, and its exit codes."""

import os
import subprocess
import sys
import threading

import pytest
from cases import ROBOTS, SHIPPED
from urdf_text import LIMIT, joint, link, pair, robot

import vm_dynamics as vm
from vm_dynamics import cli, paths

BROKEN = robot(
    link("a", '<mass value="-1"/>'),
    link("b", '<mass value="1"/>'),
    joint("j", "a", "b", "hinge"),
    joint("k", "b", "nowhere", inside=f'<axis xyz="0 0 3"/>{LIMIT}'),
)


@pytest.fixture
def file(tmp_path):
    def write(text, name="robot.urdf"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def run(*arguments, code=0):
    assert cli.main(arguments) == code


def subprocess_run(*arguments, **options):
    command = [sys.executable, "-m", "vm_dynamics.cli", *arguments]
    return subprocess.run(command, capture_output=True, timeout=120, check=False, **options)


# -- check --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_check_finds_nothing_wrong_with_a_shipped_robot(name, capsys):
    path = str(ROBOTS / f"{name}.urdf")
    run("check", path)
    assert capsys.readouterr() == (f"{path}: 0 errors, 0 warnings\n", "")


def test_check_knows_the_robots_of_the_package_by_name(capsys):
    run("check", "planar_3link")
    assert capsys.readouterr().out == "planar_3link: 0 errors, 0 warnings\n"


def test_check_prints_all_problems_of_a_broken_file_and_counts_them(file, capsys):
    path = file(BROKEN)
    run("check", path, code=1)
    out = capsys.readouterr().out
    for words in (
        "error: line 2: link 'a': mass = -1 kg is negative",
        "error: line 4: joint 'j': type 'hinge' is unknown",
        "error: line 5: joint 'k': its child 'nowhere' is not a link",
        "warning: line 2: link 'a': <inertial> has no <inertia>",
        "warning: line 3: link 'b': <inertial> has no <inertia>",
        "warning: line 5: joint 'k': axis '0 0 3' has length 3",
    ):
        assert words in out
    assert out.count("error: ") == out.count("warning: ") == 3 and out.count("hint: ") == 6
    assert out.index("hinge") < out.index("warning: ")
    assert out.endswith(f"{path}: 3 errors, 3 warnings\n")


COUNTS = {
    "nothing": (pair(), 0, "0 errors, 0 warnings"),
    "a warning": (pair(f'<axis xyz="0 0 2"/>{LIMIT}'), 0, "0 errors, 1 warning"),
    "two warnings": (pair('<axis xyz="0 0 2"/>'), 0, "0 errors, 2 warnings"),
    "an error": (pair(kind="hinge"), 1, "1 error, 0 warnings"),
    "both": (pair('<axis xyz="0 0 2"/><mimic joint="x"/>'), 1, "1 error, 2 warnings"),
    "built": (robot(link("a"), link("b", None), joint("j", "a", "b")), 1, "1 error, 0 warnings"),
    "built with a warning": (
        robot(link("a"), link("b", None), joint("j", "a", "b", inside="")),
        1,
        "1 error, 1 warning",
    ),
    "not XML": ("<robot", 1, "1 error, 0 warnings"),
    "empty": ("", 1, "1 error, 0 warnings"),
    "world": (
        robot(link("world", None), link("a"), joint("j", "world", "a", "fixed", "")),
        0,
        "0 errors, 1 warning",
    ),
}


@pytest.mark.parametrize(("text", "code", "count"), COUNTS.values(), ids=COUNTS)
def test_check_counts_errors_and_warnings(text, code, count, file, capsys):
    path = file(text)
    run("check", path, code=code)
    out, err = capsys.readouterr()
    *problems, last = out.splitlines()
    assert last == f"{path}: {count}"
    errors, warnings = (sum(x.startswith(w) for x in problems) for w in ("error: ", "warning: "))
    assert [errors, warnings] == [int(word) for word in count.split() if word.isdigit()]
    assert len(problems) == 2 * (errors + warnings)  # each with its hint
    assert err == ""  # a warning is printed once


def test_check_finds_a_motion_without_inertia(file, capsys):
    run("check", file(robot(link("a"), link("b", None), joint("j", "a", "b"))), code=1)
    out = capsys.readouterr().out
    assert out.startswith("error: joint 'j' moves nothing that has inertia: link 'b'")


@pytest.mark.parametrize("name", ["no/such.urdf", "nonsense", "~nobody_at_all/x", "x" * 300])
def test_check_of_a_missing_file_says_so(name, capsys):
    run("check", name, code=1)
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("vm_dynamics check: urdf: ")
    assert name[:200] in err and "neither XML text nor a readable file" in err


def test_check_takes_a_path_for_a_path_whatever_its_letters(file, capsys, tmp_path):
    path = file(pair(), "<robot>.urdf")
    run("check", path)
    assert capsys.readouterr().out == f"{path}: 0 errors, 0 warnings\n"
    run("check", str(tmp_path / "<none>.urdf"), code=1)
    assert "No such file" in capsys.readouterr().err


def test_check_refuses_a_large_file(tmp_path, capsys):
    path = tmp_path / "big.urdf"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    run("check", str(path), code=1)
    assert "big.urdf has 50 MB" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_robot_may_come_through_a_pipe(command, tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(pair(),), daemon=True)
    writer.start()
    run(command, str(pipe))
    writer.join(timeout=10)
    assert capsys.readouterr().err == ""


# -- show ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_show_prints_the_tree_and_the_limits(name, capsys):
    run("show", name)
    out = capsys.readouterr().out
    here = vm.load(ROBOTS / f"{name}.urdf")
    assert out.startswith(f"{here}\n\n")
    rows = [line.split() for line in out[len(str(here)) :].strip().splitlines()]
    assert rows[0] == ["joint", "lower", "upper", "velocity", "effort"]
    assert [row[0] for row in rows[1:]] == list(here.joint_names)
    assert [float(row[4]) for row in rows[1:]] == pytest.approx(here.effort_limits, rel=1e-3)
    assert [float(row[1]) for row in rows[1:]] == pytest.approx(here.lower_limits, rel=1e-3)


def test_show_takes_a_file_and_a_base(file, capsys):
    run("show", file(pair()), "--base", "SE2")
    assert capsys.readouterr().out.startswith("r: base SE2 (b = 3), n = 1, 2 kg\n")


def test_show_of_a_robot_without_joints(file, capsys):
    run("show", file(robot(link("a"))))
    assert "n = 0" in capsys.readouterr().out


FAILS = {
    "unknown robot": (("show", "nonsense"), "vm_dynamics show: unknown robot 'nonsense'; valid: "),
    "unknown base": (("show", "planar_3link", "--base", "SE4"), "unknown base group 'SE4'"),
    "demo of nonsense": (("demo", "--robot", "nonsense"), "unknown robot 'nonsense'; valid: "),
    "negative time": (("demo", "--duration", "-1"), "vm_dynamics demo: duration: got -1 s"),
    "no time": (("demo", "--duration", "nan"), "duration: got nan"),
}


@pytest.mark.parametrize(("arguments", "words"), FAILS.values(), ids=FAILS)
def test_a_bad_argument_exits_with_1_and_says_why(arguments, words, capsys):
    run(*arguments, code=1)
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.count("\n") == 1
    if "unknown robot" in words:
        assert all(name in err for name in SHIPPED)


def test_show_of_a_broken_file_lists_its_errors(file, capsys):
    run("show", file(BROKEN), code=1)
    err = capsys.readouterr().err
    assert err.startswith("vm_dynamics show: error: line 2") and err.count("error: ") == 3


# -- warmup -------------------------------------------------------------------------------------


def test_warmup_prints_that_the_kernels_are_ready(capsys):
    run("warmup")
    out = capsys.readouterr().out
    assert out.split()[1:3] == ["kernels", "ready"] and int(out.split()[0]) > 5
    assert "ready after" in out


# -- the command itself -------------------------------------------------------------------------

USAGE = {
    "nothing": ((), "required: command"),
    "unknown command": (("fly",), "invalid choice: 'fly'"),
    "no file": (("check",), "required: urdf"),
    "two files": (("check", "a", "b"), "unrecognized arguments: b"),
    "unknown option": (("show", "a", "--colour"), "unrecognized arguments: --colour"),
    "time in words": (("demo", "--duration", "long"), "invalid float value: 'long'"),
}


@pytest.mark.parametrize(("arguments", "words"), USAGE.values(), ids=USAGE)
def test_wrong_usage_exits_with_2(arguments, words, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


def test_a_place_that_cannot_be_written_to_is_named(tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("")
    plan = str(blocked / "plan.csv")
    for arguments, where in (
        (("demo", "--output", str(blocked)), str(blocked)),
        (("reorient", "planar_3link", "--rpy", "0", "0", "1deg", "-o", plan), plan),
    ):
        run(*arguments, code=1)
        error = capsys.readouterr().err
        assert error.startswith(f"vm_dynamics {arguments[0]}: {where}")
        assert "Not a directory" in error and "\n" not in error[:-1]


def test_help_in_a_process_of_its_own_names_every_command():
    done = subprocess_run("--help", text=True)
    assert done.returncode == 0 and done.stderr == ""
    for command in ("check", "show", "warmup", "demo", "ccf", "atlas", "reorient"):
        assert f"\n    {command} " in done.stdout


def test_a_terminal_without_unicode_gets_the_tree_all_the_same():
    done = subprocess_run("show", "planar_3link", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and done.stderr == b""
    assert b"?? [q1 joint2: revolute] link2 (1 kg)" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at the end", "at once"])
def test_a_reader_that_stops_early_is_no_error(unbuffered):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "vm_dynamics.cli", "show", "planar_3link"]
    with os.fdopen(write, "wb") as closed:
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(
            command, stdout=closed, stderr=subprocess.PIPE, env=environment, check=False
        )
    assert done.returncode == 0 and done.stderr == b""


# -- the files of the package -------------------------------------------------------------------


def test_the_robots_of_the_package_are_found_by_name():
    assert paths.robot_names() == SHIPPED
    for name in SHIPPED:
        assert paths.robot_file(name).read_bytes() == (ROBOTS / f"{name}.urdf").read_bytes()


def test_a_file_comes_before_a_robot_of_the_same_name(tmp_path, monkeypatch):
    (tmp_path / "planar_3link").write_text(pair())
    monkeypatch.chdir(tmp_path)
    assert vm.load(paths.robot_file("planar_3link")).name == "r"


@pytest.mark.parametrize("name", [".", "", "\0", "../robots/planar_3link", "x" * 300])
def test_what_is_neither_file_nor_robot_is_refused(name):
    with pytest.raises(vm.VmDynamicsError, match="valid: .*planar_3link.*path of a URDF file"):
        paths.robot_file(name)


def test_a_package_without_its_robots_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "__file__", str(tmp_path / "vm_dynamics" / "paths.py"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(vm.VmDynamicsError, match="no config/robots"):
        paths.robot_names()


@pytest.mark.parametrize("where", ["lib/python3.11/site-packages", "local/lib/python3.11/x"])
def test_the_robots_of_an_installation_are_found(monkeypatch, tmp_path, where):
    robots = tmp_path / "share" / "vm_dynamics" / "config" / "robots"
    robots.mkdir(parents=True)
    (robots / "mine.urdf").write_text(pair())
    monkeypatch.setattr(paths, "__file__", str(tmp_path / where / "vm_dynamics" / "paths.py"))
    assert paths.robot_names() == ("mine",)
    assert paths.robot_file("mine") == robots / "mine.urdf"
