# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node as a frozen dataclass: declared, read, checked and changed in one place.

A field made with :func:`parameter` has its default, description, unit and range in its metadata;
its type comes from the default. :class:`RobotParameters` are those that all nodes share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node
from rclpy.parameter import Parameter

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie import GROUP_NAMES
from vm_dynamics.model.hydrodynamics import Hydrodynamics
from vm_dynamics.robot import Robot, load, submerge

T = TypeVar("T", bound="NodeParameters")

_ARRAYS = {str: Parameter.Type.STRING_ARRAY, float: Parameter.Type.DOUBLE_ARRAY}


def parameter(
    default: Any,
    description: str,
    *,
    unit: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    choices: Iterable[str] = (),
    others: tuple[str, Callable[[str], bool]] | None = None,
    of: type = str,
    read_only: bool = False,
) -> Any:
    """Field of a parameter.

    Args:
        default: a bool, int, float, str, or a tuple.
        description: a sentence for ``ros2 param describe``.
        unit: SI unit, for the description.
        minimum: least value of a number.
        maximum: largest value of a number.
        choices: the only values of a string.
        others: further values beside the choices: their form in words, and what tells them.
        of: type of the items of a tuple: str or float.
        read_only: whether it is fixed when the node starts.
    """
    metadata = {
        "description": description,
        "unit": unit,
        "minimum": minimum,
        "maximum": maximum,
        "choices": tuple(choices),
        "others": others,
        "of": of,
        "read_only": read_only,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class NodeParameters:
    """Base of all parameter classes.

    Attributes:
        autostart: whether the node configures and activates itself.
        diagnostics_rate: how often the node reports on /diagnostics [Hz].
    """

    # fields of a class that end in an underscore have a dot there: payload_mass -> payload.mass
    GROUPS: ClassVar[tuple[str, ...]] = ()

    autostart: bool = parameter(True, "configure and activate without being asked", read_only=True)
    diagnostics_rate: float = parameter(
        1.0, "reports on /diagnostics", unit="Hz", minimum=0.1, maximum=100.0, read_only=True
    )

    def __post_init__(self) -> None:
        """Check every value against its range and choices.

        Raises:
            ParameterError: names the parameter, what came and what was expected.
        """
        for item in fields(self):
            _check(self.ros_name(item.name), getattr(self, item.name), item.metadata)

    @classmethod
    def ros_name(cls, name: str) -> str:
        """Name of a field's parameter: the groups of the class have a dot behind them."""
        for group in cls.GROUPS:
            if name.startswith(f"{group}_"):
                return f"{group}.{name[len(group) + 1 :]}"
        return name

    @classmethod
    def declare(cls: type[T], node: Node) -> T:
        """Declare all parameters at a node and read what it was started with.

        Raises:
            ParameterError: a value that is out of range or of another type.
        """
        for item in fields(cls):
            name, default = cls.ros_name(item.name), item.default
            try:
                if isinstance(default, tuple) and not default:
                    _declare_empty(node, name, item.metadata)
                else:
                    value = list(default) if isinstance(default, tuple) else default
                    node.declare_parameter(name, value, _descriptor(item.metadata, default))
            except Exception as error:
                raise ParameterError(f"parameter {name}: {error}") from error
        return cls(**{item.name: _read(node, cls, item) for item in fields(cls)})

    def changed(self: T, asked: Iterable[Parameter]) -> T:
        """The same with other values; parameters that are not ours are left alone.

        Raises:
            ParameterError: a value that is out of range.
        """
        names = {self.ros_name(item.name): item.name for item in fields(self)}
        values = {
            names[p.name]: tuple(p.value) if _is_array(p) else p.value
            for p in asked
            if p.name in names
        }
        return replace(self, **values) if values else self  # type: ignore[arg-type]


def _declare_empty(node: Node, name: str, metadata: Any) -> None:
    """Declare an array that is empty unless the node was started with another one.

    rclpy takes an empty list for one of bytes, so the type is declared first, then the value, and
    only then that it is read-only. Without a value ``ros2 param dump`` would fail.
    """
    kind = _ARRAYS[metadata["of"]]
    node.declare_parameter(name, kind)
    if node.get_parameter_or(name, Parameter(name)).value is None:
        node.set_parameters([Parameter(name, kind, [])])
    descriptor = _descriptor(metadata, ())
    descriptor.type = kind.value
    node.set_descriptor(name, descriptor)


def _is_array(p: Parameter) -> bool:
    return not isinstance(p.value, (str, bool, int, float, type(None)))


def _read(node: Node, cls: type[NodeParameters], item: Any) -> Any:
    value = node.get_parameter(cls.ros_name(item.name)).value
    return tuple(value) if isinstance(item.default, tuple) else value


def _descriptor(metadata: Any, default: Any) -> ParameterDescriptor:
    unit = f" [{metadata['unit']}]" if metadata["unit"] else ""
    choices = f"; one of: {_valid(metadata)}" if metadata["choices"] else ""
    out = ParameterDescriptor(
        description=metadata["description"] + unit,
        additional_constraints=choices.removeprefix("; "),
        read_only=metadata["read_only"],
    )
    low, high = metadata["minimum"], metadata["maximum"]
    if low is None and high is None:
        return out
    if isinstance(default, float):
        most = 1e308 if high is None else float(high)
        out.floating_point_range = [
            FloatingPointRange(from_value=-1e308 if low is None else float(low), to_value=most)
        ]
    elif isinstance(default, int):
        out.integer_range = [
            IntegerRange(from_value=int(low or 0), to_value=2**31 if high is None else int(high))
        ]
    return out


def _valid(metadata: Any) -> str:
    """The choices in words."""
    others = metadata["others"]
    return ", ".join(metadata["choices"]) + ("" if others is None else f", or {others[0]}")


def _check(name: str, value: Any, metadata: Any) -> None:
    others = metadata["others"]
    if (
        metadata["choices"]
        and value not in metadata["choices"]
        and not (others is not None and others[1](value))
    ):
        raise ParameterError(
            f"parameter {name}: got {value!r}, expected one of {_valid(metadata)}"
        )
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            continue
        low, high = metadata["minimum"], metadata["maximum"]
        if not math.isfinite(number) or (
            (low is not None and number < low) or (high is not None and number > high)
        ):
            raise ParameterError(
                f"parameter {name}: got {number:g}, expected "
                f"{'-inf' if low is None else format(low, 'g')} to "
                f"{'inf' if high is None else format(high, 'g')} {metadata['unit']}".rstrip()
            )


@dataclass(frozen=True)
class ModelParameters(NodeParameters):
    """Which robot it is."""

    robot_description: str = parameter(
        "", "URDF text; if empty, the topic robot_description is waited for"
    )
    base: str = parameter(
        "",
        "how the base moves; if empty, what the URDF says, else SE3",
        choices=("", *GROUP_NAMES),
    )
    gravity: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0), "acceleration of free fall in the world's axes", unit="m/s^2", of=float
    )
    hydrodynamics: str = parameter("", "YAML file with a section hydrodynamics; empty for none")
    frame_prefix: str = parameter(
        "",
        "in front of the names of links where they are frames, as of robot_state_publisher",
        read_only=True,
    )

    def __post_init__(self) -> None:
        """Check lengths of vectors, and the prefix, of which tf and labels would make nonsense."""
        super().__post_init__()
        self.require_lengths(gravity=(3,))
        if self.frame_prefix.startswith("/") or set(self.frame_prefix) & set(";,="):
            raise ParameterError(
                f"parameter frame_prefix: got {self.frame_prefix!r}, expected no slash in front "
                "and none of ; , ="
            )

    def robot_of(self, text: str, **options: Any) -> Robot:
        """Robot of a description, with all that the parameters make of it.

        Args:
            text: URDF text.
            options: further ones of :func:`vm_dynamics.load`.
        """
        # bytes are never taken for the path of a file
        robot = load(text.encode(), base=self.base or None, gravity=self.gravity, **options)
        fluid = self.fluid
        return robot if fluid is None else submerge(robot, fluid)

    @property
    def fluid(self) -> Hydrodynamics | None:
        """The water, if there is some."""
        return Hydrodynamics.load(self.hydrodynamics) if self.hydrodynamics else None

    def frame_of(self, link: str) -> str:
        """Frame of a link, as it is on tf."""
        return self.frame_prefix + link

    def link_of(self, frame: str) -> str:
        """Link of a frame.

        Raises:
            ParameterError: the frame is not of this robot.
        """
        if not frame.startswith(self.frame_prefix):
            raise ParameterError(f"frame {frame!r}: expected {self.frame_prefix!r} in front")
        return frame[len(self.frame_prefix) :]

    def require_lengths(self, **sizes: tuple[int, ...]) -> None:
        """Refuse vectors that have none of the lengths given for them."""
        for name, valid in sizes.items():
            given = len(getattr(self, name))
            if given not in valid:
                raise ParameterError(
                    f"parameter {self.ros_name(name)}: got {given} numbers, expected {valid[-1]}"
                )


