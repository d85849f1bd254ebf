"""Filter, search and sort the attempts of an index, and return one range of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from harness.core.errors import UsageError
from harness.core.text import escape_text
from harness.core.types import Status
from harness.reports.viewer.attempt_index import STATUSES, IndexedAttempts

SORTS = ("ended", "task", "status", "category", "score", "duration", "error")
MOST_ROWS = 500
"""The most attempts of one range."""

_DIGITS = re.compile("[0-9]+")


@dataclass(frozen=True, slots=True)
class Query:
    """The attempts that the list shows, and their order."""

    # None stands for all.
    status: Status | None = None
    category: str | None = None
    # Words that all must occur in the task id, the category, the status or the beginning of the error.
    search: str = ""
    # One of SORTS. `ended` is the order in which the attempts ended.
    sort: str = "ended"
    descending: bool = True

    def __post_init__(self) -> None:
        if self.sort not in SORTS:
            raise UsageError(
                f"attempts cannot be sorted by {self.sort!r}", hint=f"use one of {', '.join(SORTS)}"
            )


def find_attempts(indexed: IndexedAttempts, query: Query) -> NDArray[np.int64]:
    """Return the rows of the attempts that fit a query, in its order."""
    fits = np.zeros(indexed.table.num_rows, dtype=bool)
    fits[indexed.latest] = True
    if query.status is not None:
        fits &= indexed.status == STATUSES.index(query.status)
    if query.category is not None:
        codes, names = indexed.category_codes
        fits &= _look_up(pc.equal(names, query.category), codes)
    for word in query.search.split():
        fits &= _contains(indexed, word)
    rows = np.flatnonzero(fits)
    if query.sort == "ended":
        return rows[::-1] if query.descending else rows
    ranks = _rank(indexed, query.sort)[rows]
    return rows[np.argsort(-ranks if query.descending else ranks, kind="stable")]


def _contains(indexed: IndexedAttempts, word: str) -> NDArray[np.bool_]:
    """Return whether a word occurs in the texts of each record, in capitals or not."""
    found = _to_bool(pc.match_substring(indexed.table["error"], word, ignore_case=True))
    for codes, names in (indexed.task_codes, indexed.category_codes):
        found |= _look_up(pc.match_substring(names, word, ignore_case=True), codes)
    named = [word.lower() in status.value.replace("_", " ") or word.lower() in status for status in STATUSES]
    found |= np.array(named)[indexed.status]
    if word.startswith("#") and word[1:].isdecimal() and len(word) < 19:
        found |= indexed.attempt == int(word[1:])
    return found


def _look_up(found: pa.Array, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    flags = _to_bool(found)
    return flags[codes] if len(flags) else np.zeros(len(codes), dtype=bool)


def _to_bool(found: Any) -> NDArray[np.bool_]:
    # A single array copies only if it is asked to.
    return np.array(pc.fill_null(found, False).to_numpy(**_copy(found)), dtype=bool)


def _copy(found: Any) -> dict[str, bool]:
    return {} if isinstance(found, pa.ChunkedArray) else {"zero_copy_only": False}


def _rank(indexed: IndexedAttempts, sort: str) -> NDArray[Any]:
    """Return a number for each record, by which the records are sorted."""
    if sort == "status":
        return indexed.status
    if sort == "duration":
        return np.asarray(indexed.table["duration_seconds"].to_numpy(), dtype=float)
    if sort == "score":
        # An attempt without a score comes before the lowest one.
        return np.asarray(pc.fill_null(indexed.table["score"], -np.inf).to_numpy(), dtype=float)
    if sort == "error":
        order = pc.sort_indices(pc.fill_null(indexed.table["error"], "").combine_chunks()).to_numpy()
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        return ranks
    codes, names = indexed.task_codes if sort == "task" else indexed.category_codes
    ranks = _rank_names(names)[codes] if len(names) else codes
    if sort == "task":
        _, attempts = np.unique(indexed.attempt, return_inverse=True)
        ranks = ranks * (int(attempts.max(initial=0)) + 1) + attempts
    return ranks


def _rank_names(names: pa.StringArray) -> NDArray[np.int64]:
    """Return the rank of each name. Numbers in names are compared as numbers, so that x/2 precedes x/10."""
    padded = [_DIGITS.sub(_pad, name) for name in names.to_pylist()]
    ranks = np.empty(len(padded), dtype=np.int64)
    ranks[sorted(range(len(padded)), key=padded.__getitem__)] = np.arange(len(padded))
    return ranks


def _pad(match: re.Match[str]) -> str:
    return match.group().zfill(20)


def describe_rows(indexed: IndexedAttempts, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return the cells of the list for some rows, as plain values whose texts are safe to show.

    `task_id` is the exact id, by which the attempt is asked for. `name` is the id to show.
    """
    table = indexed.table
    return [
        {
            "task_id": table["task_id"][row].as_py(),
            "name": escape_text(table["task_id"][row].as_py()),
            "attempt": table["attempt"][row].as_py(),
            "status": STATUSES[indexed.status[row]].value,
            "category": escape_text(table["category"][row].as_py() or ""),
            "score": table["score"][row].as_py(),
            "duration_seconds": table["duration_seconds"][row].as_py(),
            "error": escape_text(table["error"][row].as_py() or ""),
        }
        for row in rows
    ]
