# SPDX-License-Identifier: Apache-2.0
"""What the planner reaches on random turns: ``python test/planner_bars.py``.

It prints the table of docs/locomotion.md: turns of up to 180 degrees about random axes from random
shapes, planned, then executed in MuJoCo, which reads the URDF by itself and looks for contacts.
It takes about an hour of CPU time for 100 turns of each robot.
"""

from __future__ import annotations

import argparse
import sys
import time
from multiprocessing import Pool
from typing import NamedTuple

import mujoco
import numpy as np
from cases import load, text
from scipy.spatial.transform import Rotation
from tqdm import tqdm

import vm_dynamics as vm
from vm_dynamics.locomotion import CollisionModel, Gait
from vm_dynamics.simulation.plants import MujocoPlant

ROBOTS = ("satellite_arm7", "satellite_dual_arm", "lwr_floating")
LARGEST = np.radians(180.0)
CLEAR = 0.02  # [m]: links of random shapes are farther apart than this
STEP = 8e-3  # [s] of MuJoCo
STIFFNESS, DAMPING = 2500.0, 100.0  # [1/s^2, 1/s] of the computed torque
CONTACT_EVERY = 4  # steps


class Executed(NamedTuple):
    """A path in MuJoCo.

    Attributes:
        pose: of the base after it, shape (4, 4).
        peak: largest share of an effort limit.
        contacts: pairs of links that touched, each in the order of their names.
        joints: largest distance of a joint from its path [rad or m].
    """

    pose: np.ndarray
    peak: float
    contacts: set[tuple[str, str]]
    joints: float


class Contacts:
    """MuJoCo's own contacts of a robot, from its URDF; parents and children do not collide."""

    def __init__(self, robot: vm.Robot, urdf: str) -> None:
        spec = mujoco.MjSpec.from_string(urdf)
        spec.compiler.fusestatic = False
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.joints = [
            (
                self.model.joint(joint.name).qposadr[0],
                robot.joint_names.index(driver),
                factor,
                zero,
            )
            for joint in robot.description.joints
            if joint.kind != "fixed"
            for driver, factor, zero in [vars(joint.drive).values()]
        ]

    def of(self, q: np.ndarray) -> set[tuple[str, str]]:
        """Pairs of links that touch at joint positions q."""
        for at, i, factor, zero in self.joints:
            self.data.qpos[at] = factor * q[i] + zero
        mujoco.mj_forward(self.model, self.data)
        body = self.model.geom_bodyid
        touching = (c for c in self.data.contact if c.dist < 0.0)
        return {
            tuple(sorted(self.model.body(body[geom]).name or "base_link" for geom in c.geom))
            for c in touching
        }


def executed(robot: vm.Robot, urdf: str, path: Gait, step: float = STEP) -> Executed:
    """Move the joints along a path in MuJoCo by computed torque, from rest at the origin."""
    plant = MujocoPlant(robot, urdf, step)
    contacts = Contacts(robot, urdf)
    start = vm.State.at_rest(robot, path.position(0.0))
    plant.state = start
    steps = int(np.ceil(path.duration / step))
    times = np.minimum(step * np.arange(steps + 1), path.duration)
    q, qd = path.position(times), path.velocity(times)
    qd[-1] = 0.0
    none, peak, off, found = np.zeros(robot.b), 0.0, 0.0, set()
    for k in range(steps):
        g, q_now, V, qd_now = plant.state
        wanted = (qd[k + 1] - qd[k]) / step
        wanted += STIFFNESS * (q[k] - q_now) + DAMPING * (qd[k] - qd_now)
        tau = robot.hybrid_dynamics(g, q_now, V, qd_now, wanted, none).tau
        tau -= robot.joint_friction(qd[k])
        plant.step(tau, none)
        peak = max(peak, float((abs(tau) / robot.effort_limits).max()))
        off = max(off, float(abs(q[k] - q_now).max()))
        if k % CONTACT_EVERY == 0:
            found |= contacts.of(q_now)
    return Executed(plant.state.g, peak, found, off)


