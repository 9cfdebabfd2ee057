# SPDX-License-Identifier: Apache-2.0
"""Trials for the contact observer: MuJoCo with the demo's sensors, an arm that moves, pushes.

The robot moves its arm from shape to shape. The observers and the controller may believe other
masses than those of the plant, which has the URDF's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from cases import ROBOTS, load, text
from control_plant import smooth
from observing import misjudged

import vm_dynamics as vm
from vm_dynamics.control import TiltGuidance
from vm_dynamics.control.gains import critical_damping, shape_inertia
from vm_dynamics.simulation.simulator import Sensing, Simulator

DEG = np.pi / 180.0
STEP = 1e-3  # [s], of the physics
EVERY = 4  # steps from one joint sample to the next: 250 Hz, as in the demo
BENT = (1.3, -0.7, 1.2, 1.3, -0.5, 1.0, -1.0)
PAUSE = 1.0  # [s] between two moves of the arm


@dataclass(frozen=True)
class Push:
    """A force on a link, along the link's axes, at a point in its frame, between two times."""

    link: str
    force: tuple[float, float, float]
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    begin: float = 0.0
    end: float = np.inf

    @property
    def wrench(self) -> np.ndarray:
        """[f; t] at the link's origin, in its axes, shape (6,)."""
        return np.concatenate((self.force, np.cross(self.point, self.force)))


class Sample(NamedTuple):
    """What there is at a joint sample: measured joints and efforts, and the base's estimate."""

    t: float
    q: np.ndarray
    qd: np.ndarray
    effort: np.ndarray
    mu: np.ndarray
    g: np.ndarray
    wrench: np.ndarray


