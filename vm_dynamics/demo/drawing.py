# SPDX-License-Identifier: Apache-2.0
"""Pictures of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vm_dynamics.demo.failure import Failure
from vm_dynamics.demo.grasp import MASS, Grasp
from vm_dynamics.demo.log import Log, turned
from vm_dynamics.demo.scenario import DEG, Scenario
from vm_dynamics.locomotion.drawing import pyplot_for_files


def draw(scenario: Scenario, log: Log, folder: Path) -> list[str]:
    """Write all pictures of a run; returns their names."""
    plt = pyplot_for_files()
    pictures: dict[str, Callable[[Any, Any, Log], None]]
    pictures = {"observer.png": _observer, "joints.png": _joints, "base.png": _base}
    if log.curvature is not None:
        pictures["map.png"] = _curvature
    if isinstance(scenario, Failure):
        pictures["tool.png"] = _tool
    if isinstance(scenario, Grasp):
        pictures["payload.png"] = _payload
    for name, paint in pictures.items():
        figure = plt.figure(figsize=(8.0, 5.0), layout="constrained")
        paint(figure, scenario, log)
        figure.savefig(folder / name, dpi=120)
        plt.close(figure)
    return list(pictures)


def _two(figure: Any, scenario: Scenario, log: Log) -> tuple[Any, Any]:
    """Two axes over time, with what happened when."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    lower.set_xlabel("simulated time [s]")
    for axes in (upper, lower):
        axes.grid(alpha=0.3)
        _mark(axes, log)
    lower.set_xlim(0.0, scenario.duration)
    return upper, lower


def _mark(axes: Any, log: Log) -> None:
    for i, (t, name) in enumerate(log.events):
        axes.axvline(t, color="0.4", linewidth=0.8, linestyle="--")
        height = 0.98 - 0.06 * (i % 2)
        axes.text(
            t, height, f" {name}", transform=axes.get_xaxis_transform(), va="top", fontsize=8
        )


def _observer(figure: Any, scenario: Scenario, log: Log) -> None:
    upper, lower = _two(figure, scenario, log)
    t, errors = log.velocity_errors
    upper.set_title("error of the observed base velocity")
    upper.semilogy(t, np.linalg.norm(errors[:, 3:], axis=1) / DEG, linewidth=0.6)
    upper.set_ylabel("angular [deg/s]")
    lower.semilogy(t, 1e3 * np.linalg.norm(errors[:, :3], axis=1), linewidth=0.6)
    lower.set_ylabel("linear [mm/s]")


def _joints(figure: Any, scenario: Scenario, log: Log) -> None:
    upper, lower = _two(figure, scenario, log)
    t, errors = scenario.joint_errors(log, 0.0, scenario.duration)
    upper.set_title("joints")
    positions = log.joints.all.between(0.0, scenario.duration).first
    for which, scale, _ in scenario.joint_units:
        for i in np.flatnonzero(which):
            (line,) = upper.plot(t, positions[:, i], label=scenario.robot.joint_names[i])
            lower.plot(t, scale * errors[:, i], color=line.get_color(), linewidth=0.8)
    upper.set_ylabel("position [rad or m]")
    upper.legend(fontsize=7, ncols=4, loc="lower left")
    units = " or ".join(unit for *_, unit in scenario.joint_units)
    lower.set_ylabel(f"off the target [{units}]")


def _base(figure: Any, scenario: Scenario, log: Log) -> None:
    upper, lower = _two(figure, scenario, log)
    heard = log.truth.all
    upper.set_title("the base, from where it began")
    away = heard.first[:, :3, 3] - heard.first[0, :3, 3]
    for i, name in enumerate("xyz"):
        upper.plot(heard.t, 1e3 * away[:, i], label=name)
    upper.legend(fontsize=7)
    upper.set_ylabel("position [mm]")
    lower.plot(heard.t, [turned(heard.first[0], g) / DEG for g in heard.first])
    lower.set_ylabel("turned by [deg]")


def _curvature(figure: Any, scenario: Scenario, log: Log) -> None:
    assert log.curvature is not None
    joints, columns, rows, values = log.curvature
    axes = figure.subplots()
    most = float(abs(values).max()) or 1.0
    levels = np.linspace(-most, most, 21)
    painted = axes.contourf(columns, rows, values, levels=levels, cmap="RdBu_r")
    figure.colorbar(painted, ax=axes, label="turn of the base for each area of a loop")
    axes.set_title("curvature of the connection: loops around dark areas turn the base")
    first, _, second = joints.partition(", ")
    axes.set_xlabel(f"{first}, from its last position [rad or m]")
    axes.set_ylabel(f"{second}, from its last position [rad or m]")


def _tool(figure: Any, scenario: Failure, log: Log) -> None:
    axes = figure.subplots()
    t, off = scenario.tool_errors(log)
    axes.plot(t, 1e3 * off)
    axes.grid(alpha=0.3)
    _mark(axes, log)
    axes.set_title("tool off its way")
    axes.set_xlabel("simulated time [s]")
    axes.set_ylabel("[mm]")


def _payload(figure: Any, scenario: Grasp, log: Log) -> None:
    axes = figure.subplots()
    axes.plot(*np.array(scenario.found).reshape(-1, 2).T, label="learnt")
    axes.axhline(MASS, color="0.4", linewidth=0.8, label="true")
    axes.grid(alpha=0.3)
    _mark(axes, log)
    axes.set_ylim(0.0, 2.0 * MASS)  # the first guesses are far off
    axes.set_title("mass of what was grasped")
    axes.set_xlabel("simulated time [s]")
    axes.set_ylabel("[kg]")
    axes.legend(fontsize=7)
