"""A field of a row that would change the grading, and that the benchmark does not read, is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import DataError, load_benchmark
from harness.benchmarks.data.rows import names_grading

HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": "def f(x):\n    '''Return x.'''\n",
    "entry_point": "f",
    "canonical_solution": "    return x\n",
    "test": "def check(candidate):\n    assert candidate(1) == 1\n",
}
MBPP = {
    "task_id": 2,
    "prompt": "Return x.",
    "code": "def f(x):\n    return x\n",
    "test_imports": [],
    "test_list": ["assert f(1) == 1"],
}
GSM8K = {"question": "1 + 1?", "answer": "#### 2"}
MATH = {"problem": "1 + 1?", "solution": "\\boxed{2}", "level": "Level 1", "type": "Algebra"}
PLUS = {
    "task_id": "Mbpp/3",
    "prompt": "Return x.",
    "entry_point": "f",
    "canonical_solution": "def f(x):\n    return x\n",
    "base_input": [[1]],
    "plus_input": [[2]],
    "atol": 0,
    "contract": "",
    "assertion": "assert f(1) == 1",
}
# The benchmark, its row, and a field that it does not know.
REFUSED: list[tuple[str, dict[str, Any], str, Any]] = [
    ("humaneval", HUMANEVAL, "plus_input", [[1]]),
    ("humaneval", HUMANEVAL, "atol", 1e-6),
    ("humaneval", HUMANEVAL, "extra_tests", "assert f(2) == 2"),
    ("humaneval", HUMANEVAL, "timeLimit", 3),
    (
        "humaneval-plus",
        {**HUMANEVAL, "test": "inputs = 1\n" + HUMANEVAL["test"]},
        "contract_checks",
        "assert x",
    ),
    ("mbpp", MBPP, "hidden_tests", ["assert f(2) == 2"]),
    ("mbpp", MBPP, "plus_input", [[1]]),
    ("mbpp", MBPP, "expected_output", "1"),
    ("mbpp-humaneval", MBPP, "checker", "def check(): pass"),
    ("mbpp-full", {**MBPP, "text": "Return x."}, "testSetup", "import math"),
    ("mbpp-plus", PLUS, "special_oracle", "set"),
    ("gsm8k", GSM8K, "tolerance", 0.01),
    ("gsm8k", GSM8K, "answer_aliases", ["two"]),
    ("math", MATH, "grader", "sympy"),
]
# Fields that change nothing, and fields without a value.
ACCEPTED: list[tuple[str, dict[str, Any], str, Any]] = [
    ("humaneval", HUMANEVAL, "source_file", "x.py"),
    ("humaneval", HUMANEVAL, "plus_input", None),
    ("humaneval", HUMANEVAL, "latest_contest", "x"),
    ("mbpp", MBPP, "test", "assert f(2) == 2"),
    ("mbpp", MBPP, "test_setup_code", "import math"),
    ("mbpp-full", MBPP, "challenge_test_list", ["assert f(9) == 9"]),
    ("mbpp", MBPP, "notes", "hard"),
    ("gsm8k", GSM8K, "difficulty", "easy"),
]


def load(folder: Path, benchmark: str, row: dict[str, Any], field: str, value: object) -> None:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps({**row, field: value}) + "\n")
    load_benchmark(benchmark, data=str(path))


def test_a_field_that_would_change_the_grading_is_refused_by_its_name(tmp_path: Path) -> None:
    wrong = []
    for benchmark, row, field, value in REFUSED:
        try:
            load(tmp_path, benchmark, row, field, value)
        except DataError as error:
            if error.field == field and f"{benchmark} does not read it" in error.message and error.line == 1:
                continue
        wrong.append((benchmark, field))
    assert not wrong


def test_other_fields_are_accepted(tmp_path: Path) -> None:
    for benchmark, row, field, value in ACCEPTED:
        load(tmp_path, benchmark, row, field, value)


def test_names_are_read_word_by_word() -> None:
    assert [
        name
        for name in ("test", "testCases", "unit_tests", "HTTPTimeout", "io_checker")
        if names_grading(name)
    ]
    assert not [
        name
        for name in ("latest", "attestation", "contested", "checkpoint", "protest")
        if names_grading(name)
    ]


def test_own_benchmarks_say_themselves_which_fields_they_read(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps({"q": "1 + 1?", "a": "2", "tests": "x"}) + "\n")
    own = tmp_path / "own.yaml"
    own.write_text(
        "name: own\ndata: {test: {path: rows.jsonl}}\nprompt: '{q}'\nreference: a\nmetric: exact_match\n"
    )
    assert len(load_benchmark(str(own)).tasks) == 1
