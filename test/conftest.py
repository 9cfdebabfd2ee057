# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the shipped robots, and hypothesis without its clock."""

import signal
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
