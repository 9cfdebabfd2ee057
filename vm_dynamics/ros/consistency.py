# SPDX-License-Identifier: Apache-2.0
"""Whether an estimate agrees with its measurements, as an observer's diagnostics tell it."""

from __future__ import annotations

from collections import deque

from scipy.special import chdtri

from vm_dynamics.estimation import InvariantEkf, Observer

NIS_WINDOW = 50  # that the mean innovation is taken over
MIN_POSES_FOR_NIS = 20
FALSE_ALARM_PROBABILITY = 1e-6  # of a warning when all is well, each time
COUNTER_WINDOW = 10.0  # [s] of counters that are compared
MIN_REJECTED = 3
MAX_REJECTED_SHARE = 0.1  # of all measurements
RESTART_MEMORY = 60.0  # [s] for which a restart is remembered


class Consistency:
    """Follows an observer's innovations and counters."""

    def __init__(self, observer: Observer) -> None:
        """Nothing yet."""
        self._observer = observer
        self._nis: deque[float] = deque(maxlen=NIS_WINDOW)
        self._counts: deque[tuple[float, int, int, int]] = deque()

    def heard_pose(self) -> None:
        """A pose went into the estimate, or was rejected."""
        if isinstance(self._observer, InvariantEkf) and self._observer.status.state != "waiting":
            self._nis.append(self._observer.nis)

    @property
    def mean_nis(self) -> float:
        """Mean of the last normalised innovations squared; zero if there are none."""
        return sum(self._nis) / len(self._nis) if self._nis else 0.0

    def doubts(self, now: float) -> str:
        """What speaks against the estimate, in words, at a time of the steady clock [s]."""
        status = self._observer.status
        self._counts.append((now, status.used, status.rejected, status.reinitialisations))
        while self._counts[0][0] < now - RESTART_MEMORY:
            self._counts.popleft()
        found = []
        count, b = len(self._nis), self._observer.robot.b
        if (
            count >= MIN_POSES_FOR_NIS
            and self.mean_nis > float(chdtri(b * count, FALSE_ALARM_PROBABILITY)) / count
        ):
            found.append(
                "poses are farther off than noise and model say: NIS "
                f"{self.mean_nis:.3g} instead of {b}"
            )
        _, used, rejected, _ = next(row for row in self._counts if row[0] >= now - COUNTER_WINDOW)
        used, rejected = status.used - used, status.rejected - rejected
        if rejected >= MIN_REJECTED and rejected > MAX_REJECTED_SHARE * (used + rejected):
            found.append(f"{rejected} of {used + rejected} measurements rejected")
        restarts = status.reinitialisations - self._counts[0][3]
        if restarts > 0:
            times = "once" if restarts == 1 else f"{restarts} times"
            found.append(f"the estimate began anew {times} in the last minute")
        return "; ".join(found)
