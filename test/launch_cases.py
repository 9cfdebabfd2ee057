# SPDX-License-Identifier: Apache-2.0
"""What tests of launch files share: arguments, and names of the suite's nodes."""

from vm_dynamics.paths import robot_file

FALL = "[0.0, 0.0, -9.81]"
OWN = str(robot_file("rover_arm2"))
NAMES = ("dynamics", "observer", "compensator", "ccf")


def ours_with_robot(started):
    """Nodes of the suite that are given a robot, of all that a launch file starts."""
    return [started[f"{name}_node"] for name in NAMES if f"{name}_node" in started]
