# SPDX-License-Identifier: Apache-2.0
"""Simulation on the group: order of the integrators, conservation, failing joints, bad input."""

import numpy as np
import pytest
from cases import GROUPS, ROBOTS, State, load, relative, text
from peer import Peer

import vm_dynamics as vm

EARTH = (0.0, 0.0, -9.81)
ORDERS = {"semi_implicit": 1, "runge_kutta": 4, "variational": 2}


def drifting(robot, seed=0, speed=0.3):
    """A state that drifts and swings."""
    s = State(robot, seed)
    g = robot.base_group.exp(s.V)
    return vm.State(g, s.q, speed * s.V, speed * s.qd)


def swing(robot):
    """The state of the long runs: arm swinging, base tumbling, momentum in all directions."""
    V = np.array([0.1, 0.05, -0.03, 0.1, 0.2, 0.15])
    q = np.linspace(0.3, 0.9, robot.n)
    return vm.State(np.eye(4), q, V, 0.5 * np.cos(np.arange(robot.n)))


def last(robot, state, step, integrator, law=None, t=0.2):
    out = vm.simulate(robot, state, law, t, step=step, integrator=integrator, friction=False)
    return np.concatenate((out.g[-1].ravel(), out.q[-1], out.V[-1], out.qd[-1]))


@pytest.mark.parametrize("base", GROUPS)
@pytest.mark.parametrize("integrator", vm.INTEGRATORS)
def test_integrators_converge_with_their_order_to_the_same_motion(integrator, base):
    robot = load("tree3", base, EARTH)
    state = drifting(robot, 3)
    tau = np.linspace(-1.0, 1.0, robot.n)
    F = np.linspace(0.5, -0.5, robot.b)

    def law(t, state):
        return vm.Command(tau, F)

    # accurate to rounding, by another step and the method of highest order
    exact = last(robot, state, 2.5e-4, "runge_kutta", law)
    order = ORDERS[integrator]
    coarse, fine = (2e-2, 1e-2) if order == 4 else (2e-3, 1e-3)
    ratio, errors = 2.0**order, []
    for step in (coarse, fine):
        errors.append(abs(last(robot, state, step, integrator, law) - exact).max())
    # the leading term dominates: the observed ratio is within a third of its order's
    assert errors[1] < 1e-2
    assert 0.66 * ratio < errors[0] / errors[1] < 1.5 * ratio


def test_states_are_those_of_the_equations_of_motion():
    robot = load("lwr_floating", "SE3", EARTH)
    state = drifting(robot, 1)
    out = vm.simulate(
        robot, state, lambda t, s: np.ones(7), 0.1, integrator="runge_kutta", friction=False
    )
    k = 50
    s, h = out[k], 1e-3
    Vd, qdd = robot.forward_dynamics(*s, np.ones(7))
    assert relative((out.V[k + 1] - out.V[k - 1]) / (2 * h), Vd) < 1e-4, "differences of order 2"
    assert relative((out.qd[k + 1] - out.qd[k - 1]) / (2 * h), qdd) < 1e-4
    move = vm.lie.SE3.log(vm.lie.SE3.inverse(out.g[k - 1]) @ out.g[k + 1]) / (2 * h)
    assert relative(move, s.V) < 1e-4
    assert out.t[k] == pytest.approx(0.05) and len(out) == 101
    assert np.array_equal(out.tau, np.ones((100, 7))) and not out.F.any()


@pytest.mark.parametrize("base", GROUPS)
def test_the_variational_integrator_keeps_momentum_on_every_group(base):
    robot = load("mimic", base)
    law = np.sin(np.arange(robot.n))
    out = vm.simulate(
        robot, drifting(robot, 2), lambda t, s: 0.3 * law, 1.0, integrator="variational"
    )
    P = out.spatial_momentum
    assert abs(P - P[0]).max() < 1e-12 * abs(P[0]).max(), "rounding of a thousand steps"
    assert abs(out.q[-1] - out.q[0]).max() > 0.1, "it did move"


