"""The leases of attempts: which wait, which are under way somewhere, and which have a record."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from harness.evaluation.plan import PlannedAttempt

Unit = Sequence[PlannedAttempt]
"""Attempts that follow each other on one node."""


class LeaseBook:
    """Lends units of attempts to places on nodes. Each attempt gets exactly one record.

    A place takes a unit when it is free, so that a fast node makes more attempts than a slow one, and no node
    holds more units than it has places. A lost node gives its units back. They are lent again before all
    others, because they have waited longest.
    """

    def __init__(self, units: Iterable[Unit]) -> None:
        self._waiting: deque[Unit] = deque(units)
        self._open = {planned.key for unit in self._waiting for planned in unit}
        self._tries: Counter[tuple[str, int]] = Counter()
        self._changed = asyncio.Event()
        self._done = asyncio.Event()
        self._note_end()

    async def take(self) -> Unit | None:
        """Return the next unit, or None once every attempt has a record.

        It waits while all open attempts are under way, because a lost node may give some of them back.
        """
        while self._open:
            while self._waiting:
                unit = [planned for planned in self._waiting.popleft() if planned.key in self._open]
                if unit:
                    return unit
            self._changed.clear()
            await self._changed.wait()
        return None

    def begin(self, planned: PlannedAttempt) -> int:
        """Note a try of an attempt and return its number, from 1."""
        self._tries[planned.key] += 1
        return self._tries[planned.key]

    def finish(self, planned: PlannedAttempt) -> bool:
        """Return whether the record of an attempt is its first one. A late duplicate must be dropped."""
        if planned.key not in self._open:
            return False
        self._open.remove(planned.key)
        self._note_end()
        return True

    async def wait_until_done(self) -> None:
        """Return once every attempt has a record."""
        await self._done.wait()

    def give_back(self, unit: Iterable[PlannedAttempt]) -> int:
        """Lend the attempts of a unit again that have no record. Return how many there are."""
        lost = [planned for planned in unit if planned.key in self._open]
        if lost:
            self._waiting.appendleft(lost)
            self._changed.set()
        return len(lost)

    def _note_end(self) -> None:
        if not self._open:
            self._done.set()
            self._changed.set()