class Trial:
    """A robot of the demo, its controller and its observer.

    Args:
        name: ``satellite_arm7`` tumbles, ``hexa_arm2`` hovers.
        seed: of noise and moves.
        believed: what observer and controller take the robot to be; the truth if None.
        position_noise: of the joints' encoders [rad]; the demo has none.
    """

    def __init__(self, name, seed=0, believed=None, *, position_noise=0.0):
        self.flies = name == "hexa_arm2"
        gravity = (0.0, 0.0, -9.81) if self.flies else (0.0, 0.0, 0.0)
        self.truth = load(name, "SE3", gravity)
        self.robot = self.truth if believed is None else believed(self.truth)
        self._random = np.random.default_rng(seed)
        robot, g, propulsion = self.truth, np.eye(4), None
        sensing = Sensing(joint_position_deviation=position_noise)
        V = np.zeros(6)
        if self.flies:
            self._centre, self._reach = np.array([0.9, 0.6]), 0.6
            g[2, 3] = 2.0
            sensing = Sensing(
                joint_position_deviation=position_noise,
                pose_rate=30.0,
                pose_position_deviation=2e-3,
                pose_attitude_deviation=5e-3,
                pose_delay=0.02,
            )
            propulsion = vm.Propulsion.load(robot, ROBOTS / "hexa_arm2.yaml")
        else:
            self._centre, self._reach = np.resize(BENT, robot.n), 0.5
            V[3:] = np.array([10.0, 1.14, 0.0]) * DEG
        self._goal, self._from, self._begin, self._end = self._centre, self._centre, 0.0, PAUSE
        self.simulator = Simulator(
            robot,
            text(name),
            vm.State(g, self._centre.copy(), V, np.zeros(robot.n)),
            propulsion=propulsion,
            sensing=sensing,
            hold=self.flies,
            seed=seed,
        )
        self._home = g
        self.ekf = vm.InvariantEkf(
            self.robot,
            pose_deviation=(sensing.pose_position_deviation, sensing.pose_attitude_deviation),
            disturbance=1e-2 if self.flies else 1e-3,
        )
        self._controller = self._flight(propulsion) if self.flies else self._compensator()

    def _compensator(self):
        inertia = np.diag(shape_inertia(self.robot, self._centre))
        frequency = np.clip(np.sqrt(20.0 / inertia), 1.5, 25.0)
        K = inertia * frequency**2
        return vm.MomentumCompensator(self.robot, K, critical_damping(K, inertia), law=2)

    def _flight(self, propulsion):
        joints = self.robot.joint_names
        axes = {"x": 0.0, "y": 0.0, "z": 6.0, "roll": 40.0, "pitch": 40.0, "yaw": 20.0}
        rates = {"x": 0.0, "y": 0.0, "z": 4.0, "roll": 12.0, "pitch": 12.0, "yaw": 8.0}
        controller = vm.ComputedTorque(
            self.robot,
            propulsion,
            stiffness=axes | dict.fromkeys(joints, 100.0),
            damping=rates | dict.fromkeys(joints, 20.0),
            guidance=TiltGuidance(self.robot.gravity),
            integral=dict.fromkeys(axes, 0.0) | {"z": 2.0} | dict.fromkeys(joints, 150.0),
        )
        controller.set_target(g=self._home)
        return controller

    def _target(self, t):
        """From shape to shape, with pauses, at two thirds of the speed limit at most."""
        if t >= self._end + PAUSE:
            self._from = self._goal
            way = self._centre + self._random.uniform(-self._reach, self._reach, self.robot.n)
            self._goal = np.clip(way, self.robot.lower_limits + 0.1, self.robot.upper_limits - 0.1)
            far = abs(self._goal - self._from) / self.robot.velocity_limits
            self._begin, self._end = t, t + max(1.0, 1.875 * 1.5 * far.max())
        x, v, a = smooth(t, self._begin, self._end)
        way = self._goal - self._from
        return self._from + x * way, v * way, a * way

    def run(self, seconds, push=None) -> Iterator[Sample]:
        """Joint samples, each with the estimate at its time."""
        simulator, ekf = self.simulator, self.ekf
        tau, thrusts = np.zeros(self.robot.n), None
        for _ in range(round(seconds / (EVERY * STEP))):
            self._shove(push, 1e-9 * simulator.nanos)
            simulator.advance(EVERY)
            state, t = simulator.state, 1e-9 * simulator.nanos
            q, qd = simulator.joints(state)
            wrench = simulator.driving_wrench
            ekf.base_wrench(t, wrench)
            for taken, g in simulator.poses(state.g):
                ekf.pose(1e-9 * taken, g)
            ekf.joints(t, q, qd)
            yield Sample(
                t, q, qd, simulator.efforts.copy(), ekf.locked_velocity, ekf.base_pose, wrench
            )
            tau, thrusts = self._command(t, q, qd)
            simulator.command(tau)
            if thrusts is not None:
                simulator.thrust(thrusts)

    def _command(self, t, q, qd):
        q_d, qd_d, qdd_d = self._target(t)
        if self.flies:
            self._controller.set_target(q=q_d, qd=qd_d, qdd=qdd_d)
            out = self._controller.step(self.ekf.base_pose, q, self.ekf.twist, qd, dt=EVERY * STEP)
            return out.tau, out.thrusts
        self._controller.set_target(q_d, qd_d, qdd_d)
        return self._controller.step(q, qd, self.ekf.locked_velocity).tau, None

    def _shove(self, push, t):
        data, model = self.simulator._plant.data, self.simulator._plant.model
        data.xfrc_applied[:] = 0.0
        if push is not None and push.begin <= t < push.end:
            body = model.body(push.link).id
            R = data.xmat[body].reshape(3, 3)
            force = R @ push.force
            arm = R @ push.point + data.xpos[body] - data.xipos[body]
            data.xfrc_applied[body, :3] = force
            data.xfrc_applied[body, 3:] = np.cross(arm, force)


# -- trials in numbers ----------------------------------------------------------------------------

