# SPDX-License-Identifier: Apache-2.0
"""Torques on real DDS when something goes wrong: a callback hangs, a stranger publishes, ..."""

import signal
import time
from pathlib import Path

import numpy as np
import pytest
from compensator_bench import ON, Q
from diagnostic_msgs.msg import DiagnosticStatus
from fake_driver import RATE as DRIVER_RATE
from geometry_msgs.msg import TwistStamped
from rcl_interfaces.srv import SetParameters
from rclpy.node import Node
from rclpy.parameter import Parameter
from ros_graph import Graph, joint_state
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_srvs.srv import SetBool, Trigger
from trajectory_msgs.msg import JointTrajectoryPoint

from vm_dynamics.ros.messages import to_stamp
from vm_dynamics.ros.node import COMMAND, SENSOR
from vm_dynamics.ros.watchdog import MAX_TIMEOUT, MIN_TIMEOUT

HERE = Path(__file__).resolve().parent
TIMEOUT = 0.1  # [s], of the node unless it is told otherwise
WARN, ERROR = DiagnosticStatus.WARN, DiagnosticStatus.ERROR


def torque(setup, **options):
    """Wait for torque."""
    setup.graph.until(
        lambda: setup.commands and setup.last().any(),
        "torque",
        each=lambda: setup.feed(**options),
    )


def condition(setup):
    """Level and message of the last diagnostics."""
    return setup.graph.diagnostics.get(setup.process.full_name, (b"", "", {}))[:2]


def timed(setup, seconds, each, settled=0.05):
    """Commands that come within some time: when, and the largest effort."""
    out = []
    setup.graph.spin(settled)
    setup.commands.clear()
    end = time.monotonic() + seconds
    due = time.monotonic()
    while time.monotonic() < end:
        if time.monotonic() >= due:
            each()
            due += 0.01
        setup.graph.executor.spin_once(timeout_sec=0.002)
        out += [(time.monotonic(), abs(np.array(c.data)).max()) for c in setup.commands]
        setup.commands.clear()
    return np.array(out)


def asked(setup, name, value, each=None):
    """Ask for a parameter, and do not wait for the answer."""
    service = f"{setup.process.full_name}/set_parameters"
    client = setup.graph.node.create_client(SetParameters, service)
    setup.graph.until(client.service_is_ready, "the service", each=each or setup.feed)
    message = Parameter(name, value=value).to_parameter_msg()
    return client.call_async(SetParameters.Request(parameters=[message]))


# -- the watchdog -------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["waiting", "computing"])
def test_zeros_come_in_time_although_a_callback_hangs(compensator, how):
    setup = compensator(ON, script=HERE / "blocking_node.py")
    took = []
    for _ in range(5):
        torque(setup)
        message = TwistStamped()
        message.header.frame_id = how
        start = time.monotonic()
        setup.velocities.publish(message)
        given = timed(setup, 0.8, setup.feed, settled=0.0)
        last = max([start, *given[given[:, 1] > 0.0, 0]])
        off = given[given[:, 0] > last]
        assert len(off) > 5, "zeros, again and again, until it hangs no more"
        took.append(off[0, 0] - last)
    print(f"zeros after {np.round(took, 3)} s")
    assert np.median(took) <= TIMEOUT + 0.05
    assert max(took) <= TIMEOUT + 0.2, "what a busy machine adds"


def test_a_torque_that_was_computed_while_it_hung_is_not_sent(compensator):
    setup = compensator({**ON, "resume": "enable"}, script=HERE / "blocking_node.py")
    torque(setup)
    message = TwistStamped()
    message.header.frame_id = "waiting"
    setup.velocities.publish(message)
    given = timed(setup, 2.0, setup.feed)
    last = given[given[:, 1] > 0.0][-1, 0] if given[:, 1].any() else given[0, 0]
    assert last < given[0, 0] + 0.5, "none after the zeros"
    assert condition(setup) == (ERROR, "torques zero: not enabled, stopped: joint states stopped")


def test_torques_go_on_while_a_service_takes_its_time(compensator):
    setup = compensator(ON, script=HERE / "blocking_node.py")
    torque(setup)
    setup.graph.send(Trigger, f"{setup.process.full_name}/hang", Trigger.Request())
    given = timed(setup, 0.8, setup.feed)
    assert given[:, 1].all(), "no zero among them"
    assert np.diff(given[:, 0]).max() < TIMEOUT


