"""MBPP: both published schemas, awkward tasks, broken rows, and its shape as HumanEval.

The awkward tasks imitate real ones: a function named `check` (56), one that shadows a built-in (126), tests
that need an import of the solution (596).
"""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

from harness.benchmarks import load_benchmark
from harness.benchmarks.data.rows import Row
from harness.benchmarks.mbpp import humaneval_shape, read, read_humaneval_shape, submit
from harness.core.errors import DataError
from harness.core.types import ProgramTests

SANITIZED = {
    "task_id": 11,
    "prompt": "Write a function to double a number.",
    "code": "def double(n):\n    return 2 * n",
    "test_imports": [],
    "test_list": ["assert double(2) == 4", "assert double(0) == 0"],
}
FULL = {
    "task_id": 601,
    "text": "Write a function to find the longest chain of pairs.",
    "code": (
        "class Pair(object):\r\n\tdef __init__(self, a, b):\r\n\t\tself.a = a\r\n\t\tself.b = b\r\n"
        "def longest(pairs, n):\r\n\treturn max(pair.b - pair.a for pair in pairs) + n"
    ),
    "test_setup_code": "LIMIT = 4",
    "test_list": ["assert longest([Pair(5, 24), Pair(15, 25)], LIMIT) == 23"],
    "challenge_test_list": [],
}


def row(base: dict[str, Any] = SANITIZED, **changes: Any) -> Row:
    return Row({**base, **changes}, "mbpp.jsonl", line=3)


