# SPDX-License-Identifier: Apache-2.0
"""Reaction mode: a tool follows its path while the base moves as little as redundancy allows.

Implements: [Jain] sections 6.2, 6.3, 7 and eq. (7.1) with its sign and unknown corrected: the
velocity and T_p terms are subtracted, and the accelerations of the active hinges are solved for.
Resolved acceleration from the stacked ``[J_G; J_D]`` by damped least squares with weights:

.. math:: |W_t (J_G x + c_t - a_t)|^2 + |W_p (J_D x + c_p - a_p)|^2 + r^2 |x - x_0|^2

Here x are the accelerations of the active degrees of freedom, c_t and c_p those of the tool and
the passive degrees of freedom at x = 0, exact from the hybrid dynamics, and a_t, a_p the wanted
accelerations. The same least squares in velocities, with the present momentum of the robot, give
the velocities that suit tool and base best: x_0 leads the joints there. Joint friction is
compensated at these velocities too, because they are free of measurement noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.control import _kernels
from vm_dynamics.control.controller import Controller, ControlState, Efforts
from vm_dynamics.control.gains import Gains, gains, not_negative, or_zero, positive
from vm_dynamics.control.limits import BRAKING_TIME, JointLimits, Mask
from vm_dynamics.control.state import (
    CheckedState,
    at_rest,
    checked_pose,
    checked_state,
    cross,
    inverse_dynamics,
)
from vm_dynamics.control.tracking import PoseTarget, geometric_feedback, pose_errors, pose_target
from vm_dynamics.dynamics.hybrid import BASE, passive_mask
from vm_dynamics.errors import (
    DimensionError,
    NonFiniteError,
    ParameterError,
    UnknownJointError,
)
from vm_dynamics.lie import SE3
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.parameters import number
from vm_dynamics.model.robot_model import vector
from vm_dynamics.robot import Robot

MIN_DAMPING = 1e-6  # [1/s], so that one can divide by it
MIN_FRICTION_SPEED = 1e-6  # [rad/s or m/s], for the slope of friction at rest
FRICTION_HORIZON = 1.0  # [s], within which friction brings a failed joint to rest
FAILED_BRAKING_TIME = 2.0  # [s], longer than that of motors: others have to brake a failed joint
URGENT_WEIGHT = 10.0  # [m/rad], of a failed joint at a limit, where the tool's motion has 1
BASE_WEIGHT = 0.2  # [m/rad], of the base's rotation, where the tool's motion has 1


def turning_weights(robot: Robot, weight: float = BASE_WEIGHT) -> Array:
    """Weights of the base's coordinates, shape (b,): ``weight`` for rotations, 0 for shifts."""
    return np.asarray(weight * robot.base_group.iota[3:].any(axis=0))


class Spring(NamedTuple):
    """Spring and damper in a joint, whose effort is ``-stiffness (q - rest) - damping qd``.

    Attributes:
        stiffness: [N m/rad or N/m].
        damping: [N m s/rad or N s/m].
        rest: position at which the spring is slack [rad or m].
    """

    stiffness: float
    damping: float = 0.0
    rest: float = 0.0


def _spring_table(robot: Robot, springs: Mapping[str, Spring]) -> Array:
    """Stiffness, damping and rest of the joints' springs, shape (3, n); zero where is none."""
    out = np.zeros((3, robot.n))
    for name, spring in springs.items():
        if name not in robot.joint_names:
            raise UnknownJointError("springs", name, robot.joint_names)
        stiffness, damping, rest = Spring(*spring)
        out[:, robot.joint_names.index(name)] = (
            not_negative(f"springs: stiffness of {name}", stiffness, "N m/rad or N/m"),
            not_negative(f"springs: damping of {name}", damping, "N m s/rad or N s/m"),
            number(f"springs: rest of {name}", rest),
        )
    return out


class ReactionCommand(NamedTuple):
    """Result of one step of the reaction mode.

    Attributes:
        qdd: joint accelerations, shape (n,) [rad/s^2 or m/s^2]; predicted ones for failed joints.
        qd: joint velocities for joints that accept velocity commands, shape (n,) [rad/s or m/s];
            measured ones for failed joints.
        tau: joint efforts within their limits, shape (n,) [N m or N]; zero for failed joints.
        base_wrench: wrench that a driven base needs, in {1}, shape (b,) [N, N m]; zero for a free
            base.
        Vd: predicted rate of the components of V in {1}, shape (b,) [m/s^2, rad/s^2].
        error: error of the tool: of its position in world axes, shape (3,) [m], or the logarithm
            of its pose error in its own frame, shape (6,) [m, rad].
        saturated: joints whose acceleration or effort a limit changed, shape (n,), bool.
    """

    qdd: Array
    qd: Array
    tau: Array
    base_wrench: Array
    Vd: Array
    error: Array
    saturated: Mask


