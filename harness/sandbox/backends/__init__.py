"""The backends, and the default one for a sandbox whose caller names none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from harness.sandbox.backends.base import Backend


@contextlib.asynccontextmanager
async def open_default_backend() -> AsyncIterator[Backend]:
    """Yield a backend that is connected to the Docker engine of the environment.

    Raises EngineUnavailableError.
    """
    from harness.sandbox.backends.docker.backend import connect

    backend = await asyncio.to_thread(connect)
    try:
        yield backend
    finally:
        backend.close()
