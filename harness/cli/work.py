"""The work of a command: it runs until its end or a signal, and the terminal shows its log meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from harness.runs.run_secrets import SecretFilter

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
EVERYTHING = 2
# Their records below a warning are about no request and no attempt.
_CHATTY = ("asyncio", "docker.auth", "docker.utils")


class Interrupted(typer.Exit):
    """A signal cancelled the command, and its clean-up is done. The command exits with 128 + signal."""


def run_until_signal(
    work: Coroutine[Any, Any, T], *, make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """Run `work` and return its result. Raises Interrupted.

    The first signal cancels the work. Further signals are ignored until the process exits. A signal that is
    ignored from the start, as with `nohup`, stays ignored. `make_loop` makes the event loop, None for
    asyncio's own.
    """
    interrupts = _Interrupts()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    caught = [number for number in SIGNALS if before[number] is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, interrupts.receive)
    try:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            return runner.run(interrupts.watch(work))
    finally:
        work.close()  # without a loop the work never began
        for number in caught:
            # Python removes its handlers before the process ends, but an ignored signal stays ignored.
            signal.signal(number, before[number] if interrupts.first is None else signal.SIG_IGN)


class _Interrupts:
    """The first signal that arrived, and the task that it cancels."""

    def __init__(self) -> None:
        self.first: int | None = None
        self._task: asyncio.Task[Any] | None = None

    def receive(self, number: int, _frame: FrameType | None) -> None:
        if self.first is not None:
            return
        self.first = number
        if self._task is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing is left to cancel
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)

    async def watch(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        self._task = task
        if self.first is not None:
            task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            if self.first is not None:
                raise Interrupted(128 + self.first) from None
            raise


def run_shown(work: Coroutine[Any, Any, T], note: Callable[[str], None], verbosity: int) -> T:
    """Run the work of a command that has no config, as `run_until_signal` does, and show its log."""
    # Here, because a command that shows no log starts sooner without it.
    from harness.runs.run_secrets import make_log_filter

    with show_log(verbosity, note, make_log_filter()):
        return run_until_signal(work)


@contextlib.contextmanager
def show_log(verbosity: int, note: Callable[[str], None], secrets: SecretFilter) -> Iterator[None]:
    """Show the records of this process by `note` in the block, and let those for the log of a run pass.

    Args:
        verbosity: 0 for warnings, 1 also for the events of the run, 2 for the records of all libraries.
        note: shows a line, or several lines for a traceback. Any thread may call it.
        secrets: removes the secrets of the run.
    """
    from harness.runs.run_log import EVENTS, SafeFormatter

    handler = _Lines(note)
    handler.setFormatter(SafeFormatter(secrets, dated=False))
    handler.addFilter(lambda record: _is_shown(record, verbosity, EVENTS))
    root, package = logging.getLogger(), logging.getLogger("harness")
    chatty = [logging.getLogger(name) for name in _CHATTY]
    before = [(logger, logger.level) for logger in (root, package, *chatty)]
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbosity >= EVERYTHING else logging.WARNING)
    package.setLevel(logging.DEBUG if verbosity >= EVERYTHING else logging.INFO)
    for logger in chatty:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for logger, level in before:
            logger.setLevel(level)


def _is_shown(record: logging.LogRecord, verbosity: int, events: str) -> bool:
    if record.name == events and record.levelno >= logging.WARNING:
        # The display shows the notes of a run, and the report its errors.
        return verbosity >= EVERYTHING
    if record.name.partition(".")[0] == "harness":
        return verbosity >= 1 or record.levelno >= logging.WARNING
    # A warning of a library is about one request or one message, and the log of the run has it.
    return verbosity >= EVERYTHING or record.levelno >= (logging.WARNING if verbosity else logging.ERROR)


class _Lines(logging.Handler):
    """Passes each record on as text."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        self._note(self.format(record))
