"""The tasks of a plan in the manifest: a list, or a hash if the list is long."""

from __future__ import annotations

from typing import Any

from case_checks import each_case

from harness.core.types import Task
from harness.runs.records import MAX_LISTED_BYTES, PlannedAttempt, describe_planned, has_same_tasks

LONG = "x" * (MAX_LISTED_BYTES // 2)


def plan(*ids: str, attempts: int = 1) -> list[PlannedAttempt]:
    return [
        PlannedAttempt(Task(task_id, "", "", ""), number, None)
        for task_id in ids
        for number in range(attempts)
    ]


def test_a_short_list_of_tasks_is_written_in_the_order_of_the_plan() -> None:
    assert describe_planned(plan("b", "a", attempts=2)) == {"tasks": 2, "attempts": 4, "task_ids": ["b", "a"]}


def test_a_long_list_of_tasks_is_written_as_a_hash() -> None:
    planned = describe_planned(plan(LONG, f"{LONG}2"))
    assert planned.keys() == {"tasks", "attempts", "task_ids_sha256"}
    assert len(planned["task_ids_sha256"]) == 64


@each_case("ids", [("b", "a"), (LONG, f"{LONG}2"), ("half a pair \ud800", LONG, f"{LONG}3")])
def test_the_same_tasks_in_another_order_are_other_tasks(ids: tuple[str, ...]) -> None:
    planned = describe_planned(plan(*ids))
    assert has_same_tasks(planned, plan(*ids))
    assert not has_same_tasks(planned, plan(*reversed(ids)))
    assert not has_same_tasks(planned, plan(*ids[1:]))


@each_case("planned", [None, {"tasks": 1, "attempts": 1}])
def test_a_manifest_of_an_earlier_version_agrees_with_any_plan(planned: Any) -> None:
    assert has_same_tasks(planned, plan("a"))
