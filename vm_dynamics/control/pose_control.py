# SPDX-License-Identifier: Apache-2.0
"""Pose control of a driven base on its group: hovering, station keeping, following a path.

A PD law on the group, see :mod:`vm_dynamics.control.tracking`, whose acceleration becomes a
wrench by the inverse dynamics of the whole robot: inertia, gyroscopic forces of base and arms,
weight, and the fluid of a submerged robot.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.control import _kernels
from vm_dynamics.control.controller import Controller, ControlState, Efforts
from vm_dynamics.control.gains import gains, or_zero, shaken_joint
from vm_dynamics.control.integral import Integral
from vm_dynamics.control.limits import Mask
from vm_dynamics.control.state import at_rest, checked_state, inverse_dynamics
from vm_dynamics.control.tracking import PoseTarget, geometric_feedback, pose_errors, pose_target
from vm_dynamics.dynamics.propulsion import WRENCH_AXES, Propulsion
from vm_dynamics.errors import NonFiniteError, ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

# Relative: below it a wrench that the rotors give is the one that was asked for.
SAME = 1e-9


class PoseCommand(NamedTuple):
    """What a step of the pose control gives.

    Attributes:
        wrench: on the base in {1}, within what the actuators give, shape (b,).
        demand: the wrench that the law asks for, shape (b,).
        thrusts: of the rotors or thrusters, shape (m,) [N]; None without propulsion.
        saturated: where the wrench is not the one asked for, shape (b,).
        saturated_rotors: which of them are at a limit, shape (m,), empty without propulsion.
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
        propulsion: what drives the base, or None for something that takes wrenches.
        target: where the base shall be.
    """

    needs = frozenset({"pose", "twist"})
    targets = frozenset({"base_pose"})
    kernels = (_kernels.check, _kernels.check_pose)

    def __init__(
        self,
        robot: Robot,
        stiffness: Any,
        damping: Any,
        *,
        propulsion: Propulsion | None = None,
        integral: Any = 0.0,
        integral_limit: float = math.inf,
        wrench_limits: Any = None,
    ) -> None:
        """Check the gains; the target is the world's origin until it is set.

        Args:
            robot: the robot.
            stiffness: K [1/s^2], a number or one for each coordinate of the base group.
            damping: D [1/s], likewise.
            propulsion: rotors or thrusters to allocate the wrench to.
            integral: gains of the integral action [1/s^3], likewise.
            integral_limit: most acceleration of the integral action [m/s^2, rad/s^2].
            wrench_limits: most force and torque of each coordinate, likewise; none unless given.
                For a base without ``propulsion``.

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
        # a group that is tilted in {1} may need every axis that it touches
        self._touched = (abs(robot.base_group.iota) > 0.0).any(axis=1)
        if propulsion is not None:
            self._require_authority(propulsion)
        self.set_target(np.eye(4))
        self.step(*at_rest(robot), dt=0.0)

    def _require_authority(self, propulsion: Propulsion) -> None:
        """Refuse gains in coordinates that the propulsion cannot drive."""
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

    def set_target(self, g: Any, V: Any = None, Vd: Any = None) -> None:
        """Where the base shall be from the next step on.

        Args:
            g: pose in the world, shape (4, 4), a displacement of the base group.
            V: its body velocity, in its own frame, shape (b,); zero if None.
            Vd: rate of the components of V, shape (b,); zero if None.
        """
        self.target: PoseTarget = pose_target(self.robot.base_group, g, V, Vd)

    def reset(self) -> None:
        """Forget what integral action has gathered."""
        self._integral.reset()

    def take_over(self, former: PoseControl) -> bool:
        """Go on with target and integral action of a controller with other gains, and no jump."""
        self.target = former.target
        kept = former._integral.output
        self._integral.output = np.where(self._integral.gains > 0.0, kept, 0.0)
        return True

    @property
    def gains(self) -> Array:
        """K and D, shape (2b,)."""
        return np.concatenate((self._stiffness, self._damping))

    def shaken(self, q: Array, period: float) -> str:
        """Coordinate that the gains, which are of accelerations, would shake, if any."""
        unit = np.eye(self.robot.b)
        found = shaken_joint(unit, self._stiffness, self._damping, period)
        return "" if found is None else f"coordinate {found}"

    def command(self, state: ControlState) -> Efforts:
        """No joint efforts, but thrusts and wrench for a state, see :meth:`step`."""
        out = self.step(state.g, state.q, state.V, state.qd, dt=state.dt)
        wrench = self.robot.base_group.iota_pinv.T @ out.wrench
        return Efforts(np.zeros(self.robot.n), out.thrusts, wrench)

    def step(
        self, g: Any, q: Any, V: Any, qd: Any, *, qdd: Any = None, dt: float | None = None
    ) -> PoseCommand:
        """Wrench for a state.

        Args:
            g: pose of the base in the world, shape (4, 4), a displacement of the base group.
            q: joint positions, shape (n,).
            V: base velocity in {1}, shape (b,).
            qd: joint velocities, shape (n,).
            qdd: joint accelerations that the arms' controller asks for, shape (n,); zero if None.
            dt: time since the last step [s], needed for integral action.

        Raises:
            NotInGroupError: the pose is no displacement of the base group.
            NonFiniteError: NaN or infinity, or a state so large that the wrench is.
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
        self._integral.update(errors.pose, period, command.saturated)
        return command

    def _within_limits(self, demand: Array) -> PoseCommand:
        if self.propulsion is None:
            wrench = np.clip(demand, -self._most, self._most)
            return PoseCommand(wrench, demand, None, wrench != demand, np.zeros(0, dtype=bool))
        group = self.robot.base_group
        found = self.propulsion.allocate(group.iota_pinv.T @ demand, self._touched)
        wrench = group.iota.T @ found.wrench
        missed = abs(wrench - demand) > SAME * (1.0 + abs(demand).max())
        return PoseCommand(wrench, demand, found.thrusts, missed, found.saturated)
