"""AgentBench's scores: one for each category, in the category's own measure, and one over all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.benchmarks.agentbench.categories import categories
from harness.benchmarks.category import Outcome, success_rate
from harness.core.types import Status, Verdict

_RIGHT_ANSWERS = "share of right answers"


def scores(outcomes: Iterable[Outcome], *, is_published: bool = False) -> dict[str, Any]:
    """Return the scores as `summary.json` has them, all from 0 to 1 but the weighted one.

    Each of `categories` has `score`, `measure` and `tasks`, and `db` also the accuracy of each kind.
    `overall` has the `score`, which is the mean of 100 score / weight over the categories that ran, as in the
    paper, whose eighth category, web browsing, is not among ours. Its `missing` names the categories that did
    not run, and its `method` is `weighted` if there is none, else `partial`. A score is None if nothing of it
    ran. AgentBench's function calls (`is_published`) have plain success rates for `db` and no score over all.
    The score of flat records is the share of right answers, because they have no world to measure.
    """
    by_category: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_category.setdefault(outcome.category, []).append(outcome)
    found = {name: _any_category(name, by_category[name]) for name in categories() if name in by_category}
    if is_published:
        plain = {
            name: {**each, **_plain(by_category[name])} for name, each in found.items() if "kinds" in each
        }
        return {"categories": {**found, **plain}, "overall": None}
    return {"categories": found, "overall": _overall(found)}


def _any_category(name: str, outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the score of a category whose tasks may be flat records, upstream's tasks, or both."""
    flat = [outcome for outcome in outcomes if outcome.is_flat]
    acted = [outcome for outcome in outcomes if not outcome.is_flat]
    if not acted:
        return {"score": success_rate(flat), "measure": _RIGHT_ANSWERS, "tasks": len(flat)}
    found = _category(name, acted)
    if not flat:
        return found
    total = len(flat) + len(acted)
    score = None
    if found["score"] is not None:
        score = (found["score"] * len(acted) + success_rate(flat) * len(flat)) / total
    return found | {
        "score": score,
        "measure": f"{found['measure']}, and {_RIGHT_ANSWERS} for {len(flat):,} flat records",
        "tasks": total,
    }


def _category(name: str, outcomes: list[Outcome]) -> dict[str, Any]:
    category = categories()[name]
    found = category.score(outcomes)
    return {"score": found["score"], "measure": category.measure, "tasks": len(outcomes), **found}


def _plain(outcomes: list[Outcome]) -> dict[str, Any]:
    return {"score": success_rate(outcomes), "measure": "success rate"}


def _overall(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    known = {name: each["score"] for name, each in found.items() if each["score"] is not None}
    missing = [name for name in categories() if name not in known]
    weighted = [100 * score / categories()[name].weight for name, score in known.items()]
    return {
        "score": sum(weighted) / len(weighted) if weighted else None,
        "method": "partial" if missing else "weighted",
        "missing": missing,
    }


COMPLETED = "completed"
CONTEXT_LIMIT = "context limit"
VALIDATION_FAILED = "validation failed"
INVALID_ACTION = "invalid action"
TASK_LIMIT_REACHED = "task limit reached"
TASK_ERROR = "task error"
UNKNOWN = "unknown"

_CONTEXT_LIMITS = frozenset({"context", "tokens"})
_PLAIN: Mapping[Status, str] = {
    Status.PASSED: COMPLETED,
    Status.FAILED: COMPLETED,
    Status.LIMIT_REACHED: TASK_LIMIT_REACHED,
    Status.AGENT_ERROR: VALIDATION_FAILED,
    Status.CANCELLED: UNKNOWN,
}


def status_metrics(verdict: Verdict) -> dict[str, str]:
    """Return the metrics that AgentBench adds to every verdict."""
    return {"agentbench_status": upstream_status(verdict.status, verdict.recorded_metrics)}


def upstream_status(status: Status, metrics: Mapping[str, Any]) -> str:
    """Return upstream's status of an attempt.

    `metrics["limit"]` distinguishes a limit of the model's context from one of the task.
    `metrics["fault"]` is `action` for an agent that called an unknown tool, as opposed to one whose reply
    could not be read. A timeout of the agent is a limit of the task. Any other end without a verdict is an
    error of the task.
    """
    if status is Status.LIMIT_REACHED and metrics.get("limit") in _CONTEXT_LIMITS:
        return CONTEXT_LIMIT
    if status is Status.AGENT_ERROR and metrics.get("fault") == "action":
        return INVALID_ACTION
    if status is Status.TIMEOUT and metrics.get("phase") == "agent":
        return TASK_LIMIT_REACHED
    return _PLAIN.get(status, TASK_ERROR)
