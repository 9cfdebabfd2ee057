# SPDX-License-Identifier: Apache-2.0
"""What all nodes do alike, as processes: parameters, diagnostics of their state, a clean end."""

import signal
import time
from dataclasses import fields

import pytest
from cases import text
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from rcl_interfaces.msg import ParameterType
from rcl_interfaces.srv import GetParameters, ListParameters
from ros_graph import Graph
from rosgraph_msgs.msg import Clock

from vm_dynamics.ros import reference
from vm_dynamics.ros.messages import nanoseconds

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
OFF = {"autostart": False, "diagnostics_rate": 10.0}


@pytest.fixture
def graph(tmp_path):
    out = Graph(tmp_path)
    yield out
    out.close()


@pytest.mark.parametrize("name", sorted(reference.NODES))
def test_every_parameter_has_a_value(graph, name):
    """``ros2 param dump`` fails as a whole where one has none."""
    process = graph.start(name, parameters=OFF)
    names = graph.call(
        ListParameters, f"{process.full_name}/list_parameters", ListParameters.Request()
    ).result.names
    kind = reference.NODES[name]
    assert {kind.ros_name(field.name) for field in fields(kind)} <= set(names)
    values = graph.call(
        GetParameters, f"{process.full_name}/get_parameters", GetParameters.Request(names=names)
    ).values
    assert len(values) == len(names)
    unset = ParameterType.PARAMETER_NOT_SET
    assert [n for n, value in zip(names, values, strict=True) if value.type == unset] == []


def test_a_node_is_well_only_while_it_works(graph):
    process = graph.start("dynamics_node", parameters=OFF)
    graph.describe(text("satellite_arm7"))

    def level():
        return graph.diagnostics.get(process.full_name, (b"", "", {}))[:2]

    graph.until(lambda: level() == (WARN, "unconfigured"), "a warning")
    assert graph.transition(process, Transition.TRANSITION_CONFIGURE)
    graph.until(lambda: level() == (WARN, "inactive"), "a warning")
    assert graph.transition(process, Transition.TRANSITION_ACTIVATE)
    graph.until(lambda: level() == (WARN, "no joint_states"), "a warning of no input")
    assert graph.transition(process, Transition.TRANSITION_ACTIVE_SHUTDOWN)
    graph.until(lambda: level() == (ERROR, "finalized"), "an error")


def test_reports_of_a_simulation_have_simulated_time(graph):
    process = graph.start("sim_node", parameters={"diagnostics_rate": 10.0})
    clock = graph.collect(Clock, "/clock", 10)
    reports = graph.collect(DiagnosticArray, "/diagnostics", 10)
    graph.until(lambda: clock and len(reports) > 5, "reports")
    stamp = 1e-9 * nanoseconds(reports[-1].header.stamp)
    now = 1e-9 * nanoseconds(clock[-1].clock)
    assert reports[-1].status[0].name == process.full_name
    assert 0.0 < stamp <= now + 0.1 and now - stamp < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dynamics_node", "compensator_node", "sim_node"])
def test_signals_that_come_while_it_ends_change_nothing(graph, name):
    """``ros2 launch`` and the terminal both send a SIGINT, and launch another one later."""
    for _ in range(3):
        process = graph.start(name, parameters={"diagnostics_rate": 10.0})
        graph.until(lambda p=process: "active" in p.output, "the node")
        end = time.monotonic() + 30.0
        while process.process.poll() is None and time.monotonic() < end:
            process.process.send_signal(signal.SIGINT)
            time.sleep(0.002)
        assert process.process.poll() == 0, process.output
