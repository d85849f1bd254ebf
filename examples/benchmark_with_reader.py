"""Convert a temperature: a benchmark that reads a dataset in its own way.

Run it with `harness run -b examples/benchmark_with_reader.py`. Put the same file into `harness/benchmarks/`,
or into an installed package that names it under the entry point group `harness.benchmarks`, and
`-b temperatures` runs it.
"""

from __future__ import annotations

from pathlib import Path

from harness.benchmarks import Definition
from harness.benchmarks.data.rows import Row
from harness.core.types import Reference, Submission, Task
from harness.environments.text.short_answers import AnswerRule, PlainAnswer

NAME = "temperatures"


def read(row: Row) -> tuple[Task, Reference]:
    """Return the task and the reference of a row. Raises DataError, with file and line, for a broken row."""
    celsius = row.integer("celsius")
    fahrenheit = str(celsius * 9 // 5 + 32)
    task = Task(
        id=f"{NAME}/{row.place}",
        benchmark=NAME,
        environment="text",
        prompt=f"What is {celsius} degrees Celsius in Fahrenheit? Answer with the number only.",
        category="frost" if celsius < 0 else "mild",
    )
    # The type of the target chooses the grader.
    target = PlainAnswer(AnswerRule.NUMBER, (fahrenheit,))
    return task, Reference(task.id, solution=fahrenheit, target=target, expected_output=fahrenheit)


def submit(task: Task, field: str, text: str) -> Submission:
    """Return the submission of a text. `field` is `reply` for a model's reply, else `answer`."""
    return Submission(text.strip(), agent_output=text)


BENCHMARKS = (
    Definition(
        name=NAME,
        description="convert a temperature",
        environments=("text",),
        tasks=5,
        licence="CC0",
        data=str(Path(__file__).with_name("temperatures.jsonl")),
        hub=None,
        bundled=None,
        read=read,
        submit=submit,
    ),
)
