"""A sandbox of a service, with the face of a local one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from harness.client.connection import (
    REPLY_SECONDS,
    Address,
    Connection,
    Refusal,
    ServiceUnreachableError,
    build_error,
    open_socket,
)
from harness.client.output import RemoteOutputStream, open_remote_output, read_result
from harness.core.errors import HarnessError, UsageError
from harness.core.shield import complete
from harness.sandbox.failures import SandboxClosed
from harness.sandbox.guest.frames import MAX_BODY_BYTES
from harness.sandbox.limits import Limits, bound_seconds
from harness.sandbox.results import ExecResult, OnOutput, encode_stdin
from harness.sandbox.sandbox import KEEP_BYTES
from harness.sandbox.streaming import TerminalEnd

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection


# The screens that wait for the caller. The program waits once there are more.
_WAITING_SCREENS = 16
_MAX_SCREEN_BYTES = 4 << 20
# A sandbox ends this long after its client has gone.
_IDLE_SECONDS = 300.0
_KEEP_ALIVE_SECONDS = 60.0


class RemoteTerminal:
    """The keys and the screen of a program in a sandbox of a service, with the face of `Terminal`.

    A lost connection raises ServiceUnreachableError.
    """

    def __init__(self, socket: ClientConnection, name: str) -> None:
        self._socket = socket
        self._name = name
        self._screens: asyncio.Queue[bytes] = asyncio.Queue(_WAITING_SCREENS)
        self._keys: asyncio.Queue[bytes | str] = asyncio.Queue()
        self._end: asyncio.Future[TerminalEnd] = asyncio.get_running_loop().create_future()

    async def read(self) -> bytes:
        """Return the next output on the screen, or b"" once the program has ended."""
        if self._end.done() and self._screens.empty():
            return b""
        return await self._screens.get()

    def type(self, data: bytes) -> None:
        """Press keys. The guest keeps at most 64 KiB that the program has not read yet."""
        self._keys.put_nowait(data)

    async def drain(self) -> None:
        """Wait until the connection has taken the keys, so that memory stays bounded."""
        draining = asyncio.ensure_future(self._keys.join())
        try:
            await asyncio.wait((draining, self._end), return_when=asyncio.FIRST_COMPLETED)
        finally:
            draining.cancel()

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the screen, in characters."""
        self._keys.put_nowait(json.dumps({"type": "resize", "rows": rows, "columns": columns}))

    async def end(self) -> TerminalEnd:
        """Wait for the program's end and return it. Raises HarnessError if the sandbox was lost."""
        return await asyncio.shield(self._end)

    async def pass_screens(self) -> None:
        """Take messages from the service until the program has ended."""
        from websockets.exceptions import ConnectionClosed

        try:
            while isinstance(message := await self._socket.recv(), bytes):
                await self._screens.put(message)
            self._end.set_result(self._read_end(message))
        except ConnectionClosed:
            self._end.set_exception(
                ServiceUnreachableError(f"the terminal's connection to the service at {self._name} was lost")
            )
        except Exception as error:
            self._end.set_exception(error)
        self._end.exception()  # else asyncio warns of an unretrieved exception
        # Wake a caller that waits for the next screen. None waits while there are some.
        with contextlib.suppress(asyncio.QueueFull):
            self._screens.put_nowait(b"")

    def _read_end(self, text: str) -> TerminalEnd:
        """Return the end of the program in the service's last message. Raises HarnessError for an error."""
        try:
            message = json.loads(text)
            if message.get("type") == "exit":
                return TerminalEnd(int(message["exit_code"]), str(message["ended"]))
            code, reason = str(message["error"]["code"]), str(message["error"]["message"])
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ServiceUnreachableError(f"the server at {self._name} is not harness serve") from None
        # Such an error is about the request or about the loss of the sandbox.
        raise build_error(Refusal(422, code, reason), self._name)

    async def pass_keys(self) -> None:
        """Send the keys in their order until cancelled."""
        from websockets.exceptions import ConnectionClosed

        with contextlib.suppress(ConnectionClosed):  # the other direction reports it
            while True:
                await self._socket.send(await self._keys.get())
                self._keys.task_done()


