"""The files of a sandbox at one moment, and further sandboxes that start with them.

A snapshot has files alone: the agent's folder, `/tmp` and `/dev/shm`, which are all that a program
in such a sandbox can write. Processes and open terminals are not part of it. Programs of the first sandbox
decide the content of the archive, so only a sandbox unpacks it, as the same user.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from harness.core.errors import UsageError
from harness.sandbox.guest.frames import MAX_BODY_BYTES
from harness.sandbox.layout import HOME
from harness.sandbox.limits import Limits
from harness.sandbox.results import ExecResult

if TYPE_CHECKING:
    from harness.sandbox.sandbox import Sandbox

# One request must carry an archive into a sandbox.
MAX_ARCHIVE_BYTES = MAX_BODY_BYTES - (1 << 16)
MAX_FORKS = 64
_SECONDS = 60.0
# The folders themselves are there already, and two of them belong to root.
_LIST = f'find {HOME[1:]} tmp dev/shm -mindepth 1 -user "$(id -u)" ! -type s -print0 2>/dev/null'
_PACK = ("/bin/sh", "-c", f"cd / && {_LIST} | tar --null --no-recursion --ignore-failed-read -T - -cf -")
_UNPACK = ("tar", "-C", "/", "-xpf", "-")
_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a sandbox, and the settings that it was opened with."""

    image: str
    limits: Limits
    terminals: bool
    archive: bytes = field(repr=False)


async def take_snapshot(sandbox: Sandbox, image: str, *, terminals: bool = False) -> Snapshot:
    """Return the files of an open sandbox on `image`. Commands that run meanwhile may write half of a file.

    Raises UsageError if the files have more than 64 MiB, or cannot be packed, and SandboxError.
    """
    parts: list[bytes] = []
    size = 0

    def keep(stream: str, data: bytes) -> None:
        nonlocal size
        if stream == "stdout":
            size += len(data)
            if size > MAX_ARCHIVE_BYTES:
                raise UsageError(f"the files of the sandbox have more than {MAX_ARCHIVE_BYTES >> 20} MiB")
            parts.append(data)

    done = await sandbox.exec(_PACK, timeout=_SECONDS, on_output=keep)
    # 1 means that a file has changed meanwhile.
    _require(done, "the files of the sandbox cannot be packed", (0, 1))
    return Snapshot(image, sandbox.limits, terminals, b"".join(parts))


async def unpack_snapshot(sandbox: Sandbox, snapshot: Snapshot) -> None:
    """Make the files of a snapshot in a new sandbox.

    Raises UsageError if they do not fit, and SandboxError.
    """
    done = await sandbox.exec(_UNPACK, stdin=snapshot.archive, timeout=_SECONDS)
    _require(done, "the files of the snapshot cannot be unpacked", (0,))


def _require(done: ExecResult, what: str, codes: Sequence[int]) -> None:
    if done.limit is not None:
        raise UsageError(f"{what}: they reached the limit {done.limit}")
    if done.exit_code not in codes:
        raise UsageError(f"{what}: {str(done.stderr)[:_SHOWN].strip()}")


def require_count(count: int) -> None:
    """Raise UsageError for a number of forks that cannot be opened."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_FORKS:
        raise UsageError(f"count must be from 1 to {MAX_FORKS}, not {count!r:.40}")


Opened = TypeVar("Opened")


@contextlib.asynccontextmanager
async def open_together(
    openers: Sequence[AbstractAsyncContextManager[Opened]],
) -> AsyncIterator[list[Opened]]:
    """Enter all blocks side by side, and yield what they yield. An error of one ends the others."""
    async with AsyncExitStack() as stack:
        tasks = [asyncio.create_task(stack.enter_async_context(each)) for each in openers]
        try:
            yield await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
