"""Rows from a local file: JSON lines or one JSON array, plain or gzipped, a table as CSV, or Parquet."""

from __future__ import annotations

import ast
import csv
import difflib
import gzip
import hashlib
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from harness.benchmarks.data.rows import (
    JSON_SUFFIXES,
    PARQUET,
    SUFFIXES,
    TABLES,
    OnDisk,
    Row,
    describe,
    file_suffix,
    parse_data,
)
from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, hash_file, open_input, unpack
from harness.core.inputs.json_text import BrokenJSONError

MAX_BYTES = MAX_DATA_BYTES

_BOM = b"\xef\xbb\xbf"
MAX_UNPACKED_BYTES = 64 * 1024**2
MAX_ROWS = 20_000
MAX_COLUMNS = 64
# The most characters that a cell can hold. Source: Microsoft's specifications and limits of Excel.
MAX_CELL_CHARACTERS = 32_767
MAX_FIELD = 64 * 1024**2
"""The longest field, in characters."""
MAX_PARQUET_ROWS = 10_000_000


def read_rows(
    path: Path, *, max_bytes: int = MAX_BYTES, or_object: bool = False, left_on_disk: Collection[str] = ()
) -> tuple[list[Row], str]:
    """Return the rows of a file, at least one, and the SHA-256 (hex) of the file's raw bytes.

    The file is `.jsonl`, `.jsonl.gz`, `.json` or `.json.gz`. A `.json` file holds one array of objects or,
    with `or_object`, one object, which gives a row without `line` and `item`. The fields `left_on_disk` of a
    plain `.jsonl` file are read when they are needed. Raises DataError for any other content, with the line
    if there is one.
    """
    try:
        suffix = require_file(path)
        with open_input(path, max_bytes=max(max_bytes, MAX_BYTES)) as raw:
            sha256 = hashlib.file_digest(raw, "sha256").hexdigest()
            raw.seek(0)
            content = unpack(raw, path) if suffix.endswith(".gz") else raw
            rows = list(
                _json_lines(content, path, max_bytes, () if content is not raw else left_on_disk)
                if suffix.startswith(".jsonl")
                else _json_array(content, path, max_bytes, or_object=or_object)
            )
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"broken gzip data: {error}", path=path, hint="the file is cut short or damaged; fetch it again"
        ) from error
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
    if not rows:
        raise DataError("holds no rows", path=path)
    return rows, sha256


def parse_rows(data: bytes, where: PurePath) -> list[Row]:
    """Return the rows in the content of a `.jsonl` or `.json` file; there may be none.

    Reads as `read_rows` does with `or_object`. `where` is the path that errors name.
    """
    content = io.BytesIO(data)
    if where.name.lower().endswith(".jsonl"):
        return list(_json_lines(content, where, MAX_BYTES))
    return list(_json_array(content, where, MAX_BYTES, or_object=True))


def require_file(path: Path, suffixes: tuple[str, ...] = JSON_SUFFIXES) -> str:
    """Return the suffix of a file that exists and has a known one. Raises DataError or OSError."""
    if path.is_dir():
        raise DataError("is a folder", path=path, hint="name one file in it")
    if not path.exists():
        names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, names, n=1)
        hint = f"did you mean '{near[0]}'?" if near else "name a file, hub or bundled"
        raise DataError("no such file", path=path, hint=hint)
    suffix = next((suffix for suffix in suffixes if path.name.lower().endswith(suffix)), None)
    if suffix is None:
        raise DataError("not a known data file", path=path, hint=f"known endings: {', '.join(suffixes)}")
    return suffix


