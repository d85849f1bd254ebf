"""Build the engine's configuration of a container: image, limits, hardening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.docker import seccomp
from harness.sandbox.backends.docker.runtimes import EXTRA_MEMORY_MB, EXTRA_PROCESSES, ONE_ERRNO, OWN_KERNEL
from harness.sandbox.backends.docker.seccomp import Sockets
from harness.sandbox.layout import (
    CAPABILITIES,
    ENVIRONMENT,
    GUEST_COMMAND,
    HOLDER_COMMAND,
    HOSTNAME,
    SHARED_COUNTS,
    SHARED_MEMORY_FOLDER,
    TEMPORARY_FOLDER,
    TERMINALS,
    WORK_FOLDER,
)
from harness.sandbox.limits import MIB, Limits

if TYPE_CHECKING:
    from docker import APIClient


FIRST_API_WITHOUT_TCP_MEMORY = (1, 52)
COUNTING_CGROUP_VERSION = 2


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


def takes_tcp_memory(client: APIClient) -> bool:
    """Return whether the engine accepts `KernelMemoryTCP` in the configuration of a container."""
    return tuple(int(part) for part in client.api_version.split(".")) < FIRST_API_WITHOUT_TCP_MEMORY


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


# The engine gives containers that share a network namespace the same files for these, and every program can
# lock a file that it can read.
NETWORK_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")


@dataclass(frozen=True, slots=True)
class Joined:
    """A network namespace to join: its holder, and the paths of /sys that its containers would share.

    The kernel makes one instance of /sys for a network namespace. The times of its entries are those of the
    first look-up by anyone, and no Landlock rule hides them.
    """

    container_id: str
    paths: tuple[str, ...]


def container_config(
    client: APIClient, spec: SandboxSpec, *, sockets: Sockets = "local", joined: Joined | None = None
) -> dict[str, Any]:
    """Return the arguments of `APIClient.create_container` for `spec`, whose image is an id.

    `sockets` are those that the seccomp profile `default` allows. The container gets its own network
    namespace unless it has `joined` one.
    """
    from docker.types import LogConfig, Ulimit

    limits = spec.limits
    profile = seccomp.profile(
        "shared" if spec.network == "shared" else spec.seccomp,
        sockets=sockets,
        root_agent=spec.root_agent,
        foreign=spec.foreign is not None,
        errnos=spec.runtime not in ONE_ERRNO,
    )
    memory = (limits.memory_mb + EXTRA_MEMORY_MB.get(spec.runtime, 0)) * MIB
    # The holder names all of /sys, and each mask costs time at the start.
    masked = list(dict.fromkeys((*list_masked_paths(spec), *(joined.paths if joined else ()))))
    masked += NETWORK_FILES if joined else ()
    further: dict[str, Any] = {"MaskedPaths": masked}
    if spec.root_agent or spec.seccomp == "strict":
        read_only = [path for path in READ_ONLY_PATHS if path not in masked]
        further["ReadonlyPaths"] = read_only + list(READ_ONLY_FOR_ROOT if spec.root_agent else ())
    if sockets != "local" and takes_tcp_memory(client):
        # Effective with cgroup version 1 alone, and only with runc before 1.0.0-rc94.
        further["KernelMemoryTCP"] = memory
    disk = f"size={limits.disk_mb}m,nr_inodes={limits.inodes},nosuid,nodev"
    return {
        "image": spec.image,
        "entrypoint": list(GUEST_COMMAND),
        "command": [],
        "environment": dict(ENVIRONMENT),
        "labels": dict(spec.labels),
        "stdin_open": True,
        "tty": False,
        "working_dir": "/",
        "user": "0:0",
        # The engine gives a container the hostname of the one whose network it joins, and accepts no other.
        "hostname": HOSTNAME if joined is None else None,
        # PID 1 ignores every other signal, because root in the container may send it.
        "stop_signal": "SIGKILL" if spec.root_agent else None,
        "host_config": further
        | client.create_host_config(
            sysctls=SMALL_BUFFERS if sockets == "relayed" else None,
            network_mode="none" if joined is None else f"container:{joined.container_id}",
            # sudo resolves the name of its machine.
            extra_hosts={HOSTNAME: "127.0.0.1"} if spec.root_agent else None,
            cap_drop=["ALL"],
            cap_add=[*CAPABILITIES, *(ROOT_CAPABILITIES if spec.root_agent else ())],
            security_opt=["no-new-privileges:true", f"seccomp={profile}"],
            read_only=not spec.writable_root,
            tmpfs={
                WORK_FOLDER: f"{disk},mode=0755,exec",
                TEMPORARY_FOLDER: f"{disk},mode=1777,exec",
                # Replaces the engine's own tmpfs, which has no bound on inodes.
                SHARED_MEMORY_FOLDER: f"{disk},mode=1777,noexec",
            },
            mem_limit=memory,
            memswap_limit=memory,
            pids_limit=limits.processes + EXTRA_PROCESSES.get(spec.runtime, 0),
            nano_cpus=int(limits.cpus * 1e9),
            ulimits=[Ulimit(name=name, soft=most, hard=most) for name, most in SHARED_COUNTS.items()],
            ipc_mode="private",
            cgroupns="private",
            log_config=LogConfig(type="none"),
            runtime=spec.runtime,
            oom_kill_disable=False,
            init=False,
        ),
    }


def holder_config(client: APIClient, spec: SandboxSpec, seconds: float) -> dict[str, Any]:
    """Return the arguments of `create_container` for a container that holds a network namespace.

    It ends after `seconds`, or when its stdin does, and the engine then removes it.
    """
    config = container_config(client, spec)
    host_config = config["host_config"] | {"AutoRemove": True, "CapAdd": [], "Tmpfs": {}}
    return config | {"entrypoint": [*HOLDER_COMMAND, str(seconds)], "host_config": host_config}


def list_masked_paths(spec: SandboxSpec) -> tuple[str, ...]:
    """Return the paths that are masked for everyone in the container, root included."""
    return (
        *MASKED_PATHS,
        *(MASKED_FROM_PROGRAMS if spec.seccomp == "strict" else ()),
        *(MASKED_FROM_ROOT if spec.root_agent else ()),
        *(() if spec.terminals else (TERMINALS,)),
    )
