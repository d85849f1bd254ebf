"""The HTTP server of the service: it listens, and drains when it is asked to end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from harness.core.errors import UsageError, describe_installation
from harness.core.logger import get_logger
from harness.core.version import __version__
from harness.sandbox.backends.base import Backend
from harness.service.connections import LAST_SECONDS, MOST_CONNECTIONS, BoundedConnection, BoundedWebSocket
from harness.service.settings import ServiceSettings

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp

    from harness.benchmarks.benchmark import Benchmark
    from harness.service.operations import OperationRoute
    from harness.service.service import Service


_LOGGER = get_logger(__name__)
# For sandboxes, their streams, the engine and modules that are imported late.
_OTHER_FILES = 1024
# A client that opens a connection for each request, 256 at once, must not be refused by the kernel.
_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 30
_MOST_KEPT_BYTES = 1024 * 1024
# The idle time before a keep-alive probe of TCP, in whole seconds.
_PROBE_SECONDS = 15
_POLL_SECONDS = 0.005
# The time for the requests that are cut off at the end. Their sandboxes are destroyed meanwhile.
_CLEANUP_SECONDS = LAST_SECONDS + 10
_HINTS = {
    errno.EADDRINUSE: "choose another port with --port N, or 0 for a free one",
    errno.EACCES: "choose a port from 1024 with --port N, or 0 for a free one",
    errno.EADDRNOTAVAIL: "give an address of this machine with --host, or 0.0.0.0 for all of them",
}


def list_operations() -> list[OperationRoute]:
    """Return all operations of the service. To add some, import their file here and list them."""
    from harness.service import metrics
    from harness.service.sandboxes import endpoints as sandboxes
    from harness.service.sandboxes import snapshots
    from harness.service.verdicts import grade, rewards, run_code

    files = (grade, rewards, run_code, sandboxes, snapshots, metrics)
    return [cast("OperationRoute", each) for file in files for each in file.router.routes]


@contextlib.asynccontextmanager
async def open_routes(service: Service) -> AsyncIterator[list[BaseRoute]]:
    """Yield the routes that are not operations: WebSockets and the Model Context Protocol."""
    from harness.service import openenv
    from harness.service.mcp import open_mcp_endpoints
    from harness.service.sandboxes import terminal
    from harness.service.sandboxes.terminal import make_socket_route

    async with open_mcp_endpoints(service) as mcp:
        yield [
            make_socket_route(terminal.PATH, "terminal", service, terminal.serve_terminal),
            make_socket_route(openenv.PATH, "openenv", service, openenv.serve_openenv),
            *mcp.list_routes(),
        ]


@contextlib.asynccontextmanager
async def run_service(
    settings: ServiceSettings,
    *,
    token: str,
    host: str = "127.0.0.1",
    port: int = 0,
    backend: Backend | None = None,
) -> AsyncIterator[str]:
    """Yield the URL of a service. The end of the block drains it and destroys its sandboxes.

    Args:
        settings: the settings of the service.
        token: the token that clients must send.
        host: the address to listen at.
        port: the port, 0 for a free one.
        backend: starts the sandboxes, by default the Docker engine of the environment.

    Raises:
        UsageError: if the address cannot be used, or the packages of the extra `serve` are not installed.
        EngineUnavailableError: if no engine answers.
        ImageMissingError: if an image was not built. `harness setup` builds it.
    """
    try:
        from harness.service.app import describe, make_service_app
        from harness.service.service import open_service

        operations = list_operations()
        operations += describe(operations)
    except ImportError as error:
        raise _explain_missing(error) from error
    has_listened = False
    try:
        async with (
            open_service(settings, backend=backend, notify=_LOGGER.warning) as service,
            open_routes(service) as routes,
        ):
            app = make_service_app(service, token, operations, routes)
            async with serve(app, service, host=host, port=port) as url:
                served = {each.name: _describe(each) for each in settings.benchmarks}
                _LOGGER.info("listening", extra={"url": url, "version": __version__, "benchmarks": served})
                has_listened = True
                yield url
    finally:
        if has_listened:
            _LOGGER.info("ended")


def _describe(benchmark: Benchmark) -> dict[str, str | int]:
    source = benchmark.source
    data = "bundled sample" if source.kind == "bundled" else f"{source.kind}: {source.location}"
    return {"tasks": len(benchmark.tasks), "data": data, "sha256": source.sha256}


def make_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop that spends less processor time on each request than asyncio's.

    Raises UsageError if the packages of the extra `serve` are not installed.
    """
    try:
        import uvloop
    except ImportError as error:
        raise _explain_missing(error) from error
    return uvloop.new_event_loop()


def _explain_missing(error: ImportError) -> UsageError:
    return UsageError(
        f"the service needs packages that are not installed: {error}", hint=describe_installation("serve")
    )


def raise_limit(connections: int) -> str | None:
    """Raise the limit of open files of this process as far as so many connections need it.

    Returns a warning if the limit stays too low for them, otherwise None.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return None
    limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if limit > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if limit == needed:
        return None
    return (
        f"this process may open {limit:,} files, which is too few for {connections:,} connections; "
        f"raise the limit to {needed:,} (ulimit -n, or LimitNOFILE of systemd)"
    )


class _Server(uvicorn.Server):
    """A server that leaves signals to the command line, which cleans up after all parts of the service."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.asynccontextmanager
async def serve(app: ASGIApp, service: Service, *, host: str, port: int) -> AsyncIterator[str]:
    """Yield the URL of the app. The end of the block drains it.

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
            # Above our own bound, whose refusal names it.
            h11_max_incomplete_event_size=_MOST_KEPT_BYTES,
            ws=BoundedWebSocket,
            log_config=None,
            # A client must not fill the log with warnings about its requests.
            log_level=logging.ERROR,
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
            yield f"http://{f'[{name}]' if ':' in name else name}:{number}"
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
        # The connections also have these options. Otherwise a machine that vanishes would keep its own.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"):
            if hasattr(socket, option):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), _PROBE_SECONDS)
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
