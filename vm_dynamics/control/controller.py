# SPDX-License-Identifier: Apache-2.0
"""The interface of all controllers, so that one program can run any of them.

A controller says which inputs it needs, accepts targets, and computes efforts from states. A
user's own class is a controller too if it has the parts of :class:`Controller`:
``compensator_node`` loads it by its import path, see :mod:`vm_dynamics.control.imported`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np

from vm_dynamics.compiled import EntryPoint
from vm_dynamics.control.state import at_rest
from vm_dynamics.errors import DimensionError, NonFiniteError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

# Inputs that a controller may need besides the joint states.
VALID_NEEDS = ("pose", "twist", "locked_velocity")
# Kinds of targets, and the keywords by which ``set_target`` receives each of them.
TARGET_KEYWORDS = {"joints": ("q", "qd", "qdd"), "base_pose": ("g",), "tool_pose": ("tool",)}


class ControlState(NamedTuple):
    """Measured or estimated state of a robot. Controllers must not write to its arrays.

    Attributes:
        q: joint positions, shape (n,) [rad or m].
        qd: joint velocities, shape (n,) [rad/s or m/s].
        dt: time since the last step [s]; 0 in the first one.
        stamp: when the joints were measured [s].
        g: pose of the base in the world, shape (4, 4); None unless ``pose`` is needed.
        V: velocity of the base in {1}, shape (b,) [m/s, rad/s]; None unless ``twist`` is needed.
        mu: locked velocity V + A qd in {1}, shape (b,) [m/s, rad/s]; None unless
            ``locked_velocity`` is needed.
    """

    q: Array
    qd: Array
    dt: float = 0.0
    stamp: float = 0.0
    g: Array | None = None
    V: Array | None = None
    mu: Array | None = None

    @property
    def base(self) -> tuple[Array, Array]:
        """Pose g and velocity V, for a controller that needs ``pose`` and ``twist``."""
        return cast(Array, self.g), cast(Array, self.V)


class Efforts(NamedTuple):
    """Output of a controller.

    Attributes:
        tau: joint efforts in the order of ``robot.joint_names``, shape (n,) [N m or N].
        thrusts: thrusts of the rotors or thrusters, shape (m,) [N]; None if it drives none.
        wrench: wrench on the base that the actuators give, [f; t] in {1}, shape (6,) [N, N m];
            None if it does not drive the base.
    """

    tau: Array
    thrusts: Array | None = None
    wrench: Array | None = None

    @property
    def sizes(self) -> tuple[tuple[int, ...] | None, ...]:
        """Shapes of tau, thrusts and wrench, with None for a part that is None."""
        tau, thrusts, wrench = self
        return (
            tau.shape,
            None if thrusts is None else thrusts.shape,
            None if wrench is None else wrench.shape,
        )

    def blended(self, later: Efforts, share: float) -> Efforts:
        """Linear transition to other efforts: a share of 0 gives these, 1 gives ``later``."""
        return Efforts(
            _blended(self.tau, later.tau, share),
            *(
                None if a is None and b is None else _blended(a, b, share)
                for a, b in zip(self[1:], later[1:], strict=True)
            ),
        )


def _blended(a: Array | None, b: Array | None, share: float) -> Array:
    """Linear transition from a to b; None stands for zeros."""
    if a is not None and b is not None and a.shape != b.shape:
        return b  # another set of rotors: there is no transition
    out = np.zeros_like(a if b is None else b)
    if a is not None:
        out += (1.0 - share) * a
    if b is not None:
        out += share * b
    return out


@runtime_checkable
class Controller(Protocol):
    """Base class of controllers.

    A class that inherits must define ``needs``, ``set_target``, ``command`` and ``reset``; the
    rest has defaults. A class that does not inherit must have all parts. ``compensator_node``
    builds a controller with the robot as its first argument.

    The controllers of this package also have a method ``step``. Its arguments depend on the
    controller, and its result has more details; :meth:`command` is the same for all.

    Attributes:
        needs: inputs besides the joint states, some of ``pose``, ``twist``, ``locked_velocity``.
            Inputs that are not needed are None in the states.
        targets: kinds of targets: some of ``joints``, ``base_pose``, ``tool_pose``.
        compensates: whether it is a joint law that needs no estimate when the locked velocity is
            zero: then ``compensator_node`` fades the velocity out when its estimate is doubtful.
        kernels: compiled functions that a step may call but a step at rest does not. Their
            ``compile`` is called before the first step.
    """

    needs: frozenset[str]
    targets: frozenset[str] = frozenset({"joints"})
    compensates: bool = False
    kernels: tuple[EntryPoint, ...] = ()

    @abstractmethod
    def set_target(self, *args: Any, **kwargs: Any) -> None:
        """Set a target from the next command on, by the keywords of one of ``targets``.

        joints
            ``q``, ``qd``, ``qdd``: joint positions, velocities, accelerations, shape (n,) each.
        base_pose
            ``g``: pose of the base in the world, shape (4, 4).
        tool_pose
            ``tool``: pose of the tool in the world, shape (4, 4).

        Targets that are not given stay as they were.
        """
        raise NotImplementedError

    @abstractmethod
    def command(self, state: ControlState) -> Efforts:
        """Compute efforts for a state, with the same parts and shapes every time."""
        raise NotImplementedError

    @abstractmethod
    def reset(self) -> None:
        """Clear the memory, such as integral action.

        Earlier targets become invalid: the caller uses ``hold`` or ``set_target`` before the next
        command.
        """
        raise NotImplementedError

    def hold(self, state: ControlState) -> None:
        """Set the present state as the target, so that the robot stays where it is."""
        if "tool_pose" in self.targets:
            raise ParameterError("hold: only the controller itself can tell where its tool is")
        if "joints" in self.targets:
            still = np.zeros_like(state.q)
            self.set_target(q=state.q, qd=still, qdd=still)
        if "base_pose" in self.targets:
            self.set_target(g=state.g)

    def take_over(self, former: Any) -> bool:
        """Continue from a controller of the same class that has other settings.

        Args:
            former: the controller that ran until now.

        Returns:
            Whether the targets were taken over; if not, the caller calls ``hold``.
        """
        return False

    @property
    def gains(self) -> Array:
        """All stiffness and damping gains in one vector, for comparison; may be empty."""
        return np.zeros(0)

    def shaken(self, q: Array, period: float) -> str:
        """Name of a joint or axis that the gains make unstable, or ``""``.

        Args:
            q: joint positions, shape (n,) [rad or m].
            period: control period [s].
        """
        return ""


CONTROLLER_METHODS = ("set_target", "command", "reset", "hold", "take_over", "shaken")
CONTROLLER_ATTRIBUTES = ("needs", "targets", "kernels", "gains")


def rehearse(controller: Controller, robot: Robot) -> Efforts:
    """Run one command at rest, which compiles all kernels and finds errors early.

    Args:
        controller: the controller; it has no targets afterwards.
        robot: its robot.

    Returns:
        The efforts. All later ones have the same parts and shapes.

    Raises:
        ParameterError: ``needs`` or ``targets`` has unknown names, or the result is not an
            :class:`Efforts`.
        DimensionError: efforts have the wrong shape or type.
        NonFiniteError: efforts are NaN or infinite.
    """
    _check_names("needs", controller.needs, VALID_NEEDS)
    _check_names("targets", controller.targets, TARGET_KEYWORDS)
    for kernel in controller.kernels:
        kernel.compile()
    g, q, V, qd = at_rest(robot)
    for target in controller.targets:
        values = {"q": q, "qd": qd, "qdd": qd, "g": g, "tool": g}
        controller.set_target(**{key: values[key] for key in TARGET_KEYWORDS[target]})
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
    """State for a controller, without the inputs that it does not need: they may be outdated.

    The arguments after ``controller`` are the attributes of :class:`ControlState`.
    """
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


def _check_names(what: str, names: Any, valid: Collection[str]) -> None:
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
