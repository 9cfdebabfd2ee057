# SPDX-License-Identifier: Apache-2.0
"""Robots that are stepped one step at a time, by MuJoCo or by the package's own integrator.

MuJoCo is physics that this package did not write, so it judges everything else here. It has no
full added-mass matrix and only a free base; where a robot needs more, the package steps it itself,
and :func:`make_plant` says why.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol
from xml.etree import ElementTree

import numpy as np

from vm_dynamics.errors import (
    DivergedError,
    ParameterError,
    SimulationWarning,
    VmDynamicsError,
)
from vm_dynamics.lie.se3 import Array
from vm_dynamics.model import xml
from vm_dynamics.model.inertia import Inertia
from vm_dynamics.robot import Robot
from vm_dynamics.simulation.simulate import Run
from vm_dynamics.simulation.trajectory import State, checked_state

Urdf = str | bytes | os.PathLike[str]
INSTALL = "pip install 'mujoco>=3.2'"
# What is lost in a URDF's decimals, and by MuJoCo's own reading of them.
SAME_MASS = 1e-9


class Plant(Protocol):
    """What is stepped."""

    step_size: float  # [s]

    @property
    def state(self) -> State:
        """Where the robot is now; the arrays are the caller's."""

    @state.setter
    def state(self, state: State) -> None: ...

    def step(self, tau: Array, base_wrench: Array) -> None:
        """Go on by a step, with joint efforts (n,) and a wrench on the base in {1}, (b,)."""


class Choice(NamedTuple):
    """A plant, and the reason why it is not MuJoCo's, empty if it is."""

    plant: Plant
    why_own: str


def make_plant(robot: Robot, urdf: Urdf, step_size: float, *, friction: bool = True) -> Choice:
    """Plant of a robot: MuJoCo's where it can be.

    A :class:`SimulationWarning` says so where MuJoCo could step such a robot, but is not installed
    or refuses the URDF.

    Args:
        robot: the robot, with its gravity and fluid.
        urdf: what it was read from, text, bytes or path, which MuJoCo reads by itself.
        step_size: [s].
        friction: whether the joints rub as the URDF says.

    Raises:
        ParameterError: MuJoCo reads another robot.
        UrdfError: there is no URDF to read.
    """
    why = _why_own(robot)
    if not why:
        if _mujoco() is None:
            why = f"MuJoCo is not installed ({INSTALL})"
        else:
            try:
                return Choice(MujocoPlant(robot, urdf, step_size, friction=friction), "")
            except VmDynamicsError:
                raise
            except ValueError as error:  # what MuJoCo raises for a model it cannot compile
                why = f"MuJoCo refuses it: {str(error).splitlines()[0]}"
        warnings.warn(
            f"robot {robot.name!r} is stepped by the package's own integrator, without joint "
            f"limits: {why}",
            SimulationWarning,
            stacklevel=2,
        )
    return Choice(OwnPlant(robot, step_size, friction=friction), why)


def _mujoco() -> Any:
    """MuJoCo, or None where it is not installed."""
    try:
        import mujoco
    except ImportError:
        return None
    return mujoco


def _why_own(robot: Robot) -> str:
    if robot.added_mass.any():
        return "it has added mass, which MuJoCo has not"
    if robot.base_group.name != "SE3":
        return f"its base moves in {robot.base_group.name}, and MuJoCo's free base in SE3"
    return ""


class OwnPlant:
    """A robot stepped by Runge-Kutta-Munthe-Kaas of order 4; no joint limits.

    Attributes:
        robot: the robot.
        step_size: [s].
    """

    def __init__(self, robot: Robot, step_size: float, *, friction: bool = True) -> None:
        """At rest at the origin, q = 0."""
        self.robot, self.step_size = robot, step_size
        times = np.array([0.0, step_size])
        self._run = Run(robot, State.at_rest(robot), times, step_size, friction)
        self._advance = self._run.stepper("runge_kutta")

    @property
    def state(self) -> State:
        """Where the robot is now."""
        g, q, V, qd = (rows[0].copy() for rows in self._run.rows)
        return State(g, q, V, qd)

    @state.setter
    def state(self, state: State) -> None:
        for rows, value in zip(self._run.rows, checked_state(self.robot, state), strict=True):
            rows[0] = value

    def step(self, tau: Array, base_wrench: Array) -> None:
        """Go on by a step, with joint efforts (n,) and a wrench on the base in {1}, (b,)."""
        force = np.concatenate((base_wrench, tau))
        self._advance(0, self._run.none._replace(force=force))
        for rows in self._run.rows:
            rows[0] = rows[1]


