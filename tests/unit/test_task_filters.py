"""The filters by difficulty and by tags."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bundled import load_bundled
from case_checks import each_case

from harness.benchmarks import Benchmark, load_benchmark
from harness.core.errors import UsageError
from harness.runs.filters import TaskFilters, filter_tasks

MBPP = load_bundled("mbpp")
IDS = [task.id for task in MBPP.tasks[:4]]
KINDS = [("Easy", "leetcode", ("dp",)), ("hard", "leetcode", ("dp", "graphs")), ("hard", "atcoder", ()), None]


@pytest.fixture
def tagged() -> Benchmark:
    """Return four tasks: three with a difficulty, a platform and tags, and one with nothing."""
    tasks = [
        task
        if kind is None
        else replace(task, difficulty=kind[0], labels={"platform": kind[1]}, tags=kind[2])
        for task, kind in zip(MBPP.tasks, KINDS, strict=False)
    ]
    return replace(MBPP, tasks=tuple(tasks))


def filtered(benchmark: Benchmark, **filters: list[str]) -> list[str]:
    return [task.id for task in filter_tasks(benchmark, TaskFilters(**filters))]


def test_several_difficulties_select_tasks_with_any_of_them(tagged: Benchmark) -> None:
    assert filtered(tagged, difficulties=["HARD"]) == [IDS[1], IDS[2]]
    assert filtered(tagged, difficulties=["easy", "hard"]) == IDS[:3]


def test_several_tags_select_tasks_with_all_of_them(tagged: Benchmark) -> None:
    assert filtered(tagged, tags=["dp"]) == IDS[:2]
    assert filtered(tagged, tags=["DP", "graphs"]) == [IDS[1]]


def test_labels_are_tags_with_and_without_their_kind(tagged: Benchmark) -> None:
    assert filtered(tagged, tags=["leetcode"]) == filtered(tagged, tags=["platform=LeetCode"]) == IDS[:2]


def test_all_filters_apply_together(tagged: Benchmark) -> None:
    assert filtered(tagged, difficulties=["hard"], tags=["leetcode"], task_ids=IDS) == [IDS[1]]


@each_case(
    ("filters", "message", "hint"),
    [
        ({"difficulties": ["heard"]}, "unknown difficulty 'heard'", "did you mean 'hard'?"),
        ({"tags": ["graph"]}, "unknown tag 'graph'", "did you mean 'graphs'?"),
        (
            {"difficulties": ["easy"], "task_ids": [IDS[2]]},
            "no selected task has the difficulty easy",
            "hard",
        ),
        (
            {"tags": ["graphs", "atcoder"]},
            "no selected task has all of the tags atcoder, graphs",
            "every tag",
        ),
    ],
)
def test_a_filter_that_no_task_passes_is_refused(
    tagged: Benchmark, filters: dict[str, list[str]], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        filtered(tagged, **filters)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


@each_case(
    ("filters", "message"),
    [
        ({"difficulties": ["easy"]}, "mbpp publishes no difficulties"),
        ({"tags": ["easy"]}, "mbpp has no tags"),
    ],
)
def test_a_filter_that_the_benchmark_cannot_have_is_refused(
    filters: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        filtered(MBPP, **filters)


@each_case(
    ("name", "difficulty"), [("math", "4"), ("livecodebench", "hard"), ("livecodebench-execution", "hard")]
)
def test_published_difficulties_select_tasks(name: str, difficulty: str) -> None:
    loaded = load_benchmark(name, data="bundled")
    chosen = filter_tasks(loaded, TaskFilters(difficulties=[difficulty]))
    assert 0 < len(chosen) < len(loaded.tasks)
    assert {task.difficulty for task in chosen} == {difficulty}
