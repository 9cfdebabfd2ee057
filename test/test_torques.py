# SPDX-License-Identifier: Apache-2.0
"""The gate before the actuators: torques while all is well, zeros otherwise, from any thread."""

import threading
import time

import numpy as np
import pytest

from vm_dynamics.errors import NonFiniteError
from vm_dynamics.ros import torques
from vm_dynamics.ros.torques import Efforts, Outputs, TorqueGate, TorqueWriter
from vm_dynamics.ros.watchdog import Watchdog

TAU = np.array([1.0, -2.0, 3.0])


class Publisher:
    """Keeps what is published, as numbers."""

    def __init__(self):
        self.sent = []

    def publish(self, message):
        for key in ("data", "effort"):
            if hasattr(message, key):
                self.sent.append(np.array(getattr(message, key)))
                return
        force = message.wrench.force
        self.sent.append(np.array([force.x, force.y, force.z]))

    def get_subscription_count(self):
        return 1


class Setup:
    """A gate that is open, and what comes out of it."""

    def __init__(self, *, limits=(10.0, 10.0, 2.0), rotors=0, **options):
        self.stops = []
        options = {"require_enable": False, "timeout": 0.1, "resume": "at_once", **options}
        self.gate = TorqueGate(stopped=self.stops.append, **options)
        self.outputs = Outputs(*(Publisher() for _ in range(4)))
        self.writer = TorqueWriter(
            self.outputs,
            names=("c", "a", "b"),
            order=np.array([2, 0, 1]),
            limits=np.array(limits),
            rotors=rotors,
            frame="base",
            now=lambda: 0,
        )
        self.gate.use(self.writer)
        self.gate.open()

    @property
    def sent(self):
        return self.outputs.commands.sent

    def send(self, tau=TAU, **options):
        return self.gate.send(self.gate.ticket, Efforts(np.array(tau), **options), 0)


def test_efforts_come_in_the_order_of_the_commands_and_within_limits():
    setup = Setup()
    assert setup.send()
    assert setup.sent[-1].tolist() == [2.0, 1.0, -2.0]
    assert setup.outputs.torques.sent[-1].tolist() == [2.0, 1.0, -2.0]
    assert setup.gate.is_on and setup.gate.why == ""


def test_nothing_passes_a_gate_that_is_closed_or_not_enabled():
    setup = Setup(require_enable=True)
    assert not setup.send() and setup.sent == []
    assert setup.gate.why == "not enabled"
    setup.gate.enable()
    assert setup.send() and setup.sent[-1].any()
    setup.gate.close()
    assert not setup.sent[-1].any()
    assert not setup.send() and not setup.sent[-1].any()
    setup.gate.open()
    assert not setup.gate.enabled, "whoever opens it again must enable it again"


def test_torques_that_were_computed_before_a_stop_come_too_late():
    setup = Setup()
    setup.send()
    ticket = setup.gate.ticket
    setup.gate.stop("something")
    assert not setup.sent[-1].any()
    assert not setup.gate.send(ticket, Efforts(TAU), 0)
    assert not setup.sent[-1].any()
    assert setup.send(), "but those of the next step do"


@pytest.mark.parametrize("was_on", [True, False])
def test_a_step_that_was_suspended_sends_nothing_and_stops(was_on):
    setup = Setup(resume="enable")
    if was_on:
        setup.send()
    ticket = setup.gate.ticket
    time.sleep(0.12)
    assert not setup.gate.send(ticket, Efforts(TAU), 0)
    assert not any(sent.any() for sent in setup.sent[was_on:])
    assert len(setup.stops) == was_on and setup.gate.enabled is not was_on
    assert not setup.gate.is_on and setup.gate.why


def test_a_torque_that_was_suspended_on_its_way_is_followed_by_zeros_at_once(monkeypatch):
    setup = Setup(resume="enable")
    setup.send()
    publish = setup.outputs.commands.publish

    def late(message):
        monkeypatch.undo()
        time.sleep(0.12)
        publish(message)

    monkeypatch.setattr(setup.outputs.commands, "publish", late)
    assert not setup.send()
    assert [bool(sent.any()) for sent in setup.sent] == [True, True, False]
    assert setup.stops == ["sending took too long"] and not setup.gate.enabled


def test_torques_that_come_after_too_long_a_pause_stop_even_if_nobody_looked():
    setup = Setup(timeout=0.02, resume="enable")
    setup.send()
    time.sleep(0.03)  # as of a process that was suspended
    assert not setup.send() and not setup.sent[-1].any()
    assert setup.stops == ["joint states stopped"] and not setup.gate.enabled


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["tau", "thrusts"])
def test_what_is_no_number_stops_the_torques(bad, where):
    setup = Setup(rotors=2)
    setup.send()
    wrong = {"tau": [0.0, bad, 0.0]}
    if where == "thrusts":
        wrong = {"thrusts": np.array([1.0, bad]), "wrench": np.zeros(6)}
    with pytest.raises(NonFiniteError):
        setup.send(**wrong)
    assert all(np.isfinite(tau).all() for tau in (*setup.sent, *setup.outputs.thrusts.sent))
    assert not setup.sent[-1].any() and setup.stops == ["efforts are not finite"]


