# SPDX-License-Identifier: Apache-2.0
"""All that is wrong with a robot description, found in one reading.

:func:`problems` looks at the XML itself, so it can go on after the first error. What it lets
pass, ``urdf_parser_py`` and the tree builder accept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from vm_dynamics import errors
from vm_dynamics.model import xml
from vm_dynamics.model.inertia import Inertia

MOVING = ("revolute", "continuous", "prismatic")
VEHICLE = ("floating", "planar")  # kinds that only a massless root may carry
KINDS = (*MOVING, "fixed", *VEHICLE)
# Beyond it sums of products overflow; limits may be larger, since they are only compared.
LARGEST_NUMBER = 1e30
MAX_CHOICES_SHOWN = 20  # names in a list of choices
# Attributes whose text is a name, which may well be spelled "inf" or "nan".
_NAMES = {"name", "link", "joint", "filename", "type", xml.LINE}


@dataclass(frozen=True)
class Problem:
    """One finding.

    Attributes:
        severity: ``error`` (the robot is not loaded) or ``warning``.
        message: what is wrong, where, what was found and what was expected.
        hint: what to do about it.
        line: line in the file, 0 if it has none.
        kind: class of the exception that an error raises.
    """

    severity: str
    message: str
    hint: str
    line: int = 0
    kind: type[errors.UrdfError] = errors.UrdfError

    def __str__(self) -> str:
        """Severity, line and message, and the hint below."""
        where = f"line {self.line}: " if self.line else ""
        return f"{self.severity}: {where}{self.message}\n    hint: {self.hint}"


def problems(root: Element, *, strict: bool = True) -> list[Problem]:
    """Everything that can be said of a description without building it, errors first.

    Args:
        root: the document's root element, from :func:`vm_dynamics.model.xml.parse`.
        strict: whether principal moments that violate the triangle inequality are an error.
    """
    found: list[Problem] = []
    if root.tag != "robot":
        hint = "Give a URDF; an SDF or MJCF file must be converted first."
        return [
            _error(errors.UrdfSyntaxError, root, f"root is <{root.tag}>, expected <robot>", hint)
        ]
    found += _not_expanded(root)
    found += _not_finite(root)
    for link in root.findall("link"):
        found += _link(link, strict)
    joints = root.findall("joint")
    for joint in joints:
        found += _joint(joint)
    found += [*_names(root, "link"), *_names(root, "joint")]
    if not root.findall("link"):
        hint = 'Add at least one <link name="base_link">.'
        found.append(_error(errors.NoLinkError, root, "the robot has no link", hint))
    else:
        found += _structure(root)
    found += _mimic(joints)
    unique = list(dict.fromkeys(found))
    return sorted(unique, key=lambda p: (p.severity != "error", p.line))


def is_massless(link: Element) -> bool:
    """Whether a link has no mass: no inertial element, or a mass of zero."""
    mass = link.find("inertial/mass")
    return mass is None or _number(mass.get("value", "0")) == 0.0


def _error(kind: type[errors.UrdfError], where: Element, message: str, hint: str) -> Problem:
    return Problem("error", message, hint, int(where.get(xml.LINE, "0")), kind)


def _warning(where: Element, message: str, hint: str) -> Problem:
    return Problem("warning", message, hint, int(where.get(xml.LINE, "0")))


def _label(element: Element) -> str:
    return f"{element.tag} {element.get('name', '(unnamed)')!r}"


def _not_expanded(root: Element) -> Iterator[Problem]:
    for element in root.iter():
        if element.tag.startswith("xacro:") or any("${" in v for v in element.attrib.values()):
            hint = "Run it through xacro first: xacro robot.urdf.xacro > robot.urdf"
            yield _error(
                errors.UrdfValueError, element, f"<{element.tag}> is not expanded xacro", hint
            )
            return


def _not_finite(root: Element) -> Iterator[Problem]:
    for tag in ("link", "joint", "material"):
        for owner in root.findall(tag):
            for element in owner.iter():
                for key, value in element.attrib.items():
                    bad = key not in _NAMES and any(
                        (x := _number(word)) is not None and not math.isfinite(x)
                        for word in value.split()
                    )
                    if bad:
                        yield _error(
                            errors.NonFiniteNumberError,
                            element,
                            f"{_label(owner)}: {element.tag} {key}={value!r} is not finite",
                            "Write a finite number; leave <limit> out if there is none.",
                        )


def _number(text: str) -> float | None:
    """The number a text is, in the notation that every reader of URDF knows, or None."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def _numbers(owner: Element, element: Element, key: str, count: int) -> Iterator[Problem]:
    """Complain of an attribute that is not ``count`` numbers; missing attributes pass."""
    text = element.get(key)
    if text is None:
        return
    values = [x for word in text.split() if (x := _number(word)) is not None]
    if len(values) != count or count != len(text.split()):
        yield _error(
            errors.UrdfValueError,
            element,
            f"{_label(owner)}: {element.tag} {key}={text!r}, expected {count} number"
            + ("s" if count > 1 else ""),
            "Write numbers with a decimal point, separated by spaces.",
        )
    elif element.tag != "limit" and any(LARGEST_NUMBER < abs(x) < math.inf for x in values):
        yield _error(
            errors.UrdfValueError,
            element,
            f"{_label(owner)}: {element.tag} {key}={text!r}, expected at most {LARGEST_NUMBER:g}",
            "Check its exponent.",
        )


