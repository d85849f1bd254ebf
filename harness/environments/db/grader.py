"""Grade answers to questions about a table, and the state of a table that an agent left."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.scoring.answers import MAX_ANSWER_CHARACTERS
from harness.core.scoring.literals import LiteralRefused, read_literal
from harness.core.text import escape_text, shorten
from harness.core.types import Phase, Status, Submission, Verdict
from harness.environments.db.client import Change, Table, TableUnreadable, read_table, replay
from harness.environments.db.environment import Database
from harness.environments.spec import StateGrader, TextGrader

TOLERANCE = 0.01
# In binary, the distance of 0.1 and 0.11 is slightly more than the tolerance.
_ROUNDING = 1e-9
_NONE = "none"
_NONES = frozenset({_NONE, "null", "undefined", "nan"})
_QUOTES = "\"'`“”‘’"
# Groups of three digits, or one of three and then groups of two as in India. Other commas belong to the text.
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{2,3})*,\d{3}(?![\d,])")
_NUMBER = re.compile(r"[+-]?(?:\d{1,300}(?:\.\d{0,300})?|\.\d{1,300})(?:[eE][+-]?\d{1,2})?", re.ASCII)

_ROW_DIGITS = 5
_GROUP_BYTES = 1024

Row = tuple[str | None, ...]

# A sign of tampering, in the same words each time, so that reports can count it.
NO_PLAIN_TABLE = "left no plain table where there was one"
_SHOWN_ROWS = 3
_SHOWN_CHARACTERS = 200


def answer_values(text: str) -> tuple[str, ...] | None:
    """Return the values of an answer: the items of a JSON or Python list, or the text as one value.

    A row of one value counts as that value. Returns None if the answer is empty, an empty list, too long, or
    a list of anything else.
    """
    text = text.strip()
    if not text or len(text) > MAX_ANSWER_CHARACTERS:
        return None
    if text[0] not in "[({":
        return (text,)
    listed = _listed(text)
    if listed is None:
        return (text,)
    values = [_value(item) for item in listed]
    found = tuple(value for value in values if value is not None)
    return found if found and len(found) == len(values) else None


def same_values(given: Sequence[str], expected: Sequence[str]) -> bool:
    """Return whether the given values equal the expected ones. An empty side equals nothing.

    Numbers may differ by 0.01.
    """
    one, other = [cleaned(value) for value in given], [cleaned(value) for value in expected]
    if not one or not other or "" in one:
        return False
    numbers, wanted = [_number(value) for value in one], [_number(value) for value in other]
    if None not in numbers and None not in wanted:
        pairs = zip(sorted(numbers), sorted(wanted), strict=False)  # type: ignore[type-var]
        return len(numbers) == len(wanted) and all(_near(first, second) for first, second in pairs)
    return set(one) == set(other)


def cleaned(value: str) -> str:
    """Return a value in the normal form for a comparison as text."""
    text = " ".join(value.replace("%", " ").strip().strip(_QUOTES).split())
    text = _THOUSANDS.sub(lambda found: found.group().replace(",", ""), text)
    # A comma before a blank is dropped, as in "August 15, 2000".
    text = re.sub(r",(?=\s|$)", "", text)
    return _NONE if text.lower() in _NONES else text


def _near(one: Any, other: Any) -> bool:
    if (one == 0) != (other == 0):
        return False
    return bool(one == other or abs(one - other) <= TOLERANCE + _ROUNDING)


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _listed(text: str) -> Sequence[Any] | None:
    """Return the items of a list, with its numbers as they are written, so that none is rounded."""
    try:
        found = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        try:
            found = read_literal(text)
        except LiteralRefused:
            return None
    if isinstance(found, (set, frozenset)):
        return sorted(found, key=str)
    return found if isinstance(found, (list, tuple)) else None


def _value(item: Any) -> str | None:
    if isinstance(item, (list, tuple)) and len(item) == 1:
        item = item[0]
    if item is None:
        return _NONE
    if isinstance(item, (str, bool, int, float)):
        try:
            return str(item)
        except ValueError:  # an integer with more digits than Python prints
            return None
    return None


def table_hash(rows: Iterable[Row], *, cut: bool = False) -> str:
    """Return the hash of these rows. With `cut`, rows beyond 170 are ignored as MySQL ignores them."""
    joined = ",".join(sorted(_row_hash(row) for row in rows)).encode()
    return _md5(joined[:_GROUP_BYTES] if cut else joined)


def is_hash_of(wanted: str, rows: Iterable[Row]) -> bool:
    """Return whether `wanted` is the hash of these rows, cut or not."""
    listed = list(rows)
    return wanted in (table_hash(listed), table_hash(listed, cut=True))


def _row_hash(row: Row) -> str:
    return _md5(",".join(cell for cell in row if cell is not None).encode("utf-8", "surrogateescape"))[
        :_ROW_DIGITS
    ]


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class DatabaseAnswer:
    """The values that answer a question, as the benchmark publishes them (AgentBench's `label`)."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """The expected state of the table `table`: the result of `sql`, of MySQL's dialect, on `tables`.

    `published_hash` is AgentBench's `answer_md5`, or None (`harness.environments.db.grader`).
    """

    tables: tuple[Table, ...]
    table: str
    sql: str
    published_hash: str | None = None

    @property
    def change(self) -> Change:
        return Change(self.tables, self.table, self.sql)

    @property
    def before(self) -> Table:
        """Return the table before the change."""
        return next(table for table in self.tables if table.name == self.table)


async def grade_answer(target: DatabaseAnswer, submission: Submission) -> Verdict:
    """Return the verdict on an answer by AgentBench's rules, without its false passes (`db.answers`).

    The score is 0 or 1. Source: `result_processor.py` of AgentBench's task `dbbench`.
    """
    given = answer_values(submission.text)
    # A single value may look like a list, as the mark [18] of a footnote does.
    readings = [] if given is None else [given, (submission.text,)]
    if any(same_values(reading, target.values) for reading in readings):
        return Verdict(Status.PASSED, 1.0, phase=Phase.EVALUATOR)
    message = "no answer" if given is None else f"answered {_show(given)}"
    evidence = f"{message}, expected {_show(target.values)}"
    return Verdict(Status.FAILED, 0.0, evidence=evidence, phase=Phase.EVALUATOR)


async def grade_state(environment: Database, target: DatabaseState, submission: Submission) -> Verdict:
    """Return the verdict on the table that the agent left, compared with the result of the reference's SQL.

    A user that the agent never was reads the agent's table, after the agent's processes have ended. The
    reference's SQL runs in the memory of a process that opens no file, in a sandbox where no agent acts
    afterwards. The host compares the two. The score is 0 or 1. Raises SandboxError.
    """
    try:
        left = await read_table(environment.sandbox, target.table)
    except TableUnreadable as error:
        evidence = escape_text(f"{error}")
        return Verdict(Status.FAILED, 0.0, evidence=evidence, phase=Phase.EVALUATOR, tampering=NO_PLAIN_TABLE)
    try:
        async with environment.open_for_reference() as sandbox:
            wanted = await replay(sandbox, target.change)
    except TableUnreadable as error:
        message = f"the reference's own SQL fails: {error}"
        return Verdict(Status.GRADER_ERROR, None, evidence=escape_text(message), phase=Phase.EVALUATOR)
    return grade_table(target, left, wanted, answered=bool(submission.text.strip()))


def grade_table(target: DatabaseState, left: Table, wanted: Table, *, answered: bool) -> Verdict:
    """Return the verdict on the table `left`. `wanted` is the table that the reference's SQL made.

    Rows are compared exactly, as a multiset of texts. The published hash keeps only 20 bits of a row. It
    decides only if it shows that MySQL made another table from the same SQL. If the right state is the
    initial one, an agent that neither changed nor `answered` anything fails.
    """
    before = target.before
    metrics: dict[str, Any] = {"judged_by": "rows", "rows": len(left.rows)}
    published = target.published_hash
    if published is not None:
        metrics["published_hash_agrees"] = is_hash_of(published, left.rows)
    if left.columns != before.columns:
        message = f"the columns are {_show(left.columns)}, expected {_show(before.columns)}"
        return Verdict(Status.FAILED, 0.0, metrics, message, Phase.EVALUATOR)
    found, expected = Counter(left.rows), Counter(wanted.rows)
    if published is None or is_hash_of(published, wanted.rows):
        same = found == expected
    else:
        metrics["judged_by"] = "published hash"
        same = metrics["published_hash_agrees"]
    if same and not answered and found == Counter(before.rows):
        return Verdict(
            Status.FAILED, 0.0, metrics, "the agent changed nothing and gave no answer", Phase.EVALUATOR
        )
    if same:
        return Verdict(Status.PASSED, 1.0, metrics, phase=Phase.EVALUATOR)
    return Verdict(Status.FAILED, 0.0, metrics, _describe_difference(found, expected), Phase.EVALUATOR)


def _describe_difference(
    found: Counter[tuple[str | None, ...]], expected: Counter[tuple[str | None, ...]]
) -> str:
    missing, unexpected = expected - found, found - expected
    parts = [
        f"{rows.total()} {name}, such as {'; '.join(_show(row) for row in list(rows)[:_SHOWN_ROWS])}"
        for name, rows in (("missing rows", missing), ("unexpected rows", unexpected))
        if rows
    ]
    return "; ".join(parts) or "the table differs from the published one"


def _show(values: Sequence[str | None]) -> str:
    text = ", ".join(
        "NULL" if value is None else repr(shorten(value, _SHOWN_CHARACTERS)) for value in values[:20]
    )
    return escape_text(shorten(text, 4 * _SHOWN_CHARACTERS))


GRADERS = (TextGrader(DatabaseAnswer, grade_answer), StateGrader(DatabaseState, grade_state))
