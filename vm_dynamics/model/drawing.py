# SPDX-License-Identifier: Apache-2.0
"""A robot as a tree of text."""

from __future__ import annotations

from vm_dynamics.lie import DisplacementGroup
from vm_dynamics.model.spec import Description, Joint, Link


def draw(
    description: Description,
    group: DisplacementGroup,
    joint_names: tuple[str, ...],
    total_mass: float,
) -> str:
    """Every link on a line of its own, below its parent, with its joint and mass."""
    base = f"base {group.name} (b = {group.dimension})"
    if group.name == "H":
        base += f", pitch {group.pitch:.4g} m/rad"
    lines = [f"{description.name}: {base}, n = {len(joint_names)}, {total_mass:.6g} kg"]
    links = {link.name: link for link in description.links}
    below: dict[str, list[Joint]] = {}
    for joint in description.joints:
        below.setdefault(joint.parent, []).append(joint)
    lines.append(_link(links[description.root]))
    stack = [(j, "", j is below[description.root][-1]) for j in below.get(description.root, [])]
    stack.reverse()
    while stack:
        joint, indent, last = stack.pop()
        how = _joint(joint, joint_names)
        lines.append(f"{indent}{'└─' if last else '├─'} {how} {_link(links[joint.child])}")
        children = below.get(joint.child, [])
        deeper = indent + ("   " if last else "│  ")
        stack.extend(reversed([(c, deeper, c is children[-1]) for c in children]))
    return "\n".join(lines)


def _link(link: Link) -> str:
    return f"{link.name} ({link.inertia.mass:.4g} kg)" if link.inertia.mass else link.name


def _joint(joint: Joint, joint_names: tuple[str, ...]) -> str:
    if joint.kind == "fixed":
        return "·"
    if joint.mimic is not None:
        offset = f" {joint.mimic.offset:+g}" if joint.mimic.offset else ""
        return (
            f"[{joint.name}: {joint.kind}, {joint.mimic.multiplier:g} x {joint.mimic.driver}"
            f"{offset}]"
        )
    return f"[q{joint_names.index(joint.name)} {joint.name}: {joint.kind}]"
