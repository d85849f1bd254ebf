"""Run a program that reads stdin and writes stdout in a fork, as Python would run it from a file.

All of this code runs in the untrusted process and protects nothing. The program can change or replace every
line of it and gains nothing by that, because only its stdout counts.
LiveCodeBench's own runner has another way to run such a program (`run_mocked`).
"""

from __future__ import annotations

import ast
import atexit
import builtins
import gc
import io
import os
import sys
import types
from _frozen_importlib_external import SourceFileLoader
from _weakref import ref

from . import contest_preamble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PROGRAM_NAME = "candidate.py"
# Python's exit code if the rest of the output cannot be written.
NOT_FLUSHED = 120
# A shell reports a process that SIGINT ended with this code, and Python ends itself with SIGINT.
INTERRUPTED = 130
# Most contest programs import these modules, so each fork finds them imported. `threading` is missing,
# because its work after a fork would copy more pages in each child than an import by those that want it.
WARM_MODULES = (
    *("array", "bisect", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq"),
    *("itertools", "json", "math", "operator", "random", "re", "statistics", "string"),
)
# A program's threads may still use this module when the others are released, and nothing in it prints.
KEPT_MODULE = "threading"
# A program whose text has none of these words has no object whose release prints. It has no finalizer, no
# generator or coroutine that waits in a `finally`, no file but the standard ones, and no hidden code.
RELEASING_WORDS = (
    *(b"__del", b"weakref", b"finalize", b"yield", b"async", b"open", b"IO", b"Buffered", b"exec", b"eval"),
    *(b"__import__", b"import_module", b"runpy", b"ctypes", b"socket", b"tempfile", b"subprocess"),
    *(b"multiprocessing", b"concurrent", b"pickle", b"marshal", b"builtins", b"coding"),
    *(b"detach", b"stdout.buffer", b"__class__"),
)
LAST_ERROR = ("last_type", "last_value", "last_traceback")


class _Start:
    """The interpreter's state before a program runs, recorded once for all forks."""

    modules: frozenset[str] = frozenset()
    builtins: dict[str, Any] = {}  # noqa: RUF012 - replaced, never changed


def warm_up() -> None:
    """Import the modules that most programs import, in their parent. A second call does nothing."""
    if _Start.modules:
        return
    for name in WARM_MODULES:
        __import__(name)
    # The interpreter was started without site. Its import alone adds nothing, and each function adds
    # builtins.
    import site

    site.setquit()
    site.setcopyright()
    site.sethelper()
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __file__=PROGRAM_NAME)
    contest_preamble.prepare(module)
    _Start.builtins = dict(vars(builtins))
    _Start.modules = frozenset((*sys.modules, KEPT_MODULE))
    open_stdin()
    # The spawner froze the objects of its start. A collection in a child would copy the pages of all others.
    gc.freeze()


def run(preamble: bytes, program: bytes) -> int:
    """Run a program to its end, with threads, exit handlers and buffers, and return its exit code.

    The program is a file in the current folder, because processes that it spawns import that file, and
    because `inspect` and tracebacks read it. Only this process removes the file at the end.
    """
    starter = os.getpid()
    path = os.path.join(os.getcwd(), PROGRAM_NAME)
    _write(path, program)
    module = contest_preamble.find(preamble)
    sources = [preamble, program] if module is None else [program]
    # Found out before the program runs, because it may replace builtins.
    releases = any(word in source for source in sources for word in RELEASING_WORDS)
    if module is not None and releases:
        module = _copy(module)
    namespace = main_namespace(module)
    _complete(namespace, path)
    _discount_frames(_depth() + 1)  # The call of exec() counts as one frame too.
    if module is not None:
        contest_preamble.finish(namespace)
    try:
        for source in sources:
            exec(compile(source, PROGRAM_NAME, "exec", dont_inherit=True), namespace)
        status = 0
    except BaseException as error:
        status = _report(error)
    # Our references must not keep the program's objects alive, because their release runs their finalizers.
    del namespace, module
    status = _finalize(status, releases=releases)
    if os.getpid() == starter:
        _remove(path)
    return status


def main_namespace(module: types.ModuleType | None = None) -> dict[str, Any]:
    """Return the namespace of this module, or of a new one, as `__main__`."""
    if module is None:
        module = types.ModuleType("__main__")
        module.__dict__.update(__builtins__=builtins, __file__=PROGRAM_NAME)
    sys.modules["__main__"] = module
    return module.__dict__


def _copy(module: types.ModuleType) -> types.ModuleType:
    """Return a module with the same names, which the garbage collector can release.

    The spawner froze the prepared module, so that nothing in a cycle with it would ever be released.
    """
    copied = types.ModuleType(module.__name__)
    copied.__dict__.update(module.__dict__)
    return copied


