# SPDX-License-Identifier: Apache-2.0
"""Left-invariant extended Kalman filter on the pose of the base and the momentum of the robot.

Implements: row 1 of [Mishra2022] eq. (18) as ``dh/dt = ad_V^T h + F``, h = M_b mu, which needs
neither P nor S and keeps the momentum exactly. Inside, its moments are about the centre of mass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vm_dynamics.errors import ParameterError, UnknownNameError
from vm_dynamics.estimation import _kernels
from vm_dynamics.estimation import _layout as at
from vm_dynamics.estimation.observer import Observer, numbers, pair, positive
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot

AXES = ("body", "world")


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
        gate: probability with which a good measurement passes the test for outliers.
        patience: poses rejected in a row after which the estimate begins anew.
        covariance_period: how often the covariance is propagated, besides at measurements [s].
        options: those of every :class:`Observer`.

    Raises:
        ParameterError: a parameter that cannot be.
        UnknownLinkError: the robot has no such link.
    """

    _method = at.EKF

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
        gate: float = 0.9999,
        patience: int = 5,
        covariance_period: float = 0.01,
        **options: Any,
    ) -> None:
        super().__init__(robot, **options)
        tune, b = self._tune, robot.b
        tune[at.COV_PERIOD] = positive("covariance_period", covariance_period)
        tune[at.PATIENCE] = positive("patience", patience)
        tune[[at.GATE_POSE, at.GATE_READING]] = _gates(gate, (b, 3))
        tune[at.QD_VARIANCE : at.QD_VARIANCE + robot.n] = _variances(
            joint_velocity_deviation, robot.n
        )
        self._put(at.Q_MU, self.coordinates("disturbance", disturbance))
        self._put(at.START_MU, self.coordinates("start_deviation", start_deviation))
        d = 2 * b
        self.gyro_link = gyro_link
        if gyro_link is not None:
            frame = robot.link_frame(gyro_link)
            tune[at.GYRO_BODY] = frame.body
            self._put(at.GYRO_ROTATION, np.ascontiguousarray(frame.pose[:3, :3]))
            tune[at.BIAS_START] = positive("gyro_bias_deviation", gyro_bias_deviation) ** 2
            tune[at.BIAS_WALK] = positive("gyro_bias_walk", gyro_bias_walk) ** 2
            tune[at.BIAS_AT] = d
            d += 3
        self.external_axes = external_wrench
        if external_wrench is not None:
            if external_wrench not in AXES:
                raise UnknownNameError("external_wrench", external_wrench, AXES)
            start = self._wrench_noise("external_deviation", external_deviation)
            self._put(at.EXTERNAL_START, start)
            self._put(at.EXTERNAL_WALK, self._wrench_noise("external_walk", external_walk))
            tune[at.EXTERNAL_WORLD] = external_wrench == "world"
            tune[at.TURNING] = tune[at.TURNING] or external_wrench == "world"
            tune[at.EXTERNAL_AT] = d
            d += b
        self._gyro_noise = positive("gyro_deviation", gyro_deviation) ** 2 * np.eye(3)
        self._velocity_noise = positive("velocity_deviation", velocity_deviation) ** 2 * np.eye(3)
        tune[at.D] = d
        self._ready(d * d + at.ANCHOR)

    def _wrench_noise(self, name: str, deviation: Any) -> Array:
        """Covariance of a wrench in coordinates of the group, shape (b, b)."""
        linear, angular = pair(name, deviation)
        iota = self.robot.base_group.iota
        return (iota.T * np.repeat((linear**2, angular**2), 3)) @ iota

    # -- inputs ---------------------------------------------------------------------------------

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
        noise = _reading_noise(covariance, self._gyro_noise)
        self._take(at.GYRO, stamp, numbers("w", w, (3,)), noise)

    def velocity(self, stamp: float, v: Any, covariance: Any = None, axes: str = "body") -> None:
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
        value = np.append(numbers("v", v, (3,)), float(axes == "world"))
        self._take(at.VELOCITY, stamp, value, _reading_noise(covariance, self._velocity_noise))

    # -- estimates ------------------------------------------------------------------------------

    @property
    def covariance(self) -> Array | None:
        """Covariance of (pose error, twist error), shape (2b, 2b), or None while waiting.

        The pose error is ``Log(g^-1 g_t)``, the twist error ``V_t - V``, both in coordinates of
        the base group; the noise of the last joint sample is part of the latter.
        """
        return self._covariances()[1]

    @property
    def error_covariance(self) -> Array | None:
        """Covariance of the filter's own (eps, zeta, bias, external wrench), or None."""
        return self._covariances()[0]

    def _covariances(self) -> tuple[Array | None, Array | None]:
        d, b = int(self._tune[at.D]), self.robot.b
        inner, outer = np.empty((d, d)), np.empty((2 * b, 2 * b))
        _kernels.read_covariance.run(*self._book, inner, outer)
        return (inner, outer) if inner[0, 0] > 0.0 else (None, None)

    @property
    def gyro_bias(self) -> Array:
        """Estimated bias of the gyroscope, along the axes of its link, shape (3,) [rad/s]."""
        return self._read()[5, :3].copy()

    @property
    def external_wrench(self) -> Array:
        """Estimated wrench on {1}, along the axes asked for, shape (b,) [N, N m]."""
        return self._read()[6, : self.robot.b].copy()


def _gates(probability: float, freedoms: tuple[int, ...]) -> tuple[float, ...]:
    """Quantiles of the chi-square distributions."""
    from scipy.special import chdtri  # not at import, which it would slow down

    chance = 1.0 - positive("gate", probability)
    if chance <= 0.0:
        raise ParameterError(f"gate: got {probability!r}, expected a probability below 1")
    return tuple(float(chdtri(f, chance)) for f in freedoms)


def _variances(deviation: Any, n: int) -> Array:
    out = np.array(deviation, dtype=float)
    if out.shape not in ((), (n,)) or not (np.isfinite(out).all() and (out > 0.0).all()):
        raise ParameterError(
            f"joint_velocity_deviation: got {deviation!r}, expected a number above 0, or {n} such"
        )
    return np.broadcast_to(out**2, (n,))


def _reading_noise(covariance: Any, default: Array) -> Array:
    if covariance is None:
        return default
    value = numbers("covariance", covariance, (3, 3))
    return value if value.any() else default
