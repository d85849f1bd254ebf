"""The sessions of the Model Context Protocol that each client has. Those that have ended are forgotten."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.service.errors import ShareUsedError

if TYPE_CHECKING:
    from starlette.types import Message, Send

_RETRY_SECONDS = 60.0


@dataclass(slots=True)
class _Session:
    client: str
    last_used: float
    # The requests under way.
    busy: int = 0


class McpSessions:
    """Bounds the sessions of each client. A session costs memory until it was idle for long.

    Args:
        most: the sessions of one client.
        idle_seconds: the time without a request after which the library ends a session.
        clock: returns a time in seconds that never goes back.
    """

    def __init__(self, most: int, idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._clock = clock
        # By id.
        self._sessions: dict[str, _Session] = {}
        self._opening: dict[str, int] = {}

    @contextlib.contextmanager
    def use(self, key: str) -> Iterator[None]:
        """Note a request of a session, so that the session counts as alive. Ignores unknown ids."""
        session = self._sessions.get(key)
        if session is None:
            yield
            return
        session.busy += 1
        try:
            yield
        finally:
            session.busy -= 1
            session.last_used = self._clock()

    @contextlib.contextmanager
    def open(self, client: str) -> Iterator[Callable[[str], None]]:
        """Yield the function that gets the id of the session that a request opens.

        Raises ShareUsedError if the client has too many.
        """
        self._forget_idle()
        own = sum(each.client == client for each in self._sessions.values()) + self._opening.get(client, 0)
        if own >= self._most:
            raise ShareUsedError(
                f"this client has {self._most:,} sessions of the protocol, which is its share; end some with "
                f"DELETE, or wait until they were idle for {self._idle_seconds:g} s",
                retry_seconds=_RETRY_SECONDS,
            )
        self._opening[client] = self._opening.get(client, 0) + 1

        def note(key: str) -> None:
            self._sessions[key] = _Session(client, self._clock())

        try:
            yield note
        finally:
            self._opening[client] -= 1
            if not self._opening[client]:
                del self._opening[client]

    def end(self, key: str) -> None:
        """Forget a session that its client has ended."""
        self._sessions.pop(key, None)

    def _forget_idle(self) -> None:
        since = self._clock() - self._idle_seconds
        for key, each in list(self._sessions.items()):
            if not each.busy and each.last_used < since:
                del self._sessions[key]


def watch_session_id(send: Send, header: str, note: Callable[[str], None]) -> Send:
    """Return a `send` that passes the id of the session in the head of a reply to `note`."""
    name = header.encode()

    async def watch(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < 300:
            for key, value in message.get("headers", ()):
                if key.lower() == name:
                    note(value.decode("latin-1"))
        await send(message)

    return watch
