# SPDX-License-Identifier: Apache-2.0
"""The parameters of all nodes as Markdown: ``python -m vm_dynamics.ros.reference``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from vm_dynamics.ros.ccf_node import CcfParameters
from vm_dynamics.ros.compensator_node import CompensatorParameters
from vm_dynamics.ros.dynamics_node import DynamicsParameters
from vm_dynamics.ros.observer_node import ObserverParameters
from vm_dynamics.ros.parameters import NodeParameters, RobotParameters

NODES: dict[str, type[NodeParameters]] = {
    "dynamics_node": DynamicsParameters,
    "observer_node": ObserverParameters,
    "compensator_node": CompensatorParameters,
    "ccf_node": CcfParameters,
}


def tables() -> str:
    """A table of what all nodes share, and one for each node."""
    common = {item.name for item in fields(RobotParameters)}
    parts = ["### All nodes", _table(RobotParameters, common)]
    for name, kind in NODES.items():
        parts += [f"### {name}", _table(kind, {item.name for item in fields(kind)} - common)]
    return "\n\n".join(parts)


def _table(kind: type[NodeParameters], names: set[str]) -> str:
    lines = ["| parameter | default | what | fixed |", "|---|---|---|---|"]
    for item in fields(kind):
        if item.name in names:
            facts = item.metadata
            unit = f" [{facts['unit']}]" if facts["unit"] else ""
            choices = ", ".join(f"`{c}`" for c in facts["choices"] if c)
            what = facts["description"] + unit + (f": {choices}" if choices else "")
            fixed = "yes" if facts["read_only"] else ""
            name = kind.ros_name(item.name)
            lines.append(f"| `{name}` | `{_shown(item.default)}` | {what} | {fixed} |")
    return "\n".join(lines)


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return f"[{', '.join(map(str, default))}]"
    if isinstance(default, str):
        return f'"{default}"'
    return str(default).lower() if isinstance(default, bool) else str(default)


if __name__ == "__main__":
    print(tables())
