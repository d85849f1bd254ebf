"""Rows from a local file: JSON lines or one JSON array, plain or gzipped."""

from __future__ import annotations

import difflib
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from harness.benchmarks.data.rows import OnDisk, Row, describe, parse_data
from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, open_input, unpack
from harness.core.inputs.json_text import BrokenJSONError

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
MAX_BYTES = MAX_DATA_BYTES

_BOM = b"\xef\xbb\xbf"


def read_rows(
    path: Path,
    *,
    max_bytes: int = MAX_BYTES,
    or_object: bool = False,
    left_on_disk: Collection[str] = (),
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


def data_suffix(path: PurePath) -> str | None:
    """Return the one of SUFFIXES that a file name ends with, or None."""
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def require_file(path: Path, suffixes: tuple[str, ...] = SUFFIXES) -> str:
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
