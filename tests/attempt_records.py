"""Records of attempts and manifests of runs, as far as a report needs them."""

from __future__ import annotations

from typing import Any

from harness.core.types import AttemptRecord, Status


def make_attempt(status: Status = Status.PASSED, **fields: Any) -> AttemptRecord:
    """Return a record without texts. Whether it is resolved follows from its status."""
    passed = status is Status.PASSED
    values: dict[str, Any] = {
        "task_id": "t/1",
        "attempt": 0,
        "sample_line": None,
        "category": None,
        "resolved": passed,
        "score": float(passed) if status.has_score else None,
        "metrics": {},
        "agent_output": "",
        "expected_output": "",
        "duration_seconds": 0.5,
        "error": None,
    }
    return AttemptRecord(status=status, **{**values, **fields})


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