@pytest.mark.parametrize("integrator", vm.INTEGRATORS)
def test_a_base_wrench_changes_momentum_by_its_impulse(integrator):
    robot = load("satellite_arm7")
    wrench = np.array([3.0, -2.0, 1.0, 0.5, 0.4, -0.3])
    rest = vm.State.at_rest(robot, np.linspace(0.3, 0.9, 7))

    def law(t, state):
        # constant in the world, so that its impulse about the world's origin is known
        return vm.Command(base_wrench=robot.base_group.adjoint(state.g).T @ wrench)

    out = vm.simulate(robot, rest, law, 1.0, integrator=integrator)
    assert relative(out.spatial_momentum[-1], wrench) < 2e-3, "held for 1 ms"


def test_gravity_accelerates_the_centre_of_mass():
    robot = load("quad_arm1", "SE3", EARTH)
    out = vm.simulate(robot, vm.State.at_rest(robot, [0.4]), None, 0.5, integrator="variational")
    fallen = (out.g[-1] @ [*robot.center_of_mass(out.q[-1]), 1.0])[:3]
    start = (out.g[0] @ [*robot.center_of_mass(out.q[0]), 1.0])[:3]
    assert np.allclose(fallen - start, [0, 0, -0.5 * 9.81 * 0.25], atol=1e-12)


# The bars of the long run: energy errors as measured, with a factor of three to spare.
LONG = {"semi_implicit": (2e-2, 1e-2), "runge_kutta": (1e-10, 1e-11), "variational": (1e-10, 5e-6)}


@pytest.mark.slow
@pytest.mark.parametrize("integrator", vm.INTEGRATORS)
def test_a_minute_adrift_keeps_momentum_and_energy(integrator):
    robot = load("satellite_arm7")
    out = vm.simulate(robot, swing(robot), None, 60.0, integrator=integrator, friction=False)
    momentum, energy = out.spatial_momentum, out.energy
    lost = abs(momentum - momentum[0]).max() / abs(momentum[0]).max()
    error = abs(energy / energy[0] - 1.0)
    print(f"{integrator}: momentum {lost:.1e}, energy {error.max():.1e}, last {error[-1]:.1e}")
    assert lost < LONG[integrator][0]
    assert error.max() < LONG[integrator][1]
    if integrator == "variational":
        # no drift: it peaks where the arm whips round, and comes back
        assert np.median(error[-20_000:]) < 3.0 * np.median(error[:20_000])
    rotations = out.g[:, :3, :3]
    square = np.einsum("kji,kjl->kil", rotations, rotations)
    assert abs(square - np.eye(3)).max() < 1e-12, "orthonormal without renormalising"
    angle = np.arccos(np.clip((np.trace(rotations, axis1=1, axis2=2) - 1.0) / 2.0, -1.0, 1.0))
    assert angle.max() > 0.99 * np.pi, "the base passes any attitude"


def test_friction_stops_the_joints_and_leaves_the_momentum():
    robot = load("satellite_arm7")
    state = swing(robot)
    for integrator in vm.INTEGRATORS:
        out = vm.simulate(robot, state, None, 10.0, integrator=integrator)
        free = vm.simulate(robot, state, None, 10.0, integrator=integrator, friction=False)
        assert abs(out.qd[-1]).max() < 0.2 * abs(free.qd[-1]).max()
        energy = out.kinetic_energy[::100]
        assert (np.diff(energy) < 1e-3 * energy[0]).all(), "it only takes energy"
        P = out.spatial_momentum[::1000]
        bar = {"semi_implicit": 1e-2, "runge_kutta": 1e-9, "variational": 1e-12}[integrator]
        assert relative(P[-1], P[0]) < bar


