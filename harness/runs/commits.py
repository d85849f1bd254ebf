"""Group commit: records that arrive during a write to the disk share the next write."""

from __future__ import annotations

import asyncio

from harness.core.shield import complete
from harness.core.types import AttemptRecord
from harness.runs.store import RunStore


class Commits:
    """Stores the records of concurrent attempts with as few writes and fsyncs as possible."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._waiting: list[tuple[AttemptRecord, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def store(self, record: AttemptRecord) -> None:
        """Store a record; return when it is on the disk, even if cancelled meanwhile. Raises StorageError."""
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, stored))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await complete(_wait_for(stored))

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._store.append, *(record for record, _ in batch))
            except Exception as error:  # every waiting caller must get the error
                for _, stored in batch:
                    stored.set_exception(error)
            else:
                for _, stored in batch:
                    stored.set_result(None)
        self._writing = None


async def _wait_for(stored: asyncio.Future[None]) -> None:
    await stored
