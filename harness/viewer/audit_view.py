"""The values of the page of an audit: the conclusion, the classes of attacks, and each wrong verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.audit.run import AUDIT_RESULTS
from harness.errors import UsageError, describe_first_error
from harness.evaluation.run_files import read_run_file
from harness.inputs.files import MAX_DATA_BYTES
from harness.inputs.json_text import BrokenJSONError, parse_json
from harness.reports.figures import count
from harness.text import escape_terminal, escape_text
from harness.types import Status
from harness.viewer.catalogue import ViewedAudit

_MOST_WRONG = 500
_Count = Annotated[int, Field(ge=0, le=2**53)]


class _Summary(BaseModel):
    model_config = ConfigDict(extra="ignore")

    forged: _Count
    guessed: _Count
    failed_references: _Count
    unfinished: _Count
    containers_left: _Count
    attacked_tasks: _Count
    attacks: _Count


class _Attempt(BaseModel):
    model_config = ConfigDict(extra="ignore")

    task_id: str
    attack: str
    kind: Annotated[str | None, Field(alias="class")] = None
    forged: bool
    failed: bool
    status: Status
    error: str | None = None


class _About(BaseModel):
    model_config = ConfigDict(extra="ignore")

    benchmark: str


class _Results(BaseModel):
    model_config = ConfigDict(extra="ignore")

    audit: _About
    summary: _Summary
    attempts: list[_Attempt]


def describe_audit(audit: ViewedAudit) -> dict[str, Any]:
    """Return the values of an audit. One that has not ended has only its runs.

    Raises UsageError if its results cannot be read.
    """
    head = {"key": audit.key, "name": escape_text(audit.key), "runs": list(audit.runs)}
    path = audit.folder / AUDIT_RESULTS
    try:
        text = read_run_file(audit.folder, AUDIT_RESULTS, max_bytes=MAX_DATA_BYTES)
        results = _Results.model_validate(parse_json(text))
    except FileNotFoundError:
        return {**head, "conclusion": None}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except BrokenJSONError as error:
        raise UsageError(f"{path}:{error.line}: is not JSON: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{path}: is not the result of an audit: {describe_first_error(error)}") from error
    summary = results.summary
    wrong = [each for each in results.attempts if each.forged or each.failed or not each.status.has_score]
    return {
        **head,
        "benchmark": escape_text(results.audit.benchmark),
        "conclusion": _conclude(summary),
        "is_sound": not (
            summary.forged or summary.failed_references or summary.unfinished or summary.containers_left
        ),
        "attacks": f"{count(summary.attacks, 'attack')} on {count(summary.attacked_tasks, 'task')}",
        "classes": [*_list_classes(results.attempts)],
        "number_of_wrong": len(wrong),
        "wrong": [_describe_wrong(each) for each in wrong[:_MOST_WRONG]],
    }


def _conclude(summary: _Summary) -> str:
    return (
        f"{summary.forged:,} forged, {summary.failed_references:,} references failed, "
        f"{summary.unfinished:,} without a verdict, {summary.containers_left:,} containers left, "
        f"{summary.guessed:,} passed where a constant answer is right"
    )


def _list_classes(attempts: list[_Attempt]) -> Iterator[dict[str, Any]]:
    """Yield each class of attacks with its counts. References and controls have rows for themselves."""
    groups: dict[str, list[_Attempt]] = {}
    for each in attempts:
        is_control = each.attack in ("oracle", "null", "constant")
        groups.setdefault(each.attack if is_control else each.kind or "", []).append(each)
    for name, group in groups.items():
        statuses = Counter(each.status for each in group)
        yield {
            "name": escape_text(name),
            "attempts": len(group),
            "forged": sum(each.forged for each in group),
            "statuses": {status.value: statuses[status] for status in Status if statuses[status]},
        }


def _describe_wrong(each: _Attempt) -> dict[str, str]:
    reason = "forged" if each.forged else "reference failed" if each.failed else "no verdict"
    return {
        "reason": reason,
        "attack": escape_terminal(each.attack),
        "task": escape_terminal(each.task_id),
        "status": each.status.value,
        "error": escape_terminal(each.error or ""),
    }
