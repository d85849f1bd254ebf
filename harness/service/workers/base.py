"""The work of a service as plain data, which any machine can do, and the protocol of those that do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from harness.host.local import LocalHost, log_note
from harness.host.retries import Retries
from harness.sandbox.backends.base import Backend
from harness.sandbox.pool import SandboxPool

Result = TypeVar("Result", covariant=True)


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
            seconds: the time after which nobody needs the result any more.

        Raises:
            HarnessError: if the work fails.
            BusyError: if no machine has answered within `seconds`.
        """


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
