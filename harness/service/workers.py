"""The work of a service as plain data, and its machines: this one, or the nodes of a Ray cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, cast

from harness.core.errors import DataError, HarnessError, SandboxError, UsageError
from harness.core.logger import get_logger
from harness.core.shield import complete, complete_all
from harness.host.local import LocalHost, log_note
from harness.host.retries import Retries, RunStoppedError
from harness.runs.executors.messages import ImageContent, Refusal
from harness.runs.executors.node import EngineNode
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
from harness.sandbox.backends.base import Backend
from harness.sandbox.limits import Limits, count_gate_places, free_memory_mb
from harness.sandbox.pool import SandboxPool
from harness.service.errors import BusyError

Result = TypeVar("Result", covariant=True)
_LOGGER = get_logger(__name__)
# A work item whose node was lost in this many tries fails.
TRIES = 5
# A refused node is asked again after this time, because a service runs for weeks.
RETRY_SECONDS = 30.0


class WorkItem(Protocol[Result]):
    """One piece of work. It is plain data, because it may travel to another machine.

    It may be performed twice, because a machine can be lost before it has sent the result.
    """

    async def perform(self, host: LocalHost) -> Result:
        """Do the work and return its result. Raises HarnessError."""


class Workers(Protocol):
    """Do the work of a service."""

    @property
    def places(self) -> int:
        """How many work items they do at once. It changes when machines come and go."""

    @property
    def sandboxes(self) -> int:
        """The number of live sandboxes."""

    @property
    def machines(self) -> int:
        """The number of machines that work."""

    def watch_places(self, notify: Callable[[int], None]) -> None:
        """Call `notify` with each new value of `places`."""

    async def perform(self, item: WorkItem[Result], *, seconds: float) -> Result:
        """Return the result of a work item. A cancellation ends its programs.

        Args:
            item: the work.
            seconds: how long the result is needed.

        Raises:
            HarnessError: if the work fails.
            BusyError: if no machine has answered within `seconds`.
        """


def bound_concurrency(wanted: int | None) -> int:
    """Return how many requests may work in sandboxes at once.

    The default follows from the cores and the free memory. More requests than cores make each one slower, so
    that honest programs reach their time limits.

    Raises UsageError for a number whose sandboxes do not fit into the free memory.
    """
    fitting = max(1, free_memory_mb() // Limits().memory_mb)
    if wanted is None:
        return min(count_gate_places(), fitting)
    if wanted > fitting:
        raise UsageError(
            f"--max-concurrent {wanted}: the free memory of this machine has room for {fitting} sandboxes of "
            f"{Limits().memory_mb:,} MiB",
            hint=f"use at most {fitting}",
        )
    return wanted


def make_host(
    backend: Backend,
    *,
    images: Mapping[str, str],
    runtime: str,
    run_id: str,
    max_concurrent: int,
    wait_seconds: float,
    on_fault: Callable[[], None],
) -> LocalHost:
    """Return this machine as the host of a service. Its block opens it, and destroys its sandboxes.

    Args:
        backend: starts the sandboxes.
        images: the ids of the images by their names. A service keeps the builds that it began with, so that
            verdicts stay comparable.
        runtime: the container runtime.
        run_id: the label of all containers.
        max_concurrent: the number of work items that are done at once.
        wait_seconds: how long a grading waits for a lost engine.
        on_fault: is called for each fault of the infrastructure in a grading.
    """
    # The queue has one place more for a client without work.
    places = max_concurrent + 1
    return LocalHost(
        SandboxPool(backend, images=images, runtime=runtime, run_id=run_id, gate_places=places),
        Retries(backend, log_note, wait_seconds=wait_seconds),
        max_concurrent=places,
        on_fault=on_fault,
    )


class LocalWorkers:
    """Does the work in the sandboxes of this machine. Implements `Workers`."""

    machines = 1

    def __init__(self, host: LocalHost, places: int) -> None:
        self._host = host
        self.places = places

    @property
    def sandboxes(self) -> int:
        return self._host.pool.count

    def watch_places(self, notify: Callable[[int], None]) -> None:
        """Do nothing, because the places of one machine do not change."""

    async def perform(self, item: WorkItem[Result], *, seconds: float) -> Result:
        # This machine has limits for all of its work, so that it answers in time.
        return await item.perform(self._host)


@dataclass(frozen=True, slots=True)
class ServiceNodeSpec:
    """Everything that a node needs to prepare for the work of a service."""

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
        self._host: LocalHost | None = None
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
        host = self._host
        assert host is not None, "an open node has a host"  # noqa: S101
        task = asyncio.current_task()
        assert task is not None, "Ray calls it in a task"  # noqa: S101
        self._tasks.add(task)
        faults_before = self._faults
        result, failure = None, None
        try:
            result = await item.perform(host)
        except HarnessError as error:
            failure = await self._explain(error)
        finally:
            self._tasks.discard(task)
        if failure is None and self._faults > faults_before and not await self._responds():
            failure = Failure("engine", "its Docker engine does not answer", None)
        faults, self._faults = self._faults, 0
        return WorkReply(result, failure, faults, host.pool.count)

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
        self._host = await self._stack.enter_async_context(
            make_host(
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


@contextlib.asynccontextmanager
async def open_ray_workers(
    backend: Backend,
    *,
    image_tags: Mapping[str, str],
    runtime: str,
    run_id: str,
    address: str | None,
    max_concurrent: int | None,
    on_faults: Callable[[int], None],
) -> AsyncIterator[RayWorkers]:
    """Yield the nodes of a cluster. The end of the block ends them, with their sandboxes.

    Args:
        backend: the engine of this machine. Nodes get the images that they lack from it.
        image_tags: the tags of the images by their names.
        runtime: the container runtime on all nodes.
        run_id: the label of all containers.
        address: the address of the cluster, as `connect_ray` takes it.
        max_concurrent: how much each node does at once, None for as much as its cores and memory allow.
        on_faults: gets the number of new faults of the infrastructure.

    Raises:
        UsageError: if there is no cluster, or none of its nodes can take part.
        SandboxError: if the images of this machine cannot be read.
    """
    images = await asyncio.to_thread(describe_images, backend, image_tags)
    spec = ServiceNodeSpec(run_id, runtime, images, max_concurrent)

    async def prepare(actor: Any, ask: Ask) -> int:
        places: int = await ask(actor.open.remote(spec), PREPARE_SECONDS)
        return places

    async with connect_ray(address) as ray:
        opener = NodeOpener(ray, NodeWork(ServiceNode, images, prepare), backend)
        members = RayMembers(ray, opener, _LOGGER.warning, retry_seconds=RETRY_SECONDS)
        workers = RayWorkers(members, on_faults)
        looking: asyncio.Task[None] | None = None
        try:
            await members.open()
            for node in members:
                _LOGGER.warning("%s takes part (%d requests at a time)", node.name, node.places)
            looking = asyncio.create_task(workers.look())
            yield workers
        finally:
            if looking is not None:
                looking.cancel()
                await complete_all([looking])
            await complete(members.close())


class RayWorkers:
    """Gives each work item to the node with the most room. Implements `Workers`."""

    def __init__(self, members: RayMembers, on_faults: Callable[[int], None]) -> None:
        self._members = members
        self._on_faults = on_faults
        self._notify: Callable[[int], None] = lambda _places: None
        # The work under way, and the live sandboxes at the last reply, by the node.
        self._under_way: Counter[RayNode] = Counter()
        self._sandboxes: dict[RayNode, int] = {}
        # The nodes in the order of their last replies.
        self._answered: dict[RayNode, None] = {}
        self._joined = asyncio.Event()

    @property
    def places(self) -> int:
        return sum(node.places for node in self._members)

    @property
    def sandboxes(self) -> int:
        return sum(self._sandboxes.get(node, 0) for node in self._members)

    @property
    def machines(self) -> int:
        return len(list(self._members))

    def watch_places(self, notify: Callable[[int], None]) -> None:
        self._notify = notify

    async def perform(self, item: WorkItem[Result], *, seconds: float) -> Result:
        try:
            async with asyncio.timeout(seconds):
                return await self._perform(item)
        except TimeoutError:
            raise BusyError(
                f"no machine of the service has answered within {seconds:.1f} s", retry_seconds=1.0
            ) from None

    async def look(self) -> None:
        """Let nodes join that come, or come back, until a cancellation."""
        while True:
            try:
                async with asyncio.TaskGroup() as group:
                    await self._members.look(group, self._join)
            except* RunStoppedError as stopped:
                # Ray itself ends this process if the head does not come back.
                _LOGGER.error("%s", stopped.exceptions[0])
            await asyncio.sleep(RETRY_SECONDS)

    async def _join(self, node: RayNode) -> None:
        _LOGGER.warning("%s joins the service (%d requests at a time)", node.name, node.places)
        self._joined.set()
        self._notify(self.places)

    async def _perform(self, item: WorkItem[Result]) -> Result:
        for number in range(TRIES):
            node = await self._choose(is_repeated=number > 0)
            self._under_way[node] += 1
            try:
                reply: WorkReply = await node.ask("perform", item)
            except NodeLost as lost:
                self._lose(node, str(lost))
                continue
            finally:
                self._under_way[node] -= 1
                if not self._under_way[node]:
                    del self._under_way[node]
            self._sandboxes[node] = reply.sandboxes
            self._answered.pop(node, None)
            self._answered[node] = None
            if reply.faults:
                self._on_faults(reply.faults)
            if reply.failure is None:
                return cast(Result, reply.result)
            if reply.failure.kind != "engine":
                raise _make_error(reply.failure)
            self._lose(node, reply.failure.message)
        raise SandboxError(f"the machine of this request was lost in each of {TRIES} tries", outside=True)

    async def _choose(self, *, is_repeated: bool) -> RayNode:
        """Return the node with the most room. It waits until there is a node.

        A node that has died idle has the most room. If many die at once, a request must not meet one after
        the other, so it is repeated at one of the nodes that have answered last.
        """
        while not (nodes := list(self._members)):
            self._joined.clear()
            await self._joined.wait()
        if is_repeated:
            answered = [node for node in self._answered if node in nodes]
            nodes = answered[len(answered) // 2 :] or nodes
        return min(nodes, key=lambda node: self._under_way[node] / node.places)

    def _lose(self, node: RayNode, reason: str) -> None:
        self._members.lose(node, reason)
        self._sandboxes.pop(node, None)
        self._answered.pop(node, None)
        self._on_faults(1)
        self._notify(self.places)


def _make_error(failure: Failure) -> HarnessError:
    match failure.kind:
        case "usage":
            return UsageError(failure.message, hint=failure.hint)
        case "data":
            return DataError(failure.message, hint=failure.hint)
        case _:
            return SandboxError(failure.message)
