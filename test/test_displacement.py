# SPDX-License-Identifier: Apache-2.0
"""What gaits do to the base: Stokes, the paper's example, simulation and MuJoCo."""

import mujoco
import numpy as np
import pytest
from cases import ROBOTS, load, text
from mujoco_peer import _spec
from scipy.spatial.transform import Rotation

import vm_dynamics as vm
from vm_dynamics.lie.se3 import exp, inverse, log
from vm_dynamics.locomotion import (
    FrameWarning,
    Gait,
    GaitPlane,
    base_motion,
    ccf_map,
    gait_displacement,
)

# Bars of the issue.
SIMULATED = 1e-6
MUJOCO = np.radians(0.1)
RADII = (0.1, 0.05, 0.025)
CUBED = 8.0  # from one radius to the next
# What `integrate` promises by default, with room for the steps of what it is compared with.
TOLERANCE = 1e-9
# Cubic splines on a smooth map: 30 x 30 points for a small loop, more for a large one.
GRID, FINE = 1e-6, (90, 90)

# The paper's example: joints (2, 3)/sqrt(2) and 4, r' = pi/2 [sin pi t, cos pi t] from 0.
PAPER = {
    "exact": (-0.4228, 0.1682, -13.73),
    "approximate": (-0.9623, 0.9873, -13.25),
    "norm": 0.017,
    "angle": 1.045,
}


def paper_plane(robot):
    basis = np.zeros((7, 2))
    basis[1:3, 0] = np.sqrt(0.5)
    basis[3, 1] = 1.0
    return GaitPlane.of(robot, basis=basis)


def paper_gait(robot):
    return Gait.circle(
        paper_plane(robot), 0.5, (0.5, 0.0), start=np.pi, clockwise=True, duration=2.0
    )


def away(a, b):
    """Norm of the logarithm between two poses."""
    return float(np.linalg.norm(log(inverse(a) @ b)))


# -- the area integral against the exact one ----------------------------------------------------

STOKES = ("lwr_floating", "satellite_arm7", "satellite_dual_arm", "tree3", "chain", "mimic")


@pytest.mark.parametrize("frame", ["virtual_chassis", "centroidal", "base"])
@pytest.mark.parametrize("name", STOKES)
def test_on_small_loops_the_difference_falls_faster_than_the_radius_cubed(name, frame):
    robot = load(name)
    q_c = np.random.default_rng(4).uniform(-1, 1, robot.n)
    plane = GaitPlane.of(robot, robot.joint_names[1:3], q_c)
    norms = [
        gait_displacement(
            robot, Gait.circle(plane, radius), "both", frame=frame, tolerance=1e-12
        ).norm
        for radius in RADII
    ]
    assert norms[0] / norms[1] >= CUBED and norms[1] / norms[2] >= CUBED


@pytest.mark.parametrize("name", STOKES)
def test_anchored_at_its_start_as_in_the_paper_it_falls_with_the_radius_cubed(name):
    robot = load(name)
    q_c = np.random.default_rng(4).uniform(-1, 1, robot.n)
    plane = GaitPlane.of(robot, robot.joint_names[1:3], q_c)
    norms = [
        gait_displacement(
            robot, Gait.circle(plane, radius), "both", anchor="start", tolerance=1e-12
        ).norm
        for radius in RADII
    ]
    order = np.log2(norms[0] / norms[2]) / 2.0
    assert order > 2.8  # three in the limit of small loops


def test_the_example_of_the_paper_is_at_least_as_good_as_there():
    robot = load("lwr_floating")
    gait = paper_gait(robot)
    t = np.linspace(0.0, 2.0, 11)
    expected = np.pi / 2 * np.column_stack((np.sin(np.pi * t), np.cos(np.pi * t)))
    assert np.allclose(gait.velocity(t), expected @ gait.plane.basis.T, rtol=0, atol=1e-12)
    assert np.allclose(gait.position(0.0), 0.0, rtol=0, atol=1e-15)

    print("\nXYZ angles of the base [deg]       exact                      approximate")
    print(f"  paper               {PAPER['exact']}   {PAPER['approximate']}")
    for anchor in ("start", "centroid"):
        both = gait_displacement(robot, gait, "both", size=(30, 30), anchor=anchor)
        exact, near = (np.degrees(d.xyz_angles) for d in (both.exact, both.approximate))
        print(f"  ours, {anchor:<8}      {np.round(exact, 4)}   {np.round(near, 4)}")
        print(
            f"    |log| {both.norm:.4f} (paper {PAPER['norm']}), orientation "
            f"{np.degrees(both.angle):.4f} deg (paper {PAPER['angle']})"
        )
        assert both.norm < PAPER["norm"] and np.degrees(both.angle) < PAPER["angle"]
        assert both.approximate.frame == "virtual_chassis"
    assert exact[2] == pytest.approx(PAPER["exact"][2], abs=2.0)  # another arm of the same kind


