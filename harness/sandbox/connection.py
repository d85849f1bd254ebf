"""The host's end of the streams to a guest, which carry several requests at once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol, cast

from harness.core.errors import SandboxError
from harness.core.shield import complete
from harness.sandbox.backends.base import Backend, SandboxSpec, StartedContainer
from harness.sandbox.guest.frames import FrameDecoder, FrameError, encode_frame

# The bytes of stderr that are read at once.
READ_BYTES = 1 << 18
# The host holds this much of an answer that comes in pieces: twice the number of bytes that the guest sends
# before it waits for an acknowledgement.
MAX_WAITING_BYTES = 1 << 20
KEPT_STDERR_BYTES = 16 * 1024
# How soon a guest ends itself. The backend ends any other.
BYE_SECONDS = 1.0
CLOSED = "the stream was closed by the host"


class ConnectionLost(Exception):
    """The stream has ended, or it broke the frame format. Then `breach` is set."""

    def __init__(self, message: str, *, breach: bool = False) -> None:
        super().__init__(message)
        self.breach = breach


class ConnectionClosed(ConnectionLost):
    """The host has closed the stream at the end of the connection's block."""


# Gets the header and the body of a piece of an exchange. It raises FrameError for one that breaks the format.
Receive = Callable[["Exchange", dict[str, Any], bytes], None]
# The header and the body of a reply, once it has come.
Answer = asyncio.Future[tuple[dict[str, Any], bytes]]
# Finds out why no answer has come, and returns the error that says so.
Explain = Callable[[], Awaitable[Exception]]


class Receiver(Protocol):
    """Gets the pieces of an answer as they come."""

    def begin(self, exchange: Exchange) -> None:
        """Take the exchange, before its first piece."""

    def receive(self, exchange: Exchange, header: dict[str, Any], data: bytes) -> None:
        """Take a piece. Raises FrameError for one that breaks the format."""


class Exchange:
    """A request whose answer comes in pieces. `read_piece` returns them; `answer` is the last frame.

    If there is a `receive`, it gets the pieces instead.
    """

    def __init__(self, connection: Connection, number: int, receive: Receive | None = None) -> None:
        self._connection = connection
        self._receive = receive
        self.number = number
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting_bytes = 0
        self.answer: Answer = asyncio.get_running_loop().create_future()
        self.answer.add_done_callback(lambda _answer: self._pieces.put_nowait(b""))

    async def read_piece(self) -> bytes:
        """Return the next piece, or b"" after the last one."""
        if self.answer.done() and self._pieces.empty():
            return b""
        data = await self._pieces.get()
        self._waiting_bytes -= len(data)
        return data

    def send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        """Send a frame about this exchange. The guest does not answer it."""
        self._connection.send({**header, "job": self.number}, body)

    async def drain(self) -> None:
        """Wait until the stream has taken most of the frames that were sent, of all exchanges."""
        await self._connection.drain()

    def add_piece(self, header: dict[str, Any], data: bytes) -> None:
        """Store a piece until `read_piece` returns it, or pass it on.

        Raises FrameError for more than MAX_WAITING_BYTES that wait, and for a piece that breaks the format.
        """
        if self._receive is not None:
            self._receive(self, header, data)
            return
        self._waiting_bytes += len(data)
        if self._waiting_bytes > MAX_WAITING_BYTES:
            raise FrameError("it sent more bytes than the host had asked for")
        if data:
            self._pieces.put_nowait(data)


