# SPDX-License-Identifier: Apache-2.0
"""References and plants that the controllers are tried on: smooth moves, flights, MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
from mujoco_peer import MujocoPeer

import vm_dynamics as vm

DIFFERENCE = 1e-4  # [s]: central differences of the angular velocity are good to 1e-7


def smooth(t, begin, end):
    """Quintic from 0 to 1 between two times, with its first and second derivative."""
    T = end - begin
    s = np.clip((t - begin) / T, 0.0, 1.0)
    return np.array(
        [
            s**3 * (10.0 - 15.0 * s + 6.0 * s**2),
            30.0 * s**2 * (1.0 - s) ** 2 / T,
            60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / T**2,
        ]
    )


class Moves:
    """A signal that is the sum of smooth moves (begin, end, change)."""

    def __init__(self, start, *moves):
        self.start, self.moves = start, moves

    def __call__(self, t):
        """Value and its first two derivatives."""
        out = np.array([self.start, 0.0, 0.0])
        for begin, end, change in self.moves:
            out += change * smooth(t, begin, end)
        return out


def rotation(roll, pitch, yaw):
    """Rz(yaw) Ry(pitch) Rx(roll)."""
    (ca, cb, cc), (sa, sb, sc) = np.cos((roll, pitch, yaw)), np.sin((roll, pitch, yaw))
    return np.array(
        [
            [cc * cb, cc * sb * sa - sc * ca, cc * sb * ca + sc * sa],
            [sc * cb, sc * sb * sa + cc * ca, sc * sb * ca - cc * sa],
            [-sb, cb * sa, cb * ca],
        ]
    )


def body_rates(angles, rates):
    """Angular velocity in body axes of roll, pitch, yaw and their rates."""
    (a, b, _), (da, db, dc) = angles, rates
    return np.array(
        [
            da - dc * np.sin(b),
            db * np.cos(a) + dc * np.cos(b) * np.sin(a),
            -db * np.sin(a) + dc * np.cos(b) * np.cos(a),
        ]
    )


class FlightPlan:
    """References of z, roll, pitch, yaw and the joints, as Fig. 12 of [Kremer2022] has them."""

    def __init__(self, z, roll, pitch, yaw, joints):
        self.z, self.angles, self.joints = z, (roll, pitch, yaw), joints

    def _turning(self, t):
        signals = np.array([angle(t) for angle in self.angles])
        return signals[:, 0], body_rates(signals[:, 0], signals[:, 1])

    def __call__(self, t):
        """Arguments of ComputedTorque.set_target at a time."""
        angles, w = self._turning(t)
        wd = (self._turning(t + DIFFERENCE)[1] - self._turning(t - DIFFERENCE)[1]) / (
            2.0 * DIFFERENCE
        )
        g = np.eye(4)
        g[:3, :3] = rotation(*angles)
        z, zd, zdd = self.z(t)
        g[2, 3] = z
        v = g[:3, :3].T @ (0.0, 0.0, zd)
        vd = g[:3, :3].T @ (0.0, 0.0, zdd) - np.cross(w, v)
        q, qd, qdd = np.array([joint(t) for joint in self.joints]).T.copy()
        return {
            "g": g,
            "V": np.concatenate((v, w)),
            "Vd": np.concatenate((vd, wd)),
            "q": q,
            "qd": qd,
            "qdd": qdd,
        }


def roll_pitch_yaw(R):
    """Angles of :func:`rotation`."""
    return np.array(
        [np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(R[2, 0]), np.arctan2(R[1, 0], R[0, 0])]
    )


class MujocoPlant:
    """A robot that MuJoCo steps, from the same URDF, under a law of (t, State)."""

    def __init__(self, robot, urdf, step=1e-3):
        self.peer = MujocoPeer(robot, urdf, robot.gravity)
        self.robot, self.step = robot, step
        self.peer.model.opt.timestep = step

    def run(self, state, law, duration):
        """States of a motion; the law gives vm.Command, held over each step."""
        model, data, peer = self.peer.model, self.peer.data, self.peer
        data.qpos[:3] = state.g[:3, 3]
        mujoco.mju_mat2Quat(data.qpos[3:7], np.ascontiguousarray(state.g[:3, :3]).ravel())
        for at, i, _ in peer.joints:
            data.qpos[at] = state.q[i]
        data.qvel[:] = self._map(state.g) @ np.concatenate((state.V, state.qd))
        states = [self._state()]
        for k in range(round(duration / self.step)):
            command = law(k * self.step, states[-1])
            F = np.zeros(6) if command.base_wrench is None else command.base_wrench
            forces = np.concatenate((F, command.tau))
            data.qfrc_applied[:] = self._map(states[-1].g) @ forces
            mujoco.mj_step(model, data)
            states.append(self._state())
        return states

    def _map(self, g):
        """From [V; qd] to MuJoCo's velocities, orthogonal as long as no joint mimics another."""
        E = self.peer.E.copy()
        E[:3, :3] = g[:3, :3]
        return E

    def _state(self):
        data, g = self.peer.data, np.eye(4)
        matrix = np.empty(9)
        mujoco.mju_quat2Mat(matrix, data.qpos[3:7])
        g[:3, :3], g[:3, 3] = matrix.reshape(3, 3), data.qpos[:3]
        q = np.empty(self.robot.n)
        for at, i, _ in self.peer.joints:
            q[i] = data.qpos[at]
        velocity = self._map(g).T @ data.qvel
        return vm.State(g, q, velocity[:6], velocity[6:])
