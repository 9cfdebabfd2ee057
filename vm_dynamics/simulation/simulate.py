# SPDX-License-Identifier: Apache-2.0
"""Simulate a robot under a control law, with a fixed step.

The law is called once a step and its forces are held until the next, as a digital controller's
are. Friction of the URDF acts after each step, implicitly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.dynamics.hybrid import BASE, passive_mask
from vm_dynamics.dynamics.loads import STICTION_SPEED, LinkWrench
from vm_dynamics.errors import (
    DivergedError,
    NonFiniteError,
    ParameterError,
    UnknownMethodError,
    VmDynamicsError,
)
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot
from vm_dynamics.simulation import _kernels
from vm_dynamics.simulation.trajectory import State, Trajectory, checked_state

INTEGRATORS = ("semi_implicit", "runge_kutta", "variational")
MAX_SIMULATION_STEPS = 100_000_000
# How often a progress bar is told, and how long a run may take before there is one.
STEPS_A_REPORT = 200
MIN_SECONDS_FOR_BAR = 2.0  # [s]
_NO_INERTIAS = np.empty((0, 6, 6))


class Command(NamedTuple):
    """What a law asks for.

    Attributes:
        tau: joint efforts, shape (n,); zero if None.
        base_wrench: on the base in {1}, shape (b,); zero if None.
        link_wrenches: on any links; taken where the step begins.
        active: accelerations of degrees of freedom that are driven to them, by joint name, or
            ``base`` with b numbers. All others are passive; the set may change with every call.
            What tau and base_wrench say of the driven does not matter.
    """

    tau: ArrayLike | None = None
    base_wrench: ArrayLike | None = None
    link_wrenches: Iterable[LinkWrench] = ()
    active: Mapping[str, Any] | None = None


Law = Callable[[float, State], Any]


def simulate(
    robot: Robot,
    state: State,
    torque_law: Law | None,
    t: Any,
    *,
    step: float = 1e-3,
    integrator: str = "semi_implicit",
    friction: bool = True,
    progress: bool | None = None,
) -> Trajectory:
    """Motion of a robot from a state.

    Args:
        robot: the robot; gravity and fluid are its own.
        state: where it starts.
        torque_law: function of time [s] and :class:`State` that returns joint efforts, shape
            (n,), or a :class:`Command`; None for no forces.
        t: duration [s], or the times of begin and end.
        step: the fixed step [s]; the last state is at the end of the last whole step.
        integrator: ``semi_implicit`` (order 1, quickest), ``runge_kutta`` (Munthe-Kaas, order 4)
            or ``variational`` (order 2, keeps momentum to rounding and energy without drift).
        friction: whether the joints have the damping and dry friction of the URDF.
        progress: whether to show a bar; if None, on a terminal and when it takes long.

    Raises:
        DivergedError: the motion grew beyond all bounds; the message says when.
        ParameterError: a step, duration or combination that cannot be.
    """
    if integrator not in INTEGRATORS:
        raise UnknownMethodError("integrator", integrator, INTEGRATORS)
    if not (torque_law is None or callable(torque_law)):
        raise ParameterError(
            f"torque_law: got {type(torque_law).__name__}, expected a function of time and State, "
            "or None"
        )
    times = _times(t, step)
    run = Run(robot, state, times, float(step), friction)
    advance = run.stepper(integrator)
    with _bar(len(times) - 1, progress) as bar:
        for k in range(len(times) - 1):
            advance(k, run.command(k, torque_law))
            if k % STEPS_A_REPORT == STEPS_A_REPORT - 1:
                bar.update(STEPS_A_REPORT)
    return run.trajectory


def _bar(steps: int, progress: bool | None) -> Any:
    from tqdm import tqdm

    disable = None if progress is None else not progress
    return tqdm(
        total=steps, unit="step", desc="simulating", disable=disable, delay=MIN_SECONDS_FOR_BAR
    )


def _times(t: Any, step: Any) -> Array:
    """Times of all states, shape (N + 1,)."""
    ends = (0.0, t) if np.ndim(t) == 0 else tuple(t)
    try:
        begin, end, h = float(ends[0]), float(ends[1]), float(step)
    except (TypeError, ValueError, IndexError):
        raise ParameterError(f"t, step: got {t!r}, {step!r}, expected numbers [s]") from None
    if len(ends) != 2 or not (np.isfinite((begin, end, h)).all() and end > begin and h > 0.0):
        raise ParameterError(
            f"t, step: got {t!r}, {step!r}, expected a duration or two times, the second later, "
            "and a step above zero [s]"
        )
    count = int((end - begin) / h * (1.0 + 1e-12) + 1e-9)
    if not 1 <= count <= MAX_SIMULATION_STEPS:
        raise ParameterError(
            f"t, step: {end - begin:g} s in steps of {h:g} s are {count} steps, expected 1 to "
            f"{MAX_SIMULATION_STEPS}"
        )
    return begin + h * np.arange(count + 1)


class _Forces(NamedTuple):
    """A command as the kernels take it."""

    passive: Array
    acc: Array
    force: Array
    loads: Array


class Run:
    """A trajectory in the making."""

    def __init__(
        self, robot: Robot, state: State, times: Array, step: float, friction: bool
    ) -> None:
        g, q, V, qd = checked_state(robot, state)
        robot.base_group.log(g)  # refuses what is no displacement of the group
        count = len(times)
        self.robot, self.step = robot, step
        self.trajectory = Trajectory(
            robot,
            times,
            np.empty((count, 4, 4)),
            np.empty((count, robot.n)),
            np.empty((count, robot.b)),
            np.empty((count, robot.n)),
            np.zeros((count - 1, robot.n)),
            np.zeros((count - 1, robot.b)),
        )
        made = self.trajectory
        self.rows = made.g, made.q, made.V, made.qd
        for rows, first in zip(self.rows, (g, q, V, qd), strict=True):
            rows[0] = first
        self.times = times.tolist()
        self.shape_of_tau = (robot.n,)
        size = robot.b + robot.n
        self.none = _Forces(np.ones(size), np.zeros(size), np.zeros(size), np.empty((0, 6)))
        self.rubs = friction and bool(robot.damping.any() or robot.friction.any())
        self.impulse = np.zeros(robot.n)  # of friction at the end of the last step

    def command(self, k: int, law: Law | None) -> _Forces:
        """What the law asks for at state k."""
        if law is None:
            return self.none
        g, q, V, qd = self.rows
        asked = law(self.times[k], State(g[k], q[k], V[k], qd[k]))
        force = self.none.force.copy()
        if type(asked) is np.ndarray and asked.shape == self.shape_of_tau:
            force[self.robot.b :] = self.trajectory.tau[k] = asked  # the kernel looks for NaN
            return self.none._replace(force=force)
        return self._whole_command(k, asked if isinstance(asked, Command) else Command(asked))

    def _whole_command(self, k: int, asked: Command) -> _Forces:
        robot = self.robot
        passive, acc, _, loads = self.none
        force = np.zeros_like(acc)
        if asked.tau is not None:
            force[robot.b :] = self.trajectory.tau[k] = vector("tau", asked.tau, robot.n)
        if asked.base_wrench is not None:
            force[: robot.b] = self.trajectory.F[k] = robot.check_wrench(asked.base_wrench)
        if asked.active:
            passive, acc = self._driven(asked.active)
        if asked.link_wrenches:
            state = self.trajectory[k]
            loads = robot.given_loads(state.g, state.q, None, asked.link_wrenches)
        return _Forces(passive, acc, force, loads)

    def _driven(self, active: Mapping[str, Any]) -> tuple[Array, Array]:
        """Mask of the passive and accelerations of the others, both (b + n,)."""
        robot = self.robot
        active_mask = passive_mask(robot, active)
        acc = np.zeros(robot.b + robot.n)
        for name, value in active.items():
            if name == BASE:
                acc[: robot.b] = vector("acceleration of the base", value, robot.b)
            else:
                at = robot.b + robot.joint_names.index(name)
                acc[at : at + 1] = vector(f"acceleration of {name!r}", [value], 1)
        return 1.0 - active_mask, acc

    def stepper(self, integrator: str) -> Callable[[int, _Forces], None]:
        """Function that makes state k + 1 of state k and the forces between them."""
        inner = self._variational() if integrator == "variational" else self._explicit(integrator)
        rub = self._rubbing()
        made, none, b = self.trajectory, self.none.passive, self.robot.b

        def advance(k: int, forces: _Forces) -> None:
            try:
                inner(k, forces)
                if rub is not None:
                    rub(k + 1, forces)
            except VmDynamicsError:
                raise
            except RuntimeError:
                raise DivergedError(
                    f"the simulation of {self.robot.name!r} diverged at t = {self.times[k]:g} s; "
                    f"try a shorter step than {self.step:g} s, or look at the forces"
                ) from None
            except ValueError:
                tau = forces.force[self.robot.b :]
                raise NonFiniteError(
                    f"tau: the law gave NaN or infinity at t = {self.times[k]:g} s: {tau}"
                ) from None
            if forces.passive is not none:  # the kernels have found what the drives gave
                made.F[k], made.tau[k] = forces.force[:b], forces.force[b:]

        return advance

    def _explicit(self, integrator: str) -> Callable[[int, _Forces], None]:
        robot, h = self.robot, self.step
        entry = getattr(_kernels, integrator)
        entry.compile()
        kernel = entry.run
        fluid: list[Array] = [_NO_INERTIAS, np.empty((0, 1)), np.zeros(3)]
        if robot.fluid is not None:
            _, *fluid = robot.fluid
        model, (g, q, V, qd) = robot.packed, self.rows

        def inner(k: int, forces: _Forces) -> None:
            j = k + 1
            kernel(model, *fluid, g[k], q[k], V[k], qd[k], *forces, h, g[j], q[j], V[j], qd[j])

        return inner

    def _variational(self) -> Callable[[int, _Forces], None]:
        robot, h = self.robot, self.step
        if robot.fluid is not None:
            raise ParameterError(
                "integrator: 'variational' keeps the momentum of rigid bodies, and a fluid takes "
                "it away; use 'runge_kutta' or 'semi_implicit' for a submerged robot"
            )
        _kernels.variational.compile()
        kernel = _kernels.variational.run
        model, (g, q, V, qd) = robot.packed, self.rows
        # kept beside V and qd, for to compute it from them again would round it every time
        momenta = robot.mass_matrix(q[0]) @ np.concatenate((V[0], qd[0]))

        def inner(k: int, forces: _Forces) -> None:
            if not forces.passive.all():
                raise ParameterError(
                    "integrator: 'variational' takes forces only; driven degrees of freedom "
                    "(Command.active) need 'runge_kutta' or 'semi_implicit'"
                )
            j = k + 1
            momenta[robot.b :] += self.impulse
            force = forces.force + robot.generalized(q[k], forces.loads)
            kernel(
                model, g[k], q[k], V[k], qd[k], momenta, force, h, g[j], q[j], V[j], qd[j]
            )  # fmt: skip

        return inner

    def _rubbing(self) -> Callable[[int, _Forces], None] | None:
        """Function that lets the joints rub at the end of the step to state k, if they do."""
        robot, h, impulse = self.robot, self.step, self.impulse
        if not self.rubs:
            return None
        _kernels.rub.compile()
        kernel = _kernels.rub.run
        # rigid bodies have a quicker mass matrix
        inertias = _NO_INERTIAS if robot.fluid is None else robot.body_inertias
        damping, friction = robot.damping.copy(), robot.friction.copy()
        model, (_, q, V, qd) = robot.packed, self.rows

        def rub(k: int, forces: _Forces) -> None:
            kernel(
                model, inertias, q[k], damping, friction, STICTION_SPEED, h, forces.passive,
                forces.force, V[k], qd[k], impulse,
            )  # fmt: skip

        return rub
