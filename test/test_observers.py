# SPDX-License-Identifier: Apache-2.0
"""What all observers share, the printed observer of the paper, and the simple ones."""

from functools import cache

import numpy as np
import pytest
from cases import GROUPS, State, derivative, load
from observing import (
    ATTITUDE_NOISE,
    DEG,
    MU,
    POSITION_NOISE,
    begin,
    observe,
    pair_of,
    sense,
    standard,
    truth,
)

import vm_dynamics as vm
from vm_dynamics.estimation import (
    OBSERVERS,
    AlphaBetaObserver,
    DifferentiatedPose,
    InvariantEkf,
    LieGroupObserver,
    Observer,
)
from vm_dynamics.lie import se3

IDENTITY = 1e-6  # the bar for equations of the paper; differences of order eight have 1e-10
ROUNDING = 1e-9  # another order of summation over a thousand steps
NAMES = tuple(OBSERVERS)
ROBOT = "lwr_floating"
KINDS = ("joints", "pose", "base_wrench", "gyro", "velocity")


def made(name, robot=None, **options):
    return OBSERVERS[name](load(ROBOT) if robot is None else robot, **options)


@pytest.fixture(scope="module")
def short():
    """Two seconds of the standard conditions, poses at 10 Hz."""
    return sense(truth(load(ROBOT), 2.0), 1)


def events(sensed, start=0.0):
    """Calls of an observer as (method, stamp, arguments), in the order of their stamps."""
    motion = sensed.motion
    poses = dict(zip(sensed.samples.tolist(), sensed.poses, strict=True))
    for k, t in enumerate(motion.t):
        yield "joints", start + float(t), motion.q[k], sensed.qd[k]
        if k in poses:
            yield "pose", start + float(t), poses[k]


def feed(observer, calls):
    for method, *arguments in calls:
        getattr(observer, method)(*arguments)
    return observer


def estimates(observer):
    return np.concatenate(
        (observer.base_pose.ravel(), observer.twist, observer.locked_velocity, observer.momentum)
    )


# -- the equations of the paper -------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e-9, 1e-3, 0.5, 2.0, 3.0])
def test_the_jacobian_of_the_pose_error_keeps_the_error_and_is_no_symmetric_matrix(size):
    eps = State(load(ROBOT), 3).V
    eps *= size / np.linalg.norm(eps[3:])
    H = se3.dexp_inv(-eps)
    assert abs(H @ eps - eps).max() < IDENTITY * np.linalg.norm(eps)
    if size > 0.1:
        assert abs(H.T @ eps - eps).max() > 1e-3


@pytest.mark.parametrize("size", [1e-3, 0.5, 2.0, 3.0])
def test_the_error_kinematics_are_those_of_eq_39(size):
    eps, twist = State(load(ROBOT), 4).V, State(load(ROBOT), 5).V
    eps *= size / np.linalg.norm(eps[3:])

    def error(t):
        return se3.log(se3.exp(eps) @ se3.exp(float(t) * twist))

    rate = derivative(error, 0.0, 1.0, h=1e-3)
    assert abs(se3.dexp_inv(-eps) @ twist - rate).max() < IDENTITY


