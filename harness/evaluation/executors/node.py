"""A node of a run: it owns the engine of its machine, and makes the attempts that it gets leases for.

The process of the run calls the methods, by whatever means it reaches the machine. Arguments and results are
plain data. Nothing here stores a record.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import BinaryIO, cast

from harness.errors import HarnessError, SandboxError, UsageError
from harness.evaluation.attempt import AttemptSettings, RunStopped
from harness.evaluation.concurrency import choose_concurrency
from harness.evaluation.dead_runs import remove_dead_containers
from harness.evaluation.executors.inputs import find_difference, hash_code, hash_inputs, read_config
from harness.evaluation.executors.messages import (
    ImageContent,
    Lease,
    NodeFacts,
    NodeSpec,
    Refusal,
    Report,
    Stop,
)
from harness.evaluation.executors.node_transcripts import NodeTranscripts
from harness.evaluation.executors.record import discard_sandboxes, make_record
from harness.evaluation.faults import Faults, RunStoppedError
from harness.evaluation.plan import PlannedAttempt
from harness.evaluation.progress import ActiveAttempt, Stage
from harness.evaluation.records import to_json
from harness.evaluation.run_pool import make_pool
from harness.evaluation.selection import Selection, select
from harness.sandbox.backends import open_default_backend
from harness.sandbox.backends.base import Backend, MovesImages
from harness.sandbox.pool import count_gate_places
from harness.sandbox.reaper import NAMESPACE_VARIABLE, remove_run
from harness.shield import complete
from harness.types import AttemptRecord, Status
from harness.version import __version__

# How often an attempt under way reports its stage and its transcript.
REPORT_SECONDS = 1.0


class Node:
    """Makes attempts of one run on this machine. Call `connect`, then `open`, then `make`, then `close`."""

    def __init__(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        self._backend: Backend | None = None
        self._samples: BinaryIO | None = None
        self._archive: BinaryIO | None = None
        self._run_id: str | None = None
        self._settings: AttemptSettings | None = None
        self._plan: dict[tuple[str, int], PlannedAttempt] = {}
        self._transcripts = NodeTranscripts()
        self._notes = _Notes()
        # The attempts under way, and their number by task id.
        self._tasks: set[asyncio.Task[AttemptRecord]] = set()
        self._tasks_of: Counter[str] = Counter()

    async def connect(self, namespace: str, *, needs_engine: bool) -> NodeFacts | Refusal:
        """Connect to the engine of this machine and return its facts, or the reason why that fails.

        `namespace` goes into the labels of all containers.
        """
        os.environ[NAMESPACE_VARIABLE] = namespace
        try:
            engine_id = None
            if needs_engine:
                opening = open_default_backend(is_supervised=True)
                self._backend = await self._stack.enter_async_context(opening)
                engine_id = await asyncio.to_thread(_require_moves_images(self._backend).identify_engine)
            return NodeFacts(__version__, hash_code(), count_gate_places(), engine_id)
        except HarnessError as error:
            return Refusal(error.message, error.hint)

    async def find_missing(self, images: tuple[ImageContent, ...]) -> list[str] | Refusal:
        """Return the tags of the images that the engine lacks, or has with another content."""
        try:
            return [image.tag for image in images if await self._find_image(image) is None]
        except HarnessError as error:
            return Refusal(error.message, error.hint)

    async def receive_image(self, part: bytes) -> Refusal | None:
        """Take the next part of the archive of an image. An empty part ends it, and the engine loads it."""
        try:
            if self._archive is None:
                # Without a name, so that a kill leaves no file.
                self._archive = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115  because later parts follow
            if part:
                await asyncio.to_thread(self._archive.write, part)
                return None
            archive, self._archive = self._archive, None
            with archive:
                archive.seek(0)
                await asyncio.to_thread(_require_moves_images(self._backend).load_image, archive)
        except (HarnessError, OSError) as error:
            return Refusal(f"an image could not be loaded: {error}")
        return None

    async def receive_samples(self, part: bytes) -> Refusal | None:
        """Take the next part of the samples file of the run."""
        try:
            if self._samples is None:
                self._samples = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115  because later parts follow
            await asyncio.to_thread(self._samples.write, part)
        except OSError as error:
            return Refusal(f"the samples could not be written: {error.strerror}")
        return None

    async def open(self, spec: NodeSpec) -> int | Refusal:
        """Select the attempts of the run, and return how many this node makes at once.

        Containers of this run that a dead process has left on this engine are removed first. Return a
        refusal if an input of the run differs here.
        """
        try:
            return await self._open(spec)
        except HarnessError as error:
            return Refusal(error.message, error.hint)

    async def make(self, lease: Lease) -> AsyncGenerator[Report]:
        """Make an attempt and yield its reports. The end of the iteration ends the attempt."""
        settings = self._settings
        assert settings is not None, "an open node has settings"  # noqa: S101
        planned = self._plan[lease.task_id, lease.number]
        active = ActiveAttempt(lease.task_id, lease.number, 0.0)
        task = asyncio.create_task(make_record(settings, planned, active))
        self._tasks.add(task)
        self._tasks_of[lease.task_id] += 1
        stage: Stage | None = None
        try:
            while not (await asyncio.wait([task], timeout=REPORT_SECONDS))[0]:
                report = self._report(planned, active.stage)
                if report.stage is not stage or report.notes or report.transcript:
                    stage = report.stage
                    yield report
            record, stop = self._end(task)
            while (report := self._report(planned, active.stage)).transcript:
                yield report
            yield Report(active.stage, self._notes.take(), record=record, stop=stop)
        finally:
            task.cancel()
            await complete(_wait(task))
            self._tasks.discard(task)
            self._transcripts.close(*planned.key)
            self._tasks_of[lease.task_id] -= 1
            if settings.is_isolated or not (lease.is_followed or self._tasks_of[lease.task_id]):
                await discard_sandboxes(settings, planned)

    async def close(self) -> Refusal | None:
        """End all attempts, and remove every container of the run. Return the reason if one stays."""
        for task in self._tasks:
            task.cancel()
        await _wait(*self._tasks)
        agent = None if self._settings is None else self._settings.agent
        try:
            if (close := getattr(agent, "close", None)) is not None:
                await asyncio.to_thread(close)
            await self._stack.aclose()
        except HarnessError as error:
            return Refusal(error.message, error.hint)
        return None

    async def _open(self, spec: NodeSpec) -> int:
        self._run_id = spec.run_id
        selection = await asyncio.to_thread(self._select, spec)
        config, backend = selection.config, self._backend
        images: dict[str, str] = {}
        if backend is not None:
            await asyncio.to_thread(backend.describe, runtime=config.runtime)
            for name, image in spec.images.items():
                if (image_id := await self._find_image(image)) is None:
                    raise UsageError(f"image {image.tag} has another content on this engine than in the run")
                images[name] = image_id
            # This engine is that of no other node, so an earlier process of this node has left them.
            await asyncio.to_thread(remove_run, backend, spec.run_id)
            await asyncio.to_thread(remove_dead_containers, backend, self._notes.note)
            self._stack.push_async_callback(asyncio.to_thread, remove_run, backend, spec.run_id)
        pool = await self._stack.enter_async_context(make_pool(backend, selection, images, spec.run_id))
        self._plan = {planned.key: planned for planned in selection.plan}
        self._settings = AttemptSettings(
            benchmark=selection.benchmark,
            agent=selection.agent,
            transcripts=self._transcripts,
            observer=self._notes,
            faults=Faults(backend, self._notes, wait_seconds=spec.wait_seconds, start_tries=spec.start_tries),
            pool=pool,
            limits=selection.all_limits,
            timeout_seconds=selection.timeout_seconds,
            turns=config.rounds,
            isolation=config.isolation,
            repeats=any(planned.number > 0 for planned in selection.plan),
            recording=selection.recording,
        )
        return choose_concurrency(
            config.max_concurrent,
            selection.agent,
            sandboxes=bool(selection.images),
            isolation=config.isolation,
        )

    def _select(self, spec: NodeSpec) -> Selection:
        """Return the selection of the run. Raises UsageError if it is not that of the run."""
        config = read_config(spec.config)
        with tempfile.TemporaryDirectory(prefix="harness-samples-") as folder:
            if config.samples is not None:
                # The agent reads the file once, when it is built. Its messages show the name of the file.
                path = Path(folder, Path(config.samples).name)
                if self._samples is not None:
                    with self._samples:
                        _copy(self._samples, path)
                    self._samples = None
                config = config.model_copy(update={"samples": str(path)})
            selection = select(config, notify=_ignore, resumed=True).without(spec.unsound)
            difference = find_difference(spec.inputs, hash_inputs(selection))
        if difference is not None:
            raise UsageError(difference, hint="give the node the same data and files as the run")
        return selection

    async def _find_image(self, image: ImageContent) -> str | None:
        """Return the id of an image with this content, None if the engine has none."""
        found = await asyncio.to_thread(_require_moves_images(self._backend).find_image, image.tag)
        return found.id if found is not None and found.content_sha256 == image.sha256 else None

    def _report(self, planned: PlannedAttempt, stage: Stage) -> Report:
        transcript, is_first = self._transcripts.read(*planned.key)
        return Report(stage, self._notes.take(), transcript, begins_transcript=is_first)

    def _end(self, task: asyncio.Task[AttemptRecord]) -> tuple[str | None, Stop | None]:
        """Return the record of an attempt that has ended, or the reason why it has none."""
        assert self._settings is not None, "an open node has settings"  # noqa: S101
        stopped = self._settings.faults.stopped
        try:
            record = task.result()
        except RunStopped:
            return None, _describe_stop(stopped)
        except HarnessError as error:
            # The disk of the node is full, which is no fault of the attempt.
            return None, Stop(error.message, error.hint, of_machine=True)
        if stopped is not None and stopped.of_machine and record.status is Status.INFRA_ERROR:
            # Another node makes the attempt.
            return None, _describe_stop(stopped)
        return to_json(record), None


class _Notes:
    """Keeps the notes of a node until the next report takes them. Implements `RunObserver`."""

    def __init__(self) -> None:
        self._waiting: list[str] = []

    def take(self) -> tuple[str, ...]:
        taken, self._waiting = self._waiting, []
        return tuple(taken)

    def note(self, text: str) -> None:
        self._waiting.append(text)

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        """Do nothing, because the process of the run counts the attempts."""

    def on_attempt(self, record: AttemptRecord) -> None:
        """Do nothing, because the process of the run stores the record."""

    def on_end(self) -> None:
        """Do nothing."""


def _describe_stop(stopped: RunStoppedError | None) -> Stop:
    if stopped is None:
        return Stop("the attempt was stopped", None, of_machine=True)
    return Stop(stopped.message, stopped.hint, stopped.of_machine)


def _require_moves_images(backend: Backend | None) -> MovesImages:
    if isinstance(backend, MovesImages):
        return backend
    raise SandboxError("the backend of this machine cannot copy images")


def _copy(source: BinaryIO, path: Path) -> None:
    source.seek(0)
    with open(path, "wb") as file:
        shutil.copyfileobj(source, file)


async def _wait(*tasks: asyncio.Task[AttemptRecord]) -> None:
    if tasks:
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # asyncio warns of an exception that nobody retrieves


def _ignore(_note: str) -> None:
    """Drop a note, because the process of the run has shown it."""
