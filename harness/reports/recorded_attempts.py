"""The place of each attempt in `attempts.jsonl`, and the time in which attempts were under way."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.evaluation.attempt_order import AttemptOrder
from harness.types import AttemptRecord


class AttemptOffsets:
    """The offset of the last record of each attempt, while the records are read.

    Memory holds the offsets and not the records, because a run may have more than fit into memory.
    """

    def __init__(self) -> None:
        self._order = AttemptOrder()
        self._offsets = array("q")
        self._end = 0

    def add(self, record: AttemptRecord, size: int) -> None:
        """Take note of the next record, whose line has `size` bytes."""
        place = self._order.add(record.task_id, record.attempt)
        if place == len(self._offsets):
            self._offsets.append(self._end)
        else:
            self._offsets[place] = self._end
        self._end += size

    def sort_by_plan(self, manifest: Mapping[str, Any]) -> Sequence[int]:
        """Return the offsets in the order of the plan. See `sort_by_plan`."""
        return sort_by_plan(self._order, self._offsets, manifest)


def sort_by_plan(
    attempts: Iterable[tuple[str, int]], offsets: Sequence[int], manifest: Mapping[str, Any]
) -> Sequence[int]:
    """Return the offsets of these attempts in the order of the plan: by task, and then by number.

    A manifest of very many tasks or of an earlier version names no tasks. Then a task has the place in which
    it ended first.

    Args:
        attempts: the task id and the number of each attempt. It is read twice.
        offsets: the offset of each.
        manifest: the manifest of the run.
    """
    planned = manifest.get("planned")
    ids = planned.get("task_ids") if isinstance(planned, Mapping) else None
    places: dict[str, int] = {}
    for task_id in ids if isinstance(ids, list) else ():
        if isinstance(task_id, str):
            places.setdefault(task_id, len(places))
    numbers = 1 + max((number for _, number in attempts), default=0)
    if numbers == 1 and not places:
        return offsets
    # One number for each attempt, and no tuple, because there may be a million.
    keys = []
    for index, (task_id, number) in enumerate(attempts):
        place = places.setdefault(task_id, len(places))
        keys.append((place * numbers + number) * len(offsets) + index)
    keys.sort()
    return array("q", (offsets[key % len(offsets)] for key in keys))


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
        # Sorted apart, because a million pairs would take more memory than all else.
        starts, ends = sorted(self._starts), sorted(self._ends)
        total, begun, opened = 0.0, 0, 0.0
        for ended, end in enumerate(ends, start=1):
            if begun < ended:
                opened = starts[begun]
            while begun < len(starts) and starts[begun] <= end:
                begun += 1
            if begun == ended:
                total += end - opened
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