def test_the_frame_matters_and_a_held_one_does_not():
    robot = load("lwr_floating")
    norms = {
        frame: gait_displacement(robot, paper_gait(robot), "both", frame=frame).norm
        for frame in ("virtual_chassis", "base", "center")
    }
    assert norms["virtual_chassis"] < 0.2 * norms["base"]
    assert norms["center"] == pytest.approx(norms["base"], rel=1e-6)


@pytest.mark.parametrize("base", ["SO2", "SE2", "X", "C", "H"])
def test_where_rotations_commute_the_area_integral_is_exact(base):
    robot = load("lwr_floating", base)
    plane = GaitPlane.of(robot, ("joint2", "joint3"), np.linspace(0.2, 1.0, 7))
    both = gait_displacement(robot, Gait.circle(plane, 0.8), "both", size=FINE)
    assert both.exact.angle > 1e-3
    assert abs(both.difference).max() < GRID


def test_a_given_map_gives_what_an_own_one_does():
    robot = load("lwr_floating")
    gait = paper_gait(robot)
    ccf = ccf_map(robot, basis=gait.plane.basis, extent=((-0.1, 1.1), (-0.6, 0.6)), size=40)
    by_map = gait_displacement(robot, gait, "cbvi", ccf=ccf)
    assert away(by_map.pose, gait_displacement(robot, gait, "cbvi").pose) < GRID


@pytest.mark.parametrize("shape", ["ellipse", "rectangle", "triangle"])
def test_any_closed_path_has_its_area(shape):
    robot = load("satellite_arm7")
    plane = GaitPlane.of(robot, ("joint2", "joint4"), [0.0, 0.6, 0.3, -1.2, 0.0, 0.8, 0.0])
    gait = {
        "ellipse": Gait.ellipse(plane, (0.3, 0.1), tilt=0.4),
        "rectangle": Gait.rectangle(plane, (0.3, 0.2)),
        "triangle": Gait.polyline([[0, 0], [0.3, 0], [0, 0.3], [0, 0]], plane=plane),
    }[shape]
    both = gait_displacement(robot, gait, "both")
    assert both.norm < 0.03 * np.linalg.norm(both.exact.twist)


def test_a_figure_of_eight_and_a_double_turn_are_counted_with_their_sign():
    robot = load("lwr_floating", "SO2")
    plane = GaitPlane.of(robot, ("joint2", "joint3"), np.linspace(0.2, 1.0, 7))
    eight = Gait.fourier([[0.0, 0.0], [0.0, 0.0]], [[0.5, 0.0], [0.0, 0.4]], plane=plane)
    circle = Gait.circle(plane, 0.5)
    for gait in (eight, circle.repeated(2), circle.reversed()):
        both = gait_displacement(robot, gait, "both", size=FINE)
        assert abs(both.difference).max() < GRID
    once, twice = (gait_displacement(robot, g).pose for g in (circle, circle.repeated(2)))
    assert away(twice, once @ once) < 10 * TOLERANCE


def test_a_path_outside_any_plane_has_a_surface_of_its_own():
    robot = load("lwr_floating")
    rng = np.random.default_rng(2)
    cosines, sines = rng.normal(size=(2, 2, 7))
    errors = []
    for size in (0.02, 0.01):
        gait = Gait.fourier(size * cosines, size * sines, np.linspace(-0.5, 0.9, 7))
        both = gait_displacement(robot, gait, "both", tolerance=1e-12)
        errors.append(both.norm)
        assert both.norm < 0.1 * np.linalg.norm(both.exact.twist)
    order = np.log2(errors[0] / errors[1])
    assert order > 2.8  # three in the limit: no one point is the centroid of all its projections


