"""An index of `attempts.jsonl`: a few columns of each record and its place, built while the file grows.

A run may have a million records. Their columns are tables of Arrow, and whole records stay in the file.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic_core import from_json as parse_fast

from harness.core.inputs.files import MAX_LINE_BYTES, MIB
from harness.core.inputs.json_text import MAX_DEPTH
from harness.core.text import escape_text
from harness.core.types import AttemptRecord, Status
from harness.runs.records import from_json, require_record
from harness.runs.run_files import open_run_file
from harness.runs.store import ATTEMPTS, MAX_ATTEMPTS_BYTES

ERROR_CHARACTERS = 160
"""The characters of each error that the index keeps, for the list and the search."""

STATUSES = tuple(Status)

_SCHEMA = pa.schema(
    [
        ("task_id", pa.string()),
        ("attempt", pa.int64()),
        ("category", pa.string()),
        ("status", pa.int8()),
        ("score", pa.float64()),
        ("duration_seconds", pa.float64()),
        ("error", pa.string()),
    ]
)
_PLACES = {status.value: place for place, status in enumerate(STATUSES)}
_pick = itemgetter("task_id", "attempt", "category", "status", "score", "duration_seconds", "error")
_Row = tuple[str, int, str | None, int, float | None, float, str | None]


def decode_record(line: bytes) -> _Row:
    """Return the columns of the record in a line, for `make_table`.

    Raises ValueError, TypeError, KeyError or OverflowError for a line that is no record.
    """
    row = _decode_fast(line)
    return _describe(from_json(line)) if row is None else row


def _decode_fast(line: bytes) -> _Row | None:
    """Return the columns of the record in a line, None if the other parser must read it."""
    try:
        values = parse_fast(line, allow_inf_nan=False)
        if not isinstance(values, dict) or not _is_plain(values.values(), MAX_DEPTH - 1):
            return None
        require_record(values)
    except (ValueError, TypeError, KeyError):
        return None
    task_id, attempt, category, status, score, seconds, error = _pick(values)
    return task_id, attempt, category, _PLACES[status], score, seconds, _cut(error)


def _is_plain(values: Any, depth: int) -> bool:
    """Return whether both parsers accept the values.

    The fast one also takes deeper values, integers with more digits, and floats that are infinite.
    """
    for value in values:
        kind = type(value)
        if kind is int:
            is_plain = -(2**63) <= value < 2**63
        elif kind is float:
            is_plain = math.isfinite(value)
        elif kind is dict:
            is_plain = depth > 0 and _is_plain(value.values(), depth - 1)
        else:
            is_plain = kind is not list or (depth > 0 and _is_plain(value, depth - 1))
        if not is_plain:
            return False
    return True


def make_table(rows: Sequence[_Row]) -> pa.Table:
    """Return the columns of records that `decode_record` has decoded."""
    columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.table(arrays, schema=_SCHEMA)


def _describe(record: AttemptRecord) -> _Row:
    """Return the columns of a record.

    Half a surrogate pair, which Arrow cannot hold, becomes an escape. Raises OverflowError for a number of an
    attempt that needs more than 64 bits.
    """
    if not -(2**63) <= record.attempt < 2**63:
        raise OverflowError("'attempt' needs more than 64 bits")

    def encode(text: str | None) -> str | None:
        return None if text is None else text.encode("utf-8", "backslashreplace").decode()

    return (
        record.task_id.encode("utf-8", "backslashreplace").decode(),
        record.attempt,
        encode(record.category),
        _PLACES[record.status],
        None if record.score is None else float(record.score),
        float(record.duration_seconds),
        encode(_cut(record.error)),
    )


def _cut(error: str | None) -> str | None:
    return None if error is None else error[:ERROR_CHARACTERS]


# Small enough that several parts fit into the time of one request.
_PART_BYTES = 4 * MIB
# A run under way adds few records at a time. So many small parts are joined.
_MOST_PARTS = 64
_PASSED = STATUSES.index(Status.PASSED)


@dataclass(frozen=True)
class IndexedAttempts:
    """The indexed records at one moment. A record is named by its row, which is its place in the file."""

    table: pa.Table
    # The offset of each record in bytes.
    offsets: NDArray[np.int64]

    @cached_property
    def status(self) -> NDArray[np.int64]:
        """The place of each record's status in STATUSES."""
        return _numbers(self.table["status"])

    @cached_property
    def attempt(self) -> NDArray[np.int64]:
        return _numbers(self.table["attempt"])

    @cached_property
    def task_codes(self) -> tuple[NDArray[np.int64], pa.StringArray]:
        """The number of each record's task, and the task ids by number."""
        return _encode(self.table["task_id"])

    @cached_property
    def category_codes(self) -> tuple[NDArray[np.int64], pa.StringArray]:
        """The number of each record's category, and the categories by number. No category is ""."""
        return _encode(pc.fill_null(self.table["category"], ""))

    @cached_property
    def has_categories(self) -> bool:
        """Whether any record has a category."""
        return any(name for name in self.category_codes[1].to_pylist())

    @cached_property
    def latest(self) -> NDArray[np.int64]:
        """The rows with the last record of each attempt, in the order of the file.

        A resumed run repeats attempts that had no verdict.
        """
        numbers, attempts = np.unique(self.attempt, return_inverse=True)
        keys = self.task_codes[0] * max(len(numbers), 1) + attempts
        _, places = np.unique(keys[::-1], return_index=True)
        return np.sort(len(keys) - 1 - places)

    @cached_property
    def tasks(self) -> int:
        """The number of tasks that have a record."""
        return len(self.task_codes[1])

    def count_statuses(self) -> dict[Status, int]:
        """Return the number of attempts with each status that occurs, in the order of Status."""
        counts = np.bincount(self.status[self.latest], minlength=len(STATUSES))
        return {status: int(counts[place]) for place, status in enumerate(STATUSES) if counts[place]}

    def count_resolved(self) -> int:
        """Return the number of tasks whose first attempt passed."""
        return int(np.count_nonzero((self.attempt[self.latest] == 0) & (self._passed())))

    def count_categories(self) -> dict[str, tuple[int, int]]:
        """Return the attempts of each category, and those that passed."""
        codes, names = self.category_codes
        totals = np.bincount(codes[self.latest], minlength=len(names))
        passed = np.bincount(codes[self.latest][self._passed()], minlength=len(names))
        rows = zip(names.to_pylist(), totals.tolist(), passed.tolist(), strict=True)
        return {name: (total, number) for name, total, number in rows if total}

    def list_shares(self) -> list[tuple[str, float]]:
        """Return the category of each task with a record, and the share of its attempts that passed."""
        tasks, names = self.task_codes[0][self.latest], self.category_codes[1].to_pylist()
        made = np.bincount(tasks, minlength=self.tasks)
        passed = np.bincount(tasks[self._passed()], minlength=self.tasks)
        of_tasks = np.zeros(self.tasks, dtype=np.int64)
        of_tasks[tasks] = self.category_codes[0][self.latest]
        return [
            (names[category], share)
            for category, share in zip(of_tasks.tolist(), (passed / made).tolist(), strict=True)
        ]

    def find(self, task_id: str, attempt: int) -> int | None:
        """Return the row of the last record of an attempt, None without one."""
        if not -(2**63) <= attempt < 2**63:
            return None
        same = pc.and_(pc.equal(self.table["task_id"], task_id), pc.equal(self.table["attempt"], attempt))
        rows = pc.indices_nonzero(same)
        return rows[-1].as_py() if len(rows) else None

    def _passed(self) -> NDArray[np.bool_]:
        return np.asarray(self.status[self.latest] == _PASSED)


