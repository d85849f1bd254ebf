"""Counts processes where the runtime does not: too many of them end the jobs."""

from __future__ import annotations

import os

from .jobs import PROCESSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .jobs import Job
    from .loop import Loop

WATCH_SECONDS = 0.05


class ProcessWatch:
    """Looks again and again while there are jobs; nobody can hide from PID 1 in its own /proc."""

    def __init__(self, loop: Loop, jobs: Mapping[int, Job], most: int) -> None:
        self._loop = loop
        self._jobs = jobs
        self._most = most
        self._look()

    def _look(self) -> None:
        if self._jobs and threads() > self._most:
            for job in list(self._jobs.values()):
                job.stop(PROCESSES)
        self._loop.after(WATCH_SECONDS, self._look)


def threads() -> int:
    """How many threads there are in all processes of this container: what a pids cgroup counts."""
    count = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/status", "rb") as file:
                count += int(file.read(4096).partition(b"\nThreads:\t")[2].split(b"\n", 1)[0])
        except (OSError, ValueError):
            continue  # it ended meanwhile
    return count
