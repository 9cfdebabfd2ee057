# SPDX-License-Identifier: Apache-2.0
"""Compiled code: small functions that call each other, and entry points that Python calls.

Left alone, Numba would compile anew for every array type that it meets: a float32 shape or a
transposed one would stall a control loop for seconds. An entry point knows one signature,
compiles it at its first use (or loads it from the cache on disk) and refuses anything else with
a TypeError. So the hot path calls ``run`` at once, without inspecting its arguments, and only a
refusal leads to the checks that convert or complain, and to ``checked``.

Numba takes what it cached for stale if the kernel's own file has changed. Here it is stale if any
source has changed that the kernel's module imports from this package, directly or not.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import importlib
import logging
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import binding
from numba import njit
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock

log = logging.getLogger("vm_dynamics")

# Reordered sums and fused products are welcome; NaN and infinity keep their meaning.
FASTMATH = {"contract", "reassoc", "nsz", "arcp"}
_OPTIONS: dict[str, Any] = {
    "cache": True,
    "error_model": "numpy",
    "nogil": True,
    "no_cfunc_wrapper": True,
}
# Of all kernels with an empty cache, as `make bench` prints it. Pages refer to the help of
# `vm_dynamics warmup`, so it is only here.
WARMUP_CPU_SECONDS = 80
GARBAGE_THRESHOLD = 5000  # new objects before a collection, while kernels are compiled
_IMPORT = re.compile(r"^(?:from|import) (vm_dynamics[\w.]*)", re.MULTILINE)


@functools.cache
def _source(module: str) -> bytes:
    return Path(str(sys.modules[module].__file__)).read_bytes()


def sources_of(module: str) -> set[str]:
    """Names of a module of this package and of all that it imports from it, directly or not."""
    found: set[str] = set()
    left = [module]
    while left:
        name = left.pop()
        if name not in found and name in sys.modules:
            found.add(name)
            left += _IMPORT.findall(_source(name).decode())
    return found


@functools.cache
def source_key(module: str) -> str:
    """Hash of everything that the kernels of a module are compiled from."""
    digest = hashlib.sha256()
    for name in sorted(sources_of(module)):
        digest.update(name.encode() + b"\0" + _source(name) + b"\0")
    return digest.hexdigest()


def _keyed(dispatcher: Any) -> Any:
    """Let the cache of a function depend on all its sources; Numba has no public way."""
    dispatcher._cache._cache_file._source_stamp = source_key(dispatcher.py_func.__module__)
    return dispatcher


class _InnerLibrary(JITCodeLibrary):
    """LLVM's code of a function that only compiled code calls, for linking.

    Numba would optimize it and make machine code of it, and do so again with the copy in each
    kernel that calls it. Only those copies ever run, so nothing is done here but for them: a
    quarter of all compilation. Numba has no public way, so this overrides inner parts of it that
    are alike from 0.58 to 0.68.
    """

    def _optimize_final_module(self) -> None:
        """Leave it to the kernels."""

    def _finalize_final_module(self) -> None:
        """Hand over a module that has no code but the pointers that Numba wants to set."""
        linked = self._final_module
        text = [str(self._codegen._create_empty_module(self.name))]
        text += [str(v) for v in linked.global_variables if v.name.startswith("_ZN08NumbaEnv")]
        self._final_module = binding.parse_assembly("\n".join(text))
        super()._finalize_final_module()
        self._final_module = linked


class _InnerCompiler(Compiler):
    """Compiles into an :class:`_InnerLibrary`."""

    def compile_extra(self, func: Callable) -> Any:
        """Compile a function of Python."""
        library = _InnerLibrary(self.state.targetctx.codegen(), func.__qualname__)
        library.enable_object_caching()
        self.state.library = library
        return super().compile_extra(func)


# Compiled code calls it, and nobody else.
_INNER: dict[str, Any] = {
    **_OPTIONS,
    "no_cpython_wrapper": True,
    "pipeline_class": _InnerCompiler,
}


def jit(function: Callable) -> Any:
    """Decorator of what compiled code calls."""
    return _keyed(njit(function, **_INNER, fastmath=FASTMATH))


def exact(function: Callable) -> Any:
    """Decorator of what compiled code calls and what no sum may be reordered in."""
    return _keyed(njit(function, **_INNER))


@exact
def all_finite(x):
    """Whether a vector holds no NaN or infinity, a test that reordering would fold away."""
    for i in range(x.size):
        if not math.isfinite(x[i]):
            return False
    return True


# What a refused call raises: no such signature, or the kernel's own check of sizes and NaN.
REFUSED = (TypeError, ValueError)


def _not_compiled(*_: Any) -> None:
    raise TypeError("not compiled yet")


class _Announcement(event.Listener):
    """Says once in a process that it is not hanging but compiling."""

    was_made = False

    def on_start(self, event: Any) -> None:
        if not _Announcement.was_made:
            _Announcement.was_made = True
            log.warning(
                "compiling kernels, once per installation: some seconds each, about %d s of CPU "
                "time for all of them; `vm_dynamics warmup` compiles all at once",
                WARMUP_CPU_SECONDS,
            )

    def on_end(self, event: Any) -> None:
        pass


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python's garbage collector run seldom, which takes a tenth of all compilation."""
    with global_compiler_lock:  # Numba's own: the next thread finds the threshold as it was
        given = gc.get_threshold()
        gc.set_threshold(max(GARBAGE_THRESHOLD, given[0]), *given[1:])
        try:
            yield
        finally:
            gc.set_threshold(*given)


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
        self._dispatcher = _keyed(njit(function, **_OPTIONS, fastmath=FASTMATH))
        self._signature = signature
        self.name = function.__name__
        self.module = function.__module__
        self.run: Any = _not_compiled

    @property
    def is_compiled(self) -> bool:
        """Whether it can run at once."""
        return self.run is not _not_compiled

    def compile(self) -> None:
        """Compile, or load from the cache, unless that was done before."""
        if not self.is_compiled:
            with event.install_listener("numba:compile", _Announcement()), _rare_collections():
                self._dispatcher.compile(self._signature)
            self._dispatcher.disable_compile()
            self.run = self._dispatcher

    def checked(self, *arguments: Any) -> Any:
        """Run with arguments of the right types and sizes, compiling first if need be."""
        self.compile()
        return self.run(*arguments)


ENTRY_POINTS: list[EntryPoint] = []


class Compilation(NamedTuple):
    """What it took to compile the kernels of a module."""

    kernels: int  # how many
    cpu_seconds: float
    megabytes: float  # the most memory that this process ever had


def compile_module(name: str) -> Compilation:
    """Compile all entry points of a module."""
    import resource  # Windows has none, where only this would need it

    start = time.process_time()
    importlib.import_module(name)
    points = [point for point in ENTRY_POINTS if point.module == name]
    _Announcement.was_made = True  # who calls this says so
    for point in points:
        point.compile()
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Compilation(len(points), time.process_time() - start, kilobytes / 1024.0)


def entry(signature: str) -> Callable[[Callable], EntryPoint]:
    """Decorator that makes a kernel an :class:`EntryPoint`."""

    def decorate(function: Callable) -> EntryPoint:
        point = EntryPoint(function, signature)
        ENTRY_POINTS.append(point)
        return point

    return decorate
