"""What a container is made of: image, limits, hardening. And how the engine is told so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from harness.sandbox import seccomp
from harness.sandbox.limits import MIB, Limits
from harness.sandbox.runtimes import EXTRA_MEMORY_MB, EXTRA_PROCESSES, ONE_ERRNO

if TYPE_CHECKING:
    from docker import APIClient

# Without -I, which would make the interpreter deaf to PYTHONHASHSEED; -S and -s keep out what it would.
GUEST_COMMAND = (
    "/usr/bin/python3",
    "-S",
    "-s",
    "-B",
    "-c",
    "import sys; sys.path[0] = '/opt/harness'; from guest.main import main; main()",
)
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    # One order of sets and dicts of strings in every container: the same program, the same verdict.
    "PYTHONHASHSEED": "0",
}
WORK_FOLDER = "/work"
TEMPORARY_FOLDER = "/tmp"
SHARED_MEMORY_FOLDER = "/dev/shm"
# What every user of a sandbox can write to; the guest empties them after each job.
SHARED_FOLDERS = (TEMPORARY_FOLDER, SHARED_MEMORY_FOLDER, "/dev/mqueue")
# The least that PID 1 needs to start jobs under their own users and to end them.
CAPABILITIES = ("CHOWN", "KILL", "SETGID", "SETUID")


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """One hardened container. `image` is an image id, `seccomp` the name of a profile.

    `strict` is for containers in which only programs are judged: no sockets but local ones, no
    System V IPC. With a `writable_root` what is written to the root file system is bounded by nothing
    here, but by a watch (`disk_watch`).
    """

    image: str
    limits: Limits
    runtime: str = "runc"
    seccomp: Literal["default", "strict"] = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    writable_root: bool = False


def container_config(client: APIClient, spec: SandboxSpec) -> dict[str, Any]:
    """Return the arguments of `APIClient.create_container` for `spec`."""
    from docker.types import LogConfig, Ulimit

    limits = spec.limits
    profile = seccomp.profile(spec.seccomp, errnos=spec.runtime not in ONE_ERRNO)
    memory = (limits.memory_mb + EXTRA_MEMORY_MB.get(spec.runtime, 0)) * MIB
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
        "hostname": "sandbox",
        "host_config": client.create_host_config(
            network_mode="none",
            cap_drop=["ALL"],
            cap_add=list(CAPABILITIES),
            security_opt=["no-new-privileges:true", f"seccomp={profile}"],
            read_only=not spec.writable_root,
            tmpfs={
                WORK_FOLDER: f"{disk},mode=0755,exec",
                TEMPORARY_FOLDER: f"{disk},mode=1777,exec",
                # In place of the engine's own, which has no bound on inodes.
                SHARED_MEMORY_FOLDER: f"{disk},mode=1777,noexec",
            },
            mem_limit=memory,
            memswap_limit=memory,
            pids_limit=limits.processes + EXTRA_PROCESSES.get(spec.runtime, 0),
            nano_cpus=int(limits.cpus * 1e9),
            ulimits=[Ulimit(name="core", soft=0, hard=0)],
            ipc_mode="private",
            cgroupns="private",
            log_config=LogConfig(type="none"),
            runtime=spec.runtime,
            oom_kill_disable=False,
            init=False,
        ),
    }
