"""The result of an audit of task folders: which tasks an agent can pass without doing them, and by what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.audit.agent import NULL, ORACLE
from harness.audit.forging.attack import ForgingAttack
from harness.audit.forging.suite import AS_USUAL, OWN
from harness.environments.container.seal import Level

if TYPE_CHECKING:
    from harness.audit.results import AuditedAttempt


# The label of tasks whose tests let the agent's code act in their own machine.
SAME_PROCESS = "same_process"


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


def name_level(level: Level | None) -> str:
    """Return the name of a level of the attacks."""
    return level or OWN


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
            level = name_level(step.level)
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
        number = count_forged(findings, name_level(level))
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
        "levels": [name_level(level) for level in levels],
        "forged_tasks": {name_level(level): count_forged(findings, name_level(level)) for level in levels},
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
