# SPDX-License-Identifier: Apache-2.0
"""A controller of a user's own in compensator_node, as a process on real DDS."""

import os
from pathlib import Path

import numpy as np
import pytest
from compensator_bench import ON, QD
from geometry_msgs.msg import PoseStamped, WrenchStamped
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectoryPoint

import vm_dynamics as vm
from vm_dynamics.ros.messages import fill_pose
from vm_dynamics.ros.node import COMMAND

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
EXAMPLE = "gravity_pd:GravityPd"
EARTH = (0.0, 0.0, -9.81)

OWN = '''
import numpy as np
import vm_dynamics as vm

class Damper(vm.Controller):
    """Brakes; beyond a speed of the first joint it goes wrong in a way that can be chosen."""

    needs = frozenset()

    def __init__(self, robot, damping=1.0, wrong="", beyond=1.0):
        if damping < 0.0:
            raise ValueError("negative damping")
        self.damping, self.wrong, self.beyond = damping, wrong, beyond

    def set_target(self, q, qd, qdd):
        pass

    def reset(self):
        pass

    def command(self, state):
        tau = -self.damping * state.qd
        if abs(state.qd[0]) > self.beyond:
            if self.wrong == "raises":
                raise RuntimeError("too fast")
            tau = {"nan": np.nan * tau, "short": tau[1:], "list": tau.tolist()}[self.wrong]
        return vm.Efforts(tau)


class Puller(vm.Controller):
    """Pulls the base to its target like a spring, by a wrench along the world's axes."""

    needs, targets = frozenset({"pose"}), frozenset({"base_pose"})

    def __init__(self, robot):
        self.n = robot.n

    def set_target(self, g):
        self.g = g

    def reset(self):
        self.g = None

    def command(self, state):
        pull = state.g[:3, :3].T @ (self.g[:3, 3] - state.g[:3, 3])
        return vm.Efforts(np.zeros(self.n), None, np.append(pull, np.zeros(3)))


class Broken(vm.Controller):
    needs = frozenset()

    def set_target(self, q, qd, qdd):
        pass


class Nan(Damper):
    def command(self, state):
        return vm.Efforts(np.nan * state.qd)
'''


@pytest.fixture
def own(compensator, tmp_path):
    """Starts a node that finds the examples and some controllers of our own."""
    (tmp_path / "own_controllers.py").write_text(OWN)
    (tmp_path / "broken_module.py").write_text("import nothing_of_that_name\n")
    paths = [str(EXAMPLES), str(tmp_path), os.environ.get("PYTHONPATH", "")]

    def start(parameters, **options):
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        return compensator({**ON, **parameters}, environment=environment, **options)

    return start