def test_a_joint_without_an_effort_limit_and_none_of_them_used_gives_zero():
    setup = Setup(limits=(0.0, 0.0, 0.0))
    setup.send()
    assert not setup.sent[-1].any()


def test_zeros_include_the_rotors():
    setup = Setup(rotors=2)
    setup.send(thrusts=np.ones(2), wrench=np.ones(6))
    assert setup.outputs.thrusts.sent[-1].tolist() == [1.0, 1.0]
    setup.gate.stop("something")
    assert setup.outputs.thrusts.sent[-1].tolist() == [0.0, 0.0]
    assert not setup.outputs.wrench.sent[-1].any()


def test_after_a_stop_torques_wait_to_be_enabled():
    setup = Setup(resume="enable")
    setup.send()
    setup.gate.stop("joint states stopped")
    assert not setup.gate.enabled and setup.gate.losses == 1
    assert setup.gate.why == "not enabled, stopped: joint states stopped"
    assert not setup.send()
    setup.gate.stop("another reason, while it is off anyway")
    assert setup.gate.why == "not enabled, stopped: joint states stopped"
    setup.gate.enable()
    assert setup.send() and setup.sent[-1].tolist() == [2.0, 1.0, -2.0]
    assert setup.stops == ["joint states stopped"]


def test_after_a_stop_torques_rise_from_zero(monkeypatch):
    setup, now = Setup(resume="ramp"), [100.0]
    monkeypatch.setattr(torques.time, "monotonic", lambda: now[0])
    setup.send([1.0, 1.0, 1.0])
    assert setup.sent[-1].tolist() == [1.0, 1.0, 1.0], "not the first time"
    setup.gate.stop("something")
    given = []
    for _ in range(12):
        setup.send([1.0, 1.0, 1.0])
        given.append(setup.sent[-1][0])
        now[0] += 0.1
    assert np.allclose(given, np.minimum(1.0, 0.1 * np.arange(12)))
    setup.gate.disable()
    setup.gate.enable()
    setup.send([1.0, 1.0, 1.0])
    assert setup.sent[-1].tolist() == [1.0, 1.0, 1.0], "nor when somebody enables them"


def test_a_watchdog_keeps_its_time_and_sends_zeros_again_and_again():
    setup = Setup(timeout=0.05)
    watchdog = Watchdog(setup.gate.look, lambda: setup.gate.timeout, print)
    try:
        setup.send()
        start = time.monotonic()
        while setup.sent[-1].any():
            assert time.monotonic() < start + 5.0
            time.sleep(0.001)
        assert 0.05 <= time.monotonic() - start < 0.1 + 0.1, "what a busy machine adds"
        assert setup.stops == ["joint states stopped"]
        time.sleep(0.3)
        assert len(setup.sent) > 6 and not any(tau.any() for tau in setup.sent[1:])
    finally:
        watchdog.stop()
    count = len(setup.sent)
    time.sleep(0.1)
    assert len(setup.sent) == count, "it ends when told to"


def test_a_watchdog_survives_what_it_calls():
    calls, said = [], []

    def look():
        calls.append(0)
        raise ValueError("of all things")

    watchdog = Watchdog(look, lambda: 0.02, said.append)
    end = time.monotonic() + 5.0
    while len(calls) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    watchdog.stop()
    assert len(calls) >= 3 and "of all things" in said[0]


def test_no_torque_slips_out_between_stops_of_another_thread():
    """Control sends as fast as it can while another thread disables and enables."""
    setup, end = Setup(), threading.Event()
    after_disabling = []

    def operator():
        while not end.is_set():
            setup.gate.disable()
            after_disabling.append(len(setup.sent))
            count = len(setup.sent)
            time.sleep(0.002)
            assert len(setup.sent) == count
            setup.gate.enable()
            time.sleep(0.001)

    thread = threading.Thread(target=operator)
    thread.start()
    try:
        stop = time.monotonic() + 0.5
        while time.monotonic() < stop:
            setup.send()
    finally:
        end.set()
        thread.join()
    assert len(after_disabling) > 20
    for count in after_disabling:
        assert count == 0 or not setup.sent[count - 1].any(), "zeros are the last before a pause"


def test_efforts_are_blended_and_missing_thrusts_are_zeros():
    a = Efforts(np.array([1.0, 0.0]), np.array([4.0]), np.ones(6))
    b = Efforts(np.array([0.0, 1.0]))
    half = a.blended(b, 0.25)
    assert half.tau.tolist() == [0.75, 0.25]
    assert half.thrusts.tolist() == [3.0] and half.wrench.tolist() == [0.75] * 6
    assert a.blended(b, 1.0).thrusts.tolist() == [0.0]
    assert b.blended(b, 0.3).thrusts is None
