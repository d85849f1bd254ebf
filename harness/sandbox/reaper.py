"""Labels that name the owner of a container, and the removal of the containers of dead owners.

An owner is a process. A pid identifies it only within one pid namespace of one boot of one machine, and only
together with the time when the process started. Several machines, or CI jobs in containers, may share an
engine. They cannot compare pids, so only a deadline long past makes an orphan there.

A namespace, from the environment variable HARNESS_NAMESPACE, keeps the orphans of one user of an engine from
the clean-ups of another, such as two test workers' clean-ups.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.core.errors import SandboxError
from harness.sandbox.backends.base import Backend, MakesNetworks

RUN = "harness.run"
ROLE = "harness.role"
HOST = "harness.host"
PID = "harness.pid"
PID_STARTED = "harness.pid_started"
DEADLINE = "harness.deadline"
NAMESPACE = "harness.namespace"
NAMESPACE_VARIABLE = "HARNESS_NAMESPACE"

# A container whose owner we cannot see must be this far past its deadline, because clocks differ and machines
# are suspended.
FOREIGN_MARGIN_SECONDS = 600.0
# After this time no process of the orphan's own namespace will remove it, because its test session has ended.
OTHER_NAMESPACE_SECONDS = 24 * 3600.0
REMOVALS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Orphan:
    """A container whose owner will not remove it any more. `reason` is the evidence for that."""

    container_id: str
    run_id: str
    role: str
    reason: str


def make_labels(run_id: str, *, role: str, deadline_seconds: float) -> dict[str, str]:
    """Return the labels of a container that this process owns and that ends within `deadline_seconds`."""
    pid = os.getpid()
    return {
        RUN: run_id,
        ROLE: role,
        HOST: identify_host(),
        PID: str(pid),
        PID_STARTED: read_start_time(pid) or "",
        DEADLINE: str(int(time.time() + deadline_seconds)),
        NAMESPACE: namespace(),
    }


def namespace() -> str:
    """Return the namespace of this process: HARNESS_NAMESPACE, "" if that is not set."""
    return os.environ.get(NAMESPACE_VARIABLE, "")


@cache
def identify_host() -> str:
    """Return a name for the boot and the pid namespace that make the pid of this process unique."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        # macOS has no /proc. A reboot does no harm there, because pid and start time are still compared.
        return f"{socket.gethostname()}:{os.getuid()}"


def read_start_time(pid: int) -> str | None:
    """Return the start time of process `pid` in a form for comparison; None if it is gone or a zombie."""
    try:
        # Split after the last parenthesis, because the program's name in parentheses may hold any character.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        pass
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.Error:
        return None


def find_orphans(backend: Backend) -> list[Orphan]:
    """Return the containers of harness whose owner is dead, and none of a live owner. Raises SandboxError.

    Containers of other namespaces are left out until a day after their deadline.
    """
    orphans = []
    for container in backend.find_containers({RUN: None, HOST: None}):
        its = container.labels
        reason = _find_orphan_reason(its)
        if reason is not None:
            orphans.append(Orphan(container.id, its[RUN], its.get(ROLE, ""), reason))
    return orphans


def remove_orphans(backend: Backend) -> list[Orphan]:
    """Remove the containers of dead owners with their volumes; return those that this call removed.

    Several clean-ups may run at once. If two remove a container at the same moment, both may return it,
    because the engine confirms the removal to both. This function tries all containers before it raises
    SandboxError for one that stays.
    """
    orphans = find_orphans(backend)
    removed = _remove_all(backend, (orphan.container_id for orphan in orphans))
    _remove_networks(backend, {RUN: None, HOST: None}, lambda its: _find_orphan_reason(its) is not None)
    return [orphan for orphan in orphans if orphan.container_id in removed]


def remove_run(backend: Backend, run_id: str) -> int:
    """Remove every container of run `run_id`, whoever owns it; return how many. Raises SandboxError."""
    removed = _remove_all(backend, find_run_containers(backend, run_id))
    _remove_networks(backend, {RUN: run_id}, lambda _its: True)
    return len(removed)


def _remove_networks(
    backend: Backend, labels: Mapping[str, str | None], is_over: Callable[[Mapping[str, str]], bool]
) -> None:
    """Remove the networks with these labels that are over. One that still has containers stays."""
    if isinstance(backend, MakesNetworks):
        for name, its in backend.find_networks(labels).items():
            if is_over(its):
                with contextlib.suppress(SandboxError):
                    backend.destroy_network(name)


def find_run_containers(backend: Backend, run_id: str) -> list[str]:
    """Return the ids of all containers of run `run_id`, running or not. Raises SandboxError."""
    return [container.id for container in backend.find_containers({RUN: run_id})]


def _find_orphan_reason(its: Mapping[str, str]) -> str | None:
    overdue = time.time() - _parse_deadline(its.get(DEADLINE, ""))
    # `get`, because containers of earlier versions have no such label.
    if its.get(NAMESPACE, "") != namespace() and overdue < OTHER_NAMESPACE_SECONDS:
        return None
    if its[HOST] != identify_host():
        if overdue > FOREIGN_MARGIN_SECONDS:
            return f"owner elsewhere, {overdue / 60:.0f} minutes past its deadline"
        return None
    pid = its.get(PID, "")
    if re.fullmatch("[1-9][0-9]{0,8}", pid) and not _is_alive(int(pid), its.get(PID_STARTED, "")):
        return f"owner (pid {pid}) is dead"
    return None


def _is_alive(pid: int, started: str) -> bool:
    """Return whether the very process that wrote the label is alive. In doubt it is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # The process belongs to another user. Under hidepid its start time cannot be read, which must not
        # count as its end.
        return read_start_time(pid) in (None, started)
    return not started or read_start_time(pid) == started


def _parse_deadline(label: str) -> float:
    """Return the deadline in a label. An unreadable one is never past, because anyone can write labels."""
    try:
        return float(label)
    except ValueError:
        return math.inf


def _remove_all(backend: Backend, container_ids: Iterable[str]) -> set[str]:
    with ThreadPoolExecutor(REMOVALS_AT_ONCE) as pool:
        attempts = {id_: pool.submit(backend.destroy, id_) for id_ in container_ids}
    return {id_ for id_, attempt in attempts.items() if attempt.result()}