class AttemptIndex:
    """The index of one run folder, which follows the file. Several threads may use it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ATTEMPTS
        self._lock = threading.Lock()
        self._start_again()

    def _start_again(self) -> None:
        self._tables: list[pa.Table] = []
        self._offsets: list[NDArray[np.int64]] = []
        self._end = 0
        self._lines = 0
        self._identity: tuple[int, int] | None = None
        self._indexed: IndexedAttempts | None = None
        self._is_complete = False
        self.size = 0
        self.problem: str | None = None

    @property
    def end(self) -> int:
        """The bytes of the file that are indexed."""
        return self._end

    @property
    def is_complete(self) -> bool:
        """Whether all whole lines that the file had at the last look are indexed."""
        return self._is_complete

    def advance(self, seconds: float) -> IndexedAttempts:
        """Index the lines that are new, for about `seconds`, and return all that are indexed.

        A last line without its end waits for the next call. A file that was replaced is indexed again.
        Raises OSError if the file cannot be read.
        """
        until = time.monotonic() + seconds
        with self._lock:
            self._is_complete = False
            try:
                stream = open_run_file(self._path.parent, self._path.name, max_bytes=MAX_ATTEMPTS_BYTES)
            except FileNotFoundError:  # no attempt has ended yet
                if not self._path.parent.is_dir():
                    raise
                if self._end:
                    self._start_again()
                self._is_complete = True
                return self._snapshot()
            with stream:
                self._watch(stream.fileno())
                while not self._is_complete:
                    has_part = self._add_part(stream.fileno())
                    self._is_complete = not has_part or self._end == self.size
                    if time.monotonic() > until:
                        break
            return self._snapshot()

    def read(self, offset: int) -> AttemptRecord:
        """Return the whole record at an offset. Raises OSError, ValueError, TypeError or KeyError."""
        with open_run_file(self._path.parent, self._path.name, max_bytes=MAX_ATTEMPTS_BYTES) as stream:
            stream.seek(offset)
            return from_json(stream.readline(MAX_LINE_BYTES), whole=True)

    def _watch(self, descriptor: int) -> None:
        """Start again if the file is another one, or no longer has a line that ends where the index does."""
        facts = os.fstat(descriptor)
        identity = facts.st_dev, facts.st_ino
        # A run that cannot write a record cuts the file, and writes again from there.
        is_cut = os.pread(descriptor, 1, max(self._end - 1, 0)) != b"\n"
        if self._end and (is_cut or identity != self._identity):
            self._start_again()
        self._identity = identity
        self.size = facts.st_size

    def _add_part(self, descriptor: int) -> bool:
        """Index the next part of the file, and return whether there was one."""
        data, size = b"", _PART_BYTES
        while True:
            data = _read(descriptor, size, self._end)
            length = data.rfind(b"\n") + 1
            if length:
                break
            if len(data) < size:
                return False
            if size > MAX_LINE_BYTES:
                raise OSError(f"line {self._lines + 1:,} is longer than {MAX_LINE_BYTES:,} bytes")
            size *= 2
        self._add_lines(data[:length])
        return True

    def _add_lines(self, data: bytes) -> None:
        """Index whole lines. A line that is no record is left out."""
        rows = []
        offsets: list[int] = []
        for line in data.split(b"\n")[:-1]:
            self._lines += 1
            try:
                rows.append(decode_record(line))
            except (ValueError, TypeError, KeyError, OverflowError) as error:
                place = f"{self._path}:{self._lines}"
                self.problem = self.problem or f"{place}: is not an attempt record: {escape_text(str(error))}"
            else:
                offsets.append(self._end)
            self._end += len(line) + 1
        self._tables.append(make_table(rows))
        self._offsets.append(np.array(offsets, dtype=np.int64))
        self._indexed = None

    def _snapshot(self) -> IndexedAttempts:
        if len(self._tables) > _MOST_PARTS:
            self._tables = [pa.concat_tables(self._tables).combine_chunks()]
            self._offsets = [np.concatenate(self._offsets)]
        if self._indexed is None:
            tables = self._tables or [make_table(())]
            offsets = self._offsets or [np.array([], dtype=np.int64)]
            self._indexed = IndexedAttempts(pa.concat_tables(tables), np.concatenate(offsets))
        return self._indexed


def _read(descriptor: int, size: int, offset: int) -> bytes:
    parts = []
    while size and (part := os.pread(descriptor, size, offset)):
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return b"".join(parts)


def _numbers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _encode(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.StringArray]:
    """Return the texts of a column as numbers, and the distinct texts."""
    encoded = column.dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        if encoded.num_chunks == 0:
            return np.array([], dtype=np.int64), pa.array([], pa.string())
        encoded = encoded.unify_dictionaries().chunk(0)
    return np.asarray(encoded.indices.to_numpy(), dtype=np.int64), encoded.dictionary
