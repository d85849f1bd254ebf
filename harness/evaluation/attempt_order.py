"""The attempts of a run in the order of their first records. There may be a million of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator


class AttemptOrder:
    """Gives each attempt a place, from 0, in the order in which the attempts are added.

    Most runs of very many tasks have one attempt at each. So a first attempt is found by its task id alone,
    which saves a tuple and a second copy of the id for each.
    """

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._further: dict[tuple[str, int], int] = {}

    def __len__(self) -> int:
        return len(self._first) + len(self._further)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield the task id and the number of each attempt, in the order of the places."""
        keys: list[str | tuple[str, int]] = [""] * len(self)
        for task_id, place in self._first.items():
            keys[place] = task_id
        for key, place in self._further.items():
            keys[place] = key
        return ((key, 0) if isinstance(key, str) else key for key in keys)

    def find(self, task_id: str, number: int) -> int | None:
        """Return the place of an attempt, None if it was not added."""
        return self._further.get((task_id, number)) if number else self._first.get(task_id)

    def add(self, task_id: str, number: int) -> int:
        """Return the place of an attempt, which is the next one for a new attempt."""
        if not number:
            return self._first.setdefault(task_id, len(self))
        # Records that are read from a file have each their own copy of the id.
        return self._further.setdefault((sys.intern(task_id), number), len(self))
