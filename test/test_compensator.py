# SPDX-License-Identifier: Apache-2.0
"""Momentum compensation: its equations, its Lyapunov function, and the arm of a tumbling robot."""

import re

import numpy as np
import pytest
from cases import ALL, GROUPS, ROBOTS, State, load, relative, text
from control_plant import MujocoFlight, smooth

import vm_dynamics as vm
from vm_dynamics.control import MomentumCompensator
from vm_dynamics.estimation import InvariantEkf

ROUNDING = 1e-10  # two ways to sum the same products, which cancel in part
EARTH = (0.0, 0.0, -9.81)

# The conditions of the paper's section V-A, measured in docs/control.md.
TUMBLING = np.deg2rad([10.0, 1.14, 0.0])  # mu_w [rad/s]
POSE_PERIOD, POSITION_NOISE, ANGLE_NOISE = 0.1, 5e-3, np.deg2rad(0.3)
VELOCITY_NOISE = 5e-3  # of qd [rad/s]
HOLD = np.array([0.3, 0.6, 0.2, 1.2, -0.3, 0.8, 0.1])
# A discrete controller's damping must stay well below inertia / period: the wrist is light.
K = np.array([300.0, 300.0, 150.0, 200.0, 30.0, 50.0, 2.0])
D = np.array([60.0, 100.0, 30.0, 60.0, 4.0, 8.0, 0.2])
STEADY = 10.0  # [s], the last of a run
BAR = 0.1  # of plain PD's error, and of tau_hat_1's jitter


def readable(robot, q, qd, mu, law, target, gains):
    """(45), (52) and the feed-forward by the matrices of Theorem 1."""
    r, b = robot.reduced(q, qd, mu), robot.b
    q_d, qd_d, qdd_d = target
    hat = -(0.5 * r.S.T - r.A.T @ robot.base_group.ad_tilde(r.M_b @ mu)) @ mu
    np.testing.assert_allclose(
        hat, -r.D_mu[b:, :b] @ mu, atol=1e-9 * max(1.0, abs(hat).max(initial=0))
    )
    task = -gains[0] * (q - q_d) - gains[1] * (qd - qd_d) + r.Lambda_q @ qdd_d + r.Gamma_q @ qd_d
    if law == 1:
        hat = hat + r.B @ qd
    else:
        task = task + r.B @ qd_d
    return hat, task


def free(robot, law, gains=(3.0, 2.0)):
    """A compensator without limits."""
    out = MomentumCompensator(robot, *gains, law=law, braking_time=None)
    out._settings[3] = np.inf
    return out


@pytest.mark.parametrize("law", [1, 2])
@pytest.mark.parametrize("name", ALL)
def test_the_kernel_equals_the_matrices_of_the_reduced_equations(name, law):
    for seed, base in enumerate(GROUPS):
        robot = load(name, base)
        s = State(robot, seed)
        controller = free(robot, law)
        rng = np.random.default_rng(seed)
        for target in (rng.normal(size=(3, robot.n)), (s.qdd, 0.0 * s.q, 0.0 * s.q)):
            controller.set_target(*target)
            out = controller.step(s.q, s.qd, s.mu)
            hat, task = readable(robot, s.q, s.qd, s.mu, law, target, (3.0, 2.0))
            floor = 1e-3 * (1.0 + abs(task).max(initial=0.0) + robot.total_mass)
            assert relative(out.compensation, hat, floor) < ROUNDING
            assert relative(out.tau, hat + task, floor) < ROUNDING


@pytest.mark.parametrize("base", GROUPS)
def test_with_law_1_and_the_exact_momentum_only_the_task_moves_the_shape(base):
    robot = load("tree3", base)
    s = State(robot, 5)
    r = robot.reduced(s.q, s.qd, s.mu)
    out = free(robot, 1).step(s.q, s.qd, s.mu)
    _, qdd = r.accelerations(s.mu, s.qd, np.zeros(robot.b), out.tau)
    task = out.tau - out.compensation
    assert relative(r.Lambda_q @ qdd + r.Gamma_q @ s.qd, task) < ROUNDING


