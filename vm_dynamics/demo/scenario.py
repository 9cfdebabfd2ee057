# SPDX-License-Identifier: Apache-2.0
"""What a scenario is: a robot, the parameters of all nodes, a plan in time, and bars to meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vm_dynamics.control.gains import critical_damping, shape_inertia
from vm_dynamics.demo.log import Log
from vm_dynamics.errors import ParameterError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.paths import robot_file
from vm_dynamics.robot import Robot, load
from vm_dynamics.ros.client import Client
from vm_dynamics.simulation import State

JOINT_RATE = 250.0  # [Hz]: what two cores do with five nodes and a recorder
MIN_PD_BANDWIDTH = 1.5  # [rad/s], of a joint's PD law
MAX_PD_PHASE = 0.1  # of the joint rate [rad], likewise
MOST_LEAD = 0.02  # [s]: a busy machine makes the run slower, not worse
LIMIT_MARGIN = 0.2  # [rad], of a shape to the limits
# Likewise as a part of the joint's range, where that is less or the joint slides.
LIMIT_MARGIN_SHARE = 0.2
# How far a joint slides: part of its range; without limits [m].
SLIDE_SHARE, SLIDE_UNLIMITED = 0.3, 0.05
QUINTIC_PEAK_SLOPE = 1.875  # largest slope of a quintic from 0 to 1 in a second
DEG = np.pi / 180.0


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
        MIN_DURATION: the least duration that leaves something to judge [s].
        robot: what the nodes take the robot to be.
        urdf: its text.
        duration: [s].
        seed: of the sensors' noise.
    """

    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    ROBOT: ClassVar[str] = "satellite_arm7"
    DURATION: ClassVar[float]
    MIN_DURATION: ClassVar[float]
    GRAVITY: ClassVar[tuple[float, float, float]] = (0.0, 0.0, 0.0)

    def __init__(self, robot: str | None, duration: float | None, seed: int) -> None:
        """Read the robot.

        Raises:
            ParameterError: too short or too long, no seed, or the robot does not fit.
        """
        self.file = robot_file(robot or self.ROBOT)
        self.urdf = self.file.read_text()
        self.duration = self.DURATION if duration is None else duration
        if not self.MIN_DURATION <= self.duration <= 600.0:
            raise ParameterError(
                f"duration: got {self.duration:g} s, expected {self.MIN_DURATION:g} to 600 s for "
                f"the scenario {self.NAME!r}"
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
        off = abs(joints[0] - self.target(1e-9 * log.joints.newest)[0])
        worst = [
            f"{off[which].max() * scale:6.3f} {unit}" for which, scale, unit in self.joint_units
        ]
        return f"joint error {', '.join(worst)}"

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
                "resume": "at_once",
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
        frequency = np.clip(
            np.sqrt(stiffness / Lambda), MIN_PD_BANDWIDTH, MAX_PD_PHASE * JOINT_RATE
        )
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

    @property
    def joint_units(self) -> list[tuple[NDArray[np.bool_], float, str]]:
        """Which joints, shape (n,), the factor from SI to the unit of their errors, and the unit.

        First those that turn, then those that slide, if there are any.
        """
        slides = self.robot.prismatic
        kinds = [(~slides, 1.0 / DEG, "deg"), (slides, 1e3, "mm")]
        return [kind for kind in kinds if kind[0].any()]

    def joint_rms(self, log: Log, begin: float, end: float) -> list[tuple[float, str]]:
        """RMS of q - q_d of the worst joint between two times, and its unit; see joint_units."""
        _, errors = self.joint_errors(log, begin, end)
        rms = np.sqrt((errors**2).mean(axis=0)) if len(errors) else np.full(self.robot.n, np.inf)
        return [(scale * float(rms[which].max()), unit) for which, scale, unit in self.joint_units]

    def joint_bars(
        self, what: str, log: Log, begin: float, end: float, limits: Mapping[str, float]
    ) -> list[Bar]:
        """Bars of the worst joint of each kind between two times; ``limits`` by unit, if any."""
        found = self.joint_rms(log, begin, end)
        return [Bar(what, value, limits.get(unit, np.inf), unit) for value, unit in found]

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


def _room(robot: Robot, margin: float) -> tuple[Array, Array]:
    """Limits less a margin, shape (n,) each: at most so many radians, or part of the range."""
    span = robot.upper_limits - robot.lower_limits
    keep = np.minimum(LIMIT_MARGIN_SHARE * span, np.where(robot.prismatic, np.inf, margin))
    keep[np.isinf(keep)] = 0.0
    return robot.lower_limits + keep, robot.upper_limits - keep


def within_limits(robot: Robot, shape: Sequence[float], margin: float = LIMIT_MARGIN) -> Array:
    """A shape for a robot, shape (n,), off all limits by a margin.

    Args:
        robot: the robot.
        shape: angles, which the joints take in turn; those that slide are in their middle.
        margin: to the limits [rad], less where the range is narrow.
    """
    low, high = _room(robot, margin)
    limited = np.isfinite(robot.lower_limits) & np.isfinite(robot.upper_limits)
    middle = np.zeros(robot.n)
    middle[limited] = 0.5 * (low[limited] + high[limited])
    return np.clip(np.where(robot.prismatic, middle, np.resize(shape, robot.n)), low, high)


def way_within_limits(
    robot: Robot, q: Array, way: Sequence[float] | Array, seconds: float
) -> Array:
    """How far the joints go from a shape, shape (n,), off all limits by a margin.

    Args:
        robot: the robot.
        q: where they begin, from :func:`within_limits`.
        way: angles by which the joints shall turn, which they take in turn; those that slide go by
            a part of their range. Where there is no room they go where there is more, or less far.
        seconds: time for the way by :func:`smooth`, which has to be within the velocity limits.
    """
    low, high = _room(robot, LIMIT_MARGIN)
    wanted = np.resize(way, robot.n)
    span = robot.upper_limits - robot.lower_limits
    slide = np.where(np.isfinite(span), SLIDE_SHARE * span, SLIDE_UNLIMITED)
    far = np.where(robot.prismatic, slide, abs(wanted))
    far = np.minimum(far, 0.9 * robot.velocity_limits * seconds / QUINTIC_PEAK_SLOPE)
    back = wanted < 0.0
    room, other = np.where(back, (q - low, high - q), (high - q, q - low))
    back ^= (room < far) & (other > room)
    far = np.minimum(far, np.maximum(room, other))
    return np.where(back, -far, far)


def by_name(values: Mapping[str, float]) -> list[str]:
    """Numbers as the parameters ``gains.*_of`` take them."""
    return [f"{name}={value:.9g}" for name, value in values.items()]
