"""The result of an audit of task folders, as text for a terminal and as Markdown for a pull request."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from harness.audit.forging.attack import ForgingAttack
from harness.audit.forging.result import FolderFindings, collect_findings, name_level, summarise
from harness.audit.forging.suite import OWN
from harness.audit.results import Audit
from harness.core.text import escape_terminal, quote_markdown
from harness.reports.console import LONG, cell, grid, open_console, print_line, print_section, write
from harness.runs.run_files import replace_file

_SEALED, _ELSEWHERE, _NOWHERE = "#", "o", "."
_LEGEND = f"{_SEALED} forged at the task's level, {_ELSEWHERE} forged at another one, {_NOWHERE} not forged"
# The attacks have letters, because a column for each name would be too wide.
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


def print_folder_audit(audit: Audit, *, stream: TextIO) -> None:
    """Print the table of tasks by attacks, each finding with its remedy, and the count in one sentence."""
    findings, attacks = collect_findings(audit.attempts), _list_attacks(audit)
    console = open_console(stream)
    with console.capture() as capture:
        letters = _LETTERS[: len(attacks)]
        table = grid("task", "level", "reference", letters, "label")
        for task in findings:
            marks = "".join(_mark(task, attack) for attack in attacks)
            is_bad = bool(task.forged.get(OWN)) or task.reference not in ("passed", None)
            table.add_row(
                *map(
                    cell,
                    (
                        task.task_id,
                        task.level or "unproven",
                        task.reference or "none",
                        marks,
                        task.label or "",
                    ),
                ),
                style="bold red" if is_bad else "",
            )
        print_section(console, table)
        print_line(console, _LEGEND)
        legend = grid("", "attack", *(f">{name_level(level)}" for level in audit.levels), "remedy in a task")
        for letter, attack in zip(_LETTERS, attacks, strict=False):
            numbers = [_count(findings, attack, name_level(level)) for level in audit.levels]
            remedy = attack.remedy if any(numbers) else ""
            legend.add_row(*map(cell, (letter, attack.name, *map(str, numbers), remedy)))
        print_section(console, legend)
        idle = [each for each in audit.forged if each.step.attack is None]
        for heading, attempts in (
            ("EMPTY AGENT PASSED", idle),
            ("REFERENCE FAILED", audit.failed),
            ("NO VERDICT", audit.unfinished),
        ):
            if attempts:
                wrong = grid(heading, "task", "level", "error")
                for each in attempts:
                    row = each.step.name, each.record.task_id, name_level(each.step.level)
                    wrong.add_row(*map(cell, (*row, each.record.error or "")))
                print_section(console, wrong)
        console.print()
        print_line(console, summarise(findings, audit.levels), "green" if audit.sound else "bold red")
        print_line(console, f"audit folder: {escape_terminal(str(audit.folder), LONG)}")
    write(capture.get(), stream)


def write_folder_markdown(audit: Audit, path: Path) -> None:
    """Write the result of an audit of task folders as Markdown. Raises StorageError."""
    with replace_file(path) as file:
        file.writelines(f"{line}\n" for line in _list_lines(audit))


def _list_lines(audit: Audit) -> Iterator[str]:
    findings, attacks = collect_findings(audit.attempts), _list_attacks(audit)
    yield f"### {quote_markdown(audit.benchmark)}: which tasks can be forged"
    yield from ("", f"**{summarise(findings, audit.levels)}**", "")
    letters = " | ".join(_LETTERS[: len(attacks)])
    yield f"| task | level | label | reference | {letters} |"
    yield f"| :-- | :-- | :-- | :-- |{' :-: |' * len(attacks)}"
    for task in findings:
        marks = " | ".join(_mark(task, attack) for attack in attacks)
        name, level = quote_markdown(task.task_id), task.level or "unproven"
        yield f"| {name} | {level} | {task.label or ''} | {task.reference or 'none'} | {marks} |"
    yield from ("", f"`{_SEALED}` forged at the task's level, `{_ELSEWHERE}` at another one only.", "")
    columns = [name_level(level) for level in audit.levels]
    yield f"| | attack | {' | '.join(columns)} | change of the task that stops it |"
    yield f"| :-- | :-- |{' --: |' * len(columns)} :-- |"
    for letter, attack in zip(_LETTERS, attacks, strict=False):
        numbers = [_count(findings, attack, column) for column in columns]
        remedy = quote_markdown(attack.remedy) if any(numbers) else ""
        yield f"| {letter} | {attack.name} | {' | '.join(map(str, numbers))} | {remedy} |"


def _list_attacks(audit: Audit) -> list[ForgingAttack]:
    steps = {each.step.name: each.step.attack for each in audit.attacks}
    return [attack for _, attack in sorted(steps.items()) if isinstance(attack, ForgingAttack)]


def _mark(task: FolderFindings, attack: ForgingAttack) -> str:
    levels = [level for level, forged in task.forged.items() if attack in forged]
    return _SEALED if OWN in levels else _ELSEWHERE if levels else _NOWHERE


def _count(findings: Sequence[FolderFindings], attack: ForgingAttack, level: str) -> int:
    return sum(attack in task.forged.get(level, ()) for task in findings)
