# SPDX-License-Identifier: Apache-2.0
"""Whether gains suit the rate of the joint states: torques act a sample late, and may shake."""

from __future__ import annotations

from collections.abc import Callable

from vm_dynamics.control import Controller
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array

# What it takes to know the period of joint states on a busy machine.
MIN_SAMPLES_FOR_PERIOD = 20
MIN_SPAN_FOR_PERIOD = 1_000_000_000  # [ns]
OTHER_PERIOD = 0.2  # of a period: what makes it another one


class GainWatch:
    """Learns how fast joint states come, and judges gains by it.

    Attributes:
        period: between joint states [s]; zero while it is not known.
        shaken: joint that may be, and at which rate; empty if none.
    """

    def __init__(self, trouble: Callable[[str, str], None]) -> None:
        """Nothing heard; ``trouble`` is called with a kind and a text."""
        self._trouble = trouble
        self.shaken = ""
        self._judged: tuple[Controller | None, float] = None, 0.0  # controller and period
        self.forget()

    def forget(self) -> None:
        """Joint states begin anew."""
        self.period = 0.0
        self._last = self._span = self._gaps = 0

    def hear(self, nanos: int, pause: int) -> None:
        """A joint state with a stamp; a gap longer than a pause does not count [ns]."""
        gap, self._last = nanos - self._last, nanos
        if not 0 < gap < pause:
            return
        self._span += gap
        self._gaps += 1
        if self._gaps >= MIN_SAMPLES_FOR_PERIOD and self._span >= MIN_SPAN_FOR_PERIOD:
            self.period = 1e-9 * self._span / self._gaps
            self._span = self._gaps = 0

    def check(self, later: Controller, present: Controller, same: bool, q: Array) -> None:
        """Refuse gains that shake a joint, unless they are lower than those before.

        Args:
            later: controller that is asked for.
            present: the one of now.
            same: whether both are of the same kind.
            q: joint positions, shape (n,) [rad or m].

        Raises:
            ParameterError: they would, or it is not known yet.
        """
        if same and not _higher(later.gains, present.gains):
            return
        period = self.period
        if same and not period:
            raise ParameterError(
                "parameter gains: the rate of the joint states is not known yet; try again in a "
                "second, or disable the torques first"
            )
        shaken = later.shaken(q, period) if period else ""
        if shaken:
            raise ParameterError(
                f"parameter gains: they would shake {shaken} at {1.0 / period:.0f} Hz of joint "
                "states; less damping or stiffness"
            )

    def judge(self, controller: Controller | None, q: Array | None) -> None:
        """Look at the gains of a controller, if it or the period is another one.

        Args:
            controller: the one of now, if there is one.
            q: joint positions, shape (n,) [rad or m], if they are known.
        """
        if controller is not self._judged[0]:
            self.shaken = ""
        if controller is None or q is None or not self.period:
            return
        former, period = self._judged
        if former is controller and abs(self.period / period - 1.0) < OTHER_PERIOD:
            return
        self._judged = controller, self.period
        joint = controller.shaken(q, self.period)
        self.shaken = f"{joint} at {1.0 / self.period:.0f} Hz" if joint else ""
        if self.shaken:
            self._trouble(
                "gains too high", f"gains may shake {self.shaken}: less damping or stiffness"
            )


def _higher(later: Array, before: Array) -> bool:
    """Whether any gain is higher, or cannot be compared."""
    return later.shape != before.shape or bool((later > before).any())
