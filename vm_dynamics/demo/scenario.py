# SPDX-License-Identifier: Apache-2.0
"""What a scenario is: a robot, the parameters of all nodes, a plan in time, and bars to meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vm_dynamics.control.gains import critical_damping, shape_inertia
from vm_dynamics.demo.log import Log
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.paths import robot_file
from vm_dynamics.robot import Robot, load
from vm_dynamics.ros.client import Client
from vm_dynamics.simulation import State

JOINT_RATE = 250.0  # [Hz]: what two cores do with five nodes and a recorder
SLOWEST = 1.5  # [rad/s], of a joint's PD law
FASTEST = 0.1  # of the joint rate [rad], likewise
MOST_LEAD = 0.02  # [s]: a busy machine makes the run slower, not worse


@dataclass(frozen=True)
class Bar:
    """Something that was reached, and what had to be.

    Attributes:
        what: in words.
        value: reached.
        limit: the most it may be.
        unit: of both.
    """

    what: str
    value: float
    limit: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether it is good enough; NaN is not."""
        return bool(self.value <= self.limit)


class Scenario:
    """Base of the scenarios.

    Attributes:
        NAME: what users type.
        TITLE: one line.
        ROBOT: the robot unless another is asked for.
        DURATION: [s] of simulated time unless asked for.
        SHORTEST: the least duration that leaves something to judge [s].
        robot: what the nodes take the robot to be.
        urdf: its text.
        duration: [s].
        seed: of the sensors' noise.
    """

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    ROBOT: ClassVar[str] = "satellite_arm7"
    DURATION: ClassVar[float]
    SHORTEST: ClassVar[float]
    GRAVITY: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 0.0)

    def __init__(self, robot: str | None, duration: float | None, seed: int) -> None:
        """Read the robot.

        Raises:
            ParameterError: too short or too long, no seed, or the robot does not fit.
        """
        self.file = robot_file(robot or self.ROBOT)
        self.urdf = self.file.read_text()
        self.duration = self.DURATION if duration is None else duration
        if not self.SHORTEST <= self.duration <= 600.0:
            raise ParameterError(
                f"duration: got {self.duration:g} s, expected {self.SHORTEST:g} to 600 s for the "
                f"scenario {self.NAME!r}"
            )
        if not 0 <= seed < 2**31:
            raise ParameterError(f"seed: got {seed}, expected 0 to {2**31 - 1}")
        self.seed = seed
        self.robot = self.load()
        if self.robot.base_group.name != "SE3":
            raise ParameterError(
                f"robot: the base of {self.robot.name!r} moves in {self.robot.base_group.name}; "
                "the demonstration needs one that moves freely, SE3"
            )
        if self.robot.n < 2:
            raise ParameterError(f"robot: {self.robot.name!r} has {self.robot.n} joints, not two")

    # -- what a scenario says ---------------------------------------------------------------------

    def load(self) -> Robot:
        """The robot as the nodes see it."""
        return load(self.urdf, gravity=self.GRAVITY)

    @property
    def start(self) -> State:
        """Where everything begins."""
        raise NotImplementedError

    def target(self, t: float) -> tuple[Array, Array, Array]:
        """What the joints shall do at a time [s]: q, qd, qdd, shape (n,) each."""
        still = np.zeros(self.robot.n)
        return self.start.q, still, still

    def sim_parameters(self) -> dict[str, Any]:
        """Of the sim node, beyond what all scenarios have."""
        return {}

    def observer_parameters(self) -> dict[str, Any]:
        """Of the observer node, likewise."""
        return {}

    def compensator_parameters(self) -> dict[str, Any]:
        """Of the compensator node, likewise."""
        return {}

    def drive(self, t: float, client: Client, log: Log) -> None:
        """Called again and again with the simulated time [s]."""
        client.publish_target(*self.target(t))

    def error_now(self, log: Log) -> str:
        """How far what is controlled is off, for the live line."""
        joints = log.joints.last
        if joints is None:
            return ""
        off = abs(joints[0] - self.target(1e-9 * log.joints.newest)[0]).max()
        return f"joint error {np.rad2deg(off):6.3f} deg"

    def bars(self, log: Log) -> list[Bar]:
        """What was reached."""
        raise NotImplementedError

    # -- what all scenarios share -----------------------------------------------------------------

    def parameters(self, viewer: bool) -> dict[str, dict[str, Any]]:
        """Parameters of all nodes, by node."""
        model = {"gravity": list(self.GRAVITY)}
        suite = {"use_sim_time": True, **model}
        start, names = self.start, self.robot.joint_names
        sim = {
            **model,
            "robot_description": self.urdf,
            "joint_rate": JOINT_RATE,
            "most_lead": MOST_LEAD,
            "seed": self.seed,
            "viewer": viewer,
            "initial.pose": [*start.g[:3, 3].tolist(), 0.0, 0.0, 0.0, 1.0],
            "initial.twist": start.V.tolist(),
            "initial.joints": [f"{n}={x:.17g}" for n, x in zip(names, start.q, strict=True)],
            **self.sim_parameters(),
        }
        return {
            "dynamics_node": {**suite, "rate": 10.0},
            "observer_node": {**suite, "world_frame": "world", **self.observer_parameters()},
            # nothing can be hurt here, and somebody should see it work
            "compensator_node": {
                **suite,
                "require_enable": False,
                # by the wall's clock too, on which a busy machine makes pauses
                "timeout": 1.0,
                **self.compensator_parameters(),
            },
            # the axes of the virtual chassis jump where two moments of inertia become equal
            "ccf_node": {**suite, "rate": 2.0, "threshold": 0.0, "frame": "base"},
            "sim_node": sim,
        }

    def gains(self, stiffness: float) -> dict[str, list[str]]:
        """Gains of the joints' PD law: one stiffness [N m/rad], critical damping.

        A heavy joint is made stiffer, so that it is not too slow; a light one softer, for its
        damping acts a sample late, and from ``D / (Lambda rate)`` near 1 on it shakes.
        """
        Lambda = np.diag(shape_inertia(self.robot, self.start.q))
        frequency = np.clip(np.sqrt(stiffness / Lambda), SLOWEST, FASTEST * JOINT_RATE)
        K = Lambda * frequency**2
        names = self.robot.joint_names
        return {
            "gains.stiffness_of": by_name(dict(zip(names, K, strict=True))),
            "gains.damping_of": by_name(
                dict(zip(names, critical_damping(K, Lambda), strict=True))
            ),
        }

    def joint_errors(self, log: Log, begin: float, end: float) -> tuple[Array, Array]:
        """Times and q - q_d between two times, shapes (N,) and (N, n)."""
        heard = log.joints.all.between(begin, end)
        wanted = np.array([self.target(t)[0] for t in heard.t]).reshape(-1, self.robot.n)
        return heard.t, heard.first.reshape(-1, self.robot.n) - wanted

    def joint_rms(self, log: Log, begin: float, end: float) -> float:
        """RMS of q - q_d of the worst joint between two times [rad or m]."""
        _, errors = self.joint_errors(log, begin, end)
        return float(np.sqrt((errors**2).mean(axis=0)).max()) if len(errors) else np.inf

    def yaml_file(self) -> str:
        """The file beside the URDF that says what a URDF cannot.

        Raises:
            ParameterError: there is none.
        """
        path = self.file.with_suffix(".yaml")
        if not path.is_file():
            raise ParameterError(
                f"robot: the scenario {self.NAME!r} needs {path.name} beside {self.file.name}, "
                "with the sections that docs/propulsion.md and docs/forces.md describe"
            )
        return str(path)


