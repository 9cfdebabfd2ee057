# SPDX-License-Identifier: Apache-2.0
"""What all tests share: the shipped robots, and hypothesis without its clock."""

from pathlib import Path

import pytest
from hypothesis import settings

# The first call of a kernel loads or compiles it, which is no flaw of the example at hand.
settings.register_profile("numba", deadline=None)
settings.load_profile("numba")

ROBOTS = Path(__file__).resolve().parent.parent / "config" / "robots"


@pytest.fixture(scope="session")
def robot_files() -> list[Path]:
    """URDF files of the robots that come with the package."""
    return sorted(ROBOTS.glob("*.urdf"))
