"""The causes of unresolved attempts, counted while the records of a run are read once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.reports.failures import rank_failure
from harness.types import AttemptRecord, Status

# An exception in the evidence of a verdict, such as `NameError`.
_EXCEPTION = re.compile(r"\b[A-Z][A-Za-z]{0,40}(?:Error|Exception)\b")
_READ_CHARACTERS = 4000
# Programs choose the names of their exceptions, so there may be any number of them.
_MOST_COUNTED, _MOST_SHOWN = 1000, 10


@dataclass(frozen=True, slots=True)
class Cause:
    """Attempts that failed in the same way."""

    status: Status
    exception: str
    """The name of the first exception in the evidence, "" without one."""
    number: int
    example: str
    """The task of the first of these attempts."""


class Causes:
    """Counts unresolved attempts by their status and the exception in their evidence.

    Args:
        has_samples: whether the run grades samples, so that an attempt without one never had a chance.
    """

    def __init__(self, *, has_samples: bool = False) -> None:
        self._has_samples = has_samples
        self._ranks: dict[tuple[Status, str], int] = {}
        self._numbers: Counter[tuple[Status, str]] = Counter()
        self._examples: dict[tuple[Status, str], str] = {}

    def watch(self, records: Iterable[AttemptRecord]) -> Iterator[AttemptRecord]:
        """Yield the records, and count those that are unresolved."""
        for record in records:
            if not record.resolved:
                self._add(record)
            yield record

    def _add(self, record: AttemptRecord) -> None:
        found = _EXCEPTION.search((record.error or "")[:_READ_CHARACTERS])
        key = record.status, found[0] if found else ""
        if key not in self._numbers and len(self._numbers) >= _MOST_COUNTED:
            key = record.status, ""
        self._numbers[key] += 1
        self._examples.setdefault(key, record.task_id)
        rank = rank_failure(record, has_samples=self._has_samples)
        self._ranks[key] = min(rank, self._ranks.get(key, rank))

    def list_most_frequent(self) -> Sequence[Cause]:
        """Return the most frequent causes, failures of programs ahead of samples that are missing."""
        found = [
            Cause(*key, number, self._examples[key]) for key, number in self._numbers.most_common(_MOST_SHOWN)
        ]
        return sorted(found, key=lambda cause: self._ranks[cause.status, cause.exception])
