"""A node of a run, which makes the attempts that it gets leases for.

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
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import BinaryIO, cast

from harness.core.errors import HarnessError, SandboxError, UsageError
from harness.core.shield import complete
from harness.core.types import AttemptRecord, Status
from harness.core.version import __version__
from harness.host.engine import remove_dead_containers
from harness.host.retries import RunStopped, RunStoppedError
from harness.runs.attempt import AttemptSettings, make_record
from harness.runs.executors.execution import discard_sandboxes
from harness.runs.executors.messages import (
    ImageContent,
    Lease,
    NodeFacts,
    NodeSpec,
    Refusal,
    Report,
    Stop,
    hash_code,
)
from harness.runs.faults import Faults
from harness.runs.progress import ActiveAttempt, Stage
from harness.runs.records import PlannedAttempt, to_json
from harness.runs.run_files import StorageError
from harness.runs.selection import Selection, find_difference, hash_inputs, read_described_config, select
from harness.runs.transcripts import TranscriptFile
from harness.sandbox.backends import open_default_backend
from harness.sandbox.backends.base import Backend, MovesImages
from harness.sandbox.limits import count_gate_places
from harness.sandbox.reaper import NAMESPACE_VARIABLE, remove_run

# The most bytes of a transcript in one report.
PART_BYTES = 1024 * 1024
# How often an attempt under way reports its stage and its transcript.
REPORT_SECONDS = 1.0


class NodeTranscripts:
    """Holds the transcript of each attempt under way. Implements `KeepsTranscripts`."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], NodeTranscript] = {}

    def begin_transcript(self, task_id: str, attempt: int) -> NodeTranscript:
        self.close(task_id, attempt)
        begun = self._open[task_id, attempt] = NodeTranscript()
        return begun

    def read(self, task_id: str, attempt: int) -> tuple[bytes, bool]:
        """Return the next unread bytes of a transcript, and whether they are its first ones."""
        found = self._open.get((task_id, attempt))
        return (b"", False) if found is None else found.read()

    def close(self, task_id: str, attempt: int) -> None:
        """Forget a transcript."""
        found = self._open.pop((task_id, attempt), None)
        if found is not None:
            found.close()


class NodeTranscript(TranscriptFile):
    """A transcript in a file without a name, so that nothing of it is left if this process is killed."""

    def __init__(self) -> None:
        super().__init__(Path(tempfile.gettempdir(), "transcript"))
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  because it lives as long as the attempt
        self._written = 0
        self._read = 0

    def _append(self, line: str) -> None:
        try:
            self._file.seek(self._written)
            self._file.write(line.encode("ascii"))
        except OSError as error:
            folder = tempfile.gettempdir()
            raise StorageError(f"{folder} of the node cannot be written: {error.strerror}") from error
        self._written += len(line)

    def read(self) -> tuple[bytes, bool]:
        """Return the next unread bytes, at most PART_BYTES, and whether they are the first ones."""
        is_first = self._read == 0
        self._file.seek(self._read)
        part = self._file.read(min(PART_BYTES, self._written - self._read))
        self._read += len(part)
        return part, is_first

    def close(self) -> None:
        self._file.close()


