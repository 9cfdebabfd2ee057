# SPDX-License-Identifier: Apache-2.0
"""The dynamically equivalent manipulator moves as the free-floating robot does."""

import numpy as np
import pytest
from cases import State, load, relative
from random_robots import random_urdf

import vm_dynamics as vm
from vm_dynamics.dynamics.equivalent import dynamically_equivalent
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie import SE3, SO3

ROUNDING = 1e-12  # relative: both sides are the same sums in another order
# Two different sets of equations, integrated at order four: their truncation errors differ.
SAME_MOTION = 1e-9
STEP = 1e-3  # [s]

CHAINS = ("auv_arm4", "hexa_arm2", "lwr_floating", "quad_arm1", "satellite_arm7", "no_joint")
RANDOM = {
    **{f"mixed{seed}": random_urdf(seed, 6, branching=0.0, prismatic=0.5) for seed in range(4)},
    "sliding": random_urdf(5, 4, branching=0.0, prismatic=1.0),
    "turning": random_urdf(6, 7, branching=0.0, prismatic=0.0),
}


def free_robot(name):
    return vm.load(RANDOM[name]) if name in RANDOM else load(name)


def equivalent(robot):
    return vm.Robot(dynamically_equivalent(robot), SO3, tip_link=robot.tip_link)


@pytest.fixture(params=[*CHAINS, *RANDOM])
def pair(request):
    robot = free_robot(request.param)
    return robot, equivalent(robot)


def torques(robot, t):
    return 0.3 * np.sin(np.arange(1.0, robot.n + 1.0) * t + 0.4)