def test_damping_of_one_joint_decays_as_the_solution_says():
    robot = load("quad_arm1", "T1")  # on a rail: the joint's inertia hardly changes with q
    heavy = robot.with_payload("base_link", 1e6, (0, 0, 0))
    inertia = heavy.mass_matrix([0.0])[-1, -1]
    state = vm.State(np.eye(4), np.zeros(1), np.zeros(1), np.array([1.0]))
    out = vm.simulate(heavy, state, None, 1.0, integrator="runge_kutta", step=1e-4)
    damping, friction = robot.damping[0], robot.friction[0]
    # I qdd = -d qd - f
    expected = (1.0 + friction / damping) * np.exp(-damping / inertia * out.t) - friction / damping
    assert abs(out.qd[:, 0] - expected).max() < 1e-4, "order 1 in the step"


def test_dry_friction_holds_a_joint_against_a_small_torque():
    robot = load("satellite_arm7")
    push = 0.5 * robot.friction
    assert push.any()
    rest = vm.State.at_rest(robot, np.linspace(0.3, 0.9, 7))
    out = vm.simulate(robot, rest, lambda t, s: push, 2.0)
    free = vm.simulate(robot, rest, lambda t, s: push, 2.0, friction=False)
    assert abs(out.qd[-1]).max() < 1e-2 < abs(free.qd[-1]).max(), "it creeps at most"


def failing_law(robot, joint, at):
    """All joints driven to smooth accelerations; one loses its motor at a time."""
    index = robot.joint_names.index(joint)

    def law(t, state):
        wanted = 0.4 * np.cos(2.0 * t + np.arange(robot.n)) - 0.5 * state.qd
        active = dict(zip(robot.joint_names, wanted, strict=True))
        if t >= at:
            del active[joint]
        return vm.Command(active=active)

    return law, index


def test_a_joint_that_fails_keeps_momentum_and_obeys_the_forward_dynamics():
    robot = load("satellite_arm7")
    law, index = failing_law(robot, "joint3", at=2.0)
    peer = Peer(robot, text("satellite_arm7"))
    out = vm.simulate(
        robot, swing(robot), law, 4.0, integrator="runge_kutta", step=2e-3, friction=False
    )
    P = out.spatial_momentum
    assert abs(P - P[0]).max() < 1e-9 * abs(P[0]).max(), "order four at 2 ms"
    for t in (0.5, 1.998, 2.0, 3.0):
        k = round(t / 2e-3)
        s, asked = out[k], law(out.t[k], out[k]).active
        passive = {"base", *robot.joint_names} - set(asked)
        assert ("joint3" in passive) == (t >= 2.0)
        motion = robot.hybrid_dynamics(*s, list(asked.values()), np.zeros(6 + (t >= 2.0)), passive)
        # the efforts it found, given to Pinocchio, give the same accelerations
        forces = np.concatenate((motion.F, motion.tau))
        there = peer.forward_dynamics(s.q, np.concatenate((s.V, s.qd)), forces, s.g)
        assert relative(there, np.concatenate((motion.Vd, motion.qdd))) < 1e-9
        assert (motion.tau[index] == 0.0) == (t >= 2.0)
    # before, the joint follows its command; after, it does not
    wanted = 0.4 * np.cos(2.0 * out.t + index) - 0.5 * out.qd[:, index]
    found = np.gradient(out.qd[:, index], out.t)
    before, after = slice(10, 990), slice(1010, 1990)
    assert abs(found - wanted)[before].max() < 1e-2
    assert abs(found - wanted)[after].max() > 0.1


def wet_auv():
    """An underwater vehicle with drag, buoyancy and a current."""
    dry = load("auv_arm4", "SE3", EARTH)
    fluid = vm.Hydrodynamics.load(ROBOTS / "auv_arm4.yaml")
    return vm.submerge(dry, fluid.with_current((0.3, -0.2, 0.1)))


DRIVEN = {
    "satellite_arm7": lambda: load("satellite_arm7", "SE3", EARTH),
    "mimic": lambda: load("mimic", "SE2"),
    "submerged": wet_auv,
}


