# SPDX-License-Identifier: Apache-2.0
"""How far a compensator believes an estimate of the base, and what it does in doubt."""

import numpy as np
import pytest
from cases import ROBOTS
from compensator_bench import ON, Q
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import TwistWithCovarianceStamped
from std_msgs.msg import String
from trajectory_msgs.msg import JointTrajectoryPoint

from vm_dynamics.control import ComputedTorque, MomentumCompensator
from vm_dynamics.ros.node import LATCHED, SENSOR
from vm_dynamics.ros.trust import FADE_TIME, Trust


def told(setup):
    """Level and message of the node's last diagnostics."""
    return setup.graph.diagnostics.get(setup.process.full_name, (b"", "", {}))[:2]


def test_trust_fades_while_in_doubt_and_comes_back():
    trust = Trust()
    assert trust.doubts(0.1) == "" and trust.step(False, 0.01) == 1.0
    trust.hear_state("inconsistent")
    assert "inconsistent" in trust.doubts(0.1)
    shares = [trust.step(True, 0.1 * FADE_TIME) for _ in range(20)]
    assert max(-np.diff(shares)) < 0.11 and shares[-1] == 0.0
    trust.hear_state("tracking")
    assert trust.doubts(0.1) == ""
    shares = [trust.step(False, 0.1 * FADE_TIME) for _ in range(20)]
    assert max(np.diff(shares)) < 0.11 and shares[-1] == 1.0


def test_a_covariance_beyond_the_limit_is_a_doubt():
    trust = Trust()
    trust.hear_covariance(np.diag([1e-4, 1e-4, 1e-4, 1e-4, 0.04, 1e-4]))
    assert "0.2" in trust.doubts(0.1) and trust.doubts(0.3) == ""
    trust.forget()
    assert trust.doubts(0.1) == ""


@pytest.mark.parametrize("doubt", ["state", "covariance"])
def test_the_compensation_fades_to_a_pd_law_and_back(compensator, doubt):
    setup = compensator({**ON, "gains.stiffness": 30.0})
    expected = {}
    for law in (0, 2):
        controller = MomentumCompensator(setup.robot, 30.0, law=law)
        controller.set_target(Q + 0.05)
        expected[law] = controller.step(setup.q, setup.qd, setup.mu if law else None).tau
    point = JointTrajectoryPoint(positions=(Q + 0.05).tolist())
    states = setup.graph.node.create_publisher(String, "estimate_state", LATCHED)
    wide = setup.graph.node.create_publisher(
        TwistWithCovarianceStamped, "locked_velocity_with_covariance", SENSOR
    )

    def say(is_doubtful):
        if doubt == "state":
            states.publish(String(data="inconsistent" if is_doubtful else "tracking"))
            return lambda: None
        message = TwistWithCovarianceStamped()
        message.twist.covariance = (np.eye(6) * (1.0 if is_doubtful else 1e-6)).ravel()
        return lambda: wide.publish(message)

    repeat = say(False)

    def feed():
        repeat()
        setup.targets.publish(point)
        setup.feed()

    setup.graph.until(lambda: setup.gives(expected[2]), "compensation", each=feed)
    repeat = say(True)
    setup.commands.clear()
    setup.graph.until(lambda: setup.gives(expected[0]), "a plain PD law", each=feed)
    jumps = abs(np.diff([c.data for c in setup.commands], axis=0)).max()
    assert jumps < 0.5 * abs(expected[2] - expected[0]).max()  # a fade, not a switch
    setup.graph.until(lambda: "compensation 0 %" in told(setup)[1], "a warning", each=feed)
    assert told(setup)[0] == DiagnosticStatus.WARN
    repeat = say(False)
    setup.graph.until(lambda: setup.gives(expected[2]), "compensation again", each=feed)


def test_a_base_that_is_flown_by_a_doubtful_estimate_is_an_error(compensator):
    setup = compensator(
        {
            **ON,
            "controller": "computed_torque",
            "gravity": [0.0, 0.0, -9.81],
            "propulsion": str(ROBOTS / "hexa_arm2.yaml"),
        },
        robot="hexa_arm2",
        gravity=(0.0, 0.0, -9.81),
    )
    assert not ComputedTorque.compensates
    states = setup.graph.node.create_publisher(String, "estimate_state", LATCHED)
    states.publish(String(data="inconsistent"))
    setup.graph.until(lambda: "by that estimate" in told(setup)[1], "an error", each=setup.feed)
    assert told(setup)[0] == DiagnosticStatus.ERROR


def test_to_ignore_doubts_needs_torques_off(compensator):
    setup = compensator({**ON})
    setup.graph.until(lambda: setup.commands, "torques", each=setup.feed)
    for name, value in (("on_inconsistent", "ignore"), ("max_deviation", 5.0)):
        is_done, reason = setup.graph.set_parameter(setup.process, name, value)
        assert not is_done and "wider" in reason
