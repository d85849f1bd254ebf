"""Count processes and memory if the runtime does not. Too much of either ends the jobs."""

from __future__ import annotations

import os

from .jobs import MEMORY, PROCESSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .kernel import Stoppable
    from .loop import Loop
    from .messages import Watch

WATCH_SECONDS = 0.05
# The kernel frees the memory of an ended job a little later, which must not end a job that has just started.
GRACE_LOOKS = 2


class UsageWatch:
    """Looks again and again while there are jobs. No process can hide from PID 1's own /proc."""

    def __init__(
        self,
        loop: Loop,
        jobs: Mapping[int, Stoppable],
        limits: Watch,
    ) -> None:
        self._loop = loop
        self._jobs = jobs
        self._limits = limits
        self._looks: dict[int, int] = {}
        self._look()

    def _look(self) -> None:
        self._looks = {number: self._looks.get(number, 0) + 1 for number in self._jobs}
        if self._jobs:
            if count_threads() > self._limits["processes"]:
                self._stop(PROCESSES)
            elif measure_memory() > self._limits["memory_bytes"]:
                self._stop(MEMORY)
        self._loop.after(WATCH_SECONDS, self._look)

    def _stop(self, reason: str) -> None:
        for number, job in list(self._jobs.items()):
            if self._looks[number] > GRACE_LOOKS:
                job.stop(reason)


def count_threads() -> int:
    """Return the number of threads in all processes of this container, which is what a pids cgroup counts."""
    count = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/status", "rb") as file:
                count += int(file.read(4096).partition(b"\nThreads:\t")[2].split(b"\n", 1)[0])
        except (OSError, ValueError):
            continue  # the process has ended meanwhile
    return count


def measure_memory() -> int:
    """Return the memory in use, files in memory included, or 0 if the kernel does not report it.

    The number covers the whole kernel, so it is right only if the container has a separate kernel.
    """
    facts = {}
    with open("/proc/meminfo", "rb") as file:
        for line in file:
            name, _, value = line.partition(b":")
            facts[name] = int(value.split()[0])
    if b"MemTotal" not in facts or b"MemFree" not in facts:
        return 0
    return (facts[b"MemTotal"] - facts[b"MemFree"]) * 1024
