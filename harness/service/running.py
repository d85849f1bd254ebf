"""A whole service: its operations behind an HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from harness.errors import UsageError, describe_installation
from harness.logger import get_logger
from harness.sandbox.backends.base import Backend
from harness.service.settings import ServiceSettings
from harness.version import __version__

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from harness.benchmarks import Benchmark
    from harness.service.operations import Operation
    from harness.service.service import Service

_LOGGER = get_logger(__name__)


def list_operations() -> tuple[Operation, ...]:
    """Return all operations of the service. To add some, import their file here and list them."""
    from harness.service import status
    from harness.service.sandboxes import endpoints as sandboxes
    from harness.service.verdicts import benchmark_list, grade, rewards, run_code

    return (
        *benchmark_list.OPERATIONS,
        *grade.OPERATIONS,
        *rewards.OPERATIONS,
        *run_code.OPERATIONS,
        *sandboxes.OPERATIONS,
        *status.OPERATIONS,
    )


@contextlib.asynccontextmanager
async def open_routes(service: Service) -> AsyncIterator[list[BaseRoute]]:
    """Yield the routes that are no operations: those of WebSockets and of the Model Context Protocol."""
    from harness.service.mcp.endpoints import open_mcp_endpoints
    from harness.service.openenv import endpoint as openenv
    from harness.service.sandboxes import terminal
    from harness.service.web_sockets import make_socket_route

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
        from harness.service.app import make_service_app
        from harness.service.openapi import make_description_operations
        from harness.service.server import serve
        from harness.service.service import open_service
    except ImportError as error:
        raise _explain_missing(error) from error
    operations = list_operations()
    operations += make_description_operations(operations)
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
    """Return an event loop that spends less processor time on each request than that of asyncio.

    Raises UsageError if the packages of the extra `serve` are not installed.
    """
    try:
        import uvloop
    except ImportError as error:
        raise _explain_missing(error) from error
    return uvloop.new_event_loop()


def _explain_missing(error: ImportError) -> UsageError:
    return UsageError(
        f"the service needs packages that are not installed: {error}",
        hint=describe_installation("serve"),
    )