@dataclass(frozen=True)
class RobotParameters(ModelParameters):
    """What every node needs to know of its robot."""

    GROUPS: ClassVar[tuple[str, ...]] = ("payload",)

    root_link: str = parameter(
        "",
        "link whose frame is {1}, all that is inboard of it left out; if empty, the URDF's root",
    )
    tip_link: str = parameter("", "link that tip wrenches act on; if empty, the last one")
    locked_joints: tuple[str, ...] = parameter(
        (), "joints to fix: name, or name=position [rad or m]"
    )
    payload_link: str = parameter("", "link that holds a payload; empty for none")
    payload_mass: float = parameter(0.0, "mass of the payload", unit="kg", minimum=0.0)
    payload_com: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0), "its centre of mass in the link's frame", unit="m", of=float
    )
    payload_inertia: tuple[float, ...] = parameter(
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        "xx xy xz yy yz zz about its centre of mass, in the link's axes",
        unit="kg m^2",
        of=float,
    )
    missing_velocity: str = parameter(
        "refuse",
        "what to do with joint states without velocities: refuse them, or differentiate positions "
        "through a low pass of velocity_cutoff",
        choices=("refuse", "differentiate"),
    )
    velocity_cutoff: float = parameter(
        20.0, "low pass of differentiated velocities", unit="Hz", minimum=0.01, maximum=1e4
    )

    def __post_init__(self) -> None:
        """Check lengths of vectors and the joints to lock."""
        super().__post_init__()
        self.require_lengths(payload_com=(3,), payload_inertia=(6,))
        self.locked  # noqa: B018 - raises what is wrong with it

    def robot_of(self, text: str, **options: Any) -> Robot:
        """Robot of a description, with its payload."""
        robot = super().robot_of(
            text,
            tip_link=self.tip_link or None,
            locked_joints=self.locked,
            root_link=self.root_link or None,
            **options,
        )
        if not self.payload_link:
            return robot
        held = self.payload_mass, self.payload_com, self.payload_inertia
        return robot.with_payload(self.payload_link, *held)

    @property
    def locked(self) -> dict[str, float]:
        """Positions of locked joints by name."""
        return numbers_by_name("locked_joints", self.locked_joints, missing=0.0)


def numbers_by_name(
    name: str, items: Iterable[str], *, missing: float | None = None
) -> dict[str, float]:
    """Numbers of a parameter whose items are ``name=value``.

    Args:
        name: of the parameter, for messages.
        items: its value.
        missing: what a name alone means; None if it means nothing.

    Raises:
        ParameterError: an item that cannot be read.
    """
    out = {}
    for item in items:
        key, sign, value = item.partition("=")
        try:
            out[key.strip()] = missing if missing is not None and not sign else float(value)
        except ValueError:
            expected = "name=value" if missing is None else "name or name=value"
            raise ParameterError(f"parameter {name}: got {item!r}, expected {expected}") from None
    return out
