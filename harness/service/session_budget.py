"""The sandboxes and the memory that clients hold from one request to the next."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from harness.service.errors import BusyError, InvalidRequestError, ShareUsedError
from harness.service.settings import ServiceLimits

# A sandbox that a client holds may live for long, so that an earlier try would be in vain.
_RETRY_SECONDS = 5.0


class SessionBudget:
    """Bounds the sessions of all clients and of each one, and their memory.

    Args:
        limits: the limits of the service.
        memory_mb: the memory in MiB that all sandboxes of the service may have, those of sessions included.
    """

    def __init__(self, limits: ServiceLimits, memory_mb: int) -> None:
        self._limits = limits
        self._memory_mb = int(memory_mb * limits.session_memory_share)
        self._used_mb = 0
        self._clients: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of sessions."""
        return self._clients.total()

    def require_room(self, client: str, memory_mb: int) -> None:
        """Raise BusyError, ShareUsedError or InvalidRequestError if a session does not fit."""
        limits = self._limits
        if memory_mb > self._memory_mb:
            raise InvalidRequestError(
                f"'memory_mb': the sandboxes of all clients may have {self._memory_mb:,} MiB together, and "
                f"this one asks for {memory_mb:,}",
                status=422,
            )
        if self._clients[client] >= limits.client_sessions:
            raise ShareUsedError(
                f"this client has {limits.client_sessions:,} sandboxes, which is its share; delete one",
                retry_seconds=_RETRY_SECONDS,
            )
        if self.count >= limits.sessions:
            raise BusyError(
                f"clients hold {limits.sessions:,} sandboxes already", retry_seconds=_RETRY_SECONDS
            )
        if self._used_mb + memory_mb > self._memory_mb:
            raise BusyError(
                f"clients hold sandboxes of {self._used_mb:,} MiB, and all together may have "
                f"{self._memory_mb:,} MiB",
                retry_seconds=_RETRY_SECONDS,
            )

    @contextlib.contextmanager
    def hold(self, client: str, memory_mb: int) -> Iterator[None]:
        """Count a session during the block. Raises as `require_room` does."""
        self.require_room(client, memory_mb)
        self._clients[client] += 1
        self._used_mb += memory_mb
        try:
            yield
        finally:
            self._used_mb -= memory_mb
            self._clients[client] -= 1
            # Otherwise the counter would keep every address that ever came.
            self._clients += Counter()
