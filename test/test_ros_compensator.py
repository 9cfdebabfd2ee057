# SPDX-License-Identifier: Apache-2.0
"""compensator_node as a process on real DDS: the library's torques, and zeros when in doubt."""

import signal
import time
from pathlib import Path

import numpy as np
import pytest
from cases import ROBOTS, text
from compensator_bench import MU, ON, QD, SAME, Q
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from lifecycle_msgs.msg import Transition
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters
from ros_graph import joint_state
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectoryPoint

import vm_dynamics as vm
from vm_dynamics.control import (
    ComputedTorque,
    MomentumCompensator,
    ReactionMode,
    critical_damping,
    free_inertias,
    soft_stiffness,
)
from vm_dynamics.ros.messages import fill_pose, fill_twist, to_stamp
from vm_dynamics.ros.node import COMMAND


@pytest.mark.parametrize("law", [1, 2])
def test_momentum_compensation_is_that_of_the_library(compensator, law):
    setup = compensator(
        {
            **ON,
            "law": law,
            "gains.stiffness": 30.0,
            "gains.stiffness_of": ["joint2=50.0"],
            "joints": [f"joint{i}" for i in (7, 6, 5, 4, 3, 2, 1)],
        }
    )
    stiffness = {name: 30.0 for name in setup.robot.joint_names} | {"joint2": 50.0}
    controller = MomentumCompensator(setup.robot, stiffness, law=law)
    target = Q + 0.05
    controller.set_target(target)
    expected = controller.step(setup.q, setup.qd, setup.mu).tau[::-1]
    point = JointTrajectoryPoint(positions=target[::-1].tolist())

    def feed():
        setup.targets.publish(point)
        setup.feed()

    setup.graph.until(lambda: setup.gives(expected), "the library's torques", each=feed)
    named = setup.graph.collect(JointState, "compensator_node/torques", COMMAND)
    setup.graph.until(lambda: named, "torques by name", each=feed)
    setup.graph.until(
        lambda: np.allclose(named[-1].effort, expected, atol=1e-9), "the same", each=feed
    )
    assert named[-1].name == [f"joint{i}" for i in (7, 6, 5, 4, 3, 2, 1)]


def test_a_plain_pd_law_needs_no_estimate_and_holds_where_it_began(compensator):
    setup = compensator({**ON, "law": 0})
    inertias = free_inertias(setup.robot)
    damping = critical_damping(soft_stiffness(inertias), inertias)
    expected = -damping * QD
    assert abs(expected).max() > 1e-3
    setup.graph.until(
        lambda: setup.gives(expected), "a PD law", each=lambda: setup.feed(velocity=False)
    )


def test_no_torque_until_enabled_and_none_after_disabling(compensator):
    setup = compensator({"diagnostics_rate": 10.0})
    setup.graph.until(
        lambda: setup.graph.values(setup.process).get("robot"), "the robot", each=setup.feed
    )
    assert setup.only_zeros(0.5), "not enabled"
    answer = setup.enable(True)
    assert answer.success and answer.message.startswith("enabled")
    setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=setup.feed)
    answer = setup.enable(False)
    assert answer.success and answer.message == "disabled: torques are zero"
    setup.graph.until(lambda: not setup.last().any(), "zero", each=setup.feed)
    assert setup.only_zeros(0.5), "disabled again"
    setup.graph.spin(0.3)  # no joint states any more
    answer = setup.enable(True)
    assert answer.success
    assert answer.message == "enabled, but torques stay zero for now: joint states are old"


def test_enabling_a_node_that_is_not_active_is_refused_and_not_remembered(compensator):
    setup = compensator({"diagnostics_rate": 10.0})
    assert setup.graph.transition(setup.process, Transition.TRANSITION_DEACTIVATE)
    answer = setup.enable(True)
    assert not answer.success and "inactive" in answer.message
    assert setup.graph.transition(setup.process, Transition.TRANSITION_ACTIVATE)
    setup.graph.until(
        lambda: setup.graph.values(setup.process).get("enabled") == "False",
        "that it is off",
        each=setup.feed,
    )
    assert setup.only_zeros(0.5)


