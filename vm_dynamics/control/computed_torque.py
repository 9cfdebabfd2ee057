# SPDX-License-Identifier: Apache-2.0
"""Computed torque for a flying robot with arms: base and joints follow, rotors and motors push.

Implements: [Kremer2022] eqs. (81)-(89). The quaternion model and its maps M_F cancel: what is
left of (82)-(88) is the inverse dynamics in {1} at the accelerations

.. math:: dV/dt = [R^T u_v - w x v; u_w], qdd = u_q, u = u_ref + K_v edot + K_p e

with u = [world linear; body angular; joint]. Departs from the paper: K_p multiplies e in (84);
the vector part of the error quaternion in (86) is times the sign of its scalar part; the angular
velocities in (87) are both in body axes. Adds to it: integral action, limits, and joint torques
that fit the wrench which the rotors really give, [Jain] section 5.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.control import _kernels
from vm_dynamics.control.controller import Controller, ControlState, Efforts
from vm_dynamics.control.gains import gains, or_zero, shaken_joint
from vm_dynamics.control.integral import Integral
from vm_dynamics.control.limits import BRAKING_TIME, JointLimits, Mask
from vm_dynamics.control.state import (
    at_rest,
    checked_state,
    cross,
    hybrid_dynamics,
    inverse_dynamics,
)
from vm_dynamics.control.tilt import TiltGuidance
from vm_dynamics.control.tracking import PoseTarget, pose_target
from vm_dynamics.dynamics.hybrid import BASE, passive_mask
from vm_dynamics.dynamics.propulsion import WRENCH_AXES, Propulsion
from vm_dynamics.errors import NonFiniteError, ParameterError, UnknownGroupError
from vm_dynamics.lie.se3 import Array, quaternion
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

AXES = ("x", "y", "z", "roll", "pitch", "yaw")
# Feedback of a base that suits most: quiet enough for a pose at 10 Hz.
PLACE, PLACE_RATE = 2.0, 2.5  # [1/s^2], [1/s]
ATTITUDE, ATTITUDE_RATE = 40.0, 12.0  # [1/s^2], [1/s], of the vector part of the quaternion


def pushes_sideways(propulsion: Propulsion) -> bool:
    """Whether all six axes of the wrench can be had independently."""
    return propulsion.rank == len(WRENCH_AXES)


def base_gains(propulsion: Propulsion) -> tuple[Array, Array]:
    """Stiffness [1/s^2] and damping [1/s] of the base's six axes that suit its rotors."""
    aside = float(pushes_sideways(propulsion))
    K = np.array([PLACE * aside, PLACE * aside, PLACE, *[ATTITUDE] * 3])
    D = np.array([PLACE_RATE * aside, PLACE_RATE * aside, PLACE_RATE, *[ATTITUDE_RATE] * 3])
    return K, D


class FlightCommand(NamedTuple):
    """What a step of the computed torque gives.

    Attributes:
        thrusts: of the rotors, shape (m,) [N], within their limits.
        tau: joint efforts, shape (n,), within their limits.
        wrench: what the thrusts achieve, [f; t] in {1}, shape (6,).
        demand: the wrench that (82)-(88) ask for, shape (6,).
        saturated: joints whose effort or acceleration was changed by a limit, shape (n,).
        saturated_rotors: rotors at a limit, shape (m,).
    """

    thrusts: Array
    tau: Array
    wrench: Array
    demand: Array
    saturated: Mask
    saturated_rotors: Mask


class JointTarget(NamedTuple):
    """Joint positions, velocities and accelerations, shape (n,) each."""

    q: Array
    qd: Array
    qdd: Array


