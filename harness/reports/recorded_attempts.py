"""The place of each attempt in `attempts.jsonl`, and the time in which attempts were under way."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.types import AttemptRecord


class AttemptOffsets:
    """The offset of the last record of each attempt, while the records are read.

    Memory holds the offsets and not the records, because a run may have more than fit into memory.
    """

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, int], int] = {}
        self._end = 0

    def add(self, record: AttemptRecord, size: int) -> None:
        """Take note of the next record, whose line has `size` bytes."""
        self._offsets[sys.intern(record.task_id), record.attempt] = self._end
        self._end += size

    def sort_by_plan(self, manifest: Mapping[str, Any]) -> Sequence[int]:
        """Return the offsets in the order of the plan: by task, and then by the number of the attempt.

        A manifest of an earlier version names no tasks. Then a task has the place in which it ended first.
        """
        planned = manifest.get("planned")
        ids = planned.get("task_ids") if isinstance(planned, Mapping) else None
        places: dict[str, int] = {}
        for task_id in ids if isinstance(ids, list) else ():
            if isinstance(task_id, str):
                places.setdefault(task_id, len(places))
        for task_id, _ in self._offsets:
            places.setdefault(task_id, len(places))
        ordered = sorted(self._offsets, key=lambda key: (places[key[0]], key[1]))
        return array("q", map(self._offsets.__getitem__, ordered))


class WallTime:
    """The time in which at least one attempt was under way, for a run that has not recorded its own."""

    def __init__(self) -> None:
        self._starts = array("d")
        self._ends = array("d")
        # The time of attempts of earlier versions, whose start is unknown.
        self._other = 0.0

    def add(self, record: AttemptRecord) -> None:
        """Add an attempt."""
        start = read_time(record.started_at)
        if start is None:
            self._other += record.duration_seconds
        else:
            self._starts.append(start)
            self._ends.append(start + max(record.duration_seconds, 0.0))

    @property
    def seconds(self) -> float:
        """The seconds, without those between two parts of a run that was resumed."""
        total, reached = 0.0, float("-inf")
        for start, end in sorted(zip(self._starts, self._ends, strict=True)):
            total += max(end - max(start, reached), 0.0)
            reached = max(reached, end)
        return total + self._other

    def find_start(self, after: float) -> float | None:
        """Return when the first attempt after a moment began in seconds since 1970, None without one."""
        return min((start for start in self._starts if start >= after), default=None)


def read_time(text: object) -> float | None:
    """Return the seconds since 1970 of a time in ISO 8601, None for any other value."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return seconds if seconds >= 0 else None
