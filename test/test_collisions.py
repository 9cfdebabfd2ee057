# SPDX-License-Identifier: Apache-2.0
"""Distances of links: against another library, along paths, of meshes, and what is left out."""

import builtins

import numpy as np
import pytest
from cases import load, text

import vm_dynamics as vm
from vm_dynamics.locomotion import CLEARANCE_RESOLUTION, CollisionModel

coal = pytest.importorskip("coal")
pytest.importorskip("mujoco")

ROBOTS = ("satellite_arm7", "satellite_dual_arm", "lwr_floating")
# Both libraries iterate to about this; deeper than it, they may name another way out.
SAME_DISTANCE = 1e-5  # [m]
BENT = np.array([0.0, 0.6, 0.0, -1.2, 0.0, 0.8, 0.0])

# A wall, and an arm of one link that swings towards it.
ARM = """<robot name="arm">
  <link name="bus"><inertial><mass value="9"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
    iyz="0"/></inertial>{bus}</link>
  <link name="hub"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
    iyz="0"/></inertial></link>
  <link name="arm"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
    iyz="0"/></inertial>
    <collision><origin xyz="0.5 0 0"/><geometry><box size="0.8 0.1 0.1"/></geometry></collision>
  </link>
  <joint name="lift" type="prismatic"><parent link="bus"/><child link="hub"/><axis xyz="0 0 1"/>
    <origin xyz="1 0 1"/><limit lower="-1" upper="1" effort="9" velocity="1"/></joint>
  <joint name="swing" type="revolute"><parent link="hub"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit lower="-3" upper="3" effort="9" velocity="1"/></joint>
</robot>"""
BOX = '<collision><geometry><box size="1 2 0.5"/></geometry></collision>'
MESH = '<collision><geometry><mesh filename="{}" scale="0.5 1 0.25"/></geometry></collision>'


def shapes_of(robot):
    makers = {
        "box": lambda s: coal.Box(*s),
        "cylinder": lambda s: coal.Cylinder(*s),
        "sphere": lambda s: coal.Sphere(*s),
    }
    return [
        (link.name, shape.pose_matrix, makers[shape.kind](shape.size))
        for link in robot.description.links
        for shape in link.shapes
    ]


def distances_by_coal(robot, pairs, q):
    """Least signed distance of each pair of links, by coal at the package's link poses."""
    shapes = shapes_of(robot)
    out = {}
    for a, b in pairs:
        found = []
        for one in (s for s in shapes if s[0] == a):
            for other in (s for s in shapes if s[0] == b):
                places = [robot.link_pose(q, s[0]) @ s[1] for s in (one, other)]
                frames = [coal.Transform3s(g[:3, :3], g[:3, 3]) for g in places]
                request, result = coal.DistanceRequest(), coal.DistanceResult()
                request.enable_signed_distance = True
                found.append(
                    coal.distance(one[2], frames[0], other[2], frames[1], request, result)
                )
        out[a, b] = min(found)
    return out


@pytest.mark.parametrize("name", ROBOTS)
def test_distances_are_those_of_another_library(name):
    robot = load(name)
    model = CollisionModel(robot)
    rng = np.random.default_rng(3)
    overlaps = 0
    for _ in range(25):
        q = rng.uniform(robot.lower_limits, robot.upper_limits)
        expected = distances_by_coal(robot, model.pairs, q)
        nearest = model.nearest(q)
        least = min(expected.values())
        assert (nearest.distance < 0.0) == (least < 0.0)
        assert nearest.distance == model.clearance(q)
        if least > 0.0:
            assert nearest.distance == pytest.approx(least, abs=SAME_DISTANCE)
            named = expected[nearest.first, nearest.second]
            assert named == pytest.approx(least, abs=SAME_DISTANCE)
        overlaps += least < 0.0
    assert overlaps < 25


