# SPDX-License-Identifier: Apache-2.0
"""What hangs at a link and how joints rub, learnt from motions that MuJoCo makes."""

import time
from dataclasses import replace
from functools import cache

import identifying
import numpy as np
import pytest
from cases import load
from identifying import ATTITUDE_NOISE, EARTH, POSITION_NOISE, block, bound, feed, move, sense

import vm_dynamics as vm
from vm_dynamics.identification import pseudo_inertia as body
from vm_dynamics.identification.fitting import Prior, least_squares
from vm_dynamics.identification.following import Pose
from vm_dynamics.identification.record import Record
from vm_dynamics.model.inertia import Inertia
from vm_dynamics.simulation.plants import MujocoPlant

SECONDS = 30.0
SEEDS = range(1, 6)
# What is not known of efforts and wrenches: what a digital controller commands is what acts.
NOISE = {"satellite_arm7": (1e-2, (1e-3, 1e-3)), "hexa_arm2": (2e-3, (1e-2, 2e-3))}
HEAVY, LIGHT = (5.0, 60.0, 200.0), (0.1, 0.3, 0.6)  # [kg]


def payload_of(name, mass):
    """A block that is heavier and larger, turned, and off the link's axes."""
    if name == "satellite_arm7":
        return block(
            "tool", mass, (0.1, -0.05, 0.3), 0.1277 * mass ** (1 / 3) * np.array([0.8, 1.0, 1.2])
        )
    return block(
        "link2", mass, (0.46, 0.02, -0.03), 0.1494 * mass ** (1 / 3) * np.array([0.8, 1.0, 1.2])
    )


def gravity_of(name):
    return EARTH if name == "hexa_arm2" else (0.0, 0.0, 0.0)


@cache
def excited(name, mass, seconds=SECONDS):
    """A motion that was proposed for any of the payloads."""
    gravity = gravity_of(name)
    payload = payload_of(name, mass)
    robot = load(name, "SE3", gravity)
    heaviest = 200.0 if name == "satellite_arm7" else 1.5
    motion = vm.exciting_motion(robot, payload.link, duration=seconds, heaviest=heaviest)
    return move(name, payload, motion, seconds, gravity=gravity), payload


def sensed_of(name, motion, seed):
    effort, wrench = NOISE[name]
    return sense(motion, seed, effort=effort, wrench=wrench if motion.F.any() else (0.0, 0.0))


def identifier_of(name, motion, link, **more):
    effort, wrench = NOISE[name]
    noise = {"effort_deviation": effort, "wrench_deviation": wrench, "friction": False}
    return vm.PayloadIdentifier(motion.robot, link, **{**noise, **more})


def numbers_of(identifier):
    return np.array([identifier.mass, *identifier.com, *identifier.inertia[np.triu_indices(3)]])


def z_scores(identifier, truth):
    return (numbers_of(identifier) - truth) / np.sqrt(np.diag(identifier.covariance))


# -- parametrization ------------------------------------------------------------------------------


def test_all_coordinates_are_bodies_and_all_bodies_have_coordinates():
    rng = np.random.default_rng(0)
    for theta in rng.normal(size=(50, 10)):
        m, *rest = body.ten_numbers(body.pseudo_inertia(theta))
        inertia = Inertia.of(m, rest[:3], rest[3:])
        assert inertia.unphysical() is None and inertia.triangle_violation() is None
        again = body.coordinates(body.of_inertia(inertia))
        # the logarithm of a small difference of large numbers loses some digits
        np.testing.assert_allclose(again, theta, atol=1e-6)


def test_a_pseudo_inertia_has_the_entries_it_was_made_from():
    J = body.pseudo_inertia(np.random.default_rng(1).normal(size=(3, 10)))
    np.testing.assert_array_equal(body.of_entries(body.entries(J)), J)


def test_least_squares_finds_what_the_normal_equations_give():
    rng = np.random.default_rng(2)
    A, y = rng.normal(size=(20, 3)), rng.normal(size=20)
    prior = Prior(np.zeros(3), np.full(3, 10.0))
    x, covariance, _ = least_squares(lambda x: (A @ x - y, A), prior, np.ones(3))
    information = A.T @ A + np.eye(3) / 100.0
    # it stops when a round gains less than 1e-4 of the sum of squares
    np.testing.assert_allclose(x, np.linalg.solve(information, A.T @ y), atol=1e-3)
    np.testing.assert_allclose(covariance, np.linalg.inv(information), rtol=1e-9)


