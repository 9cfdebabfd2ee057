# SPDX-License-Identifier: Apache-2.0
"""References and plants that the controllers are tried on: smooth moves, flights, MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np

from vm_dynamics.simulation.plants import MujocoPlant

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


class MujocoFlight:
    """A robot that MuJoCo steps, from its URDF, under a law of (t, State).

    Args:
        robot: the robot.
        urdf: its text.
        step: [s].
        friction: whether its joints rub.
        payload: mass at the tip that the robot's model does not have [kg].
        scale: factor of all masses and inertias that the model does not have.
    """

    def __init__(self, robot, urdf, step=1e-3, *, friction=False, payload=0.0, scale=1.0):
        self.plant = MujocoPlant(robot, urdf, step, friction=friction)
        model = self.plant.model
        model.body_mass[:] *= scale
        model.body_inertia[:] *= scale
        model.body_mass[model.body(robot.tip_link).id] += payload
        mujoco.mj_setConst(model, self.plant.data)

    def run(self, state, law, duration):
        """States of a motion; the law gives vm.Command, held over each step."""
        plant = self.plant
        plant.state = state
        states = [plant.state]
        for k in range(round(duration / plant.step_size)):
            command = law(k * plant.step_size, states[-1])
            plant.step(
                command.tau, np.zeros(6) if command.base_wrench is None else command.base_wrench
            )
            states.append(plant.state)
        return states
