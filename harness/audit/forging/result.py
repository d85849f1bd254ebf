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
    def runs_agents_code(self) -> bool:
        """Whether the tests run or import a program of the agent, which then acts in their machine."""
        return any(attack.runs_in_tests for attack in self.forged.get(OWN, ()))


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
    run = sum(task.runs_agents_code for task in findings)
    noun = "task" if len(findings) == 1 else "tasks"
    sentence = f"of {len(findings):,} {noun}, {', '.join(parts)}"
    if run:
        sentence += f" ({run:,} because their tests run the agent's own code in the machine of the tests)"
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
                "runs_agents_code": task.runs_agents_code,
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
