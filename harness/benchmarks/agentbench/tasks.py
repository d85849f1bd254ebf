"""The categories of AgentBench. Each `category.py` of an environment declares one. No list names them."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import create_model, model_validator

from harness import environments
from harness.benchmarks.benchmark import Benchmark, TaskResult
from harness.benchmarks.category import (
    Category,
    CategoryOptions,
    NoOptions,
    Outcome,
    Protocol,
    name_record,
    success_rate,
)
from harness.benchmarks.data.rows import Row, describe
from harness.benchmarks.options import Options
from harness.core.errors import UsageError
from harness.core.scoring.answers import drop_thoughts
from harness.core.types import Reference, Status, Submission, Task, Verdict
from harness.environments.base import Environment
from harness.environments.text.short_answers import ExpectedText
from harness.environments.text_protocol import FUNCTION_CALLS, LENIENT

WEB_BROWSING = "mind2web"
"""Upstream's eighth category, which is browsing recorded web pages."""
_WEB_BROWSING_NAMES = (WEB_BROWSING, "mind 2 web", "m2w", "wb", "web browsing")
_RIGHT_ANSWERS = "share of right answers"
COMPLETED = "completed"
CONTEXT_LIMIT = "context limit"
VALIDATION_FAILED = "validation failed"
INVALID_ACTION = "invalid action"
TASK_LIMIT_REACHED = "task limit reached"
TASK_ERROR = "task error"
UNKNOWN = "unknown"
_CONTEXT_LIMITS = frozenset({"context", "tokens"})
_PLAIN: Mapping[Status, str] = {
    Status.PASSED: COMPLETED,
    Status.FAILED: COMPLETED,
    Status.LIMIT_REACHED: TASK_LIMIT_REACHED,
    Status.AGENT_ERROR: VALIDATION_FAILED,
    Status.CANCELLED: UNKNOWN,
}
_TEXT_END = "When you know the answer, call `submit` with it, as short as the task allows."
# The file name of the split that the paper calls std. In `os` it has a folder for each numbered group.
_SPLITS = {"standard": "std"}
# The number of field names in an error about a row that is not a record.
_SHOWN_FIELDS = 8


@cache
def categories() -> Mapping[str, Category]:
    """Return the categories by name, in the order of reports."""
    names = {
        path.parent.name for folder in environments.__path__ for path in Path(folder).glob("*/category.py")
    }
    found: list[Category] = [
        importlib.import_module(f"{environments.__name__}.{name}.category").CATEGORY for name in names
    ]
    return {category.name: category for category in sorted(found, key=lambda each: each.place)}


@cache
def folders() -> Mapping[str, str]:
    """Return the name of the category of each folder in upstream's `data/`."""
    return {folder: name for name, category in categories().items() for folder in category.folders}


def category_of(environment: str) -> str | None:
    """Return the category for an environment's name as people write it, or None for an unknown name.

    Case, blanks, dashes and underscores do not matter.
    """
    return _names().get(re.sub(r"[\s_-]+", "", environment).lower())


@cache
def _names() -> Mapping[str, str]:
    known = {name: (name, *category.aliases) for name, category in categories().items()}
    known[WEB_BROWSING] = _WEB_BROWSING_NAMES
    return {alias.replace(" ", ""): name for name, aliases in known.items() for alias in aliases}


class FunctionCallOptions(Options):
    """The options of the protocol `fc`."""

    # Whether arguments are taken by their places and not by their names, as upstream does.
    lenient: bool = False


class AgentBenchOptions(Options):
    """The options that all categories share. `options_model` adds a field for each category with its own."""

    # The version of AgentBench whose tools, texts and limits on turns apply.
    protocol: Protocol = "own"
    fc: FunctionCallOptions = FunctionCallOptions()

    @model_validator(mode="after")
    def _require_protocol(self) -> AgentBenchOptions:
        if self.fc.lenient and self.protocol != "fc":
            raise UsageError("fc.lenient needs the protocol fc", hint="add --option protocol=fc")
        return self

    def name_protocol(self, category: Category) -> str | None:
        """Return the published protocol of a category's tasks, None for the environment's own."""
        if self.protocol != "fc" or "fc" not in category.turns:
            return None
        return LENIENT if self.fc.lenient else FUNCTION_CALLS

    def of(self, category: Category) -> CategoryOptions:
        """Return the options of a run for one category."""
        own = getattr(self, category.name, None)
        return CategoryOptions(self.protocol, category.options() if own is None else own)