@pytest.mark.parametrize("i", [1, 2])
@pytest.mark.parametrize("name", ["satellite_arm7", "lwr_floating", "tree3"])
def test_the_lyapunov_function_falls_as_eq_58_says(name, i):
    robot = load(name)
    s, t = State(robot, 1), State(robot, 2)
    k, eps, mu, mu_o = 1.7, 0.5 * t.V, s.mu, t.mu
    mu_e, dPhi, D = mu - mu_o, s.tau, np.diag(1.0 + s.qdd**2)
    r, o = robot.reduced(s.q, s.qd, mu), robot.reduced(s.q, s.qd, mu_o)
    M, A, P, ad, xi = r.M_b, r.A, r.P, se3.ad, r.A @ s.qd
    H = se3.dexp_inv(-eps)
    F_o = k * H.T @ eps + P @ mu_o + ad(xi).T @ M @ mu_o + M @ ad(xi) @ mu_o  # (51)
    tilde = se3.ad_tilde(M @ mu_o)
    right = -(P / 2 - tilde) @ mu_o - (o.S / 2 + tilde @ A) @ s.qd + F_o
    mu_hat_dot = np.linalg.solve(M, right) - ad(k * eps) @ mu_o  # (42), Ad_eta^-1 of it
    tau = -dPhi - D @ s.qd - (o.S / 2).T @ mu_o + A.T @ tilde @ mu_o  # (45), (52)
    if i == 1:
        tau = tau + o.B @ s.qd
    mu_dot, qdd = r.accelerations(mu, s.qd, np.zeros(6), tau)
    eps_dot = H @ (mu_e - k * eps)  # (39)
    mu_e_dot = mu_dot - mu_hat_dot - ad(mu) @ mu_e - ad(k * eps) @ mu_o  # (41)
    W_dot = k * eps @ eps_dot + mu_e @ M @ mu_e_dot + mu_e @ P @ mu_e / 2
    W_dot += s.qd @ r.Lambda_q @ qdd + s.qd @ r.Gamma_q @ s.qd + dPhi @ s.qd
    expected = -(k**2) * eps @ eps - s.qd @ D @ s.qd
    assert abs(W_dot - expected) < IDENTITY * abs(expected)


def printed_rates(robot, g_hat, g, mu_hat, q, qd, *, gains, k):
    """(37), (42) and (51) as they stand, in group coordinates: V^ and the rate of mu^."""
    group = robot.base_group
    eta = se3.inverse(g_hat) @ g
    eps = group.log(eta)
    Ad, ad = group.adjoint(eta), group.ad
    mu_o = np.linalg.solve(Ad, mu_hat)
    r = robot.reduced(q, qd, mu_o)
    xi, tilde, H = r.A @ qd, group.ad_tilde(r.M_b @ mu_o), group.dexp_inv(-eps)
    if gains == "printed":
        K = k
        F_o = k * H.T @ eps + r.P @ mu_o + ad(xi).T @ r.M_b @ mu_o + r.M_b @ ad(xi) @ mu_o
    else:
        K, k2 = k
        F_o = H.T @ (k2 * r.M_b) @ eps
    V_hat = mu_hat - Ad @ xi + Ad @ (K * eps)
    right = -(r.P / 2 - tilde) @ mu_o - (r.S / 2 + tilde @ r.A) @ qd + F_o
    right -= r.M_b @ ad(K * eps) @ mu_o
    return V_hat, Ad @ np.linalg.solve(r.M_b, right)


@pytest.mark.parametrize("gains", ["two", "printed"])
@pytest.mark.parametrize("base", GROUPS)
def test_the_compiled_step_is_that_of_eqs_37_42_and_51(base, gains):
    robot = load("tree3", base)
    s = State(robot, 6)
    dt, group = 1e-5, robot.base_group
    k = 2.0 if gains == "printed" else (2.0, 3.0)
    options = dict(k=k) if gains == "printed" else dict(k1=k[0], k2=k[1])
    observer = LieGroupObserver(robot, gains=gains, start_velocity=s.mu, **options)
    g_hat = group.exp(0.3 * s.V)
    g = g_hat @ group.exp(0.4 * s.F)
    observer.joints(0.0, s.q, s.qd)
    observer.pose(0.0, g_hat)
    observer.pose(1e-12, g)  # an instant later, so that there is an error
    observer.joints(dt, s.q, s.qd)
    V_hat, mu_dot = printed_rates(robot, g_hat, g, s.mu, s.q, s.qd, gains=gains, k=k)
    # the difference quotient of one step, whose own error is of the order of dt
    eta = se3.inverse(g_hat) @ g
    mu_hat = group.adjoint(eta) @ observer.locked_velocity
    moved = group.log(se3.inverse(g_hat) @ observer.base_pose)
    scale = max(1.0, abs(mu_dot).max(), abs(V_hat).max())
    assert abs(moved / dt - V_hat).max() < 1e-3 * scale
    assert abs((mu_hat - s.mu) / dt - mu_dot).max() < 1e-3 * scale


