"""The engine of a host: connect to it, find the images, and remove the containers of dead and ended work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from harness.core.errors import SandboxError
from harness.core.shield import complete
from harness.sandbox.backends import BackendName, open_default_backend
from harness.sandbox.backends.base import Backend, BackendFacts
from harness.sandbox.reaper import remove_orphans, remove_run


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that responds, with its facts, which have the ids of the images."""

    backend: Backend
    facts: BackendFacts


@contextlib.asynccontextmanager
async def open_engine(
    images: Sequence[str],
    *,
    runtime: str = "runc",
    backend: Backend | BackendName = "auto",
    allow_weaker: bool = False,
    notify: Callable[[str], None],
) -> AsyncIterator[Engine]:
    """Connect to the engine, find the images, remove containers of dead processes, and yield the engine.

    Args:
        images: the names of the images that must be there.
        runtime: the container runtime.
        backend: starts the sandboxes, or the name of a backend to connect to.
        allow_weaker: connect to a backend that cannot enforce all limits, too.
        notify: gets a message about the containers that were removed.

    Raises:
        EngineUnavailableError: if no engine answers.
        ImageMissingError: if the engine lacks an image.
        UsageError: if the engine does not know the runtime.
    """
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(backend, str):
            opened = await stack.enter_async_context(
                open_default_backend(backend, allow_weaker=allow_weaker, notify=notify)
            )
        else:
            opened = backend
        facts = await asyncio.to_thread(opened.describe, runtime=runtime, images=images)
        await remove_dead_containers(opened, notify)
        yield Engine(opened, facts)


async def remove_dead_containers(backend: Backend, notify: Callable[[str], None]) -> None:
    """Remove containers of dead processes. A failed removal is reported, and the work starts anyway."""
    try:
        orphans = await asyncio.to_thread(remove_orphans, backend)
    except SandboxError as error:
        notify(f"{error.message} (a container of a dead run; `harness gc` tries again)")
    else:
        if orphans:
            notify(f"removed {len(orphans)} container(s) of dead runs")


async def remove_containers(backend: Backend, run_id: str, notify: Callable[[str], None]) -> None:
    """Remove every container with the label `run_id`, even if the caller is cancelled meanwhile."""
    try:
        await complete(asyncio.to_thread(remove_run, backend, run_id))
    except SandboxError as error:
        # Every verdict stays valid, and the containers end by their deadlines.
        notify(f"{error.message} (a container of this run may be left; `harness gc` tries again)")
