# SPDX-License-Identifier: Apache-2.0
"""The protocol of controllers: the four have it, and so may a class of a user's own."""

import sys
from pathlib import Path

import numpy as np
import pytest
from cases import ROBOTS, text

import vm_dynamics as vm
from vm_dynamics.control import TiltGuidance
from vm_dynamics.control.controller import (
    CONTROLLER_METHODS,
    TARGET_KEYWORDS,
    VALID_NEEDS,
    rehearse,
)
from vm_dynamics.control.imported import controller_class, imported_controller, is_import_path

EARTH = (0.0, 0.0, -9.81)
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
G = vm.lie.SE3.exp([0.1, 0.2, 0.3, 0.1, -0.1, 0.3])


def hexacopter():
    robot = vm.load(text("hexa_arm2"), gravity=EARTH)
    return robot, vm.Propulsion.load(robot, ROBOTS / "hexa_arm2.yaml")


def flight(**options):
    robot, propulsion = hexacopter()
    gains = np.array([0, 0, 2, 40, 40, 40, 10, 10.0])
    return vm.ComputedTorque(robot, propulsion, stiffness=gains, damping=0.5 * gains, **options)


def satellite():
    return vm.load(text("satellite_arm7"))


MAKERS = {
    "momentum": lambda: vm.MomentumCompensator(satellite(), 20.0),
    "plain": lambda: vm.MomentumCompensator(satellite(), 20.0, law=0),
    "flight": flight,
    "leaning": lambda: flight(guidance=TiltGuidance(EARTH)),
    "reaction": lambda: vm.ReactionMode(satellite(), "tool", position_only=True),
    "reaction of poses": lambda: vm.ReactionMode(satellite(), "tool"),
    "driven base": lambda: vm.ReactionMode(satellite(), "tool", driven_base=True),
    "pose": lambda: vm.PoseControl(satellite(), 1.0, 2.0, integral=0.1),
    "planar pose": lambda: vm.PoseControl(vm.load(text("rover_arm2")), 1.0, 2.0),
}


def state_of(robot, seed=0):
    rng = np.random.default_rng(seed)
    g = robot.base_group.exp(0.1 * rng.normal(size=robot.b))
    q, qd = 0.1 * rng.normal(size=(2, robot.n))
    V, mu = 0.05 * rng.normal(size=(2, robot.b))
    return vm.ControlState(q, qd, 0.01, 1.0, g, V, mu)


def stepped(controller, s):
    """The same by the step that each has for itself."""
    if isinstance(controller, vm.MomentumCompensator):
        return controller.step(s.q, s.qd, s.mu, g=s.g)
    options = {} if isinstance(controller, vm.ReactionMode) else {"dt": 0.0}
    return controller.step(s.g, s.q, s.V, s.qd, **options)


@pytest.fixture(scope="module", params=sorted(MAKERS))
def controller(request):
    return MAKERS[request.param]()


def test_every_controller_has_all_parts_and_is_rehearsed(controller):
    assert isinstance(controller, vm.Controller)
    assert controller.needs <= set(VALID_NEEDS) and controller.targets <= set(TARGET_KEYWORDS)
    assert controller.targets and all(
        callable(getattr(controller, name)) for name in CONTROLLER_METHODS
    )
    efforts = rehearse(controller, controller.robot)
    assert efforts.tau.shape == (controller.robot.n,)
    assert all(kernel.is_compiled for kernel in controller.kernels)


def test_a_command_is_what_the_step_of_its_own_gives(controller):
    s = state_of(controller.robot)
    controller.reset()
    controller.hold(state_of(controller.robot, 1))
    own = stepped(controller, s)
    efforts = controller.command(s._replace(dt=0.0))
    if isinstance(controller, vm.PoseControl):
        assert not efforts.tau.any()
        iota = controller.robot.base_group.iota
        np.testing.assert_allclose(iota.T @ efforts.wrench, own.wrench, atol=1e-12)
    else:
        np.testing.assert_array_equal(efforts.tau, own.tau)
    if getattr(own, "thrusts", None) is not None:
        np.testing.assert_array_equal(efforts.thrusts, own.thrusts)
        np.testing.assert_array_equal(efforts.wrench, own.wrench)


