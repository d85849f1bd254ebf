"""The place of each attempt in `attempts.jsonl`, its wall time, and values of records by their types."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.core.types import AttemptRecord
from harness.runs.attempt_index import AttemptIndex

# The latest time that is believed, in seconds since 1970: the year 2286.
_LATEST = 1e10
# The integers that a float of JSON holds exactly.
_MOST_COUNT = 2**53


def list_offsets(found: AttemptIndex, manifest: Mapping[str, Any]) -> Sequence[int]:
    """Return the offset of the last record of each attempt in the order of the plan.

    A manifest of very many tasks or of an earlier version names no tasks. Then the tasks come in the order of
    their first records.
    """
    planned = manifest.get("planned")
    ids = planned.get("task_ids") if isinstance(planned, Mapping) else None
    return found.list_offsets(
        each for each in (ids if isinstance(ids, list) else ()) if isinstance(each, str)
    )


class WallTime:
    """How long at least one attempt was under way, for a run that has not recorded its own."""

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

    def watch(self, records: Iterable[tuple[AttemptRecord, int]]) -> Iterator[tuple[AttemptRecord, int]]:
        """Yield records with their sizes, and add each of them."""
        for record, size in records:
            self.add(record)
            yield record, size

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


def read_text(value: Any) -> str:
    """Return a text as it is, None as an empty text, and any other value as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def list_objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list, none for a value that is not a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def read_seconds(value: Any) -> float | None:
    """Return a time or a duration in seconds, None for any other value."""
    return float(value) if type(value) in (int, float) and 0 <= value < _LATEST else None


def read_count(value: Any) -> int | None:
    """Return a number of things, None for any other value."""
    return value if type(value) is int and 0 <= value < _MOST_COUNT else None
