"""The starts of a run: a new one, a repetition of another run, or its continuation in its own folder."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError
from harness.core.inputs.files import MAX_DATA_BYTES, MIB, open_input
from harness.host.engine import open_engine
from harness.host.retries import read_wait_seconds
from harness.runs.agents.outside import name_agent
from harness.runs.config import load_config
from harness.runs.grading_service import SERVICE, GradingService, require_same_place
from harness.runs.manifest import (
    REPEATED,
    Origin,
    build_manifest,
    correct_superseded_verdicts,
    describe_conditions,
    find_origin,
)
from harness.runs.recorded_run import add_recorded_settings, require_same_recording
from harness.runs.resume import (
    Change,
    accept_input_changes,
    accept_resumed_manifest,
    add_accepted,
    change_resumed_config,
    read_resumed_config,
    read_unsound_references,
    require_planned,
    require_same_tasks,
)
from harness.runs.run_files import StorageError, create_run_file
from harness.runs.selection import Selection, select
from harness.runs.settings import RunConfig
from harness.runs.spending_log import RunSpending, read_spending
from harness.runs.store import MANIFEST, SAMPLES, RunStore, make_run_folder, read_duration, read_manifest
from harness.runs.trust import is_signed, require_trust, sign_run
from harness.sandbox.backends.base import Backend, BackendFacts
from harness.sandbox.pool import SandboxSettings
from harness.sandbox.time_factor import extend_limits


@dataclass(frozen=True, slots=True)
class RunEngine:
    """The engine whose sandboxes a run uses: of this machine, of a service, or none."""

    # How long the run waits for an engine that stops responding.
    wait_seconds: float = 0.0
    # None for a run that needs no sandbox on this machine.
    backend: Backend | None = None
    # None for a run that needs no sandbox.
    facts: BackendFacts | None = None
    # Grades the submissions, None if sandboxes of this machine do.
    service: GradingService | None = None

    @property
    def images(self) -> Mapping[str, str]:
        """The ids of this machine's images, by name."""
        return {} if self.facts is None or self.backend is None else self.facts.images


@contextlib.asynccontextmanager
async def open_run_engine(
    selection: Selection,
    backend: Backend | None,
    service: GradingService | None,
    notify: Callable[[str], None],
) -> AsyncIterator[RunEngine]:
    """Yield the engine of a run, after removing the containers of dead runs.

    The arguments and the errors are as for `harness.runs.run.open_run`.
    """
    if service is not None:
        yield RunEngine(service.wait_seconds, facts=service.facts.backend, service=service)
    elif not selection.images:
        yield RunEngine(read_wait_seconds())
    else:
        config = selection.config
        opening = open_engine(
            selection.images,
            runtime=config.runtime,
            backend=backend or config.backend,
            allow_weaker=config.allow_weaker,
            notify=notify,
        )
        async with opening as engine:
            yield RunEngine(read_wait_seconds(), engine.backend, engine.facts)


@dataclass(frozen=True, slots=True)
class Opening:
    """A run before its folder is open."""

    selection: Selection
    engine: RunEngine
    run_id: str
    # The reason for each task that a rehearsal has quarantined, by task id.
    unsound: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> RunConfig:
        """The config with its resolved values, because defaults may change before the run is resumed."""
        selection, endpoint = self.selection, self.selection.endpoint
        # A named endpoint has its URL in the config.
        is_named = endpoint is None or selection.config.model in selection.config.endpoints
        resolved = {
            "timeout_seconds": selection.timeout_seconds,
            "split": selection.benchmark.split,
            "base_url": None if endpoint is None or is_named else endpoint.base_url,
        }
        return selection.config.model_copy(update=resolved)


