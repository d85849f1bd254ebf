"""The container's own counters: out-of-memory kills and refused forks, cgroup v1 and v2."""

from __future__ import annotations

import os

MEMORY_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
PROCESS_FILES = ("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events")
MAX_FILE_BYTES = 4096


class Counter:
    """The number behind `key` in the first of these files that there is, else always 0."""

    def __init__(self, paths: tuple[str, ...], key: bytes) -> None:
        self._descriptor: int | None = None
        self._key = b"\n" + key + b" "
        for path in paths:
            try:
                # Kept open: to find the file costs several times as much as to read it.
                self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            break

    def read(self) -> int:
        if self._descriptor is None:
            return 0
        try:
            text = b"\n" + os.pread(self._descriptor, MAX_FILE_BYTES, 0)
            return int(text.partition(self._key)[2].partition(b"\n")[0] or b"0")
        except (OSError, ValueError):
            return 0


MEMORY_KILLS = Counter(MEMORY_FILES, b"oom_kill")
REFUSED_FORKS = Counter(PROCESS_FILES, b"max")


class Counters:
    """What has happened in this container since the object was made."""

    def __init__(self) -> None:
        self._memory = MEMORY_KILLS.read()
        self._processes = REFUSED_FORKS.read()

    def memory_kills(self) -> int:
        return MEMORY_KILLS.read() - self._memory

    def refused_forks(self) -> int:
        return REFUSED_FORKS.read() - self._processes
