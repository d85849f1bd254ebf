"""LiveCodeBench's two scenarios without programs: predict the result of a call, from code or from a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.livecodebench.choice import AnswerOptions, Extraction, first_block
from harness.benchmarks.livecodebench.execution import ExecutionProblem, read_execution
from harness.benchmarks.livecodebench.problem import Filters
from harness.benchmarks.livecodebench.prompts import asked_call, complete_assertion, predict_output
from harness.benchmarks.livecodebench.releases import (
    EXECUTION_PROBLEMS,
    ONLY_TEST,
    TEST_OUTPUT_PROBLEMS,
    describe_window,
)
from harness.benchmarks.livecodebench.test_output import TestOutputProblem, read_test_output
from harness.benchmarks.options import validate_options
from harness.benchmarks.replies import extract_answer, extract_assert, remark_on_answer
from harness.data.hub import HubDataset
from harness.data.rows import Row
from harness.types import DataSource, Reference, Submission, Task

EXECUTION = "livecodebench-execution"
TEST_OUTPUT = "livecodebench-test-output"
# The official rules: results of code are compared with their types, expected outputs by Python's `==`.
_EXACT = {EXECUTION: True, TEST_OUTPUT: False}


def _read_execution(row: Row, *, filters: Filters, exact: bool) -> tuple[Task, Reference] | None:
    problem = read_execution(row)
    if not _accepts(problem, filters):
        return None
    target = problem.target(exact_types=exact)
    task = _task(EXECUTION, problem, predict_output(problem))
    return task, Reference(problem.id, problem.output, target, problem.output)


def _read_test_output(row: Row, *, filters: Filters, exact: bool) -> tuple[Task, Reference] | None:
    problem = read_test_output(row)
    if not _accepts(problem, filters):
        return None
    solution = f"assert {asked_call(problem)} == {problem.test.expected()!r}"
    target = problem.target(exact_types=exact)
    task = _task(TEST_OUTPUT, problem, complete_assertion(problem))
    return task, Reference(problem.id, solution, target, problem.test.output)


def _find_window(published: str, problems: int, source: DataSource, rows: Sequence[Row]) -> str:
    is_whole = source.kind != "bundled" and source.rows == problems
    return describe_window(published if is_whole else "no release", source, rows)


def _accepts(problem: ExecutionProblem | TestOutputProblem, filters: Filters) -> bool:
    return filters.accept(date=problem.date, difficulty=problem.difficulty, platform="leetcode")


def _task(benchmark: str, problem: ExecutionProblem | TestOutputProblem, prompt: str) -> Task:
    return Task(
        problem.id,
        benchmark,
        "text",
        prompt,
        category=problem.difficulty,
        entry_point=problem.function,
        difficulty=problem.difficulty,
    )


def _submit(task: Task, field: str, text: str, *, extract: Callable[[str], str]) -> Submission:
    """Return the submission: a `solution` is an answer, any other field is a reply that contains one."""
    if field == "solution":
        return Submission(text, agent_output=text)
    answer = extract(text)
    return Submission(answer, agent_output=text, remark=remark_on_answer(text, "answer", answer))


def _configure(definition: Definition, values: Mapping[str, Any]) -> Definition:
    options = validate_options(AnswerOptions, values, definition.name)
    exact = _EXACT[definition.name] if options.exact_types is None else options.exact_types
    official = extract_answer if definition.name == EXECUTION else extract_assert
    extract = first_block if options.extraction is Extraction.EVOAGENTX else official
    read = _read_execution if definition.name == EXECUTION else _read_test_output
    return replace(
        definition,
        read=partial(read, filters=options.filters(), exact=exact),
        submit=partial(_submit, extract=extract),
    )


BENCHMARKS = (
    Definition(
        name=EXECUTION,
        description="predict the result of a call of a Python function",
        environments=("text",),
        tasks=EXECUTION_PROBLEMS,
        licence="CC",
        missing=ONLY_TEST,
        hub=HubDataset("livecodebench/execution-v2", None, "test"),
        bundled="livecodebench-execution.jsonl",
        formats=("test.jsonl",),
        find_window=partial(_find_window, "execution-v2", EXECUTION_PROBLEMS),
        read=partial(_read_execution, filters=Filters(), exact=True),
        submit=partial(_submit, extract=extract_answer),
        reply_rule="the text between `[ANSWER]` and `[/ANSWER]`, else the first line with `==`, else the "
        "first line",
        configure=_configure,
        options=AnswerOptions,
    ),
    Definition(
        name=TEST_OUTPUT,
        description="predict the result of a call from the function's description",
        environments=("text",),
        tasks=TEST_OUTPUT_PROBLEMS,
        licence="CC",
        missing=ONLY_TEST,
        hub=HubDataset("livecodebench/test_generation", None, "test"),
        bundled="livecodebench-test-output.jsonl",
        formats=("test.jsonl",),
        find_window=partial(_find_window, "test_generation", TEST_OUTPUT_PROBLEMS),
        read=partial(_read_test_output, filters=Filters(), exact=False),
        submit=partial(_submit, extract=extract_assert),
        reply_rule="the last line that begins with `assert`, else the first block of code",
        configure=_configure,
        options=AnswerOptions,
    ),
)