# -- payload --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grasped():
    """Eight seconds of the satellite with 60 kg, and an identifier that has seen them."""
    motion, payload = excited("satellite_arm7", 60.0, 8.0)
    identifier = identifier_of("satellite_arm7", motion, payload.link)
    feed(identifier, sensed_of("satellite_arm7", motion, 1))
    return motion, payload, identifier


def test_a_payload_is_learnt_within_its_covariance(grasped):
    _, payload, identifier = grasped
    assert identifier.status.state == "learning" and identifier.unexcited == ()
    assert abs(z_scores(identifier, payload.numbers)).max() < 4.0  # ten numbers, one seed
    assert abs(identifier.mass / 60.0 - 1.0) < 0.02
    np.testing.assert_allclose(identifier.com, payload.com, atol=0.01)


def test_the_robot_of_an_identifier_carries_the_payload(grasped):
    motion, _, identifier = grasped
    expected = motion.robot.with_payload(
        "tool", identifier.mass, identifier.com, identifier.inertia
    )
    assert identifier.robot == expected


def test_the_order_in_which_poses_come_does_not_matter_within_the_delay(grasped):
    motion, payload, identifier = grasped
    sensed = sensed_of("satellite_arm7", motion, 1)
    late = identifier_of("satellite_arm7", motion, payload.link)
    for k, t in enumerate(motion.t.tolist()):
        late.joints(t, sensed.q[k], sensed.qd[k], sensed.tau[k])
        i, rest = divmod(k - 25, identifying.POSE_EVERY)  # 100 ms late
        if rest == 0 and k >= 25:
            late.pose(motion.t[i * identifying.POSE_EVERY], sensed.poses[i])
    np.testing.assert_allclose(numbers_of(late), numbers_of(identifier), rtol=1e-9, atol=1e-12)


def test_what_is_learnt_survives_a_gap(grasped):
    motion, payload, identifier = grasped
    again = identifier_of("satellite_arm7", motion, payload.link)
    sensed = sensed_of("satellite_arm7", motion, 1)
    feed(again, sensed)
    for k, t in enumerate((motion.t + 100.0).tolist()[:1000]):
        if k % identifying.POSE_EVERY == 0:
            again.pose(t, sensed.poses[k // identifying.POSE_EVERY])
        again.joints(t, sensed.q[k], sensed.qd[k], sensed.tau[k])
    assert again.status.duration > identifier.status.duration + 3.0
    before, after = identifier.covariance, again.covariance
    assert (np.diag(after) <= np.diag(before) * (1.0 + 1e-6)).all()


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(s, marks=pytest.mark.slow) for s in (2, 3, 4, 5))]
)
def test_without_efforts_the_momentum_tells_what_a_payload_is(seed):
    motion, payload = excited("satellite_arm7", 60.0)
    identifier = identifier_of("satellite_arm7", motion, payload.link)
    feed(identifier, sensed_of("satellite_arm7", motion, seed), efforts=False)
    print(numbers_of(identifier), np.sqrt(np.diag(identifier.covariance)))
    assert abs(z_scores(identifier, payload.numbers)).max() < 4.0
    assert abs(identifier.mass / 60.0 - 1.0) < 0.2
    body_found = Inertia.of(identifier.mass, identifier.com, identifier.inertia)
    assert body_found.unphysical() is None and body_found.triangle_violation() is None


@cache
def rubbing():
    """An arm that is held for a while, then moved, with 60 kg and MuJoCo's dry friction."""
    payload = payload_of("satellite_arm7", 60.0)
    robot = load("satellite_arm7")
    proposal = vm.exciting_motion(robot, payload.link, duration=10.0, heaviest=200.0)
    late = move("satellite_arm7", payload, lambda t: proposal(t - 3.0), 13.0, friction=True)
    return late, payload


