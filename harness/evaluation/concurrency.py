"""The number of attempts under way at once. The sandbox pool bounds memory and cores."""

from __future__ import annotations

from typing import Any

from harness.config import Isolation
from harness.sandbox.limits import Limits
from harness.sandbox.pool import EXTRA, count_gate_places, free_memory_mb

# An attempt that waits for a model costs this machine almost nothing.
MOST_ATTEMPTS = 1024
# Attempts without a sandbox mostly wait for their records to reach the disk.
WITHOUT_SANDBOX = 16
# So many submissions keep the sandboxes of a service at work while their verdicts travel.
AT_SERVICE = 256


def choose_concurrency(
    wanted: int | None,
    agent: Any,
    *,
    sandboxes: bool,
    isolation: Isolation = "task",
    at_service: bool = False,
) -> int:
    """Return how many attempts may be under way at once.

    Args:
        wanted: the number that the config asks for, None for the default. An agent may have a lower maximum.
        agent: the agent of the run. By default an agent that never waits for a model gets as many attempts
            as the cores can work on, because more would only hold memory.
        sandboxes: whether the attempts need sandboxes.
        isolation: the attempts that share a sandbox. With "run" there is one for each core, because the
            start of a further one costs more than it brings once none has to wait for another start.
        at_service: whether a service grades the submissions.
    """
    if wanted is None and at_service and not getattr(agent, "waits", True):
        wanted = AT_SERVICE
    if wanted is None and not getattr(agent, "waits", True):
        places = count_gate_places() - (EXTRA if isolation == "run" else 0)
        wanted = places if sandboxes else WITHOUT_SANDBOX
    return min(wanted or MOST_ATTEMPTS, getattr(agent, "max_concurrent", MOST_ATTEMPTS))


def choose_gate_places(wanted: int | None, agent: Any) -> int:
    """Return how many container starts and gradings may be under way at once.

    The number follows from the cores. It is at least `wanted` for an agent that never waits, because its
    attempts consist only of grading.
    """
    places = count_gate_places()
    return places if wanted is None or getattr(agent, "waits", True) else max(places, wanted)


def default_concurrency(limits: Limits) -> int:
    """Return how many sandboxes with these limits the cores and the free memory can serve at once."""
    return max(1, min(count_gate_places(), free_memory_mb() // limits.memory_mb))