def touch(setup, publisher, force):
    """Say that link6 is pushed, now."""
    message = WrenchStamped()
    message.header.stamp = setup.graph.node.get_clock().now().to_msg()
    message.header.frame_id = "link6"
    message.wrench.force.x = force
    publisher.publish(message)


def test_a_contact_holds_the_joints_where_they_are_and_refuses_targets(compensator):
    setup = compensator({**ON, "law": 0, "on_contact": "hold"})
    contacts = setup.graph.node.create_publisher(WrenchStamped, "contact", COMMAND)
    setup.qd = np.zeros(7)
    point = JointTrajectoryPoint(positions=(Q + 0.1).tolist())

    def aim():
        setup.targets.publish(point)
        setup.feed(velocity=False)

    def pushed():
        touch(setup, contacts, 5.0)
        aim()

    setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=aim)
    setup.graph.until(lambda: setup.gives(np.zeros(7)), "the joints held", each=pushed)
    setup.graph.until(
        lambda: "count: target in contact" in setup.graph.values(setup.process),
        "refused targets",
        each=pushed,
    )
    assert setup.gives(np.zeros(7)), "where they are, not where the target is"

    def let_go():
        touch(setup, contacts, 0.0)
        setup.feed(velocity=False)

    for _ in range(50):
        let_go()
        setup.graph.spin(0.01)
    assert setup.gives(np.zeros(7)), "nothing goes back to the former target by itself"
    setup.graph.until(lambda: setup.last().any(), "torque towards a new target", each=aim)


def test_a_contact_takes_the_torques_away_until_they_are_enabled_again(compensator):
    setup = compensator({**ON, "law": 0, "on_contact": "zero"})
    contacts = setup.graph.node.create_publisher(WrenchStamped, "contact", COMMAND)
    setup.graph.until(
        lambda: setup.commands and setup.last().any(),
        "torque",
        each=lambda: setup.feed(velocity=False),
    )

    def pushed():
        touch(setup, contacts, 5.0)
        setup.feed(velocity=False)

    setup.graph.until(lambda: not setup.last().any(), "zeros", each=pushed)
    touch(setup, contacts, 0.0)
    assert setup.only_zeros(0.5, velocity=False), "although it is over"
    setup.graph.until(
        lambda: "contact at link6" in setup.graph.diagnostics[setup.process.full_name][1],
        "the reason",
        each=lambda: setup.feed(velocity=False),
    )
    fine, reason = setup.graph.set_parameter(setup.process, "on_contact", "ignore")
    assert fine, reason
    assert setup.enable(True).success
    setup.graph.until(
        lambda: setup.last().any(), "torque", each=lambda: setup.feed(velocity=False)
    )
    fine, reason = setup.graph.set_parameter(setup.process, "on_contact", "zero")
    assert fine, "stricter"
    fine, reason = setup.graph.set_parameter(setup.process, "on_contact", "ignore")
    assert not fine and "disable the torques first" in reason


@pytest.mark.parametrize("interruption", ["disabled", "another controller"])
def test_a_target_of_before_is_forgotten(compensator, interruption):
    """An arm that was moved meanwhile, by hand or by another law, holds where it is."""
    setup = compensator({**ON, "law": 0, "tool_link": "tool"})
    graph, process = setup.graph, setup.process
    controller = MomentumCompensator(setup.robot, soft_stiffness(free_inertias(setup.robot)))
    target, moved, still = Q + 0.05, Q + 0.2, np.zeros(6)
    controller.set_target(target)
    toward = controller.step(Q, QD, still).tau
    controller.set_target(moved)
    holding = controller.step(moved, QD, still).tau
    point = JointTrajectoryPoint(positions=target.tolist())
    graph.until(
        lambda: setup.gives(toward),
        "torques to a target",
        each=lambda: (setup.targets.publish(point), setup.feed()),
    )
    if interruption == "disabled":
        assert setup.enable(False).success
        setup.q = moved
        assert setup.enable(True).success
    else:
        assert graph.set_parameter(process, "controller", "reaction") == (True, "")
        setup.q = moved
        assert graph.set_parameter(process, "controller", "momentum") == (True, "")
        graph.spin(0.3)  # without joint states torques stop, and begin anew where the arm is
    setup.commands.clear()
    graph.until(lambda: setup.gives(holding), "torques that hold", each=setup.feed)
    given = [np.array(c.data) for c in setup.commands if any(c.data)]
    assert all(np.allclose(tau, holding, rtol=0, atol=SAME) for tau in given), "and no others"


