# SPDX-License-Identifier: Apache-2.0
"""The same quantities from Pinocchio and NumPy, written as a careful user would.

Pinocchio knows the mass matrix M and a Coriolis matrix C of the floating-base robot, in frame {1}
and the order [v; w] as here. What it does not know is made from them: the connection by a solve,
the reduced matrices by the transformation of [Mishra2022] Lemma 2, the curvature by central
differences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pinocchio as pin

Array = np.ndarray
STEP = 1e-5  # of the central differences [rad]


class LemmaTwo(NamedTuple):
    """Matrices of [Mishra2022] eq. (8), with A, its rate and P = dM_b/dt.

    Gamma is not split into its parts in qd and in mu, S and B are missing: less than ours.
    """

    M_b: Array
    Lambda_q: Array
    A: Array
    A_dot: Array
    P: Array
    Gamma: Array


class Peer:
    """A robot of Pinocchio with a floating base, asked at the identity pose of the base.

    Attributes:
        model: Pinocchio's model.
        data: its workspace.
    """

    def __init__(self, urdf: str) -> None:
        """Read URDF text."""
        self.model = pin.buildModelFromXML(urdf, pin.JointModelFreeFlyer())
        self.model.gravity.linear = np.zeros(3)
        self.data = self.model.createData()
        self._move, self._drift = np.eye(6), np.zeros((6, 6))

    def connection(self, q: Array) -> Array:
        """A = M_b^-1 M_bq at Pinocchio's q, shape (6, n)."""
        M = pin.crba(self.model, self.data, q)
        return np.linalg.solve(M[:6, :6], M[:6, 6:])

    def reduced(self, q: Array, qd: Array, mu: Array) -> LemmaTwo:
        """Lemma 2, with the rates of the base rows of M from ``dccrba``."""
        M = pin.crba(self.model, self.data, q)
        inverse = np.linalg.inv(M[:6, :6])
        A = inverse @ M[:6, 6:]
        v = np.concatenate((mu - A @ qd, qd))
        C = pin.computeCoriolisMatrix(self.model, self.data, q, v)
        return lemma_two(M, C, self._base_rate(M, q, v), inverse, A)

    def reduced_lean(self, q: Array, qd: Array, mu: Array) -> LemmaTwo:
        """Lemma 2, with the rates of the base rows from ``dM/dt = C + C^T``."""
        M = pin.crba(self.model, self.data, q)
        inverse = np.linalg.inv(M[:6, :6])
        A = inverse @ M[:6, 6:]
        v = np.concatenate((mu - A @ qd, qd))
        C = pin.computeCoriolisMatrix(self.model, self.data, q, v)
        return lemma_two(M, C, C[:6] + C[:, :6].T, inverse, A)

    def curvature(self, q: Array) -> Array:
        """DA(e_i) e_j = dA_j/dq_i - dA_i/dq_j - [A_i, A_j] by central differences, (6, n, n)."""
        model, data, crba = self.model, self.data, pin.crba
        n = model.nv - 6
        rows = np.empty((2 * n, 6, 6 + n))
        moved = q.copy()
        for i in range(n):
            moved[7 + i] = q[7 + i] + STEP
            rows[i] = crba(model, data, moved)[:6]
            moved[7 + i] = q[7 + i] - STEP
            rows[n + i] = crba(model, data, moved)[:6]
            moved[7 + i] = q[7 + i]
        A = np.linalg.solve(rows[:, :, :6], rows[:, :, 6:])
        slope = ((A[:n] - A[n:]) / (2 * STEP)).transpose(1, 0, 2)  # [:, i, j]: dA_j/dq_i
        return slope - slope.transpose(0, 2, 1) - brackets(self.connection(q))

    def _base_rate(self, M: Array, q: Array, v: Array) -> Array:
        """Rate of the base rows of M, which are the centroidal ones moved to the origin of {1}.

        In the world, whose axes the base has now: ``X = [[1, 0], [r^, 1]]`` with the centre of
        mass at r, and the axes of {1} turn with w.
        """
        rate = pin.dccrba(self.model, self.data, q, v)
        X, drift = self._move, self._drift
        X[3:, :3] = pin.skew(self.data.com[0])
        drift[:3, :3] = drift[3:, 3:] = pin.skew(-v[3:6])
        drift[3:, :3] = pin.skew(self.data.hg.linear / M[0, 0] - v[:3])
        return X @ rate + drift @ M[:6]


def lemma_two(M: Array, C: Array, rate: Array, inverse: Array, A: Array) -> LemmaTwo:
    """Lambda = L^T M L and Gamma = L^T (M dL/dt + C L) by blocks, L = [[1, -A], [0, 1]].

    Only the upper right block of L^T M dL/dt, -M_b dA/dt, is not zero. C is overwritten.
    """
    M_b, M_bq = M[:6, :6], M[:6, 6:]
    A_dot = inverse @ (rate[:, 6:] - rate[:, :6] @ A)
    C[:, 6:] -= C[:, :6] @ A
    C[6:] -= A.T @ C[:6]
    C[:6, 6:] -= M_b @ A_dot
    return LemmaTwo(M_b, M[6:, 6:] - A.T @ M_bq, A, A_dot, rate[:, :6], C)


def brackets(A: Array) -> Array:
    """[A_i, A_j] of all columns, twists [v; w], shape (6, n, n)."""
    ad = np.zeros((6, 6, A.shape[1]))
    for block, (x, y, z) in (((0, 0), A[3:]), ((0, 3), A[:3]), ((3, 3), A[3:])):
        r, c = block
        ad[r, c + 1], ad[r, c + 2], ad[r + 1, c + 2] = -z, y, -x
        ad[r + 1, c], ad[r + 2, c], ad[r + 2, c + 1] = z, -y, x
    return ad.transpose(0, 2, 1) @ A


def pinocchio_q(q: Array) -> Array:
    """Pinocchio's configuration: base at the origin, quaternion xyzw, joints."""
    return np.concatenate((np.zeros(6), [1.0], q))
