"""HumanEval (Chen et al. 2021, arXiv 2107.03374): complete a function from its signature and docstring."""

from __future__ import annotations

import ast

from harness.benchmarks.benchmark import Definition
from harness.benchmarks.data.rows import Row
from harness.benchmarks.data.splits import HubDataset
from harness.benchmarks.programs import SubmitProgram, parse
from harness.core.types import ProgramTests, Reference, Task

# A completion continues the prompt, as in human-eval.
submit = SubmitProgram(continues_prompt=True)
# The prompt is code without a request.
INSTRUCTION = "Complete the function. Reply with the whole function and its imports in one ```python block."


def read(row: Row) -> tuple[Task, Reference[ProgramTests]]:
    """Return the task and reference of a row: task_id, prompt, entry_point, canonical_solution, test.

    The tests call `check(candidate)`, as `human_eval/execution.py` of openai/human-eval does. Raises
    DataError, with file and line, for a broken row.
    """
    task_id, prompt, entry_point = row.text("task_id"), row.text("prompt"), row.text("entry_point")
    solution, test = row.text("canonical_solution"), row.text("test")
    if not entry_point.isidentifier():
        raise row.error(f"is not a Python name: {entry_point!r}", field="entry_point")
    helpers = as_program(row, prompt)
    _require_check(row, test)
    tests = ProgramTests(
        # The tests of tasks 32, 38 and 50 use helpers of the prompt. They must get the prompt's own
        # helpers, because the candidate may change its copies.
        setup=helpers,
        preamble=helpers,
        statements=(f"{test}\n\ncheck(candidate)\n",),
        exports={"candidate": entry_point, entry_point: entry_point},
    )
    task = Task(
        id=task_id,
        benchmark="humaneval",
        environment="python",
        prompt=prompt,
        entry_point=entry_point,
        instruction=INSTRUCTION,
    )
    return task, Reference(task_id, prompt + solution, tests, expected_output=solution)


def as_program(row: Row, prompt: str) -> str:
    """Return the prompt as a program, whose last function is a stub. Raises DataError."""
    for program in (prompt, f"{prompt}\n    pass\n"):
        try:
            parse(program)
        except (SyntaxError, ValueError):
            continue
        return program
    raise row.error("is not the start of a Python program", field="prompt")


def _require_check(row: Row, test: str) -> None:
    try:
        body = parse(test).body
    except (SyntaxError, ValueError) as error:
        raise row.error(f"is not Python: {error}", field="test") from error
    if not any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in body):
        raise row.error("defines no function 'check'", field="test")


BENCHMARKS = (
    Definition(
        name="humaneval",
        description="complete a Python function from its docstring",
        environments=("python",),
        tasks=164,
        licence="MIT",
        missing=dict.fromkeys(("train", "dev"), "it was published with test only"),
        formats=("HumanEval.jsonl.gz", "its rows as JSONL or JSON"),
        hub=HubDataset("openai/openai_humaneval", "openai_humaneval", "test"),
        bundled="humaneval.jsonl",
        read=read,
        submit=submit,
    ),
)
