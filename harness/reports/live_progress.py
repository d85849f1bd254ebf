"""The progress of a run on a terminal: a bar for each category, drawn again and again."""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harness.core.text import escape_terminal, escape_unencodable
from harness.core.types import AttemptRecord
from harness.reports.console import NOTE_LIMIT, open_console
from harness.reports.figures import Tally, describe_oldest, describe_places, describe_stages
from harness.runs.progress import RunProgress

_DRAWS_PER_SECOND = 4
_BAR_WIDTH = 20
_NAME_WIDTH = 24
# The most lines for categories, and for the oldest attempts.
_CATEGORIES, _OLDEST = 12, 3
# The lines that are kept free, so that notes stay readable on a low terminal.
_FREE_LINES = 4


class LiveProgress:
    """Redraws a few lines, prints notes above them, and leaves the final line on the terminal.

    A thread of rich draws. The event loop replaces what it reads, and changes nothing in place.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = open_console(stream)
        self._live: Live | None = None
        self._tally = Tally(0)
        self._categories: dict[str, Tally] = {}
        self._progress = RunProgress()
        self._started_at = 0.0
        self._ended_at: float | None = None

    def show_progress(self, progress: RunProgress) -> None:
        self._progress = progress
        self._categories = {
            name: Tally(size.attempts, earlier=size.finished) for name, size in progress.categories.items()
        }

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        self.on_end()
        self._tally = Tally(attempts, earlier=finished)
        self._started_at, self._ended_at = time.monotonic(), None
        self._live = Live(
            console=self._console,
            get_renderable=self._draw,
            refresh_per_second=_DRAWS_PER_SECOND,
            # Output of other code on this terminal goes above the lines. Other streams are not redirected.
            redirect_stdout=self._stream is sys.stdout,
            redirect_stderr=self._stream is sys.stderr,
        )
        # `start` hides the cursor. The exit handler restores it if `on_end` is never called.
        atexit.register(self.on_end)
        self._live.start()

    def on_attempt(self, record: AttemptRecord) -> None:
        self._tally = self._tally.plus(record.status)
        name = record.category or ""
        if (tally := self._categories.get(name)) is not None:
            self._categories[name] = tally.plus(record.status)

    def note(self, text: str) -> None:
        shown = escape_unencodable(escape_terminal(text, NOTE_LIMIT, multiline=True), self._stream)
        self._console.print(Text(shown), soft_wrap=True)

    def on_end(self) -> None:
        live, self._live = self._live, None
        if live is None:
            return
        self._ended_at = time.monotonic()
        try:
            live.stop()
        finally:
            # Show the cursor here too, because a second interrupt may end `stop` early.
            self._console.show_cursor(True)
            atexit.unregister(self.on_end)

    def _draw(self) -> RenderableType:
        """Return the current lines: all of them while the run goes on, and the first one after its end."""
        if self._ended_at is not None:
            return self._draw_total()
        now = time.monotonic()
        active = self._progress.list_active()
        lines = [self._draw_total()]
        room = self._console.height - len(lines) - _FREE_LINES
        if (stages := describe_stages(active)) and room > 0:
            lines.append(self._write("; ".join(filter(None, (stages, describe_places(active)))), ""))
            oldest = [self._write(f"oldest  {text}", "dim") for text in describe_oldest(active, now, _OLDEST)]
            lines += oldest[: room - 1]
            room -= len(lines) - 1
        if self._categories and room > 0:
            lines[1:1] = self._draw_categories(min(room, _CATEGORIES))
        return lines[0] if len(lines) == 1 else Group(*lines)

    def _draw_categories(self, most: int) -> Iterator[RenderableType]:
        """Yield a line for each category, those with open attempts first, in `most` lines at most."""
        named = sorted(self._categories.items(), key=lambda item: item[1].done >= item[1].attempts)
        shown = named if len(named) <= most else named[: most - 1]
        for name, tally in shown:
            text = Text.assemble(
                (f"{tally.done}/{tally.attempts}", ""),
                (f"  passed {tally.passed}" if tally.fresh else "", "green"),
                no_wrap=True,
                overflow="ellipsis",
            )
            line = Table.grid(padding=(0, 2))
            line.add_column(width=_BAR_WIDTH)
            line.add_column(width=_NAME_WIDTH, no_wrap=True, overflow="ellipsis")
            line.add_column(no_wrap=True, overflow="ellipsis")
            line.add_row(_draw_bar(tally), self._write(name or "without category", ""), text)
            yield line
        if len(shown) < len(named):
            yield self._write(f"and {len(named) - len(shown)} more categories", "dim")

    def _write(self, text: str, style: str) -> Text:
        shown = escape_unencodable(escape_terminal(text, NOTE_LIMIT), self._stream)
        return Text(shown, style=style, no_wrap=True, overflow="ellipsis")

    def _draw_total(self) -> RenderableType:
        """Return the line of the whole run. It reads the tally once, because another thread replaces it."""
        tally = self._tally
        if self._ended_at is None:
            pace = tally.pace(time.monotonic() - self._started_at)
        else:
            pace = tally.result(self._ended_at - self._started_at)
        counts = (
            (f"{'now ' if tally.earlier else ''}passed {tally.passed}", "green"),
            "  ",
            (f"failed {tally.failed}", "red" if tally.failed else ""),
            "  ",
            (f"other {tally.other}", "yellow" if tally.other else ""),
            "  ",
        )
        text = Text.assemble(
            (tally.progress(), "bold"),
            "  ",
            *(counts if tally.outcome() else ()),
            (pace, "dim"),
            no_wrap=True,
            overflow="ellipsis",
        )
        if text.cell_len + _BAR_WIDTH + 2 > self._console.width:
            return text
        line = Table.grid(padding=(0, 2))
        line.add_column(width=_BAR_WIDTH)
        line.add_column(no_wrap=True, overflow="ellipsis")
        line.add_row(_draw_bar(tally), text)
        return line


def _draw_bar(tally: Tally) -> ProgressBar:
    return ProgressBar(total=max(tally.attempts, 1), completed=tally.done, width=_BAR_WIDTH)
