# SPDX-License-Identifier: Apache-2.0
"""Robots with payloads that MuJoCo moves, what sensors make of it, and what can be known."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
from cases import ROBOTS

import vm_dynamics as vm
from vm_dynamics.lie import se3
from vm_dynamics.simulation.plants import MujocoPlant

RATE = 250  # [Hz], of the joints in the demo
STEPS = 4  # of MuJoCo, 1 ms each, for a joint sample
POSE_EVERY = 25  # joint samples: 10 Hz
POSITION_NOISE, ATTITUDE_NOISE = 5e-3, 5.236e-3
VELOCITY_NOISE = 5e-3  # [rad/s]
ENCODER_NOISE = 1e-4  # [rad]; the demo has none, and without any everything would be known at once
EARTH = (0.0, 0.0, -9.81)


@dataclass(frozen=True)
class Payload:
    """What hangs at a link: mass, centre and xx xy xz yy yz zz about it, in the link's frame."""

    link: str
    mass: float
    com: tuple
    moments: tuple

    @property
    def numbers(self):
        return np.array([self.mass, *self.com, *self.moments])


def block(link, mass, com, size, turn=(0.3, -0.4, 0.2)):
    """A solid block that is turned against the link's axes."""
    a, b, c = np.square(size)
    R = se3.exp(np.array([0.0, 0.0, 0.0, *turn]))[:3, :3]
    tensor = R @ np.diag([b + c, a + c, a + b]) @ R.T * mass / 12.0
    return Payload(link, mass, com, tuple(tensor[np.triu_indices(3)]))


def loaded_urdf(name, payload):
    """URDF of a robot with a payload as a link of its own."""
    root = ElementTree.parse(ROBOTS / f"{name}.urdf").getroot()
    link = ElementTree.SubElement(root, "link", name="the_payload")
    inertial = ElementTree.SubElement(link, "inertial")
    ElementTree.SubElement(
        inertial, "origin", xyz=" ".join(f"{x!r}" for x in map(float, payload.com))
    )
    ElementTree.SubElement(inertial, "mass", value=repr(float(payload.mass)))
    keys = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    values = {k: repr(float(x)) for k, x in zip(keys, payload.moments, strict=True)}
    ElementTree.SubElement(inertial, "inertia", values)
    joint = ElementTree.SubElement(root, "joint", name="the_grasp", type="fixed")
    ElementTree.SubElement(joint, "parent", link=payload.link)
    ElementTree.SubElement(joint, "child", link="the_payload")
    return ElementTree.tostring(root, encoding="unicode")


@dataclass(frozen=True)
class Motion:
    """What happened, at every joint sample: the truth, and forces from each to the next."""

    robot: vm.Robot
    t: np.ndarray
    g: np.ndarray
    q: np.ndarray
    V: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    F: np.ndarray


def move(name, payload, motion, seconds, *, gravity=(0.0, 0.0, 0.0), friction=False):
    """Let MuJoCo move a robot along joint references; its base floats, or hovers in gravity."""
    urdf = loaded_urdf(name, payload)
    loaded = vm.load(urdf, gravity=gravity)
    known = vm.load(ROBOTS / f"{name}.urdf", gravity=gravity)
    plant = MujocoPlant(loaded, urdf, 1.0 / (RATE * STEPS), friction=friction)
    q0 = motion(0.0)[0]
    plant.state = vm.State(np.eye(4), q0, np.zeros(6), np.zeros(loaded.n))
    count = round(seconds * RATE)
    b, n = loaded.b, loaded.n
    shape = (count + 1,)
    out = Motion(
        known, np.arange(count + 1) / RATE, np.empty((*shape, 4, 4)), np.empty((*shape, n)),
        np.empty((*shape, b)), np.empty((*shape, n)), np.zeros((*shape, n)), np.zeros((*shape, b)),
    )  # fmt: skip
    hovers = any(gravity)
    for k in range(count + 1):
        state = plant.state
        out.g[k], out.q[k], out.V[k], out.qd[k] = state
        q, qd, qdd = motion(out.t[k])
        wish = qdd + 100.0 * (q - state.q) + 20.0 * (qd - state.qd)
        base = np.zeros(b)
        if hovers:  # in place, by a law that knows the payload, as a tuned one would in effect
            off = se3.log(se3.inverse(state.g))
            base = 4.0 * off - 4.0 * state.V
            F, tau = loaded.inverse_dynamics(state.g, state.q, state.V, state.qd, base, wish)
            out.F[k] = F
        else:
            tau = loaded.hybrid_dynamics(
                state.g, state.q, state.V, state.qd, wish, np.zeros(b), passive={"base"}
            ).tau
        if friction:  # against it, or light joints would stick
            tau = tau - known.joint_friction(qd)
        out.tau[k] = np.clip(tau, -loaded.effort_limits, loaded.effort_limits)
        if k < count:
            for _ in range(STEPS):
                plant.step(out.tau[k], out.F[k])
    return out


@dataclass(frozen=True)
class Sensed:
    """What the sensors say."""

    motion: Motion
    q: np.ndarray
    qd: np.ndarray
    tau: np.ndarray
    F: np.ndarray
    poses: np.ndarray  # one for each POSE_EVERY samples


