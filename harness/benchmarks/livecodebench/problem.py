"""The problems of LiveCodeBench: their rows, tests and filters, and the releases that they belong to."""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import os
import pickletools
import re
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.benchmarks.data.rows import Row, describe
from harness.core.errors import UsageError, unknown_name
from harness.core.types import DataSource

MAX_BYTES = 1024**3
"""The most that the tests of one problem may hold once they are unpacked."""

# The opcodes that the pickle of one string needs. All others are refused, and so is every global.
_STRINGS = frozenset({"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_AROUND = frozenset({"PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "STOP"})
DIFFICULTIES = ("easy", "medium", "hard")
HIDDEN = "private_test_cases"
"""The field of a row that holds the hidden tests."""
PLATFORMS = ("atcoder", "codeforces", "leetcode")
ONLY_TEST = dict.fromkeys(("train", "dev"), "it was published with test only")
"""The reasons why no scenario has other splits."""
EXECUTION_PROBLEMS = 479
"""The number of rows of execution-v2."""
TEST_OUTPUT_PROBLEMS = 442
"""The number of rows of test_generation."""
LATEST = "release_latest"
_RANGE = re.compile(r"v(\d{1,3})(?:[-_]v(\d{1,3}))?")


def decode_private_tests(text: str, *, max_bytes: int = MAX_BYTES) -> str:
    """Return the JSON text in `private_test_cases`.

    The pickle is read opcode by opcode and never run. It may hold one string and nothing else. Raises
    ValueError, with a reason of one line, for any other content and for more than `max_bytes` unpacked bytes.
    """
    if text.lstrip()[:1] in ("[", "{"):
        return text
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("is neither a JSON array nor base64") from error
    return _read_pickled_string(_unpack(packed, max_bytes))


