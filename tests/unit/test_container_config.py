"""The whole configuration of a container, literally. A new or changed setting must be changed here too.

`PLAIN` is the configuration of a default sandbox. Every other kind is stated by its differences from `PLAIN`,
and also compared as a whole, so that no setting of a kind is added or lost without a failure here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from case_checks import each_case
from docker import APIClient

from harness.environments import environment_specs
from harness.sandbox.backends import seccomp
from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.docker.spec import container_config
from harness.sandbox.limits import Limits

MIB = 1024 * 1024
MASKED = [
    *("/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list"),
    *("/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/proc/interrupts"),
    "/sys/devices/virtual/powercap",
]
TERMINALS = "/dev/pts/ptmx"
LIMITS = Limits(memory_mb=512, processes=99, cpus=1.5, disk_mb=32, inodes=1000, open_files=64)
PLAIN: dict[str, Any] = {
    "image": "sha256:0123",
    "entrypoint": [
        "/usr/bin/python3",
        "-S",
        "-s",
        "-B",
        "-c",
        "import gc, sys; gc.disable(); sys.path[0] = '/opt/harness'; "
        "from harness.sandbox.guest.main import main; main()",
    ],
    "command": [],
    "environment": {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"},
    "labels": {"harness.run": "r"},
    "stdin_open": True,
    "tty": False,
    "working_dir": "/",
    "user": "0:0",
    "hostname": "sandbox",
    "network_disabled": True,
    "stop_signal": None,
    "host_config": {
        "MaskedPaths": [*MASKED, TERMINALS],
        "NetworkMode": "none",
        "CapDrop": ["ALL"],
        "CapAdd": ["CHOWN", "KILL", "SETGID", "SETUID"],
        "SecurityOpt": ["no-new-privileges:true", "seccomp=default"],
        "ReadonlyRootfs": True,
        "Tmpfs": {
            "/work": "size=32m,nr_inodes=1000,nosuid,nodev,mode=0755,exec",
            "/tmp": "size=32m,nr_inodes=1000,nosuid,nodev,mode=1777,exec",
            "/dev/shm": "size=32m,nr_inodes=1000,nosuid,nodev,mode=1777,noexec",
        },
        "Memory": 512 * MIB,
        "MemorySwap": 512 * MIB,
        "PidsLimit": 99,
        "NanoCpus": 1_500_000_000,
        "Ulimits": [
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "sigpending", "Soft": 1024, "Hard": 1024},
            {"Name": "msgqueue", "Soft": 0, "Hard": 0},
        ],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "LogConfig": {"Type": "none", "Config": {}},
        "Runtime": "runc",
        "Init": False,
    },
}
# By kind: the arguments of its spec, and the settings of its host configuration that differ from the plain
# one.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    # Programs under tests find no folder of the kernel that they do not need.
    "strict": (
        {"seccomp": "strict"},
        {
            "SecurityOpt": ["no-new-privileges:true", "seccomp=strict"],
            "MaskedPaths": [
                *MASKED,
                *(f"/proc/{name}" for name in ("bus", "driver", "fs", "irq", "pressure", "sys", "sysvipc")),
                *("/proc/tty", "/sys/block", "/sys/bus", "/sys/class", "/sys/dev", "/sys/devices"),
                *("/sys/hypervisor", "/sys/kernel", "/sys/module", "/sys/power"),
                *(f"/sys/fs/{name}" for name in ("bpf", "btrfs", "erofs", "ext4", "f2fs", "fuse", "nfs")),
                *(f"/sys/fs/{name}" for name in ("nilfs2", "ocfs2", "pstore", "resctrl", "selinux")),
                *(f"/sys/fs/{name}" for name in ("smackfs", "tmpfs", "xfs", "zfs")),
                TERMINALS,
            ],
            "ReadonlyPaths": ["/proc/sysrq-trigger"],
        },
    ),
    "writable root": ({"writable_root": True}, {"ReadonlyRootfs": False}),
    "root agent": (
        {"writable_root": True, "root_agent": True},
        {
            "ReadonlyRootfs": False,
            "CapAdd": [
                *("CHOWN", "KILL", "SETGID", "SETUID"),
                *("DAC_OVERRIDE", "FOWNER", "FSETID", "NET_BIND_SERVICE"),
            ],
            "ExtraHosts": ["sandbox:127.0.0.1"],
            "SecurityOpt": ["no-new-privileges:true", "seccomp=default for root"],
            "MaskedPaths": [
                *MASKED,
                *("/proc/1/fdinfo", "/proc/1/map_files", "/proc/1/task/1/fdinfo"),
                TERMINALS,
            ],
            "ReadonlyPaths": [
                *("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"),
                *("/proc/1/autogroup", "/proc/1/coredump_filter", "/proc/1/timerslack_ns"),
                *("/proc/1/clear_refs", "/proc/1/comm", "/proc/1/oom_adj", "/proc/1/oom_score_adj"),
                *("/proc/1/sched", "/proc/1/task/1/clear_refs", "/proc/1/task/1/comm"),
                *("/proc/1/task/1/oom_adj", "/proc/1/task/1/oom_score_adj", "/proc/1/task/1/sched"),
            ],
        },
    ),
    "with terminals": ({"terminals": True}, {"MaskedPaths": MASKED}),
    "with internet sockets": (
        {"sockets": "internet"},
        {
            "KernelMemoryTCP": 512 * MIB,
            "SecurityOpt": ["no-new-privileges:true", "seccomp=default with internet sockets"],
        },
    ),
    # Its separate kernel needs memory and threads, and knows only one way to refuse a call.
    "runsc": (
        {"runtime": "runsc"},
        {
            "Runtime": "runsc",
            "Memory": (512 + 128) * MIB,
            "MemorySwap": (512 + 128) * MIB,
            "PidsLimit": 99 + 4096,
            "SecurityOpt": ["no-new-privileges:true", "seccomp=default without errnos"],
        },
    ),
}
PROFILES = {
    seccomp.profile("default"): "default",
    seccomp.profile("strict"): "strict",
    seccomp.profile("default", root_agent=True): "default for root",
    seccomp.profile("default", sockets="internet"): "default with internet sockets",
    seccomp.profile("default", errnos=False): "default without errnos",
}


@pytest.fixture(scope="module")
def offline() -> Iterator[APIClient]:
    """Return a client with a fixed version, so that it asks no engine for one."""
    client = APIClient(base_url="unix:///nowhere/docker.sock", version="1.41")
    yield client
    client.close()


def shown(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with the name of the profile instead of its text."""
    config = copy.deepcopy(config)
    kept = config["host_config"]["SecurityOpt"]
    config["host_config"]["SecurityOpt"] = [
        f"seccomp={PROFILES.get(option.removeprefix('seccomp='), 'an unknown profile')}"
        if option.startswith("seccomp=")
        else option
        for option in kept
    ]
    return config


@each_case("kind", KINDS)
def test_the_configuration_of_a_container_is_exactly_this(offline: APIClient, kind: str) -> None:
    arguments, differences = KINDS[kind]
    sockets = arguments.get("sockets", "local")
    settings = {name: value for name, value in arguments.items() if name != "sockets"}
    spec = SandboxSpec("sha256:0123", LIMITS, labels={"harness.run": "r"}, **settings)
    expected = {**PLAIN, "host_config": {**PLAIN["host_config"], **differences}}
    if spec.root_agent:
        expected["stop_signal"] = "SIGKILL"
    expected["network_disabled"] = spec.runtime == "runc"
    assert shown(container_config(offline, spec, sockets=sockets)) == expected


def test_sandboxes_that_only_grade_programs_have_the_strict_profile() -> None:
    profiles = {name: each.grading_seccomp for name, each in environment_specs().items() if each.image}
    assert (
        profiles.items() >= {"python": "strict", "db": "strict", "maths": "default", "os": "default"}.items()
    )
