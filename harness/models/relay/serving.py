"""A server for an app whose connections are handed to it one by one, so that no port of the host is open."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from harness.core.errors import UsageError, describe_installation
from harness.models.relay.mcp_server import EnvironmentTools, load_library
from harness.models.relay.mcp_streams import MessageWriter, open_message_streams

if TYPE_CHECKING:
    from starlette.types import ASGIApp


# More connections at once than a program opens for two hundred requests.
MAX_CONNECTIONS = 256
# Every user of the host can open connections to a port of 127.0.0.1 and send nothing.
WAIT_IF_FULL_SECONDS = 1.0
# The longest time that a client may take to read the last responses.
LAST_RESPONSES_SECONDS = 5.0


class AppServer:
    """Serves an app on the sockets that `accept` takes over, while its block lasts."""

    def __init__(self, make_protocol: Callable[[], asyncio.Protocol], state: Any, most: int) -> None:
        self._make_protocol = make_protocol
        self._state = state
        self._most = most
        self._starting: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def accept(self, connected: socket.socket) -> None:
        """Serve one connected stream socket, which this server closes.

        If the server is full, the connection that has waited longest for a whole request is closed instead.
        If none has waited for WAIT_IF_FULL_SECONDS, the new connection is closed at once. The event loop of
        the server must call this.
        """
        is_full = len(self._state.connections) + len(self._starting) >= self._most
        if self._is_closed or (is_full and not self._make_room()):
            connected.close()
            return
        connected.setblocking(False)
        task = asyncio.get_running_loop().create_task(self._start(connected))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    def _make_room(self) -> bool:
        slowest = max(self._state.connections, key=lambda each: each.waiting_seconds, default=None)
        if slowest is None or slowest.waiting_seconds < WAIT_IF_FULL_SECONDS:
            return False
        slowest.transport.abort()
        return True

    async def _start(self, connected: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._make_protocol, connected)
        except BaseException as error:
            connected.close()
            if not isinstance(error, OSError):
                raise

    async def close(self) -> None:
        """Close all connections, and end their requests. Returns when nothing of the app runs any more."""
        self._is_closed = True
        for task in list(self._starting):
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for connection in list(self._state.connections):
            connection.transport.abort()
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # The transports close their sockets in the next round of the loop.
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def serve_app(app: ASGIApp, *, max_connections: int = MAX_CONNECTIONS) -> AsyncIterator[AppServer]:
    """Yield a server for an app. The end of the block closes all its connections.

    Raises UsageError if the packages of the extra `relay` are not installed.
    """
    protocol = _import_protocol()
    from uvicorn.server import ServerState

    config, state = protocol.make_config(app), ServerState()
    server = AppServer(lambda: protocol.make_protocol(config, state), state, max_connections)
    try:
        yield server
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def listen_on_loopback(
    app: ASGIApp, *, port: int = 0, max_connections: int = MAX_CONNECTIONS
) -> AsyncIterator[str]:
    """Yield the URL of an app on a port of 127.0.0.1, by default a free one, for a program of this host.

    Raises UsageError if the port is taken, and if the packages of the extra `relay` are not installed.
    """
    async with serve_app(app, max_connections=max_connections) as server:
        # Without the number of its protocol, a socket delays small packets.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        with listener:
            _bind(listener, port)
            listener.listen(128)
            listener.setblocking(False)
            accepting = asyncio.create_task(_accept_all(listener, server))
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                accepting.cancel()
                await asyncio.gather(accepting, return_exceptions=True)


def _bind(listener: socket.socket, port: int) -> None:
    if port:
        # Otherwise the port of a server that has just ended could not be used for a minute.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(
            f"port {port} of 127.0.0.1 cannot be used: {error.strerror}",
            hint="choose another one with --port N, or leave it out to get a free one",
        ) from error


async def _accept_all(listener: socket.socket, server: AppServer) -> None:
    loop = asyncio.get_running_loop()
    while True:
        try:
            connected, _ = await loop.sock_accept(listener)
        except OSError:
            # The host has no descriptor left, or the client has gone. A busy loop would help neither.
            await asyncio.sleep(0.1)
            continue
        server.accept(connected)


def _import_protocol() -> Any:
    try:
        from harness.models.relay import exchange
    except ImportError as error:
        raise UsageError(
            f"the relay needs the packages uvicorn and starlette: {error}",
            hint=describe_installation("relay"),
        ) from error
    return exchange


async def serve_stdio(tools: EnvironmentTools, reader: asyncio.StreamReader, writer: MessageWriter) -> None:
    """Serve a client until it closes its stream or submits an answer.

    Raises the exception that ended the environment, and UsageError if the package is not installed.
    """
    load_library()
    server = tools.make_server()
    async with open_message_streams(reader, writer, answers_all=True) as streams:
        serving = asyncio.create_task(
            server.run(streams.read, streams.write, server.create_initialization_options())
        )
        ending = asyncio.create_task(tools.wait_until_over())
        try:
            await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(streams.answered.wait(), LAST_RESPONSES_SECONDS)
        finally:
            for task in (serving, ending):
                task.cancel()
            await asyncio.wait((serving, ending))
    if not serving.cancelled():
        # A client that breaks the protocol or leaves costs its own session only.
        serving.exception()
    if not ending.cancelled():
        ending.exception()
    tools.raise_failure()
