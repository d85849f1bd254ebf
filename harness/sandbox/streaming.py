"""The output of a command as it comes, for a caller who takes it piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from harness.core.errors import SandboxError, UsageError
from harness.sandbox.connection import Connection, ConnectionLost, Exchange
from harness.sandbox.guest.frames import FrameError
from harness.sandbox.results import WINDOW_BYTES, ExecResult, read_stream_name

if TYPE_CHECKING:
    from harness.sandbox.guest.messages import OpenTerminal

Explain = Callable[[ConnectionLost], Awaitable[SandboxError]]
# The guest sends what is left in both pipes at the end of a command, which no acknowledgement holds back.
# These are the most bytes that it reads then (`LAST_READS` and `READ_BYTES` in `guest/output.py`).
_LAST_BYTES = 2 * (64 << 16)
# A guest that sends more than this ahead of the caller has broken the protocol.
MAX_AHEAD_BYTES = WINDOW_BYTES + (1 << 16) + _LAST_BYTES


@dataclass(frozen=True, slots=True)
class OutputChunk:
    """The next bytes of one output stream. A chunk is never empty, and may end inside of a character."""

    stream: Literal["stdout", "stderr"]
    data: bytes


class OutputStream:
    """The output of a command under way. Iterate over it, and then read `result`.

    The host holds a few hundred KiB that the caller has not taken, and up to two full pipes more at the end.
    The command waits if the caller takes no more, and its limit on wall time goes on.
    """

    def __init__(self) -> None:
        self._chunks: deque[OutputChunk] = deque()
        self._ahead_bytes = 0
        self._changed = asyncio.Event()
        self._exchange: Exchange | None = None
        self._running: asyncio.Task[ExecResult] | None = None
        self._is_left = False

    @property
    def result(self) -> ExecResult:
        """The result of the command, once the stream has ended or its block was left.

        Raises UsageError before that, and the error of the sandbox if it has failed.
        """
        running = self._running
        if running is None or not running.done() or running.cancelled() or self._chunks:
            raise UsageError(
                "the command has not ended, so it has no result",
                hint="iterate over the stream to its end, or leave its block",
            )
        return running.result()

    async def read(self) -> OutputChunk | None:
        """Return the next chunk, or None after the last one. Raises SandboxError if the sandbox failed."""
        while not self._chunks:
            if self._is_left:
                return None
            if self._running is not None and self._running.done():
                self._running.result()
                return None
            self._changed.clear()
            await self._changed.wait()
        chunk = self._chunks.popleft()
        self._acknowledge(len(chunk.data))
        return chunk

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> OutputChunk:
        chunk = await self.read()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    def begin(self, exchange: Exchange) -> None:
        """Take the exchange with the guest, before its first piece."""
        self._exchange = exchange
        if self._is_left:
            exchange.send({"verb": "kill"})

    def receive(self, exchange: Exchange, header: dict[str, Any], data: bytes) -> None:
        """Keep a piece until the caller takes it. Raises FrameError for one that breaks the protocol."""
        chunk = OutputChunk(read_stream_name(header), data)
        self._ahead_bytes += len(data)
        if self._ahead_bytes > MAX_AHEAD_BYTES:
            raise FrameError("it sent more output than the host had asked for")
        if self._is_left:
            self._acknowledge(len(data))
        elif data:
            self._chunks.append(chunk)
            self._changed.set()

    def watch(self, running: asyncio.Task[ExecResult]) -> None:
        """Take the task that waits for the result."""
        self._running = running
        running.add_done_callback(lambda _task: self._changed.set())

    def leave(self) -> None:
        """Drop the output from now on, and end the command if it still runs."""
        self._is_left = True
        waiting = sum(len(chunk.data) for chunk in self._chunks)
        self._chunks.clear()
        if self._exchange is not None and not self._exchange.answer.done():
            self._exchange.send({"verb": "kill"})
        self._acknowledge(waiting)
        self._changed.set()

    def _acknowledge(self, size: int) -> None:
        self._ahead_bytes -= size
        exchange = self._exchange
        if exchange is not None and size and not exchange.answer.done():
            exchange.send({"verb": "seen", "bytes": size})


@contextlib.asynccontextmanager
async def open_output(
    run: Callable[[OutputStream], Awaitable[ExecResult]],
) -> AsyncIterator[OutputStream]:
    """Yield the output of the command that `run` carries out. The end of the block ends the command.

    An early end of the block waits until the command's processes are gone. A cancellation does not wait.
    Raises the errors of `run`, unless the block raises one itself.
    """
    stream = OutputStream()
    running = asyncio.ensure_future(run(stream))
    stream.watch(running)
    try:
        yield stream
    except Exception:
        stream.leave()
        with contextlib.suppress(Exception):  # the error of the block is more useful
            await running
        raise
    except BaseException:
        stream.leave()
        running.cancel()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # asyncio warns of an unretrieved exception
        raise
    stream.leave()
    await running


@dataclass(frozen=True, slots=True)
class TerminalEnd:
    """The end of the program on a terminal: `ended` is `wall` if the limit on wall time ended it."""

    exit_code: int
    ended: str


class Terminal:
    """The keys and the screen of a program in a sandbox. `explain` returns the error for a lost sandbox."""

    def __init__(self, exchange: Exchange, explain: Explain) -> None:
        self._exchange = exchange
        self._explain = explain

    async def read(self) -> bytes:
        """Return the next output on the screen, or b"" once the program has ended."""
        data = await self._exchange.read_piece()
        if data:
            self._exchange.send({"verb": "seen", "bytes": len(data)})
        return data

    def type(self, data: bytes) -> None:
        """Press keys. The guest keeps at most 64 KiB that the program has not read yet."""
        self._exchange.send({"verb": "type"}, data)

    async def drain(self) -> None:
        """Wait until the stream to the sandbox has taken most of the keys, so that memory stays bounded."""
        await self._exchange.drain()

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the screen, in characters."""
        self._exchange.send({"verb": "resize", "rows": rows, "columns": columns})

    async def end(self) -> TerminalEnd:
        """Wait for the program's end and return it. Raises SandboxError if the sandbox was lost."""
        try:
            header, _ = await self._exchange.answer
        except ConnectionLost as error:
            raise await self._explain(error) from error
        if "error" in header:
            raise SandboxError(f"the guest could not open a terminal: {str(header['error'])[:500]}")
        return TerminalEnd(int(header["exit_code"]), str(header["ended"]))


@contextlib.asynccontextmanager
async def open_terminal(
    connection: Connection, request: OpenTerminal, explain: Explain
) -> AsyncIterator[Terminal]:
    """Open a terminal and hang it up at the end of the block. Raises SandboxError."""
    try:
        async with connection.exchange({"verb": "terminal", **request}) as exchange:
            yield Terminal(exchange, explain)
    except ConnectionLost as error:
        raise await explain(error) from error
