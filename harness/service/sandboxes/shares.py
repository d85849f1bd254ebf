"""The shares of clients: the bounds on their sandboxes, and the snapshots that count in the same memory."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import Counter
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

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
        memory_mb: the memory in MiB that all sandboxes of the service may have, sessions included.
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


class Kept(Protocol):
    """A state that a client holds: the one of a sandbox, or of an episode."""

    @property
    def size_bytes(self) -> int: ...


Content = TypeVar("Content", bound=Kept)


@dataclass(slots=True, eq=False)
class _Held:
    content: Any
    idle_seconds: float
    # Gives back its share of the client's memory.
    share: contextlib.ExitStack
    timer: asyncio.TimerHandle | None = None
    # The requests that fork it now.
    busy: int = 0


class HeldSnapshots:
    """The snapshots that clients hold, by their names, which cannot be guessed."""

    def __init__(self, budget: SessionBudget) -> None:
        self._budget = budget
        self._live: dict[str, _Held] = {}

    async def keep(
        self, client: str, taking: Awaitable[Content], *, most_bytes: int, idle_seconds: float
    ) -> tuple[str, Content]:
        """Hold what `taking` returns for a client, and return its name with it.

        It counts as `most_bytes` while it is taken. Raises ServiceError if the client's share is used up, and
        as `taking` does.
        """
        try:
            with self._budget.hold(client, _count_mb(most_bytes)):
                content = await taking
        finally:
            # Without room it was never awaited.
            if asyncio.iscoroutine(taking):
                taking.close()
        name, share = secrets.token_urlsafe(24), contextlib.ExitStack()
        share.enter_context(self._budget.hold(client, _count_mb(content.size_bytes)))
        self._live[name] = _Held(content, idle_seconds, share)
        self._wait(name)
        return name, content

    @contextlib.contextmanager
    def use(self, name: str, kind: type[Content]) -> Iterator[Content]:
        """Yield the content of a snapshot, whose idle time begins again.

        Raises ServiceError for an unknown name, and for a snapshot of another kind.
        """
        live = self._find(name)
        if not isinstance(live.content, kind):
            raise InvalidRequestError(
                "the snapshot is of the other kind: sandboxes are forked by a request, episodes by a reset",
                code="wrong_snapshot",
                status=422,
            )
        live.busy += 1
        try:
            yield live.content
        finally:
            live.busy -= 1

    def delete(self, name: str) -> None:
        """Drop a snapshot. What was forked lives on. Raises ServiceError for an unknown name."""
        live = self._find(name)
        if live.timer is not None:
            live.timer.cancel()
        del self._live[name]
        live.share.close()

    def _find(self, name: str) -> _Held:
        if name not in self._live:
            raise InvalidRequestError(
                f"there is no snapshot {name[:80]!r}, or it had no fork for its idle time",
                code="unknown_snapshot",
                status=404,
            )
        self._wait(name)
        return self._live[name]

    def _wait(self, name: str) -> None:
        live = self._live[name]
        if live.timer is not None:
            live.timer.cancel()
        live.timer = asyncio.get_running_loop().call_later(live.idle_seconds, self._lapse, name)

    def _lapse(self, name: str) -> None:
        if self._live[name].busy:
            self._wait(name)
        else:
            self.delete(name)


def _count_mb(size_bytes: int) -> int:
    return (size_bytes >> 20) + 1
