"""The progress of a run: bars on a terminal, a few plain lines in a log."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TextIO

from harness.core.text import escape_terminal, escape_unencodable
from harness.core.types import AttemptRecord
from harness.reports.console import NOTE_LIMIT, is_live
from harness.reports.figures import Tally, count, describe_oldest, describe_places, describe_stages
from harness.runs.progress import RunObserver, RunProgress

_SECONDS_BETWEEN_LINES = 5.0
_LINES_PER_RUN = 10
# Several services for continuous integration end a job that has written nothing for ten minutes.
_QUIET_SECONDS = 300.0


def progress_display(stream: TextIO, *, quiet: bool) -> RunObserver:
    """Return the observer that shows a run on `stream`: live on a terminal, in plain lines elsewhere.

    `TERM=dumb` and `CI` select plain lines too, which hold no escape sequence. `quiet` hides the progress
    but shows the notes, because they may be warnings.
    """
    if quiet:
        return NotesOnly(stream)
    if is_live(stream):
        from harness.reports.live_progress import LiveProgress

        return LiveProgress(stream)
    return PlainProgress(stream)


class NotesOnly:
    """Shows the notes of a run and nothing else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        pass

    def on_attempt(self, record: AttemptRecord) -> None:
        pass

    def note(self, text: str) -> None:
        _write_line(self._stream, escape_terminal(text, NOTE_LIMIT, multiline=True))

    def on_end(self) -> None:
        pass


class PlainProgress:
    """Writes a line when the run starts, a few in between and one when it ends.

    A line in between needs both 5 seconds and a tenth of the run since the last one. The first condition
    keeps short runs from flooding a log, and the second one long runs. After 5 minutes without a line comes
    one that also names the oldest attempt. `clock` counts seconds.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._tally: Tally | None = None
        self._started_at = 0.0
        self._line_at = 0.0
        self._line_done = 0
        self._progress = RunProgress()
        self._timer: asyncio.TimerHandle | None = None

    def show_progress(self, progress: RunProgress) -> None:
        self._progress = progress

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        self._tally = Tally(attempts, earlier=finished)
        self._started_at = self._line_at = self._clock()
        self._line_done = finished
        earlier = f", {finished:,} of them done before" if finished else ""
        _write_line(self._stream, f"{count(attempts, 'attempt')}{earlier}, {concurrency} at a time")
        with contextlib.suppress(RuntimeError):  # without an event loop there is nothing to wait for
            self._set_timer(asyncio.get_running_loop(), _QUIET_SECONDS)

    def on_attempt(self, record: AttemptRecord) -> None:
        if self._tally is None:
            return
        tally = self._tally = self._tally.plus(record.status)
        now = self._clock()
        waited = now - self._line_at >= _SECONDS_BETWEEN_LINES
        moved = (tally.done - self._line_done) * _LINES_PER_RUN >= tally.attempts
        if waited and moved and tally.done < tally.attempts:
            self._write(tally, now, tally.pace(now - self._started_at))

    def break_silence(self) -> float:
        """Write a line if there was none for 5 minutes. Return the seconds until the next may be due."""
        now, tally = self._clock(), self._tally
        if tally is not None and now - self._line_at >= _QUIET_SECONDS:
            oldest = describe_oldest(self._progress.list_active(), now, 1)
            pace = tally.pace(now - self._started_at)
            self._write(tally, now, pace, *(f"the oldest is {text}" for text in oldest))
        return max(self._line_at + _QUIET_SECONDS - now, 1.0)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._timer = loop.call_later(seconds, lambda: self._set_timer(loop, self.break_silence()))

    def note(self, text: str) -> None:
        _write_line(self._stream, escape_terminal(text, NOTE_LIMIT, multiline=True))

    def on_end(self) -> None:
        tally, self._tally = self._tally, None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if tally is not None:
            now = self._clock()
            self._write(tally, now, tally.result(now - self._started_at))

    def _write(self, tally: Tally, now: float, pace: str, *more: str) -> None:
        self._line_at, self._line_done = now, tally.done
        outcome = tally.outcome()
        progress = f"{tally.progress()}: {outcome}" if outcome else tally.progress()
        active = self._progress.list_active()
        parts = (progress, pace, describe_stages(active), describe_places(active), *more)
        _write_line(self._stream, "; ".join(filter(None, parts)))


def _write_line(stream: TextIO, line: str) -> None:
    stream.write(escape_unencodable(line, stream) + "\n")
    stream.flush()
