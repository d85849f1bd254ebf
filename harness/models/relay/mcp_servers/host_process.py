"""The program of an MCP server on the host, whose whole process tree ends with a block."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import httpx2

from harness.core.inputs.json_text import ValueCounter
from harness.core.shield import complete
from harness.models.relay.mcp_server import MAX_MESSAGE_BYTES
from harness.sandbox.host_programs.program import HostProgram, ProgramEnd, open_program

# The variables that a program gets without naming them. No key of a model is among them.
INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
# How long a program may take to exit after its standard input was closed.
GRACE_SECONDS = 2.0
# The end of standard error that is kept.
KEPT_BYTES = 4096
# How long the reason for the end of a program may arrive after its last message.
REASON_SECONDS = 1.0
READ_BYTES = 64 * 1024
# The server sets the pause before a reconnection, and may set none. This many reconnections are made without
# a further pause. Each one after them waits until this time has passed since the one before it.
FREE_RECONNECTIONS = 20
RECONNECTION_SECONDS = 1.0
_EVENTS = "text/event-stream"
_DATA = b"data:"


@dataclass(slots=True)
class HostProcess:
    """A running program."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    _program: HostProgram
    _errors: bytearray = field(default_factory=bytearray)
    # The bound that the program broke, so that its connection was closed. None otherwise.
    _broken: str | None = None

    @property
    def fault(self) -> str | None:
        """The bound that the program broke, or the fault of its end. None otherwise."""
        end = self._program.ended
        return self._broken or (None if end is None else end.fault)

    @property
    def errors(self) -> str:
        """The end of what the program wrote to standard error."""
        return self._errors.decode("utf-8", "backslashreplace").strip()

    def note_fault(self, reason: str) -> None:
        """Note the bound that the program broke."""
        self._broken = reason

    async def wait_for_reason(self) -> None:
        """Wait a moment for the exit of a program that has closed its standard output."""
        if self.stdout.at_eof():
            await self._program.wait_at_most(REASON_SECONDS)

    async def wait(self) -> ProgramEnd:
        """Wait for the end of the program and of all its processes.

        Raises CannotSuperviseError if it was not started.
        """
        return await self._program.wait()

    async def keep_errors(self) -> None:
        """Read standard error to its end, and keep the last KEPT_BYTES."""
        while data := await self._program.stderr.read(READ_BYTES):
            self._errors += data
            del self._errors[:-KEPT_BYTES]

    async def end(self) -> ProgramEnd | None:
        """End the program: by the end of its input, then by a signal to its whole process tree."""
        self.stdin.close()
        if self._broken is None:
            await self._program.wait_at_most(GRACE_SECONDS)
        await self._program.end()
        return self._program.ended


@contextlib.asynccontextmanager
async def open_host_process(
    command: Sequence[str], *, env: Mapping[str, str], note_unclean: Callable[[str], None] | None = None
) -> AsyncIterator[HostProcess]:
    """Start a program and yield it. Its process tree ends with the block, and with this process.

    Args:
        command: the program and its arguments.
        env: the variables of its environment, in addition to INHERITED.
        note_unclean: called with the fault of an end that was not clean.

    Raises CannotSuperviseError if this machine cannot start one more program.
    """
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    async with open_program(
        command, env={**inherited, **env}, has_input=True, line_bytes=MAX_MESSAGE_BYTES
    ) as program:
        if program.stdin is None:
            raise AssertionError("unreachable: it is a pipe")
        server = HostProcess(program.stdin, program.stdout, program)
        draining = asyncio.create_task(server.keep_errors())
        try:
            yield server
        finally:
            try:
                end = await complete(server.end())
                if end is not None and end.fault is not None and note_unclean is not None:
                    note_unclean(end.fault)
            finally:
                draining.cancel()


@dataclass(frozen=True, slots=True)
class ResponseBounds:
    """The bounds of one response."""

    most_bytes: int
    # The most values in the JSON of the response, or of each of its events.
    most_values: int
    most_events: int


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Fails a response that breaks a bound, or is compressed, because it could expand."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, bounds: ResponseBounds) -> None:
        self._inner = inner
        self._bounds = bounds
        self._reconnections = _Pace(FREE_RECONNECTIONS, RECONNECTION_SECONDS)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":
            await self._reconnections.wait()
        response = await self._inner.handle_async_request(request)
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            await response.aclose()
            raise httpx2.RemoteProtocolError(f"the response is compressed ({encoding[:50]})", request=request)
        stream = response.stream
        if not isinstance(stream, httpx2.AsyncByteStream):
            raise AssertionError("unreachable: an async transport returns a stream of its kind")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == _EVENTS:
            # Events are in UTF-8. In the encoding of another `charset`, their values could not be counted.
            response.headers["content-type"] = _EVENTS
        response.stream = _BoundedStream(stream, self._bounds, is_events=kind == _EVENTS)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Pace:
    """Lets `free` calls pass at once, and each further one `seconds` after the one before it."""

    def __init__(self, free: int, seconds: float) -> None:
        self._free = free
        self._seconds = seconds
        self._next = float("-inf")

    async def wait(self) -> None:
        now = asyncio.get_running_loop().time()
        self._next = max(self._next, now - self._free * self._seconds) + self._seconds
        if self._next > now:
            await asyncio.sleep(self._next - now)


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, bounds: ResponseBounds, *, is_events: bool) -> None:
        self._inner = inner
        self._bounds = bounds
        self._is_events = is_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        counted = _EventValues() if self._is_events else ValueCounter()
        size = 0
        async for data in self._inner:
            size += len(data)
            if size > self._bounds.most_bytes:
                raise self._fail(f"the response is longer than {self._bounds.most_bytes:,} bytes")
            counted.add(data)
            self._check(counted)
            yield data
        if isinstance(counted, _EventValues):
            counted.end()
            self._check(counted)

    def _check(self, counted: ValueCounter | _EventValues) -> None:
        if counted.total > self._bounds.most_values:
            raise self._fail(f"a message has more than {self._bounds.most_values:,} values")
        if isinstance(counted, _EventValues) and counted.events > self._bounds.most_events:
            raise self._fail(f"the response has more than {self._bounds.most_events:,} messages")

    def _fail(self, reason: str) -> Exception:
        """Return the exception that fails one call. The package ends the connection by any other."""
        return httpx2.SSEError(reason) if self._is_events else httpx2.StreamError(reason)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _EventValues:
    """Counts the values in the events of a stream, which an empty line separates."""

    def __init__(self) -> None:
        self.events = 0
        # The most values of an event so far, including the present one.
        self.total = 0
        self._values = ValueCounter()
        self._lines = 0
        self._rest = bytearray()

    def add(self, text: bytes) -> None:
        """Count the values in the next bytes of the stream."""
        self._rest += text
        # A line ends with CR, LF or both. The LF of a CR at the end may be on its way.
        end = max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r", 0, len(self._rest) - 1)) + 1
        whole = bytes(self._rest[:end])
        del self._rest[:end]
        for line in whole.splitlines():
            self._add_line(line)

    def end(self) -> None:
        """Count the values in a last line, which the package reads although it has no end."""
        for line in bytes(self._rest).splitlines():
            self._add_line(line)

    def _add_line(self, line: bytes) -> None:
        if not line:
            self.events += self._lines > 0
            self._values, self._lines = ValueCounter(), 0
            return
        # The package keeps each line of an event as a text.
        self._lines += 1
        if line.startswith(_DATA):
            self._values.add(line[len(_DATA) :])
        self.total = max(self.total, self._values.total + self._lines)
