"""The package `mcp`, which only some users need and which takes most of a second to import."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TypeVar

from harness.core.errors import UsageError, describe_installation

T = TypeVar("T")
# The largest message that either side of the protocol may send, in bytes.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
# The most values in the JSON of a message. The package checks each of them while all attempts of the run
# wait, and keeps up to five errors for each.
MAX_MESSAGE_VALUES = 50_000
# The same for a message of an agent's program, whose calls hold few values.
MAX_CALL_VALUES = 5_000
# A larger message is read in a thread, so that the other attempts of the run go on.
THREAD_BYTES = 256 * 1024


def load_library() -> None:
    """Import the package mcp. Raises UsageError if it is not installed."""
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the Model Context Protocol needs the package mcp: {error}",
            hint=describe_installation("mcp"),
        ) from error
    # Without a handler, Python prints the warnings of the package, which quote bytes of the other side.
    logger = logging.getLogger("mcp")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


@contextlib.asynccontextmanager
async def keep_open(resource: contextlib.AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Open a resource of the package on a task apart, and yield it.

    The package opens task groups. One around the block would wrap an exception of the block in a group, and
    cancel the block when the other side breaks the protocol.
    """
    opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    ending = asyncio.Event()

    async def hold() -> None:
        try:
            async with resource as value:
                opened.set_result(value)
                await ending.wait()
        except BaseException as error:
            if opened.done():
                raise
            opened.set_exception(error)

    holder = asyncio.create_task(hold())
    try:
        # The holder's exception arrives by the future.
        yield await asyncio.shield(opened)
    finally:
        ending.set()
        if not opened.done():
            holder.cancel()
        await _wait_for_end(holder, opened)


async def _wait_for_end(holder: asyncio.Task[None], opened: asyncio.Future[T]) -> None:
    """Wait until the resource is closed, also if the caller is cancelled meanwhile."""
    cancelled = False
    while not holder.done():
        try:
            await asyncio.wait([holder])
        except asyncio.CancelledError:
            cancelled = True
            holder.cancel()
    if not holder.cancelled():
        # A fault while the resource closes concerns the other side alone, which is gone.
        holder.exception()
    if opened.done() and not opened.cancelled():
        opened.exception()
    if cancelled:
        raise asyncio.CancelledError