def test_a_timeout_that_cannot_be_kept_is_refused(compensator):
    setup = compensator({})
    for value in (0.0, 1e-3, 0.5 * MIN_TIMEOUT, 2.0 * MAX_TIMEOUT, 1e308, -1.0):
        fine, reason = setup.graph.set_parameter(setup.process, "timeout", value)
        assert not fine and "timeout" in reason, value


def test_a_timeout_shorter_than_two_periods_of_the_joint_states_is_refused(compensator):
    setup = compensator(ON)
    torque(setup)
    timed(setup, 2.5, setup.feed)  # at 100 Hz at most
    fine, reason = setup.graph.set_parameter(setup.process, "timeout", 0.012)
    assert not fine and "two periods of the joint states" in reason


@pytest.mark.slow
@pytest.mark.alone
def test_another_controller_is_compiled_while_the_torques_go_on(compensator, tmp_path):
    """With an empty cache, as after an update: several seconds of compilation."""
    setup = compensator({**ON, "law": 0}, environment={"NUMBA_CACHE_DIR": str(tmp_path)})
    setup.graph.until(
        lambda: setup.commands and setup.last().any(), "torque", patience=300.0, each=setup.feed
    )
    start = time.monotonic()
    future = asked(setup, "controller", "reaction")
    rows = []
    while not future.done():
        rows.append(timed(setup, 0.5, setup.feed))
        assert time.monotonic() < start + 120.0
    spent = time.monotonic() - start
    assert future.result().results[0].successful
    given = np.vstack([row for row in rows if len(row)])
    gaps = np.diff(given[:, 0])
    print(
        f"{spent:.1f} s of compilation, {len(given)} commands, longest pause {gaps.max():.3f} s, "
        f"{(given[:, 1] == 0.0).mean():.1%} zeros"
    )
    assert spent > 0.5, "nothing was compiled"
    assert gaps.max() <= TIMEOUT + 0.05, "torques or zeros, but no silence"
    torque(setup)


# -- after a stop -------------------------------------------------------------------------------


def pause(setup, seconds=0.4):
    """No joint states for a while, until zeros have come."""
    setup.graph.spin(seconds)
    setup.graph.until(lambda: not setup.last().any(), "zero")
    setup.commands.clear()


def test_after_a_stop_torques_wait_for_a_new_enable_unless_told_otherwise(compensator):
    setup = compensator({"diagnostics_rate": 10.0})
    graph, process = setup.graph, setup.process
    graph.until(lambda: graph.values(process).get("robot"), "the robot", each=setup.feed)
    assert setup.enable(True).success
    torque(setup)
    pause(setup)
    assert setup.only_zeros(1.0), "inputs are well again, torques are not"
    assert condition(setup) == (ERROR, "torques zero: not enabled, stopped: joint states stopped")
    assert graph.values(process)["enabled"] == "False"
    assert setup.enable(True).success
    torque(setup)


def test_after_a_stop_torques_rise_from_zero_if_asked_for(compensator):
    setup = compensator({**ON, "resume": "ramp"})
    torque(setup)
    full = abs(setup.last()).max()
    pause(setup)
    rows = []
    while not rows or rows[-1][-1, 1] < full - 1e-9:
        rows.append(timed(setup, 0.5, setup.feed))
        assert len(rows) < 40
    given = np.vstack(rows)
    # a busy machine may stop them once more
    given = given[1 + np.flatnonzero(given[:, 1] == 0.0)[-1] :]
    since = given[:, 0] - given[0, 0]
    assert given[0, 1] < 0.3 * full
    # by the wall's clock, between when it was computed and when it was heard
    assert (given[:, 1] <= full * np.clip(since + 0.3, 0.0, 1.0) + 1e-9).all()
    assert since[-1] > 0.6


def test_a_clock_that_begins_anew_stops_torques_that_need_no_estimate_too(compensator):
    setup = compensator({**ON, "law": 0, "use_sim_time": True, "resume": "enable"})
    clock = setup.graph.node.create_publisher(Clock, "/clock", 10)
    now = [50_000_000_000]

    def feed():
        now[0] += 10_000_000
        clock.publish(Clock(clock=to_stamp(now[0])))
        setup.joints.publish(joint_state(setup.robot, setup.q, setup.qd, stamp=to_stamp(now[0])))

    setup.graph.until(lambda: setup.commands and setup.last().any(), "torque", each=feed)
    now[0] = 1_000_000_000
    setup.graph.until(
        lambda: condition(setup)[1].endswith("stopped: the clock began anew"), "a stop", each=feed
    )


