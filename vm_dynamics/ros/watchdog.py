# SPDX-License-Identifier: Apache-2.0
"""A thread that looks again and again, whatever the callbacks of its node do meanwhile."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

from vm_dynamics.ros.parameters import parameter

# A thread of Python's that sleeps wakes a few milliseconds late beside busy ones, so a shorter
# timeout would stop torques for no reason, or not at all when it should. And a torque that stands
# for seconds without anybody who looks after it is no timeout.
MIN_TIMEOUT, MAX_TIMEOUT = 0.01, 2.0  # [s]
WATCHDOG_PERIOD = 0.025  # [s] between two looks


def timeout_parameter(description: str) -> Any:
    """Field of a node's parameter ``timeout``: one that can be kept."""
    return parameter(0.1, description, unit="s", minimum=MIN_TIMEOUT, maximum=MAX_TIMEOUT)


class Watchdog:
    """Calls a function four times within a timeout, and at least forty times a second.

    Args:
        look: what to call; what it raises is logged, and it is called again.
        timeout: returns the timeout as it is now [s].
        log: takes what went wrong.
    """

    def __init__(
        self, look: Callable[[], None], timeout: Callable[[], float], log: Callable[[str], Any]
    ) -> None:
        """Start to look."""
        self._look, self._timeout, self._log = look, timeout, log
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._end.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._end.wait(min(0.25 * self._timeout(), WATCHDOG_PERIOD)):
            try:
                self._look()
            except Exception:
                self._log(f"the watchdog failed: {traceback.format_exc()}")
