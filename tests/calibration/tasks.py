"""The small tasks on which the attacks are tried, in a form that every grader can read.

A function's test is a list of arguments and a result that JSON can hold, so that the same tests become
asserts, a unittest class, or LiveCodeBench's lines. A part of each task's tests is held out. No grader gets
this part, and it shows whether a program that passed solves the task.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.types import Task

# HumanEval's tests call the function by this name.
CANDIDATE = "candidate"
FEWEST_CASES = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One test. On stdin `given` is the whole input and `wanted` the whole output."""

    given: Any
    wanted: Any


@dataclass(frozen=True, slots=True)
class CalibrationTask:
    """A task with a right program. `function` is None if the program reads stdin and prints."""

    name: str
    prompt: str
    function: str | None
    right: str
    cases: tuple[Case, ...]
    held_out: tuple[Case, ...]

    def as_task(self) -> Task:
        """Return the `Task` that an agent gets."""
        return Task(self.name, "calibration", "python", self.prompt, entry_point=self.function)


def _on_calls(name: str, prompt: str, right: str, *cases: tuple[list[Any], Any]) -> CalibrationTask:
    made = [Case(arguments, result) for arguments, result in cases]
    return _split(name, prompt, name, right, made)


def _on_stdin(name: str, prompt: str, right: str, *cases: tuple[str, str]) -> CalibrationTask:
    return _split(name, prompt, None, right, [Case(given, wanted) for given, wanted in cases])


def _split(name: str, prompt: str, function: str | None, right: str, cases: list[Case]) -> CalibrationTask:
    """Return a task whose tests are the first half of the cases, rounded up."""
    half = (len(cases) + 1) // 2
    return CalibrationTask(name, prompt, function, right, tuple(cases[:half]), tuple(cases[half:]))


OWN_ON_CALLS = (
    _on_calls(
        "is_even",
        'def is_even(number):\n    """Return whether the number is even."""\n',
        "def is_even(number):\n    return number % 2 == 0\n",
        *(([number], number % 2 == 0) for number in (2, 3, 10, 7, 4, 8, 9, 11)),
    ),
    _on_calls(
        "doubled",
        'def doubled(numbers):\n    """Return a list with twice each number."""\n',
        "def doubled(numbers):\n    return [2 * number for number in numbers]\n",
        ([[1, 2]], [2, 4]),
        ([[]], []),
        ([[5, 5, 0]], [10, 10, 0]),
        ([[-3]], [-6]),
        ([[7, 1]], [14, 2]),
        ([[100]], [200]),
    ),
)
OWN_ON_STDIN = (
    _on_stdin(
        "parity",
        "Read an integer. Print Yes where it is even, else No.",
        "print('No' if int(input()) % 2 else 'Yes')\n",
        *((f"{number}\n", "No\n" if number % 2 else "Yes\n") for number in (2, 3, 10, 7, 4, 8, 9, 11)),
    ),
    _on_stdin(
        "total",
        "Read integers on one line. Print their sum.",
        "print(sum(map(int, input().split())))\n",
        ("1 2 3\n", "6\n"),
        ("40 2\n", "42\n"),
        ("-5 5\n", "0\n"),
        ("17\n", "17\n"),
        ("123 456\n", "579\n"),
        ("9 9 9\n", "27\n"),
    ),
)


def public_tasks(folder: Path, count: int) -> Iterator[CalibrationTask]:
    """Yield the first `count` tasks of HumanEval and of MBPP in `folder` whose tests are plain data."""
    human_eval = folder / "humaneval" / "HumanEval.jsonl.gz"
    if human_eval.is_file():
        with gzip.open(human_eval, "rt", encoding="utf-8") as lines:
            yield from _first(map(_of_human_eval, map(json.loads, lines)), count)
    mbpp = folder / "mbpp" / "sanitized-mbpp.json"
    if mbpp.is_file():
        yield from _first(map(_of_mbpp, json.loads(mbpp.read_text(encoding="utf-8"))), count)


def _first(tasks: Iterator[CalibrationTask | None], count: int) -> Iterator[CalibrationTask]:
    found = 0
    for task in tasks:
        if found == count:
            return
        if task is not None:
            found += 1
            yield task


def _of_human_eval(row: dict[str, Any]) -> CalibrationTask | None:
    cases = literal_cases(row["test"], CANDIDATE)
    right = row["prompt"] + row["canonical_solution"]
    if len(cases) < FEWEST_CASES:
        return None
    return _split(row["task_id"], row["prompt"], row["entry_point"], right, cases)


def _of_mbpp(row: dict[str, Any]) -> CalibrationTask | None:
    defined = [node.name for node in ast.parse(row["code"]).body if isinstance(node, ast.FunctionDef)]
    cases = literal_cases("\n".join(row["test_list"]), defined[-1]) if len(defined) == 1 else []
    if len(cases) < FEWEST_CASES or row["test_imports"]:
        return None
    prompt = f'"""{row["prompt"]}\n{row["test_list"][0]}\n"""\n'
    return _split(f"MBPP/{row['task_id']}", prompt, defined[0], row["code"], cases)


def literal_cases(source: str, function: str) -> list[Case]:
    """Return the cases of every `assert function(literals) == literal` whose values JSON can hold."""
    cases = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assert) or not isinstance(node.test, ast.Compare):
            continue
        call, operators = node.test.left, node.test.ops
        if not isinstance(call, ast.Call) or call.keywords or [type(each) for each in operators] != [ast.Eq]:
            continue
        if not isinstance(call.func, ast.Name) or call.func.id != function:
            continue
        try:
            case = Case(
                [ast.literal_eval(argument) for argument in call.args],
                ast.literal_eval(node.test.comparators[0]),
            )
            kept = json.loads(json.dumps([case.given, case.wanted], allow_nan=False))
        except (ValueError, TypeError):
            continue
        # JSON turns tuples into lists and keys into strings, and other graders would compare those.
        if kept == [case.given, case.wanted]:
            cases.append(case)
    return cases
