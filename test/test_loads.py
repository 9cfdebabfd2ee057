# SPDX-License-Identifier: Apache-2.0
"""Wrenches at any link in either axes, and friction in the joints."""

import numpy as np
import pytest
from cases import GROUPS, State, load, relative

import vm_dynamics as vm

ROUNDING = 1e-11  # relative: inertias of very different size are summed
CASES = [(name, base) for name in ("tree3", "satellite_dual_arm", "mimic") for base in GROUPS]


@pytest.fixture(params=CASES, ids="-".join)
def case(request):
    robot = load(*request.param, (0.3, -0.2, -9.81))
    return robot, State(robot, seed=4)


@pytest.mark.parametrize("method", ["hybrid", "reduced"])
def test_a_wrench_at_any_link_acts_through_its_jacobian(case, method):
    robot, s = case
    for link in robot.link_names:
        wrench = vm.LinkWrench(link, s.tip)
        found = robot.forward_dynamics(
            s.g, s.q, s.V, s.qd, s.tau, s.F, method=method, link_wrenches=[wrench]
        )
        extra = robot.link_jacobian(s.q, link).T @ s.tip
        expected = robot.forward_dynamics(
            s.g, s.q, s.V, s.qd, s.tau + extra[robot.b :], s.F + extra[: robot.b]
        )
        assert relative(np.concatenate(found), np.concatenate(expected)) < ROUNDING


def test_a_wrench_in_world_axes_is_that_in_link_axes_turned(case):
    robot, s = case
    for link in robot.link_names:
        turn = (s.g @ robot.link_pose(s.q, link))[:3, :3]
        world = np.concatenate((turn @ s.tip[:3], turn @ s.tip[3:]))
        found, expected = (
            robot.inverse_dynamics(s.g, s.q, s.V, s.qd, s.Vd, s.qdd, link_wrenches=[wrench])
            for wrench in (vm.LinkWrench(link, world, "world"), vm.LinkWrench(link, s.tip))
        )
        assert relative(np.concatenate(found), np.concatenate(expected)) < ROUNDING


def test_wrenches_add_up_and_the_tip_wrench_is_one_of_them(case):
    robot, s = case
    links = robot.link_names[:2]
    wrenches = [vm.LinkWrench(link, s.tip) for link in links]
    tip = vm.LinkWrench(robot.tip_link, 2.0 * s.tip)
    both = robot.inverse_dynamics(
        s.g, s.q, s.V, s.qd, s.Vd, s.qdd, 2.0 * s.tip, link_wrenches=wrenches
    )
    each = robot.inverse_dynamics(s.g, s.q, s.V, s.qd, s.Vd, s.qdd, link_wrenches=[*wrenches, tip])
    assert relative(np.concatenate(both), np.concatenate(each)) < ROUNDING
    motion = robot.hybrid_dynamics(
        s.g, s.q, s.V, s.qd, [*s.Vd, *s.qdd], [], (), link_wrenches=[*wrenches, tip]
    )
    assert relative(np.concatenate(motion[2:]), np.concatenate(each)) < ROUNDING


@pytest.mark.parametrize(
    ("wrench", "error", "message"),
    [
        (vm.LinkWrench("nowhere", np.zeros(6)), vm.UnknownLinkError, "nowhere.*base"),
        (vm.LinkWrench("base", np.zeros(3)), vm.DimensionError, r"'base'.*\(3,\).*\(6,\)"),
        (vm.LinkWrench("base", np.zeros(6), "moon"), vm.VmDynamicsError, "moon.*link, world"),
        (("base", np.zeros(6)), vm.DimensionError, "tuple.*LinkWrench"),
        (vm.LinkWrench("base", [np.nan] * 6), vm.NonFiniteError, "'base'"),
    ],
)
def test_a_wrong_wrench_is_refused(wrench, error, message):
    robot = load("tree0")
    s = State(robot)
    with pytest.raises(error, match=message):
        robot.forward_dynamics(s.g, s.q, s.V, s.qd, s.tau, link_wrenches=[wrench])


def test_friction_opposes_motion_and_fades_at_rest():
    robot = load("quad_arm1")
    damping, friction = robot.damping[0], robot.friction[0]
    assert damping > 0.0 and friction > 0.0
    assert robot.joint_friction([2.0])[0] == pytest.approx(-2.0 * damping - friction)
    assert robot.joint_friction([-2.0])[0] == pytest.approx(2.0 * damping + friction)
    assert robot.joint_friction([0.0])[0] == 0.0
