"""The protocol of executors, their work, and the execution of a plan, whose records this process stores."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.core.shield import complete
from harness.core.types import AttemptRecord
from harness.runs.planned_attempt import PlannedAttempt
from harness.runs.progress import RunObserver, RunProgress, ShowsProgress, measure_categories
from harness.runs.store import RunStore
from harness.runs.transcripts import write_stages


class Commits:
    """Stores the records of concurrent attempts with as few writes and fsyncs as possible."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._waiting: list[tuple[AttemptRecord, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def store(self, record: AttemptRecord) -> None:
        """Store a record; return when it is on the disk, even if cancelled meanwhile. Raises StorageError."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, stored))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await complete(_wait_for(stored))

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._store.append, *(record for record, _ in batch))
            except Exception as error:  # every waiting caller must get the error
                for _, stored in batch:
                    stored.set_exception(error)
            else:
                for _, stored in batch:
                    stored.set_result(None)
        self._writing = None


async def _wait_for(stored: asyncio.Future[None]) -> None:
    await stored


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


async def execute_plan(
    executor: Executor, plan: Sequence[PlannedAttempt], *, store: RunStore, observer: RunObserver
) -> None:
    """Make every planned attempt without a stored verdict, and store its record.

    A cancellation ends all attempts under way, and finished attempts stay stored.

    Args:
        executor: makes the attempts.
        plan: the planned attempts, in the order that they start.
        store: gets the records.
        observer: gets the events.

    Raises:
        StorageError: if a record cannot be written.
        RunStoppedError: if a lasting fault of the infrastructure prevents further attempts.
    """
    waiting = _list_waiting(store, plan)
    progress = RunProgress(measure_categories(plan, waiting))
    if isinstance(observer, ShowsProgress):
        observer.show_progress(progress)
    observer.on_start(
        attempts=len(plan), finished=len(plan) - len(waiting), concurrency=executor.count_places(waiting)
    )
    async with write_stages(store.folder, progress):
        await executor.execute(Work(waiting, progress, Commits(store), observer))


def _list_waiting(store: RunStore, plan: Sequence[PlannedAttempt]) -> Sequence[PlannedAttempt]:
    """Return the attempts that are not finished, which is the plan itself for a new run."""
    return [planned for planned in plan if not store.is_finished(planned.key)] if store.results else plan
