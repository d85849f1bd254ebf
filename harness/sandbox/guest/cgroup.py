"""Read the container's counters of memory kills, refused forks and processor time from cgroup v1 or v2."""

from __future__ import annotations

import os

# The machine, and no limit of this container, can do this to a job.
OUT_OF_MEMORY = "the machine ran out of memory, and its kernel killed a process of the sandbox"
NO_START = "the machine could not start a process of the sandbox"

MEMORY_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
PROCESS_FILES = ("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events")
MOST_PROCESSES_FILES = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
PEAK_PROCESSES_FILES = ("/sys/fs/cgroup/pids.peak", "/sys/fs/cgroup/pids/pids.peak")
# Each has the times that the memory was full, so that the kernel had to free some. Version 1 counts memory
# with and without swap, and newer kernels count nothing there.
FULL_MEMORY_FILES = (
    ("/sys/fs/cgroup/memory.events", b"max"),
    ("/sys/fs/cgroup/memory/memory.failcnt", b""),
    ("/sys/fs/cgroup/memory/memory.memsw.failcnt", b""),
)
# The most memory that was ever used, and the limit.
PEAK_MEMORY_FILES = (
    ("/sys/fs/cgroup/memory.peak", "/sys/fs/cgroup/memory.max"),
    ("/sys/fs/cgroup/memory/memory.max_usage_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    (
        "/sys/fs/cgroup/memory/memory.memsw.max_usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes",
    ),
)
# The memory is full if less is left than the kernel asks for at once.
ROOM_BYTES = 2 << 20
# The file, the word before the number, and the number's units in a second.
PROCESSOR_FILES = (
    ("/sys/fs/cgroup/cpu.stat", b"usage_usec", 10**6),
    ("/sys/fs/cgroup/cpuacct/cpuacct.usage", b"", 10**9),
)
# Each version has the quota and its period, in one file or in two.
QUOTA_FILES = (
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
MAX_FILE_BYTES = 4096


class Counter:
    """Reads the number behind `key` in the first of these files that exists. Without any, it is always 0.

    Without a `key`, the file holds a number alone.
    """

    def __init__(self, paths: tuple[str, ...], key: bytes) -> None:
        self.is_there = False
        self._descriptor: int | None = None
        self._key = b"\n" + key + b" " if key else b"\n"
        for path in paths:
            try:
                # The file stays open, because opening it costs several times as much as reading it.
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            self.is_there = True
            break

    def read(self) -> int:
        if self._descriptor is None:
            return 0
        try:
            text = b"\n" + os.pread(self._descriptor, MAX_FILE_BYTES, 0)
            return int(text.partition(self._key)[2].partition(b"\n")[0] or b"0")
        except (OSError, ValueError):
            return 0


class ProcessorCounter:
    """Reads the processor time of all processes that the container has had.

    The kernel adds to this counter whenever it adds to the clock of a thread. The counter therefore includes
    processes that have ended, and those whose parents never wait for them.
    """

    def __init__(self, files: tuple[tuple[str, bytes, int], ...] = PROCESSOR_FILES) -> None:
        self._files = files
        self.open()

    def open(self) -> None:
        """Open the file, as a process that has inherited this object without the descriptor has to."""
        self._descriptor: int | None = None
        for path, key, units in self._files:
            self._key, self._units = key, units
            try:
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            if self.seconds() is not None:
                return
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that a process needs to keep."""
        return () if self._descriptor is None else (self._descriptor,)

    def seconds(self) -> float | None:
        """Return the processor time in seconds, or None if the container cannot read it."""
        if self._descriptor is None:
            return None
        try:
            text = os.pread(self._descriptor, MAX_FILE_BYTES, 0)
            return int(text.partition(self._key)[2].split(None, 1)[0] if self._key else text) / self._units
        except (OSError, ValueError, IndexError):
            return None


def count_processors(files: tuple[tuple[str, ...], ...] = QUOTA_FILES) -> float:
    """Return the seconds of processor time that the container can use in a second of wall time."""
    processors = float(len(os.sched_getaffinity(0)))
    for paths in files:
        try:
            quota, period = [int(word) for path in paths for word in _content(path).split()]
        except (OSError, ValueError):
            continue
        if quota > 0 and period > 0:
            return min(processors, quota / period)
    return processors


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(MAX_FILE_BYTES)


MEMORY_KILLS = Counter(MEMORY_FILES, b"oom_kill")
REFUSED_FORKS = Counter(PROCESS_FILES, b"max")
MOST_PROCESSES = Counter(MOST_PROCESSES_FILES, b"")
PEAK_PROCESSES = Counter(PEAK_PROCESSES_FILES, b"")
FULL_MEMORY = tuple(Counter((path,), key) for path, key in FULL_MEMORY_FILES)
PEAK_MEMORY = tuple((Counter((peak,), b""), Counter((most,), b"")) for peak, most in PEAK_MEMORY_FILES)
PROCESSORS = count_processors()


def has_filled_memory() -> bool:
    """Return whether this container has ever used all of its memory. It counts as true if nothing counts."""
    counters = [counter for counter in FULL_MEMORY if counter.is_there]
    if not counters or any(counter.read() > 0 for counter in counters):
        return True
    return any(0 < most.read() <= peak.read() + ROOM_BYTES for peak, most in PEAK_MEMORY)


def has_filled_processes() -> bool:
    """Return whether this container has ever had all of its processes. True if the kernel does not count."""
    most = MOST_PROCESSES.read()
    return not PEAK_PROCESSES.is_there or most == 0 or PEAK_PROCESSES.read() >= most


class Counters:
    """Counts memory kills and refused forks in this container since the object was made.

    The kernel counts a kill and a refusal for a container, whoever was short of memory or processes. They
    show that a job reached a limit only if the container itself has used all that it may.
    """

    def __init__(self) -> None:
        self._memory = MEMORY_KILLS.read()
        self._processes = REFUSED_FORKS.read()

    def memory_kills(self) -> int:
        """Return the number of kills at the container's own limit."""
        kills = MEMORY_KILLS.read() - self._memory
        return kills if kills and has_filled_memory() else 0

    def refused_forks(self) -> int:
        """Return the number of refusals at the container's own limit."""
        refused = REFUSED_FORKS.read() - self._processes
        return refused if refused and has_filled_processes() else 0

    def find_fault(self) -> str | None:
        """Return what the machine has done to the processes of this container, None if it did nothing."""
        if MEMORY_KILLS.read() > self._memory and not has_filled_memory():
            return OUT_OF_MEMORY
        if REFUSED_FORKS.read() > self._processes and not has_filled_processes():
            return NO_START
        return None
