"""The index of `attempts.jsonl`: a few columns of the last record of each attempt, in a table of SQLite.

The lines are the truth, and the table is derived from them alone. It is in a private temporary file that
vanishes with its process. A run may have a million attempts, and memory holds only the pages of the table
that are in use.
"""

from __future__ import annotations

import inspect
import json
import sqlite3
import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import islice
from typing import Any

from harness.core.errors import HarnessError
from harness.core.inputs.files import MAX_DATA_BYTES
from harness.core.types import AttemptRecord, Status
from harness.runs.stored_result import COUNTED, Outcome, Replayed, StoredResult, reduce_record

ATTEMPTS = "attempts.jsonl"
# Room for ten thousand attempts at each of ten thousand tasks, with a few hundred bytes each.
MAX_ATTEMPTS_BYTES = 32 * MAX_DATA_BYTES
ERROR_CHARACTERS = 160
"""The characters of each error that the index keeps, for the list and the search."""
STATUSES = tuple(Status)
"""The table names a status by its place here."""

_PLACES = {status: place for place, status in enumerate(STATUSES)}
# `place` follows the order of the first records, and `offset` the order of the last ones.
SCHEMA = """
CREATE TABLE attempts (
    place INTEGER PRIMARY KEY, task TEXT NOT NULL, number INTEGER NOT NULL, offset INTEGER NOT NULL,
    status INTEGER NOT NULL, score REAL, seconds REAL NOT NULL, category TEXT, cluster TEXT, error TEXT,
    line INTEGER, superseded INTEGER NOT NULL, facts TEXT,
    UNIQUE (task, number)
)
"""
# The file belongs to this process alone, and nobody needs it after a crash.
_PRAGMAS = ("journal_mode = MEMORY", "synchronous = OFF", "locking_mode = EXCLUSIVE", "cache_size = -65536")
_COLUMNS = (
    *("task", "number", "offset", "status", "score", "seconds", "category", "cluster", "error", "line"),
    *("superseded", "facts"),
)
_TEXTS = frozenset(("task", "category", "cluster", "error"))
_VALUES = ", ".join("CAST(? AS TEXT)" if name in _TEXTS else "?" for name in _COLUMNS)
_INSERT = f"INSERT INTO attempts ({', '.join(_COLUMNS)}) VALUES ({_VALUES})"
_SET = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[2:])
_REPLACE = f"{_INSERT} ON CONFLICT DO UPDATE SET {_SET}"
_RESULT = "status, category, score, superseded, facts"
_KEY = "task = CAST(? AS TEXT) AND number = ?"
# The rows of one transaction, and of one look at the table.
_BATCH = 5000
_MOST_ANSWERS = 100

Row = tuple[Any, ...]


