"""The executor of this machine: workers of this process make attempts concurrently."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.core.types import AttemptRecord, Task
from harness.host.retries import RunStopped
from harness.runs.attempt import make_attempt
from harness.runs.attempt_settings import AttemptSettings
from harness.runs.executors.base import Work, execute_plan, group_attempts
from harness.runs.planned_attempt import PlannedAttempt
from harness.runs.progress import ActiveAttempt
from harness.runs.records import build_record
from harness.runs.store import RunStore


class LocalExecutor:
    """Makes up to `concurrency` attempts at once. Implements `Executor`."""

    def __init__(self, settings: AttemptSettings, concurrency: int) -> None:
        self._settings = settings
        self._concurrency = concurrency

    def count_places(self, attempts: Sequence[PlannedAttempt]) -> int:
        return min(self._concurrency, max(len(self._group(attempts)), 1))

    async def execute(self, work: Work) -> None:
        open_attempts = Counter(planned.task.id for planned in work.attempts)
        units = iter(self._group(work.attempts))
        execution = _Execution(self._settings, work, units, open_attempts)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.count_places(work.attempts)):
                    group.create_task(execution.work_off())
        except ExceptionGroup as failures:
            # The first failure cancelled the other workers, or they failed for the same reason.
            raise failures.exceptions[0] from None
        if self._settings.faults.stopped is not None:
            raise self._settings.faults.stopped

    def _group(self, attempts: Sequence[PlannedAttempt]) -> list[list[PlannedAttempt]]:
        # A service shares its sandboxes between all attempts, whatever their order is.
        in_parallel = self._settings.service is not None or getattr(self._settings.agent, "waits", True)
        return group_attempts(attempts, in_parallel=in_parallel)


@dataclass(slots=True)
class _Execution:
    """The state that the workers share. A worker takes a unit of attempts, and makes one after the other."""

    settings: AttemptSettings
    work: Work
    units: Iterator[list[PlannedAttempt]]
    # The number of attempts at each task that have not ended, by task id.
    open_attempts: Counter[str]
    _begun: set[str] = field(default_factory=set)

    async def work_off(self) -> None:
        """Make attempts until none is left, or until the run stops."""
        for unit in self.units:
            for planned in unit:
                if self.settings.faults.stopped is not None:
                    return
                self._begin_task(planned.task)
                try:
                    with self.work.progress.begin(planned) as active:
                        record = await make_record(self.settings, planned, active)
                except RunStopped:
                    return
                await self.work.finish(record)
                await self._end_attempt(planned)

    def _begin_task(self, task: Task) -> None:
        """Announce the attempts of a task to the model, which may answer all of them in one reply."""
        model = self.settings.model
        if model is not None and task.id not in self._begun:
            self._begun.add(task.id)
            model.merger.expect(task.id, self.open_attempts[task.id])

    async def _end_attempt(self, planned: PlannedAttempt) -> None:
        self.open_attempts[planned.task.id] -= 1
        rest = self.open_attempts[planned.task.id]
        if self.settings.is_isolated or not rest:
            await discard_sandboxes(self.settings, planned)
        if not rest and self.settings.model is not None:
            self.settings.model.merger.forget(planned.task.id)


async def execute(
    settings: AttemptSettings, plan: Sequence[PlannedAttempt], *, store: RunStore, concurrency: int
) -> None:
    """Make every planned attempt without a stored verdict in this process, and store its record.

    Up to `concurrency` attempts are under way at once. The attempts at one task follow each other if the
    agent never waits, because they then share one sandbox. Otherwise as `execute_plan`.
    """
    executor = LocalExecutor(settings, concurrency)
    await execute_plan(executor, plan, store=store, observer=settings.observer)


async def make_record(
    settings: AttemptSettings, planned: PlannedAttempt, active: ActiveAttempt
) -> AttemptRecord:
    """Make an attempt and return its record, which is not stored yet.

    `active` gets the stages of the attempt. Raises RunStopped and StorageError as `make_attempt` does.
    """
    started_at, started = time.time(), time.monotonic()
    outcome = await make_attempt(settings, planned, active)
    return build_record(
        planned,
        settings.benchmark.references[planned.task.id],
        settings.benchmark.add_metrics(outcome.verdict),
        submission=outcome.submission,
        duration_seconds=time.monotonic() - started,
        started_at=started_at,
    )


async def discard_sandboxes(settings: AttemptSettings, planned: PlannedAttempt) -> None:
    """Destroy the idle sandboxes of an attempt, after the last attempt that could share them."""
    settings.pool.discard(settings.key(planned))
    settings.pool.discard(settings.acting_key(planned))
