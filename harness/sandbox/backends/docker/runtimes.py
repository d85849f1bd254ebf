"""The known differences between Docker with runc and other container runtimes or engines, as data.

If a canary of the doctor finds exactly a known difference, its failure becomes a warning. The manifest of a
run names every limit that nothing enforces. Tests assert each difference, so that they fail once it goes
away.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.sandbox.backends.docker.engine import (
    PODMAN,
    EngineFacts,
    EngineReplies,
    ask_engine,
    read_engine_facts,
)

if TYPE_CHECKING:
    from docker import APIClient

VERSION_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Difference:
    """A pattern that matches the whole finding of a canary, and the meaning of the finding for a user."""

    found: str
    means: str


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """The runtime of a run. `limits_not_enforced` maps fields of `Limits` to the actual behaviour."""

    name: str
    version: str | None
    arguments: tuple[str, ...]
    limits_not_enforced: Mapping[str, str]


# Debian 12's gVisor, release 20221219.
DIFFERENCES: Mapping[str, Mapping[str, Difference]] = {
    "runsc": {
        "memory_mb": Difference(
            r"the whole sandbox ran out of memory",
            "enforced, but a program that takes memory faster than the guest can look ends the whole sandbox",
        ),
        "shared counts": Difference(
            r"a program got .*, which users share on the machine",
            "each sandbox has a kernel of gVisor, so that no other sandbox shares these counts",
        ),
        "socket memory": Difference(
            r"the whole sandbox ran out of memory",
            "enforced, but a program that takes memory faster than the guest can look ends the whole sandbox",
        ),
        "swap": Difference(
            r"the kernel does not count swap, so that memory_mb does not bound it",
            "the sandbox's cgroup has the bound on swap, but the sandbox cannot see it",
        ),
        "cpus": Difference(
            r"a busy loop got \S+ of a core, of \S+ allowed(, but its cgroup shows no such quota)?",
            "the sandbox's cgroup has the quota, but the sandbox cannot see it; its kernel also counts the "
            "time when it was throttled as CPU time, so that a job reaches cpu_seconds sooner",
        ),
        "processes": Difference(
            r"\d+ forks next to the guest, of \d+ processes allowed, then no refusal"
            r"|the canary ended before it answered: ended by processes after .*",
            "the kernel does not refuse the fork, but the guest counts and ends the job, some 0.05 s later",
        ),
        "inodes": Difference(
            r"(\S+ \d+ files, )+of \d+ allowed in each",
            "not enforced: only the sandbox's memory bounds the number of files",
        ),
        "commands": Difference(
            r"stream by name: [^;]*",
            "a program cannot open its own streams by name, because gVisor does not change a pipe's owner",
        ),
        "guest": Difference(
            r"((environment of the guest|priority of the guest|devices): [^;]*(; )?)+",
            "gVisor shows every process's environment, which holds no secret; it lets everyone set nice "
            "values, but does not schedule by them; and it makes nodes of devices that it does not have",
        ),
        "read-only root": Difference(
            r"a new file in (\S+ \(EACCES\)(, )?)+",
            "gVisor checks permissions first, so that the canary cannot test the read-only root",
        ),
        "capabilities": Difference(
            r"the job has CapAmb, PID 1 has 4 \(expected: 4\)",
            "gVisor does not show ambient capabilities; a job has none of the others",
        ),
        "no new privileges": Difference(r"NoNewPrivs is None", "gVisor always sets it, but does not show it"),
        "namespaces": Difference(
            r"not private: cgroup, ipc, mnt, uts",
            "each sandbox has a kernel of gVisor, which names no namespace of these kinds",
        ),
    },
    # Podman 4.3, under any of its runtimes.
    PODMAN: {
        "namespaces": Difference(
            r"not private: cgroup",
            "with version 1 of control groups, a program sees the name of its own cgroup on the machine",
        ),
        "inodes": Difference(
            r"(\S+ \d+ files, )+of \d+ allowed in each",
            "not enforced: only the sandbox's memory bounds the number of files",
        ),
    },
}
# The limits above that nothing enforces. Limits that the guest enforces itself are not among them.
NOT_ENFORCED: Mapping[str, tuple[str, ...]] = {"runsc": ("inodes",), PODMAN: ("inodes",)}
# A runtime that ignores its cgroup bounds no CPUs, and the guest's own watch is the only bound on memory.
WITHOUT_CGROUP: Mapping[str, str] = {
    "cpus": "not enforced: the runtime ignores its cgroup (--ignore-cgroups)",
    "memory_mb": "only watched by the guest, every 0.05 s: the runtime ignores its cgroup (--ignore-cgroups)",
}


def find_kind(facts: EngineFacts, runtime: str) -> str:
    """Return the name in `DIFFERENCES` for the sandboxes of a runtime on an engine."""
    return PODMAN if facts.name == PODMAN else runtime


def find_known_difference(runtime: str, name: str, found: str) -> Difference | None:
    """Return the known difference that matches the whole finding of a canary, or None."""
    difference = DIFFERENCES.get(runtime, {}).get(name)
    return difference if difference is not None and re.fullmatch(difference.found, found) else None


def runtime_facts(client: APIClient, runtime: str) -> RuntimeFacts:
    """Return the facts of a runtime of this engine. Raises SandboxError if the engine does not answer."""
    return read_runtime_facts(ask_engine(client), runtime)


def read_runtime_facts(replies: EngineReplies, runtime: str) -> RuntimeFacts:
    """Return the facts of a runtime in the replies of the engine."""
    facts = read_engine_facts(replies)
    if facts.name == PODMAN:
        runtime = facts.default_runtime
    entry: dict[str, Any] = replies.info["Runtimes"].get(runtime) or {}
    arguments = tuple(entry.get("runtimeArgs") or ())
    kind = find_kind(facts, runtime)
    lacking = {name: DIFFERENCES[kind][name].means for name in NOT_ENFORCED.get(kind, ())}
    if any(re.fullmatch("--?ignore-cgroups(=true)?", argument) for argument in arguments):
        lacking |= WITHOUT_CGROUP
    version = facts.runc_version if runtime == "runc" else _version_of(entry.get("path"))
    return RuntimeFacts(runtime, version, arguments, lacking)


def _version_of(path: str | None) -> str | None:
    """Return the version that the runtime's program prints; None if it is not on this machine."""
    if path is None or shutil.which(path) is None:
        return None
    try:
        result = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return result.stdout.partition("\n")[0].strip() or None
