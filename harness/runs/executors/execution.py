"""The execution of a plan: the protocol of executors, their work, and the executor of this process."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.core.shield import complete
from harness.core.types import AttemptRecord
from harness.host.retries import RunStopped
from harness.runs.attempt import AttemptSettings, make_record
from harness.runs.progress import (
    RunObserver,
    RunProgress,
    ShowsProgress,
    measure_categories,
    write_stages,
)
from harness.runs.records import PlannedAttempt
from harness.runs.store import RunStore


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
        await complete(stored)

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


@dataclass(frozen=True, slots=True)
class Work:
    """The attempts that an executor makes, and the places where it reports them."""

    # In the order that they start. The attempts of a unit follow each other.
    units: Sequence[Sequence[PlannedAttempt]]
    progress: RunProgress
    commits: Commits
    observer: RunObserver

    async def finish(self, record: AttemptRecord) -> None:
        """Store the record of an attempt, then announce it. Raises StorageError."""
        await self.commits.store(record)
        self.observer.on_attempt(record)


class Executor(Protocol):
    """Decides where attempts are made. This process alone stores their records."""

    @property
    def places(self) -> int:
        """How many units may be under way at once."""

    @property
    def in_parallel(self) -> bool:
        """Whether each attempt is a unit, and not all attempts at a task."""

    async def execute(self, work: Work) -> None:
        """Make every attempt of `work` and report its record.

        A cancellation ends all attempts under way. Raises StorageError, and RunStoppedError if further
        attempts would fail.
        """


def group_attempts(attempts: Sequence[PlannedAttempt], *, in_parallel: bool) -> list[list[PlannedAttempt]]:
    """Return the attempts in units, whose attempts follow each other.

    Attempts at one task share a sandbox, so they form a unit. With `in_parallel` each attempt is a unit,
    because an agent that waits for a model holds no sandbox meanwhile.
    """
    if in_parallel:
        return [[planned] for planned in attempts]
    groups: dict[str, list[PlannedAttempt]] = {}
    for planned in attempts:
        groups.setdefault(planned.task.id, []).append(planned)
    return list(groups.values())


async def execute_plan(
    executor: Executor | None, plan: Sequence[PlannedAttempt], *, store: RunStore, observer: RunObserver
) -> None:
    """Make every planned attempt without a stored verdict, and store its record.

    A cancellation ends all attempts under way, and finished attempts stay stored.

    Args:
        executor: makes the attempts, None if all are finished.
        plan: the planned attempts, in the order that they start.
        store: gets the records.
        observer: gets the events.

    Raises:
        StorageError: if a record cannot be written.
        RunStoppedError: if a lasting fault of the infrastructure prevents further attempts.
    """
    waiting = plan
    if store.results:
        waiting = [planned for planned in plan if not store.is_finished(planned.key)]
    progress = RunProgress(measure_categories(plan, waiting))
    if isinstance(observer, ShowsProgress):
        observer.show_progress(progress)
    units = [] if executor is None else group_attempts(waiting, in_parallel=executor.in_parallel)
    places = 1 if executor is None else min(executor.places, max(len(units), 1))
    observer.on_start(attempts=len(plan), finished=len(plan) - len(waiting), concurrency=places)
    if executor is None:
        return
    async with write_stages(store.folder, progress):
        await executor.execute(Work(units, progress, Commits(store), observer))


@dataclass(frozen=True, slots=True)
class LocalExecutor:
    """Makes attempts in this process. Each worker takes a unit, and makes one attempt after the other."""

    settings: AttemptSettings
    places: int

    @property
    def in_parallel(self) -> bool:
        # A service shares its sandboxes between all attempts, whatever their order is.
        return self.settings.service is not None or getattr(self.settings.agent, "waits", True)

    async def execute(self, work: Work) -> None:
        settings, units, begun = self.settings, iter(work.units), set[str]()
        # The number of attempts at each task that have not ended.
        left = Counter(planned.task.id for unit in work.units for planned in unit)

        async def work_off() -> None:
            for planned in itertools.chain.from_iterable(units):
                if settings.faults.stopped is not None:
                    return
                task_id, model = planned.task.id, settings.features.model
                if model is not None and task_id not in begun:
                    # The model may answer all attempts at a task in one reply.
                    begun.add(task_id)
                    model.merger.expect(task_id, left[task_id])
                try:
                    with work.progress.begin(planned) as active:
                        record = await make_record(settings, planned, active)
                except RunStopped:
                    return
                await work.finish(record)
                left[task_id] -= 1
                if settings.is_isolated or not left[task_id]:
                    discard_sandboxes(settings, planned)
                if model is not None and not left[task_id]:
                    model.merger.forget(task_id)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.places, len(work.units))):
                    group.create_task(work_off())
        except ExceptionGroup as failures:
            # The first failure cancelled the other workers, or they failed for the same reason.
            raise failures.exceptions[0] from None
        if settings.faults.stopped is not None:
            raise settings.faults.stopped


def discard_sandboxes(settings: AttemptSettings, planned: PlannedAttempt) -> None:
    """Destroy the idle sandboxes of an attempt, after the last attempt that could share them."""
    settings.pool.discard(settings.key(planned))
    settings.pool.discard(settings.acting_key(planned))
