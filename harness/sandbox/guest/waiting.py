"""Measure how long a job had to wait for a processor, which its wall limit does not count.

A wall limit ends programs that wait for an event that never comes. It must not end a program that would run
on a less busy machine. Therefore the wall limit does not count the time while the most eager living
ordinary thread of the job waited for a processor, less the CPU time of all other threads of the job.

An ordinary thread has the normal scheduling policy and at least PID 1's priority. PID 1 may have a low one,
because a container without an engine inherits that of the user's command. A program that has lowered its own
priority waits by choice. Only one thread counts, because threads that wait at the same time must not add up.
The other threads' CPU time is subtracted, because a program can make its own threads wait for each other.
"""

from __future__ import annotations

import os
import time

from .processor_time import TICKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Read before any program runs.
_OWN_NICE = os.getpriority(os.PRIO_PROCESS, 0)


class Waiting:
    """The time that a job waits, from now on.

    Args:
        pids: Processes of the job that live already. Only their first threads are measured. Of processes
            that start later, every thread is measured.
        since_their_start: Whether every thread is measured from its own start on. A process that is not among
            the job's yet, because it has not become its user, is measured in no other way.
    """

    def __init__(self, pids: Iterable[int] = (), *, since_their_start: bool = False) -> None:
        now = 0 if since_their_start else int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS)
        self._started_ticks = now
        self._before = {pid: _ran_or_waited(pid, pid) for pid in pids}

    def seconds(self, pids: Iterable[int], used: float) -> float:
        """Return how long the job waited, given its living processes and what all its processes have used."""
        return max(0.0, max((self._eagerness(*thread) for thread in _ordinary(pids)), default=0.0) - used)

    def _eagerness(self, pid: int, thread: int, started_ticks: int) -> float:
        """Return how long a thread ran or waited since this object was made."""
        if thread in self._before:
            return _ran_or_waited(pid, thread) - self._before[thread]
        return _ran_or_waited(pid, thread) if started_ticks >= self._started_ticks else 0.0


class StarterTime:
    """The time that our process which starts a job's first one has run or waited, from now on; 0 for none."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = self._read()

    def seconds(self) -> float:
        return max(0.0, self._read() - self._before)

    def _read(self) -> float:
        return _ran_or_waited(self._pid, self._pid) if self._pid else 0.0


def _ordinary(pids: Iterable[int]) -> list[tuple[int, int, int]]:
    """Return process, id and start of each thread with the normal policy and no lower priority than ours."""
    found = []
    for pid in pids:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue  # The thread has ended in the meantime.
        for thread in threads:
            try:
                with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                    # A thread chooses its own name. The fields after the last bracket come from the kernel.
                    facts = file.read(4096).rpartition(b")")[2].split()
                nice, started_ticks, policy = int(facts[16]), int(facts[19]), int(facts[38])
            except (OSError, ValueError, IndexError):
                continue
            if policy == os.SCHED_OTHER and nice <= _OWN_NICE:
                found.append((pid, int(thread), started_ticks))
    return found


def _ran_or_waited(pid: int, thread: int) -> float:
    """Return the seconds that a thread ran or waited for a processor, or 0 if the kernel counts none."""
    try:
        with open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
            ran, waited = file.read().split()[:2]
        return (int(ran) + int(waited)) / 1e9
    except (OSError, ValueError):
        return 0.0
