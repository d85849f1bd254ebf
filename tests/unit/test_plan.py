"""Which tasks are selected, and how their attempts are numbered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.agents import AgentSettings, build_agent
from harness.benchmarks import Benchmark, load_benchmark
from harness.engine.plan import plan_attempts, select_tasks
from harness.errors import UsageError

MBPP = load_benchmark("mbpp", path="bundled")
IDS = [task.id for task in MBPP.tasks]
CATEGORIES = ("Strings", "maths", None)


@pytest.fixture
def categorised() -> Benchmark:
    """The bundled tasks in turn in two categories and in none."""
    tasks = [
        replace(task, category=CATEGORIES[place % len(CATEGORIES)]) for place, task in enumerate(MBPP.tasks)
    ]
    return replace(MBPP, tasks=tuple(tasks))


def selected(benchmark: Benchmark = MBPP, **choice: object) -> list[str]:
    return [task.id for task in select_tasks(benchmark, **choice)]  # type: ignore[arg-type]


def test_without_a_choice_every_task_is_selected_in_the_order_of_the_data() -> None:
    assert selected() == IDS


def test_task_ids_keep_the_order_of_the_data() -> None:
    assert selected(task_ids=[IDS[4], IDS[1]]) == [IDS[1], IDS[4]]


def test_task_id_given_twice_counts_once() -> None:
    assert selected(task_ids=[IDS[1], IDS[1]]) == [IDS[1]]


def test_unknown_task_id_names_the_nearest_and_the_benchmark() -> None:
    with pytest.raises(UsageError, match="mbpp: unknown task '9001x'") as caught:
        selected(task_ids=[IDS[0], "9001x"])
    assert "did you mean '9001'?" in str(caught.value.hint)


def test_list_of_known_tasks_in_an_error_is_bounded() -> None:
    task = MBPP.tasks[0]
    many = replace(MBPP, tasks=tuple(replace(task, id=f"{number:06}") for number in range(10_000)))
    with pytest.raises(UsageError) as caught:
        selected(many, task_ids=["x"])
    assert len(str(caught.value.hint)) < 500


def test_categories_are_compared_without_regard_to_case(categorised: Benchmark) -> None:
    assert selected(categorised, categories=["STRINGS"]) == IDS[::3]


def test_several_categories_are_joined(categorised: Benchmark) -> None:
    chosen = selected(categorised, categories=["strings", "Maths"])
    assert chosen == [task_id for place, task_id in enumerate(IDS) if place % 3 != 2]


def test_unknown_category_names_the_nearest(categorised: Benchmark) -> None:
    with pytest.raises(UsageError, match="unknown category 'math'") as caught:
        selected(categorised, categories=["math"])
    assert "did you mean 'maths'?" in str(caught.value.hint)


def test_category_of_a_benchmark_without_any_is_refused() -> None:
    with pytest.raises(UsageError, match="mbpp has no categories"):
        selected(categories=["strings"])


def test_sample_has_its_size_and_the_order_of_the_data() -> None:
    chosen = selected(sample_size=7)
    assert len(chosen) == 7
    assert chosen == [task_id for task_id in IDS if task_id in chosen]


def test_same_seed_draws_the_same_sample() -> None:
    assert selected(sample_size=7, seed=3) == selected(sample_size=7, seed=3)


def test_other_seed_draws_another_sample() -> None:
    assert selected(sample_size=7, seed=3) != selected(sample_size=7, seed=4)


def test_sample_is_drawn_from_what_ids_and_categories_leave(categorised: Benchmark) -> None:
    chosen = selected(categorised, categories=["strings"], sample_size=2)
    assert len(chosen) == 2
    assert set(chosen) <= set(IDS[::3])


def test_sample_larger_than_the_benchmark_is_all_of_it() -> None:
    assert selected(sample_size=10_000) == IDS


def test_attempts_are_numbered_within_each_task() -> None:
    agent = build_agent("oracle", AgentSettings(MBPP, n_samples=3))
    planned = plan_attempts(MBPP.tasks[:2], agent)
    assert [attempt.key for attempt in planned] == [
        (task_id, number) for task_id in IDS[:2] for number in range(3)
    ]
    assert {attempt.sample_line for attempt in planned} == {None}


def test_attempts_of_samples_carry_their_lines(tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    samples.write_text(
        f'{{"task_id": {IDS[1]}, "solution": "a"}}\n\n{{"task_id": "{IDS[1]}", "completion": "b"}}\n'
    )
    agent = build_agent("predictions", AgentSettings(MBPP, n_samples=1, samples=samples))
    planned = plan_attempts(MBPP.tasks[:2], agent)
    assert [(*attempt.key, attempt.sample_line) for attempt in planned] == [
        (IDS[0], 0, None),
        (IDS[1], 0, 1),
        (IDS[1], 1, 3),
    ]


@pytest.mark.parametrize("agent", ["oracle", "null"])
def test_samples_for_an_agent_that_reads_none_are_refused(agent: str) -> None:
    with pytest.raises(UsageError, match=f"agent '{agent}' reads no samples"):
        build_agent(agent, AgentSettings(MBPP, n_samples=1, samples=Path("samples.jsonl")))


def test_unknown_agent_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown agent 'predictoins'") as caught:
        build_agent("predictoins", AgentSettings(MBPP, n_samples=1))
    assert "did you mean 'predictions'?" in str(caught.value.hint)