def test_a_plane_path_in_full_shape_space_is_recognised():
    robot = load("lwr_floating")
    plane = GaitPlane.of(robot, basis=np.random.default_rng(1).normal(size=(7, 2)))
    inside = Gait.circle(plane, 0.2)
    outside = Gait.function(inside.position, 1.0, velocity=inside.velocity)
    poses = [gait_displacement(robot, gait, "cbvi").pose for gait in (inside, outside)]
    assert away(*poses) < GRID


def test_a_line_there_and_back_has_no_area():
    robot = load("lwr_floating")
    there_and_back = np.array([np.zeros(7), np.full(7, 0.5), np.zeros(7)])
    both = gait_displacement(robot, there_and_back, "both")
    assert np.allclose(both.approximate.pose, np.eye(4), rtol=0, atol=1e-12)
    assert np.linalg.norm(both.exact.twist) < 10 * TOLERANCE


def test_axes_that_turn_far_are_followed_in_the_area_integral():
    robot = load("lwr_floating")
    q_c = np.zeros(7)
    q_c[1], q_c[2] = np.radians(20), np.radians(40)
    plane = GaitPlane.of(robot, ("joint2", "joint4"), q_c)
    for anchor in ("centroid", "start"):
        both = gait_displacement(robot, Gait.circle(plane, 1.2), "both", anchor=anchor)
        assert both.approximate.frame == "virtual_chassis"
        assert np.degrees(both.exact.angle) > 60.0
        assert both.angle < 0.25 * both.exact.angle


def test_a_map_whose_axes_jump_inside_the_path_warns():
    robot = load("lwr_floating")
    plane = paper_plane(robot)
    ccf = ccf_map(robot, basis=plane.basis, extent=((0.0, 1.8), (-0.6, 0.6)), size=40)
    with pytest.warns(FrameWarning, match="'virtual_chassis' jump inside the path"):
        gait_displacement(robot, Gait.circle(plane, 0.5, (1.2, 0.0)), "cbvi", ccf=ccf)


# -- the exact one against simulation -----------------------------------------------------------


def drive(robot, gait, momentum=None, step=5e-4):
    """Simulate with the joints driven along a gait and nothing on the base: its last pose.

    Accelerations are held over a step, so each is the one that brings the velocity to its value
    at the end of the step.
    """
    q0, qd0 = gait.position(0.0), gait.velocity(0.0)
    M, A = robot.mass_and_connection(q0)
    V0 = -A @ qd0
    if momentum is not None:
        V0 = V0 + np.linalg.solve(M[: robot.b, : robot.b], momentum)
    state = vm.State(np.eye(4), q0, V0, qd0)

    def law(t, s):
        wanted = (gait.velocity(t + step) - s.qd) / step
        return vm.Command(active=dict(zip(robot.joint_names, wanted, strict=True)))

    flight = vm.simulate(
        robot, state, law, gait.duration, step=step, integrator="runge_kutta", friction=False
    )
    assert abs(flight.q[-1] - gait.position(gait.duration)).max() < SIMULATED
    return flight.g[-1]


def test_integrate_agrees_with_the_full_dynamics():
    robot = load("lwr_floating")
    gait = paper_gait(robot)
    simulated = drive(robot, gait)
    found = gait_displacement(robot, gait)
    print(f"\nintegrate against simulation: {away(found.pose, simulated):.1e}")
    assert found.error_estimate < TOLERANCE
    assert away(found.pose, simulated) < SIMULATED


@pytest.mark.parametrize("base", ["SE3", "SE2", "SO3", "X"])
def test_integrate_agrees_with_the_full_dynamics_with_momentum(base):
    robot = load("satellite_arm7", base)
    cosines, sines = 0.3 * np.random.default_rng(8).normal(size=(2, 1, 7))
    gait = Gait.fourier(cosines, sines, np.linspace(-0.5, 0.7, 7), duration=2.0)
    momentum = np.random.default_rng(9).normal(size=robot.b) * 20.0
    simulated = drive(robot, gait, momentum)
    found = gait_displacement(robot, gait, momentum=momentum)
    assert away(found.pose, gait_displacement(robot, gait).pose) > 0.01, "momentum matters"
    assert away(found.pose, simulated) < SIMULATED


