"""One row of a data file, with accessors whose errors name the file, the line and the field."""

from __future__ import annotations

import difflib
import hashlib
import re
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from harness.core.errors import DataError
from harness.core.inputs.files import MAX_DATA_BYTES, open_input
from harness.core.inputs.json_text import parse_json

# Python's int() and str() refuse more than 4,300 digits.
_MAX_DIGITS = 4000
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
# A field with one of these words in its name is part of the tests, of their limits, or of the right answers.
_GRADING_WORDS = frozenset(
    (
        *("test", "tests", "testcase", "testcases", "check", "checks", "checker", "checkers", "verifier"),
        *("assert", "asserts", "assertion", "assertions", "expected", "oracle", "input", "inputs", "output"),
        *("outputs", "atol", "rtol", "tolerance", "epsilon", "timeout", "limit", "limits", "setup"),
        *("grader", "grading", "judge", "rubric", "rubrics", "scoring", "alias", "aliases"),
    )
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# The endings of the files that rows are read from.
JSON_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = ".parquet"
SUFFIXES = (*JSON_SUFFIXES, *TABLES, PARQUET)


@dataclass(frozen=True, slots=True)
class OnDisk:
    """The value of a large field that was left in a line of a JSONL file."""

    path: str
    offset: int
    """The place of the line in the file, in bytes."""
    size: int
    """The length of the line in bytes."""
    field: str
    sha256: str
    """The SHA-256 (hex) of the line."""

    def read(self) -> Any:
        """Return the value. Raises DataError if the line has changed."""
        try:
            with open_input(self.path, max_bytes=MAX_DATA_BYTES) as file:
                file.seek(self.offset)
                line = file.read(self.size)
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror or error}", path=self.path) from error
        if hashlib.sha256(line).hexdigest() != self.sha256:
            raise DataError("has changed since it was loaded", path=self.path, field=self.field)
        return parse_data(line)[self.field]


class WatchedFields(Mapping[str, Any]):
    """The fields of a row, which remember the names of those that were read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values_unseen = values
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        value = self.values_unseen[name]
        self.read.add(name)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self.values_unseen

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_unseen)

    def __len__(self) -> int:
        return len(self.values_unseen)


def names_grading(field: str) -> bool:
    """Return whether a field, by its name, would change how answers are graded."""
    return not _GRADING_WORDS.isdisjoint(word.lower() for word in _WORDS.findall(field))


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of one row, and its place."""

    values: Mapping[str, Any]
    path: str
    line: int | None = None
    """The line in a JSONL file or a table, from 1."""
    item: int | None = None
    """The position in a JSON array or a table, from 1."""
    file: int | None = None
    """The position of its file, from 1, if each file of a folder holds one row."""

    @property
    def place(self) -> int:
        """The position of the row in its file or folder, from 0. It identifies a row that has no id."""
        return (self.file or self.item or self.line or 1) - 1

    def text(self, field: str) -> str:
        """Return a string field. Raises DataError if it is missing or of another type."""
        value = self._required(field, "a string")
        if isinstance(value, OnDisk):
            value = value.read()
        if not isinstance(value, str):
            raise self._wrong(field, value, "a string")
        return value

    def require(self, field: str) -> None:
        """Raise DataError if a field is missing. Its value is not read."""
        self._required(field, "a value")

    def value(self, field: str) -> Any:
        """Return a field of any type. Raises DataError if it is missing."""
        value = self._required(field, "a value")
        return value.read() if isinstance(value, OnDisk) else value

    def optional_text(self, field: str) -> str | None:
        """Return a string field, or None if it is missing or null. Raises DataError."""
        return None if self.values.get(field) is None else self.text(field)

    def integer(self, field: str) -> int:
        """Return an integer field; true and 1.0 are not integers. Raises DataError."""
        value = self._required(field, "an integer")
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(field, value, "an integer")
        return value

    def name(self, field: str) -> str:
        """Return a field that is a name, such as an id, as text. Its value is a text or an integer.

        Raises DataError if it is missing, empty, or impossible in a file name.
        """
        value = self.values.get(field)
        if type(value) is int:
            return str(value)
        text = self.text(field)
        if not text.strip():
            raise self.error("is empty", field=field)
        require_sound(self, field, text)
        return text

    def texts(self, field: str) -> list[str]:
        """Return a list of strings, which may be empty. Raises DataError."""
        value = self._required(field, "a list of strings")
        if not isinstance(value, list):
            raise self._wrong(field, value, "a list of strings")
        for place, element in enumerate(value):
            if not isinstance(element, str):
                raise self._wrong(f"{field}[{place}]", element, "a string")
        return value

    def error(self, message: str, *, field: str | None = None, hint: str | None = None) -> DataError:
        """Return an error that names the place of this row."""
        path = self.path if self.item is None or self.line else f"{self.path}: item {self.item}"
        return DataError(message, path=path, line=self.line, field=field, hint=hint)

    def _required(self, field: str, needed: str) -> Any:
        if field in self.values:
            return self.values[field]
        near = difflib.get_close_matches(field, self.values, n=1)
        suggestion = f"did you mean '{near[0]}'? " if near else ""
        names = ", ".join(sorted(self.values)[:20]) or "nothing"
        names = names if len(names) <= 300 else f"{names[:299]}…"
        hint = f"{suggestion}the row has: {names}"
        raise self.error(f"missing, needs {needed}", field=field, hint=hint)

    def _wrong(self, field: str, value: Any, needed: str) -> DataError:
        return self.error(f"needs {needed}, found {describe(value)}", field=field)


def require_sound(row: Row, field: str, name: str) -> None:
    """Raise DataError for a name that cannot be encoded in a file name or a report."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise row.error("contains half of a surrogate pair", field=field) from error


def parse_data(text: str | bytes) -> Any:
    """Return the value of JSON in a data file. NaN and infinities are allowed. Raises BrokenJSONError."""
    return parse_json(text, max_digits=_MAX_DIGITS, allow_nan=True)


def describe(value: Any) -> str:
    """Return a JSON value's type and its first characters, in one short line."""
    match value:
        case None:
            return "null"
        case bool():
            return f"a boolean ({str(value).lower()})"
        case int():
            # An integer of thousands of digits cannot be shown: Python refuses the conversion.
            return f"an integer ({_short.repr(value)})" if value.bit_length() < 4096 else "a huge integer"
        case float():
            return f"a number ({value!r})"
        case str():
            return f"a string ({_short.repr(value)})"
        case list():
            return f"a list of {len(value)}"
        case Mapping():
            return f"an object of {len(value)} fields"
    return f"a {type(value).__name__}"


def file_suffix(path: PurePath) -> str | None:
    """Return the one of SUFFIXES that a file name ends with, or None."""
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)
