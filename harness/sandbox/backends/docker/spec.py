"""Build the engine's configuration of a container: image, limits, hardening."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.hardening import (
    EXTRA_MEMORY_MB,
    EXTRA_PROCESSES,
    MACHINE_KERNEL,
    SMALL_BUFFERS,
    choose_profile,
    list_capabilities,
    list_masked_paths,
    list_read_only_paths,
    list_writable_folders,
)
from harness.sandbox.backends.seccomp import Sockets
from harness.sandbox.guest.processes import SHARED_COUNTS
from harness.sandbox.layout import ENVIRONMENT, GUEST_COMMAND, HOSTNAME
from harness.sandbox.limits import MIB

if TYPE_CHECKING:
    from docker import APIClient


FIRST_API_WITHOUT_TCP_MEMORY = (1, 52)


def takes_tcp_memory(client: APIClient) -> bool:
    """Return whether the engine accepts `KernelMemoryTCP` in the configuration of a container."""
    return tuple(int(part) for part in client.api_version.split(".")) < FIRST_API_WITHOUT_TCP_MEMORY


def container_config(client: APIClient, spec: SandboxSpec, *, sockets: Sockets = "local") -> dict[str, Any]:
    """Return the arguments of `APIClient.create_container` for `spec`, whose image is an id.

    `sockets` are those that the seccomp profile `default` allows.
    """
    from docker.types import LogConfig, Ulimit

    limits = spec.limits
    profile = choose_profile(spec, sockets)
    memory = (limits.memory_mb + EXTRA_MEMORY_MB.get(spec.runtime, 0)) * MIB
    masked = list(list_masked_paths(spec))
    further: dict[str, Any] = {"MaskedPaths": masked}
    if spec.root_agent or spec.seccomp == "strict":
        further["ReadonlyPaths"] = list_read_only_paths(spec, masked)
    if sockets != "local" and takes_tcp_memory(client):
        # Effective with cgroup version 1 alone, and only with runc before 1.0.0-rc94.
        further["KernelMemoryTCP"] = memory
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
        "hostname": HOSTNAME,
        # The runtime then makes the empty network namespace of the container. The engine's own network `none`
        # is as empty, but takes more than half of the processor time of a start.
        "network_disabled": spec.runtime in MACHINE_KERNEL,
        # PID 1 ignores every other signal, because root in the container may send it.
        "stop_signal": "SIGKILL" if spec.root_agent else None,
        "host_config": further
        | client.create_host_config(
            sysctls=SMALL_BUFFERS if sockets == "relayed" else None,
            network_mode="none",
            # sudo resolves the name of its machine.
            extra_hosts={HOSTNAME: "127.0.0.1"} if spec.root_agent else None,
            cap_drop=["ALL"],
            cap_add=list_capabilities(spec),
            security_opt=["no-new-privileges:true", f"seccomp={profile}"],
            read_only=not spec.writable_root,
            tmpfs=list_writable_folders(limits),
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
