# SPDX-License-Identifier: Apache-2.0
"""Left-invariant extended Kalman filter on the pose of the base and the momentum of the robot.

Implements: row 1 of [Mishra2022] eq. (18) as ``dh/dt = ad_V^T h + F``, h = M_b mu, which needs
neither P nor S and keeps the momentum exactly. Inside, its moments are about the centre of mass.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vm_dynamics.compiled import EntryPoint
from vm_dynamics.dynamics.kinematics_kernels import link_jacobian
from vm_dynamics.errors import ParameterError, UnknownNameError
from vm_dynamics.estimation.checks import (
    deviations,
    gates,
    group_covariance,
    is_covariance,
    is_moderate,
    numbers,
    positive,
    reading_noise,
)
from vm_dynamics.estimation.covariance import Belief, Covariance, is_possible
from vm_dynamics.estimation.estimate import LARGEST_NIS, Estimate, Measurement, straightened
from vm_dynamics.estimation.history import Event, Kind, Verdict
from vm_dynamics.estimation.innovation import Innovation, corrected, innovation
from vm_dynamics.estimation.observer import ROUNDING, Observer
from vm_dynamics.estimation.shape import Shape
from vm_dynamics.estimation.velocity_noise import VelocityNoise
from vm_dynamics.estimation.watch import NOTHING_SEEN, RESTARTED
from vm_dynamics.lie import se3
from vm_dynamics.lie.se3 import Array, hat3
from vm_dynamics.robot import Robot

AXES = ("body", "world")
WIDENING = 3.0  # of the start's deviation, each time that it was too narrow
WIDEST = 8
# A measurement beyond the gate, but not that far beyond it, and the second in a row, speaks
# against the model rather than against the sensor.
SUSPECT_GATES = 10.0
TAKEN_OVER = 2.0  # more covariance of a velocity that another model has estimated
SUSPECT_MISSES = 2  # measurements rejected in a row that speak against the estimate
WIDEST_STEP = 1e6


class InvariantEkf(Observer):
    """The filter to use: pose, momentum and, if asked for, gyroscope bias and unknown wrench.

    .. math:: g_t = g exp(eps), m_t = diag(R, R)^T m + zeta

    are the errors whose covariance it keeps, R the rotation of exp(eps) and m the momentum with
    moments about the centre of mass (the origin of {1} for a submerged robot). Gravity and the
    fluid of a submerged robot are the robot's own. All standard deviations are one number, or two:
    linear and angular.

    Args:
        robot: the robot, on any base group.
        joint_velocity_deviation: noise of qd, one number or shape (n,) [rad/s or m/s].
        disturbance: random walk of the locked velocity by forces and a model that are not quite
            known [m/s/sqrt(s), rad/s/sqrt(s)]; 1e-4 for a calibrated robot in free fall.
        start_deviation: of the locked velocity to begin with [m/s, rad/s].
        external_wrench: ``body`` or ``world`` to estimate a constant wrench on {1} with components
            along the axes of {1} (a leaking thruster) or of the world (wind, a wrong weight); none
            if None.
        external_deviation: of that wrench to begin with [N, N m].
        external_walk: how it wanders [N/sqrt(s), N m/sqrt(s)].
        gyro_link: name of the link that carries a gyroscope with the link's axes; then its bias is
            estimated.
        gyro_deviation: noise of a reading that comes without covariance [rad/s].
        gyro_bias_deviation: of the bias to begin with [rad/s].
        gyro_bias_walk: how the bias wanders [rad/s/sqrt(s)].
        velocity_deviation: noise of a velocity that comes without covariance [m/s].
        stamp_deviation: how far the stamps of the poses may be off against those of the joints,
            all of them the same way [s]; it widens the covariance that is told to others.
        gate: probability with which a good measurement passes the test for outliers.
        patience: poses rejected in a row after which the estimate begins anew.
        covariance_period: how often the covariance is propagated, besides at measurements [s].
        options: those of every :class:`Observer`.

    Raises:
        ParameterError: a parameter that cannot be.
        UnknownLinkError: the robot has no such link.
    """

    def __init__(
        self,
        robot: Robot,
        *,
        joint_velocity_deviation: Any = 5e-3,
        disturbance: Any = 1e-3,
        start_deviation: Any = 1.0,
        external_wrench: str | None = None,
        external_deviation: Any = (10.0, 10.0),
        external_walk: Any = (1e-3, 1e-3),
        gyro_link: str | None = None,
        gyro_deviation: float = 2e-3,
        gyro_bias_deviation: float = 2e-2,
        gyro_bias_walk: float = 1e-5,
        velocity_deviation: float = 2e-2,
        stamp_deviation: float = 2.5e-2,
        gate: float = 0.9999,
        patience: int = 5,
        covariance_period: float = 0.01,
        **options: Any,
    ) -> None:
        self.gyro_link = gyro_link
        if external_wrench is not None and external_wrench not in AXES:
            raise UnknownNameError("external_wrench", external_wrench, AXES)
        if gyro_link is not None:
            robot.link_frame(gyro_link)  # raises if there is none
        self.external_axes = external_wrench
        told = deviations("joint_velocity_deviation", joint_velocity_deviation, robot.n)
        self._velocity_noise_seen = VelocityNoise(told**2)
        super().__init__(robot, **options)
        self._covariance = Covariance(
            robot,
            self._shapes,
            self._motion,
            external_axes=external_wrench,
            has_bias=gyro_link is not None,
            joint_variance=told**2,
            disturbance=self.coordinates("disturbance", disturbance),
            bias_walk=positive("gyro_bias_walk", gyro_bias_walk) ** 2,
            external_walk=self._wrench_noise("external_walk", external_walk),
        )
        none, all_three = np.arange(0), np.arange(3)
        self._parts = {
            Kind.POSE: self._covariance.parts,
            Kind.GYRO: (none, all_three),
            Kind.VELOCITY: (all_three, none),
        }
        self._stamp_deviation = positive("stamp_deviation", stamp_deviation)
        self._period = positive("covariance_period", covariance_period)
        self._patience = positive("patience", patience)
        self._gate_pose, self._gate_reading = gates(gate, (robot.b, 3))
        self._start = self.coordinates("start_deviation", start_deviation)
        self._bias_start = positive("gyro_bias_deviation", gyro_bias_deviation) ** 2
        self._external_start = self._wrench_noise("external_deviation", external_deviation)
        self._gyro_noise = positive("gyro_deviation", gyro_deviation) ** 2 * np.eye(3)
        self._velocity_noise = positive("velocity_deviation", velocity_deviation) ** 2 * np.eye(3)

    def _entries(self) -> list[EntryPoint]:
        out = [*super()._entries(), *self._motion.entries, *Covariance.entries]
        return out if self.gyro_link is None else [*out, link_jacobian]

    def take_over(self, former: Observer) -> bool:
        """Go on from an observer of the same robot with other inertias; see Observer."""
        covariance = former.locked_velocity_covariance
        if covariance is None:
            return super().take_over(former)
        start, self._start = self._start, TAKEN_OVER * covariance
        is_done = super().take_over(former)
        self._start = start
        return is_done

    def _wrench_noise(self, name: str, deviation: Any) -> Array:
        """Covariance of a wrench in coordinates of the group, shape (b, b)."""
        return group_covariance(name, deviation, self.robot.base_group.iota.T)

    # -- inputs ---------------------------------------------------------------------------------

    def joints(self, stamp: float, q: ArrayLike, qd: ArrayLike) -> None:
        """A joint sample; see Observer."""
        super().joints(stamp, q, qd)
        if self._velocity_noise_seen.take(stamp, qd):
            self._covariance.set_joint_variance(self._velocity_noise_seen.variances)

    def gyro(self, stamp: float, w: Any, covariance: Any = None) -> None:
        """A gyroscope's reading.

        Args:
            stamp: [s].
            w: angular velocity of ``gyro_link`` along its axes, with the bias, shape (3,) [rad/s].
            covariance: of its noise, shape (3, 3); ``gyro_deviation`` if None or all zero.

        Raises:
            ParameterError: the filter was built without ``gyro_link``.
        """
        if self.gyro_link is None:
            raise ParameterError("gyro: the filter has none; build it with gyro_link=")
        noise = reading_noise(covariance, self._gyro_noise)
        self._add_reading(stamp, Kind.GYRO, Measurement(numbers("w", w, (3,)), noise))

    def velocity(
        self, stamp: float, v: ArrayLike, covariance: Any = None, axes: str = "body"
    ) -> None:
        """A linear velocity of the origin of {1}, as from a Doppler log or optical flow.

        Args:
            stamp: [s].
            v: shape (3,) [m/s].
            covariance: of its noise along the same axes, shape (3, 3); ``velocity_deviation`` if
                None or all zero.
            axes: ``body`` for components along the axes of {1}, ``world`` along the world's.
        """
        if axes not in AXES:
            raise UnknownNameError("axes", axes, AXES)
        noise = reading_noise(covariance, self._velocity_noise)
        self._add_reading(stamp, Kind.VELOCITY, Measurement(numbers("v", v, (3,)), noise, axes))

    def _add_reading(self, stamp: Any, kind: Kind, reading: Measurement) -> None:
        is_good = is_moderate(reading.value) and is_covariance(reading.covariance)
        self._add(stamp, kind, reading if is_good else None)

    # -- prediction -----------------------------------------------------------------------------

    def _predict(self, estimate: Estimate, shape: Shape, dt: float) -> tuple[Array, Array] | None:
        return self._motion.step(shape, estimate.wrenches, estimate.g, estimate.m, dt)

    def _follow(
        self, estimate: Estimate, t: float, left: Event | None, right: Event | None
    ) -> Estimate:
        if t - estimate.memory.t < self._period - ROUNDING:
            return estimate
        return self._propagate(estimate, t, self._shapes.between(left, right, t, self._now))

    def _propagate(self, estimate: Estimate, t: float, shape: Shape) -> Estimate:
        """The estimate with its covariance brought up to time t; not alive if that is none."""
        if t <= estimate.memory.t:
            return estimate
        P, is_possible = self._covariance.propagated(estimate, t, shape)
        out = self._with_belief(estimate, t, shape, P=P)
        return out if is_possible else self.lose(out)

    def _with_belief(self, estimate: Estimate, t: float, shape: Shape, **changes: Any) -> Estimate:
        """The estimate with a covariance that stands at time t, whose next step begins here."""
        g, m, xi, lift = estimate.g, estimate.m, shape.xi.copy(), shape.lift.copy()
        belief = estimate.memory._replace(t=t, g=g, m=m, xi=xi, lift=lift, **changes)
        return estimate._replace(memory=belief)

    def _load(self, estimate: Estimate, known: Array) -> Estimate:
        external = None if estimate.memory is None else estimate.memory.external
        return estimate._replace(known=known, wrenches=self._wrenches(known, external))

    def _wrenches(self, known: Array, external: Array | None) -> Array:
        """All wrenches on the base, along the axes of {1} and of the world, shape (2, 6)."""
        out = np.array((known, np.zeros(6)))
        if self.external_axes is not None and external is not None:
            out[AXES.index(self.external_axes)] += self._pinv.T @ external
        return out

    def at_joints(self, estimate: Estimate) -> Estimate:
        """The estimate at a joint sample, whose noise is none that a gyroscope knew of."""
        if estimate.memory is None or estimate.memory.trim is None:
            return estimate
        return estimate._replace(memory=estimate.memory._replace(trim=None))

    # -- beginning ------------------------------------------------------------------------------

    def _begin(self, estimate: Estimate, t: float, pose: Measurement, shape: Shape) -> Estimate:
        """Begin with a pose: m = M mu_0, P = diag(R, M s^2 M^T, ...)."""
        M = self._shapes.shift(shape) @ shape.M_b
        wide = 0 if estimate.memory is None else estimate.memory.wide
        bias, external = np.zeros(3), np.zeros(self.robot.b)
        belief = Belief.empty(bias, external, wide, NOTHING_SEEN)
        begun = self._begun(estimate, t, pose.value, self._pinv.T @ (M @ self._mu_0), belief)
        begun = begun._replace(wrenches=self._wrenches(estimate.known, external))
        return self._widened(begun, t, pose, shape)

    def _widened(self, estimate: Estimate, t: float, pose: Measurement, shape: Shape) -> Estimate:
        """The estimate at a pose with the covariance of a beginning."""
        layout, M = self._covariance, self._shapes.shift(shape) @ shape.M_b
        P = np.zeros((layout.size, layout.size))
        widening = WIDENING ** (2 * min(estimate.memory.wide, WIDEST))
        P[layout.eps, layout.eps] = pose.covariance
        P[layout.zeta, layout.zeta] = widening * (M @ self._start @ M.T)
        if layout.bias is not None:
            P[layout.bias, layout.bias] = self._bias_start * np.eye(3)
        if layout.external is not None:
            P[layout.external, layout.external] = self._external_start
        estimate = estimate._replace(g=pose.value, t_pose=t, nis=0.0)
        return self._with_belief(estimate, t, shape, P=P, misses=0, trim=None)

    # -- correction -----------------------------------------------------------------------------

    def _correct_with_pose(
        self, estimate: Estimate, t: float, pose: Measurement, shape: Shape
    ) -> tuple[Estimate, Verdict]:
        """Correct by a pose, or reject it; begin anew after too many rejections."""
        estimate = self._propagate(estimate, t, shape)
        if not estimate.alive:
            return estimate, Verdict.NOTHING
        H = np.eye(self.robot.b, self._covariance.size)
        e = self._pose_error(estimate.g, pose.value)
        gate, misses = self._gate_pose, estimate.memory.misses
        estimate, found = self._weigh(estimate, Kind.POSE, t, H, pose.covariance, e, gate, misses)
        belief, nis = estimate.memory, min(found.nis, LARGEST_NIS)
        if not nis <= self._gate_pose:
            belief = belief._replace(misses=belief.misses + 1)
            estimate = estimate._replace(nis=nis, memory=belief)
            if belief.misses < self._patience:
                return estimate, Verdict.REJECTED
            # when the frame of the poses jumps, the momentum does not: drop it only if that has
            # failed
            begin = self._widened if belief.wide == 0 else self._begin
            estimate = begin(estimate, t, pose, shape)
            belief = estimate.memory._replace(wide=belief.wide + 1, watch=RESTARTED)
            return estimate._replace(nis=nis, memory=belief), Verdict.STARTED
        estimate = self._inject(estimate, t, found, shape)
        belief = estimate.memory._replace(misses=0, wide=0)
        g = straightened(estimate.g)
        return estimate._replace(g=g, t_pose=t, nis=nis, memory=belief), Verdict.USED

    def _weigh(
        self,
        estimate: Estimate,
        kind: Kind,
        t: float,
        H: Array,
        R: Array,
        residual: Array,
        gate: float,
        misses: int,
    ) -> tuple[Estimate, Innovation]:
        """Weigh a measurement, with a wider covariance if good ones would be rejected.

        Args:
            estimate: at its time.
            kind: of measurement.
            t: its time [s].
            H: how it depends on the error state, shape (k, d).
            R: its noise, shape (k, k).
            residual: shape (k,).
            gate: the largest NIS that is no outlier's.
            misses: measurements of its kind that were rejected in a row before.

        Returns:
            The estimate that has watched, with the covariance that was used, and the innovation.
        """
        belief, layout = estimate.memory, self._covariance
        found, watch = innovation(belief.P, H, R, residual), belief.watch
        is_suspect = misses > 0 and watch.is_settled(kind)
        if is_suspect and gate < found.nis <= SUSPECT_GATES * gate:
            wider, factor = found, 1.0
            scale = np.ones(layout.size)
            while wider.nis > gate and factor < WIDEST_STEP:
                factor *= 4.0
                scale[: layout.zeta.stop] = np.sqrt(factor)
                P = belief.P * np.outer(scale, scale)
                wider = innovation(P, H, R, residual)
            if wider.nis <= gate:
                belief, found, watch = belief._replace(P=P), wider, watch.widened()
        if found.nis <= gate:
            before, watch = watch.widenings, watch.used(kind, t, found, self._parts[kind])
            linear, angular = (
                max(b - a, 0.0) for a, b in zip(before, watch.widenings, strict=True)
            )
            if linear or angular:  # what the momentum took up of it so far
                scale = np.ones(layout.size)
                scale[layout.zeta] = layout.widths((linear, angular))
                belief = belief._replace(P=belief.P * np.outer(scale, scale))
        else:
            watch = watch.missed(kind, t, found)
        return estimate._replace(memory=belief._replace(watch=watch)), found

    def _inject(self, estimate: Estimate, t: float, found: Innovation, shape: Shape) -> Estimate:
        """Move the estimate by a correction: g exp(d_eps), m turned back + d_zeta, and the rest.

        The covariance is written for the corrected momentum, which is known to turn with the pose:
        zeta becomes ``zeta - T_{d_zeta} eps``. Without this a gyroscope, which is blind to the
        attitude, would seem to measure it.
        """
        belief, layout = estimate.memory, self._covariance
        P, delta = corrected(belief.P, found)
        is_alive = is_possible(P)
        eps, zeta = delta[layout.eps], delta[layout.zeta]
        factor = se3.exp(self._iota @ eps)
        R = factor[:3, :3]
        T = layout.turning(self._pinv.T @ zeta)
        P[layout.zeta] -= T @ P[layout.eps]
        P[:, layout.zeta] -= P[:, layout.eps] @ T.T
        bias, external = belief.bias, belief.external
        if layout.bias is not None:
            bias = bias + delta[layout.bias]
        if layout.external is not None:
            external = external + delta[layout.external]
        turned = np.concatenate((R.T @ estimate.m[:3], R.T @ estimate.m[3:]))
        estimate = estimate._replace(
            alive=is_alive,
            g=estimate.g @ factor,
            m=turned + self._pinv.T @ zeta,
            wrenches=self._wrenches(estimate.known, external),
        )
        return self._with_belief(estimate, t, shape, P=P, bias=bias, external=external)

    def _correct_with_reading(
        self, estimate: Estimate, event: Event[Estimate], shape: Shape
    ) -> tuple[Estimate, Verdict]:
        """Correct by a reading of three numbers, and the twist for the joints' noise.

        A reading is ``J V + ...``, V = W m - A qd, so that the noise of the joints' velocities is
        in its residual too.
        """
        estimate = self._propagate(estimate, event.stamp, shape)
        if not estimate.alive:
            return estimate, Verdict.NOTHING
        expect = self._expect_gyro if event.kind is Kind.GYRO else self._expect_velocity
        H, through, residual, noise = expect(estimate, event.data, shape)
        layout = self._covariance
        R = noise + layout.joint_noise(through, through)
        gate, misses = self._gate_reading, estimate.memory.readings_missed
        estimate, found = self._weigh(
            estimate, event.kind, event.stamp, H, R, residual, gate, misses
        )
        if not found.nis <= gate:
            missed = estimate.memory._replace(readings_missed=misses + 1)
            return estimate._replace(memory=missed), Verdict.REJECTED
        trim = layout.joint_noise(shape.A, through) @ np.linalg.solve(found.S, residual)
        estimate = self._inject(estimate, event.stamp, found, shape)
        belief = estimate.memory._replace(trim=trim, readings_missed=0)
        return estimate._replace(memory=belief), Verdict.USED

    def _expect_gyro(
        self, estimate: Estimate, reading: Measurement, shape: Shape
    ) -> tuple[Array, Array, Array, Array]:
        """H, effect of the joints' noise (3, n), residual and noise of a gyroscope's reading."""
        b, layout, belief = self.robot.b, self._covariance, estimate.memory
        assert self.gyro_link is not None
        J = self.robot.link_jacobian(shape.q, self.gyro_link)[3:]
        V = self._pinv @ (shape.lift @ estimate.m - shape.xi)
        H = layout.velocity_row(J[:, :b], estimate, shape)
        H[:, layout.bias] = np.eye(3)
        residual = reading.value - belief.bias - J[:, :b] @ V - J[:, b:] @ shape.qd
        return H, J[:, :b] @ shape.A - J[:, b:], residual, reading.covariance

    def _expect_velocity(
        self, estimate: Estimate, reading: Measurement, shape: Shape
    ) -> tuple[Array, Array, Array, Array]:
        """The same of a linear velocity of {1}'s origin, all in {1}."""
        iota, layout = self._iota, self._covariance
        v = (shape.lift @ estimate.m - shape.xi)[:3]
        H = layout.velocity_row(iota[:3], estimate, shape)
        value, noise = reading.value, reading.covariance
        if reading.axes == "world":  # R exp(eps) v = R (v + eps_w x v)
            R = estimate.g[:3, :3]
            value, noise = R.T @ value, R.T @ noise @ R
            H[:, layout.eps] -= hat3(v) @ iota[3:]
        return H, iota[:3] @ shape.A, value - v, noise

    # -- estimates ------------------------------------------------------------------------------

    def _locked_velocity(self, estimate: Estimate, shape: Shape) -> Array:
        return self._pinv @ (shape.lift @ estimate.m)

    @property
    def twist(self) -> Array:
        """Velocity V of the base in {1}, shape (b,), with what a gyroscope says of it."""
        newest, V = self._newest(), super().twist
        return V if newest is None or newest[0].memory.trim is None else V + newest[0].memory.trim

    @property
    def covariance(self) -> Array | None:
        """Covariance of (pose error, twist error), shape (2b, 2b), or None while waiting.

        The pose error is ``Log(g^-1 g_t)``, the twist error ``V_t - V``, both in coordinates of
        the base group; the noise of the last joint sample is part of the latter. It is wider than
        the filter's own by what stamps may be off, and while measurements contradict the model.
        """
        newest = self._newest()
        if newest is None:
            return None
        out = newest[0].memory.watch.distrust * self._covariance.of_twist(*newest)
        travel = self._stamp_deviation * self.twist
        out[: self.robot.b, : self.robot.b] += np.outer(travel, travel)
        return out

    @property
    def locked_velocity_covariance(self) -> Array | None:
        """Covariance of the locked velocity, shape (b, b), or None while waiting.

        It is wider than the filter's own while measurements contradict the model.
        """
        newest = self._newest()
        if newest is None:
            return None
        estimate, shape = newest
        J = self._covariance.velocity_row(np.eye(self.robot.b), estimate, shape)
        belief = estimate.memory
        return belief.watch.distrust * (J @ belief.P @ J.T)

    @property
    def error_covariance(self) -> Array | None:
        """Covariance of the filter's own (eps, zeta, bias, external wrench), or None."""
        newest = self._newest()
        return None if newest is None else newest[0].memory.P.copy()

    @property
    def windowed_nis(self) -> float:
        """Mean NIS of late by degrees of freedom; one is right, zero while waiting."""
        newest = self._newest()
        return 0.0 if newest is None else newest[0].memory.watch.nis

    @property
    def disturbance_factor(self) -> float:
        """How many times as strong as told the disturbance is taken to be, one at least."""
        newest = self._newest()
        return 1.0 if newest is None else math.sqrt(newest[0].memory.watch.factor)

    def _doubts(self, estimate: Estimate) -> str:
        belief, found = estimate.memory, []
        if noise := self._velocity_noise_seen.doubts(self.robot.joint_names):
            found.append(noise)
        if doubts := belief.watch.doubts:
            found.append(doubts)
        if belief.misses >= SUSPECT_MISSES:
            found.append(f"the last {belief.misses} poses were rejected")
        if belief.readings_missed >= SUSPECT_MISSES:
            found.append(f"the last {belief.readings_missed} readings were rejected")
        return "; ".join(found)

    @property
    def gyro_bias(self) -> Array:
        """Estimated bias of the gyroscope, along the axes of its link, shape (3,) [rad/s]."""
        newest = self._newest()
        return np.zeros(3) if newest is None else newest[0].memory.bias.copy()

    @property
    def external_wrench(self) -> Array:
        """Estimated wrench on {1}, along the axes asked for, shape (b,) [N, N m]."""
        newest = self._newest()
        return np.zeros(self.robot.b) if newest is None else newest[0].memory.external.copy()
