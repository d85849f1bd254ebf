"""The result of a run, and the details of an attempt, as text for a terminal or a log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from harness.core.text import escape_terminal
from harness.core.types import AttemptRecord, DataSource, Status, Summary
from harness.reports.attempt_figures import describe_requests, describe_times, describe_usage
from harness.reports.console import (
    LONG,
    SHOWN_CHARACTERS,
    cell,
    grid,
    open_report,
    print_heading,
    print_line,
    print_section,
    print_text,
)
from harness.reports.failures import Unresolved, choose_unresolved, write_show_command
from harness.reports.figures import (
    RATE,
    count,
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
from harness.reports.recorded_attempts import list_objects
from harness.reports.remarks import list_conditions, list_lost, list_model_remarks, list_remarks
from harness.reports.run_folder import read_attempts
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.manifest import describe_isolation, read_tool_mode
from harness.runs.run_names import count_statuses
from harness.runs.store import REPORT
from harness.runs.stored_result import read_usage, sum_usage

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from harness.reports.run_folder import StoredRun

_STYLES = {
    Status.PASSED: "green",
    Status.FAILED: "red",
    **dict.fromkeys((Status.GRADER_ERROR, Status.INFRA_ERROR), "bold magenta"),
}
_OTHER_STYLE = "yellow"
_UNRESOLVED_SHOWN = 10
_ID_WIDTH = 32
_UNPROVEN = "unproven"


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
    is_running: bool = False,
    tool_mode: str | None = None,
    isolation: str | None = None,
    conditions: Iterable[tuple[str, str]] = (),
) -> None:
    """Print the result table of a run to `stream`, in colour on a terminal and plain elsewhere.

    A stopped run has no rate, because the tasks that are left would count as failed.

    Args:
        title: The names of benchmark, agent and model.
        attempts: The attempts. The first unresolved ones are listed, infra errors before others.
        is_running: Whether the run is under way, so that the other attempts are still to come.
        tool_mode: The form of the model's tool calls, None if no agent asked for it.
        isolation: The environments whose tasks shared sandboxes, None if none did.
        conditions: The labels and texts of `list_conditions`.
    """
    with open_report(stream) as console:
        print_heading(console, title, bundled=source.kind == "bundled")
        unmade = summary.statuses.get(Status.CANCELLED, 0)
        _print_headline(console, summary, is_running=is_running)
        console.print(_facts(summary, source, duration_seconds, tool_mode, isolation, conditions))
        print_section(console, _statuses(summary, is_running=is_running))
        if len(summary.by_category) > 1 and not unmade:
            print_section(console, _categories(summary))
        unresolved = choose_unresolved(
            attempts,
            _UNRESOLVED_SHOWN,
            has_samples=bool(summary.coverage),
            several=has_several_attempts(summary),
        )
        if unresolved.number:
            print_section(console, _unresolved(unresolved))
        console.print()
        for status, text in list_lost(summary):
            print_line(console, f"{text}.", _style(status))
        for note in notes:
            print_line(console, escape_terminal(f"note: {note}", LONG, multiline=True), "yellow")
        if run_dir is not None:
            print_line(console, f"run folder: {escape_terminal(str(run_dir), LONG)}")
            _print_next_steps(console, run_dir, unresolved.first)


def _print_headline(console: Console, summary: Summary, *, is_running: bool) -> None:
    headline = describe_headline(summary, is_running=is_running)
    if headline.coverage:
        print_line(console, headline.coverage, "bold yellow" if summary.coverage["missing"] else "")
    if headline.interval:
        print_line(console, f"{headline.figure}  ({headline.interval})", "bold")
        print_line(console, f"{headline.meaning}\n")
    else:
        print_line(console, f"{headline}\n", "bold yellow")


def print_stored_run(run: StoredRun, *, stream: TextIO) -> None:
    """Print the result table of a stored run."""
    manifest = run.manifest
    print_summary(
        run.summary,
        title=title_run(
            manifest["benchmark"],
            manifest["agent"],
            manifest["config"].get("model"),
            is_baseline=manifest["config"].get("baseline") is True,
        ),
        source=run.source,
        duration_seconds=run.duration_seconds,
        stream=stream,
        notes=() if run.unfinished is None else (run.unfinished,),
        run_dir=run.folder,
        attempts=run.attempts(),
        is_running=run.is_running,
        tool_mode=read_tool_mode(manifest),
        isolation=describe_isolation(manifest),
        conditions=list_conditions(manifest),
    )


def title_run(benchmark: str, agent: str, model: str | None, *, is_baseline: bool = False) -> str:
    """Return the title of a run's report: benchmark, agent, model, and `baseline` if it is one."""
    names = [agent, *([model] if model else []), *(["baseline"] if is_baseline else [])]
    return f"{benchmark} - {', '.join(names)}"


def print_record_details(
    record: AttemptRecord, *, folder: Path, stream: TextIO, limit: int = SHOWN_CHARACTERS
) -> None:
    """Print one attempt: its status, its error, the expected output, the agent's output and the submission.

    At most `limit` characters of each text are shown. The submission is shown only if it differs from the
    agent's output. `folder` is the run folder.
    """
    with open_report(stream) as console:
        took = duration(record.duration_seconds)
        print_line(console, f"{_name(record)}: {record.status}, {took}", _style(record.status))
        usage = sum_usage([read_usage(record.metrics)])
        if usage:
            print_line(console, f"  model: {describe_usage(usage)}")
        for label, text, left_out in _texts(record):
            print_line(console, f"  {label}:", "bold")
            file = None if label == "expected" else folder / ATTEMPTS
            print_text(console, text, limit, indent="    ", left_out=left_out, file=file)


