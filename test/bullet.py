# SPDX-License-Identifier: Apache-2.0
"""The Bullet physics engine behind the conventions of the package, for robots with a free base."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from vm_dynamics.lie.se3 import quaternion

p = pytest.importorskip("pybullet")  # not every Python has a wheel of it

# What Bullet would add to the rigid bodies: shapes to collide, friction, and links without mass,
# to which it gives a kilogram each.
DROPPED_OF_LINKS = ("visual", "collision")
DROPPED_OF_JOINTS = ("dynamics",)


def bare_urdf(text):
    """The URDF with its masses and joints only."""
    root = ET.fromstring(text)
    massless = {link.get("name") for link in root.iter("link") if link.find("inertial") is None}
    for element in list(root):
        child = element.find("child")
        is_gone = element.get("name") in massless or (
            child is not None and child.get("link") in massless
        )
        if element.tag == "material" or is_gone:
            root.remove(element)
            continue
        for tag in DROPPED_OF_LINKS + DROPPED_OF_JOINTS:
            for part in element.findall(tag):
                element.remove(part)
    return ET.tostring(root, encoding="unicode")


class Bullet:
    """One robot in a world of its own, stepped at dt [s] by Bullet's semi-implicit Euler.

    Only for robots whose base has its centre of mass in the origin of {1}, where Bullet has the
    base's frame.
    """

    def __init__(self, robot, text, folder, dt):
        assert np.allclose(robot.tree.inertias[0].com, 0.0), "Bullet's base frame is elsewhere"
        path = folder / f"{robot.name}.urdf"
        path.write_text(bare_urdf(text))
        self.client = p.connect(p.DIRECT)
        p.setGravity(*robot.gravity, physicsClientId=self.client)
        p.setTimeStep(dt, physicsClientId=self.client)
        flags = p.URDF_USE_INERTIA_FROM_FILE
        self.body = p.loadURDF(str(path), flags=flags, physicsClientId=self.client)
        names = {}
        for i in range(p.getNumJoints(self.body, physicsClientId=self.client)):
            info = p.getJointInfo(self.body, i, physicsClientId=self.client)
            names[info[1].decode()] = i
        self.joints = [names[name] for name in robot.joint_names]
        for link in (-1, *self.joints):
            p.changeDynamics(
                self.body, link, linearDamping=0.0, angularDamping=0.0, jointDamping=0.0,
                physicsClientId=self.client,
            )  # fmt: skip

    def close(self):
        p.disconnect(self.client)

    def reset(self, g, q, twist_world, qd):
        """Pose g (4, 4), joints, velocities [v; w] of the base in world axes."""
        turn = quaternion(g)
        p.resetBasePositionAndOrientation(self.body, g[:3, 3], turn, physicsClientId=self.client)
        p.resetBaseVelocity(
            self.body, twist_world[:3], twist_world[3:], physicsClientId=self.client
        )
        for joint, position, velocity in zip(self.joints, q, qd, strict=True):
            p.resetJointState(self.body, joint, position, velocity, physicsClientId=self.client)

    def push(self, force, position):
        """A force [N] at a point of {1}, both in its axes, for the next step."""
        p.applyExternalForce(
            self.body, -1, force, position, p.LINK_FRAME, physicsClientId=self.client
        )

    def twist(self, torque):
        """A torque [N m] on the base in axes of {1}, for the next step."""
        p.applyExternalTorque(self.body, -1, torque, p.LINK_FRAME, physicsClientId=self.client)

    def track(self, q, qd, force):
        """Bullet's position control of the joints, with at most ``force`` [N m]."""
        for joint, position, velocity in zip(self.joints, q, qd, strict=True):
            p.setJointMotorControl2(
                self.body, joint, p.POSITION_CONTROL, targetPosition=position,
                targetVelocity=velocity, positionGain=0.1, velocityGain=1.0, force=force,
                physicsClientId=self.client,
            )  # fmt: skip

    def step(self):
        p.stepSimulation(physicsClientId=self.client)

    def state(self):
        """Position (3,), rotation (3, 3), world twist (6,), joint positions and velocities."""
        place, turn = p.getBasePositionAndOrientation(self.body, physicsClientId=self.client)
        v, w = p.getBaseVelocity(self.body, physicsClientId=self.client)
        joints = p.getJointStates(self.body, self.joints, physicsClientId=self.client)
        rotation = np.reshape(p.getMatrixFromQuaternion(turn), (3, 3))
        q, qd = (np.array([joint[k] for joint in joints]) for k in (0, 1))
        return np.array(place), rotation, np.array([*v, *w]), q, qd