@pytest.mark.parametrize(
    "rest", [0.0, 1.0, *(pytest.param(x, marks=pytest.mark.slow) for x in (2.0, 3.0))]
)
def test_an_arm_that_was_held_at_first_and_rubs_leads_nobody_astray(rest):
    motion, payload = rubbing()
    identifier = identifier_of("satellite_arm7", motion, payload.link, friction=True)
    sensed = sensed_of("satellite_arm7", motion, 1)
    feed(identifier, sensed, since=rest)
    assert identifier.status.state == "learning" and identifier.status.misfit < 1.5
    assert abs(z_scores(identifier, payload.numbers)).max() < 5.0
    assert abs(identifier.mass / 60.0 - 1.0) < 0.02


def test_what_came_before_a_grasp_is_given_up():
    motion, payload = rubbing()
    before, _ = excited("satellite_arm7", 5.0, 8.0)
    identifier = identifier_of("satellite_arm7", motion, payload.link, friction=True)
    feed(identifier, sensed_of("satellite_arm7", before, 2))
    states = []
    feed(
        identifier,
        sensed_of("satellite_arm7", motion, 1),
        after=8.0 + 0.004,
        each=lambda: states.append(identifier.status.state),
    )
    assert "inconsistent" in states and states[-1] == "learning"
    assert identifier.status.restarts >= 1
    assert abs(identifier.mass / 60.0 - 1.0) < 0.02


def test_efforts_that_are_not_those_of_the_robot_are_inconsistent(grasped):
    motion, payload, _ = grasped
    identifier = identifier_of("satellite_arm7", motion, payload.link)
    sensed = sensed_of("satellite_arm7", motion, 1)
    feed(identifier, replace(sensed, tau=sensed.tau[:, ::-1]))
    assert identifier.status.state == "inconsistent"


def test_a_robot_at_rest_in_space_says_what_it_cannot_tell():
    robot = load("satellite_arm7")
    identifier = vm.PayloadIdentifier(robot, "tool")
    q, still = np.full(7, 0.3), np.zeros(7)
    for k in range(500):
        if k % 25 == 0:
            identifier.pose(k / 250, np.eye(4))
        identifier.joints(k / 250, q, still, still)
    assert identifier.unexcited == vm.PayloadIdentifier.NAMES
    Inertia.of(identifier.mass, identifier.com, identifier.inertia)


def test_before_anything_came_everything_is_unknown():
    identifier = vm.PayloadIdentifier(load("satellite_arm7"), "tool")
    assert identifier.status.state == "waiting"
    assert identifier.unexcited == vm.PayloadIdentifier.NAMES
    assert identifier.robot.total_mass > load("satellite_arm7").total_mass


def test_reset_forgets_all_but_the_counters(grasped):
    motion, payload, _ = grasped
    identifier = identifier_of("satellite_arm7", motion, payload.link)
    fresh = numbers_of(identifier)
    feed(identifier, sensed_of("satellite_arm7", excited("satellite_arm7", 60.0, 8.0)[0], 2))
    identifier.joints(9.0, np.full(7, np.nan), np.zeros(7))
    identifier.reset()
    np.testing.assert_array_equal(numbers_of(identifier), fresh)
    assert identifier.status.malformed == 1 and identifier.status.state == "waiting"


def test_the_fuel_that_is_left_is_learnt_as_the_whole_inertia_of_the_base(grasped):
    motion, payload, _ = grasped
    loaded = motion.robot.with_payload(
        "tool", payload.mass, payload.com, np.array(payload.moments)
    )
    (truth,) = (x.inertia for x in loaded.description.links if x.name == "base_link")
    full = loaded.with_inertia("base_link", 1.3 * truth.mass, (0.0, 0.0, 0.05), 1.3 * truth.tensor)
    effort, wrench = NOISE["satellite_arm7"]
    identifier = vm.PayloadIdentifier(
        full,
        "base_link",
        whole=True,
        friction=False,
        effort_deviation=effort,
        wrench_deviation=wrench,
    )
    feed(identifier, sensed_of("satellite_arm7", motion, 1))
    expected = np.array([truth.mass, *truth.com, *truth.moments])
    assert abs(z_scores(identifier, expected)).max() < 4.0
    assert abs(identifier.mass / truth.mass - 1.0) < 0.02
    assert identifier.robot.total_mass == pytest.approx(loaded.total_mass, rel=0.02)


# -- bad input ------------------------------------------------------------------------------------


