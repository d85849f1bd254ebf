"""The selection of tasks, and the numbers of their attempts."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from bundled import load_bundled

from harness.benchmarks import Benchmark
from harness.core.errors import UsageError
from harness.runs.agents import ChoosesSamples, build_agent, settings_for
from harness.runs.filters import TaskFilters
from harness.runs.plan import describe_samples, list_quarantined, plan_attempts, select_tasks

MBPP = load_bundled("mbpp")
IDS = [task.id for task in MBPP.tasks]
CATEGORIES = ("Strings", "maths", None)


@pytest.fixture
def categorised() -> Benchmark:
    """Return the bundled tasks with two categories and none in turn."""
    tasks = [
        replace(task, category=CATEGORIES[place % len(CATEGORIES)]) for place, task in enumerate(MBPP.tasks)
    ]
    return replace(MBPP, tasks=tuple(tasks))


def selected(benchmark: Benchmark = MBPP, **choice: Any) -> list[str]:
    """Select tasks by filters and by the other arguments of `select_tasks`."""
    filters = {field.name: choice.pop(field.name) for field in fields(TaskFilters) if field.name in choice}
    return [task.id for task in select_tasks(benchmark, TaskFilters(**filters), **choice)]


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


def test_a_sample_is_drawn_from_the_chosen_ids_and_categories(categorised: Benchmark) -> None:
    chosen = selected(categorised, categories=["strings"], sample_size=2)
    assert len(chosen) == 2
    assert set(chosen) <= set(IDS[::3])


def test_sample_larger_than_the_benchmark_is_all_of_it() -> None:
    assert selected(sample_size=10_000) == IDS


def test_attempts_are_numbered_within_each_task() -> None:
    agent = build_agent("oracle", settings_for(MBPP), MBPP)
    planned = plan_attempts(MBPP.tasks[:2], agent, n_samples=3)
    assert [attempt.key for attempt in planned] == [
        (task_id, number) for task_id in IDS[:2] for number in range(3)
    ]
    assert {attempt.sample_line for attempt in planned} == {None}


def test_unused_samples_are_counted_by_reason(tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    lines = [f'{{"task_id": {each}, "solution": ""}}\n' for each in (*IDS[:3], IDS[1], IDS[1])]
    samples.write_text("".join(lines))
    agent = build_agent("predictions", settings_for(MBPP, samples=samples), MBPP)
    assert isinstance(agent, ChoosesSamples)
    quarantined = replace(MBPP, quarantined={IDS[2]: "its reference is wrong"})
    assert list(describe_samples(quarantined, MBPP.tasks[:1], agent)) == [
        "samples that are not used: 4 of 5 (1 for quarantined tasks, 3 for unselected tasks)"
    ]
    assert list(describe_samples(MBPP, MBPP.tasks[:3], agent)) == []


def test_attempts_of_samples_carry_their_lines(tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    samples.write_text(
        f'{{"task_id": {IDS[1]}, "solution": "a"}}\n\n{{"task_id": "{IDS[1]}", "completion": "b"}}\n'
    )
    agent = build_agent("predictions", settings_for(MBPP, samples=samples), MBPP)
    planned = plan_attempts(MBPP.tasks[:2], agent)
    assert [(*attempt.key, attempt.sample_line) for attempt in planned] == [
        (IDS[0], 0, None),
        (IDS[1], 0, 1),
        (IDS[1], 1, 3),
    ]


def test_unknown_agent_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown agent 'predictoins'") as caught:
        build_agent("predictoins", settings_for(MBPP), MBPP)
    assert "did you mean 'predictions'?" in str(caught.value.hint)


def test_labels_choose_as_categories_do_and_together_with_them() -> None:
    kinds = [("Strings", "Level 1"), ("Strings", "Level 2"), ("maths", "Level 1"), ("maths", "Level 3")]
    tasks = [
        replace(task, category=category, labels={"level": level})
        for task, (category, level) in zip(MBPP.tasks, kinds, strict=False)
    ]
    labelled = replace(MBPP, tasks=tuple(tasks))
    assert selected(labelled, categories=["level 1"]) == [IDS[0], IDS[2]]
    assert selected(labelled, categories=["Level 1", "level 3"]) == [IDS[0], IDS[2], IDS[3]]
    assert selected(labelled, categories=["STRINGS", "Level 1"]) == [IDS[0]]
    assert selected(labelled, categories=["strings", "level 3"]) == []


QUARANTINED = {IDS[1]: "its gold is wrong", IDS[3]: "so is this"}


@pytest.fixture
def partly_sound(categorised: Benchmark) -> Benchmark:
    """Return the categorised tasks, two of them quarantined, of a benchmark with further categories."""
    definition = replace(categorised.definition, categories=("strings", "maths", "chess", "go"))
    return replace(categorised, definition=definition, quarantined=QUARANTINED)


def test_quarantined_tasks_are_left_out_and_named(partly_sound: Benchmark) -> None:
    assert selected(partly_sound) == [task_id for task_id in IDS if task_id not in QUARANTINED]
    assert list_quarantined(partly_sound) == QUARANTINED


def test_quarantined_tasks_run_on_request(partly_sound: Benchmark) -> None:
    assert selected(partly_sound, include_quarantined=True) == IDS
    assert selected(partly_sound, include_quarantined=True, task_ids=[IDS[1]]) == [IDS[1]]


def test_only_quarantined_tasks_of_the_choice_are_named(partly_sound: Benchmark) -> None:
    assert list_quarantined(partly_sound, TaskFilters(categories=["maths"])) == {IDS[1]: "its gold is wrong"}


def test_a_sample_is_drawn_from_sound_tasks(partly_sound: Benchmark) -> None:
    assert len(selected(partly_sound, sample_size=len(IDS) - 2)) == len(IDS) - 2


def test_a_quarantined_task_that_is_named_is_refused_with_its_reason(partly_sound: Benchmark) -> None:
    with pytest.raises(UsageError, match=f"task {IDS[1]} is quarantined: its gold is wrong") as caught:
        selected(partly_sound, task_ids=[IDS[0], IDS[1]])
    assert "--include-quarantined" in str(caught.value.hint)


def test_a_choice_of_quarantined_tasks_alone_is_refused(partly_sound: Benchmark) -> None:
    bad = replace(partly_sound, quarantined=dict.fromkeys(IDS[1::3], "wrong"))
    with pytest.raises(UsageError, match="every selected task is quarantined"):
        selected(bad, categories=["maths"])


def test_a_known_category_without_a_task_is_refused(partly_sound: Benchmark) -> None:
    with pytest.raises(UsageError, match="no selected task has the category go"):
        selected(partly_sound, categories=["go"])


def test_an_unknown_category_lists_all_possible_ones(partly_sound: Benchmark) -> None:
    with pytest.raises(UsageError, match="unknown category 'poker'") as caught:
        selected(partly_sound, categories=["poker"])
    assert "chess, go, maths, strings" in str(caught.value.hint)


def test_an_agent_does_not_get_the_seed_of_its_environment() -> None:
    agent = build_agent("oracle", settings_for(MBPP), MBPP)
    plan, again, other = (plan_attempts(MBPP.tasks, agent, n_samples=2, seed=seed) for seed in (0, 0, 1))
    assert plan == again
    seeds = [each.environment_seed for each in plan]
    assert len({*seeds, *(each.seed for each in plan)}) == 2 * len(plan)
    assert not set(seeds) & {each.environment_seed for each in other}
