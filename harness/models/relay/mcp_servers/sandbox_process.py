"""A program of a server in a sandbox, whose standard streams are connections of a relay."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import SandboxError
from harness.core.shield import complete
from harness.models.relay.mcp_server import MAX_MESSAGE_BYTES
from harness.sandbox.results import ExecResult
from harness.sandbox.sandbox import Sandbox

LAUNCHER = Path(__file__).with_name("launcher.py")
PYTHON = ("/usr/bin/python3", "-I", "-S", "-B", "-")
TOKEN_BYTES = 32
# The connections that are carried at the same time: the two of the program, and some that are refused.
MOST_CONNECTIONS = 8
# How long a program may take to exit after its standard input was closed.
GRACE_SECONDS = 2.0
# How long a connection may take to show the token.
TOKEN_SECONDS = 10.0
# How long the reason for the end of a program may arrive after its last message.
REASON_SECONDS = 1.0
# The end of standard error that is kept.
KEPT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """The sandbox that a server's program runs in."""

    sandbox: Sandbox
    # The longest time that the program may run, in seconds.
    seconds: float
    # The folder whose programs come first on the PATH, None for none.
    programs: str | None = None
    # Is called before the program starts. In the sandbox of a task, the agent answers for it from then on.
    note_acting: Callable[[], None] = lambda: None

    @property
    def work_folder(self) -> str:
        """The folder where the program starts, and the agent's shell in the sandbox of a task."""
        return self.sandbox.environment["HOME"]