def _origin(owner: Element, parent: Element) -> Iterator[Problem]:
    for origin in parent.findall("origin"):
        yield from _numbers(owner, origin, "xyz", 3)
        yield from _numbers(owner, origin, "rpy", 3)


def _required(
    owner: Element, element: Element, keys: tuple[str, ...], count: int = 1
) -> Iterator[Problem]:
    for key in keys:
        if element.get(key) is None:
            yield _error(
                errors.UrdfValueError,
                element,
                f"{_label(owner)}: <{element.tag}> has no attribute {key!r}",
                f'Add {key}="..." to it.',
            )
        else:
            yield from _numbers(owner, element, key, count)


def _only(owner: Element, parent: Element, tags: tuple[str, ...]) -> Iterator[Problem]:
    for tag in tags:
        if len(parent.findall(tag)) > 1:
            yield _error(
                errors.UrdfValueError,
                parent.findall(tag)[1],
                f"{_label(owner)}: more than one <{tag}>",
                "Keep one of them.",
            )


_MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")


def _link(link: Element, strict: bool) -> Iterator[Problem]:
    if not link.get("name"):
        yield _error(errors.UrdfValueError, link, "a link has no name", 'Add name="...".')
    yield from _only(link, link, ("inertial",))
    for shape in (*link.findall("visual"), *link.findall("collision")):
        yield from _origin(link, shape)
    inertial = link.find("inertial")
    if inertial is None:
        return
    syntax = [*_only(link, inertial, ("origin", "mass", "inertia")), *_origin(link, inertial)]
    mass = inertial.find("mass")
    if mass is None:
        syntax.append(
            _error(
                errors.UrdfValueError,
                inertial,
                f"{_label(link)}: <inertial> has no <mass>",
                'Add <mass value="..."/>, or leave <inertial> out of a massless link.',
            )
        )
    else:
        syntax += _required(link, mass, ("value",))
    tensor = inertial.find("inertia")
    if tensor is not None:
        syntax += _required(link, tensor, _MOMENTS)
    yield from syntax
    if syntax or mass is None:
        return
    if tensor is None:
        yield _warning(
            inertial,
            f"{_label(link)}: <inertial> has no <inertia>; taken as a point mass",
            'Add <inertia ixx="..." .../> from the CAD model or from a simple shape.',
        )
    moments = (0.0,) * 6 if tensor is None else tuple(float(tensor.get(k, "0")) for k in _MOMENTS)
    inertia = Inertia(float(mass.get("value", "0")), moments=moments)
    if all(math.isfinite(x) for x in (inertia.mass, *moments)):
        yield from _physical(link, inertial, inertia, strict)


def _physical(link: Element, where: Element, inertia: Inertia, strict: bool) -> Iterator[Problem]:
    reason = inertia.unphysical()
    if reason is not None:
        kind = errors.NegativeMassError if inertia.mass < 0.0 else errors.UnphysicalInertiaError
        yield _error(
            kind,
            where,
            f"{_label(link)}: {reason}",
            "Check units (kg, kg m^2), signs of the products, and that the inertia is about the "
            "centre of mass.",
        )
        return
    if inertia.mass == 0.0 and any(inertia.moments):
        yield _warning(
            where,
            f"{_label(link)}: inertia without mass",
            "Give it its mass, or leave <inertial> out.",
        )
    reason = inertia.triangle_violation()
    if reason is not None:
        hint = (
            "No body has such moments: often the inertia is about the joint instead of the "
            "centre of mass, or in wrong units. strict=False loads it nevertheless."
        )
        message = f"{_label(link)}: {reason}"
        if strict:
            yield _error(errors.UnphysicalInertiaError, where, message, hint)
        else:
            yield _warning(where, message, hint)


