"""The result of an audit: its attempts, which of them are wrong, and the file that it is written to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.audit.agent import CONSTANT, ORACLE, Step
from harness.audit.attack import Kind
from harness.audit.forging.result import describe_folders
from harness.audit.forging.suite import OWN
from harness.core.types import AttemptRecord, DataSource, Status
from harness.environments.container.seal import Level
from harness.runs.run_files import SCHEMA_VERSION, replace_file

# The description of an audit, and its result, in its folder.
AUDIT, AUDIT_RESULTS = "audit.json", "results.json"
# The ends that nothing in an attempt has caused.
NO_VERDICT = (Status.INFRA_ERROR, Status.CANCELLED)


@dataclass(frozen=True, slots=True)
class AuditedAttempt:
    """One attempt of an audit, and its step in the suite."""

    step: Step
    record: AttemptRecord
    # Whether a constant program solves the task, so that the attack may have passed by its answer.
    is_guessable: bool = False
    # The folder of its run.
    folder: Path = Path()

    @property
    def forged(self) -> bool:
        """Whether the attempt passed although it is not the reference, and its answer does not explain it.

        A seal level that is not the task's own shows what other ways of grading let pass.
        """
        return self.passed_unearned and self.step.level is None

    @property
    def passed_unearned(self) -> bool:
        """Whether it passed, at any seal level, although it did not do the task."""
        if self.step.name in (ORACLE, CONSTANT) or (self.step.attack is not None and self.is_guessable):
            return False
        return self.record.resolved

    @property
    def failed(self) -> bool:
        """Whether the attempt is the reference and did not pass.

        A reference that follows attacks runs under their tight limits too, so a timeout does not count.
        """
        status = self.record.status
        slow = self.step.kind is not None and status is Status.TIMEOUT
        has_verdict = status.has_score or status is Status.GRADER_ERROR
        return self.step.name == ORACLE and has_verdict and not self.record.resolved and not slow


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Attributes:
        folder: the folder with the run folders of both runs.
        containers_left: the number of containers of both runs that Docker listed at their end.
        manners: how the check of each selected task judges, by task id, if that differs between tasks.
        quarantined: the reason for each selected task that no grader can rely on, by task id.
        weak_tests: why a pass of a selected task proves less than it says, by task id, for those tasks.
    """

    benchmark: str
    source: DataSource
    seed: int
    folder: Path
    duration_seconds: float
    attempts: tuple[AuditedAttempt, ...]
    containers_left: int
    manners: Mapping[str, str] = field(default_factory=dict)
    quarantined: Mapping[str, str] = field(default_factory=dict)
    weak_tests: Mapping[str, str] = field(default_factory=dict)
    # The seal levels of the attacks on task folders, None for each task's own. Empty for other benchmarks.
    levels: tuple[Level | None, ...] = ()

    @property
    def forged(self) -> list[AuditedAttempt]:
        return [attempt for attempt in self.attempts if attempt.forged]

    @property
    def failed(self) -> list[AuditedAttempt]:
        return [attempt for attempt in self.attempts if attempt.failed]

    @property
    def unfinished(self) -> list[AuditedAttempt]:
        """The attempts without a verdict, which their submissions did not cause.

        An attack on a task folder may break its tests, which earns nothing.
        """
        return [attempt for attempt in self.attempts if attempt.record.status in NO_VERDICT]

    @property
    def sound(self) -> bool:
        """Whether every attempt has the right verdict and no container is left."""
        return not (self.forged or self.failed or self.unfinished or self.containers_left)

    @property
    def attacks(self) -> list[AuditedAttempt]:
        return [attempt for attempt in self.attempts if attempt.step.attack is not None]

    @property
    def guessed(self) -> list[AuditedAttempt]:
        """The attacks that passed at a task that a constant program solves."""
        return [attempt for attempt in self.attacks if attempt.is_guessable and attempt.record.resolved]

    @property
    def integrity(self) -> dict[str, int]:
        """The number of attempts that show a sign of tampering, by sign, the most frequent first."""
        signs = [attempt.record.metrics.get("integrity") for attempt in self.attacks]
        return dict(Counter(str(sign) for sign in signs if sign is not None).most_common())

    def controls(self, name: str, *, after_attacks: bool = False) -> list[AuditedAttempt]:
        """Return the attempts of `oracle` or `null`, either those before or those after attacks."""
        return [
            attempt
            for attempt in self.attempts
            if attempt.step.name == name and (attempt.step.kind is not None) == after_attacks
        ]


def count_statuses(attempts: Iterable[AuditedAttempt]) -> dict[Status, int]:
    """Return the number of attempts with each status that occurs, in the order of `Status`."""
    counts = Counter(attempt.record.status for attempt in attempts)
    return {status: counts[status] for status in Status if counts[status]}


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
