# SPDX-License-Identifier: Apache-2.0
"""Package files agree with each other and with the code."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

import vm_dynamics
from vm_dynamics import paths
from vm_dynamics.errors import UnknownNameError

ROOT = Path(__file__).resolve().parent.parent


def test_the_version_is_the_same_everywhere():
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    setup = re.search(r'version="([^"]+)"', (ROOT / "setup.py").read_text())
    changelog = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert package.get("format") == "3"
    assert package.findtext("name") == "vm_dynamics"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    versions = {package.findtext("version"), setup.group(1), changelog.group(1)}
    assert versions | {citation["version"]} == {vm_dynamics.__version__}
    assert citation["license"] == package.findtext("license")


def test_the_citation_has_what_its_format_asks_for():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)


def test_the_marker_of_types_is_installed(tmp_path):
    pytest.importorskip("setuptools")
    command = [sys.executable, "setup.py", "-q", "egg_info", "-e", str(tmp_path)]
    command += ["build_py", "--build-lib", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "vm_dynamics" / "py.typed").is_file()
    assert (tmp_path / "vm_dynamics" / "ros" / "node.py").is_file()


def test_the_workflow_runs_all_checks_and_may_only_read():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    job = workflow["jobs"]["checks"]
    assert workflow["permissions"] == {"contents": "read"} and "permissions" not in job
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    least = re.search(r'python_requires=">=3\.(\d+)"', (ROOT / "setup.py").read_text())
    assert job["strategy"]["matrix"]["python"][0] == f"3.{least.group(1)}"


def test_what_is_imported_from_ros_is_declared():
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    declared = {element.text for element in package.findall("exec_depend")}
    imported = set()
    for folder in ("vm_dynamics", "launch"):
        for path in (ROOT / folder).rglob("*.py"):
            names = re.findall(r"^ *(?:from|import) (\w+)", path.read_text(), re.M)
            imported |= set(names)
    of_ros = r"\w+_(?:msgs|srvs|interfaces)|rclpy|launch|launch_ros|ament_index_python|xacro"
    used = {name for name in imported if re.fullmatch(of_ros, name)}
    assert len(used) >= 10
    assert used <= declared


def test_what_is_declared_is_imported():
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    modules = {"python3-yaml": "yaml", "urdfdom_py": "urdf_parser_py"}
    text = "".join(
        path.read_text()
        for folder in ("vm_dynamics", "launch")
        for path in (ROOT / folder).rglob("*.py")
    )
    imported = set(re.findall(r"^ *(?:from|import) (\w+)", text, re.M))
    for element in package.findall("exec_depend"):
        name = modules.get(element.text, element.text.removeprefix("python3-"))
        assert name in imported, element.text


def test_the_eight_robots_ship():
    assert set(paths.robot_names()) == {
        "auv_arm4",
        "hexa_arm2",
        "lwr_floating",
        "planar_3link",
        "quad_arm1",
        "rover_arm2",
        "satellite_arm7",
        "satellite_dual_arm",
    }


def test_a_robot_is_found_by_name_or_path():
    by_name = paths.robot_file("rover_arm2")
    assert paths.robot_file(str(by_name)) == by_name
    with pytest.raises(UnknownNameError, match="satellite_arm7"):
        paths.robot_file("rover")


@pytest.mark.parametrize(
    ("name", "mass", "n"),
    [
        ("satellite_arm7", 360.0, 7),
        ("lwr_floating", 18.1, 7),
        ("quad_arm1", 7.0, 1),
        ("hexa_arm2", 7.56, 2),
        ("planar_3link", 3.0, 2),
        ("rover_arm2", 47.0, 2),
        ("auv_arm4", 100.0, 4),
        ("satellite_dual_arm", 183.0, 10),
    ],
)
def test_robots_have_the_masses_and_joints_that_their_papers_or_comments_give(name, mass, n):
    robot = vm_dynamics.load(paths.robot_file(name))
    assert robot.total_mass == pytest.approx(mass, rel=1e-9)
    assert robot.n == n
    assert (robot.effort_limits > 0.0).all() and (robot.effort_limits < 1e4).all()
    assert (robot.velocity_limits > 0.0).all()


@pytest.mark.parametrize("name", paths.robot_names())
def test_only_the_rover_is_bound_to_its_plane(name):
    robot = vm_dynamics.load(paths.robot_file(name))
    assert robot.base_group.name == ("SE2" if name == "rover_arm2" else "SE3")
    assert robot.base_group.axis.tolist() == [0.0, 0.0, 1.0]


def test_every_citation_key_resolves():
    known = set(re.findall(r"^\*\*\[(\w+)\]\*\*", (ROOT / "docs/references.md").read_text(), re.M))
    assert len(known) >= 5
    # a key is a name, perhaps with a year, that equations, theorems or sections are cited of
    cited = r"\[([A-Z][a-z]+(?:\d{4})?)\](?= eqs?\.| \(| Th| Prop| Lem| Def| sec| Table| with)"
    used = set()
    for folder, pattern in (("vm_dynamics", "*.py"), ("config", "*.urdf"), ("docs", "*.md")):
        for path in (ROOT / folder).rglob(pattern):
            keys = set(re.findall(cited, path.read_text()))
            assert keys <= known, f"{path}: {keys - known}"
            used |= keys
    assert len(used) >= 4
