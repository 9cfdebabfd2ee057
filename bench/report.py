# SPDX-License-Identifier: Apache-2.0
"""The report of a run: rows with their bars, tables, the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path

OVER = "OVER"


@dataclass(frozen=True)
class Row:
    """A figure and the most it may be.

    Attributes:
        what: what was measured.
        cells: what the table shows between ``what`` and the figure.
        figure: ratio, seconds or count.
        bar: the most it may be; None for a figure that is only shown.
        digits: digits of the figure behind the point.
        place: where it was measured, for the list of those over their bar.
    """

    what: str
    cells: tuple[str, ...]
    figure: float
    bar: float | None = None
    digits: int = 2
    place: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the figure is above its bar."""
        return self.bar is not None and self.figure > self.bar

    def line(self) -> tuple[str, ...]:
        """Cells of the table."""
        bar = "-" if self.bar is None else f"{self.bar:.4g}"
        verdict = "-" if self.bar is None else OVER if self.is_over else "ok"
        return (self.what, *self.cells, f"{self.figure:.{self.digits}f}", bar, verdict)


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table that is readable as text too: first column left, others right."""
    rows = [tuple(header), *map(tuple, lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    rule = "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths))
    text = [f"| {' | '.join(map(_aligned, row, widths, count()))} |" for row in rows]
    return "\n".join([text[0], f"|{rule}|", *text[1:]])


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column else cell.ljust(width)


def microseconds(seconds: float) -> str:
    """A time for a table [us]."""
    return f"{1e6 * seconds:.2f}" if seconds < 1e-4 else f"{1e6 * seconds:.0f}"


def overview(rows: Sequence[Row]) -> str:
    """What is over its bar, in words."""
    over = [row for row in rows if row.is_over]
    barred = sum(row.bar is not None for row in rows)
    if not over:
        return f"All {barred} figures that have a bar keep it."
    lines = [f"{len(over)} of {barred} figures are {OVER} their bar:"]
    for row in over:
        name = f"{row.what}, {row.place}" if row.place else row.what
        lines.append(f"- {name}: {row.figure:.{row.digits}f}, bar {row.bar:.4g}")
    return "\n".join(lines)


def machine() -> str:
    """Processor and versions, in a line."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "pin"))
    return (
        f"{_processor()}, {os.cpu_count()} cores; "
        f"{platform.python_implementation()} {platform.python_version()}, {packages}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