@pytest.mark.parametrize("base", GROUPS)
def test_compensation_is_minus_the_gradient_of_the_locked_energy_and_what_the_base_gives(base):
    # the first term of (45) by differences: 1/2 d/dq (mu^T M_b mu)
    robot = load("tree2", base)
    s, h = State(robot, 7), 1e-6
    b = robot.b

    def energy(q):
        return 0.5 * s.mu @ robot.mass_matrix(q)[:b, :b] @ s.mu

    gradient = [(energy(s.q + h * e) - energy(s.q - h * e)) / (2 * h) for e in np.eye(robot.n)]
    momentum = robot.mass_matrix(s.q)[:b, :b] @ s.mu
    base_part = robot.connection(s.q).T @ robot.base_group.ad(s.mu).T @ momentum
    out = free(robot, 2).step(s.q, s.qd, s.mu)
    assert relative(out.compensation, base_part - gradient) < 1e-7  # differences of order 2


@pytest.mark.parametrize("law", [1, 2])
@pytest.mark.parametrize("name", ["satellite_arm7", "tree3"])
def test_the_lyapunov_function_of_53_falls_as_58_says(name, law):
    # the paper's observer (37)-(42), (51) beside the controller, at random states
    robot = load(name)
    controller = free(robot, law, (30.0, 20.0))
    rng = np.random.default_rng(3)
    k, n = 4.0, robot.n
    for _ in range(5):
        q, qd, q_d = 0.5 * rng.normal(size=(3, n))
        mu, mu_e, eps = 0.3 * rng.normal(size=(3, 6))
        controller.set_target(q_d)
        mu_o = mu - mu_e
        tau = controller.step(q, qd, mu_o).tau
        r = robot.reduced(q, qd, mu)
        mu_dot, qdd = r.accelerations(mu, qd, np.zeros(6), tau)
        ad, ad_tilde = robot.base_group.ad, robot.base_group.ad_tilde
        M_b, A, S_o = r.M_b, r.A, robot.reduced(q, qd, mu_o).S
        H, h_o = robot.base_group.dexp_inv(-eps), M_b @ mu_o
        F_o = k * H.T @ eps + r.P @ mu_o + ad(A @ qd).T @ h_o + M_b @ ad(A @ qd) @ mu_o
        observer = (
            -(0.5 * r.P - ad_tilde(h_o)) @ mu_o
            - (0.5 * S_o + ad_tilde(h_o) @ A) @ qd
            + F_o
            - M_b @ ad(k * eps) @ mu_o
        )
        mu_e_dot = mu_dot - np.linalg.solve(M_b, observer) - ad(mu) @ mu_e - ad(k * eps) @ mu_o
        eps_dot = H @ (mu_e - k * eps)
        terms = (
            k * eps @ eps_dot,
            mu_e @ M_b @ mu_e_dot + 0.5 * mu_e @ r.P @ mu_e,
            qd @ r.Lambda_q @ qdd + qd @ r.Gamma_q @ qd,
            qd @ (30.0 * (q - q_d)),
        )
        expected = -(k**2) * eps @ eps - qd @ (20.0 * qd)
        assert expected < 0.0
        assert abs(sum(terms) - expected) < 1e-9 * max(map(abs, terms))  # they cancel in part


@pytest.mark.parametrize("law", [1, 2])
def test_energy_of_shape_and_task_never_rises_without_noise(law):
    robot = load("satellite_arm7")
    controller = MomentumCompensator(robot, K, D, law=law, braking_time=None)
    controller.set_target(HOLD)

    def law_(t, s):
        return controller.step(s.q, s.qd, s.V + robot.connection(s.q) @ s.qd).tau

    start = vm.State(np.eye(4), HOLD + 0.05, np.r_[0.1, 0.0, 0.05, TUMBLING], np.full(7, 0.02))
    h = 2.5e-4  # held torques feed energy in proportion to the step
    out = vm.simulate(robot, start, law_, 3.0, step=h, integrator="runge_kutta", friction=False)
    W = [
        0.5 * qd @ robot.reduced(q, qd, np.zeros(6)).Lambda_q @ qd
        + 0.5 * (q - HOLD) @ (K * (q - HOLD))
        for q, qd in zip(out.q[::40], out.qd[::40], strict=True)
    ]
    rise = np.diff(W).max() / W[0]
    print(f"law {law}: W from {W[0]:.3f} to {W[-1]:.2e} J, largest rise {rise:.1e} of W(0)")
    assert rise < 1e-7  # rounding and the held torque
    assert W[-1] < 0.05 * W[0]


