"""The columns of attempt records that the viewer keeps, decoded from lines of `attempts.jsonl`.

The viewer must show the same records as every other command. So the same rules decide whether a line is a
record. Only the parser differs: a fast one decodes the usual lines, and all others go to the usual one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pydantic_core import from_json as parse_fast

from harness.evaluation.records import from_json, require_record
from harness.inputs.json_text import MAX_DEPTH
from harness.types import AttemptRecord, Status

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
