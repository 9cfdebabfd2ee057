# SPDX-License-Identifier: Apache-2.0
"""The demonstration: sound plans, honest judgement, and processes that always end."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from ros_graph import Graph, compile_kernels
from urdf_text import joint, link, robot

import vm_dynamics as vm
from vm_dynamics.cli import _parser
from vm_dynamics.demo import SCENARIOS
from vm_dynamics.demo.log import Log, turned
from vm_dynamics.demo.run import table
from vm_dynamics.demo.scenario import Bar
from vm_dynamics.demo.supervisor import REMAPPINGS, NodeDiedError, Supervisor
from vm_dynamics.ros import reference
from vm_dynamics.ros.client import free_domain, unused

STARTED = 60.0  # [s] for five processes that compile nothing, on a busy machine


@pytest.fixture(params=SCENARIOS)
def scenario(request):
    return SCENARIOS[request.param](None, None, 0)


# -- plans ----------------------------------------------------------------------------------------


def test_the_command_knows_every_scenario():
    demo = _parser()._subparsers._group_actions[0].choices["demo"]
    asked = next(action for action in demo._actions if action.dest == "scenario")
    assert tuple(asked.choices) == tuple(SCENARIOS)
    assert {kind.NAME for kind in SCENARIOS.values()} == set(SCENARIOS)


def test_every_parameter_is_declared_and_within_its_range(scenario):
    for node, given in scenario.parameters(viewer=False).items():
        kind = reference.NODES[node]
        names = {kind.ros_name(item.name): item.name for item in fields(kind)}
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
        values.pop("use_sim_time", None)
        assert set(values) <= set(names), node
        kind(**{names[key]: value for key, value in values.items()})


def test_remappings_are_of_topics_that_exist():
    out = {
        topic.name.replace("~", node, 1)
        for node, topics in reference.TOPICS.items()
        for topic in topics
        if topic.way == "out"
    }
    for node, pairs in REMAPPINGS.items():
        named = {topic.name for topic in reference.TOPICS[node] if topic.way == "in"}
        assert set(pairs) <= named
        assert set(pairs.values()) <= out


def test_targets_are_smooth_and_within_all_limits(scenario):
    robot, h = scenario.robot, 1e-4
    assert np.array_equal(scenario.target(0.0)[0], scenario.start.q)
    for t in np.linspace(0.5, scenario.duration - 0.5, 97):
        (q0, *_), (q, qd, qdd), (q1, *_) = (scenario.target(t + dt) for dt in (-h, 0.0, h))
        assert np.abs((q1 - q0) / (2 * h) - qd).max() < 1e-3
        assert np.abs((q1 - 2 * q + q0) / h**2 - qdd).max() < 0.05
        assert (abs(qd) <= robot.velocity_limits).all()
        assert (q >= robot.lower_limits).all() and (q <= robot.upper_limits).all()


def narrow_robot(folder):
    """A robot with little room: a narrow hinge, one far from zero, slides, a slow wrist."""
    limits = {
        "narrow": ("revolute", 'lower="-0.05" upper="0.05" velocity="1"'),
        "far": ("revolute", 'lower="1.0" upper="1.3" velocity="1"'),
        "finger": ("prismatic", 'lower="0" upper="0.02" velocity="1"'),
        "lift": ("prismatic", 'lower="-1" upper="-0.2" velocity="0.01"'),
        "slow": ("revolute", 'lower="-2" upper="2" velocity="0.02"'),
        "wheel": ("continuous", 'velocity="1"'),
    }
    parts, parent = [link("base")], "base"
    for name, (kind, limit) in limits.items():
        inside = f'<limit effort="10" {limit}/>'
        parts += [link(f"{name}_link"), joint(name, parent, f"{name}_link", kind, inside)]
        parent = f"{name}_link"
    path = folder / "narrow.urdf"
    path.write_text(robot(*parts, name="narrow"))
    path.with_suffix(".yaml").write_text("hydrodynamics: {links: {base: {volume: 0.001}}}")
    return str(path)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("which", ["satellite_dual_arm", "narrow"])
def test_targets_of_another_robot_stay_off_all_limits(name, which, tmp_path):
    if which == "satellite_dual_arm" and name == "underwater":
        return  # it has no file of its water
    scenario = SCENARIOS[name](narrow_robot(tmp_path) if which == "narrow" else which, None, 0)
    robot = scenario.robot
    assert robot.prismatic.any() and not robot.prismatic.all()
    span = robot.upper_limits - robot.lower_limits
    limited = np.isfinite(span)
    span[~limited] = 0.0
    low, high = robot.lower_limits + 0.05 * span, robot.upper_limits - 0.05 * span
    if name == "reorient":  # the rest is the planner's, which keeps the limits
        q = scenario.start.q
        assert (q >= low).all() and (q <= high).all()
        return
    path = [scenario.target(t) for t in np.linspace(0.0, scenario.duration, 997)]
    q, qd = (np.array([step[k] for step in path]) for k in (0, 1))
    assert (q >= low).all() and (q <= high).all()
    assert (abs(qd) <= robot.velocity_limits).all()
    moved = np.ptp(q, axis=0)
    sliding = robot.prismatic & limited
    if name != "grasp":  # which moves them as far as they go, to learn
        assert (moved[sliding] <= 0.5 * span[sliding]).all()
    if name == "tumbling":
        assert (moved[limited] > 0.0).all(), "all of them move"
        assert moved[~robot.prismatic].max() == pytest.approx(0.3, rel=1e-2)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_robot_or_time_that_does_not_fit_is_refused_with_a_reason(name):
    kind = SCENARIOS[name]
    for duration in (kind.MIN_DURATION - 1.0, 1e4, float("nan")):
        with pytest.raises(vm.ParameterError, match="duration"):
            kind(None, duration, 0)
    for seed in (-1, 2**31):
        with pytest.raises(vm.ParameterError, match="seed"):
            kind(None, None, seed)
    with pytest.raises(vm.ParameterError, match="joints|hydrodynamics"):
        kind("quad_arm1", None, 0)
    if name in ("aerial", "underwater"):
        with pytest.raises(vm.ParameterError, match="satellite_arm7.yaml"):
            kind("satellite_arm7", None, 0).parameters(viewer=False)


# -- judgement ------------------------------------------------------------------------------------


def test_a_bar_is_met_below_and_at_its_limit_and_never_by_nan():
    assert Bar("x", 1.0, 1.0, "m").met and not Bar("x", 1.1, 1.0, "m").met
    assert not Bar("x", np.nan, 1.0, "m").met
    assert "NOT MET" in table([Bar("x", 2.0, 1.0, "m")])
    assert "MET" not in table([Bar("x", 2.0, np.inf, "m")]).upper()


def still(scenario, log, twist_error, offset):
    """A run in which everything is as it should be but for constant errors."""
    g = scenario.start.g
    for nanos in range(0, int(1e9 * scenario.duration), 40_000_000):
        q, qd, _ = scenario.target(1e-9 * nanos)
        log.truth.hear(nanos, g, np.zeros(6))
        log.estimate.hear(nanos, g, twist_error)
        log.joints.hear(nanos, q + offset(1e-9 * nanos), qd)
    return scenario.bars(log)


def test_tumbling_is_judged_by_the_velocity_error_and_a_tenth_of_plain_pd():
    scenario = SCENARIOS["tumbling"](None, None, 0)

    def offset(t):
        return 0.02 if scenario.law(t) == 0 else 0.001

    small = np.array([0.002, 0, 0, 0, 0, 0.003])
    assert all(bar.met for bar in still(scenario, Log(), small, offset))
    wrong = still(scenario, Log(), 1.9 * small, offset)
    assert [bar.met for bar in wrong[:2]] == [False, True]
    equal = still(scenario, Log(), small, lambda t: 0.02)
    assert [bar.met for bar in equal[3:5]] == [False, False]


def test_errors_of_joints_that_turn_are_degrees_and_of_those_that_slide_millimetres():
    scenario = SCENARIOS["tumbling"]("satellite_dual_arm", None, 0)
    off = np.where(scenario.robot.prismatic, 2e-3, np.radians(0.5))
    log = Log()
    bars = still(scenario, log, np.zeros(6), lambda t: off)
    joints = [bar for bar in bars if "joint error" in bar.what]
    assert len(joints) == 12, "plain and two laws, held and moving, degrees and millimetres"
    for bar in joints:
        assert bar.value == pytest.approx({"deg": 0.5, "mm": 2.0}[bar.unit], rel=1e-6)
    assert scenario.error_now(log) == "joint error  0.500 deg,  2.000 mm"
    own = SCENARIOS["tumbling"](None, None, 0)
    assert {bar.unit for bar in still(own, Log(), np.zeros(6), lambda t: 0.01)[2:]} == {"deg"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_without_data_no_bar_is_met_by_chance(name):
    scenario, log = SCENARIOS[name](None, None, 0), Log()
    log.truth.hear(0, scenario.start.g, np.zeros(6))
    log.joints.hear(0, scenario.start.q, 0.0 * scenario.start.q)
    try:
        bars = scenario.bars(log)
    except (ValueError, vm.VmDynamicsError):
        return
    assert not all(bar.met for bar in bars)


def test_a_base_that_did_not_turn_has_not_been_reoriented():
    scenario = SCENARIOS["reorient"](None, None, 0)
    bars = still(scenario, Log(), np.zeros(6), lambda t: 0.0)
    assert bars[0].value == pytest.approx(20.0) and not bars[0].met


def test_angles_between_attitudes():
    turn = vm.lie.se3.exp(np.array([5.0, 1.0, 0.0, 0.3, 0.0, 0.4]))
    assert turned(np.eye(4), turn) == pytest.approx(0.5)
    assert turned(turn, turn) == 0.0


# -- processes ------------------------------------------------------------------------------------


def test_a_node_that_dies_is_reported_with_its_last_words(tmp_path):
    with closing(Supervisor(tmp_path, dict(os.environ))) as supervisor:
        supervisor.start("sim_node", {"robot": "no_such_robot"})
        end = time.monotonic() + 60.0
        with pytest.raises(NodeDiedError, match=r"(?s)sim_node ended with exit code 1.*no_such"):
            while time.monotonic() < end:
                supervisor.check()
                time.sleep(0.1)


def children(folder):
    """Commands of running processes that name something in a folder."""
    out = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            out.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in out if f"{folder}/" in command]


def test_a_demo_keeps_out_of_domains_in_use(tmp_path, monkeypatch):
    with closing(Graph(tmp_path)) as graph:
        monkeypatch.setattr(os, "getpid", lambda: graph.domain - 1)
        assert not unused(graph.domain)
        assert unused(free_domain()) and free_domain() != graph.domain
    assert free_domain() == graph.domain


def demo(folder, *arguments):
    compile_kernels()
    command = [sys.executable, "-m", "vm_dynamics.cli", "demo", "--headless"]
    return subprocess.Popen(
        [*command, "--output", str(folder), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_any_time_ends_all_processes(tmp_path, number):
    process = demo(tmp_path)
    end = time.monotonic() + STARTED
    while len(children(tmp_path)) < 5 and time.monotonic() < end:
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.2)
    assert len(children(tmp_path)) == 5, "the suite and the simulation"
    process.send_signal(number)
    assert process.wait(30) == 130
    assert children(tmp_path) == []
    assert "Traceback" not in process.stdout.read()


# One on MuJoCo, one on the package's own integrator; the others are run by hand, see docs/demo.md.
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("name", ["tumbling", "underwater", "grasp"])
def test_a_scenario_meets_its_bars_and_leaves_pictures_and_a_recording(tmp_path, name):
    from rosbags.highlevel import AnyReader
    from rosbags.rosbag2 import Reader

    process = demo(tmp_path, "--scenario", name, "--seed", "3")
    output = process.communicate()[0]
    assert process.returncode == 0, output
    folder = tmp_path / name
    for picture in ("observer.png", "joints.png", "base.png", "map.png"):
        assert (folder / picture).stat().st_size > 10_000
    with Reader(folder / "recording") as reader:
        counts = {c.topic: c.msgcount for c in reader.connections}
        duration = 1e-9 * reader.duration
    assert SCENARIOS[name].DURATION - 3.0 < duration < SCENARIOS[name].DURATION + 1.0
    for topic in (
        "/clock",
        "/joint_states",
        "/ground_truth/odom",
        "/observer_node/odom",
        "/compensator_node/commands",
    ):
        # best effort, and a busy machine
        assert counts[topic] > 0.8 * 250.0 * duration
    for topic in ("/tf", "/pose", "/target", "/ccf_node/map", "/robot_description"):
        assert counts[topic] > 0
    assert counts["/tf_static"] == 1
    with AnyReader([folder / "recording"]) as reader:
        for connection, _, raw in reader.messages():
            reader.deserialize(raw, connection.msgtype)  # raises what cannot be read
    assert len(list((folder / "recording").glob("*.mcap"))) == 1
