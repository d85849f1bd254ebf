"""AgentBench's scores: one for each category, in the category's own measure, and one over all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.benchmarks.agentbench.category import CATEGORIES
from harness.benchmarks.agentbench.worlds import worlds
from harness.benchmarks.benchmark import TaskResult
from harness.core.types import Status, Verdict

WEIGHTS: Mapping[str, float] = {
    "os": 10.8,
    "db": 13.0,
    "kg": 13.9,
    "card": 12.0,
    "lateral": 3.5,
    "house": 13.0,
    "web": 30.7,
}
"""The divisors of the paper: its models' mean scores, 0 to 100 (Liu et al. 2023, arXiv 2308.03688)."""

AVERAGED_KINDS = ("SELECT", "INSERT", "UPDATE")
"""The kinds in the mean that is upstream's database score. DELETE is reported but not counted."""

_MEASURES = {"db": "mean of the accuracies of SELECT, INSERT and UPDATE"}
_SUCCESS_RATE = "success rate"
_RIGHT_ANSWERS = "share of right answers"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one task. `kind` is SELECT, INSERT, UPDATE or DELETE for tasks on a database."""

    category: str
    result: TaskResult
    kind: str | None = None
    # Whether the task is a flat record, whose answer is judged as a text and not by its world.
    is_flat: bool = False


def scores(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the scores as `summary.json` has them, all from 0 to 1 but the weighted one.

    Each of `categories` has `score`, `measure` and `tasks`, and `db` also the accuracy of each kind.
    `overall` has the `score`, which is the mean of 100 score / weight over the categories that ran, as in the
    paper, whose eighth category, web browsing, is not among ours. Its `missing` names the categories that did
    not run, and its `method` is `weighted` if there is none, else `partial`. A score is None if nothing of it
    ran. The score of flat records is the share of right answers, because they have no world to measure.
    """
    by_category: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_category.setdefault(outcome.category, []).append(outcome)
    categories = {name: _any_category(name, by_category[name]) for name in CATEGORIES if name in by_category}
    return {"categories": categories, "overall": _overall(categories)}


def _any_category(name: str, outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the score of a category whose tasks may be flat records, upstream's tasks, or both."""
    flat = [outcome for outcome in outcomes if outcome.is_flat]
    acted = [outcome for outcome in outcomes if not outcome.is_flat]
    if not acted:
        return {"score": _accuracy(flat), "measure": _RIGHT_ANSWERS, "tasks": len(flat)}
    found = _category(name, acted)
    if not flat:
        return found
    total = len(flat) + len(acted)
    score = None
    if found["score"] is not None:
        score = (found["score"] * len(acted) + _accuracy(flat) * len(flat)) / total
    return found | {
        "score": score,
        "measure": f"{found['measure']}, and {_RIGHT_ANSWERS} for {len(flat):,} flat records",
        "tasks": total,
    }


def _category(name: str, outcomes: list[Outcome]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "score": _accuracy(outcomes),
        "measure": _MEASURES.get(name, _SUCCESS_RATE),
        "tasks": len(outcomes),
    }
    if (world := worlds().get(name)) is not None:
        found |= {"score": world.score([outcome.result for outcome in outcomes]), "measure": world.measure}
    if name == "db":
        kinds: dict[str, list[Outcome]] = {}
        for outcome in outcomes:
            kinds.setdefault(outcome.kind or "SELECT", []).append(outcome)
        averaged = [_accuracy(kinds[kind]) for kind in AVERAGED_KINDS if kind in kinds]
        found["score"] = sum(averaged) / len(averaged) if averaged else None
        found["kinds"] = {
            kind: {"score": _accuracy(kinds[kind]), "tasks": len(kinds[kind])} for kind in sorted(kinds)
        }
        found["missing_kinds"] = [kind for kind in AVERAGED_KINDS if kind not in kinds]
    return found


def _overall(categories: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    known = {name: each["score"] for name, each in categories.items() if each["score"] is not None}
    missing = [name for name in CATEGORIES if name not in known]
    weighted = [100 * score / WEIGHTS[name] for name, score in known.items()]
    return {
        "score": sum(weighted) / len(weighted) if weighted else None,
        "method": "partial" if missing else "weighted",
        "missing": missing,
    }


def _accuracy(outcomes: list[Outcome]) -> float:
    return sum(outcome.result.resolved for outcome in outcomes) / len(outcomes)


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
