"""Watch how much a sandbox writes to its root file system, because most engines have no quota there.

The engine measures the container's own layer: every file once, however many names it has, and sparse files at
their full length. It does not see deleted files that are still open. The guest counts those
(`guest.held_files`). The watch ends a sandbox if the guest finds a place that it cannot look into, and the
disk has lost more room than the limit since the last complete count. The sandbox was over its limit if its
end gives that room back. Otherwise others took the room, and the end is a fault of ours. So is the end of a
sandbox that the engine does not measure in time, unless that end removes very many files. Sandboxes cannot
write extended attributes. Empty files cost the engine's disk entries that no measure attributes to a sandbox,
so there is a reserve on that disk: below it, sandboxes end as a fault of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.core.errors import SandboxError
from harness.sandbox.backends.base import Backend
from harness.sandbox.connection import Connection, ConnectionLost
from harness.sandbox.limits import MIB
from harness.sandbox.time_factor import extend_wait

POLL_SECONDS = 0.5
# The engine walks over all files for each measurement, and may spend at most this share of time on it.
LOOK_SHARE = 0.1
# An engine that needs longer for a measurement is too slow to bound what a sandbox writes.
LOOK_SECONDS = 20.0
# An engine that is not slow counts this many files within LOOK_SECONDS, even on a loaded disk.
MANY_FILES = 1_000_000
# Root of the sandbox may keep the guest from counting for longer.
HELD_SECONDS = 10.0
# The watch asks the guest this often, because others who free room on the disk hide how much a sandbox takes.
COUNT_SECONDS = 5.0
# An incomplete count is repeated. The harness may have killed it with all other processes between two
# commands, or a process was about to start a program, when no other may look into it. Only a sandbox where
# no count is complete is a suspect.
COUNT_TRIES = 5
COUNT_PAUSE_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """The deleted files that are open in a sandbox, as far as its guest can count them.

    `unknown` is whether there may be more than these `bytes`. `free_bytes` is the free room of the disk at
    that moment, None if it is not known.
    """

    bytes: int
    unknown: bool
    free_bytes: int | None


# The facts about a guest that could not count.
UNCOUNTED = HeldFiles(0, True, None)


class DiskWatch:
    """Destroys a sandbox that has written more than it may.

    `exceeded` then describes the excess, which was measured. `failure` describes any other reason why
    the watch ended it, which is a fault of the engine or of others.
    """

    def __init__(self, backend: Backend, container_id: str, disk_mb: int, connection: Connection) -> None:
        self._backend = backend
        self._container_id = container_id
        self._most = disk_mb * MIB
        self._connection = connection
        # The free room that the disk had without this sandbox's files, at the last complete count.
        self._free_without: int | None = None
        # The engine's disk, its free bytes, and the sandbox's room in its limit, all at the last measurement.
        self._disk: Path | None = None
        self._free_at_look = 0
        self._room_left = 0
        self._counted_at = time.monotonic()
        self._looking = asyncio.Lock()
        self.exceeded: str | None = None
        self.failure: str | None = None

    @property
    def over(self) -> bool:
        """Whether this watch has ended the sandbox."""
        return self.exceeded is not None or self.failure is not None

    async def is_over(self) -> bool:
        """Return whether this watch has ended the sandbox. A running measurement is awaited first."""
        async with self._looking:
            return self.over

    async def look_if_written(self) -> None:
        """Measure now if the sandbox can have used up half of the room that the last measurement left it.

        The free room of the disk shows that in microseconds, and a measurement asks the engine. Others who
        free room on the disk can hide how much a sandbox writes, until the next measurement of the watch.
        """
        if self._disk is None:
            # The first measurement may be under way.
            async with self._looking:
                pass
        if self.over or self._may_be_near_limit():
            await self.look()

    def _may_be_near_limit(self) -> bool:
        if self._disk is None:
            return True
        try:
            facts = os.statvfs(self._disk)
        except OSError:
            return True
        return 2 * (self._free_at_look - facts.f_bfree * facts.f_frsize) >= self._room_left

    async def look(self) -> None:
        """Measure now, and destroy the sandbox if it is over its limit. Raises no error of the engine."""
        async with self._looking:
            if self.over:
                return
            try:
                async with asyncio.timeout(extend_wait(LOOK_SECONDS)):
                    use = await asyncio.to_thread(self._backend.measure_disk, self._container_id)
                written = use.written_bytes
                if written is None:
                    return
                held = await self._look_at_held_files(written, use.free_bytes)
                self._disk, self._free_at_look = use.folder, use.free_bytes or 0
                self._room_left = self._most - written - held.bytes
                self.exceeded = self._describe_excess(written, held)
                if self.exceeded is None and (lost := self._find_unexplained_loss(held)):
                    await self._end_suspect(lost)
                if not self.over and use.scarce is not None:
                    self.failure = (
                        f"the engine's disk is almost full ({use.scarce}), so the sandbox was ended"
                    )
            except TimeoutError:
                await self._end_unmeasured()
            except SandboxError as error:
                # A sandbox that cannot be measured has no bound, so it must end.
                self.failure = f"the files that the sandbox wrote cannot be measured: {error.message}"
            if self.over:
                with contextlib.suppress(SandboxError):  # the end of the block retries and reports
                    await asyncio.to_thread(self._backend.destroy, self._container_id)

    async def _look_at_held_files(self, written: int, free: int | None) -> HeldFiles:
        """Return the guest's count if the disk has lost half of the limit, and else every COUNT_SECONDS.

        The guest is not asked more often, because it needs a process for the count, which a sandbox that is
        out of memory or of processes cannot start.
        """
        if self._free_without is None:
            self._free_without = free
        if free is not None and self._free_without is not None:
            lost = self._free_without - free
            if 2 * lost < self._most and time.monotonic() < self._counted_at + COUNT_SECONDS:
                return HeldFiles(0, False, free)
        self._counted_at = time.monotonic()
        try:
            async with asyncio.timeout(extend_wait(HELD_SECONDS)):
                counted = await count_held_files(self._connection)
        except TimeoutError:
            counted = UNCOUNTED
        if counted is None:
            return HeldFiles(0, False, free)
        held = counted if free is None else replace(counted, free_bytes=free)
        if not held.unknown and held.free_bytes is not None:
            # Others took all room that the disk has lost and this count does not find.
            self._free_without = held.free_bytes + written + held.bytes
        return held

    def _describe_excess(self, written: int, held: HeldFiles) -> str | None:
        """Return in words how far the sandbox is over its limit; None if it is not known to be."""
        allowed = f"of {self._most // MIB} MiB allowed"
        if written > self._most:
            return f"the sandbox wrote {written / MIB:.1f} MiB to its root file system, {allowed}"
        taken = written + held.bytes
        if taken > self._most:
            return f"the sandbox takes {taken / MIB:.1f} MiB, including open deleted files, {allowed}"
        return None

    def _find_unexplained_loss(self, held: HeldFiles) -> int:
        """Return the bytes that the disk has lost, or 0 if they are few or the sandbox cannot hold them."""
        if held.free_bytes is None:
            return 0
        if self._free_without is None:
            self._free_without = held.free_bytes
        lost = self._free_without - held.free_bytes
        return lost if held.unknown and lost > self._most else 0

    async def _end_suspect(self, lost: int) -> None:
        """End the sandbox, and decide by the room that its end gives back whether it held the lost bytes."""
        excess = (
            f"the sandbox may hold deleted files that cannot be counted, and the disk has lost "
            f"{lost / MIB:.1f} MiB since they last could be, of {self._most // MIB} MiB allowed"
        )
        before = await asyncio.to_thread(self._backend.measure_disk, self._container_id)
        if before.free_bytes is None:
            self.exceeded = excess
            return
        await asyncio.to_thread(self._backend.destroy, self._container_id)
        after = await asyncio.to_thread(self._backend.measure_disk, self._container_id)
        held = (after.free_bytes or 0) - before.free_bytes - (before.written_bytes or 0)
        # Others may write and remove files at the same time, so that less would prove nothing.
        if held > self._most:
            self.exceeded = excess
        else:
            self.failure = (
                f"{excess}; its end gave back {max(held, 0) / MIB:.1f} MiB, so others took the room"
            )

    async def _end_unmeasured(self) -> None:
        """End a sandbox that was not measured in time. It is to blame only if its end removes MANY_FILES."""
        self.failure = (
            f"the engine did not measure in {extend_wait(LOOK_SECONDS):g} s how much the sandbox wrote"
        )
        if self._disk is None:
            return
        with contextlib.suppress(SandboxError, OSError):
            before = os.statvfs(self._disk).f_ffree
            await asyncio.to_thread(self._backend.destroy, self._container_id)
            if (removed := os.statvfs(self._disk).f_ffree - before) > MANY_FILES:
                self.exceeded = f"{self.failure}, and its end removed {removed} files"

    async def keep_looking(self) -> None:
        """Measure again and again until the watch has ended the sandbox."""
        while not self.over:
            started = time.monotonic()
            await self.look()
            await asyncio.sleep(max(POLL_SECONDS, (time.monotonic() - started) / LOOK_SHARE))


@contextlib.asynccontextmanager
async def watch_disk(
    backend: Backend, container_id: str, disk_mb: int, connection: Connection
) -> AsyncIterator[DiskWatch]:
    """Yield a watch that looks at a container for the duration of the block, and asks its guest."""
    watch = DiskWatch(backend, container_id, disk_mb, connection)
    watching = asyncio.create_task(watch.keep_looking())
    try:
        yield watch
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def count_held_files(connection: Connection) -> HeldFiles | None:
    """Return the guest's count, None for a sandbox that is gone. Its next request reports why."""
    counted = UNCOUNTED
    for number in range(COUNT_TRIES):
        if number:
            await asyncio.sleep(COUNT_PAUSE_SECONDS)
        try:
            counted = decode_held_files(*await connection.request({"verb": "held"}))
        except ConnectionLost:
            return None
        if not counted.unknown:
            break
    return counted


def decode_held_files(header: Mapping[str, Any], body: bytes) -> HeldFiles:
    """Return the count in a guest's answer, UNCOUNTED for a guest that could not count."""
    try:
        facts: Any = json.loads(body) if header.keys() <= {"id"} else None
        counted, unknown, free = facts["bytes"], facts["unknown"], facts["free_bytes"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return UNCOUNTED
    if type(counted) is not int or type(unknown) is not bool or type(free) is not int:
        return UNCOUNTED
    return HeldFiles(max(counted, 0), unknown, free)
