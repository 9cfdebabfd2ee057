# SPDX-License-Identifier: Apache-2.0
"""Entry points from Python into compiled code, each with one signature.

Left alone, Numba would compile anew for every array type that it meets: a float32 shape or a
transposed one would stall a control loop for seconds. An entry point knows one signature,
compiles it at its first use (or loads it from the cache on disk) and refuses anything else with
a TypeError. So the hot path calls ``run`` at once, without inspecting its arguments, and only a
refusal leads to the checks that convert or complain, and to ``checked``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numba import njit

# Reordered sums and fused products are welcome; NaN and infinity keep their meaning.
FASTMATH = {"contract", "reassoc", "nsz", "arcp"}
jit = njit(cache=True, error_model="numpy", nogil=True, fastmath=FASTMATH)

# A call passes nine words an array, which small robots feel; inlining everywhere would compile
# the same loops again and again. So only these are worth it.
HOT = {
    "mass_matrix",
    "connection",
    "mass_and_connection",
    "batch_mass_and_connection",
    "forward_sweeps",
}


def _caller_is_hot(expr: Any, caller: Any, callee: Any) -> bool:
    return caller.func_id.func_name in HOT


inlined = njit(
    cache=True, error_model="numpy", nogil=True, fastmath=FASTMATH, inline=_caller_is_hot
)


@njit(cache=True, error_model="numpy", nogil=True)
def all_finite(x):
    """Whether a vector holds no NaN or infinity; compiled without reordering, which folds it."""
    for i in range(x.size):
        if not math.isfinite(x[i]):
            return False
    return True


# What a refused call raises: no such signature, or the kernel's own check of sizes and NaN.
REFUSED = (TypeError, ValueError)


def _not_compiled(*_: Any) -> None:
    raise TypeError("not compiled yet")


class EntryPoint:
    """A kernel that Python calls with arrays of one fixed signature.

    Attributes:
        run: the compiled function, which refuses other types; before it is compiled, all.
        name: name of the kernel.
        module: where it is defined.
    """

    __slots__ = ("_dispatcher", "_signature", "module", "name", "run")

    def __init__(self, function: Callable, signature: str) -> None:
        """Remember what to compile."""
        self._dispatcher = jit(function)
        self._signature = signature
        self.name = function.__name__
        self.module = function.__module__
        self.run: Any = _not_compiled

    def compile(self) -> None:
        """Compile, or load from the cache, unless that was done before."""
        if self.run is _not_compiled:
            self._dispatcher.compile(self._signature)
            self._dispatcher.disable_compile()
            self.run = self._dispatcher

    def checked(self, *arguments: Any) -> None:
        """Run with arguments of the right types and sizes, compiling first if need be."""
        self.compile()
        self.run(*arguments)


ENTRY_POINTS: list[EntryPoint] = []


def entries_of(package: str) -> list[EntryPoint]:
    """Entry points of all modules of a package that were imported."""
    return [point for point in ENTRY_POINTS if point.module.startswith(f"{package}.")]


def entry(signature: str) -> Callable[[Callable], EntryPoint]:
    """Decorator that makes a kernel an :class:`EntryPoint`."""

    def decorate(function: Callable) -> EntryPoint:
        point = EntryPoint(function, signature)
        ENTRY_POINTS.append(point)
        return point

    return decorate