class MujocoPlant:
    """A robot stepped by MuJoCo, from its URDF: free base, friction and limits, no contacts.

    Attributes:
        robot: the robot.
        step_size: [s].
        model: of MuJoCo.
        data: of MuJoCo.
    """

    def __init__(
        self, robot: Robot, urdf: Urdf, step_size: float, *, friction: bool = True
    ) -> None:
        """At rest at the origin, q = 0.

        Raises:
            ParameterError: MuJoCo is not installed, or reads another robot from the same text.
            ValueError: MuJoCo refuses the robot.
        """
        mujoco = _mujoco()
        if mujoco is None:
            raise ParameterError(f"a MujocoPlant needs MuJoCo: {INSTALL}")
        if mujoco.get_mju_user_warning() is None:
            # its own handler writes a file into the working directory; step() raises instead
            mujoco.set_mju_user_warning(lambda text: None)
        self.robot, self.step_size = robot, step_size
        self._mujoco = mujoco
        self.model = _spec(robot, urdf, step_size, friction).compile()
        self.data = mujoco.MjData(self.model)
        mass = float(self.model.body_mass.sum())
        if abs(mass - robot.total_mass) > SAME_MASS * robot.total_mass:
            raise ParameterError(
                f"robot {robot.name!r}: MuJoCo reads {mass:.9g} kg from the URDF, expected "
                f"{robot.total_mass:.9g} kg"
            )
        joints = [self.model.joint(name) for name in robot.joint_names]
        self._q_at = np.array([j.qposadr[0] for j in joints], dtype=int)
        self._v_at = np.array([j.dofadr[0] for j in joints], dtype=int)
        self._followers = [
            (self.model.joint(name), robot.joint_names.index(mimic.driver), mimic)
            for name, mimic in _mimics(robot)
        ]
        self._sinks = robot.fluid is not None
        self._turned, self._nine = np.zeros(3), np.zeros(9)
        self.state = State.at_rest(robot)

    @property
    def state(self) -> State:
        """Where the robot is now."""
        data, g = self.data, np.eye(4)
        self._mujoco.mju_quat2Mat(self._nine, data.qpos[3:7])
        g[:3, :3], g[:3, 3] = self._nine.reshape(3, 3), data.qpos[:3]
        V = data.qvel[:6].copy()  # linear in the world's axes, angular in the body's
        V[:3] = g[:3, :3].T @ V[:3]
        return State(g, data.qpos[self._q_at], V, data.qvel[self._v_at])

    @state.setter
    def state(self, state: State) -> None:
        g, q, V, qd = checked_state(self.robot, state)
        data = self.data
        self._mujoco.mj_resetData(self.model, data)
        data.qpos[:3] = g[:3, 3]
        self._mujoco.mju_mat2Quat(data.qpos[3:7], np.ascontiguousarray(g[:3, :3]).ravel())
        data.qpos[self._q_at], data.qvel[self._v_at] = q, qd
        data.qvel[:3], data.qvel[3:6] = g[:3, :3] @ V[:3], V[3:]
        for joint, i, mimic in self._followers:
            data.qpos[joint.qposadr[0]] = mimic.multiplier * q[i] + mimic.offset
            data.qvel[joint.dofadr[0]] = mimic.multiplier * qd[i]
        self._mujoco.mj_forward(self.model, data)

    def step(self, tau: Array, base_wrench: Array) -> None:
        """Go on by a step, with joint efforts (n,) and a wrench on the base in {1}, (6,)."""
        data, applied = self.data, self.data.qfrc_applied
        if self._sinks:
            on_base, on_joints = self.robot.fluid_forces(*self.state)
            base_wrench, tau = base_wrench + on_base, tau + on_joints
        self._mujoco.mju_rotVecQuat(self._turned, base_wrench[:3], data.qpos[3:7])
        applied[:3], applied[3:6] = self._turned, base_wrench[3:]
        applied[self._v_at] = tau
        self._mujoco.mj_step(self.model, data)
        if data.warning[self._mujoco.mjtWarning.mjWARN_BADQACC].number:
            raise DivergedError(
                f"MuJoCo's simulation of {self.robot.name!r} diverged; try a shorter step than "
                f"{self.step_size:g} s, or look at the forces"
            )