@pytest.mark.parametrize("path", [EXAMPLE, EXAMPLE.replace(":", ".")])
def test_the_torques_of_the_example_are_those_of_its_class(own, path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    from gravity_pd import GravityPd

    settings = ["stiffness=[3.0, 5.0]", "damping=0.5"]
    setup = own(
        {"controller": path, "controller_settings": settings, "gravity": list(EARTH)},
        robot="hexa_arm2",
        gravity=EARTH,
    )
    controller = GravityPd(setup.robot, [3.0, 5.0], 0.5)
    target = setup.q + 0.05
    controller.set_target(target)
    state = vm.ControlState(setup.q, setup.qd, g=setup.g)
    expected = controller.command(state).tau
    point = JointTrajectoryPoint(positions=target.tolist())

    def feed():
        setup.targets.publish(point)
        setup.feed(velocity=False)

    setup.graph.until(lambda: setup.gives(expected), "the torques of the class", each=feed)
    answer = setup.graph.set_parameter(setup.process, "controller_settings", ["stiffness=1.0"])
    assert answer == (True, "")
    softer = GravityPd(setup.robot, 1.0)
    softer.set_target(target)
    expected = softer.command(state).tau
    setup.graph.until(lambda: setup.gives(expected), "those of other settings", each=feed)
    setup.graph.until(
        lambda: not setup.last().any(),
        "zeros without a pose",
        each=lambda: setup.feed(velocity=False, odom=False),
    )


def test_what_is_no_controller_is_refused_and_the_old_one_goes_on(own):
    setup = own({"law": 0, "gains.stiffness": 1.0, "gains.damping": 0.5})
    graph, process, expected = setup.graph, setup.process, -0.5 * QD
    graph.until(lambda: setup.gives(expected), "torques", each=setup.feed)
    for path, message in (
        ("nowhere:Controller", "importing nowhere raised ModuleNotFoundError"),
        ("broken_module:Controller", "No module named 'nothing_of_that_name' (broken_module.py"),
        ("own_controllers:Missing", "the module has no class Missing"),
        ("own_controllers:Broken", "own_controllers:Broken lacks command, reset"),
        ("own_controllers:Nan", "tau is not finite"),
        ("magic", "expected one of momentum, computed_torque, reaction, or package.module:Class"),
    ):
        fine, reason = graph.set_parameter(process, "controller", path)
        assert not fine and message in reason, reason
    assert graph.set_parameter(process, "controller_settings", ["damping=-1"]) == (True, "")
    fine, reason = graph.set_parameter(process, "controller", "own_controllers:Damper")
    assert not fine and "its constructor raised ValueError: negative damping" in reason
    assert graph.get_parameter(process, "controller") == "momentum"
    fine, reason = graph.set_parameter(process, "controller_settings", ["damping"])
    assert fine, "not looked at by another controller"
    fine, reason = graph.set_parameter(process, "controller", "own_controllers:Damper")
    assert not fine and "got 'damping', expected name=value" in reason
    setup.commands.clear()
    graph.until(lambda: setup.commands and setup.gives(expected), "the same", each=setup.feed)


def changed(setup, name, value):
    """Set a parameter while joint states go on, without which there is nothing to fade."""
    service = f"{setup.process.full_name}/set_parameters"
    client = setup.graph.node.create_client(SetParameters, service)
    setup.graph.until(client.service_is_ready, "the service", each=setup.feed)
    message = Parameter(name, value=value).to_parameter_msg()
    future = client.call_async(SetParameters.Request(parameters=[message]))
    setup.graph.until(future.done, "an answer", each=setup.feed)
    return future.result().results[0].successful


def test_torques_pass_from_one_to_another_smoothly_and_within_limits(own):
    setup = own({"law": 0, "gains.stiffness": 1.0, "gains.damping": 0.5, "effort_scale": 0.01})
    graph, process = setup.graph, setup.process
    graph.until(lambda: setup.gives(-0.5 * QD), "torques", each=setup.feed)
    graph.set_parameter(process, "controller_settings", ["damping=1e4"])
    setup.commands.clear()
    assert changed(setup, "controller", "own_controllers:Damper")
    limit = 0.01 * setup.robot.effort_limits
    full = np.clip(-1e4 * QD, -limit, limit)
    graph.until(lambda: setup.gives(full), "its torques, cut off", each=setup.feed)
    given = np.array([c.data for c in setup.commands])
    assert (abs(given) <= limit + 1e-12).all()
    assert changed(setup, "controller_settings", ["damping=1.0"])
    graph.until(lambda: setup.gives(-QD), "its own, small ones", each=setup.feed)
    setup.commands.clear()
    assert changed(setup, "controller_settings", ["damping=0.5"])
    graph.until(lambda: setup.gives(-0.5 * QD), "less, in a second", each=setup.feed)
    largest = np.array([abs(np.array(c.data)).max() for c in setup.commands])
    between = (largest > 0.51 * QD.max()) & (largest < 0.99 * QD.max())
    assert between.sum() > 3, "on the way"


@pytest.mark.parametrize("wrong", ["raises", "nan", "short", "list"])
def test_one_that_goes_wrong_later_gives_zeros(own, wrong):
    settings = [f"wrong={wrong}", "beyond=0.5"]
    setup = own({"controller": "own_controllers:Damper", "controller_settings": settings})
    setup.graph.until(lambda: setup.gives(-QD), "torques", each=setup.feed)
    setup.qd = QD + 1.0
    setup.graph.until(lambda: not setup.last().any(), "zeros", each=setup.feed)
    assert setup.only_zeros(0.3)
    assert all(np.isfinite(c.data).all() for c in setup.commands)
    setup.qd = QD
    setup.graph.until(lambda: setup.gives(-QD), "torques again", each=setup.feed)


def test_a_wrench_on_the_base_is_sent_held_and_ends_with_zeros(own):
    setup = own({"controller": "own_controllers:Puller"})
    graph = setup.graph
    wrenches = graph.collect(WrenchStamped, "compensator_node/base_wrench", COMMAND)
    thrusts = graph.collect(Float64MultiArray, "compensator_node/thrusts", COMMAND)
    aim = PoseStamped()
    place = setup.g.copy()
    place[:3, 3] += 0.5
    fill_pose(aim.pose, place)

    def force():
        f = wrenches[-1].wrench.force
        return np.array([f.x, f.y, f.z])

    graph.until(lambda: len(wrenches) > 10, "wrenches", each=setup.feed)
    assert abs(force()).max() < 1e-9, "without a target it holds"
    expected = setup.g[:3, :3].T @ np.full(3, 0.5)
    graph.until(
        lambda: np.allclose(force(), expected, atol=1e-6),
        "a pull",
        each=lambda: (setup.aims["base_target"].publish(aim), setup.feed()),
    )
    graph.until(lambda: not force().any(), "zeros without inputs")
    assert not thrusts


# -- what holds when a target is taken away -------------------------------------------------------


def holding(setup, link):
    """Torques of the reaction mode that hold a link where it is."""
    controller = vm.ReactionMode(setup.robot, link, position_only=True)
    state = vm.ControlState(setup.q, setup.qd, g=setup.g, V=setup.V)
    controller.hold(state)
    return controller.command(state).tau


def aimed(setup):
    """Feed with a target of the tool that is some way off."""
    pose = PoseStamped()
    pose.header.frame_id = setup.world
    fill_pose(pose.pose, setup.g @ setup.robot.link_pose(setup.q + 0.1, "tool"))
    setup.aims["tool_target"].publish(pose)
    setup.feed()


def test_a_target_in_the_frame_that_odom_had_before_is_forgotten(compensator):
    setup = compensator({**ON, "controller": "reaction", "tool_link": "tool"})
    setup.world, held = "world", holding(setup, "tool")
    setup.graph.until(
        lambda: setup.commands and setup.last().any() and not setup.gives(held),
        "torques to a target",
        each=lambda: aimed(setup),
    )
    setup.world = "map"
    setup.graph.until(lambda: setup.gives(held), "torques that hold", each=setup.feed)
    assert "is in frame 'world', odom in 'map'" in setup.process.output


def test_another_tool_holds_where_it_is(compensator):
    setup = compensator({**ON, "controller": "reaction", "tool_link": "tool"})
    graph, other = setup.graph, setup.robot.link_names[4]
    graph.until(lambda: setup.gives(holding(setup, "tool")), "torques", each=setup.feed)
    assert graph.set_parameter(setup.process, "tool_link", other) == (True, "")
    graph.until(lambda: setup.gives(holding(setup, other)), "those of the other", each=setup.feed)
