# SPDX-License-Identifier: Apache-2.0
"""The suite on a robot: dynamics, observer, compensator and curvature map, wired to each other."""

from vm_dynamics.ros import launching, suite


def generate_launch_description():
    return suite.description(everything)


def everything(context):
    return suite.nodes(context, launching.robot_text(context))