def test_who_holds_stays_where_it_is(controller):
    """At rest and on target, joints move no more than weight or nothing makes them."""
    robot = controller.robot
    s = state_of(robot)._replace(V=np.zeros(robot.b), mu=np.zeros(robot.b), qd=np.zeros(robot.n))
    controller.hold(s)
    efforts = controller.command(s)
    if not robot.gravity.any():
        assert abs(efforts.tau).max() < 1e-9
        assert efforts.wrench is None or abs(efforts.wrench).max() < 1e-9


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_one_with_other_gains_takes_over_targets(name):
    former, later = MAKERS[name](), MAKERS[name]()
    s = state_of(former.robot)._replace(dt=0.0)
    former.hold(state_of(former.robot, 1))
    assert later.take_over(former)
    for a, b in zip(later.command(s), former.command(s), strict=True):
        np.testing.assert_array_equal(a, b)


def test_integral_action_is_taken_over_and_reset():
    integral = np.array([0, 0, 1.0, 0, 0, 0, 1.0, 1.0])
    former, later = flight(integral=integral), flight(integral=2.0 * integral)
    former.set_target(np.eye(4), [0.3, 0.3])
    low = np.eye(4)
    low[2, 3] = -0.05
    for _ in range(5):
        former.step(low, np.zeros(2), np.zeros(6), np.zeros(2), dt=0.01)
    assert former._integral.output.any() and later.take_over(former)
    np.testing.assert_array_equal(later._integral.output, former._integral.output)
    later.reset()
    assert not later._integral.output.any()


def test_a_tool_of_another_link_is_not_taken_over():
    robot = satellite()
    former = vm.ReactionMode(robot, "tool")
    former.set_target(G)
    assert not vm.ReactionMode(robot, robot.link_names[3]).take_over(former)


def test_a_law_without_compensation_is_the_first_one_at_zero_momentum():
    robot = satellite()
    s = state_of(robot)
    plain = vm.MomentumCompensator(robot, 20.0, law=0)
    first = vm.MomentumCompensator(robot, 20.0, law=1)
    assert plain.needs == frozenset() and first.needs == {"locked_velocity"}
    expected = first.step(s.q, s.qd, np.zeros(6)).tau
    np.testing.assert_array_equal(plain.step(s.q, s.qd).tau, expected)
    np.testing.assert_array_equal(plain.step(s.q, s.qd, s.mu).tau, expected)
    heavy = hexacopter()[0]
    assert vm.MomentumCompensator(heavy, 1.0, law=0).needs == {"pose"}


def test_one_that_leans_follows_the_guidance_around_it():
    guided, plain, tilt = flight(guidance=TiltGuidance(EARTH)), flight(), TiltGuidance(EARTH)
    s, place = state_of(guided.robot), np.eye(4)
    place[:3, 3] = 0.5, -0.2, 0.1
    guided.set_target(place, s.q)
    lean = tilt.target(place, s.g, s.V)
    # where it leans to now, it accelerates to
    Vd = np.concatenate((lean[:3, :3].T @ tilt.acceleration(s.g), np.zeros(3)))
    plain.set_target(lean, s.q, Vd=Vd)
    expected = plain.step(s.g, s.q, s.V, s.qd)
    out = guided.step(s.g, s.q, s.V, s.qd)
    np.testing.assert_allclose(out.thrusts, expected.thrusts, rtol=1e-12)
    guided.hold(s)
    upright = guided.base_target.g
    np.testing.assert_allclose(upright[:3, 2], [0, 0, 1], atol=1e-12)
    np.testing.assert_array_equal(upright[:3, 3], s.g[:3, 3])


def test_base_and_joints_of_computed_torque_are_aimed_one_by_one():
    controller = flight()
    controller.set_target(G, [0.1, 0.2])
    controller.set_target(q=[0.3, 0.4], qd=[1.0, 1.0])
    np.testing.assert_array_equal(controller.base_target.g, G)
    controller.set_target(g=np.eye(4))
    np.testing.assert_array_equal(controller.joint_target.q, [0.3, 0.4])
    np.testing.assert_array_equal(controller.joint_target.qd, [1.0, 1.0])
    with pytest.raises(vm.ParameterError, match="V: got one without g"):
        controller.set_target(q=[0.0, 0.0], V=np.zeros(6))
    with pytest.raises(vm.ParameterError, match="qd: got one without q"):
        controller.set_target(g=np.eye(4), qd=[0.0, 0.0])


