"""The HTTP protocol of one connection: uvicorn's, with time limits, and without anything in the host's log.

The other side of a connection is untrusted, so nothing that it sends may reach the terminal of the host.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from harness.relay.exchange import MAX_HEAD_BYTES

if TYPE_CHECKING:
    from starlette.types import ASGIApp

# The time in which the head of a request must arrive as a whole.
HEAD_SECONDS = 20.0
# Libraries keep idle connections for reuse. An idle one costs little, and their number is bounded.
IDLE_SECONDS = 75

_SILENT = logging.Logger("harness.relay", level=logging.CRITICAL + 1)


class RelayProtocol(H11Protocol):
    """One connection."""

    def __init__(self, config: Config, state: ServerState) -> None:
        super().__init__(config, state, {})
        self.logger = self.access_logger = _SILENT
        self.access_log = False
        self._head_timer: asyncio.TimerHandle | None = None
        self._waits_since: float | None = None

    @property
    def waiting_seconds(self) -> float:
        """The time for which the connection has had no whole request to answer, in seconds."""
        if self._waits_since is None or self.transport.is_closing():
            return 0.0
        return self.loop.time() - self._waits_since

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the client. Bytes that break the protocol in mid-request end the connection."""
        try:
            super().data_received(data)
        except Exception:
            self.transport.abort()
            return
        self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_head()

    def _watch_head(self) -> None:
        """Run the time of a head from its first byte, that of the first head from the beginning."""
        is_busy = self.cycle is not None and not self.cycle.response_complete
        if is_busy:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = self.loop.time()
        # The beginning of the next head may have come before the end of the answer.
        is_idle = self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]
        if is_busy or is_idle or self.transport.is_closing():
            self._stop_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def make_config(app: ASGIApp) -> Config:
    """Return the settings of uvicorn for connections of the relay."""
    config = Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    config.load()
    return config


def make_protocol(config: Any, state: Any) -> RelayProtocol:
    """Return the protocol of a new connection."""
    return RelayProtocol(config, state)
