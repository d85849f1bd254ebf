"""The three ways of sampling tasks, and the shares of strata."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from case_checks import each_case
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.errors import UsageError
from harness.core.types import Task
from harness.runs.plan import sample_tasks, share_out


def make_tasks(**sizes: int) -> list[Task]:
    """Return tasks in turn of each category, so that no category stands together."""
    left = dict(sizes)
    tasks: list[Task] = []
    while any(left.values()):
        for name in left:
            if left[name]:
                left[name] -= 1
                tasks.append(Task(f"{name}/{left[name]}", "b", "text", "?", category=name))
    return tasks


def sampled(tasks: list[Task], size: int, sampling: Any, **choice: Any) -> list[str]:
    return [task.id for task in sample_tasks(tasks, size, sampling=sampling, **{"seed": 0, **choice})]


TASKS = make_tasks(big=60, middle=30, small=10)
IDS = [task.id for task in TASKS]


def test_a_sequential_sample_is_the_first_tasks() -> None:
    assert sampled(TASKS, 7, "sequential") == IDS[:7]


@each_case("sampling", ["random", "stratified"])
def test_a_drawn_sample_keeps_the_order_of_the_data_and_follows_from_the_seed(sampling: str) -> None:
    chosen = sampled(TASKS, 20, sampling)
    assert chosen == [task_id for task_id in IDS if task_id in set(chosen)]
    assert chosen == sampled(TASKS, 20, sampling)
    assert chosen != sampled(TASKS, 20, sampling, seed=1)


@each_case("sampling", ["sequential", "random", "stratified"])
def test_a_sample_larger_than_the_tasks_is_all_of_them(sampling: str) -> None:
    assert sampled(TASKS, 1000, sampling) == IDS


def test_a_stratified_sample_has_the_shares_of_the_categories() -> None:
    chosen = Counter(task_id.partition("/")[0] for task_id in sampled(TASKS, 10, "stratified"))
    assert chosen == {"big": 6, "middle": 3, "small": 1}


def test_a_larger_stratified_sample_keeps_the_tasks_of_a_smaller_one() -> None:
    assert set(sampled(TASKS, 10, "stratified")) <= set(sampled(TASKS, 50, "stratified"))


def test_strata_may_be_difficulties_or_labels() -> None:
    tasks = [
        Task(str(n), "b", "text", "?", difficulty="hard" if n % 2 else "easy", labels={"graph": str(n % 5)})
        for n in range(10)
    ]
    by_difficulty = sampled(tasks, 4, "stratified", stratify_by="difficulty")
    assert Counter(int(task_id) % 2 for task_id in by_difficulty) == {0: 2, 1: 2}
    by_graph = sampled(tasks, 5, "stratified", stratify_by="graph")
    assert {int(task_id) % 5 for task_id in by_graph} == {0, 1, 2, 3, 4}


def test_strata_that_no_task_has_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="no selected task has a colour to stratify by") as caught:
        sampled(TASKS, 5, "stratified", stratify_by="colour")
    assert str(caught.value.hint).endswith("category")


def test_tasks_without_anything_to_stratify_by_are_refused() -> None:
    with pytest.raises(UsageError, match="no category, difficulty or label"):
        sampled([Task("1", "b", "text", "?"), Task("2", "b", "text", "?")], 1, "stratified")


@settings(max_examples=30)
@given(
    st.dictionaries(st.text(max_size=3), st.integers(1, 50), min_size=1, max_size=8),
    st.floats(min_value=0, max_value=1),
)
def test_shares_add_up_and_differ_from_the_exact_ones_by_less_than_one(
    strata: dict[str, int], part: float
) -> None:
    whole = sum(strata.values())
    size = int(part * whole)
    shares = share_out(size, strata)
    assert sum(shares.values()) == size
    for name, number in strata.items():
        assert abs(shares[name] - size * number / whole) < 1
        assert shares[name] <= number
