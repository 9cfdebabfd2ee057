# SPDX-License-Identifier: Apache-2.0
"""The invariant filter against its readable form, its covariance against its flow."""

import numpy as np
import pytest
from cases import GROUPS, ROBOTS, load
from observing import begin, sense, short, truth

import vm_dynamics as vm
from vm_dynamics.estimation import InvariantEkf
from vm_dynamics.lie import se3

EARTH = (0.0, 0.0, -9.81)
SAME = 1e-9  # relative: a thousand steps in another order of summation
SECOND_ORDER = 2e-3  # of the covariance's steps of 10 ms at 1 rad/s
FIRST_ORDER = 2e-2  # of the same with drag, whose slope is taken at the end of a step


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
