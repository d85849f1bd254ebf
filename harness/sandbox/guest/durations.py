"""Bound every time before it reaches a system call.

The kernel takes a wait in milliseconds as a signed 32-bit number, which is 24 days, and a limit on processor
time as a signed 64-bit number. Requests hold sums over thousands of attempts, which are longer. Python raises
OverflowError for such a number, and in PID 1 that would end the whole container.
"""

from __future__ import annotations

import math

# A longer wait is several waits of this length.
MOST_WAIT_SECONDS = 24 * 3600.0
# The longest limit on the processor time of a process. No container lives that long.
MOST_PROCESSOR_SECONDS = 1 << 31
# Even on the busiest machine, this many times the wall limit is enough. A short limit gets further seconds.
MOST_PATIENCE = 5
FURTHER_SECONDS = 10.0


def bound_wait(seconds: float) -> float:
    """Return the seconds that one system call may wait: at least 0, at most MOST_WAIT_SECONDS.

    The caller has to check the clock again after the wait. Raises ValueError for not-a-number, which is
    neither before nor after any other time.
    """
    if seconds != seconds:  # math.isnan takes no integer that is too large for a float
        raise ValueError("a time must be a number of seconds, not nan")
    return float(min(max(seconds, 0.0), MOST_WAIT_SECONDS))


def bound_processor_seconds(seconds: float) -> int:
    """Return the limit on processor time for the kernel, in whole seconds, rounded up."""
    return math.ceil(min(max(seconds, 0), MOST_PROCESSOR_SECONDS))


def moment_after(now: float, seconds: float) -> float:
    """Return the moment that lies `seconds` after `now`.

    An integer that no float can hold gives infinity. Raises ValueError for not-a-number.
    """
    try:
        moment = now + float(seconds)
    except OverflowError:
        return math.inf if seconds > 0 else now
    if math.isnan(moment):
        raise ValueError("a time must be a number of seconds, not nan")
    return moment


def find_longest(wall_seconds: float, times: int = MOST_PATIENCE) -> float:
    """Return how many seconds it takes to blame the machine for a job that its wall limit has not ended."""
    return wall_seconds * times + FURTHER_SECONDS
