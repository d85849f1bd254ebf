"""Markdown for the comment of a pull request: the result, the figures, and the first failures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from harness.core.text import escape_unencodable, quote_markdown
from harness.core.types import Status
from harness.reports.attempt_figures import describe_requests, describe_times
from harness.reports.failures import choose_unresolved, write_show_command
from harness.reports.figures import (
    describe_coverage,
    describe_headline,
    describe_range,
    duration,
    find_category_interval,
    has_several_attempts,
    label_resolved,
    list_scores,
    percent,
    tampering,
)
from harness.reports.remarks import (
    BUNDLED_NOTICE,
    list_conditions,
    list_lost,
    list_model_remarks,
    list_remarks,
)
from harness.reports.run_folder import StoredRun
from harness.runs.run_names import count_statuses

_FAILURES, _CATEGORIES = 20, 50
_TEXT_LIMIT = 160


def write_report(run: StoredRun, stream: TextIO) -> None:
    """Write the headline first, then tables of the figures, the statuses, the categories and the failures."""
    for line in _list_lines(run):
        stream.write(escape_unencodable(f"{line}\n", stream))


def _list_lines(run: StoredRun) -> Iterator[str]:
    summary, manifest = run.summary, run.manifest
    config = manifest["config"]
    names = [manifest["benchmark"], manifest["agent"], config.get("model")]
    yield f"### {', '.join(_quote(str(name)) for name in names if name)}"
    yield ""
    yield f"**{describe_headline(summary, is_running=run.is_running)}**"
    yield ""
    warnings = [f"- :warning: {warning}" for warning in _list_warnings(run)]
    yield from (*warnings, "") if warnings else ()
    yield "| | |"
    yield "| :-- | :-- |"
    yield from (f"| {_label(label)} | {text} |" for label, text in _list_figures(run))
    yield ""
    yield "| status | attempts | share |"
    yield "| :-- | --: | --: |"
    for each in count_statuses(summary, is_running=run.is_running):
        share = percent(each.number / max(summary.attempts, 1))
        yield f"| {each.label} | {each.number:,} | {share} |"
    yield from _list_categories(run)
    yield from _list_failures(run)


def _list_warnings(run: StoredRun) -> Iterator[str]:
    summary = run.summary
    if run.source.kind == "bundled":
        yield BUNDLED_NOTICE
    if run.unfinished is not None:
        yield _quote(run.unfinished)
    if summary.integrity:
        yield _quote(tampering(summary.integrity))
    yield from (text for _, text in list_lost(summary))


def _list_figures(run: StoredRun) -> Iterator[tuple[str, str]]:
    summary = run.summary
    if not summary.statuses.get(Status.CANCELLED):
        yield from list_scores(summary)
        yield from ((label, _quote(text)) for label, text in list_remarks(summary))
    yield from ((label, _quote(text)) for label, text in list_conditions(run.manifest))
    yield "tasks, attempts", f"{summary.total:,}, {summary.attempts:,}"
    if summary.coverage:
        yield "coverage", describe_coverage(summary)
    if summary.model:
        yield "model", describe_requests(summary.model)
        yield "time", describe_times(summary.model)
    yield from ((label, _quote(text)) for label, text in list_model_remarks(summary))
    yield "duration", duration(run.duration_seconds)
    yield "data", _quote(f"{run.source.kind}: {run.source.location}, sha256 {run.source.sha256[:12]}")


def _list_categories(run: StoredRun) -> Iterator[str]:
    rows = run.summary.by_category
    if len(rows) < 2 or run.summary.statuses.get(Status.CANCELLED):
        return
    heading = f"| category | {label_resolved(run.summary)} | tasks | rate | 95 % interval |"
    lines = [heading, "| :-- | --: | --: | --: | :-- |"]
    for name, row in [*rows.items()][:_CATEGORIES]:
        spread = describe_range(*find_category_interval(row))
        figures = f"{row['resolved']:,} | {row['total']:,} | {percent(row['rate'])} | {spread}"
        lines.append(f"| {_quote(name)} | {figures} |")
    yield from _fold(f"categories ({len(rows):,})", lines, len(rows) - _CATEGORIES, "summary.json")


def _list_failures(run: StoredRun) -> Iterator[str]:
    unresolved = choose_unresolved(
        run.attempts(),
        _FAILURES,
        has_samples=bool(run.summary.coverage),
        several=has_several_attempts(run.summary),
    )
    if not unresolved.number:
        return
    lines = ["| task | status | error |", "| :-- | :-- | :-- |"]
    for record in unresolved.shown:
        error = _quote(record.error) if record.error else ""
        lines.append(f"| {_quote(unresolved.describe_task(record))} | {record.status} | {error} |")
    left_out = unresolved.number - len(unresolved.shown)
    yield from _fold(f"{unresolved.title} ({unresolved.number:,})", lines, left_out, "attempts.jsonl")
    command = None if unresolved.first is None else write_show_command(run.folder, unresolved.first)
    if command is not None and "`" not in command:
        yield ""
        yield f"Show a failure: {quote_markdown(command, len(command))}"


def _fold(title: str, lines: list[str], left_out: int, file: str) -> Iterator[str]:
    """Yield a part that a reader opens. Markdown inside of it needs the empty lines."""
    yield ""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    if left_out > 0:
        yield ""
        yield f"... and {left_out:,} more, in {file} of the run folder"
    yield ""
    yield "</details>"


def _label(text: str) -> str:
    """Return a label. Only labels of a benchmark's categories and metrics are not our own words."""
    return text if all(char.isalnum() or char in " @,-" for char in text) else _quote(text)


def _quote(text: str) -> str:
    return quote_markdown(text, _TEXT_LIMIT)
