"""Grade answers to questions about a table, and the state in which an agent left a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.environments.db.answers import answer_values, same_values
from harness.environments.db.client import Change, Table, TableUnreadable, read_table, replay
from harness.environments.db.environment import Database
from harness.environments.db.table_hash import is_hash_of
from harness.environments.grader import StateGrader, TextGrader
from harness.text import escape_text, shorten
from harness.types import Phase, Status, Submission, Verdict

# A sign of tampering, in the same words each time, so that reports can count it.
NO_PLAIN_TABLE = "left no plain table where there was one"
_SHOWN_ROWS = 3
_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class DatabaseAnswer:
    """The values that answer a question, as the benchmark publishes them (AgentBench's `label`)."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """The expected state of the table `table`: the result of `sql`, of MySQL's dialect, on `tables`.

    `published_hash` is AgentBench's `answer_md5`, or None (`harness.environments.db.table_hash`).
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
    reference's SQL runs in the memory of a process that opens no file, in a sandbox in which no agent acts
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


GRADERS = (
    TextGrader(DatabaseAnswer, grade_answer),
    StateGrader(DatabaseState, grade_state),
)
