"""The result of a run, and the details of an attempt, as text for a terminal or a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from harness.model import AttemptRecord, DataSource, Status, Summary
from harness.reports.console import encodable, open_console
from harness.reports.figures import count, duration, percent
from harness.reports.interval import wilson_interval
from harness.reports.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_STYLES = {Status.PASSED: "green", Status.FAILED: "red", Status.INFRA_ERROR: "bold magenta"}
_OTHER_STYLE = "yellow"
_BUNDLED_STYLE = "bold black on yellow"
_BUNDLED_WARNING = (
    "!!! BUNDLED SAMPLE: a few problems of our own in the benchmark's format.  !!!",
    "!!! The numbers below say that things work. They are no benchmark result. !!!",
)
_UNRESOLVED_SHOWN = 10
_ID_WIDTH = 32
_LONG = 4000


def print_summary(
    summary: Summary,
    *,
    title: str,
    source: DataSource,
    duration_seconds: float,
    stream: TextIO,
    notes: Sequence[str] = (),
    run_dir: Path | None = None,
    attempts: Iterable[AttemptRecord] = (),
) -> None:
    """Print the result table of a run to `stream`, in colour on a terminal and plain elsewhere.

    `title` names benchmark and agent. `by_category` of the summary needs `total`, `resolved` and
    `rate` for each category. Of `attempts` the unresolved ones are listed, a few, infra errors first.
    """
    console = open_console(stream)
    with console.capture() as capture:
        _print_heading(console, title, bundled=source.kind == "bundled")
        console.print(_facts(summary, source, duration_seconds))
        _print_section(console, _statuses(summary))
        if len(summary.by_category) > 1:
            _print_section(console, _categories(summary))
        unresolved = [record for record in attempts if not record.resolved]
        if unresolved:
            _print_section(console, _unresolved(unresolved))
        console.print()
        _print_lost(console, summary)
        for note in notes:
            _print_line(console, printable(f"note: {note}", _LONG, multiline=True), "yellow")
        if run_dir is not None:
            _print_line(console, f"run folder: {printable(str(run_dir), _LONG)}")
    _write(capture.get(), stream)


def print_record_details(record: AttemptRecord, *, stream: TextIO) -> None:
    """Print all that is known of one attempt: its status, error, expected and actual output."""
    console = open_console(stream)
    with console.capture() as capture:
        took = duration(record.duration_seconds)
        _print_line(console, f"{_name(record)}: {record.status}, {took}", _style(record.status))
        parts = {"error": record.error, "expected": record.expected_output, "agent": record.agent_output}
        for label, text in parts.items():
            if text:
                _print_line(console, f"  {label}:", "bold")
                shown = printable(text, _LONG, multiline=True).rstrip("\n")
                _print_line(console, "\n".join(f"    {line}" for line in shown.split("\n")))
    _write(capture.get(), stream)


def _print_heading(console: Console, title: str, *, bundled: bool) -> None:
    shown = printable(title, 200)
    _print_line(console, f"\n{shown}\n{'=' * min(len(shown), 78)}", "bold")
    if bundled:
        for line in _BUNDLED_WARNING:
            _print_line(console, line, _BUNDLED_STYLE)


def _facts(summary: Summary, source: DataSource, duration_seconds: float) -> Table:
    rate = percent(summary.rate)
    interval = wilson_interval(summary.resolved, summary.total)
    if interval is not None:
        rate += f"  (95 % interval {percent(interval[0])} to {percent(interval[1])}, Wilson)"
    facts = {
        "source": f"{source.kind}: {source.location}",
        "": f"{count(source.rows, 'row')}, sha256 {source.sha256[:12]}",
        "tasks": f"{summary.total:,}",
        "attempts": f"{summary.attempts:,}",
        "resolved": f"{summary.resolved:,}",
        "rate": rate,
    }
    for k, value in sorted(summary.pass_at_k.items()):
        facts[f"pass@{k}"] = f"undefined: needs n >= {k}" if value is None else percent(value)
    facts["duration"] = duration(duration_seconds)
    table = _grid("", "")
    for label, text in facts.items():
        table.add_row(_cell(label), _cell(text), style="bold" if label == "rate" else "")
    return table


def _statuses(summary: Summary) -> Table:
    table = _grid("status", ">attempts", ">share")
    for status in Status:
        number = summary.statuses.get(status, 0)
        if number:
            share = percent(number / summary.attempts) if summary.attempts else ""
            table.add_row(_cell(status), _cell(f"{number:,}"), _cell(share), style=_style(status))
    return table


def _categories(summary: Summary) -> Table:
    table = _grid("category", ">tasks", ">resolved", ">rate")
    for name, row in summary.by_category.items():
        figures = f"{row['total']:,}", f"{row['resolved']:,}", percent(row["rate"])
        table.add_row(_cell(name), *(_cell(figure) for figure in figures))
    return table


def _unresolved(records: Sequence[AttemptRecord]) -> Table:
    """The first few attempts that did not pass, one line each; infra errors lead, for they need a person."""
    shown = sorted(records, key=lambda record: record.status is not Status.INFRA_ERROR)[:_UNRESOLVED_SHOWN]
    more = f" ({len(shown)} of {len(records):,})" if len(shown) < len(records) else ""
    table = _grid(f"unresolved{more}", "status", "error")
    table.columns[0].max_width = _ID_WIDTH
    for record in shown:
        error = _cell(record.error or "")
        error.no_wrap, error.overflow = True, "ellipsis"
        table.add_row(_cell(_name(record)), _cell(record.status), error, style=_style(record.status))
    return table


def _print_lost(console: Console, summary: Summary) -> None:
    """Call out attempts without a verdict, for the rate counts them as it counts a failure."""
    reasons = {Status.INFRA_ERROR: "ended in an infra error", Status.CANCELLED: "cancelled"}
    for status, reason in reasons.items():
        lost = summary.statuses.get(status, 0)
        if lost:
            text = f"{count(lost, 'attempt')} {reason}: no verdict, counted as unresolved."
            _print_line(console, text, _style(status))


def _name(record: AttemptRecord) -> str:
    return printable(record.task_id, 200) + (f" #{record.attempt}" if record.attempt else "")


def _style(status: Status) -> str:
    return _STYLES.get(status, _OTHER_STYLE)


def _grid(*headings: str) -> Table:
    """A table without lines, which reads the same in a log; `>` in front of a heading aligns right."""
    from rich.table import Table

    table = Table(
        box=None, show_header=any(headings), header_style="dim", pad_edge=False, padding=(0, 2, 0, 0)
    )
    for heading in headings:
        table.add_column(
            heading.removeprefix(">"),
            justify="right" if heading.startswith(">") else "left",
            overflow="fold",
        )
    return table


def _cell(text: str) -> Text:
    """A cell as plain text: in a `str` rich would take `[red]` for markup."""
    from rich.text import Text

    return Text(printable(text))


def _print_section(console: Console, table: Table) -> None:
    console.print()
    console.print(table)


def _print_line(console: Console, text: str, style: str = "") -> None:
    """Print without breaking lines, so that a path or a traceback can be copied from a terminal."""
    from rich.text import Text

    console.print(Text(text, style=style), soft_wrap=True)


def _write(text: str, stream: TextIO) -> None:
    """Write all of a report at once, without the blanks that fill up the lines of its tables."""
    lines = [line.rstrip() for line in text.split("\n")]
    stream.write(encodable("\n".join(lines), stream))
    stream.flush()
