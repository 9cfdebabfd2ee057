# SPDX-License-Identifier: Apache-2.0
"""Speed against Pinocchio, in one run: ``make bench``.

Prints tables of ratios, each with its bar, and writes them to ``bench/results.md``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import control
import estimation
import locomotion
import quaternion
import ros
import simulation
from contest import BATCH_JOINTS, OURS, PAIRS, Contest, batch_candidates
from report import Row, machine, microseconds, overview, table
from startup import (
    FIRST_RESULT,
    OBSERVER,
    compile_seconds,
    first_result_seconds,
    import_seconds,
    warmup,
)
from timing import Candidate, interleaved
from tqdm import tqdm

Key = tuple[int | str, str]  # number of joints, or the module that measures, and candidate
Times = dict[Key, float]  # [s]
# Each has candidates() by name, rows(times) of them, a TITLE and a HEADER.
MODULES = (quaternion, simulation, estimation, control, locomotion)

RESULTS = Path(__file__).resolve().parent / "results.md"
SIZES = (3, 7, 14, 30, 100)
QUICK_SIZES = (3, 7)
ROUNDS = 100
QUICK_ROUNDS = 5
GROWTH = (30, 100)  # joints
LINEAR_GROWTH = (30, 300)  # joints, for what is O(n)
LINEAR_BAR = 13.0
BUSY = 0.5  # load of the last minute

# The most a ratio ours/peer may be, by what; a number for every n or one for each.
BARS: dict[str, float | dict[int, float]] = {
    "mass_and_connection": 0.4,
    "mass_matrix": {3: 1.7, 7: 1.7, 14: 1.25, 30: 0.7, 100: 0.7},
    "mass_matrix, peer dynibo": {7: 0.95, 30: 0.8, 100: 0.8},
    "reduced": 0.3,
    "curvature": 0.1,
    "reduced, peer without dccrba": 0.3,
    "forward_dynamics": {7: 1.2, 100: 1.2},
    "forward_dynamics, peer dynibo": {7: 0.95, 30: 0.8, 100: 0.8},
    "batch": 0.5,
}
IMPORT_BAR = 1.0  # [s]
# Of compilation, with an empty cache: CPU seconds and megabytes
WARMUP_BAR = 90.0
MEMORY_BAR = 600.0
FIRST_RESULT_BAR = 5.0
OBSERVER_BARS = {
    "invariant_ekf": 12.0,
    "alpha_beta": 5.0,
    "lie_group": 5.0,
    "differentiated_pose": 5.0,
}

METHOD = """\
The robots are random serial chains of revolute joints on a floating base, the same URDF text read
by both libraries, which are called from Python with ready-made arrays, 50 states in turn; ours
checks its input and returns fresh arrays. A round times a block of about 4 ms of every function
at every n, ours and the peer's next to each other, with the garbage collector off; a figure is
the least of {rounds} rounds, and a ratio is that of two such figures."""

PEERS = """\
- mass_and_connection: `pin.crba` and `numpy.linalg.solve` for A.
- mass_matrix: `pin.crba`; without a bar, also in its WORLD convention, which is not the default;
  `dynibo.FloatingRobot.mass_matrix`.
- reduced: `pin.crba`, `pin.computeCoriolisMatrix`, `pin.dccrba` and the transformation of Lemma 2
  in NumPy, by blocks; also with the rates from C + C^T in place of `dccrba`. Both give less than
  ours: Gamma in one piece, no S and B.
- curvature: central differences of the connection, 2n `pin.crba` and one stacked solve.
- forward_dynamics: `pin.aba`, the default method `hybrid` with everything passive;
  `dynibo.FloatingRobot.forward_dynamics`.
