# SPDX-License-Identifier: Apache-2.0
"""Contacts: the equation behind the residual, pushes in MuJoCo, and what must not be one."""

import numpy as np
import pytest
from cases import State, derivative, load, relative
from contact_trials import ENDS, FORCE, Push, Trial, free, random_push, shove
from observing import misjudged

import vm_dynamics as vm
from vm_dynamics.estimation.contact_model import Inputs, ShapeModel
from vm_dynamics.estimation.contact_velocities import JointVelocities

WEIGHT = (0.3, -1.0, -9.81)
PERIOD = 4e-3  # [s]
# Of differences of order eight, and of kernels that sum in another order.
EXACT = 1e-8


def sample(robot, seed=0):
    """Random inputs of a robot, and its state."""
    s = State(robot, seed)
    mu = s.V + robot.connection(s.q) @ s.qd
    return Inputs(s.q, s.qd, s.tau, mu, s.g, s.F), s


CASES = [
    ("satellite_arm7", "SE3", (0.0, 0.0, 0.0)),
    ("hexa_arm2", "SE3", WEIGHT),
    ("tree3", "SE3", WEIGHT),
    ("rover_arm2", "SE2", WEIGHT),
    ("mimic", "SO3", WEIGHT),
]


@pytest.mark.parametrize(("name", "base", "gravity"), CASES)
def test_the_momentum_of_the_shape_changes_by_what_the_model_says_and_by_the_push(
    name, base, gravity
):
    robot = load(name, base, gravity)
    x, s = sample(robot)
    link, wrench = robot.link_names[-1], np.array([1.0, -2.0, 0.5, 0.3, 0.2, -0.1])
    tau = x.effort + robot.joint_friction(x.qd)
    Vd, qdd = robot.forward_dynamics(
        x.g, x.q, s.V, x.qd, tau, x.wrench, link_wrenches=[vm.LinkWrench(link, wrench)]
    )
    del Vd  # the base's acceleration does not enter

    def inertia(q):
        return robot.reduced(q, x.qd, x.mu).Lambda_q

    rate = derivative(inertia, x.q, x.qd) @ x.qd + inertia(x.q) @ qdd
    motion = ShapeModel(robot).motion(x)
    J = robot.link_jacobian(x.q, link)
    felt = (J[:, robot.b :] - J[:, : robot.b] @ motion.A).T @ wrench
    assert relative(motion.rate + motion.effort + felt, rate) < EXACT
    assert relative(motion.p, inertia(x.q) @ x.qd) < EXACT


def test_in_water_the_momentum_has_the_added_mass_and_the_drag():
    dry = load("auv_arm4", "SE3", WEIGHT)
    robot = vm.submerge(dry, "config/robots/auv_arm4.yaml")
    x, s = sample(robot)
    tau = x.effort + robot.joint_friction(x.qd)
    _, qdd = robot.forward_dynamics(x.g, x.q, s.V, x.qd, tau, x.wrench)

    def inertia(q):
        return robot.reduced(q, x.qd, x.mu).Lambda_q

    rate = derivative(inertia, x.q, x.qd) @ x.qd + inertia(x.q) @ qdd
    motion = ShapeModel(robot).motion(x)
    assert relative(motion.rate + motion.effort, rate) < EXACT


@pytest.mark.parametrize(("name", "base", "gravity"), CASES)
def test_the_share_of_a_body_is_what_an_error_of_its_mass_adds(name, base, gravity):
    robot = load(name, base, gravity)
    x, s = sample(robot)
    model = ShapeModel(robot)
    motion = model.motion(x)
    shares = model.shares(x, motion, np.zeros(robot.n))
    tau = x.effort + robot.joint_friction(x.qd)
    acceleration = robot.forward_dynamics(x.g, x.q, s.V, x.qd, tau, x.wrench)

    def needed(robot):
        F, tau = robot.inverse_dynamics(x.g, x.q, s.V, x.qd, *acceleration)
        return tau - motion.A.T @ F

    for body, share in enumerate(shares):
        on = {link: robot.link_frame(link).body == body for link in robot.link_names}
        heavier = misjudged(robot, lambda link, on=on: 1.1 if on[link] else 1.0)
        scale = abs(needed(robot)).max()
        assert abs((needed(heavier) - needed(robot)) / 0.1 - share).max() < EXACT * scale


