# SPDX-License-Identifier: Apache-2.0
"""Which link a force on the shape can come from, and by which wrench.

A wrench W on a link makes the residual ``r = (J_q - J_b A)^T W``. Somebody who pushes a link does
so with a force, of any size and direction, at a point of the link: before the residual is seen, W
is normal with a deviation s of the force, and of the moment about the link's middle s times the
lever that points of the link have. So the residual says how likely each link is, and W is what is
known of it then: what the joints cannot feel stays zero, with a covariance that says so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vm_dynamics.lie.se3 import Array, adjoint, hat3, inverse
from vm_dynamics.robot import Robot

FORCES = np.geomspace(0.1, 1e3, 17)  # [N], the sizes s that are tried, each as likely
SMALLEST_REACH = 0.05  # [m], of a link from its middle, along each axis
LEVER = 1.0 / np.sqrt(3.0)  # of that reach: deviation of a point that is anywhere within
# Of a residual: what the motion of the arm under a push makes of it within the filter's memory.
RESIDUAL_SHARE = 0.05
ALIKE = np.log(100.0)  # a link that is so much less likely than the best can be told apart


class Fit(NamedTuple):
    """What a residual says of who was pushed.

    Attributes:
        links: those that cannot be told apart, the likeliest first.
        wrench: on the likeliest, [f; t] in its frame, at its origin, shape (6,).
        covariance: of the wrench, shape (6, 6).
    """

    links: tuple[str, ...]
    wrench: Array
    covariance: Array


class PushedLinks:
    """The moving bodies of a robot and its base, each by the link whose frame it has."""

    def __init__(self, robot: Robot) -> None:
        """Measure the links."""
        self._robot = robot
        self.names = (robot.root_link, *(body.joint.child for body in robot.tree.bodies))
        # from (force, moment about the middle), in units of s, to the wrench at the link's origin
        self._spread = np.array([_spread(robot, k, name) for k, name in enumerate(self.names)])

    def fit(self, q: Array, A: Array, residual: Array, covariance: Array) -> Fit:
        """The links and the wrench of a residual.

        Args:
            q: shape (n,).
            A: connection, shape (b, n).
            residual: shape (n,).
            covariance: of its noise, shape (n, n).
        """
        robot, b = self._robot, self._robot.b
        J = np.array([robot.link_jacobian(q, name) for name in self.names])
        felt = J[:, :, b:] - J[:, :, :b] @ A
        noise = covariance + np.diag((RESIDUAL_SHARE * residual) ** 2)
        factor = np.linalg.cholesky(noise)
        effect = np.swapaxes(felt, 1, 2) @ self._spread  # of a unit push, shape (links, n, 6)
        white, y = np.linalg.solve(factor, effect), np.linalg.solve(factor, residual)
        U, size, Vt = np.linalg.svd(white, full_matrices=False)
        seen = np.swapaxes(U, 1, 2) @ y  # (links, m)
        gain = np.square(size)[:, None] * np.square(FORCES)[:, None]  # (links, sizes, m)
        kept = gain / (1.0 + gain)  # of what is seen: the rest may be noise
        explained = (np.square(seen)[:, None] * kept).sum(axis=2)
        likelihood = 0.5 * (explained - y @ y - np.log1p(gain).sum(axis=2))
        best = likelihood.max(axis=1)
        weights = np.exp(likelihood - best[:, None])
        evidence = best + np.log(weights.mean(axis=1))
        order = np.argsort(-evidence)
        k = int(order[0])
        alike = [int(i) for i in order if evidence[i] >= evidence[k] - ALIKE]
        chance = np.exp(evidence[alike] - evidence[k])
        chance /= chance.sum()
        pushes = [self._wrench(i, weights[i], kept[i], size[i], seen[i], Vt[i]) for i in alike]
        wrench, left = pushes[0]
        # what the links that are alike do not agree on is not known
        pose = inverse(robot.link_pose(q, self.names[k]))
        for i, part, (other, _) in zip(alike[1:], chance[1:], pushes[1:], strict=True):
            there = adjoint(inverse(pose @ robot.link_pose(q, self.names[i])))
            off = there.T @ other - wrench
            left = left + part * np.outer(off, off)
        return Fit(tuple(self.names[i] for i in alike), wrench, left)

    def _wrench(
        self, link: int, weights: Array, kept: Array, size: Array, seen: Array, Vt: Array
    ) -> tuple[Array, Array]:
        """Wrench on a link and its covariance, all sizes of a push considered."""
        weight, s2, spread = weights / weights.sum(), np.square(FORCES), self._spread[link]
        share = np.divide(weight @ kept, size, out=np.zeros_like(size), where=size > 0.0)
        known = (Vt.T * (weight @ (s2[:, None] * kept))) @ Vt
        left = (weight @ s2) * np.eye(6) - known
        return spread @ (Vt.T @ (share * seen)), spread @ left @ spread.T


def _spread(robot: Robot, body: int, name: str) -> Array:
    """What a push of a link spreads over, shape (6, 6)."""
    to_link = inverse(robot.link_frame(name).pose)
    com = to_link[:3, :3] @ np.array(robot.tree.inertias[body].com) + to_link[:3, 3]
    children = [b.placement for b in robot.tree.bodies if b.parent == body]
    fixed = [frame.pose for frame in robot.tree.frames.values() if frame.body == body]
    points = [np.zeros(3), com, *((to_link @ pose)[:3, 3] for pose in (*children, *fixed))]
    if not children and body > 0:
        points.append(2.0 * com)  # the end of the arm, as far behind the middle as the joint
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    middle = 0.5 * (low + high)
    x, y, z = LEVER * np.maximum(high - middle, SMALLEST_REACH)
    out = np.eye(6)
    out[3:, :3] = hat3(middle)
    out[3:, 3:] = np.diag(np.hypot((y, z, x), (z, x, y)))
    return out