def track(robot, urdf, gait, step=1e-3):
    """Last pose of a free base in MuJoCo, its joints tracking a gait by computed torque."""
    spec = _spec(urdf, (0.0, 0.0, 0.0))
    spec.option.timestep = step
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    model = spec.compile()
    data = mujoco.MjData(model)
    addresses = [
        (model.joint(name).qposadr[0], model.joint(name).dofadr[0]) for name in robot.joint_names
    ]
    at, dof = np.array(addresses).T
    data.qpos[at], data.qvel[dof] = gait.position(0.0), gait.velocity(0.0)
    data.qvel[:6] = -robot.connection(gait.position(0.0)) @ gait.velocity(0.0)
    times = step * np.arange(int(np.ceil(gait.duration / step)))
    q, qd, later = gait.position(times), gait.velocity(times), gait.velocity(times + step)
    later[times + step >= gait.duration] = gait.velocity(gait.duration)
    g, force = np.eye(4), np.zeros(robot.b)
    for k in range(len(times)):
        g[:3, 3] = data.qpos[:3]
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
        g[:3, :3] = rotation.reshape(3, 3)
        V = np.concatenate((g[:3, :3].T @ data.qvel[:3], data.qvel[3:6]))
        wanted = (later[k] - qd[k]) / step
        wanted += 400.0 * (q[k] - data.qpos[at]) + 40.0 * (qd[k] - data.qvel[dof])
        motion = robot.hybrid_dynamics(g, data.qpos[at], V, data.qvel[dof], wanted, force)
        data.qfrc_applied[dof] = motion.tau
        mujoco.mj_step(model, data)
    out = np.eye(4)
    mujoco.mju_quat2Mat(rotation, data.qpos[3:7])
    out[:3, :3], out[:3, 3] = rotation.reshape(3, 3), data.qpos[:3]
    assert abs(data.qpos[at] - gait.position(gait.duration)).max() < 1e-3, "the joints track"
    return out


@pytest.mark.parametrize("name", ["lwr_floating", "planar_3link"])
def test_integrate_agrees_with_mujoco(name):
    robot = load(name)
    if name == "lwr_floating":
        gait = paper_gait(robot)
    else:
        plane = GaitPlane.of(robot, robot.joint_names, [0.6, -0.6])
        gait = Gait.circle(plane, 0.8, duration=2.0)
    there = track(robot, text(name), gait)
    found = gait_displacement(robot, gait)
    angle = np.linalg.norm(log(inverse(found.pose) @ there)[3:])
    print(f"\nintegrate against MuJoCo, {name}: {np.degrees(angle):.2e} deg")
    assert np.degrees(found.angle) > 1.0
    assert angle < MUJOCO


# -- what integrate promises --------------------------------------------------------------------


def test_integrate_keeps_the_stated_tolerance():
    robot = load("lwr_floating")
    gait = Gait.rectangle(paper_plane(robot), (0.8, 1.0), (0.4, 0.1))
    best = gait_displacement(robot, gait, tolerance=1e-13)
    steps = []
    for tolerance in (1e-3, 1e-6, 1e-9):
        found = gait_displacement(robot, gait, tolerance=tolerance)
        assert away(found.pose, best.pose) < tolerance
        assert found.error_estimate <= tolerance
        steps.append(found.steps)
    assert steps[0] < steps[1] < steps[2] < best.steps


def test_without_momentum_timing_does_not_matter():
    robot = load("lwr_floating")
    plane = paper_plane(robot)
    slow = Gait.circle(plane, 0.5, duration=100.0)
    uneven = Gait.function(
        lambda t: [0.5 * np.cos(2 * np.pi * t**2), 0.5 * np.sin(2 * np.pi * t**2)],
        1.0,
        plane=plane,
    )
    poses = [gait_displacement(robot, g).pose for g in (Gait.circle(plane, 0.5), slow, uneven)]
    assert away(poses[0], poses[1]) < 10 * TOLERANCE
    assert away(poses[0], poses[2]) < 1e-7  # its velocity is by differences


def test_with_momentum_the_base_drifts_though_the_joints_stand_still():
    robot = load("lwr_floating")
    momentum = np.array([1.81, 0.0, 0.0, 0.0, 0.0, 0.0])  # 0.1 m/s of 18.1 kg
    still = Gait.fourier(np.full((1, 7), 1e-9), np.zeros((1, 7)), duration=3.0)
    centre = robot.center_of_mass(np.zeros(7))
    momentum[3:] = np.cross(centre, momentum[:3])  # through the centre of mass: no turning
    found = gait_displacement(robot, still, momentum=momentum)
    assert np.allclose(found.pose, exp([0.3, 0, 0, 0, 0, 0]), rtol=0, atol=1e-7)


