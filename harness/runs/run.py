"""A run from its selection to its results: open its folder, make or repeat attempts, and write results."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.errors import HarnessError, UsageError
from harness.core.shield import complete
from harness.core.types import AttemptRecord, Status, Summary
from harness.host.engine import remove_containers
from harness.host.local import LocalHost
from harness.runs.attempt import AttemptSettings
from harness.runs.executors.execution import Executor, LocalExecutor, execute_plan
from harness.runs.faults import START_TRIES, Faults
from harness.runs.features import open_features
from harness.runs.grading_service import GradingService
from harness.runs.manifest import TOOL_MODE, correct_superseded_verdicts, describe_start, read_tool_mode
from harness.runs.plan import order_by_duration
from harness.runs.progress import RunObserver
from harness.runs.records import PlannedAttempt
from harness.runs.run_files import StorageError, advise_resume, has_run_file, replace_file
from harness.runs.run_log import RunLog, open_run_log
from harness.runs.run_names import find_state
from harness.runs.run_secrets import make_log_filter
from harness.runs.run_starts import NewRun, Opening, RunEngine, RunStart, open_run_engine
from harness.runs.selection import Selection
from harness.runs.spending_log import SPENDING, RunSpending, SpendingLog
from harness.runs.store import MANIFEST, SUMMARY, RunStore
from harness.runs.stored_result import SUPERSEDED_STATUS, StoredResult
from harness.runs.summary import ModelUse, summarize, summary_json, write_results
from harness.runs.transcripts import keep_transcript
from harness.sandbox.backends.base import Backend

if TYPE_CHECKING:
    from harness.models.access import ToolMode
    from harness.models.spending import Spending

# Each write is synced, so it holds many records.
_WRITTEN_RECORDS = 1000


@dataclass(slots=True)
class Run:
    """A run in its folder. Call `execute`, then read `summary`."""

    selection: Selection
    store: RunStore
    engine: RunEngine
    manifest: dict[str, Any]
    # The time of all executions, including those before the run was resumed.
    duration_seconds: float = field(default=0.0)
    # The spending on the model, also before the run was resumed.
    spent: RunSpending = field(default_factory=RunSpending)
    # Whether `execute` continues an earlier run.
    is_resumed: bool = False
    # Gets the events of the run, None until the run is open.
    log: RunLog | None = None

    @property
    def folder(self) -> Path:
        return self.store.folder

    @property
    def summary(self) -> Summary:
        selection, use = self.selection, None
        if selection.endpoint is not None:
            use = ModelUse(self.spent.of_no_attempt, self.spent.whole.describe_budget())
        return summarize(
            selection.plan,
            self.store.results,
            selection.config.k,
            selection.benchmark.definition.metrics,
            benchmark=selection.benchmark,
            quarantined=selection.quarantined,
            has_samples=selection.config.samples is not None,
            model=use,
            cluster_by=selection.config.cluster_by,
        )

    def is_refused(self, error: BaseException) -> bool:
        """Return whether `error` ended a new run that has recorded nothing and spent nothing.

        A server that refuses the key or the model does so. There is nothing to show or to resume, and the
        folder would become `latest`, so it is removed.
        """
        is_untouched = not self.store.results and not has_run_file(self.folder, SPENDING)
        return isinstance(error, UsageError) and is_untouched and not self.is_resumed

    def records(self, *, whole: bool = False) -> Iterator[AttemptRecord]:
        """Yield the stored attempts in task order, read from the run folder one at a time.

        The records have their whole texts only if `whole` is true.
        """
        return self.store.records(self.selection.plan, whole=whole)

    async def execute(self, observer: RunObserver, attempts: Sequence[PlannedAttempt] | None = None) -> None:
        """Make the attempts that are not finished. No container of the run stays behind, even on an error.

        Args:
            observer: gets the events of the run.
            attempts: the only attempts to make, None for those of the whole plan.

        Raises as `execute_plan` does.
        """
        plan = self.selection.plan if attempts is None else attempts
        config = self.selection.config
        observer = observer if self.log is None else self.log.watch(observer)
        # Resuming a finished run adds nothing to its duration.
        waiting = sum(not self.store.is_finished(planned.key) for planned in plan)
        started = time.monotonic()
        try:
            async with contextlib.AsyncExitStack() as stack:
                executor = None
                if waiting:
                    open_executor = self._open_local if config.executor == "local" else self._open_ray
                    executor = await open_executor(stack, observer, waiting)
                ordered = order_by_duration(plan, self.selection.durations)
                await execute_plan(executor, ordered, store=self.store, observer=observer)
        except BaseException:
            with contextlib.suppress(HarnessError):  # only the first error is reported
                await self._end(observer, time.monotonic() - started)
            raise
        await self._end(observer, time.monotonic() - started if waiting else 0.0)

    async def _open_local(
        self, stack: contextlib.AsyncExitStack, observer: RunObserver, waiting: int
    ) -> Executor:
        """Return the executor of this process. `waiting` is the number of attempts that it gets."""
        selection, engine = self.selection, self.engine
        faults = Faults(
            engine.backend,
            observer,
            wait_seconds=engine.wait_seconds,
            start_tries=min(START_TRIES, waiting),
            responds=None if engine.service is None else engine.service.responds,
        )
        pool = selection.make_pool(engine.backend, engine.images, self.manifest["run_id"])
        host = await stack.enter_async_context(LocalHost(pool, faults))
        features = await stack.enter_async_context(
            open_features(
                selection,
                self._open_spending,
                tool_mode=read_tool_mode(self.manifest),
                keep_tool_mode=self._keep_tool_mode,
                note=observer.note,
            )
        )
        settings = AttemptSettings.of_selection(
            selection,
            transcripts=self.store,
            observer=observer,
            faults=faults,
            pool=host.pool,
            features=features,
            service=engine.service,
        )
        concurrency = selection.choose_concurrency(at_service=engine.service is not None)
        return LocalExecutor(settings, concurrency)

    async def _open_ray(
        self, stack: contextlib.AsyncExitStack, observer: RunObserver, waiting: int
    ) -> Executor:
        """Return the executor of a Ray cluster. `waiting` is the number of attempts that it gets."""
        from harness.runs.executors.ray_executor import open_ray_executor

        opening = open_ray_executor(self, observer, start_tries=min(START_TRIES, waiting))
        return await stack.enter_async_context(opening)

    def _open_spending(self) -> Spending:
        """Return the spending of the run, whose log grows with each request to the model."""
        spending = self.spent.whole
        spending.budget = self.selection.config.run_budget
        spending.keep = SpendingLog(self.folder, self.spent).append
        return spending

    def _keep_tool_mode(self, mode: ToolMode) -> None:
        if self.manifest.get(TOOL_MODE) != mode:
            self.manifest[TOOL_MODE] = mode
            self.store.write_json(MANIFEST, self.manifest)

    async def _end(self, observer: RunObserver, seconds: float) -> None:
        self.duration_seconds += seconds
        observer.on_end()
        try:
            self.write_summary()
        finally:
            if (close := getattr(self.selection.agent, "close", None)) is not None:
                await complete(asyncio.to_thread(close))
            if self.engine.backend is not None and self.selection.config.executor == "ray":
                # The host of a local run has removed its own, and a node of this machine may have been lost.
                await remove_containers(self.engine.backend, self.manifest["run_id"], observer.note)

    def write_summary(self) -> None:
        """Write `summary.json`. Raises StorageError."""
        facts = {"source": self.manifest["source"], "duration_seconds": round(self.duration_seconds, 3)}
        self.store.write_json(SUMMARY, {**summary_json(self.summary), **facts})

    def write_results(self, path: Path) -> None:
        """Write `results.json`, one attempt at a time. Raises StorageError."""
        with replace_file(path) as file:
            write_results(
                file,
                manifest=self.manifest,
                folder=self.folder,
                state=find_state(self.summary, is_running=False),
                duration_seconds=self.duration_seconds,
                summary=summary_json(self.summary),
                attempts=self.records(),
            )


@contextlib.asynccontextmanager
async def open_run(
    selection: Selection,
    start: RunStart | None = None,
    *,
    backend: Backend | None = None,
    service: GradingService | None = None,
    notify: Callable[[str], None],
) -> AsyncIterator[Run]:
    """Connect to the engine, find the images, open a new or an old run folder, and yield the run.

    Containers of dead runs are removed first. A run that needs no image needs no engine.

    Args:
        selection: the benchmark, the agent and the plan.
        start: how the run starts, None for a new run.
        backend: starts the sandboxes. Without it, the run connects to the Docker engine of the environment.
        service: grades the submissions. Such a run needs no engine on this machine.
        notify: shows a message to the user.

    Raises:
        EngineUnavailableError: if the engine does not respond.
        ImageMissingError: if the engine lacks an image.
        UsageError: if the run cannot be resumed, or the folder cannot be used.
        StorageError: if the folder cannot be written.
    """
    start = start or NewRun()
    selection = start.begin(selection)
    async with contextlib.AsyncExitStack() as stack:
        engine = await stack.enter_async_context(open_run_engine(selection, backend, service, notify))
        opening = Opening(selection, engine, secrets.token_hex(8))
        unsound = await start.find_unsound(opening, notify)
        opening = replace(opening, selection=selection.without(unsound), unsound=unsound)
        store = start.open_store(opening)
        stack.callback(store.close)
        manifest = await start.write_manifest(opening, store)
        run = Run(opening.selection, store, engine, manifest, *start.read_earlier(), start.is_resumed)
        try:
            with open_run_log(run.folder, make_log_filter(selection.config), notify) as run.log:
                text = describe_start(manifest, run.folder, is_resumed=run.is_resumed)
                run.log.write(logging.INFO, text)
                yield run
        except UsageError as error:
            if run.is_refused(error):
                shutil.rmtree(run.folder, ignore_errors=True)
            raise


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempts that a resumed run repeats, instead of all that have no verdict."""

    # Those that have a verdict other than `passed`.
    failed: bool = False
    # Those that ended in an infra error, or whose tests were broken.
    infra: bool = False

    def selects(self, result: StoredResult) -> bool:
        """Return whether the attempt of this result is repeated."""
        if result.status in (Status.INFRA_ERROR, Status.GRADER_ERROR):
            return self.infra
        if result.status is Status.CANCELLED:  # a killed retry has superseded it
            return self.failed and result.superseded > 0
        return self.failed and result.status is not Status.PASSED


