"""A run from its selection to its results: open the run folder, execute the plan, write results."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.errors import HarnessError, SandboxError, UsageError
from harness.core.shield import complete
from harness.core.types import AttemptRecord, Summary
from harness.runs.attempt_settings import AttemptSettings
from harness.runs.changes import Change, add_accepted
from harness.runs.dead_runs import remove_dead_containers
from harness.runs.durations import order_by_duration
from harness.runs.execute import execute_plan, make_pool
from harness.runs.executors.base import Executor
from harness.runs.executors.local import LocalExecutor
from harness.runs.faults import START_TRIES, Faults, choose_concurrency, read_wait_seconds
from harness.runs.manifest import (
    REPEATED,
    TOOL_MODE,
    build_manifest,
    correct_superseded_verdicts,
    describe_conditions,
    describe_start,
    find_origin,
    read_tool_mode,
)
from harness.runs.model_access import (
    describe_url,
    open_judge_access,
    open_model_access,
)
from harness.runs.new_folder import begin_folder, store_samples
from harness.runs.observer import RunObserver
from harness.runs.plan import PlannedAttempt
from harness.runs.recorded_run import (
    describe_recording,
    require_same_recording,
)
from harness.runs.resume import (
    accept_input_changes,
    find_agent_hash,
    read_resumed_manifest,
    read_unsound_references,
    require_planned,
    require_same_tasks,
)
from harness.runs.run_files import has_run_file, replace_file
from harness.runs.run_log import RunLog, open_run_log
from harness.runs.run_secrets import make_log_filter
from harness.runs.run_state import find_state
from harness.runs.selection import Selection
from harness.runs.server_tools import prepare_servers
from harness.runs.spending_log import SPENDING, RunSpending, read_spending
from harness.runs.store import (
    MANIFEST,
    SUMMARY,
    RunStore,
    make_run_folder,
    read_duration,
    read_manifest,
)
from harness.runs.summary import ModelUse, summarize, summary_json, write_results
from harness.runs.sync_grader import SERVICE, GradingService, require_same_place
from harness.runs.trust import is_signed, sign_run
from harness.sandbox.backends import open_default_backend
from harness.sandbox.backends.base import Backend, BackendFacts
from harness.sandbox.pool import SandboxSettings
from harness.sandbox.reaper import remove_run
from harness.sandbox.time_factor import extend_limits

if TYPE_CHECKING:
    from harness.models.access import ModelAccess, ToolMode


@dataclass(slots=True)
class Run:
    """A run in its folder. Call `execute`, then read `summary`."""

    selection: Selection
    store: RunStore
    # None for a run that needs no sandbox.
    backend: Backend | None
    manifest: dict[str, Any]
    # The ids of the images, by name.
    images: Mapping[str, str]
    # How long the run waits for an engine that stops responding.
    wait_seconds: float
    # The time of all executions, including those before the run was resumed.
    duration_seconds: float = field(default=0.0)
    # The spending on the model, also before the run was resumed.
    spent: RunSpending = field(default_factory=RunSpending)
    # Whether `execute` continues an earlier run.
    is_resumed: bool = False
    # Gets the events of the run, None until the run is open.
    log: RunLog | None = None
    # Grades the submissions, None if sandboxes of this machine do.
    service: GradingService | None = None
    # The access to the model, None until `execute` and for a run without one.
    model: ModelAccess | None = None

    @property
    def folder(self) -> Path:
        return self.store.folder

    @property
    def summary(self) -> Summary:
        selection = self.selection
        use = ModelUse(self.spent.of_no_attempt, self.spent.whole.describe_budget())
        return summarize(
            selection.plan,
            self.store.results,
            selection.config.k,
            selection.benchmark.definition.metrics,
            benchmark=selection.benchmark,
            quarantined=selection.quarantined,
            has_samples=selection.config.samples is not None,
            model=None if selection.endpoint is None else use,
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

        Raises as `harness.runs.execute.execute` does.
        """
        plan = self.selection.plan if attempts is None else attempts
        config = self.selection.config
        observer = observer if self.log is None else self.log.watch(observer)
        # Resuming a finished run adds nothing to its duration.
        waiting = sum(not self.store.is_finished(planned.key) for planned in plan)
        started = time.monotonic()
        try:
            async with contextlib.AsyncExitStack() as stack:
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
        config, selection = self.selection.config, self.selection
        pool = await stack.enter_async_context(
            make_pool(self.backend, selection, self.images, self.manifest["run_id"])
        )
        self.model = await stack.enter_async_context(
            open_model_access(
                config,
                selection.endpoint,
                self.folder,
                self.spent,
                tool_mode=read_tool_mode(self.manifest),
                keep_tool_mode=self._keep_tool_mode,
            )
        )
        judge = await stack.enter_async_context(open_judge_access(config, selection.judge))
        settings = AttemptSettings(
            benchmark=selection.benchmark,
            agent=selection.agent,
            transcripts=self.store,
            observer=observer,
            faults=Faults(
                self.backend,
                observer,
                wait_seconds=self.wait_seconds,
                start_tries=min(START_TRIES, waiting),
                responds=None if self.service is None else self.service.responds,
            ),
            pool=pool,
            limits=selection.all_limits,
            timeout_seconds=selection.timeout_seconds,
            turns=config.rounds,
            isolation=config.isolation,
            repeats=any(planned.number > 0 for planned in selection.plan),
            model=self.model,
            judge=judge,
            recording=selection.recording,
            service=self.service,
            servers=await prepare_servers(config, observer.note),
        )
        concurrency = choose_concurrency(
            config.max_concurrent,
            selection.agent,
            sandboxes=bool(selection.images),
            isolation=config.isolation,
            at_service=self.service is not None,
        )
        return LocalExecutor(settings, concurrency)

    async def _open_ray(
        self, stack: contextlib.AsyncExitStack, observer: RunObserver, waiting: int
    ) -> Executor:
        """Return the executor of a Ray cluster. `waiting` is the number of attempts that it gets."""
        from harness.runs.executors.ray_executor import RayRun, open_ray_executor

        run = RayRun(
            self.selection,
            self.folder,
            self.manifest["run_id"],
            self.backend,
            self.manifest["image_tags"],
            self.wait_seconds,
            min(START_TRIES, waiting),
        )
        address = self.selection.config.ray_address
        return await stack.enter_async_context(open_ray_executor(run, address=address, observer=observer))

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
            if self.backend is not None:
                await self._remove_containers(self.backend, observer)

    async def _remove_containers(self, backend: Backend, observer: RunObserver) -> None:
        try:
            await complete(asyncio.to_thread(remove_run, backend, self.manifest["run_id"]))
        except SandboxError as error:
            # Every verdict stands, and the containers end by their deadlines.
            observer.note(f"{error.message} (a container of this run may be left; `harness gc` tries again)")

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
    *,
    resume: Path | None = None,
    repeat: Path | None = None,
    accepted: Collection[str] = (),
    changed: Sequence[Change] = (),
    keep_samples: bool = False,
    is_trusted: bool = False,
    backend: Backend | None = None,
    service: GradingService | None = None,
    notify: Callable[[str], None],
) -> AsyncIterator[Run]:
    """Connect to the engine, find the images, open a new or an old run folder, and yield the run.

    Containers of dead runs are removed first. A run that needs no image needs no engine.

    Args:
        selection: the benchmark, the agent and the plan.
        resume: the run folder to resume, None for a new one.
        repeat: the run folder whose run a new one repeats, with the same inputs.
        accepted: the fields in which the inputs may differ from the manifest of that folder, or of `resume`.
        changed: the changes of the config of a resumed run, which the user has accepted.
        keep_samples: whether a new run folder gets a copy of the samples, because their file is temporary.
        is_trusted: whether the user has started the run of `resume` or `repeat`, or accepts its settings.
        backend: starts the sandboxes. Without it, the run connects to the Docker engine of the environment.
        service: grades the submissions. Such a run needs no engine on this machine.
        notify: shows a message to the user.

    Raises:
        EngineUnavailableError: if the engine does not respond.
        ImageMissingError: if the engine lacks an image.
        UsageError: if the run cannot be resumed, or the folder cannot be used.
        StorageError: if the folder cannot be written.
    """
    if resume is None and repeat is None and any(spec.image for spec in selection.environments):
        limits = extend_limits(selection.config.limits)
        selection = replace(selection, config=selection.config.model_copy(update={"limits": limits}))
    # The manifest holds the resolved values, because defaults may change before the run is resumed.
    config = selection.config.model_copy(
        update={
            "timeout_seconds": selection.timeout_seconds,
            "split": selection.benchmark.split,
            "base_url": describe_url(selection.config, selection.endpoint),
        }
    )
    seconds = read_wait_seconds() if service is None else service.wait_seconds
    async with contextlib.AsyncExitStack() as stack:
        facts: BackendFacts | None = None if service is None else service.facts.backend
        images: Mapping[str, str] = {}
        finding = None if resume else asyncio.create_task(asyncio.to_thread(find_origin))
        if service is not None or not selection.images:
            backend = None
        elif backend is None:
            backend = await stack.enter_async_context(open_default_backend())
        if backend is not None:
            facts = await asyncio.to_thread(backend.describe, runtime=config.runtime, images=selection.images)
            images = facts.images
            await asyncio.to_thread(remove_dead_containers, backend, notify)
        run_id = secrets.token_hex(8)
        if repeat is not None:
            changed = accept_input_changes(
                repeat,
                read_manifest(repeat),
                config,
                selection.benchmark,
                selection.agent,
                facts,
                accepted=accepted,
            )
        if resume is None:
            unsound = {} if backend is None else await _rehearse(selection, backend, images, run_id, notify)
        else:
            unsound = read_unsound_references(resume)
        selection = selection.without(unsound)
        folder = resume or make_run_folder(Path(config.output_dir), selection.benchmark.name)
        store = RunStore(folder, metrics=selection.benchmark.definition.kept_metrics)
        conditions: dict[str, Any] = {
            "timeouts": {
                spec.name: selection.timeout_seconds or spec.timeout_seconds
                for spec in selection.environments
            },
            "limits": selection.all_limits,
        }
        try:
            if finding is not None:
                if keep_samples and config.samples is not None:
                    kept = store_samples(store, Path(config.samples))
                    config = config.model_copy(update={"samples": str(kept)})
                manifest = build_manifest(
                    facts,
                    config,
                    selection.benchmark,
                    selection.plan,
                    run_id=run_id,
                    **conditions,
                    environments=selection.environments,
                    unsound=unsound,
                    origin=await finding,
                    agent_sha256=find_agent_hash(selection.agent),
                    judge=selection.judge,
                    replay=describe_recording(selection.recording),
                )
                if service is not None:
                    manifest[SERVICE] = service.facts.describe()
                if repeat is not None:
                    manifest[REPEATED] = read_manifest(repeat)["run_id"]
                manifest = add_accepted(manifest, changed)
                # The config of a rerun is that of the other folder.
                is_own = repeat is None or is_trusted
                manifest = sign_run(manifest) if is_own else manifest
                begin_folder(store, manifest)
            else:
                require_same_place(folder, read_manifest(folder), service)
                manifest = read_resumed_manifest(
                    folder,
                    selection.config,
                    selection.benchmark,
                    selection.agent,
                    facts,
                    accepted=accepted,
                )
                is_own = is_trusted or is_signed(manifest)
                require_same_tasks(folder, manifest, selection.plan)
                require_same_recording(folder, manifest, selection.recording)
                if changed:
                    manifest["config"] = config.model_dump(mode="json")
                    manifest |= describe_conditions(config, selection.environments, **conditions)
                    manifest = add_accepted(manifest, changed)
                superseded = store.results.count_superseded()
                manifest = correct_superseded_verdicts(manifest, superseded)
                manifest = sign_run(manifest) if is_own else manifest
                if manifest != read_manifest(folder):
                    require_planned(folder, store.results, selection.plan)
                    store.write_json(MANIFEST, manifest)
            earlier = 0.0 if resume is None else read_duration(folder)
            spent = RunSpending() if resume is None else read_spending(folder)
            run = Run(
                *(selection, store, backend, manifest, images, seconds, earlier, spent),
                is_resumed=finding is None,
                service=service,
            )
            try:
                with open_run_log(folder, make_log_filter(selection.config), notify) as run.log:
                    text = describe_start(manifest, folder, is_resumed=run.is_resumed)
                    run.log.write(logging.INFO, text)
                    yield run
            except UsageError as error:
                if run.is_refused(error):
                    shutil.rmtree(folder, ignore_errors=True)
                raise
        finally:
            store.close()


async def _rehearse(
    selection: Selection,
    backend: Backend,
    images: Mapping[str, str],
    run_id: str,
    notify: Callable[[str], None],
) -> dict[str, str]:
    """Rehearse the references, and return the reason for each that is not sound, by task id.

    A run that includes quarantined tasks needs no rehearsal, and neither does the bundled sample.
    """
    if selection.config.include_quarantined or selection.benchmark.source.kind == "bundled":
        return {}
    benchmark = selection.benchmark
    unsound: dict[str, str] = {}
    for spec in selection.environments:
        rehearse = benchmark.definition.rehearsals.get(spec.name)
        if rehearse is None or spec.image is None:
            continue
        tasks = {planned.task.id for planned in selection.plan if planned.task.environment == spec.name}
        settings = SandboxSettings(spec.image, selection.limits(spec))
        tried = [(task, benchmark.references[task.id]) for task in benchmark.tasks if task.id in tasks]
        async with make_pool(backend, selection, images, run_id) as pool:
            unsound.update(await rehearse(pool, settings, tried))
    for task_id, reason in unsound.items():
        notify(f"task {task_id} is quarantined: {reason}")
    return unsound
