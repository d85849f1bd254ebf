"""Nodes of a cluster without machines behind them: they answer after a time, until they drop dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harness.core.types import AttemptRecord, Status, Task, Verdict
from harness.runs.executors.execution import Commits, Work, group_attempts
from harness.runs.executors.messages import Lease, Report
from harness.runs.executors.ray_cluster import RayMembers
from harness.runs.executors.ray_executor import RayExecutor
from harness.runs.executors.ray_nodes import NodeLost
from harness.runs.progress import RunProgress, Stage
from harness.runs.records import PlannedAttempt, to_json
from harness.runs.store import RunStore
from harness.service.workers import WorkReply


class StubNode:
    """Makes attempts of a run and work of a service in `seconds` each. It has the face of `RayNode`."""

    def __init__(self, number: int, places: int, seconds: float) -> None:
        self.id = self.name = f"node-{number:02}"
        self.places = places
        self.made = 0
        # The most work at the same time.
        self.peak = 0
        self._seconds = seconds
        self._under_way: set[asyncio.Future[None]] = set()
        self.is_dead = False

    def drop_dead(self) -> None:
        """Lose all work under way, and do no more."""
        self.is_dead = True
        for each in self._under_way:
            if not each.done():
                each.set_exception(NodeLost("it dropped dead"))

    async def _work(self) -> None:
        if self.is_dead:
            raise NodeLost("it is dead")
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(self._seconds, _end, ended)
        self._under_way.add(ended)
        self.peak = max(self.peak, len(self._under_way))
        try:
            await ended
        finally:
            timer.cancel()
            self._under_way.discard(ended)
        self.made += 1

    async def stream(self, _method: str, lease: Lease) -> AsyncGenerator[Report]:
        """Yield what `Node.make` yields."""
        yield Report(Stage.GRADING)
        await self._work()
        yield Report(Stage.GRADING, record=to_json(_build_record(lease, self.name)))

    async def ask(self, _method: str, item: Any) -> WorkReply:
        """Return what `ServiceNode.perform` returns."""
        await self._work()
        return WorkReply((item, Verdict(Status.PASSED, 1.0)), None, 0, self.places)


def _end(work: asyncio.Future[None]) -> None:
    if not work.done():
        work.set_result(None)


def plan_attempts(count: int) -> list[PlannedAttempt]:
    """Return one attempt at each of `count` tasks."""
    return [PlannedAttempt(Task(f"task/{number}", "b", "python", ""), 0, None) for number in range(count)]


def _build_record(lease: Lease, node: str) -> AttemptRecord:
    return AttemptRecord(
        task_id=lease.task_id,
        attempt=lease.number,
        sample_line=None,
        category=None,
        resolved=True,
        status=Status.PASSED,
        score=1.0,
        metrics={"node": node},
        agent_output="",
        expected_output="",
        duration_seconds=0.01,
        error=None,
    )


class _Opener:
    """Opens the nodes that there are, as `NodeOpener` does."""

    def __init__(self, nodes: Sequence[StubNode]) -> None:
        self._nodes = {node.id: node for node in nodes}

    def is_engine_taken(self, _node_id: str) -> bool:
        return False

    async def open_node(self, node_id: str, _name: str) -> StubNode:
        return self._nodes[node_id]

    async def end_node(self, _node: StubNode) -> None:
        return None


async def open_members(nodes: Sequence[StubNode], note: Callable[[str], None]) -> RayMembers:
    """Return the members of a cluster that has these nodes."""
    alive = [{"NodeID": node.id, "NodeName": node.name, "Alive": True} for node in nodes]
    errors = SimpleNamespace(RayError=RuntimeError)
    ray = SimpleNamespace(nodes=lambda: alive, exceptions=errors)
    opener: Any = _Opener(nodes)
    members = RayMembers(ray, opener, note)
    await members.open()
    return members


class Notes:
    """An observer that keeps the notes, and counts the attempts."""

    def __init__(self, on_attempt: Callable[[int], None] = lambda _count: None) -> None:
        self.notes: list[str] = []
        self.attempts = 0
        self._on_attempt = on_attempt

    def note(self, text: str) -> None:
        self.notes.append(text)

    def on_start(self, *, attempts: int, finished: int, concurrency: int) -> None:
        pass

    def on_attempt(self, _record: AttemptRecord) -> None:
        self.attempts += 1
        self._on_attempt(self.attempts)

    def on_end(self) -> None:
        pass


async def make_attempts(nodes: Sequence[StubNode], count: int, folder: Path, observer: Notes) -> None:
    """Make `count` attempts at the nodes, and store their records in a run folder."""
    members = await open_members(nodes, observer.note)
    run: Any = SimpleNamespace(selection=SimpleNamespace(agent=None), folder=folder)
    store = RunStore(folder)
    try:
        executor = RayExecutor(members, run, observer)
        units = group_attempts(plan_attempts(count), in_parallel=True)
        await executor.execute(Work(units, RunProgress(), Commits(store), observer))
    finally:
        store.close()
        await members.close()