def zero_after(setup, **options):
    """Run well, then feed with something amiss until the torques are zero."""
    setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=setup.feed)
    start = time.monotonic()
    setup.graph.until(
        lambda: not setup.last().any(), f"zero with {options}", each=lambda: setup.feed(**options)
    )
    took = time.monotonic() - start
    assert not any(c.any() for c in setup.quiet(0.4, **options)), "and it stays zero"
    return took


def test_torques_stop_when_an_input_is_missing_or_old(compensator):
    setup = compensator(ON)
    for options in (
        dict(joints=False),
        dict(velocity=False),
        dict(age=200_000_000),
        dict(age=-5_000_000_000),  # a clock that nobody set: no age can be told
    ):
        # 0.1 s, and what a busy machine adds
        assert zero_after(setup, **options) < 1.0
    setup.graph.until(lambda: setup.last().any(), "torque again", each=setup.feed)


def test_zeros_come_on_deactivation_and_at_the_end(compensator):
    setup = compensator(ON)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if setup.process.process.poll() is not None:
            setup.commands.clear()
            setup.process = setup.graph.start("compensator_node", parameters=ON)
        setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=setup.feed)
        assert setup.graph.transition(setup.process, Transition.TRANSITION_DEACTIVATE)
        setup.graph.until(lambda: not setup.last().any(), "zero on deactivation")
        assert setup.quiet(0.3) == []
        assert setup.graph.transition(setup.process, Transition.TRANSITION_ACTIVATE)
        setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=setup.feed)
        setup.process.process.send_signal(number)
        setup.graph.until(lambda: not setup.last().any(), "zero at the end")
        assert setup.process.process.wait(30) == 0
        assert "Traceback" not in setup.process.output


def test_requests_that_make_no_sense_leave_torques_or_zeros_but_never_an_end(compensator):
    # joint states pause while requests are answered, which stops the torques
    setup = compensator({"diagnostics_rate": 10.0, "resume": "at_once"})
    graph, process = setup.graph, setup.process
    graph.until(lambda: graph.values(process).get("robot"), "the robot", each=setup.feed)
    assert setup.enable(True).success
    graph.until(lambda: setup.commands and setup.last().any(), "torque", each=setup.feed)
    assert not graph.transition(process, Transition.TRANSITION_CONFIGURE)
    setup.commands.clear()
    graph.until(lambda: setup.commands and setup.last().any(), "torque as before", each=setup.feed)
    # raises in rclpy, where nobody knows what was left half done
    unknown = Parameter(name="law", value=ParameterValue(type=99))
    request = SetParameters.Request(parameters=[unknown])
    graph.send(SetParameters, f"{process.full_name}/set_parameters", request)
    graph.until(lambda: not setup.last().any(), "zeros", each=setup.feed)
    assert setup.only_zeros(0.3)
    assert setup.enable(True).success
    graph.until(lambda: setup.commands and setup.last().any(), "torque again", each=setup.feed)


def test_efforts_never_leave_the_limits_of_the_urdf(compensator):
    setup = compensator({**ON, "gains.stiffness": 1e6, "effort_scale": 0.5})
    point = JointTrajectoryPoint(positions=(Q + 1.0).tolist())

    def feed():
        setup.targets.publish(point)
        setup.feed()

    limit = 0.5 * setup.robot.effort_limits
    # a limit of speed or position may ask for less
    setup.graph.until(
        lambda: setup.commands and (abs(setup.last()) >= limit - 1e-12).any(), "a limit", each=feed
    )
    assert all((abs(np.array(c.data)) <= limit + 1e-12).all() for c in setup.commands)


