"""The execution of a plan: an executor makes its attempts, and this process stores a record of each."""

from __future__ import annotations

from collections.abc import Sequence

from harness.runs.attempt_settings import AttemptSettings
from harness.runs.commits import Commits
from harness.runs.executors.base import Executor, Work
from harness.runs.executors.local import LocalExecutor
from harness.runs.observer import RunObserver
from harness.runs.planned_attempt import PlannedAttempt
from harness.runs.progress import RunProgress, ShowsProgress, measure_categories
from harness.runs.store import RunStore
from harness.runs.transcripts import write_stages


async def execute(
    settings: AttemptSettings, plan: Sequence[PlannedAttempt], *, store: RunStore, concurrency: int
) -> None:
    """Make every planned attempt without a stored verdict in this process, and store its record.

    Up to `concurrency` attempts are under way at once. The attempts at one task follow each other if the
    agent never waits, because they then share one sandbox. Otherwise as `execute_plan`.
    """
    executor = LocalExecutor(settings, concurrency)
    await execute_plan(executor, plan, store=store, observer=settings.observer)


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