# Where the next joint, or the end of the arm, is in each link's frame.
ENDS = {
    "satellite_arm7": {
        "link1": (0.0, 0.0, 0.3),
        "link2": (0.0, 0.0, 0.3),
        "link3": (0.0, 0.2, 0.8),
        "link4": (0.0, 0.0, 0.3),
        "link5": (0.0, 0.0, 0.75),
        "link6": (0.0, 0.0, 0.15),
        "link7": (0.0, 0.0, 0.2),
    },
    "hexa_arm2": {"link1": (0.44, 0.0, 0.0), "link2": (0.44, 0.0, 0.0)},
}
FORCE = {"satellite_arm7": 20.0, "hexa_arm2": 2.0}  # [N]
MASS_ERROR = 0.05
READ_AFTER = (0.1, 0.2, 0.3, 0.5)  # [s] of a push, at which the wrench is looked at
OBSERVED = 0.2  # of the force: deviation up to which a direction of it counts as observed


def wrong_masses(seed):
    """Robots whose links are 5 % heavier or lighter than the truth, each by chance."""
    rng = np.random.default_rng(seed)

    def believed(robot):
        factors = {link: 1.0 + MASS_ERROR * rng.choice((-1.0, 1.0)) for link in robot.link_names}
        return misjudged(robot, factors.__getitem__)

    return believed


def random_push(name, link, rng, *, planar=False):
    """A push of a link at some point, in some direction, some time after the start."""
    force = rng.normal(size=3)
    if planar:  # along the plane in which the arm of the hexacopter moves
        force[1] = 0.0
    force *= FORCE[name] / np.linalg.norm(force)
    point = rng.uniform() * np.array(ENDS[name].get(link, (0.0, 0.0, 0.0)))
    begin = rng.uniform(6.0, 12.0)
    return Push(link, tuple(force), tuple(point), begin, begin + 1.0)


@dataclass(frozen=True)
class Outcome:
    """What became of a push.

    Attributes:
        push: it.
        found: how long after its begin it was found [s]; infinite if it was not in its second.
        false_alarms: contacts before it.
        links: that could not be told apart, at each of ``READ_AFTER``, the likeliest first.
        force_error: of the force, relative, likewise; infinite without a contact.
        observed: how many directions of the force were observed, likewise.
        observed_error: of the force in those directions, relative to the force.
    """

    push: Push
    found: float
    false_alarms: int
    links: list[tuple[str, ...]]
    force_error: list[float]
    observed: list[int]
    observed_error: list[float]


def shove(name, push, seed, **options):
    """A trial with a push, masses 5 % wrong."""
    trial = Trial(name, seed, wrong_masses(seed), **options)
    observer = vm.ContactObserver(trial.robot)
    found, false_alarms = np.inf, 0
    rows, times = [], list(READ_AFTER)
    for x in trial.run(push.begin + max(READ_AFTER) + 0.01, push):
        _, contact = observer.step(*x)
        if x.t <= push.begin:
            false_alarms = observer.status.contacts
        elif contact is not None and found == np.inf:
            found = x.t - push.begin
        if times and x.t >= push.begin + times[0]:
            times.pop(0)
            nothing = (), np.inf, 0, np.inf
            rows.append(nothing if contact is None else _judge(trial, x, push, contact))
    return Outcome(push, found, false_alarms, *map(list, zip(*rows, strict=True)))


def _judge(trial, x, push, contact):
    """Links, error of the force, directions observed and the error in them."""
    robot = trial.robot
    turn = robot.link_pose(x.q, contact.link)[:3, :3].T @ robot.link_pose(x.q, push.link)[:3, :3]
    error = contact.wrench[:3] - turn @ push.force
    size = np.linalg.norm(push.force)
    spread, directions = np.linalg.eigh(contact.covariance[:3, :3])
    seen = directions[:, np.sqrt(np.maximum(spread, 0.0)) < OBSERVED * size]
    return (
        contact.links,
        float(np.linalg.norm(error) / size),
        seen.shape[1],
        float(np.linalg.norm(seen.T @ error) / size) if seen.size else np.inf,
    )


def free(name, seconds, seed, **options):
    """Contacts found where there were none, and the largest statistic by its threshold."""
    trial = Trial(name, seed, wrong_masses(seed), **options)
    observer = vm.ContactObserver(trial.robot)
    largest = 0.0
    for x in trial.run(seconds):
        observer.step(*x)
        if observer.status.settled:
            largest = max(largest, observer.statistic / observer.threshold)
    return observer.status.contacts, largest
