"""The number of requests that this machine can work on at once."""

from __future__ import annotations

from harness.errors import UsageError
from harness.sandbox.limits import Limits
from harness.sandbox.pool import count_gate_places, free_memory_mb


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
