"""The findings of an audit of task folders: which tasks an agent can pass without doing them, and by what.

They are printed on a terminal, written as Markdown for a pull request, and a part of the JSON of an audit.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from harness.audit.forging import AS_USUAL, OWN, ForgingAttack
from harness.audit.results import Audit
from harness.audit.suite import NULL, ORACLE
from harness.core.text import escape_terminal, quote_markdown
from harness.environments.container.seal import Level
from harness.reports.console import LONG, cell, grid, open_report, print_line, print_section
from harness.runs.run_files import replace_file

if TYPE_CHECKING:
    from harness.audit.results import AuditedAttempt

# The label of tasks whose tests let the agent's code act in their own machine.
SAME_PROCESS = "same_process"
_SEALED, _ELSEWHERE, _NOWHERE = "#", "o", "."
_LEGEND = f"{_SEALED} forged at the task's level, {_ELSEWHERE} forged at another one, {_NOWHERE} not forged"
# The attacks have letters, because a column for each name would be too wide.
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


@dataclass(slots=True)
class FolderFindings:
    """The findings on one task folder."""

    task_id: str
    # The seal level of the task, None if none is proven.
    level: str | None = None
    # The statuses of the reference and of an empty agent, None for a task without a reference.
    reference: str | None = None
    empty: str | None = None
    # The attacks that earned the reward, by level, with `own` for the task's own.
    forged: dict[str, list[ForgingAttack]] = field(default_factory=dict)
    # The attacks that were made to their end, by level.
    tried: dict[str, int] = field(default_factory=dict)

    @property
    def label(self) -> str | None:
        """Return `same_process` if only programs of the agent forge the task, which its tests run or import.

        A second machine cannot help then, because the tests start the forgery themselves.
        """
        forged = self.forged.get(OWN)
        return SAME_PROCESS if forged and all(attack.runs_in_tests for attack in forged) else None


def collect_findings(attempts: Iterable[AuditedAttempt]) -> list[FolderFindings]:
    """Return the findings on each task, in the order of the attempts."""
    found: dict[str, FolderFindings] = {}
    for attempt in attempts:
        step, record = attempt.step, attempt.record
        task = found.setdefault(record.task_id, FolderFindings(record.task_id))
        if step.name == ORACLE:
            task.reference = record.status.value
        elif step.name == NULL:
            task.empty = record.status.value
        if step.attack is None:
            seal = record.metrics.get("seal")
            task.level = None if seal == "unproven" else seal or task.level
        elif isinstance(step.attack, ForgingAttack):
            level = step.level or OWN
            task.tried[level] = task.tried.get(level, 0) + 1
            forged = task.forged.setdefault(level, [])
            if attempt.passed_unearned:
                forged.append(step.attack)
    return list(found.values())


def count_forged(findings: Sequence[FolderFindings], level: str) -> int:
    """Return the number of tasks that an attack forged at a level."""
    return sum(bool(task.forged.get(level)) for task in findings)


def summarise(findings: Sequence[FolderFindings], levels: Sequence[Level | None]) -> str:
    """Return the count of tasks that can be forged, in one sentence."""
    parts: list[str] = []
    for level in levels[::-1]:
        number = count_forged(findings, level or OWN)
        how = {None: "under our seal", AS_USUAL: "as they are usually graded"}.get(level, f"at level {level}")
        parts.append(f"{number:,} {'' if parts else 'can be forged '}{how}")
    labelled = sum(task.label is not None for task in findings)
    noun = "task" if len(findings) == 1 else "tasks"
    sentence = f"of {len(findings):,} {noun}, {', '.join(parts)}"
    if labelled:
        sentence += f" ({labelled:,} labelled {SAME_PROCESS}: the tests run the agent's own code)"
    return sentence


def describe_folders(attempts: Iterable[AuditedAttempt], levels: Sequence[Level | None]) -> dict[str, Any]:
    """Return the findings for the JSON of an audit."""
    findings = collect_findings(attempts)
    return {
        "summary": summarise(findings, levels),
        "levels": [level or OWN for level in levels],
        "forged_tasks": {level or OWN: count_forged(findings, level or OWN) for level in levels},
        "tasks": [
            {
                "task_id": task.task_id,
                "level": task.level,
                "reference": task.reference,
                "empty": task.empty,
                "label": task.label,
                "tried": task.tried,
                "forged": {level: [each.name for each in each_] for level, each_ in task.forged.items()},
            }
            for task in findings
        ],
        "remedies": {
            attack.name: attack.remedy
            for task in findings
            for attacks in task.forged.values()
            for attack in attacks
        },
    }


def print_folder_audit(audit: Audit, *, stream: TextIO) -> None:
    """Print the table of tasks by attacks, each finding with its remedy, and the count in one sentence."""
    findings, attacks = collect_findings(audit.attempts), _list_attacks(audit)
    with open_report(stream) as console:
        letters = _LETTERS[: len(attacks)]
        table = grid("task", "level", "reference", letters, "label")
        for task in findings:
            marks = "".join(_mark(task, attack) for attack in attacks)
            is_bad = bool(task.forged.get(OWN)) or task.reference not in ("passed", None)
            facts = (task.level or "unproven", task.reference or "none", marks, task.label or "")
            table.add_row(*map(cell, (task.task_id, *facts)), style="bold red" if is_bad else "")
        print_section(console, table)
        print_line(console, _LEGEND)
        legend = grid("", "attack", *(f">{level or OWN}" for level in audit.levels), "remedy in a task")
        for letter, attack in zip(_LETTERS, attacks, strict=False):
            numbers = [_count(findings, attack, level or OWN) for level in audit.levels]
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
                    row = each.step.name, each.record.task_id, each.step.level or OWN
                    wrong.add_row(*map(cell, (*row, each.record.error or "")))
                print_section(console, wrong)
        console.print()
        print_line(console, summarise(findings, audit.levels), "green" if audit.sound else "bold red")
        print_line(console, f"audit folder: {escape_terminal(str(audit.folder), LONG)}")


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
    columns = [level or OWN for level in audit.levels]
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
