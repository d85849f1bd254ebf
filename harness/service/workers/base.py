"""The work of a service as plain data, which any machine can do, and the protocol of those that do it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from harness.core.shield import complete
from harness.runs.grader import Grader
from harness.sandbox.backends.base import Backend
from harness.sandbox.pool import SandboxPool
from harness.sandbox.reaper import remove_run

Result = TypeVar("Result", covariant=True)


@dataclass(frozen=True, slots=True)
class Workplace:
    """The sandboxes of one machine."""

    pool: SandboxPool
    # Grades in the sandboxes of `pool`.
    grader: Grader


class WorkItem(Protocol[Result]):
    """One piece of work. It is plain data, because it may travel to another machine.

    It may be performed twice, because a machine can be lost before it has sent the result.
    """

    async def perform(self, workplace: Workplace) -> Result:
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
            seconds: the time after which nobody needs the result any more.

        Raises:
            HarnessError: if the work fails.
            BusyError: if no machine has answered within `seconds`.
        """


@contextlib.asynccontextmanager
async def open_workplace(
    backend: Backend,
    *,
    images: Mapping[str, str],
    runtime: str,
    run_id: str,
    max_concurrent: int,
    wait_seconds: float,
    on_fault: Callable[[], None],
) -> AsyncIterator[Workplace]:
    """Yield the sandboxes of this machine. The end of the block destroys them.

    Args:
        backend: starts the sandboxes.
        images: the ids of the images by their names. A service keeps the builds with which it began, so that
            verdicts stay comparable.
        runtime: the container runtime.
        run_id: the label of all containers.
        max_concurrent: the number of work items that are done at once.
        wait_seconds: the time for which a grading waits for a lost engine.
        on_fault: is called for each fault of the infrastructure in a grading.
    """
    # The queue has one place more for a client without work.
    places = max_concurrent + 1
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(lambda: complete(asyncio.to_thread(remove_run, backend, run_id)))
        pool = await stack.enter_async_context(
            SandboxPool(backend, images=images, runtime=runtime, run_id=run_id, gate_places=places)
        )
        grader = Grader(
            pool,
            backend,
            isolation="run",
            timeout_seconds=None,
            limits=None,
            max_concurrent=places,
            wait_seconds=wait_seconds,
            on_fault=on_fault,
        )
        stack.push_async_callback(grader.close)
        yield Workplace(pool, grader)


class LocalWorkers:
    """Does the work in the sandboxes of this machine. Implements `Workers`."""

    machines = 1

    def __init__(self, workplace: Workplace, places: int) -> None:
        self._workplace = workplace
        self.places = places

    @property
    def sandboxes(self) -> int:
        return self._workplace.pool.count

    def watch_places(self, notify: Callable[[int], None]) -> None:
        """Do nothing, because the places of one machine do not change."""

    async def perform(self, item: WorkItem[Result], *, seconds: float) -> Result:
        # This machine has limits for all of its work, so that it answers in time.
        return await item.perform(self._workplace)