def test_the_base_motion_ends_where_the_displacement_says():
    robot = load("lwr_floating")
    gait = paper_gait(robot)
    t, poses = base_motion(robot, gait, 100)
    assert t[-1] == gait.duration and np.array_equal(poses[0], np.eye(4))
    assert away(poses[-1], gait_displacement(robot, gait).pose) < 1e-6  # 99 steps of order four


def test_a_gait_and_its_reverse_undo_each_other():
    robot = load("satellite_arm7")
    gait = Gait.rectangle(GaitPlane.of(robot, ("joint2", "joint3"), np.full(7, 0.4)), (0.5, 0.7))
    there, back = (gait_displacement(robot, g).pose for g in (gait, gait.reversed()))
    assert away(there @ back, np.eye(4)) < 10 * TOLERANCE


def test_a_submerged_robot_moves_by_its_added_mass_too():
    dry = load("auv_arm4")
    wet = vm.submerge(dry, ROBOTS / "auv_arm4.yaml")
    q_c = np.array([0.2, 0.6, -0.5, 0.1])
    gait = Gait.circle(GaitPlane.of(wet, wet.joint_names[1:3], q_c), 0.2)
    both = gait_displacement(wet, gait, "both", tolerance=1e-7, size=(8, 8))
    assert both.norm < 0.02 * np.linalg.norm(both.exact.twist)
    assert away(both.exact.pose, gait_displacement(dry, gait).pose) > 1e-4
    momentum = np.full(6, 0.1)
    assert away(both.exact.pose, gait_displacement(wet, gait, momentum=momentum).pose) > 1e-4


def test_the_angles_are_those_about_x_then_the_new_y_then_the_new_z():
    found = gait_displacement(load("lwr_floating"), paper_gait(load("lwr_floating")))
    expected = Rotation.from_matrix(found.rotation).as_euler("XYZ")
    assert np.allclose(found.xyz_angles, expected, rtol=0, atol=1e-12)
    assert np.array_equal(np.asarray(found), found.pose)
    assert found.angle == pytest.approx(Rotation.from_matrix(found.rotation).magnitude())
    assert np.array_equal(found.translation, found.pose[:3, 3])


# -- errors -------------------------------------------------------------------------------------

CIRCLE = Gait.circle(GaitPlane.of(load("lwr_floating"), ("joint2", "joint4")), 0.3)
SMALL = ccf_map(load("lwr_floating"), ("joint2", "joint4"), extent=0.2, size=5)
OTHER = ccf_map(load("lwr_floating"), ("joint2", "joint3"), size=5)
STACK = ccf_map(load("lwr_floating"), ("joint2", "joint4"), np.zeros((2, 7)), size=5)
BAD = {
    "an open path": ({"path": np.eye(7)}, "open"),
    "an unknown method": ({"method": "guess"}, "'guess'; valid: integrate, cbvi, both"),
    "an unknown frame": ({"method": "cbvi", "frame": "world"}, "'world'"),
    "an unknown anchor": ({"method": "cbvi", "anchor": "end"}, "'end'; valid: centroid, start"),
    "momentum by area": ({"method": "both", "momentum": np.ones(6)}, "without momentum only"),
    "a short momentum": ({"momentum": np.ones(3)}, r"momentum: got shape \(3,\)"),
    "no tolerance": ({"tolerance": 0.0}, "tolerance"),
    "a small map": ({"method": "cbvi", "ccf": SMALL}, "expected a larger extent"),
    "another plane": ({"method": "cbvi", "ccf": OTHER}, "leaves the plane of the map"),
    "a stack": ({"method": "cbvi", "ccf": STACK}, "got a stack of maps"),
}


@pytest.mark.parametrize(("options", "words"), BAD.values(), ids=BAD)
def test_a_bad_argument_is_named(options, words):
    with pytest.raises(vm.VmDynamicsError, match=words):
        gait_displacement(load("lwr_floating"), **{"path": CIRCLE, **options})


def test_a_base_without_rotation_has_no_area_integral_and_goes_nowhere():
    robot = load("lwr_floating", "T3")
    with pytest.raises(vm.ParameterError, match="has no rotation"):
        gait_displacement(robot, CIRCLE, "cbvi")
    assert away(gait_displacement(robot, CIRCLE).pose, np.eye(4)) < 10 * TOLERANCE
