"""The order of a plan by the durations of an earlier run."""

from __future__ import annotations

import pytest

from harness.core.errors import UsageError
from harness.core.types import Task
from harness.runs.plan import describe_unknown, order_by_duration
from harness.runs.records import PlannedAttempt

PLAN = [
    PlannedAttempt(Task(name, "b", "text", "?"), number, None)
    for name in ("a", "b", "c")
    for number in (0, 1)
]


def test_the_longest_tasks_start_first_and_unknown_ones_before_them() -> None:
    ordered = order_by_duration(PLAN, {"a": 1.0, "c": 5.0})
    assert [planned.key for planned in ordered] == [
        *(("b", 0), ("b", 1), ("c", 0), ("c", 1), ("a", 0), ("a", 1))
    ]


def test_without_durations_the_plan_keeps_its_order() -> None:
    assert order_by_duration(PLAN, {}) is PLAN


def test_tasks_without_a_duration_are_counted() -> None:
    notes: list[str] = []
    describe_unknown(PLAN, {"a": 1.0}, notes.append)
    assert notes == ["tasks without a known duration, which start first: 2 of 3"]


def test_a_run_of_other_tasks_is_refused() -> None:
    with pytest.raises(UsageError, match="no attempt at any of the selected tasks"):
        describe_unknown(PLAN, {"x": 1.0}, print)
