"""Attempt records as JSON: the one place that knows both forms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from harness.engine.plan import PlannedAttempt
from harness.model import AttemptRecord, Reference, Status, Verdict

AGENT_OUTPUT_CHARACTERS = 500


def record_of(
    planned: PlannedAttempt,
    reference: Reference,
    verdict: Verdict,
    *,
    agent_output: str,
    duration_seconds: float,
) -> AttemptRecord:
    """Build the record of an attempt that has ended."""
    return AttemptRecord(
        task_id=planned.task.id,
        attempt=planned.number,
        sample_line=planned.sample_line,
        category=planned.task.category,
        resolved=verdict.resolved,
        status=verdict.status,
        score=verdict.score,
        metrics=verdict.metrics,
        agent_output=agent_output[:AGENT_OUTPUT_CHARACTERS],
        expected_output=reference.expected_output[:AGENT_OUTPUT_CHARACTERS],
        duration_seconds=round(duration_seconds, 4),
        error=verdict.evidence,
    )


def to_json(record: AttemptRecord) -> str:
    """Return a record as one line of JSON. Lone surrogates stay escaped, so that it is always UTF-8."""
    return json.dumps(asdict(record))


def from_json(line: str | bytes) -> AttemptRecord:
    """Read a record back. Raises ValueError, TypeError or KeyError for anything that is not one."""
    values: Mapping[str, Any] = json.loads(line)
    return AttemptRecord(**{**values, "status": Status(values["status"])})
