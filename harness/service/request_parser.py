"""The parser of requests, which ignores upgrades to other protocols than WebSocket."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Protocol, TypeAlias

import httptools

_DROPPED = frozenset({b"upgrade", b"connection", b"http2-settings"})


class ParsedConnection(Protocol):
    """The connection that gets the parts of requests. It has those of the last head."""

    url: bytes
    headers: list[tuple[bytes, bytes]]


class RequestParser:
    """Parse requests as httptools does, and never lose the body of one.

    A client may offer another protocol in any request, as `curl --http2` and the client of Java do. A server
    may ignore the offer (RFC 9110, section 7.8). httptools reads nothing behind the head of such a request,
    so this parser parses the head again without the offer.
    """

    def __init__(self, connection: ParsedConnection) -> None:
        self._connection = connection
        self._parser = self._make_parser()

    def feed_data(self, data: bytes) -> None:
        """Parse data. Raises as httptools does, with HttpParserUpgrade only for a WebSocket and CONNECT."""
        rest = memoryview(data)
        while True:
            try:
                self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                if not self.ignores_upgrade():
                    raise
                rest = rest[upgrade.args[0] :]
            else:
                return
            head = self._write_head()
            self._parser = self._make_parser()
            self._parser.feed_data(head)

    def ignores_upgrade(self) -> bool:
        """Return whether the request offers an upgrade that is ignored. Its head is then parsed twice."""
        if not self._parser.should_upgrade() or self._parser.get_method() == b"CONNECT":
            return False
        offers = [value.lower() for name, value in self._connection.headers if name == b"upgrade"]
        return b"websocket" not in offers

    def should_upgrade(self) -> bool:
        """Return whether the request asks for a WebSocket, or is a CONNECT."""
        return self._parser.should_upgrade()

    def get_method(self) -> bytes:
        """Return the method of the request."""
        return self._parser.get_method()

    def get_http_version(self) -> str:
        """Return the version of HTTP, such as 1.1."""
        return self._parser.get_http_version()

    def should_keep_alive(self) -> bool:
        """Return whether the connection stays open behind the reply."""
        return self._parser.should_keep_alive()

    def _make_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self._connection)
        # As uvicorn sets it, so that a request that came with the last one gets its reply.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def _write_head(self) -> bytes:
        """Return the head of the request without the offer."""
        kept = [pair for pair in self._connection.headers if pair[0] not in _DROPPED]
        options = [
            option.strip()
            for name, value in self._connection.headers
            if name == b"connection"
            for option in value.split(b",")
            if option.strip().lower() not in _DROPPED
        ]
        if options:
            kept.append((b"connection", b", ".join(options)))
        version = self._parser.get_http_version().encode()
        first = b"%b %b HTTP/%b\r\n" % (self._parser.get_method(), self._connection.url, version)
        return b"".join([first, *(b"%b: %b\r\n" % pair for pair in kept), b"\r\n"])


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


Step: TypeAlias = "Callable[[WaitingRequest], None]"


class WaitingRequest:
    """A request in the line. Make it on the event loop.

    Args:
        client: the client whose line it is in.
        wait_seconds: the time that it can wait.
    """

    __slots__ = ("_since", "_steps", "_timer", "client", "is_late", "turn", "wait_seconds")

    def __init__(self, client: str, wait_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self.client = client
        self.wait_seconds = wait_seconds
        # Gets the time at which the request begins, or the error that refuses it.
        self.turn: asyncio.Future[float] = loop.create_future()
        # Whether it may take the place that is kept for clients without work.
        self.is_late = False
        # The time on the loop's clock at which it entered the line.
        self._since = loop.time()
        # Each with its time in the line, in seconds. The latest comes first.
        self._steps: list[tuple[float, Step]] = []
        # The timer of the next step. There is only one, because most requests begin before the first step.
        self._timer: asyncio.TimerHandle | None = None

    def add_step(self, seconds: float, step: Step) -> None:
        """Add a function that is called after so many seconds in the line, if the request still waits then.

        Call it before `start`, or in a step for a later one.
        """
        self._steps.append((seconds, step))
        self._steps.sort(key=_sort_last_first)

    def start(self) -> None:
        """Take the steps from now on, each at its time."""
        seconds, step = self._steps.pop()
        self._timer = asyncio.get_running_loop().call_at(self._since + seconds, self._take, step)

    def stop(self) -> None:
        """Take no further step."""
        if self._timer is not None:
            self._timer.cancel()

    def _take(self, step: Step) -> None:
        step(self)
        if self._steps and not self.turn.done():
            self.start()


def _sort_last_first(step: tuple[float, Step]) -> float:
    return -step[0]
