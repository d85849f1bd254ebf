"""The log of a run: a bounded file in its folder, written by the standard library's `logging`."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.logger import get_logger
from harness.core.text import escape_terminal, escape_text, shorten
from harness.core.types import AttemptRecord, Status
from harness.runs.progress import RunObserver, RunProgress, ShowsProgress
from harness.runs.run_files import append_to_run_file
from harness.runs.run_secrets import SecretFilter

MESSAGE_CHARACTERS = 8_000
TRACEBACK_CHARACTERS = 16_000
# The text that is searched for secrets. One that the end of it cuts in two cannot be found, so as many
# characters as the longest secret may have are dropped there.
_READ_CHARACTERS = 4 * TRACEBACK_CHARACTERS
_LONGEST_SECRET = 4_096
# Nothing else in a line begins with this, so a line of a traceback is never taken for a record.
_INDENT = "    | "
LOG = "run.log"
# A file with this many bytes gets no further record. This many older ones stay: run.log.1 is the newest.
MAX_BYTES, OLDER_FILES = 10 * 1024 * 1024, 3
# The logger of a run's events. A progress display shows these in its own form.
EVENTS = "harness.run"
# The number of tasks with broken tests that a run names while it is under way.
_MOST_BROKEN_NAMED = 5
_LOGGER = get_logger(EVENTS)
# The run in whose tasks and threads a record was made. Records of libraries name no run.
_CURRENT: contextvars.ContextVar[RunLog | None] = contextvars.ContextVar("harness_run", default=None)


class SafeFormatter(logging.Formatter):
    """Formats a record as one line, and its traceback as indented lines below. It raises nothing."""

    def __init__(self, secrets: SecretFilter, *, dated: bool) -> None:
        """Format without `secrets`. A `dated` line has date and time in UTC, any other the local time."""
        super().__init__()
        self._secrets = secrets
        self._dated = dated

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record, without a line break at the end."""
        text = self._clean(f"{record.levelname} {record.name}: {_read_message(record)}")
        line = f"{self._format_time(record)} {escape_terminal(text, MESSAGE_CHARACTERS)}"
        details = [_read_traceback(record), record.stack_info or ""]
        for text in filter(None, details):
            # The end of a traceback has the error.
            shown = shorten(self._clean(text), TRACEBACK_CHARACTERS, keep_end=True)
            escaped = escape_text(shown, multiline=True)
            line += "".join(f"\n{_INDENT}{each}" for each in escaped.split("\n") if each)
        return line

    def _clean(self, text: str) -> str:
        if len(text) <= _READ_CHARACTERS:
            return self._secrets.remove_from_log(text)
        return self._secrets.remove_from_log(text[:_READ_CHARACTERS])[:-_LONGEST_SECRET]

    def _format_time(self, record: logging.LogRecord) -> str:
        if self._dated:
            shown = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            return f"{shown}.{int(record.msecs):03d}Z"
        return time.strftime("%H:%M:%S", time.localtime(record.created))


def _read_message(record: logging.LogRecord) -> str:
    """Return the message of a record, also if the object or the arguments of another library are broken."""
    try:
        return record.getMessage()
    except Exception as error:
        return f"{record.msg!r:.200} cannot be formatted: {type(error).__name__}"


def _read_traceback(record: logging.LogRecord) -> str:
    if not record.exc_info or record.exc_info[1] is None:
        return ""
    try:
        return "".join(traceback.format_exception(record.exc_info[1])).rstrip("\n")
    except Exception as error:
        return f"the traceback cannot be formatted: {type(error).__name__}"


class RunLog:
    """Writes the events of one run. They reach the file also if the level of the loggers hides them."""

    def __init__(self, secrets: SecretFilter, handler: logging.Handler | None = None) -> None:
        """Write to `handler`, or only to the loggers of the process if it is None."""
        self._secrets = secrets
        self._handler = handler

    def write(self, level: int, text: str, *, defect: BaseException | None = None) -> None:
        """Write a line, and below it the traceback of a defect."""
        if _LOGGER.isEnabledFor(level):
            # A program that has called harness may show its records as they are.
            shown = escape_terminal(self.remove_secrets(text), MESSAGE_CHARACTERS)
            _LOGGER.log(level, "%s", shown, exc_info=defect)
        elif self._handler is not None:
            details = None if defect is None else (type(defect), defect, defect.__traceback__)
            self._handler.handle(_LOGGER.makeRecord(_LOGGER.name, level, "", 0, "%s", (text,), details))

    def remove_secrets(self, text: str) -> str:
        """Return a text without the secrets of the run."""
        return self._secrets.remove_from_log(text)

    def watch(self, observer: RunObserver) -> RunObserver:
        """Return an observer that writes the events of the run, and passes them on."""
        return _LoggingObserver(observer, self)