def sense(motion, seed, *, encoder=ENCODER_NOISE, effort=0.0, wrench=(0.0, 0.0)):
    """Sensors with white noise."""
    rng = np.random.default_rng(seed)
    shape = motion.q.shape
    samples = range(0, len(motion.t), POSE_EVERY)
    scale = np.repeat((POSITION_NOISE, ATTITUDE_NOISE), 3)
    return Sensed(
        motion,
        motion.q + encoder * rng.normal(size=shape),
        motion.qd + VELOCITY_NOISE * rng.normal(size=shape),
        motion.tau + effort * rng.normal(size=shape),
        motion.F + np.repeat(wrench, 3) * rng.normal(size=motion.F.shape),
        np.array([motion.g[k] @ se3.exp(scale * rng.normal(size=6)) for k in samples]),
    )


def feed(identifier, sensed, *, efforts=True, since=0.0, after=0.0, each=None):
    """Let an identifier see it all, or what came since a time, later by so many seconds."""
    motion = sensed.motion
    pushed = sensed.F.any()
    for k, t in enumerate((motion.t + after).tolist()):
        if motion.t[k] < since:
            continue
        if each is not None:
            each()
        if pushed:
            identifier.base_wrench(t, sensed.F[k])
        if k % POSE_EVERY == 0:
            identifier.pose(t, sensed.poses[k // POSE_EVERY])
        identifier.joints(t, sensed.q[k], sensed.qd[k], sensed.tau[k] if efforts else None)


def bound(motion, payload, *, encoder=ENCODER_NOISE, effort, wrench):
    """Cramer-Rao bound of the ten numbers, shape (10,), from the true motion.

    A Kalman filter's covariance along the truth, sample by sample, in its plain form; slopes by
    central differences of the robot's forward dynamics and of the payload's ten numbers.
    """
    robot = motion.robot
    b, n = robot.b, robot.n
    size = b + n
    numbers = payload.numbers
    loaded = robot.with_payload(payload.link, payload.mass, payload.com, np.array(payload.moments))
    inertia = np.array(payload.moments)[[0, 3, 5]].max()
    unit = np.array([payload.mass, *[0.3] * 3, *[inertia] * 6])
    nudged = []
    for i in range(10):
        pair = []
        for sign in (1.0, -1.0):
            x = numbers.copy()
            x[i] += 1e-5 * sign * unit[i]
            pair.append(robot.with_payload(payload.link, x[0], x[1:4], x[4:]))
        nudged.append(pair)

    def acc(model, x, k):
        g = motion.g[k] @ se3.exp(x[:b])
        F, tau = motion.F[k], motion.tau[k]
        q, V, qd = motion.q[k] + x[b:size], motion.V[k] + x[size : size + b], motion.qd[k] + x[-n:]
        return np.concatenate(model.forward_dynamics(g, q, V, qd, tau, F))

    # in units of what is known to begin with, so that the covariance begins as the identity
    start = np.repeat((0.1, 0.1, encoder, 0.5, 0.5, VELOCITY_NOISE), (3, 3, n, 3, 3, n))
    start = np.concatenate((start, 100.0 * unit))
    P = np.eye(2 * size + 10)
    H = np.zeros((2 * n, len(P)))
    H[:n, b:size] = np.eye(n) * start[b:size] / encoder
    H[n:, size + b : 2 * size] = np.eye(n) * start[size + b : 2 * size] / VELOCITY_NOISE
    pose = np.zeros((b, len(P)))
    pose[:, :b] = np.diag(start[:b] / np.repeat((POSITION_NOISE, ATTITUDE_NOISE), 3))
    noise = np.concatenate((np.repeat(wrench, 3), np.full(n, effort)))
    every, dt, step = 10, 1.0 / RATE, 1e-5
    for k in range(len(motion.t) - 1):
        if k % every == 0:
            A = np.zeros((2 * size, len(P)))
            A[:b, :b] = -robot.base_group.ad(motion.V[k])
            A[:b, size : size + b], A[b:size, size + b : 2 * size] = np.eye(b), np.eye(n)
            for i in range(2 * size):
                x = np.zeros(2 * size)
                x[i] = step
                A[size:, i] = (acc(loaded, x, k) - acc(loaded, -x, k)) / (2.0 * step)
            still = np.zeros(2 * size)
            for i, (ahead, behind) in enumerate(nudged):
                change = acc(ahead, still, k) - acc(behind, still, k)
                A[size:, 2 * size + i] = change / (2e-5 * unit[i])
            flow = np.eye(len(P))
            flow[: 2 * size] += dt * A
            flow[: 2 * size] += 0.5 * dt**2 * A[:, : 2 * size] @ A
            flow *= start / start[:, None]
            push = np.linalg.inv(loaded.mass_matrix(motion.q[k])) * noise
            Q = np.zeros((len(P), size))
            Q[:size], Q[size : 2 * size] = 0.5 * dt**2 * push, dt * push
            Q = (Q / start[:, None]) @ (Q / start[:, None]).T
        P = flow @ P @ flow.T + Q
        rows = np.concatenate((H, pose)) if (k + 1) % POSE_EVERY == 0 else H
        gain = np.linalg.solve(np.eye(len(rows)) + rows @ P @ rows.T, rows @ P).T
        keep = np.eye(len(P)) - gain @ rows
        P = keep @ P @ keep.T + gain @ gain.T
    return np.sqrt(np.diag(P))[-10:] * 100.0 * unit
