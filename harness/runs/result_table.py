"""The results of all attempts of a run in memory, which may be a million."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.types import AttemptRecord, Status
from harness.runs.replayed import Replayed, read_replayed
from harness.runs.server_use import ServerFigures, add_server_use, read_server_use
from harness.runs.usage import Amounts, add_usage, read_usage


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


# The metric of a record that supersedes a verdict: the status of that verdict.
SUPERSEDED_STATUS = "superseded"


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The part of a stored record that stays in memory: the values that the summary counts."""

    status: Status
    resolved: bool
    category: str | None
    integrity: str | None = None
    resolved_strict: bool | None = None
    # The values of the metrics that the store keeps, for first attempts only.
    metrics: tuple[float, ...] = ()
    # The use of a model in all tries of the attempt, None if it asked none.
    usage: Amounts | None = None
    score: float | None = None
    # The comparison with the recorded run, None unless the agent replayed one.
    replayed: Replayed | None = None
    # The use of MCP servers in all tries of the attempt, None if it had none.
    mcp: ServerFigures | None = None
    # The number of earlier tries that had a verdict, which the user had repeated.
    superseded: int = 0


def reduce_record(
    record: AttemptRecord,
    *,
    metrics: Sequence[str] = (),
    earlier: StoredResult | None = None,
) -> StoredResult:
    """Return the part of a record that the summary counts.

    Args:
        record: the record of the last try of an attempt.
        metrics: the metrics to keep if it is a first attempt.
        earlier: the result of the try before, which a resumed run has repeated. Its use of a model counts
            too, because it was paid for.
    """
    sign = record.metrics.get("integrity")
    strict = record.metrics.get("resolved_strict")
    return StoredResult(
        record.status,
        record.resolved,
        record.category,
        None if sign is None else str(sign),
        strict if isinstance(strict, bool) else None,
        tuple(_read_metric(record.metrics.get(name)) for name in metrics) if record.attempt == 0 else (),
        add_usage(None if earlier is None else earlier.usage, read_usage(record.metrics)),
        record.score,
        read_replayed(record),
        add_server_use(None if earlier is None else earlier.mcp, read_server_use(record.metrics)),
        0 if earlier is None else earlier.superseded + earlier.status.has_score,
    )


def count_superseded_verdicts(results: Iterable[StoredResult]) -> int:
    """Return the number of verdicts that retries have superseded."""
    return sum(result.superseded for result in results)


def count_superseded(results: Iterable[StoredResult]) -> dict[str, int]:
    """Return the counts of attempts whose verdict was superseded, and of those that pass now, {} for none."""
    repeated = [result for result in results if result.superseded]
    if not repeated:
        return {}
    return {"attempts": len(repeated), "resolved": sum(result.resolved for result in repeated)}


def _read_metric(value: Any) -> float:
    """Return the value of a metric. A metric that the verdict lacks counts as 0."""
    return float(value) if isinstance(value, (int, float)) else 0.0


# More different results than this are not shared, because the search would cost more than it saves.
_MOST_SHARED = 10_000


class ResultTable(Mapping[tuple[str, int], StoredResult]):
    """The last result of each attempt, by task id and attempt number, in the order of their first records.

    Equal results are one object, and offsets are numbers of an array, because most of the memory would
    otherwise hold copies.
    """

    def __init__(self, metrics: Sequence[str] = ()) -> None:
        self._metrics = tuple(metrics)
        self._order = AttemptOrder()
        self._results: list[StoredResult] = []
        self._offsets = array("q")
        self._shared: dict[StoredResult, StoredResult] = {}

    def add(self, record: AttemptRecord, offset: int = 0) -> None:
        """Add the next record of a run. `offset` is its place in `attempts.jsonl`, in bytes."""
        place = self._order.add(record.task_id, record.attempt)
        earlier = self._results[place] if place < len(self._results) else None
        result = self._share(reduce_record(record, metrics=self._metrics, earlier=earlier))
        if earlier is None:
            self._results.append(result)
            self._offsets.append(offset)
        else:
            self._results[place], self._offsets[place] = result, offset

    def find_offset(self, key: tuple[str, int]) -> int | None:
        """Return the offset of the last record of an attempt, None without a record."""
        place = self._order.find(*key)
        return None if place is None else self._offsets[place]

    @property
    def offsets(self) -> Sequence[int]:
        """The offset of the last record of each attempt."""
        return self._offsets

    def __getitem__(self, key: tuple[str, int]) -> StoredResult:
        place = self._order.find(*key)
        if place is None:
            raise KeyError(key)
        return self._results[place]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._results)

    def _share(self, result: StoredResult) -> StoredResult:
        if result.usage is not None or result.replayed is not None or result.mcp is not None:
            return result  # hardly two attempts have equal figures
        if len(self._shared) < _MOST_SHARED:
            return self._shared.setdefault(result, result)
        return self._shared.get(result, result)