def rest(robot, observer, seconds, begin=0.0, effort=None, noise=0.0, seed=0):
    """Let an observer watch a robot that stands still; returns what it said last, and when."""
    rng = np.random.default_rng(seed)
    q, still = np.full(robot.n, 0.4), np.zeros(robot.b)
    effort = np.zeros(robot.n) if effort is None else effort
    out = None
    t = begin
    for k in range(1, round(seconds / PERIOD) + 1):
        t = begin + PERIOD * k
        qd = noise * rng.normal(size=robot.n)
        out = observer.step(t, q, qd, effort, still)
    return out, t


def test_an_arm_that_does_not_give_way_to_its_motors_is_held_by_something():
    robot = load("satellite_arm7")
    observer = vm.ContactObserver(robot)
    (residual, contact), t = rest(robot, observer, 2.0, noise=5e-3)
    assert contact is None and observer.status.settled
    effort = np.zeros(7)
    effort[3] = 15.0
    (residual, contact), t = rest(robot, observer, 1.0, t, effort, noise=5e-3)
    assert abs(residual + effort).max() < 0.1 * 15.0
    assert contact is not None and contact.since < 2.0 + 0.1 and contact.stamp <= t
    assert contact.link == contact.links[0] and contact.link != "base_link"
    J = robot.link_jacobian(np.full(7, 0.4), contact.link)
    felt = (J[:, 6:] - J[:, :6] @ robot.connection(np.full(7, 0.4))).T @ contact.wrench
    # the wrench explains the residual, as far as one of a single link can
    assert np.linalg.norm(felt - residual) < 0.2 * np.linalg.norm(residual)
    assert contact.covariance.shape == (6, 6)
    assert (np.linalg.eigvalsh(contact.covariance) > -1e-9).all()
    assert contact.statistic > contact.threshold
    (residual, contact), t = rest(robot, observer, 1.0, t, noise=5e-3)
    assert contact is None and abs(residual).max() < 0.5
    assert observer.status.contacts == 1


def test_the_noise_of_the_joints_is_learnt_and_raises_the_threshold_s_scale():
    robot = load("satellite_arm7")
    observer = vm.ContactObserver(robot, joint_velocity_deviation=1e-3)
    rng = np.random.default_rng(3)
    for k in range(2500):
        # positions as noisy as velocities, so that these are no way out
        q = 0.4 + 1e-3 * rng.normal(size=7)
        observer.step(PERIOD * k, q, 2e-2 * rng.normal(size=7), np.zeros(7), np.zeros(6))
    # of ten seconds, the last two of which count
    assert np.allclose(observer.joint_velocity_deviation, 2e-2, rtol=0.2)


def test_a_joint_takes_the_quieter_of_velocity_and_positions():
    rng = np.random.default_rng(1)
    velocities = JointVelocities(np.full(2, 25e-6))
    t = PERIOD * np.arange(3000)
    q = np.column_stack((0.3 * np.sin(t), 0.3 * np.sin(t) + 1e-3 * rng.normal(size=len(t))))
    truth = 0.3 * np.cos(t)
    qd = truth[:, None] + 5e-3 * rng.normal(size=(len(t), 2))
    velocities.start(q[0], qd[0])
    used = np.array([velocities.take(a, b, PERIOD) for a, b in zip(q[1:], qd[1:], strict=True)])
    off = (used - truth[1:, None])[1500:].std(axis=0)
    # the first encoder is exact, the second worth 0.35 rad/s: its velocity is better
    assert off[0] < 1e-4 and 4e-3 < off[1] < 6e-3
    assert np.sqrt(velocities.variances[1]) == pytest.approx(5e-3, rel=0.15)


