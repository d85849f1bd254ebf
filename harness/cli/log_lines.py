"""The records of `logging` on the terminal: warnings, with -v the events of the run, with -vv everything."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from harness.runs.run_log import EVENTS, SafeFormatter
from harness.runs.run_secrets import SecretFilter

EVERYTHING = 2
# Their records below a warning are about no request and no attempt.
_CHATTY = ("asyncio", "docker.auth", "docker.utils")


@contextlib.contextmanager
def show_log(verbosity: int, note: Callable[[str], None], secrets: SecretFilter) -> Iterator[None]:
    """Show the records of this process by `note` in the block, and let those for the log of a run pass.

    Args:
        verbosity: 0 for warnings, 1 also for the events of the run, 2 for the records of all libraries.
        note: shows a line, or several lines for a traceback. Any thread may call it.
        secrets: removes the secrets of the run.
    """
    handler = _Lines(note)
    handler.setFormatter(SafeFormatter(secrets, dated=False))
    handler.addFilter(lambda record: _is_shown(record, verbosity))
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


def _is_shown(record: logging.LogRecord, verbosity: int) -> bool:
    if record.name == EVENTS and record.levelno >= logging.WARNING:
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