@pytest.mark.parametrize("law", [1, 2])
def test_a_trajectory_is_tracked_exactly_without_noise(law):
    robot = load("satellite_arm7")
    controller = MomentumCompensator(robot, K, D, law=law, braking_time=None)
    goal = HOLD + np.array([0.3, -0.4, 0.5, -0.3, 0.6, -0.2, 0.4])

    def law_(t, s):
        x, v, a = smooth(t, 0.0, 5.0)
        controller.set_target(HOLD + x * (goal - HOLD), v * (goal - HOLD), a * (goal - HOLD))
        return controller.step(s.q, s.qd, s.V + robot.connection(s.q) @ s.qd).tau

    start = vm.State(np.eye(4), HOLD, np.r_[0.1, 0.0, 0.05, TUMBLING], np.zeros(7))
    errors = []
    for h in (2e-3, 1e-3):
        out = vm.simulate(
            robot, start, law_, 6.0, step=h, integrator="runge_kutta", friction=False
        )
        wanted = [HOLD + smooth(t, 0.0, 5.0)[0] * (goal - HOLD) for t in out.t]
        errors.append(abs(out.q - wanted).max())
    print(f"law {law}: largest tracking error {errors} rad at steps of 2 and 1 ms")
    # what is left is the torque that is held over a step: half of it at half the step
    assert errors[1] < 1e-4
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("law", [1, 2])
def test_a_known_base_wrench_does_not_disturb_the_joints(law):
    robot = load("satellite_arm7")
    controller = MomentumCompensator(robot, K, D, law=law)
    controller.set_target(HOLD)
    F = np.array([20.0, -10.0, 15.0, 5.0, -8.0, 3.0])
    largest = {}
    for told in (True, False):

        def law_(t, s, told=told):
            mu = s.V + robot.connection(s.q) @ s.qd
            out = controller.step(s.q, s.qd, mu, base_wrench=F if told else None)
            return vm.Command(out.tau, F)

        out = vm.simulate(robot, vm.State.at_rest(robot, HOLD), law_, 2.0, friction=False)
        largest[told] = abs(out.q - HOLD).max()
    assert largest[True] < 1e-5  # held torques at 1 ms
    assert largest[False] > 100.0 * largest[True]


def test_a_drone_that_hovers_carries_the_weight_of_its_arm():
    robot = load("hexa_arm2", "SE3", EARTH)
    q = np.array([0.8, 0.4])
    controller = MomentumCompensator(robot, 5.0, 1.0)
    controller.set_target(q)
    rest = np.zeros(6), np.zeros(2)
    hover, torques = robot.inverse_dynamics(np.eye(4), q, *rest, *rest)
    out = controller.step(q, np.zeros(2), np.zeros(6), g=np.eye(4))
    np.testing.assert_allclose(out.tau, torques, atol=1e-12)
    # the same when the thrust is known to be the hovering one; nothing is needed in free fall
    known = controller.step(q, np.zeros(2), np.zeros(6), g=np.eye(4), base_wrench=hover)
    np.testing.assert_allclose(known.tau, torques, atol=1e-12)
    falling = controller.step(q, np.zeros(2), np.zeros(6), g=np.eye(4), base_wrench=np.zeros(6))
    np.testing.assert_allclose(falling.tau, 0.0, atol=1e-12)


def test_a_submerged_robot_is_compensated_with_its_added_mass():
    dry = load("auv_arm4", "SE3", EARTH)
    robot = vm.submerge(dry, ROBOTS / "auv_arm4.yaml")
    s = State(robot, 2)
    g = np.eye(4)
    target = np.random.default_rng(0).normal(size=(3, robot.n))
    still = np.zeros(6), np.zeros(4)
    carried = robot.inverse_dynamics(g, s.q, *still, *still)[1]
    for law in (1, 2):
        controller = MomentumCompensator(robot, 3.0, 2.0, law=law, braking_time=None)
        controller.limits.table[3] = np.inf
        controller.set_target(*target)
        out = controller.step(s.q, s.qd, s.mu, g=g)
        hat, task = readable(robot, s.q, s.qd, s.mu, law, target, (3.0, 2.0))
        assert relative(out.compensation, hat + carried) < ROUNDING
        assert relative(out.tau, hat + carried + task) < ROUNDING
    assert relative(free(dry, 2).step(s.q, s.qd, s.mu, g=g).compensation, hat + carried) > 0.1


