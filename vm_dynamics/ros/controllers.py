# SPDX-License-Identifier: Apache-2.0
"""Controllers of compensator_node, built from its parameters.

What comes from here is whole: compiled and rehearsed before the node lets it touch anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from vm_dynamics.control import (
    ComputedTorque,
    Controller,
    Efforts,
    MomentumCompensator,
    ReactionMode,
    TiltGuidance,
    critical_damping,
    free_inertias,
    soft_stiffness,
)
from vm_dynamics.control.computed_torque import GAIN_AXES, base_gains, pushes_sideways
from vm_dynamics.control.controller import rehearse
from vm_dynamics.control.gains import gains
from vm_dynamics.control.imported import imported_controller
from vm_dynamics.control.reaction_mode import turning_weights
from vm_dynamics.dynamics.propulsion import Propulsion
from vm_dynamics.errors import ParameterError, UnknownJointError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.robot import Robot
from vm_dynamics.ros.parameters import numbers_by_name


def momentum(robot: Robot, p: Any) -> MomentumCompensator:
    """Momentum compensation, or a plain PD law."""
    K, D = _feedback(p, robot.joint_names, free_inertias(robot))
    return MomentumCompensator(
        robot,
        K,
        D,
        law=p.law,
        integral=_integral(p, K, robot.joint_names),
        friction=_friction(robot, p),
        effort_scale=p.effort_scale,
    )


def computed_torque(robot: Robot, p: Any) -> ComputedTorque:
    """Computed torque with rotors or thrusters; a multicopter leans to hold its place."""
    if not p.propulsion:
        raise ParameterError("parameter propulsion: computed_torque needs a YAML file")
    propulsion = Propulsion.load(robot, p.propulsion)
    names = (*GAIN_AXES, *robot.joint_names)
    K, D = _feedback(p, names, np.ones(len(names)), base_gains(propulsion))
    leans = p.lean and not pushes_sideways(propulsion) and robot.gravity.any()
    return ComputedTorque(
        robot,
        propulsion,
        stiffness=K,
        damping=D,
        integral=_integral(p, K, names),
        guidance=TiltGuidance(robot.gravity) if leans else None,
        effort_scale=p.effort_scale,
    )


def reaction(robot: Robot, p: Any) -> ReactionMode:
    """Reaction mode: the tool follows, the base moves as little as can be."""
    return ReactionMode(
        robot,
        p.tool_link or robot.tip_link,
        position_only=p.position_only,
        base_weights=turning_weights(robot, p.base_weight),
        failed=p.failed_joints,
    )


BUILDERS: dict[str, Callable[[Robot, Any], Controller]] = {
    "momentum": momentum,
    "computed_torque": computed_torque,
    "reaction": reaction,
}


class Built(NamedTuple):
    """A controller that is ready, and the efforts that it gave at rest."""

    controller: Controller
    efforts: Efforts


def build(robot: Robot, p: Any) -> Built:
    """Controller that the node's parameters ask for, rehearsed.

    Raises:
        VmDynamicsError: robot, parameters and controller do not fit each other.
    """
    if p.controller in BUILDERS:
        controller = BUILDERS[p.controller](robot, p)
        return Built(controller, rehearse(controller, robot))
    return Built(*imported_controller(p.controller, robot, _settings(p.controller_settings)))


def _settings(items: Iterable[str]) -> dict[str, Any]:
    """Arguments by name, of items ``name=value`` whose values are JSON, or else text."""
    out = {}
    for item in items:
        key, sign, value = item.partition("=")
        if not sign or not key.strip().isidentifier():
            raise ParameterError(
                f"parameter controller_settings: got {item!r}, expected name=value"
            )
        try:
            out[key.strip()] = json.loads(value)
        except ValueError:
            out[key.strip()] = value
    return out


def _feedback(
    p: Any,
    names: tuple[str, ...],
    inertias: Array,
    base: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Stiffness and damping in the order of ``names``, chosen here where they are negative.

    Args:
        p: the node's parameters.
        names: of the base's axes, if it has gains, and the joints.
        inertias: that the stiffness has to move, in the same order.
        base: stiffness and damping of the base's axes, unless the parameters have some.
    """
    soft = soft_stiffness(inertias)
    if base is not None:
        soft[:6] = base[0]
    K = np.full_like(soft, p.gains_stiffness) if p.gains_stiffness >= 0.0 else soft
    K = _gains("gains.stiffness_of", p.gains_stiffness_of, K, names)
    critical = critical_damping(K, inertias)
    if base is not None:
        critical[:6] = np.where(K[:6] == base[0], base[1], critical[:6])
    D = np.full_like(critical, p.gains_damping) if p.gains_damping >= 0.0 else critical
    return K, _gains("gains.damping_of", p.gains_damping_of, D, names)


def _integral(p: Any, stiffness: Array, names: tuple[str, ...]) -> Array:
    """Integral gains in the order of ``names``."""
    time = p.gains_integral_time
    default = stiffness / time if time > 0.0 else np.zeros_like(stiffness)
    return _gains("gains.integral_of", p.gains_integral_of, default, names)


def _friction(robot: Robot, p: Any) -> bool | tuple[Array, Array]:
    """Friction that is fed forward: dry and viscous, or whether that of the URDF is."""
    if not p.friction_of:
        return bool(p.friction)
    known = (robot.friction, robot.damping) if p.friction else (np.zeros(robot.n),) * 2
    return _gains("friction_of", p.friction_of, known[0], robot.joint_names), known[1]


def _gains(name: str, items: Iterable[str], default: Array, names: tuple[str, ...]) -> Array:
    """Gains in the order of ``names``: a default, but for the ones that items name."""
    out = default.copy()
    for key, value in numbers_by_name(name, items).items():
        if key not in names:
            raise UnknownJointError(f"parameter {name}", key, names)
        out[names.index(key)] = value
    return gains(f"parameter {name}", out, names)
