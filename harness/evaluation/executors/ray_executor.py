"""The executor of a Ray cluster: nodes make attempts with their own engines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.evaluation.executors.base import Work, group_attempts
from harness.evaluation.executors.leases import LeaseBook
from harness.evaluation.executors.messages import Lease, Report, Stop
from harness.evaluation.executors.ray_cluster import connect_ray
from harness.evaluation.executors.ray_nodes import (
    NodeLost,
    NodeOpener,
    NodeRefused,
    RayNode,
    find_alive_nodes,
)
from harness.evaluation.faults import RunStoppedError
from harness.evaluation.observer import RunObserver
from harness.evaluation.plan import PlannedAttempt
from harness.evaluation.progress import ActiveAttempt
from harness.evaluation.records import build_record, from_json
from harness.evaluation.run_files import append_to_run_file, create_run_file
from harness.evaluation.selection import Selection
from harness.evaluation.store import TRANSCRIPTS, StorageError, advise_resume, transcript_name
from harness.sandbox.backends.base import Backend
from harness.shield import complete
from harness.types import AttemptRecord, Status, Verdict

# An attempt whose node was lost in this many tries ends as an infra error.
LEASE_TRIES = 10
# A node that was lost this often takes no further part.
NODE_STARTS = 3
# How often the run looks for nodes that have come, or have come back.
LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RayRun:
    """The run that is made on Ray."""

    selection: Selection
    folder: Path
    run_id: str
    # The engine of this machine, None for a run without sandboxes.
    backend: Backend | None
    # The tags of the images by their names.
    image_tags: Mapping[str, str]
    # How long the run waits for an engine, and for a node if none is left.
    wait_seconds: float
    # How many first attempts in which the agent cannot start stop the run.
    start_tries: int


@contextlib.asynccontextmanager
async def open_ray_executor(
    run: RayRun, *, address: str | None, observer: RunObserver
) -> AsyncIterator[RayExecutor]:
    """Connect to a cluster, prepare its nodes and yield the executor. The end of the block ends all nodes.

    Args:
        run: the run.
        address: that of the cluster, as `connect_ray` takes it.
        observer: gets a note for each node that takes no part.

    Raises:
        UsageError: if there is no cluster, or none of its nodes can take part.
    """
    async with connect_ray(address) as ray:
        opener = await asyncio.to_thread(
            NodeOpener,
            ray,
            run.selection,
            run.backend,
            run.image_tags,
            run_id=run.run_id,
            wait_seconds=run.wait_seconds,
            start_tries=run.start_tries,
        )
        executor = RayExecutor(ray, opener, run, observer)
        try:
            await executor.open()
            yield executor
        finally:
            await complete(executor.close())


@dataclass(slots=True)
class RayExecutor:
    """Leases attempts to the nodes of a cluster, and stores what they report. Implements `Executor`."""

    _ray: Any
    _opener: NodeOpener
    _run: RayRun
    _observer: RunObserver
    # The nodes that make attempts, by id.
    _nodes: dict[str, RayNode] = field(default_factory=dict)
    # The reasons of nodes that take no part, by id.
    _refused: dict[str, str] = field(default_factory=dict)
    _starting: set[str] = field(default_factory=set)
    # The tasks that prepare nodes during the run.
    _preparing: set[asyncio.Task[Any]] = field(default_factory=set)
    _losses: Counter[str] = field(default_factory=Counter)
    _alone_since: float | None = None

    async def open(self) -> None:
        """Prepare the nodes of the cluster. Raises UsageError if none of them can take part."""
        found = await find_alive_nodes(self._ray)
        await asyncio.gather(*(self._start(node_id, name) for node_id, name in found.items()))
        if not self._nodes:
            reasons = "; ".join(self._refused.values()) or "the cluster has no node"
            raise UsageError(
                f"no node of the Ray cluster can make attempts: {reasons}",
                hint="each node needs this version of harness, a Docker engine and the data",
            )
        shown = ", ".join(f"{node.name} ({node.places} attempts at a time)" for node in self._nodes.values())
        self._observer.note(f"Ray nodes: {shown}")

    def count_places(self, attempts: Sequence[PlannedAttempt]) -> int:
        places = sum(node.places for node in self._nodes.values())
        return min(places, max(len(self._group(attempts)), 1))

    async def execute(self, work: Work) -> None:
        book = LeaseBook(self._group(work.attempts))
        try:
            async with asyncio.TaskGroup() as group:
                for node in list(self._nodes.values()):
                    group.create_task(self._serve(node, work, book))
                looking = group.create_task(self._look_for_nodes(group, work, book))
                await book.wait_until_done()
                looking.cancel()
        except BaseExceptionGroup as failures:
            # The first failure cancelled everything else.
            raise failures.exceptions[0] from None

    async def close(self) -> None:
        """End all nodes, with their attempts and containers."""
        nodes, self._nodes = list(self._nodes.values()), {}
        await asyncio.gather(*(self._end(node) for node in nodes))

    def _group(self, attempts: Sequence[PlannedAttempt]) -> list[list[PlannedAttempt]]:
        return group_attempts(attempts, in_parallel=getattr(self._run.selection.agent, "waits", True))

    async def _start(self, node_id: str, name: str) -> RayNode | None:
        """Prepare a node and return it, None if it takes no part."""
        self._starting.add(node_id)
        try:
            node = self._nodes[node_id] = await self._opener.open_node(node_id, name)
        except NodeRefused as refused:
            self._refused[node_id] = str(refused)
            self._observer.note(f"{refused}; it makes no attempts")
            return None
        finally:
            self._starting.discard(node_id)
        return node

    async def _look_for_nodes(self, group: asyncio.TaskGroup, work: Work, book: LeaseBook) -> None:
        """Give work to nodes that come during the run. Raises RunStoppedError if none is left for long."""
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                for node_id, name in (await find_alive_nodes(self._ray)).items():
                    if node_id in self._nodes or node_id in self._starting or node_id in self._refused:
                        continue
                    if self._opener.is_engine_taken(node_id):
                        continue
                    group.create_task(self._start_and_serve(node_id, name, work, book))
                self._require_nodes()
        finally:
            # A node that is not ready by the end of the run has nothing left to do.
            for task in self._preparing:
                task.cancel()

    def _require_nodes(self) -> None:
        if self._nodes or self._starting:
            self._alone_since = None
            return
        now = time.monotonic()
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since >= self._run.wait_seconds:
            raise RunStoppedError(
                f"no node of the Ray cluster is left, and none came within {self._run.wait_seconds:.0f} s",
                hint="when a node is back, finish the run with --resume",
            )

    async def _start_and_serve(self, node_id: str, name: str, work: Work, book: LeaseBook) -> None:
        task = asyncio.current_task()
        assert task is not None, "a task group runs it"  # noqa: S101
        self._preparing.add(task)
        try:
            node = await self._start(node_id, name)
        finally:
            self._preparing.discard(task)
        if node is not None:
            self._observer.note(f"{node.name} joins the run ({node.places} attempts at a time)")
            await self._serve(node, work, book)

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
            await self._lose(node, str(losses.exceptions[0]))

    async def _lose(self, node: RayNode, reason: str) -> None:
        self._losses[node.id] += 1
        self._nodes.pop(node.id, None)
        self._observer.note(f"{node.name} is lost: {reason}; other nodes repeat its attempts")
        await complete(self._end(node))
        if self._losses[node.id] >= NODE_STARTS:
            self._refused[node.id] = f"{node.name} was lost {NODE_STARTS} times"

    async def _end(self, node: RayNode) -> None:
        if (problem := await self._opener.end_node(node)) is not None:
            self._observer.note(problem)

    async def _work_off(self, node: RayNode, work: Work, book: LeaseBook) -> None:
        """Make units of attempts in one place of a node. Raises NodeLost."""
        while (unit := await book.take()) is not None:
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
        async with contextlib.aclosing(node.make(lease)) as reports:
            async for report in reports:
                active.enter(report.stage)
                for note in report.notes:
                    self._observer.note(f"{node.name}: {note}")
                self._copy_transcript(planned, report)
                if report.stop is not None:
                    raise _explain_stop(report.stop)
                if report.record is not None:
                    return _read_record(report.record, planned)
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


def _open_transcript(folder: Path, name: str, *, is_new: bool) -> int:
    if not is_new:
        with contextlib.suppress(FileNotFoundError):  # the user has removed the folder of the transcripts
            return append_to_run_file(folder, name)
    return create_run_file(folder, name)


def _explain_stop(stop: Stop) -> Exception:
    if stop.of_machine:
        return NodeLost(stop.message)
    return RunStoppedError(stop.message, hint=stop.hint)


def _read_record(line: str, planned: PlannedAttempt) -> AttemptRecord:
    """Return the record in a line of JSON. Raises NodeLost if it is not that of the attempt."""
    try:
        record = from_json(line, whole=True)
    except (ValueError, TypeError, KeyError) as error:
        raise NodeLost(f"it sent a record that cannot be read: {error}") from error
    if (record.task_id, record.attempt) != planned.key:
        raise NodeLost(f"it sent the record of another attempt: {record.task_id}, attempt {record.attempt}")
    return record
