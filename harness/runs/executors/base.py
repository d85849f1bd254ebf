"""The protocol of executors, and the work that they get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.core.types import AttemptRecord
from harness.runs.commits import Commits
from harness.runs.observer import RunObserver
from harness.runs.planned_attempt import PlannedAttempt
from harness.runs.progress import RunProgress


@dataclass(frozen=True, slots=True)
class Work:
    """The attempts that an executor makes, and the places where it reports them."""

    # In the order that they start.
    attempts: Sequence[PlannedAttempt]
    progress: RunProgress
    commits: Commits
    observer: RunObserver

    async def finish(self, record: AttemptRecord) -> None:
        """Store the record of an attempt, then announce it. Raises StorageError."""
        await self.commits.store(record)
        self.observer.on_attempt(record)


class Executor(Protocol):
    """Decides where attempts are made. This process alone stores their records."""

    def count_places(self, attempts: Sequence[PlannedAttempt]) -> int:
        """Return how many of these attempts may be under way at once."""

    async def execute(self, work: Work) -> None:
        """Make every attempt of `work` and report its record.

        A cancellation ends all attempts under way. Raises StorageError, and RunStoppedError if further
        attempts would fail.
        """


def group_attempts(attempts: Sequence[PlannedAttempt], *, in_parallel: bool) -> list[list[PlannedAttempt]]:
    """Return the attempts in units, whose attempts follow each other.

    Attempts at one task share a sandbox, so they form a unit. With `in_parallel` each attempt is a unit,
    because an agent that waits for a model leaves the sandbox to nobody meanwhile.
    """
    if in_parallel:
        return [[planned] for planned in attempts]
    groups: dict[str, list[PlannedAttempt]] = {}
    for planned in attempts:
        groups.setdefault(planned.task.id, []).append(planned)
    return list(groups.values())