# -- the tumbling satellite -----------------------------------------------------------------------


class Sensors:
    """Joints at 1 kHz and a slow pose, both noisy, into the filter; or the true momentum."""

    def __init__(self, robot, *, noisy, seed=0):
        self.robot, self.rng, self.noisy = robot, np.random.default_rng(seed), noisy
        self.filter = InvariantEkf(robot)
        self.next_pose = 0.0

    def __call__(self, t, s):
        if not self.noisy:
            return s.qd, s.V + self.robot.connection(s.q) @ s.qd
        qd = s.qd + VELOCITY_NOISE * self.rng.normal(size=self.robot.n)
        self.filter.joints(t, s.q, qd)
        if t >= self.next_pose - 1e-9:
            self.next_pose += POSE_PERIOD
            noise = np.repeat((POSITION_NOISE, ANGLE_NOISE), 3) * self.rng.normal(size=6)
            self.filter.pose(t, s.g @ vm.lie.SE3.exp(noise))
        return qd, self.filter.locked_velocity


def tumble(robot, law=2, *, noisy=True, compensated=True, duration=30.0, plant=None):
    """RMS of the joint error [deg] at the end, and of the compensation's change in a step."""
    controller = MomentumCompensator(robot, K, D, law=law)
    controller.set_target(HOLD)
    sensors, hats = Sensors(robot, noisy=noisy), []

    def torques(t, s):
        qd, mu = sensors(t, s)
        out = controller.step(s.q, qd, mu if compensated else np.zeros(6))
        hats.append(out.compensation)
        return vm.Command(out.tau)

    start = vm.State(np.eye(4), HOLD, np.r_[0.0, 0.0, 0.0, TUMBLING], np.zeros(7))
    if plant is None:
        q = vm.simulate(robot, start, torques, duration, friction=False).q
    else:
        q = np.array([s.q for s in plant.run(start, torques, duration)])
    last = round(STEADY / 1e-3)
    error = np.rad2deg(q[-last:] - HOLD)
    change = np.diff(hats[-last:], axis=0)
    return np.sqrt((error**2).sum(axis=1).mean()), np.sqrt((change**2).sum(axis=1).mean())


def test_estimated_momentum_leaves_a_tenth_of_the_steady_error_of_plain_pd():
    robot = load("satellite_arm7")
    plain, _ = tumble(robot, compensated=False)
    exact, _ = tumble(robot, noisy=False)
    error, jitter = tumble(robot)
    error_1, jitter_1 = tumble(robot, law=1)
    print(
        f"steady joint error: PD {plain:.4f} deg, tau_hat_2 {error:.4f}, tau_hat_1 {error_1:.4f}, "
        f"with the true momentum {exact:.4f}; change in a ms: tau_hat_2 {jitter:.6f} N m, "
        f"tau_hat_1 {jitter_1:.6f}"
    )
    assert error < BAR * plain and error_1 < BAR * plain
    assert jitter < BAR * jitter_1
    assert exact < error


@pytest.mark.slow
def test_the_same_when_mujoco_moves_the_robot():
    robot = load("satellite_arm7")
    plant = MujocoFlight(robot, text("satellite_arm7"))
    plain, _ = tumble(robot, compensated=False, plant=plant)
    error, _ = tumble(robot, plant=plant)
    print(f"MuJoCo, steady joint error: PD {plain:.4f} deg, tau_hat_2 {error:.4f} deg")
    assert error < BAR * plain


# -- what the controller does not know ------------------------------------------------------------

# The gains of the demonstration: 20 N m/rad, more where that would be slow, less where it shakes.
BENT = np.array([1.3, -0.7, 1.2, 1.3, -0.5, 1.0, -1.0])
SOFT_K = np.array([48.5, 67.6, 31.9, 38.9, 20.0, 20.0, 6.62])
SOFT_D = np.array([64.6, 90.2, 42.5, 51.9, 5.07, 5.89, 0.53])
INTEGRAL_TIME = 2.0  # [s]
STEADY_WITH_FRICTION = 0.3  # [deg], the bar with 2 N m of dry friction


