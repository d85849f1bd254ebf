"""A connection of a client: bounds on all that it sends, and time limits of requests and answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from harness.core.inputs.json_text import MAX_DEPTH, ValueCounter, require_shallow
from harness.models.relay.errors import RelayError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


MAX_HEAD_BYTES = 32 * 1024
MAX_BODY_BYTES = 16 * 1024 * 1024
BODY_SECONDS = 120.0
# How long a client may read nothing of its answer.
SEND_SECONDS = 120.0
# A repeated field could mean one thing to the relay and another to the app behind it.
_SINGLE = frozenset(
    {
        b"authorization",
        b"x-api-key",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"host",
        b"transfer-encoding",
    }
)
# The whole head of a request must arrive within this time.
HEAD_SECONDS = 20.0
# Libraries keep idle connections for reuse. An idle one costs little, and their number is bounded.
IDLE_SECONDS = 75
_SILENT = logging.Logger("harness.models.relay", level=logging.CRITICAL + 1)


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the fields of a request's head. Raises RelayError for a head that could be read in two ways."""
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEAD_BYTES:
        text = f"the head of the request is longer than {MAX_HEAD_BYTES:,} bytes"
        raise RelayError(431, "invalid_head", text)
    names = [name for name, _ in scope["headers"]]
    twice = sorted(name.decode("latin-1") for name in _SINGLE if names.count(name) > 1)
    if twice:
        raise RelayError(400, "invalid_head", f"the field {twice[0]} appears twice in the request head")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    if scope["http_version"] != "1.1":
        raise RelayError(400, "invalid_head", "the relay speaks HTTP/1.1 only")
    if "content-length" in headers and "transfer-encoding" in headers:
        raise RelayError(400, "invalid_head", "the head has both a length and a transfer encoding")
    if "upgrade" in headers:
        raise RelayError(400, "invalid_head", "the relay upgrades no connection")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise RelayError(415, "compressed_body", "the relay accepts no compressed body")
    return headers


class BodyBudget:
    """Bounds the memory of all bodies that the requests of one app hold at the same time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    @contextlib.asynccontextmanager
    async def read(
        self,
        headers: Mapping[str, str],
        receive: Receive,
        *,
        most: int | None = None,
        most_values: int | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield the body of a request, whose memory counts in the block.

        Args:
            headers: the head of the request.
            receive: receives its body.
            most: the most bytes of the body, by default MAX_BODY_BYTES.
            most_values: the most values in its JSON. Without it, their memory alone is bounded.

        Raises RelayError as soon as the body breaks a bound, so that the rest of it is not read.
        """
        most = MAX_BODY_BYTES if most is None else most
        announced = headers.get("content-length", "0")
        if not announced.isascii() or not announced.isdigit() or int(announced[:20]) > most:
            raise _refuse_size(most)
        body = bytearray()
        values = ValueCounter()
        held = 0
        try:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    while True:
                        message = await receive()
                        if message["type"] != "http.request":
                            raise RelayError(400, "cut_body", "the body of the request ended early")
                        piece = message.get("body", b"")
                        if len(body) + len(piece) > most:
                            raise _refuse_size(most)
                        weight = values.memory_bytes
                        values.add(piece)
                        if values.memory_bytes > self._most:
                            raise RelayError(413, "body_too_large", "the body has too many values")
                        if most_values is not None and values.total > most_values:
                            text = f"the body has more than {most_values:,} values"
                            raise RelayError(413, "body_too_large", text)
                        more = len(piece) + values.memory_bytes - weight
                        held += more
                        self._hold(more)
                        body += piece
                        if not message.get("more_body", False):
                            break
            except TimeoutError:
                text = f"the body of the request took longer than {BODY_SECONDS:g} s"
                raise RelayError(408, "slow_body", text) from None
            yield bytes(body)
        finally:
            self._held -= held

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > self._most:
            text = "the requests under way are too large together; send fewer at a time"
            raise RelayError(429, "too_many_bytes", text)


def repeat_body(content: bytes, receive: Receive) -> Receive:
    """Return `receive` for an app that reads the body once more."""
    has_read = False

    async def receive_again() -> Message:
        nonlocal has_read
        if has_read:
            return await receive()
        has_read = True
        return {"type": "http.request", "body": content, "more_body": False}

    return receive_again


class Answer:
    """The answer to one request. Raises TimeoutError if the client takes nothing of it for too long."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def begin(
        self, status: int, content_type: str, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Send the head."""
        fields = [(b"content-type", content_type.encode("latin-1")), *headers]
        await self.pass_on({"type": "http.response.start", "status": status, "headers": fields})

    async def write(self, data: bytes, *, is_last: bool = False) -> None:
        """Send a piece of the body."""
        await self.pass_on({"type": "http.response.body", "body": data, "more_body": not is_last})

    async def send_whole(self, status: int, data: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Send an answer in JSON."""
        length = (b"content-length", str(len(data)).encode())
        await self.begin(status, "application/json", [length, *headers])
        await self.write(data, is_last=True)

    async def pass_on(self, message: Message) -> None:
        """Send a message of the app."""
        self.has_begun = True
        async with asyncio.timeout(SEND_SECONDS):
            await self._send(message)


async def work_while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work of a request whose body is read, and cancel it as soon as the client has gone."""
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
        if not working.done():
            working.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)
    if not working.cancelled() and (error := working.exception()) is not None:
        raise error


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _refuse_size(most: int) -> RelayError:
    return RelayError(413, "body_too_large", f"the body is larger than {most:,} bytes")


def parse_body(content: bytes) -> dict[str, Any]:
    """Return the object in a body. Raises RelayError."""
    try:
        # Python would also accept UTF-16, but the values of a UTF-16 body cannot be counted.
        text = content.decode("utf-8-sig", "surrogatepass")
        body = json.loads(text, parse_constant=_refuse_constant)
        # Deeper values could be read here, and not be written later, which would seem a defect of ours.
        require_shallow(body)
    except RecursionError:
        reason = f"the body of the request is nested too deeply, more than {MAX_DEPTH} levels"
        raise RelayError(400, "invalid_json", reason) from None
    except ValueError:
        raise RelayError(400, "invalid_json", "the body of the request is not valid JSON") from None
    if not isinstance(body, dict):
        raise RelayError(400, "invalid_json", "the body of the request is not a JSON object")
    return body


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


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
        """How long the connection has been without a whole request to answer, in seconds."""
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
        """Run the time of a head from its first byte, and of the first head from the beginning."""
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
