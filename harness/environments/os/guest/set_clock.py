"""Notice that the machine's clock was set back. A later change can then have the time of an earlier one."""

from __future__ import annotations

import time


class SetClock:
    """Compares the clock of the machine with the time since its boot, which nobody can set.

    A clock that a service only slows down or speeds up changes both times alike.
    """

    def __init__(self) -> None:
        self._highest_ns = 0
        self.note()

    def note(self) -> None:
        """Record the state of the clock, because someone relies on its time from now on."""
        # In this order, a delay between the two calls makes the difference smaller.
        shown = time.time_ns()
        self._highest_ns = max(self._highest_ns, shown - time.clock_gettime_ns(time.CLOCK_BOOTTIME))

    def back_ns(self) -> int:
        """Return by how many nanoseconds the clock was set back since the first record, or 0."""
        # In this order, a delay between the two calls makes the result smaller.
        since_boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        return max(0, self._highest_ns - (time.time_ns() - since_boot))
