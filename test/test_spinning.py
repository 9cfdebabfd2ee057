# SPDX-License-Identifier: Apache-2.0
"""How nodes wait for data: on parts of rclpy that may change, so that they are looked for."""

import importlib
import subprocess
import sys
import threading
import time

import pytest
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.node import Node
from std_msgs.msg import Float64

from vm_dynamics.errors import VmDynamicsError
from vm_dynamics.ros import spinning
from vm_dynamics.ros.client import free_domain
from vm_dynamics.ros.spinning import PARTS, RclpyError, Services, Topics, control, drain


@pytest.fixture
def context():
    out = rclpy.Context()
    rclpy.init(context=out, domain_id=free_domain())
    yield out
    rclpy.shutdown(context=out)


@pytest.fixture
def node(context):
    out = Node("waiting", context=context)
    yield out
    out.destroy_node()


def owner_of(module, name):
    """Object that has the last part of a name, and that part."""
    *path, last = name.split(".")
    out = importlib.import_module(module)
    for part in path:
        out = getattr(out, part)
    return out, last


# -- the contract with rclpy ----------------------------------------------------------------------


def test_this_rclpy_has_the_parts_that_the_nodes_wait_with(context):
    """On another one this fails, with the version and what is missing."""
    spinning.require_parts()
    with context.handle:
        waiting = rclpy_implementation.WaitSet(1, 0, 0, 0, 0, 0, context.handle)
        waiting.clear_entities()
        waiting.wait(0)
        assert list(waiting.get_ready_entities("subscription")) == []


@pytest.mark.parametrize(("module", "name", "use"), PARTS)
def test_a_part_that_is_missing_is_named_with_its_use_and_the_version(
    monkeypatch, module, name, use
):
    owner, last = owner_of(module, name)
    if last == "__enter__":
        # inherited, so it cannot be taken from this class alone
        replaced = {"handle": None}
        monkeypatch.setattr(rclpy_implementation, owner.__name__, type("Bare", (), replaced))
    else:
        monkeypatch.delattr(owner, last)
    with pytest.raises(RclpyError) as error:
        Topics()
    message = str(error.value)
    assert f"{module}.{name} ({use})" in message
    assert message.startswith("rclpy ") and "lacks" in message
    assert isinstance(error.value, VmDynamicsError)


def test_a_node_says_so_when_it_starts():
    code = (
        "from rclpy.impl.implementation_singleton import rclpy_implementation as inner\n"
        "del inner.WaitSet.get_ready_entities\n"
        "from vm_dynamics.ros.dynamics_node import main\n"
        "raise SystemExit(main())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert out.returncode == 1
    assert "WaitSet.get_ready_entities (tells what has messages)" in out.stderr
    assert "Traceback" not in out.stderr and "AttributeError" not in out.stderr


# -- the loops ------------------------------------------------------------------------------------


def test_an_error_while_waiting_does_not_end_the_loop():
    """As of a context that another thread has ended meanwhile."""
    turns, errors = [], []

    class Failing:
        def wait(self, timeout, context):
            turns.append(timeout)
            raise RuntimeError("handle is gone")

    class Context:
        def ok(self):
            return True

    control(
        Failing(), Context(), lambda: len(turns) >= 3, lambda: time.monotonic() + 1, errors.append
    )
    assert [str(error) for error in errors] == ["handle is gone"] * 3


def test_what_is_ready_is_served_in_one_go(node, context):
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    heard = []
    node.create_subscription(Float64, "numbers", lambda m: heard.append(m.data), 100)
    publisher = node.create_publisher(Float64, "numbers", 100)
    end = time.monotonic() + 10.0
    while publisher.get_subscription_count() == 0 and time.monotonic() < end:
        drain(executor)
    for k in range(50):
        publisher.publish(Float64(data=float(k)))
    time.sleep(0.2)
    drain(executor)
    assert heard == [float(k) for k in range(50)]
    start = time.monotonic()
    drain(executor)
    assert time.monotonic() - start < 0.05, "and nothing is waited for"
    executor.shutdown()


def test_what_a_callback_raises_is_raised(node, context):
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)

    def fail():
        raise KeyError("nobody foresaw it")

    node.create_timer(0.01, fail)
    time.sleep(0.05)
    with pytest.raises(KeyError, match="nobody foresaw it"):
        drain(executor)
    executor.shutdown()


def test_requests_are_served_at_no_pace_of_their_own(node, context):
    """A callback after the other, not one for each look at whether to end."""
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    served, all_served = [], threading.Event()

    def serve():
        served.append(time.monotonic())
        if len(served) == 200:
            all_served.set()

    for _ in range(10):
        node.create_timer(1e-4, serve)
    services = Services(executor, lambda error: None)
    start = time.monotonic()
    services.start()
    assert all_served.wait(10.0)
    assert time.monotonic() - start < 200 * 0.005
    assert services.stop(5.0)
    executor.shutdown()