def test_bad_input_is_counted_and_never_makes_nan(compensator):
    setup = compensator(ON)
    setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=setup.feed)
    nan = float("nan")

    def twist(**changes):
        message = TwistStamped()
        message.header.stamp = setup.graph.now()
        message.header.frame_id = changes.pop("frame", setup.robot.root_link)
        fill_twist(message.twist, changes.pop("V", MU))
        setup.velocities.publish(message)

    good = joint_state(setup.robot, Q, QD)

    def joints(**changes):
        message = joint_state(setup.robot, Q, QD, stamp=setup.graph.now())
        for key, value in changes.items():
            setattr(message, key, value)
        setup.joints.publish(message)

    bad = {
        "bad locked_velocity": lambda: (twist(V=np.full(6, nan)), twist(frame="moon")),
        "bad target": lambda: [
            setup.targets.publish(JointTrajectoryPoint(positions=p)) for p in ([nan] * 7, [1.0])
        ],
        "missing joints": lambda: joints(name=["a"], position=[0.0], velocity=[0.0]),
        "duplicate names": lambda: joints(name=["joint1"] * 7),
        "lengths": lambda: joints(position=good.position[:3]),
        "not finite": lambda: joints(position=[nan] * 7),
        "no velocity": lambda: joints(velocity=[]),
    }
    for kind, send in bad.items():
        setup.graph.until(
            lambda k=kind: int(setup.graph.values(setup.process).get(f"count: {k}", 0)) > 0,
            f"count of {kind}",
            each=lambda s=send: (s(), setup.feed()),
        )
    assert all(np.isfinite(c.data).all() for c in setup.commands)
    setup.commands.clear()
    setup.graph.until(lambda: setup.commands and setup.last().any(), "all well", each=setup.feed)


def test_another_description_stops_the_torques_until_enabled_again(compensator):
    from std_msgs.msg import String

    setup = compensator({"diagnostics_rate": 10.0})
    setup.graph.until(
        lambda: setup.graph.values(setup.process).get("robot"), "the robot", each=setup.feed
    )
    setup.enable(True)
    setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=setup.feed)
    heavier = text("satellite_arm7").replace('mass value="276"', 'mass value="300"')
    setup.description.publish(String(data=heavier or text("satellite_arm7")))
    setup.description.publish(String(data=text("lwr_floating")))
    setup.graph.until(lambda: not setup.last().any(), "zero", each=setup.feed)
    assert setup.only_zeros(0.3)


def test_computed_torque_and_its_thrusts_are_those_of_the_library(compensator):
    propulsion_file = ROBOTS / "hexa_arm2.yaml"
    gains = {
        "gains.stiffness": 0.0,
        "gains.damping": 0.0,
        "gains.stiffness_of": ["z=30", "roll=40", "pitch=40", "yaw=30", "joint1=60", "joint2=120"],
        "gains.damping_of": ["z=10", "roll=5", "pitch=5", "yaw=4", "joint1=24", "joint2=24"],
        "lean": False,
    }
    gravity = (0.0, 0.0, -9.81)
    setup = compensator(
        {
            **ON,
            **gains,
            "controller": "computed_torque",
            "gravity": list(gravity),
            "propulsion": str(propulsion_file),
        },
        robot="hexa_arm2",
        gravity=gravity,
    )
    robot = setup.robot
    controller = ComputedTorque(
        robot,
        vm.Propulsion.load(robot, propulsion_file),
        stiffness=[0, 0, 30, 40, 40, 30, 60, 120],
        damping=[0, 0, 10, 5, 5, 4, 24, 24],
    )
    aim = vm.lie.SE3.exp([0.1, 0.2, 0.4, 0, 0, 0.3])
    controller.set_target(aim, [0.4, 0.5])
    expected = controller.step(setup.g, setup.q, setup.V, setup.qd)
    pose = PoseStamped()
    fill_pose(pose.pose, aim)
    thrusts = setup.graph.collect(Float64MultiArray, "compensator_node/thrusts", COMMAND)

    def feed():
        setup.aims["base_target"].publish(pose)
        setup.targets.publish(JointTrajectoryPoint(positions=[0.4, 0.5]))
        setup.feed()

    setup.graph.until(lambda: setup.gives(expected.tau), "joint torques", each=feed)
    setup.graph.until(
        lambda: thrusts and np.allclose(thrusts[-1].data, expected.thrusts, atol=1e-6),
        "thrusts",
        each=feed,
    )
    setup.graph.until(lambda: not np.any(thrusts[-1].data), "no thrust without inputs")


