"""The part of a record that a summary counts: the result, the use of models and servers, and the replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.core.text import escape_terminal
from harness.core.types import AttemptRecord, Status

# The metrics of an attempt that asked a model, in the order of `Amounts`. A summary has sums by these names.
USAGE = (
    "model_requests",
    "model_retries",
    "cached_replies",
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "cost",
    "model_seconds",
    "waiting_seconds",
    "sandbox_seconds",
    "context_truncated",
    "cut_replies",
)
_REQUESTS = USAGE.index("model_requests")
# Sums of floats are rounded to these digits, because 0.1 + 0.2 would show as 0.30000000000000004.
_COST_DIGITS, _SECONDS_DIGITS = 9, 3

Amounts = tuple[int | float | None, ...]
"""The values of USAGE in its order. None is an unknown amount, and never means 0."""
METRIC = "mcp"
# The figures of a tool, and the figure of a server.
CALLS, ERRORS, SECONDS, FAILED_STARTS = "calls", "errors", "seconds", "failed_starts"
# The reason of the first failed start. A server without one has no such figure.
START_ERROR = "start_error"
ServerFigures = Mapping[str, Mapping[str, Any]]
"""For each server by name `failed_starts`, the `start_error` if there is one, and `tools`.

Each tool has its `calls`, `errors` and `seconds`.
"""
# The most characters of the first difference in the metrics of an attempt.
SHOWN_DIFFERENCE = 400
# The metric of a record that supersedes a verdict: the status of that verdict.
SUPERSEDED_STATUS = "superseded"
# The metrics from which a result takes more than the values that the store keeps.
COUNTED = ("integrity", "resolved_strict", "model_requests", "replay", "answer", METRIC)


def read_usage(metrics: Mapping[str, Any]) -> Amounts | None:
    """Return the amounts in the metrics of an attempt, None if the attempt asked no model."""
    if _read_amount(metrics.get("model_requests")) is None:
        return None
    amounts = tuple(_read_amount(metrics.get(name)) for name in USAGE)
    if amounts[_REQUESTS]:
        return amounts
    # Nothing was asked of the server, so nothing is unknown.
    return tuple(amount or 0 for amount in amounts)


def add_usage(one: Amounts | None, other: Amounts | None) -> Amounts | None:
    """Return the sums of two amounts. A sum that lacks a part is None."""
    if one is None or other is None:
        return other if one is None else one
    pairs = zip(one, other, strict=True)
    return tuple(None if left is None or right is None else left + right for left, right in pairs)


def sum_usage(parts: Iterable[Amounts | None]) -> dict[str, int | float | None]:
    """Return the sums by their names, {} if no part has any."""
    total: Amounts | None = None
    for part in parts:
        total = add_usage(total, part)
    if total is None:
        return {}
    return {name: _round(name, amount) for name, amount in zip(USAGE, total, strict=True)}


def _round(name: str, amount: int | float | None) -> int | float | None:
    if not isinstance(amount, float):
        return amount
    return round(amount, _COST_DIGITS if name == "cost" else _SECONDS_DIGITS)


def _read_amount(value: Any) -> int | float | None:
    return value if type(value) in (int, float) and value >= 0 else None


def read_server_use(metrics: Mapping[str, Any]) -> ServerFigures | None:
    """Return the use in the metrics of an attempt, None if it had no servers."""
    found = metrics.get(METRIC)
    return found if isinstance(found, dict) else None


def sum_server_use(parts: Iterable[ServerFigures | None]) -> dict[str, dict[str, Any]]:
    """Return the sums over several attempts, {} if none had servers."""
    total: dict[str, dict[str, Any]] = {}
    for part in parts:
        for server, figures in (part or {}).items():
            sums = total.setdefault(server, {FAILED_STARTS: 0, "tools": {}})
            sums[FAILED_STARTS] += figures[FAILED_STARTS]
            if START_ERROR in figures:
                sums.setdefault(START_ERROR, figures[START_ERROR])
            for tool, use in figures["tools"].items():
                tools = sums["tools"].setdefault(tool, {CALLS: 0, ERRORS: 0, SECONDS: 0.0})
                for name in (CALLS, ERRORS, SECONDS):
                    tools[name] += use[name]
    for sums in total.values():
        for tools in sums["tools"].values():
            tools[SECONDS] = round(tools[SECONDS], 3)
    return total


def list_absent_servers(summed: ServerFigures) -> list[str]:
    """Return the servers that gave no tool in any attempt of a run because they failed to start."""
    return [name for name, figures in summed.items() if figures[FAILED_STARTS] and not figures["tools"]]


def add_server_use(one: ServerFigures | None, other: ServerFigures | None) -> ServerFigures | None:
    """Return the sums of two tries of an attempt."""
    if one is None or other is None:
        return other if one is None else one
    return sum_server_use((one, other))


class Outcome(StrEnum):
    """The result of the replay of one attempt, which the metric `replay` reports."""

    EQUAL = "equal"
    DIFFERENT = "different"
    # The replay could not do all recorded actions, and found no difference until then.
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Replayed:
    """The comparison of one attempt with its recording, from the metrics of its record."""

    outcome: Outcome
    observations: int
    differing: int
    # Whether status and score are as in the recorded attempt.
    has_same_verdict: bool
    # The first difference, on one line.
    first: str | None = None


def read_replayed(record: AttemptRecord) -> Replayed | None:
    """Return the comparison in a record, None for an attempt of another agent."""
    metrics = record.metrics
    outcome = metrics.get("replay")
    if not isinstance(outcome, str) or outcome not in list(Outcome):
        return None
    first = metrics.get("first_difference")
    recorded = metrics.get("recorded_status"), metrics.get("recorded_score")
    return Replayed(
        Outcome(outcome),
        _read_count(metrics.get("observations")),
        _read_count(metrics.get("observations_differing")),
        (record.status.value, record.score) == recorded,
        escape_terminal(first, SHOWN_DIFFERENCE) if isinstance(first, str) else None,
    )


def sum_up_replay(compared: Iterable[tuple[str, int, Replayed | None]]) -> dict[str, Any]:
    """Return the sums over replayed attempts, {} without any.

    Args:
        compared: the task id, the number and the comparison of each attempt, in the order of the plan.
    """
    counts: Counter[Outcome] = Counter()
    observations = differing = same = 0
    first: dict[str, Any] | None = None
    for task_id, number, replayed in compared:
        if replayed is None:
            continue
        counts[replayed.outcome] += 1
        observations += replayed.observations
        differing += replayed.differing
        same += replayed.has_same_verdict
        if first is None and replayed.first is not None:
            first = {"task_id": task_id, "attempt": number, "text": replayed.first}
    if not counts:
        return {}
    return {
        "attempts": counts.total(),
        **{outcome.value: counts[outcome] for outcome in Outcome},
        "observations": observations,
        "observations_differing": differing,
        "same_verdicts": same,
        "first_difference": first,
    }


def describe_difference(replay: Mapping[str, Any]) -> str | None:
    """Return the reason why a replay is not equal to its recording, None if it is equal in all attempts.

    Args:
        replay: the sums of `sum_up_replay`.
    """
    attempts = replay.get("attempts", 0)
    if not attempts:
        return "the replay made no attempt"
    numbers = {
        "different": replay[Outcome.DIFFERENT],
        "incomplete": replay[Outcome.INCOMPLETE],
        "with another verdict": attempts - replay["same_verdicts"],
    }
    found = ", ".join(f"{number:,} {what}" for what, number in numbers.items() if number)
    return f"of {attempts:,} replayed attempts: {found}" if found else None


def _read_count(value: Any) -> int:
    return value if type(value) is int and 0 <= value <= 2**53 else 0


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