def _unpack(packed: bytes, max_bytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        # Ask for one byte more than the limit, because a length of zero would mean no limit.
        data = stream.decompress(packed, max_bytes + 1)
    except zlib.error as error:
        raise ValueError(f"broken zlib data: {error}") from error
    if len(data) > max_bytes:
        raise ValueError(f"holds more than {max_bytes:,} bytes unpacked")
    if not stream.eof or stream.unused_data:
        raise ValueError("broken zlib data: cut short, or more than one stream")
    return data


def _read_pickled_string(data: bytes) -> str:
    found: list[str] = []
    end = None
    try:
        for opcode, argument, position in pickletools.genops(data):
            if opcode.name in _STRINGS and isinstance(argument, str) and not found:
                found.append(argument)
            elif opcode.name not in _AROUND:
                raise ValueError(f"a pickle of more than one string: {opcode.name} refused")
            end = position
    except (ValueError, IndexError, OverflowError) as error:
        if "refused" in str(error):
            raise
        raise ValueError("a broken pickle") from error
    if not found or end != len(data) - 1:
        raise ValueError("a pickle of no string, or with more behind it")
    return found[0]


@dataclass(frozen=True, slots=True)
class Test:
    """One test. For a functional problem, `input` has one JSON value a line and `output` is one value."""

    __test__ = False

    input: str
    output: str

    def arguments(self) -> list[Any]:
        """Return the arguments of a functional test. Raises ValueError."""
        return [_json(line) for line in self.input.split("\n")]

    def expected(self) -> Any:
        """Return the expected value of a functional test. Raises ValueError."""
        return _json(self.output)


@dataclass(frozen=True, slots=True)
class PackedTests:
    """All tests of a problem. The hidden ones stay packed, because unpacked they fill tens of GB."""

    public: tuple[Test, ...]
    row: Row = field(repr=False)
    """The field with the hidden tests, which may be left on disk, and no other field."""
    functional: bool

    def load(self) -> tuple[Test, ...]:
        """Return all tests, the public ones first, as in the official runner. Raises DataError."""
        return (*self.public, *self.unpack_hidden())

    def unpack_hidden(self) -> tuple[Test, ...]:
        """Return the hidden tests. Raises DataError."""
        try:
            text = decode_private_tests(self.row.text(HIDDEN))
        except ValueError as error:
            raise self.row.error(str(error), field=HIDDEN) from error
        return _tests(self.row, HIDDEN, text, functional=self.functional)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem. `function` is the name to call, or None if programs read stdin."""

    id: str
    title: str
    content: str
    platform: str
    contest_id: str
    date: datetime.date
    difficulty: str
    starter_code: str
    function: str | None
    tests: PackedTests


@dataclass(frozen=True, slots=True)
class Filters:
    """A choice of problems. None and an empty collection take all; both dates are included.

    Raises UsageError for an unknown name and for a window that ends before it begins.
    """

    start_date: datetime.date | None = None
    end_date: datetime.date | None = None
    difficulties: Collection[str] = ()
    platforms: Collection[str] = ()

    def __post_init__(self) -> None:
        for kind, names, known in (
            ("difficulty", self.difficulties, DIFFICULTIES),
            ("platform", self.platforms, PLATFORMS),
        ):
            for name in names:
                if name not in known:
                    raise unknown_name(kind, name, known)
        if self.start_date and self.end_date and self.end_date < self.start_date:
            raise UsageError(f"end_date {self.end_date} is before start_date {self.start_date}")

    def accept(self, *, date: datetime.date, difficulty: str, platform: str) -> bool:
        """Return whether the filters take a problem."""
        return (
            (self.start_date is None or self.start_date <= date)
            and (self.end_date is None or date <= self.end_date)
            and (not self.difficulties or difficulty in self.difficulties)
            and (not self.platforms or platform in self.platforms)
        )


def read_problem(row: Row) -> Problem:
    """Return the problem of a row of code_generation or code_generation_lite. Raises DataError.

    `PackedTests.load` reads the hidden tests later.
    """
    function = _function(row)
    row.require(HIDDEN)
    public = _tests(row, "public_test_cases", row.text("public_test_cases"), functional=function is not None)
    return Problem(
        id=row.text("question_id"),
        title=row.text("question_title"),
        content=row.text("question_content"),
        platform=one_of(row, "platform", PLATFORMS),
        contest_id=row.text("contest_id"),
        date=contest_date(row),
        difficulty=one_of(row, "difficulty", DIFFICULTIES),
        starter_code=row.text("starter_code"),
        function=function,
        tests=PackedTests(public, replace(row, values={HIDDEN: row.values[HIDDEN]}), function is not None),
    )


def one_of(row: Row, name: str, known: tuple[str, ...]) -> str:
    """Return a field that holds one of a few words. Raises DataError."""
    value = row.text(name)
    if value not in known:
        raise row.error(f"needs one of {', '.join(known)}, found {describe(value)}", field=name)
    return value


def contest_date(row: Row) -> datetime.date:
    """Return the day of the contest. Files have it as ISO text, the hub as a time. Raises DataError."""
    value = row.values.get("contest_date")
    if isinstance(value, datetime.datetime):
        return value.date()
    text = row.text("contest_date")
    try:
        return datetime.datetime.fromisoformat(text).date()
    except ValueError as error:
        raise row.error(f"needs a date, found {describe(text)}", field="contest_date") from error


def _function(row: Row) -> str | None:
    metadata = json_field(row, "metadata")
    name = metadata.get("func_name") if isinstance(metadata, dict) else metadata
    if name is None and isinstance(metadata, dict):
        return None
    if not isinstance(name, str) or not name.isidentifier():
        raise row.error(
            f"needs an object with a Python name as func_name, found {describe(name)}", field="metadata"
        )
    return name


def _tests(row: Row, name: str, text: str, *, functional: bool) -> tuple[Test, ...]:
    kind = "functional" if functional else "stdin"
    listed = _parse_json(row, name, text)
    if not isinstance(listed, list):
        raise row.error(f"needs a JSON array, found {describe(listed)}", field=name)
    tests: list[Test] = []
    for place, item in enumerate(listed):
        match item:
            case {"input": str(given), "output": str(wanted), "testtype": str(found)} if found == kind:
                tests.append(Test(given, wanted))
            case _:
                raise row.error(f"needs input, output and testtype '{kind}'", field=f"{name}[{place}]")
    return tuple(tests)


def json_field(row: Row, name: str) -> Any:
    """Return the value of a field that is JSON text. Raises DataError."""
    return _parse_json(row, name, row.text(name))


def _parse_json(row: Row, name: str, text: str) -> Any:
    try:
        return _json(text)
    except ValueError as error:
        raise row.error(f"is not JSON: {error}", field=name) from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """A file of the dataset, by its name there, and the number of its problems."""

    name: str
    problems: int


FILES = (
    ReleaseFile("test.jsonl", 400),
    ReleaseFile("test2.jsonl", 111),
    ReleaseFile("test3.jsonl", 101),
    ReleaseFile("test4.jsonl", 101),
    ReleaseFile("test5.jsonl", 167),
    ReleaseFile("test6.jsonl", 175),
)


def release_names() -> tuple[str, ...]:
    """Return the names of all releases and files. Ranges such as `v2_v4` are possible too."""
    numbers = range(1, len(FILES) + 1)
    return (*(f"release_v{number}" for number in numbers), LATEST, *(f"v{number}" for number in numbers))


def files_of(release: str) -> tuple[ReleaseFile, ...]:
    """Return the files of a release, in order.

    `release_v3` is the first three files, `release_latest` all, `v3` only the third, and `v2-v4` (or
    `v2_v4`, as upstream writes it) the second to the fourth. Raises UsageError for other names.
    """
    name = release.strip().lower()
    if name == LATEST:
        return FILES
    single = name.removeprefix("release_")
    found = _RANGE.fullmatch(single)
    if found is None or (single != name and found[2]):
        raise unknown_name("release", release, release_names())
    last = int(found[2] or found[1])
    first = 1 if single != name else int(found[1])
    if not 1 <= first <= last <= len(FILES):
        if found[2] is None:
            raise unknown_name("release", release, release_names())
        raise UsageError(
            f"release '{release}' is not a range of files",
            hint=f"the files are v1 to v{len(FILES)}, and the lower one comes first",
        )
    return FILES[first - 1 : last]


def problems_of(files: Sequence[ReleaseFile]) -> int:
    """Return the number of problems that these files must hold together."""
    return sum(file.problems for file in files)


def name_release(release: str, source: DataSource) -> str:
    """Return the release of the rows, or None for a file of other problems, whatever the user asked for."""
    if source.kind == "bundled":
        return "no release"
    if source.kind == "path" and os.path.isfile(source.location):
        given = ReleaseFile(os.path.basename(source.location), source.rows)
        return f"v{FILES.index(given) + 1}" if given in FILES else "no release"
    return f"{LATEST} (v1 to v{len(FILES)})" if release.lower() == LATEST else release.lower()


def describe_window(release: str, source: DataSource, rows: Sequence[Row]) -> str:
    """Return the release, the first and last day of the contests, and the number of problems as text."""
    dates = sorted(map(contest_date, rows))
    of_all = "" if len(rows) == source.rows else f" of {source.rows:,}"
    return f"{release}, contests of {dates[0]} to {dates[-1]}, {len(rows):,}{of_all} problems"