@pytest.mark.parametrize("name", ROBOTS)
def test_the_shortfall_has_the_right_derivative(name):
    robot = load(name)
    model = CollisionModel(robot)
    rng = np.random.default_rng(1)
    q = rng.uniform(robot.lower_limits, robot.upper_limits, (40, robot.n))
    kept = np.full(len(model.distances(q[0])), 0.2)
    value, slope = model.shortfall(q, kept)
    assert (value > 0.0).any()
    h = 1e-6
    steps = [
        (model.shortfall(q + h * e, kept)[0] - model.shortfall(q - h * e, kept)[0]) / (2.0 * h)
        for e in np.eye(robot.n)
    ]
    off = abs(np.array(steps).T - slope).max(axis=1)
    # where the nearest points jump from one edge to another there is no derivative
    assert np.median(off) < 1e-5 and (off < 1e-3).mean() > 0.9


@pytest.mark.parametrize("name", ROBOTS)
def test_the_least_clearance_of_a_path_is_that_of_dense_samples(name):
    robot = load(name)
    model = CollisionModel(robot)
    rng = np.random.default_rng(2)
    for _ in range(3):
        q0 = rng.uniform(robot.lower_limits, robot.upper_limits)
        way = rng.normal(size=robot.n)

        def path(s, q0=q0, way=way):
            return q0 + np.outer(np.sin(2.0 * np.pi * s), way)

        found = model.least_along(path, 1.0)
        dense = min(model.clearance(q) for q in path(np.linspace(0.0, 1.0, 4001)))
        assert abs(found.distance - dense) < CLEARANCE_RESOLUTION
        named = [p for p in model.pairs if p == (found.first, found.second)]
        assert named
        # with something to keep it stops as soon as it knows
        kept = np.full(len(model.distances(q0)), 0.05)
        assert (model.least_along(path, 1.0, kept, 0.0).distance < 0.0) == (dense < 0.05)


def test_pairs_that_are_left_out_are_listed():
    model = CollisionModel(load("satellite_dual_arm"))
    listed = {(x.first, x.second): x.why for x in model.left_out}
    assert listed["base_link", "left_shoulder"] == "joined by a joint"
    assert listed["left_finger1", "left_finger2"] == "touch at rest"
    assert not set(listed) & set(model.pairs)
    assert ("base_link", "left_wrist") in model.pairs


def test_links_on_both_sides_of_a_bare_link_are_not_joined():
    model = CollisionModel(vm.load(ARM.format(bus=BOX)))
    assert model.pairs == (("bus", "arm"),) and model.left_out == ()
    # the arm begins at x = 1.1, z = 0.95; the bus ends at x = 0.5, z = 0.25
    assert model.clearance([0.0, 0.0]) == pytest.approx(np.hypot(0.6, 0.7), abs=1e-6)
    assert model.clearance([-0.5, np.pi]) < 0.5
    assert model.clearance([-1.0, 3.0]) < 0.0