def _joint(joint: Element) -> Iterator[Problem]:
    if not joint.get("name"):
        yield _error(errors.UrdfValueError, joint, "a joint has no name", 'Add name="...".')
    kind = joint.get("type")
    if kind not in KINDS:
        yield _error(
            errors.UnknownJointTypeError,
            joint,
            f"{_label(joint)}: type {kind!r} is unknown",
            "Use one of: " + ", ".join(KINDS),
        )
    tags = "origin", "axis", "limit", "dynamics", "mimic", "parent", "child"
    yield from _only(joint, joint, tags)
    yield from _origin(joint, joint)
    yield from _axis(joint)
    yield from _limit(joint)
    dynamics = joint.find("dynamics")
    if dynamics is not None:
        for key in ("damping", "friction"):
            yield from _numbers(joint, dynamics, key, 1)
            if (_number(dynamics.get(key, "0")) or 0.0) < 0.0:
                yield _error(
                    errors.UrdfValueError,
                    dynamics,
                    f"{_label(joint)}: {key} = {dynamics.get(key)} is negative",
                    "Friction takes energy away; write it with a positive sign.",
                )


def _axis(joint: Element) -> Iterator[Problem]:
    axis = joint.find("axis")
    if axis is None:
        return
    syntax = list(_required(joint, axis, ("xyz",), 3))
    yield from syntax
    if syntax or joint.get("type") not in (*MOVING, "planar"):
        return
    norm = math.hypot(*(float(word) for word in axis.get("xyz", "").split()))
    if norm < 1e-9:
        yield _error(
            errors.ZeroAxisError,
            axis,
            f"{_label(joint)}: axis {axis.get('xyz')!r} has no direction",
            'Write a unit vector such as xyz="0 0 1".',
        )
    elif abs(norm - 1.0) > 1e-3:
        yield _warning(
            axis,
            f"{_label(joint)}: axis {axis.get('xyz')!r} has length {norm:g}, taken as a direction",
            "Write a unit vector.",
        )


def _limit(joint: Element) -> Iterator[Problem]:
    limit = joint.find("limit")
    kind = joint.get("type")
    if limit is None:
        if kind in ("revolute", "prismatic"):
            yield _warning(
                joint,
                f"{_label(joint)}: no <limit>, taken as unlimited",
                'Add <limit lower="..." upper="..." effort="..." velocity="..."/>.',
            )
        return
    syntax = list(_required(joint, limit, ("effort", "velocity")))
    for key in ("lower", "upper"):
        syntax += _numbers(joint, limit, key, 1)
    yield from syntax
    if syntax:
        return
    low, high = float(limit.get("lower", "0")), float(limit.get("upper", "0"))
    effort, velocity = float(limit.get("effort", "0")), float(limit.get("velocity", "0"))
    if low > high or effort < 0.0 or velocity < 0.0:
        yield _error(
            errors.UrdfValueError,
            limit,
            f"{_label(joint)}: lower {low:g}, upper {high:g}, effort {effort:g}, velocity "
            f"{velocity:g}: expected lower <= upper and no negative limit",
            "Exchange the limits or drop the sign.",
        )
    elif kind in ("revolute", "prismatic") and low == high:
        yield _warning(
            limit,
            f"{_label(joint)}: lower and upper limit are both {low:g}",
            "Give it a range, or make the joint fixed.",
        )
    if kind in MOVING and effort == 0.0 and joint.find("mimic") is None:
        yield _warning(
            limit,
            f"{_label(joint)}: effort limit 0: controllers will never move it",
            "Write the motor's torque.",
        )


def _names(root: Element, tag: str) -> Iterator[Problem]:
    seen: dict[str, Element] = {}
    for element in root.findall(tag):
        name = element.get("name")
        if name and name in seen:
            yield _error(
                errors.DuplicateNameError,
                element,
                f"{tag} {name!r} is defined twice, first on line {seen[name].get(xml.LINE)}",
                "Rename one of them.",
            )
        elif name:
            seen[name] = element


def _ends(joint: Element) -> tuple[str | None, str | None]:
    parent, child = joint.find("parent"), joint.find("child")
    return (
        None if parent is None else parent.get("link"),
        None if child is None else child.get("link"),
    )


