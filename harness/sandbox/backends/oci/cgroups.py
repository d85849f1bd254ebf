"""Read and remove the control groups of a container, with version 1 or 2.

The path of a group is empty for a container without one, as an ordinary user's may be. The supervisor imports
this file by itself, so that it uses the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

ROOT = "/sys/fs/cgroup"
# Each container has a group of its own below this one, which root makes.
PARENT = "/harness"
# The controllers of version 2 that limits need.
CONTROLLERS = frozenset({"cpu", "memory", "pids"})
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
        return sorted(CONTROLLERS - offered)
    needed = ("cpu", "cpuacct", "devices", "memory", "pids")
    return [name for name in needed if not os.path.ismount(os.path.realpath(f"{ROOT}/{name}"))]


def find_delegated(name: str) -> str:
    """Return a new group where this process may make groups with limits; empty if there is none.

    An ordinary user has one below the group of this process, which systemd gives to a scope with Delegate, or
    beside it. Each of them is tried.
    """
    if find_version() == 1:
        return ""
    with open("/proc/self/cgroup") as file:
        own = file.read().partition("::")[2].strip()
    for parent, moves in ((own, True), (os.path.dirname(own), False)):
        group = f"{parent.rstrip('/')}/{name}"
        leaf = f"{group}-supervisor"
        try:
            os.mkdir(ROOT + group)
            if moves:
                # No group with processes can give controllers to the groups below it.
                os.mkdir(ROOT + leaf)
                _write(f"{leaf}/cgroup.procs", str(os.getpid()))
            for giver in (parent, group):
                _write(
                    f"{giver}/cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(CONTROLLERS))
                )
        except OSError:
            with contextlib.suppress(OSError):
                _write(f"{own}/cgroup.procs", str(os.getpid()))
            for made in (leaf, group):
                with contextlib.suppress(OSError):
                    os.rmdir(ROOT + made)
        else:
            return group
    return ""


def _write(path: str, text: str) -> None:
    with open(ROOT + path, "w") as file:
        file.write(text)


def counts_swap() -> bool:
    """Return whether the kernel can bound memory and swap together."""
    return find_version() == 2 or os.path.exists(f"{ROOT}/memory/memory.memsw.limit_in_bytes")


def list_folders(cgroup: str) -> list[str]:
    """Return the folders of a control group, one for each hierarchy of this machine."""
    if not cgroup:
        return []
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
    if not cgroup:
        return 0
    hierarchy, _, file = first.partition("/")
    path = f"{ROOT}{cgroup}/{second}" if find_version() == 2 else f"{ROOT}/{hierarchy}{cgroup}/{file}"
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open(path) as opened:
            words = opened.read().split()
        return int(words[words.index(key) + 1] if key else words[0])
    return 0


def read_limits(cgroup: str) -> dict[str, object]:
    """Return the limits that the kernel has for a group, by the name of the promise; 0 if it has none.

    `swap` is whether the limit on memory bounds swap, or the machine has none.
    """
    memory = read_number(cgroup, "memory/memory.limit_in_bytes", "memory.max")
    if find_version() == 2:
        quota, period = (_read_words(cgroup, "cpu.max") or ["max", "0"])[:2]
        bounds_swap = _read_words(cgroup, "memory.swap.max") == ["0"]
    else:
        quota = str(read_number(cgroup, "cpu/cpu.cfs_quota_us", ""))
        period = str(read_number(cgroup, "cpu/cpu.cfs_period_us", ""))
        bounds_swap = read_number(cgroup, "memory/memory.memsw.limit_in_bytes", "") == memory
    return {
        "memory_mb": memory,
        "swap": bool(memory) and (bounds_swap or not _has_swap()),
        "processes": read_number(cgroup, "pids/pids.max", "pids.max"),
        "cpus": int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else 0,
    }


def holds(cgroup: str, pid: int) -> bool:
    """Return whether a process is in a group, with every controller that limits need. Raises OSError."""
    with open(f"/proc/{pid}/cgroup") as file:
        paths = dict(line.strip().split(":", 2)[1:] for line in file)
    names = [""] if find_version() == 2 else sorted(CONTROLLERS)
    return all(
        any(name in controllers.split(",") and path == cgroup for controllers, path in paths.items())
        for name in names
    )


def _read_words(cgroup: str, file: str) -> list[str]:
    """Return the words in a file of a group of version 2, none if there is no such file."""
    with contextlib.suppress(OSError), open(f"{ROOT}{cgroup}/{file}") as opened:
        return opened.read().split() if cgroup else []
    return []


def _has_swap() -> bool:
    with open("/proc/swaps") as file:
        return len(file.readlines()) > 1


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
