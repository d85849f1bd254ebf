"""Build the `config.json` of the OCI runtime specification for a container: image, limits, hardening."""

from __future__ import annotations

import json
import platform
import resource
import shutil
from functools import cache
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
from harness.sandbox.backends.oci import cgroups, user_namespace
from harness.sandbox.backends.oci.promises import CPU_STEPS
from harness.sandbox.backends.seccomp import Sockets
from harness.sandbox.guest.processes import SHARED_COUNTS
from harness.sandbox.layout import ENVIRONMENT, GUEST_COMMAND, HOSTNAME, HOSTS
from harness.sandbox.limits import MIB

# The programs that may start containers, in the order of their trials.
RUNTIMES = ("runc", "crun")
OCI_VERSION = "1.0.2"
ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
UNLIMITED = (1 << 64) - 1
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
# The kernel refuses groups that a user namespace does not have.
ROOTLESS_SYSCTLS = SYSCTLS | {"net.ipv4.ping_group_range": f"0 {user_namespace.COUNT - 1}"}
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
FILES = {"etc/hostname": f"{HOSTNAME}\n", "etc/hosts": HOSTS, "etc/resolv.conf": ""}


def make_config(spec: SandboxSpec, *, cgroup: str, sockets: Sockets = "local") -> dict[str, Any]:
    """Return the configuration of a container for `spec`, whose root file system is beside it in `root`.

    Args:
        spec: the limits and the hardening.
        cgroup: the path of the container's control group, empty if it can have none.
        sockets: the sockets that the seccomp profile `default` allows.
    """
    limits = spec.limits
    memory = limits.memory_mb * MIB
    is_rootless = user_namespace.is_needed()
    masked = list(list_masked_paths(spec))
    capabilities = [f"CAP_{name}" for name in list_capabilities(spec)]
    mounts = [
        {"destination": path, "type": kind, "source": kind, "options": list(options)}
        for path, kind, options in (
            *(mount for mount in KERNEL_MOUNTS if cgroup or mount[1] != "cgroup"),
            *((path, "tmpfs", text.split(",")) for path, text in list_writable_folders(limits).items()),
        )
    ]
    namespaces = [{"type": kind} for kind in ("mount", "uts", "pid", "ipc", "cgroup", "network")]
    ids = [{"containerID": 0, "hostID": 0, "size": user_namespace.COUNT}]
    if is_rootless:
        namespaces.append({"type": "user"})
    sysctls = ROOTLESS_SYSCTLS if is_rootless else SYSCTLS
    sysctls = sysctls | (SMALL_BUFFERS if sockets == "relayed" else {})
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
            # An ordinary user may not lower its own.
            **({} if is_rootless else {"oomScoreAdj": 0}),
        },
        "root": {"path": "root", "readonly": not spec.writable_root},
        "hostname": HOSTNAME,
        "mounts": mounts,
        "linux": {
            "sysctl": sysctls,
            **({"uidMappings": ids, "gidMappings": ids} if is_rootless else {}),
            "cgroupsPath": cgroup,
            "resources": {
                # The runtime adds the few devices that every container has.
                "devices": [{"allow": False, "access": "rwm"}],
                "memory": {"limit": memory} | ({"swap": memory} if cgroups.counts_swap() else {}),
                "cpu": {"quota": int(limits.cpus * CPU_STEPS), "period": CPU_STEPS},
                "pids": {"limit": limits.processes},
            }
            if cgroup
            else {},
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


def find_runtimes() -> list[str]:
    """Return the paths of the OCI runtimes of this machine."""
    found = (shutil.which(name, path=system_path()) for name in RUNTIMES)
    return [path for path in found if path is not None]
