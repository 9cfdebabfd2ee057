# SPDX-License-Identifier: Apache-2.0
"""Reaction mode: the tool follows, the base hardly turns, and a failed joint is survived."""

import numpy as np
import pytest
from cases import GROUPS, State, derivative, load, relative, text
from control_plant import MujocoFlight, smooth
from scipy.optimize import lsq_linear

import vm_dynamics as vm
from vm_dynamics.control import ReactionMode, Spring, _kernels

ROUNDING = 1e-9
TRACKED = 1e-3  # [m], the bar
TURNED = 0.2  # of plain tool tracking, the bar
# Starts and displacements of the tool for which the stacked Jacobian has full rank on the way.
PATHS = (
    ((-0.3, -1.2, 0.6, -1.2, -0.3, 1.0, -0.1), (0.21, -0.07, 0.2)),
    ((0.7, 0.6, 1.2, -1.1, 0.6, 1.2, 1.3), (-0.05, 0.28, -0.08)),
    ((1.3, 0.5, 0.4, 0.5, -0.3, -1.0, 0.6), (0.08, 0.14, -0.25)),
)


class Run:
    """A tool moves along a line on a satellite at rest; a joint may fail on the way."""

    def __init__(
        self,
        path,
        *,
        duration=20.0,
        hold=4.0,
        step=1e-3,
        fails=None,
        at=None,
        plant=None,
        **options,
    ):
        robot = load("satellite_arm7")
        q0, delta = (np.array(x) for x in path)
        p0 = robot.link_pose(q0, "tool")[:3, 3]
        controller = ReactionMode(robot, "tool", position_only=True, **options)
        self.errors, self.saturated, self.tau = [], [], []

        def law(t, s):
            x, v, a = smooth(t, 1.0, duration - hold)
            controller.set_target(p0 + x * delta, v * delta, a * delta)
            if fails is not None and t >= at:
                controller.failed = (fails,)
            out = controller.step(*s)
            assert (abs(out.tau) <= robot.effort_limits).all()
            self.errors.append(np.linalg.norm(out.error))
            self.saturated.append(out.saturated)
            return vm.Command(out.tau)

        start = vm.State.at_rest(robot, q0)
        if plant is None:
            self.motion = vm.simulate(robot, start, law, duration, step=step)
            poses = self.motion.g
        else:
            poses = [s.g for s in plant.run(start, law, duration)]
        angles = [np.linalg.norm(vm.lie.SE3.log(g)[3:]) for g in poses]
        self.turn = np.rad2deg(max(angles))
        self.error = max(self.errors)


# -- the equations --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["satellite_arm7", "tree4", "mimic", "prismatic"])
@pytest.mark.parametrize("base", GROUPS)
def test_velocity_terms_of_a_link_are_the_rate_of_its_jacobian(name, base):
    robot = load(name, base)
    s = State(robot, 2)
    for link in (robot.link_names[-1], robot.link_names[0]):
        frame = robot.link_frame(link)
        pose, bias = np.empty((4, 4)), np.empty(6)
        _kernels.link_bias.checked(
            robot.packed, s.q, s.V, s.qd, frame.body, frame.pose, pose, bias
        )
        rate = derivative(lambda q, link=link: robot.link_jacobian(q, link), s.q, s.qd)
        assert relative(bias, rate @ np.r_[s.V, s.qd]) < ROUNDING
        assert relative(pose, robot.link_pose(s.q, link)) < ROUNDING


@pytest.mark.parametrize("failed", [(), ("joint3",), ("joint2", "joint5")])
@pytest.mark.parametrize("driven", [False, True])
def test_the_followers_move_by_the_disturbance_jacobian(failed, driven):
    # without friction it is [Jain]'s J_D and the accelerations of the hybrid dynamics
    robot = vm.load(_without_friction(), base="SE3")
    s = State(robot, 3)
    controller = ReactionMode(robot, "tool", failed=failed, driven_base=driven)
    passive = (*failed, *(() if driven else ("base",)))
    M = robot.mass_matrix(s.q)
    still = np.zeros(6), np.zeros(7)
    bias = np.concatenate(robot.inverse_dynamics(np.eye(4), s.q, s.V, s.qd, *still))
    follow, drift = controller._coast(M, bias, s.qd, None)
    mask = controller._passive != 0.0
    if mask.any():
        J_D = robot.disturbance_jacobian(s.q, passive)
        assert relative(follow[mask], J_D) < ROUNDING
    motion = robot.hybrid_dynamics(np.eye(4), s.q, s.V, s.qd, np.zeros(13), np.zeros(13), passive)
    assert relative(drift, np.r_[motion.Vd, motion.qdd]) < ROUNDING


