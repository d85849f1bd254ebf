"""The state of a run, and the statuses of its attempts as each report lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.core.types import Status, Summary


class RunState(StrEnum):
    """Whether a run goes on."""

    FINISHED = "finished"
    # Attempts are left, and no process works on them.
    INTERRUPTED = "interrupted"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class StatusCount:
    """The number of attempts with one status."""

    status: Status
    """`cancelled` also for attempts to come."""
    key: str
    """The name in JSON: the status's, or `to_come`."""
    number: int

    @property
    def label(self) -> str:
        """The name for people."""
        return "to come" if self.key == _TO_COME else self.status.value


_TO_COME = "to_come"


def find_state(summary: Summary, *, is_running: bool) -> RunState:
    """Return the state of a run with this summary."""
    if is_running:
        return RunState.RUNNING
    return RunState.INTERRUPTED if summary.statuses.get(Status.CANCELLED) else RunState.FINISHED


def count_statuses(summary: Summary, *, is_running: bool) -> Sequence[StatusCount]:
    """Return the statuses that attempts have, in their order.

    A summary counts each attempt without a verdict as cancelled. While the run is under way it is to come.
    """
    return [
        StatusCount(status, _TO_COME if is_running and status is Status.CANCELLED else status.value, number)
        for status in Status
        if (number := summary.statuses.get(status, 0))
    ]
