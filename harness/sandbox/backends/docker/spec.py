"""Build the engine's configuration of a container: image, limits, hardening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.hardening import (
    EXTRA_MEMORY_MB,
    EXTRA_PROCESSES,
    SMALL_BUFFERS,
    choose_profile,
    list_capabilities,
    list_masked_paths,
    list_read_only_paths,
    list_writable_folders,
)
from harness.sandbox.backends.seccomp import Sockets
from harness.sandbox.guest.processes import SHARED_COUNTS
from harness.sandbox.layout import ENVIRONMENT, GUEST_COMMAND, HOLDER_COMMAND, HOSTNAME
from harness.sandbox.limits import MIB

if TYPE_CHECKING:
    from docker import APIClient


FIRST_API_WITHOUT_TCP_MEMORY = (1, 52)


def takes_tcp_memory(client: APIClient) -> bool:
    """Return whether the engine accepts `KernelMemoryTCP` in the configuration of a container."""
    return tuple(int(part) for part in client.api_version.split(".")) < FIRST_API_WITHOUT_TCP_MEMORY


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
    profile = choose_profile(spec, sockets)
    memory = (limits.memory_mb + EXTRA_MEMORY_MB.get(spec.runtime, 0)) * MIB
    # The holder names all of /sys, and each mask costs time at the start.
    masked = list(dict.fromkeys((*list_masked_paths(spec), *(joined.paths if joined else ()))))
    masked += NETWORK_FILES if joined else ()
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


def holder_config(client: APIClient, spec: SandboxSpec, seconds: float) -> dict[str, Any]:
    """Return the arguments of `create_container` for a container that holds a network namespace.

    It ends after `seconds`, or when its stdin does, and the engine then removes it.
    """
    config = container_config(client, spec)
    host_config = config["host_config"] | {"AutoRemove": True, "CapAdd": [], "Tmpfs": {}}
    return config | {"entrypoint": [*HOLDER_COMMAND, str(seconds)], "host_config": host_config}
