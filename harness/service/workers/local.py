"""The machine of the service as the one that does its work."""

from __future__ import annotations

from collections.abc import Callable

from harness.service.workers.base import Result, WorkItem, Workplace


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
