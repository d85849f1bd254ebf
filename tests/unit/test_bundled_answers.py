"""The bundled samples that are graded without a sandbox: golds are right, other answers wrong."""

from __future__ import annotations

import functools
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from case_checks import each_case

import harness.benchmarks.data
from harness.benchmarks.data.local import read_rows
from harness.benchmarks.data.rows import Row
from harness.benchmarks.livecodebench.prediction import read_execution, read_test_output
from harness.benchmarks.livecodebench.problem import DIFFICULTIES, Problem, read_problem
from harness.core.scoring.answers import exact_match, f1, has_answer, last_boxed
from harness.core.scoring.numbers import gold_number, same_number
from harness.environments.python.stdin_programs import stdout_difference

BUNDLED = Path(harness.benchmarks.data.__file__).parent / "bundled"


def rows(name: str) -> list[Row]:
    return read_rows(BUNDLED / name)[0]


FIELDS = {
    "gsm8k.jsonl": ["question", "answer"],
    "math.jsonl": ["problem", "level", "type", "solution"],
    "nq-open.jsonl": ["question", "answer"],
    "hotpotqa.json": ["_id", "answer", "question", "supporting_facts", "context", "type", "level"],
    "livecodebench.jsonl": [
        *("question_title", "question_content", "platform", "question_id", "contest_id", "contest_date"),
        *("starter_code", "difficulty", "public_test_cases", "private_test_cases", "metadata"),
    ],
    "livecodebench-execution.jsonl": [
        *("question_id", "id", "function_name", "code", "input", "output", "numsteps", "problem_id"),
        *("contest_id", "contest_date", "difficulty"),
    ],
    "livecodebench-test-output.jsonl": [
        *("question_title", "question_content", "question_id", "contest_id", "test_id", "contest_date"),
        *("starter_code", "function_name", "difficulty", "test"),
    ],
}


@each_case("name", FIELDS)
def test_sample_has_the_original_fields_and_at_least_twelve_rows(name: str) -> None:
    read = rows(name)
    assert len(read) >= 12
    assert all(list(row.values) == FIELDS[name] for row in read)
    assert len({json.dumps(row.values) for row in read}) == len(read)


class TestGsm8k:
    ANSWERS = tuple(row.text("answer") for row in rows("gsm8k.jsonl"))

    def test_golds_are_right_and_those_of_the_next_problem_wrong(self) -> None:
        assert all(same_number(answer, gold_number(answer)) for answer in self.ANSWERS)
        assert not any(same_number(b, gold_number(a)) for a, b in itertools.pairwise(self.ANSWERS))

    def test_every_calculation_is_right(self) -> None:
        pattern = r"<<([-+*/.\d]+)=([-\d.]+)>>"
        noted = [note for answer in self.ANSWERS for note in re.findall(pattern, answer)]
        assert len(noted) > 30
        for expression, result in noted:
            assert abs(eval(expression) - float(result)) < 1e-3, expression

    def test_last_calculation_is_the_answer_if_nothing_is_rounded(self) -> None:
        last = [re.findall(r"=([-\d.]+)>>", answer)[-1] for answer in self.ANSWERS]
        differing = [
            number
            for number, answer in zip(last, self.ANSWERS, strict=True)
            if Decimal(number) != gold_number(answer)
        ]
        assert differing == ["13.333"]


class TestMath:
    ROWS = rows("math.jsonl")

    def test_every_solution_has_one_answer(self) -> None:
        assert all(last_boxed(row.text("solution")) for row in self.ROWS)
        assert all(row.text("solution").count(r"\boxed") == 1 for row in self.ROWS)

    def test_levels_and_all_seven_types_are_the_original_ones(self) -> None:
        assert {row.text("type") for row in self.ROWS} == {
            *("Algebra", "Counting & Probability", "Geometry", "Intermediate Algebra"),
            *("Number Theory", "Prealgebra", "Precalculus"),
        }
        assert {row.text("level") for row in self.ROWS} <= {f"Level {level}" for level in range(1, 6)}

    def test_golds_are_right_and_those_of_the_next_problem_wrong(self) -> None:
        pytest.importorskip("math_verify", reason="math-verify is in the image of the grader alone")
        from harness.environments.maths.guest.compare import judge

        golds = [last_boxed(row.text("solution")) or "" for row in self.ROWS]
        assert all(judge((gold, f"{gold} ") for gold in golds))
        assert not any(judge(itertools.pairwise(golds)))


class TestNq:
    GOLDS = tuple(row.texts("answer") for row in rows("nq-open.jsonl"))

    def test_every_answer_is_right_and_those_of_the_next_question_are_wrong(self) -> None:
        for golds in self.GOLDS:
            assert all(exact_match(gold, golds) for gold in golds)
            assert all(f1(gold, golds) == 1 for gold in golds)
            assert all(has_answer(f"It is {gold}, I think.", golds) for gold in golds)
        assert not any(exact_match(b[0], a) for a, b in itertools.pairwise(self.GOLDS))

    def test_no_answer_is_right_everywhere(self) -> None:
        for golds in self.GOLDS:
            for answer in ["", "the", "?"]:
                assert not exact_match(answer, golds)
                assert not has_answer(answer, golds)


