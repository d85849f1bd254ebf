"""Start a container, and always destroy it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from harness.core.errors import SandboxError
from harness.core.shield import complete
from harness.sandbox.backends.base import Backend, SandboxSpec, StartedContainer


@asynccontextmanager
async def hold_container(backend: Backend, spec: SandboxSpec) -> AsyncIterator[StartedContainer]:
    """Yield a running container and destroy it at the end of the block, even if the block is cancelled.

    Raises SandboxError if the backend cannot start or destroy it, ImageMissingError if it has no such
    image.
    """
    cancelled = False
    try:
        # Nothing can interrupt the thread that starts the container, so the removal has to wait for its end.
        container = await complete(asyncio.to_thread(backend.start, spec))
        with closing(container):
            yield container
    except asyncio.CancelledError:
        cancelled = True
        raise
    finally:
        try:
            await complete(asyncio.to_thread(backend.destroy, spec.name))
        except SandboxError:
            # The error must not replace a cancellation, because the caller would then retry instead of
            # ending.
            if not cancelled:
                raise