- batch: M and A of 10,000 configurations at n = 7, ours on all cores, against `pin.crba` of each
  in a loop; times are per configuration."""


@dataclass(frozen=True)
class Section:
    """A table of figures under a title."""

    title: str
    header: tuple[str, ...]
    rows: list[Row]

    def __str__(self) -> str:
        """Title and table as Markdown."""
        return f"## {self.title}\n\n{table(self.header, [row.line() for row in self.rows])}"


@dataclass
class Results:
    """What a run found out."""

    speed: list[Row] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    same: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """All figures."""
        return [*self.speed, *(row for section in self.sections for row in section.rows)]

    def glance(self) -> str:
        """The ratios that have a bar, a line for each kind; the README shows it too."""
        ratios: dict[str, dict[str, str]] = {}
        for row in self.speed:
            if row.bar is not None:
                cell = f"{row.figure:.2f} (bar {row.bar:.4g})"
                ratios.setdefault(row.what, {})[row.cells[0]] = cell
        sizes = list(dict.fromkeys(row.cells[0] for row in self.speed))
        lines = [(what, *(cells.get(n, "") for n in sizes)) for what, cells in ratios.items()]
        return table(("ours / peer", *(f"n = {n}" for n in sizes)), lines)

    def tables(self) -> str:
        """All tables as Markdown, and what is over its bar."""
        header = ("what", "n", "ours [us]", "peer [us]", "ratio", "bar", "verdict")
        parts = [
            "## Ratios at a glance",
            self.glance(),
            str(Section("Speed", header, self.speed)),
            *map(str, self.sections),
            "## Largest relative difference of the results",
            table(("n", "M", "A", "reduced", "curvature", "forward"), self.same),
            "## Verdict",
            overview(self.rows),
        ]
        return "\n\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    sizes = QUICK_SIZES if options.quick else SIZES
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    warn_if_busy()
    results = measure(sizes, rounds, full=not options.quick)
    tables = results.tables()
    print(tables)
    output = options.output or (None if options.quick else RESULTS)
    if output:
        output.write_text(document(tables, rounds), encoding="utf-8")
        print(f"\nwritten to {output.name}", file=sys.stderr)
    return int(options.strict and any(row.is_over for row in results.rows))


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Measure the speed of vm_dynamics against Pinocchio, in one run."
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"only n = {', '.join(map(str, QUICK_SIZES))}, few rounds, no compilation; "
        "writes nothing unless --output is given",
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help=f"rounds of every function [{ROUNDS}]"
    )
    parser.add_argument(
        "--output", type=Path, metavar="PATH", help=f"file to write [bench/{RESULTS.name}]"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a row is OVER")
    return parser


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"got {value}, expected at least 1")
    return value


def warn_if_busy() -> None:
    load = os.getloadavg()[0]
    if load > BUSY:
        print(
            f"warning: others use this machine (load {load:.1f}); the batch, which wants all "
            "cores, suffers most",
            file=sys.stderr,
        )


def measure(sizes: Sequence[int], rounds: int, *, full: bool) -> Results:
    """Run everything.

    Args:
        sizes: numbers of joints.
        rounds: turns of every function.
        full: also the growth from n = 30 to 100 and the process without a cache.
    """
    results = Results()
    contests = {n: Contest.of_size(n) for n in sizes}
    results.same = [(str(n), *agreement(contest)) for n, contest in contests.items()]
    with tqdm(total=rounds, unit="round", desc="bench") as progress:
        times = interleaved(all_candidates(contests, full), rounds, progress.update)
        progress.set_postfix_str("start-up")
        startup = startup_rows(full)
    results.speed = [row(what, n, times, *pair) for what, *pair in PAIRS for n in sizes]
    results.speed.append(row("batch", BATCH_JOINTS, times, "batch", "crba each"))
    if full:
        results.sections.append(growth_section(times))
    results.sections += [
        Section(module.TITLE, module.HEADER, module.rows(of_module(times, module.__name__)))
        for module in MODULES
    ]
    if full:
        results.sections.append(Section(ros.TITLE, ros.HEADER, ros.measure()))
    header = ("wall time of a fresh process", "figure", "bar", "verdict")
    results.sections.append(Section("Start-up", header, startup))
    return results


def of_module(times: Times, name: str) -> dict[str, float]:
    """The times of a module's candidates."""
    return {key[1]: seconds for key, seconds in times.items() if key[0] == name}


