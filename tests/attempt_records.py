"""Records of attempts and manifests of runs, as far as a report needs them."""

from __future__ import annotations

from typing import Any

from harness.core.types import AttemptRecord, Status
from harness.reports.html import generate_html


def make_record(task_id: str = "t", status: Status = Status.FAILED, **fields: Any) -> AttemptRecord:
    """Return the record of a short attempt without texts. Whether it is resolved follows from its status."""
    is_passed = status is Status.PASSED
    usual: dict[str, Any] = {
        "attempt": 0,
        "sample_line": None,
        "category": None,
        "resolved": is_passed,
        "score": float(is_passed) if status.has_score else None,
        "metrics": {},
        "agent_output": "",
        "expected_output": "",
        "duration_seconds": 0.25,
        "error": None,
    }
    return AttemptRecord(task_id=task_id, status=status, **{**usual, **fields})


def make_attempt(status: Status = Status.PASSED, **fields: Any) -> AttemptRecord:
    """Return the record of a task of a set, which took half a second."""
    return make_record(**{"task_id": "t/1", "status": status, "duration_seconds": 0.5, **fields})


def make_manifest(**values: Any) -> dict[str, Any]:
    """Return the fields that every manifest has."""
    fields = {
        "schema_version": 1,
        "run_id": "r",
        "benchmark": "b",
        "agent": "oracle",
        "source": "path",
        "data": {"kind": "path", "location": "p", "sha256": "0" * 64, "rows": 3},
        "images": {},
        "config": {"benchmark": "b"},
    }
    return {**fields, **values}


def render_html(**values: Any) -> str:
    """Return the whole page of a run."""
    return "".join(generate_html(**values))