def _without_friction():
    return text("satellite_arm7").replace("<dynamics ", "<dynamics_ignored ")


@pytest.mark.parametrize("driven", [False, True])
@pytest.mark.parametrize("position_only", [False, True])
def test_torques_bring_about_the_accelerations_that_the_tool_needs(position_only, driven):
    robot = vm.load(_without_friction(), base="SE3")
    rng = np.random.default_rng(5)
    q, qd = np.array(PATHS[0][0]), 0.01 * rng.normal(size=7)
    V, g = 0.01 * rng.normal(size=6), vm.lie.SE3.exp(rng.normal(size=6))
    controller = ReactionMode(
        robot,
        "tool",
        position_only=position_only,
        driven_base=driven,
        base_weights=0.0,
        regularization=1e-6,
        braking_time=None,
    )
    tool = g @ robot.link_pose(q, "tool")
    velocity, acceleration = 0.02 * rng.normal(size=(2, 3 if position_only else 6))
    target = tool[:3, 3] + 0.01 if position_only else tool @ vm.lie.SE3.exp(np.full(6, 0.002))
    controller.set_target(target, velocity, acceleration)
    out = controller.step(g, q, V, qd)
    Vd, qdd = robot.forward_dynamics(g, q, V, qd, out.tau, out.base_wrench)
    assert relative(qdd, out.qdd) < 1e-6 and relative(Vd, out.Vd) < 1e-6
    assert driven == out.base_wrench.any()

    # the tool's acceleration, by differences of its motion along these accelerations
    h = 1e-4

    def at(t):
        pose = g @ vm.lie.SE3.exp(t * V + 0.5 * t**2 * Vd)
        shape = q + t * qd + 0.5 * t**2 * qdd
        twist = robot.link_jacobian(shape, "tool") @ np.r_[V + t * Vd, qd + t * qdd]
        R = (pose @ robot.link_pose(shape, "tool"))[:3, :3]
        return R @ twist[:3] if position_only else twist

    got = (at(h) - at(-h)) / (2.0 * h)
    task = controller._task((g, q, V, qd))
    np.testing.assert_allclose(got, task.acceleration, atol=1e-4)  # the regularization's share


def test_bounded_least_squares_agree_with_scipy():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n = int(rng.integers(1, 9))
        A, b = rng.normal(size=(n + 3, n)), rng.normal(size=n + 3)
        low, high = -rng.uniform(0.0, 0.5, n), rng.uniform(0.0, 0.5, n)
        low[rng.random(n) < 0.2] = -np.inf
        x, side = np.empty(n), np.empty(n)
        _kernels.bounded.checked(A.T @ A, A.T @ b, low, high, x, side)
        expected = lsq_linear(A, b, (low, high), method="bvls", tol=1e-14).x
        np.testing.assert_allclose(x, expected, atol=1e-8)
        np.testing.assert_array_equal(side != 0.0, (x == low) | (x == high))


# -- on the satellite -----------------------------------------------------------------------------


def test_the_tool_tracks_within_a_millimetre_while_the_base_turns_a_fifth():
    plain = Run(PATHS[0], duration=12.0, step=2e-3, base_weights=0.0)
    quiet = Run(PATHS[0], duration=12.0, step=2e-3)
    assert plain.error < TRACKED and quiet.error < TRACKED
    assert quiet.turn < TURNED * plain.turn


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=["path0", "path1", "path2"])
def test_the_same_on_several_paths(path):
    plain, quiet = Run(path, base_weights=0.0), Run(path)
    print(
        f"tool within {1e3 * quiet.error:.3f} mm (plain {1e3 * plain.error:.3f}), base turns "
        f"{quiet.turn:.3f} deg (plain {plain.turn:.3f}): {quiet.turn / plain.turn:.3f}"
    )
    assert plain.error < TRACKED and quiet.error < TRACKED
    assert quiet.turn < TURNED * plain.turn


@pytest.mark.slow
def test_the_same_when_mujoco_moves_the_robot():
    robot = load("satellite_arm7")
    plant = MujocoFlight(robot, text("satellite_arm7"), 2e-3)  # joints without friction
    options = {"step": 2e-3, "plant": plant, "friction": False}
    plain, quiet = Run(PATHS[0], base_weights=0.0, **options), Run(PATHS[0], **options)
    print(
        f"MuJoCo: tool within {1e3 * quiet.error:.3f} mm, base turns {quiet.turn:.3f} deg (plain "
        f"{plain.turn:.3f})"
    )
    assert quiet.error < TRACKED and quiet.turn < TURNED * plain.turn