def open_stdin() -> None:
    """Open descriptor 0 as `sys.stdin`, as Python does at its start.

    A child inherits it, and has its input as descriptor 0 before it first reads.
    """
    buffer: Any = os.fdopen(0, "rb", closefd=False)
    buffer.raw.name = "<stdin>"
    stdin = io.TextIOWrapper(buffer, "utf-8", "surrogateescape", "\n")
    stdin.mode = "r"  # type: ignore[misc]
    sys.stdin = sys.__stdin__ = stdin  # type: ignore[misc]


def _write(path: str, program: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            os.write(descriptor, program)
        finally:
            os.close(descriptor)
    except OSError:
        pass  # The program exceeds the disk limit, and can run without its file.


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # The program removed the file or closed its folder.


def _complete(namespace: dict[str, Any], path: str) -> None:
    """Give a module and the command line the attributes that Python sets when it starts with a file."""
    loader = SourceFileLoader("__main__", path)
    namespace.update(__file__=path, __cached__=None, __annotations__={}, __loader__=loader)
    sys.argv = [PROGRAM_NAME]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = ["python3", PROGRAM_NAME]
    sys.path[:] = [os.path.dirname(path), *(folder for folder in sys.path if folder)]


def _depth() -> int:
    """Return the number of frames on the stack, the caller's included."""
    frame = sys._getframe(1)
    depth = 0
    while frame is not None:
        depth += 1
        frame = frame.f_back  # type: ignore[assignment]
    return depth


def _discount_frames(depth: int) -> None:
    """Count the recursion limit from the program's first frame, which has `depth` of our frames below it."""
    set_limit, get_limit = sys.setrecursionlimit, sys.getrecursionlimit

    def setrecursionlimit(limit: int, /) -> None:
        # Python itself must refuse a wrong limit.
        set_limit(limit + depth if type(limit) is int and limit > 0 else limit)

    def getrecursionlimit() -> int:
        return get_limit() - depth

    sys.setrecursionlimit, sys.getrecursionlimit = setrecursionlimit, getrecursionlimit
    setrecursionlimit(get_limit())


def _report(error: BaseException) -> int:
    """Report an uncaught exception on stderr as Python does, and return the exit code for it."""
    if isinstance(error, SystemExit):
        return _exit_code(error.code)
    trace = error.__traceback__
    shown = trace.tb_next if trace else None  # The traceback must not contain the frame of run().
    error = error.with_traceback(shown)
    for name, value in zip(LAST_ERROR, (type(error), error, shown)):
        setattr(sys, name, value)
    try:
        getattr(sys, "excepthook", sys.__excepthook__)(type(error), error, shown)
    except SystemExit as leaving:
        return _exit_code(leaving.code)
    except BaseException as failure:
        print("Error in sys.excepthook:", file=sys.__stderr__)
        sys.__excepthook__(type(failure), failure, failure.__traceback__)
        print("\nOriginal exception was:", file=sys.__stderr__)
        sys.__excepthook__(type(error), error, shown)
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _exit_code(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    try:
        print(code, file=sys.stderr)
    except Exception:
        pass  # Python exits with 1 whether or not the text can be written.
    return 1


def _finalize(status: int, *, releases: bool) -> int:
    """Run the steps of Python's end that a program can observe, in its order, and return the exit code.

    `releases` is whether the release of an object may print. Releasing all modules writes to most objects
    that this process shares with its spawner, and so copies their pages.

    Python's own `Py_FinalizeEx` then takes the interpreter apart, which would cost a fork four times as much
    and shows in no output.
    """
    if "threading" in sys.modules:
        try:
            sys.modules["threading"]._shutdown()
        except BaseException as error:
            sys.__excepthook__(type(error), error, error.__traceback__)
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass  # The error has been reported already, and Python 3.9 raises the last one again.
    if not _flush():
        status = NOT_FLUSHED
    flush_c = _c_flush()
    try:
        if releases:
            if gc.isenabled():
                gc.collect()
            _release_modules()
        _restore_streams()
    except BaseException:
        pass  # The program replaced a builtin that this code needs, which does not invalidate its output.
    try:
        # Finalizers may have printed. Python flushes their output too, and does not report a failure.
        sys.stdout.flush()
    except BaseException:
        pass
    if flush_c is not None:
        flush_c(None)
    return status


def _flush() -> bool:
    """Flush stdout and stderr, even if the program has replaced them. Return whether both succeeded."""
    flushed = True
    for name in ("stdout", "stderr"):
        file = getattr(sys, name, None)
        if file is None or _is_closed(file):
            continue
        try:
            file.flush()
        except BaseException as error:
            flushed = False
            sys.__excepthook__(type(error), error, error.__traceback__)
    return flushed


def _is_closed(file: Any) -> bool:
    try:
        return bool(file.closed)
    except Exception:
        return False  # Python then tries to flush the stream.


def _release_modules() -> None:
    """Release the program's modules and their objects, because their finalizers may print.

    Modules from before the program stay, because nothing in them prints.
    """
    _restore_streams()
    for name in LAST_ERROR:
        setattr(sys, name, None)
    released = []
    for name in [name for name in sys.modules if name not in _Start.modules or name == "__main__"]:
        try:
            released.append(ref(sys.modules[name]))
        except (KeyError, TypeError):
            continue  # A program may store any object there, and a finalizer may remove one.
        sys.modules[name] = None  # type: ignore[assignment]
    # A function of the program among the builtins would keep all of the program's objects alive.
    for name in vars(builtins).keys() - _Start.builtins.keys():
        del vars(builtins)[name]
    vars(builtins).update(_Start.builtins)
    gc.collect()
    for module in reversed([reference() for reference in released]):
        if isinstance(module, types.ModuleType):
            _clear(vars(module))
    gc.collect()


def _restore_streams() -> None:
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__", None))


def _clear(names: dict[str, Any]) -> None:
    """Set the names of a module to None in Python's order, private names first, and never the builtins."""
    for name in [name for name in names if name[:1] == "_" and name[1:2] != "_"]:
        names[name] = None
    for name in list(names):
        if name != "__builtins__":
            names[name] = None


def _c_flush() -> Callable[[None], int] | None:
    """Return C's `fflush`, or None if the program cannot have written through C's own stdio.

    C flushes its buffers when a process exits, but a fork ends without that.
    """
    # Every program has its extension module loaded, because the spawner has used it.
    if "ctypes" not in sys.modules:
        return None
    import ctypes

    return ctypes.CDLL(None).fflush


FUNCTION = "wrapped_function"
GUARD = "__name__ == '__main__'"
# The runner removes these functions.
TAKEN = {
    "os": (
        *("kill", "system", "putenv", "remove", "removedirs", "rmdir", "fchdir", "setuid", "fork", "forkpty"),
        *("killpg", "rename", "renames", "truncate", "replace", "unlink", "fchmod", "fchown", "chmod"),
        *("chown", "chroot", "lchflags", "lchmod", "lchown", "getcwd", "chdir"),
    ),
    "builtins": ("quit", "help"),
}


class MockedBuffer:
    """`sys.stdin.buffer`. `read` returns everything and `readline` the first line, each time."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()

    def read(self, *_size: int) -> bytes:
        return self._data

    def readline(self, *_size: int) -> bytes:
        return self._data.split(b"\n")[0] + b"\n"


class MockedStdin:
    """`sys.stdin`. Only `readline` remembers its position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = io.StringIO(text)
        self.buffer = MockedBuffer(text)

    def read(self, *_size: int) -> str:
        return self._text

    def readline(self, *size: int) -> str:
        return self._lines.readline(*size)

    def readlines(self, *_size: int) -> list[str]:
        return self._text.split("\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lines, name)


def run_mocked(preamble: bytes, program: bytes) -> int:
    """Run a program in the way of LiveCodeBench's own runner, and return 0 if it reaches its end.

    It is one function of this process, and nothing is awaited afterwards. This differs from a real process in
    ways that fail correct programs. Descriptor 0 is not the input, so only readers of `sys.stdin` see the
    input. `read` returns all of the input each time. Output of a thread or an exit handler after the last
    statement is lost. Source: `testing_util.py` of LiveCodeBench (Jain et al. 2024, arXiv 2403.07974).
    """
    with open(0, encoding="utf-8", closefd=False) as file:
        text = file.read()
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    namespace = main_namespace()
    namespace["__name__"] = "tmp_sol"
    said = io.StringIO()
    stdout, sys.stdout = sys.stdout, said
    try:
        exec(compile(_as_function(preamble, program), PROGRAM_NAME, "exec", dont_inherit=True), namespace)
        function = namespace[FUNCTION]
        _take_away()
        sys.stdin = MockedStdin(text)
        try:
            function()
        except SystemExit:
            pass
        status = 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    print(said.getvalue(), end="", file=stdout, flush=True)
    return status


def _as_function(preamble: bytes, program: bytes) -> ast.Module:
    """Return the program with all but its imports as the body of a function, and without its main guard."""
    tree = ast.parse(program)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.If) and ast.unparse(last.test) == GUARD:
        tree.body[-1:] = last.body
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    others = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    (function,) = ast.parse(f"def {FUNCTION}(): pass").body
    function.body = others or [ast.Pass()]  # type: ignore[attr-defined]
    module = ast.parse(preamble)
    # The runner's own preamble does this. Therefore a program that replaces a builtin in its module changes
    # nothing.
    module.body += ast.parse("from builtins import *").body
    module.body += [*imports, function]
    return ast.fix_missing_locations(module)


def _take_away() -> None:
    for module, names in TAKEN.items():
        for name in names:
            setattr(sys.modules[module], name, None)