# -- strangers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["joint_states", "locked_velocity", "compensator_node/commands"])
def test_a_second_publisher_is_named_and_stops_the_torques(compensator, topic):
    setup = compensator(ON)
    torque(setup)
    stranger = Node("stranger", context=setup.graph.context)
    kinds = {"joint_states": JointState, "locked_velocity": TwistStamped}
    kind = kinds.get(topic, type(setup.commands[-1]))
    stranger.create_publisher(kind, topic, SENSOR if topic in kinds else COMMAND)
    try:
        setup.graph.until(
            lambda: "/stranger" in condition(setup)[1], "the stranger's name", each=setup.feed
        )
        level, message = condition(setup)
        assert level == ERROR
        assert f"{topic.removeprefix('compensator_node')} has more than one publisher" in message
        assert setup.only_zeros(0.3)
    finally:
        stranger.destroy_node()
    torque(setup)


def test_a_second_publisher_may_be_put_up_with(compensator):
    setup = compensator({**ON, "second_publisher": "warn"})
    torque(setup)
    stranger = Node("stranger", context=setup.graph.context)
    stranger.create_publisher(JointState, "joint_states", SENSOR)
    try:
        setup.graph.until(
            lambda: condition(setup)[0] == WARN and "/stranger" in condition(setup)[1],
            "a warning",
            each=setup.feed,
        )
        assert condition(setup)[1].startswith("torques on, but joint_states has more")
        torque(setup)
    finally:
        stranger.destroy_node()


def test_two_clocks_are_named_by_every_node(tmp_path):
    graph = Graph(tmp_path)
    try:
        first = graph.start("sim_node", parameters={"diagnostics_rate": 10.0})
        follower = graph.start(
            "dynamics_node", parameters={"use_sim_time": True, "diagnostics_rate": 10.0}
        )
        second = graph.start("sim_node", parameters={"diagnostics_rate": 10.0}, node="other_sim")

        def named(process, other):
            return other in graph.values(process).get("publishers of /clock", "")

        for process, other in (
            (first, "/other_sim"),
            (second, "/sim_node"),
            (follower, "/other_sim"),
        ):
            graph.until(lambda p=process, o=other: named(p, o), f"the other clock, {process.name}")
        level, message, _ = graph.diagnostics[first.full_name]
        assert level == WARN and "/clock has more than one publisher" in message
    finally:
        graph.close()


# -- targets ------------------------------------------------------------------------------------


def test_a_target_beyond_the_position_limits_is_refused(compensator):
    setup = compensator({**ON, "law": 0})
    torque(setup)
    holding = setup.last()
    wrong = Q.copy()
    wrong[1] = 3.0  # the URDF has 2

    def feed():
        setup.targets.publish(JointTrajectoryPoint(positions=wrong.tolist()))
        setup.feed()

    setup.graph.until(
        lambda: int(setup.graph.values(setup.process).get("count: bad target", 0)) > 3,
        "refusals",
        each=feed,
    )
    assert "joint2 got 3 at 0/s, expected -2 to 2" in setup.process.output
    assert setup.gives(holding), "torques as before"


def test_a_target_beyond_the_position_limits_is_clipped_if_asked_for(compensator):
    gains = {"gains.stiffness": 5.0, "gains.damping": 1.0}
    setup = compensator({**ON, **gains, "law": 0, "target_limits": "clip"})
    wrong = Q.copy()
    wrong[1] = 3.0
    at_limit = Q.copy()
    at_limit[1] = setup.robot.upper_limits[1]
    expected = -5.0 * (setup.q - at_limit) - setup.qd

    def feed():
        setup.targets.publish(JointTrajectoryPoint(positions=wrong.tolist()))
        setup.feed()

    setup.graph.until(lambda: setup.gives(expected), "torques to the limit", each=feed)
    assert "joint2 got 3" in setup.process.output and "clipped" in setup.process.output


def test_a_step_of_a_target_is_approached_at_the_velocity_limit(compensator):
    gains = {"gains.stiffness": 20.0, "gains.damping": 0.0}
    setup = compensator({**ON, **gains, "law": 0})
    setup.qd = np.zeros(7)
    setup.graph.until(lambda: setup.gives(np.zeros(7)), "zero torque, held", each=setup.feed)
    time.sleep(0.2)  # torques stop, for to begin anew with the next joint state
    target = setup.q.copy()
    target[0] += 0.5
    point = JointTrajectoryPoint(positions=target.tolist())
    given = timed(setup, 2.2, lambda: (setup.targets.publish(point), setup.feed()))
    t, tau = given[:, 0] - given[0, 0], given[:, 1]
    speed = setup.robot.velocity_limits[0]
    assert tau[-1] == pytest.approx(20.0 * 0.5), "arrived"
    assert (tau <= 20.0 * speed * (t + 0.15) + 1e-9).all(), "but not before it may"


