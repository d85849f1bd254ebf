"""One row for each attempt with its whole texts, for `pandas.read_parquet`.

The columns are as in `csv`, with `agent_output` uncut and `submission`. Texts are as they were submitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO

from harness.core.errors import UsageError, install_command
from harness.core.types import AttemptRecord
from harness.reports.columns import Column, Kind, Value, list_columns
from harness.reports.run_folder import StoredRun

BINARY = True
# A batch ends at the first of these limits, because memory holds a whole batch.
_BATCH_ROWS, _BATCH_CHARACTERS = 20_000, 16_000_000


def write_report(run: StoredRun, stream: BinaryIO) -> None:
    """Write the table. Raises UsageError if pyarrow is missing."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError("parquet needs pyarrow", hint=f"run: {install_command('pyarrow')}") from error
    types = {
        Kind.TEXT: pyarrow.string(),
        Kind.INTEGER: pyarrow.int64(),
        Kind.NUMBER: pyarrow.float64(),
        Kind.BOOLEAN: pyarrow.bool_(),
        Kind.TIME: pyarrow.timestamp("ms", tz="UTC"),
    }
    columns = list(list_columns(run, whole=True))
    schema = pyarrow.schema([(column.name, types[column.kind]) for column in columns])
    with parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        for batch in _batches(run, columns):
            table = {column.name: values for column, values in zip(columns, batch, strict=True)}
            writer.write_table(pyarrow.table(table, schema=schema))


def _batches(run: StoredRun, columns: Sequence[Column]) -> Iterator[list[list[Any]]]:
    """Yield the values of each column, for some attempts at a time."""
    batch: list[list[Any]] = [[] for _ in columns]
    characters = 0
    for record in run.attempts(whole=True):
        for values, column in zip(batch, columns, strict=True):
            values.append(_convert(column.value(record), column.kind))
        characters += _measure(record)
        if len(batch[0]) >= _BATCH_ROWS or characters >= _BATCH_CHARACTERS:
            yield batch
            batch, characters = [[] for _ in columns], 0
    if batch[0]:
        yield batch


def _convert(value: Value, kind: Kind) -> Any:
    if not isinstance(value, str):
        return value
    if kind is not Kind.TIME:
        # A lone surrogate has no UTF-8.
        return value.encode("utf-8", "backslashreplace").decode()
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _measure(record: AttemptRecord) -> int:
    texts = (record.agent_output_full, record.submission, record.error, record.agent_output)
    return sum(len(text) for text in texts if text)