class Turn(NamedTuple):
    """A turn that was asked for, and what came of it.

    Attributes:
        degrees: wanted angle.
        seconds: CPU time of the planner.
        reached: whether the plan reaches it.
        reason: the plan's.
        loops: of the plan.
        duration: of the plan [s].
        clearance: of the plan [m].
        effort: largest share of the effort limits, planned.
        peak: the same, executed.
        error: attitude off the wanted one after the execution [deg].
        touched: pairs of links that touched, but for those that the plan names as left out.
    """

    degrees: float
    seconds: float
    reached: bool
    reason: str
    loops: int
    duration: float
    clearance: float
    effort: float
    peak: float
    error: float
    touched: tuple[tuple[str, str], ...]


def task(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A random shape without contacts, and a random rotation vector."""
    robot, rng = load(name), np.random.default_rng(seed)
    model = CollisionModel(robot)
    while True:
        q0 = rng.uniform(robot.lower_limits, robot.upper_limits)
        if model.clearance(q0) > CLEAR:
            break
    axis = rng.normal(size=3)
    return q0, rng.uniform(0.0, LARGEST) * axis / np.linalg.norm(axis)


def turn(name: str, seed: int) -> Turn:
    """Plan and execute a random turn."""
    robot = load(name)
    q0, wanted = task(name, seed)
    start = time.process_time()
    plan = vm.plan_reorientation(robot, q0, wanted)
    seconds = time.process_time() - start
    peak, error, touched = 0.0, np.nan, set()
    if plan.path is not None and plan.reached:
        run = executed(robot, text(name), plan.path)
        left_out = {tuple(sorted(pair[:2])) for pair in plan.left_out}
        peak, touched = run.peak, run.contacts - left_out
        target = Rotation.from_rotvec(wanted)
        error = np.degrees((target.inv() * Rotation.from_matrix(run.pose[:3, :3])).magnitude())
    return Turn(
        float(np.degrees(np.linalg.norm(wanted))),
        seconds,
        plan.reached,
        plan.reason,
        plan.loops,
        plan.duration,
        plan.clearance,
        plan.peak_effort,
        peak,
        float(error),
        tuple(sorted(touched)),
    )


def _turn(job: tuple[str, int]) -> Turn:
    return turn(*job)


def row(name: str, turns: list[Turn]) -> str:
    """A row of the table."""
    done = [t for t in turns if t.reached]
    both = [
        (np.median(x), max(x))
        for x in (
            [t.seconds for t in turns],
            [t.loops for t in done],
            [t.duration for t in done],
            [t.error for t in done],
            [max(t.peak, t.effort) for t in done],
        )
    ]
    seconds, loops, duration, error, effort = both
    touched = sum(bool(t.touched) for t in done)
    least = 1e3 * min(t.clearance for t in done)
    return (
        f"| `{name}` | {len(done)} of {len(turns)} | {touched} | {least:.0f} mm "
        f"| {error[0]:.1g}, {error[1]:.1g} deg | {100 * effort[0]:.0f}, {100 * effort[1]:.0f} % "
        f"| {loops[0]:g}, {loops[1]} | {duration[0]:.0f}, {duration[1]:.0f} s "
        f"| {seconds[0]:.1f}, {seconds[1]:.1f} s |"
    )


def main() -> int:
    """Print the table; exits with 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="turns of each robot [%(default)s]")
    parser.add_argument("--robots", nargs="+", default=ROBOTS, choices=ROBOTS)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    print(
        "| robot | solved | with a contact | least clearance | executed to | effort | loops "
        "| duration | CPU time of planning |\n|---|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    missed = False
    for name in options.robots:
        turn(name, 0)  # compiles
        jobs = [(name, seed) for seed in range(options.count)]
        with Pool(options.processes) as pool:
            turns = list(tqdm(pool.imap(_turn, jobs), total=len(jobs), desc=name))
        print(row(name, turns), flush=True)
        done = [t for t in turns if t.reached]
        for t in turns:
            if not t.reached or t.touched or t.peak > 1.0 or t.error > 1.0:
                print(f"  {t}", flush=True)
        missed |= len(done) < 0.95 * len(turns) or any(
            t.touched or t.peak > 1.0 or t.error > 1.0 for t in done
        )
        seconds = [t.seconds for t in turns]
        missed |= bool(np.median(seconds) > 5.0 or max(seconds) > 20.0)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