def growth_section(times: Times) -> Section:
    squares = [what for what in OURS if what != "forward_dynamics"]
    bar = (GROWTH[1] / GROWTH[0]) ** 2
    rows = [growth_row(what, times, GROWTH, bar) for what in squares]
    rows.append(growth_row("forward_dynamics", times, LINEAR_GROWTH, LINEAR_BAR))
    header = ("ours, number of joints", "small [us]", "large [us]", "ratio", "bar", "verdict")
    return Section("Growth (no faster than n^2, or n where it is O(n))", header, rows)


def agreement(contest: Contest) -> list[str]:
    return [f"{error:.0e}" for error in contest.disagreement().values()]


def all_candidates(contests: dict[int, Contest], full: bool) -> dict[Key, Candidate]:
    """Candidates by number of joints, or module, and name; all take part in every round."""
    candidates: dict[Key, Candidate] = {
        (n, name): candidate
        for n, contest in contests.items()
        for name, candidate in contest.candidates().items()
    }
    if full:
        long = LINEAR_GROWTH[1]
        forward = Contest.of_size(long).forward_candidates()["forward_dynamics"]
        candidates[long, "forward_dynamics"] = forward
    batch = batch_candidates()
    candidates |= {(BATCH_JOINTS, name): batch[name] for name in batch}
    for module in MODULES:
        candidates |= {(module.__name__, key): c for key, c in module.candidates().items()}
    return candidates


def row(what: str, n: int, times: Times, ours: str, peer: str) -> Row:
    bars = BARS.get(what)
    bar = bars.get(n) if isinstance(bars, dict) else bars
    us, them = times[n, ours], times[n, peer]
    cells = str(n), microseconds(us), microseconds(them)
    return Row(what, cells, us / them, bar, digits=3, place=f"n = {n}")


def growth_row(what: str, times: Times, sizes: tuple[int, int], bar: float) -> Row:
    small, large = sizes
    before, after = times[small, what], times[large, what]
    cells = microseconds(before), microseconds(after)
    label = f"{what}, {small} to {large}"
    return Row(label, cells, after / before, bar=bar, place="growth")


def startup_rows(full: bool) -> list[Row]:
    seconds = import_seconds(repeats=5 if full else 1)
    rows = [Row("`import vm_dynamics`, caches warm [s]", (), seconds, IMPORT_BAR)]
    if full:
        first, second, written = first_result_seconds()
        rows += [
            Row("first mass matrix, no kernel compiled before [s]", (), first),
            Row("first mass matrix, second process [s]", (), second),
            Row("files the second process added to the cache", (), written, bar=0, digits=0),
            *compilation_rows(),
        ]
    return rows


def compilation_rows() -> list[Row]:
    """CPU time with an empty cache."""
    everything, memory = warmup()
    first = compile_seconds(FIRST_RESULT)
    rows = [
        Row("all kernels [CPU s]", (), everything, WARMUP_BAR, digits=0),
        Row("most memory of a process meanwhile [MB]", (), memory, MEMORY_BAR, digits=0),
        Row("import, load, first mass matrix [CPU s]", (), first, FIRST_RESULT_BAR),
    ]
    for name, bar in OBSERVER_BARS.items():
        cost = compile_seconds(OBSERVER.format(name=name))
        rows.append(Row(f"{name}, built [CPU s]", (), cost, bar))
    return rows


def document(tables: str, rounds: int) -> str:
    """The whole of results.md."""
    return (
        "# Speed of vm_dynamics against Pinocchio and dynibo\n\n"
        f"Written by `make bench`. {machine()}.\n\n"
        f"{METHOD.format(rounds=rounds)}\n\n"
        f"The peers:\n{PEERS}\n\n{tables}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
