"""HumanEval: from published rows to tasks, references and submissions; broken rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks import load_benchmark
from harness.benchmarks.data.rows import Row
from harness.benchmarks.humaneval import read, submit
from harness.core.errors import DataError

PROMPT = '''import math


def helper(n):
    return n + 1


def area(radius):
    """Return the area of a circle."""
'''
ROW = {
    "task_id": "HumanEval/7",
    "prompt": PROMPT,
    "entry_point": "area",
    "canonical_solution": "    return math.pi * radius**2\n",
    "test": "def check(candidate):\n    assert candidate(0) == 0\n",
}


def row(**changes: Any) -> Row:
    return Row({**ROW, **changes}, "HumanEval.jsonl", line=8)


def test_task_shows_the_prompt_and_keeps_its_id() -> None:
    task, _ = read(row())
    assert (task.id, task.prompt, task.entry_point) == ("HumanEval/7", PROMPT, "area")


def test_task_holds_nothing_of_the_reference() -> None:
    task, _ = read(row())
    shown = repr(task)
    assert "math.pi" not in shown
    assert "check" not in shown


def test_reference_solution_is_a_whole_program() -> None:
    _, reference = read(row())
    namespace: dict[str, Any] = {}
    exec(reference.solution, namespace)
    assert namespace["area"](1) == pytest.approx(3.14159, rel=1e-5)


def test_expected_output_is_the_canonical_solution() -> None:
    assert read(row())[1].expected_output == ROW["canonical_solution"]


def test_tests_call_check_with_the_candidate() -> None:
    tests = read(row())[1].target
    assert len(tests.statements) == 1
    assert tests.statements[0].rstrip().endswith("check(candidate)")
    assert tests.exports == {"candidate": "area", "area": "area"}


def test_tests_have_the_helpers_of_the_prompt() -> None:
    namespace: dict[str, Any] = {}
    exec(read(row())[1].target.setup, namespace)
    assert namespace["helper"](1) == 2


def test_prompt_that_ends_in_a_header_still_gives_its_helpers() -> None:
    _, reference = read(row(prompt="def helper(n):\n    return n + 1\n\ndef area(radius):\n"))
    namespace: dict[str, Any] = {}
    exec(reference.target.setup, namespace)
    assert namespace["helper"](1) == 2


def test_completion_continues_the_prompt() -> None:
    task, _ = read(row())
    submission = submit(task, "completion", "    return 1\n")
    assert submission.text == PROMPT + "    return 1\n"
    assert submission.agent_output == "    return 1\n"


def test_solution_is_a_whole_program() -> None:
    task, _ = read(row())
    assert submit(task, "solution", "def area(r): return 1\n").text == "def area(r): return 1\n"


BROKEN = {
    "prompt missing": ({"prompt": None}, "prompt", "found null"),
    "prompt not Python": ({"prompt": "def f(:\n"}, "prompt", "not the start of a Python program"),
    "entry point not a name": ({"entry_point": "a b"}, "entry_point", "not a Python name"),
    "test not Python": ({"test": "def check(:\n"}, "test", "is not Python"),
    "test without check": ({"test": "assert True\n"}, "test", "defines no function 'check'"),
    "test with a NUL": ({"test": "def check(candidate): '\0'\n"}, "test", "is not Python"),
    "task id not text": ({"task_id": 7}, "task_id", "needs a string, found an integer"),
    "solution not text": ({"canonical_solution": ["x"]}, "canonical_solution", "found a list of 1"),
}


@each_case(("changes", "field", "said"), BROKEN.values(), ids=BROKEN)
def test_broken_row_names_file_line_and_field(changes: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(DataError) as caught:
        read(row(**changes))
    assert caught.value.message.startswith(f"HumanEval.jsonl:8: field '{field}': ")
    assert said in caught.value.message


def test_missing_field_is_named() -> None:
    values = {name: value for name, value in ROW.items() if name != "test"}
    with pytest.raises(DataError, match=r"HumanEval\.jsonl:8: field 'test': missing"):
        read(Row(values, "HumanEval.jsonl", line=8))


def test_task_id_used_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "HumanEval.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n{json.dumps(ROW)}\n")
    with pytest.raises(DataError, match=r"HumanEval\.jsonl:2: field 'task_id': .*HumanEval/7 is used twice"):
        load_benchmark("humaneval", data=str(path))


def test_bundled_tasks_all_belong_to_the_benchmark() -> None:
    benchmark = load_benchmark("humaneval", data="bundled")
    assert len(benchmark.tasks) >= 12
    assert {task.benchmark for task in benchmark.tasks} == {"humaneval"}
    assert {task.id for task in benchmark.tasks} == {*benchmark.references} == {*benchmark.rows}
    assert (benchmark.source.kind, benchmark.source.rows) == ("bundled", len(benchmark.tasks))


def test_published_data_are_read_whole(shared_data: Path) -> None:
    benchmark = load_benchmark("humaneval", data=str(shared_data / "humaneval/HumanEval.jsonl.gz"))
    assert [task.id for task in benchmark.tasks] == [f"HumanEval/{number}" for number in range(164)]
