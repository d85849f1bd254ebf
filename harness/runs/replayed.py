"""The comparison of a replay with the recorded run, summed up over its attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from harness.core.text import escape_terminal
from harness.core.types import AttemptRecord

# The most characters of the first difference in the metrics of an attempt.
SHOWN_DIFFERENCE = 400


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
