"""Tells a client that has only ended its side of a connection from one that has gone.

Both look the same at first: the service reads the end of the stream. A client that has called
`shutdown(SHUT_WR)`, as `nc -N` does, still reads the reply. The kernel of a client that has closed the whole
connection answers the next bytes with a reset. So the service sends an interim response, which every client
of HTTP/1.1 skips (RFC 9110, section 15.2), and looks for a reset.

Within a reply it can send none. Keep-alive probes of TCP find a closed connection there, once the client's
kernel has forgotten it (on Linux after a minute).
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable

# The first check comes one usual round trip after the end of the stream. The time between two checks doubles
# up to the last one, in seconds.
_FIRST_CHECK_SECONDS = 0.05
_LAST_CHECK_SECONDS = 0.5
# A client that reads the interim response and closes later sends no reset before the next one, in seconds.
INTERIM_SECONDS = 30.0
# The idle time before a keep-alive probe of TCP, in whole seconds.
_PROBE_SECONDS = 15
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


class HalfClosedWatch:
    """Aborts the transport of a half-closed connection once its client has gone.

    An event loop does not notice a reset on its own, because it reads no more after the end of the stream.

    Args:
        loop: the loop of the transport.
        transport: the transport whose peer has ended its side.
        may_send_interim: returns whether an interim response may be sent now. It may not be once the reply
            has begun.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        may_send_interim: Callable[[], bool],
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._may_send_interim = may_send_interim
        self._check_seconds = _FIRST_CHECK_SECONDS
        self._interim_at = loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Send the first interim response, and check from now on."""
        _send_keep_alive_probes(self._transport)
        self._ask()

    def stop(self) -> None:
        """Check no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        if self._transport.is_closing():
            return
        if _is_reset(self._transport):
            self._transport.abort()
        else:
            self._ask()

    def _ask(self) -> None:
        now = self._loop.time()
        if now >= self._interim_at and self._may_send_interim():
            self._transport.write(_INTERIM)
            self._interim_at = now + INTERIM_SECONDS
        self._timer = self._loop.call_later(self._check_seconds, self._check)
        self._check_seconds = min(2 * self._check_seconds, _LAST_CHECK_SECONDS)


def _send_keep_alive_probes(transport: asyncio.Transport) -> None:
    # The socket of a transport takes no options. Those of a copy of its descriptor count for both.
    with socket.fromfd(_find_descriptor(transport), socket.AF_INET, socket.SOCK_STREAM) as copy:
        copy.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # The name for the idle time on Linux, and the one on macOS.
        names = ("TCP_KEEPIDLE", "TCP_KEEPALIVE")
        idle = next(getattr(socket, name) for name in names if hasattr(socket, name))
        for option in (idle, socket.TCP_KEEPINTVL):
            copy.setsockopt(socket.IPPROTO_TCP, option, _PROBE_SECONDS)


def _is_reset(transport: asyncio.Transport) -> bool:
    """Return whether the peer has reset the connection."""
    poll = select.poll()
    poll.register(_find_descriptor(transport), 0)
    # Without a requested event, the kernel reports only errors and the end of both directions.
    return bool(poll.poll(0))


def _find_descriptor(transport: asyncio.Transport) -> int:
    descriptor: int = transport.get_extra_info("socket").fileno()
    return descriptor