def _texts(record: AttemptRecord) -> Iterator[tuple[str, str, int]]:
    """Yield the texts of an attempt that are not empty: label, text and the number of characters cut off."""
    output, left_out = record.agent_output, record.agent_output_cut
    if record.agent_output_full is not None:
        output, left_out = record.agent_output_full, 0
    if record.error:
        yield "error", record.error, 0
    if hint := record.metrics.get("hint"):
        yield "hint", str(hint), 0
    if kept := list_objects(record.metrics.get("artifacts")):
        yield "artifacts", "\n".join(map(_describe_artifact, kept)), 0
    if record.expected_output:
        yield "expected", record.expected_output, record.expected_output_cut
    if output:
        yield "agent", output, left_out
    if record.submission and record.submission.strip() != output.strip():
        yield "submission", record.submission, 0


def _describe_artifact(kept: Mapping[str, Any]) -> str:
    if "problem" in kept:
        return f"{kept.get('source', 'none')} is not kept: {kept['problem']}"
    left_out = f", {kept['left_out']} left out" if "left_out" in kept else ""
    numbers = [value if type(value := kept.get(name)) is int else 0 for name in ("files", "bytes")]
    return f"{kept.get('path')} ({count(numbers[0], 'file')}, {count(numbers[1], 'byte')}{left_out})"


def _facts(
    summary: Summary,
    source: DataSource,
    duration_seconds: float,
    tool_mode: str | None,
    isolation: str | None,
    conditions: Iterable[tuple[str, str]],
) -> Table:
    facts = [
        ("source", f"{source.kind}: {source.location}"),
        ("", f"{count(source.rows, 'row')}, sha256 {source.sha256[:12]}"),
    ]
    if summary.coverage:
        facts.append(("coverage", describe_coverage(summary)))
    facts += [
        *conditions,
        ("tasks", f"{summary.total:,}"),
        ("attempts", f"{summary.attempts:,}"),
        ("resolved", _describe_resolved(summary)),
    ]
    if not summary.statuses.get(Status.CANCELLED):
        facts += [*list_scores(summary), *list_remarks(summary)]
    if summary.integrity:
        facts.append(("integrity", tampering(summary.integrity)))
    if summary.model:
        facts += [("model", describe_requests(summary.model)), ("", describe_times(summary.model))]
    facts += list_model_remarks(summary)
    if tool_mode is not None:
        facts.append(("tool mode", tool_mode))
    if isolation is not None:
        facts.append(("isolation", isolation))
    facts.append(("duration", duration(duration_seconds)))
    styles = {RATE: "bold", "coverage": "bold yellow" if summary.coverage.get("missing") else ""}
    table = grid("", "")
    for label, text in facts:
        table.add_row(cell(label), cell(text), style=styles.get(label, ""))
    return table


def _describe_resolved(summary: Summary) -> str:
    """Return the number of resolved tasks, or of passed attempts if tasks have several."""
    if not has_several_attempts(summary):
        return f"{summary.resolved:,}"
    return count(summary.statuses.get(Status.PASSED, 0), "attempt")


def _statuses(summary: Summary, *, is_running: bool) -> Table:
    table = grid("status", ">attempts", ">share")
    for each in count_statuses(summary, is_running=is_running):
        share = percent(each.number / summary.attempts) if summary.attempts else ""
        table.add_row(cell(each.label), cell(f"{each.number:,}"), cell(share), style=_style(each.status))
    return table


def _categories(summary: Summary) -> Table:
    table = grid("category", ">tasks", f">{label_resolved(summary)}", ">rate", "95 % interval")
    for name, row in summary.by_category.items():
        spread = describe_range(*find_category_interval(row))
        figures = f"{row['total']:,}", f"{row['resolved']:,}", percent(row["rate"]), spread
        table.add_row(cell(name), *(cell(figure) for figure in figures))
    return table


def _unresolved(unresolved: Unresolved) -> Table:
    """Return a table of the first tasks with an unresolved attempt."""
    shown, number = unresolved.shown, unresolved.number
    more = f"{len(shown)} of {number:,}" if len(shown) < number else f"{number:,}"
    title = f"{unresolved.title} ({more})"
    table = grid(title, "status", "error")
    table.columns[0].max_width = max(_ID_WIDTH, len(title))
    for record in shown:
        error = cell(record.error or "")
        error.no_wrap, error.overflow = True, "ellipsis"
        table.add_row(
            cell(unresolved.describe_task(record)), cell(record.status), error, style=_style(record.status)
        )
    return table


def _print_next_steps(console: Console, folder: Path, failure: AttemptRecord | None) -> None:
    """Print the path of the report, and the command that shows the first failure."""
    if os.path.isfile(folder / REPORT):
        print_line(console, f"report: {escape_terminal(str(folder / REPORT), LONG)}")
    command = None if failure is None else write_show_command(folder, failure)
    if command is not None:
        print_line(console, f"show a failure: {command}")


def _name(record: AttemptRecord) -> str:
    return escape_terminal(record.task_id, 200) + (f" #{record.attempt}" if record.attempt else "")


def _style(status: Status) -> str:
    return _STYLES.get(status, _OTHER_STYLE)


def print_levels(folder: Path, *, stream: TextIO) -> bool:
    """Print a line for each task of a run, and return whether every task has a level."""
    is_proven = True
    for record in read_attempts(folder):
        level = str(record.metrics.get("seal", _UNPROVEN))
        is_proven = is_proven and level != _UNPROVEN
        reason = record.metrics.get("seal_reason", record.error or record.status.value)
        label = ", same_process" if record.metrics.get("same_process") else ""
        print(escape_terminal(f"{record.task_id}: {level}{label}, {reason}", 500), file=stream)
    return is_proven
