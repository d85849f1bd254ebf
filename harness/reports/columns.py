"""The columns of an exported table: the same for every run, so that tables of several runs fit together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.core.types import AttemptRecord
from harness.reports.remarks import describe_changes, describe_selection
from harness.reports.run_folder import StoredRun
from harness.runs.manifest import read_grading_version
from harness.runs.stored_result import USAGE

Value = str | int | float | bool | None


class Kind(StrEnum):
    """The type of a column's values. Each of them may be missing."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Column:
    """A column, and the function that reads its value from a record."""

    name: str
    kind: Kind
    read: Callable[[AttemptRecord], Any]

    def value(self, record: AttemptRecord) -> Value:
        """Return the value of an attempt, None if it has none of the column's type.

        Metrics come from graders and agents of users, so any of them may have another type.
        """
        value = self.read(record)
        if self.kind is Kind.NUMBER:
            return float(value) if type(value) in (int, float) else None
        if self.kind is Kind.INTEGER:
            return value if type(value) is int and abs(value) < 2**63 else None
        if self.kind is Kind.BOOLEAN:
            return value if type(value) is bool else None
        return value if isinstance(value, str) else None


_OF_METRICS = {
    "phase": Kind.TEXT,
    "limit": Kind.TEXT,
    "limit_value": Kind.NUMBER,
    "integrity": Kind.TEXT,
    "tests": Kind.INTEGER,
    "tests_passed": Kind.INTEGER,
    "cpu_seconds": Kind.NUMBER,
    "rounds": Kind.INTEGER,
    "resolved_strict": Kind.BOOLEAN,
    "tries": Kind.INTEGER,
    **{name: Kind.NUMBER if name == "cost" or "seconds" in name else Kind.INTEGER for name in USAGE},
}


def list_columns(run: StoredRun, *, whole: bool) -> Iterator[Column]:
    """Yield the columns of a run's attempts.

    Args:
        run: the run.
        whole: whether the table has the whole texts, and not only the first 500 characters of the output.
    """
    config = run.manifest["config"]
    of_run = {
        "run": run.folder.resolve().name,
        "benchmark": run.manifest["benchmark"],
        "agent": run.manifest["agent"],
        "model": config.get("model"),
    }
    for name, text in of_run.items():
        yield Column(name, Kind.TEXT, _return_always(text))
    # The same in each row, because a table has no other place for them.
    seed, superseded = config.get("seed"), run.summary.superseded
    yield Column("seed", Kind.INTEGER, _return_always(seed))
    yield Column("grading_version", Kind.INTEGER, _return_always(read_grading_version(run.manifest)))
    yield Column("selection", Kind.TEXT, _return_always(describe_selection(config)))
    yield Column("accepted_changes", Kind.TEXT, _return_always(describe_changes(run.manifest)))
    yield Column("repeated_attempts", Kind.INTEGER, _return_always(superseded.get("attempts", 0)))
    yield Column("task_id", Kind.TEXT, lambda record: record.task_id)
    yield Column("attempt", Kind.INTEGER, lambda record: record.attempt)
    yield Column("sample_line", Kind.INTEGER, lambda record: record.sample_line)
    yield Column("category", Kind.TEXT, lambda record: record.category)
    yield Column("status", Kind.TEXT, lambda record: record.status.value)
    yield Column("resolved", Kind.BOOLEAN, lambda record: record.resolved)
    yield Column("score", Kind.NUMBER, lambda record: record.score)
    yield Column("started_at", Kind.TIME, lambda record: record.started_at)
    yield Column("duration_seconds", Kind.NUMBER, lambda record: record.duration_seconds)
    yield Column("error", Kind.TEXT, lambda record: record.error)
    for name, kind in _OF_METRICS.items():
        yield Column(name, kind, _read_metric(name))
    yield Column("metrics", Kind.TEXT, lambda record: json.dumps(dict(record.metrics), sort_keys=True))
    if whole:
        yield Column("agent_output", Kind.TEXT, _read_output)
        yield Column("submission", Kind.TEXT, lambda record: record.submission)
    else:
        yield Column("agent_output", Kind.TEXT, lambda record: record.agent_output)
        yield Column("agent_output_cut", Kind.INTEGER, lambda record: record.agent_output_cut)
    yield Column("expected_output", Kind.TEXT, lambda record: record.expected_output)
    yield Column("expected_output_cut", Kind.INTEGER, lambda record: record.expected_output_cut)


def _return_always(value: Any) -> Callable[[AttemptRecord], Any]:
    return lambda record: value


def _read_metric(name: str) -> Callable[[AttemptRecord], Any]:
    return lambda record: record.metrics.get(name)


def _read_output(record: AttemptRecord) -> str:
    return record.agent_output if record.agent_output_full is None else record.agent_output_full