# -- parameters while torques are on ------------------------------------------------------------


def test_limits_are_widened_only_while_torques_are_off(compensator):
    limits = {"effort_scale": 0.5, "acceleration_limit": 1.0}
    # joint states pause while a parameter is asked for: with `enable` torques would be off then
    setup = compensator({"diagnostics_rate": 10.0, "resume": "ramp", **limits})
    graph, process = setup.graph, setup.process
    graph.until(lambda: graph.values(process).get("robot"), "the robot", each=setup.feed)
    assert setup.enable(True).success
    torque(setup)
    wider = {
        "effort_scale": 0.6,
        "timeout": 0.5,
        "resume": "at_once",
        "second_publisher": "warn",
        "acceleration_limit": 2.0,
    }
    for name, value in wider.items():
        fine, reason = graph.set_parameter(process, name, value)
        assert not fine and name in reason and "~/enable" in reason
    torque(setup)
    assert graph.set_parameter(process, "effort_scale", 0.4) == (True, ""), "less is fine"
    setup.enable(False)
    for name, value in wider.items():
        assert graph.set_parameter(process, name, value) == (True, "")


def test_gains_that_would_shake_a_joint_are_refused_while_torques_are_on(compensator):
    setup = compensator(ON)
    torque(setup)
    timed(setup, 2.5, setup.feed)  # until the rate is known
    for name, value in (
        ("gains.stiffness", 5000.0),
        ("gains.damping", 2000.0),
        ("gains.stiffness_of", ["joint7=5000.0"]),
    ):
        fine, reason = setup.graph.set_parameter(setup.process, name, value)
        assert not fine and "would shake" in reason
    torque(setup)


def test_gains_change_smoothly(compensator):
    setup = compensator({**ON, "law": 0, "gains.stiffness": 4.0, "gains.damping": 0.0})
    setup.qd = np.zeros(7)
    target = setup.q + 0.05
    point = JointTrajectoryPoint(positions=target.tolist())

    def feed():
        setup.targets.publish(point)
        setup.feed()

    # of the first joint: light ones are kept from moving too fast
    setup.graph.until(
        lambda: setup.commands and setup.last()[0] == pytest.approx(0.2), "gains", each=feed
    )
    asked(setup, "gains.stiffness", 2.0, each=feed)
    given = timed(setup, 2.0, feed)
    tau = given[:, 1]
    assert 0.19 < tau[0] <= 0.2 + 1e-9 and tau[-1] == pytest.approx(0.1)
    assert (np.diff(tau) <= 1e-12).all(), "from one to the other"
    # in a second, so no step is larger than what the time between two samples makes it
    steps, gaps = -np.diff(tau), np.diff(given[:, 0])
    assert steps.max() < 0.25 * 0.1 and np.median(gaps) < 0.05


# -- a driver of its own ------------------------------------------------------------------------


def test_a_driver_with_a_watchdog_stops_when_the_compensator_cannot(compensator, tmp_path):
    """A process that is suspended sends no zeros, nor does one behind a dead link."""
    setup = compensator(
        {"law": 0, "diagnostics_rate": 10.0}, arguments=["-r", "~/commands:=commands"]
    )
    graph = setup.graph
    efforts = graph.collect(JointState, "joint_states", SENSOR)
    graph.node.destroy_publisher(setup.joints)
    graph.start(
        "fake_driver",
        script=HERE / "fake_driver.py",
        arguments=["--", "--joints", ",".join(setup.robot.joint_names)],
    )
    graph.until(lambda: efforts, "the driver")
    answer = graph.call(SetBool, "/compensator_node/enable", SetBool.Request(data=True))
    assert answer.success
    graph.until(lambda: any(efforts[-1].effort), "torque at the joints")
    setup.process.process.send_signal(signal.SIGSTOP)
    start = time.monotonic()
    graph.until(lambda: not any(efforts[-1].effort), "none any more")
    assert time.monotonic() - start < TIMEOUT + 0.5
    graph.spin(0.3)
    setup.process.process.send_signal(signal.SIGCONT)
    efforts.clear()
    graph.spin(0.5)
    # What was on its way when the process was suspended arrives now, with zeros right behind it.
    late = sum(any(m.effort) for m in efforts)
    assert late < 0.05 * DRIVER_RATE, "less than the driver's own watchdog would take"
    efforts.clear()
    graph.spin(0.5)
    assert efforts and not any(any(m.effort) for m in efforts), "nor by itself afterwards"
