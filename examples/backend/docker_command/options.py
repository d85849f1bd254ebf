"""Turn the spec of a container into options of `docker create`.

The engine masks its default paths in /proc and /sys, because the client has no option for others. Newer
engines mask /proc/interrupts too, and older ones leave it readable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.core.errors import UsageError
from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.hardening import OWN_KERNEL
from harness.sandbox.guest.processes import SHARED_COUNTS
from harness.sandbox.layout import (
    CAPABILITIES,
    ENVIRONMENT,
    GUEST_COMMAND,
    HOSTNAME,
    SHARED_MEMORY_FOLDER,
    TEMPORARY_FOLDER,
    TERMINALS,
    WORK_FOLDER,
)


def list_options(spec: SandboxSpec, *, image_id: str, seccomp_file: str) -> list[str]:
    """Return the arguments of `create` for a container. Raises UsageError for a spec that needs more."""
    if spec.root_agent:
        raise UsageError("this backend has no root agents, because it cannot mask the paths of PID 1")
    if spec.runtime in OWN_KERNEL:
        raise UsageError(f"this backend has no sandboxes under {spec.runtime}, only under runc")
    limits = spec.limits
    disk = f"size={limits.disk_mb}m,nr_inodes={limits.inodes},nosuid,nodev"
    entrypoint, *arguments = GUEST_COMMAND
    return [
        *([f"--name={spec.name}"] if spec.name else []),
        *pair_options("--label", spec.labels),
        "--pull=never",
        # The stream.
        "--interactive",
        "--log-driver=none",
        # The guest.
        f"--entrypoint={entrypoint}",
        *pair_options("--env", ENVIRONMENT),
        "--user=0:0",
        "--workdir=/",
        f"--hostname={HOSTNAME}",
        # The isolation.
        f"--runtime={spec.runtime}",
        "--network=none",
        "--ipc=private",
        "--cgroupns=private",
        "--cap-drop=ALL",
        *(f"--cap-add={capability}" for capability in CAPABILITIES),
        "--security-opt=no-new-privileges:true",
        f"--security-opt=seccomp={seccomp_file}",
        *([] if spec.terminals else [f"--volume=/dev/null:{TERMINALS}:ro"]),
        # The limits.
        f"--memory={limits.memory_mb}m",
        f"--memory-swap={limits.memory_mb}m",
        f"--pids-limit={limits.processes}",
        f"--cpus={limits.cpus}",
        *(f"--ulimit={name}={most}:{most}" for name, most in SHARED_COUNTS.items()),
        # The folders.
        *([] if spec.writable_root else ["--read-only"]),
        f"--tmpfs={WORK_FOLDER}:{disk},mode=0755,exec",
        f"--tmpfs={TEMPORARY_FOLDER}:{disk},mode=1777,exec",
        f"--tmpfs={SHARED_MEMORY_FOLDER}:{disk},mode=1777,noexec",
        image_id,
        *arguments,
    ]


def pair_options(option: str, values: Mapping[str, str]) -> Iterator[str]:
    """Return the arguments that give an option once for each pair of a name and a value."""
    return (f"{option}={name}={value}" for name, value in values.items())
