"""A terminal in a sandbox of a service, over a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from harness.client.connection import Address
from harness.client.errors import Refusal, ServiceUnreachableError, build_error
from harness.errors import UsageError, describe_installation
from harness.sandbox.terminal import TerminalEnd

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_OPEN_SECONDS = 30.0
_CLOSE_SECONDS = 2.0
# The screens that wait for the caller. The program waits once there are more.
_WAITING_SCREENS = 16
_MAX_SCREEN_BYTES = 4 << 20


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
        self._end.exception()  # asyncio warns of an exception that nobody retrieves
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

    Raises UsageError for an invalid request and without the packages of the extra `client`, and HarnessError
    if the service is away.
    """
    try:
        from websockets.asyncio.client import connect
    except ImportError as error:
        raise UsageError(
            "a terminal at a service needs websockets, which is not installed",
            hint=describe_installation("client"),
        ) from error
    size: dict[str, Any] = {"rows": rows, "columns": columns, "timeout_seconds": timeout_seconds}
    query = urlencode([*size.items(), *(("argv", part) for part in argv)], errors="surrogateescape")
    # The library logs the head of the request, which has the token.
    silent = logging.getLogger(f"{__name__}.silent")
    silent.disabled = True
    connecting = connect(
        f"ws{address.url.removeprefix('http')}{path}/terminal?{query}",
        additional_headers={"authorization": f"Bearer {address.token.get_secret_value()}"},
        # The environment's proxies would see the token.
        proxy=None,
        compression=None,
        max_size=_MAX_SCREEN_BYTES,
        open_timeout=_OPEN_SECONDS,
        close_timeout=_CLOSE_SECONDS,
        logger=silent,
    )
    async with contextlib.AsyncExitStack() as stack:
        socket = await _enter(stack, connecting, str(address))
        terminal = RemoteTerminal(socket, str(address))
        tasks = [asyncio.create_task(terminal.pass_screens()), asyncio.create_task(terminal.pass_keys())]
        try:
            yield terminal
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _enter(stack: contextlib.AsyncExitStack, connecting: Any, name: str) -> ClientConnection:
    """Open a WebSocket, which the stack closes. Raises HarnessError."""
    from websockets.exceptions import InvalidHandshake, InvalidStatus

    try:
        socket: ClientConnection = await stack.enter_async_context(connecting)
    except InvalidStatus as error:
        try:
            refused = json.loads(error.response.body or b"")["error"]
            refusal = Refusal(error.response.status_code, str(refused["code"]), str(refused["message"]))
        except (ValueError, LookupError, TypeError):
            raise ServiceUnreachableError(
                f"the server at {name} answered a WebSocket with status {error.response.status_code}",
                hint="let the proxy between pass WebSockets on",
            ) from None
        raise build_error(refusal, name) from None
    except (OSError, TimeoutError, InvalidHandshake) as error:
        raise ServiceUnreachableError(f"no service answers at {name}: {type(error).__name__}") from None
    return socket
