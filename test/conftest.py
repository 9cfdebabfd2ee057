# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the shipped robots, and hypothesis without its clock."""

import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

# The first call of a kernel loads or compiles it, which is no flaw of the example at hand.
settings.register_profile("numba", deadline=None)
settings.load_profile("numba")

# Processes of the tests begin as from a terminal, although the tests may run under nohup.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROBOTS = Path(__file__).resolve().parent.parent / "config" / "robots"


@pytest.fixture(scope="session")
def robot_files() -> list[Path]:
    """URDF files of the robots that come with the package."""
    return sorted(ROBOTS.glob("*.urdf"))


@pytest.fixture
def compensator(tmp_path):
    """Starts a compensator node as a process, with all that it listens to, and ends it."""
    from compensator_bench import Bench  # needs ROS

    made = []

    def start(parameters, **options):
        made.append(Bench(tmp_path, parameters, **options))
        return made[-1]

    yield start
    for item in made:
        item.close()


@pytest.fixture
def everything_installed(monkeypatch, tmp_path):
    """All packages are there; that of Gazebo has a launch file which starts nothing."""
    from launch_recorder import packages  # needs ROS, or puts stand-ins in its place

    folder = tmp_path / "share" / "launch"
    folder.mkdir(parents=True)
    (folder / "gz_sim.launch.py").write_text(
        "from launch import LaunchDescription\n"
        "def generate_launch_description():\n    return LaunchDescription([])\n"
    )
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # what is generated goes there
    monkeypatch.setattr(packages, "get_package_prefix", lambda name: str(tmp_path))
    monkeypatch.setattr(
        packages, "get_package_share_directory", lambda name: str(tmp_path / "share")
    )
