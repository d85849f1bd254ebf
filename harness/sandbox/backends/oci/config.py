"""Build the `config.json` of the OCI runtime specification for a container: image, limits, hardening."""

from __future__ import annotations

import json
import platform
import resource
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.docker.engine import system_path
from harness.sandbox.backends.hardening import (
    SMALL_BUFFERS,
    choose_profile,
    list_capabilities,
    list_masked_paths,
    list_read_only_paths,
    list_writable_folders,
)
from harness.sandbox.backends.oci import cgroups
from harness.sandbox.backends.seccomp import Sockets
from harness.sandbox.guest.processes import SHARED_COUNTS
from harness.sandbox.layout import ENVIRONMENT, GUEST_COMMAND, HOSTNAME
from harness.sandbox.limits import MIB

# The programs that may start containers, for each version of control groups. crun refuses a machine that has
# both versions.
RUNTIMES = {1: ("runc",), 2: ("runc", "crun")}
OCI_VERSION = "1.0.2"
# Each container has a control group of its own below this one.
CGROUP_PARENT = "harness"
ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
UNLIMITED = (1 << 64) - 1
CPU_PERIOD_MICROSECONDS = 100_000
# A container inherits no limit of the shell that started harness. The limits of a job are within these.
RESOURCES = {
    **dict.fromkeys(("AS", "CPU", "DATA", "FSIZE", "NPROC"), (UNLIMITED, UNLIMITED)),
    "STACK": (8 * MIB, UNLIMITED),
    "MEMLOCK": (8 * MIB, 8 * MIB),
    "NOFILE": (1 << 20, 1 << 20),
    **{name.upper(): (most, most) for name, most in SHARED_COUNTS.items()},
}
# As Docker sets them in a network namespace of its own.
SYSCTLS = {"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": "0 2147483647"}
KERNEL_OPTIONS = ("nosuid", "noexec", "nodev")
# The file systems of the kernel, in the order of their mounts.
KERNEL_MOUNTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("/proc", "proc", KERNEL_OPTIONS),
    ("/dev", "tmpfs", ("nosuid", "strictatime", "mode=755", "size=65536k")),
    ("/dev/pts", "devpts", ("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5")),
    ("/sys", "sysfs", (*KERNEL_OPTIONS, "ro")),
    ("/sys/fs/cgroup", "cgroup", (*KERNEL_OPTIONS, "ro")),
    ("/dev/mqueue", "mqueue", KERNEL_OPTIONS),
)
# Files of each container that tell it its name, in a layer above its image.
FILES = {
    "etc/hostname": f"{HOSTNAME}\n",
    "etc/hosts": f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.0.1\t{HOSTNAME}\n",
    "etc/resolv.conf": "",
}


def make_config(
    spec: SandboxSpec,
    root: Path,
    *,
    cgroup: str,
    sockets: Sockets = "local",
    network: str | None = None,
    shared_paths: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the configuration of a container for `spec`.

    Args:
        spec: the limits and the hardening.
        root: the folder of the root file system.
        cgroup: the path of the container's control group.
        sockets: the sockets that the seccomp profile `default` allows.
        network: the path of a network namespace to join; the container gets its own without one.
        shared_paths: the paths of /sys that containers of this namespace would share, which are masked.
    """
    limits = spec.limits
    memory = limits.memory_mb * MIB
    masked = list(dict.fromkeys((*list_masked_paths(spec), *shared_paths)))
    capabilities = [f"CAP_{name}" for name in list_capabilities(spec)]
    mounts = [
        {"destination": path, "type": kind, "source": kind, "options": list(options)}
        for path, kind, options in (
            *KERNEL_MOUNTS,
            *((path, "tmpfs", text.split(",")) for path, text in list_writable_folders(limits).items()),
        )
    ]
    namespaces = [{"type": kind} for kind in ("mount", "uts", "pid", "ipc", "cgroup")]
    namespaces.append({"type": "network"} if network is None else {"type": "network", "path": network})
    sysctls = {} if network is not None else SYSCTLS | (SMALL_BUFFERS if sockets == "relayed" else {})
    return {
        "ociVersion": OCI_VERSION,
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0, "additionalGids": [0], "umask": 0o022},
            "args": list(GUEST_COMMAND),
            "env": [f"{name}={value}" for name, value in {**ENVIRONMENT, "HOSTNAME": HOSTNAME}.items()],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
            "rlimits": [
                {"type": f"RLIMIT_{name}", "soft": min(soft, most), "hard": min(hard, most)}
                for name, (soft, hard) in RESOURCES.items()
                for most in [_find_most(name)]
            ],
            "noNewPrivileges": True,
            "oomScoreAdj": 0,
        },
        "root": {"path": str(root), "readonly": not spec.writable_root},
        "hostname": HOSTNAME,
        "mounts": mounts,
        "linux": {
            "sysctl": sysctls,
            "cgroupsPath": cgroup,
            "resources": {
                # The runtime adds the few devices that every container has.
                "devices": [{"allow": False, "access": "rwm"}],
                "memory": {"limit": memory} | ({"swap": memory} if cgroups.counts_swap() else {}),
                "cpu": {
                    "quota": int(limits.cpus * CPU_PERIOD_MICROSECONDS),
                    "period": CPU_PERIOD_MICROSECONDS,
                },
                "pids": {"limit": limits.processes},
            },
            "namespaces": namespaces,
            "seccomp": _convert_profile(choose_profile(spec, sockets)),
            "maskedPaths": masked,
            "readonlyPaths": list_read_only_paths(spec, masked),
        },
    }


def _find_most(name: str) -> int:
    """Return the hard limit of this process, because even root may lack the right to raise one."""
    most = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
    return UNLIMITED if most == resource.RLIM_INFINITY else most


@cache
def _convert_profile(profile: str) -> dict[str, Any]:
    """Return a profile in Docker's format in the runtime's, for the calls of this machine's architecture."""
    data = json.loads(profile)
    return {
        "defaultAction": data["defaultAction"],
        "architectures": [ARCHITECTURES[platform.machine()]],
        "syscalls": data["syscalls"],
    }


def find_runtime() -> str | None:
    """Return the path of the OCI runtime of this machine."""
    names = RUNTIMES[cgroups.find_version()]
    found = (shutil.which(name, path=system_path()) for name in names)
    return next((path for path in found if path), None)