# Torque is gone at once, so the tool jerks; friction then holds the joint more or less.
SURVIVED = 15e-3  # [m], largest
RECOVERED = 1e-3  # [m], at the end, the bar of tracking
HOLD = 24.0  # [s]: motions that neither tool nor base see would show up in it


def check_failure(run, joint, at, step):
    robot = run.motion.robot
    i = robot.joint_names.index(joint)
    after = round(at / step)
    drift = abs(run.motion.q[after:, i] - run.motion.q[after, i]).max()
    print(
        f"{joint} fails: tool within {1e3 * run.error:.2f} mm, {1e3 * run.errors[-1]:.3f} at the "
        f"end, base turns {run.turn:.2f} deg, the joint moves {np.rad2deg(drift):.2f} deg"
    )
    assert not run.motion.tau[after:, i].any()
    assert run.error < SURVIVED and run.errors[-1] < RECOVERED
    assert (run.motion.q <= robot.upper_limits).all()
    assert (run.motion.q >= robot.lower_limits).all()
    assert (abs(run.motion.qd) <= 1.02 * robot.velocity_limits).all()  # friction is not exact


def test_a_joint_that_fails_in_mid_motion_is_survived():
    check_failure(
        Run(PATHS[0], duration=40.0, hold=HOLD, step=4e-3, fails="joint5", at=8.0),
        "joint5",
        8.0,
        4e-3,
    )


@pytest.mark.slow
@pytest.mark.parametrize("joint", ["joint1", "joint2", "joint3", "joint4", "joint6", "joint7"])
def test_so_is_every_other_joint(joint):
    run = Run(PATHS[0], duration=40.0, hold=HOLD, step=2e-3, fails=joint, at=8.0)
    check_failure(run, joint, 8.0, 2e-3)


def failing(seed, *, step=6e-3, duration=24.0):
    """How far joints pass their limits [rad] when two of them fail on a path, without friction."""
    robot = vm.load(_without_friction(), base="SE3")
    rng = np.random.default_rng(seed)
    q0 = 0.85 * rng.uniform(-1.0, 1.0, 7) * robot.upper_limits
    delta = rng.normal(size=3)
    delta *= 0.3 / np.linalg.norm(delta)
    failed = tuple(str(name) for name in rng.choice(robot.joint_names, 2, replace=False))
    at, p0 = rng.uniform(3.0, 10.0), robot.link_pose(q0, "tool")[:3, 3]
    controller = ReactionMode(robot, "tool", position_only=True)

    def law(t, s):
        x, v, a = smooth(t, 1.0, duration - 6.0)
        controller.set_target(p0 + x * delta, v * delta, a * delta)
        if t >= at and not controller.failed:
            controller.failed = failed
        return controller.step(*s).tau

    start = vm.State.at_rest(robot, q0)
    out = vm.simulate(robot, start, law, duration, step=step, friction=False)
    return np.maximum(out.q - robot.upper_limits, robot.lower_limits - out.q).max()


def test_two_joints_that_fail_without_friction_keep_within_their_limits():
    assert failing(7) < 1e-3


@pytest.mark.slow
def test_the_same_on_random_paths():
    passed = np.array([failing(seed) for seed in range(10)])
    print(f"two failed joints pass their limits by {np.round(passed, 3)} rad")
    # it brakes in steps of a sample and may overshoot by a little; where the others have no hold
    # on the failed ones, nothing can
    assert (passed > 0.01).sum() <= 1


def test_springs_of_joints_are_known():
    robot = vm.load(_without_friction(), base="SE3")
    springs = {"joint3": Spring(4.0, 0.5, 0.2), "joint5": Spring(2.0)}
    s = State(robot, 4)
    q, qd, V = 0.3 * s.q, 0.05 * s.qd, 0.05 * s.V
    controller = ReactionMode(
        robot, "tool", failed=("joint3",), springs=springs, braking_time=None
    )
    controller.set_target(robot.link_pose(q, "tool"))
    out = controller.step(np.eye(4), q, V, qd)
    effort = np.zeros(7)
    for name, spring in springs.items():
        i = robot.joint_names.index(name)
        effort[i] = -spring.stiffness * (q[i] - spring.rest) - spring.damping * qd[i]
    Vd, qdd = robot.forward_dynamics(np.eye(4), q, V, qd, out.tau + effort)
    assert out.tau[2] == 0.0 and not out.saturated.any()
    assert relative(qdd, out.qdd) < 1e-6 and relative(Vd, out.Vd) < 1e-6
    with pytest.raises(vm.UnknownJointError, match="elbow"):
        ReactionMode(robot, "tool", springs={"elbow": Spring(1.0)})
    with pytest.raises(vm.ParameterError, match="stiffness of joint3"):
        ReactionMode(robot, "tool", springs={"joint3": Spring(-1.0)})