# -- another payload ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_one_that_takes_over_goes_on_as_the_other_did_and_never_begins_anew(short, name):
    calls = list(events(short))
    half = len(calls) // 2
    former = feed(made(name), calls[:half])
    late = next(call for call in reversed(calls[: half - 60]) if call[0] == "pose")
    later = made(name)
    assert later.take_over(former)
    np.testing.assert_allclose(later.twist, former.twist, atol=1e-12)
    feed(later, [("pose", late[1] - 1e-3, *late[2:])])
    assert later.status.late == 1  # what was measured before has been used
    for observer in (former, later):
        feed(observer, calls[half : half + 800])
    assert later.status.reinitialisations == 0
    off = later.twist - former.twist
    assert np.linalg.norm(off[3:]) < 2.0 * DEG and np.linalg.norm(off[:3]) < 0.05


# -- what the printed observer does ---------------------------------------------------------------


def angular_error(observer, motion, pose_every=1):
    """Norm of the angular error of mu at every sample, with exact measurements."""
    sensed = sense(motion, 0, every=pose_every, position=1e-12, attitude=1e-12, joint=1e-12)
    return np.linalg.norm(observe(observer, sensed).locked_error[:, 3:], axis=1)


@pytest.fixture(scope="module")
def still():
    """A heavy robot that tumbles with its arm at rest."""
    robot = load("satellite_arm7")
    q = begin(robot).q
    return vm.simulate(
        robot,
        vm.State(np.eye(4), q, MU, np.zeros(7)),
        lambda t, s: vm.Command(active=dict.fromkeys(robot.joint_names, 0.0)),
        20.0,
        integrator="runge_kutta",
        friction=False,
        progress=False,
    )


@pytest.mark.slow
def test_the_printed_observer_is_slow_for_every_gain_and_two_gains_mend_it(still):
    robot = still.robot
    slow = {
        k: angular_error(LieGroupObserver(robot, gains="printed", k=k), still)[-1]
        for k in (1.0, 10.0, 100.0)
    }
    two = angular_error(LieGroupObserver(robot, gains="two", k1=2.0, k2=1.0), still)[-1]
    print(f"\nprinted, after 20 s: {slow}; two gains: {two:.1e} rad/s, of 0.176 rad/s")
    # the slow pole is that of k / (k lambda(M_b)), without k: more than half is left
    assert min(slow.values()) > 0.5 * np.linalg.norm(MU[3:])
    assert max(slow.values()) < 1.1 * min(slow.values())
    assert two < 1e-6


@pytest.mark.slow
def test_the_joint_terms_of_eq_51_spoil_a_perfect_estimate_while_the_arm_moves():
    motion = truth(load("satellite_arm7"), 10.0)
    error = {
        gains: angular_error(
            LieGroupObserver(motion.robot, gains=gains, k=10.0, start_velocity=MU), motion
        ).max()
        for gains in ("printed", "two")
    }
    print(f"\nlargest error after a perfect start: {error}")
    assert error["printed"] > 3e-3
    # a midpoint step of 1 ms of a motion of order 1 rad/s^2
    assert error["two"] < 1e-5


@pytest.mark.slow
def test_a_held_error_diverges_when_the_gain_times_the_period_exceeds_two(still):
    def late_error(k1):
        observer = LieGroupObserver(still.robot, gains="two", k1=k1, k2=1.0)
        return angular_error(observer, still, pose_every=100)[-1000:].max()

    assert late_error(5.0) < 1e-2
    assert late_error(25.0) > 1.0


