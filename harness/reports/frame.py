"""Attempts as a pandas frame. Only who asks for a frame needs pandas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from harness.errors import UsageError, describe_installation
from harness.types import AttemptRecord

if TYPE_CHECKING:
    import pandas

# The whole texts may not fit into memory, and records are read without them.
_LEFT_OUT = ("metrics", "agent_output_full", "submission")
_COLUMNS = tuple(each.name for each in fields(AttemptRecord) if each.name not in _LEFT_OUT)


def build_frame(attempts: Iterable[AttemptRecord]) -> pandas.DataFrame:
    """Return a frame with a row for each attempt, in their order.

    The columns are the fields of a record, with the status as text, and `metrics.NAME` for each metric. An
    attempt that lacks a metric has an empty cell.

    Raises UsageError if pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise UsageError(
            "a frame needs pandas, which is not installed",
            hint=describe_installation("notebook"),
        ) from error
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    metrics: dict[str, dict[int, Any]] = {}
    rows = 0
    for record in attempts:
        for name in _COLUMNS:
            value = getattr(record, name)
            columns[name].append(value.value if name == "status" else value)
        for name, value in record.metrics.items():
            metrics.setdefault(name, {})[rows] = value
        rows += 1
    for name in sorted(metrics):
        columns[f"metrics.{name}"] = [metrics[name].get(row) for row in range(rows)]
    return pandas.DataFrame(columns)