def driving_law(robot, driven):
    """Some degrees of freedom are driven, the others pushed."""
    size = robot.b + robot.n

    def law(t, state):
        active = {name: 0.3 * np.cos(3.0 * t + i) for i, name in enumerate(driven)}
        if "base" in driven:
            active["base"] = 0.2 * np.sin(2.0 * t + np.arange(robot.b))
        push = 0.4 * np.cos(t + np.arange(size))
        return vm.Command(push[robot.b :], push[: robot.b], active=active)

    return law


def forces_of_the_motion(robot, out, k):
    """Forces [F; tau] that the mean accelerations of step k take at its beginning."""
    h = out.t[k + 1] - out.t[k]
    Vd, qdd = (out.V[k + 1] - out.V[k]) / h, (out.qd[k + 1] - out.qd[k]) / h
    return np.concatenate(robot.inverse_dynamics(*out[k], Vd, qdd))


def forces_of_the_law(robot, law, out, k):
    """Forces [F; tau] at state k, those of the driven by the hybrid dynamics."""
    asked = law(out.t[k], out[k])
    names = "base", *robot.joint_names
    acc = np.hstack([asked.active[name] for name in names if name in asked.active])
    push = np.concatenate((asked.base_wrench, asked.tau))
    motion = robot.hybrid_dynamics(*out[k], acc, push, set(names) - set(asked.active))
    return np.concatenate((motion.F, motion.tau))


@pytest.mark.parametrize("which", ["base", "joints", "both"])
@pytest.mark.parametrize("name", DRIVEN)
def test_the_trajectory_holds_what_the_drives_gave(name, which):
    robot = DRIVEN[name]()
    joints = robot.joint_names[::2]
    driven = {"base": ("base",), "joints": joints, "both": ("base", *joints)}[which]
    law, state = driving_law(robot, driven), drifting(robot, 5)
    for integrator in ("semi_implicit", "runge_kutta"):
        out = vm.simulate(robot, state, law, 0.05, integrator=integrator, friction=False)
        for k in (0, 20, 49):
            found = np.concatenate((out.F[k], out.tau[k]))
            assert relative(found, forces_of_the_law(robot, law, out, k)) < 1e-12
            if integrator == "semi_implicit":  # its steps have the accelerations of the beginning
                assert relative(found, forces_of_the_motion(robot, out, k)) < 1e-9


@pytest.mark.parametrize("integrator", ["semi_implicit", "runge_kutta"])
@pytest.mark.parametrize("name", ["satellite_arm7", "submerged"])
def test_driven_joints_follow_against_friction_and_their_drives_overcome_it(name, integrator):
    robot = DRIVEN[name]()
    assert robot.friction.any() or robot.damping.any()
    first, second, *_ = robot.joint_names
    law, state = driving_law(robot, (first, "base")), drifting(robot, 6)
    errors = []
    for step in (1e-4, 5e-5):
        out = vm.simulate(robot, state, law, 0.02, step=step, integrator=integrator)
        a = [law(t, None).active for t in out.t[:-1]]
        gained = step * np.cumsum([x[first] for x in a])
        assert np.allclose(out.qd[1:, 0] - out.qd[0, 0], gained, rtol=0, atol=1e-12)
        gained = step * np.cumsum([x["base"] for x in a], axis=0)
        assert np.allclose(out.V[1:] - out.V[0], gained, rtol=0, atol=1e-12)
        k = (len(out) - 1) // 2
        found = np.concatenate((out.F[k], out.tau[k] + robot.joint_friction(out.qd[k])))
        errors.append(relative(found, forces_of_the_motion(robot, out, k)))
    # the friction acts at the end of the step: order 1
    assert errors[0] < 5e-3 and errors[1] < 0.6 * errors[0]


