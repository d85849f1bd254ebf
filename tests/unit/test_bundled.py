"""The bundled samples: each reference passes, and no program that ignores its input does."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from typing import Any

import pytest

from harness.benchmarks.data.download import DownloadObserver
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.source import load_rows
from harness.benchmarks.data.splits import HubDataset, SplitFiles

HUMANEVAL_FIELDS = ["task_id", "prompt", "entry_point", "canonical_solution", "test"]
MBPP_FIELDS = ["source_file", "task_id", "prompt", "code", "test_imports", "test_list"]
CONSTANTS = ["None", "0", "''", "[]", "True"]
SECONDS = 0.1

# Run each program in a separate namespace, as a plain script would, and report its end.
RUNNER = """
import contextlib, doctest, io, json, sys, time
for program in json.load(sys.stdin):
    namespace = {"__name__": "candidate"}
    started = time.process_time()
    try:
        exec(program, namespace)
        failure = None
    except BaseException as error:
        failure = repr(error)
    seconds = time.process_time() - started
    examples = 0
    report = io.StringIO()
    for name, value in list(namespace.items()):
        if getattr(value, "__doc__", None) and getattr(value, "__module__", None) == "candidate":
            with contextlib.redirect_stdout(report):
                for test in doctest.DocTestFinder(recurse=False).find(value, name, None, namespace):
                    runner = doctest.DocTestRunner()
                    runner.run(test)
                    examples += runner.tries
    print(json.dumps([failure, seconds, examples, report.getvalue()]))
"""


def bundled(benchmark: str, file: str) -> list[Row]:
    nowhere = HubDataset("nobody/nothing", None, "test")
    files = SplitFiles(benchmark, "test", "test")
    return load_rows(
        files, data="bundled", hub=nowhere, bundled=file, observer=DownloadObserver(pytest.fail)
    )[0]


HUMANEVAL = bundled("humaneval", "humaneval.jsonl")
MBPP = bundled("mbpp", "mbpp.json")


def humaneval_program(row: Row, body: str) -> str:
    return f"{row.text('prompt')}{body}\n{row.text('test')}\ncheck({row.text('entry_point')})\n"


def mbpp_program(row: Row, code: str) -> str:
    return "\n".join([code, *row.texts("test_imports"), *row.texts("test_list")])


def defined(row: Row) -> list[str]:
    return [node.name for node in ast.parse(row.text("code")).body if isinstance(node, ast.FunctionDef)]


def constants(row: Row) -> list[str]:
    """Return programs whose functions return a constant."""
    return ["\n".join(f"def {name}(*a, **k): return {text}" for name in defined(row)) for text in CONSTANTS]


def used_helpers(row: Row) -> set[str]:
    """Return the functions of the prompt that its tests call, besides the one to write."""
    functions = ast.parse(row.text("prompt") + "    pass").body
    helpers = {node.name for node in functions if isinstance(node, ast.FunctionDef)} - {
        row.text("entry_point")
    }
    return {name for name in helpers if f"{name}(" in row.text("test")}


def outcomes(programs: list[str]) -> list[list[Any]]:
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUNNER],
        input=json.dumps(programs),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_references(programs: list[str]) -> list[int]:
    """Return the number of examples in the docstrings of each program, which must pass in time."""
    counts = []
    for program, (failure, seconds, examples, report) in zip(programs, outcomes(programs), strict=True):
        assert (failure, report) == (None, ""), program
        assert seconds < SECONDS, program
        counts.append(examples)
    return counts


def passed_without_looking(programs: list[str]) -> list[str]:
    """Return the programs that pass, or that take too long to fail."""
    found = zip(programs, outcomes(programs), strict=True)
    return [program for program, (failure, seconds, *_) in found if failure is None or seconds >= SECONDS]


def asserts(source: str) -> int:
    return sum(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(source)))


def test_the_humaneval_sample_has_its_fields_and_enough_asserts() -> None:
    for row in HUMANEVAL:
        assert list(row.values) == HUMANEVAL_FIELDS
        assert all(isinstance(value, str) for value in row.values.values())
        assert asserts(row.text("test")) >= 4, row.text("task_id")


def test_the_mbpp_sample_has_its_fields_and_enough_asserts() -> None:
    for row in MBPP:
        assert list(row.values) == MBPP_FIELDS
        assert sum(asserts(test) for test in row.texts("test_list")) >= 4, row.integer("task_id")
        assert len(row.texts("test_list")) >= 3, row.integer("task_id")


def test_every_solution_of_the_humaneval_sample_passes_and_its_prompt_shows_an_example() -> None:
    counts = check_references([humaneval_program(row, row.text("canonical_solution")) for row in HUMANEVAL])
    assert min(counts) > 0


def test_every_solution_of_the_mbpp_sample_passes() -> None:
    assert len(check_references([mbpp_program(row, row.text("code")) for row in MBPP])) == len(MBPP)


def test_no_constant_passes_at_the_humaneval_sample() -> None:
    bodies = ["    pass", *(f"    return {constant}" for constant in CONSTANTS)]
    programs = [humaneval_program(row, body) for row in HUMANEVAL for body in bodies]
    assert passed_without_looking(programs) == []


def test_no_constant_passes_at_the_mbpp_sample() -> None:
    assert passed_without_looking([mbpp_program(row, code) for row in MBPP for code in constants(row)]) == []


def test_ids_are_unique_and_apart_from_the_real_ones() -> None:
    assert [row.text("task_id") for row in HUMANEVAL] == [
        f"HumanEval-sample/{number}" for number in range(len(HUMANEVAL))
    ]
    assert [row.integer("task_id") for row in MBPP] == list(range(9001, 9001 + len(MBPP)))
    assert len(HUMANEVAL) >= 14
    assert len(MBPP) >= 14


def test_samples_cover_known_mistakes_of_graders() -> None:
    tests = [row.text("test") for row in HUMANEVAL] + ["\n".join(row.texts("test_list")) for row in MBPP]
    needed = ["next(", "except ValueError", "except KeyError", "Counter", "is None", "bytearray", "1e-9"]
    assert [word for word in needed if not any(word in test for test in tests)] == []
    assert sum(bool(row.texts("test_imports")) for row in MBPP) >= 3
    # If answers are true or false, samples that learn which earlier ones were right need nothing else.
    assert any("== True" in row.text("test") and "== False" in row.text("test") for row in HUMANEVAL)
    assert [row.text("entry_point") for row in HUMANEVAL if used_helpers(row)] == ["unweave", "loop_length"]