def smooth(t: float, begin: float, end: float) -> tuple[float, float, float]:
    """Quintic from 0 to 1 between two times, with its first and second derivative."""
    T = end - begin
    s = min(max((t - begin) / T, 0.0), 1.0)
    return (
        s**3 * (10.0 - 15.0 * s + 6.0 * s**2),
        30.0 * s**2 * (1.0 - s) ** 2 / T,
        60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / T**2,
    )


def there_and_back(t: float, begin: float, end: float) -> Array:
    """Quintic from 0 to 1 in the first half and back in the second, with its derivatives."""
    middle = 0.5 * (begin + end)
    return np.array(smooth(t, begin, middle)) - np.array(smooth(t, middle, end))


def within_limits(robot: Robot, q: Array, margin: float = 0.2) -> Array:
    """The same shape, or the nearest one that is off all limits by a margin [rad or m]."""
    low, high = robot.lower_limits + margin, robot.upper_limits - margin
    middle = np.nan_to_num(0.5 * (robot.lower_limits + robot.upper_limits))
    fits = low < high
    return np.clip(q, np.where(fits, low, middle), np.where(fits, high, middle))


def by_name(values: Mapping[str, float]) -> list[str]:
    """Numbers as the parameters ``gains.*_of`` take them."""
    return [f"{name}={value:.9g}" for name, value in values.items()]
