# SPDX-License-Identifier: Apache-2.0
"""SE(3) in the conventions of the package: poses (4, 4), twists [v; w], wrenches [f; t].

Implements: [Mishra2022] eqs. (60)-(61), there in the order [w; v]; dexp and its inverse as
polynomials in ad.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vm_dynamics.lie import kernels

Array = NDArray[np.floating[Any]]


def hat3(x: Array) -> Array:
    """Skew matrix x^ of a 3-vector, so that ``hat3(x) @ y = x cross y``; shape (3, 3)."""
    return np.array([[0.0, -x[2], x[1]], [x[2], 0.0, -x[0]], [-x[1], x[0], 0.0]])


def hat(twist: Array) -> Array:
    """Matrix of a twist in the Lie algebra; shape (4, 4)."""
    out = np.zeros((4, 4))
    out[:3, :3] = hat3(twist[3:])
    out[:3, 3] = twist[:3]
    return out


def vee(matrix: Array) -> Array:
    """Twist [v; w] of an element of the Lie algebra, shape (4, 4)."""
    return np.array(
        [
            matrix[0, 3],
            matrix[1, 3],
            matrix[2, 3],
            matrix[2, 1],
            matrix[0, 2],
            matrix[1, 0],
        ]
    )


def exp(twist: Array) -> Array:
    """Pose reached by moving with a constant body twist [v; w] for unit time; shape (4, 4)."""
    out = np.empty((4, 4))
    kernels.exp.checked(np.ascontiguousarray(twist, dtype=float), out)
    return out


def log(pose: Array) -> Array:
    """Twist [v; w] whose exponential is the pose, with an angle of at most pi; shape (6,)."""
    out = np.empty(6)
    kernels.log.checked(np.ascontiguousarray(pose, dtype=float), out)
    return out


def quaternion(pose: Array) -> tuple[float, float, float, float]:
    """Unit quaternion xyzw of a pose or rotation, shape (4, 4) or (3, 3), with w >= 0."""
    x, y, z, w = kernels.unit_quaternion.checked(np.ascontiguousarray(pose, dtype=float))
    return x, y, z, w


def inverse(pose: Array) -> Array:
    """Inverse pose: g_ji of g_ij; shape (4, 4)."""
    out = np.eye(4)
    out[:3, :3] = pose[:3, :3].T
    out[:3, 3] = -pose[:3, :3].T @ pose[:3, 3]
    return out


def adjoint(pose: Array) -> Array:
    """Ad of g_ij: maps twists of frame j to twists of frame i; shape (6, 6).

    .. math:: Ad_g = [[R, p^ R], [0, R]]
    """
    out = np.zeros((6, 6))
    rotation = pose[:3, :3]
    out[:3, :3] = out[3:, 3:] = rotation
    out[:3, 3:] = hat3(pose[:3, 3]) @ rotation
    return out


def ad(twist: Array) -> Array:
    """Bracket matrix, ``ad(x) @ y = [x, y]``; shape (6, 6).

    .. math:: ad_V = [[w^, v^], [0, w^]]
    """
    out = np.zeros((6, 6))
    out[:3, :3] = out[3:, 3:] = hat3(twist[3:])
    out[:3, 3:] = hat3(twist[:3])
    return out


def ad_tilde(momentum: Array) -> Array:
    """Skew matrix, shape (6, 6), that exchanges a twist and a momentum h = [hv; hw].

    .. math:: ad_V^T h = ad~_h V, ad~_h = [[0, hv^], [hv^, hw^]]
    """
    out = np.zeros((6, 6))
    out[:3, 3:] = out[3:, :3] = hat3(momentum[:3])
    out[3:, 3:] = hat3(momentum[3:])
    return out


def dexp(twist: Array) -> Array:
    """Derivative of exp, spatial: d exp(x) = hat(dexp(x) dx) exp(x); shape (6, 6).

    The body form is ``dexp(-x)``: d exp(x) = exp(x) hat(dexp(-x) dx).
    """
    return dexp_of_ad(ad(twist), float(twist[3:] @ twist[3:]))


def dexp_inv(twist: Array) -> Array:
    """Inverse of :func:`dexp`; ``dexp_inv(-x)`` is H(x) of [Mishra2022] (39); shape (6, 6)."""
    return dexp_inv_of_ad(ad(twist), float(twist[3:] @ twist[3:]))


def dexp_of_ad(bracket: Array, theta2: float) -> Array:
    """Dexp as a quartic in ad, for SE(3) and in the coordinates of any of its subgroups.

    Args:
        bracket: the matrix of ad, shape (b, b).
        theta2: squared norm of the angular part of the twist [rad^2].
    """
    a1, a2, a3, a4 = kernels.dexp_polynomial.checked(theta2)
    out = a3 * bracket + a4 * bracket @ bracket
    out = bracket @ (a1 * np.eye(len(bracket)) + bracket @ (a2 * np.eye(len(bracket)) + out))
    return np.eye(len(bracket)) + out


def dexp_inv_of_ad(bracket: Array, theta2: float) -> Array:
    """Inverse of :func:`dexp_of_ad`, singular at rotations by multiples of 2 pi."""
    c2, c4 = kernels.dexp_inv_polynomial.checked(theta2)
    squared = bracket @ bracket
    return np.eye(len(bracket)) - 0.5 * bracket + c2 * squared + c4 * squared @ squared
