"""LiveCodeBench's two scenarios without programs: predict the result of a call, from code or from a text."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from pydantic import field_validator

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.livecodebench.problem import (
    DIFFICULTIES,
    EXECUTION_PROBLEMS,
    ONLY_TEST,
    TEST_OUTPUT_PROBLEMS,
    Filters,
    Problem,
    Test,
    contest_date,
    describe_window,
    json_field,
    one_of,
)
from harness.benchmarks.options import NO_EFFECT, Options, validate_options
from harness.benchmarks.replies import (
    CodeRule,
    extract_answer,
    extract_assert,
    extract_code,
    remark_on_answer,
)
from harness.core.scoring.literals import LiteralRefused, read_literal
from harness.core.types import DataSource, Reference, Submission, Task
from harness.environments.text.short_answers import LiteralAnswer, LiteralForm

_WRITE = (
    "You are an expert Python programmer. You will be given a question (problem specification) and will "
    "generate a correct Python program that matches the specification and passes all tests."
)
_WITH_STARTER = (
    "### Format: You will use the following starter code to write the solution to the problem and "
    "enclose your code within delimiters."
)
_WITH_STDIN = (
    "### Format: Read the inputs from stdin solve the problem and write the answer to stdout (do not "
    "directly test on the sample inputs). Enclose your code within delimiters as follows. Ensure that when "
    "the python program runs, it reads the inputs, runs the algorithm and writes output to STDOUT."
)
_ANSWER = "### Answer: (use the provided format with backticks)"
_PREDICT = (
    "You are given a Python function and an assertion containing an input to the function. Complete the "
    "assertion with a literal (no unsimplified expressions, no function calls) containing the output when "
    "executing the provided code on the given input, even if the function is incorrect or incomplete. Do "
    "NOT output any extra information. Provide the full assertion with the correct output in [ANSWER] and "
    "[/ANSWER] tags."
)
_COMPLETE = (
    "You are a helpful programming assistant and an expert Python programmer. You are helping a user to "
    "write a test case to help to check the correctness of the function. The user has written a input for "
    "the testcase. You will calculate the output of the testcase and write the whole assertion statement "
    "in the markdown code block with the correct output."
)
EXECUTION = "livecodebench-execution"
TEST_OUTPUT = "livecodebench-test-output"


class ChoiceOptions(Options):
    """The choice of problems by the date of their contest and by their difficulty."""

    start_date: datetime.date | None = None
    """The first day of contests to take."""
    end_date: datetime.date | None = None
    """The last day of contests to take."""
    difficulty: Annotated[tuple[str, ...], NO_EFFECT] = ()
    """One difficulty or several."""

    @field_validator("difficulty", "platform", mode="before", check_fields=False)
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    def filters(self) -> Filters:
        """Return the filters among the options. Raises UsageError."""
        return Filters(self.start_date, self.end_date, self.difficulty)


class Extraction(StrEnum):
    """The place of the answer in a reply: LiveCodeBench's, or the first block of code, as in EvoAgentX."""

    OFFICIAL = "official"
    EVOAGENTX = "evoagentx"


class AnswerOptions(ChoiceOptions):
    """The choice of tasks, and the rules for the answers of a scenario of literals."""

    extraction: Extraction = Extraction.OFFICIAL
    """The place of the answer in a reply."""
    exact_types: bool | None = None
    """Whether True differs from 1 and 1 from 1.0. None means the scenario's default."""


def first_block(reply: str) -> str:
    """Return the first block of code in a reply, or the whole reply if it has none."""
    return extract_code(reply, CodeRule.FIRST_BLOCK, unfenced=True).strip()


@dataclass(frozen=True, slots=True)
class ExecutionProblem:
    """A problem. The answer is the value of the expression `call`; `output` is the literal of that value."""

    id: str
    code: str
    function: str
    call: str
    output: str
    date: datetime.date
    difficulty: str

    def target(self, *, exact_types: bool = True) -> LiteralAnswer:
        """Return the target of the problem. By default, types count.

        This is stricter than LiveCodeBench, whose `assert output == prediction` takes 1 for True. Source:
        `compute_code_execution_metrics.py` of LiveCodeBench (Jain et al. 2024, arXiv 2403.07974).
        """
        return LiteralAnswer(self.output, LiteralForm.RESULT, exact_types)

    @property
    def prompt(self) -> str:
        """The prompt that asks for the result of the call of the given code."""
        question = f"[PYTHON]\n{self.code}\nassert {self.call} == ??\n[/PYTHON]\n[ANSWER]\n"
        return f"{_PREDICT}\n\n{question}"

    @property
    def solution(self) -> str:
        return self.output


def read_execution(row: Row) -> ExecutionProblem:
    """Return the problem of a row of execution or execution-v2. Raises DataError."""
    output = row.text("output")
    try:
        read_literal(output)
    except LiteralRefused as error:
        raise row.error(f"is not a literal: {error}", field="output") from error
    return ExecutionProblem(
        id=row.text("id"),
        code=row.text("code"),
        function=row.text("function_name"),
        call=row.text("input"),
        output=output,
        date=contest_date(row),
        difficulty=one_of(row, "difficulty", DIFFICULTIES),
    )