def test_bad_parameters_are_named():
    robot = load("satellite_arm7")
    with pytest.raises(vm.UnknownLinkError, match="hand"):
        vm.PayloadIdentifier(robot, "hand")
    with pytest.raises(vm.ParameterError, match="no joints"):
        vm.PayloadIdentifier(load("no_joint"), load("no_joint").link_names[0])
    for name in ("effort_deviation", "joint_position_deviation", "window", "delay"):
        with pytest.raises(vm.ParameterError, match=name):
            vm.PayloadIdentifier(robot, "tool", **{name: -1.0})


def test_wrong_shapes_raise_and_name_the_argument():
    identifier = vm.PayloadIdentifier(load("satellite_arm7"), "tool")
    for wrong, name in (
        ((np.zeros(6), np.zeros(7)), "q"),
        ((np.zeros(7), np.zeros((7, 1))), "qd"),
        ((np.zeros(7), np.zeros(7), np.zeros(3)), "effort"),
        (("seven", np.zeros(7)), "q"),
    ):
        with pytest.raises(vm.DimensionError, match=f"^{name}:"):
            identifier.joints(0.0, *wrong)
    with pytest.raises(vm.DimensionError, match="g: got shape"):
        identifier.pose(0.0, np.eye(3))
    with pytest.raises(vm.DimensionError, match="F: got shape"):
        identifier.base_wrench(0.0, np.zeros(3))
    with pytest.raises(vm.ParameterError, match="stamp"):
        identifier.joints("now", np.zeros(7), np.zeros(7))


def test_what_is_no_number_is_counted_and_ignored():
    identifier = vm.PayloadIdentifier(load("satellite_arm7"), "tool")
    identifier.joints(0.0, np.full(7, np.nan), np.zeros(7))
    identifier.joints(0.0, np.zeros(7), np.zeros(7), np.full(7, np.inf))
    identifier.joints(np.nan, np.zeros(7), np.zeros(7))
    identifier.pose(0.0, 2.0 * np.eye(4))
    identifier.pose(0.0, np.eye(4), -np.eye(6))
    identifier.base_wrench(0.0, np.full(6, np.nan))
    assert identifier.status.malformed == 6


def test_samples_that_come_twice_or_late_are_counted():
    record = Record(6, window=0.1, delay=0.2, gap=1.0)
    for stamp in (0.0, 0.1, 0.1, 0.05):
        record.add_sample(stamp, np.zeros((2, 1)))
    assert (record.repeated, record.late) == (1, 1)


def test_a_wrench_counts_by_its_mean_over_each_interval():
    record = Record(1, window=0.1, delay=0.01, gap=1.0)
    record.add_wrench(0.0, np.array([1.0]))
    record.add_wrench(0.025, np.array([3.0]))
    pose = Pose(0.0, np.eye(4), np.eye(1), np.eye(1))
    record.add_pose(pose)
    for k in range(13):
        record.add_sample(0.01 * k, np.zeros((2, 1)))
    (window,) = record.windows()
    np.testing.assert_allclose(window.wrench[:4, 0], (1.0, 1.0, 2.0, 3.0))


# -- a motion that excites ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["satellite_arm7", "hexa_arm2"])
def test_an_exciting_motion_keeps_all_limits_and_begins_and_ends_at_rest(name):
    robot = load(name, "SE3", gravity_of(name))
    motion = vm.exciting_motion(robot, robot.tip_link, duration=10.0, heaviest=0.5, candidates=5)
    times = np.linspace(0.0, 10.0, 2001)
    q, qd, qdd = motion.at(times)
    assert (q > robot.lower_limits).all() and (q < robot.upper_limits).all()
    assert (abs(qd) < robot.velocity_limits).all()
    for values in (qd[0], qd[-1], qdd[0], qdd[-1]):
        np.testing.assert_allclose(values, 0.0, atol=1e-12)
    # central differences of a motion of less than 2 Hz, 5 ms apart
    np.testing.assert_allclose(np.gradient(q, times, axis=0)[1:-1], qd[1:-1], atol=5e-3)
    np.testing.assert_allclose(np.gradient(qd, times, axis=0)[1:-1], qdd[1:-1], atol=5e-2)
    loaded = robot.with_payload(robot.tip_link, 0.5, np.zeros(3))
    passive = () if robot.gravity.any() else ("base",)
    for i in range(0, 2001, 25):
        V = np.zeros(6) if not passive else -loaded.connection(q[i]) @ qd[i]
        given = np.concatenate((np.zeros(6), qdd[i]))
        tau = loaded.hybrid_dynamics(
            np.eye(4), q[i], V, qd[i], given, np.zeros(13 if name[0] == "s" else 8), passive
        ).tau
        assert (abs(tau) <= robot.effort_limits).all()