# -- the simple observers -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["satellite_arm7", "lwr_floating"])
def test_constant_gains_come_close_to_the_floor_and_differences_do_not(name):
    motion = standard(name)
    robot, sensed = motion.robot, sense(motion, 0)
    floor = pair_of(sensed.floor[motion.t >= 20.0])
    two = observe(LieGroupObserver(robot), sensed).rms(20.0)
    alpha = observe(AlphaBetaObserver(robot, bandwidth=0.5), sensed).rms(20.0)
    plain = observe(DifferentiatedPose(robot), sensed).rms(20.0)
    print(f"\n{name}: floor {floor}, alpha-beta {alpha}, held, two gains {two}, plain {plain}")
    # the study's figures: 1.04 and 1.3 of the floor
    assert alpha[0] < 1.1 * floor[0]
    assert alpha[1] < 2.0 * floor[1]
    assert alpha[0] < two[0] < 0.5 * plain[0]
    assert alpha[1] < two[1] < 0.5 * plain[1]


def test_the_bandwidth_follows_from_the_noise_and_has_a_least_value():
    robot = load(ROBOT)
    assert AlphaBetaObserver(robot, disturbance=1e-6).bandwidth == 0.4
    w = AlphaBetaObserver(robot, disturbance=1e-2, period=0.25, pose_deviation=1e-2).bandwidth
    assert w == pytest.approx(np.sqrt(1e-2 / (1e-2 * 0.5)))


def test_a_difference_of_two_poses_is_the_velocity_between_them():
    robot = load(ROBOT)
    V = np.array([0.1, 0.2, -0.1, 0.3, -0.2, 0.1])
    observer = DifferentiatedPose(robot, cutoff=1.0)
    q, qd = np.full(7, 0.3), np.full(7, 0.1)
    for k in range(3):
        observer.joints(0.1 * k, q, qd)
        observer.pose(0.1 * k, se3.exp(0.1 * k * V))
    assert np.allclose(observer.twist, V, atol=ROUNDING)
    assert np.allclose(observer.locked_velocity, V + robot.connection(q) @ qd, atol=ROUNDING)
    assert np.allclose(observer.momentum, robot.momentum(q, V, qd), atol=1e-6)
    observer.pose(0.3, se3.exp(0.2 * V))  # stands still: the low pass lets a part through
    observer.joints(0.3, q, qd)
    share = 1.0 - np.exp(-2.0 * np.pi * 0.1)
    assert np.allclose(observer.twist, (1.0 - share) * V, atol=ROUNDING)


# -- one interface --------------------------------------------------------------------------------


def test_every_observer_has_its_name_and_the_filter_is_one_of_them():
    assert set(NAMES) == {"lie_group", "alpha_beta", "invariant_ekf", "differentiated_pose"}
    assert all(issubclass(cls, Observer) and cls.__doc__ for cls in OBSERVERS.values())
    with pytest.raises(TypeError):
        Observer(load(ROBOT))


@pytest.mark.parametrize("name", NAMES)
def test_an_observer_waits_tracks_coasts_and_tracks_again(name, short):
    observer = made(name, pose_timeout=0.5)
    calls = list(events(short))
    assert observer.status.state == "waiting"
    observer.joints(*calls[0][1:])
    assert observer.status.state == "waiting"
    assert np.array_equal(observer.base_pose, np.eye(4))
    assert not observer.twist.any()
    assert observer.covariance is None
    feed(observer, (c for c in calls if c[1] <= 0.5))
    assert observer.status.state == "tracking"
    feed(observer, (c for c in calls if 0.5 < c[1] <= 1.5 and c[0] == "joints"))
    assert observer.status.state == "coasting"
    feed(observer, (c for c in calls if c[1] > 1.5))
    status = observer.status
    assert (status.state, status.stamp) == ("tracking", 2.0)
    assert status.used + status.rejected == sum(c[0] == "pose" for c in calls) - 10
    observer.reset()
    assert observer.status.state == "waiting"
    assert not observer.momentum.any()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "lie_group" else name
        for name in NAMES
    ],
)
def test_the_estimate_does_not_depend_on_the_order_of_arrival(name, short):
    calls = [c for c in events(short) if c[1] <= 0.4]
    rng = np.random.default_rng(0)
    options = dict(history=2048, future_tolerance=10.0, joints_timeout=10.0)
    expected = estimates(feed(made(name, **options), calls))
    for _ in range(3):
        shuffled = [calls[i] for i in rng.permutation(len(calls))]
        found = estimates(feed(made(name, **options), shuffled))
        # the same sums, each in the same order
        assert abs(found - expected).max() < 1e-12 * abs(expected).max()


