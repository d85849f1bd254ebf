"""Tasks, references and plans go to another process by pickle, and can be rebuilt there."""

from __future__ import annotations

import dataclasses
import enum
import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks import (
    Benchmark,
    BenchmarkRecipe,
    definitions,
    load_benchmark,
    load_recipe,
    rebuild_task,
)
from harness.core.errors import DataError, UsageError
from harness.core.types import Reference, Task
from harness.environments.python.call_programs import CallTests
from harness.environments.python.stdin_programs import StdinTests
from harness.runs.records import PlannedAttempt

BUNDLED = sorted(name for name, definition in definitions().items() if definition.bundled is not None)
OPTIONS: dict[str, dict[str, Any]] = {
    "math": {"level": [2, 3]},
    "livecodebench": {"platform": "leetcode"},
    "livecodebench-execution": {"exact_types": False},
    "livecodebench-test-output": {"extraction": "evoagentx"},
}


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessPoolExecutor]:
    """Yield a process that starts anew, and so has only the data that this one sends."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@cache
def load_bundled(name: str) -> Benchmark:
    return load_benchmark(name, data="bundled", **OPTIONS.get(name, {}))


def plan_of(benchmark: Benchmark) -> list[PlannedAttempt]:
    return [PlannedAttempt(task, number=0, sample_line=None) for task in benchmark.tasks]


def differing(
    recipe: BenchmarkRecipe,
    tasks: tuple[Task, ...],
    references: Mapping[str, Reference],
    plan: list[PlannedAttempt],
) -> list[str]:
    """Return the ids of sent tasks and references that differ from those that a worker loads."""
    loaded = load_recipe(recipe)
    pairs = [
        *zip(tasks, loaded.tasks, strict=True),
        *((reference, loaded.references[task_id]) for task_id, reference in references.items()),
        *zip(plan, plan_of(loaded), strict=True),
    ]
    return [repr(sent)[:200] for sent, found in pairs if sent != found]


@each_case("name", BUNDLED)
def test_sent_tasks_equal_those_that_a_new_process_loads(name: str, worker: ProcessPoolExecutor) -> None:
    benchmark = load_bundled(name)
    assert benchmark.recipe is not None
    sent = (benchmark.recipe, benchmark.tasks, dict(benchmark.references), plan_of(benchmark))
    assert worker.submit(differing, *sent).result(timeout=120) == []


def is_frozen(dataclass: Any) -> bool:
    return bool(dataclass.__dataclass_params__.frozen)


def not_plain(value: Any, place: str) -> Iterator[str]:
    """Yield the paths of values that are not plain data."""
    match value:
        case None | bool() | int() | float() | Decimal() | str() | bytes() | enum.Enum():
            return
        case Path() if not value.is_absolute():
            return
        case tuple() | list() | frozenset():
            for number, element in enumerate(value):
                yield from not_plain(element, f"{place}[{number}]")
        case Mapping():
            for key, element in value.items():
                yield from not_plain(key, f"{place} key")
                yield from not_plain(element, f"{place}[{key!r}]")
        case _ if dataclasses.is_dataclass(value) and is_frozen(type(value)):
            for field in dataclasses.fields(value):
                yield from not_plain(getattr(value, field.name), f"{place}.{field.name}")
        case _:
            yield f"{place} is a {type(value).__name__}"


@each_case("name", BUNDLED)
def test_tasks_and_references_are_plain_data(name: str) -> None:
    benchmark = load_bundled(name)
    found = [(task, benchmark.references[task.id]) for task in benchmark.tasks]
    assert [line for task, reference in found for line in not_plain((task, reference), task.id)] == []


def test_a_worker_rebuilds_one_task_from_its_recipe_and_id(worker: ProcessPoolExecutor) -> None:
    benchmark = load_benchmark("livecodebench", data="bundled")
    task = benchmark.tasks[-1]
    assert benchmark.recipe is not None
    rebuilt = worker.submit(rebuild_task, benchmark.recipe, task.id).result(timeout=120)
    assert rebuilt == (task, benchmark.references[task.id])
    found, own = rebuilt[1].target, benchmark.references[task.id].target
    assert isinstance(found, StdinTests | CallTests)
    assert isinstance(own, StdinTests | CallTests)
    assert found.load() == own.load()


def test_data_that_differ_from_those_of_the_run_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "gsm8k.jsonl"
    path.write_text('{"question": "1 + 1?", "answer": "#### 2"}\n')
    recipe = load_benchmark("gsm8k", data=str(path)).recipe
    assert recipe is not None
    path.write_text('{"question": "1 + 1?", "answer": "#### 3"}\n')
    with pytest.raises(DataError, match=f"the run needs {recipe.sha256}"):
        rebuild_task(recipe, "gsm8k/0")


def test_an_unknown_task_names_the_nearest() -> None:
    recipe = load_benchmark("gsm8k", data="bundled").recipe
    assert recipe is not None
    with pytest.raises(UsageError, match="'gsm8k/x'"):
        rebuild_task(recipe, "gsm8k/x")


def test_the_bundled_sample_is_rebuilt_if_the_hub_was_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    recipe = load_benchmark("gsm8k").recipe
    assert recipe is not None
    assert recipe.data == "bundled"


def test_a_benchmark_of_a_users_file_is_rebuilt_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sums.py").write_text(
        "NAME, METRIC = 'sums', 'number'\n"
        "def tasks():\n    return [{'prompt': f'{n} + 1?', 'reference': n + 1} for n in range(3)]\n"
    )
    monkeypatch.chdir(tmp_path)
    loaded = load_benchmark("sums.py")
    assert loaded.recipe is not None
    monkeypatch.chdir("/")
    assert rebuild_task(loaded.recipe, "2") == (loaded.tasks[2], loaded.references["2"])
    with pytest.raises(DataError, match="the run needs"):
        rebuild_task(replace(loaded.recipe, sha256="0" * 64), "2")