def rubbing(friction):
    """URDF of the satellite with so much dry friction in all joints [N m]; None for its own."""
    own = text("satellite_arm7")
    return own if friction is None else re.sub(r'friction="[^"]*"', f'friction="{friction}"', own)


def hold(friction=None, *, plain=False, payload=0.0, seed=0, duration=13.0):
    """RMS of each joint's error [deg] in the last five seconds of holding the arm while tumbling.

    The joints begin where plain PD may leave them: anywhere within what friction holds.
    """
    urdf, rng = rubbing(friction), np.random.default_rng(seed)
    robot = vm.load(urdf, base="SE3")
    options = {} if plain else {"integral": SOFT_K / INTEGRAL_TIME, "friction": True}
    controller = MomentumCompensator(robot, SOFT_K, SOFT_D, law=0 if plain else 2, **options)
    controller.set_target(BENT)
    band = np.minimum(robot.friction / SOFT_K, 0.1) * rng.uniform(-1.0, 1.0, 7)
    start = vm.State(np.eye(4), BENT + band, np.r_[0.0, 0.0, 0.0, TUMBLING], np.zeros(7))

    def torques(t, s):
        qd = s.qd + VELOCITY_NOISE * rng.normal(size=7)
        mu = s.V + robot.connection(s.q) @ s.qd
        return vm.Command(controller.step(s.q, qd, mu, dt=PERIOD).tau)

    plant = MujocoFlight(robot, urdf, PERIOD, friction=True, payload=payload)
    q = np.array([s.q for s in plant.run(start, torques, duration)])
    error = np.rad2deg(q[-round(5.0 / PERIOD) :] - BENT)
    return np.sqrt((error**2).mean(axis=0))


PERIOD = 2e-3  # [s], of controller and plant


def test_with_the_friction_of_the_urdf_a_tenth_of_the_error_of_plain_pd_is_left():
    plain, error = hold(plain=True).max(), hold().max()
    print(f"URDF's friction: PD {plain:.3f} deg, compensated {error:.3f} deg")
    assert error < BAR * plain


def test_two_newton_metres_of_dry_friction_leave_less_than_the_bar():
    assert hold(2.0).max() < STEADY_WITH_FRICTION


@pytest.mark.slow
def test_the_same_from_many_starts_and_with_a_payload():
    cases = {None: "URDF's", 0.5: "0.5 N m", 2.0: "2 N m"}
    for friction, name in cases.items():
        plain = hold(friction, plain=True).max()
        errors = [hold(friction, seed=seed).max() for seed in range(8)]
        print(f"{name}: PD {plain:.3f}, median {np.median(errors):.3f}, worst {max(errors):.3f}")
        assert max(errors) < (BAR * plain if friction is None else STEADY_WITH_FRICTION)
    plain = hold(plain=True, payload=10.0).max()
    errors = [hold(payload=10.0, seed=seed).max() for seed in range(4)]
    print(f"10 kg: PD {plain:.3f}, median {np.median(errors):.3f}, worst {max(errors):.3f}")
    assert max(errors) < BAR * plain


def test_friction_that_is_not_there_does_not_shake_the_joints():
    robot = load("satellite_arm7")
    controller = MomentumCompensator(robot, SOFT_K, SOFT_D, friction=(2.0, 0.5))
    controller.set_target(BENT)
    rng = np.random.default_rng(0)

    def torques(t, s):
        qd = s.qd + VELOCITY_NOISE * rng.normal(size=7)
        return vm.Command(controller.step(s.q, qd, np.zeros(6)).tau)

    plant = MujocoFlight(robot, text("satellite_arm7"), PERIOD)
    states = plant.run(vm.State.at_rest(robot, BENT + 0.02), torques, 8.0)
    late = np.array([s.q for s in states[-1000:]])
    assert np.rad2deg(abs(late - BENT).max()) < 0.1  # the noise of the velocities


def integrating(robot, gain=10.0, **options):
    controller = MomentumCompensator(robot, K, D, integral=gain, **options)
    controller.set_target(HOLD)
    return controller


