"""Consoles for streams: colours and cursor movements on a terminal, plain text elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from harness.core.text import escape_terminal, escape_text, escape_unencodable
from harness.core.types import AttemptRecord, Status

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


NOTE_LIMIT = 2000
"""Characters of a note that are shown; a note may quote an error of any length."""

# A stream without a terminal has no width. This one suits a log, and is narrow enough to paste.
_PLAIN_WIDTH = 100
LONG = 4000
"""The most characters that are shown of a line of any length."""
SHOWN_CHARACTERS = 10_000
"""The most characters that `harness show` prints of one text, unless the user asks for more."""
_BUNDLED_STYLE = "bold black on yellow"
_BUNDLED_WARNING = (
    "!!! BUNDLED SAMPLE: a few problems of our own in the benchmark's format.  !!!",
    "!!! These numbers show that harness works. They are not benchmark results. !!!",
)


def is_terminal(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether `stream` is a terminal that understands escape sequences."""
    try:
        return stream.isatty() and environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
    except (AttributeError, ValueError):  # the stream is not a file, or it is closed
        return False


def is_live(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a line on `stream` can be redrawn: it is a terminal, and not the log of a CI job."""
    in_ci = environ.get("CI", "").lower() not in ("", "0", "false")
    return is_terminal(stream, environ) and not in_ci


def open_console(stream: TextIO) -> Console:
    """Return a rich console that parses no markup, honours NO_COLOR and is plain unless on a terminal."""
    from rich.console import Console

    terminal = is_terminal(stream)
    return Console(
        file=stream,
        force_terminal=terminal,
        force_jupyter=False,
        color_system="auto" if terminal else None,
        width=None if terminal else _PLAIN_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )


@contextlib.contextmanager
def show_waiting(text: str) -> Iterator[Callable[[str], None]]:
    """Show on a terminal that a command works, and for how long. Yield a function that prints a line."""
    notify = partial(print, flush=True)
    if not (is_live(sys.stderr) and is_live(sys.stdout)):
        yield notify
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=open_console(sys.stderr), transient=True) as progress:
        progress.add_task(text, total=None)
        yield notify


def print_heading(console: Console, title: str, *, bundled: bool) -> None:
    """Print the title of a report, with a loud warning if its data are the bundled sample."""
    shown = escape_terminal(title, 200)
    print_line(console, f"\n{shown}\n{'=' * min(len(shown), 78)}", "bold")
    if bundled:
        for line in _BUNDLED_WARNING:
            print_line(console, line, _BUNDLED_STYLE)


def grid(*headings: str) -> Table:
    """Return a table without lines, so that logs can show it. A column whose heading has `>` aligns right."""
    from rich.table import Table

    table = Table(
        box=None, show_header=any(headings), header_style="dim", pad_edge=False, padding=(0, 2, 0, 0)
    )
    for heading in headings:
        table.add_column(
            heading.removeprefix(">"), justify="right" if heading.startswith(">") else "left", overflow="fold"
        )
    return table


def cell(text: str) -> Text:
    """Return a cell of plain text, because rich would interpret `[red]` in a `str` as markup."""
    from rich.text import Text

    return Text(escape_terminal(text))


def print_section(console: Console, table: Table) -> None:
    """Print a table with an empty line before it."""
    console.print()
    console.print(table)


def print_line(console: Console, text: str, style: str = "") -> None:
    """Print a text without breaking its lines, so that a user can copy a path or a traceback."""
    from rich.text import Text

    console.print(Text(text, style=style), soft_wrap=True)


def print_text(
    console: Console,
    text: str,
    limit: int,
    *,
    indent: str,
    style: str = "",
    left_out: int = 0,
    file: Path | None = None,
) -> None:
    """Print the first `limit` characters of a text, and the number of those that are left out.

    Args:
        console: the console.
        text: any text. It is escaped here.
        limit: the most characters to print.
        indent: the text before each line.
        style: the style of the text.
        left_out: the number of characters that were cut off `text` before.
        file: the file that holds the whole text, None if no file does.
    """
    lines = escape_text(text[:limit], multiline=True).rstrip("\n").split("\n")
    print_line(console, "\n".join(f"{indent}{line}" for line in lines), style)
    left_out += max(len(text) - limit, 0)
    if left_out:
        place = "" if file is None else f", in {escape_terminal(str(file), LONG)}"
        print_line(console, f"{indent}... ({left_out:,} more characters{place})", "dim")


@contextlib.contextmanager
def open_report(stream: TextIO) -> Iterator[Console]:
    """Yield a console for a whole report, which reaches the stream at the end of the block.

    The trailing blanks of its tables are left out.
    """
    console = open_console(stream)
    with console.capture() as capture:
        yield console
    lines = [line.rstrip() for line in capture.get().split("\n")]
    stream.write(escape_unencodable("\n".join(lines), stream))
    stream.flush()


@dataclass(frozen=True, slots=True)
class FittingAttempts:
    """Rows of attempts: the unresolved ones first, each part in the order of the attempts."""

    # As UTF-8, because one character beyond Latin-1 doubles the size of a text in memory.
    encoded_rows: Sequence[bytes]
    shown: Counter[Status]
    """The number of rows of each status."""
    given: Counter[Status]
    """The number of attempts of each status."""

    @property
    def rows(self) -> Iterator[str]:
        """The rows, one at a time."""
        return (row.decode() for row in self.encoded_rows)


def fit_attempts(
    attempts: Iterable[AttemptRecord], render: Callable[[AttemptRecord], str], *, room: int
) -> FittingAttempts:
    """Return the rows that fit into `room` bytes: all of them, or the first of each status.

    A status with few attempts shows all of them and leaves the rest of its share to the others, because a
    few infra errors must not disappear among many failures.
    """
    rows: list[tuple[Status, bytes]] = []
    sizes: dict[Status, list[int]] = {}
    total: Counter[Status] = Counter()
    given: Counter[Status] = Counter()
    full: set[Status] = set()
    for record in attempts:
        status = record.status
        given[status] += 1
        if status in full:
            continue
        row = render(record).encode()
        rows.append((status, row))
        size = len(row)
        sizes.setdefault(status, []).append(size)
        total[status] += size
        # A status that fills its share now cannot get more later, because the other totals only grow.
        if total[status] > _largest_share(room, [total[other] for other in total if other is not status]):
            full.add(status)
    rows.sort(key=lambda row: row[0] is Status.PASSED)
    kept = Counter(dict(_count_fitting(sizes, total, room)))
    return FittingAttempts([*_first_of_each(rows, kept)], kept, given)


def _largest_share(room: int, others: list[int]) -> int:
    """Return the bytes for a status that wants as many as possible, if the others want `others`."""
    for place, other in enumerate(sorted(others)):
        share = room // (len(others) + 1 - place)
        if other >= share:
            return share
        room -= other
    return room


def _count_fitting(
    sizes: dict[Status, list[int]], total: Counter[Status], room: int
) -> Iterator[tuple[Status, int]]:
    for place, status in enumerate(sorted(total, key=lambda one: total[one])):
        share = room // (len(total) - place)
        used, number = 0, 0
        for size in sizes[status]:
            if used + size > share:
                break
            used += size
            number += 1
        yield status, number
        room -= used


def _first_of_each(rows: Iterable[tuple[Status, bytes]], kept: Counter[Status]) -> Iterator[bytes]:
    left = kept.copy()
    for status, row in rows:
        if left[status] > 0:
            left[status] -= 1
            yield row
