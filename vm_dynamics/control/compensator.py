# SPDX-License-Identifier: Apache-2.0
"""Momentum compensation: joints hold or follow a target while the robot tumbles or drifts.

Implements: [Mishra2022] eqs. (45), (46), (52), in the order [v; w] and on every base group. Adds
to the paper: moving targets, weight, a known wrench on the base, joint limits, and against what
is not known integral action and the friction of the joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.compiled import REFUSED
from vm_dynamics.control import _kernels
from vm_dynamics.control.controller import Controller, ControlState, Efforts
from vm_dynamics.control.gains import (
    Gains,
    critical_damping,
    free_inertias,
    gains,
    or_zero,
    shaken_joint,
    shape_inertia,
)
from vm_dynamics.control.integral import Integral
from vm_dynamics.control.limits import BRAKING_TIME, JointLimits, Mask
from vm_dynamics.control.state import at_rest, checked_state, inverse_dynamics
from vm_dynamics.dynamics.loads import STICTION_SPEED
from vm_dynamics.errors import NonFiniteError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

_compensate = _kernels.compensate
INTEGRAL_SHARE = 0.5  # of the effort limits: the rest is left for motion
# Friction that is fed forward makes a joint stiffer at its target, by at most this many times the
# stiffness: with critical damping it still comes to rest if there is no such friction.
MAX_PULL = 4.0
TINY = 1e-9  # [N m], so that one can divide by it


class Compensation(NamedTuple):
    """Result of one step of the compensator.

    Attributes:
        tau: joint efforts within their limits, shape (n,) [N m or N].
        saturated: where a limit of effort, velocity or position changed tau, shape (n,), bool.
        compensation: tau before limits and without the task torque: tau_hat of (45), weight and
            base wrench, shape (n,) [N m or N].
    """

    tau: Array
    saturated: Mask
    compensation: Array


class MomentumCompensator(Controller):
    """Joint control ``tau = tau_c + tau_hat_i`` of a robot with an undriven base.

    With law 1 and the exact locked velocity mu, the shape obeys
    ``Lambda_q qdd + Gamma_q qd = tau_c``. Law 2 does not cancel the gyroscopic term ``B(mu) qd``.
    That term does no work, and without it the noise of qd does not enter the compensation. The
    task torque is a PD law with a feed-forward that makes tracking of a moving target exact:

    .. math:: tau_c = -K (q - q_d) - D (qd - qd_d) + Lambda_q qdd_d + Gamma_q(qd) qd_d

    plus ``B(mu) qd_d`` with law 2. Law 0 assumes mu = 0: it is a PD law that needs no estimate,
    and it still carries the weight.

    Against what is not known, such as a payload or friction at rest, integral action may be added,
    ``K_i int (q_d - q) dt`` within limits. It stops while a motor is at its effort limit. Friction
    that is known is fed forward, ``d qd_d + f tanh((qd_d + K/D (q_d - q)) / v_s)``: at the
    velocity which the PD law asks for, so that it helps to break loose at rest and has no noise.

    Attributes:
        robot: the robot.
        law: 0, 1 or 2.
        limits: the joint limits; ``limits.names`` gives the names of the joints in a mask.
    """

    compensates = True

    def __init__(
        self,
        robot: Robot,
        stiffness: Gains,
        damping: Gains | None = None,
        *,
        law: int = 2,
        integral: Gains = 0.0,
        integral_limit: Gains | None = None,
        friction: bool | tuple[Gains, Gains] = False,
        braking_time: float | None = BRAKING_TIME,
        effort_scale: float = 1.0,
    ) -> None:
        """Check the gains. Until a target is set, it is q = 0 at rest.

        Args:
            robot: the robot.
            stiffness: K [N m/rad or N/m]: one number, one for each joint, or a mapping by name.
            damping: D [N m s/rad or N s/m], in the same forms; if None, critical damping for the
                inertia of each joint while the base and the other joints are free.
            law: the compensation of (45): 1 with the gyroscopic term, 2 without, 0 for none.
            integral: K_i [N m/(rad s) or N/(m s)], in the forms of ``stiffness``.
            integral_limit: largest effort of the integral action [N m or N], in the same forms; if
                None, half the effort limit.
            friction: friction of the joints that is fed forward: True for that of the URDF, or
                dry friction [N m or N] and viscous friction [N m s/rad or N s/m] as identified,
                each in the same forms.
            braking_time: time in which a joint brakes at a velocity or position limit [s], see
                :mod:`vm_dynamics.control.limits`; None to limit efforts only.
            effort_scale: share of the URDF's effort limits that may be used, 0 to 1.

        Raises:
            ParameterError: a gain is negative or missing, or the law is unknown.
            UnknownJointError: a gain is for a joint that the robot does not have.
        """
        if law not in (0, 1, 2):
            raise ParameterError(f"law: got {law!r}, expected 0, 1 or 2")
        self.robot, self.law = robot, int(law)
        self._form = max(self.law, 1)
        self.limits = JointLimits(robot, braking_time, effort_scale)
        if not isinstance(friction, bool):
            self.limits.table[_kernels.FRICTION : _kernels.STIFFNESS] = _identified(
                friction, robot.joint_names
            )
        self._settings = np.zeros((_kernels.SETTINGS, robot.n))
        self._settings[: _kernels.STIFFNESS] = self.limits.table
        stiffness = gains("stiffness", stiffness, robot.joint_names)
        self._settings[_kernels.STIFFNESS] = stiffness
        if damping is None:
            damping = critical_damping(stiffness, free_inertias(robot))
        self._settings[_kernels.DAMPING] = gains("damping", damping, robot.joint_names)
        if friction is not False:
            self._feed_friction()
        most = INTEGRAL_SHARE * self.limits.table[_kernels.EFFORT]
        if integral_limit is not None:
            most = gains("integral_limit", integral_limit, robot.joint_names)
        self._integral = Integral(gains("integral", integral, robot.joint_names), most)
        self._settings[_kernels.INTEGRAL] = self._integral.gains
        self._settings[_kernels.MOST_INTEGRAL] = self._integral.limits
        self._integral.output = self._settings[_kernels.INTEGRATED]  # where the kernel has it
        self._moves = False
        self._still, self._uncarried = np.zeros(robot.b), np.zeros(robot.n)
        self._heavy = bool(robot.gravity.any())
        self._fluid = robot.fluid is not None
        needs = {"locked_velocity"} if law else set()
        self.needs = frozenset({*needs, "pose"} if self.needs_pose else needs)
        self.kernels = () if self._fluid else (_compensate,)
        g, q, mu, qd = at_rest(robot)
        for wrench in (None, mu):
            self.step(q, qd, mu, g=g, base_wrench=wrench, dt=0.0)

    def _feed_friction(self) -> None:
        """Set the rows of the friction that is fed forward."""
        dry, viscous, K, D = self._settings[_kernels.FRICTION : _kernels.INTEGRAL]
        self._settings[_kernels.DRY] = dry
        self._settings[_kernels.VISCOUS] = viscous
        self._settings[_kernels.PACE] = 1.0 / STICTION_SPEED
        # an error is worth the speed at which the PD law lets it decay, K/D times as much
        most = MAX_PULL * K / np.where(dry > 0.0, dry, np.inf)
        self._settings[_kernels.PULL] = np.minimum(most, K / np.maximum(D * STICTION_SPEED, TINY))

    @property
    def needs_pose(self) -> bool:
        """Whether ``step`` needs the pose of the base, because of weight or a fluid."""
        return self._heavy or self._fluid

    @property
    def stiffness(self) -> Array:
        """Stiffness K, shape (n,) [N m/rad or N/m]."""
        return self._settings[_kernels.STIFFNESS].copy()

    @property
    def damping(self) -> Array:
        """Damping D, shape (n,) [N m s/rad or N s/m]."""
        return self._settings[_kernels.DAMPING].copy()

    def set_target(
        self, q: ArrayLike, qd: ArrayLike | None = None, qdd: ArrayLike | None = None
    ) -> None:
        """Set what the joints follow from the next step on.

        Args:
            q: joint positions, shape (n,) [rad or m].
            qd: joint velocities, shape (n,) [rad/s or m/s]; zero if None.
            qdd: joint accelerations, shape (n,) [rad/s^2 or m/s^2]; zero if None.
        """
        n = self.robot.n
        target = vector("q", q, n), or_zero("qd", qd, n), or_zero("qdd", qdd, n)
        self._settings[_kernels.POSITION :] = target
        self._moves = bool(self._settings[_kernels.SPEED :].any())

    def hold(self, state: ControlState) -> None:
        """Set the joints' present positions as the target."""
        self.set_target(state.q)

    def reset(self) -> None:
        """Set the integral action to zero."""
        self._integral.reset()

    def take_over(self, former: MomentumCompensator) -> bool:
        """Continue without a jump: take target and integral action from another controller."""
        self._settings[_kernels.POSITION :] = former._settings[_kernels.POSITION :]
        self._moves = former._moves
        self._integral.take_over(former._integral)
        return True

    @property
    def gains(self) -> Array:
        """Stiffness K, damping D and integral gains K_i, shape (3n,)."""
        return np.concatenate((self.stiffness, self.damping, self._integral.gains))

    def shaken(self, q: Array, period: float) -> str:
        """Name of a joint that the gains make unstable, or ``""``.

        Args:
            q: joint positions, shape (n,) [rad or m].
            period: control period [s].
        """
        inertia = shape_inertia(self.robot, q)
        joint = shaken_joint(inertia, self.stiffness, self.damping, period, self._integral.gains)
        return "" if joint is None else self.robot.joint_names[joint]

    def command(self, state: ControlState) -> Efforts:
        """Joint efforts for a state, see :meth:`step`."""
        return Efforts(self.step(state.q, state.qd, state.mu, g=state.g, dt=state.dt).tau)

    def step(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        mu: ArrayLike | None = None,
        *,
        g: ArrayLike | None = None,
        base_wrench: ArrayLike | None = None,
        dt: float | None = None,
    ) -> Compensation:
        """Joint efforts for a state.

        Args:
            q: joint positions, shape (n,) [rad or m].
            qd: joint velocities, shape (n,) [rad/s or m/s].
            mu: locked velocity V + A qd in {1}, shape (b,) [m/s, rad/s], from an observer; law 0
                ignores it.
            g: pose of the base in the world, shape (4, 4), needed if :attr:`needs_pose`.
            base_wrench: wrench on the base in {1}, shape (b,) [N, N m], such as the thrust of
                rotors. If None, something is assumed to carry the robot: the wrench is the one
                that holds its weight at rest, which is zero without gravity.
            dt: time since the last step [s]; required with integral action, which counts at most
                0.1 s of it.

        Raises:
            ParameterError: the pose is missing although the robot needs it, or dt although there
                is integral action.
            DimensionError: an array has the wrong shape.
            NonFiniteError: NaN or infinity in the state or, for a very large state, in the
                efforts.
        """
        out = np.empty((3, self.robot.n))
        period = self._integral.period(dt)
        if self.needs_pose or base_wrench is not None:
            carried = self._carried(g, q, base_wrench)
        else:
            carried = self._uncarried
        if not self.law:
            mu = self._still
        if self._fluid:
            return self._in_fluid(q, qd, mu, carried, period)
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
                period,
                out,
            )
        except REFUSED:
            self._checked(q, qd, mu, carried, period, out)
        return Compensation(out[0], out[2] != 0.0, out[1])

    def _checked(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        mu: ArrayLike | None,
        carried: Array,
        period: float,
        out: Array,
    ) -> None:
        """Run the kernel with converted arguments, or raise an error that names the argument."""
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
                period,
                out,
            )
        except ValueError:
            raise NonFiniteError(
                f"q, qd, mu: efforts are not finite at {state}, expected a state of usual size"
            ) from None

    def _carried(self, g: ArrayLike | None, q: ArrayLike, base_wrench: ArrayLike | None) -> Array:
        """Torques against weight and base wrench, ``g_q + A^T (F - g_b)``, shape (n,)."""
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

    def _in_fluid(
        self, q: ArrayLike, qd: ArrayLike, mu: ArrayLike | None, carried: Array, period: float
    ) -> Compensation:
        """The same law from the matrices of ``robot.reduced``, which contain the added mass."""
        mu = vector("mu", mu, self.robot.b)
        q, qd = vector("q", q, self.robot.n), vector("qd", qd, self.robot.n)
        reduced = self.robot.reduced(q, qd, mu)
        K, D = self._settings[_kernels.STIFFNESS : _kernels.INTEGRAL]
        dry, viscous, pace, pull, q_d, qd_d, qdd_d = self._settings[_kernels.DRY :]
        b = len(mu)
        hat = carried - reduced.D_mu[b:, :b] @ mu
        task = reduced.Lambda_q @ qdd_d + reduced.Gamma_q @ qd_d
        task += viscous * qd_d + dry * np.tanh(pace * qd_d + pull * (q_d - q))
        if self._form == 1:
            hat += reduced.B @ qd
        else:
            task += reduced.B @ qd_d
        task -= K * (q - q_d) + D * (qd - qd_d)
        uncancelled = reduced.Gamma_q @ qd + (reduced.B @ qd if self._form == 2 else 0.0)
        braked = self.limits.brake(reduced.Lambda_q, uncancelled, q, qd, task)
        wanted = task + hat + self._integral.output
        tau, cut = self.limits.efforts(wanted)
        lacking = np.where(abs(braked) == _kernels.LACKING, braked, 0.0)
        error = np.clip(q_d, *self.limits.table[:2]) - q
        error /= 1.0 + (qd_d / _kernels.STEADY_SPEED) ** 2
        self._integral.update(error, period, np.where(cut, wanted, lacking))
        return Compensation(tau, cut | (braked != 0.0), hat)


def _identified(friction: object, names: Sequence[str]) -> list[Array]:
    """Dry and viscous friction of the joints, shape (n,) each."""
    if not (isinstance(friction, Sequence) and len(friction) == 2):
        raise ParameterError(
            f"friction: got {friction!r}, expected True, False or dry and viscous friction"
        )
    return [gains("friction", part, names) for part in friction]