@pytest.mark.parametrize("name", NAMES)
def test_the_origin_of_time_does_not_matter(name, short):
    calls = [c for c in events(short) if c[1] <= 1.0]
    shifted = [(c[0], c[1] + 1.7e9, *c[2:]) for c in calls]
    # seconds since 1970 have a resolution of 0.2 us in a float
    expected, found = estimates(feed(made(name), calls)), estimates(feed(made(name), shifted))
    assert abs(found - expected).max() < 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_late_repeated_future_and_malformed_inputs_are_counted_and_change_nothing(name, short):
    observer = feed(made(name, history=64), (c for c in events(short) if c[1] <= 1.0))
    before, n = estimates(observer), observer.robot.n
    g, q, qd = short.poses[0], short.motion.q[0], short.qd[0]
    observer.pose(0.5, g)
    observer.pose(1.0, g)
    observer.joints(1.0, q, qd)
    observer.pose(1.2, g)
    observer.base_wrench(1.2, np.zeros(6))
    observer.joints(5.0, q, qd)
    observer.joints(0.1, q, qd)
    nan, inf = np.full(n, np.nan), np.inf
    observer.joints(1.001, nan, qd)
    observer.joints(1.001, q, nan)
    observer.joints(np.nan, q, qd)
    observer.joints(inf, q, qd)
    observer.base_wrench(1.0, np.full(6, inf))
    for bad in (np.full((4, 4), np.nan), np.zeros((4, 4)), 2.0 * g, np.diag((1, 1, -1, 1))):
        observer.pose(0.995, bad)
    for bad in (np.full((6, 6), np.nan), -np.eye(6), np.triu(np.ones((6, 6)))):
        observer.pose(0.995, g, bad)
    status = observer.status
    assert (status.late, status.repeated, status.future, status.malformed) == (2, 2, 3, 12)
    assert np.array_equal(estimates(observer), before)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_shapes_raise_and_lists_are_as_good_as_arrays(name, short):
    observer, n = made(name), 7
    good = list(events(short))[:200]
    for bad in (np.zeros(n - 1), np.zeros((n, 1)), "q", None, [[1.0]]):
        with pytest.raises(vm.VmDynamicsError):
            observer.joints(0.0, bad, np.zeros(n))
        with pytest.raises(vm.VmDynamicsError):
            observer.joints(0.0, np.zeros(n), bad)
        with pytest.raises(vm.VmDynamicsError):
            observer.pose(0.0, bad)
        with pytest.raises(vm.VmDynamicsError):
            observer.base_wrench(0.0, np.zeros(5))
        with pytest.raises(vm.VmDynamicsError):
            observer.pose(0.0, np.eye(4), np.eye(5))
    with pytest.raises(vm.ParameterError):
        observer.pose("now", np.eye(4))
    as_lists = [(c[0], c[1], *(x.tolist() for x in c[2:])) for c in good]
    expected = estimates(feed(made(name), good))
    assert np.array_equal(estimates(feed(observer, as_lists)), expected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [
        dict(history=3),
        dict(history="many"),
        dict(future_tolerance=-1.0),
        dict(joints_timeout=0.0),
        dict(pose_timeout=np.nan),
        dict(pose_deviation=0.0),
        dict(pose_deviation=(1.0, 1.0, 1.0)),
        dict(start_velocity=[1.0]),
        dict(no_such=1.0),
    ],
    ids=str,
)
def test_parameters_that_cannot_be_are_refused(name, options):
    with pytest.raises((vm.VmDynamicsError, TypeError)):
        made(name, **options)