def test_a_tool_is_aimed_by_pose_or_as_the_task_has_it():
    robot = satellite()
    controller, s = vm.ReactionMode(robot, "tool", position_only=True), state_of(robot)
    controller.set_target(G[:3, 3])
    expected = controller.command(s).tau
    controller.set_target(tool=G)
    np.testing.assert_array_equal(controller.command(s).tau, expected)
    with pytest.raises(vm.ParameterError, match="tool: got one beside pose"):
        controller.set_target(G[:3, 3], tool=G)
    with pytest.raises(vm.VmDynamicsError):
        controller.set_target(tool=G[:3, 3])


def test_efforts_blend_part_by_part():
    tau, push = np.array([1.0, 2.0]), np.arange(6.0)
    plain, driven = vm.Efforts(tau), vm.Efforts(-tau, np.ones(4), push)
    half = plain.blended(driven, 0.5)
    assert half.sizes == ((2,), (4,), (6,)) and not half.tau.any()
    np.testing.assert_array_equal(half.thrusts, np.full(4, 0.5))
    assert plain.blended(plain, 0.3).sizes == ((2,), None, None)
    assert driven.blended(plain, 1.0).thrusts.tolist() == [0.0] * 4
    other = vm.Efforts(tau, np.ones(3), push)
    assert driven.blended(other, 0.1).thrusts.tolist() == [1.0] * 3


# -- a class of a user's own ----------------------------------------------------------------------

GOOD = """
import numpy as np
import vm_dynamics as vm

class Mine(vm.Controller):
    needs = frozenset()

    def __init__(self, robot, damping=1.0):
        self.damping = damping

    def set_target(self, q, qd=None, qdd=None):
        pass

    def reset(self):
        pass

    def command(self, state):
        return vm.Efforts(-self.damping * state.qd)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Writes a module with changes to the good one, and returns the import path of its class."""
    monkeypatch.syspath_prepend(tmp_path)
    count = [0]

    def write(*changes, add=""):
        code = GOOD
        for old, new in changes:
            assert old in code
            code = code.replace(old, new)
        count[0] += 1
        name = f"{tmp_path.name.replace('-', '_')}_{count[0]}"
        (tmp_path / f"{name}.py").write_text(code + add)
        return f"{name}:Mine"

    yield write
    for name in [n for n in sys.modules if n.startswith(tmp_path.name.replace("-", "_"))]:
        del sys.modules[name]


@pytest.mark.parametrize("mark", [":", "."])
def test_a_class_of_a_dozen_lines_is_a_controller(mine, mark):
    robot = satellite()
    made, efforts = imported_controller(mine().replace(":", mark), robot, {"damping": 2.0})
    assert made.damping == 2.0 and not efforts.tau.any()
    s = state_of(robot)
    np.testing.assert_array_equal(made.command(s).tau, -2.0 * s.qd)
    assert made.targets == {"joints"} and not made.take_over(made)
    assert made.gains.shape == (0,) and made.shaken(s.q, 0.01) == ""


def test_a_class_that_inherits_nothing_is_one_if_it_has_all(mine):
    rest = """
    targets, kernels, gains = frozenset({"joints"}), (), np.zeros(0)

    def hold(self, state):
        pass

    def take_over(self, former):
        return True

    def shaken(self, q, period):
        return ""
"""
    alone = ("(vm.Controller)", "")
    assert imported_controller(mine(alone, add=rest), satellite(), {})
    with pytest.raises(vm.ParameterError, match="lacks hold, take_over, shaken; a class that inh"):
        imported_controller(mine(alone), satellite(), {})