def step(robot, g, q, V, qd, t):
    """Runge-Kutta-Munthe-Kaas of order four."""
    group = robot.base_group

    def rates(dt, xi, q, V, qd):
        Vd, qdd = robot.forward_dynamics(g @ group.exp(xi), q, V, qd, torques(robot, t + dt))
        return group.dexp_inv(-xi) @ V, qd, Vd, qdd

    state = np.zeros(robot.b), q, V, qd

    def after(slopes, h):
        return tuple(x + h * s for x, s in zip(state, slopes, strict=True))

    k1 = rates(0.0, *state)
    k2 = rates(STEP / 2, *after(k1, STEP / 2))
    k3 = rates(STEP / 2, *after(k2, STEP / 2))
    k4 = rates(STEP, *after(k3, STEP))
    mean = tuple((a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
    xi, q, V, qd = after(mean, STEP)
    return g @ group.exp(xi), q, V, qd


def largest_difference(robot, seconds, seed=2):
    """Of attitude and joints, of both robots from the same start under the same torques."""
    other = equivalent(robot)
    rng = np.random.default_rng(seed)
    q, qd = 0.5 * rng.normal(size=(2, robot.n))
    v, w = 0.3 * rng.normal(size=(2, 3))
    turn = SO3.exp(rng.normal(size=3))
    a = turn, q, np.concatenate((v, w)), qd
    b = turn, q, w, qd
    worst, moved = 0.0, 0.0  # np.maximum, unlike max, hands on a NaN
    for k in range(round(seconds / STEP)):
        a, b = step(robot, *a, k * STEP), step(other, *b, k * STEP)
        worst = np.maximum(worst, abs(a[0][:3, :3] - b[0][:3, :3]).max())
        worst = np.maximum(worst, abs(a[1] - b[1]).max())
        moved = np.maximum(moved, abs(a[1] - q).max())
    assert moved > 0.1 * seconds, "the arm hardly moved"
    return worst


@pytest.mark.slow
def test_a_satellite_and_its_equivalent_move_alike_for_five_seconds():
    assert largest_difference(load("satellite_arm7"), 5.0) < SAME_MOTION


@pytest.mark.parametrize("name", ["satellite_arm7", "mixed0", "sliding"])
def test_attitude_and_joints_move_alike_whatever_the_momentum(name):
    assert largest_difference(free_robot(name), 0.2) < SAME_MOTION


def test_accelerations_are_the_same_with_torques_on_joints_and_spacecraft(pair):
    robot, other = pair
    s = State(robot, seed=4)
    F = np.concatenate((np.zeros(3), s.F[3:]))
    Vd, qdd = robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, F)
    wd, qdd_other = other.forward_dynamics(s.g, s.q, s.V[3:], s.qd, s.tau, F[3:])
    expected = np.concatenate((Vd[3:], qdd))
    assert relative(np.concatenate((wd, qdd_other)), expected) < 100 * ROUNDING


def test_its_mass_matrix_is_that_of_the_free_robot_without_linear_momentum(pair):
    robot, other = pair
    for seed in range(3):
        q = State(robot, seed).q
        M = robot.mass_matrix(q)
        schur = M[3:, 3:] - M[3:, :3] @ np.linalg.solve(M[:3, :3], M[:3, 3:])
        assert relative(other.mass_matrix(q), schur) < ROUNDING


def test_to_pin_the_origin_instead_is_another_robot():
    """H = [0; 1] as in (90) fixes the origin of {1}, not the centre of mass."""
    robot = load("satellite_arm7")
    q = State(robot).q
    pinned = vm.Robot(robot.description, SO3)
    assert relative(pinned.mass_matrix(q), equivalent(robot).mass_matrix(q)) > 1e-3


def test_joints_and_links_keep_their_names_and_limits(pair):
    robot, other = pair
    assert other.joint_names == robot.joint_names
    assert [name for name in other.link_names if name in robot.link_names] == list(
        robot.link_names
    )
    assert other.tip_link == robot.tip_link and other.root_link == robot.root_link
    for key in ("lower_limits", "upper_limits", "velocity_limits", "effort_limits", "damping"):
        assert np.array_equal(getattr(other, key), getattr(robot, key))


def test_links_keep_their_orientation(pair):
    robot, other = pair
    q = State(robot, seed=5).q
    for link in robot.link_names:
        turn = robot.link_pose(q, link)[:3, :3]
        assert relative(other.link_pose(q, link)[:3, :3], turn) < ROUNDING


@pytest.mark.parametrize("name", ["satellite_arm7", "lwr_floating", "sliding"])
def test_links_fixed_to_the_last_body_have_their_true_place_about_the_centre_of_mass(name):
    robot = free_robot(name)
    other = equivalent(robot)
    q = State(robot, seed=6).q
    last = len(robot.tree.bodies)
    own = robot.tree.bodies[-1].joint.child
    fixed = [k for k, f in robot.tree.frames.items() if f.body == last and k != own]
    assert fixed
    for link in fixed:
        place = robot.link_pose(q, link)[:3, 3] - robot.center_of_mass(q)
        assert relative(other.link_pose(q, link)[:3, 3], place) < ROUNDING


def test_a_name_that_is_taken_gets_another_ending():
    text = RANDOM["sliding"].replace("link1", "joint0_travel")
    robot = vm.load(text)
    other = equivalent(robot)
    assert len(set(other.link_names)) == len(other.link_names)
    assert "joint0_travel_" in other.link_names


def added_mass():
    robot = vm.Robot(load("auv_arm4").description, SE3)
    robot.__dict__["body_inertias"] = robot.body_inertias + np.eye(6)
    return robot


NO_MASS = """<robot name="r"><link name="a"><inertial><mass value="0"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<link name="b"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint>
<link name="c"><inertial><origin xyz="1 2 3"/><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="k" type="continuous"><parent link="b"/><child link="c"/><axis xyz="0 1 0"/></joint>
</robot>"""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: load("satellite_arm7", "SO3"), "robot: got base group SO3, expected SE3"),
        (lambda: load("star"), "robot: joint '.*' starts a branch at link '.*', expected a chain"),
        (lambda: load("mimic_chain"), "robot: joint 'joint3' mimics 'joint0', expected"),
        (added_mass, "robot: its kinetic energy is not that of its masses"),
        (lambda: vm.load(NO_MASS), "robot: link 'a' has mass 0 kg, expected more than zero"),
    ],
)
@pytest.mark.filterwarnings("ignore::vm_dynamics.errors.UrdfWarning")
def test_robots_that_have_no_equivalent_are_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        dynamically_equivalent(make())