def test_parameters_of_single_observers_are_checked_too():
    robot = load(ROBOT)
    for cls, options in (
        (LieGroupObserver, dict(gains="three")),
        (LieGroupObserver, dict(k1=-1.0)),
        (AlphaBetaObserver, dict(bandwidth=0.0)),
        (DifferentiatedPose, dict(cutoff=-1.0)),
        (InvariantEkf, dict(gate=1.0)),
        (InvariantEkf, dict(joint_velocity_deviation=[1.0, 2.0])),
        (InvariantEkf, dict(external_wrench="moon")),
        (InvariantEkf, dict(gyro_link="nose")),
        (InvariantEkf, dict(disturbance=None)),
    ):
        with pytest.raises(vm.VmDynamicsError):
            cls(robot, **options)


@pytest.mark.parametrize("name", NAMES)
def test_a_long_gap_of_the_joints_ends_the_estimate_and_the_next_pose_begins_it_anew(name, short):
    observer = feed(made(name, joints_timeout=0.2), (c for c in events(short) if c[1] <= 0.5))
    late = [c for c in events(short) if c[1] >= 1.0]
    feed(observer, late[:9])  # samples from beyond the gap are strange at first
    assert observer.status.state == "tracking"
    feed(observer, late[9:60])
    assert observer.status.state == "waiting"
    feed(observer, (c for c in late[60:] if c[1] < 1.5))
    status = observer.status
    assert (status.state, status.reinitialisations) == ("tracking", 1)


@pytest.mark.parametrize("name", NAMES)
def test_when_the_clock_jumps_back_the_observer_begins_anew(name, short):
    first = [c for c in events(short, start=100.0) if c[1] <= 100.5]
    observer = feed(made(name, history=128), first)
    feed(observer, (c for c in events(short) if c[1] <= 0.5))
    status = observer.status
    assert (status.state, status.stamp) == ("tracking", 0.5)


@pytest.mark.parametrize("name", NAMES)
def test_a_short_history_is_enough_for_poses_that_come_in_time(name, short):
    calls = list(events(short))
    assert np.array_equal(
        estimates(feed(made(name, history=8), calls)),
        estimates(feed(made(name, history=4096), calls)),
    )


@cache
def on_group(base):
    """Four seconds on a base group, with little noise."""
    robot = load("tree3", base)
    mu = 0.2 * np.cos(np.arange(robot.b))
    motion = truth(robot, 4.0, state=begin(robot, mu))
    return sense(motion, 3, position=1e-4, attitude=1e-4, joint=1e-5)


