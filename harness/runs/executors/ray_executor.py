"""The executor of a Ray cluster: nodes make attempts with their own engines."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.core.shield import complete
from harness.core.types import AttemptRecord, Status, Verdict
from harness.host.retries import RunStoppedError
from harness.runs.executors.execution import Work
from harness.runs.executors.messages import ImageContent, Lease, LeaseBook, NodeSpec, Report, Stop
from harness.runs.executors.node import Node
from harness.runs.executors.ray_cluster import RayMembers, connect_ray
from harness.runs.executors.ray_nodes import (
    PREPARE_SECONDS,
    Ask,
    NodeLost,
    NodeOpener,
    NodeWork,
    RayNode,
    describe_images,
)
from harness.runs.progress import ActiveAttempt, RunObserver
from harness.runs.records import PlannedAttempt, build_record, from_json
from harness.runs.run_files import StorageError, advise_resume, append_to_run_file, create_run_file
from harness.runs.selection import describe_config, hash_inputs
from harness.runs.transcripts import TRANSCRIPTS, transcript_name

if TYPE_CHECKING:
    from harness.runs.run import Run

# An attempt whose node was lost in this many tries ends as an infra error.
LEASE_TRIES = 10
_PART_BYTES = 4 * 1024 * 1024


@contextlib.asynccontextmanager
async def open_ray_executor(
    run: Run, observer: RunObserver, *, start_tries: int
) -> AsyncIterator[RayExecutor]:
    """Connect to a cluster, prepare its nodes and yield the executor. The end of the block ends all nodes.

    Args:
        run: the run.
        observer: gets a note for each node that takes no part.
        start_tries: the run stops if the agent cannot start in this many first attempts.

    Raises:
        UsageError: if there is no cluster, or none of its nodes can take part.
    """
    async with connect_ray(run.selection.config.ray_address) as ray:
        work = await asyncio.to_thread(_plan_nodes, run, start_tries)
        opener = NodeOpener(ray, work, run.engine.backend)
        members = RayMembers(ray, opener, observer.note, wait_seconds=run.engine.wait_seconds)
        executor = RayExecutor(members, run, observer)
        try:
            await executor.open()
            yield executor
        finally:
            await complete(members.close())


def _plan_nodes(run: Run, start_tries: int) -> NodeWork:
    """Return what each node needs for the run. Raises SandboxError and UsageError."""
    selection = run.selection
    images: Mapping[str, ImageContent] = {}
    if selection.images:
        assert run.engine.backend is not None, "a run with images has an engine"  # noqa: S101
        images = describe_images(run.engine.backend, run.manifest["image_tags"])
    spec = NodeSpec(
        run_id=run.manifest["run_id"],
        config=describe_config(selection),
        inputs=hash_inputs(selection),
        unsound=dict(selection.benchmark.quarantined),
        images=images,
        wait_seconds=run.engine.wait_seconds,
        start_tries=start_tries,
    )
    samples = None if selection.config.samples is None else Path(selection.config.samples)

    async def prepare(actor: Any, ask: Ask) -> int:
        if samples is not None:
            for part in _read_parts(samples):
                await ask(actor.receive_samples.remote(part), PREPARE_SECONDS)
        places: int = await ask(actor.open.remote(spec), PREPARE_SECONDS)
        return places

    return NodeWork(Node, images, prepare)


@dataclass(slots=True)
class RayExecutor:
    """Leases attempts to the nodes of a cluster, and stores what they report. Implements `Executor`."""

    _members: RayMembers
    _run: Run
    _observer: RunObserver

    async def open(self) -> None:
        """Prepare the nodes of the cluster. Raises UsageError if none of them can take part."""
        await self._members.open()
        shown = ", ".join(f"{node.name} ({node.places} attempts at a time)" for node in self._members)
        self._observer.note(f"Ray nodes: {shown}")

    @property
    def places(self) -> int:
        return sum(node.places for node in self._members)

    @property
    def in_parallel(self) -> bool:
        return getattr(self._run.selection.agent, "waits", True)

    async def execute(self, work: Work) -> None:
        book = LeaseBook(work.units)

        async def join(node: RayNode) -> None:
            self._observer.note(f"{node.name} joins the run ({node.places} attempts at a time)")
            await self._serve(node, work, book)

        try:
            async with asyncio.TaskGroup() as group:
                for node in self._members:
                    group.create_task(self._serve(node, work, book))
                looking = group.create_task(self._members.look(group, join))
                await book.wait_until_done()
                looking.cancel()
        except BaseExceptionGroup as failures:
            # The first failure cancelled everything else.
            raise failures.exceptions[0] from None

    async def _serve(self, node: RayNode, work: Work, book: LeaseBook) -> None:
        """Give a node attempts until every attempt has a record, or until the node is lost."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(node.places):
                    group.create_task(self._work_off(node, work, book))
        except BaseExceptionGroup as failures:
            losses, others = failures.split(NodeLost)
            if others is not None or losses is None:
                raise failures.exceptions[0] from None
            self._members.lose(node, str(losses.exceptions[0]))

    async def _work_off(self, node: RayNode, work: Work, book: LeaseBook) -> None:
        """Make units of attempts in one place of a node. Raises NodeLost."""
        while (unit := await book.take(node.id)) is not None:
            rest = list(unit)
            try:
                while rest:
                    planned = rest[0]
                    if book.begin(planned) > LEASE_TRIES:
                        record = self._give_up(planned)
                    else:
                        with work.progress.begin(planned, place=node.name) as active:
                            record = await self._make(node, planned, active, is_followed=len(rest) > 1)
                    if book.finish(planned):
                        await work.finish(record)
                    rest.pop(0)
            finally:
                book.give_back(rest)

    async def _make(
        self, node: RayNode, planned: PlannedAttempt, active: ActiveAttempt, *, is_followed: bool
    ) -> AttemptRecord:
        """Return the record of an attempt that a node makes. Raises NodeLost and RunStoppedError."""
        lease = Lease(planned.task.id, planned.number, is_followed)
        async with contextlib.aclosing(node.stream("make", lease)) as reports:
            async for report in reports:
                assert isinstance(report, Report), "`Node.make` yields nothing else"  # noqa: S101
                active.enter(report.stage)
                for note in report.notes:
                    self._observer.note(f"{node.name}: {note}")
                self._copy_transcript(planned, report)
                if report.stop is not None:
                    raise _explain_stop(report.stop)
                if report.record is not None:
                    return read_record(report.record, planned)
        raise NodeLost("it ended an attempt without a record")

    def _copy_transcript(self, planned: PlannedAttempt, report: Report) -> None:
        if not report.transcript:
            return
        folder, name = self._run.folder, f"{TRANSCRIPTS}/{transcript_name(*planned.key)}"
        try:
            with os.fdopen(_open_transcript(folder, name, is_new=report.begins_transcript), "wb") as file:
                file.write(report.transcript)
        except OSError as error:
            raise StorageError(
                f"{folder / name}: cannot be written: {error.strerror}", hint=advise_resume(folder, error)
            ) from error

    def _give_up(self, planned: PlannedAttempt) -> AttemptRecord:
        evidence = f"the node of this attempt was lost in each of {LEASE_TRIES} tries"
        verdict = Verdict(Status.INFRA_ERROR, None, {"tries": LEASE_TRIES}, evidence)
        reference = self._run.selection.benchmark.references[planned.task.id]
        return build_record(planned, reference, verdict, submission=None, duration_seconds=0.0)


def _read_parts(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while part := file.read(_PART_BYTES):
            yield part


def _open_transcript(folder: Path, name: str, *, is_new: bool) -> int:
    if not is_new:
        with contextlib.suppress(FileNotFoundError):  # the user has removed the folder of the transcripts
            return append_to_run_file(folder, name)
    return create_run_file(folder, name)


def _explain_stop(stop: Stop) -> Exception:
    if stop.of_machine:
        return NodeLost(stop.message)
    return RunStoppedError(stop.message, hint=stop.hint)


def read_record(line: str, planned: PlannedAttempt) -> AttemptRecord:
    """Return the record in a line of JSON. Raises NodeLost for another attempt."""
    try:
        record = from_json(line, whole=True)
    except (ValueError, TypeError, KeyError) as error:
        raise NodeLost(f"it sent a record that cannot be read: {error}") from error
    if (record.task_id, record.attempt) != planned.key:
        raise NodeLost(f"it sent the record of another attempt: {record.task_id}, attempt {record.attempt}")
    return record