def begin_retry(run: Run, retry: Retry) -> list[PlannedAttempt]:
    """Supersede the verdicts that are repeated, and return the attempts to make, in the order of the plan.

    Raises:
        DataError: if a transcript cannot be read.
        StorageError: if the run folder cannot be written.
    """
    results = run.store.results
    chosen = [
        planned
        for planned in run.selection.plan
        if (result := results.get(planned.key)) is not None and retry.selects(result)
    ]
    judged = [planned for planned in chosen if results[planned.key].status.has_score]
    if judged:
        _supersede(run, judged)
    return chosen


def _supersede(run: Run, judged: Sequence[PlannedAttempt]) -> None:
    # The copies come first, because a transcript that cannot be read must leave the run as it was.
    for planned in judged:
        keep_transcript(run.folder, *planned.key, run.store.results[planned.key].superseded)
    # The summary of the verdicts must not outlive them.
    try:
        (run.folder / SUMMARY).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"{run.folder / SUMMARY}: cannot be removed: {error.strerror}",
            hint=advise_resume(run.folder, error),
        ) from error
    places = iter(judged)
    while batch := list(itertools.islice(places, _WRITTEN_RECORDS)):
        run.store.append(*map(_describe_superseded, run.store.records(batch)))
    # A retry that is killed before this is counted when the run is resumed.
    number = run.store.results.count_superseded()
    run.manifest = correct_superseded_verdicts(run.manifest, number)
    run.store.write_json(MANIFEST, run.manifest)
    run.write_summary()


def _describe_superseded(record: AttemptRecord) -> AttemptRecord:
    """Return the record that supersedes a verdict. It has no verdict, and no use of a model."""
    return replace(
        record,
        resolved=False,
        status=Status.CANCELLED,
        score=None,
        metrics={SUPERSEDED_STATUS: record.status.value},
        agent_output="",
        agent_output_cut=0,
        duration_seconds=0.0,
        error="the verdict was superseded by --retry-failed",
    )


def list_remaining(
    plan: Iterable[PlannedAttempt],
    results: Mapping[tuple[str, int], StoredResult],
    retry: Retry | None,
) -> Collection[tuple[str, int]]:
    """Return the keys of the attempts that a resumed run would make."""
    if retry is None:
        return [
            each.key for each in plan if each.key not in results or not results[each.key].status.has_score
        ]
    return [each.key for each in plan if each.key in results and retry.selects(results[each.key])]