def test_integral_action_adds_up_errors_and_is_forgotten_by_a_reset():
    robot = load("satellite_arm7")
    controller, plain = integrating(robot), MomentumCompensator(robot, K, D)
    plain.set_target(HOLD)
    state = HOLD - 0.01, np.zeros(7), np.zeros(6)
    for _ in range(10):
        controller.step(*state, dt=0.01)
    gathered = controller.step(*state, dt=0.0).tau - plain.step(*state).tau
    np.testing.assert_allclose(gathered, 10.0 * 0.01 * 0.1, rtol=1e-9)
    controller.reset()
    np.testing.assert_array_equal(controller.step(*state, dt=0.0).tau, plain.step(*state).tau)


def test_integral_action_goes_on_where_another_controller_was():
    robot = load("satellite_arm7")
    former, later = integrating(robot), integrating(robot, 5.0, integral_limit=0.05)
    state = HOLD - 0.01, np.zeros(7), np.zeros(6)
    for _ in range(10):
        former.step(*state, dt=0.1)
    assert later.take_over(former)
    np.testing.assert_allclose(later._integral.output, 0.05)  # of 0.1 N m, as far as it may
    without = MomentumCompensator(robot, K, D)
    assert without.take_over(former) and not without._integral.output.any()


def test_a_pause_counts_as_a_tenth_of_a_second():
    controller = integrating(load("satellite_arm7"))
    controller.step(HOLD - 0.01, np.zeros(7), np.zeros(6), dt=1e6)
    np.testing.assert_allclose(controller._integral.output, 10.0 * 0.01 * 0.1)


def test_integral_action_is_bounded_by_half_the_effort_limits():
    robot = load("satellite_arm7")
    controller = integrating(robot, 1e3, effort_scale=0.5)
    for _ in range(1000):
        out = controller.step(HOLD - 1e-3, np.zeros(7), np.zeros(6), dt=0.1)
    np.testing.assert_allclose(controller._integral.output, 0.25 * robot.effort_limits)
    assert (abs(out.tau) <= 0.5 * robot.effort_limits).all()


def test_motors_at_their_limits_stop_integral_action_in_their_direction_only():
    robot = load("satellite_arm7")
    controller = integrating(robot, braking_time=None)
    far = HOLD - 1.5
    out = controller.step(far, np.zeros(7), np.zeros(6), dt=0.1)
    cut = abs(out.tau) == robot.effort_limits
    assert cut.any() and not cut.all()
    gathered = controller._integral.output.copy()
    assert not gathered[cut].any() and (gathered[~cut] > 0.0).all()


def test_a_joint_that_a_load_holds_goes_on_integrating_though_its_brakes_act():
    robot = load("satellite_arm7")
    controller = integrating(robot)
    out = controller.step(HOLD - 0.2, np.zeros(7), np.zeros(6), dt=0.01)
    assert out.saturated.any()  # by the window of a joint at rest
    assert (controller._integral.output > 0.0).all()
    controller.reset()
    fast = 0.9 * robot.velocity_limits
    out = controller.step(HOLD - 0.2, fast, np.zeros(6), dt=0.01)
    assert not controller._integral.output[out.saturated].any()


def test_a_target_beyond_a_limit_does_not_wind_up_at_the_limit():
    robot = load("satellite_arm7")
    controller = integrating(robot)
    controller.set_target(robot.upper_limits + 1.0)
    for _ in range(100):
        controller.step(robot.upper_limits, np.zeros(7), np.zeros(6), dt=0.1)
    assert not controller._integral.output.any()


@pytest.mark.parametrize("name", ["satellite_arm7", "auv_arm4"])
def test_friction_is_fed_forward_at_the_velocity_that_the_pd_law_asks_for(name):
    robot = load(name)
    if name == "auv_arm4":
        robot = vm.submerge(robot, ROBOTS / "auv_arm4.yaml")
    n, g = robot.n, np.eye(4)
    dry, viscous = np.linspace(0.1, 2.0, n), np.linspace(0.2, 0.5, n)
    options = {"damping": 8.0, "braking_time": None}
    controllers = [
        MomentumCompensator(robot, 5.0, **options),
        MomentumCompensator(robot, 5.0, friction=(dry, viscous), **options),
    ]
    q, qd = np.full(n, 0.2), np.linspace(-0.02, 0.02, n)
    q_d, qd_d = q + np.linspace(-0.01, 0.01, n), np.linspace(0.01, -0.02, n)
    for controller in controllers:
        controller.set_target(q_d, qd_d)
    plain, fed = (c.step(q, qd, np.zeros(robot.b), g=g).tau for c in controllers)
    # at most four times as stiff at the target
    pull = np.minimum(5.0 / 8.0 / 0.01, 4.0 * 5.0 / dry)
    expected = viscous * qd_d + dry * np.tanh(qd_d / 0.01 + pull * (q_d - q))
    np.testing.assert_allclose(fed - plain, expected, atol=1e-12)


