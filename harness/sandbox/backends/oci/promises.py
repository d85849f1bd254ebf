"""The promises of a sandbox, and what the kernel holds of them for a container that has just started.

The supervisor examines each container before the backend returns it. So a limit counts as enforced only if
the kernel has it, whatever the runtime, its version or the machine. The supervisor imports this file by
itself, so that it uses the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from harness.sandbox.backends.base import SandboxSpec

if TYPE_CHECKING or __package__:
    from harness.sandbox.backends.hardening import list_capabilities
    from harness.sandbox.backends.oci import cgroups, user_namespace
    from harness.sandbox.guest.processes import SHARED_COUNTS
else:
    import cgroups

NAMESPACES = ("mnt", "uts", "pid", "ipc", "cgroup", "net")
MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
# The microseconds of a period, which the kernel divides between processors.
CPU_STEPS = 100_000
# The numbers of the capabilities that a sandbox may have.
CAPABILITY_BITS = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "NET_BIND_SERVICE": 10,
}
# The kernel's names of the counts that all processes of a user share.
COUNTS = {"core": "Max core file size", "sigpending": "Max pending signals", "msgqueue": "Max msgqueue size"}
# Every container has these, whatever its image has.
DEVICES = frozenset({"console", "full", "null", "ptmx", "random", "tty", "urandom", "zero"})
# Cgroups enforce these. A run may do without them (`--allow-weaker`), because a program that exceeds them
# forges no verdict. It may disturb other programs of the machine.
WEAKER = {
    "memory_mb": "the supervisor measures the memory every 0.1 s and ends the whole sandbox",
    "swap": "nothing bounds the swap of a sandbox",
    "processes": "the kernel refuses no process; the guest counts them every 0.05 s and ends the jobs",
    "cpus": "a sandbox may use every processor; only the CPU time of its jobs is bounded",
}
# The limits of each job, which the guest enforces in the same way under every backend.
OF_GUEST = ("cpu_seconds", "wall_seconds", "output_mb", "file_mb", "open_files")


def list_wanted(spec: SandboxSpec, *, is_rootless: bool) -> dict[str, object]:
    """Return what the kernel must hold of each promise for a container, as `examine` names it."""
    limits = spec.limits
    return {
        "memory_mb": limits.memory_mb * MIB,
        "swap": True,
        "processes": limits.processes,
        "cpus": int(limits.cpus * CPU_STEPS) / CPU_STEPS,
        "disk_mb": [limits.disk_mb * MIB],
        "inodes": [limits.inodes],
        "read-only root": not spec.writable_root,
        "masked paths": [],
        "read-only paths": [],
        "devices": [],
        "network": ["lo"],
        "capabilities": sum(1 << CAPABILITY_BITS[name] for name in list_capabilities(spec)),
        "no new privileges": "1",
        "seccomp": "2",
        "namespaces": list(NAMESPACES),
        "shared counts": {name: str(most) for name, most in SHARED_COUNTS.items()},
        "users": [0, 0, user_namespace.COUNT] if is_rootless else [],
    }


def find_broken(spec: SandboxSpec, held: Mapping[str, object], *, is_rootless: bool) -> dict[str, str]:
    """Return the promises to a container that the kernel does not hold, each with its words for a user."""
    wanted = list_wanted(spec, is_rootless=is_rootless)
    return {
        name: WEAKER.get(name, f"the kernel has {held.get(name)!r} instead of {value!r}")
        for name, value in wanted.items()
        if name not in held or held[name] != value
    }


def examine(pid: int, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the kernel holds of each promise for the first process of a container. Raises OSError.

    Args:
        pid: the process, which has become the guest.
        description: the container's own: `cgroup`, which is empty if it has none, the writable `folders`, and
            the `masked` and `read_only` paths.
    """
    proc = f"/proc/{pid}"
    status = dict(
        line.rstrip("\n").split(":\t", 1) for line in _read_lines(f"{proc}/status") if ":\t" in line
    )
    limits = {line[:26].strip(): line[26:].split()[0] for line in _read_lines(f"{proc}/limits")}
    mounts = {words[4]: words[5].split(",") for words in map(str.split, _read_lines(f"{proc}/mountinfo"))}
    folders = [os.statvfs(f"{proc}/root{path}") for path in description["folders"]]
    cgroup = description["cgroup"]

    def list_without(paths: list[str], option: str | None) -> list[str]:
        return [
            path
            for path in paths
            if (path not in mounts or (option and option not in mounts[path]))
            and os.path.lexists(f"{proc}/root{path}")
        ]

    return {
        **cgroups.read_limits(cgroup if cgroups.holds(cgroup, pid) else ""),
        "disk_mb": sorted({facts.f_blocks * facts.f_frsize for facts in folders}),
        "inodes": sorted({facts.f_files for facts in folders}),
        "read-only root": "ro" in mounts["/"],
        "masked paths": list_without(description["masked"], None),
        "read-only paths": list_without(description["read_only"], "ro"),
        "devices": [
            name
            for name in os.listdir(f"{proc}/root/dev")
            if name not in DEVICES and is_device(os.lstat(f"{proc}/root/dev/{name}").st_mode)
        ],
        "network": [line.split(":")[0].strip() for line in _read_lines(f"{proc}/net/dev") if ":" in line],
        "capabilities": int(status["CapBnd"], 16),
        "no new privileges": status["NoNewPrivs"],
        "seccomp": status["Seccomp"],
        "namespaces": [kind for kind in NAMESPACES if is_private(pid, kind)],
        "shared counts": {name: limits[text] for name, text in COUNTS.items()},
        "users": [int(word) for word in " ".join(_read_lines(f"{proc}/uid_map")).split()]
        if is_private(pid, "user")
        else [],
    }


def measure_memory(pid: int, folders: list[str], most: int) -> int:
    """Return the memory of a container in bytes, each page once; if it is at most `most`, any such number.

    Args:
        pid: the first process of the container.
        folders: its folders in memory.
        most: the limit, below which a quick count of shared pages for each process suffices.
    """
    proc = f"/proc/{pid}/root/proc"
    resident, pages = 0, {"Pss_Anon": 0, "Pss_Shmem": 0, "SwapPss": 0}
    files = 0
    with contextlib.suppress(OSError):
        for folder in folders:
            facts = os.statvfs(f"/proc/{pid}/root{folder}")
            files += (facts.f_blocks - facts.f_bfree) * facts.f_frsize
        names = [name for name in os.listdir(proc) if name.isdigit()]
        for name in names:
            with contextlib.suppress(OSError):
                resident += int(_read_lines(f"{proc}/{name}/statm")[0].split()[1]) * PAGE
        if files + resident <= most:
            return files + resident
        for name in names:
            with contextlib.suppress(OSError):
                for line in _read_lines(f"{proc}/{name}/smaps_rollup"):
                    kind, _, number = line.partition(":")
                    if kind in pages:
                        pages[kind] += int(number.split()[0]) * 1024
    # Files in memory that programs have mapped are in both numbers.
    return pages["Pss_Anon"] + pages["SwapPss"] + max(files, pages["Pss_Shmem"])


def is_private(pid: int, kind: str) -> bool:
    """Return whether a process has another namespace of this kind than this process. Raises OSError."""
    return os.stat(f"/proc/{pid}/ns/{kind}").st_ino != os.stat(f"/proc/self/ns/{kind}").st_ino


def is_device(mode: int) -> bool:
    """Return whether a file with this mode is a device."""
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _read_lines(path: str) -> list[str]:
    with open(path) as file:
        return file.readlines()