class Connection(asyncio.Protocol):
    """Sends requests to a guest and returns each answer to the caller that waits for it.

    It decodes the stream as the event loop reads it. A task and a buffer between the two would take as much
    processor time as the rest of a small request.
    """

    def __init__(self, container: StartedContainer) -> None:
        self._container = container
        self._transport: asyncio.Transport | None = None
        self._decoder = FrameDecoder()
        # Set while the stream takes no more frames.
        self._blocked: asyncio.Future[None] | None = None
        self._ended = asyncio.Event()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Answer] = {}
        self._exchanges: dict[int, Exchange] = {}
        self._lost: ConnectionLost | None = None
        self._said_bye = False
        self._stderr = bytearray()

    @property
    def is_lost(self) -> bool:
        """Whether the stream has ended."""
        return self._lost is not None

    @property
    def stderr(self) -> str:
        """The end of the guest's own stderr, which holds its traceback if it has failed."""
        self.read_stderr()
        return self._stderr.decode("utf-8", "backslashreplace")

    async def request(
        self,
        header: Mapping[str, Any],
        body: bytes = b"",
        *,
        seconds: float | None = None,
        explain: Explain | None = None,
        receiver: Receiver | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        """Send one request and return its answer, after `receiver` has got the pieces before it.

        Without `seconds` it waits for as long as the stream lives. Raises ConnectionLost, FrameError (too
        large), and TimeoutError without an answer after `seconds`, or the error that `explain` returns. An
        answer that comes while `explain` looks for the cause is late, but no less true.
        """
        if receiver is not None:
            async with self.exchange(header, body, receive=receiver.receive) as exchange:
                receiver.begin(exchange)
                return await self._wait_for(exchange.answer, seconds, explain)
        if self._lost is not None:
            raise self._lost
        number = next(self._numbers)
        frame = encode_frame({"id": number, **header}, body)
        answer: Answer = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._write(frame)
            return await self._wait_for(answer, seconds, explain)
        except asyncio.CancelledError:
            # Nobody waits for the job any more, so it must not run on.
            self.send({"verb": "kill", "job": number})
            raise
        finally:
            self._waiting.pop(number, None)

    async def _wait_for(
        self, answer: Answer, seconds: float | None, explain: Explain | None
    ) -> tuple[dict[str, Any], bytes]:
        """Return an answer. Raises TimeoutError, or as `explain` does, if it does not come within `seconds`.

        A timer that fails the answer costs less than `asyncio.timeout`, which cancels the task.
        """
        asking: asyncio.Task[None] | None = None

        def expire() -> None:
            nonlocal asking
            if not answer.done():
                asking = asyncio.get_running_loop().create_task(_fail(answer, explain))

        timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, expire)
        try:
            while self._blocked is not None and not answer.done():
                await asyncio.wait((self._blocked, answer), return_when=asyncio.FIRST_COMPLETED)
            return await answer
        finally:
            if timer is not None:
                timer.cancel()
            if asking is not None:
                asking.cancel()

    @contextlib.asynccontextmanager
    async def exchange(
        self, header: Mapping[str, Any], body: bytes = b"", *, receive: Receive | None = None
    ) -> AsyncIterator[Exchange]:
        """Send a request whose answer comes in pieces, and end its job at the end of the block.

        `receive` gets the pieces as they come. Without it, the exchange stores them. Raises ConnectionLost,
        FrameError (too large).
        """
        if self._lost is not None:
            raise self._lost
        number = next(self._numbers)
        frame = encode_frame({"id": number, **header}, body)
        exchange = Exchange(self, number, receive)
        self._waiting[number] = exchange.answer
        self._exchanges[number] = exchange
        try:
            self._write(frame)
            yield exchange
        finally:
            # The cancellation of a task that waits for the answer cancels the answer too.
            if not exchange.answer.done() or exchange.answer.cancelled():
                self.send({"verb": "kill", "job": number})
                exchange.answer.cancel()
            else:
                exchange.answer.exception()  # asyncio warns of an unretrieved exception
            del self._waiting[number], self._exchanges[number]

    async def drain(self) -> None:
        """Wait until the stream has taken most of the frames that were sent."""
        while self._blocked is not None:
            # Several calls may wait, and each can be cancelled alone.
            await asyncio.shield(self._blocked)

    def send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        """Send a frame without waiting for an answer."""
        if self._lost is None:
            self._write(encode_frame({"id": next(self._numbers), **header}, body))

    async def wait_until_ended(self, seconds: float) -> None:
        """Wait until the stream has ended, for at most so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the stream. The event loop calls it."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Give the frames that `data` completes to their calls. The event loop calls it."""
        if self._lost is not None:
            return
        try:
            self._receive(data)
        except FrameError as error:
            self._lose(ConnectionLost(f"the sandbox broke the frame format: {error}", breach=True))

    def eof_received(self) -> None:
        """End the calls that wait, because the guest sends no more. The event loop calls it."""
        self._lose(ConnectionLost("the sandbox closed its stream"))

    def connection_lost(self, exc: Exception | None) -> None:
        """End the calls that wait. The event loop calls it."""
        message = (
            "the sandbox closed its stream" if exc is None else f"the stream to the sandbox broke: {exc}"
        )
        self._lose(ConnectionLost(message))

    def pause_writing(self) -> None:
        """Make `drain` wait. The event loop calls it."""
        self._blocked = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Let calls that wait in `drain` go on. The event loop calls it."""
        if self._blocked is not None:
            self._blocked.set_result(None)
            self._blocked = None

    def read_stderr(self) -> bool:
        """Keep what the guest's stderr has now; return whether more may come on the separate stream."""
        stream = self._container.stderr
        if stream is None:
            return False
        try:
            while data := stream.recv(READ_BYTES):
                self._keep_stderr(data)
        except BlockingIOError:
            return True
        except OSError:  # closed, by either side
            pass
        return False

    def _keep_stderr(self, data: bytes) -> None:
        self._stderr = (self._stderr + data)[-KEPT_STDERR_BYTES:]

    def say_bye(self) -> None:
        """Let the guest end itself, because the engine removes an ended container at less cost."""
        self._said_bye = True
        self.send({"verb": "bye"})

    def close(self) -> None:
        """Make every call that waits now or later raise ConnectionClosed."""
        self._lose(ConnectionClosed(CLOSED))
        self._lost = ConnectionClosed(CLOSED)

    def _write(self, frame: bytes) -> None:
        assert self._transport is not None  # noqa: S101  because `open_connection` yields an open stream
        self._transport.write(frame)

    def _lose(self, lost: ConnectionLost) -> None:
        if self._lost is not None:
            return
        self._lost = ConnectionClosed(CLOSED) if self._said_bye else lost
        self._ended.set()
        if self._transport is not None:
            self._transport.abort()
        # Without this, a call that sends a large request would wait for room in the stream for ever.
        self.resume_writing()
        for answer in list(self._waiting.values()):
            if not answer.done():
                answer.set_exception(self._lost)

    def _receive(self, data: bytes) -> None:
        split = self._container.split
        if split is not None:
            data, stderr = split(data)
            if stderr:
                self._keep_stderr(stderr)
        for header, body in self._decoder.feed(data):
            number = header.get("id")
            if header.get("more") is True and type(number) is int:
                if number in self._exchanges:
                    self._exchanges[number].add_piece(header, body)
                continue
            answer = self._waiting.get(number) if type(number) is int else None
            if answer is not None and not answer.done():
                answer.set_result((header, body))


