"""Choose the rows for which a page of the report has room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from harness.types import AttemptRecord, Status


@dataclass(frozen=True, slots=True)
class FittingAttempts:
    """Rows of attempts: the unresolved ones first, each part in the order of the attempts."""

    # As UTF-8, because one character beyond Latin-1 doubles the size of a text in memory.
    encoded_rows: Sequence[bytes]
    shown: Counter[Status]
    """The number of rows of each status."""
    given: Counter[Status]
    """The number of attempts of each status."""

    @property
    def rows(self) -> Iterator[Markup]:
        """The rows, one at a time."""
        return (Markup(row.decode()) for row in self.encoded_rows)


@dataclass(frozen=True, slots=True)
class FittingTable:
    """The first rows of a table."""

    rows: Markup
    shown: int
    """The number of these rows."""
    number: int
    """The number of all rows."""
    file: str
    """The file that holds all rows."""


def fit_table(rows: Iterable[Markup], number: int, *, room: int, file: str) -> FittingTable:
    """Return the first rows that fit into `room` bytes."""
    fitting = []
    for row in rows:
        room -= len(row.encode())
        if room < 0:
            break
        fitting.append(row)
    return FittingTable(Markup("").join(fitting), len(fitting), number, file)


def fit_attempts(
    attempts: Iterable[AttemptRecord], render: Callable[[AttemptRecord], Markup], *, room: int
) -> FittingAttempts:
    """Return the rows that fit into `room` bytes: all of them, or the first of each status.

    A status with few attempts shows all of them and leaves the rest of its share to the others, because a
    few infra errors must not disappear among many failures.
    """
    rows: list[tuple[Status, bytes]] = []
    sizes: dict[Status, list[int]] = {}
    total: Counter[Status] = Counter()
    given: Counter[Status] = Counter()
    full: set[Status] = set()
    for record in attempts:
        status = record.status
        given[status] += 1
        if status in full:
            continue
        row = render(record).encode()
        rows.append((status, row))
        size = len(row)
        sizes.setdefault(status, []).append(size)
        total[status] += size
        # A status that fills its share now cannot get more later, because the other totals only grow.
        if total[status] > _largest_share(room, [total[other] for other in total if other is not status]):
            full.add(status)
    rows.sort(key=lambda row: row[0] is Status.PASSED)
    kept = Counter(dict(_count_fitting(sizes, total, room)))
    return FittingAttempts([*_first_of_each(rows, kept)], kept, given)


def _largest_share(room: int, others: list[int]) -> int:
    """Return the bytes for a status that wants as many as possible, if the others want `others`."""
    for place, other in enumerate(sorted(others)):
        share = room // (len(others) + 1 - place)
        if other >= share:
            return share
        room -= other
    return room


def _count_fitting(
    sizes: dict[Status, list[int]], total: Counter[Status], room: int
) -> Iterator[tuple[Status, int]]:
    for place, status in enumerate(sorted(total, key=lambda one: total[one])):
        share = room // (len(total) - place)
        used, number = 0, 0
        for size in sizes[status]:
            if used + size > share:
                break
            used += size
            number += 1
        yield status, number
        room -= used


def _first_of_each(rows: Iterable[tuple[Status, bytes]], kept: Counter[Status]) -> Iterator[bytes]:
    left = kept.copy()
    for status, row in rows:
        if left[status] > 0:
            left[status] -= 1
            yield row
