# SPDX-License-Identifier: Apache-2.0
"""What the package computes, shown on one robot and checked on a simulated motion."""

from __future__ import annotations

import numpy as np

from vm_dynamics.errors import DimensionError
from vm_dynamics.lie.se3 import Array
from vm_dynamics.paths import robot_file
from vm_dynamics.robot import METHODS, Robot, load
from vm_dynamics.simulation import State, simulate

# Runge-Kutta of order four at 1 ms keeps the momentum of a swinging arm far better than this.
MOMENTUM_BAR = 1e-8


def run(name: str, duration: float) -> int:
    """Print the demonstration; returns 0 if momentum was kept, 1 if not."""
    if not 0.0 < duration <= 600.0:
        raise DimensionError(f"duration: got {duration}, expected more than 0 and at most 600 s")
    robot = load(robot_file(name))
    print("The robot, read from its URDF:\n")
    print(robot)
    q = np.linspace(0.3, 0.9, robot.n)
    _matrices(robot, q)
    _formulations(robot, q)
    error = _momentum(robot, q, duration)
    kept = error < MOMENTUM_BAR
    print(
        f"\nMomentum in the world changed by {error:.1e} of itself "
        f"({'kept' if kept else 'NOT KEPT'}; the bar is {MOMENTUM_BAR:.0e})."
    )
    print(
        "So the dynamics of this robot agree with the conservation law that they do not know of."
        if kept
        else "Something is wrong: please report it with the robot's URDF."
    )
    return 0 if kept else 1


def _matrices(robot: Robot, q: Array) -> None:
    M, A = robot.mass_and_connection(q)
    qd = np.full(robot.n, 0.2)
    mu = np.zeros(robot.b)
    mu[-1] = 0.1
    reduced = robot.reduced(q, qd, mu)
    print(f"\nIts mass is {robot.total_mass:.6g} kg. At the shape q = {_row(q)} rad:")
    _show(f"mass matrix M, the base in the first {robot.b} rows", M)
    _show("mechanical connection A: without momentum the base moves by V = -A qd", A)
    print("\nThe reduced Euler-Lagrange equations, at qd = 0.2 rad/s for every joint and a locked")
    print("velocity mu = 0.1 in the last coordinate of the base:")
    _show("locked inertia M_b: what a wrench on the frozen robot feels", reduced.M_b)
    _show("shape inertia Lambda_q: what the motors feel on a free base", reduced.Lambda_q)
    _show("P, the rate of M_b", reduced.P)
    _show("S, the derivative of M_b mu along each joint", reduced.S)
    _show("Gamma_q, Coriolis terms of the shape", reduced.Gamma_q)
    _show("B, gyroscopic terms from the curvature, skew", reduced.B)
    skew = abs(reduced.D_mu + reduced.D_mu.T).max()
    print(
        f"\nD_mu, made of S, A, B and the momentum, takes no energy: |D_mu + D_mu^T| = {skew:.1e}"
    )
    curvature = robot.curvature(q)
    if robot.n > 1:
        i, j = divmod(int(np.argmax(abs(curvature).max(axis=0))), robot.n)
        print(
            f"\nCurvature: of all pairs of joints, a loop of {robot.joint_names[i]} and "
            f"{robot.joint_names[j]} moves the base most: {_row(-curvature[:, i, j])} per rad^2."
        )


def _momentum(robot: Robot, q: Array, duration: float) -> float:
    """Largest relative change of the spatial momentum while the arm swings freely."""
    start = State(np.eye(4), q, np.full(robot.b, 0.1), 0.5 * np.cos(np.arange(robot.n)))
    print(f"\nSimulating {duration:g} s of free motion: base adrift, arm swinging, no torque ...")
    # by the accelerations, which know nothing of the momentum they keep
    motion = simulate(robot, start, None, duration, integrator="runge_kutta", friction=False)
    g, energy = motion.g[-1], motion.kinetic_energy
    turned = np.degrees(np.arccos(np.clip((np.trace(g[:3, :3]) - 1.0) / 2.0, -1.0, 1.0)))
    print(f"The base moved {np.linalg.norm(g[:3, 3]):.3f} m and turned {turned:.1f} degrees.")
    print(f"Energy changed by {abs(energy[-1] - energy[0]) / energy[0]:.1e} of itself.")
    momentum = motion.spatial_momentum
    change = np.linalg.norm(momentum - momentum[0], axis=1).max()
    return float(change / np.linalg.norm(momentum[0]))


def _formulations(robot: Robot, q: Array) -> None:
    """The same accelerations by every paper's way."""
    V, qd, tau = np.full(robot.b, 0.1), np.full(robot.n, 0.2), np.ones(robot.n)
    print("\nAcceleration of the base for 1 N m in every joint, by each formulation:")
    for method in METHODS:
        if method != "quaternion" or robot.base_group.name == "SE3":
            Vd, _ = robot.forward_dynamics(np.eye(4), q, V, qd, tau, method=method)
            print(f"  {method:<18} {_row(Vd)}")


def _row(values: Array) -> str:
    return np.array2string(values, precision=3, suppress_small=True, max_line_width=200)


def _show(title: str, matrix: Array) -> None:
    print(f"\n{title}, {matrix.shape[0]} x {matrix.shape[1]}:")
    print(np.array2string(matrix, precision=4, suppress_small=True, max_line_width=140))
