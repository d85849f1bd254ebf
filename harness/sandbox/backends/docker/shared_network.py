"""Containers that hold an empty network namespace for the containers of a run to join.

To set up a network namespace takes more than half of the processor time of a container's start. Containers
of programs that get no sockets can share one. The profile `shared` refuses every call that lets two of them
could meet in it, Landlock hides its counters in /proc, and `Joined` names what else they would share.

A holder ends when its stdin does, so when this process ends in whatever way, and the engine then removes it.
Containers that have joined its namespace keep it.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.core.errors import HarnessError, SandboxError
from harness.sandbox import reaper
from harness.sandbox.backends.base import SandboxSpec
from harness.sandbox.backends.docker.container import remove, start_container
from harness.sandbox.backends.docker.engine import PODMAN, EngineFacts, engine_facts
from harness.sandbox.backends.docker.spec import Joined, holder_config
from harness.sandbox.backends.hardening import MACHINE_KERNEL
from harness.sandbox.guest.confinement import NEEDED_VERSION
from harness.sandbox.guest.frames import FrameError
from harness.sandbox.limits import Limits
from harness.sandbox.time_factor import extend_wait

if TYPE_CHECKING:
    from docker import APIClient

ROLE = "network"
# A run of so few containers is done sooner without a holder, which is a further container.
STARTS_WITHOUT_HOLDER = 2
# A new holder replaces one of this age. The old one ends itself a little later.
HOLDER_SECONDS = 3600.0
MARGIN_SECONDS = 60.0
# The holder writes one line as soon as it runs.
REPORT_SECONDS = 20.0
MAX_REPORT_BYTES = 64 * 1024
# After so many failures with holders, every container gets its own namespace.
MOST_FAILURES = 3
# Counts of runs that have ended are forgotten when there are this many.
MOST_COUNTS = 1000
LIMITS = Limits(memory_mb=64, processes=8, disk_mb=1, inodes=64)


@dataclass(frozen=True, slots=True)
class Holder:
    """A container that holds a namespace, the stream of its stdin, and the time when it is too old."""

    joined: Joined
    stream: socket.socket
    ends: float


def can_share(facts: EngineFacts, runtime: str) -> bool:
    """Return whether containers of a runtime can share a network namespace and no more than that.

    Where the engine remaps users, they would share a user namespace too. The kernel also needs Landlock, of
    which only a holder can report. Podman cannot leave the shared folders of /sys out of a container.
    """
    if facts.name == PODMAN:
        return False
    remaps = any(option.startswith(("name=userns", "name=rootless")) for option in facts.security_options)
    return runtime in MACHINE_KERNEL and not remaps


class SharedNetworks:
    """Starts and removes the holders of one backend: one for each run and image. Threads may share it."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        # Public for tests that need the first container to share.
        self.starts_without_holder = STARTS_WITHOUT_HOLDER
        self._starts: Counter[tuple[str, str]] = Counter()
        self._holders: dict[tuple[str, str], Holder] = {}
        self._failures = 0
        self._changing = threading.Lock()
        # Held while a holder starts. Other containers do not wait for it.
        self._starting = threading.Lock()

    def find(self, spec: SandboxSpec) -> Joined | None:
        """Return the namespace for a container, None if it gets its own. Starts a holder if need be.

        `spec.image` is the id of a build. Raises nothing if no holder starts, because a namespace of its own
        is always right.
        """
        key = (spec.labels.get(reaper.RUN, ""), spec.image)
        with self._changing:
            if self._failures >= MOST_FAILURES or spec.runtime not in MACHINE_KERNEL:
                return None
            if len(self._starts) >= MOST_COUNTS:
                self._starts.clear()
            self._starts[key] += 1
            holder = self._holders.get(key)
            if holder is not None and time.monotonic() < holder.ends:
                return holder.joined
            if self._starts[key] <= self.starts_without_holder:
                return None
        if not self._starting.acquire(blocking=False):
            return None
        try:
            return self._replace(key, spec)
        except HarnessError:
            self._failures += 1
            return None
        finally:
            self._starting.release()

    def drop(self, container_id: str) -> None:
        """Remove the holder with this id, which nobody can join any more."""
        with self._changing:
            self._failures += 1
        self.forget(container_id)
        with contextlib.suppress(SandboxError):
            remove(self._client, container_id)

    def forget(self, container_id: str) -> None:
        """Close the stream of the holder with this id, if it is one, because the container is removed."""
        with self._changing:
            for key, holder in list(self._holders.items()):
                if holder.joined.container_id == container_id:
                    del self._holders[key]
                    holder.stream.close()

    def count(self) -> int:
        """Return the number of namespaces that containers can join now."""
        return len(self._holders)

    def close(self) -> None:
        """Remove all holders. The engine itself removes one that cannot be removed now."""
        for holder in list(self._holders.values()):
            self.forget(holder.joined.container_id)
            with contextlib.suppress(SandboxError):
                remove(self._client, holder.joined.container_id)

    def _replace(self, key: tuple[str, str], spec: SandboxSpec) -> Joined | None:
        """Start a holder in place of the one that is too old, and return its namespace."""
        holder = self._start(spec) if can_share(engine_facts(self._client), spec.runtime) else None
        if holder is None:
            self._failures = MOST_FAILURES
            return None
        with self._changing:
            old = self._holders.get(key)
            self._holders[key] = holder
        if old is not None:
            old.stream.close()
        return holder.joined

    def _start(self, spec: SandboxSpec) -> Holder | None:
        """Return a new holder, or None if the kernel has no Landlock to hide the namespace's counters."""
        seconds = HOLDER_SECONDS + MARGIN_SECONDS
        own = SandboxSpec(
            image=spec.image,
            limits=LIMITS,
            name=f"harness-network-{secrets.token_hex(8)}",
            runtime=spec.runtime,
            seccomp="strict",
            network="shared",
            labels=reaper.make_labels(
                spec.labels.get(reaper.RUN, "none"), role=ROLE, deadline_seconds=seconds + MARGIN_SECONDS
            ),
        )
        try:
            container = start_container(self._client, own, holder_config(self._client, own, seconds))
            try:
                report = _read_report(container.stream, container.split)
                if report["landlock"] >= NEEDED_VERSION:
                    joined = Joined(container.id, tuple(report["paths"]))
                    return Holder(joined, container.stream, time.monotonic() + HOLDER_SECONDS)
            except BaseException:
                container.stream.close()
                raise
        except BaseException:
            with contextlib.suppress(SandboxError):
                remove(self._client, own.name)
            raise
        container.stream.close()
        remove(self._client, own.name)
        return None


def _read_report(stream: socket.socket, split: Any) -> dict[str, Any]:
    """Return the facts that a holder reports. Raises SandboxError if it does not."""
    stream.settimeout(extend_wait(REPORT_SECONDS))
    line, errors = b"", b""
    try:
        while b"\n" not in line:
            data = stream.recv(MAX_REPORT_BYTES)
            output, error = split(data)
            line, errors = line + output, errors + error
            if not data or len(line) > MAX_REPORT_BYTES:
                shown = errors[-500:].decode(errors="replace")
                raise SandboxError(f"the container of a shared network ended before it reported: {shown}")
        report: dict[str, Any] = json.loads(line)
    except (OSError, ValueError, FrameError) as error:
        raise SandboxError(f"the container of a shared network did not report: {error}") from error
    return report
