"""The result of an attempt: the part of its record that the summary counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.types import AttemptRecord, Status
from harness.runs.replayed import Replayed, read_replayed
from harness.runs.usage import (
    METRIC,
    Amounts,
    ServerFigures,
    add_server_use,
    add_usage,
    read_server_use,
    read_usage,
)

# The metric of a record that supersedes a verdict: the status of that verdict.
SUPERSEDED_STATUS = "superseded"
# The metrics from which a result takes more than the values that the store keeps.
COUNTED = ("integrity", "resolved_strict", "model_requests", "replay", "answer", METRIC)


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The part of a stored record that the summary counts."""

    status: Status
    resolved: bool
    category: str | None
    integrity: str | None = None
    resolved_strict: bool | None = None
    # The values of the metrics that the store keeps, for first attempts only.
    metrics: tuple[float, ...] = ()
    # The use of a model in all tries of the attempt, None if it asked none.
    usage: Amounts | None = None
    score: float | None = None
    # The comparison with the recorded run, None unless the agent replayed one.
    replayed: Replayed | None = None
    # The use of MCP servers in all tries of the attempt, None if it had none.
    mcp: ServerFigures | None = None
    # The number of earlier tries that had a verdict, which the user had repeated.
    superseded: int = 0
    # The answer as its grader read it, None for no answer and for graders that compare none.
    answer: str | None = None


def reduce_record(
    record: AttemptRecord,
    *,
    metrics: Sequence[str] = (),
    earlier: StoredResult | None = None,
) -> StoredResult:
    """Return the part of a record that the summary counts.

    Args:
        record: the record of the last try of an attempt.
        metrics: the metrics to keep if it is a first attempt.
        earlier: the result of the try before, which a resumed run has repeated. Its use of a model counts
            too, because it was paid for.
    """
    sign = record.metrics.get("integrity")
    strict = record.metrics.get("resolved_strict")
    answer = record.metrics.get("answer")
    return StoredResult(
        record.status,
        record.resolved,
        record.category,
        None if sign is None else str(sign),
        strict if isinstance(strict, bool) else None,
        tuple(_read_metric(record.metrics.get(name)) for name in metrics) if record.attempt == 0 else (),
        add_usage(None if earlier is None else earlier.usage, read_usage(record.metrics)),
        record.score,
        read_replayed(record),
        add_server_use(None if earlier is None else earlier.mcp, read_server_use(record.metrics)),
        0 if earlier is None else earlier.superseded + earlier.status.has_score,
        answer if isinstance(answer, str) else None,
    )


def _read_metric(value: Any) -> float:
    """Return the value of a metric. A metric that the verdict lacks counts as 0."""
    return float(value) if isinstance(value, (int, float)) else 0.0