def _structure(root: Element) -> list[Problem]:
    found: list[Problem] = []
    links = {name: x for x in root.findall("link") if (name := x.get("name"))}
    above: dict[str, Element] = {}
    below: dict[str, list[Element]] = {}
    for joint in root.findall("joint"):
        ends = _ends(joint)
        for role, name in zip(("parent", "child"), ends, strict=True):
            if name not in links:
                what = "is missing" if name is None else f"{name!r} is not a link"
                more = ", ..." if len(links) > MAX_CHOICES_SHOWN else ""
                hint = "Links: " + ", ".join([*links][:MAX_CHOICES_SHOWN]) + more
                message = f"{_label(joint)}: its {role} {what}"
                found.append(_error(errors.MissingLinkError, joint, message, hint))
        parent, child = ends
        if parent not in links or child not in links:
            continue
        assert parent is not None and child is not None
        if child in above:
            message = f"link {child!r} has two parents: {_label(above[child])} and {_label(joint)}"
            hint = "A URDF is a tree; model a closed chain by cutting it at one joint."
            found.append(_error(errors.KinematicLoopError, joint, message, hint))
            continue
        above[child] = joint
        below.setdefault(parent, []).append(joint)
    roots = [name for name in links if name not in above]
    if len(roots) > 1 and not any(p.kind is errors.MissingLinkError for p in found):
        message = f"{len(roots)} links have no parent: {', '.join(map(repr, roots))}"
        hint = "Join them with fixed joints, or remove the unused ones."
        found.append(_error(errors.MultipleRootsError, links[roots[1]], message, hint))
    found += _loops(links, above, roots)
    found += _vehicle_joints(root, links, below, roots)
    found += _welded(links, below, roots)
    return found


def _loops(
    links: dict[str, Element], above: dict[str, Element], roots: list[str]
) -> Iterator[Problem]:
    reached = set(roots)
    for name in links:
        path: dict[str, None] = {}  # a set that keeps its order
        here: str | None = name
        while here in above and here not in reached and here not in path:
            path[here] = None
            here = _ends(above[here])[0]
        if here in path:
            circle = [*path][[*path].index(here) :]
            yield _error(
                errors.KinematicLoopError,
                above[here],
                "links form a loop: " + " <- ".join([*circle, here]),
                "Remove or reverse one of the joints.",
            )
        reached.update(path)


def _vehicle_joints(
    root: Element, links: dict[str, Element], below: dict[str, list[Element]], roots: list[str]
) -> Iterator[Problem]:
    for joint in root.findall("joint"):
        parent = _ends(joint)[0]
        if joint.get("type") not in VEHICLE or parent not in links:
            continue
        if parent not in roots or len(below.get(parent, [])) > 1 or not is_massless(links[parent]):
            yield _error(
                errors.UnsupportedJointError,
                joint,
                f"{_label(joint)}: a {joint.get('type')} joint inside the arm",
                "Only a massless root may be joined to its only child by such a joint; use "
                "revolute and prismatic joints elsewhere.",
            )
        else:
            yield from _left_out_origin(joint)


def _welded(
    links: dict[str, Element], below: dict[str, list[Element]], roots: list[str]
) -> Iterator[Problem]:
    joints = below.get("world", [])
    if roots != ["world"] or len(joints) != 1 or not is_massless(links["world"]):
        return
    if joints[0].get("type") == "fixed":
        yield _warning(
            joints[0],
            f"{_label(joints[0])}: fixes the robot to 'world'; its base is taken as free to move "
            f"and {_ends(joints[0])[1]!r} as frame {{1}}",
            "Leave the link 'world' out, or join it with a floating joint.",
        )
        yield from _left_out_origin(joints[0])


def _left_out_origin(joint: Element) -> Iterator[Problem]:
    """The joint above {1} says where the base is, which the pose of the base says too."""
    for origin in joint.findall("origin"):
        given = {key: text for key in ("xyz", "rpy") if (text := origin.get(key)) is not None}
        if any(_number(word) for text in given.values() for word in text.split()):
            shown = " ".join(f"{key}={text!r}" for key, text in given.items())
            parent, child = _ends(joint)
            yield _warning(
                origin,
                f"{_label(joint)}: its origin, {shown}, is left out: {child!r} is frame {{1}}, "
                f"and the pose of the base says where that is in {parent!r}",
                "Start the base at this pose, or remove the origin.",
            )


def _mimic(joints: list[Element]) -> Iterator[Problem]:
    kinds = {j.get("name"): j for j in joints}
    for joint in joints:
        mimic = joint.find("mimic")
        if mimic is None:
            continue
        yield from _numbers(joint, mimic, "multiplier", 1)
        yield from _numbers(joint, mimic, "offset", 1)
        name = mimic.get("joint")
        driver = kinds.get(name)
        if driver is None:
            reason = f"follows {name!r}, which is not a joint"
        elif driver is joint:
            reason = "follows itself"
        elif driver.get("type") not in MOVING:
            reason = f"follows {name!r}, which is {driver.get('type')}"
        elif driver.find("mimic") is not None:
            reason = f"follows {name!r}, which is a follower itself"
        elif joint.get("type") not in MOVING:
            reason = f"is {joint.get('type')} and cannot follow another"
        else:
            continue
        yield _error(
            errors.MimicError,
            mimic,
            f"{_label(joint)}: {reason}",
            "Name a revolute, continuous or prismatic joint that moves by itself.",
        )