def test_an_exciting_motion_begins_where_it_is_told_and_is_the_same_for_the_same_seed():
    robot = load("satellite_arm7")
    start = np.full(7, 0.4)
    a, b = (vm.exciting_motion(robot, "tool", start=start, candidates=3) for _ in range(2))
    np.testing.assert_array_equal(a(0.0)[0], start)
    np.testing.assert_array_equal(a(7.0)[0], b(7.0)[0])
    with pytest.raises(vm.ParameterError, match="duration"):
        vm.exciting_motion(robot, "tool", duration=0.0)
    with pytest.raises(vm.ParameterError, match="heaviest"):
        vm.exciting_motion(robot, "tool", heaviest=-1.0)
    with pytest.raises(vm.UnknownLinkError):
        vm.exciting_motion(robot, "hand")


def test_what_is_known_already_can_choose_another_motion(grasped):
    motion, _, identifier = grasped
    proposal = vm.exciting_motion(motion.robot, "tool", identifier=identifier, candidates=3)
    assert np.isfinite(proposal(3.0)[0]).all()


# -- friction -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_friction_of_joints_is_learnt_within_a_tenth():
    """MuJoCo's friction is dry to the last bit, the model's fades below 0.01 rad/s."""
    robot = load("hexa_arm2", "SE3", EARTH)
    proposal = vm.exciting_motion(robot, "link2", duration=20.0)
    nothing = block("link2", 1e-6, (0.0, 0.0, 0.0), (0.1, 0.1, 0.1))
    motion = move("hexa_arm2", nothing, proposal, 20.0, gravity=EARTH, friction=True)
    wrong = robot.with_friction(3.0 * robot.damping, 0.3 * robot.friction)
    identifier = vm.FrictionIdentifier(wrong, effort_deviation=2e-3)
    feed(identifier, sensed_of("hexa_arm2", motion, 1))
    np.testing.assert_allclose(identifier.damping, robot.damping, rtol=0.1)
    np.testing.assert_allclose(identifier.friction, robot.friction, rtol=0.1)
    assert identifier.unexcited == ()
    np.testing.assert_array_equal(identifier.robot.damping, identifier.damping)
    assert identifier.covariance.shape == (4, 4)


def test_friction_is_not_negative():
    with pytest.raises(vm.ParameterError, match="damping"):
        load("hexa_arm2").with_friction([-1.0, 0.0], [0.0, 0.0])


# -- the bars -------------------------------------------------------------------------------------


CASES = [("satellite_arm7", m) for m in HEAVY] + [("hexa_arm2", m) for m in LIGHT]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mass"), CASES)
def test_a_payload_is_learnt_as_well_as_the_data_allow(name, mass):
    motion, payload = excited(name, mass)
    effort, wrench = NOISE[name]
    least = bound(motion, payload, effort=effort, wrench=wrench)
    for seed in SEEDS:
        identifier = identifier_of(name, motion, payload.link)
        feed(identifier, sensed_of(name, motion, seed))
        found, sigma = numbers_of(identifier), np.sqrt(np.diag(identifier.covariance))
        assert (sigma <= 1.5 * least).all(), seed
        assert abs((found - payload.numbers) / sigma).max() < 3.0, seed
        if mass >= 60.0 or name == "hexa_arm2":
            assert abs(found[0] / mass - 1.0) < (0.02 if mass >= 60.0 else 0.03)
            assert abs(found[1:4] - payload.com).max() < 0.01
        if mass >= 60.0:
            assert abs(found[4:] - payload.moments).max() < 0.1 * max(payload.moments)


