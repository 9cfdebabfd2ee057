# SPDX-License-Identifier: Apache-2.0
"""Pose control of a driven base on its group: hovering, station keeping, following a path.

A PD law on the group gives an acceleration, see :mod:`vm_dynamics.control.tracking`. The inverse
dynamics of the whole robot turns it into a wrench; they include inertia, gyroscopic forces of base
and arms, weight, and the fluid around a submerged robot.
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
from vm_dynamics.control.limits import Mask
from vm_dynamics.control.state import at_rest, checked_state, inverse_dynamics, shortfall
from vm_dynamics.control.tracking import PoseTarget, geometric_feedback, pose_errors, pose_target
from vm_dynamics.dynamics.propulsion import WRENCH_AXES, Propulsion
from vm_dynamics.errors import NonFiniteError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot


class PoseCommand(NamedTuple):
    """Result of one step of the pose control.

    Attributes:
        wrench: wrench on the base that the actuators give, in {1}, shape (b,) [N, N m].
        demand: wrench that the control law requires, in {1}, shape (b,) [N, N m].
        thrusts: thrusts of the rotors or thrusters, shape (m,) [N]; None without propulsion.
        saturated: where the wrench differs from the demand, shape (b,), bool.
        saturated_rotors: rotors at a limit, shape (m,), bool; empty without propulsion.
    """

    wrench: Array
    demand: Array
    thrusts: Array | None
    saturated: Mask
    saturated_rotors: Mask


class PoseControl(Controller):
    """Drives the base of a robot to a pose or along a path of poses.

    Attributes:
        robot: the robot.
        propulsion: rotors or thrusters of the base; None if the base accepts wrenches directly.
        target: the pose to follow.
    """

    needs = frozenset({"pose", "twist"})
    targets = frozenset({"base_pose"})
    kernels = (_kernels.check, _kernels.check_pose, _kernels.integrate_all)

    def __init__(
        self,
        robot: Robot,
        stiffness: Gains,
        damping: Gains,
        *,
        propulsion: Propulsion | None = None,
        integral: Gains = 0.0,
        integral_limit: float = math.inf,
        wrench_limits: Gains | None = None,
    ) -> None:
        """Check the gains. Until a target is set, it is the world's origin.

        Args:
            robot: the robot.
            stiffness: K [1/s^2], one number or one for each coordinate of the base group.
            damping: D [1/s], in the same forms.
            propulsion: rotors or thrusters that give the wrench.
            integral: gains of the integral action [1/s^3], in the same forms.
            integral_limit: largest acceleration by the integral action [m/s^2, rad/s^2].
            wrench_limits: largest force and torque in each coordinate [N, N m], in the same
                forms; None for no limits. Only for a base without ``propulsion``.

        Raises:
            ParameterError: a gain is negative, or the propulsion cannot drive the base in all
                coordinates that have gains.
        """
        self.robot, self.propulsion = robot, propulsion
        names = tuple(f"coordinate {i}" for i in range(robot.b))
        self._stiffness = gains("stiffness", stiffness, names)
        self._damping = gains("damping", damping, names)
        self._integral = Integral(gains("integral", integral, names), integral_limit)
        if wrench_limits is None:
            self._most = np.full(robot.b, math.inf)
        elif propulsion is not None:
            raise ParameterError(
                "wrench_limits: got some beside propulsion, whose thrusts have limits of their own"
            )
        else:
            self._most = gains("wrench_limits", wrench_limits, names)
        # wrench axes that matter; a group tilted in {1} may need several for one coordinate
        self._touched = (abs(robot.base_group.iota) > 0.0).any(axis=1)
        if propulsion is not None:
            self._require_authority(propulsion)
        self.set_target(np.eye(4))
        self.step(*at_rest(robot), dt=0.0)

    def _require_authority(self, propulsion: Propulsion) -> None:
        """Raise an error if a coordinate has gains but the propulsion cannot drive it."""
        used = (self._stiffness + self._damping + self._integral.gains) > 0.0
        iota = self.robot.base_group.iota
        if self.robot.b == 6:
            axes = [a for a, u in zip(WRENCH_AXES, used, strict=True) if u]
            propulsion.require_full_rank(axes)
            return
        reach = (iota.T @ propulsion.matrix)[used]
        if np.linalg.matrix_rank(reach) < used.sum():
            raise ParameterError(
                f"propulsion: {len(propulsion.rotors)} rotors give {np.linalg.matrix_rank(reach)} "
                f"of the {used.sum()} coordinates of {self.robot.base_group.name} that have gains"
            )

    def set_target(
        self, g: ArrayLike, V: ArrayLike | None = None, Vd: ArrayLike | None = None
    ) -> None:
        """Set the pose that the base follows from the next step on.

        Args:
            g: pose in the world, shape (4, 4), a displacement of the base group.
            V: velocity of that pose in its own frame, shape (b,) [m/s, rad/s]; zero if None.
            Vd: rate of the components of V, shape (b,) [m/s^2, rad/s^2]; zero if None.
        """
        self.target: PoseTarget = pose_target(self.robot.base_group, g, V, Vd)

    def reset(self) -> None:
        """Set the integral action to zero."""
        self._integral.reset()

    def take_over(self, former: PoseControl) -> bool:
        """Continue without a jump: take target and integral action from another controller."""
        self.target = former.target
        self._integral.take_over(former._integral)
        return True

    @property
    def gains(self) -> Array:
        """Stiffness K and damping D, shape (2b,)."""
        return np.concatenate((self._stiffness, self._damping))

    def shaken(self, q: Array, period: float) -> str:
        """Name of a coordinate that the gains make unstable, or ``""``.

        The gains are per unit of inertia, so the shape does not matter.

        Args:
            q: joint positions, shape (n,), not used.
            period: control period [s].
        """
        unit = np.eye(self.robot.b)
        found = shaken_joint(unit, self._stiffness, self._damping, period)
        return "" if found is None else f"coordinate {found}"

    def command(self, state: ControlState) -> Efforts:
        """Thrusts and wrench for a state, see :meth:`step`; the joint efforts are zero."""
        g, V = state.base
        out = self.step(g, state.q, V, state.qd, dt=state.dt)
        wrench = self.robot.base_group.iota_pinv.T @ out.wrench
        return Efforts(np.zeros(self.robot.n), out.thrusts, wrench)

    def step(
        self,
        g: ArrayLike,
        q: ArrayLike,
        V: ArrayLike,
        qd: ArrayLike,
        *,
        qdd: ArrayLike | None = None,
        dt: float | None = None,
    ) -> PoseCommand:
        """Wrench for a state.

        Args:
            g: pose of the base in the world, shape (4, 4), a displacement of the base group.
            q: joint positions, shape (n,) [rad or m].
            V: base velocity in {1}, shape (b,) [m/s, rad/s].
            qd: joint velocities, shape (n,) [rad/s or m/s].
            qdd: joint accelerations that the controller of the arms commands, shape (n,)
                [rad/s^2 or m/s^2]; zero if None.
            dt: time since the last step [s]; required with integral action.

        Raises:
            NotInGroupError: the pose is not a displacement of the base group.
            NonFiniteError: NaN or infinity in the state or, for a very large state, in the
                wrench.
        """
        robot, group = self.robot, self.robot.base_group
        state = checked_state(robot, g, q, V, qd)
        period = self._integral.period(dt)
        errors = pose_errors(group, state[0], state[2], self.target)
        Vd = geometric_feedback(group, errors, self._stiffness, self._damping)
        Vd += self._integral.output
        demand = inverse_dynamics(robot, state, Vd, or_zero("qdd", qdd, robot.n))[: robot.b]
        if not np.isfinite(demand).all():
            raise NonFiniteError(f"g, q, V, qd: the state asks for a wrench of {demand}")
        command = self._within_limits(demand)
        lacking = np.where(command.saturated, demand - command.wrench, 0.0)
        self._integral.update(errors.pose, period, lacking)
        return command

    def _within_limits(self, demand: Array) -> PoseCommand:
        """Command for a demanded wrench in {1}, shape (b,), within what the actuators give."""
        if self.propulsion is None:
            wrench = np.clip(demand, -self._most, self._most)
            return PoseCommand(wrench, demand, None, wrench != demand, np.zeros(0, dtype=bool))
        group = self.robot.base_group
        found = self.propulsion.allocate(group.iota_pinv.T @ demand, self._touched)
        wrench = group.iota.T @ found.wrench
        missed = shortfall(demand, wrench) != 0.0
        return PoseCommand(wrench, demand, found.thrusts, missed, found.saturated)
