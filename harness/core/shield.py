"""Await work that a cancellation must not leave half done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def complete(work: Awaitable[T]) -> T:
    """Await `work` to its end and return its result. A cancellation meanwhile is raised only then."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # asyncio warns of an unretrieved exception
        raise cancelled
    return task.result()


async def complete_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until all tasks have ended, in whatever way. A cancellation meanwhile is raised only then."""

    async def wait() -> None:
        await asyncio.gather(*tasks, return_exceptions=True)

    await complete(wait())
