"""The entry point of the process: handles Ctrl-C, guards standard output and error, and exits.

Until `main` installs a handler, Ctrl-C prints Python's traceback. So this module imports only modules that
are built into the interpreter. Ctrl-C during Python's own start, about 15 ms, cannot be handled.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself imports `enum`
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

INTERRUPTED = 128 + signal.SIGINT
# A second Ctrl-C ends the process if it comes more than this long after the first.
CLEAN_UP_SECONDS = 5.0


class Interrupts:
    """Handles Ctrl-C in the whole process. An ignored SIGINT, as with nohup, stays ignored.

    During imports Ctrl-C ends the process at once, because there is nothing to clean up. During a command it
    raises KeyboardInterrupt, but only once, so that no clean-up is interrupted.
    """

    def __init__(self) -> None:
        self._at: float | None = None
        self._ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        self.end_at_once()

    @property
    def happened(self) -> bool:
        return self._at is not None

    def end_at_once(self) -> None:
        """Let Ctrl-C end the process from now on."""
        if not self._ignored:
            signal.signal(signal.SIGINT, _end)

    def raise_once(self) -> None:
        """Let Ctrl-C raise KeyboardInterrupt from now on."""
        if self._ignored:
            return
        # Python would only print a KeyboardInterrupt that a destructor or a callback raises.
        sys.unraisablehook = _end_on_interrupt
        signal.signal(signal.SIGINT, self._raise)

    def finish(self) -> None:
        """Let Ctrl-C end the process while Python shuts down, unless a command has set it to be ignored."""
        if signal.getsignal(signal.SIGINT) == self._raise:
            self.end_at_once()

    def _raise(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._at is None:
            self._at = now
            raise KeyboardInterrupt
        if now - self._at > CLEAN_UP_SECONDS:
            _end(number, frame)


def main() -> NoReturn:
    """Run the command line, and exit with its exit code."""
    interrupts = Interrupts()
    from contextlib import suppress

    from harness.cli import app, streams

    streams.guard_standard_streams()
    code: Any = INTERRUPTED
    try:
        interrupts.raise_once()
        try:
            app.main(lambda: interrupts.happened)
        except SystemExit as end:
            code = end.code
        interrupts.finish()
    except KeyboardInterrupt:  # it is raised only once, so no other follows
        interrupts.finish()
    with suppress(streams.OutputError):  # the first error has been reported
        sys.stdout.flush()
    _exit(INTERRUPTED if interrupts.happened else code)


def _exit(code: Any) -> NoReturn:
    """Exit, even if the user's agent has left threads or processes that Python would wait for."""
    import threading

    children = sys.modules["multiprocessing"].active_children() if "multiprocessing" in sys.modules else []
    # Python waits for a daemon thread too, if it belongs to an executor.
    if threading.active_count() == 1 and not children:
        sys.exit(code)
    for child in children:
        child.kill()
    import atexit

    clean_up = threading.Thread(target=atexit._run_exitfuncs, daemon=True)
    clean_up.start()
    clean_up.join(CLEAN_UP_SECONDS)
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    try:
        os.write(2, b"error: interrupted\n")
    finally:
        os._exit(INTERRUPTED)


def _end_on_interrupt(unraisable: Any) -> None:
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _end(signal.SIGINT, None)
    sys.__unraisablehook__(unraisable)