def run_as_published(source: str, tests: ProgramTests) -> None:
    """Run the tests as a plain script would, in one namespace: the program, then its tests."""
    namespace: dict[str, Any] = {"__name__": "candidate"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(f"{tests.preamble}\n{source}", namespace)
        exec(tests.setup, trusted := {"__name__": "tests"})
        trusted |= {name: namespace[theirs] for name, theirs in tests.exports.items()}
        for statement in tests.statements:
            exec(statement, trusted)


# --- the two schemas


def test_task_has_its_id_as_text_and_its_function() -> None:
    task, _ = read(row())
    assert (task.id, task.entry_point) == ("11", "double")


def test_prompt_is_that_of_the_paper_with_text_and_tests() -> None:
    prompt = read(row())[0].prompt
    assert prompt.startswith("You are an expert Python programmer, and here is your task: Write a function")
    assert prompt.endswith("pass these tests:\n\nassert double(2) == 4\nassert double(0) == 0\n")


def test_prompt_does_not_show_the_solution() -> None:
    assert "2 * n" not in read(row())[0].prompt


def test_every_test_is_a_separate_statement() -> None:
    assert list(read(row())[1].target.statements) == SANITIZED["test_list"]


def test_the_full_schema_is_read() -> None:
    task, reference = read(row(FULL))
    assert (task.id, task.entry_point) == ("601", "longest")
    assert str(FULL["text"]) in task.prompt
    assert "LIMIT = 4" in reference.target.setup
    run_as_published(reference.solution, reference.target)


def test_test_imports_are_available_to_tests_and_program() -> None:
    _, reference = read(
        row(
            test_imports=["import math"],
            code="def circle(r):\n    return math.pi * r",
            test_list=["assert math.isclose(circle(1), 3.14159, rel_tol=1e-5)"],
        )
    )
    run_as_published(reference.solution, reference.target)


def test_classes_that_tests_build_are_exported() -> None:
    tests = read(row(FULL))[1].target
    assert dict(tests.exports) == {"Pair": "Pair", "longest": "longest"}


# --- awkward tasks

AWKWARD = {
    "function named check": {
        "code": "def check(n):\n  return n == 3",
        "test_list": ["assert check(3) == True", "assert check(4) == False"],
    },
    "function that shadows a built-in": {
        "code": (
            "def sum(a, b):\n    total = 0\n    for i in range(1, min(a, b)):\n        total += i\n"
            "    return total"
        ),
        "test_list": ["assert sum(10, 15) == 45"],
    },
    "tests that need an import of the solution": {
        "code": "import sys \ndef size(items):\n  return (sys.getsizeof(items)) ",
        "test_list": ["assert size((1, 2)) == sys.getsizeof((1, 2))"],
    },
    "two functions under test": {
        "code": "def up(n):\n    return n + 1\n\ndef down(n):\n    return n - 1",
        "test_list": ["assert down(up(1)) == 1"],
    },
    "constant in the tests": {
        "code": "LIMIT = 5\ndef limited(n):\n    return min(n, LIMIT)",
        "test_list": ["assert limited(9) == LIMIT"],
    },
    "test of several statements": {
        "code": "def fill(items):\n    items.append(1)",
        "test_list": ["items = []\nfill(items)\nassert items == [1]"],
    },
    "result of no plain type": {
        "code": "import re\ndef find(text):\n  return re.search('b+', text)",
        "test_list": ["assert find('abbc')"],
    },
}


@each_case("changes", AWKWARD.values(), ids=AWKWARD)
def test_awkward_task_passes_its_own_tests(changes: dict[str, Any]) -> None:
    _, reference = read(row(**changes))
    run_as_published(reference.solution, reference.target)


def test_names_that_tests_define_are_not_taken_from_the_program() -> None:
    _, reference = read(
        row(code="items = 5\ndef f(n):\n    return n", test_list=["items = [1]\nassert f(items) == [1]"])
    )
    assert dict(reference.target.exports) == {"f": "f"}


def test_imports_that_tests_do_not_use_are_left_out() -> None:
    tests = read(row(code="import os, re\ndef double(n):\n    return 2 * n"))[1].target
    assert "import" not in tests.setup


def test_completion_and_solution_are_both_whole_programs() -> None:
    task, _ = read(row())
    assert submit(task, "completion", "x").text == submit(task, "solution", "x").text == "x"


# --- broken rows

BROKEN = {
    "task id as text": ({"task_id": "11"}, "task_id", "needs an integer, found a string"),
    "no prompt": ({"prompt": None}, "prompt", "found null"),
    "code not Python": ({"code": "def double(:"}, "code", "is not Python"),
    "tests as one text": ({"test_list": "assert True"}, "test_list", "needs a list of strings"),
    "a test of another type": ({"test_list": ["assert double(1)", 2]}, "test_list[1]", "needs a string"),
    "no tests": ({"test_list": []}, "test_list", "has no test"),
    "test not Python": ({"test_list": ["assert double(2 =="]}, "test_list", "is not Python"),
    "imports not Python": ({"test_imports": ["import"]}, "test_imports", "is not Python"),
    "tests of something else": (
        {"test_list": ["assert other(2) == 4"]},
        "test_list",
        "has no test that uses a function",
    ),
}


@each_case(("changes", "field", "said"), BROKEN.values(), ids=BROKEN)
@each_case("reader", [read, read_humaneval_shape], ids=["mbpp", "mbpp-humaneval"])
def test_broken_row_names_file_line_and_field(
    reader: Any, changes: dict[str, Any], field: str, said: str
) -> None:
    with pytest.raises(DataError) as caught:
        reader(row(**changes))
    assert caught.value.message.startswith(f"mbpp.jsonl:3: field '{field}': ")
    assert said in caught.value.message


# --- the shape of HumanEval

SHAPES = {
    "plain": SANITIZED,
    "class and tabs and CRLF": {**FULL, "prompt": FULL["text"]},
    "body on the header's line": {"code": "def double(n): return 2 * n"},
    "body on the last line of the header": {"code": "def double(\n    n\n): return 2 * n"},
    "decorator": {"code": "import functools\n\n@functools.cache\ndef double(n):\n    return 2 * n"},
    "decorator and body on one line": {
        "code": (
            "import functools\n\n@functools.cache\n@functools.cache\ndef double(n): return 2 * n\n\nLEFT = 1"
        )
    },
    "decorated function inside": {
        "code": (
            "import functools\ndef double(n):\n    @functools.cache\n    def inner(k):\n        return k\n"
            "    return inner(n) + n"
        )
    },
    "docstring of its own": {"code": 'def double(n):\n    """Double."""\n    return 2 * n'},
    "comment under the header": {"code": "def double(n):\n    # twice\n    return 2 * n"},
    "header over several lines": {"code": "def double(\n    n,\n    times=2,\n):\n    return times * n"},
    "helper before and after": {
        "code": "def a(n):\n    return n\n\ndef double(n):\n    return a(n) + b(n)\n\ndef b(n):\n    return n"
    },
    "lines with blanks at their end": {"code": "def double(n): \n    \n    return 2 * n  \n\n"},
    "one space of indentation": {"code": "def double(n):\n return 2 * n"},
    "tab in a string": {
        "code": "def parts(text):\n\treturn text.split('\t')",
        "test_list": ["assert parts('a\\tb') == ['a', 'b']"],
    },
    "quotes and backslashes in the text": {"prompt": 'Replace """ and \\d and \\ at its end: "\\'},
    "text over several lines": {"prompt": "First line.\n\n  Second line.\n"},
    **AWKWARD,
}


@each_case("changes", SHAPES.values(), ids=SHAPES)
def test_prompt_and_canonical_solution_pass_the_tests(changes: dict[str, Any]) -> None:
    _, reference = read_humaneval_shape(row(**changes))
    run_as_published(reference.solution, reference.target)


@each_case("changes", SHAPES.values(), ids=SHAPES)
def test_prompt_ends_in_the_docstring_of_the_function(changes: dict[str, Any]) -> None:
    shaped = humaneval_shape(row(**changes))
    function = ast.parse(shaped["prompt"]).body[-1]
    assert isinstance(function, ast.FunctionDef)
    assert function.name == shaped["entry_point"]
    text = changes.get("prompt", SANITIZED["prompt"])
    assert (ast.get_docstring(function, clean=False) or "").strip() == text.strip()


@each_case("changes", SHAPES.values(), ids=SHAPES)
def test_shape_has_the_fields_of_both(changes: dict[str, Any]) -> None:
    original = row(**changes)
    shaped = humaneval_shape(original)
    assert {"task_id", "prompt", "entry_point", "canonical_solution", "test"} <= shaped.keys()
    kept = original.values.keys() - {"prompt"}
    assert {name: shaped[name] for name in kept} == {name: original.values[name] for name in kept}


def test_tests_of_the_shape_call_the_candidate() -> None:
    shaped = humaneval_shape(row())
    assert shaped["test"] == (
        "\ndef check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n"
    )


def test_the_full_schema_has_the_shape_of_humaneval() -> None:
    _, reference = read_humaneval_shape(row(FULL))
    run_as_published(reference.solution, reference.target)


def test_text_inside_tests_is_not_renamed() -> None:
    shaped = humaneval_shape(row(test_list=["assert double('double') == 'doubledouble'"]))
    assert "candidate('double') == 'doubledouble'" in shaped["test"]


def test_task_id_of_the_shape_is_the_original_one() -> None:
    task, reference = read_humaneval_shape(row())
    assert (task.id, reference.task_id) == ("11", "11")


@each_case("benchmark", ["mbpp", "mbpp-humaneval"])
def test_published_data_are_read_whole_and_without_a_warning(shared_data: Path, benchmark: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load_benchmark(benchmark, data=str(shared_data / "mbpp/sanitized-mbpp.json"))
    assert len(loaded.tasks) == 427
    assert loaded.tasks[0].id == "2"