def _json_lines(
    content: BinaryIO, path: PurePath, max_bytes: int, left_on_disk: Collection[str] = ()
) -> Iterator[Row]:
    left = max_bytes
    number = 0
    # Only b"\n" ends a line, because str.splitlines would also cut at U+2028, which JSON allows in strings.
    while line := content.readline(left + 1):
        number += 1
        start = max_bytes - left
        left -= len(line)
        if left < 0:
            raise _too_large(path, max_bytes)
        if number == 1:
            start += len(_BOM) if line.startswith(_BOM) else 0
            line = line.removeprefix(_BOM)
        line = line.rstrip()
        if not line:
            continue
        value = _parse(_decode(line, path, first_line=number), path, first_line=number)
        if not isinstance(value, dict):
            hint = "this looks like one JSON array; name the file .json" if isinstance(value, list) else None
            raise DataError(
                f"needs a JSON object, found {describe(value)}", path=path, line=number, hint=hint
            )
        if large := [field for field in left_on_disk if field in value]:
            # The path must be absolute, because a worker that reads the field may have another working
            # folder.
            place, sha256 = os.path.abspath(path), hashlib.sha256(line).hexdigest()
            value |= {field: OnDisk(place, start, len(line), field, sha256) for field in large}
        yield Row(value, str(path), line=number)


def _json_array(
    content: BinaryIO, path: PurePath, max_bytes: int, *, or_object: bool = False
) -> Iterator[Row]:
    data = content.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise _too_large(path, max_bytes)
    data = data.removeprefix(_BOM)
    if not data.strip():
        return
    values = _parse(_decode(data, path, first_line=1), path, first_line=1)
    if or_object and isinstance(values, dict):
        yield Row(values, str(path))
        return
    if not isinstance(values, list):
        raise DataError(f"needs a JSON array of objects, found {describe(values)}", path=path)
    for number, value in enumerate(values, start=1):
        row = Row(value if isinstance(value, dict) else {}, str(path), item=number)
        if not isinstance(value, dict):
            raise row.error(f"needs a JSON object, found {describe(value)}")
        yield row


def _decode(data: bytes, path: PurePath, *, first_line: int) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + data.count(b"\n", 0, error.start)
        raise DataError(
            f"not UTF-8 (byte 0x{data[error.start]:02x})", path=path, line=line, hint="save it as UTF-8"
        ) from error


def _parse(text: str, path: PurePath, *, first_line: int) -> Any:
    try:
        return parse_data(text)
    except BrokenJSONError as error:
        line = first_line + error.line - 1
        raise DataError(str(error), path=path, line=line, hint=_other_format(error, text, path)) from error


def _other_format(error: BrokenJSONError, text: str, path: PurePath) -> str | None:
    """Return a hint if the file has the other format's name, the usual reason for broken JSON."""
    lines = ".jsonl" in path.name.lower()
    if lines and text.startswith("["):
        return "a JSON array over several lines belongs in a .json file"
    if not lines and error.reason == "Extra data" and text.startswith("{"):
        return "one object a line is JSON lines; name the file .jsonl"
    return None


def _too_large(path: PurePath, max_bytes: int) -> DataError:
    return DataError(f"holds more than {max_bytes:,} bytes unpacked, the most that is read", path=path)


def read_spreadsheet(data: bytes, path: PurePath, columns: Mapping[str, str]) -> list[Row]:
    """Return the rows of the first sheet under its line of headings. Rows without any text are left out.

    Args:
        data: the content of the file.
        path: the name of the file in errors.
        columns: the field of each column by its heading, in lower case and with blanks for underscores. All
            of these fields must be there. A field without its heading has its place among the fields, and
            other columns are left out.

    Raises DataError, with the line of the sheet, for a damaged file and for one that exceeds the bounds.
    """
    _require_bounded_sheet(data, path)
    rows: list[Row] = []
    fields: dict[int, str] | None = None
    for line, cells in enumerate(_read_lines(data, path), 1):
        if line > MAX_ROWS:
            raise DataError(f"has more than {MAX_ROWS:,} rows", path=path)
        texts = [_read_text(cell, path, line) for cell in cells]
        if not any(text.strip() for text in texts):
            continue
        if fields is None:
            fields = _find_fields(texts, columns, path, line)
            continue
        values = {field: texts[place] if place < len(texts) else "" for place, field in fields.items()}
        rows.append(Row(values, str(path), line=line, item=len(rows) + 1))
    if fields is None:
        raise DataError("has no line of headings", path=path, hint=f"needs: {', '.join(columns)}")
    return rows