class AttemptIndex(Mapping[tuple[str, int], StoredResult]):
    """The last result of each attempt, by task id and attempt number, in the order of their first records.

    `metrics` are the metrics that the results of first attempts keep. Several threads may use an index.
    """

    def __init__(self, metrics: Sequence[str] = ()) -> None:
        self._metrics = tuple(metrics)
        self.lock = threading.RLock()
        # The answers of `ask`, which hold until the table changes.
        self._answers: dict[tuple[str, Row], list[Row]] = {}
        self.open_table()

    def open_table(self) -> None:
        """Begin with an empty table."""
        # Without a name SQLite makes a file that is already removed, and writes to it only beyond the cache.
        self.table = sqlite3.connect("", check_same_thread=False, isolation_level=None, cached_statements=64)
        self.table.text_factory = _decode
        for pragma in _PRAGMAS:
            self.table.execute(f"PRAGMA {pragma}")
        self.table.execute(SCHEMA)
        self._answers.clear()
        self._size = 0

    def add(self, records: Iterable[tuple[AttemptRecord, int]]) -> None:
        """Add the next records of a run, each with its offset in `attempts.jsonl` in bytes."""
        pending = iter(records)
        while batch := list(islice(pending, _BATCH)):
            with self.lock:
                self._add([self._make_row(record, offset) for record, offset in batch], batch)

    def add_lines(self, records: Iterable[tuple[AttemptRecord, int]]) -> int:
        """Add all records of a file, each with the length of its line, and return the sum of the lengths."""
        end = 0

        def locate() -> Iterator[tuple[AttemptRecord, int]]:
            nonlocal end
            for record, size in records:
                yield record, end
                end += size

        self.add(locate())
        return end

    def _add(self, rows: Sequence[Row], batch: Sequence[tuple[AttemptRecord, int]]) -> None:
        self._answers.clear()
        try:
            self.table.execute("BEGIN")
            try:
                self.table.executemany(_INSERT, rows)
            except (sqlite3.IntegrityError, UnicodeEncodeError):
                # An attempt was repeated, or a text has half a surrogate pair.
                self.table.execute("ROLLBACK")
                self.table.execute("BEGIN")
                for record, offset in batch:
                    row = self._make_row(record, offset, self.get((record.task_id, record.attempt)))
                    self.table.execute(_REPLACE, [_encode(value) for value in row])
            self.table.execute("COMMIT")
            self.count_rows()
        except sqlite3.Error as error:
            raise HarnessError(
                f"the index of the attempts cannot be written: {error}",
                hint="make room in the folder for temporary files, which TMPDIR names",
            ) from error

    def count_rows(self) -> None:
        """Note that the table has changed."""
        self._answers.clear()
        (self._size,) = self.table.execute("SELECT count(*) FROM attempts").fetchone()

    def _make_row(self, record: AttemptRecord, offset: int, earlier: StoredResult | None = None) -> Row:
        error = record.error
        superseded, facts = 0, None
        if self._metrics or earlier is not None or not record.metrics.keys().isdisjoint(COUNTED):
            result = reduce_record(record, metrics=self._metrics, earlier=earlier)
            superseded, facts = result.superseded, _write_facts(result)
        return (
            *(record.task_id, record.attempt, offset, _PLACES[record.status]),
            *(None if record.score is None else float(record.score), float(record.duration_seconds)),
            *(record.category, record.cluster),
            *(None if error is None else error[:ERROR_CHARACTERS], record.sample_line, superseded, facts),
        )

    def ask(self, sql: str, *values: Any) -> list[Row]:
        """Return the rows of a SELECT, at once. They are kept until the table changes."""
        with self.lock:
            found = self._answers.get((sql, values))
            if found is None:
                found = self.select(sql, *values)
                if len(self._answers) > _MOST_ANSWERS:
                    self._answers.clear()
                self._answers[sql, values] = found
            return found

    def add_function(self, name: str, function: Callable[..., Any]) -> None:
        """Make a function available in SELECTs."""
        with self.lock:
            arguments = len(inspect.signature(function).parameters)
            self.table.create_function(name, arguments, function, deterministic=True)

    def select(self, sql: str, *values: Any) -> list[Row]:
        """Return the rows of a SELECT."""
        with self.lock:
            return self.table.execute(sql, [_encode(value) for value in values]).fetchall()

    def scan(self, columns: str, order: str = "place") -> Iterator[Row]:
        """Yield these columns of all attempts, a part of the table at a time."""
        with self.lock:
            cursor = self.table.execute(f"SELECT {columns} FROM attempts ORDER BY {order}")
        while True:
            with self.lock:
                rows = cursor.fetchmany(_BATCH)
            if not rows:
                return
            yield from rows

    def find_offset(self, key: tuple[str, int]) -> int | None:
        """Return the offset of the last record of an attempt, None without a record."""
        found = self._find("offset", key)
        return None if found is None else int(found[0])

    def list_offsets(self, task_ids: Iterable[str] = ()) -> Sequence[int]:
        """Return the offset of the last record of each attempt: by task, and then by number.

        A task that `task_ids` does not name comes after all that it names, by its first record.
        """
        with self.lock:
            run = self.table.execute
            run("DROP TABLE IF EXISTS temp.tasks")
            run("CREATE TEMP TABLE tasks (task TEXT PRIMARY KEY, rank INTEGER) WITHOUT ROWID")
            run("BEGIN")
            ranks = ((_encode(task_id), rank) for rank, task_id in enumerate(task_ids))
            self.table.executemany("INSERT OR IGNORE INTO tasks VALUES (CAST(? AS TEXT), ?)", ranks)
            run(f"INSERT OR IGNORE INTO tasks SELECT task, {2**50} + min(place) FROM attempts GROUP BY task")
            run("COMMIT")
            found = run("SELECT offset FROM attempts JOIN tasks USING (task) ORDER BY rank, number")
            return array("q", (offset for (offset,) in found))

    def count_superseded(self) -> int:
        """Return the number of verdicts that retries have superseded."""
        return int(self.ask("SELECT ifnull(sum(superseded), 0) FROM attempts")[0][0])

    def __getitem__(self, key: tuple[str, int]) -> StoredResult:
        found = self._find(_RESULT, key)
        if found is None:
            raise KeyError(key)
        return _read_result(found)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return self.scan("task, number")

    def __len__(self) -> int:
        return self._size

    def _find(self, columns: str, key: tuple[str, int]) -> Row | None:
        with self.lock:
            found = self.table.execute(
                f"SELECT {columns} FROM attempts WHERE {_KEY}", (_encode(key[0]), key[1])
            )
            row: Row | None = found.fetchone()
            return row


def _encode(value: Any) -> Any:
    """Return a value that SQLite takes, which are bytes for a text with half a surrogate pair."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
    return value


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _write_facts(result: StoredResult) -> str | None:
    """Return the values of a result that most results lack as JSON, None if it lacks them all."""
    replayed = result.replayed
    facts = (
        *(result.integrity, result.resolved_strict, result.metrics, result.usage, result.mcp),
        None if replayed is None else astuple(replayed),
        result.answer,
    )
    return json.dumps(facts) if any(fact is not None and fact != () for fact in facts) else None


def _read_result(row: Row) -> StoredResult:
    place, category, score, superseded, written = row
    status = STATUSES[place]
    facts = [None] * 7 if written is None else json.loads(written)
    integrity, strict, metrics, usage, mcp, replayed, answer = facts
    return StoredResult(
        status=status,
        resolved=status is Status.PASSED,
        category=category,
        integrity=integrity,
        resolved_strict=strict,
        metrics=tuple(metrics or ()),
        usage=None if usage is None else tuple(usage),
        score=score,
        replayed=None if replayed is None else Replayed(Outcome(replayed[0]), *replayed[1:]),
        mcp=mcp,
        superseded=superseded,
        answer=answer,
    )
