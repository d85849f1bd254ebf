"""The results of all attempts of a run in memory, which may be a million."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence

from harness.evaluation.attempt_order import AttemptOrder
from harness.evaluation.stored_results import StoredResult, reduce_record
from harness.types import AttemptRecord

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
