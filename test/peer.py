# SPDX-License-Identifier: Apache-2.0
"""Pinocchio behind the conventions of the package: joints by name, base group by iota."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
from urdf_text import from_root


class Peer:
    """The same robot in Pinocchio, on SE(3); ``robot`` says which joints and base group.

    Velocities are [V (b); qd (n)]; ``E`` includes them in Pinocchio's velocity vector, where
    mimic joints move by themselves.
    """

    def __init__(self, robot, urdf, *, gravity=(0.0, 0.0, 0.0)):
        text = Path(urdf).read_text() if Path(str(urdf)[:200]).suffix == ".urdf" else urdf
        text = from_root(text, robot.root_link)
        self.model = pin.buildModelFromXML(text, pin.JointModelFreeFlyer())
        self.model.gravity.linear = np.array(gravity, dtype=float)
        self.data = self.model.createData()
        self.robot = robot
        index = {name: i for i, name in enumerate(robot.joint_names)}
        self.E = np.zeros((self.model.nv, robot.b + robot.n))
        self.E[:6, : robot.b] = robot.base_group.iota
        # Pinocchio moves followers freely here; the map to them is ours to make
        self.joints = []
        for joint in robot.description.joints:
            if joint.kind == "fixed":
                continue
            drive = joint.drive
            i = index[drive.driver]
            there = self.model.joints[self.model.getJointId(joint.name)]
            self.joints.append((there, i, drive.multiplier, drive.offset))
            self.E[there.idx_v, robot.b + i] = drive.multiplier

    def q(self, q, g=None):
        out = pin.neutral(self.model)
        if g is not None:
            out[:7] = pin.SE3ToXYZQUAT(pin.SE3(g))
        for joint, i, scale, offset in self.joints:
            x = scale * q[i] + offset
            if joint.nq == 2:
                out[joint.idx_q : joint.idx_q + 2] = np.cos(x), np.sin(x)
            else:
                out[joint.idx_q] = x
        return out

    def mass_matrix(self, q):
        upper = np.triu(pin.crba(self.model, self.data, self.q(q)))
        return self.E.T @ (upper + np.triu(upper, 1).T) @ self.E

    def bias(self, q, v, g=None):
        """Coriolis, centrifugal and gravity forces at the velocity v = [V; qd]."""
        rest = np.zeros(self.model.nv)
        return self.E.T @ pin.rnea(self.model, self.data, self.q(q, g), self.E @ v, rest)

    def forward_dynamics(self, q, v, forces, g=None):
        return np.linalg.solve(self.mass_matrix(q), forces - self.bias(q, v, g))

    def link_pose(self, q, link):
        pin.framesForwardKinematics(self.model, self.data, self.q(q))
        return self.data.oMf[self.model.getFrameId(link, pin.FrameType.BODY)].homogeneous

    def link_jacobian(self, q, link):
        frame = self.model.getFrameId(link, pin.FrameType.BODY)
        pin.computeJointJacobians(self.model, self.data, self.q(q))
        pin.updateFramePlacements(self.model, self.data)
        return pin.getFrameJacobian(self.model, self.data, frame, pin.LOCAL) @ self.E

    def momentum(self, q, v):
        """Momentum about the origin of {1}, in its axes, in group coordinates."""
        centroidal = pin.computeCentroidalMomentum(self.model, self.data, self.q(q), self.E @ v)
        linear = centroidal.linear
        angular = centroidal.angular + np.cross(self.data.com[0], linear)
        return self.robot.base_group.iota.T @ np.concatenate((linear, angular))

    def center_of_mass(self, q):
        return pin.centerOfMass(self.model, self.data, self.q(q)).copy()
