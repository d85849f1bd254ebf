"""The nodes of a Ray cluster that take part in a run or a service: they come, are lost, and come back."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError
from harness.evaluation.executors.ray_nodes import (
    EngineTaken,
    NodeOpener,
    NodeRefused,
    RayNode,
    find_alive_nodes,
)
from harness.evaluation.faults import RunStoppedError

# How often the cluster is asked for nodes that have come, or have come back.
LOOK_SECONDS = 2.0
# A node that was lost this often is refused.
NODE_STARTS = 3


@dataclass(frozen=True, slots=True)
class _Refused:
    """The reason for which a node takes no part, and the time at which it was found."""

    reason: str
    since: float
    # Whether it can take part once another node leaves the engine of its machine.
    waits_for_engine: bool


class RayMembers:
    """Opens nodes, and keeps those that work.

    Args:
        ray: the package, which is connected to a cluster.
        opener: opens a node.
        note: shows a message to the user.
        wait_seconds: the time without any node after which `look` raises an error. None waits for ever.
        retry_seconds: the time after which a refused node is opened again. None refuses it for good.
    """

    def __init__(
        self,
        ray: Any,
        opener: NodeOpener,
        note: Callable[[str], None],
        *,
        wait_seconds: float | None = None,
        retry_seconds: float | None = None,
    ) -> None:
        self._ray = ray
        self._opener = opener
        self._note = note
        self._wait_seconds = wait_seconds
        self._retry_seconds = retry_seconds
        # All by the id of the node.
        self._nodes: dict[str, RayNode] = {}
        self._refused: dict[str, _Refused] = {}
        self._losses: Counter[str] = Counter()
        self._starting: set[str] = set()
        self._ending: dict[str, asyncio.Task[None]] = {}
        # The tasks that prepare nodes during the work.
        self._preparing: set[asyncio.Task[Any]] = set()
        self._alone_since: float | None = None

    def __iter__(self) -> Iterator[RayNode]:
        return iter(list(self._nodes.values()))

    async def open(self) -> None:
        """Open the nodes of the cluster. Raises UsageError if none of them can take part."""
        found = await find_alive_nodes(self._ray)
        await asyncio.gather(*(self._start(node_id, name) for node_id, name in found.items()))
        if not self._nodes:
            reasons = "; ".join(each.reason for each in self._refused.values())
            raise UsageError(
                f"no node of the Ray cluster can take part: {reasons or 'the cluster has no node'}",
                hint="each node needs this version of harness, a Docker engine and the data",
            )

    async def look(self, group: asyncio.TaskGroup, serve: Callable[[RayNode], Awaitable[None]]) -> None:
        """Open each node that comes, and call `serve` with it in a task of `group`, until a cancellation.

        Raises RunStoppedError if the head of the cluster is gone, or no node is left for `wait_seconds`.
        """
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                for node_id, name in (await find_alive_nodes(self._ray)).items():
                    if self._is_new(node_id):
                        self._starting.add(node_id)
                        group.create_task(self._start_and_serve(node_id, name, serve))
                self._require_nodes()
        finally:
            # A node that is not ready by now has nothing left to do.
            for task in self._preparing:
                task.cancel()

    def lose(self, node: RayNode, reason: str) -> None:
        """End a node that does not work any more. A further call for the same node does nothing.

        The end takes its time in a task of its own, because the node may not answer.
        """
        if self._nodes.get(node.id) is not node:
            return
        del self._nodes[node.id]
        self._losses[node.id] += 1
        self._note(f"{node.name} is lost: {reason}; other nodes repeat its work")
        if self._losses[node.id] >= NODE_STARTS:
            del self._losses[node.id]
            self._refuse(node.id, NodeRefused(f"{node.name} was lost {NODE_STARTS} times"))
        task = self._ending[node.id] = asyncio.create_task(self._end(node))
        task.add_done_callback(lambda _task: self._ending.pop(node.id))

    async def close(self) -> None:
        """End all nodes, with their work and containers."""
        nodes, self._nodes = list(self._nodes.values()), {}
        await asyncio.gather(*(self._end(node) for node in nodes), *self._ending.values())

    def _is_new(self, node_id: str) -> bool:
        """Return whether a node that is alive should be opened."""
        if any(node_id in each for each in (self._nodes, self._starting, self._ending)):
            return False
        refused = self._refused.get(node_id)
        if refused is None or refused.waits_for_engine:
            return not self._opener.is_engine_taken(node_id)
        return self._retry_seconds is not None and time.monotonic() - refused.since >= self._retry_seconds

    async def _start(self, node_id: str, name: str) -> RayNode | None:
        """Open a node and return it, None if it takes no part."""
        self._starting.add(node_id)
        try:
            node = self._nodes[node_id] = await self._opener.open_node(node_id, name)
        except NodeRefused as refused:
            self._refuse(node_id, refused)
            return None
        finally:
            self._starting.discard(node_id)
        self._refused.pop(node_id, None)
        return node

    def _refuse(self, node_id: str, refused: NodeRefused) -> None:
        known, reason = self._refused.get(node_id), str(refused)
        self._refused[node_id] = _Refused(reason, time.monotonic(), isinstance(refused, EngineTaken))
        if known is None or known.reason != reason:
            self._note(f"{reason}; it takes no part")

    async def _start_and_serve(
        self, node_id: str, name: str, serve: Callable[[RayNode], Awaitable[None]]
    ) -> None:
        task = asyncio.current_task()
        assert task is not None, "a task group runs it"  # noqa: S101
        self._preparing.add(task)
        try:
            node = await self._start(node_id, name)
        finally:
            self._preparing.discard(task)
        if node is not None:
            await serve(node)

    async def _end(self, node: RayNode) -> None:
        if (problem := await self._opener.end_node(node)) is not None:
            self._note(problem)

    def _require_nodes(self) -> None:
        if self._wait_seconds is None or self._nodes or self._starting:
            self._alone_since = None
            return
        now = time.monotonic()
        self._alone_since = now if self._alone_since is None else self._alone_since
        if now - self._alone_since >= self._wait_seconds:
            raise RunStoppedError(
                f"no node of the Ray cluster is left, and none came within {self._wait_seconds:.0f} s",
                hint="when a node is back, finish the run with --resume",
            )