# quick gains for a short run, and the error that their noise and what is left of the start make;
# a difference of poses only lags behind an arm that moves
CONVERGENCE = {
    "lie_group": (dict(k1=6.0, k2=9.0), 1e-2),
    "alpha_beta": (dict(bandwidth=4.0), 1e-2),
    "invariant_ekf": (dict(joint_velocity_deviation=1e-5), 1e-3),
    "differentiated_pose": (dict(cutoff=2.0), 0.3),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("base", GROUPS)
def test_every_observer_converges_on_every_base_group(name, base):
    options, bound = CONVERGENCE[name]
    observer = made(name, load("tree3", base), pose_deviation=1e-4, **options)
    assert abs(observe(observer, on_group(base)).error[-500:]).max() < bound


@pytest.mark.parametrize("name", NAMES)
def test_a_submerged_robot_is_observed_or_refused(name):
    body = {"added_mass": [5.0] * 6, "linear_damping": [2.0] * 6}
    robot = vm.submerge(load(ROBOT), {"links": {load(ROBOT).root_link: body}})
    if name == "lie_group":
        with pytest.raises(vm.ParameterError):
            made(name, robot)
        return
    motion = truth(robot, 4.0)
    sensed = sense(motion, 0, position=1e-5, attitude=1e-5, joint=1e-6)
    error = abs(observe(made(name, robot, pose_deviation=1e-4), sensed).locked_error[-500:]).max()
    assert error < (0.3 if name == "differentiated_pose" else 5e-2)


# -- fuzz -----------------------------------------------------------------------------------------

SEQUENCES = 10_000
LENGTH = 20


def garbage(rng, size):
    """Numbers of any kind, some of them no numbers."""
    x = rng.normal(size=size) * 10.0 ** rng.integers(-3, 3)
    if rng.random() < 0.2:
        x[rng.integers(len(x))] = rng.choice((np.nan, np.inf, -np.inf, 1e300, -1e150, 1e-300))
    return x


def random_call(rng, observer, t):
    """An event that may be anything."""
    stamp = float(
        rng.choice((t, round(t, 1), t - 0.3, t + 0.05, t + 5.0, t - 50.0, np.nan, np.inf, 1e300))
        if rng.random() < 0.3
        else t
    )
    b, n = observer.robot.b, observer.robot.n
    kind = KINDS[rng.choice(5, p=(0.45, 0.3, 0.1, 0.08, 0.07))]
    if kind == "joints":
        observer.joints(stamp, garbage(rng, n), garbage(rng, n))
    elif kind == "pose":
        g = se3.exp(np.nan_to_num(rng.normal(size=6)))
        if rng.random() < 0.2:
            g[rng.integers(4), rng.integers(4)] = garbage(rng, 1)[0]
        cov = None
        if rng.random() < 0.2:
            a = rng.normal(size=(b, b)) * 10.0 ** rng.integers(-6, 6)
            cov = a @ a.T if rng.random() < 0.7 else a
        observer.pose(stamp, g, cov)
    elif kind == "base_wrench":
        observer.base_wrench(stamp, garbage(rng, b))
    elif kind == "velocity" and isinstance(observer, InvariantEkf):
        observer.velocity(stamp, garbage(rng, 3), axes=("body", "world")[rng.integers(2)])
    elif kind == "gyro" and getattr(observer, "gyro_link", None):
        observer.gyro(stamp, garbage(rng, 3))


def fuzz(seed, count):
    """Sequences on observers of all kinds; returns how many estimates were looked at."""
    rng = np.random.default_rng(seed)
    robot = load("tree0", "SE3", (0.0, 0.0, -9.81))
    gyro = dict(gyro_link=robot.tip_link, external_wrench="world")
    pool = [made(name, robot, history=16) for name in NAMES]
    pool.append(InvariantEkf(robot, history=16, **gyro))
    looked = 0
    for _ in range(count):
        observer = pool[rng.choice(len(pool), p=(0.15, 0.15, 0.3, 0.1, 0.3))]
        observer.reset()
        t = float(rng.uniform(0.0, 1e3))
        for _ in range(LENGTH):
            t += float(rng.choice((1e-3, 1e-2, 0.1, 2.0), p=(0.5, 0.3, 0.15, 0.05)))
            random_call(rng, observer, t)
            seen = estimates(observer)
            assert np.isfinite(seen).all()
            assert np.isfinite(observer.nis)
            covariance = observer.covariance
            assert covariance is None or np.isfinite(covariance).all()
            looked += observer.status.state != "waiting"
    return looked


def test_nothing_makes_an_observer_say_nan_quickly():
    assert fuzz(0, 300) > 300


@pytest.mark.slow
def test_nothing_makes_an_observer_say_nan():
    looked = fuzz(1, SEQUENCES)
    print(f"\n{SEQUENCES} sequences, {looked} estimates")
    assert looked > SEQUENCES


def test_noise_of_the_scenarios_is_that_of_the_study():
    assert (POSITION_NOISE, ATTITUDE_NOISE) == (5e-3, 0.3 * DEG)
