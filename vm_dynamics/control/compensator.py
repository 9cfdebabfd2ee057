# SPDX-License-Identifier: Apache-2.0
"""Momentum compensation: joints hold or follow a target while the robot tumbles or drifts.

Implements: [Mishra2022] eqs. (45), (46), (52), in the order [v; w] and on every base group. Adds
to the paper: targets that move, weight, a known wrench on the base, limits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.compiled import REFUSED
from vm_dynamics.control import _kernels
from vm_dynamics.control.controller import Controller, ControlState, Efforts
from vm_dynamics.control.gains import (
    critical_damping,
    free_inertias,
    gains,
    or_zero,
    shaken_joint,
    shape_inertia,
)
from vm_dynamics.control.limits import BRAKING_TIME, JointLimits, Mask
from vm_dynamics.control.state import at_rest, checked_state, inverse_dynamics
from vm_dynamics.errors import NonFiniteError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

_compensate = _kernels.compensate


class Compensation(NamedTuple):
    """What a step of the compensator gives.

    Attributes:
        tau: joint efforts within their limits, shape (n,).
        saturated: where a limit of effort, velocity or position changed tau, shape (n,).
        compensation: the part of tau, before limits, that is not the task's: tau_hat of (45),
            weight and base wrench, shape (n,).
    """

    tau: Array
    saturated: Mask
    compensation: Array


class MomentumCompensator(Controller):
    """Joint control ``tau = tau_c + tau_hat_i`` of a robot whose base no one drives.

    With mu the locked velocity, law 1 and the exact mu, the shape obeys
    ``Lambda_q qdd + Gamma_q qd = tau_c``; law 2 leaves the gyroscopic ``B(mu) qd``, which does no
    work, and so does not feel the noise of qd. The task torque is a PD law, and for a target that
    moves it has the feed-forward that makes tracking exact:

    .. math:: tau_c = -K (q - q_d) - D (qd - qd_d) + Lambda_q qdd_d + Gamma_q(qd) qd_d

    and ``B(mu) qd_d`` under law 2. Law 0 takes mu for zero: a PD law that needs no estimate, and
    carries the weight all the same.

    Attributes:
        robot: the robot.
        law: 0, 1 or 2.
        limits: the limits of the joints, whose ``names`` tells the joints of a mask.
    """

    def __init__(
        self,
        robot: Robot,
        stiffness: Any,
        damping: Any = None,
        *,
        law: int = 2,
        braking_time: float | None = BRAKING_TIME,
    ) -> None:
        """Check the gains; the target is the shape q = 0 at rest until it is set.

        Args:
            robot: the robot.
            stiffness: K [N m/rad or N/m]: a number, one for each joint, or a mapping by name.
            damping: D [N m s/rad or N s/m], likewise; if None, critical for the joint's
                inertia when all else is free.
            law: which compensation of (45): 1 with, 2 without the gyroscopic term, 0 for none.
            braking_time: within which velocity and position limits are kept [s], see
                :mod:`vm_dynamics.control.limits`; None to limit efforts only.

        Raises:
            ParameterError: a gain is negative or missing, or there is no such law.
            UnknownJointError: a gain is for a joint that the robot does not have.
        """
        if law not in (0, 1, 2):
            raise ParameterError(f"law: got {law!r}, expected 0, 1 or 2")
        self.robot, self.law = robot, int(law)
        self._form = max(self.law, 1)
        self.limits = JointLimits(robot, braking_time)
        self._settings = np.zeros((_kernels.SETTINGS, robot.n))
        self._settings[: _kernels.STIFFNESS] = self.limits.table
        stiffness = gains("stiffness", stiffness, robot.joint_names)
        self._settings[_kernels.STIFFNESS] = stiffness
        if damping is None:
            damping = critical_damping(stiffness, free_inertias(robot))
        self._settings[_kernels.DAMPING] = gains("damping", damping, robot.joint_names)
        self._moves = False
        self._still, self._uncarried = np.zeros(robot.b), np.zeros(robot.n)
        self._heavy = bool(robot.gravity.any())
        self._fluid = robot.fluid is not None
        needs = {"locked_velocity"} if law else set()
        self.needs = frozenset({*needs, "pose"} if self.needs_pose else needs)
        self.kernels = () if self._fluid else (_compensate,)
        g, q, mu, qd = at_rest(robot)
        for wrench in (None, mu):
            self.step(q, qd, mu, g=g, base_wrench=wrench)

    @property
    def needs_pose(self) -> bool:
        """Whether ``step`` needs the pose of the base: for weight, or a fluid."""
        return self._heavy or self._fluid

    @property
    def stiffness(self) -> Array:
        """K, shape (n,) [N m/rad or N/m]."""
        return self._settings[_kernels.STIFFNESS].copy()

    @property
    def damping(self) -> Array:
        """D, shape (n,) [N m s/rad or N s/m]."""
        return self._settings[_kernels.DAMPING].copy()

    def set_target(self, q: Any, qd: Any = None, qdd: Any = None) -> None:
        """Where the joints shall be from the next step on.

        Args:
            q: positions, shape (n,).
            qd: velocities, shape (n,); zero if None.
            qdd: accelerations, shape (n,); zero if None.
        """
        n = self.robot.n
        target = vector("q", q, n), or_zero("qd", qd, n), or_zero("qdd", qdd, n)
        self._settings[_kernels.POSITION :] = target
        self._moves = bool(self._settings[_kernels.SPEED :].any())

    def hold(self, state: ControlState) -> None:
        """The joints stay where they are."""
        self.set_target(state.q)

    def reset(self) -> None:
        """Nothing is gathered that could be forgotten."""

    def take_over(self, former: MomentumCompensator) -> bool:
        """Go on to the target of a controller with other gains or another law."""
        self._settings[_kernels.POSITION :] = former._settings[_kernels.POSITION :]
        self._moves = former._moves
        return True

    @property
    def gains(self) -> Array:
        """K and D, shape (2n,)."""
        return np.concatenate((self.stiffness, self.damping))

    def shaken(self, q: Array, period: float) -> str:
        """Joint that the gains would shake at a shape, (n,), and a period [s], if any."""
        inertia = shape_inertia(self.robot, q)
        joint = shaken_joint(inertia, self.stiffness, self.damping, period)
        return "" if joint is None else self.robot.joint_names[joint]

    def command(self, state: ControlState) -> Efforts:
        """Joint efforts for a state, see :meth:`step`."""
        return Efforts(self.step(state.q, state.qd, state.mu, g=state.g).tau)

    def step(
        self, q: Any, qd: Any, mu: Any = None, *, g: Any = None, base_wrench: Any = None
    ) -> Compensation:
        """Joint efforts for a state.

        Args:
            q: shape (n,).
            qd: joint velocities, shape (n,).
            mu: locked velocity V + A qd in {1}, shape (b,), as an observer gives it; law 0 does
                not look at it.
            g: pose of the base in the world, shape (4, 4), to carry the arms' weight; see
                :attr:`needs_pose`.
            base_wrench: what pushes the base in {1}, shape (b,), such as the thrust of rotors.
                Unless given, the base is taken to be carried: its wrench is the one that holds
                the robot's weight at rest, and nothing without gravity.

        Raises:
            ParameterError: no pose for a robot that needs one.
            DimensionError: wrong sizes.
            NonFiniteError: NaN or infinity, or a state so large that the efforts are.
        """
        out = np.empty((3, self.robot.n))
        if self.needs_pose or base_wrench is not None:
            carried = self._carried(g, q, base_wrench)
        else:
            carried = self._uncarried
        if not self.law:
            mu = self._still
        if self._fluid:
            return self._in_fluid(q, qd, mu, carried)
        try:
            _compensate.run(
                self.robot.packed,
                q,
                qd,
                mu,
                self._settings,
                carried,
                self._form,
                self._moves,
                self.limits.braking_time,
                out,
            )
        except REFUSED:
            self._checked(q, qd, mu, carried, out)
        return Compensation(out[0], out[2] != 0.0, out[1])

    def _checked(self, q: Any, qd: Any, mu: Any, carried: Array, out: Array) -> None:
        """The same, with input converted or refused."""
        n = self.robot.n
        state = vector("q", q, n), vector("qd", qd, n), vector("mu", mu, self.robot.b)
        try:
            _compensate.checked(
                self.robot.packed,
                *state,
                self._settings,
                carried,
                self._form,
                self._moves,
                self.limits.braking_time,
                out,
            )
        except ValueError:
            raise NonFiniteError(
                f"q, qd, mu: efforts are not finite at {state}, expected a state of usual size"
            ) from None

    def _carried(self, g: Any, q: Any, base_wrench: Any) -> Array:
        """Torques that weight and base wrench ask for, ``g_q + A^T (F - g_b)``, shape (n,)."""
        robot = self.robot
        if g is None and self.needs_pose:
            raise ParameterError(
                "g: got None, expected the pose of the base, for the robot has weight or a fluid"
            )
        still, rest = np.zeros(robot.b), np.zeros(robot.n)
        state = checked_state(robot, np.eye(4) if g is None else g, q, still, rest)
        weight = inverse_dynamics(robot, state, still, rest)
        if base_wrench is None:
            return weight[robot.b :]
        excess = vector("base_wrench", base_wrench, robot.b) - weight[: robot.b]
        return weight[robot.b :] + robot.connection(q).T @ excess

    def _in_fluid(self, q: Any, qd: Any, mu: Any, carried: Array) -> Compensation:
        """The same law by the matrices of the reduced equations, which have added mass."""
        mu = vector("mu", mu, self.robot.b)
        q, qd = vector("q", q, self.robot.n), vector("qd", qd, self.robot.n)
        reduced = self.robot.reduced(q, qd, mu)
        *_, K, D, q_d, qd_d, qdd_d = self._settings
        b = len(mu)
        hat = carried - reduced.D_mu[b:, :b] @ mu
        task = reduced.Lambda_q @ qdd_d + reduced.Gamma_q @ qd_d
        if self._form == 1:
            hat += reduced.B @ qd
        else:
            task += reduced.B @ qd_d
        task -= K * (q - q_d) + D * (qd - qd_d)
        leaves = reduced.Gamma_q @ qd + (reduced.B @ qd if self._form == 2 else 0.0)
        braked = self.limits.brake(reduced.Lambda_q, leaves, q, qd, task)
        tau, cut = self.limits.efforts(task + hat)
        return Compensation(tau, cut | braked, hat)
