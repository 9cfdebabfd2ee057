# SPDX-License-Identifier: Apache-2.0
"""Asking a service, where answers get lost."""

import time

import pytest
from rclpy.task import Future
from std_srvs.srv import Trigger

from vm_dynamics.ros import client
from vm_dynamics.ros.client import ServiceError, ask


class Service:
    """Stands for a node and its client: answers a question only if it is asked often enough."""

    def __init__(self, answered, ready=True):
        self.asked, self.answered, self.ready, self.open = 0, answered, ready, 0

    def create_client(self, kind, name):
        assert (kind, name) == (Trigger, "arm/stop")
        self.open += 1
        return self

    def destroy_client(self, client):
        self.open -= 1

    def service_is_ready(self):
        return self.ready

    def call_async(self, request):
        self.asked += 1
        out = Future()
        if self.asked == self.answered:
            out.set_result("stopped")
        return out


def wait(condition, end):
    while not condition() and time.monotonic() <= end:
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(client, "SERVICE_RETRY", 0.02)


def test_a_service_is_asked_again_when_an_answer_is_lost():
    for answered in (1, 3):
        service = Service(answered)
        assert ask(service, Trigger, "arm/stop", Trigger.Request(), wait) == "stopped"
        assert (service.asked, service.open) == (answered, 0)


@pytest.mark.parametrize("service", [Service(answered=99), Service(answered=1, ready=False)])
def test_a_service_that_never_answers_is_an_error(service):
    with pytest.raises(ServiceError, match="arm/stop: no answer after 0.1 s"):
        ask(service, Trigger, "arm/stop", Trigger.Request(), wait, 0.1)
    assert service.open == 0
    assert service.asked == 0 if not service.ready else service.asked > 1