def _find_fields(
    headings: Sequence[str], columns: Mapping[str, str], path: PurePath, line: int
) -> dict[int, str]:
    names = [" ".join(heading.replace("_", " ").lower().split()) for heading in headings]
    found = {place: columns[name] for place, name in enumerate(names) if name in columns}
    for place, field in enumerate(dict.fromkeys(columns.values())):
        if field not in found.values() and place not in found and "".join(names[place : place + 1]):
            found[place] = field
    missing = sorted(set(columns.values()) - set(found.values()))
    if missing:
        raise DataError(f"has no column for: {', '.join(missing)}", path=path, line=line)
    if len(set(found.values())) < len(found):
        raise DataError("has two columns for one field", path=path, line=line)
    return found


def _read_text(cell: Any, path: PurePath, line: int) -> str:
    text = "" if cell is None else str(cell)
    if len(text) > MAX_CELL_CHARACTERS:
        raise DataError(f"has a cell of more than {MAX_CELL_CHARACTERS:,} characters", path=path, line=line)
    return text


def _require_bounded_sheet(data: bytes, path: PurePath) -> None:
    """Raise DataError for a file whose parts are too large unpacked. No part is unpacked beyond its size."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            unpacked = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError) as error:
        raise DataError(f"is not a spreadsheet: {error}", path=path) from error
    if unpacked > MAX_UNPACKED_BYTES:
        raise DataError(f"has more than {MAX_UNPACKED_BYTES:,} bytes unpacked", path=path)


def _read_lines(data: bytes, path: PurePath) -> Iterator[Sequence[Any]]:
    # The import takes longer than most runs need it for.
    import openpyxl

    try:
        # `read_only` reads one row after the other, and `data_only` takes no formula for a text.
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        sheets = book.worksheets
        if not sheets:
            raise ValueError("it has no sheet")
        # The size that a file claims may be wrong.
        sheets[0].reset_dimensions()
        yield from sheets[0].iter_rows(max_row=MAX_ROWS + 1, max_col=MAX_COLUMNS, values_only=True)
    except Exception as error:
        # The library raises errors of many kinds for damaged files.
        message = f"cannot be read as a spreadsheet: {type(error).__name__}: {error}"
        raise DataError(message[:500], path=path) from error


@dataclass(frozen=True, slots=True)
class Table:
    """The layout of a table."""

    columns: tuple[str, ...] = ()
    """The names of the columns. Without them, the first line names the columns."""
    delimiter: str | None = None
    """None is a tab in files whose name ends in `.tsv`, and a comma in others."""
    literals: tuple[str, ...] = ()
    """The columns that hold Python literals, such as lists, which are read and never evaluated."""


def table_rows(text: str, path: PurePath, table: Table) -> Iterator[Row]:
    """Yield the rows of a table in the text of a file. Raises DataError with the line.

    Quoting follows RFC 4180: quoted fields may hold line ends, and a quote in them is written twice.
    """
    delimiter = table.delimiter or ("\t" if ".tsv" in path.name.lower() else ",")
    csv.field_size_limit(MAX_FIELD)
    # The module needs `newline=""` to keep line ends inside quotes as they are.
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    columns: tuple[str, ...] = table.columns
    item = 0
    try:
        for fields in lines:
            if not fields:
                continue
            if not columns:
                columns = _header(tuple(fields), path)
                continue
            item += 1
            yield _row(fields, columns, table, Row({}, str(path), line=lines.line_num, item=item))
    except csv.Error as error:
        raise DataError(f"broken table: {error}", path=path, line=lines.line_num) from error


def _header(names: tuple[str, ...], path: PurePath) -> tuple[str, ...]:
    if len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise DataError("needs a header with a different name for each column", path=path, line=1)
    return names


def _row(fields: list[str], columns: tuple[str, ...], table: Table, place: Row) -> Row:
    if len(fields) != len(columns):
        raise place.error(f"needs {len(columns)} fields ({', '.join(columns)}), found {len(fields)}")
    values: dict[str, Any] = dict(zip(columns, fields, strict=True))
    for name in table.literals:
        values[name] = _literal(values, name, place)
    return Row(values, place.path, place.line, place.item)


def _literal(values: Mapping[str, str], name: str, place: Row) -> Any:
    try:
        return ast.literal_eval(values[name])
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise place.error(f"needs a Python literal, found {describe(values[name])}", field=name) from error


def read_file(
    path: Path, table: Table | None = None, left_on_disk: Collection[str] = ()
) -> tuple[list[Row], str]:
    """Return the rows of a file, at least one, and the SHA-256 (hex) of the file's raw bytes.

    The file is JSON, JSON lines, CSV or TSV, each also gzipped, or Parquet. `table` is the layout of a CSV
    or TSV, by default with a header. The fields `left_on_disk` of JSONL are read when they are needed.
    Raises DataError, with the line if there is one.
    """
    suffix = file_suffix(path)
    if suffix not in (*TABLES, PARQUET):
        return read_rows(path, left_on_disk=left_on_disk)
    require_file(path, SUFFIXES)
    try:
        sha256 = hash_file(path)
        rows = _parquet(path) if suffix == PARQUET else list(table_rows(_text(path), path, table or Table()))
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path=path) from error
    if not rows:
        raise DataError("holds no rows", path=path)
    return rows, sha256


def parquet_values(paths: list[str]) -> list[dict[str, Any]]:
    """Return the rows of Parquet files as plain values. `datasets` reads them and may raise anything."""
    import datasets

    # `datasets` writes a copy in another format, which is useless once the rows are read.
    with tempfile.TemporaryDirectory(prefix="harness-") as folder:
        loaded = datasets.load_dataset("parquet", data_files=paths, split="train", cache_dir=folder)
        return [dict(row) for row in loaded]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep `datasets` and its client from writing to the terminal and contacting any host but the hub."""
    import datasets
    import huggingface_hub.utils as hub

    logs = (datasets.utils.logging, hub.logging)
    levels = [log.get_verbosity() for log in logs]
    bars = (datasets, hub)
    shown = [not bar.are_progress_bars_disabled() for bar in bars]
    counts = datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False  # This would contact a host of Amazon.
    for log in logs:
        log.set_verbosity_error()
    for bar in bars:
        bar.disable_progress_bars()
    try:
        yield
    finally:
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = counts
        for log, level in zip(logs, levels, strict=True):
            log.set_verbosity(level)
        for bar, was_shown in zip(bars, shown, strict=True):
            if was_shown:
                bar.enable_progress_bars()


