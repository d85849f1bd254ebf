"""AgentBench's records as tasks and references, and how the oracle plays them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.benchmarks.agentbench.categories import AgentBenchOptions, categories, category_of
from harness.benchmarks.agentbench.scores import scores
from harness.benchmarks.benchmark import Benchmark, TaskResult
from harness.benchmarks.category import Outcome, name_record
from harness.benchmarks.data.rows import Row, describe
from harness.core.scoring.answers import drop_thoughts
from harness.core.types import Reference, Submission, Task
from harness.environments.base import Environment
from harness.environments.text.short_answers import ExpectedText

_TEXT_END = "When you know the answer, call `submit` with it, as short as the task allows."
# The file name of the split that the paper calls std. In `os` it has a folder for each numbered group.
_SPLITS = {"standard": "std"}
# The number of field names in an error about a row that is not a record.
_SHOWN_FIELDS = 8


def read(row: Row, options: AgentBenchOptions | None = None) -> tuple[Task, Reference]:
    """Return the task and the reference of a record. Raises DataError with the row's place."""
    category = next((each for each in categories().values() if each.owns(row)), None)
    if category is None:
        return _read_flat(row)
    options = options or AgentBenchOptions()
    given = options.of(category)
    task, reference = category.read(row, given)
    turns = category.turns.get("fc" if given.protocol == "own" else given.protocol, task.turns)
    return _label_split(replace(task, turns=turns, protocol=options.name_protocol(category))), reference


def _label_split(task: Task) -> Task:
    """Return the task with the name of upstream's split as a label, so that a run can select it."""
    parts = task.id.split("/")
    if len(parts) < 3 or parts[0] != task.category:
        return task
    name = parts[2] if parts[1] == "zh" else parts[1]
    if task.category == "os" and name.isdigit():
        name = "std"
    return replace(task, labels={**task.labels, "split": _SPLITS.get(name, name)})


def submit(task: Task, field: str, text: str) -> Submission:
    """Return the submission: the text is the answer. A reply loses its thoughts, and blanks around it.

    A text changes no environment.
    """
    return Submission(drop_thoughts(text).strip() if field == "reply" else text, agent_output=text)


async def play(task: Task, reference: Reference, environment: Environment) -> Submission:
    """Solve the task in its environment and return the submission. Raises SandboxError."""
    answer = reference.solution
    if not isinstance(reference.target, ExpectedText):
        answer = await categories()[task.environment].solve(environment, reference)
    await environment.submit(answer)
    return Submission(answer, agent_output=answer)


def scores_of(benchmark: Benchmark, results: Mapping[str, TaskResult]) -> Mapping[str, Any]:
    """Return AgentBench's scores over the tasks that ran."""
    categories_of = {task.id: task.category or "" for task in benchmark.tasks}
    outcomes = (
        Outcome(
            categories_of[task_id],
            result,
            _find_kind(categories_of[task_id], benchmark.rows[task_id]),
            is_flat=isinstance(benchmark.references[task_id].target, ExpectedText),
        )
        for task_id, result in results.items()
    )
    return scores(outcomes, is_published=any(task.protocol is not None for task in benchmark.tasks))


def _find_kind(category: str, values: Mapping[str, Any]) -> str | None:
    return categories()[category].find_kind(values) if category in categories() else None


def _read_flat(row: Row) -> tuple[Task, Reference]:
    """Return the task of a flat record of any category, which is graded by a text in the answer."""
    if row.values.get("environment") is None and row.values.get("expected_output") is None:
        raise row.error(
            f"is not a record of AgentBench: its fields are {_list_fields(row)}",
            hint="a record has evaluation (os), table (db), s_expression (kg), story_keys (lateral), "
            "or environment and expected_output (flat); "
            "web is read by the names of its files, and house from lists of games",
        )
    environment = row.text("environment")
    category = categories().get(category_of(environment) or "")
    if category is None:
        raise row.error(f"needs one of {', '.join(categories())}, found '{environment}'", field="environment")
    instruction = row.optional_text("instruction") or row.optional_text("description")
    if not instruction or not instruction.strip():
        raise row.error("missing, needs a string", field="instruction")
    expected = row.values.get("expected_output")
    if not isinstance(expected, str | int | float | None):
        raise row.error(f"needs a string, found {describe(expected)}", field="expected_output")
    text = expected if isinstance(expected, str) else "" if expected is None else json.dumps(expected)
    task_id, name = name_record(row, category.name), category.name
    prompt = category.flat_prompt.format(end=_TEXT_END, task=instruction.strip())
    task = Task(task_id, "agentbench", name, prompt, category=name, setup=category.flat_setup)
    return task, Reference(task_id, text, ExpectedText(text), text)


def _list_fields(row: Row) -> str:
    names = sorted(row.values)
    more = f" and {len(names) - _SHOWN_FIELDS:,} more" if len(names) > _SHOWN_FIELDS else ""
    return f"{', '.join(names[:_SHOWN_FIELDS]) or 'none'}{more}"
