# SPDX-License-Identifier: Apache-2.0
"""Reaction mode: a tool follows its path while the base moves as little as redundancy allows.

Implements: [Jain] sections 6.2, 6.3, 7 and eq. (7.1) with its sign and unknown corrected: the
velocity and T_p terms are subtracted, and the accelerations of the active hinges are solved for.
Resolved acceleration from the stacked ``[J_G; J_D]`` by damped least squares with weights:

.. math:: |W_t (J_G x + c_t - a_t)|^2 + |W_p (J_D x + c_p - a_p)|^2 + r^2 |x - x_0|^2

where x are the accelerations of the active, c_t and c_p those of tool and passive ones at x = 0,
exact from the hybrid dynamics, and a_t, a_p the accelerations wanted. The same least squares in
velocities, with the momentum that the robot has, say how fast the joints should move: x_0 leads
them there, and the friction of the joints is compensated at these velocities, which know no noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.control import _kernels
from vm_dynamics.control.controller import Controller, ControlState, Efforts
from vm_dynamics.control.gains import gains, not_negative, or_zero, positive
from vm_dynamics.control.limits import BRAKING_TIME, JointLimits, Mask
from vm_dynamics.control.state import (
    at_rest,
    checked_pose,
    checked_state,
    cross,
    inverse_dynamics,
)
from vm_dynamics.control.tracking import PoseTarget, geometric_feedback, pose_errors, pose_target
from vm_dynamics.dynamics.hybrid import BASE, passive_mask
from vm_dynamics.errors import NonFiniteError, ParameterError
from vm_dynamics.lie import SE3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

SMALL = 1e-6  # a damping [1/s] that is none, a velocity that is one to differentiate at
FRICTION_HORIZON = 1.0  # [s], within which friction brings a failed joint to rest
BASE_WEIGHT = 0.2  # of turning against the tool's motion [m/rad]


def turning_weights(robot: Robot, weight: float = BASE_WEIGHT) -> Array:
    """Weights of the base for which turning matters and shifting does not, shape (b,)."""
    return np.asarray(weight * robot.base_group.iota[3:].any(axis=0))


class ReactionCommand(NamedTuple):
    """What a step of the reaction mode gives.

    Attributes:
        qdd: joint accelerations, shape (n,), of failed joints those that will come about.
        qd: joint velocities, shape (n,), for joints that take them: those of failed joints are
            as they are.
        tau: joint efforts within their limits, shape (n,); zero for failed joints.
        base_wrench: that a driven base needs in {1}, shape (b,); zero for a free base.
        Vd: acceleration of the base that comes about, shape (b,).
        error: of the tool: position in the world, shape (3,), or log of its pose error in its
            own frame, shape (6,).
        saturated: joints whose acceleration or effort was changed by a limit, shape (n,).
    """

    qdd: Array
    qd: Array
    tau: Array
    base_wrench: Array
    Vd: Array
    error: Array
    saturated: Mask


class _Point(NamedTuple):
    """Position, velocity and acceleration of a point in the world, shape (3,) each."""

    p: Array
    v: Array
    a: Array


class _Task(NamedTuple):
    """Error of the tool; Jacobian and velocity terms of its task; motion wanted."""

    error: Array
    J: Array
    bias: Array
    velocity: Array
    acceleration: Array


class ReactionMode(Controller):
    """Follows a tool path with the joints, and keeps the base still with what is left of them.

    Attributes:
        robot: the robot.
        link: name of the tool's link.
        position_only: whether the tool's orientation is left free.
        limits: the limits of the joints, whose ``names`` tells the joints of a mask.
    """

    needs = frozenset({"pose", "twist"})
    targets = frozenset({"tool_pose"})
    kernels = (_kernels.check, _kernels.check_pose, _kernels.bounded, _kernels.link_bias)

    def __init__(
        self,
        robot: Robot,
        link: str,
        *,
        stiffness: Any = 16.0,
        damping: Any = 8.0,
        position_only: bool = False,
        tool_weights: Any = 1.0,
        base_weights: Any = None,
        base_damping: float = 4.0,
        failed_weight: float = 0.3,
        joint_damping: float = 4.0,
        regularization: float = 1e-2,
        driven_base: bool = False,
        failed: Iterable[str] = (),
        friction: bool = True,
        braking_time: float | None = BRAKING_TIME,
    ) -> None:
        """Check all; a target must be set before the first step.

        Args:
            robot: the robot.
            link: name of the tool's link.
            stiffness: of the tool [1/s^2], a number or one for each row of its task.
            damping: of the tool [1/s], likewise.
            position_only: whether to leave the tool's orientation free: three rows in world axes,
                else six, [v; w] in the tool's frame.
            tool_weights: how much each row of the tool's task matters, likewise.
            base_weights: how much each coordinate of the base's motion matters, a number or shape
                (b,); 0 for plain tool tracking. Unless given, turning matters a little, so that
                the tool comes first, and shifting not at all.
            base_damping: with which the base is brought to rest [1/s].
            failed_weight: how much it matters that failed joints come to rest.
            joint_damping: with which joints that neither tool nor base need are brought to the
                velocities that suit both [1/s].
            regularization: weight of joint motions, which keeps them small near singularities.
            driven_base: whether thrusters push the base as asked; else no force acts on it but
                those that ``step`` is told of.
            failed: joints without torque, see :attr:`failed`.
            friction: whether to compensate the joints' friction, as the URDF has it.
            braking_time: within which velocity and position limits are kept [s], see
                :mod:`vm_dynamics.control.limits`; None to limit efforts only.

        Raises:
            UnknownLinkError: the robot has no such link.
            UnknownJointError: ``failed`` names a joint that the robot does not have.
            ParameterError: a negative gain or weight.
        """
        self.robot, self.link, self.position_only = robot, link, bool(position_only)
        self._frame = robot.link_frame(link)
        rows = ("x", "y", "z") if position_only else ("vx", "vy", "vz", "wx", "wy", "wz")
        base = tuple(f"coordinate {i}" for i in range(robot.b))
        self._stiffness = gains("stiffness", stiffness, rows)
        self._damping = gains("damping", damping, rows)
        self._tool_weights = gains("tool_weights", tool_weights, rows)
        if base_weights is None:
            base_weights = turning_weights(robot)
        self._base_weights = gains("base_weights", base_weights, base)
        self._base_damping = not_negative("base_damping", base_damping, "1/s")
        self._failed_weight = not_negative("failed_weight", failed_weight, "-")
        self._joint_damping = not_negative("joint_damping", joint_damping, "1/s")
        self._regularization = positive("regularization", regularization, "-")
        self._driven_base = bool(driven_base)
        self._friction = bool(friction)
        self._still = np.zeros(robot.b), np.zeros(robot.n)
        self.limits = JointLimits(robot, braking_time)
        self.failed = failed  # type: ignore[assignment]
        g, q, V, qd = at_rest(robot)
        pose = robot.link_pose(q, link)
        self.set_target(pose[:3, 3] if position_only else pose)
        self.step(g, q, V, qd)
        self._target: PoseTarget | _Point | None = None

    @property
    def failed(self) -> tuple[str, ...]:
        """Joints without torque, which move freely; may be set at any time."""
        return self._failed

    @failed.setter
    def failed(self, names: Iterable[str]) -> None:
        chosen = {names} if isinstance(names, str) else set(names)
        if BASE in chosen:
            raise ParameterError(
                "failed: got 'base', expected joints; driven_base says whether the base is driven"
            )
        mask = passive_mask(self.robot, chosen if self._driven_base else {*chosen, BASE})
        if not (mask == 0.0).any():
            raise ParameterError("failed: got all joints, expected at least one that works")
        self._failed = tuple(name for name in self.robot.joint_names if name in chosen)
        self._passive = mask

    def set_target(
        self,
        pose: Any = None,
        velocity: Any = None,
        acceleration: Any = None,
        *,
        tool: Any = None,
    ) -> None:
        """Where the tool shall be from the next step on.

        Args:
            pose: of the tool in the world, shape (4, 4); with ``position_only`` its position,
                shape (3,).
            velocity: twist of that pose in its own frame, shape (6,), or velocity of the position
                in the world, shape (3,); zero if None.
            acceleration: the rate of its components, likewise.
            tool: instead of ``pose``, the pose of the tool in any case, shape (4, 4).

        Raises:
            ParameterError: both ``pose`` and ``tool``.
        """
        if tool is not None:
            if pose is not None:
                raise ParameterError("tool: got one beside pose, expected one of them")
            pose = checked_pose(tool)[:3, 3] if self.position_only else tool
        if self.position_only:
            self._target = _Point(
                vector("pose", pose, 3),
                or_zero("velocity", velocity, 3),
                or_zero("acceleration", acceleration, 3),
            )
        else:
            self._target = pose_target(SE3, pose, velocity, acceleration)

    def hold(self, state: ControlState) -> None:
        """The tool stays where it is."""
        self.set_target(tool=checked_pose(state.g) @ self.robot.link_pose(state.q, self.link))

    def reset(self) -> None:
        """Forget the target."""
        self._target = None

    def take_over(self, former: ReactionMode) -> bool:
        """Go on to the target of a controller with other settings, if it is of the same tool."""
        if (former.link, former.position_only) != (self.link, self.position_only):
            return False
        self._target = former._target
        return True

    def command(self, state: ControlState) -> Efforts:
        """Joint efforts for a state, see :meth:`step`; a wrench too for a driven base."""
        out = self.step(state.g, state.q, state.V, state.qd)
        if not self._driven_base:
            return Efforts(out.tau)
        return Efforts(out.tau, None, self.robot.base_group.iota_pinv.T @ out.base_wrench)

    def step(self, g: Any, q: Any, V: Any, qd: Any, *, base_wrench: Any = None) -> ReactionCommand:
        """Accelerations, velocities and efforts for a state.

        Args:
            g: pose of the base in the world, shape (4, 4).
            q: joint positions, shape (n,).
            V: base velocity in {1}, shape (b,).
            qd: joint velocities, shape (n,).
            base_wrench: forces on a free base that are known, in {1}, shape (b,); zero if None.

        Raises:
            ParameterError: no target was set.
            NonFiniteError: NaN or infinity, or a state so large that the efforts are.
        """
        robot, b = self.robot, self.robot.b
        state = checked_state(robot, g, q, V, qd)
        _, q, V, qd = state
        M, bias = robot.mass_matrix(q), inverse_dynamics(robot, state, *self._still)
        follow, drift = self._coast(M, bias, qd, base_wrench)
        task = self._task(state)
        window = self.limits.window(q, qd)

        speeds = self._speeds(task, state)
        rest = np.concatenate(
            (-self._base_damping * V, np.clip(-self._base_damping * qd, *window))
        )
        pull = self._joint_damping * (speeds - np.concatenate((V, qd)))
        wanted = task.acceleration - task.bias
        x, held = self._solve(self._equations(task.J, wanted, follow, drift, rest, pull), window)

        acc = follow @ x + drift
        force = M @ acc + bias
        if self._friction:
            force[b:] -= robot.joint_friction(speeds[b:])
        force[self._passive != 0.0] = 0.0
        if not np.isfinite(force).all():
            raise NonFiniteError(f"g, q, V, qd: the state asks for forces of {force}")
        tau, cut = self.limits.efforts(force[b:])
        return ReactionCommand(
            acc[b:], speeds[b:], tau, force[:b], acc[:b], task.error, cut | held
        )

    def _coast(self, M: Array, bias: Array, qd: Array, base_wrench: Any) -> tuple[Array, Array]:
        """Accelerations of all are follow x + drift, shapes (b + n, active) and (b + n,).

        ``follow`` is [1; J_D] with J_D = -M_pp^-1 M_pa. The friction of failed joints is taken as
        it will be a horizon later, which adds to M_pp: it stops them sooner than the controller
        could, and to work against it would be a mistake.
        """
        b, p = self.robot.b, self._passive != 0.0
        force = np.zeros(len(p))
        if not self._driven_base:
            force[:b] = or_zero("base_wrench", base_wrench, b)
        force[b:] = self.robot.joint_friction(qd)
        slope = np.zeros(len(p))
        speed = np.where(abs(qd) < SMALL, SMALL, qd)
        slope[b:] = -self.robot.joint_friction(speed) / speed
        follow, drift = np.eye(len(p))[:, ~p], np.zeros(len(p))
        if p.any():
            inertia = M[np.ix_(p, p)] + np.diag(FRICTION_HORIZON * slope[p])
            right = np.column_stack((-M[np.ix_(p, ~p)], (force - bias)[p]))
            solved = np.linalg.solve(inertia, right)
            follow[p], drift[p] = solved[:, :-1], solved[:, -1]
        return follow, drift

    def _task(self, state: tuple[Array, Array, Array, Array]) -> _Task:
        """What the tool shall do."""
        g, q, V, qd = state
        robot, target = self.robot, self._target
        if target is None:
            raise ParameterError("target: got none, expected set_target before the first step")
        pose, bias = np.empty((4, 4)), np.empty(6)
        _kernels.link_bias.checked(
            robot.packed, q, V, qd, self._frame.body, self._frame.pose, pose, bias
        )
        J = robot.link_jacobian(q, self.link)
        twist = J @ np.concatenate((V, qd))
        tool = g @ pose
        # the velocity at which the feedback of the position is in balance with its damping
        ratio = self._stiffness / np.maximum(self._damping, SMALL)
        if isinstance(target, PoseTarget):
            errors = pose_errors(SE3, tool, twist, target)
            wanted = geometric_feedback(SE3, errors, self._stiffness, self._damping)
            speed = errors.velocity + twist + ratio * errors.pose
            return _Task(errors.pose, J, bias, speed, wanted)
        R = tool[:3, :3]
        error = target.p - tool[:3, 3]
        rate = target.v - R @ twist[:3]
        wanted = target.a + self._damping * rate + self._stiffness * error
        bias = R @ (bias[:3] + cross(twist[3:], twist[:3]))
        return _Task(error, R @ J[:3], bias, target.v + ratio * error, wanted)

    def _speeds(self, task: _Task, state: tuple[Array, Array, Array, Array]) -> Array:
        """Velocities of base and joints, shape (b + n,), that suit tool and base best.

        A free base moves with ``V = mu - A qd``; failed joints move as they do.
        """
        _, q, V, qd = state
        b = self.robot.b
        active = self._passive == 0.0
        follow = np.eye(len(active))[:, active]
        known = np.where(active, 0.0, np.concatenate((V, qd)))
        if not self._driven_base:
            A = self.robot.connection(q)
            known[:b] = V + A @ (qd - known[b:])
            follow[:b] = -A[:, active[b:]]
        none = np.zeros(len(active))
        system = self._equations(task.J, task.velocity, follow, known, none, none)
        most = self.limits.table[2] if self.limits.braking_time else np.full(len(qd), np.inf)
        return follow @ self._solve(system, (-most, most))[0] + known

    def _equations(
        self, J: Array, wanted: Array, follow: Array, known: Array, rest: Array, pull: Array
    ) -> tuple[Array, Array]:
        """Weighted rows of the least squares and their right side, for motions follow x + known.

        Args:
            J: Jacobian of the tool's task.
            wanted: motion of the tool.
            follow: shape (b + n, active).
            known: shape (b + n,).
            rest: motion that is wanted of base and failed joints, shape (b + n,).
            pull: motion that is wanted of the active, if nothing else is, shape (b + n,).
        """
        b, small = self.robot.b, self._regularization
        weight = np.full(len(known), self._failed_weight)
        weight[:b] = self._base_weights
        weight[b:] *= self._passive[b:]
        used = weight > 0.0
        left = (
            self._tool_weights[:, None] * (J @ follow),
            weight[used, None] * follow[used],
            small * np.eye(follow.shape[1]),
        )
        right = (
            self._tool_weights * (wanted - J @ known),
            weight[used] * (rest - known)[used],
            small * pull[self._passive == 0.0],
        )
        return np.concatenate(left), np.concatenate(right)

    def _solve(
        self, system: tuple[Array, Array], window: tuple[Array, Array]
    ) -> tuple[Array, Mask]:
        """Motion of the active within the joints' window, and which joints are at its edge."""
        (rows, right), b = system, self.robot.b
        active = self._passive == 0.0
        unbounded = np.full(b, np.inf)
        low = np.append(-unbounded, window[0])[active]
        high = np.append(unbounded, window[1])[active]
        H, f = rows.T @ rows, rows.T @ right
        if not (np.isfinite(H).all() and np.isfinite(f).all()):
            raise NonFiniteError("g, q, V, qd: the state asks for motions without end")
        x, side = np.empty(len(f)), np.empty(len(f))
        _kernels.bounded.checked(H, f, low, high, x, side)
        held = np.zeros(len(active))
        held[active] = side
        return x, held[b:] != 0.0