@cache
def options_model() -> type[AgentBenchOptions]:
    """Return the model of all options. A category's own options are under the category's name."""
    fields: dict[str, Any] = {
        name: (category.options, category.options())
        for name, category in sorted(categories().items())
        if category.options is not NoOptions
    }
    return create_model("AgentBenchOptions", __base__=AgentBenchOptions, **fields)


def scores(outcomes: Iterable[Outcome], *, is_published: bool = False) -> dict[str, Any]:
    """Return the scores as `summary.json` has them, all from 0 to 1 but the weighted one.

    Each of `categories` has `score`, `measure` and `tasks`, and `db` also the accuracy of each kind.
    `overall` has the `score`, which is the mean of 100 score / weight over the categories that ran, as in the
    paper, whose eighth category, web browsing, is not among ours. Its `missing` names the categories that did
    not run, and its `method` is `weighted` if there is none, else `partial`. A score is None if nothing of it
    ran. AgentBench's function calls (`is_published`) have plain success rates for `db` and no score over all.
    Flat records have no world to measure, so their score is the share of right answers.
    """
    by_category: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_category.setdefault(outcome.category, []).append(outcome)
    found = {name: _any_category(name, by_category[name]) for name in categories() if name in by_category}
    if is_published:
        plain = {
            name: {**each, **_plain(by_category[name])} for name, each in found.items() if "kinds" in each
        }
        return {"categories": {**found, **plain}, "overall": None}
    return {"categories": found, "overall": _overall(found)}


def _any_category(name: str, outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the score of a category whose tasks may be flat records, upstream's tasks, or both."""
    flat = [outcome for outcome in outcomes if outcome.is_flat]
    acted = [outcome for outcome in outcomes if not outcome.is_flat]
    if not acted:
        return {"score": success_rate(flat), "measure": _RIGHT_ANSWERS, "tasks": len(flat)}
    found = _category(name, acted)
    if not flat:
        return found
    total = len(flat) + len(acted)
    score = None
    if found["score"] is not None:
        score = (found["score"] * len(acted) + success_rate(flat) * len(flat)) / total
    return found | {
        "score": score,
        "measure": f"{found['measure']}, and {_RIGHT_ANSWERS} for {len(flat):,} flat records",
        "tasks": total,
    }


def _category(name: str, outcomes: list[Outcome]) -> dict[str, Any]:
    category = categories()[name]
    found = category.score(outcomes)
    return {"score": found["score"], "measure": category.measure, "tasks": len(outcomes), **found}


def _plain(outcomes: list[Outcome]) -> dict[str, Any]:
    return {"score": success_rate(outcomes), "measure": "success rate"}


def _overall(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    known = {name: each["score"] for name, each in found.items() if each["score"] is not None}
    missing = [name for name in categories() if name not in known]
    weighted = [100 * score / categories()[name].weight for name, score in known.items()]
    return {
        "score": sum(weighted) / len(weighted) if weighted else None,
        "method": "partial" if missing else "weighted",
        "missing": missing,
    }


def status_metrics(verdict: Verdict) -> dict[str, str]:
    """Return the metrics that AgentBench adds to every verdict."""
    return {"agentbench_status": upstream_status(verdict.status, verdict.recorded_metrics)}


def upstream_status(status: Status, metrics: Mapping[str, Any]) -> str:
    """Return upstream's status of an attempt.

    `metrics["limit"]` distinguishes a limit of the model's context from one of the task.
    `metrics["fault"]` is `action` for an agent that called an unknown tool, as opposed to one whose reply
    could not be read. A timeout of the agent is a limit of the task. Any other end without a verdict is an
    error of the task.
    """
    if status is Status.LIMIT_REACHED and metrics.get("limit") in _CONTEXT_LIMITS:
        return CONTEXT_LIMIT
    if status is Status.AGENT_ERROR and metrics.get("fault") == "action":
        return INVALID_ACTION
    if status is Status.TIMEOUT and metrics.get("phase") == "agent":
        return TASK_LIMIT_REACHED
    return _PLAIN.get(status, TASK_ERROR)


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
    known, categories_of = categories(), {task.id: task.category or "" for task in benchmark.tasks}
    outcomes = (
        Outcome(
            name := categories_of[task_id],
            result,
            None if (found := known.get(name)) is None else found.find_kind(benchmark.rows[task_id]),
            is_flat=isinstance(benchmark.references[task_id].target, ExpectedText),
        )
        for task_id, result in results.items()
    )
    return scores(outcomes, is_published=any(task.protocol is not None for task in benchmark.tasks))


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
