"""Filter, search and sort the attempts of an index, return one range of them, and count them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from harness.core.errors import UsageError
from harness.core.text import escape_text
from harness.core.types import Status
from harness.runs.attempt_index import STATUSES, AttemptIndex, Row

MOST_ROWS = 500
"""The most attempts of one range."""

# The order in SQL of each column that sorts the list. Numbers in names are compared as numbers. An attempt
# without a score comes before the lowest one.
_ORDERS = {
    "ended": ("offset",),
    "task": ("in_numbers(task)", "number"),
    "status": ("status",),
    "category": ("in_numbers(category)",),
    "score": ("score",),
    "duration": ("seconds",),
    "error": ("ifnull(error, '')",),
}
SORTS = tuple(_ORDERS)
_SHOWN = "task, number, status, category, score, seconds, error"
_DIGITS = re.compile("[0-9]+")
_HALF = re.compile(r"\\u(d[89a-f][0-9a-f]{2})")
_PASSED = f"status = {STATUSES.index(Status.PASSED)}"


@dataclass(frozen=True, slots=True)
class Query:
    """The attempts that the list shows, and their order."""

    # None means all.
    status: Status | None = None
    category: str | None = None
    # The `task_id` of a row.
    task: str | None = None
    # Words that all must occur in the task id, the category, the status or the beginning of the error.
    search: str = ""
    # One of SORTS. `ended` is the order that the attempts ended.
    sort: str = "ended"
    descending: bool = True

    def __post_init__(self) -> None:
        if self.sort not in SORTS:
            raise UsageError(
                f"attempts cannot be sorted by {self.sort!r}", hint=f"use one of {', '.join(SORTS)}"
            )


def find_attempts(
    index: AttemptIndex, query: Query, first: int = 0, number: int = MOST_ROWS
) -> tuple[int, list[dict[str, Any]]]:
    """Return how many attempts fit a query, and the cells of a range of them in its order.

    The cells are plain values whose texts are safe to show. `task_id` is the id that the attempt is asked
    for, and `name` is the id to show.
    """
    fits, values = _write_conditions(query)
    direction = "DESC" if query.descending else "ASC"
    order = ", ".join(f"{column} {direction}" for column in _ORDERS[query.sort])
    index.add_function("in_numbers", _pad_numbers)
    index.add_function("contains", _contains)
    ((found,),) = index.ask(f"SELECT count(*) FROM attempts WHERE {fits}", *values)
    rows = index.select(
        f"SELECT {_SHOWN} FROM attempts WHERE {fits} ORDER BY {order}, offset LIMIT ? OFFSET ?",
        *(*values, number, first),
    )
    return found, [_describe(row) for row in rows]


def _write_conditions(query: Query) -> tuple[str, list[Any]]:
    """Return the condition of a query in SQL, and its values."""
    fits: list[str] = ["1"]
    values: list[Any] = []
    if query.status is not None:
        fits.append("status = ?")
        values.append(STATUSES.index(query.status))
    if query.category is not None:
        fits.append("ifnull(category, '') = CAST(? AS TEXT)")
        values.append(query.category)
    if query.task is not None:
        fits.append("task IN (CAST(? AS TEXT), CAST(? AS TEXT))")
        values += [query.task, _restore(query.task)]
    for word in query.search.split():
        folded = word.casefold()
        named = [
            str(place)
            for place, status in enumerate(STATUSES)
            if folded in status.value or folded in status.value.replace("_", " ")
        ]
        # The function of SQLite knows only the capitals of ASCII, and is much faster.
        form = "instr(lower({}), ?)" if folded.isascii() else "contains({}, ?)"
        either = [form.format(column) for column in ("task", "category", "error")]
        values += [folded] * len(either)
        either.append(f"status IN ({', '.join(named)})")
        if word.startswith("#") and word[1:].isdecimal() and len(word) < 19:
            either.append("number = ?")
            values.append(int(word[1:]))
        fits.append(f"({' OR '.join(either)})")
    return " AND ".join(fits), values


def _contains(text: str | None, folded: str) -> bool:
    """Return whether a text has a word, in capitals or not."""
    return text is not None and folded in text.casefold()


@lru_cache(maxsize=100_000)
def _pad_numbers(name: str | None) -> str:
    """Return a name by whose order x/2 precedes x/10."""
    return _DIGITS.sub(lambda match: match.group().zfill(20), name or "")


def _describe(row: Row) -> dict[str, Any]:
    task_id, number, status, category, score, seconds, error = row
    return {
        # A browser cannot send half a surrogate pair.
        "task_id": task_id.encode("utf-8", "backslashreplace").decode(),
        "name": escape_text(task_id),
        "attempt": number,
        "status": STATUSES[status].value,
        "category": escape_text(category or ""),
        "score": score,
        "duration_seconds": seconds,
        "error": escape_text(error or ""),
    }


def find_offset(index: AttemptIndex, task_id: str, number: int) -> int | None:
    """Return the offset of the last record of an attempt with the `task_id` of a row, None without one."""
    if not -(2**63) <= number < 2**63:
        return None
    found = index.find_offset((task_id, number))
    if found is None:
        found = index.find_offset((_restore(task_id), number))
    return found


def _restore(task_id: str) -> str:
    """Return the id of a task with the half surrogate pairs that a browser cannot send."""
    return _HALF.sub(lambda match: chr(int(match[1], 16)), task_id)


def count_statuses(index: AttemptIndex) -> dict[Status, int]:
    """Return the number of attempts with each status that occurs, in the order of Status."""
    rows = index.ask("SELECT status, count(*) FROM attempts GROUP BY status ORDER BY status")
    return {STATUSES[place]: number for place, number in rows}


def count_resolved(index: AttemptIndex) -> int:
    """Return the number of tasks whose first attempt passed."""
    return int(index.ask(f"SELECT count(*) FROM attempts WHERE number = 0 AND {_PASSED}")[0][0])


def count_tasks(index: AttemptIndex) -> int:
    """Return the number of tasks that have a record."""
    return int(index.ask("SELECT count(DISTINCT task) FROM attempts")[0][0])


def count_categories(index: AttemptIndex) -> dict[str, tuple[int, int]]:
    """Return the attempts of each category, and those that passed. No category is ""."""
    rows = index.ask(f"SELECT ifnull(category, ''), count(*), sum({_PASSED}) FROM attempts GROUP BY 1")
    return {name: (total, passed) for name, total, passed in rows}


def list_shares(index: AttemptIndex) -> Sequence[tuple[str, float]]:
    """Return the category of each task with a record, and the share of its attempts that passed."""
    rows = index.select(
        f"SELECT ifnull(max(category), ''), 1.0 * sum({_PASSED}) / count(*) FROM attempts GROUP BY task"
    )
    return [(category, share) for category, share in rows]


def list_ended(index: AttemptIndex) -> set[tuple[str, int]]:
    """Return the attempts with a verdict. One without a verdict may have begun again."""
    places = ", ".join(str(place) for place, status in enumerate(STATUSES) if status.has_score)
    return set(index.select(f"SELECT task, number FROM attempts WHERE status IN ({places})"))