def test_a_driven_base_helps_the_tool_where_the_arm_cannot_reach():
    robot = load("satellite_arm7")
    q0 = np.array(PATHS[0][0])
    p0 = robot.link_pose(q0, "tool")[:3, 3]
    far = np.array([3.0, 0.0, 2.0])
    controller = ReactionMode(
        robot, "tool", position_only=True, driven_base=True, base_weights=0.01
    )

    def law(t, s):
        x, v, a = smooth(t, 0.0, 25.0)
        controller.set_target(p0 + x * far, v * far, a * far)
        out = controller.step(*s)
        return vm.Command(out.tau, out.base_wrench)

    out = vm.simulate(robot, vm.State.at_rest(robot, q0), law, 30.0, step=4e-3)
    tool = out.g[-1] @ robot.link_pose(out.q[-1], "tool")
    assert np.linalg.norm(tool[:3, 3] - p0 - far) < 2e-3
    assert np.linalg.norm(out.g[-1][:3, 3]) > 0.3


def test_pose_of_the_tool_is_followed_with_its_orientation():
    robot = load("satellite_arm7")
    q0 = np.array(PATHS[0][0])
    start = robot.link_pose(q0, "tool")
    twist = np.array([0.05, 0.02, -0.05, 0.1, -0.05, 0.1])
    controller = ReactionMode(robot, "tool", base_weights=0.0)

    def law(t, s):
        x, v, a = smooth(t, 0.0, 8.0)
        controller.set_target(start @ vm.lie.SE3.exp(x * twist), v * twist, a * twist)
        return controller.step(*s).tau

    out = vm.simulate(robot, vm.State.at_rest(robot, q0), law, 10.0, step=2e-3)
    tool = out.g[-1] @ robot.link_pose(out.q[-1], "tool")
    error = vm.lie.SE3.log(vm.lie.SE3.inverse(tool) @ start @ vm.lie.SE3.exp(twist))
    assert abs(error).max() < 1e-3


def test_limits_are_kept_when_the_tool_is_asked_too_much():
    robot = load("satellite_arm7")
    controller = ReactionMode(robot, "tool", position_only=True)
    controller.set_target(np.array([30.0, 0.0, 0.0]))
    hits = []

    def law(t, s):
        out = controller.step(*s)
        assert (abs(out.tau) <= robot.effort_limits).all()
        assert (abs(out.qd) <= robot.velocity_limits + 1e-9).all()
        hits.append(out.saturated)
        return out.tau

    out = vm.simulate(robot, vm.State.at_rest(robot, PATHS[0][0]), law, 4.0, step=2e-3)
    assert np.array(hits).any()
    # friction is compensated at the velocities wanted, not at those that come about
    assert (out.q <= robot.upper_limits + 1e-3).all()
    assert (out.q >= robot.lower_limits - 1e-3).all()


def test_construction_and_steps_refuse_what_cannot_be():
    robot = load("satellite_arm7")
    with pytest.raises(vm.UnknownLinkError, match="gripper"):
        ReactionMode(robot, "gripper")
    with pytest.raises(vm.UnknownJointError, match="elbow"):
        ReactionMode(robot, "tool", failed=("elbow",))
    with pytest.raises(vm.ParameterError, match="failed: got 'base'"):
        ReactionMode(robot, "tool", failed=("base",))
    with pytest.raises(vm.ParameterError, match="all joints"):
        ReactionMode(robot, "tool", failed=robot.joint_names)
    with pytest.raises(vm.ParameterError, match="stiffness"):
        ReactionMode(robot, "tool", stiffness=-1.0)
    with pytest.raises(vm.DimensionError, match="base_weights"):
        ReactionMode(robot, "tool", base_weights=np.ones(3))
    with pytest.raises(vm.ParameterError, match="regularization"):
        ReactionMode(robot, "tool", regularization=0.0)
    controller = ReactionMode(robot, "tool", position_only=True)
    state = [np.eye(4), np.zeros(7), np.zeros(6), np.zeros(7)]
    with pytest.raises(vm.ParameterError, match="set_target"):
        controller.step(*state)
    with pytest.raises(vm.DimensionError, match="pose"):
        controller.set_target(np.eye(4))
    controller.set_target(np.zeros(3))
    for i, name in enumerate(("pose", "q", "V", "qd")):
        bad = [x.copy() for x in state]
        bad[i][:] = np.nan
        with pytest.raises(vm.NonFiniteError, match=name):
            controller.step(*bad)
    with pytest.raises(vm.NonFiniteError):
        controller.step(np.eye(4), np.zeros(7), np.zeros(6), np.full(7, 1e200))
