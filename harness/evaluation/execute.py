"""The execution of a plan: workers make attempts concurrently, and store a record of each."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from harness.evaluation.attempt import AttemptSettings, RunStopped, make_attempt
from harness.evaluation.commits import Commits
from harness.evaluation.plan import PlannedAttempt
from harness.evaluation.progress import RunProgress, ShowsProgress, measure_categories
from harness.evaluation.records import build_record
from harness.types import Task


async def execute(settings: AttemptSettings, plan: Sequence[PlannedAttempt], *, concurrency: int) -> None:
    """Make every planned attempt without a stored verdict, and store its record.

    Up to `concurrency` attempts are under way at once. The attempts at one task follow each other if the
    agent never waits, because they then share one sandbox. A cancellation ends all attempts under way, and
    finished attempts stay stored.

    Raises:
        StorageError: if a record cannot be written.
        RunStoppedError: if a lasting fault of the infrastructure prevents further attempts.
    """
    waiting = _list_waiting(settings, plan)
    open_attempts = Counter(planned.task.id for planned in waiting)
    in_parallel = getattr(settings.agent, "waits", True)
    units = ([planned] for planned in waiting) if in_parallel else _group_by_task(waiting)
    progress = RunProgress(measure_categories(plan, waiting))
    execution = _Execution(settings, Commits(settings.store), units, open_attempts, progress)
    workers = min(concurrency, max(len(waiting if in_parallel else open_attempts), 1))
    if isinstance(settings.observer, ShowsProgress):
        settings.observer.show_progress(progress)
    settings.observer.on_start(attempts=len(plan), finished=len(plan) - len(waiting), concurrency=workers)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(execution.work())
    except ExceptionGroup as failures:
        # The first failure cancelled the other workers, or they failed for the same reason.
        raise failures.exceptions[0] from None
    if settings.faults.stopped is not None:
        raise settings.faults.stopped


def _list_waiting(settings: AttemptSettings, plan: Sequence[PlannedAttempt]) -> Sequence[PlannedAttempt]:
    """Return the attempts that are not finished, which is the plan itself for a new run."""
    store = settings.store
    return [planned for planned in plan if not store.is_finished(planned.key)] if store.results else plan


def _group_by_task(attempts: Iterable[PlannedAttempt]) -> Iterator[list[PlannedAttempt]]:
    groups: dict[str, list[PlannedAttempt]] = {}
    for planned in attempts:
        groups.setdefault(planned.task.id, []).append(planned)
    yield from groups.values()


@dataclass(slots=True)
class _Execution:
    """The state that the workers share. A worker takes a unit of attempts, and makes one after the other."""

    settings: AttemptSettings
    commits: Commits
    units: Iterator[list[PlannedAttempt]]
    # The number of attempts at each task that have not ended, by task id.
    open_attempts: Counter[str]
    progress: RunProgress
    _begun: set[str] = field(default_factory=set)

    async def work(self) -> None:
        """Make attempts until none is left, or until the run stops."""
        for unit in self.units:
            for planned in unit:
                if self.settings.faults.stopped is not None:
                    return
                self._begin_task(planned.task)
                try:
                    await self._make_record(planned)
                except RunStopped:
                    return
                await self._end_attempt(planned)

    async def _make_record(self, planned: PlannedAttempt) -> None:
        settings = self.settings
        started_at, started = time.time(), time.monotonic()
        with self.progress.begin(planned) as active:
            outcome = await make_attempt(settings, planned, active)
        record = build_record(
            planned,
            settings.benchmark.references[planned.task.id],
            settings.benchmark.add_metrics(outcome.verdict),
            submission=outcome.submission,
            duration_seconds=time.monotonic() - started,
            started_at=started_at,
        )
        await self.commits.store(record)
        settings.observer.on_attempt(record)

    def _begin_task(self, task: Task) -> None:
        """Announce the attempts of a task to the model, which may answer all of them in one reply."""
        model = self.settings.model
        if model is not None and task.id not in self._begun:
            self._begun.add(task.id)
            model.merger.expect(task.id, self.open_attempts[task.id])

    async def _end_attempt(self, planned: PlannedAttempt) -> None:
        pool = self.settings.pool
        self.open_attempts[planned.task.id] -= 1
        rest = self.open_attempts[planned.task.id]
        if self.settings.is_isolated or not rest:
            await pool.discard(self.settings.key(planned))
            await pool.discard(self.settings.acting_key(planned))
        if not rest and self.settings.model is not None:
            self.settings.model.merger.forget(planned.task.id)
