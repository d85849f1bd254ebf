"""The bounds on a connection before and behind the app: its head, its idle time, and the reply that it takes.

The app sees a request only once its head is complete, and a reply leaves it before the client has taken it.
Without bounds here, a client without a token could fill the memory by a head without end, or take all
connections by sending nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from harness.service.errors import ServiceError, ShareUsedError, encode_error
from harness.service.request_parser import HalfClosedWatch, RequestParser

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGISendEvent

MOST_CONNECTIONS = 4096
# The connections of one address, so that no client can take all.
CLIENT_CONNECTIONS = MOST_CONNECTIONS // 2
# The request line with all headers, and the trailers of a body in chunks.
HEAD_BYTES = 64 * 1024
# The time from the first byte of a head to its last one.
HEAD_SECONDS = 30.0
# Requests that a client may send on one connection before it has the reply to the first one.
_MOST_PIPELINED = 16
# A client must take at least this much of its reply in this time.
STALLED_SECONDS = 60.0
_STALLED_BYTES = 256 * 1024
# The time in which a client can take the rest of its reply when the service ends.
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
_UNREADABLE_HEAD = STATUS_LINE[400] + b"content-length: 0\r\nconnection: close\r\n\r\n"


class BoundedConnection(HttpToolsProtocol):
    """A connection that is closed as soon as it breaks a bound. `uvicorn.Config` takes the class.

    A WebSocket leaves it with the end of its head, and becomes a `BoundedWebSocket`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parser = RequestParser(self)  # type: ignore[assignment]
        # The bytes since the last part that the parser passed on. It keeps them in memory.
        self._kept_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._reply_timer: asyncio.TimerHandle | None = None
        self._is_lost = False
        # The request whose reply comes next, while `cycle` is the last one that has arrived.
        self._answered: RequestResponseCycle | None = None
        # Watches the client once it has ended its side of the connection.
        self._half_closed: HalfClosedWatch | None = None
        self._watching: dict[object, Callable[[], None]] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        own = self._list_of_client()
        if len(own) > CLIENT_CONNECTIONS:
            message = f"this client has {CLIENT_CONNECTIONS:,} connections, which is its share"
            self._refuse(ShareUsedError(message, retry_seconds=1.0))
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        self._is_lost = True
        super().connection_lost(exc)
        self._notify_watching()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether the connection stays open, because the client may still wait for a reply."""
        if self._half_closed is None and self._may_be_half_closed():
            self._half_closed = HalfClosedWatch(self.loop, self.transport, self._may_send_interim)
            self._half_closed.start()
        return self._half_closed is not None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._half_closed is not None and self.cycle.response_complete:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["watch_client"] = self.watch_client

    @contextlib.contextmanager
    def watch_client(self, notify: Callable[[], None]) -> Iterator[None]:
        """Let the event loop call `notify` if the client goes away during the block, or has gone before.

        Requests have this method in their state. A task that waits for the message `http.disconnect` would
        take more processor time than most other parts of a small request.
        """
        key = object()
        self._watching[key] = notify
        if self._is_lost:
            self.loop.call_soon(self._notify_watching)
        else:
            # Otherwise requests that the client has sent ahead would hide that it goes away.
            self.flow.resume_reading()
        try:
            yield
        finally:
            del self._watching[key]

    def data_received(self, data: bytes) -> None:
        self._kept_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        if self._kept_bytes > HEAD_BYTES:
            message = f"the head of a request may have {HEAD_BYTES:,} bytes"
            self._refuse(ServiceError(431, "head_too_large", message))
        elif len(self.pipeline) > _MOST_PIPELINED:
            message = f"a connection may have {_MOST_PIPELINED} requests that wait for the reply to another"
            self._refuse(ServiceError(429, "too_many_requests", message))
        elif self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._kept_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if not self._ignores_upgrade():
            super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Note a part of a body. The parser calls it behind the length of each chunk."""
        self._kept_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._kept_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._kept_bytes = 0
        if not self._ignores_upgrade():
            super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        untaken = sum(each.transport.get_write_buffer_size() for each in self._list_of_client())
        if untaken > UNTAKEN_BYTES:
            self.transport.abort()
        elif self._reply_timer is None:
            self._watch_reply()

    def resume_writing(self) -> None:
        if self._reply_timer is not None:
            self._reply_timer.cancel()
            self._reply_timer = None
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        # A close in order would wait for a client that has not taken the whole reply.
        self.transport.abort()

    def shutdown(self) -> None:
        super().shutdown()
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(LAST_SECONDS, self.transport.abort)
        else:
            # The service has drained, so that this request is out of time. It ends as one whose client goes
            # away. Otherwise uvicorn cancels it, and logs that as a failure of the app.
            self.transport.abort()

    def _ignores_upgrade(self) -> bool:
        return cast(RequestParser, self.parser).ignores_upgrade()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answered = cycle
        super()._start_asgi_task(cycle, app)

    def _may_be_half_closed(self) -> bool:
        """Return whether the whole request has arrived, and an interim response can show who still reads.

        None can be sent within a reply, or to a client of HTTP/1.0.
        """
        return self._may_send_interim() and not self.cycle.more_body

    def _may_send_interim(self) -> bool:
        answered = self._answered
        return (
            answered is not None and not answered.response_started and answered.scope["http_version"] != "1.0"
        )

    def _notify_watching(self) -> None:
        for notify in list(self._watching.values()):
            notify()

    def _list_of_client(self) -> list[HttpToolsProtocol]:
        """Return the connections of this client's address, its WebSockets included."""
        address = self.client and self.client[0]
        connections = cast(set[HttpToolsProtocol], self.connections)
        return [each for each in connections if (each.client and each.client[0]) == address]

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _watch_reply(self) -> None:
        """End the connection if its client takes too little of the reply."""
        before = self.transport.get_write_buffer_size()

        def check() -> None:
            self._reply_timer = None
            if before - self.transport.get_write_buffer_size() < _STALLED_BYTES:
                self.transport.abort()
            else:
                self._watch_reply()

        self._reply_timer = self.loop.call_later(STALLED_SECONDS, check)

    def _refuse(self, error: ServiceError) -> None:
        content = encode_error(error)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[error.status] + head % len(content) + content)
        self.transport.close()

    def _stop_timers(self) -> None:
        for timer in (self._head_timer, self._reply_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._reply_timer = None
        if self._half_closed is not None:
            self._half_closed.stop()


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
