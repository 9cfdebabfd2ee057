# SPDX-License-Identifier: Apache-2.0
"""The dynamically equivalent manipulator: a free-floating chain as a robot on a ball joint.

Implements: [From2010] eq. (82), which is right as printed, and prismatic joints. The ball joint
stands for the centre of mass of the whole robot, so the manipulator has base group SO3 and no
linear momentum to carry. Attitude and joints of both move alike under the same joint efforts.

Bodies are rows: 0 is the spacecraft, k the body behind joint k, and ``mu_k`` the share of the
total mass in bodies 0 to k. The paper counts from one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array, inverse
from vm_dynamics.model.inertia import Inertia
from vm_dynamics.model.robot_model import RobotModel
from vm_dynamics.model.spec import Description, Joint, Link, Mimic

# What a prismatic joint's travel and the link that it shows are called, after the joint's name.
TRAVEL = "_travel"


def dynamically_equivalent(robot: RobotModel) -> Description:
    """Description of the dynamically equivalent manipulator, for a robot of base group SO3.

    Joints keep names, order, limits and zero positions; links keep names and orientations. So q,
    qd and joint efforts mean the same for both robots, and V of the manipulator is the angular
    velocity of the spacecraft. The root's frame moves to the ball joint, which stands for the
    centre of mass of the whole robot; links that are fixed to the last body have their true
    position relative to it. Positions p in body k, of centre of mass c_k, become

    .. math:: mu_{k-1} c_k + mu_k (p - c_k)

    for joints and fixed links; the body's own joint stays in the origin. All mass of a body is put
    on the first of its links.

    The displacement of a prismatic joint shrinks by the factor ``mu_{k-1}``. The joint of the old
    name moves only a massless link, and drives the shrunk one as a mimic joint with this
    multiplier, so that neither q nor the effort need to be scaled.

    Args:
        robot: a free-floating robot: base group SE3, bodies in a row, no mimic joints. Its gravity
            does not matter, as it falls freely; that of the manipulator must be zero.

    Raises:
        ParameterError: the robot is not such a chain, or its first bodies have no mass.
    """
    _require_free_chain(robot)
    mu = _mass_shares(robot)
    poses = _new_poses(robot, mu)
    links = [Link(robot.root_link, _new_inertia(robot, 0, mu))]
    joints: list[Joint] = []
    for joint in robot.description.joints:
        here = inverse(poses[joint.parent])
        if joint.kind == "fixed":
            links.append(Link(joint.child, Inertia()))
            joints.append(_placed(joint, here @ poses[joint.child]))
            continue
        k = robot.tree.frames[joint.child].body
        placed = _placed(joint, here @ _placement(robot, k, mu, joint))
        if joint.kind == "prismatic":
            travel, marker, placed = _scaled(robot, placed, float(mu[k - 1]))
            links.append(marker)
            joints.append(travel)
        links.append(Link(joint.child, _new_inertia(robot, k, mu)))
        joints.append(placed)
    return Description(f"{robot.name}_equivalent", robot.root_link, tuple(links), tuple(joints))


def _require_free_chain(robot: RobotModel) -> None:
    if robot.fluid is not None:
        raise ParameterError(
            f"robot: {robot.name!r} is submerged, expected one that no force acts on"
        )
    if robot.base_group.name != "SE3":
        raise ParameterError(
            f"robot: got base group {robot.base_group.name}, expected SE3 (a free-floating robot)"
        )
    for k, body in enumerate(robot.tree.bodies, start=1):
        if body.joint.mimic is not None:
            raise ParameterError(
                f"robot: joint {body.joint.name!r} mimics {body.joint.mimic.driver!r}, expected "
                "joints that move by themselves"
            )
        if body.parent != k - 1:
            raise ParameterError(
                f"robot: joint {body.joint.name!r} starts a branch at link "
                f"{body.joint.parent!r}, expected a chain of bodies"
            )
    rigid = np.array([inertia.matrix for inertia in robot.tree.inertias])
    if not np.allclose(robot.body_inertias, rigid, rtol=1e-12, atol=0.0):
        raise ParameterError(
            "robot: its kinetic energy is not that of its masses alone (added mass of a fluid), "
            "expected a robot in free space"
        )


def _mass_shares(robot: RobotModel) -> Array:
    """mu_k: share of the total mass in bodies 0 to k, shape (nj + 1,)."""
    mass = np.array([inertia.mass for inertia in robot.tree.inertias])
    if not mass[0] > 0.0:
        raise ParameterError(
            f"robot: link {robot.root_link!r} has mass {mass[0]:g} kg, expected more than zero"
        )
    return np.cumsum(mass) / mass.sum()


def _new_inertia(robot: RobotModel, k: int, mu: Array) -> Inertia:
    """m'_k = m_k / (mu_{k-1} mu_k) at mu_{k-1} c_k, same moments; in the first link's frame."""
    body = robot.tree.inertias[k]
    if k == 0:
        # at the ball joint its mass has no effect, so any value will do
        return replace(body, com=(0.0, 0.0, 0.0))
    joint = robot.tree.bodies[k - 1].joint
    to_link = inverse(robot.tree.frames[joint.child].pose)
    com = tuple((mu[k - 1] * np.array(body.com)).tolist())
    return replace(body, mass=body.mass / (mu[k - 1] * mu[k]), com=com).moved(to_link)


def _moved(robot: RobotModel, k: int, mu: Array, pose: Array) -> Array:
    """Pose in body k of something other than the body's own joint: mu_{k-1} c + mu_k (p - c)."""
    com = np.array(robot.tree.inertias[k].com)
    before = mu[k - 1] if k > 0 else 0.0
    out = pose.copy()
    out[:3, 3] = before * com + mu[k] * (pose[:3, 3] - com)
    return out


def _new_poses(robot: RobotModel, mu: Array) -> dict[str, Array]:
    """Pose of every link in the new frame of its body."""
    first = {robot.root_link, *(body.joint.child for body in robot.tree.bodies)}
    return {
        name: frame.pose if name in first else _moved(robot, frame.body, mu, frame.pose)
        for name, frame in robot.tree.frames.items()
    }


def _placement(robot: RobotModel, k: int, mu: Array, joint: Joint) -> Array:
    """Frame of joint k at zero in the new frame of body k - 1: the vector W of eq. (82)."""
    there = robot.tree.frames[joint.parent].pose @ joint.pose_matrix
    return _moved(robot, k - 1, mu, there)


def _placed(joint: Joint, pose: Array) -> Joint:
    return replace(joint, pose=tuple(pose.ravel().tolist()))


def _scaled(robot: RobotModel, joint: Joint, factor: float) -> tuple[Joint, Link, Joint]:
    """A joint of the same name that moves a massless link, the link, and the joint it drives."""
    names = {*robot.link_names, *(j.name for j in robot.description.joints)}
    name = joint.name + TRAVEL
    while name in names:
        name += "_"
    travel = replace(joint, child=name)
    driven = Joint(
        name,
        joint.kind,
        joint.parent,
        joint.child,
        joint.pose,
        joint.axis,
        mimic=Mimic(joint.name, factor, 0.0),
    )
    return travel, Link(name, Inertia()), driven
