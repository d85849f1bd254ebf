"""The result of an audit: its attempts, and which of them are wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.audit.suite import CONSTANT, ORACLE, Step
from harness.core.types import AttemptRecord, DataSource, Status
from harness.environments.container.seal import Level

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