async def _fail(answer: Answer, explain: Explain | None) -> None:
    """Fail an answer that has not come in time, unless it comes before the cause is found."""
    try:
        error = TimeoutError() if explain is None else await explain()
    except Exception as failure:
        error = failure
    if not answer.done():
        answer.set_exception(error)


@contextlib.asynccontextmanager
async def hold_container(backend: Backend, spec: SandboxSpec) -> AsyncIterator[StartedContainer]:
    """Yield a running container and destroy it at the end of the block, even if the block is cancelled.

    Raises SandboxError if the backend cannot start or destroy it, ImageMissingError if it has no such
    image.
    """
    cancelled = False
    try:
        # Nothing can interrupt the thread that starts the container, so the removal has to wait for its end.
        container = await complete(asyncio.to_thread(backend.start, spec))
        with contextlib.closing(container):
            yield container
    except asyncio.CancelledError:
        cancelled = True
        raise
    finally:
        try:
            await complete(asyncio.to_thread(backend.destroy, spec.name))
        except SandboxError:
            # The error must not replace a cancellation, because the caller would then retry.
            if not cancelled:
                raise


@contextlib.asynccontextmanager
async def open_connection(container: StartedContainer) -> AsyncIterator[Connection]:
    """Yield a connection to the guest of a container, and close it at the end of the block."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(lambda: Connection(container), sock=container.stream)
    try:
        with _watch_stderr(connection, container.stderr):
            yield connection
            connection.say_bye()
            await connection.wait_until_ended(BYE_SECONDS)
    finally:
        connection.close()


@contextlib.contextmanager
def _watch_stderr(connection: Connection, stderr: socket.socket | None) -> Iterator[None]:
    """Read stderr during the block, because a guest or a client that cannot write to it would wait."""
    if stderr is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not connection.read_stderr():
            loop.remove_reader(stderr)

    loop.add_reader(stderr, read)
    try:
        yield
    finally:
        loop.remove_reader(stderr)