@contextlib.asynccontextmanager
async def open_remote_terminal(
    address: Address, path: str, argv: Sequence[str], *, rows: int, columns: int, timeout_seconds: float
) -> AsyncIterator[RemoteTerminal]:
    """Yield a terminal with a program on it. The end of the block hangs it up.

    Raises UsageError for an invalid request, and as `open_socket` does.
    """
    size: dict[str, Any] = {"rows": rows, "columns": columns, "timeout_seconds": timeout_seconds}
    query = urlencode([*size.items(), *(("argv", part) for part in argv)], errors="surrogateescape")
    async with open_socket(address, f"{path}/terminal?{query}", most_bytes=_MAX_SCREEN_BYTES) as socket:
        terminal = RemoteTerminal(socket, str(address))
        tasks = [asyncio.create_task(terminal.pass_screens()), asyncio.create_task(terminal.pass_keys())]
        try:
            yield terminal
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class RemoteSandbox:
    """A sandbox of a service. Make it with `Remote.open`, whose block deletes it at its end.

    It has the methods of `Sandbox`, which raise the same errors. A lost connection raises
    ServiceUnreachableError. No command is sent again after that, because it may have acted.
    """

    def __init__(self, connection: Connection, sandbox_id: str, limits: Limits) -> None:
        self._connection = connection
        self._path = f"/v1/sandboxes/{sandbox_id}"
        self._limits = limits
        # The id at the service, which is not a container's.
        self.container_id = sandbox_id
        self._is_closed = False

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes | str = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        keep_bytes: int = KEEP_BYTES,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        """Run a command and return its result, as `Sandbox.exec` does. A cancellation ends the command."""
        if on_output is not None:
            running = self.stream(argv, timeout=timeout, stdin=stdin, env=env, cwd=cwd, keep_bytes=keep_bytes)
            async with running as output:
                async for chunk in output:
                    on_output(chunk.stream, chunk.data)
            return output.result
        self._require_open()
        request, seconds = self._build_exec(argv, timeout, stdin, env, cwd, keep_bytes)
        return read_result(
            await self._connection.fetch("POST", f"{self._path}/exec", values=request, seconds=seconds)
        )

    def stream(
        self,
        argv: Sequence[str],
        *,
        timeout: float | None = None,
        stdin: bytes | str = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        keep_bytes: int = KEEP_BYTES,
    ) -> contextlib.AbstractAsyncContextManager[RemoteOutputStream]:
        """Return a context manager that runs a command and yields its output as it comes.

        It works as `Sandbox.stream` does, except that a command whose block ends early has no result.
        """
        self._require_open()
        request, seconds = self._build_exec(argv, timeout, stdin, env, cwd, keep_bytes)
        return open_remote_output(self._connection, f"{self._path}/exec", request, seconds=seconds)

    def _build_exec(
        self,
        argv: Sequence[str],
        timeout: float | None,
        stdin: bytes | str,
        env: Mapping[str, str] | None,
        cwd: str,
        keep_bytes: int,
    ) -> tuple[dict[str, Any], float]:
        """Return the request, and the seconds that the command can take."""
        if isinstance(argv, str) or not argv or any(type(part) is not str or "\0" in part for part in argv):
            raise UsageError("a command is a non-empty list of strings without NUL bytes")
        request: dict[str, Any] = {
            "argv": list(argv),
            "stdin_base64": base64.b64encode(encode_stdin(stdin)).decode(),
            "environment": dict(env or {}),
            "folder": cwd,
            "keep_bytes": keep_bytes,
            "encoding": "base64",
        }
        if timeout is None:
            return request, self._limits.wall_seconds
        request["timeout_seconds"] = bound_seconds("timeout", timeout)
        return request, request["timeout_seconds"]

    def terminal(
        self, argv: Sequence[str] = ("/bin/bash", "--login"), *, rows: int, columns: int, timeout: float
    ) -> contextlib.AbstractAsyncContextManager[RemoteTerminal]:
        """Return a context manager that runs a program on a terminal, as `Sandbox.terminal` does.

        The sandbox must be opened with `terminals=True`. A terminal has no environment of its own.
        """
        self._require_open()
        return open_remote_terminal(
            self._connection.address,
            self._path,
            argv,
            rows=rows,
            columns=columns,
            timeout_seconds=bound_seconds("timeout", timeout),
        )

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file as `Sandbox.write_file` does. The service bounds its size, by default to 32 MiB."""
        self._require_open()
        await self._connection.request(
            "PUT", self._name_file(path), content=bytes(data), query={"mode": f"{mode:o}"}
        )

    async def read_file(self, path: str, *, limit: int = MAX_BODY_BYTES) -> bytes:
        """Return the content of a file, as `Sandbox.read_file` does."""
        self._require_open()
        content = bytearray()
        replying = self._connection.stream("GET", self._name_file(path), seconds=REPLY_SECONDS)
        async with replying as response:
            with self._connection.catch_lost():
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > limit:
                        raise UsageError(f"cannot read {path}: it has more than {limit} bytes")
        return bytes(content)

    def _name_file(self, path: str) -> str:
        try:
            # Without dots, because libraries resolve '..' in a URL before they send it.
            return f"{self._path}/files/{quote(path).replace('.', '%2E')}"
        except UnicodeEncodeError as error:
            raise UsageError(f"a path cannot have {error.object[error.start]!r} in it") from error

    async def snapshot(self) -> RemoteSnapshot:
        """Return the files of the sandbox, which the service keeps, as `Sandbox.snapshot` does."""
        self._require_open()
        taken = await self._connection.fetch(
            "POST", f"{self._path}/snapshot", values={}, seconds=REPLY_SECONDS
        )
        return RemoteSnapshot(str(taken["name"]), self._limits)

    async def keep_alive(self) -> None:
        """Send a request now and then, so that an unused sandbox lives."""
        while True:
            await asyncio.sleep(_KEEP_ALIVE_SECONDS)
            # The next call of the user reports a sandbox or a service that is gone.
            with contextlib.suppress(HarnessError):
                await self._connection.request("POST", f"{self._path}/keepalive")

    def _require_open(self) -> None:
        if self._is_closed:
            raise SandboxClosed()

    async def delete(self) -> None:
        """End the sandbox, and refuse calls from now on."""
        self._is_closed = True
        await self._connection.request("DELETE", self._path)


@dataclass(frozen=True, slots=True)
class RemoteSnapshot:
    """The files of a sandbox, which a service keeps until ten minutes have passed without a fork."""

    name: str
    limits: Limits


@contextlib.asynccontextmanager
async def open_remote_forks(
    connection: Connection, snapshot: RemoteSnapshot, count: int
) -> AsyncIterator[list[RemoteSandbox]]:
    """Yield new sandboxes of a service with the files of a snapshot. The end of the block deletes them.

    Raises HarnessError if the service cannot open all of them.
    """
    wait = max(connection.wait_seconds, 1.0)
    reply = await connection.fetch(
        "POST",
        f"/v1/snapshots/{quote(snapshot.name, safe='')}/fork",
        values={"count": count, "wait_seconds": wait},
        seconds=wait + REPLY_SECONDS,
    )
    opened = [each["sandbox"] for each in reply["sandboxes"] if each["sandbox"] is not None]
    sandboxes = [RemoteSandbox(connection, str(each["id"]), snapshot.limits) for each in opened]
    failed = [each["error"] for each in reply["sandboxes"] if each["error"] is not None]
    keeping = [asyncio.create_task(each.keep_alive()) for each in sandboxes]
    try:
        if failed:
            reason = Refusal(503, str(failed[0]["code"]), str(failed[0]["message"]))
            raise build_error(reason, str(connection.address))
        yield sandboxes
    finally:
        for task in keeping:
            task.cancel()
        deletions = (complete(each.delete()) for each in sandboxes)
        # They also end without us, at their idle time.
        await asyncio.gather(*keeping, *deletions, return_exceptions=True)


@contextlib.asynccontextmanager
async def open_remote_sandbox(
    connection: Connection, image: str, *, limits: Limits | None, terminals: bool, deadline_seconds: float
) -> AsyncIterator[RemoteSandbox]:
    """Yield a new sandbox of a service. The end of the block deletes it.

    Raises HarnessError if the service cannot open it.
    """
    # A request waits at the service, and between its tries.
    half = connection.wait_seconds / 2
    request = {
        "image": image,
        # The service refuses a limit that it does not have.
        "limits": {} if limits is None else limits.model_dump(exclude_defaults=True),
        "terminals": terminals,
        "deadline_seconds": bound_seconds("deadline_seconds", deadline_seconds),
        "idle_seconds": _IDLE_SECONDS,
        "wait_seconds": max(half, 1.0),
    }
    opened = await connection.fetch(
        "POST", "/v1/sandboxes", values=request, seconds=max(half, 1.0), retry_seconds=half
    )
    sandbox = RemoteSandbox(connection, str(opened["id"]), limits or Limits())
    keeping = asyncio.create_task(sandbox.keep_alive())
    try:
        yield sandbox
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        # It also ends without us, at its idle time.
        with contextlib.suppress(HarnessError):
            await complete(sandbox.delete())
