"""The limits of one sandbox and of one job in it. No value means "no limit"."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.core.errors import UsageError

if TYPE_CHECKING:
    from harness.sandbox.guest.messages import JobLimits

MIB = 1024 * 1024
# The share of free memory that a pool takes. The rest is for everything else on the machine.
MEMORY_SHARE = 0.8
# One place more than there are cores keeps the cores busy, because a container often waits for the backend.
EXTRA = 1
# The attempts that share a grading container.
Isolation = Literal["task", "attempt", "run"]
# A machine that is even slower than that is too slow for limits to mean anything.
MOST_TIME_FACTOR = 4.0
# Longer times are cut down to this one, a year, because no sandbox lives that long.
MOST_SECONDS = 365 * 24 * 3600.0


class Limits(BaseModel):
    """The limits of a container, and of each job in it. Sizes (`*_mb`) are in MiB, times in seconds.

    A value out of its range raises pydantic's ValidationError.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    memory_mb: int = Field(default=1024, ge=64, le=65536)
    """The memory of the container: memory plus swap, with every tmpfs."""
    processes: int = Field(default=128, ge=8, le=32768)
    """The number of processes and threads in the container."""
    cpus: float = Field(default=1.0, ge=0.01, le=256)
    """The number of processors. The kernel has no smaller share, and the engine takes a smaller number for no
    limit at all."""
    disk_mb: int = Field(default=64, ge=1, le=65536)
    """The size of each writable tmpfs, and of a writable root file system."""
    inodes: int = Field(default=16384, ge=64, le=16_777_216)
    """The number of files on each writable tmpfs. A writable root file system has no such limit."""
    cpu_seconds: int = Field(default=10, ge=1, le=600)
    """The CPU time of a job: all its processes, including ended ones."""
    wall_seconds: float = Field(default=30.0, gt=0, le=600)
    """The wall time of a job."""
    output_mb: int = Field(default=64, ge=1, le=4096)
    """The output that the job may write to stdout and stderr together."""
    file_mb: int = Field(default=64, ge=1, le=65536)
    """The size of the largest file that a job may write."""
    open_files: int = Field(default=256, ge=32, le=1048576)
    """The number of open files of each process."""
    time_factor: float = Field(default=1.0, ge=1, le=MOST_TIME_FACTOR)
    """The CPU time of programs under tests is this many times their limit. A run takes what `harness doctor`
    has measured on this machine, unless this is set; 1 is off."""
    uncounted_sockets: bool = False
    """The kernel counts the buffers of IPv4 and IPv6 sockets in `memory_mb` with cgroup version 2 only, and
    netlink sockets' buffers with neither version. Programs get no such uncounted socket unless this is
    set."""

    def of_job(self, timeout: float | None, keep_bytes: int) -> JobLimits:
        """Return the limits of one job in the guest's terms, in seconds and bytes.

        `timeout` replaces `wall_seconds`, and raises `cpu_seconds` to the CPU time that the processors have
        in that time. The guest keeps `keep_bytes` of each output. Raises UsageError for a timeout that is
        not positive and finite.
        """
        wall, cpu = self.wall_seconds, self.cpu_seconds * self.time_factor
        if timeout is not None:
            wall = bound_seconds("timeout", timeout)
            cpu = max(cpu, math.ceil(wall * max(self.cpus, 1.0)))
        return {
            "cpu_seconds": cpu,
            "wall_seconds": wall,
            "output_bytes": self.output_mb * MIB,
            "file_bytes": self.file_mb * MIB,
            "open_files": self.open_files,
            "keep_bytes": keep_bytes,
        }


def bound_seconds(name: str, seconds: float) -> float:
    """Return `seconds`, at most MOST_SECONDS, so that every sum of times stays finite. Errors call it `name`.

    Raises UsageError if it is not a positive and finite number.
    """
    if not (0 < seconds < math.inf):
        raise UsageError(f"{name} must be a positive and finite number of seconds, not {seconds}")
    return float(min(seconds, MOST_SECONDS))


def free_memory_mb() -> int:
    """Return the memory in MiB that all sandboxes together may take: a share of the free memory."""
    import psutil  # late, because the help of a command needs the limits and not this

    return int(psutil.virtual_memory().available * MEMORY_SHARE / MIB)


def count_gate_places() -> int:
    """Return how many container starts and gradings may run at once on the cores of this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + EXTRA