def test_a_submerged_robot_integrates_by_the_same_law():
    robot = vm.submerge(load("auv_arm4", "SE3", EARTH), ROBOTS / "auv_arm4.yaml")
    controller = MomentumCompensator(robot, 5.0, 2.0, integral=3.0)
    q = np.full(4, 0.2)
    controller.set_target(q + 0.01)
    for _ in range(5):
        controller.step(q, np.zeros(4), np.zeros(6), g=np.eye(4), dt=0.02)
    np.testing.assert_allclose(controller._integral.output, 3.0 * 0.01 * 0.1, rtol=1e-9)


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("q", np.full(7, np.nan), vm.NonFiniteError),
        ("qd", np.full(7, np.inf), vm.NonFiniteError),
        ("mu", np.full(6, np.nan), vm.NonFiniteError),
        ("q", np.zeros(6), vm.DimensionError),
        ("mu", np.zeros(7), vm.DimensionError),
        ("qd", "fast", vm.DimensionError),
        ("mu", np.full(6, 1e200), vm.NonFiniteError),  # finite, but its efforts are not
    ],
)
def test_a_step_with_bad_input_raises_and_names_it(argument, value, error):
    robot = load("satellite_arm7")
    controller = MomentumCompensator(robot, K, D)
    state = {"q": np.zeros(7), "qd": np.zeros(7), "mu": np.zeros(6)} | {argument: value}
    with pytest.raises(error, match=argument):
        controller.step(**state)


def test_a_robot_with_weight_needs_a_pose():
    controller = MomentumCompensator(load("hexa_arm2", "SE3", EARTH), 1.0, 1.0)
    with pytest.raises(vm.ParameterError, match="g: got None"):
        controller.step(np.zeros(2), np.zeros(2), np.zeros(6))


def test_integral_action_and_friction_refuse_what_cannot_be():
    robot = load("satellite_arm7")
    with pytest.raises(vm.ParameterError, match="dt: got None"):
        integrating(robot).step(HOLD, np.zeros(7), np.zeros(6))
    with pytest.raises(vm.ParameterError, match="dt"):
        integrating(robot).step(HOLD, np.zeros(7), np.zeros(6), dt=-1.0)
    with pytest.raises(vm.ParameterError, match="integral"):
        integrating(robot, -1.0)
    with pytest.raises(vm.ParameterError, match="friction: got 2.0"):
        MomentumCompensator(robot, K, D, friction=2.0)
    with pytest.raises(vm.ParameterError, match="friction"):
        MomentumCompensator(robot, K, D, friction=(-1.0, 0.0))
    with pytest.raises(vm.ParameterError, match="effort_scale: got 2"):
        MomentumCompensator(robot, K, D, effort_scale=2.0)


def test_construction_refuses_what_cannot_be():
    robot = load("satellite_arm7")
    with pytest.raises(vm.ParameterError, match="law: got 3"):
        MomentumCompensator(robot, K, D, law=3)
    with pytest.raises(vm.ParameterError, match="damping"):
        MomentumCompensator(robot, K, -D)
    with pytest.raises(vm.UnknownJointError, match="elbow"):
        MomentumCompensator(robot, {"elbow": 1.0}, D)
    with pytest.raises(vm.DimensionError, match="stiffness"):
        MomentumCompensator(robot, np.ones(6), D)
    with pytest.raises(vm.DimensionError, match="qd"):
        MomentumCompensator(robot, K, D).set_target(np.zeros(7), np.zeros(6))


def test_lists_and_other_types_of_numbers_are_welcome():
    robot = load("satellite_arm7")
    controller = MomentumCompensator(robot, K, D)
    s = State(robot, 1)
    out = controller.step(s.q, s.qd, s.mu)
    same = controller.step(s.q.tolist(), s.qd.astype(np.longdouble), tuple(s.mu))
    np.testing.assert_array_equal(out.tau, same.tau)
