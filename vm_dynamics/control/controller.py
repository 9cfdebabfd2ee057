# SPDX-License-Identifier: Apache-2.0
"""What every controller has in common, so that whoever runs one need not know which it is.

A controller says what it needs to hear, takes targets, and turns states into efforts. All those of
this package are one, and so is any class of a user's own with the parts of :class:`Controller`:
``compensator_node`` runs it by its import path, see :mod:`vm_dynamics.control.imported`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from vm_dynamics.compiled import EntryPoint
from vm_dynamics.control.state import at_rest
from vm_dynamics.errors import DimensionError, NonFiniteError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

# What a controller may need to hear beside the joints.
NEEDS = ("pose", "twist", "locked_velocity")
# What may be aimed, and the keywords of ``set_target`` that say where.
TARGETS = {"joints": ("q", "qd", "qdd"), "base_pose": ("g",), "tool_pose": ("tool",)}


class ControlState(NamedTuple):
    """What was heard of a robot. The arrays belong to whoever made it: do not write to them.

    Attributes:
        q: joint positions, shape (n,) [rad or m].
        qd: joint velocities, shape (n,) [rad/s or m/s].
        dt: time since the last step [s]; 0 in the first one.
        stamp: when the joints were measured [s].
        g: pose of the base in the world, shape (4, 4); None unless ``pose`` is needed.
        V: velocity of the base in {1}, shape (b,); None unless ``twist`` is needed.
        mu: locked velocity V + A qd in {1}, shape (b,); None unless ``locked_velocity`` is needed.
    """

    q: Array
    qd: Array
    dt: float = 0.0
    stamp: float = 0.0
    g: Array | None = None
    V: Array | None = None
    mu: Array | None = None


class Efforts(NamedTuple):
    """What a controller asks for.

    Attributes:
        tau: joint efforts in the robot's order, shape (n,) [N m or N].
        thrusts: of rotors or thrusters, shape (m,) [N], if it drives some.
        wrench: on the base, [f; t] in {1}, shape (6,), if it drives it: what the thrusts give.
    """

    tau: Array
    thrusts: Array | None = None
    wrench: Array | None = None

    @property
    def sizes(self) -> tuple[Any, ...]:
        """Shape of each part, None for one that is not there."""
        tau, thrusts, wrench = self
        return (
            tau.shape,
            None if thrusts is None else thrusts.shape,
            None if wrench is None else wrench.shape,
        )

    def blended(self, later: Efforts, share: float) -> Efforts:
        """On the way from these to others, of which a share is taken already."""
        return Efforts(
            _blended(self.tau, later.tau, share),
            *(
                None if a is None and b is None else _blended(a, b, share)
                for a, b in zip(self[1:], later[1:], strict=True)
            ),
        )


def _blended(a: Array | None, b: Array | None, share: float) -> Array:
    """Between two vectors, one of which may stand for zeros."""
    if a is not None and b is not None and a.shape != b.shape:
        return b  # of other rotors: there is nothing between them
    out = np.zeros_like(a if b is None else b)
    if a is not None:
        out += (1.0 - share) * a
    if b is not None:
        out += share * b
    return out


@runtime_checkable
class Controller(Protocol):
    """Base of controllers: a class that inherits has to write the first four parts only.

    A class that does not inherit is a controller too if it has all parts. It is built with the
    robot as its first argument where ``compensator_node`` runs it.

    The controllers of this package also have a ``step``, whose arguments differ as their laws do
    and which tells more of what it found; :meth:`command` is the same for all, and so has a name
    of its own.

    Attributes:
        needs: what it needs to hear beside the joints, some of ``pose``, ``twist``,
            ``locked_velocity``. All else is None in the states that it gets.
        targets: what can be aimed: some of ``joints``, ``base_pose``, ``tool_pose``.
        kernels: compiled functions with a ``compile``, called before the first step. What a step
            at rest calls is compiled by that; these are the others that a step may need.
    """

    needs: frozenset[str]
    targets: frozenset[str] = frozenset({"joints"})
    kernels: tuple[EntryPoint, ...] = ()

    @abstractmethod
    def set_target(self, *args: Any, **kwargs: Any) -> None:
        """Where to be from the next command on, by the keywords of one of ``targets``.

        joints
            ``q``, ``qd``, ``qdd``: positions, velocities, accelerations, shape (n,) each.
        base_pose
            ``g``: pose of the base in the world, shape (4, 4).
        tool_pose
            ``tool``: pose of the tool in the world, shape (4, 4).

        What is not named goes on as it was.
        """
        raise NotImplementedError

    @abstractmethod
    def command(self, state: ControlState) -> Efforts:
        """Efforts for a state, with the same parts and shapes every time."""
        raise NotImplementedError

    @abstractmethod
    def reset(self) -> None:
        """Forget what was gathered, such as integral action.

        Targets of before are void: ``hold`` or ``set_target`` comes before the next command.
        """
        raise NotImplementedError

    def hold(self, state: ControlState) -> None:
        """Stay where the robot is: what can be aimed gets its target from the state."""
        if "tool_pose" in self.targets:
            raise ParameterError("hold: only the controller itself can tell where its tool is")
        if "joints" in self.targets:
            still = np.zeros_like(state.q)
            self.set_target(q=state.q, qd=still, qdd=still)
        if "base_pose" in self.targets:
            self.set_target(g=state.g)

    def take_over(self, former: Any) -> bool:
        """Go on where a controller of the same class is, with other settings.

        Returns:
            Whether its targets are now those of the former; if not, ``hold`` follows.
        """
        return False

    @property
    def gains(self) -> Array:
        """Stiffness and damping of all that is fed back, to compare with others; may be empty."""
        return np.zeros(0)

    def shaken(self, q: Array, period: float) -> str:
        """Joint or axis that the gains would shake at a shape, (n,), and a period [s], if any."""
        return ""


METHODS = ("set_target", "command", "reset", "hold", "take_over", "shaken")
ATTRIBUTES = ("needs", "targets", "kernels", "gains")


def rehearse(controller: Controller, robot: Robot) -> Efforts:
    """A command at rest, so that nothing is left to compile or to be refused later.

    Args:
        controller: the controller, which has no targets afterwards.
        robot: its robot.

    Returns:
        The efforts, whose parts and shapes are those of all that follow.

    Raises:
        ParameterError: ``needs`` or ``targets`` are none, or the result is not an Efforts.
        DimensionError: efforts of the wrong shape or type.
        NonFiniteError: efforts that are NaN or infinite.
    """
    _check_names("needs", controller.needs, NEEDS)
    _check_names("targets", controller.targets, TARGETS)
    for kernel in controller.kernels:
        kernel.compile()
    g, q, V, qd = at_rest(robot)
    for target in controller.targets:
        values = {"q": q, "qd": qd, "qdd": qd, "g": g, "tool": g}
        controller.set_target(**{key: values[key] for key in TARGETS[target]})
    state = heard_by(controller, q, qd, 0.0, 0.0, g, V, V)
    controller.hold(state)
    efforts = controller.command(state)
    _check_efforts(efforts, robot)
    if np.ndim(controller.gains) != 1:
        raise DimensionError(f"gains: got {controller.gains!r}, expected a vector")
    if not isinstance(joint := controller.shaken(q, 1.0), str):
        raise ParameterError(f"shaken: got {joint!r}, expected the name of a joint, or ''")
    controller.reset()
    return efforts


def heard_by(
    controller: Controller,
    q: Array,
    qd: Array,
    dt: float,
    stamp: float,
    g: Array | None,
    V: Array | None,
    mu: Array | None,
) -> ControlState:
    """State without what a controller did not ask for, which may be old."""
    needs = controller.needs
    return ControlState(
        q,
        qd,
        dt,
        stamp,
        g if "pose" in needs else None,
        V if "twist" in needs else None,
        mu if "locked_velocity" in needs else None,
    )


def _check_names(what: str, names: Any, valid: Any) -> None:
    if not isinstance(names, (set, frozenset)) or not names <= set(valid):
        raise ParameterError(
            f"{what}: got {names!r}, expected a frozenset of some of {', '.join(valid)}"
        )


def _check_efforts(efforts: Any, robot: Robot) -> None:
    if not isinstance(efforts, Efforts):
        raise ParameterError(f"command: got {type(efforts).__name__}, expected vm.Efforts")
    sizes = {"tau": robot.n, "wrench": 6}
    for name, part in efforts._asdict().items():
        if part is None and name != "tau":
            continue
        if not (isinstance(part, np.ndarray) and part.dtype == float and part.ndim == 1):
            raise DimensionError(f"command: {name} is {part!r}, expected a vector of floats")
        if len(part) != sizes.get(name, len(part)):
            raise DimensionError(
                f"command: {name} has shape {part.shape}, expected ({sizes[name]},)"
            )
        if not np.isfinite(part).all():
            raise NonFiniteError(f"command: {name} is not finite: {part}")