def write_box(path):
    """Write a box of edges 2, 2, 2 m as a binary STL file."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    triangles = [t for a, b, c, d in faces for t in ((a, b, c), (a, c, d))]
    record = np.dtype([("normal", "<3f4"), ("points", "<9f4"), ("colour", "<u2")])
    rows = np.zeros(len(triangles), record)
    for row, triangle in zip(rows, triangles, strict=True):
        row["points"] = corners[list(triangle)].ravel()
    path.write_bytes(bytes(80) + len(rows).to_bytes(4, "little") + rows.tobytes())


@pytest.mark.parametrize("uri", ["bus.stl", "package://craft/meshes/bus.stl", "file://{}"])
def test_a_mesh_counts_as_the_box_that_it_is(tmp_path, uri):
    folder = tmp_path / "craft" / "meshes"
    folder.mkdir(parents=True)
    write_box(folder / "bus.stl")
    urdf = folder / "arm.urdf"
    urdf.write_text(ARM.format(bus=MESH.format(uri.format(folder / "bus.stl"))))
    by_mesh, by_box = CollisionModel(vm.load(urdf)), CollisionModel(vm.load(ARM.format(bus=BOX)))
    assert by_mesh.notes == () and by_mesh.pairs == by_box.pairs
    rng = np.random.default_rng(0)
    for q in rng.uniform([-1.0, -3.0], [1.0, 3.0], (50, 2)):
        assert by_mesh.clearance(q) == pytest.approx(by_box.clearance(q), abs=1e-5)


def test_a_mesh_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "broken.stl").write_text("no mesh")
    for file, why in (("gone.stl", "no such file"), ("broken.stl", "")):
        urdf = tmp_path / "arm.urdf"
        urdf.write_text(ARM.format(bus=MESH.format(file)))
        robot = vm.load(urdf)
        (note,) = CollisionModel(robot).notes
        assert note.startswith(f"bus: mesh {tmp_path / file} is not looked at: {why}")
        with pytest.raises(vm.ParameterError, match="expected meshes that can be read"):
            vm.plan_reorientation(robot, [0.0, 0.0], [0.0, 0.1, 0.0], margin=0.01)
        assert note in vm.plan_reorientation(robot, [0.0, 0.0], [0.0, 0.1, 0.0]).notes


@pytest.mark.parametrize(
    "geometry", ['<box size="1 2"/>', '<cylinder radius="-1" length="1"/>', "<mesh/>", "<cone/>"]
)
def test_a_shape_that_cannot_be_read_is_left_out_with_a_warning(geometry):
    bad = f"<collision><geometry>{geometry}</geometry></collision>"
    with pytest.warns(vm.UrdfWarning, match="link 'bus': a collision shape is left out"):
        robot = vm.load(ARM.format(bus=bad))
    assert robot.description.links[0].shapes == ()


def test_without_mujoco_a_note_says_what_to_install(monkeypatch):
    robot = load("planar_3link")
    real = builtins.__import__

    def refuse(name, *rest):
        if name.startswith("mujoco"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(vm.ParameterError, match=r"pip install 'vm_dynamics\[sim\]'"):
        CollisionModel(robot)
    plan = vm.plan_reorientation(robot, [0.5, -0.5], [0.0, 0.0, 0.1])
    assert plan.reached and plan.clearance == np.inf and plan.nearest == ()
    assert any("collisions are not checked" in note for note in plan.notes)
    with pytest.raises(vm.ParameterError, match="pip install"):
        vm.plan_reorientation(robot, [0.5, -0.5], [0.0, 0.0, 0.1], margin=0.01)


def test_a_robot_without_shapes_says_that_nothing_was_checked():
    robot = load("tree5")
    assert not any(link.shapes for link in robot.description.links)
    plan = vm.plan_reorientation(robot, np.zeros(robot.n), [0.05, 0.0, 0.0])
    assert "the robot has no collision shapes, so collisions are not checked" in plan.notes
    with pytest.raises(vm.ParameterError, match="margin: the robot has no collision shapes"):
        vm.plan_reorientation(robot, np.zeros(robot.n), [0.05, 0.0, 0.0], margin=0.01)


def test_a_start_with_an_overlap_is_refused_with_names_and_depth():
    robot = load("satellite_arm7")
    rng = np.random.default_rng(0)
    model = CollisionModel(robot)
    q0 = next(
        q
        for q in rng.uniform(robot.lower_limits, robot.upper_limits, (500, 7))
        if model.clearance(q) < -0.05
    )
    plan = vm.plan_reorientation(robot, q0, [0.0, 0.0, 0.2])
    nearest = model.nearest(q0)
    assert not plan.reached and plan.path is None
    said = f"{nearest.first} and {nearest.second} overlap at q0, by {-1e3 * nearest.distance:.1f}"
    assert said in plan.reason


def test_links_nearer_than_the_margin_at_the_start_keep_half_of_that():
    robot = load("lwr_floating")
    clear = CollisionModel(robot).clearance(BENT)
    plan = vm.plan_reorientation(robot, BENT, [0.0, 0.0, 0.1], margin=2.0 * clear)
    assert plan.reached and plan.clearance >= 0.5 * clear - CLEARANCE_RESOLUTION
    assert any("nearer than the margin; they keep half of that" in note for note in plan.notes)


def test_shapes_travel_with_the_robot():
    robot = vm.load(text("satellite_arm7"))
    heavier = robot.with_payload("tool", 5.0, [0.0, 0.0, 0.1])
    assert CollisionModel(heavier).pairs == CollisionModel(robot).pairs
    locked = robot.with_locked({"joint1": 0.4})
    q = np.array([0.3, 0.2, -0.7, 0.1, 0.5, 0.2])
    assert CollisionModel(locked).clearance(q) == pytest.approx(
        CollisionModel(robot).clearance([0.4, *q]), abs=1e-9
    )
