"""A program that reads stdin and writes stdout, run in a fork as Python would run it from a file.

All of this runs in the hostile process. Nothing here protects anything: the program can change or
replace every line of it, and gains nothing, because only what comes out of its stdout counts.
"""

from __future__ import annotations

import builtins
import gc
import io
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROGRAM_NAME = "candidate.py"
# What Python exits with where the last of the output cannot be written.
NOT_FLUSHED = 120
# What programs of contests import, so that a fork finds it there.
WARM_MODULES = (
    *("array", "bisect", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq"),
    *("itertools", "json", "math", "operator", "queue", "random", "re", "statistics", "string", "threading"),
)


def warm_up() -> None:
    """Import in the parent of many programs what most of them import; does nothing the second time."""
    for name in WARM_MODULES:
        __import__(name)
    # As the spawner did at its start: else a collection in a child would copy all of these pages.
    gc.freeze()


def run(preamble: bytes, program: bytes) -> int:
    """Run a program to its very end, threads, exit handlers and buffers included; return its exit code."""
    read_stdin_anew()
    namespace = main_namespace()
    try:
        for source in (preamble, program):
            exec(compile(source, PROGRAM_NAME, "exec", dont_inherit=True), namespace)
        status = 0
    except BaseException as error:
        status = _status_of(error)
    try:
        status = _finish(status)
    finally:
        # Files that nobody has closed are written when they are let go.
        namespace.clear()
    return status


def main_namespace() -> dict[str, Any]:
    """Return the namespace of a new module `__main__`."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __file__=PROGRAM_NAME)
    sys.modules["__main__"] = module
    return module.__dict__


def read_stdin_anew() -> None:
    """Open descriptor 0 as stdin: the object that is there remembers another file."""
    raw = io.FileIO(0, "r", closefd=False)
    raw.name = "<stdin>"
    stdin = io.TextIOWrapper(io.BufferedReader(raw), "utf-8", "surrogateescape", "\n")
    sys.stdin = sys.__stdin__ = stdin  # type: ignore[misc]


def _status_of(error: BaseException) -> int:
    """Say what an uncaught exception comes to, as Python does: a text on stderr and an exit code."""
    if isinstance(error, SystemExit):
        code = error.code
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xFF
        print(code, file=sys.stderr)
        return 1
    trace = error.__traceback__
    sys.excepthook(type(error), error, trace.tb_next if trace else None)
    return 1


def _finish(status: int) -> int:
    """Do what Python does at its end, in its order: wait for threads, call exit handlers, write buffers."""
    import atexit

    if "threading" in sys.modules:
        try:
            sys.modules["threading"]._shutdown()
        except BaseException as error:
            _status_of(error)
    atexit._run_exitfuncs()
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BaseException:
        status = NOT_FLUSHED
    try:
        sys.stderr.flush()
    except BaseException:
        pass
    return status
