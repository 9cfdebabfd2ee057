# SPDX-License-Identifier: Apache-2.0
"""SE(3) and its displacement subgroups: exp, log, Ad, ad, dexp and its inverse."""

from vm_dynamics.lie.groups import (
    GROUP_NAMES,
    SE2,
    SE3,
    SO3,
    DisplacementGroup,
    check_pose,
    group,
)

__all__ = ["GROUP_NAMES", "SE2", "SE3", "SO3", "DisplacementGroup", "check_pose", "group"]