@contextlib.contextmanager
def open_run_log(folder: Path, secrets: SecretFilter, notify: Callable[[str], None]) -> Iterator[RunLog]:
    """Yield the log of a run, and write the records of its tasks and threads to `run.log` in the block.

    The block changes no level, so the records of harness and of libraries come as far as the process lets
    them. A log that cannot be written does not end the run. `notify` gets a message instead.
    """
    try:
        handler = _LogFile(folder / LOG, secrets, notify)
    except OSError as error:
        notify(f"{folder / LOG}: cannot be written: {error.strerror}; the run goes on without a log")
        yield RunLog(secrets)
        return
    log = RunLog(secrets, handler)
    handler.addFilter(lambda record: _belongs_to(record, log))
    token = _CURRENT.set(log)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield log
    except (HarnessError, asyncio.CancelledError, KeyboardInterrupt) as error:
        log.write(logging.ERROR, f"the run has stopped: {type(error).__name__}: {error}")
        raise
    except BaseException as error:
        log.write(logging.ERROR, f"the run has stopped: {type(error).__name__}: {error}", defect=error)
        raise
    finally:
        root.removeHandler(handler)
        with contextlib.suppress(ValueError):  # the block ends in another context, which has no current run
            _CURRENT.reset(token)
        with contextlib.suppress(OSError):  # the rest of the last line does not fit on the disk
            handler.close()


def _belongs_to(record: logging.LogRecord, log: RunLog) -> bool:
    """Return whether a record is of this run.

    Threads that a library starts know no run. Only harness's own records are taken from them, because the
    others may be of the program that has called harness.
    """
    current = _CURRENT.get()
    return current is log or (current is None and record.name.partition(".")[0] == "harness")


class _LogFile(RotatingFileHandler):
    """A file that stops at its first error instead of printing the record to standard error."""

    def __init__(self, path: Path, secrets: SecretFilter, notify: Callable[[str], None]) -> None:
        super().__init__(
            path, maxBytes=MAX_BYTES, backupCount=OLDER_FILES, encoding="utf-8", errors="backslashreplace"
        )
        self.setFormatter(SafeFormatter(secrets, dated=True))
        self._notify = notify
        self._failed = False

    def _open(self) -> TextIOWrapper:
        path = Path(self.baseFilename)
        descriptor = append_to_run_file(path.parent, path.name)
        return os.fdopen(descriptor, "a", encoding=self.encoding, errors=self.errors)

    def emit(self, record: logging.LogRecord) -> None:
        if not self._failed:
            super().emit(record)

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        """Return whether the file is full. The base class would format each record once more to find out."""
        return self.stream is not None and os.fstat(self.stream.fileno()).st_size >= self.maxBytes

    def handleError(self, record: logging.LogRecord) -> None:
        self._failed = True
        error = sys.exc_info()[1]
        reason = getattr(error, "strerror", None) or type(error).__name__
        self._notify(f"{self.baseFilename}: cannot be written: {reason}; the log ends here")


class _LoggingObserver:
    """Writes the events of a run to its log, and passes them on."""

    def __init__(self, observer: RunObserver, log: RunLog) -> None:
        self._observer = observer
        self._log = log
        self._broken: set[str] = set()

    def show_progress(self, progress: RunProgress) -> None:
        if isinstance(self._observer, ShowsProgress):
            self._observer.show_progress(progress)

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        earlier = f", {finished} of them finished before" if finished else ""
        self._log.write(logging.INFO, f"{attempts} attempts{earlier}, up to {concurrency} at once")
        self._observer.on_start(attempts=attempts, finished=finished, concurrency=concurrency)

    def on_attempt(self, record: AttemptRecord) -> None:
        line = (
            f"{record.task_id}, attempt {record.attempt}: {record.status} in {record.duration_seconds:.1f} s"
        )
        if record.status is Status.INFRA_ERROR:
            self._log.write(logging.WARNING, f"{line}: {record.error}")
        else:
            self._log.write(logging.INFO, line)
        if record.status is Status.GRADER_ERROR and record.task_id not in self._broken:
            self._name_broken_tests(record)
        self._observer.on_attempt(record)

    def _name_broken_tests(self, record: AttemptRecord) -> None:
        self._broken.add(record.task_id)
        if len(self._broken) <= _MOST_BROKEN_NAMED:
            self.note(f"the tests of task {record.task_id} are broken, so it gets no verdict: {record.error}")
        elif len(self._broken) == _MOST_BROKEN_NAMED + 1:
            self.note("the tests of more tasks are broken; the records of the run name each of them")

    def note(self, text: str) -> None:
        self._log.write(logging.WARNING, text)
        self._observer.note(self._log.remove_secrets(text))

    def on_end(self) -> None:
        self._log.write(logging.INFO, "the attempts have ended")
        self._observer.on_end()