def test_the_reaction_mode_is_that_of_the_library_and_joints_may_fail(compensator):
    setup = compensator({**ON, "controller": "reaction", "tool_link": "tool"})
    robot = setup.robot
    controller = ReactionMode(robot, "tool", position_only=True)
    tool = setup.g @ robot.link_pose(setup.q, "tool")
    tool[:3, 3] += 0.05
    controller.set_target(tool[:3, 3])
    pose = PoseStamped()
    fill_pose(pose.pose, tool)

    def feed():
        setup.aims["tool_target"].publish(pose)
        setup.feed()

    expected = controller.step(setup.g, setup.q, setup.V, setup.qd).tau
    setup.graph.until(lambda: setup.gives(expected), "torques", each=feed)
    assert setup.graph.set_parameter(setup.process, "failed_joints", ["joint3"])[0]
    controller.failed = ("joint3",)
    without = controller.step(setup.g, setup.q, setup.V, setup.qd).tau
    assert without[2] == 0.0
    setup.graph.until(lambda: setup.gives(without), "torques without joint3", each=feed)
    fine, reason = setup.graph.set_parameter(setup.process, "failed_joints", ["elbow"])
    assert not fine and "elbow" in reason


def test_a_target_pose_in_another_frame_than_the_base_is_refused(compensator):
    setup = compensator({**ON, "controller": "reaction", "tool_link": "tool"})
    graph, process = setup.graph, setup.process
    setup.world = "world"
    pose = PoseStamped()
    fill_pose(pose.pose, setup.g @ setup.robot.link_pose(setup.q + 0.1, "tool"))

    def feed():
        setup.aims["tool_target"].publish(pose)
        setup.feed()

    pose.header.frame_id = "map"
    graph.until(
        lambda: int(graph.values(process).get("count: bad target pose", 0)) > 3,
        "refusals",
        each=feed,
    )
    assert "is in frame 'map', odom in 'world'" in process.output
    holding = ReactionMode(setup.robot, "tool", position_only=True)
    holding.set_target((setup.g @ setup.robot.link_pose(setup.q, "tool"))[:3, 3])
    tau = holding.step(setup.g, setup.q, setup.V, setup.qd).tau
    graph.until(lambda: setup.gives(tau), "torques that hold the tool", each=feed)
    pose.header.frame_id = "world"
    holding.set_target((setup.g @ setup.robot.link_pose(setup.q + 0.1, "tool"))[:3, 3])
    tau = holding.step(setup.g, setup.q, setup.V, setup.qd).tau
    graph.until(lambda: setup.gives(tau), "torques to the target", each=feed)
    pose.header.frame_id = "map"
    setup.commands.clear()
    graph.until(lambda: len(setup.commands) > 10 and setup.gives(tau), "the same", each=feed)


def test_wrong_parameters_are_refused_with_their_reason(compensator):
    setup = compensator(ON)
    setup.graph.until(
        lambda: setup.graph.values(setup.process).get("robot"), "the robot", each=setup.feed
    )
    for name, value, message in (
        ("law", 3, "law"),
        ("gains.stiffness_of", ["joint1=-1.0"], "negative"),
        ("gains.stiffness_of", ["elbow=1.0"], "elbow"),
        ("gains.damping_of", ["joint1:1.0"], "name=value"),
        ("controller", "magic", "magic"),
        ("controller", "computed_torque", "propulsion"),
    ):
        fine, reason = setup.graph.set_parameter(setup.process, name, value)
        assert not fine and message in reason, (name, reason)
    assert setup.graph.set_parameter(setup.process, "gains.stiffness", 1.0) == (True, "")


@pytest.mark.slow
def test_gains_that_the_rate_of_the_joints_does_not_bear_are_reported(compensator):
    setup = compensator({**ON, "gains.damping_of": ["joint7=200.0"]})
    said = "torques on, gains may shake joint7 at "

    def condition():
        return setup.graph.diagnostics.get(setup.process.full_name, (b"", "", {}))[1]

    setup.graph.until(lambda: condition().startswith(said), "a warning", each=setup.feed)
    assert "gains may shake joint7 at" in setup.process.output
    # low enough for a machine that gives joint states at 50 Hz only
    assert setup.graph.set_parameter(setup.process, "gains.stiffness", 1.0)[0]
    assert setup.graph.set_parameter(setup.process, "gains.damping_of", ["joint7=0.1"])[0]
    setup.graph.until(lambda: condition() == "torques on", "no warning", each=setup.feed)
    end = time.monotonic() + 2.0  # of joint states, which are looked at anew
    setup.graph.until(lambda: time.monotonic() > end, each=setup.feed)
    assert "gains" not in setup.graph.values(setup.process)