def _spec(robot: Robot, urdf: Urdf, step_size: float, friction: bool) -> Any:
    """MuJoCo's own reading of a URDF, with a free base."""
    import mujoco

    spec = mujoco.MjSpec.from_string(_prepared(robot, urdf, friction))
    spec.option.timestep = step_size
    spec.option.gravity = robot.gravity
    # of order 4, for a tumbling robot must keep its momentum
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_RK4
    # links that touch or overlap at a joint would push each other
    spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_CONTACT
    spec.worldbody.first_body().add_freejoint()
    for name, mimic in _mimics(robot):
        equality = spec.add_equality(
            type=mujoco.mjtEq.mjEQ_JOINT,
            objtype=mujoco.mjtObj.mjOBJ_JOINT,
            name1=name,
            name2=mimic.driver,
        )
        data = np.zeros(len(equality.data))  # of another length in each version of MuJoCo
        data[:2] = mimic.offset, mimic.multiplier
        equality.data = data
    return spec


def _prepared(robot: Robot, urdf: Urdf, friction: bool) -> str:
    """URDF without what is above {1}, lies in other files, or shall not rub."""
    root = ElementTree.fromstring(xml.read(urdf))
    for joint in root.findall("joint"):
        for rubbing in joint.findall("dynamics") if not friction else ():
            joint.remove(rubbing)
        child = joint.find("child")
        if child is not None and child.get("link") == robot.root_link:
            root.remove(joint)
    known = set(robot.link_names)
    for link in root.findall("link"):
        if link.get("name") not in known:
            root.remove(link)
            continue
        for shape in (*link.findall("visual"), *link.findall("collision")):
            if shape.find("geometry/mesh") is not None:
                link.remove(shape)
    for element in root.findall("mujoco"):
        root.remove(element)
    options = ElementTree.SubElement(ElementTree.SubElement(root, "mujoco"), "compiler")
    # what MuJoCo would otherwise change: merge static bodies, mend inertias it does not like
    options.set("fusestatic", "false")
    options.set("balanceinertia", "false")
    options.set("discardvisual", "false")
    return ElementTree.tostring(root, encoding="unicode")


def with_inertial(urdf: Urdf, link: str, inertia: Inertia) -> str:
    """URDF text in which a link has another inertia, given in the link's frame."""
    root = ElementTree.fromstring(xml.read(urdf))
    (element,) = (x for x in root.findall("link") if x.get("name") == link)
    for old in element.findall("inertial"):
        element.remove(old)
    inertial = ElementTree.SubElement(element, "inertial")
    tensor = inertia.tensor
    keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    values = tensor[np.triu_indices(3)].tolist()
    ElementTree.SubElement(inertial, "origin", xyz=" ".join(map(repr, map(float, inertia.com))))
    ElementTree.SubElement(inertial, "mass", value=repr(float(inertia.mass)))
    ElementTree.SubElement(
        inertial, "inertia", {key: repr(x) for key, x in zip(keys, values, strict=True)}
    )
    return ElementTree.tostring(root, encoding="unicode")


def _mimics(robot: Robot) -> Iterator[tuple[str, Any]]:
    """Joints that follow others, with what they follow."""
    for joint in robot.description.joints:
        if joint.mimic is not None:
            yield joint.name, joint.mimic