class _Point(NamedTuple):
    """Position [m], velocity and acceleration of a point in world axes, shape (3,) each."""

    p: Array
    v: Array
    a: Array


class _Task(NamedTuple):
    """The tool's task, with k rows: three in world axes, or six [v; w] in the tool's frame.

    Attributes:
        error: error of the tool, shape (k,).
        J: Jacobian of the task, shape (k, b + n).
        bias: its rate dJ/dt [V; qd], shape (k,).
        velocity: wanted velocity of the tool, shape (k,).
        acceleration: wanted acceleration of the tool, shape (k,).
    """

    error: Array
    J: Array
    bias: Array
    velocity: Array
    acceleration: Array


class ReactionMode(Controller):
    """Follows a path with the tool, and keeps the base still as far as the joints allow.

    Attributes:
        robot: the robot.
        link: name of the tool's link.
        position_only: whether the tool's orientation is left free.
        limits: the joint limits; ``limits.names`` gives the names of the joints in a mask.
    """

    needs = frozenset({"pose", "twist"})
    targets = frozenset({"tool_pose"})
    kernels = (_kernels.check, _kernels.check_pose, _kernels.bounded, _kernels.link_bias)

    def __init__(
        self,
        robot: Robot,
        link: str,
        *,
        stiffness: Gains = 16.0,
        damping: Gains = 8.0,
        position_only: bool = False,
        tool_weights: Gains = 1.0,
        base_weights: Gains | None = None,
        base_damping: float = 4.0,
        failed_weight: float = 0.3,
        joint_damping: float = 4.0,
        regularization: float = 1e-2,
        driven_base: bool = False,
        failed: Iterable[str] = (),
        friction: bool = True,
        springs: Mapping[str, Spring] | None = None,
        braking_time: float | None = BRAKING_TIME,
    ) -> None:
        """Check the settings. A target must be set before the first step.

        Args:
            robot: the robot.
            link: name of the tool's link.
            stiffness: stiffness of the tool [1/s^2], one number or one for each row of its task.
            damping: damping of the tool [1/s], in the same forms.
            position_only: whether to leave the tool's orientation free. If so, the task has three
                rows in world axes, otherwise six, [v; w] in the tool's frame.
            tool_weights: importance of each row of the tool's task, in the same forms.
            base_weights: importance of the base's motion, one number or shape (b,); 0 for plain
                tool tracking. If None, rotation of the base has a small weight, so that the tool
                comes first, and translation has none.
            base_damping: rate at which the base is brought to rest [1/s].
            failed_weight: importance of bringing failed joints to rest.
            joint_damping: rate at which motion of the joints that affects neither tool nor base
                is brought to the velocities that suit both [1/s].
            regularization: weight of joint motion, which keeps it small near singularities.
            driven_base: whether thrusters give the base the wrench that is asked for. If not, the
                only force on it is the one passed to ``step``.
            failed: joints without torque, see :attr:`failed`.
            friction: whether to compensate the joint friction given in the URDF.
            springs: springs and dampers in joints, by name, such as those of passive joints; None
                for none.
            braking_time: time in which a joint brakes at a velocity or position limit [s], see
                :mod:`vm_dynamics.control.limits`; None to limit efforts only.

        Raises:
            UnknownLinkError: the robot has no such link.
            UnknownJointError: ``failed`` or ``springs`` names a joint that is not there.
            ParameterError: a gain or weight is negative.
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
        self._springs = _spring_table(robot, springs or {})
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
        """Names of joints without torque, which move freely; can be set at any time."""
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
        pose: ArrayLike | None = None,
        velocity: ArrayLike | None = None,
        acceleration: ArrayLike | None = None,
        *,
        tool: ArrayLike | None = None,
    ) -> None:
        """Set what the tool follows from the next step on.

        Args:
            pose: pose of the tool in the world, shape (4, 4); with ``position_only`` its
                position, shape (3,) [m].
            velocity: twist of that pose in its own frame, shape (6,) [m/s, rad/s]; with
                ``position_only`` the velocity in world axes, shape (3,); zero if None.
            acceleration: rate of the components of ``velocity``; zero if None.
            tool: pose of the tool in the world, shape (4, 4), instead of ``pose``; also with
                ``position_only``.

        Raises:
            ParameterError: both ``pose`` and ``tool`` are given.
            DimensionError: neither is given, or an array has the wrong shape.
        """
        if tool is not None:
            if pose is not None:
                raise ParameterError("tool: got one beside pose, expected one of them")
            pose = checked_pose(tool)[:3, 3] if self.position_only else tool
        if pose is None:
            raise DimensionError("pose: got None, expected a pose, or one as tool")
        if self.position_only:
            self._target = _Point(
                vector("pose", pose, 3),
                or_zero("velocity", velocity, 3),
                or_zero("acceleration", acceleration, 3),
            )
        else:
            self._target = pose_target(SE3, pose, velocity, acceleration)

    def hold(self, state: ControlState) -> None:
        """Set the tool's present pose as the target."""
        g = checked_pose(state.base[0])
        self.set_target(tool=g @ self.robot.link_pose(state.q, self.link))

    def reset(self) -> None:
        """Remove the target."""
        self._target = None

    def take_over(self, former: ReactionMode) -> bool:
        """Continue with the target of a controller with other settings but the same tool."""
        if (former.link, former.position_only) != (self.link, self.position_only):
            return False
        self._target = former._target
        return True

    def command(self, state: ControlState) -> Efforts:
        """Joint efforts for a state, see :meth:`step`; for a driven base also a wrench."""
        g, V = state.base
        out = self.step(g, state.q, V, state.qd)
        if not self._driven_base:
            return Efforts(out.tau)
        return Efforts(out.tau, None, self.robot.base_group.iota_pinv.T @ out.base_wrench)

    def step(
        self,
        g: ArrayLike,
        q: ArrayLike,
        V: ArrayLike,
        qd: ArrayLike,
        *,
        base_wrench: ArrayLike | None = None,
    ) -> ReactionCommand:
        """Accelerations, velocities and efforts for a state.

        Args:
            g: pose of the base in the world, shape (4, 4).
            q: joint positions, shape (n,) [rad or m].
            V: base velocity in {1}, shape (b,) [m/s, rad/s].
            qd: joint velocities, shape (n,) [rad/s or m/s].
            base_wrench: known wrench on a free base in {1}, shape (b,) [N, N m]; zero if None.

        Raises:
            ParameterError: no target was set.
            NonFiniteError: NaN or infinity in the state or, for a very large state, in the
                efforts.
        """
        robot, b = self.robot, self.robot.b
        state = checked_state(robot, g, q, V, qd)
        _, q, V, qd = state
        M, bias = robot.mass_matrix(q), inverse_dynamics(robot, state, *self._still)
        follow, drift = self._coast(M, bias, qd, base_wrench, self._spring_force(q, qd))
        task = self._task(state)
        window = self._windows(q, qd)

        speeds = self._speeds(task, state)
        rest = np.concatenate(
            (-self._base_damping * V, np.clip(-self._base_damping * qd, *window))
        )
        pull = self._joint_damping * (speeds - np.concatenate((V, qd)))
        wanted = task.acceleration - task.bias
        acc, held = self._within_windows(
            (task.J, wanted, follow, drift, rest, pull), window, self._passive[b:] != 0.0
        )
        force = M @ acc + bias
        force[b:] -= self._spring_force(q, qd)
        if self._friction:
            force[b:] -= robot.joint_friction(speeds[b:])
        force[self._passive != 0.0] = 0.0
        if not np.isfinite(force).all():
            raise NonFiniteError(f"g, q, V, qd: the state asks for forces of {force}")
        tau, cut = self.limits.efforts(force[b:])
        return ReactionCommand(
            acc[b:], speeds[b:], tau, force[:b], acc[:b], task.error, cut | held
        )

    def _windows(self, q: Array, qd: Array) -> tuple[Array, Array]:
        """Least and greatest accelerations of the joints, shape (n,) each."""
        low, high = self.limits.window(q, qd)
        if self._failed and self.limits.braking_time:
            failed = self._passive[self.robot.b :] != 0.0
            early = self.limits.window(q, qd, FAILED_BRAKING_TIME)
            low, high = (np.where(failed, e, w) for e, w in zip(early, (low, high), strict=True))
        return low, high

    def _spring_force(self, q: Array, qd: Array) -> Array:
        """Efforts of the springs and dampers in the joints, shape (n,) [N m or N]."""
        k, d, rest = self._springs
        return np.asarray(-k * (q - rest) - d * qd)

    def _within_windows(
        self, problem: tuple[Array, ...], window: tuple[Array, Array], failed: Mask
    ) -> tuple[Array, Mask]:
        """Accelerations of all, shape (b + n,), and which joints are at an edge, shape (n,).

        Failed joints follow by their inertia alone. Where they would leave their window, to keep
        them at its edge comes before the tool; each that does may push another one out.

        Args:
            problem: arguments of ``_equations``.
            window: least and greatest accelerations of the joints, shape (n,) each.
            failed: joints without torque, shape (n,), bool.
        """
        J, wanted, follow, drift, rest, pull = problem
        b = self.robot.b
        urgent = np.zeros(len(failed), dtype=bool)
        while True:
            system = self._equations(J, wanted, follow, drift, rest, pull, urgent)
            x, held = self._solve(system, window)
            acc = follow @ x + drift
            edge = np.clip(acc[b:], *window)
            beyond = failed & (edge != acc[b:]) & ~urgent
            if not beyond.any():
                return acc, held | urgent
            urgent |= beyond
            rest = rest.copy()
            rest[b:][beyond] = edge[beyond]

    def _coast(
        self,
        M: Array,
        bias: Array,
        qd: Array,
        base_wrench: ArrayLike | None,
        springs: Array | None = None,
    ) -> tuple[Array, Array]:
        """Accelerations of all degrees of freedom as ``follow x + drift``.

        ``follow`` is [1; J_D] with J_D = -M_pp^-1 M_pa. The friction of failed joints is the one
        expected after ``FRICTION_HORIZON``, which adds to M_pp. It stops them sooner than the
        controller could, so the controller should not work against it.

        Args:
            M: mass matrix, shape (b + n, b + n).
            bias: forces at zero accelerations, shape (b + n,) [N, N m].
            qd: joint velocities, shape (n,) [rad/s or m/s].
            base_wrench: known wrench on a free base in {1}, shape (b,), or None.
            springs: efforts of springs and dampers in the joints, shape (n,), or None.

        Returns:
            ``follow``, shape (b + n, number of active ones), and ``drift``, shape (b + n,).
        """
        b, p = self.robot.b, self._passive != 0.0
        force = np.zeros(len(p))
        if not self._driven_base:
            force[:b] = or_zero("base_wrench", base_wrench, b)
        force[b:] = self.robot.joint_friction(qd)
        if springs is not None:
            force[b:] += springs
        slope = np.zeros(len(p))
        speed = np.where(abs(qd) < MIN_FRICTION_SPEED, MIN_FRICTION_SPEED, qd)
        slope[b:] = -self.robot.joint_friction(speed) / speed
        follow, drift = np.eye(len(p))[:, ~p], np.zeros(len(p))
        if p.any():
            inertia = M[np.ix_(p, p)] + np.diag(FRICTION_HORIZON * slope[p])
            right = np.column_stack((-M[np.ix_(p, ~p)], (force - bias)[p]))
            solved = np.linalg.solve(inertia, right)
            follow[p], drift[p] = solved[:, :-1], solved[:, -1]
        return follow, drift

    def _task(self, state: CheckedState) -> _Task:
        """The tool's task at a checked state."""
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
        # an error times this is the velocity at which stiffness and damping balance
        ratio = self._stiffness / np.maximum(self._damping, MIN_DAMPING)
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

    def _speeds(self, task: _Task, state: CheckedState) -> Array:
        """Velocities [V; qd] that suit tool and base best, shape (b + n,).

        A free base moves with ``V = mu - A qd``; failed joints keep their measured velocities.
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
        calm = np.zeros(self.robot.n, dtype=bool)
        system = self._equations(task.J, task.velocity, follow, known, none, none, calm)
        most = self.limits.table[2] if self.limits.braking_time else np.full(len(qd), np.inf)
        return follow @ self._solve(system, (-most, most))[0] + known

    def _equations(
        self,
        J: Array,
        wanted: Array,
        follow: Array,
        known: Array,
        rest: Array,
        pull: Array,
        urgent: Mask,
    ) -> tuple[Array, Array]:
        """Weighted rows and right side of the least squares for motions ``follow x + known``.

        Motions are velocities or accelerations. The task has k rows, and a of the b + n degrees
        of freedom are active.

        Args:
            J: Jacobian of the tool's task, shape (k, b + n).
            wanted: wanted motion of the tool, shape (k,).
            follow: motion of all per motion x of the active ones, shape (b + n, a).
            known: motion of all at x = 0, shape (b + n,).
            rest: wanted motion of base and failed joints, shape (b + n,).
            pull: preferred motion of the active ones, with the smallest weight, shape (b + n,).
            urgent: failed joints that come before the tool, shape (n,), bool.
        """
        b, small = self.robot.b, self._regularization
        weight = np.full(len(known), self._failed_weight)
        weight[:b] = self._base_weights
        weight[b:] *= self._passive[b:]
        weight[b:][urgent] = URGENT_WEIGHT
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
        """Motion of the active ones within the joints' window, and which joints are at its edge.

        Args:
            system: the result of ``_equations``.
            window: least and greatest motion of the joints, shape (n,) each.

        Returns:
            The motion x, shape (a,), and the mask of joints at an edge, shape (n,).
        """
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