@dataclass
class NewRun:
    """The start of a run in a new folder."""

    # Whether the folder gets a copy of the samples, because their file is temporary.
    keep_samples: bool = False

    is_resumed = False
    # Whether the config comes from an earlier run. It has every setting then, so an unread one is no mistake.
    is_recorded = False

    def __post_init__(self) -> None:
        self._finding_origin: asyncio.Task[Origin] | None = None

    def begin(self, selection: Selection) -> Selection:
        """Return the selection with limits for this machine, and find the origin of the run meanwhile."""
        self._finding_origin = asyncio.create_task(asyncio.to_thread(find_origin))
        if not any(spec.image for spec in selection.environments):
            return selection
        limits = extend_limits(selection.config.limits)
        return replace(selection, config=selection.config.model_copy(update={"limits": limits}))

    async def find_unsound(self, opening: Opening, notify: Callable[[str], None]) -> Mapping[str, str]:
        """Rehearse the references, and return the reason for each that is not sound, by task id."""
        return await _rehearse(opening, notify)

    def open_store(self, opening: Opening) -> RunStore:
        """Return the store in the folder of the run. Raises UsageError."""
        benchmark = opening.selection.benchmark
        folder = make_run_folder(Path(opening.config.output_dir), benchmark.name)
        return RunStore(folder, metrics=benchmark.definition.kept_metrics)

    async def write_manifest(self, opening: Opening, store: RunStore) -> dict[str, Any]:
        """Return the manifest, which the folder has now. Raises UsageError and StorageError."""
        config, service = opening.config, opening.engine.service
        if self.keep_samples and config.samples is not None:
            kept = store_samples(store, Path(config.samples))
            config = config.model_copy(update={"samples": str(kept)})
        assert self._finding_origin is not None, "it has begun"  # noqa: S101
        manifest = build_manifest(opening, config, await self._finding_origin)
        if service is not None:
            manifest[SERVICE] = service.facts.describe()
        manifest = self.sign(manifest)
        try:
            store.write_json(MANIFEST, manifest)
        except StorageError as error:
            raise _remove_folder(store, error.message) from error
        return manifest

    def sign(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Return the manifest with the signature of a run that the user has started."""
        return sign_run(manifest)

    def read_earlier(self) -> tuple[float, RunSpending]:
        """Return the seconds and the spending of the run so far. Raises UsageError."""
        return 0.0, RunSpending()


@dataclass(kw_only=True)
class RepeatedRun(NewRun):
    """The start of a new run that repeats another one, with the same inputs and limits."""

    # The folder of the other run.
    folder: Path
    # The fields of its manifest whose inputs may have changed.
    accepted: Collection[str] = ()
    # Whether the user has started the other run, or accepts its settings.
    is_trusted: bool = False

    is_recorded = True
    # The changes of the inputs that the user has accepted.
    _changed: Sequence[Change] = field(default=(), init=False)

    def begin(self, selection: Selection) -> Selection:
        """Return the selection with the limits of the other run, which that run's machine has extended."""
        super().begin(selection)
        return selection

    async def find_unsound(self, opening: Opening, notify: Callable[[str], None]) -> Mapping[str, str]:
        self._changed = accept_input_changes(
            self.folder,
            read_manifest(self.folder),
            opening.selection,
            opening.engine.facts,
            self.accepted,
        )
        return await super().find_unsound(opening, notify)

    def sign(self, manifest: dict[str, Any]) -> dict[str, Any]:
        manifest[REPEATED] = read_manifest(self.folder)["run_id"]
        manifest = add_accepted(manifest, self._changed)
        return sign_run(manifest) if self.is_trusted else manifest


@dataclass(frozen=True)
class ResumedRun:
    """The start of a run that goes on in its folder."""

    folder: Path
    # The fields of the manifest whose inputs may have changed.
    accepted: Collection[str] = ()
    # The changes of the config that the user has accepted.
    changed: Sequence[Change] = ()
    # Whether the user has started the run, or accepts its settings.
    is_trusted: bool = False

    is_resumed = is_recorded = True

    def begin(self, selection: Selection) -> Selection:
        """Return the selection with the limits that the run has had."""
        return selection

    async def find_unsound(self, opening: Opening, notify: Callable[[str], None]) -> Mapping[str, str]:
        """Return the unsound references that the run has found at its start. Raises UsageError."""
        return read_unsound_references(self.folder)

    def open_store(self, opening: Opening) -> RunStore:
        """Return the store in the folder of the run."""
        return RunStore(self.folder, metrics=opening.selection.benchmark.definition.kept_metrics)

    async def write_manifest(self, opening: Opening, store: RunStore) -> dict[str, Any]:
        """Return the manifest with all accepted changes, which the folder has now.

        Raises UsageError for a change that is not accepted, and StorageError.
        """
        folder, selection, engine = self.folder, opening.selection, opening.engine
        recorded = read_manifest(folder)
        require_same_place(folder, recorded, engine.service)
        manifest = accept_resumed_manifest(folder, recorded, selection, engine.facts, self.accepted)
        is_own = self.is_trusted or is_signed(manifest)
        require_same_tasks(folder, manifest, selection.plan)
        require_same_recording(folder, manifest, selection.recording)
        if self.changed:
            manifest["config"] = opening.config.model_dump(mode="json")
            manifest |= describe_conditions(selection)
            manifest = add_accepted(manifest, self.changed)
        superseded = store.results.count_superseded()
        manifest = correct_superseded_verdicts(manifest, superseded)
        manifest = sign_run(manifest) if is_own else manifest
        if manifest != recorded:
            require_planned(folder, store.results, selection.plan)
            store.write_json(MANIFEST, manifest)
        return manifest

    def read_earlier(self) -> tuple[float, RunSpending]:
        """Return the seconds and the spending of the run so far. Raises UsageError."""
        return read_duration(self.folder), read_spending(self.folder)


RunStart = NewRun | ResumedRun


def resume_run(
    folder: Path, given: Callable[[RunConfig], RunConfig | None], accepted: Sequence[str], *, is_trusted: bool
) -> tuple[RunConfig, ResumedRun]:
    """Return the config of the run in `folder` with the settings of this command, and its start.

    `given` returns these settings from the recorded config, None without any. Raises UsageError.
    """
    manifest = read_manifest(folder)
    config = read_resumed_config(folder, manifest)
    changed: list[Change] = []
    if (settings := given(config)) is not None:
        config, changed = change_resumed_config(folder, config, settings, accepted)
    trusted = require_trust(folder, manifest, config, is_trusted=is_trusted)
    return config, ResumedRun(folder, accepted, changed, trusted)


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run before it is opened."""

    selection: Selection
    start: RunStart


def plan_run(
    benchmark: str | None,
    *,
    resume: Path | None,
    agent: Any,
    options: Mapping[str, Any],
    notify: Callable[[str], None],
) -> PlannedRun:
    """Return a run with these settings.

    Args:
        benchmark: the name of a benchmark, or the path of the user's own. A resumed run needs none.
        resume: the run folder to resume, None for a new run.
        agent: the name of an agent, an agent of the user, or None for the default or the recorded one.
        options: the other keys of the config.
        notify: gets warnings and other notes.

    Raises:
        UsageError: for settings that cannot be used, and for a run that cannot be resumed with them.
        DataError: for data that cannot be used.
    """
    own_agent = None if isinstance(agent, str) else agent
    if resume is None:
        if benchmark is None:
            raise UsageError(
                "a run needs a benchmark, or a run to resume", hint="run(BENCHMARK), or run(resume=FOLDER)"
            )
        named = {"agent": agent} if isinstance(agent, str) else {}
        values = {"benchmark": benchmark, **named, **options}
        config = load_config(None, values, add_settings=add_recorded_settings)
        return PlannedRun(select(config, notify=notify, agent=own_agent), NewRun())
    manifest = read_manifest(resume)
    recorded = read_resumed_config(resume, manifest)
    is_trusted = require_trust(resume, manifest, recorded, is_trusted=False)
    named = {} if agent is None else {"agent": agent if isinstance(agent, str) else name_agent(agent)}
    values = {"benchmark": recorded.benchmark, "agent": recorded.agent, **named, **options}
    if benchmark is not None:
        values["benchmark"] = benchmark
    config, changed = change_resumed_config(resume, recorded, load_config(None, values), ())
    selection = select(config, notify=notify, agent=own_agent, resumed=True)
    return PlannedRun(selection, ResumedRun(resume, changed=tuple(changed), is_trusted=is_trusted))


async def _rehearse(opening: Opening, notify: Callable[[str], None]) -> dict[str, str]:
    """Rehearse the references, and return the reason for each that is not sound, by task id.

    A run that includes quarantined tasks needs no rehearsal, and neither does the bundled sample.
    """
    selection, engine = opening.selection, opening.engine
    benchmark = selection.benchmark
    unsound: dict[str, str] = {}
    if engine.backend is None or selection.config.include_quarantined or benchmark.source.kind == "bundled":
        return unsound
    for spec in selection.environments:
        rehearse = benchmark.definition.rehearsals.get(spec.name)
        if rehearse is None or spec.image is None:
            continue
        tasks = {planned.task.id for planned in selection.plan if planned.task.environment == spec.name}
        settings = SandboxSettings(spec.image, selection.limits(spec))
        tried = [(task, benchmark.references[task.id]) for task in benchmark.tasks if task.id in tasks]
        async with selection.make_pool(engine.backend, engine.images, opening.run_id) as pool:
            unsound.update(await rehearse(pool, settings, tried))
    for task_id, reason in unsound.items():
        notify(f"task {task_id} is quarantined: {reason}")
    return unsound


def store_samples(store: RunStore, samples: Path) -> Path:
    """Copy the user's samples to the run folder and return the path of the copy. Raises UsageError."""
    kept = store.folder.resolve() / SAMPLES
    try:
        with open_input(samples, max_bytes=MAX_DATA_BYTES) as stream:
            copy_samples(store, stream)
    except OSError as error:
        raise _remove_folder(store, f"{kept}: cannot be written: {error.strerror}") from error
    return kept


def copy_samples(store: RunStore, stream: BufferedReader) -> str:
    """Write samples to the run folder and return their SHA-256 (hex). Raises OSError."""
    digest = hashlib.sha256()
    with os.fdopen(create_run_file(store.folder, SAMPLES), "wb") as file:
        while chunk := stream.read(MIB):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


def _remove_folder(store: RunStore, message: str) -> UsageError:
    """Remove the folder of a run that cannot start, and return the error to raise."""
    shutil.rmtree(store.folder, ignore_errors=True)
    return UsageError(message, hint="make room, or choose another folder with --output-dir DIR")