def test_a_joint_that_turns_past_pi_is_no_contact():
    velocities = JointVelocities(np.full(1, 25e-6))
    q = 3.0 + 0.1 * PERIOD * np.arange(3000)
    q = (q + np.pi) % (2.0 * np.pi) - np.pi
    assert abs(np.diff(q)).max() > 6.0
    velocities.start(q[:1], np.array([0.1]))
    used = [velocities.take(q[k : k + 1], np.array([0.1]), PERIOD)[0] for k in range(1, len(q))]
    assert abs(np.array(used) - 0.1).max() < 1e-9


# -- pushes in MuJoCo, with the demo's noise and masses 5 % wrong ---------------------------------


@pytest.mark.parametrize(
    ("name", "push"),
    [
        ("satellite_arm7", Push("link6", (12.0, -16.0, 0.0), (0.0, 0.0, 0.1), 6.0)),
        ("satellite_arm7", Push("link3", (16.0, 12.0, 0.0), (0.0, 0.1, 0.4), 6.0)),
        pytest.param(
            "hexa_arm2",
            Push("link2", (0.0, 0.0, 2.0), (0.3, 0.0, 0.0), 6.0),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_push_is_found_in_a_tenth_of_a_second_on_its_link(name, push):
    out = shove(name, push, 3)
    assert out.false_alarms == 0 and out.found <= 0.1
    assert push.link in out.links[0]
    if name == "satellite_arm7":  # two joints cannot tell three links apart
        assert len(out.links[-1]) <= 4 and out.observed_error[-1] < 0.2


def test_ten_seconds_of_free_motion_with_wrong_masses_are_no_contact():
    contacts, largest = free("satellite_arm7", 10.0, 5)
    assert contacts == 0 and largest < 1.0


@pytest.mark.slow
def test_wrong_masses_are_learnt_while_nothing_pushes():
    trial = Trial("hexa_arm2", 4, lambda robot: misjudged(robot, lambda link: 1.05))
    observer = vm.ContactObserver(trial.robot)
    for x in trial.run(12.0):
        observer.step(*x)
    # the robot of the observer is 5 % too heavy; what a hovering arm tells of it
    assert all(abs(error - 0.05) < 0.02 for error in observer.mass_errors.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["satellite_arm7", "hexa_arm2"])
def test_ten_minutes_of_free_motion_with_wrong_masses_are_no_contact(name):
    contacts, largest = free(name, 600.0, 1)
    print(f"{name}: largest statistic {largest:.2f} of its threshold")
    assert contacts == 0


@pytest.mark.slow
def test_nine_of_ten_pushes_on_the_satellite_s_arm_are_found_in_time_and_in_place():
    name, rng = "satellite_arm7", np.random.default_rng(7)
    outcomes = [
        shove(name, random_push(name, link, rng), 1000 + k)
        for link in ENDS[name]
        for k in range(4)
    ]
    found = np.array([out.found for out in outcomes])
    right = np.array([out.push.link in out.links[0] for out in outcomes])
    errors = np.array([out.observed_error[-1] for out in outcomes])
    print(f"found after {1e3 * np.median(found):.0f} ms, {1e3 * found.max():.0f} ms at most")
    assert sum(out.false_alarms for out in outcomes) == 0
    assert (found <= 0.1).mean() >= 0.9
    assert right.mean() >= 0.9
    assert (errors < 0.2).mean() >= 0.8


@pytest.mark.slow
def test_pushes_on_the_base_are_seen_by_what_they_do_to_the_arm():
    name, rng = "satellite_arm7", np.random.default_rng(8)
    outcomes = [shove(name, random_push(name, "base_link", rng), 2000 + k) for k in range(8)]
    found = np.array([out.found for out in outcomes])
    print(f"{FORCE[name]:.0f} N on the base: {np.sort(found)} s")
    assert np.median(found) < 0.5


# -- what comes in --------------------------------------------------------------------------------


def good(robot):
    return [np.full(robot.n, 0.4), np.zeros(robot.n), np.zeros(robot.n), np.zeros(robot.b)]


@pytest.mark.parametrize("which", range(4))
def test_wrong_shapes_raise_and_name_the_argument(which):
    robot = load("satellite_arm7")
    observer, arguments = vm.ContactObserver(robot), good(robot)
    arguments[which] = np.zeros(3)
    with pytest.raises(vm.DimensionError, match=r"\(3,\), expected"):
        observer.step(0.0, *arguments)
    with pytest.raises(vm.DimensionError, match="base_wrench"):
        observer.step(0.0, *good(robot), base_wrench=np.zeros(2))
    with pytest.raises(vm.ParameterError, match="stamp"):
        observer.step("now", *good(robot))


@pytest.mark.parametrize("which", range(4))
def test_nan_is_counted_and_ignored(which):
    robot = load("satellite_arm7")
    observer = vm.ContactObserver(robot)
    rest(robot, observer, 0.5)
    before = observer.residual
    arguments = good(robot)
    arguments[which][0] = np.nan
    observer.step(0.504, *arguments)
    observer.step(np.nan, *good(robot))
    assert observer.status.malformed == 2 and observer.status.stamp == pytest.approx(0.5)
    assert np.array_equal(before, observer.residual)


def test_after_a_sample_beyond_all_reason_it_goes_on():
    robot = load("satellite_arm7")
    observer = vm.ContactObserver(robot)
    _, t = rest(robot, observer, 0.5)
    arguments = good(robot)
    arguments[1] = np.full(7, 1e12)
    observer.step(t + PERIOD, *arguments)
    rest(robot, observer, 3.0, t + PERIOD)
    assert np.isfinite(observer.residual).all() and np.isfinite(observer.statistic)
    assert observer.contact is None
    # three deviations at most
    assert all(abs(error) <= 0.15 + 1e-12 for error in observer.mass_errors.values())


def test_a_matrix_that_is_no_pose_is_counted_where_the_pose_matters():
    robot = load("hexa_arm2", "SE3", WEIGHT)
    observer = vm.ContactObserver(robot)
    observer.step(0.0, *good(robot), g=2.0 * np.eye(4))
    assert observer.status.malformed == 1
    with pytest.raises(vm.ParameterError, match="weight"):
        observer.step(0.0, *good(robot))
    vm.ContactObserver(load("hexa_arm2")).step(0.0, *good(robot), g=2.0 * np.eye(4))


def test_late_and_repeated_samples_are_counted_and_many_late_ones_are_a_new_clock():
    robot = load("satellite_arm7")
    observer = vm.ContactObserver(robot)
    _, t = rest(robot, observer, 0.5)
    observer.step(t, *good(robot))
    observer.step(t - 0.1, *good(robot))
    assert (observer.status.repeated, observer.status.late) == (1, 1)
    assert observer.status.stamp == t and observer.status.restarts == 0
    rest(robot, observer, 1.0, begin=-100.0)
    assert observer.status.restarts == 1 and observer.status.stamp == pytest.approx(-99.0)
    assert observer.status.settled


def test_a_gap_restarts_the_residual_and_keeps_what_was_learnt():
    robot = load("satellite_arm7")
    observer = vm.ContactObserver(robot)
    effort = np.zeros(7)
    effort[3] = 15.0
    _, t = rest(robot, observer, 1.0)
    (_, contact), t = rest(robot, observer, 0.5, t, effort)
    assert contact is not None
    learnt = observer.mass_errors
    residual, contact = observer.step(t + 0.2, *good(robot))
    assert contact is None and not residual.any()
    assert observer.status.restarts == 1 and not observer.status.settled
    assert observer.mass_errors == learnt


def test_what_cannot_be_observed_is_refused():
    with pytest.raises(vm.ParameterError, match="no joints"):
        vm.ContactObserver(load("no_joint"))
    robot = load("satellite_arm7")
    with pytest.raises(vm.ParameterError, match="mass_uncertainty"):
        vm.ContactObserver(robot, mass_uncertainty=0.0)
    with pytest.raises(vm.ParameterError, match="joint_velocity_deviation"):
        vm.ContactObserver(robot, joint_velocity_deviation=-1.0)