class TestHotpotqa:
    ROWS = rows("hotpotqa.json")

    def test_golds_are_right_and_those_of_the_next_question_wrong(self) -> None:
        golds = [row.text("answer") for row in self.ROWS]
        assert all(exact_match(gold, [gold]) and f1(gold, [gold]) == 1 for gold in golds)
        assert not any(f1(b, [a]) for a, b in itertools.pairwise(golds))

    @each_case("row", ROWS, ids=lambda row: row.text("_id"))
    def test_ten_paragraphs_hold_the_supporting_facts(self, row: Row) -> None:
        context = dict(row.values["context"])
        assert len(row.values["context"]) == len(context) == 10
        facts = [context[title][sentence] for title, sentence in row.values["supporting_facts"]]
        assert len({title for title, _ in row.values["supporting_facts"]}) >= 2
        if row.text("answer") not in ("yes", "no"):
            told = " ".join([*facts, *(title for title, _ in row.values["supporting_facts"])])
            assert has_answer(told, [row.text("answer")])

    def test_questions_are_of_both_types_and_ids_unique(self) -> None:
        assert {row.text("type") for row in self.ROWS} == {"bridge", "comparison"}
        assert {"yes", "no"} < {row.text("answer") for row in self.ROWS}
        assert len({row.text("_id") for row in self.ROWS}) == len(self.ROWS)


PROBLEMS = [read_problem(row) for row in rows("livecodebench.jsonl")]
SOLUTIONS = {row.text("task_id"): row.text("solution") for row in rows("livecodebench-solutions.jsonl")}


def printed(program: str, given: str) -> bytes:
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        input=given.encode(),
        capture_output=True,
        check=True,
        timeout=240,
    ).stdout


def _echo(guess: Any, _given: Any) -> Any:
    return guess


def passes(problem: Problem, answer: Callable[[Any], Any]) -> bool:
    """Return whether `answer` gives the right result for each test's input or arguments."""
    for test in problem.tests.load():
        if problem.function is None:
            if stdout_difference(answer(test.input), test.output) is not None:
                return False
        elif answer(test.arguments()) != test.expected():
            return False
    return True


class TestLiveCodeBench:
    def test_problems_cover_both_kinds_and_all_filters(self) -> None:
        assert len({problem.id for problem in PROBLEMS}) == len(PROBLEMS)
        assert {problem.id for problem in PROBLEMS} == {*SOLUTIONS}
        assert sum(problem.function is None for problem in PROBLEMS) == len(PROBLEMS) // 2
        assert {problem.difficulty for problem in PROBLEMS} == {*DIFFICULTIES}
        assert len({problem.platform for problem in PROBLEMS}) == 3
        assert len({problem.date for problem in PROBLEMS}) == len(PROBLEMS)

    @each_case("problem", PROBLEMS, ids=lambda problem: problem.id)
    def test_solution_passes_and_no_constant_does(self, problem: Problem) -> None:
        assert len(problem.tests.public) >= 2
        assert len(problem.tests.unpack_hidden()) >= 3
        solution = SOLUTIONS[problem.id]
        if problem.function is None:
            assert passes(problem, lambda given: printed(solution, given))
            guesses: list[Any] = ["", *(test.output for test in problem.tests.load())]
        else:
            namespace: dict[str, Any] = {}
            exec(solution, namespace)
            method = getattr(namespace["Solution"](), problem.function)
            assert passes(problem, lambda arguments: method(*arguments))
            guesses = [None, True, *(test.expected() for test in problem.tests.load())]
        for guess in guesses:
            assert not passes(problem, functools.partial(_echo, guess))


def test_bundled_calls_return_their_outputs_and_no_output_is_right_for_the_next_call() -> None:
    problems = [read_execution(row) for row in rows("livecodebench-execution.jsonl")]
    for problem in problems:
        assert problem.target().accepts(problem.output)
        namespace: dict[str, Any] = {}
        exec(f"from typing import *\n{problem.code}", namespace)
        assert problem.target().accepts(repr(eval(problem.call, namespace)))
    assert not any(a.target().accepts(b.output) for a, b in itertools.pairwise(problems))
    assert len({problem.id for problem in problems}) == len(problems)


def test_bundled_tests_expect_the_results_of_the_solutions() -> None:
    for row in rows("livecodebench-test-output.jsonl"):
        problem = read_test_output(row)
        namespace: dict[str, Any] = {}
        exec(SOLUTIONS[row.text("question_id")], namespace)
        found = getattr(namespace["Solution"](), problem.function)(*problem.test.arguments())
        assert problem.target().accepts(f"assert {problem.function}() == {found!r}")
        for wrong in ("", "None", "assert f() == []", f"assert f() != {found!r}"):
            assert not problem.target().accepts(wrong)
