# SPDX-License-Identifier: Apache-2.0
"""Computed torque for a flying robot with arms: base and joints follow their targets.

Implements: [Kremer2022] eqs. (81)-(89). The quaternion model and its maps M_F cancel. What is
left of (82)-(88) is the inverse dynamics in {1} at the accelerations

.. math:: dV/dt = [R^T u_v - w x v; u_w], qdd = u_q, u = u_ref + K_v edot + K_p e

with u = [linear, world axes; angular, body axes; joints]. Departs from the paper: K_p multiplies
e in (84); the vector part of the error quaternion in (86) is multiplied by the sign of its scalar
part; both angular velocities in (87) are in body axes. Adds to it: integral action, limits, and
joint torques that fit the wrench that the rotors really give, [Jain] section 5.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.control import _kernels
from vm_dynamics.control.controller import Controller, ControlState, Efforts
from vm_dynamics.control.gains import Gains, gains, or_zero, shaken_joint
from vm_dynamics.control.integral import Integral
from vm_dynamics.control.limits import BRAKING_TIME, JointLimits, Mask
from vm_dynamics.control.state import (
    CheckedState,
    at_rest,
    checked_state,
    cross,
    hybrid_dynamics,
    inverse_dynamics,
    shortfall,
)
from vm_dynamics.control.tilt import TiltGuidance
from vm_dynamics.control.tracking import PoseTarget, pose_target
from vm_dynamics.dynamics.hybrid import BASE, passive_mask
from vm_dynamics.dynamics.propulsion import WRENCH_AXES, Allocation, Propulsion
from vm_dynamics.errors import NonFiniteError, ParameterError, UnknownGroupError
from vm_dynamics.lie.se3 import Array, quaternion
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

GAIN_AXES = ("x", "y", "z", "roll", "pitch", "yaw")
# Gains of the base that suit most robots: slow enough for a pose that is measured at 10 Hz. Those
# of the attitude act on the vector part of the error quaternion.
POSITION_STIFFNESS, POSITION_DAMPING = 2.0, 2.5  # [1/s^2], [1/s]
ATTITUDE_STIFFNESS, ATTITUDE_DAMPING = 40.0, 12.0  # [1/s^2], [1/s]


def pushes_sideways(propulsion: Propulsion) -> bool:
    """Whether the rotors can set all six components of the wrench independently."""
    return propulsion.rank == len(WRENCH_AXES)


def base_gains(propulsion: Propulsion) -> tuple[Array, Array]:
    """Stiffness [1/s^2] and damping [1/s] of the base that suit its rotors, shape (6,) each.

    The gains of x and y are zero if the rotors cannot push sideways.
    """
    sideways = float(pushes_sideways(propulsion))
    drivable = np.array([sideways, sideways, 1.0])
    K = np.concatenate((POSITION_STIFFNESS * drivable, np.full(3, ATTITUDE_STIFFNESS)))
    D = np.concatenate((POSITION_DAMPING * drivable, np.full(3, ATTITUDE_DAMPING)))
    return K, D


class FlightCommand(NamedTuple):
    """Result of one step of the computed torque.

    Attributes:
        thrusts: thrusts of the rotors within their limits, shape (m,) [N].
        tau: joint efforts within their limits, shape (n,) [N m or N].
        wrench: the wrench that the thrusts give, [f; t] in {1}, shape (6,) [N, N m].
        demand: the wrench that (82)-(88) require, [f; t] in {1}, shape (6,) [N, N m].
        saturated: joints whose effort or acceleration a limit changed, shape (n,), bool.
        saturated_rotors: rotors at a limit, shape (m,), bool.
    """

    thrusts: Array
    tau: Array
    wrench: Array
    demand: Array
    saturated: Mask
    saturated_rotors: Mask


class JointTarget(NamedTuple):
    """Joint positions [rad or m], velocities and accelerations to follow, shape (n,) each."""

    q: Array
    qd: Array
    qdd: Array


class ComputedTorque(Controller):
    """Feedback linearization of base and joints through rotors and joint motors.

    Gains are in the order x, y, z (world axes), roll, pitch, yaw (body axes), joints. Those of
    roll, pitch and yaw act on the vector part of the error quaternion, about half the angle. They
    must be zero where the rotors have no authority, as in x and y of a multicopter.

    Attributes:
        robot: the robot, on the base group SE3.
        propulsion: its rotors or thrusters.
        guidance: tilts the base to hold a place; None without.
        stiffness: K_p, shape (6 + n,) [1/s^2].
        damping: K_v, shape (6 + n,) [1/s].
        limits: the joint limits; ``limits.names`` gives the names of the joints in a mask.
        base_target: pose, twist and acceleration that the base follows; with ``guidance``, the
            place to hold.
        joint_target: what the joints follow.
    """

    needs = frozenset({"pose", "twist"})
    targets = frozenset({"joints", "base_pose"})
    kernels = (
        _kernels.check,
        _kernels.check_pose,
        _kernels.acceleration_windows,
        _kernels.integrate_all,
    )

    def __init__(
        self,
        robot: Robot,
        propulsion: Propulsion,
        *,
        stiffness: Gains,
        damping: Gains,
        integral: Gains = 0.0,
        integral_limit: float = math.inf,
        allocation_weights: ArrayLike | None = None,
        guidance: TiltGuidance | None = None,
        braking_time: float | None = BRAKING_TIME,
        effort_scale: float = 1.0,
    ) -> None:
        """Check the gains. Until a target is set, it is the world's origin and q = 0.

        Args:
            robot: the robot.
            propulsion: its rotors or thrusters.
            stiffness: K_p [1/s^2]: one number, 6 + n numbers, or a mapping by the names in
                ``GAIN_AXES`` and of the joints.
            damping: K_v [1/s], in the same forms.
            integral: gains of the integral action [1/s^3], in the same forms.
            integral_limit: largest acceleration by the integral action [m/s^2, rad/s^2].
            allocation_weights: importance of each component of the wrench when rotors saturate,
                shape (6,), see :meth:`Propulsion.allocate`.
            guidance: tilts the base to hold a place, for rotors that push along one axis only.
            braking_time: time in which a joint brakes at a velocity or position limit [s], see
                :mod:`vm_dynamics.control.limits`; None to limit efforts only.
            effort_scale: share of the URDF's effort limits that may be used, 0 to 1.

        Raises:
            UnknownGroupError: the base group is not SE3.
            ParameterError: a gain is negative, or the rotors have no authority over an axis that
                has gains.
        """
        if robot.base_group.name != "SE3":
            raise UnknownGroupError(
                "base group for computed torque", robot.base_group.name, ("SE3",)
            )
        names = (*GAIN_AXES, *robot.joint_names)
        self.robot, self.propulsion, self.guidance = robot, propulsion, guidance
        self.stiffness = gains("stiffness", stiffness, names)
        self.damping = gains("damping", damping, names)
        self._integral = Integral(gains("integral", integral, names), integral_limit)
        self._weights = allocation_weights
        used = (self.stiffness + self.damping + self._integral.gains)[:6] > 0.0
        propulsion.require_full_rank(a for a, u in zip(WRENCH_AXES, used, strict=True) if u)
        propulsion.allocate(np.zeros(6), allocation_weights)  # raises if the weights are invalid
        self.limits = JointLimits(robot, braking_time, effort_scale)
        self._passive_base = passive_mask(robot, (BASE,))
        weight = float(np.linalg.norm(robot.gravity))
        self._up = -robot.gravity / weight if weight > 0.0 else np.zeros(3)
        self._sideways = bool(used[:2].any())
        self._thrusts_of = np.linalg.pinv(propulsion.matrix)
        self._weak = False  # whether a rotor was at a limit in the last step
        self.set_target(np.eye(4), np.zeros(robot.n))
        self.step(*at_rest(robot), dt=0.0)

    def set_target(
        self,
        g: ArrayLike | None = None,
        q: ArrayLike | None = None,
        *,
        V: ArrayLike | None = None,
        Vd: ArrayLike | None = None,
        qd: ArrayLike | None = None,
        qdd: ArrayLike | None = None,
    ) -> None:
        """Set what base and joints follow from the next step on.

        Args:
            g: pose of the base in the world, shape (4, 4); if None, the base keeps its target.
            q: joint positions, shape (n,) [rad or m]; if None, the joints keep their target.
            V: twist of the pose g in its own frame, shape (6,) [m/s, rad/s]; zero if None.
            Vd: rate of the components of V, shape (6,) [m/s^2, rad/s^2]; zero if None.
            qd: joint velocities, shape (n,) [rad/s or m/s]; zero if None.
            qdd: joint accelerations, shape (n,) [rad/s^2 or m/s^2]; zero if None.

        Raises:
            ParameterError: V or Vd without g, or qd or qdd without q.
        """
        n = self.robot.n
        for name, value, owner in (("V", V, g), ("Vd", Vd, g), ("qd", qd, q), ("qdd", qdd, q)):
            if value is not None and owner is None:
                raise ParameterError(f"{name}: got one without {'g' if 'V' in name else 'q'}")
        if g is not None:
            self.base_target: PoseTarget = pose_target(self.robot.base_group, g, V, Vd)
        if q is not None:
            self.joint_target = JointTarget(
                vector("q", q, n), or_zero("qd", qd, n), or_zero("qdd", qdd, n)
            )

    def hold(self, state: ControlState) -> None:
        """Set the present state as the target; with guidance, the base becomes upright."""
        g, _ = state.base
        if self.guidance is not None:
            g = self.guidance.upright(g)
        self.set_target(g, state.q)

    def reset(self) -> None:
        """Set the integral action to zero, that of the guidance too."""
        self._integral.reset()
        if self.guidance is not None:
            self.guidance.reset()

    def take_over(self, former: ComputedTorque) -> bool:
        """Continue without a jump: take targets and integral action from another controller."""
        self.base_target, self.joint_target = former.base_target, former.joint_target
        self._integral.take_over(former._integral)
        if self.guidance is not None and former.guidance is not None:
            self.guidance.take_over(former.guidance)
        return True

    @property
    def gains(self) -> Array:
        """K_p, K_v and integral gains, shape (18 + 3n,)."""
        return np.concatenate((self.stiffness, self.damping, self._integral.gains))

    def shaken(self, q: Array, period: float) -> str:
        """Name of an axis or joint that the gains make unstable, or ``""``.

        The gains are per unit of inertia, so the shape does not matter.

        Args:
            q: joint positions, shape (n,), not used.
            period: control period [s].
        """
        unit = np.eye(len(self.stiffness))
        axis = shaken_joint(unit, self.stiffness, self.damping, period, self._integral.gains)
        return "" if axis is None else (*GAIN_AXES, *self.robot.joint_names)[axis]

    def command(self, state: ControlState) -> Efforts:
        """Joint efforts, thrusts and their wrench for a state, see :meth:`step`."""
        g, V = state.base
        out = self.step(g, state.q, V, state.qd, dt=state.dt)
        return Efforts(out.tau, out.thrusts, out.wrench)

    def step(
        self,
        g: ArrayLike,
        q: ArrayLike,
        V: ArrayLike,
        qd: ArrayLike,
        *,
        dt: float | None = None,
    ) -> FlightCommand:
        """Thrusts and joint efforts for a state.

        Args:
            g: pose of the base in the world, shape (4, 4).
            q: joint positions, shape (n,) [rad or m].
            V: twist of the base in {1}, shape (6,) [m/s, rad/s].
            qd: joint velocities, shape (n,) [rad/s or m/s].
            dt: time since the last step [s]; required with integral action, which counts at most
                0.1 s of it.

        Raises:
            ParameterError: dt is missing although there is integral action.
            NonFiniteError: NaN or infinity in the state or, for a very large state, in the
                forces.
        """
        robot = self.robot
        state = g, q, V, qd = checked_state(robot, g, q, V, qd)
        period = self._integral.period(dt)
        error, u = self._virtual_control(g, q, V, qd, period)
        within, limited = self.limits.accelerations(q, qd, u[6:])
        # The window leaves out the integral action: what it holds against does not accelerate.
        qdd = within + self._integral.output[6:]
        demand = self._wrench(state, u[:6], qdd)
        found = self.propulsion.allocate(demand, self._weights)
        if self._sideways and found.saturated.any():
            found = self._attitude_first(state, u[:6], qdd, demand)
        acc = np.concatenate((np.zeros(6), qdd))
        force = np.concatenate((found.wrench, np.zeros(robot.n)))
        _, force = hybrid_dynamics(robot, state, self._passive_base, acc, force)
        tau, cut = self.limits.efforts(force[6:])
        self._weak = bool(found.saturated.any())
        lacking = shortfall(demand, found.wrench) if self._weak else np.zeros(6)
        braked = self.limits.lacking(qd, u[6:], within)
        lacking = np.concatenate(
            (g[:3, :3] @ lacking[:3], lacking[3:], np.where(cut, force[6:], braked))
        )
        # beyond a limit there is nothing to go to
        error[6:] = np.clip(self.joint_target.q, *self.limits.table[:2]) - q
        self._integral.update(error, period, lacking)
        return FlightCommand(
            found.thrusts, tau, found.wrench, demand, limited | cut, found.saturated
        )

    def _wrench(self, state: CheckedState, u: Array, qdd: Array) -> Array:
        """Wrench in {1} that accelerations u of the base and qdd of the joints need, (6,)."""
        g, _, V, _ = state
        Vd = np.concatenate((u[:3] @ g[:3, :3] - cross(V[3:], V[:3]), u[3:]))
        out = inverse_dynamics(self.robot, state, Vd, qdd)[:6]
        if not np.isfinite(out).all():
            raise NonFiniteError(f"g, q, V, qd: the state asks for a wrench of {out}")
        return out

    def _attitude_first(
        self, state: CheckedState, u: Array, qdd: Array, demand: Array
    ) -> Allocation:
        """Thrusts that give up as much of the sideways acceleration as keeps them within limits.

        The closest wrench would give up attitude as well, and a base that turns over is lost.

        Args:
            state: the checked state.
            u: accelerations of the base as in (84), shape (6,).
            qdd: joint accelerations, shape (n,) [rad/s^2 or m/s^2].
            demand: the wrench that they need in {1}, shape (6,) [N, N m].
        """
        upright = np.concatenate((self._up * (self._up @ u[:3]), u[3:]))
        least = self._wrench(state, upright, qdd)
        found = self.propulsion.allocate(least, self._weights)
        if found.saturated.any():
            return found
        way = self._thrusts_of @ (demand - least)
        edge = np.where(way > 0.0, self.propulsion.max_thrusts, self.propulsion.min_thrusts)
        room = np.full(len(way), np.inf)
        np.divide(edge - found.thrusts, way, out=room, where=way != 0.0)
        first = int(room.argmin())  # the first rotor at its limit on the way to the demand
        thrusts = found.thrusts + min(1.0, room[first]) * way
        saturated = (np.arange(len(way)) == first) & (room <= 1.0)
        thrusts[saturated] = edge[saturated]
        return Allocation(thrusts, self.propulsion.matrix @ thrusts, saturated)

    def _virtual_control(
        self, g: Array, q: Array, V: Array, qd: Array, period: float
    ) -> tuple[Array, Array]:
        """Error e of (86), and u of (84) without the joints' integral, both shape (6 + n,)."""
        base, joints = self.base_target, self.joint_target
        if self.guidance is not None:
            # while rotors lack thrust, leaning more would not help
            lean = self.guidance.target(base.g, g, V, dt=0.0 if self._weak else period)
            base = base._replace(g=lean)
        R, R_d = g[:3, :3], base.g[:3, :3]
        turn = np.ascontiguousarray(R.T @ R_d)
        x, y, z, _ = quaternion(turn)  # its scalar part is not negative: the shorter way
        w, w_d = V[3:], turn @ base.V[3:]
        position = base.g[:3, 3] - g[:3, 3]
        velocity = R_d @ base.V[:3] - R @ V[:3]
        error = np.concatenate((position, (x, y, z), joints.q - q))
        rate = np.concatenate((velocity, w_d - w, joints.qd - qd))
        feed_forward = np.concatenate(
            (
                R_d @ (base.Vd[:3] + cross(base.V[3:], base.V[:3])),
                turn @ base.Vd[3:] - cross(w, w_d),
                joints.qdd,
            )
        )
        if self.guidance is not None:
            # no gains act there, but turning the base needs torques that depend on it
            feed_forward[:3] += self.guidance.acceleration(g)
        u = feed_forward + self.damping * rate + self.stiffness * error
        u[:6] += self._integral.output[:6]
        return error, u
