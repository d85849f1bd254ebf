"""The bounds on a connection before and behind the app: its head, its idle time, and the reply that it takes.

The app sees a request only once its head is complete, and a reply leaves it before the client has taken it.
Without bounds here, a client without a token could fill the memory by a head without end, or take all
connections by sending nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import http
import select
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from harness.service.errors import ServiceError, ShareUsedError, encode_error

if TYPE_CHECKING:
    import uvicorn
    from uvicorn._types import ASGISendEvent
    from uvicorn.server import ServerState

MOST_CONNECTIONS = 4096
# The connections of one address, so that no client can take all.
CLIENT_CONNECTIONS = MOST_CONNECTIONS // 2
# The bytes that the parser keeps: of a head, of the trailers of a body in chunks, and of requests that wait
# for the reply to the one before.
HEAD_BYTES = 64 * 1024
# The time from the first byte of a head to its last one.
HEAD_SECONDS = 30.0
# The first look at a client that has ended its side comes one usual round trip later. The time between two
# looks doubles up to the last one.
_FIRST_LOOK_SECONDS = 0.05
_LAST_LOOK_SECONDS = 0.5
# A client that reads the interim response and closes later sends no reset before the next one.
INTERIM_SECONDS = 30.0
_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
# A client must take at least this much of its reply in this time.
STALLED_SECONDS = 60.0
_STALLED_BYTES = 256 * 1024
# How long a client can take the rest of its reply when the service ends.
LAST_SECONDS = 3
# The replies that one address has not taken yet.
UNTAKEN_BYTES = 256 * 1024 * 1024
# For a WebSocket: the messages that wait for the app, the parts of one message, and the bytes of answers to
# pings that the client has not read.
_MOST_MESSAGES = 1024
_MOST_PARTS = 64 * 1024
_MOST_ANSWER_BYTES = 1024 * 1024
# The close code for a text message that is not UTF-8 (RFC 6455, section 7.4.1).
_NOT_TEXT = 1007
_UNREADABLE_HEAD = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedConnection(asyncio.Protocol):
    """uvicorn's connection for HTTP, closed as soon as it breaks a bound. `uvicorn.Config` takes the class.

    It stays between the transport and the protocol, and knows where a request is by the state of h11. A
    WebSocket takes its place with the end of the head.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        # Requests have this method in their state.
        state = {**app_state, "watch_client": self.watch_client}
        self._inner = H11Protocol(config, server_state, state, _loop)
        self._parser = self._inner.conn
        self._loop = self._inner.loop
        self._connections = cast("set[Any]", server_state.connections)
        self._head_timer: asyncio.TimerHandle | None = None
        self._reply_timer: asyncio.TimerHandle | None = None
        # Looks after a client that has ended its side of the connection.
        self._look_timer: asyncio.TimerHandle | None = None
        self._watching: dict[object, Callable[[], None]] = {}
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the connection, or refuse it if its client has too many."""
        self.transport = cast(asyncio.Transport, transport)
        # Every byte that the client has not taken counts as untaken, also behind a reply that is complete.
        self.transport.set_write_buffer_limits(high=0)
        self._inner.connection_made(self.transport)
        self.client = self._inner.client
        # The server ends the connections in this set.
        self._connections.discard(self._inner)
        self._connections.add(self)
        if len(self._list_of_client()) > CLIENT_CONNECTIONS:
            message = f"this client has {CLIENT_CONNECTIONS:,} connections, which is its share"
            self._refuse(ShareUsedError(message, retry_seconds=1.0))
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everyone who watches the client."""
        self._is_lost = True
        self._leave()
        self._inner.connection_lost(exc)
        self._notify_watching()

    def data_received(self, data: bytes) -> None:
        """Pass data on, and refuse what the parser must keep of it in memory beyond the bound."""
        try:
            self._inner.data_received(data)
        except h11.LocalProtocolError:
            # uvicorn refuses broken data with a reply, which may be complete already.
            self.transport.abort()
        if self.transport.get_protocol() is not self:
            self._leave()
            return
        if self.transport.is_closing():
            return
        if len(self._parser.trailing_data[0]) > HEAD_BYTES:
            self._refuse_kept()
        elif self._is_answering():
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
            self._watch_for_end()
        elif self._head_timer is None:
            self._expect_head()

    def eof_received(self) -> bool:
        """Return whether the connection stays open, because the client may still wait for a reply."""
        if self._parser.their_state is h11.SEND_BODY or not self._may_send_interim():
            return False
        if self._look_timer is None:
            self._look(_FIRST_LOOK_SECONDS, self._loop.time())
        return True

    def pause_writing(self) -> None:
        """Note that the client has not taken all of the reply."""
        self._inner.pause_writing()
        untaken = sum(each.transport.get_write_buffer_size() for each in self._list_of_client())
        if untaken > UNTAKEN_BYTES:
            self.transport.abort()
        elif self._reply_timer is None:
            self._watch_reply()

    def resume_writing(self) -> None:
        """Note that the client has taken all of the reply so far."""
        if self._reply_timer is not None:
            self._reply_timer.cancel()
            self._reply_timer = None
        self._inner.resume_writing()

    def shutdown(self) -> None:
        """End the connection with the service."""
        self._inner.shutdown()
        if self._is_answering():
            # The service has drained, so that this request is out of time. It ends as one whose client goes
            # away. Otherwise uvicorn cancels it, and logs that as a failure of the app.
            self.transport.abort()
        else:
            self._loop.call_later(LAST_SECONDS, self.transport.abort)

    @contextlib.contextmanager
    def watch_client(self, notify: Callable[[], None]) -> Iterator[None]:
        """Let the event loop call `notify` if the client goes away during the block, or has gone before.

        A task that waits for the message `http.disconnect` would take more processor time than most other
        parts of a small request.
        """
        key = object()
        self._watching[key] = notify
        if self._is_lost:
            self._loop.call_soon(self._notify_watching)
        else:
            self._watch_for_end()
        try:
            yield
        finally:
            del self._watching[key]

    def _watch_for_end(self) -> None:
        """Read on during a request, because requests that were sent ahead would hide that the client goes."""
        if self._watching and self._parser.their_state is not h11.SEND_BODY:
            self.transport.resume_reading()

    def _notify_watching(self) -> None:
        for notify in list(self._watching.values()):
            notify()

    def _is_answering(self) -> bool:
        """Return whether the head of a request is complete, and the reply to it is not."""
        return self._parser.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY)

    def _may_send_interim(self) -> bool:
        """Return whether an interim response may be sent: not within a reply, nor to a client of HTTP/1.0."""
        return self._parser.our_state is h11.SEND_RESPONSE and self._parser.their_http_version != b"1.0"

    def _look(self, seconds: float, interim_at: float) -> None:
        """End the connection of a client that has gone, and look again later.

        The event loop reads no more after the end of the stream. A client that has gone answers an interim
        response with a reset.
        """
        if self.transport.is_closing():
            return
        if _is_reset(self.transport):
            self.transport.abort()
            return
        if not self._is_answering():
            self.transport.close()
            return
        if self._loop.time() >= interim_at and self._may_send_interim():
            self.transport.write(_INTERIM)
            interim_at = self._loop.time() + INTERIM_SECONDS
        later = min(2 * seconds, _LAST_LOOK_SECONDS)
        self._look_timer = self._loop.call_later(seconds, self._look, later, interim_at)

    def _list_of_client(self) -> list[Any]:
        """Return the connections of this client's address, its WebSockets included."""
        address = self.client and self.client[0]
        return [each for each in self._connections if (each.client and each.client[0]) == address]

    def _expect_head(self) -> None:
        self._head_timer = self._loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _watch_reply(self) -> None:
        """End the connection if its client takes too little of the reply."""
        before = self.transport.get_write_buffer_size()

        def check() -> None:
            self._reply_timer = None
            if before - self.transport.get_write_buffer_size() < _STALLED_BYTES:
                self.transport.abort()
            else:
                self._watch_reply()

        self._reply_timer = self._loop.call_later(STALLED_SECONDS, check)

    def _refuse_kept(self) -> None:
        if self._parser.our_state is h11.SEND_BODY:
            self.transport.abort()
        elif self._is_answering() and self._parser.their_state is not h11.SEND_BODY:
            message = f"a connection may have {HEAD_BYTES:,} bytes of requests that wait for another reply"
            self._refuse(ServiceError(429, "too_many_requests", message))
        else:
            message = f"the head of a request may have {HEAD_BYTES:,} bytes"
            self._refuse(ServiceError(431, "head_too_large", message))

    def _refuse(self, error: ServiceError) -> None:
        content = encode_error(error)
        status = http.HTTPStatus(error.status)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + content)
        self.transport.close()

    def _leave(self) -> None:
        """Bound the connection no more."""
        self._connections.discard(self)
        for timer in (self._head_timer, self._reply_timer, self._look_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._reply_timer = self._look_timer = None


def _is_reset(transport: asyncio.Transport) -> bool:
    """Return whether the peer has reset the connection."""
    poll = select.poll()
    # Without a requested event, the kernel reports only errors and the end of both directions.
    poll.register(transport.get_extra_info("socket").fileno(), 0)
    return bool(poll.poll(0))


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket that is closed as soon as it breaks a bound. `uvicorn.Config` takes the class."""

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            # Uvicorn does not note that a refusal is complete, and logs each one as an error.
            self.handshake_complete = True

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # Uvicorn answers no head that cannot be read.
            self.transport.write(_UNREADABLE_HEAD)
            self.transport.close()
        # One piece of data can hold tens of thousands of empty messages, or of empty parts of one message.
        if self.queue.qsize() > _MOST_MESSAGES or len(self.frames) > _MOST_PARTS:
            self.transport.abort()

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not _is_text(b"".join(self.frames)):
            # Uvicorn would log a traceback for each of these.
            self.frames = []
            self.conn.send_close(_NOT_TEXT)
            self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        super().handle_ping()
        # Each ping gets an answer, and nothing else stops a client that reads none of them.
        if self.transport.get_write_buffer_size() > _MOST_ANSWER_BYTES:
            self.transport.abort()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        # A close in order would wait for the client to read.
        self.transport.abort()

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.get_write_buffer_size():
            self.transport.abort()


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
