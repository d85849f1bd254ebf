"""A node of a service: it does work in the sandboxes of its machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harness.errors import DataError, HarnessError, SandboxError, UsageError
from harness.evaluation.executors.engine_node import EngineNode
from harness.evaluation.executors.messages import ImageContent, Refusal
from harness.logger import get_logger
from harness.service.capacity import bound_concurrency
from harness.service.workers.base import WorkItem, Workplace, open_workplace

_LOGGER = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceNodeSpec:
    """Everything from which a node prepares for the work of a service."""

    # The label of the containers.
    run_id: str
    runtime: str
    # The images by their names.
    images: Mapping[str, ImageContent]
    # How much a node does at once, None for as much as its cores and its memory allow.
    max_concurrent: int | None


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that a work item has ended with."""

    # `engine`: the engine of the node does not answer, so that another node can do the work.
    kind: Literal["usage", "data", "sandbox", "engine"]
    message: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class WorkReply:
    """The result of a work item, or its failure."""

    result: Any
    failure: Failure | None
    # The faults of the infrastructure on the node since its last reply, retried ones included.
    faults: int
    # The live sandboxes of the node.
    sandboxes: int


class ServiceNode(EngineNode):
    """Does work items on this machine. Call `connect`, then `open`, then `perform`, then `close`."""

    def __init__(self) -> None:
        super().__init__()
        self._workplace: Workplace | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._faults = 0

    async def open(self, spec: ServiceNodeSpec) -> int | Refusal:
        """Open the sandboxes, and return how many work items this node does at once."""
        try:
            return await self._open(spec)
        except HarnessError as error:
            return Refusal(error.message, error.hint)

    async def perform(self, item: WorkItem[Any]) -> WorkReply:
        """Do a work item. A cancellation ends its programs."""
        workplace = self._workplace
        assert workplace is not None, "an open node has a workplace"  # noqa: S101
        task = asyncio.current_task()
        assert task is not None, "Ray calls it in a task"  # noqa: S101
        self._tasks.add(task)
        faults_before = self._faults
        result, failure = None, None
        try:
            result = await item.perform(workplace)
        except HarnessError as error:
            failure = await self._explain(error)
        finally:
            self._tasks.discard(task)
        if failure is None and self._faults > faults_before and not await self._responds():
            failure = Failure("engine", "its Docker engine does not answer", None)
        faults, self._faults = self._faults, 0
        return WorkReply(result, failure, faults, workplace.pool.count)

    async def close(self) -> Refusal | None:
        """End all work, and remove every container. Return the reason if one stays."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        return await super().close()

    async def _open(self, spec: ServiceNodeSpec) -> int:
        backend = self._backend
        assert backend is not None, "a service needs the engine of each node"  # noqa: S101
        places = bound_concurrency(spec.max_concurrent)
        await asyncio.to_thread(backend.describe, runtime=spec.runtime)
        images = await self.find_images(spec.images)
        await self.own_containers(spec.run_id, _LOGGER.warning)
        self._workplace = await self._stack.enter_async_context(
            open_workplace(
                backend,
                images=images,
                runtime=spec.runtime,
                run_id=spec.run_id,
                max_concurrent=places,
                # Another node does the work meanwhile.
                wait_seconds=0.0,
                on_fault=self._count_fault,
            )
        )
        return places

    def _count_fault(self) -> None:
        self._faults += 1

    async def _explain(self, error: HarnessError) -> Failure:
        if isinstance(error, UsageError):
            return Failure("usage", error.message, error.hint)
        if isinstance(error, DataError):
            return Failure("data", error.message, error.hint)
        kind: Literal["sandbox", "engine"] = "sandbox" if await self._responds() else "engine"
        return Failure(kind, error.message, error.hint)

    async def _responds(self) -> bool:
        assert self._backend is not None, "an open node has an engine"  # noqa: S101
        with contextlib.suppress(SandboxError):
            await asyncio.to_thread(self._backend.describe)
            return True
        return False
