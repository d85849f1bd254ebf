"""Records of attempts for tests, whose other fields follow from the status."""

from __future__ import annotations

from typing import Any

from harness.core.types import AttemptRecord, Status


def make_record(task_id: str = "t", status: Status = Status.FAILED, **fields: Any) -> AttemptRecord:
    """Return the record of a short attempt."""
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
