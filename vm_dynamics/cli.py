# SPDX-License-Identifier: Apache-2.0
"""The ``vm_dynamics`` command."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vm_dynamics.compiled import WARMUP_CPU_SECONDS
from vm_dynamics.errors import ParameterError, UrdfWarning, VmDynamicsError
from vm_dynamics.locomotion.commands import add_commands

if TYPE_CHECKING:
    from vm_dynamics.model.check import Problem

MODULES_PER_PROCESS = 10  # of kernels, that one process of `warmup` compiles


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0 well, 1 the robot is bad, 2 wrong usage."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # trees and names on an ASCII terminal
            stream.reconfigure(errors="replace")
    try:
        code = options.run(options)
        sys.stdout.flush()
        return code
    except VmDynamicsError as error:
        print(f"vm_dynamics {options.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None:
            raise
        print(
            f"vm_dynamics {options.command}: {error.filename}: {error.strerror}", file=sys.stderr
        )
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vm_dynamics",
        description="Dynamics of robots whose base moves: check a robot, look at it, try it.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    check = commands.add_parser(
        "check",
        help="find everything that is wrong with a URDF",
        description="Print all problems of a URDF file, with severity, line and a hint. Exits "
        "with 1 if there is an error, 0 if there are at most warnings.",
    )
    check.add_argument("urdf", help="path of a URDF file")
    check.set_defaults(run=_check)

    show = commands.add_parser(
        "show",
        help="print a robot's tree, joints and limits",
        description="Print a robot as the package sees it: tree, joints, limits, masses.",
    )
    show.add_argument("robot", help="path of a URDF file, or the name of a robot of the package")
    show.add_argument("--base", help="base group: SE3 SE2 SO3 X T3 T2 C SO2 T1 H")
    show.set_defaults(run=_show)

    warmup = commands.add_parser(
        "warmup",
        help="compile all kernels into the cache",
        description="Compile every kernel once, so that no later process has to. Takes about "
        f"{WARMUP_CPU_SECONDS} s of CPU time the first time, a second when all is cached.",
    )
    warmup.set_defaults(run=_warmup)

    demo = commands.add_parser(
        "demo",
        help="watch a simulated robot and the whole suite at work",
        description="Start a simulated robot and the nodes as processes, show how well they do, "
        "then write plots and a recording (MCAP, for Foxglove) and print what was reached. Exits "
        "with 0 only if the scenario met its bars. Nothing leaves this machine.",
    )
    demo.add_argument(
        "--scenario",
        default="tumbling",
        choices=("tumbling", "reorient", "aerial", "underwater", "failure", "grasp"),
        help="what happens [%(default)s]: a satellite tumbles; its arm turns it; a hexacopter "
        "hovers; an underwater vehicle keeps station; a joint fails; an unknown body is grasped",
    )
    demo.add_argument("--robot", help="name or path of another robot than the scenario's own")
    demo.add_argument(
        "--duration", type=float, metavar="S", help="simulated time [the scenario's own]"
    )
    demo.add_argument("--seed", type=int, default=0, help="of the noise [%(default)s]")
    demo.add_argument("--output", default="demo", help="folder for the results [%(default)s]")
    demo.add_argument("--headless", action="store_true", help="no window, even with a screen")
    demo.set_defaults(run=_demo)

    add_commands(commands, _robot_file)
    return parser


def _robot_file(name: str) -> Path:
    from vm_dynamics.paths import robot_file

    return robot_file(name)


def _check(options: argparse.Namespace) -> int:
    from vm_dynamics.model import xml
    from vm_dynamics.model.urdf import all_problems
    from vm_dynamics.paths import robot_file

    try:
        path = robot_file(options.urdf)
    except VmDynamicsError:
        path = Path(options.urdf)  # the reader's message says why it cannot be read
    text = xml.read(path)  # once, for it may be a pipe
    found = list(all_problems(text))
    if all(problem.severity == "warning" for problem in found):
        found = [*_when_built(text), *found]
    for problem in found:
        print(problem)
    errors = sum(problem.severity == "error" for problem in found)
    count = f"{_count(errors, 'error')}, {_count(len(found) - errors, 'warning')}"
    print(f"{options.urdf}: {count}")
    return 1 if errors else 0


def _when_built(text: str | bytes) -> list[Problem]:
    """What only shows once the robot is built: a motion without inertia."""
    from vm_dynamics.model.check import Problem
    from vm_dynamics.robot import load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UrdfWarning)
        try:
            load(text)
        except VmDynamicsError as error:
            hint = "Give every link that moves its mass and inertia."
            return [Problem("error", str(error), hint)]
    return []


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _show(options: argparse.Namespace) -> int:
    from vm_dynamics.paths import robot_file
    from vm_dynamics.robot import load

    robot = load(robot_file(options.robot), base=options.base)
    print(robot)
    width = max([5, *(len(name) for name in robot.joint_names)])
    print(f"\n{'joint':<{width}}  {'lower':>9} {'upper':>9} {'velocity':>9} {'effort':>9}")
    for i, name in enumerate(robot.joint_names):
        limits = (
            robot.lower_limits[i],
            robot.upper_limits[i],
            robot.velocity_limits[i],
            robot.effort_limits[i],
        )
        print(f"{name:<{width}}  " + " ".join(f"{x:>9.4g}" for x in limits))
    return 0


def _warmup(options: argparse.Namespace) -> int:
    import multiprocessing

    from tqdm import tqdm

    from vm_dynamics.compiled import ENTRY_POINTS, compile_module

    start = time.perf_counter()
    modules = list(dict.fromkeys(point.module for point in ENTRY_POINTS))
    modules.sort(key=lambda name: name.split(".")[1] != "estimation")  # the longest begins
    # A fresh process after a few modules gives the compiler's memory back; one for each would
    # spend a fifth of the time on starting the compiler.
    context = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
    if os.name == "posix":
        context.set_forkserver_preload(["vm_dynamics"])
    with (
        tqdm(total=len(ENTRY_POINTS), unit="kernel", desc="compiling", disable=None) as progress,
        context.Pool(maxtasksperchild=MODULES_PER_PROCESS) as pool,
    ):
        cpu = memory = 0.0
        for done in pool.imap_unordered(compile_module, modules):
            progress.update(done.kernels)
            cpu, memory = cpu + done.cpu_seconds, max(memory, done.megabytes)
    print(
        f"{len(ENTRY_POINTS)} kernels ready after {time.perf_counter() - start:.1f} s "
        f"({cpu:.1f} s of CPU time, at most {memory:.0f} MB in a process)"
    )
    return 0


def _demo(options: argparse.Namespace) -> int:
    try:
        from vm_dynamics.demo.run import run
    except ImportError as error:
        raise ParameterError(
            f"the demonstration needs ROS 2 and the simulation: {error}; "
            "pip install 'vm_dynamics[ros,sim,plot]', or source a ROS installation"
        ) from None
    return run(
        options.scenario,
        robot=options.robot,
        duration=options.duration,
        seed=options.seed,
        output=options.output,
        headless=options.headless,
    )


if __name__ == "__main__":
    sys.exit(main())
