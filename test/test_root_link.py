# SPDX-License-Identifier: Apache-2.0
"""Another link for the root: a part of a robot on a base of its own."""

import numpy as np
import pytest
from cases import text
from urdf_text import LIMIT, joint, link, robot

import vm_dynamics as vm
from vm_dynamics.lie import se3

ARM = text("satellite_arm7")
FOLLOWER = robot(
    link("base"),
    link("middle"),
    link("tip"),
    joint("first", "base", "middle"),
    joint("second", "middle", "tip", inside=f'{LIMIT}<mimic joint="first"/>'),
)


def test_a_link_can_be_taken_for_the_root_and_what_is_inboard_is_left_out():
    whole = vm.load(ARM)
    first = next(j for j in whole.description.joints if j.kind != "fixed")
    part = vm.load(ARM, root_link=first.child)
    assert part.root_link == first.child and first.name not in part.joint_names
    assert set(part.link_names) < set(whole.link_names)
    # seen from the new root, all links stand as before
    q = np.linspace(0.1, 0.5, whole.n)
    last = whole.link_names[-1]
    below = se3.inverse(whole.link_pose(q, first.child)) @ whole.link_pose(q, last)
    kept = [q[whole.joint_names.index(name)] for name in part.joint_names]
    assert np.allclose(part.link_pose(kept, last), below, atol=1e-12)
    assert vm.load(ARM, root_link=whole.root_link) == whole


def test_a_root_that_does_not_exist_or_cuts_off_a_driver_is_refused():
    with pytest.raises(vm.UnknownLinkError, match="nowhere"):
        vm.load(ARM, root_link="nowhere")
    with pytest.raises(vm.UrdfError, match="mimics 'first'.*'middle'"):
        vm.load(FOLLOWER, root_link="middle")
