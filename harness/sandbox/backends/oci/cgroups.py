"""Read and remove the control groups of a container, with version 1 or 2.

The supervisor imports this file by itself, so that it uses the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

ROOT = "/sys/fs/cgroup"
REMOVAL_SECONDS = 30.0
PAUSE_SECONDS = 0.005


def find_version() -> int:
    """Return the version of control groups on this machine. A hybrid machine has version 1."""
    return 2 if os.path.exists(f"{ROOT}/cgroup.controllers") else 1


def list_lacking_controllers() -> list[str]:
    """Return the controllers that limits need and that this machine does not offer."""
    if find_version() == 2:
        with open(f"{ROOT}/cgroup.controllers") as file:
            offered = set(file.read().split())
        return sorted({"cpu", "memory", "pids"} - offered)
    needed = ("cpu", "cpuacct", "devices", "memory", "pids")
    return [name for name in needed if not os.path.ismount(os.path.realpath(f"{ROOT}/{name}"))]


def counts_swap() -> bool:
    """Return whether the kernel can bound memory and swap together."""
    return find_version() == 2 or os.path.exists(f"{ROOT}/memory/memory.memsw.limit_in_bytes")


def list_folders(cgroup: str) -> list[str]:
    """Return the folders of a control group, one for each hierarchy of this machine."""
    if find_version() == 2:
        return [f for f in [ROOT + cgroup] if os.path.isdir(f)]
    hierarchies = sorted({os.path.realpath(entry.path) for entry in os.scandir(ROOT) if entry.is_dir()})
    return [folder for each in hierarchies if os.path.isdir(folder := each + cgroup)]


def read_number(cgroup: str, first: str, second: str, key: str = "") -> int:
    """Return a number of a control group, 0 if it has none.

    Args:
        cgroup: the path of the group.
        first: the hierarchy and the file of version 1, such as `memory/memory.usage_in_bytes`.
        second: the file of version 2.
        key: the word before the number, in a file with several of them.
    """
    hierarchy, _, file = first.partition("/")
    path = f"{ROOT}{cgroup}/{second}" if find_version() == 2 else f"{ROOT}/{hierarchy}{cgroup}/{file}"
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(path) as opened:
            words = opened.read().split()
        return int(words[words.index(key) + 1] if key else words[0])
    return 0


def count_memory_kills(cgroup: str) -> int:
    """Return how many processes of a group the kernel has killed for a lack of memory."""
    return read_number(cgroup, "memory/memory.oom_control", "memory.events", "oom_kill")


def kill_all(cgroup: str, seconds: float = REMOVAL_SECONDS) -> bool:
    """Kill the processes of a group and remove it; return whether it is gone in this time."""
    deadline = time.monotonic() + seconds
    while folders := list_folders(cgroup):
        for folder in folders:
            for pid in _list_processes(folder):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        if time.monotonic() > deadline:
            return False
        if list_folders(cgroup):
            time.sleep(PAUSE_SECONDS)
    return True


def _list_processes(folder: str) -> list[int]:
    with contextlib.suppress(OSError), open(f"{folder}/cgroup.procs") as opened:
        return [int(line) for line in opened]
    return []