STEP = "return vm.Efforts(-self.damping * state.qd)"
REFUSED = {
    "no needs": (("    needs = frozenset()\n", ""), "lacks needs"),
    "no command": (("def command", "def demand"), "lacks command"),
    "no target": (("def set_target", "def aim"), "lacks set_target"),
    "no reset": (("def reset", "def forget"), "lacks reset"),
    "no such module": (("import numpy as np", "import no_such_module"), "no_such_module"),
    "a module that ends": (("import numpy as np", "raise SystemExit(3)"), "importing .* SystemEx"),
    "a syntax error": (("class Mine", "class class Mine"), "SyntaxError"),
    "another class": (("class Mine", "class Yours"), "has no class Mine"),
    "a constructor that raises": (
        ("self.damping = damping", "raise ValueError('negative gain')"),
        r"its constructor raised ValueError: negative gain \(.*, line 9\)",
    ),
    "unknown needs": (("frozenset()", "frozenset({'wind'})"), "needs: got .*wind.* expected"),
    "needs as a text": (("frozenset()", "'pose'"), "needs: got 'pose', expected a frozenset"),
    "unknown targets": (
        ("needs = frozenset()", "needs = frozenset(); targets = frozenset({'wheel'})"),
        "targets: got .*wheel",
    ),
    "a step that raises": ((STEP, "raise KeyError('K')"), r"a step at rest raised KeyError: 'K'"),
    "what it does not ask for": ((STEP, "return state.g[0]"), "a step at rest raised TypeError"),
    "NaN": ((STEP, "return vm.Efforts(np.nan * state.qd)"), "tau is not finite"),
    "a wrong size": ((STEP, "return vm.Efforts(state.qd[1:])"), r"\(6,\), expected \(7,\)"),
    "a matrix": ((STEP, "return vm.Efforts(np.eye(7))"), "expected a vector of floats"),
    "a list": ((STEP, "return vm.Efforts([0.0] * 7)"), "expected a vector of floats"),
    "an array": ((STEP, "return state.qd"), "got ndarray, expected vm.Efforts"),
    "nothing": ((STEP, "pass"), "got NoneType, expected vm.Efforts"),
    "half a wrench": (
        (STEP, "return vm.Efforts(state.qd, None, np.zeros(3))"),
        r"wrench has shape \(3,\), expected \(6,\)",
    ),
    "a tool nobody knows": (
        ("needs = frozenset()", "needs = frozenset(); targets = frozenset({'tool_pose'})"),
        "set_target|hold",
    ),
    "a target by other names": (("q, qd=None, qdd=None", "position"), "unexpected keyword"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_controller_is_refused_with_what_is_missing(mine, what):
    change, message = REFUSED[what]
    path = mine(change)
    with pytest.raises(vm.ParameterError, match=message) as error:
        imported_controller(path, satellite(), {})
    assert path in str(error.value)


def test_settings_that_its_constructor_does_not_have_are_refused(mine):
    with pytest.raises(vm.ParameterError, match="constructor .* unexpected keyword .*'speed'"):
        imported_controller(mine(), satellite(), {"speed": 1.0})


def test_a_module_that_is_not_there_is_named():
    with pytest.raises(vm.ParameterError, match="importing nowhere.at_all raised ModuleNotFound"):
        controller_class("nowhere.at_all:Controller")
    with pytest.raises(vm.ParameterError, match="expected package.module:Class"):
        controller_class("magic")


def test_what_an_import_path_looks_like():
    assert all(map(is_import_path, ("a:B", "a.B", "a.b.c:D", "a.b.C", "_a.b_1:C2")))
    assert not any(map(is_import_path, ("", "a", "a:", ":B", "a b:C", "a/b.py:C", "1a:B", "a::B")))


def test_the_example_carries_the_weight_and_pulls_to_its_target(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    robot = hexacopter()[0]
    made, _ = imported_controller("gravity_pd:GravityPd", robot, {"stiffness": [3.0, 5.0]})
    s = state_of(robot)
    made.hold(s)
    still = s._replace(qd=np.zeros(2))
    rest = np.zeros(6), np.zeros(2)
    _, weight = robot.inverse_dynamics(s.g, s.q, *rest, *rest)
    np.testing.assert_allclose(made.command(still).tau, weight, atol=1e-12)
    made.set_target(q=s.q + 0.1, qd=np.zeros(2), qdd=np.zeros(2))
    np.testing.assert_allclose(made.command(still).tau - weight, [0.3, 0.5], atol=1e-12)
    with pytest.raises(vm.ParameterError, match="constructor raised ValueError: a negative gain"):
        imported_controller("gravity_pd:GravityPd", robot, {"damping": -1.0})
