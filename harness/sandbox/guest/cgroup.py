"""The container's own counters: out-of-memory kills and refused forks, cgroup v1 and v2."""

from __future__ import annotations

MEMORY_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
PROCESS_FILES = ("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events")


def counter(paths: tuple[str, ...], key: str) -> int:
    """Return the number behind `key` in the first of these files that there is, else 0."""
    for path in paths:
        try:
            with open(path) as file:
                for line in file:
                    name, _, value = line.partition(" ")
                    if name == key:
                        return int(value)
        except (OSError, ValueError):
            continue
    return 0


class Counters:
    """What has happened in this container since the object was made."""

    def __init__(self) -> None:
        self._memory = counter(MEMORY_FILES, "oom_kill")
        self._processes = counter(PROCESS_FILES, "max")

    def memory_kills(self) -> int:
        return counter(MEMORY_FILES, "oom_kill") - self._memory

    def refused_forks(self) -> int:
        return counter(PROCESS_FILES, "max") - self._processes
