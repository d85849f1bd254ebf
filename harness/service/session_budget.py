"""The sandboxes and the memory that clients hold from one request to the next."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from harness.service.errors import BusyError, InvalidRequestError, ShareUsedError
from harness.service.settings import ServiceLimits

# A sandbox that a client holds may live for long, so that an earlier try would be in vain.
_RETRY_SECONDS = 5.0
# The memory in MiB that one client may have even if its share is smaller.
_LEAST_CLIENT_MB = 4096


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
        # On a small machine a share would be too small for a single sandbox.
        least_mb = min(self._memory_mb, _LEAST_CLIENT_MB)
        self._client_mb = max(least_mb, int(self._memory_mb * limits.client_memory_share))
        self._clients: Counter[str] = Counter()
        self._clients_mb: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of sessions."""
        return self._clients.total()

    def require_room(self, client: str, memory_mb: int) -> None:
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
        self._clients_mb[client] += memory_mb
        self._used_mb += memory_mb
        try:
            yield
        finally:
            self._used_mb -= memory_mb
            self._clients[client] -= 1
            self._clients_mb[client] -= memory_mb
            # Otherwise the counters would keep every address that ever came.
            self._clients += Counter()
            self._clients_mb += Counter()