def test_a_killed_compensator_starts_again_without_torque_until_enabled(compensator):
    setup = compensator(ON)
    setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=setup.feed)
    assert setup.process.stop(signal.SIGKILL) == -signal.SIGKILL
    setup.commands.clear()
    setup.graph.diagnostics.clear()
    setup.process = setup.graph.start("compensator_node", parameters={"diagnostics_rate": 10.0})
    setup.graph.until(
        lambda: setup.graph.values(setup.process).get("robot"), "the robot", each=setup.feed
    )
    assert setup.only_zeros(0.3)
    assert setup.enable(True).success
    # the one that was killed counts as a second source of commands until DDS forgets it
    setup.graph.until(
        lambda: setup.commands and setup.last().any(), "torque", patience=60.0, each=setup.feed
    )


def test_simulated_time_is_obeyed(compensator):
    setup = compensator({**ON, "use_sim_time": True})
    clock = setup.graph.node.create_publisher(Clock, "/clock", 10)
    now = [5_000_000_000]

    def feed():
        """A state of simulated time, which says nothing of the time of the day."""
        now[0] += 10_000_000
        stamp = to_stamp(now[0])
        clock.publish(Clock(clock=stamp))
        velocity = TwistStamped()
        velocity.header.stamp = stamp
        fill_twist(velocity.twist, setup.mu)
        setup.velocities.publish(velocity)
        setup.joints.publish(joint_state(setup.robot, setup.q, setup.qd, stamp=stamp))

    setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=feed)
    setup.graph.spin(0.5)
    assert not setup.last().any(), "zero when the simulation stands still"


def resident(process):
    """Resident memory of a process [MB]."""
    lines = Path(f"/proc/{process.process.pid}/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024.0


@pytest.mark.slow
@pytest.mark.alone
def test_a_minute_of_joint_states_at_1_khz_is_followed_without_loss_or_growth(compensator):
    setup = compensator(ON)
    setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=setup.feed)
    setup.graph.spin(0.5)
    values = setup.graph.values(setup.process)
    before, rate, seconds, memory = int(values["cycles"]), 1000, 60, []
    start = time.perf_counter()
    for k in range(rate * seconds):
        while time.perf_counter() < start + k / rate:
            setup.graph.executor.spin_once(timeout_sec=0.0)
        setup.feed(odom=False, velocity=k % 20 == 0)
        if k % (10 * rate) == 5 * rate:
            memory.append(resident(setup.process))
        setup.commands.clear()
    wanted = before + rate * seconds
    setup.graph.until(
        lambda: int(setup.graph.values(setup.process)["cycles"]) >= wanted, "every cycle"
    )
    print(f"memory {memory} MB, {setup.graph.values(setup.process)}")
    assert memory[-1] - memory[1] < 2.0, "MB in forty seconds"
    assert memory[-1] < 300.0


def test_integral_action_grows_with_time_and_is_forgotten_when_disabled(compensator):
    setup = compensator(
        {**ON, "law": 0, "gains.stiffness": 4.0, "gains.damping": 0.0, "gains.integral_time": 1.0}
    )
    setup.qd = np.zeros(7)
    point = JointTrajectoryPoint(positions=(setup.q + 0.05).tolist())

    def feed():
        setup.targets.publish(point)
        setup.feed()

    setup.graph.until(lambda: setup.commands and setup.last()[0] > 0.22, "integral", each=feed)
    assert setup.enable(False).success
    setup.graph.until(lambda: setup.last()[0] == 0.0, "zeros", each=setup.feed)
    assert setup.enable(True).success
    setup.graph.until(lambda: setup.last()[0] != 0.0, "torques", each=feed)
    assert setup.last()[0] < 0.21
