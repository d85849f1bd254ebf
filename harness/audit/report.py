"""The result of an audit, as text for a terminal or a log and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from harness.audit.attack import Kind
from harness.audit.folder_findings import describe_folders
from harness.audit.forging import OWN
from harness.audit.results import Audit, AuditedAttempt, count_statuses
from harness.audit.suite import NULL, ORACLE
from harness.core.text import escape_terminal
from harness.reports.console import LONG, cell, grid, open_report, print_heading, print_line, print_section
from harness.reports.figures import count, duration, tampering
from harness.runs.run_files import SCHEMA_VERSION, replace_file

if TYPE_CHECKING:
    from rich.table import Table

_GOOD, _BAD = "green", "bold red"


def print_audit(audit: Audit, *, stream: TextIO) -> None:
    """Print an audit: its facts, a table of the classes of attacks, and each verdict that is wrong."""
    with open_report(stream) as console:
        print_heading(console, f"{audit.benchmark} - audit", bundled=audit.source.kind == "bundled")
        console.print(_list_facts(audit))
        print_section(console, _list_classes(audit))
        if audit.manners:
            print_section(console, _list_manners(audit))
        reasons = {"quarantined": audit.quarantined, "task with weak tests": audit.weak_tests}
        for heading, by_task in reasons.items():
            if by_task:
                print_section(console, _list_reasons(heading, by_task))
        wrong = {"FORGED": audit.forged, "REFERENCE FAILED": audit.failed, "NO VERDICT": audit.unfinished}
        for label, attempts in wrong.items():
            if attempts:
                print_section(console, _list_attempts(label, attempts))
        console.print()
        for attack in {attempt.step.attack: None for attempt in audit.forged if attempt.step.attack}:
            print_line(console, f"{attack.name}: {attack.description}")
        print_line(console, conclude(audit), _GOOD if audit.sound else _BAD)
        print_line(console, f"audit folder: {escape_terminal(str(audit.folder), LONG)}")


def _list_facts(audit: Audit) -> Table:
    attacked = {attempt.record.task_id for attempt in audit.attacks}
    attacks = {attempt.step.name for attempt in audit.attacks}
    pairs = {(attempt.step.name, attempt.record.task_id) for attempt in audit.attacks}
    fitting = "" if len(pairs) == len(attacks) * len(attacked) else ", those that fit it,"
    facts = {
        "source": f"{audit.source.kind}: {audit.source.location}",
        "": f"{count(audit.source.rows, 'row')}, sha256 {audit.source.sha256[:12]}",
        "oracle": _count_passed(audit.controls(ORACLE)),
        "null": _count_passed(audit.controls(NULL)),
        "attacks": f"{len(attacks)}{fitting} on each of {count(len(attacked), 'task')} (seed {audit.seed})",
        "oracle after": _count_passed_after(audit),
        "guessed": _describe_guesses(audit),
        "integrity": tampering(audit.integrity) or "no attempt shows signs of tampering",
        "left behind": count(audit.containers_left, "container"),
        "duration": duration(audit.duration_seconds),
    }
    table = grid("", "")
    for label, text in facts.items():
        if text:
            table.add_row(cell(label), cell(text))
    return table


def _count_passed_after(audit: Audit) -> str:
    after = audit.controls(ORACLE, after_attacks=True)
    return f"{_count_passed(after)} in the same sandboxes" if after else ""


def _describe_guesses(audit: Audit) -> str:
    """Return how many attacks passed where a constant answer is right, "" for none."""
    if not audit.guessed:
        return ""
    tasks = dict.fromkeys(attempt.record.task_id for attempt in audit.guessed)
    return (
        f"{count(len(audit.guessed), 'attempt')} passed where a program that returns True is right: "
        f"{', '.join(tasks)}"
    )


def _count_passed(attempts: Sequence[AuditedAttempt]) -> str:
    if not attempts:
        return "none, because the benchmark has no solutions"
    return f"{sum(attempt.record.resolved for attempt in attempts):,} of {len(attempts):,} passed"


def _list_classes(audit: Audit) -> Table:
    table = grid("class", ">attacks", ">attempts", ">forged", "how they ended")
    for kind in Kind:
        if attempts := [attempt for attempt in audit.attacks if attempt.step.kind is kind]:
            _add_class(table, kind, attempts)
    _add_class(table, "all", audit.attacks)
    return table


def _add_class(table: Table, name: str, attempts: Sequence[AuditedAttempt]) -> None:
    forged = sum(attempt.forged for attempt in attempts)
    ended = ", ".join(f"{status.value} {number:,}" for status, number in count_statuses(attempts).items())
    figures = len({attempt.step.name for attempt in attempts}), len(attempts), forged
    table.add_row(
        cell(name), *(cell(f"{figure:,}") for figure in figures), cell(ended), style=_BAD if forged else ""
    )


def _list_manners(audit: Audit) -> Table:
    """Return the table of the ways that checks judge. It names the tasks whose check is not sound."""
    table = grid("how the check of a task judges", ">tasks", "")
    by_manner: dict[str, list[str]] = {}
    for task_id, manner in audit.manners.items():
        by_manner.setdefault(manner, []).append(task_id)
    for manner, task_ids in sorted(by_manner.items(), key=lambda item: -len(item[1])):
        names = "" if manner.startswith("sound") else ", ".join(task_ids)
        table.add_row(cell(manner), cell(f"{len(task_ids):,}"), cell(names))
    return table


def _list_reasons(heading: str, by_task: Mapping[str, str]) -> Table:
    table = grid(heading, "reason")
    for task_id, reason in by_task.items():
        table.add_row(cell(task_id), cell(reason))
    return table


def _list_attempts(label: str, attempts: Sequence[AuditedAttempt]) -> Table:
    table = grid(label, "task", "sample", "status", "error")
    for attempt in attempts:
        step, record = attempt.step, attempt.record
        name = f"{step.name} after {step.kind}" if step.name == ORACLE and step.kind else step.name
        row = name, record.task_id, str(step.sample), record.status.value, record.error or ""
        table.add_row(*(cell(text) for text in row), style=_BAD)
    return table


def conclude(audit: Audit) -> str:
    """Return the line that concludes an audit."""
    if audit.sound:
        references = "every reference passed" if audit.controls(ORACLE) else "no reference to check"
        return f"no forged pass; {references}; 0 containers left"
    parts = {
        "forged": audit.forged,
        "of a reference failed": audit.failed,
        "without a verdict": audit.unfinished,
    }
    lines = [f"{count(len(attempts), 'attempt')} {fault}" for fault, attempts in parts.items() if attempts]
    if audit.containers_left:
        lines.append(f"{count(audit.containers_left, 'container')} left: harness gc removes them")
    return ", ".join(lines)


def write_audit(audit: Audit, path: Path) -> None:
    """Write the result of an audit as JSON. Raises StorageError."""
    value = {
        "schema_version": SCHEMA_VERSION,
        "audit": {
            "benchmark": audit.benchmark,
            "data": asdict(audit.source),
            "seed": audit.seed,
            "folder": str(audit.folder),
            "duration_seconds": audit.duration_seconds,
        },
        "summary": {
            "forged": len(audit.forged),
            "guessed": len(audit.guessed),
            "failed_references": len(audit.failed),
            "unfinished": len(audit.unfinished),
            "containers_left": audit.containers_left,
            "tasks": len({attempt.record.task_id for attempt in audit.attempts}),
            "attacked_tasks": len({attempt.record.task_id for attempt in audit.attacks}),
            "attacks": len({attempt.step.name for attempt in audit.attacks}),
            "attempts": len(audit.attempts),
            "statuses": {status.value: number for status, number in count_statuses(audit.attacks).items()},
            "integrity": audit.integrity,
        },
        "manners": dict(audit.manners),
        "quarantined": dict(audit.quarantined),
        "weak_tests": dict(audit.weak_tests),
        **({"folders": describe_folders(audit.attempts, audit.levels)} if audit.levels else {}),
        "attempts": [_describe_attempt(attempt) for attempt in audit.attempts],
    }
    with replace_file(path) as file:
        json.dump(value, file, indent=1)


def _describe_attempt(attempt: AuditedAttempt) -> dict[str, Any]:
    step, record = attempt.step, attempt.record
    return {
        "task_id": record.task_id,
        "attack": step.name,
        "class": step.kind,
        **({"level": step.level or OWN} if step.kind is Kind.FORGING else {}),
        "sample": step.sample,
        "forged": attempt.forged,
        "guessable": attempt.is_guessable,
        "failed": attempt.failed,
        "status": record.status,
        "metrics": record.metrics,
        "duration_seconds": record.duration_seconds,
        "error": record.error,
    }