@dataclass(slots=True)
class SandboxProcess:
    """A running program."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    _running: asyncio.Task[ExecResult]
    _errors: bytearray
    # The bound that the program broke, so that its connection was closed. None otherwise.
    _broken: str | None = None

    @property
    def fault(self) -> str | None:
        """The bound or the limit that the program reached, or the loss of its sandbox. None otherwise."""
        if self._broken is not None or not self._running.done() or self._running.cancelled():
            return self._broken
        if (error := self._running.exception()) is not None:
            return f"its sandbox failed: {error}"
        limit = self._running.result().limit
        return None if limit is None else f"ended at the limit {limit} of its sandbox"

    @property
    def errors(self) -> str:
        """The end of what the program wrote to standard error."""
        return self._errors.decode("utf-8", "backslashreplace").strip()

    def note_fault(self, reason: str) -> None:
        """Note the bound that the program broke."""
        self._broken = reason

    async def wait_for_reason(self) -> None:
        """Wait a moment for the result of a program that has closed its standard output."""
        if self.stdout.at_eof():
            await asyncio.wait([self._running], timeout=REASON_SECONDS)


@contextlib.asynccontextmanager
async def open_sandbox_process(
    place: ServerPlace, command: Sequence[str], *, env: Mapping[str, str]
) -> AsyncIterator[SandboxProcess]:
    """Start a program in a sandbox and yield it. It is killed at the end of the block, if it still runs.

    The processes that it started end with the agent's processes, or with the sandbox.

    Args:
        place: the sandbox.
        command: the program and its arguments.
        env: the variables of its environment, in addition to those that every program in the sandbox has.

    Raises ConnectionError if the program cannot be started, and SandboxError if the sandbox fails meanwhile.
    """
    token = secrets.token_hex(TOKEN_BYTES)
    doors = _Doors(token)
    errors = bytearray()

    def keep_errors(stream: str, data: bytes) -> None:
        if stream == "stderr":
            errors.extend(data)
            del errors[:-KEPT_BYTES]

    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(doors.close)
        place.note_acting()
        port = await stack.enter_async_context(_open_relay(place.sandbox, doors.accept))
        order = {"port": port, "token": token, "argv": list(command), "env": _add_path(place, env)}
        script = f"{LAUNCHER.read_text(encoding='utf-8')}\nmain({order!a})\n"
        running = asyncio.create_task(
            place.sandbox.exec(PYTHON, stdin=script, timeout=place.seconds, on_output=keep_errors)
        )
        stack.push_async_callback(_end, running)
        program = SandboxProcess(*await _wait_for_streams(doors, running, errors), running, errors)
        try:
            yield program
        finally:
            program.stdin.close()
            if program.fault is None:
                await complete(asyncio.wait([running], timeout=GRACE_SECONDS))


def _add_path(place: ServerPlace, env: Mapping[str, str]) -> dict[str, str]:
    path = place.sandbox.environment["PATH"]
    return {"PATH": path if place.programs is None else f"{place.programs}:{path}", **env}


async def _end(running: asyncio.Task[ExecResult]) -> None:
    """Kill the program, and wait until its request is over."""
    running.cancel()
    await complete(asyncio.wait([running]))
    if not running.cancelled():
        running.exception()  # asyncio warns of an exception that is not retrieved


@contextlib.asynccontextmanager
async def _open_relay(sandbox: Sandbox, accept: Callable[[socket.socket], None]) -> AsyncIterator[int]:
    """Yield a port of the sandbox. Raises SandboxError if it cannot be opened.

    A sandbox that is lost later ends the connections. If it is the task's, the next request of the
    environment reports the loss.
    """
    async with contextlib.AsyncExitStack() as stack:
        relay = sandbox.relay(accept, max_connections=MOST_CONNECTIONS)
        listener = await stack.enter_async_context(relay)
        try:
            yield listener.port
        finally:
            with contextlib.suppress(SandboxError):
                await stack.aclose()


async def _wait_for_streams(
    doors: _Doors, running: asyncio.Task[ExecResult], errors: bytearray
) -> tuple[asyncio.StreamWriter, asyncio.StreamReader]:
    """Return the standard input and output of the program once both are connected."""
    waiting: list[asyncio.Future[Any]] = [doors.opened, running]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if doors.opened.done():
        return doors.opened.result()
    code = running.result().exit_code
    reason = errors.decode("utf-8", "backslashreplace").strip()
    raise ConnectionError(f"it ended with exit code {code} before it was connected: {reason}")


class _Doors:
    """Lets the two connections of a program in, which show the token, and closes all others."""

    def __init__(self, token: str) -> None:
        self._lines = [f"{number}{token}\n".encode() for number in (0, 1)]
        self._streams: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}
        # The streams that are connected, or about to be.
        self._numbers: set[int] = set()
        self._admitting: set[asyncio.Task[None]] = set()
        self.opened: asyncio.Future[tuple[asyncio.StreamWriter, asyncio.StreamReader]] = (
            asyncio.get_running_loop().create_future()
        )

    def accept(self, connected: socket.socket) -> None:
        """Take over a connection. The event loop must call this."""
        if self.opened.done():
            connected.close()
            return
        task = asyncio.create_task(self._admit(connected))
        self._admitting.add(task)
        task.add_done_callback(self._admitting.discard)

    async def close(self) -> None:
        """Close all connections."""
        self.opened.cancel()
        # A task leaves the set when it is done.
        admitting = list(self._admitting)
        for task in admitting:
            task.cancel()
        if admitting:
            await complete(asyncio.wait(admitting))
        for _, writer in self._streams.values():
            writer.transport.abort()
        # The transports close their sockets in the next round of the loop.
        await asyncio.sleep(0)

    async def _admit(self, connected: socket.socket) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(connected.close)
            number = await self._read_number(connected)
            if number is None or number in self._numbers:
                return
            self._numbers.add(number)
            stack.pop_all()
            self._streams[number] = await asyncio.open_connection(sock=connected, limit=MAX_MESSAGE_BYTES)
        if len(self._streams) == len(self._lines):
            self.opened.set_result((self._streams[0][1], self._streams[1][0]))

    async def _read_number(self, connected: socket.socket) -> int | None:
        """Return the number of the stream that a connection is for, None if it does not show the token."""
        loop, line, size = asyncio.get_running_loop(), b"", len(self._lines[0])
        try:
            async with asyncio.timeout(TOKEN_SECONDS):
                while len(line) < size and (data := await loop.sock_recv(connected, size - len(line))):
                    line += data
        except OSError:  # a timeout is also one
            return None
        for number, expected in enumerate(self._lines):
            if hmac.compare_digest(line, expected):
                return number
        return None
