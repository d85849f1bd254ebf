"""Count the processor time of a job, including its ended processes.

The container's cgroup counts every process, however it was started and whichever process waited for it. The
processor time of a job is therefore the cgroup's count since the job began, minus the time of our own
processes. That holds for a job that is alone in its container. For jobs that run at the same time, and in a
container that cannot read its cgroup, the guest adds up processes: the ended first process with the children
that it waited for, the living processes with those that they waited for, and the orphans that PID 1 has
reaped. The sum misses the children of a process that ignores SIGCHLD.
"""

from __future__ import annotations

import os
import time
from os import O_RDONLY, close, read
from os import open as os_open

from . import processes
from .cgroup import ProcessorCounter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import ClassVar

    from .loop import Loop

TICKS = os.sysconf("SC_CLK_TCK")


def read_clock(pid: int) -> float:
    """Return the seconds that a process has used, by the kernel's clock of it; 0 if it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def sum_seconds(pids: Iterable[int]) -> float:
    """Return the seconds that these processes, and the children that they waited for, have used."""
    return sum(read_clock(pid) + _read_waited_seconds(pid) for pid in pids)


def _read_waited_seconds(pid: int) -> float:
    try:
        file = os_open(f"/proc/{pid}/stat", O_RDONLY)
        try:
            # Split after the last bracket, because a process may choose any name, brackets included.
            facts = read(file, 4096).rpartition(b")")[2].split()
        finally:
            close(file)
        return (int(facts[13]) + int(facts[14])) / TICKS
    except (OSError, ValueError, IndexError):
        return 0.0  # the process has ended meanwhile


# The counter of this process, which PID 1 has opened. Forks close its descriptor, or open it again.
COUNTER = ProcessorCounter()


class UntrustedClock:
    """Reads the processor time of all processes of the container except our own."""

    def __init__(self, ours: Iterable[int]) -> None:
        self._ours = ours

    def seconds(self) -> float | None:
        """Return the seconds used since the container was started, or None if its cgroup cannot be read."""
        # Our clocks come first, because reading the clock of a running process updates its cgroup.
        ours = sum(map(read_clock, self._ours))
        total = COUNTER.seconds()
        return None if total is None else total - ours


# The clock of PID 1.
UNTRUSTED = UntrustedClock(processes.our_pids)


class Account:
    """The processor time of one job, from the start of its first process until the account is closed."""

    _opened: ClassVar[list[Account]] = []

    def __init__(
        self,
        loop: Loop,
        living: Callable[[], list[int]],
        *,
        trusted_uid: int | None = None,
        alone: bool = True,
    ) -> None:
        """Open an account for a job that is about to start its first process.

        Args:
            living: Returns the ids of the job's living processes.
            trusted_uid: The user of our own process that works for this job, if there is one.
            alone: Whether no process runs in the container except the jobs' and our own.
        """
        # Orphans of an earlier job may have ended without being reaped yet. Their time is not of this job.
        loop.collect_ended()
        self._loop = loop
        self._living = living
        self._trusted_uid = trusted_uid
        self._trusted_pid: int | None = None
        self._trusted_seconds: float | None = None
        self._alone = alone and not Account._opened
        for other in Account._opened:
            other._alone = False
        Account._opened.append(self)
        self._before = UNTRUSTED.seconds()
        self._orphans_before = loop.orphan_seconds

    def close(self) -> None:
        if self in Account._opened:
            Account._opened.remove(self)

    def record_trusted_process(self, pid: int) -> None:
        """Record the id of the trusted process, so that it need not be looked for while it lives.

        Its children count from then on once it has waited for them.
        """
        self._trusted_pid = pid

    def record_trusted_end(self, seconds: float) -> None:
        """Record the seconds that the trusted process has used in its life."""
        self._trusted_seconds = seconds

    def seconds(self, first: float = 0.0) -> float:
        """Return the seconds that the job's processes have used.

        `first` is the time of the job's first process, and of the children that it waited for, once that
        process has ended.
        """
        now = UNTRUSTED.seconds() if self._alone else None
        if now is not None and self._before is not None:
            return max(0.0, now - self._before - self._trusted())
        orphans = self._loop.orphan_seconds - self._orphans_before if self._alone else 0.0
        return first + sum_seconds(self._living()) + orphans

    def _trusted(self) -> float:
        if self._trusted_uid is None:
            return 0.0
        if self._trusted_seconds is not None:
            return self._trusted_seconds
        if self._trusted_pid is not None:
            return sum_seconds((self._trusted_pid,))
        return sum_seconds(processes.list_processes_of(frozenset((self._trusted_uid,))))