class EngineNode:
    """Owns the engine of its machine. Call `connect` first and `close` last.

    Another process calls the methods that return a `Refusal`, so their arguments and results are plain data.
    """

    def __init__(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        self._backend: Backend | None = None
        self._archive: BinaryIO | None = None

    async def connect(self, namespace: str, *, needs_engine: bool) -> NodeFacts | Refusal:
        """Connect to the engine of this machine and return its facts, or the reason why that fails.

        `namespace` goes into the labels of all containers.
        """
        os.environ[NAMESPACE_VARIABLE] = namespace
        try:
            engine_id = None
            if needs_engine:
                opening = open_default_backend()
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

    async def close(self) -> Refusal | None:
        """Remove every container, and leave the engine. Return the reason if a container stays."""
        try:
            await self._stack.aclose()
        except HarnessError as error:
            return Refusal(error.message, error.hint)
        return None

    async def find_images(self, images: Mapping[str, ImageContent]) -> dict[str, str]:
        """Return the ids of images by their names. Raises UsageError for one with another content."""
        ids = {}
        for name, image in images.items():
            if (image_id := await self._find_image(image)) is None:
                raise UsageError(
                    f"image {image.tag} has another content on this engine than where the command runs"
                )
            ids[name] = image_id
        return ids

    async def own_containers(self, run_id: str, note: Callable[[str], None]) -> None:
        """Remove the containers of a run that a dead process has left here, and again at the end.

        No other node uses this engine, so an earlier process of this node has left them.
        """
        backend = self._backend
        assert backend is not None, "only a node with an engine has containers"  # noqa: S101
        await asyncio.to_thread(remove_run, backend, run_id)
        await remove_dead_containers(backend, note)
        self._stack.push_async_callback(asyncio.to_thread, remove_run, backend, run_id)

    async def _find_image(self, image: ImageContent) -> str | None:
        """Return the id of an image with this content, None if the engine has none."""
        found = await asyncio.to_thread(_require_moves_images(self._backend).find_image, image.tag)
        return found.id if found is not None and found.content_sha256 == image.sha256 else None


def _require_moves_images(backend: Backend | None) -> MovesImages:
    if isinstance(backend, MovesImages):
        return backend
    raise SandboxError("the backend of this machine cannot copy images")


class Node(EngineNode):
    """Makes attempts of one run on this machine. Call `connect`, then `open`, then `make`, then `close`."""

    def __init__(self) -> None:
        super().__init__()
        self._samples: BinaryIO | None = None
        self._settings: AttemptSettings | None = None
        self._plan: dict[tuple[str, int], PlannedAttempt] = {}
        self._transcripts = NodeTranscripts()
        self._notes = _Notes()
        # The attempts under way, and their number by task id.
        self._tasks: set[asyncio.Task[AttemptRecord]] = set()
        self._tasks_of: Counter[str] = Counter()

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
                discard_sandboxes(settings, planned)

    async def close(self) -> Refusal | None:
        """End all attempts, and remove every container of the run. Return the reason if one stays."""
        for task in self._tasks:
            task.cancel()
        await _wait(*self._tasks)
        agent = None if self._settings is None else self._settings.agent
        problem = None
        try:
            if (close := getattr(agent, "close", None)) is not None:
                await asyncio.to_thread(close)
        except HarnessError as error:
            problem = Refusal(error.message, error.hint)
        return await super().close() or problem

    async def _open(self, spec: NodeSpec) -> int:
        selection = await asyncio.to_thread(self._select, spec)
        backend = self._backend
        images: dict[str, str] = {}
        if backend is not None:
            await asyncio.to_thread(backend.describe, runtime=selection.config.runtime)
            images = await self.find_images(spec.images)
            await self.own_containers(spec.run_id, self._notes.note)
        pool = await self._stack.enter_async_context(selection.make_pool(backend, images, spec.run_id))
        self._plan = {planned.key: planned for planned in selection.plan}
        self._settings = AttemptSettings.of_selection(
            selection,
            transcripts=self._transcripts,
            observer=self._notes,
            faults=Faults(backend, self._notes, wait_seconds=spec.wait_seconds, start_tries=spec.start_tries),
            pool=pool,
        )
        return selection.choose_concurrency()

    def _select(self, spec: NodeSpec) -> Selection:
        """Return the selection of the run. Raises UsageError if the inputs differ."""
        config = read_described_config(spec.config)
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
            # The disk of the node is full, which the attempt has not caused.
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


def _copy(source: BinaryIO, path: Path) -> None:
    source.seek(0)
    with open(path, "wb") as file:
        shutil.copyfileobj(source, file)


async def _wait(*tasks: asyncio.Task[AttemptRecord]) -> None:
    if tasks:
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # else asyncio warns of an unretrieved exception


def _ignore(_note: str) -> None:
    """Drop a note, because the process of the run has shown it."""
