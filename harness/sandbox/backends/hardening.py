"""The hardening of a sandbox, which every backend takes from its spec in the same way.

It lists the sockets, capabilities, paths and folders of a container. A backend passes them on in the terms of
its engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.sandbox.backends import seccomp
from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.seccomp import Sockets
from harness.sandbox.layout import (
    CAPABILITIES,
    SHARED_MEMORY_FOLDER,
    TEMPORARY_FOLDER,
    TERMINALS,
    WORK_FOLDER,
)
from harness.sandbox.limits import Limits

COUNTING_CGROUP_VERSION = 2
# Each container of these runtimes has a kernel of its runtime, which shares its counts with no other
# container. Buffers of sockets are memory of that kernel's process.
OWN_KERNEL = frozenset({"runsc"})
# Containers of these runtimes run on the machine's kernel. The runtime makes their empty network namespace.
MACHINE_KERNEL = frozenset({"crun", "runc"})
# With these runtimes the guest counts processes and memory itself, because the runtime has no such limit, or
# ends the whole sandbox at it.
WATCHED_BY_GUEST: Mapping[str, frozenset[str]] = {"runsc": frozenset({"processes", "memory_mb"})}
# Room for the runtime itself in a container's cgroup: gVisor's kernel is a process with many threads.
EXTRA_PROCESSES: Mapping[str, int] = {"runsc": 4096}
EXTRA_MEMORY_MB: Mapping[str, int] = {"runsc": 128}
# The seccomp filter of these runtimes refuses every call with EPERM. The C library starts no thread if clone3
# fails with EPERM, so clone3 is allowed there. gVisor's kernel serves that call, and a new namespace in it is
# not one of the machine.
ONE_ERRNO = frozenset({"runsc"})
# The largest buffer of TCP for each direction of a socket that the kernel does not count, in bytes.
BUFFER_BYTES = 64 * 1024
# The sockets of a sandbox with such buffers, which take 128 MiB at most. A connection between two programs of
# the sandbox takes two, and a pair of local sockets too.
MOST_SOCKETS = 1024
# The smallest, the first and the largest size. The settings belong to the network namespace of a container.
SMALL_BUFFERS = {
    "net.ipv4.tcp_rmem": f"4096 {BUFFER_BYTES // 2} {BUFFER_BYTES}",
    "net.ipv4.tcp_wmem": f"4096 {BUFFER_BYTES // 4} {BUFFER_BYTES}",
}


def choose_sockets(cgroup_version: int, runtime: str, limits: Limits, *, relay: bool = False) -> Sockets:
    """Return the sockets that programs of a sandbox get on an engine with this version of control groups."""
    if limits.uncounted_sockets or runtime in OWN_KERNEL:
        return "all"
    if cgroup_version >= COUNTING_CGROUP_VERSION:
        return "internet"
    return "relayed" if relay else "local"


# These include the paths that the engine masks by default, because our list replaces its own.
MASKED_PATHS = (
    *("/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list"),
    *("/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"),
    *("/proc/interrupts", "/sys/devices/virtual/powercap"),
)
# Not even root can list these folders of PID 1. They are masked, so that a search through all files meets no
# error.
MASKED_FROM_ROOT = ("/proc/1/fdinfo", "/proc/1/map_files", "/proc/1/task/1/fdinfo")
# With these files, root could make the kernel kill PID 1 first for memory, or schedule it last.
READ_ONLY_FOR_ROOT = (
    *(f"/proc/1/{name}" for name in ("autogroup", "coredump_filter", "timerslack_ns")),
    *(
        f"{folder}/{name}"
        for folder in ("/proc/1", "/proc/1/task/1")
        for name in ("clear_refs", "comm", "oom_adj", "oom_score_adj", "sched")
    ),
)
# Folders of the kernel that no program under tests needs. A program could leave a message in each of their
# names, because its first look-up takes longer than later ones (`sandbox.guest.known_names`).
MASKED_FROM_PROGRAMS = (
    *("/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/pressure", "/proc/sys", "/proc/sysvipc"),
    *("/proc/tty", "/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices", "/sys/hypervisor"),
    *("/sys/kernel", "/sys/module", "/sys/power"),
    *(f"/sys/fs/{name}" for name in ("bpf", "btrfs", "erofs", "ext4", "f2fs", "fuse", "nfs", "nilfs2")),
    *(f"/sys/fs/{name}" for name in ("ocfs2", "pstore", "resctrl", "selinux", "smackfs", "tmpfs")),
    *("/sys/fs/xfs", "/sys/fs/zfs"),
)
# The paths that the engine makes read-only by default, because our list replaces its own.
READ_ONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# The capabilities of a root agent beyond `CAPABILITIES`. With them it uses files and ports as root does,
# inside its container.
ROOT_CAPABILITIES = ("DAC_OVERRIDE", "FOWNER", "FSETID", "NET_BIND_SERVICE")


def list_masked_paths(spec: SandboxSpec) -> tuple[str, ...]:
    """Return the paths that are masked for everyone in the container, root included."""
    return (
        *MASKED_PATHS,
        *(MASKED_FROM_PROGRAMS if spec.seccomp == "strict" else ()),
        *(MASKED_FROM_ROOT if spec.root_agent else ()),
        *(() if spec.terminals else (TERMINALS,)),
    )


def list_read_only_paths(spec: SandboxSpec, masked: Iterable[str]) -> list[str]:
    """Return the paths that nobody in the container can write, apart from those that are `masked`."""
    hidden = set(masked)
    paths = [path for path in READ_ONLY_PATHS if path not in hidden]
    return paths + list(READ_ONLY_FOR_ROOT if spec.root_agent else ())


def list_capabilities(spec: SandboxSpec) -> list[str]:
    """Return the capabilities of PID 1, without the prefix CAP_."""
    return [*CAPABILITIES, *(ROOT_CAPABILITIES if spec.root_agent else ())]


def list_writable_folders(limits: Limits) -> dict[str, str]:
    """Return the folders in memory that programs can write, with the options of their mounts."""
    disk = f"size={limits.disk_mb}m,nr_inodes={limits.inodes},nosuid,nodev"
    return {
        WORK_FOLDER: f"{disk},mode=0755,exec",
        TEMPORARY_FOLDER: f"{disk},mode=1777,exec",
        # Replaces the engine's own tmpfs, which has no bound on inodes.
        SHARED_MEMORY_FOLDER: f"{disk},mode=1777,noexec",
    }


def choose_profile(spec: SandboxSpec, sockets: Sockets) -> str:
    """Return the seccomp profile of a container in Docker's format."""
    return seccomp.profile(
        "shared" if spec.network == "shared" else spec.seccomp,
        sockets=sockets,
        root_agent=spec.root_agent,
        foreign=spec.foreign is not None,
        errnos=spec.runtime not in ONE_ERRNO,
    )