def test_a_submerged_robot_comes_to_rest_relative_to_the_current():
    current = np.array([0.2, 0.1, 0.0])
    dry = load("auv_arm4", "SE3", EARTH)
    fluid = vm.Hydrodynamics.load(ROBOTS / "auv_arm4.yaml").with_current(current)
    robot = vm.submerge(dry, fluid)
    rest = vm.State.at_rest(robot)
    out = vm.simulate(robot, rest, lambda t, s: -5.0 * s.q - s.qd, 60.0, step=5e-3)
    drift = out.g[-1, :3, :3] @ out.V[-1, :3]
    assert np.allclose(drift[:2], current[:2], atol=0.02)
    assert abs(drift[2]) < 0.05, "1 N heavier than its water, it sinks slowly"


def test_a_submerged_robot_moves_alike_by_both_integrators():
    robot = vm.submerge(load("auv_arm4", "SE3", EARTH), ROBOTS / "auv_arm4.yaml")
    state = drifting(robot, 4)
    coarse, fine = (last(robot, state, step, "semi_implicit") for step in (4e-4, 2e-4))
    exact = last(robot, state, 1e-3, "runge_kutta")
    assert abs(fine - exact).max() < 0.6 * abs(coarse - exact).max(), "order 1"
    assert abs(fine - exact).max() < 2e-2 * abs(exact).max()


def test_link_wrenches_act_in_the_simulation():
    robot = load("satellite_arm7")
    push = [vm.LinkWrench("base_link", [1.0, 0, 0, 0, 0, 0], "world")]
    rest = vm.State.at_rest(robot)
    for integrator in vm.INTEGRATORS:
        out = vm.simulate(
            robot, rest, lambda t, s: vm.Command(link_wrenches=push), 0.5, integrator=integrator
        )
        assert out.spatial_momentum[-1][:3] == pytest.approx([0.5, 0, 0], abs=1e-3)


def test_times_may_begin_anywhere_and_the_law_sees_them():
    robot = load("planar_3link", "SE2")
    seen = []

    def law(t, state):
        seen.append(t)
        assert isinstance(state, vm.State)
        return np.zeros(robot.n)

    out = vm.simulate(robot, vm.State.at_rest(robot), law, (2.0, 2.01), step=2e-3)
    assert np.allclose(out.t, 2.0 + 2e-3 * np.arange(6))
    assert np.allclose(seen, out.t[:-1])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(integrator="euler"), vm.UnknownMethodError, "euler.*semi_implicit.*variational"),
        (dict(step=0.0), vm.ParameterError, "step.*0.0"),
        (dict(step=np.nan), vm.ParameterError, "nan"),
        (dict(t=-1.0), vm.ParameterError, "-1.0"),
        (dict(t=(1.0, 0.5)), vm.ParameterError, "second later"),
        (dict(t=1e-4), vm.ParameterError, "0 steps"),
        (dict(t="long"), vm.ParameterError, "long"),
        (dict(t=1e12), vm.ParameterError, "steps"),
    ],
)
def test_impossible_arguments_are_refused(arguments, error, message):
    robot = load("planar_3link")
    call = dict(t=0.1, step=1e-3) | arguments
    with pytest.raises(error, match=message):
        vm.simulate(robot, vm.State.at_rest(robot), None, call.pop("t"), **call)


@pytest.mark.parametrize("integrator", vm.INTEGRATORS)
@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (np.zeros(5), vm.DimensionError, r"tau.*\(5,\)"),
        (np.full(2, np.nan), vm.NonFiniteError, "tau"),
        (vm.Command(base_wrench=np.zeros(2)), vm.DimensionError, "base_wrench"),
        (vm.Command(active={"elbow": 1.0}), vm.UnknownJointError, "elbow"),
        (vm.Command(link_wrenches=[vm.LinkWrench("x", np.zeros(6))]), vm.UnknownLinkError, "x"),
    ],
)
def test_a_law_that_asks_for_nonsense_is_refused(integrator, asked, error, message):
    robot = load("planar_3link")
    with pytest.raises(error, match=message):
        vm.simulate(robot, vm.State.at_rest(robot), lambda t, s: asked, 0.1, integrator=integrator)


