"""The predictions agent, which submits samples from a file in human-eval's format, JSON Lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.benchmarks.data.local import read_rows
from harness.benchmarks.data.rows import Row
from harness.core.errors import UsageError, unknown_task
from harness.core.types import TEXT_FIELDS, Submission, Task
from harness.environments import environment_spec
from harness.runs.agents.agent import AgentError, AgentSettings, AttemptContext


class Predictions:
    """Submits the samples of a file. Each line has a `task_id` and exactly one of TEXT_FIELDS.

    A task may have several samples. A task without a sample gets one attempt, which ends as `agent_error`,
    because every selected task is in the denominator. Raises DataError, which names the file and the line,
    for an invalid line or an unknown task id.
    """

    reads = frozenset({"samples", "extract"})
    waits = False

    def __init__(self, settings: AgentSettings) -> None:
        if settings.samples is None:
            raise UsageError("agent 'predictions' needs samples", hint="add --samples FILE.jsonl")
        if any(environment_spec(task.environment).runs_task_images for task in settings.tasks):
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


def _read(path: Path) -> dict[int, tuple[Row, str]]:
    samples = {}
    for number, row in enumerate(read_rows(path)[0], start=1):
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
