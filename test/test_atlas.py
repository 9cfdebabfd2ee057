# SPDX-License-Identifier: Apache-2.0
"""The curvature atlas: what it promises is what small loops do, and the best come first."""

import numpy as np
import pytest
from cases import load

import vm_dynamics as vm
from vm_dynamics.locomotion import Gait, GaitPlane, curvature_atlas, gait_displacement

Q = np.array([0.1, 0.6, -0.2, -1.2, 0.3, 0.8, 0.0])
AREA = 1e-4
# A loop of this area has a side of 0.01 rad; the next order is about that much of it.
SECOND_ORDER = 0.05


@pytest.mark.parametrize("pair", [(0, 1), (1, 3), (2, 5)])
def test_a_small_loop_displaces_the_base_as_the_atlas_says(pair):
    robot = load("satellite_arm7")
    atlas = curvature_atlas(robot, Q, AREA)
    names = [robot.joint_names[i] for i in pair]
    # the middle of the loop is q, and so is its anchor to the first order
    loop = Gait.circle(GaitPlane.of(robot, names, Q), np.sqrt(AREA / np.pi))
    moved = gait_displacement(robot, loop, tolerance=1e-13).twist
    expected = atlas.matrix[:, pair[0], pair[1]]
    assert np.linalg.norm(moved - expected) < SECOND_ORDER * np.linalg.norm(expected)


def test_pairs_are_ranked_by_what_they_do_to_a_component():
    robot = load("satellite_arm7")
    atlas = curvature_atlas(robot, Q, 0.1)
    assert len(atlas.ranked("wz")) == 21
    for component in atlas.components:
        k = atlas.components.index(component)
        sizes = [abs(e.displacement) for e in atlas.ranked(component)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] == pytest.approx(abs(atlas.matrix[k]).max())
    best = atlas.ranked("wz", 1)[0]
    i, j = (robot.joint_names.index(name) for name in (best.first, best.second))
    assert atlas.matrix[5, i, j] == best.displacement
    whole = np.linalg.norm(atlas.matrix[3:, i, j])
    assert best.share == pytest.approx(abs(best.displacement) / whole)


def test_without_a_component_every_pair_has_its_largest_rotation():
    atlas = curvature_atlas(load("satellite_arm7"), Q, 0.1)
    entries = atlas.ranked()
    assert {e.component for e in entries} <= {"wx", "wy", "wz"}
    assert abs(entries[0].displacement) == pytest.approx(abs(atlas.matrix[3:]).max())


def test_an_atlas_is_in_proportion_to_the_area_and_antisymmetric():
    robot = load("lwr_floating")
    small, large = (curvature_atlas(robot, Q, area).matrix for area in (0.1, 0.3))
    assert np.allclose(large, 3.0 * small, rtol=1e-12)
    assert np.allclose(small, -small.transpose(0, 2, 1), rtol=0, atol=1e-15)


def test_an_atlas_is_in_the_frame_that_is_asked_for():
    robot = load("lwr_floating")
    chassis = curvature_atlas(robot, Q, 0.1, frame="virtual_chassis")
    assert abs(chassis.matrix[:3]).max() < 1e-10  # translations vanish there
    assert np.allclose(chassis.matrix, -0.1 * robot.curvature(Q, frame="virtual_chassis"))


def test_a_planar_base_has_its_three_components():
    atlas = curvature_atlas(load("planar_3link", "SE2"), [0.5, -0.8], 0.1)
    assert atlas.components == ("vx", "vy", "wz")
    assert atlas.ranked("wz")[0].share == pytest.approx(1.0)
    assert "wz:\n  joint1 -> joint2" in str(atlas) and "deg" in str(atlas) and "mm" in str(atlas)


def test_the_text_says_where_nothing_happens():
    text = str(curvature_atlas(load("planar_3link"), [0.5, -0.8], 0.1))
    assert "wx:  nothing" in text and "wz:\n  joint1 -> joint2" in text


def test_the_table_has_a_row_for_every_pair():
    atlas = curvature_atlas(load("lwr_floating"), Q)
    rows = atlas.table()
    assert len(rows) == 21
    assert rows[0]["first"] == "joint1" and rows[0]["second"] == "joint2"
    assert rows[0]["wy"] == atlas.matrix[4, 0, 1]


BAD = {
    "no rotation": (lambda: curvature_atlas(load("lwr_floating", "T3")), "T3 has no rotation"),
    "one joint": (lambda: curvature_atlas(load("one_joint")), "has 1 joints, expected two"),
    "no area": (lambda: curvature_atlas(load("lwr_floating"), area=0.0), "area"),
    "a short q": (lambda: curvature_atlas(load("lwr_floating"), [0.0]), "q: got shape"),
    "a frame": (lambda: curvature_atlas(load("lwr_floating"), frame="moon"), "'moon'; valid"),
    "a component": (lambda: curvature_atlas(load("lwr_floating")).ranked("w"), "'w'; valid: vx"),
    "none": (lambda: curvature_atlas(load("lwr_floating")).ranked(count=0), "at least 1"),
}


@pytest.mark.parametrize(("make", "words"), BAD.values(), ids=BAD)
def test_a_bad_argument_is_named(make, words):
    with pytest.raises(vm.VmDynamicsError, match=words):
        make()
