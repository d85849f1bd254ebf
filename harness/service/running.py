"""A whole service: its operations behind an HTTP server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from harness.errors import UsageError
from harness.logger import get_logger
from harness.sandbox.backends.base import Backend
from harness.service.settings import ServiceSettings

if TYPE_CHECKING:
    from harness.service.operations import Operation

_LOGGER = get_logger(__name__)


def list_operations() -> tuple[Operation, ...]:
    """Return all operations of the service. To add some, import their file here and list them."""
    from harness.service import grade, rewards, run_code, status

    return (*grade.OPERATIONS, *rewards.OPERATIONS, *run_code.OPERATIONS, *status.OPERATIONS)


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
        raise UsageError(
            f"the service needs packages that are not installed: {error}",
            hint="run: pip install 'harness[serve]'",
        ) from error
    operations = list_operations()
    operations += make_description_operations(operations)
    async with open_service(settings, backend=backend, notify=_LOGGER.warning) as service:
        app = make_service_app(service, token, operations)
        async with serve(app, service, host=host, port=port) as url:
            yield url
