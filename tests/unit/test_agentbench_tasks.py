"""AgentBench as a benchmark: tasks, references, and the choice of tasks in mixed data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bundled import load_bundled
from case_checks import each_case
from contexts import no_context

from harness.benchmarks import Benchmark, load_benchmark
from harness.benchmarks.benchmark import TaskResult
from harness.core.errors import UsageError
from harness.core.types import Task
from harness.environments import environment_spec, grader_of
from harness.environments.db.environment import DatabaseSetup
from harness.environments.db.grader import DatabaseAnswer, DatabaseState
from harness.environments.os.environment import OsSetup
from harness.environments.os.grader import AnswerMatch, StateChecks
from harness.environments.text.short_answers import ExpectedText
from harness.runs.filters import TaskFilters
from harness.runs.plan import select_tasks

SAMPLE = load_bundled("agentbench")
FLAT: list[dict[str, Any]] = [
    {"task_id": "f-os", "environment": "OS", "instruction": "say seven", "expected_output": "7"},
    {"task_id": "f-db", "environment": "db", "description": "say eight", "expected_output": "8"},
    {"task_id": "f-lateral", "environment": "lateral", "instruction": "say nine", "expected_output": "9"},
]


@pytest.fixture
def flat(tmp_path: Path) -> Benchmark:
    path = tmp_path / "flat.json"
    path.write_text(json.dumps(FLAT))
    return load_benchmark("agentbench", data=str(path))


def test_every_task_has_an_environment_and_a_grader() -> None:
    setups = {"os": OsSetup, "db": DatabaseSetup}
    for task in SAMPLE.tasks:
        assert task.environment == task.category
        assert isinstance(task.setup, setups.get(task.environment, object))
        assert grader_of(SAMPLE.references[task.id].target)


def test_every_kind_of_target_is_in_the_sample() -> None:
    kinds = {
        type(SAMPLE.references[task.id].target) for task in SAMPLE.tasks if task.category in ("os", "db")
    }
    assert kinds == {AnswerMatch, StateChecks, DatabaseAnswer, DatabaseState}


def test_no_task_shows_its_gold() -> None:
    for task in SAMPLE.tasks:
        reference = SAMPLE.references[task.id]
        assert len(reference.solution) < 12 or reference.solution not in task.prompt
        shown = repr(task.setup)
        assert len(reference.solution) < 40 or reference.solution not in shown


def test_scores_name_each_kind_of_query() -> None:
    found = SAMPLE.scores(
        {
            task.id: TaskResult(task.category == "os", float(task.category == "os"))
            for task in SAMPLE.tasks
            if task.category in ("os", "db")
        }
    )
    assert found["categories"]["os"]["score"] == 1.0
    assert set(found["categories"]["db"]["kinds"]) == {"SELECT", "INSERT", "UPDATE", "DELETE"}
    assert found["overall"]["score"] == pytest.approx(100 / 10.8 / 2)


def test_a_flat_task_is_graded_by_its_text_in_the_same_environment(flat: Benchmark) -> None:
    environments = [(task.id, task.environment) for task in flat.tasks]
    assert environments == [("f-os", "os"), ("f-db", "db"), ("f-lateral", "lateral")]
    assert flat.references["f-os"].target == ExpectedText("7")
    assert "say seven" in flat.tasks[0].prompt
    assert flat.tasks[0].setup == OsSetup()


def test_an_unknown_category_lists_all_seven(flat: Benchmark) -> None:
    with pytest.raises(UsageError, match="unknown category 'chess'") as caught:
        select_tasks(flat, TaskFilters(categories=["chess"]))
    assert "card, db, house, kg, lateral, os, web" in str(caught.value.hint)


@each_case("names", [["os"], ["operating_system"], ["OS-Interaction"], ["Operating System", "os"]], ids=str)
def test_a_category_is_selected_by_any_of_its_names(names: list[str]) -> None:
    assert {task.category for task in select_tasks(SAMPLE, TaskFilters(categories=names))} == {"os"}


@each_case("name", ["card", "house", "kg", "lateral", "tau2", "web"])
async def test_a_flat_task_has_no_world_and_submit_alone(name: str) -> None:
    open_environment = environment_spec(name).open_environment
    assert open_environment is not None
    task = Task("flat", "agentbench", name, "say seven")
    async with open_environment(task, no_context(target=ExpectedText("7"))) as environment:
        assert list(environment.tools) == ["submit"]
