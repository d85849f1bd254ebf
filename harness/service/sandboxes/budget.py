"""The sandboxes and the memory that clients hold from one request to the next."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.service.errors import BusyError, InvalidRequestError, ShareUsedError
from harness.service.settings import ServiceLimits

# A sandbox that a client holds may live for long, so that an earlier try would be in vain.
_RETRY_SECONDS = 5.0
# Sandboxes with all processes of a machine would keep it from starting any other program.
_KERNEL_LIMITS = ("/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max")
# The memory in MiB that one client may have even if its share is smaller.
_LEAST_CLIENT_MB = 4096


def read_most_processes() -> int:
    """Return how many processes and threads this machine can have. Linux has 32,768 by default."""
    try:
        return min(int(Path(path).read_text(encoding="ascii")) for path in _KERNEL_LIMITS)
    except (OSError, ValueError):
        return 32768


class SessionBudget:
    """Bounds the sessions of all clients and of each one, their memory, and their processes.

    Args:
        limits: the limits of the service.
        memory_mb: the memory in MiB that all sandboxes of the service may have, those of sessions included.
        processes: the processes that this machine can have.
    """

    def __init__(self, limits: ServiceLimits, memory_mb: int, processes: int) -> None:
        self._limits = limits
        self._memory_mb = int(memory_mb * limits.session_memory_share)
        self._processes = int(processes * limits.session_processes_share)
        self._client_processes = int(self._processes * limits.client_memory_share)
        self._used_mb = 0
        self._used_processes = 0
        # On a small machine a share would be too small for a single sandbox.
        least_mb = min(self._memory_mb, _LEAST_CLIENT_MB)
        self._client_mb = max(least_mb, int(self._memory_mb * limits.client_memory_share))
        self._clients: Counter[str] = Counter()
        self._clients_mb: Counter[str] = Counter()
        self._clients_processes: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of sessions."""
        return self._clients.total()

    def require_room(self, client: str, memory_mb: int, processes: int = 0) -> None:
        """Raise BusyError, ShareUsedError or InvalidRequestError if a session does not fit."""
        limits = self._limits
        if memory_mb > self._client_mb:
            raise InvalidRequestError(
                f"'memory_mb': the sandboxes of one client may have {self._client_mb:,} MiB together, and "
                f"this one asks for {memory_mb:,}",
                status=422,
            )
        if self._clients[client] >= limits.client_sessions:
            raise ShareUsedError(
                f"this client has {limits.client_sessions:,} sandboxes, which is its share; delete one",
                retry_seconds=_RETRY_SECONDS,
            )
        if self._clients_mb[client] + memory_mb > self._client_mb:
            raise ShareUsedError(
                f"this client has sandboxes of {self._clients_mb[client]:,} MiB, and may have "
                f"{self._client_mb:,} MiB; delete one",
                retry_seconds=_RETRY_SECONDS,
            )
        if self.count >= limits.sessions:
            raise BusyError(
                f"clients hold {limits.sessions:,} sandboxes already", retry_seconds=_RETRY_SECONDS
            )
        if self._clients_processes[client] + processes > self._client_processes:
            raise ShareUsedError(
                f"this client has sandboxes with {self._clients_processes[client]:,} processes, and may have "
                f"{self._client_processes:,}; delete one, or ask for fewer 'processes'",
                retry_seconds=_RETRY_SECONDS,
            )
        if self._used_processes + processes > self._processes:
            raise BusyError(
                f"clients hold sandboxes with {self._used_processes:,} processes, and all together may have "
                f"{self._processes:,}",
                retry_seconds=_RETRY_SECONDS,
            )
        if self._used_mb + memory_mb > self._memory_mb:
            raise BusyError(
                f"clients hold sandboxes of {self._used_mb:,} MiB, and all together may have "
                f"{self._memory_mb:,} MiB",
                retry_seconds=_RETRY_SECONDS,
            )

    @contextlib.contextmanager
    def hold(self, client: str, memory_mb: int, processes: int = 0) -> Iterator[None]:
        """Count a session during the block. Raises as `require_room` does."""
        self.require_room(client, memory_mb, processes)
        self._clients[client] += 1
        self._clients_mb[client] += memory_mb
        self._used_mb += memory_mb
        self._clients_processes[client] += processes
        self._used_processes += processes
        try:
            yield
        finally:
            self._used_mb -= memory_mb
            self._used_processes -= processes
            self._clients_processes[client] -= processes
            self._clients[client] -= 1
            self._clients_mb[client] -= memory_mb
            # Otherwise the counters would keep every address that ever came.
            self._clients += Counter()
            self._clients_mb += Counter()
            self._clients_processes += Counter()