class ComputedTorque(Controller):
    """Feedback linearization of base and joints through rotors and joint motors.

    Gains are in the order x y z (world axes), roll pitch yaw (body axes, on the vector part of the
    error quaternion, half the angle), joints. They may be zero where there is no authority, as in
    x and y of a multicopter.

    Attributes:
        robot: the robot, on the base group SE3.
        propulsion: its rotors or thrusters.
        guidance: how it leans to hold a place, or None.
        stiffness: K_p, shape (6 + n,) [1/s^2].
        damping: K_v, shape (6 + n,) [1/s].
        limits: the limits of the joints, whose ``names`` tells the joints of a mask.
        base_target: pose, twist and acceleration that the base follows; with ``guidance`` the
            place that it leans to.
        joint_target: what the joints follow.
    """

    needs = frozenset({"pose", "twist"})
    targets = frozenset({"joints", "base_pose"})
    kernels = (_kernels.check, _kernels.check_pose, _kernels.acceleration_windows)

    def __init__(
        self,
        robot: Robot,
        propulsion: Propulsion,
        *,
        stiffness: Any,
        damping: Any,
        integral: Any = 0.0,
        integral_limit: float = math.inf,
        allocation_weights: Any = None,
        guidance: TiltGuidance | None = None,
        braking_time: float | None = BRAKING_TIME,
    ) -> None:
        """Check the gains; the target is the world's origin and q = 0 until it is set.

        Args:
            robot: the robot.
            propulsion: its rotors or thrusters.
            stiffness: K_p [1/s^2]: a number, 6 + n numbers, or a mapping by ``AXES`` and joints.
            damping: K_v [1/s], likewise.
            integral: gains of the integral action [1/s^3], likewise.
            integral_limit: most acceleration of the integral action [m/s^2, rad/s^2].
            allocation_weights: how much each component of the wrench matters when rotors
                saturate, shape (6,), see :meth:`Propulsion.allocate`.
            guidance: how to lean to hold a place, for rotors that push along one axis only.
            braking_time: within which velocity and position limits are kept [s], see
                :mod:`vm_dynamics.control.limits`; None to limit efforts only.

        Raises:
            UnknownGroupError: the base group is not SE3.
            ParameterError: a gain is negative, or the rotors have no authority over an axis that
                has gains.
        """
        if robot.base_group.name != "SE3":
            raise UnknownGroupError(
                "base group for computed torque", robot.base_group.name, ("SE3",)
            )
        names = (*AXES, *robot.joint_names)
        self.robot, self.propulsion, self.guidance = robot, propulsion, guidance
        self.stiffness = gains("stiffness", stiffness, names)
        self.damping = gains("damping", damping, names)
        self._integral = Integral(gains("integral", integral, names), integral_limit)
        self._weights = allocation_weights
        used = (self.stiffness + self.damping + self._integral.gains)[:6] > 0.0
        propulsion.require_full_rank(a for a, u in zip(WRENCH_AXES, used, strict=True) if u)
        propulsion.allocate(np.zeros(6), allocation_weights)  # refuses weights that are none
        self.limits = JointLimits(robot, braking_time)
        self._passive_base = passive_mask(robot, (BASE,))
        self.set_target(np.eye(4), np.zeros(robot.n))
        self.step(*at_rest(robot), dt=0.0)

    def set_target(
        self,
        g: Any = None,
        q: Any = None,
        *,
        V: Any = None,
        Vd: Any = None,
        qd: Any = None,
        qdd: Any = None,
    ) -> None:
        """What base and joints shall follow from the next step on.

        Args:
            g: pose of the base in the world, shape (4, 4); if None, the base goes on as it was.
            q: joint positions, shape (n,); if None, the joints go on as they were.
            V: twist of that pose in its own frame, shape (6,); zero if None.
            Vd: rate of the components of V, shape (6,); zero if None.
            qd: joint velocities, shape (n,); zero if None.
            qdd: joint accelerations, shape (n,); zero if None.

        Raises:
            ParameterError: a velocity or acceleration without what moves with it.
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
        """Base and joints stay where they are; a base that leans, upright."""
        g = state.g if self.guidance is None else self.guidance.upright(state.g)
        self.set_target(g, state.q)

    def reset(self) -> None:
        """Forget what integral action has gathered."""
        self._integral.reset()

    def take_over(self, former: ComputedTorque) -> bool:
        """Go on with targets and integral action of a controller with other gains, and no jump."""
        self.base_target, self.joint_target = former.base_target, former.joint_target
        kept = former._integral.output
        self._integral.output = np.where(self._integral.gains > 0.0, kept, 0.0)
        return True

    @property
    def gains(self) -> Array:
        """K_p and K_v, shape (12 + 2n,)."""
        return np.concatenate((self.stiffness, self.damping))

    def shaken(self, q: Array, period: float) -> str:
        """Axis or joint that the gains, which are of accelerations, would shake, if any."""
        unit = np.eye(len(self.stiffness))
        axis = shaken_joint(unit, self.stiffness, self.damping, period)
        return "" if axis is None else (*AXES, *self.robot.joint_names)[axis]

    def command(self, state: ControlState) -> Efforts:
        """Joint efforts, thrusts and their wrench for a state, see :meth:`step`."""
        out = self.step(state.g, state.q, state.V, state.qd, dt=state.dt)
        return Efforts(out.tau, out.thrusts, out.wrench)

    def step(self, g: Any, q: Any, V: Any, qd: Any, *, dt: float | None = None) -> FlightCommand:
        """Thrusts and joint efforts for a state.

        Args:
            g: pose of the base in the world, shape (4, 4).
            q: joint positions, shape (n,).
            V: twist of the base in {1}, shape (6,).
            qd: joint velocities, shape (n,).
            dt: time since the last step [s], needed for integral action.

        Raises:
            NonFiniteError: NaN or infinity, or a state so large that the forces are.
        """
        robot = self.robot
        state = g, q, V, qd = checked_state(robot, g, q, V, qd)
        period = self._integral.period(dt)
        error, u = self._virtual_control(g, q, V, qd)
        qdd, limited = self.limits.accelerations(q, qd, u[6:])
        Vd = np.concatenate((u[:3] @ g[:3, :3] - cross(V[3:], V[:3]), u[3:6]))
        demand = inverse_dynamics(robot, state, Vd, qdd)[:6]
        if not np.isfinite(demand).all():
            raise NonFiniteError(f"g, q, V, qd: the state asks for a wrench of {demand}")
        found = self.propulsion.allocate(demand, self._weights)
        acc = np.concatenate((np.zeros(6), qdd))
        force = np.concatenate((found.wrench, np.zeros(robot.n)))
        _, force = hybrid_dynamics(robot, state, self._passive_base, acc, force)
        tau, cut = self.limits.efforts(force[6:])
        saturated = limited | cut
        blocked = np.concatenate((np.full(6, found.saturated.any()), saturated))
        self._integral.update(error, period, blocked)
        return FlightCommand(found.thrusts, tau, found.wrench, demand, saturated, found.saturated)

    def _virtual_control(self, g: Array, q: Array, V: Array, qd: Array) -> tuple[Array, Array]:
        """Error e of (86) and u of (84), both shape (6 + n,)."""
        base, joints = self.base_target, self.joint_target
        if self.guidance is not None:
            base = base._replace(g=self.guidance.target(base.g, g, V))
        R, R_d = g[:3, :3], base.g[:3, :3]
        turn = np.ascontiguousarray(R.T @ R_d)
        x, y, z, _ = quaternion(turn)  # that of the two with a scalar part above zero
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
        u = feed_forward + self.damping * rate + self.stiffness * error + self._integral.output
        return error, u
