# SPDX-License-Identifier: Apache-2.0
"""The demonstration: a simulated robot and the whole suite as processes, judged by bars."""

from vm_dynamics.demo.aerial import Aerial
from vm_dynamics.demo.failure import Failure
from vm_dynamics.demo.grasp import Grasp
from vm_dynamics.demo.reorient import Reorient
from vm_dynamics.demo.scenario import Scenario
from vm_dynamics.demo.tumbling import Tumbling
from vm_dynamics.demo.underwater import Underwater

SCENARIOS: dict[str, type[Scenario]] = {
    "tumbling": Tumbling,
    "reorient": Reorient,
    "aerial": Aerial,
    "underwater": Underwater,
    "failure": Failure,
    "grasp": Grasp,
}

__all__ = ["SCENARIOS", "Scenario"]