@pytest.mark.parametrize("state", [None, 3.0, "at rest", np.zeros(2), lambda t, s: None])
def test_what_is_no_state_is_refused(state):
    robot = load("planar_3link")
    with pytest.raises(vm.ParameterError, match="state: got .*expected a State"):
        vm.simulate(robot, state, None, 0.1)


def test_a_state_with_something_else_in_it_is_refused():
    robot = load("planar_3link")
    rest = vm.State.at_rest(robot)
    for key, value in (("g", None), ("g", "here"), ("q", None), ("V", [0.0]), ("qd", "fast")):
        with pytest.raises(vm.DimensionError, match="pose" if key == "g" else key):
            vm.simulate(robot, rest._replace(**{key: value}), None, 0.1)


@pytest.mark.parametrize("law", [0.0, np.zeros(2), "none", vm.Command()])
def test_a_law_that_is_no_function_is_refused(law):
    robot = load("planar_3link")
    with pytest.raises(vm.ParameterError, match="torque_law: got .*expected a function"):
        vm.simulate(robot, vm.State.at_rest(robot), law, 0.1)


@pytest.mark.parametrize("q", [[0.0] * 3, [], 0.3, "bent", [[0.0, 0.0]]])
def test_a_shape_that_does_not_fit_is_refused(q):
    with pytest.raises(vm.DimensionError, match=r"q: got .*expected \(?2"):
        vm.State.at_rest(load("planar_3link"), q)
    with pytest.raises(vm.NonFiniteError, match="q: holds NaN"):
        vm.State.at_rest(load("planar_3link"), [0.0, np.nan])


def test_driven_joints_with_nan_accelerations_are_refused():
    robot = load("planar_3link")
    for value in (np.nan, "fast"):
        command = vm.Command(active={robot.joint_names[0]: value})
        with pytest.raises(vm.VmDynamicsError, match=robot.joint_names[0]):
            vm.simulate(robot, vm.State.at_rest(robot), lambda t, s, c=command: c, 0.1)


def test_what_an_integrator_cannot_do_it_says():
    robot = load("planar_3link")
    active = vm.Command(active={robot.joint_names[0]: 1.0})
    with pytest.raises(vm.ParameterError, match="driven.*runge_kutta"):
        vm.simulate(
            robot, vm.State.at_rest(robot), lambda t, s: active, 0.1, integrator="variational"
        )
    wet = vm.submerge(load("auv_arm4"), ROBOTS / "auv_arm4.yaml")
    with pytest.raises(vm.ParameterError, match="variational.*fluid"):
        vm.simulate(wet, vm.State.at_rest(wet), None, 0.1, integrator="variational")


def test_a_start_off_the_group_is_refused():
    robot = load("rover_arm2", "SE2")
    flying = vm.State.at_rest(robot)._replace(g=vm.lie.SE3.exp([0, 0, 1, 0, 0, 0]))
    with pytest.raises(vm.VmDynamicsError, match="SE2"):
        vm.simulate(robot, flying, None, 0.1)


@pytest.mark.parametrize("integrator", vm.INTEGRATORS)
def test_a_motion_that_explodes_ends_with_an_error_that_says_when(integrator):
    robot = load("lwr_floating")

    def law(t, state):
        return 1e3 * state.qd + 1.0

    with pytest.raises(vm.DivergedError, match="diverged at t = .* s.*shorter step"):
        vm.simulate(
            robot, vm.State.at_rest(robot), law, 60.0, integrator=integrator, friction=False
        )


def test_a_bar_shows_when_asked_for(capsys):
    robot = load("planar_3link")
    vm.simulate(robot, vm.State.at_rest(robot), None, 3.0, progress=True)
    vm.simulate(robot, vm.State.at_rest(robot), None, 1.0)
    assert capsys.readouterr().err.count("simulating") <= 1
