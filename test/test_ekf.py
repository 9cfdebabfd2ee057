# SPDX-License-Identifier: Apache-2.0
"""The invariant filter: against its readable form, under the conditions of the study, and beyond.

Error pairs are deg/s and mm/s. The floor is the error that the noise of the joints' velocities
makes by itself, A n_qd, in the same window of the same run.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from cases import GROUPS, ROBOTS, State, load
from observing import (
    ATTITUDE_NOISE,
    DEG,
    JOINT_NOISE,
    POSITION_NOISE,
    begin,
    misjudged,
    observe,
    pair_of,
    sense,
    standard,
    truth,
)

import vm_dynamics as vm
from vm_dynamics.estimation import DifferentiatedPose, InvariantEkf
from vm_dynamics.lie import se3

EARTH = (0.0, 0.0, -9.81)
PAIR = ("satellite_arm7", "lwr_floating")  # the heavy and the light robot
SEEDS = (0, 1, 2)
SINCE = 20.0  # [s], of 40: from here on figures are taken
SAME = 1e-9  # relative: a thousand steps in another order of summation
SECOND_ORDER = 2e-3  # of the covariance's steps of 10 ms at 1 rad/s
FIRST_ORDER = 2e-2  # of the same with drag, whose slope is taken at the end of a step

# The bars
ANGULAR, LINEAR = 1.3, 3.0  # of the floor, with the right model
BETTER = 5.0  # than a differentiated pose
SETTLED = 3.0  # [s], to 0.5 deg/s and 5 mm/s
WRONG_MODEL = 5.0  # of the floor, with masses wrong by 10 %
NIS_RANGE = (5.0, 7.0)  # mean, for 6 degrees of freedom
FEW = 1.0  # for the mean of fifty poses, which scatters by 0.5
EXTERNAL = 0.1  # of an unknown wrench, relative
INSIDE = 0.985  # share within 3 sigma; of a normal distribution it is 0.997


@cache
def seen(name, seed):
    """Forty seconds of the standard conditions."""
    return sense(standard(name), seed)


@cache
def short(name="lwr_floating", seconds=4.0, gravity=(0.0, 0.0, 0.0)):
    return sense(truth(load(name, "SE3", gravity), seconds), 1)


def ratios(run, sensed, since=SINCE):
    """Errors in units of the floor, angular and linear."""
    error, floor = run.rms(since), pair_of(sensed.floor[run.t >= since])
    return error[0] / floor[0], error[1] / floor[1]


def z_scores(run, since):
    """Pose errors in units of their standard deviations."""
    b = run.pose_error.shape[1]
    return (abs(run.pose_error) / run.sigma[:, :b])[run.t[run.at] >= since]


# -- against its readable form --------------------------------------------------------------------


class Twin:
    """The filter in NumPy, for events in the order of their stamps; poses come with joints.

    The momentum m is h with moments about the centre of mass; W and T_m as in the kernels.
    """

    def __init__(self, robot, s_qd=5e-3, s_a=1e-3, s_mu=1.0):
        self.robot, self.group, self.b = robot, robot.base_group, robot.b
        unit = self.group.iota_pinv @ self.group.iota_pinv.T
        self.R, self.Q, self.P0 = 5e-3**2 * unit, s_a**2 * unit, s_mu**2 * unit
        self.s_qd, self.g, self.last = s_qd, None, None

    def in_group(self, six):
        return self.group.iota_pinv @ six @ self.group.iota

    def rotation(self, R):
        """diag(R, R) in coordinates of the group."""
        return self.in_group(np.kron(np.eye(2), R))

    def turning(self, m):
        """T_m."""
        six = self.group.iota_pinv.T @ m
        out = np.zeros((6, 6))
        out[:3, 3:], out[3:, 3:] = se3.hat3(six[:3]), se3.hat3(six[3:])
        return self.group.iota.T @ out @ self.group.iota

    def joints(self, t, q, qd):
        M, A = self.robot.mass_and_connection(q)
        there = np.eye(4)
        there[:3, 3] = self.robot.center_of_mass(q)
        S = self.in_group(se3.adjoint(there)).T
        self.M_b = M[: self.b, : self.b]
        M = S @ self.M_b
        now = t, np.linalg.inv(M), A @ qd, M, A
        if self.g is not None:
            last, spacing = self.last, t - self.last[0]
            self.move(spacing, (last[1] + now[1]) / 2, (last[2] + now[2]) / 2)
        self.last = now
        if self.g is not None and t - self.t_cov >= 0.01 - 1e-9:
            self.propagate(spacing)

    def move(self, dt, W, xi):
        V = W @ self.m - xi
        V = W @ (self.m + dt / 2 * self.turning(self.m) @ V) - xi
        D = self.group.exp(V * dt)
        self.g, self.m = self.g @ D, self.rotation(D[:3, :3]).T @ self.m

    def rate(self, W, xi):
        """Of eps by eps, less its turning."""
        V = W @ self.m - xi
        slide = np.zeros((6, 6))
        slide[:3, 3:] = se3.hat3((self.group.iota @ V)[:3])
        return W @ self.turning(self.m) - self.in_group(slide)

    def propagate(self, spacing):
        t, W, xi, M, A = self.last
        b, dt, zero = self.b, t - self.t_cov, np.zeros((self.b, self.b))
        R0, rate0, W0 = self.anchor
        Q = self.rotation(R0.T @ self.g[:3, :3])
        Z = dt / 2 * (rate0 + Q @ self.rate(W, xi) @ Q.T)
        Wdt = dt / 2 * (W0 + Q @ W @ Q.T)
        one = np.eye(b)
        Phi = np.block([[one + Z + Z @ Z / 2, (one + Z / 2) @ Wdt], [zero, one]])
        Phi = np.kron(np.eye(2), Q.T) @ Phi
        noise = A @ A.T * self.s_qd**2 * spacing * dt
        self.P = Phi @ self.P @ Phi.T + np.block([[noise, zero], [zero, M @ self.Q @ M.T * dt]])
        self.t_cov = t
        self.drop_anchor()

    def drop_anchor(self):
        W, xi = self.last[1:3]
        self.anchor = self.g[:3, :3].copy(), self.rate(W, xi), W

    def pose(self, t, g_m):
        M, b, group = self.last[3], self.b, self.group
        zero = np.zeros((b, b))
        if self.g is None:
            self.g, self.m, self.t_cov = g_m, np.zeros(b), t
            self.P = np.block([[self.R, zero], [zero, M @ self.P0 @ M.T]])
            self.drop_anchor()
            return
        e = group.iota_pinv @ se3.log(se3.inverse(self.g) @ g_m)
        S = self.P[:b, :b] + self.R
        self.nis = e @ np.linalg.solve(S, e)
        K = np.linalg.solve(S, self.P[:b]).T
        d = K @ e
        E = group.exp(d[:b])
        self.g, self.m = self.g @ E, self.rotation(E[:3, :3]).T @ self.m + d[b:]
        keep = np.eye(2 * b) - np.hstack((K, np.zeros((2 * b, b))))
        self.P = keep @ self.P @ keep.T + K @ self.R @ K.T
        again = np.block([[np.eye(b), zero], [-self.turning(d[b:]), np.eye(b)]])
        self.P = again @ self.P @ again.T
        self.drop_anchor()

    @property
    def momentum(self):
        """h, moments about the origin of {1}."""
        return self.M_b @ self.last[1] @ self.m


@pytest.mark.parametrize("base", GROUPS)
def test_the_compiled_filter_equals_its_readable_form(base):
    robot = load("tree3", base)
    sensed = sense(truth(robot, 0.5, state=begin(robot, 0.2 * np.ones(robot.b))), 0)
    motion, twin, ekf = sensed.motion, Twin(robot), InvariantEkf(robot)
    for k in range(len(motion)):
        t, arguments = float(motion.t[k]), (motion.q[k], sensed.qd[k])
        twin.joints(t, *arguments)
        ekf.joints(t, *arguments)
        if k % 100 == 0:
            twin.pose(t, sensed.poses[k // 100])
            ekf.pose(t, sensed.poses[k // 100])
    assert abs(ekf.base_pose - twin.g).max() < SAME
    assert abs(ekf.momentum - twin.momentum).max() < SAME * max(1.0, abs(twin.m).max())
    assert abs(ekf.error_covariance - twin.P).max() < SAME * abs(twin.P).max()
    assert ekf.nis == pytest.approx(twin.nis, rel=1e-6)
    outer = ekf.covariance
    assert np.allclose(outer, outer.T)
    assert np.linalg.eigvalsh(outer)[0] > 0.0


AUV = ROBOTS / "auv_arm4.yaml"


def robot_of(case):
    if case == "fluid":
        dry = load("auv_arm4", "SE3", EARTH)
        return vm.submerge(dry, vm.Hydrodynamics.load(AUV).with_current((0.2, 0.1, 0.0)))
    base, _, gravity = case.partition(" ")
    return load("tree3", base, EARTH if gravity else (0.0, 0.0, 0.0))


def shifted(robot, q):
    """S, the shift of moments to the centre of mass (with a fluid, there is none)."""
    there = np.eye(4)
    if robot.fluid is None:
        there[:3, 3] = robot.center_of_mass(q)
    return (robot.base_group.iota_pinv @ se3.adjoint(there) @ robot.base_group.iota).T


def rotated(group, g):
    return group.iota_pinv @ np.kron(np.eye(2), g[:3, :3]) @ group.iota


def flow(robot, sensed, delta, wrench, **options):
    """The filter at the end of a motion without poses, from a start moved by (eps, zeta)."""
    group, motion, b = robot.base_group, sensed.motion, robot.b
    M = shifted(robot, motion.q[0]) @ robot.mass_matrix(motion.q[0])[:b, :b]
    m = M @ (0.2 * np.cos(np.arange(b)))
    E = group.exp(delta[:b])
    start = np.linalg.solve(M, rotated(group, E).T @ m + delta[b : 2 * b])
    ekf = InvariantEkf(robot, start_velocity=start, **options)
    ekf.joints(0.0, motion.q[0], motion.qd[0])
    ekf.pose(0.0, group.exp(0.3 * np.sin(np.arange(b))) @ E)
    ekf.base_wrench(0.0, wrench + delta[2 * b :])
    for k in range(1, len(motion)):
        ekf.joints(float(motion.t[k]), motion.q[k], motion.qd[k])
    return ekf


HEAVY = ("SE3 heavy", "SO3 heavy", "X heavy", "H heavy")


@pytest.mark.parametrize("case", [*GROUPS, *HEAVY, "fluid"])
def test_the_covariance_moves_with_the_flow_of_the_estimate(case):
    robot = robot_of(case)
    b, group, step = robot.b, robot.base_group, 1e-5
    sensed = sense(truth(robot, 0.5, state=begin(robot, np.zeros(b))), 0)
    first, last = sensed.motion.q[0], sensed.motion.q[-1]
    wrench = np.linspace(1.0, 2.0, b)
    options = dict(disturbance=1e-9, joint_velocity_deviation=1e-9, external_wrench="body")
    M = shifted(robot, first) @ robot.mass_matrix(first)[:b, :b]
    reference = flow(robot, sensed, np.zeros(3 * b), wrench, **options)
    g, m = reference.base_pose, shifted(robot, last) @ reference.momentum

    def end(delta):
        there = flow(robot, sensed, delta, wrench, **options)
        away = se3.inverse(g) @ there.base_pose
        zeta = shifted(robot, last) @ there.momentum - rotated(group, away).T @ m
        return np.concatenate((group.iota_pinv @ se3.log(away), zeta))

    sizes = np.concatenate((np.ones(b), abs(M).max() * np.ones(b), np.ones(b)))
    steps = step * np.diag(sizes)
    Phi = np.array([(end(s) - end(-s)) / (2.0 * s.sum()) for s in steps]).T
    P = np.zeros((3 * b, 3 * b))
    P[:b, :b] = reference.coordinates("", 5e-3)
    P[b : 2 * b, b : 2 * b] = M @ reference.coordinates("", 1.0) @ M.T
    P[2 * b :, 2 * b :] = reference._wrench_noise("", 10.0)
    expected = Phi @ P @ Phi.T
    found = reference.error_covariance[: 2 * b, : 2 * b]
    scale = np.sqrt(np.diag(expected))
    bound = FIRST_ORDER if case == "fluid" else SECOND_ORDER
    assert (abs(found - expected) / np.outer(scale, scale)).max() < bound


def test_momentum_in_the_world_is_kept_while_coasting():
    sensed = short()
    motion, ekf = sensed.motion, InvariantEkf(load("lwr_floating"))

    def in_world(k):
        """Linear momentum, and the angular one about the centre of mass."""
        m = shifted(motion.robot, motion.q[k]) @ ekf.momentum
        return np.kron(np.eye(2), ekf.base_pose[:3, :3]) @ m

    ekf.joints(0.0, motion.q[0], sensed.qd[0])
    ekf.pose(0.0, sensed.poses[0])
    ekf.joints(0.1, motion.q[100], sensed.qd[100])
    ekf.pose(0.1, sensed.poses[1])
    before = in_world(100)
    for k in range(101, 4001):
        ekf.joints(1e-3 * k, motion.q[k], sensed.qd[k])
    assert abs(before).max() > 0.1
    # rounding of 4000 products of rotations
    assert abs(in_world(4000) - before).max() < 1e-10 * abs(before).max()


# -- the conditions of the study ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PAIR)
def test_the_error_is_near_the_floor_and_far_below_that_of_differences(name, seed):
    sensed, robot = seen(name, seed), load(name)
    run = observe(InvariantEkf(robot), sensed)
    calibrated = observe(InvariantEkf(robot, disturbance=1e-4), sensed)
    cutoffs = (0.1, 0.2, 0.5, 1.0)
    plain = np.array(
        [observe(DifferentiatedPose(robot, cutoff=c), sensed).rms(SINCE) for c in cutoffs]
    )
    best, error = plain.min(axis=0), run.rms(SINCE)  # the best of each, even if not of one filter
    angular, linear = ratios(run, sensed)
    nis = run.nis[run.t[run.at] >= 2.0].mean()
    print(
        f"\n{name} {seed}: {error[0]:.3f} / {error[1]:.2f}, in floors {angular:.2f} / {linear:.2f}"
        f" (1e-4: {ratios(calibrated, sensed)[0]:.2f} / {ratios(calibrated, sensed)[1]:.2f});"
        f" differences {best[0]:.2f} / {best[1]:.1f}; settled {run.settled():.1f} s; NIS {nis:.2f}"
    )
    assert angular < ANGULAR
    assert linear < LINEAR
    assert BETTER * error[0] < best[0]
    assert BETTER * error[1] < best[1]
    assert run.settled() < SETTLED
    assert NIS_RANGE[0] < nis < NIS_RANGE[1]
    assert (z_scores(run, 2.0) < 3.0).mean() > INSIDE


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIR)
def test_with_a_calibrated_model_the_error_is_near_the_lower_floor_of_a_straight_arm(name):
    robot = load(name)
    start = begin(robot, posture=np.linspace(0.2, 0.8, robot.n))
    sensed = sense(truth(robot, 40.0, state=start), 0)
    default = observe(InvariantEkf(robot), sensed)
    calibrated = observe(InvariantEkf(robot, disturbance=1e-4), sensed)
    # the default takes forces into account that are not there: 1.2 mm/s wherever the floor is
    print(f"\n{name}: {ratios(default, sensed)} by default, {ratios(calibrated, sensed)} at 1e-4")
    assert ratios(default, sensed)[0] < ANGULAR
    assert default.rms(SINCE)[1] < 2.0
    assert ratios(calibrated, sensed)[0] < ANGULAR
    assert ratios(calibrated, sensed)[1] < LINEAR


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", PAIR)
def test_gaps_delays_drops_and_outliers_do_no_harm(name, seed):
    sensed, robot = seen(name, seed), load(name)
    rng = np.random.default_rng(seed)
    gap = (sensed.samples > 25_000) & (sensed.samples < 27_000)
    run = observe(InvariantEkf(robot), sensed.without(gap))
    there = (run.t > 25.0) & (run.t < 27.0)
    in_gap, floor = pair_of(run.error[there]), pair_of(sensed.floor[there])
    assert in_gap[0] < 2.0 * floor[0]
    assert in_gap[1] < 5.0 * floor[1]
    assert (z_scores(run, 26.9) < 3.0).mean() > INSIDE
    late = observe(InvariantEkf(robot), sensed.delayed(100))
    attitude = np.sqrt((late.pose_error[100:, 3:] ** 2).sum(1).mean()) / DEG
    assert ratios(late, sensed)[0] < ANGULAR
    assert ratios(late, sensed)[1] < LINEAR
    assert attitude < 0.25  # the study's 0.17; 1.9 if the delay is ignored
    assert (z_scores(late, 2.0) < 3.0).mean() > INSIDE
    thin = sensed.without(rng.random(len(sensed.samples)) < 0.05)
    bad = np.flatnonzero(rng.random(len(thin.samples)) < 0.01)
    poses = thin.poses.copy()
    for i in bad:
        poses[i] = poses[i] @ se3.exp(rng.normal(size=6))
    ekf = InvariantEkf(robot)
    rough = observe(ekf, replace(thin, poses=poses))
    print(
        f"\n{name} {seed}: in the gap {in_gap}; delayed {late.rms(SINCE)}, {attitude:.2f} deg;"
        f" drops and {len(bad)} outliers {rough.rms(SINCE)}"
    )
    assert ratios(rough, sensed)[0] < ANGULAR
    assert ratios(rough, sensed)[1] < LINEAR
    assert ekf.status.rejected >= len(bad) - 1  # one among the first poses may begin the estimate
    assert ekf.status.rejected <= len(bad) + 2  # the gate lets one good pose in ten thousand fail


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIR)
def test_wrong_masses_cost_little_and_show_in_the_innovation(name):
    sensed, robot = seen(name, 0), load(name)
    arm = misjudged(robot, lambda link: 1.1 if robot.link_frame(link).body else 1.0)
    right = observe(InvariantEkf(robot, disturbance=1e-4), sensed)
    wrong = observe(InvariantEkf(arm), sensed)
    trusting = observe(InvariantEkf(arm, disturbance=1e-4), sensed)
    print(f"\n{name}, arm masses + 10 %: {wrong.rms(SINCE)}, {ratios(wrong, sensed)} of the floor")
    print(f"NIS {wrong.nis[20:].mean():.2f}, at 1e-4 {trusting.nis[20:].mean():.2f}")
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        factors = {link: 1.0 + 0.1 * rng.choice((-1, 1)) for link in robot.link_names}
        other = observe(InvariantEkf(misjudged(robot, factors.__getitem__)), sensed)
        nis = other.nis[20:].mean()
        print(f"each body +-10 %: {other.rms(SINCE)}, {ratios(other, sensed)}, NIS {nis:.2f}")
        assert ratios(other, sensed)[0] < WRONG_MODEL
    assert ratios(wrong, sensed)[0] < WRONG_MODEL
    assert ratios(wrong, sensed)[1] < WRONG_MODEL
    # the means of 380 poses scatter by 0.18
    assert trusting.nis[20:].mean() > right.nis[20:].mean() + 1.0


# -- forces ---------------------------------------------------------------------------------------


def firing(t, state):
    """A thruster that fires for half of every four seconds."""
    return np.array([4.0, -2.0, 1.0, 0.5, 1.0, -0.4]) * (t % 4.0 < 2.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIR)
def test_a_known_thruster_changes_nothing_and_an_unknown_one_shows(name):
    robot = load(name)
    sensed = sense(truth(robot, 20.0, wrench=firing), 0)
    run = observe(InvariantEkf(robot), sensed, wrench=True)
    blind = InvariantEkf(robot)
    ignored = observe(blind, sensed)
    angular, linear = ratios(run, sensed, 5.0)
    print(f"\n{name}: {angular:.2f} / {linear:.2f} of the floor, NIS {run.nis[20:].mean():.2f};")
    print(f"unknown: {ratios(ignored, sensed, 5.0)}, NIS {ignored.nis[20:].mean():.0f}")
    assert angular < ANGULAR
    assert linear < LINEAR
    assert NIS_RANGE[0] < run.nis[20:].mean() < NIS_RANGE[1]
    assert ignored.nis[20:].mean() > NIS_RANGE[1] + 2.0


@pytest.mark.slow
@pytest.mark.parametrize("axes", ["body", "world"])
@pytest.mark.parametrize("name", PAIR)
def test_an_unknown_constant_wrench_is_estimated(name, axes):
    robot = load(name)
    scale = robot.total_mass / 360.0
    wrench = scale * np.array([3.0, -2.0, 1.0, 0.6, 0.5, -0.8])

    def push(t, state):
        R = state.g[:3, :3]
        return wrench if axes == "body" else np.concatenate((R.T @ wrench[:3], R.T @ wrench[3:]))

    sensed = sense(truth(robot, 30.0, wrench=push), 0)
    ekf = InvariantEkf(robot, external_wrench=axes, disturbance=1e-4)
    run = observe(ekf, sensed)
    error = abs(ekf.external_wrench - wrench)
    sigma = np.sqrt(np.diag(ekf.error_covariance))[-6:]
    print(f"\n{name} {axes}: {ekf.external_wrench / scale}, NIS {run.nis[20:].mean():.2f}")
    assert np.linalg.norm(error[:3]) < EXTERNAL * np.linalg.norm(wrench[:3])
    assert np.linalg.norm(error[3:]) < EXTERNAL * np.linalg.norm(wrench[3:])
    assert (error < 4.0 * sigma).all()
    assert NIS_RANGE[0] < run.nis[20:].mean() < NIS_RANGE[1]
    assert ratios(run, sensed, 10.0)[0] < ANGULAR


def test_a_robot_that_hovers_is_tracked():
    robot = load("lwr_floating", "SE3", EARTH)

    def hover(t, state):
        lift = state.g[:3, :3].T @ (0.0, 0.0, 9.81 * robot.total_mass)
        return np.concatenate((lift, np.cross(robot.center_of_mass(state.q), lift)))

    sensed = sense(truth(robot, 6.0, wrench=hover), 0)
    run = observe(InvariantEkf(robot), sensed, wrench=True)
    assert ratios(run, sensed, 3.0)[0] < ANGULAR
    # an attitude known to 0.15 degrees turns the lift by 0.03 m/s^2
    assert run.rms(3.0)[1] < 20.0
    assert NIS_RANGE[0] < run.nis[10:].mean() < NIS_RANGE[1] + FEW
    assert (z_scores(run, 1.0) < 3.0).mean() > INSIDE


def test_speed_does_no_harm_to_a_robot_that_falls():
    robot = load("lwr_floating", "SE3", EARTH)
    sensed = sense(truth(robot, 6.0), 0)
    assert np.linalg.norm(sensed.motion.V[-1, :3]) > 50.0
    run = observe(InvariantEkf(robot), sensed)
    assert ratios(run, sensed, 3.0)[0] < ANGULAR
    # along the axes of {1}, an attitude known to 0.15 degrees leaves 0.1 m/s of 50
    assert run.rms(3.0)[1] < 200.0
    assert NIS_RANGE[0] < run.nis[10:].mean() < NIS_RANGE[1] + FEW
    assert (z_scores(run, 1.0) < 3.0).mean() > INSIDE


@pytest.mark.parametrize("current", [(0.0, 0.0, 0.0), (0.3, -0.2, 0.1)])
def test_a_submerged_robot_is_tracked_in_still_and_in_moving_water(current):
    dry = load("auv_arm4", "SE3", EARTH)
    robot = vm.submerge(dry, vm.Hydrodynamics.load(AUV).with_current(current))
    state = begin(robot, np.array([0.4, 0.1, 0.0, 0.1, 0.05, 0.2]))

    def push(t, state):
        return np.array([30.0, 0.0, 5.0, 0.0, 1.0, 2.0])

    sensed = sense(truth(robot, 5.0, wrench=push, state=state), 0)
    run = observe(InvariantEkf(robot), sensed, wrench=True)
    angular, linear = run.rms(3.0)
    assert angular < 0.3  # [deg/s], of 10, what three seconds of poses leave
    assert linear < 5.0  # [mm/s], of 300
    assert (z_scores(run, 1.0) < 3.0).mean() > INSIDE
    # without the drag it would not do
    blind = observe(InvariantEkf(dry), sensed, wrench=True)
    assert blind.rms(3.0)[1] > 5.0 * linear


# -- other sensors --------------------------------------------------------------------------------


def with_gyro(ekf, sensed, link, bias, noise, every=1, seed=5):
    """A function for :func:`observe` that feeds a gyroscope at a link, biased and noisy."""
    motion, robot = sensed.motion, sensed.motion.robot
    rng = np.random.default_rng(seed)

    def each(k):
        if k >= every and k % every == 0:
            i = k - 1  # the reading comes with the last joint sample
            twist = robot.link_jacobian(motion.q[i], link) @ np.concatenate(
                (motion.V[i], motion.qd[i])
            )
            ekf.gyro(float(motion.t[i]), twist[3:] + bias + noise * rng.normal(size=3))

    return each


@pytest.mark.parametrize("where", ["root", "tip"])
def test_a_gyroscope_improves_the_estimate_and_its_bias_is_found(where):
    sensed = short(seconds=10.0)
    robot = sensed.motion.robot
    link = robot.root_link if where == "root" else robot.tip_link
    bias, noise = np.array([0.01, -0.02, 0.015]), 5e-4
    ekf = InvariantEkf(robot, gyro_link=link, gyro_deviation=noise)
    run = observe(ekf, sensed, each=with_gyro(ekf, sensed, link, bias, noise, every=10))
    plain = observe(InvariantEkf(robot), sensed)
    sigma = np.sqrt(np.diag(ekf.error_covariance))[12:15]
    # what ten seconds of poses say of an angular velocity: 0.3 deg / 10 s, and the joints' noise
    assert abs(ekf.gyro_bias - bias).max() < 2e-3
    assert (abs(ekf.gyro_bias - bias) < 4.0 * sigma).all()
    assert NIS_RANGE[0] < run.nis[10:].mean() < NIS_RANGE[1]
    mean = [pair_of(r.locked_error[3000:])[0] for r in (run, plain)]
    assert mean[0] < mean[1]


def test_with_a_gyroscope_at_every_sample_the_twist_is_better_than_the_floor():
    sensed = short()
    motion, robot = sensed.motion, sensed.motion.robot
    ekf = InvariantEkf(robot, gyro_link=robot.root_link, gyro_deviation=2e-4)
    rng, errors = np.random.default_rng(0), []
    for k in range(len(motion)):
        t = float(motion.t[k])
        ekf.joints(t, motion.q[k], sensed.qd[k])
        ekf.gyro(t, motion.V[k, 3:] + 2e-4 * rng.normal(size=3))
        if k % 100 == 0:
            ekf.pose(t, sensed.poses[k // 100])
        errors.append(motion.V[k] - ekf.twist)
    angular, linear = pair_of(np.array(errors)[2000:])
    floor = pair_of(sensed.floor[2000:])
    # the bias that two seconds of poses leave is what remains
    assert angular < 0.6 * floor[0]
    assert ekf.status.rejected < 5


def test_gyroscope_and_velocity_carry_the_estimate_through_a_gap_with_an_unknown_push():
    robot = load("lwr_floating")

    def kick(t, state):
        return np.array([3.0, 0.0, -2.0, 0.4, -0.3, 0.2]) * (3.0 < t < 4.0)

    sensed = sense(truth(robot, 6.0, wrench=kick), 0)
    sensed = sensed.without((sensed.samples > 2000) & (sensed.samples < 5500))
    motion, rng = sensed.motion, np.random.default_rng(1)
    helped = InvariantEkf(robot, gyro_link=robot.root_link, gyro_deviation=1e-3, disturbance=0.3)
    gyro = with_gyro(helped, sensed, robot.root_link, np.zeros(3), 1e-3, every=5)
    alone = InvariantEkf(robot, disturbance=0.3)

    def each(k):
        gyro(k)
        if k > 20 and k % 20 == 0:
            i = k - 2
            axes = ("body", "world")[k % 40 == 0]
            R = motion.g[i, :3, :3] if axes == "world" else np.eye(3)
            v = R @ motion.V[i, :3] + 1e-2 * rng.normal(size=3)
            helped.velocity(float(motion.t[i]), v, np.eye(3) * 1e-4, axes)

    runs = observe(helped, sensed, each=each), observe(alone, sensed)
    gap = (motion.t > 3.0) & (motion.t < 5.4)
    with_help, without = (pair_of(run.error[gap]) for run in runs)
    assert with_help[0] < 0.1 * without[0]
    assert with_help[1] < 0.1 * without[1]
    assert (z_scores(runs[0], 5.0) < 3.0).mean() > INSIDE
    assert helped.status.rejected < 10


def test_a_gyroscope_does_not_seem_to_measure_the_attitude():
    sensed = short()
    motion, robot = sensed.motion, sensed.motion.robot
    ekf = InvariantEkf(robot, gyro_link=robot.root_link, gyro_deviation=2e-4)
    rng = np.random.default_rng(0)
    ekf.joints(0.0, motion.q[0], sensed.qd[0])
    ekf.pose(0.0, sensed.poses[0])
    for k in range(1, 500):
        t = float(motion.t[k])
        ekf.joints(t, motion.q[k], sensed.qd[k])
        ekf.gyro(t, motion.V[k, 3:] + 2e-4 * rng.normal(size=3))
    sigma = np.sqrt(np.diag(ekf.error_covariance))[3:6]
    # one pose of 5 mrad is all there was; a tenth is what linearization may cost
    assert (sigma > 0.9 * 5e-3).all()


@pytest.mark.parametrize("axes", ["body", "world"])
def test_a_velocity_is_believed_along_its_axes(axes):
    robot = load("tree3")
    s = State(robot, 2)
    g = se3.exp(s.V)
    V = np.array([0.3, -0.2, 0.1, 0.0, 0.0, 0.0])
    v = V[:3] if axes == "body" else g[:3, :3] @ V[:3]
    ekf = InvariantEkf(robot)
    ekf.joints(0.0, s.q, np.zeros(robot.n))
    ekf.pose(0.0, g)
    for k in range(1, 200):
        ekf.joints(1e-3 * k, s.q, np.zeros(robot.n))
        ekf.velocity(1e-3 * k, v, np.eye(3) * 1e-6, axes)
    assert abs(ekf.twist[:3] - V[:3]).max() < 1e-2


def test_a_gyroscope_needs_its_link_and_a_velocity_its_axes():
    ekf = InvariantEkf(load("tree3"))
    with pytest.raises(vm.ParameterError):
        ekf.gyro(0.0, np.zeros(3))
    with pytest.raises(vm.VmDynamicsError):
        ekf.velocity(0.0, np.zeros(3), axes="moon")
    with pytest.raises(vm.DimensionError):
        ekf.velocity(0.0, np.zeros(2))


# -- gates, beginnings, covariances ---------------------------------------------------------------


def test_the_estimate_begins_anew_when_the_frame_of_the_poses_jumps_and_keeps_its_momentum():
    sensed = short()
    jump = se3.exp(np.array([1.0, -2.0, 0.5, 0.4, 0.3, -0.8]))
    poses = sensed.poses.copy()
    poses[20:] = jump @ poses[20:]
    ekf = InvariantEkf(load("lwr_floating"), patience=4)
    run = observe(ekf, replace(sensed, poses=poses))
    status = ekf.status
    assert (status.reinitialisations, status.rejected, status.state) == (1, 3, "tracking")
    away = se3.log(se3.inverse(ekf.base_pose) @ jump @ sensed.motion.g[-1])
    assert abs(away).max() < 0.02
    # the velocity hardly notices: the pose jumped, not the robot
    assert pair_of(run.locked_error[2350:2400])[0] < 1.0


@pytest.mark.parametrize("speed", [0.1, 1.0])
def test_a_start_that_was_too_narrow_is_widened_until_it_fits(speed):
    robot = load("lwr_floating")
    mu = speed * np.array([1.0, -0.5, 0.3, 0.2, 0.1, -0.2])
    sensed = sense(truth(robot, 6.0, state=begin(robot, mu)), 0)
    ekf = InvariantEkf(robot, start_deviation=0.01)
    run = observe(ekf, sensed)
    assert run.settled() < 5.0
    assert ekf.status.state == "tracking"


def test_a_first_pose_that_is_an_outlier_is_overcome():
    sensed = short()
    poses = sensed.poses.copy()
    poses[0] = se3.exp(np.array([3.0, 2.0, -4.0, 1.0, -0.5, 1.0]))
    ekf = InvariantEkf(load("lwr_floating"))
    run = observe(ekf, replace(sensed, poses=poses))
    assert ekf.status.reinitialisations >= 1
    assert run.settled() < SETTLED


def test_a_covariance_that_comes_with_a_pose_weighs_it():
    robot = load("tree3")
    s = State(robot, 1)
    moved = se3.exp(np.full(6, 1e-3))

    def after(covariance):
        ekf = InvariantEkf(robot)
        ekf.joints(0.0, s.q, np.zeros(robot.n))
        ekf.pose(0.0, np.eye(4), np.eye(6) * 1e-6)
        ekf.joints(1e-3, s.q, np.zeros(robot.n))
        ekf.pose(1e-3, moved, covariance)
        return se3.log(ekf.base_pose)

    assert abs(after(np.eye(6) * 1e-12) - 1e-3).max() < 1e-5
    assert abs(after(np.eye(6) * 1e2)).max() < 1e-6
    assert np.array_equal(after(None), after(np.zeros((6, 6))))
    half = np.diag((1e-12,) * 3 + (1e2,) * 3)
    assert abs(after(half)[:3] - 1e-3).max() < 1e-4
    assert abs(after(half)[3:]).max() < 2e-4


def test_a_planar_robot_takes_covariances_of_poses_in_space():
    robot = load("rover_arm2", "SE2")
    C = np.diag((1e-4, 2e-4, 9.0, 9.0, 9.0, 3e-4))
    found = []
    for covariance in (C, np.diag((1e-4, 2e-4, 3e-4))):
        ekf = InvariantEkf(robot)
        ekf.joints(0.0, np.zeros(2), np.zeros(2))
        ekf.pose(0.0, np.eye(4), covariance)
        found.append(ekf.covariance)
    assert np.allclose(found[0], found[1])
    assert np.allclose(np.diag(found[0])[:3], (1e-4, 2e-4, 3e-4))


def test_joints_at_a_tenth_of_the_rate_do_nearly_as_well():
    sensed = short(seconds=10.0)
    motion, ekf = sensed.motion, InvariantEkf(load("lwr_floating"))
    errors = []
    for k in range(0, len(motion), 10):
        ekf.joints(float(motion.t[k]), motion.q[k], sensed.qd[k])
        if k % 100 == 0:
            ekf.pose(float(motion.t[k]), sensed.poses[k // 100])
        errors.append(motion.V[k] - ekf.twist)
    angular, _ = pair_of(np.array(errors)[500:])
    assert angular < ANGULAR * pair_of(sensed.floor[5000:])[0]


def test_the_floor_is_in_the_covariance_of_the_twist():
    sensed = short()
    ekf = InvariantEkf(load("lwr_floating"))
    run = observe(ekf, sensed)
    A = load("lwr_floating").connection(sensed.motion.q[-1])
    floor = JOINT_NOISE**2 * np.diag(A @ A.T)
    variance = np.diag(ekf.covariance)[6:]
    assert (variance > floor).all()
    assert (variance < 10.0 * floor + 1e-4).all()
    tail = run.error[3000:] / np.sqrt(variance)
    assert (abs(tail) < 3.0).mean() > INSIDE


def test_the_noise_of_the_poses_is_the_default_of_the_filter():
    ekf = InvariantEkf(load("tree3"))
    deviations = np.sqrt(np.diag(ekf._pose_covariance))
    assert np.allclose(deviations, (POSITION_NOISE,) * 3 + (ATTITUDE_NOISE,) * 3, rtol=0.05)