def _parquet(path: Path) -> list[Row]:
    try:
        _require_bounded(path)
        with quiet():
            values = parquet_values([str(path)])
    except ImportError as error:
        raise DataError(f"`datasets` cannot be imported: {error}", path=path, hint="install it") from error
    except DataError:
        raise
    except Exception as error:  # the library raises many types for a file that it cannot read
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(f"cannot be read as Parquet: {reason}", path=path) from error
    return [Row(row, str(path), item=number) for number, row in enumerate(values, start=1)]


def _require_bounded(path: Path) -> None:
    """Raise DataError if a Parquet file declares more bytes or rows than may be read."""
    from pyarrow import parquet

    facts = parquet.read_metadata(path)
    unpacked = sum(facts.row_group(number).total_byte_size for number in range(facts.num_row_groups))
    if unpacked > MAX_BYTES:
        raise DataError(f"holds more than {MAX_BYTES:,} bytes unpacked", path=path)
    # Bound the rows too, because a column of one value takes a few bytes for any number of rows.
    if facts.num_rows > MAX_PARQUET_ROWS:
        raise DataError(f"holds {facts.num_rows:,} rows, more than {MAX_PARQUET_ROWS:,}", path=path)


def _text(path: Path) -> str:
    try:
        with open_input(path, max_bytes=MAX_BYTES) as stream:
            content = unpack(stream, path) if path.name.lower().endswith(".gz") else stream
            data = content.read(MAX_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"broken gzip data: {error}", path=path, hint="fetch the file again") from error
    if len(data) > MAX_BYTES:
        raise DataError(f"holds more than {MAX_BYTES:,} bytes unpacked", path=path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise DataError(
            f"not UTF-8 (byte 0x{data[error.start]:02x})", path=path, line=line, hint="save it as UTF-8"
        ) from error
