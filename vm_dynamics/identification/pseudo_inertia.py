# SPDX-License-Identifier: Apache-2.0
"""Ten coordinates of a rigid body in which every value is a body that can exist.

Implements: [Rucker2022], the log-Cholesky parametrization of the pseudo-inertia
``J = [[Sigma, m c], [m c^T, m]]`` of the second moments Sigma of mass about the frame's origin,
mass m and centre c. J is positive definite if and only if some distribution of mass has it; so

    J = m [[S S^T + c c^T, c], [c^T, 1]],   S upper triangular with a positive diagonal

with the coordinates ``ln(m) / 2``, c, the logarithms of S's diagonal, and S_xy S_xz S_yz [m]. The
centre of mass is a coordinate by itself, as measurements see it.
"""

from __future__ import annotations

import numpy as np

from vm_dynamics.lie.se3 import Array
from vm_dynamics.model.inertia import Inertia

SIZE = 10
NAMES = (
    "mass",
    *(f"centre of mass {axis}" for axis in "xyz"),
    *(f"inertia {axes}" for axes in ("xx", "xy", "xz", "yy", "yz", "zz")),
)
_ROWS, _COLUMNS = (
    np.array([3, 0, 1, 2, 0, 0, 0, 1, 1, 2]),
    np.array([3, 3, 3, 3, 0, 1, 2, 1, 2, 2]),
)
_DIFFERENCE = 1e-6  # of central differences of smooth functions: ten digits


def pseudo_inertia(theta: Array) -> Array:
    """Pseudo-inertias of coordinates, shape (..., 10) to (..., 4, 4)."""
    S = np.zeros((*theta.shape[:-1], 4, 4))
    S[..., (0, 1, 2), (0, 1, 2)] = np.exp(theta[..., 4:7])
    S[..., (0, 0, 1), (1, 2, 2)] = theta[..., 7:]
    S[..., :3, 3] = theta[..., 1:4]
    S[..., 3, 3] = 1.0
    return np.exp(2.0 * theta[..., 0, None, None]) * (S @ S.swapaxes(-1, -2))


def coordinates(J: Array) -> Array:
    """Coordinates of a pseudo-inertia, shape (4, 4) to (10,)."""
    m, c = J[3, 3], J[:3, 3] / J[3, 3]
    # upper triangular: Cholesky of the matrix turned about its antidiagonal
    S = np.linalg.cholesky((J[:3, :3] / m - np.outer(c, c))[::-1, ::-1])[::-1, ::-1]
    log_diagonal = np.log(np.diag(S))
    return np.array([0.5 * np.log(m), *c, *log_diagonal, S[0, 1], S[0, 2], S[1, 2]])


def of_inertia(body: Inertia) -> Array:
    """Pseudo-inertia of a body, in the body's own frame, shape (4, 4)."""
    c = np.array(body.com)
    second = 0.5 * np.trace(body.tensor) * np.eye(3) - body.tensor
    J = np.empty((4, 4))
    J[:3, :3] = second + body.mass * np.outer(c, c)
    J[:3, 3] = J[3, :3] = body.mass * c
    J[3, 3] = body.mass
    return J


def ten_numbers(J: Array) -> Array:
    """Mass, centre and xx xy xz yy yz zz about it of pseudo-inertias, (..., 4, 4) to (..., 10)."""
    m = J[..., 3, 3]
    c = J[..., :3, 3] / m[..., None]
    second = J[..., :3, :3] - m[..., None, None] * c[..., :, None] * c[..., None, :]
    xx, yy, zz = (second[..., i, i] for i in range(3))
    xy, xz, yz = second[..., 0, 1], second[..., 0, 2], second[..., 1, 2]
    moments = (yy + zz, -xy, -xz, xx + zz, -yz, xx + yy)
    return np.stack((m, *np.moveaxis(c, -1, 0), *moments), axis=-1)


def entries(J: Array) -> Array:
    """The ten entries of pseudo-inertias, in which forces are linear, (..., 4, 4) to (..., 10)."""
    return J[..., _ROWS, _COLUMNS]


def of_entries(numbers: Array) -> Array:
    """Pseudo-inertias with such entries, (..., 10) to (..., 4, 4)."""
    J = np.empty((*numbers.shape[:-1], 4, 4))
    J[..., _ROWS, _COLUMNS] = numbers
    J[..., _COLUMNS, _ROWS] = numbers
    return J


def slope_of_numbers(theta: Array) -> Array:
    """Derivative of :func:`ten_numbers` by the coordinates, shape (10, 10)."""
    nudges = _DIFFERENCE * np.eye(SIZE)
    ahead = ten_numbers(pseudo_inertia(theta + nudges))
    behind = ten_numbers(pseudo_inertia(theta - nudges))
    return (ahead - behind).T / (2.0 * _DIFFERENCE)