def velocity_error(robot, sensed):
    """RMS of the twist's error of the filter from 5 s on [m/s, rad/s]."""
    motion, errors = sensed.motion, []
    ekf = vm.InvariantEkf(robot, pose_deviation=(POSITION_NOISE, ATTITUDE_NOISE))
    for k, t in enumerate(motion.t.tolist()):
        if sensed.F.any():
            ekf.base_wrench(t, sensed.F[k])
        if k % identifying.POSE_EVERY == 0:
            ekf.pose(t, sensed.poses[k // identifying.POSE_EVERY])
        ekf.joints(t, sensed.q[k], sensed.qd[k])
        if t > 5.0 and k % 5 == 0:
            errors.append(ekf.twist - motion.V[k])
    squares = np.square(errors)
    return np.sqrt([squares[:, :3].sum(axis=1).mean(), squares[:, 3:].sum(axis=1).mean()])


def joint_error(model, payload, proposal):
    """RMS [rad] of an arm that a compensator with a model moves on a tumbling base."""
    urdf = identifying.loaded_urdf("satellite_arm7", payload)
    plant = MujocoPlant(vm.load(urdf), urdf, 0.004, friction=True)
    tumbling = np.array([0.0, 0.0, 0.0, 0.17, 0.02, 0.0])
    plant.state = vm.State(np.eye(4), proposal(0.0)[0], tumbling, np.zeros(7))
    compensator = vm.MomentumCompensator(model, 200.0, law=2, friction=True)
    rng, errors = np.random.default_rng(1), []
    for k in range(3000):
        s, target = plant.state, proposal(0.004 * k)
        compensator.set_target(*target)
        mu = s.V + model.connection(s.q) @ s.qd
        tau = compensator.step(s.q, s.qd + 5e-3 * rng.normal(size=7), mu, dt=0.004).tau
        plant.step(tau, np.zeros(6))
        if k > 500:
            errors.append(s.q - target[0])
    return np.sqrt(np.mean(np.square(errors)))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mass"), CASES)
def test_observer_and_compensation_are_as_good_as_with_the_true_payload(name, mass):
    motion, payload = excited(name, mass)
    truth = motion.robot.with_payload(
        payload.link, payload.mass, payload.com, np.array(payload.moments)
    )
    for seed in (1, 2):
        sensed = sensed_of(name, motion, seed)
        identifier = identifier_of(name, motion, payload.link)
        feed(identifier, sensed)
        other = sensed_of(name, motion, seed + 10)
        found, best = (velocity_error(robot, other) for robot in (identifier.robot, truth))
        print("observer", found / best)
        assert (found <= 1.2 * best).all()
        if name == "satellite_arm7":
            proposal = vm.exciting_motion(truth, "tool", duration=12.0, candidates=3)
            found, best = (
                joint_error(robot, payload, proposal) for robot in (identifier.robot, truth)
            )
            print("compensation", found / best, np.degrees(best))
            assert found <= 1.2 * best


@pytest.mark.slow
def test_friction_of_a_free_arm_is_learnt_within_a_tenth():
    robot = load("satellite_arm7")
    proposal = vm.exciting_motion(robot, "tool", duration=SECONDS)
    nothing = block("tool", 1e-6, (0.0, 0.0, 0.0), (0.1, 0.1, 0.1))
    motion = move("satellite_arm7", nothing, proposal, SECONDS, friction=True)
    wrong = robot.with_friction(2.0 * robot.damping, 0.5 * robot.friction)
    for seed in SEEDS:
        identifier = vm.FrictionIdentifier(wrong, effort_deviation=1e-2)
        feed(identifier, sensed_of("satellite_arm7", motion, seed))
        np.testing.assert_allclose(identifier.damping, robot.damping, rtol=0.1)
        np.testing.assert_allclose(identifier.friction, robot.friction, rtol=0.1)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("name", NOISE)
def test_a_joint_sample_costs_no_more_than_one_of_the_filter(name):
    """Absolute times scatter: the filter, in the same run, takes about 50 us with its poses."""
    motion, payload = excited(name, 60.0 if name == "satellite_arm7" else 0.3)
    sensed = sensed_of(name, motion, 1)

    class Filter(vm.InvariantEkf):
        def joints(self, stamp, q, qd, effort):
            super().joints(stamp, q, qd)

    least = {}
    for _ in range(3):
        for key, heard in (
            ("identifier", identifier_of(name, motion, payload.link)),
            ("filter", Filter(motion.robot)),
        ):
            start = time.process_time()
            feed(heard, sensed)
            spent = time.process_time() - start
            least[key] = min(least.get(key, np.inf), spent / len(motion.t))
    print({key: f"{1e6 * seconds:.0f} us" for key, seconds in least.items()})
    assert least["identifier"] < 1.4 * least["filter"]
