"""Bounds what a sandbox writes to its root file system: a watch, since most engines have no quota there.

The engine measures the container's own layer: every file once, however many names it has, and sparse
ones at their full length, so that no trick makes it look smaller than it is but one: a file that is
open and has no name any more cannot be seen by anybody. For that, and for files without bytes, there
is a reserve on the engine's disk, which nobody is blamed for: below it, sandboxes end as a fault of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import SandboxError
from harness.sandbox.container import remove
from harness.sandbox.engine import engine_errors
from harness.sandbox.limits import MIB

if TYPE_CHECKING:
    from docker import APIClient

POLL_SECONDS = 0.5
# Looking costs the engine a walk over all files: it is not to spend more than this share of time on it.
LOOK_SHARE = 0.1
# Only a layer of very many files takes so long.
LOOK_SECONDS = 20.0
RESERVE_BYTES = 512 * MIB
RESERVE_FILES = 10_000


class DiskWatch:
    """Destroys a sandbox that has written more than it may; `exceeded` then says so, `failure` why else."""

    def __init__(self, client: APIClient, container_id: str, disk_mb: int, root: Path | None) -> None:
        self._client = client
        self._container_id = container_id
        self._most = disk_mb * MIB
        self._root = root
        self._looking = asyncio.Lock()
        self.exceeded: str | None = None
        self.failure: str | None = None

    @property
    def over(self) -> bool:
        """Whether this watch has ended the sandbox."""
        return self.exceeded is not None or self.failure is not None

    async def look(self) -> None:
        """Measure now, and destroy the sandbox where it is over its limit. Raises nothing of the engine's."""
        async with self._looking:
            if self.over:
                return
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    written = await asyncio.to_thread(written_bytes, self._client, self._container_id)
                if written is None:
                    return
                if written > self._most:
                    self.exceeded = (
                        f"the sandbox wrote {written / MIB:.1f} MiB to its root file system, "
                        f"where {self._most // MIB} MiB are allowed"
                    )
                elif self._root is not None and (lacking := scarce(self._root)):
                    self.failure = f"the engine's disk is almost full ({lacking}), so the sandbox was ended"
            except TimeoutError:
                self.exceeded = f"what the sandbox wrote could not be counted in {LOOK_SECONDS:g} s"
            except SandboxError as error:
                # What cannot be measured is not bounded.
                self.failure = f"what the sandbox writes cannot be measured: {error.message}"
            if self.over:
                with contextlib.suppress(SandboxError):  # leaving the sandbox tries again, and tells
                    await asyncio.to_thread(remove, self._client, self._container_id)

    async def keep_looking(self) -> None:
        """Look again and again, until the sandbox has been ended."""
        while not self.over:
            started = time.monotonic()
            await self.look()
            await asyncio.sleep(max(POLL_SECONDS, (time.monotonic() - started) / LOOK_SHARE))


@contextlib.asynccontextmanager
async def watched(client: APIClient, container_id: str, disk_mb: int) -> AsyncIterator[DiskWatch]:
    """Watch a container for the duration of the block."""
    watch = DiskWatch(client, container_id, disk_mb, await asyncio.to_thread(_engine_root, client))
    watching = asyncio.create_task(watch.keep_looking())
    try:
        yield watch
    finally:
        watching.cancel()
        await asyncio.wait([watching])


def written_bytes(client: APIClient, container_id: str) -> int | None:
    """The bytes in a container's own layer, None where it is gone. Raises SandboxError.

    Directories and empty files count nothing.
    """
    with engine_errors("measure what a sandbox wrote"):
        listed = client.containers(all=True, size=True, filters={"id": container_id})
    return int(listed[0].get("SizeRw") or 0) if listed else None


def scarce(root: Path) -> str | None:
    """What a file system has too little of, in words; None where there is enough."""
    facts = os.statvfs(root)
    free = facts.f_bavail * facts.f_frsize
    if free < RESERVE_BYTES:
        return f"{free / MIB:.0f} MiB free"
    # Some file systems have no fixed number of files, and say 0.
    if facts.f_files and facts.f_favail < RESERVE_FILES:
        return f"{facts.f_favail} files free"
    return None


def _engine_root(client: APIClient) -> Path | None:
    """Where the engine keeps containers, if that is on this machine."""
    with engine_errors("ask the engine about itself"):
        root = Path(client.info()["DockerRootDir"])
    with contextlib.suppress(OSError):
        if client.base_url.startswith("http+docker://") and root.is_dir():
            return root
    return None