@dataclass(frozen=True, slots=True)
class TestOutputProblem:
    """A problem. `test` has the arguments, one JSON value a line, and the expected value in JSON."""

    __test__ = False

    id: str
    title: str
    content: str
    function: str
    starter_code: str
    test: Test
    date: datetime.date
    difficulty: str

    def target(self, *, exact_types: bool = False) -> LiteralAnswer:
        """Return the target of the problem. By default, Python's `==` compares values.

        Source: `compute_test_output_prediction_metrics.py` of LiveCodeBench (Jain et al. 2024, arXiv
        2403.07974).
        """
        return LiteralAnswer(self.output, LiteralForm.ASSERTION, exact_types)

    @property
    def output(self) -> str:
        return self.test.output

    @property
    def call(self) -> str:
        """The call whose result is the answer, in Python's notation."""
        return f"{self.function}({', '.join(map(repr, self.test.arguments()))})"

    @property
    def prompt(self) -> str:
        """The prompt that asks for the result that a described function must return."""
        return (
            f"{_COMPLETE}\n\nProblem:\n{self.content}\nFunction:\n```\n{self.starter_code}\n```\n"
            f"Please complete the following test case:\n\n```\nassert {self.call} == # TODO\n```\n"
        )

    @property
    def solution(self) -> str:
        return f"assert {self.call} == {self.test.expected()!r}"


def read_test_output(row: Row) -> TestOutputProblem:
    """Return the problem of a row of test_generation. Raises DataError."""
    return TestOutputProblem(
        id=f"{row.text('question_id')}_{row.integer('test_id')}",
        title=row.text("question_title"),
        content=row.text("question_content"),
        function=row.text("function_name"),
        starter_code=row.text("starter_code"),
        test=_only_test(row),
        date=contest_date(row),
        difficulty=one_of(row, "difficulty", DIFFICULTIES),
    )


def _only_test(row: Row) -> Test:
    match json_field(row, "test"):
        case [{"input": str(given), "output": str(wanted)}]:
            test = Test(given, wanted)
        case _:
            raise row.error("needs a JSON array of one test with input and output", field="test")
    try:
        test.arguments()
        test.expected()
    except ValueError as error:
        raise row.error(f"has an input or output that is not JSON: {error}", field="test") from error
    return test


def write_program(problem: Problem) -> str:
    """Return the prompt that asks for a program."""
    starter = problem.starter_code.rstrip()
    form, code = (_WITH_STARTER, starter) if starter else (_WITH_STDIN, "# YOUR CODE HERE")
    return f"{_WRITE}\n\n### Question:\n{problem.content}\n\n{form}\n```python\n{code}\n```\n\n{_ANSWER}\n\n"


@dataclass(frozen=True, slots=True)
class _Scenario:
    """The reader of a scenario's rows, and the official rules for its answers."""

    read: Callable[[Row], ExecutionProblem | TestOutputProblem]
    extract: Callable[[str], str]
    # Results of code are compared with their types, expected outputs by Python's `==`.
    exact_types: bool


_SCENARIOS = {
    EXECUTION: _Scenario(read_execution, extract_answer, exact_types=True),
    TEST_OUTPUT: _Scenario(read_test_output, extract_assert, exact_types=False),
}


def _read(row: Row, *, benchmark: str, filters: Filters, exact: bool) -> tuple[Task, Reference] | None:
    problem = _SCENARIOS[benchmark].read(row)
    if not filters.accept(date=problem.date, difficulty=problem.difficulty, platform="leetcode"):
        return None
    task = Task(
        problem.id,
        benchmark,
        "text",
        problem.prompt,
        category=problem.difficulty,
        entry_point=problem.function,
        difficulty=problem.difficulty,
    )
    target = problem.target(exact_types=exact)
    return task, Reference(problem.id, problem.solution, target, problem.output)


def _find_window(published: str, problems: int, source: DataSource, rows: Sequence[Row]) -> str:
    is_whole = source.kind != "bundled" and source.rows == problems
    return describe_window(published if is_whole else "no release", source, rows)


def _submit(task: Task, field: str, text: str, *, extract: Callable[[str], str]) -> Submission:
    """Return the submission: a `solution` is an answer, any other field is a reply that contains one."""
    if field == "solution":
        return Submission(text, agent_output=text)
    answer = extract(text)
    return Submission(answer, agent_output=text, remark=remark_on_answer(text, "answer", answer))


def _configure(definition: Definition, values: Mapping[str, Any]) -> Definition:
    options, scenario = validate_options(AnswerOptions, values, definition.name), _SCENARIOS[definition.name]
    exact = scenario.exact_types if options.exact_types is None else options.exact_types
    extract = first_block if options.extraction is Extraction.EVOAGENTX else scenario.extract
    return replace(
        definition,
        read=partial(_read, benchmark=definition.name, filters=options.filters(), exact=exact),
        submit=partial(_submit, extract=extract),
    )


def _define(name: str, description: str, dataset: str, problems: int, reply_rule: str) -> Definition:
    return Definition(
        name=name,
        description=description,
        environments=("text",),
        tasks=problems,
        licence="CC",
        missing=ONLY_TEST,
        hub=HubDataset(f"livecodebench/{dataset}", None, "test"),
        bundled=f"{name}.jsonl",
        formats=("test.jsonl",),
        find_window=partial(_find_window, dataset, problems),
        read=partial(_read, benchmark=name, filters=Filters(), exact=True),
        submit=partial(_submit, extract=first_block),
        reply_rule=reply_rule,
        configure=_configure,
        options=AnswerOptions,
    ).with_options({})


BENCHMARKS = (
    _define(
        EXECUTION,
        "predict the result of a call of a Python function",
        *("execution-v2", EXECUTION_PROBLEMS),
        "the text between `[ANSWER]` and `[/ANSWER]`, else the first line with `==`, else the first line",
    ),
    _define(
        TEST_OUTPUT,
        "predict the result of a call from the function's description",
        *("test_generation", TEST_OUTPUT_PROBLEMS),
        "the last line that begins with `assert`, else the first block of code",
    ),
)
