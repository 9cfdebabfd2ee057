# SPDX-License-Identifier: Apache-2.0
"""MuJoCo behind the conventions of the package: base free on SE(3), joints by name."""

from __future__ import annotations

from xml.etree import ElementTree

import mujoco
import numpy as np
from urdf_text import from_root


class MujocoPeer:
    """The same robot in MuJoCo, from the same URDF text, without contacts, friction or limits.

    Mimic joints move freely there. ``E`` maps [V; qd] to MuJoCo's velocities but for the turn of
    the linear ones; with mimic joints the equations of ``mj_forward`` are projected by it.
    """

    def __init__(self, robot, urdf, gravity):
        self.robot = robot
        self.model = _spec(from_root(urdf, robot.root_link), gravity).compile()
        self.data = mujoco.MjData(self.model)
        index = {name: 6 + i for i, name in enumerate(robot.joint_names)}
        self.E = np.zeros((self.model.nv, 6 + robot.n))
        self.E[:6, :6] = np.eye(6)
        self.joints = []
        for joint in robot.description.joints:
            if joint.kind == "fixed":
                continue
            there, drive = self.model.joint(joint.name), joint.drive
            self.E[there.dofadr[0], index[drive.driver]] = drive.multiplier
            self.joints.append((there.qposadr[0], index[drive.driver] - 6, drive))

    def forward_dynamics(self, g, q, V, qd, tau, F, tip):
        """Rate of the components of V in {1}, and qdd, by mj_forward."""
        model, data, rotation = self.model, self.data, g[:3, :3]
        E = self.E.copy()
        E[:3, :3] = rotation  # linear velocities in the world's axes, angular in the body's
        data.qpos[:3] = g[:3, 3]
        mujoco.mju_mat2Quat(data.qpos[3:7], np.ascontiguousarray(rotation).ravel())
        for at, i, drive in self.joints:
            data.qpos[at] = drive.multiplier * q[i] + drive.offset
        data.qvel[:] = E @ np.concatenate((V, qd))
        forces = (
            np.concatenate((F, tau)) + self.robot.link_jacobian(q, self.robot.tip_link).T @ tip
        )
        data.qfrc_applied[:] = np.linalg.pinv(E).T @ forces
        mujoco.mj_forward(model, data)
        acc = data.qacc
        if len(acc) != E.shape[1]:
            mass = np.zeros((model.nv, model.nv))
            for column, unit in zip(mass, np.eye(model.nv), strict=True):
                mujoco.mj_mulM(model, data, column, unit)
            right = E.T @ (data.qfrc_applied - data.qfrc_bias)
            acc = E @ np.linalg.solve(E.T @ mass @ E, right)
        out = np.linalg.lstsq(E, acc, rcond=None)[0]
        out[:3] -= np.cross(V[3:], V[:3])
        return out[:6], out[6:]


def _spec(urdf, gravity):
    root = ElementTree.fromstring(urdf)
    for joint in root.iter("joint"):
        for tag in ("dynamics", "limit"):
            for element in joint.findall(tag):
                joint.remove(element)
        if joint.get("type") == "revolute":
            joint.set("type", "continuous")
    # what MuJoCo would otherwise change: merge static bodies, drop massless ones' names, mend
    # inertias it does not like
    options = ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler")
    options.set("fusestatic", "false")
    options.set("balanceinertia", "false")
    options.set("discardvisual", "true")
    spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"))
    spec.option.gravity = gravity
    spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_CONTACT
    base = spec.worldbody.first_body()
    base.add_freejoint()
    return spec
