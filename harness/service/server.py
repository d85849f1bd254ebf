"""The HTTP server of the service: it listens, and drains when it is asked to end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import uvicorn

from harness.errors import UsageError
from harness.logger import get_logger
from harness.service.connections import LAST_SECONDS, MOST_CONNECTIONS, BoundedConnection, BoundedWebSocket
from harness.service.open_files import raise_limit

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from harness.service.service import Service

# A client that opens a connection for each request, 256 at once, must not be refused by the kernel.
_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 30
_POLL_SECONDS = 0.005
# The time for the requests that are cut off at the end. Their sandboxes are destroyed meanwhile.
_CLEANUP_SECONDS = LAST_SECONDS + 10
_HINTS = {
    errno.EADDRINUSE: "choose another port with --port N, or 0 for a free one",
    errno.EACCES: "choose a port from 1024 with --port N, or 0 for a free one",
    errno.EADDRNOTAVAIL: "give an address of this machine with --host, or 0.0.0.0 for all of them",
}

_LOGGER = get_logger(__name__)


class _Server(uvicorn.Server):
    """A server that leaves signals to the command line, which cleans up after all parts of the service."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serve(app: ASGIApp, service: Service, *, host: str, port: int) -> AsyncIterator[str]:
    """Yield the URL at which the app answers. The end of the block drains it.

    Requests under way get `drain_seconds` to end, and new ones are refused meanwhile.

    Args:
        app: the app of the service.
        service: the service.
        host: the address to listen at.
        port: the port, 0 for a free one.

    Raises:
        UsageError: if the address cannot be used.
    """
    if warning := raise_limit(MOST_CONNECTIONS):
        _LOGGER.warning("%s", warning)
    with _bind(host, port) as listener:
        name, number = listener.getsockname()[:2]
        config = uvicorn.Config(
            app,
            http=BoundedConnection,
            ws=BoundedWebSocket,
            log_config=None,
            access_log=False,
            # A client could name another address in a header, and so take the shares of many clients.
            proxy_headers=False,
            server_header=False,
            backlog=_BACKLOG,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_CLEANUP_SECONDS,
            lifespan="off",
            ws_max_size=service.settings.limits.message_bytes,
            # Compression would cost a window of memory for each connection.
            ws_per_message_deflate=False,
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await _wait_for_start(server, serving)
            yield f"http://{_write_host(name)}:{number}"
        finally:
            await service.drain()
            server.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)


async def _wait_for_start(server: uvicorn.Server, serving: asyncio.Task[Any]) -> None:
    while not server.started:
        if serving.done():
            serving.result()
            raise UsageError("the server ended before it could listen")
        await asyncio.sleep(_POLL_SECONDS)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise UsageError(f"the service cannot listen at {host}: {error.strerror}") from error
    try:
        # Otherwise the port of a service that has just ended could not be used for a minute.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"the service cannot listen at {host} port {port}: {error.strerror}",
            hint=_HINTS.get(error.errno or 0),
        ) from error
    return listener


def _write_host(name: str) -> str:
    return f"[{name}]" if ":" in name else name
