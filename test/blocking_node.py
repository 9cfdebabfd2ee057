# SPDX-License-Identifier: Apache-2.0
"""compensator_node with callbacks that can be made to hang, started as a script by a test."""

import time

from std_srvs.srv import Trigger

from vm_dynamics.ros.compensator_node import CompensatorNode
from vm_dynamics.ros.process import run

HANGS = 1.0  # [s]


def hang(how):
    """Be busy, with or without Python's global lock."""
    end = time.monotonic() + HANGS
    while how == "computing" and time.monotonic() < end:
        sum(range(1000))
    if how == "waiting":
        time.sleep(HANGS)


class BlockingNode(CompensatorNode):
    """A velocity in the frame ``waiting`` or ``computing`` blocks, and so does a service."""

    def start(self):
        super().start()
        self.serve(Trigger, "~/hang", self._on_hang)

    def _on_hang(self, request, response):
        hang("computing")
        response.success = True
        return response

    def _on_locked_velocity(self, message):
        if message.header.frame_id in ("waiting", "computing"):
            hang(message.header.frame_id)
        else:
            super()._on_locked_velocity(message)


if __name__ == "__main__":
    raise SystemExit(run(BlockingNode))
